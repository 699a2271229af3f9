//! `netfold demo`: a switch process, worker processes, and a training whose gradients the switch sums.

mod chart;
mod children;
mod report;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use netfold_control::{Mode, Numerics};
use netfold_train::{Digits, Evaluation, TrainConfig, Trainer};

use crate::error::CliError;
use crate::event::{Counters, Done, Epoch, Event, Listening};
use crate::lifetime::Stop;
use crate::output::Output;
use crate::size;
pub(super) use children::{ChildEvent, Children};
use report::Report;

/// Timeout of the children's next event.
const TIMEOUT: Duration = Duration::from_secs(20);

const EXAMPLES: &str = "\
Examples:
  netfold demo                          4 workers, 16 bits an element
  netfold demo --loss 0.02              the same with 2 % of all packets dropped on purpose
  netfold demo --plot curve.svg         draw the loss curve as well
  netfold demo --json | tail -n 1       the outcome for scripts";

/// Train a neural network over a switch and compare with the same training in one process.
///
/// Starts a software switch and worker processes on this machine. The workers train a small network on images of
/// handwritten digits; every step's gradients are summed by the switch. The same training runs in one process with f32
/// sums, and the two are compared. Ends by itself in a few seconds; exits with 1 if the two do not agree.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Worker processes.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    workers: u16,
    /// Numeric mode of the gradients: bfp16 or bfp32.
    #[arg(long, default_value_t = Mode::Bfp16)]
    mode: Mode,
    /// Fraction of packets that the switch drops on purpose, in each direction.
    #[arg(long, default_value_t = 0.0, value_parser = size::loss)]
    loss: f64,
    /// Passes over the training images.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=500))]
    epochs: u32,
    /// Images of one step, of all workers together.
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Seed of the first weights, the order of the images and the lost packets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Payload of a packet in bytes: 256, 1408 or 8192.
    #[arg(long, default_value_t = 1408)]
    payload: u32,
    /// Draw the loss curve to this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// What the children reported.
#[derive(Default)]
struct DemoResults {
    curve: Vec<Evaluation>,
    done: Vec<Done>,
    counters: Counters,
}

impl Demo {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        let begun = Instant::now();
        if self.mode.numerics() != Numerics::Word {
            return Err(CliError::Usage(format!(
                "--mode {} needs a switch with those numerics, and the demo's adds words: choose bfp16 or bfp32",
                self.mode
            )));
        }
        if self.mode == Mode::I32 {
            return Err(CliError::Usage(
                "the demo's gradients are not integers: choose --mode bfp16 or --mode bfp32".into(),
            ));
        }
        let digits = Digits::embedded()?;
        let config = self.config();
        let model = Trainer::new(&digits, &config, 0..1, 1)?;
        let stop = Stop::on_signals()?;
        let mut children = Children::new();

        let (switch, listening) = self.start_switch(&mut children, &stop, output)?;
        Report::heading(output, &self, &listening, &digits, &model)?;
        for rank in 0..self.workers {
            let name = format!("worker {rank}");
            let index = children.start(name.clone(), &self.worker_arguments(rank, &listening))?;
            output.event(&Event::Started { name, pid: children.id(index) })?;
        }
        let reference = {
            let config = config.clone();
            let (digits, workers) = (digits.clone(), usize::from(self.workers));
            thread::spawn(move || netfold_train::reference(&digits, &config, workers))
        };
        let results = self.attend(&mut children, switch, &stop, output)?;
        let reference = reference.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        drop(children);

        let report = Report::new(&self, results, reference, begun.elapsed());
        if let Some(path) = &self.plot {
            std::fs::write(path, report.svg())
                .map_err(|source| CliError::File { path: path.clone(), source })?;
        }
        report.print(output, self.plot.as_deref())
    }

    fn config(&self) -> TrainConfig {
        TrainConfig { seed: self.seed, epochs: self.epochs, batch: self.batch, ..TrainConfig::default() }
    }

    fn start_switch(
        &self,
        children: &mut Children,
        stop: &Stop,
        output: &Output,
    ) -> Result<(usize, Listening), CliError> {
        let arguments = format!(
            "switch --listen 127.0.0.1:0 --payload {} --loss {} --seed {}",
            self.payload, self.loss, self.seed
        );
        let switch = children.start("the switch".into(), &words(&arguments))?;
        output.event(&Event::Started { name: "the switch".into(), pid: children.id(switch) })?;
        loop {
            if let ChildEvent::Event(Event::Listening(listening)) = children.next(TIMEOUT, stop)? {
                return Ok((switch, listening));
            }
        }
    }

    fn worker_arguments(&self, rank: u16, listening: &Listening) -> Vec<String> {
        words(&format!(
            "worker --switch {} --job demo --rank {rank} --world {} --mode {} --train --epochs {} --batch {} --seed {}",
            listening.control.as_deref().unwrap_or_default(),
            self.workers,
            self.mode,
            self.epochs,
            self.batch,
            self.seed
        ))
    }

    /// Collects the children's events until the workers and the switch have ended.
    fn attend(
        &self,
        children: &mut Children,
        switch: usize,
        stop: &Stop,
        output: &Output,
    ) -> Result<DemoResults, CliError> {
        let bar = output.bar(u64::from(self.epochs), "  training  {bar:40} epoch {pos}/{len}   {msg}");
        let mut results = DemoResults::default();
        let mut working = usize::from(self.workers);
        loop {
            match children.next(TIMEOUT, stop)? {
                ChildEvent::Event(Event::Epoch(epoch)) if epoch.rank == 0 => {
                    bar.set_position(u64::from(epoch.epoch));
                    bar.set_message(format!("loss {:.4}", epoch.train_loss));
                    output.event(&Event::Epoch(epoch.clone()))?;
                    let Epoch { train_loss, test_loss, test_accuracy, .. } = epoch;
                    results.curve.push(Evaluation { train_loss, test_loss, test_accuracy });
                }
                ChildEvent::Event(Event::Done(done)) => results.done.push(done),
                ChildEvent::Event(Event::Counters(counters)) => {
                    output.event(&Event::Counters(counters.clone()))?;
                    results.counters = counters;
                }
                ChildEvent::Event(_) => {}
                ChildEvent::Ended(index) if index == switch => break,
                ChildEvent::Ended(_) => {
                    working -= 1;
                    if working == 0 {
                        children.close_stdin(switch);
                    }
                }
            }
        }
        bar.finish_and_clear();
        Ok(results)
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
