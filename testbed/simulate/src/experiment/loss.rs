//! One link that loses packets: sums by a switch, exact and tolerant, and a ring of hosts.

use std::time::Duration;

use netfold_control::CongestionAlgorithm;
use netfold_proto::Tolerance;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{Bars, ExperimentError, Groups, Plot, Report, Row, Table};
use crate::racks::{Racks, RacksConfig, Step};
use crate::ring;

const STEPS: u32 = 20;
const SEEDS: u64 = 5;
const ELEMENTS: usize = 200_000;
/// What ranks compute between two steps.
const PAUSE: Duration = Duration::from_millis(2);

/// Losses of the link, each way.
const LOSSES: [f64; 4] = [0.0, 0.0001, 0.001, 0.01];

#[derive(Clone, Copy)]
enum Way {
    /// By the switch: what may be missing, in percent, contributions of stragglers included.
    Switch(f64, CongestionAlgorithm),
    /// Among the hosts: bytes of a number.
    Ring(usize),
}

const WAYS: [(&str, Way); 7] = [
    ("switch, exact", Way::Switch(0.0, CongestionAlgorithm::Fixed)),
    ("switch, exact, dctcp", Way::Switch(0.0, CongestionAlgorithm::Dctcp)),
    ("switch, exact, swift", Way::Switch(0.0, CongestionAlgorithm::Swift)),
    ("switch, 1 % may be missing", Way::Switch(1.0, CongestionAlgorithm::Fixed)),
    ("switch, 10 % may be missing", Way::Switch(10.0, CongestionAlgorithm::Fixed)),
    ("ring of hosts, 16-bit numbers", Way::Ring(2)),
    ("ring of hosts", Way::Ring(4)),
];

/// Times of steps and what was retransmitted, over what had to be sent.
struct Run {
    mean_ms: f64,
    worst_ms: f64,
    retransmitted: f64,
}

fn fabric(loss: f64, seed: u64) -> RacksConfig {
    // Nothing is narrow here: an uplink carries what its rack's hosts send.
    let hosts = RacksConfig::default();
    let uplink_rate = hosts.host_rate * u64::from(hosts.hosts);
    RacksConfig { uplink_rate, queue_bytes: 1_000_000, loss, seed, ..hosts }
}

fn by_switch(
    percent: f64,
    congestion: CongestionAlgorithm,
    loss: f64,
    seed: u64,
) -> Result<Run, ExperimentError> {
    let tolerance = Tolerance::fraction(percent / 100.0).unwrap_or(Tolerance::NONE).with_stragglers();
    let mut racks = Racks::new(RacksConfig { tolerance, congestion, ..fabric(loss, seed) })
        .map_err(|source| ExperimentError::Scenario { scenario: "loss", source: Box::new(source) })?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut tensor = || (0..ELEMENTS).map(|_| rng.random_range(-1.0f32..1.0)).collect::<Vec<_>>();
    let (mut times, mut retransmitted, mut chunks) = (Vec::new(), 0, 0);
    for _ in 0..STEPS {
        let mut step = Step::new((0..racks.world()).map(|_| vec![tensor()]).collect(), false);
        let taken = racks.all_reduce(&mut step, PAUSE);
        times.push(taken.elapsed);
        (retransmitted, chunks) = (retransmitted + taken.retransmitted, chunks + taken.chunks);
    }
    Ok(run_of(&times, retransmitted as f64 / chunks as f64))
}

fn by_ring(bytes: usize, loss: f64, seed: u64) -> Run {
    let RacksConfig { hosts, host_rate, wire, .. } = fabric(loss, seed);
    let hosts = 2 * usize::from(hosts);
    let mut ring = ring::Ring::new(ring::RingConfig { hosts, rate: host_rate, wire, loss, seed });
    let times: Vec<_> = (0..STEPS).map(|_| ring.all_reduce(ELEMENTS * bytes, PAUSE)).collect();
    let sent = 2.0 * (hosts - 1) as f64 * (ELEMENTS * bytes) as f64 / 1448.0 * f64::from(STEPS);
    run_of(&times, ring.retransmitted() as f64 / sent)
}

fn run_of(times: &[Duration], retransmitted: f64) -> Run {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mean_ms = ms(times.iter().sum()) / times.len() as f64;
    Run { mean_ms, worst_ms: times.iter().copied().max().map_or(0.0, ms), retransmitted }
}

/// The five runs of a way at a loss.
fn runs(way: Way, loss: f64, seed: u64) -> Result<Vec<Run>, ExperimentError> {
    let run = |run| {
        let seed = seed.wrapping_mul(1000) + run;
        match way {
            Way::Switch(percent, congestion) => by_switch(percent, congestion, loss, seed),
            Way::Ring(bytes) => Ok(by_ring(bytes, loss, seed)),
        }
    };
    (0..SEEDS).map(run).collect()
}

