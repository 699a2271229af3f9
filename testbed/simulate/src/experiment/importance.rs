//! Queues trim chunks of lower importance first: what that does to the error of sums that lack contributions.

use std::time::Duration;

use netfold_proto::Tolerance;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{ExperimentError, Lines, Plot, Report, Row, Series, Table};
use crate::racks::{LANE_WORDS, Racks, RacksConfig, Step};

const STEPS: u64 = 5;
const BLOCKS: usize = 400;
/// What sums may lack: more than is trimmed, so that queues choose.
const TOLERANCE: f64 = 0.5;
/// Numbers of importance classes, and of queues.
const CLASSES: [u8; 4] = [1, 2, 4, 8];
/// Part of the contributions that is trimmed where numbers of classes are compared.
const COMPARED: f64 = 0.10;
/// Halvings of the range in which the threshold for that is looked for.
const HALVINGS: u32 = 9;
/// Parts of the plot.
const DRAWN: [f64; 4] = [0.02, 0.05, 0.10, 0.15];
/// Powers of two between the smallest and the largest block.
const OCTAVES: i32 = 12;

/// What was seen with a number of classes and a threshold.
struct Seen {
    /// Contributions left out, of all.
    left_out: f64,
    /// L2 norm of the errors of all sums, relative to that of the exact sums.
    error: f64,
    /// Packets trimmed, of those that came to each queue; the lowest class first.
    trimmed: Vec<f64>,
    /// Time of a step.
    step: Duration,
}

/// Gradients: blocks of the same size on all ranks, each of any of [`OCTAVES`] powers of two.
fn step(rng: &mut Xoshiro256PlusPlus, world: usize) -> Step {
    let scales: Vec<f32> = (0..BLOCKS).map(|_| 2f32.powi(-rng.random_range(0..OCTAVES))).collect();
    let block = 2 * LANE_WORDS as usize;
    let mut tensor = || {
        let values = scales.iter().flat_map(|scale| std::iter::repeat_n(*scale, block));
        values.map(|scale| scale * rng.random_range(-1.0f32..1.0)).collect::<Vec<_>>()
    };
    Step::new((0..world).map(|_| vec![tensor()]).collect(), false)
}

fn play(importance: u8, trim_above: u32, seed: u64) -> Result<Seen, ExperimentError> {
    let tolerance = Tolerance::fraction(TOLERANCE).unwrap_or(Tolerance::NONE);
    let config = RacksConfig {
        queue_bytes: 400_000,
        trim_above: Some(trim_above),
        slots: 8,
        others: 0.3,
        rto_min: Duration::from_millis(10),
        tolerance,
        importance,
        seed,
        ..RacksConfig::default()
    };
    let mut racks = Racks::new(config)
        .map_err(|source| ExperimentError::Scenario { scenario: "importance", source: Box::new(source) })?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut wrong, mut right, mut left_out, mut chunks) = (0.0, 0.0, 0, 0);
    let mut elapsed = Duration::ZERO;
    for _ in 0..STEPS {
        let mut step = step(&mut rng, racks.world());
        let exact: Vec<f64> = (0..BLOCKS * 2 * LANE_WORDS as usize)
            .map(|at| step.inputs().iter().map(|rank| f64::from(rank[0][at])).sum())
            .collect();
        let taken = racks.all_reduce(&mut step, Duration::from_millis(1));
        left_out += taken.left_out;
        chunks += taken.chunks;
        elapsed += taken.elapsed;
        for (sum, exact) in step.sums()[0].iter().zip(&exact) {
            wrong += (f64::from(*sum) - exact).powi(2);
            right += exact * exact;
        }
    }
    let mut queues = vec![(0, 0); usize::from(importance)];
    for up in racks.uplinks() {
        for (_, name, counters) in up.queues {
            if let netfold_switch::queue::QueueName::Class(queue) = name {
                let (trimmed, all) = &mut queues[usize::from(queue)];
                *trimmed += counters.trimmed;
                *all += counters.trimmed + counters.enqueued;
            }
        }
    }
    Ok(Seen {
        left_out: left_out as f64 / chunks.max(1) as f64,
        error: (wrong / right).sqrt(),
        trimmed: queues.iter().map(|(trimmed, all)| *trimmed as f64 / (*all).max(1) as f64).collect(),
        step: elapsed / STEPS as u32,
    })
}

