//! Pipelines that clients push: nearly that of the program, and other bytes. What is refused leaves the pipeline as it was, and what is
//! accepted is what is read back.

use std::sync::OnceLock;

use netfold_p4::allreduce;
use netfold_p4::ir::Program;
use netfold_p4::profile::{Encapsulation, Profile};
use netfold_p4_runtime::config::P4Info;
use netfold_p4_runtime::v1::{self, ForwardingPipelineConfig, PipelineAction};
use netfold_switch_p4runtime::fuzzing::Control;
use prost::Message;

use super::{DEVICE, Idle, LANE_WORDS, check, primary};
use crate::input::Input;

const STEPS_MAX: usize = 3;

/// Pipelines as right clients push them, and whether the switch takes them. That programs which are nearly right are refused is for the
/// target `documents`: to read a program takes long.
fn pipelines(switch: &Idle) -> &'static [(ForwardingPipelineConfig, bool)] {
    static PIPELINES: OnceLock<Vec<(ForwardingPipelineConfig, bool)>> = OnceLock::new();
    PIPELINES.get_or_init(|| {
        let program = |profile: Profile| allreduce::program(&profile).expect("a right profile");
        let fitting = Profile { slots: 1, jobs: 1, workers: 1, hierarchy: false, ..Profile::software(8) };
        let framed = Profile { encapsulation: Encapsulation::Ethernet, ..fitting.clone() };
        let long = Profile { lane_words: 512, ..fitting.clone() };
        let programs = [
            (switch.program.clone(), true),
            (program(fitting), true),
            (program(framed), false),
            (program(long), false),
        ];
        let config = |program: &Program| ForwardingPipelineConfig {
            p4info: netfold_p4_runtime::p4info(program).ok(),
            p4_device_config: program.to_json().into_bytes(),
            cookie: None,
        };
        programs.iter().map(|(program, fits)| (config(program), *fits)).collect()
    })
}

/// A pipeline, and whether the switch takes it, if that is known.
fn pushed(input: &mut Input<'_>, switch: &Idle) -> (Option<ForwardingPipelineConfig>, Option<bool>) {
    let pipelines = pipelines(switch);
    let (mut config, fits) = pipelines[input.below(pipelines.len())].clone();
    config.cookie = (input.below(2) == 0).then(|| v1::Cookie { cookie: input.byte().into() });
    let mut fits = Some(fits);
    match input.below(8) {
        0 => return (ForwardingPipelineConfig::decode(input.some(200)).ok(), None),
        1 => return (None, Some(false)),
        2 => (config.p4info, fits) = (None, Some(false)),
        3 => (config.p4_device_config, fits) = (input.some(64).to_vec(), Some(false)),
        4 => {
            // The description of another program, or nearly that of this one.
            let other = &pipelines[input.below(pipelines.len())].0.p4info;
            let mut info = other.as_ref().map(Message::encode_to_vec).unwrap_or_default();
            for _ in 0..input.below(3) {
                let at = input.word() as usize % info.len();
                info[at] = input.byte();
            }
            config.p4info = P4Info::decode(&info[..]).ok();
            fits = None;
        }
        _ => {}
    }
    (Some(config), fits)
}

fn running(control: &Control) -> Option<ForwardingPipelineConfig> {
    let request = v1::GetForwardingPipelineConfigRequest { device_id: DEVICE, ..Default::default() };
    control.pipeline(request).expect("the device is there").config
}

pub(super) fn run(input: &mut Input<'_>, switch: &Idle) {
    let control = switch.controlled(LANE_WORDS[0]);
    let mut saved: Option<ForwardingPipelineConfig> = None;
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let action = PipelineAction::try_from(input.below(7) as i32);
        let action = action.unwrap_or(PipelineAction::VerifyAndCommit);
        let (config, fits) = match action {
            PipelineAction::Commit => (None, Some(saved.is_some())),
            PipelineAction::Unspecified => (None, Some(false)),
            PipelineAction::ReconcileAndCommit => (pushed(input, switch).0, None),
            _ => pushed(input, switch),
        };
        let before = running(&control);
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: if input.below(16) == 0 { None } else { primary() },
            action: action as i32,
            config: config.clone(),
            ..Default::default()
        };
        let admitted = request.election_id.is_some();
        let done = control.set_pipeline(request);
        let fits = if admitted { fits } else { Some(false) };
        assert!(fits.is_none_or(|fits| fits == done.is_ok()), "{action:?}: {done:?}");
        match done {
            Ok(()) => {
                let (now, after) = (running(&control), config.or_else(|| saved.clone()));
                match action {
                    PipelineAction::Verify => assert_eq!(now, before),
                    PipelineAction::VerifyAndSave => {
                        assert_eq!(now, before);
                        saved = after;
                    }
                    _ => {
                        assert_eq!(now, after, "what runs is what was pushed");
                        saved = None;
                        is_matched(after.as_ref().expect("a pipeline"));
                    }
                }
            }
            Err(refused) => {
                check(&refused);
                assert_eq!(running(&control), before, "what is refused changes nothing");
                if admitted && action == PipelineAction::Commit {
                    saved = None;
                }
            }
        }
    }
}

/// The description that a pipeline was accepted with has the ids of its program.
fn is_matched(config: &ForwardingPipelineConfig) {
    let program = Program::from_json(&config.p4_device_config).expect("it was accepted");
    let own = netfold_p4_runtime::p4info(&program).expect("it was accepted");
    let theirs = config.p4info.as_ref().expect("it was accepted");
    let ids = |info: &P4Info| {
        let ids = info.tables.iter().map(|table| &table.preamble);
        let ids = ids.chain(info.actions.iter().map(|action| &action.preamble));
        let ids = ids.chain(info.counters.iter().map(|counter| &counter.preamble));
        let ids = ids.chain(info.registers.iter().map(|register| &register.preamble));
        let mut ids: Vec<u32> = ids.map(|preamble| preamble.as_ref().map_or(0, |named| named.id)).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&own), ids(theirs));
}
