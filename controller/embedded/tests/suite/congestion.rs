//! Workers under congestion control, at a switch whose ports are slow.

use netfold::{Communicator, ReduceOp, Stats};
use netfold_control::CongestionAlgorithm;
use netfold_embedded::EmbeddedSwitch;
use netfold_switch::SwitchCounters;
use netfold_switch::queue::{ClassConfig, Ecn, PortConfig, QueueConfig, QueueCounters, Rate};
use netfold_testkit::job::{CheckedSum, on_all_ranks};

const WORKERS: u16 = 2;
const SLOTS: u32 = 256;
const ELEMENTS: usize = 600_000;

/// A port of 40 Mbit/s, ten times slower than any machine that runs this, that marks from ten full packets.
fn slow() -> QueueConfig {
    let full = 1440;
    let ecn = Some(Ecn { k_min: 10 * full, k_max: 10 * full, p_max: 1.0 });
    let port = PortConfig {
        rate: Some(Rate { bits_per_second: 40_000_000, burst_bytes: 4 * full }),
        queues: vec![ClassConfig { ecn, ..ClassConfig::default() }],
        ..PortConfig::default()
    };
    QueueConfig { port, ..QueueConfig::default() }
}

/// All-reduces tensors at a switch with these queues, checks every sum, and returns the counters of rank 0 and the switch.
fn run(congestion: CongestionAlgorithm, queues: QueueConfig) -> (Stats, SwitchCounters) {
    let switch =
        EmbeddedSwitch::builder().slots(SLOTS).congestion(congestion).queues(queues).start().unwrap();
    let address = switch.control();
    let worker = move |rank: u16| {
        let comm = Communicator::builder()
            .job("slow")
            .rank(rank)
            .world_size(WORKERS)
            .slots(SLOTS)
            .switch(address)
            .unwrap()
            .join_timeout(crate::TIMEOUT)
            .connect()
            .unwrap();
        for operation in 1..=2 {
            let job = CheckedSum { world: WORKERS, elements: ELEMENTS, operation };
            let mut tensor = job.contribution(rank);
            comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
            job.verify(rank, &tensor);
        }
        let stats = comm.stats();
        comm.leave().unwrap();
        stats
    };
    let stats = on_all_ranks(WORKERS, worker).remove(0);
    (stats, switch.stop().unwrap())
}

fn total(counted: &SwitchCounters) -> QueueCounters {
    counted.queues.as_ref().expect("the switch has queues").total()
}

#[test]
fn marks_of_a_slow_port_shrink_windows_and_change_no_result() {
    let (stats, counted) = run(CongestionAlgorithm::Dctcp, slow());
    let dctcp = total(&counted);
    assert!(dctcp.marked > 0 && stats.worker.congested > 0, "{dctcp:?}\n{stats:?}");
    assert!(stats.worker.window < SLOTS / 2, "{stats:?}");
    let (stats, counted) = run(CongestionAlgorithm::Fixed, slow());
    let fixed = total(&counted);
    assert_eq!(stats.worker.window, SLOTS, "the fixed window ignores marks");
    assert!(fixed.marked > dctcp.marked, "{} of {}", fixed.marked, dctcp.marked);
    // Each port may hold a whole window; congestion control allows that for the first window, and then less.
    assert!(fixed.held_bytes_max > 100 * 1440, "{fixed:?}");
}
