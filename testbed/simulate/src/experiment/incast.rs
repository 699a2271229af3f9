//! Racks whose uplinks are too narrow, with others' bursts on them: exact sums, and sums that may lack contributions.

use std::time::Duration;

use netfold_control::CongestionAlgorithm;
use netfold_proto::Tolerance;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{Bars, ExperimentError, Groups, Plot, Report, Table, spread};
use crate::racks::{PACKET, Racks, RacksConfig, Step, StepReport};

const STEPS: u32 = 8;
const SEEDS: u64 = 5;
const ELEMENTS: usize = 100_000;
const QUEUE_BYTES: u32 = 60_000;
const TRIM_ABOVE: u32 = 20_000;
const MARK_ABOVE: u32 = 10_000;
/// What ranks compute between two steps.
const PAUSE: Duration = Duration::from_millis(2);

/// What sums may lack, by what ranks decide how much to have in flight, and whether long queues mark.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    percent: f64,
    congestion: CongestionAlgorithm,
    marks: bool,
}

const fn way(name: &'static str, percent: f64, congestion: CongestionAlgorithm, marks: bool) -> Way {
    Way { name, percent, congestion, marks }
}

/// The first is what the others are measured by.
const WAYS: [Way; 8] = [
    way("exact, fixed window", 0.0, CongestionAlgorithm::Fixed, false),
    way("exact, dctcp", 0.0, CongestionAlgorithm::Dctcp, false),
    way("exact, dctcp and marks", 0.0, CongestionAlgorithm::Dctcp, true),
    way("exact, swift", 0.0, CongestionAlgorithm::Swift, false),
    way("1 % may be missing, fixed window", 1.0, CongestionAlgorithm::Fixed, false),
    way("1 % may be missing, dctcp", 1.0, CongestionAlgorithm::Dctcp, false),
    way("1 % may be missing, dctcp and marks", 1.0, CongestionAlgorithm::Dctcp, true),
    way("10 % may be missing, dctcp", 10.0, CongestionAlgorithm::Dctcp, false),
];

/// Share of each uplink that others use.
const OTHERS: [f64; 3] = [0.0, 0.3, 0.6];

/// One run of all steps.
struct Run {
    mean_ms: f64,
    worst_ms: f64,
    retransmitted: f64,
    left_out: f64,
    /// As long as a step's chunks take on an uplink without other traffic.
    bound_ms: f64,
}

