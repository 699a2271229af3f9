//! A thousand simulations, each from one seed: the real workers against the reference switch and the generated
//! pipeline in lockstep. `SIM_SEED=n` replays one and prints its scenario; `SIM_SEEDS=n` changes how many are run.

use std::time::Instant;

use netfold_simulate::sim::{self, Lockstep, PipelineSwitch, ReferenceSwitch, Report, Scenario, SimSwitch};

const SEEDS: u64 = 600;

const INTERPRETED_SEEDS: u64 = 40;

fn play(seed: u64) -> Report {
    let scenario = Scenario::from_seed(seed);
    let jobs = [scenario.job.clone(), scenario.other_job.clone()];
    let pipeline = PipelineSwitch::new(scenario.lane_words, &jobs).expect("a generated size");
    let reference = ReferenceSwitch::new(pipeline.slots(), scenario.lane_words, &jobs);
    sim::run(scenario, &mut Lockstep::new(reference, pipeline))
}

/// The interpreter beside them, over fewer seeds: it is slow.
#[test]
fn the_interpreter_keeps_step() {
    for seed in 0..INTERPRETED_SEEDS {
        let scenario = Scenario::from_seed(seed);
        let jobs = [scenario.job.clone(), scenario.other_job.clone()];
        let pipeline = PipelineSwitch::new(scenario.lane_words, &jobs).expect("a generated size");
        let interpreted = PipelineSwitch::interpreted(scenario.lane_words, &jobs);
        sim::run(scenario, &mut Lockstep::new(interpreted, pipeline));
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn every_invariant_holds_for_every_seed() {
    if let Some(seed) = number("SIM_SEED") {
        let scenario = Scenario::from_seed(seed);
        println!("{:#?}", (&scenario.job, scenario.up, scenario.down, scenario.crash, scenario.outage));
        println!("{:#?}", play(seed));
        return;
    }
    let start = Instant::now();
    let replay =
        "SIM_SEED={} cargo test -p netfold-simulate --test suite slot_machine:: every -- --nocapture";
    let reports = sim::play_all(number("SIM_SEEDS").unwrap_or(SEEDS), replay, play);
    let total = |field: fn(&Report) -> u64| reports.iter().map(field).sum::<u64>();
    println!(
        "{} simulations in {:.1} s: {} events, {} packets sent, {} retransmitted, {} results, {} ignored, {} forged, {} liveness probes, {} ranks gave up; \
         longest {:.1} s of virtual time",
        reports.len(),
        start.elapsed().as_secs_f64(),
        total(|r| r.events),
        total(|r| r.sent),
        total(|r| r.retransmitted),
        total(|r| r.results),
        total(|r| r.ignored),
        total(|r| r.forged),
        total(|r| r.probes_answered),
        total(|r| r.aborted),
        reports.iter().map(|r| r.elapsed.as_secs_f64()).fold(0.0, f64::max),
    );
    println!("{} chunks predicted right, {} wrong", total(|r| r.predicted), total(|r| r.mispredicted));
    // The seeds do meet what they are there for.
    assert!(total(|r| r.predicted) > 0 && total(|r| r.mispredicted) > 0);
    assert!(total(|r| r.retransmitted) > 0 && total(|r| r.forged) > 0 && total(|r| r.aborted) > 0);
    assert!(total(|r| r.probes_answered) > 0);
}
