//! The demo's output: the participants, the curve and the outcome.

use std::path::Path;
use std::time::Duration;

use netfold_train::{Agreement, Digits, Evaluation, Trainer};

use super::chart::Chart;
use super::{Demo, DemoResults};
use crate::error::CliError;
use crate::event::{Event, Listening, Summary};
use crate::output::{Output, Tone};
use crate::size::{grouped, human};

/// The outcome of a demo.
pub(crate) struct Report {
    summary: Summary,
    ours: Vec<f64>,
    reference: Vec<f64>,
    /// Longest training of a worker, in seconds.
    train_seconds: f64,
    digest: String,
}

impl Report {
    /// Prints the participants before the training starts.
    pub(crate) fn heading(
        output: &Output,
        demo: &Demo,
        switch: &Listening,
        digits: &Digits,
        model: &Trainer<'_>,
    ) -> Result<(), CliError> {
        let title =
            output.paint(Tone::Strong, "Netfold: a neural network trains, a switch sums its gradients");
        output.line(format_args!("{title}\n"))?;
        let lossy = if demo.loss > 0.0 {
            format!(", drops {} % of its packets on purpose", demo.loss * 100.0)
        } else {
            String::new()
        };
        output.line(format_args!(
            "  switch    process at {}, {} slots in {} of state{lossy}",
            switch.address,
            grouped(u64::from(switch.slots)),
            human(switch.state_bytes)
        ))?;
        output.line(format_args!(
            "  workers   {} processes, gradients as {} in packets of {} bytes",
            demo.workers, demo.mode, demo.payload
        ))?;
        let network = model.network();
        output.line(format_args!(
            "  model     {} parameters in {} layers, {} images a step",
            grouped(network.elements() as u64),
            network.layers(),
            demo.batch
        ))?;
        output.line(format_args!(
            "  data      {} handwritten digits for training, {} for testing\n",
            grouped(digits.train.len() as u64),
            digits.test.len()
        ))
    }

    pub(crate) fn new(
        demo: &Demo,
        results: DemoResults,
        reference: Vec<Evaluation>,
        elapsed: Duration,
    ) -> Self {
        let DemoResults { curve, done, counters } = results;
        let agreement = Agreement::of(&curve, &reference);
        let digest = done.first().and_then(|done| done.digest.clone()).unwrap_or_default();
        let identical = done.len() == usize::from(demo.workers)
            && done.iter().all(|done| done.digest.as_deref() == Some(digest.as_str()));
        let last = |curve: &[Evaluation]| curve.last().copied();
        let losses = |curve: &[Evaluation]| curve.iter().map(|at| at.train_loss).collect::<Vec<_>>();
        let summary = Summary {
            agrees: identical && agreement.is_some_and(|agreement| agreement.agrees()),
            final_loss: last(&curve).map_or(f64::NAN, |at| at.train_loss),
            reference_loss: last(&reference).map_or(f64::NAN, |at| at.train_loss),
            seconds: elapsed.as_secs_f64(),
            wire_bytes: done.iter().map(|done| done.wire_bytes).sum(),
            f32_bytes: done.iter().map(|done| done.f32_bytes).sum(),
            retransmits: done.iter().map(|done| done.retransmits).sum(),
            workers: demo.workers,
            mode: demo.mode.to_string(),
            loss: demo.loss,
            epochs: demo.epochs,
            loss_difference: agreement.map_or(f64::NAN, |agreement| agreement.loss_difference),
            test_accuracy: last(&curve).map_or(f64::NAN, |at| at.test_accuracy),
            reference_accuracy: last(&reference).map_or(f64::NAN, |at| at.test_accuracy),
            identical,
            packets_up: done.iter().map(|done| done.packets_sent).sum(),
            packets_down: counters.packets_out,
        };
        Self {
            summary,
            ours: losses(&curve),
            reference: losses(&reference),
            train_seconds: done.iter().map(|done| done.seconds).fold(0.0, f64::max),
            digest,
        }
    }

    /// The drawing.
    pub(crate) fn svg(&self) -> String {
        let Summary { workers, mode, loss, .. } = &self.summary;
        let title = format!("Training loss, {workers} workers, {mode}, {} % of packets lost", loss * 100.0);
        self.chart().svg(&title)
    }

    /// Prints curve and outcome.
    ///
    /// # Errors
    ///
    /// [`CliError::Disagrees`] if the two trainings do not agree, after all has been printed.
    pub(crate) fn print(&self, output: &Output, plot: Option<&Path>) -> Result<(), CliError> {
        let s = &self.summary;
        output.line(format_args!(
            "  training loss, {} epochs: ● over the switch, · in one process\n",
            s.epochs
        ))?;
        output.line(format_args!("{}\n", self.chart()))?;
        output.line(format_args!("  {:<18}{:>16}{:>16}", "", "over the switch", "one process"))?;
        output
            .line(format_args!("  {:<18}{:>16.4}{:>16.4}", "final loss", s.final_loss, s.reference_loss))?;
        output.line(format_args!(
            "  {:<18}{:>14.1} %{:>14.1} %\n",
            "accuracy",
            s.test_accuracy * 100.0,
            s.reference_accuracy * 100.0
        ))?;
        output.line(format_args!(
            "  packets   {} up, {} down, {} retransmitted",
            grouped(s.packets_up),
            grouped(s.packets_down),
            grouped(s.retransmits)
        ))?;
        output.line(format_args!(
            "  sent      {} with headers, where f32 takes {} without: {:.0} % saved",
            human(s.wire_bytes),
            human(s.f32_bytes),
            (1.0 - s.wire_bytes as f64 / s.f32_bytes as f64) * 100.0
        ))?;
        output.line(format_args!(
            "  time      {:.1} s, of which {:.1} s training",
            s.seconds, self.train_seconds
        ))?;
        if s.identical {
            output.line(format_args!(
                "  models    the same on all {} workers, bit for bit ({})",
                s.workers, self.digest
            ))?;
        } else {
            let text = output.paint(Tone::Bad, "NOT the same on all workers");
            output.line(format_args!("  models    {text}"))?;
        }
        if let Some(path) = plot {
            output.line(format_args!("  drawing   {}", path.display()))?;
        }
        let apart = format!("the losses differ by at most {:.2} % at any epoch", s.loss_difference * 100.0);
        if s.agrees {
            let verdict = output.paint(Tone::Good, "The two trainings agree");
            output.line(format_args!("\n{verdict}: {apart}."))?;
        } else {
            let verdict = output.paint(Tone::Bad, "The two trainings do not agree");
            output.line(format_args!(
                "\n{verdict}: the losses differ by up to {:.2} %.",
                s.loss_difference * 100.0
            ))?;
        }
        output.event(&Event::Summary(s.clone()))?;
        if s.agrees { Ok(()) } else { Err(CliError::Disagrees) }
    }

    fn chart(&self) -> Chart<'_> {
        Chart { ours: &self.ours, reference: &self.reference }
    }
}
