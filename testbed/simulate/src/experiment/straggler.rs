//! One rank delays some of its chunks: exact sums wait for it, others close slots without it.

use std::time::Duration;

use netfold_control::CongestionAlgorithm;
use netfold_proto::Tolerance;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{Bars, ExperimentError, Groups, Plot, Report, Row, Table, spread};
use crate::racks::{Racks, RacksConfig, Step, StepReport};
use crate::sim::Straggler;

const STEPS: u32 = 10;
const ELEMENTS: usize = 400_000;
const UPLINK_RATE: u64 = 5_000_000_000;
const PAUSE: Duration = Duration::from_millis(2);
const RANK: u16 = 3;
/// Fraction of the rank's chunks that are delayed.
const FRACTION: f64 = 0.05;
/// The delay, in round trips of a fabric without stragglers and with an algorithm that keeps queues short.
const ROUND_TRIPS: u32 = 10;
/// Congestion-control algorithms, and slots.
const ALGORITHMS: [(CongestionAlgorithm, u32); 3] =
    [(CongestionAlgorithm::Dctcp, 32), (CongestionAlgorithm::Dctcp, 128), (CongestionAlgorithm::Swift, 128)];
const SEEDS: u64 = 5;

/// What sums may lack, in percent, and whether that includes contributions of stragglers.
const WAYS: [(&str, f64, bool); 4] = [
    ("exact", 0.0, false),
    ("20 % may be trimmed, slots not closed", 20.0, false),
    ("10 % may be missing", 10.0, true),
    ("20 % may be missing", 20.0, true),
];

fn played(config: RacksConfig) -> Result<StepReport, ExperimentError> {
    let mut racks = Racks::new(config)
        .map_err(|source| ExperimentError::Scenario { scenario: "straggler", source: Box::new(source) })?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(config.seed);
    let mut tensor = || (0..ELEMENTS).map(|_| rng.random_range(-1.0f32..1.0)).collect::<Vec<_>>();
    let mut all = StepReport::default();
    for _ in 0..STEPS {
        let mut step = Step::new((0..racks.world()).map(|_| vec![tensor()]).collect(), false);
        let taken = racks.all_reduce(&mut step, PAUSE);
        all.elapsed += taken.elapsed;
        all.chunks += taken.chunks / racks.world() as u64;
        all.closed += taken.closed;
        all.retransmitted += taken.retransmitted;
        all.left_out += taken.left_out;
        all.round_trip = all.round_trip.max(taken.round_trip);
        all.most_left_out = all.most_left_out.max(taken.most_left_out);
    }
    Ok(all)
}

fn ms(taken: &StepReport) -> f64 {
    taken.elapsed.as_secs_f64() * 1e3 / f64::from(STEPS)
}

/// How long a delayed chunk stays on its host: round trips of the same fabric with short queues.
fn delay(seed: u64) -> Result<Duration, ExperimentError> {
    let congestion = CongestionAlgorithm::Swift;
    let short = RacksConfig { uplink_rate: UPLINK_RATE, congestion, seed, ..RacksConfig::default() };
    Ok(played(short)?.round_trip * ROUND_TRIPS)
}

/// A window, and a step with it that nothing disturbs.
struct Window {
    congestion: CongestionAlgorithm,
    slots: u32,
    undisturbed: StepReport,
}

impl Window {
    fn new((congestion, slots): (CongestionAlgorithm, u32), seed: u64) -> Result<Self, ExperimentError> {
        let undisturbed = played(Self::fabric(congestion, slots, seed))?;
        Ok(Self { congestion, slots, undisturbed })
    }

    fn fabric(congestion: CongestionAlgorithm, slots: u32, seed: u64) -> RacksConfig {
        RacksConfig { uplink_rate: UPLINK_RATE, slots, congestion, seed, ..RacksConfig::default() }
    }