/// The threshold by which about this part of the contributions is left out, and what is seen with it.
fn compared(importance: u8, part: f64, seed: u64) -> Result<(u32, Seen), ExperimentError> {
    let (mut low, mut high) = (1_000, 128_000);
    for _ in 0..HALVINGS {
        let middle = u32::midpoint(low, high);
        // The higher the threshold, the less is trimmed.
        match play(importance, middle, seed)?.left_out > part {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok((high, play(importance, high, seed)?))
}

fn cells(importance: u8, (threshold, seen): &(u32, Seen), one: f64) -> Row {
    let trimmed =
        seen.trimmed.iter().map(|part| format!("{:.0}", 100.0 * part)).collect::<Vec<_>>().join(", ");
    vec![
        importance.to_string(),
        threshold.to_string(),
        format!("{:.1} %", 100.0 * seen.left_out),
        trimmed,
        format!("{:.2} %", 100.0 * seen.error),
        format!("{:.2}", seen.error / one),
        format!("{:.2} ms", seen.step.as_secs_f64() * 1e3),
    ]
}

/// The row of most classes.
pub(super) fn row(seed: u64) -> Result<Row, ExperimentError> {
    let one = compared(CLASSES[0], COMPARED, seed)?.1.error;
    let most = CLASSES[CLASSES.len() - 1];
    Ok(cells(most, &compared(most, COMPARED, seed)?, one))
}

/// Every number of classes.
pub(super) fn run(seed: u64) -> Result<Report, ExperimentError> {
    let head = [
        "importance classes",
        "threshold, bytes",
        "contributions left out",
        "packets trimmed by class, %, lowest first",
        "error of sums",
        "relative to one class",
        "step",
    ];
    let mut table = Table::new("About the same part of the contributions left out", &head);
    let (mut series, mut one): (Series, f64) = (Vec::new(), 1.0);
    for importance in CLASSES {
        let found = compared(importance, COMPARED, seed)?;
        if importance == 1 {
            one = found.1.error;
        }
        table.rows.push(cells(importance, &found, one));
        let drawn = DRAWN.iter().map(|part| compared(importance, *part, seed));
        let points = drawn.map(|found| found.map(|(_, seen)| (100.0 * seen.left_out, 100.0 * seen.error)));
        let points = points.collect::<Result<Vec<_>, _>>()?;
        series.push((format!("{importance} classes"), points));
    }
    Ok(Report {
        title: "Importance classes".into(),
        setting: vec![format!(
            "Tensors of {BLOCKS} blocks, each of one of {OCTAVES} sizes (powers of two, on all ranks alike), are summed over eight ranks on the [racks with narrow \
             uplinks](incast.md), of which others use 30 % in the highest class. Sums may lack {:.0} %, and are rescaled. An uplink has as many queues as there are importance classes, served strictly, \
             the highest class first; each trims above the same threshold. With one class a rank marks blocks up to its median as droppable, and queues do not distinguish \
             them: those two classes of before. With more the queue of a packet depends on the size of its block.",
            100.0 * TOLERANCE
        )],
        tables: vec![table],
        reading: vec![
            "With four or eight queues what is trimmed is almost only of the lowest classes, so that sums which lack as much have less than half the error. Two classes help \
             little: the half of the blocks that a rank marks as droppable is the lower class already. The threshold found is where at most the compared part is left out; the plot has \
             other parts."
                .into(),
        ],
        plots: vec![Plot::Lines(Lines {
            title: "Error of sums by what is left out".into(),
            x: "contributions left out, %".into(),
            y: "relative L2 error, %".into(),
            series,
        })],
    })
}
