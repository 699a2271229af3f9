//! bmv2, running the printed programs as the real compiler reads them, against the interpreter, packet by packet over
//! random sequences. `DIFF_SEED=n` replays one sequence of each profile; `DIFF_SEQUENCES=n` changes how many are played.

use std::sync::Arc;

use netfold_lab::bmv2::missing_tool;
use netfold_lab::differential::{Bmv2Rig, Sequence, Settings, Tally};
use netfold_p4::allreduce;
use netfold_p4::profile::{Profile, named};
use netfold_switch::InterpretedPipeline;
use netfold_wire::Reason;

/// Packets of one sequence.
const PACKETS: usize = 300;

/// Sequences of each profile.
const SEQUENCES: u64 = 3;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// Plays sequences of the profile.
fn play(name: &str, profile: &Profile, seeds: impl Iterator<Item = u64>) -> Tally {
    let program = Arc::new(allreduce::program(profile).expect("the profile is in range"));
    let mut rig = Bmv2Rig::start(profile).unwrap_or_else(|error| panic!("{name}: {error}: {error:?}"));
    let mut total = Tally::default();
    for seed in seeds {
        let sequence = Sequence::from_seed(seed, profile, &Settings::any_target(PACKETS));
        let oracle = InterpretedPipeline::new(Arc::clone(&program)).expect("the program is valid");
        total += rig.play(&sequence, Box::new(oracle)).unwrap_or_else(|error| {
            panic!(
                "{name}: {error}: {error:?}\n\
                 replay: DIFF_SEED={seed} cargo test -p netfold-lab --test suite differential_bmv2::"
            )
        });
    }
    println!("{name}: {total}");
    total
}

#[test]
fn bmv2_and_the_interpreter_agree() {
    if let Some(tool) = missing_tool() {
        println!("skipped: {tool} is not on PATH (see p4.org)");
        return;
    }
    let mut total = Tally::default();
    for (number_of, named) in named().into_iter().enumerate() {
        // What runs on bmv2 has outer headers or not, but always less than a page of lanes.
        let first = 1000 * number_of as u64;
        // With priorities packets of a port overtake each other, and here they are compared in order.
        let profile = Profile { priorities: 1, ..named.profile }.for_bmv2();
        match number("DIFF_SEED") {
            Some(seed) => total += play(named.name, &profile, std::iter::once(seed)),
            None => {
                let count = number("DIFF_SEQUENCES").unwrap_or(SEQUENCES);
                total += play(named.name, &profile, first..first + count);
            }
        }
    }
    println!("bmv2 against the interpreter: 0 differences; {total}");
    assert!(total.copies > 0 && total.reasons.iter().filter(|count| **count > 0).count() > 5, "{total}");
    if number("DIFF_SEED").is_none() {
        assert!(total.reasons[Reason::Path as usize] > 0, "{total}");
    }
}
