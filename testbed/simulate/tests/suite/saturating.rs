//! Switches whose sums saturate, under simulation: a chunk that left the range is retransmitted by all ranks or by none, under
//! the slot's next chunk number, and what is delivered is right. `SIM_SEED=n` replays one seed; `SIM_SEEDS=n` changes how
//! many are run.

use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};

use netfold_control::Numerics;
use netfold_simulate::sim::{
    self, JobSetup, Lockstep, PipelineSwitch, ReferenceSwitch, Report, Scenario, SimSwitch,
};
use netfold_wire::{Flags, Kind, Packet};

const SEEDS: u64 = 120;

/// One in four is a tree.
fn scenario(seed: u64) -> Scenario {
    let generated =
        if seed.is_multiple_of(4) { Scenario::tree_from_seed(seed) } else { Scenario::from_seed(seed) };
    generated.saturating()
}

fn switch(lane_words: u32, jobs: &[JobSetup; 2]) -> Lockstep<ReferenceSwitch, PipelineSwitch> {
    let pipeline = PipelineSwitch::numeric(lane_words, Numerics::Saturating, jobs).expect("a generated size");
    Lockstep::new(ReferenceSwitch::new(pipeline.slots(), lane_words, jobs).saturating(), pipeline)
}

fn play(seed: u64) -> Report {
    let scenario = scenario(seed);
    let jobs = scenario.jobs();
    let mut switches: Vec<_> = jobs.iter().map(|jobs| switch(scenario.lane_words, jobs)).collect();
    let mut switches: Vec<&mut dyn SimSwitch> = switches.iter_mut().map(|switch| switch as _).collect();
    sim::run_tree(scenario, &mut switches)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn every_invariant_holds_where_sums_saturate() {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:#?}", play(seed));
        return;
    }
    let replay = "SIM_SEED={} cargo test -p netfold-simulate --test suite saturating:: every -- --nocapture";
    let reports = sim::play_all(number("SIM_SEEDS").unwrap_or(SEEDS), replay, play);
    let total = |field: fn(&Report) -> u64| reports.iter().map(field).sum::<u64>();
    let saturated = total(|r| r.saturated);
    println!(
        "{} simulations: {} packets sent, {} retransmitted, {} results, {saturated} of them saturated",
        reports.len(),
        total(|r| r.sent),
        total(|r| r.retransmitted),
        total(|r| r.results),
    );
    // The seeds do meet what they are there for: saturated chunks, in trees too, and resends.
    assert!(total(|r| r.retransmitted) > 0 && saturated > 0 && saturated < total(|r| r.results) / 2);
    assert!(reports.iter().step_by(4).any(|report| report.saturated > 0));
}

/// A right switch whose results are tampered with on their way out: those of port `port`, or all.
struct Tampering {
    switch: ReferenceSwitch,
    port: Option<u16>,
    flags: fn(Flags) -> Flags,
}

impl SimSwitch for Tampering {
    fn process(&mut self, port: u16, datagram: &[u8], out: &mut Vec<(u16, Vec<u8>)>) {
        let start = out.len();
        self.switch.process(port, datagram, out);
        for (to, bytes) in &mut out[start..] {
            let mut packet = Packet::new_unchecked(&mut bytes[..]);
            if packet.kind() == Kind::Result as u8 && self.port.is_none_or(|port| port == *to) {
                packet.set_flags((self.flags)(packet.flags()));
            }
        }
    }

    fn digest(&self, slots: Range<u32>) -> u64 {
        self.switch.digest(slots)
    }

    fn slots(&self) -> u32 {
        self.switch.slots()
    }
}

fn verdict(port: Option<u16>, flags: fn(Flags) -> Flags) -> Option<String> {
    (1..60_u64).filter(|seed| !seed.is_multiple_of(4)).find_map(|seed| {
        let scenario = scenario(seed);
        let [jobs] = &scenario.jobs()[..] else { panic!("one switch") };
        let switch = ReferenceSwitch::new(1024, scenario.lane_words, jobs).saturating();
        let mut tampering = Tampering { switch, port, flags };
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| sim::run(scenario, &mut tampering)));
        let message = outcome.err()?;
        Some(message.downcast_ref::<String>().cloned().unwrap_or_default())
    })
}

#[test]
fn nothing_is_found_where_flags_are_left_alone() {
    assert_eq!(verdict(None, |flags| flags), None);
}

/// What workers would do that unpack saturated results.
#[test]
fn a_saturated_result_that_is_delivered_is_found() {
    let message = verdict(None, |flags| flags.without(Flags::SATURATED)).expect("the fault is found");
    assert!(message.contains("element"), "found for another reason: {message}");
}

#[test]
fn a_flag_that_one_rank_alone_does_not_see_is_found() {
    assert!(verdict(Some(0), |flags| flags.without(Flags::SATURATED)).is_some());
}

#[test]
fn a_flag_that_one_rank_alone_sees_is_found() {
    assert!(verdict(Some(0), |flags| flags.with(Flags::SATURATED)).is_some());
}

/// A flag without need costs packets and changes no result.
#[test]
fn retransmitting_all_is_harmless() {
    assert_eq!(verdict(None, |flags| flags.with(Flags::SATURATED)), None);
}