    /// The row of a way where chunks are delayed `by` this long, and the median of its steps in milliseconds.
    fn row(
        &self,
        (name, percent, late): (&str, f64, bool),
        by: Duration,
        seed: u64,
    ) -> Result<(Row, f64), ExperimentError> {
        let undisturbed = &self.undisturbed;
        let tolerance =
            Tolerance { stragglers: late, ..Tolerance::fraction(percent / 100.0).expect("a percentage") };
        let straggler = Some(Straggler { rank: RANK, fraction: FRACTION, by });
        let plain = |seed| Self::fabric(self.congestion, self.slots, seed);
        let runs: Vec<StepReport> = (seed..seed + SEEDS)
            .map(|seed| played(RacksConfig { tolerance, straggler, ..plain(seed) }))
            .collect::<Result<_, _>>()?;
        let (median, least, most) = spread(runs.iter().map(ms).collect());
        let closed: u64 = runs.iter().map(|run| run.closed).sum();
        let chunks: u64 = runs.iter().map(|run| run.chunks).sum();
        let most_left_out = runs.iter().map(|run| run.most_left_out).max().unwrap_or_default();
        let step_chunks = (undisturbed.chunks / u64::from(STEPS)) as f64;
        let cells = vec![
            name.into(),
            format!("{median:.2} ms"),
            format!("{least:.2} to {most:.2}"),
            format!("{:.2}", median / ms(undisturbed)),
            format!("{:.1} %", 100.0 * closed as f64 / chunks as f64),
            format!("{:.1} %", 100.0 * most_left_out as f64 / step_chunks),
        ];
        Ok((cells, median))
    }
}

/// The row of sums that may lack most, with few slots.
pub(super) fn row(seed: u64) -> Result<Row, ExperimentError> {
    Ok(Window::new(ALGORITHMS[0], seed)?.row(WAYS[3], delay(seed)?, seed)?.0)
}

/// Every way with every window.
pub(super) fn run(seed: u64) -> Result<Report, ExperimentError> {
    let (mut tables, mut groups): (Vec<Table>, Groups) = (Vec::new(), Vec::new());
    let by = delay(seed)?;
    for algorithm in ALGORITHMS {
        let window = Window::new(algorithm, seed)?;
        let undisturbed = ms(&window.undisturbed);
        let title = format!(
            "{}, {} slots: a step takes {undisturbed:.2} ms undisturbed",
            window.congestion.name(),
            window.slots
        );
        let head =
            ["sums", "step, median", "min to max", "of undisturbed", "slots closed", "lacking, at most"];
        let mut table = Table::new(&title, &head);
        let mut bars = vec![("no straggler".to_owned(), 1e3 / undisturbed)];
        for way in WAYS {
            let (cells, median) = window.row(way, by, seed)?;
            table.rows.push(cells);
            bars.push((way.0.to_owned(), 1e3 / median));
        }
        groups.push((title, bars));
        tables.push(table);
    }
    Ok(Report {
        title: "A straggler".into(),
        setting: vec![format!(
            "Two racks of {} hosts, one rank each, at 1 Gbit/s, with uplinks of {:.0} Gbit/s to the switch that folds. A step sums {ELEMENTS} \
             numbers over all ranks as `bfp16`; {STEPS} steps, {SEEDS} seeds. One rank delays {:.0} % of its chunks, at random: nothing of such a \
             chunk leaves its host for {:.2} ms, which is {ROUND_TRIPS} round trips of the same fabric with short queues, however often it is sent. Real workers and the real pipeline, in \
             virtual time.",
            RacksConfig::default().hosts,
            UPLINK_RATE as f64 / 1e9,
            FRACTION * 100.0,
            by.as_secs_f64() * 1e3
        )],
        tables,
        reading: reading(),
        plots: vec![Plot::Bars(Bars {
            title: "Steps a second, without the time between them".into(),
            groups,
        })],
    })
}

/// How to read the tables.
fn reading() -> Vec<String> {
    vec![
            "*Of undisturbed* is the median step over that without a straggler. *Slots closed* are those that ranks finished without \
             the straggler, over all chunks; *lacking, at most* is the largest fraction of a step's chunks that any rank's contribution was missing from: never more \
             than the tensor tolerates."
                .into(),
            "Exact sums wait, and each slot stands still for as long as its chunk is delayed. Trimming does not help: nothing is trimmed. Where contributions of stragglers \
             may be left out, ranks ask the switch whose contributions it has once later chunks were acknowledged, and close the slot. They have no more \
             under way than a quarter of the slots, so a chunk that waits to be closed holds up no other. Where the tensor tolerates fewer closed \
             slots than there are delayed chunks, ranks wait for the rest."
                .into(),
            "With slots for much more than what is delayed, exact sums do not wait either: the others go on meanwhile. Under `swift` they do, because \
             what is delayed looks like a long queue to it."
                .into(),
        ]
}
