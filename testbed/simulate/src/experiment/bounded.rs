//! A model that learns from sums that may lack contributions.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use netfold_proto::Tolerance;

use super::{ExperimentError, Lines, Plot, Report, Series, Table};
use crate::racks::{Racks, RacksConfig as Fabric, Step, StepReport, Tensors32};
use netfold_train::{Digits, Evaluation, Reducer, TrainConfig, Trainer};

const EPOCHS: u32 = 8;
/// Accuracy on the held-out images that is to be reached.
const TARGET: f64 = 0.9;
const COMPUTE: Duration = Duration::from_millis(1);

/// What is compared: what may be missing in percent, whether sums are rescaled, whether what a rank lacks is added
/// to its next contribution.
const WAYS: [(&str, f64, bool, bool); 8] = [
    ("exact", 0.0, true, false),
    ("1 %, rescaled", 1.0, true, false),
    ("3 %, rescaled", 3.0, true, false),
    ("10 %, rescaled", 10.0, true, false),
    ("10 %, as it is", 10.0, false, false),
    ("10 %, as it is, fed back", 10.0, false, true),
    ("30 %, rescaled", 30.0, true, false),
    ("30 %, as it is, fed back", 30.0, false, true),
];

/// Curves that are distinguishable in a plot.
const DRAWN: [&str; 4] = ["exact", "10 %, rescaled", "10 %, as it is", "30 %, rescaled"];

/// The fabric and the step that all ranks prepare.
struct Meeting {
    racks: Racks,
    step: Vec<Option<Tensors32>>,
    sums: Tensors32,
    residuals: Option<Vec<Tensors32>>,
    round: u64,
    feedback: bool,
    taken: StepReport,
}

struct Shared {
    meeting: Mutex<Meeting>,
    met: Condvar,
}

/// One rank's way to the others.
struct Rank<'s> {
    rank: usize,
    shared: &'s Shared,
    started: Tensors32,
    sums: std::vec::IntoIter<Vec<f32>>,
}

impl Reducer for Rank<'_> {
    type Error = std::convert::Infallible;

    fn start(&mut self, gradient: Vec<f32>) -> Result<(), Self::Error> {
        self.started.push(gradient);
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<f32>, Self::Error> {
        if !self.started.is_empty() {
            self.sums = self.shared.meet(self.rank, std::mem::take(&mut self.started)).into_iter();
        }
        Ok(self.sums.next().unwrap_or_default())
    }
}

impl Shared {
    /// Waits for all ranks; the last one has the sums made.
    fn meet(&self, rank: usize, mut tensors: Tensors32) -> Tensors32 {
        let mut meeting = self.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = meeting.residuals.as_ref().map(|all| &all[rank]) {
            for (tensor, left) in tensors.iter_mut().zip(left) {
                tensor.iter_mut().zip(left).for_each(|(value, left)| *value += left);
            }
        }
        meeting.step[rank] = Some(tensors);
        let round = meeting.round;
        if meeting.step.iter().all(Option::is_some) {
            meeting.sum();
            self.met.notify_all();
        }
        while meeting.round == round {
            meeting = self.met.wait(meeting).unwrap_or_else(PoisonError::into_inner);
        }
        meeting.sums.clone()
    }
}

impl Meeting {
    fn sum(&mut self) {
        let inputs = self.step.iter_mut().filter_map(Option::take).collect();
        let mut step = Step::new(inputs, self.feedback);
        let taken = self.racks.all_reduce(&mut step, COMPUTE);
        self.taken.elapsed += taken.elapsed + COMPUTE;
        self.taken.left_out += taken.left_out;
        self.taken.chunks += taken.chunks;
        (self.sums, self.residuals) = step.into_parts();
        self.round += 1;
    }
}

/// The result of a training: the curve, the first point before any step, with the time at each point; and the fraction left out.
struct Trained {
    curve: Vec<(Duration, Evaluation)>,
    left_out: f64,
}