fn measured(way: Way, others: f64, seed: u64) -> Result<Run, ExperimentError> {
    let tolerance = Tolerance::fraction(way.percent / 100.0).expect("a percentage");
    let config = RacksConfig {
        queue_bytes: QUEUE_BYTES,
        trim_above: tolerance.any().then_some(TRIM_ABOVE),
        mark_above: way.marks.then_some(MARK_ABOVE),
        others,
        tolerance,
        congestion: way.congestion,
        seed,
        ..RacksConfig::default()
    };
    let mut racks = Racks::new(config)
        .map_err(|source| ExperimentError::Scenario { scenario: "incast", source: Box::new(source) })?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut tensor = || (0..ELEMENTS).map(|_| rng.random_range(-1.0f32..1.0)).collect::<Vec<_>>();
    let mut all = StepReport::default();
    let mut worst = Duration::ZERO;
    for _ in 0..STEPS {
        let mut step = Step::new((0..racks.world()).map(|_| vec![tensor()]).collect(), false);
        let taken = racks.all_reduce(&mut step, PAUSE);
        worst = worst.max(taken.elapsed);
        all.elapsed += taken.elapsed;
        all.retransmitted += taken.retransmitted;
        all.left_out += taken.left_out;
        all.chunks += taken.chunks;
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    // Half of the ranks are in each rack.
    let bits = all.chunks as f64 / f64::from(STEPS) / 2.0 * (PACKET * 8) as f64;
    Ok(Run {
        bound_ms: bits / config.uplink_rate as f64 * 1e3,
        mean_ms: ms(all.elapsed) / f64::from(STEPS),
        worst_ms: ms(worst),
        retransmitted: all.retransmitted as f64 / all.chunks as f64,
        left_out: all.left_out as f64 / all.chunks as f64,
    })
}

/// Every way under one load: the table, and steps a second for the plot.
fn loaded(others: f64, seed: u64) -> Result<(Table, Vec<(String, f64)>), ExperimentError> {
    let head = [
        "sums",
        "step, median of seeds",
        "min to max",
        "worst step",
        "of exact",
        "retransmitted",
        "contributions left out",
    ];
    let mut rows = Vec::new();
    let mut bound = 0.0;
    let mut bars = Vec::new();
    let mut exact = None;
    // Without others nothing is left to chance.
    let seeds = if others > 0.0 { SEEDS } else { 1 };
    for way in WAYS {
        let runs: Vec<Run> =
            (seed..seed + seeds).map(|seed| measured(way, others, seed)).collect::<Result<_, _>>()?;
        let of = |value: fn(&Run) -> f64| spread(runs.iter().map(value).collect());
        let (median, least, most) = of(|run| run.mean_ms);
        let base = *exact.get_or_insert(median);
        bound = of(|run| run.bound_ms).0 / (1.0 - others);
        rows.push(vec![
            way.name.into(),
            format!("{median:.2} ms"),
            format!("{least:.2} to {most:.2}"),
            format!("{:.2} ms", of(|run| run.worst_ms).2),
            format!("{:.3}", median / base),
            format!("{:.1} %", of(|run| run.retransmitted).0 * 100.0),
            format!("{:.2} %", of(|run| run.left_out).2 * 100.0),
        ]);
        bars.push((way.name.to_owned(), 1e3 / median));
    }
    let title = format!(
        "Others use {:.0} % of each uplink: the rest carries a step in {bound:.2} ms",
        others * 100.0
    );
    Ok((Table { rows, ..Table::new(&title, &head) }, bars))
}

/// Every way under every load.
pub(super) fn run(seed: u64) -> Result<Report, ExperimentError> {
    let (mut tables, mut groups): (Vec<Table>, Groups) = (Vec::new(), Vec::new());
    for others in OTHERS {
        let (table, bars) = loaded(others, seed)?;
        groups.push((table.title.clone(), bars));
        tables.push(table);
    }
    let RacksConfig { hosts, slots, .. } = RacksConfig::default();
    Ok(Report {
        title: "Racks with narrow uplinks".into(),
        setting: vec![format!(
            "Two racks of {hosts} hosts, one rank each, at 1 Gbit/s; each rack has an uplink of 1 Gbit/s to the switch that folds, a quarter of \
             what its hosts could send, with a queue of {QUEUE_BYTES} bytes each way that drops what is too much. The others' packets come up the \
             same links in bursts of 40, and heed nothing. A step sums {ELEMENTS} numbers over all ranks as `bfp16`, with {slots} slots; {STEPS} \
             steps, {} ms apart; {SEEDS} seeds where there are others. Real workers, the real pipeline and the queues of the software switch, in \
             virtual time. Where shares may be missing, a queue above {TRIM_ABOVE} bytes cuts packets that say so to their headers; where it \
             marks, it does so above {MARK_ABOVE} bytes.",
            PAUSE.as_millis()
        )],
        tables,
        reading: vec![
            "*Of exact* is the median step over that of exact sums with a fixed window and tail drop. *Retransmitted* is retransmissions over chunks, \
             *left out* contributions over all contributions: never more than the tensor tolerates. The worst step is that of all seeds."
                .into(),
            "Sums that may lack 1 % of the contributions, under `dctcp`, which is the default, take 0.57 to 0.71 of what exact sums with a fixed window \
             take: 1.4 to 1.7 times faster. But that is due to congestion control, and exact sums gain as much by it: a queue that has found its \
             few contributions goes on dropping. Nor is there much left to gain: exact sums under `dctcp` keep the links 86 % busy or more, and 1 % less to \
             carry is 1 % at most. 10 % is worth up to a tenth."
                .into(),
            "Marks help while ranks are alone. Beside others who do not heed them they only make ranks give way, and `swift` does so without \
             marks. With a fixed window and most of the link taken by others, ranks that resend their whole windows at every time-out can starve \
             each other: in one seed of five a step of exact sums took 13 seconds. Use a congestion-control algorithm on links that are shared."
                .into(),
        ],
        plots: vec![Plot::Bars(Bars { title: "Steps a second, without the time between them".into(), groups })],
    })
}