fn mean(runs: &[Run], of: fn(&Run) -> f64) -> f64 {
    runs.iter().map(of).sum::<f64>() / runs.len() as f64
}

/// The row of a way, whose runs without losses took `without` milliseconds a step.
fn cells(name: &str, runs: &[Run], without: f64) -> Row {
    let means = || runs.iter().map(|run| run.mean_ms);
    let (least, most) = (means().fold(f64::MAX, f64::min), means().fold(0.0, f64::max));
    let mean_ms = mean(runs, |run| run.mean_ms);
    let worst_ms = runs.iter().map(|run| run.worst_ms).fold(0.0, f64::max);
    vec![
        name.into(),
        format!("{mean_ms:.2} ms"),
        format!("{least:.2} to {most:.2} ms"),
        format!("{worst_ms:.2} ms"),
        format!("{:.3}", mean_ms / without),
        format!("{:.2} %", mean(runs, |run| run.retransmitted) * 100.0),
    ]
}

/// The row of sums that may lack some contributions, where most packets are lost.
pub(super) fn row(seed: u64) -> Result<Row, ExperimentError> {
    let (name, way) = WAYS[3];
    let without = mean(&runs(way, LOSSES[0], seed)?, |run| run.mean_ms);
    Ok(cells(name, &runs(way, LOSSES[3], seed)?, without))
}

/// Every way at every loss, over seeds that follow from the given one.
pub(super) fn run(seed: u64) -> Result<Report, ExperimentError> {
    let (mut tables, mut groups): (Vec<Table>, Groups) = (Vec::new(), Vec::new());
    let mut without = Vec::new();
    for loss in LOSSES {
        let title = format!("One link loses {} %", loss * 100.0);
        let head = ["sums by", "step, mean", "of five runs", "step, worst", "of no loss", "retransmitted"];
        let mut table = Table::new(&title, &head);
        let mut bars = Vec::new();
        for (number, (name, way)) in WAYS.into_iter().enumerate() {
            let runs = runs(way, loss, seed)?;
            let mean_ms = mean(&runs, |run| run.mean_ms);
            if loss == 0.0 {
                without.push(mean_ms);
            }
            table.rows.push(cells(name, &runs, without[number]));
            bars.push((name.to_owned(), mean_ms));
        }
        groups.push((title, bars));
        tables.push(table);
    }
    Ok(Report {
        title: "One link that loses packets".into(),
        setting: setting(),
        tables,
        reading: reading(),
        plots: vec![Plot::Bars(Bars {
            title: "Milliseconds a step, without the time between them".into(),
            groups,
        })],
    })
}

fn setting() -> Vec<String> {
    let RacksConfig { hosts, slots, .. } = RacksConfig::default();
    vec![
        format!(
            "Two racks of {hosts} hosts, one rank each, at 1 Gbit/s, on links of which none is narrow. The link of one host loses packets, each way. A step sums \
             {ELEMENTS} numbers over all ranks; {STEPS} steps, {} ms apart, {SEEDS} runs from seeds of their own. By the switch: `bfp16`, {slots} slots, \
             real workers, the real pipeline and queues, in virtual time.",
            PAUSE.as_millis()
        ),
        "The ring is a model: a stream of TCP from each host to the next, segment by segment, with what matters of Linux's (selective \
         acknowledgements, a probe of the last segment after two round trips and 2 ms, time-outs of at least 200 ms), and no time for computing. With \
         numbers of 32 bits, as rings have them, and of 16 bits, so that the same bytes are compared."
            .into(),
    ]
}

fn reading() -> Vec<String> {
    vec![
        "*Of five runs* is the minimum and the maximum of their means, *of no loss* the mean over that of the first table, *retransmitted* over what must be sent."
            .into(),
        "A lost packet costs a switch's chunk a round trip or, at the end of a step, a time-out of a millisecond; the other chunks go on. So steps stay below \
         4 ms with a fixed window, and below a ring's without losses: whose bytes are nearly twice as many, and whose every step waits for its last \
         segment. What a ring loses itself is little, as long as its hosts find it by acknowledgements and probes."
            .into(),
        "Where contributions may be missing, those of stragglers included, a chunk that lost one is closed without it: a step stays closer to what it takes without losses, and less \
         is retransmitted. But windows are bounded as by congestion control then, which costs 4 % to begin with, so nothing is gained in all. A congestion-control algorithm takes losses \
         for congestion, which these are not: `dctcp` costs nothing without them, and up to 3 % more than a fixed window with them."
            .into(),
    ]
}
