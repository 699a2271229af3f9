//! Racks whose uplinks are too narrow, with others' bursts on them: exact sums, and sums that may lack shares.

use std::time::Duration;

use netfold_proto::Tolerance;
use netfold_wire::control::Congestion;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{Bars, ExperimentError, Groups, Plot, Report, Table};
use crate::racks::{Config, Racks, Step, Taken};

const STEPS: u32 = 8;
const ELEMENTS: usize = 100_000;
const QUEUE_BYTES: u32 = 60_000;
const TRIM_ABOVE: u32 = 20_000;
/// What ranks compute between two steps.
const PAUSE: Duration = Duration::from_millis(2);

/// What sums may lack, in percent, and by what ranks decide how much to have in flight.
const WAYS: [(&str, f64, Congestion); 7] = [
    ("exact", 0.0, Congestion::Fixed),
    ("exact, dctcp", 0.0, Congestion::Dctcp),
    ("exact, swift", 0.0, Congestion::Swift),
    ("1 % may be missing", 1.0, Congestion::Fixed),
    ("3 % may be missing", 3.0, Congestion::Fixed),
    ("10 % may be missing", 10.0, Congestion::Fixed),
    ("10 % may be missing, swift", 10.0, Congestion::Swift),
];

/// Share of each uplink that others use.
const OTHERS: [f64; 3] = [0.0, 0.3, 0.6];

struct Row {
    mean_ms: f64,
    worst_ms: f64,
    resent: f64,
    left_out: f64,
}

fn measured(percent: f64, congestion: Congestion, others: f64, seed: u64) -> Result<Row, ExperimentError> {
    let tolerance = Tolerance::fraction(percent / 100.0).expect("a percentage");
    let trim_above = tolerance.any().then_some(TRIM_ABOVE);
    let config = Config {
        queue_bytes: QUEUE_BYTES,
        trim_above,
        others,
        tolerance,
        congestion,
        seed,
        ..Config::default()
    };
    let mut racks = Racks::new(config)
        .map_err(|source| ExperimentError::Scenario { scenario: "incast", source: Box::new(source) })?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut tensor = || (0..ELEMENTS).map(|_| rng.random_range(-1.0f32..1.0)).collect::<Vec<_>>();
    let mut all = Taken::default();
    let mut worst = Duration::ZERO;
    for _ in 0..STEPS {
        let mut step = Step::new((0..racks.world()).map(|_| vec![tensor()]).collect(), false);
        let taken = racks.all_reduce(&mut step, PAUSE);
        worst = worst.max(taken.elapsed);
        all.elapsed += taken.elapsed;
        all.resent += taken.resent;
        all.left_out += taken.left_out;
        all.chunks += taken.chunks;
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(Row {
        mean_ms: ms(all.elapsed) / f64::from(STEPS),
        worst_ms: ms(worst),
        resent: all.resent as f64 / all.chunks as f64,
        left_out: all.left_out as f64 / all.chunks as f64,
    })
}

/// Every way under every load.
pub(super) fn run(seed: u64) -> Result<Report, ExperimentError> {
    let (mut tables, mut groups): (Vec<Table>, Groups) = (Vec::new(), Vec::new());
    for others in OTHERS {
        let title = format!("Others use {:.0} % of each uplink", others * 100.0);
        let head = ["sums", "step, mean", "step, worst", "of exact", "sent again", "shares left out"];
        let mut table = Table::new(&title, &head);
        let mut bars = Vec::new();
        let mut exact = None;
        for (name, percent, congestion) in WAYS {
            let row = measured(percent, congestion, others, seed)?;
            let base = *exact.get_or_insert(row.mean_ms);
            table.rows.push(vec![
                name.into(),
                format!("{:.2} ms", row.mean_ms),
                format!("{:.2} ms", row.worst_ms),
                format!("{:.3}", row.mean_ms / base),
                format!("{:.1} %", row.resent * 100.0),
                format!("{:.2} %", row.left_out * 100.0),
            ]);
            bars.push((name.to_owned(), 1e3 / row.mean_ms));
        }
        groups.push((title, bars));
        tables.push(table);
    }
    let Config { hosts, slots, .. } = Config::default();
    Ok(Report {
        title: "Racks with narrow uplinks".into(),
        setting: vec![format!(
            "Two racks of {hosts} hosts, one rank each, at 1 Gbit/s; each rack has an uplink of 1 Gbit/s to the switch that folds, a quarter of \
             what its hosts could send, with a queue of {QUEUE_BYTES} bytes each way. The others' packets come up the same links in bursts of 40. \
             A step sums {ELEMENTS} numbers over all ranks as `bfp16`, with {slots} slots; {STEPS} steps, {} ms apart. Real workers, the real \
             pipeline and the queues of the software switch, in virtual time. Where shares may be missing, a queue above {TRIM_ABOVE} bytes \
             cuts packets that say so to their headers.",
            PAUSE.as_millis()
        )],
        tables,
        reading: vec![
            "*Of exact* is the mean step over that of exact sums with a fixed window and tail drop. *Sent again* is resends over chunks, \
             *left out* shares over all shares: never more than the tensor tolerates."
                .into(),
            "Little is gained while few shares may be missing: a queue that has found its few goes on dropping. What helps more is not to \
             send so much: `dctcp`, which has only losses to go by here, and `swift` keep queues short without leaving anything out. With a \
             fixed window and most of the link taken by others, ranks that resend their whole windows at every time-out starve each other: \
             a step of exact sums took seconds, and a few shares less were the difference between that and milliseconds. Use a law of \
             congestion control on links that are shared."
                .into(),
        ],
        plots: vec![Plot::Bars(Bars { title: "Steps a second, without the time between them".into(), groups })],
    })
}
