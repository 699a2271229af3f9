//! Trees of switches under simulation: real workers, and at every switch the reference and the generated pipeline in
//! lockstep. `SIM_SEED=n` replays one seed; `SIM_SEEDS=n` changes how many are run.

use std::time::Instant;

use netfold_simulate::sim::{
    self, JobSetup, Lockstep, PipelineSwitch, ReferenceSwitch, Report, Scenario, SimSwitch,
};

const SEEDS: u64 = 300;

fn switch(lane_words: u32, jobs: &[JobSetup; 2]) -> Lockstep<ReferenceSwitch, PipelineSwitch> {
    let pipeline = PipelineSwitch::new(lane_words, jobs).expect("a generated size");
    Lockstep::new(ReferenceSwitch::new(pipeline.slots(), lane_words, jobs), pipeline)
}

fn play(seed: u64) -> Report {
    let scenario = Scenario::tree_from_seed(seed);
    let jobs = scenario.jobs();
    let mut switches: Vec<_> = jobs.iter().map(|jobs| switch(scenario.lane_words, jobs)).collect();
    let mut switches: Vec<&mut dyn SimSwitch> = switches.iter_mut().map(|switch| switch as _).collect();
    sim::run_tree(scenario, &mut switches)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn every_invariant_holds_in_trees() {
    if let Some(seed) = number("SIM_SEED") {
        let scenario = Scenario::tree_from_seed(seed);
        let faults = (scenario.up, scenario.down, scenario.trunk);
        println!("{:#?}", (&scenario.shape, &scenario.job, faults, scenario.crash, scenario.outage));
        println!("{:#?}", play(seed));
        return;
    }
    let start = Instant::now();
    let replay = "SIM_SEED={} cargo test -p netfold-simulate --test suite trees:: every -- --nocapture";
    let reports = sim::play_all(number("SIM_SEEDS").unwrap_or(SEEDS), replay, play);
    let total = |field: fn(&Report) -> u64| reports.iter().map(field).sum::<u64>();
    println!(
        "{} simulations of trees in {:.1} s: {} events, {} packets sent by ranks, {} retransmitted, {} results, {} forged, \
         {} ranks gave up",
        reports.len(),
        start.elapsed().as_secs_f64(),
        total(|r| r.events),
        total(|r| r.sent),
        total(|r| r.retransmitted),
        total(|r| r.results),
        total(|r| r.forged),
        total(|r| r.aborted),
    );
    println!("{} chunks predicted right, {} wrong", total(|r| r.predicted), total(|r| r.mispredicted));
    // The seeds do meet what they are there for.
    assert!(total(|r| r.predicted) > 0 && total(|r| r.mispredicted) > 0);
    assert!(total(|r| r.retransmitted) > 0 && total(|r| r.forged) > 0 && total(|r| r.aborted) > 0);
}

#[test]
fn the_interpreter_keeps_step_in_trees() {
    for seed in 0..15 {
        let scenario = Scenario::tree_from_seed(seed);
        let lane_words = scenario.lane_words;
        let one = |jobs: &[JobSetup; 2]| {
            let generated = PipelineSwitch::new(lane_words, jobs).expect("a generated size");
            Lockstep::new(PipelineSwitch::interpreted(lane_words, jobs), generated)
        };
        let mut switches: Vec<_> = scenario.jobs().iter().map(one).collect();
        let mut switches: Vec<&mut dyn SimSwitch> = switches.iter_mut().map(|switch| switch as _).collect();
        sim::run_tree(scenario, &mut switches);
    }
}