fn train(digits: &Digits, way: (f64, bool, bool), seed: u64) -> Result<Trained, ExperimentError> {
    let (percent, rescale, feedback) = way;
    let tolerance = Tolerance { rescale, ..Tolerance::fraction(percent / 100.0).expect("a percentage") };
    let trim_above = tolerance.any().then_some(4_000);
    let fabric =
        Fabric { queue_bytes: 60_000, trim_above, others: 0.5, tolerance, seed, ..Fabric::default() };
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| ExperimentError::Scenario {
        scenario: "bounded",
        source,
    };
    let racks = Racks::new(fabric).map_err(|source| failed(Box::new(source)))?;
    let world = racks.world();
    let meeting = Meeting {
        racks,
        step: vec![None; world],
        sums: Vec::new(),
        residuals: None,
        round: 0,
        feedback,
        taken: StepReport::default(),
    };
    let shared = Shared { meeting: Mutex::new(meeting), met: Condvar::new() };
    let config = TrainConfig { seed, epochs: EPOCHS, ..TrainConfig::default() };
    let run = |rank: usize| {
        let mut trainer = Trainer::new(digits, &config, rank..rank + 1, world)?;
        let mut reducer = Rank { rank, shared: &shared, started: Vec::new(), sums: Vec::new().into_iter() };
        let mut curve = vec![(Duration::ZERO, trainer.evaluate())];
        for _ in 0..EPOCHS {
            match trainer.epoch(&mut reducer) {
                Ok(_) => {}
                Err(error) => unreachable!("sums have the length of shares: {error:?}"),
            }
            if rank == 0 {
                let now = shared.meeting.lock().unwrap_or_else(PoisonError::into_inner).taken.elapsed;
                curve.push((now, trainer.evaluate()));
            }
        }
        Ok::<_, netfold_train::ConfigError>(curve)
    };
    let curves: Vec<_> = thread::scope(|scope| {
        let run = &run;
        let ranks: Vec<_> = (0..world).map(|rank| scope.spawn(move || run(rank))).collect();
        ranks.into_iter().map(|rank| rank.join()).collect()
    });
    let first = curves.into_iter().next();
    let curve = match first {
        Some(Ok(curve)) => curve.map_err(|source| failed(Box::new(source)))?,
        _ => return Err(failed("a rank panicked".into())),
    };
    let taken = shared.meeting.into_inner().unwrap_or_else(PoisonError::into_inner).taken;
    Ok(Trained { curve, left_out: taken.left_out as f64 / taken.chunks.max(1) as f64 })
}

/// Every way.
pub(super) fn run(seed: u64) -> Result<Report, ExperimentError> {
    let digits = Digits::embedded()
        .map_err(|source| ExperimentError::Scenario { scenario: "bounded", source: Box::new(source) })?;
    let head = [
        "sums",
        "contributions left out",
        "epochs to 90 %",
        "time to 90 %",
        "accuracy at the end",
        "training loss at the end",
    ];
    let mut table = Table::new("Digits, eight ranks", &head);
    let mut series: Series = Vec::new();
    for (name, percent, rescale, feedback) in WAYS {
        let Trained { curve, left_out } = train(&digits, (percent, rescale, feedback), seed)?;
        let reached = curve.iter().position(|(_, point)| point.test_accuracy >= TARGET);
        let or_never = |text: Option<String>| text.unwrap_or_else(|| "not reached".into());
        let (_, last) = curve[curve.len() - 1];
        table.rows.push(vec![
            name.into(),
            format!("{:.2} %", left_out * 100.0),
            or_never(reached.map(|epoch| epoch.to_string())),
            or_never(reached.map(|epoch| format!("{:.2} s", curve[epoch].0.as_secs_f64()))),
            format!("{:.1} %", last.test_accuracy * 100.0),
            format!("{:.4}", last.train_loss),
        ]);
        if DRAWN.contains(&name) {
            let points = curve.iter().map(|(at, point)| (at.as_secs_f64(), point.train_loss)).collect();
            series.push((name.to_owned(), points));
        }
    }
    Ok(Report {
        title: "Learning from sums that lack contributions".into(),
        setting: vec![
            format!(
                "The network and the handwritten digits of `netfold demo`, {EPOCHS} epochs in steps of 64 images over eight ranks, on the \
                 [racks with narrow uplinks](incast.md), of which others use half. A step's three tensors are summed together; a rank computes for {} ms. \
                 Queues trim above 4,000 bytes, which is early: to have as much missing as may be.",
                COMPUTE.as_millis()
            ),
            "*Rescaled*: a sum is multiplied by ranks over contributions. *As it is*: what is missing counts as zero. *Fed back*: what a rank lacks \
             it adds to its next contribution."
                .into(),
        ],
        tables: vec![table],
        reading: vec![
            "Up to 10 % a model learns as from exact sums, epoch by epoch. What is rescaled is noisier and unbiased; what counts as zero \
             makes steps smaller, and feeding it back makes up for that. Time is saved in proportion to what is missing, since nothing \
             else slows a step down here: 3 % are too few for these tensors of at most 47 chunks, of which one may go, to matter."
                .into(),
        ],
        plots: vec![Plot::Lines(Lines {
            title: "Training loss over time".into(),
            x: "seconds".into(),
            y: "loss, nats".into(),
            series,
        })],
    })
}
