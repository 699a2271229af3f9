//! Simulations in which contributions may be left out of sums: queues trim droppable packets, at one switch and in
//! trees, under everything else that the other simulations do. `SIM_SEED=n` replays one; `SIM_SEEDS=n` changes how many are run.

use netfold_simulate::sim::{self, Lockstep, PipelineSwitch, ReferenceSwitch, Report, Scenario, SimSwitch};

const SEEDS: u64 = 450;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// Even seeds at one switch, odd ones in trees.
fn play(seed: u64) -> Report {
    let scenario =
        if seed.is_multiple_of(2) { Scenario::from_seed(seed) } else { Scenario::tree_from_seed(seed) };
    let scenario = scenario.tolerant();
    let mut switches: Vec<_> = scenario
        .jobs()
        .iter()
        .map(|jobs| {
            let pipeline = PipelineSwitch::new(scenario.lane_words, jobs).expect("a generated size");
            let reference = ReferenceSwitch::new(pipeline.slots(), scenario.lane_words, jobs);
            Lockstep::new(reference, pipeline)
        })
        .collect();
    let mut switches: Vec<&mut dyn SimSwitch> =
        switches.iter_mut().map(|switch| switch as &mut dyn SimSwitch).collect();
    sim::run_tree(scenario, &mut switches)
}

#[test]
fn every_invariant_holds_where_contributions_may_be_left_out() {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:#?}", play(seed));
        return;
    }
    let replay = "SIM_SEED={} cargo test -p netfold-simulate --test suite bounded:: -- --nocapture";
    let reports = sim::play_all(number("SIM_SEEDS").unwrap_or(SEEDS), replay, play);
    let total = |field: fn(&Report) -> u64| reports.iter().map(field).sum::<u64>();
    let [results, partial, left_out] = [total(|r| r.results), total(|r| r.partial), total(|r| r.left_out)];
    let closed = total(|r| r.closed);
    println!(
        "{} simulations: {results} results, of which {partial} lack contributions, {left_out} that of the rank, and {closed} of closed slots; \
         {} ranks gave up",
        reports.len(),
        total(|r| r.aborted)
    );
    assert!(partial > results / 100 && left_out > 0 && left_out < partial, "trimming happens");
    assert!(closed > results / 1_000 && closed < partial, "and slots are closed");
}
