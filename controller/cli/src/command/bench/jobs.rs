//! `netfold bench jobs`.

use clap::Args;
use netfold::{Builder, Mode};
use netfold_measure::jobs::{self, JobWorker, JobsConfig, JobsNetwork, JobsRow};

use super::perf::rate;
use super::{Tagged, check_sizes};
use crate::command::joining::JoinOptions;
use crate::error::CliError;
use crate::output::Output;
use crate::size::Bytes;

const EXAMPLES: &str = "\
Examples:
  netfold controller --dev &
  netfold bench jobs --controller 127.0.0.1:20041 --tenant red --operations 800
  netfold bench jobs --controller tor:20041 --tenant acme --jobs 100 --rendezvous
  netfold bench jobs --shaped --rounds 1               hosts in network namespaces, links of 200 Mbit/s

In each round --beside jobs run alone, and then --jobs jobs, which do as many all-reduces between them. MB/s are tensor bytes of one rank,
of all jobs together; ratio is to the rate of the few jobs in the same round, the median over the rounds.

--shaped needs root, iproute2 and tbf. It builds a star, as `netfold bench star` does: rank r of each job is at host r, and all jobs share the
hosts' links, the switch and its controller, whose settings are the defaults. bound is the fraction of what the links allow: half of a link's rate
in 32 bits, all of it in 16, in bytes of tensors, headers not counted.";

/// Measure many jobs of one tenant at once, beside few: how many are admitted, with how many slots, and what they reach together.
///
/// Every worker is a process of this machine that joins through the controller and has no other path than the switch, unless --rendezvous is
/// given. Processor time is what they share there; with --shaped it is links and slots. Every element of every result is checked. The exit code is 1 when a result is wrong, no job is admitted, or a worker ends early.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Jobs {
    /// Jobs at once.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// Jobs at once that they are compared with.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    beside: u16,
    /// Workers of each job.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=32))]
    workers: u16,
    /// All-reduces of a round, over all jobs.
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u32).range(1..))]
    operations: u32,
    /// Tensor size of a rank, f32.
    #[arg(long, default_value = "1M")]
    bytes: Bytes,
    /// Numeric mode: bfp16 or bfp32.
    #[arg(long, default_value_t = Mode::Bfp16, value_parser = mode)]
    mode: Mode,
    /// Slots that each job asks for, a power of two.
    #[arg(long, default_value_t = Builder::SLOTS_DEFAULT)]
    slots: u32,
    /// Rounds, in which few and many jobs take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Connect the workers of a job to each other: then a job can give slots up for others, and goes on without a switch that refuses it.
    #[arg(long)]
    rendezvous: bool,
    /// Measure on a star of hosts in network namespaces, with links of the given rate and a controller of its own.
    #[arg(long, conflicts_with_all = ["controller", "rendezvous"])]
    shaped: bool,
    /// Rate of each of these links in each direction, bits a second.
    #[arg(long, default_value = "200M", requires = "shaped", value_parser = rate)]
    rate: f64,
    #[command(flatten)]
    joining: JoinOptions,
    /// Take part in this job as one worker.
    #[arg(long, hide = true, requires = "rank")]
    job: Option<String>,
    /// Its rank.
    #[arg(long, hide = true, requires = "job")]
    rank: Option<u16>,
    /// Where the job's ranks are linked.
    #[arg(long, hide = true, requires = "job")]
    meeting: Option<String>,
}

impl Jobs {
    /// Whether another command started this one.
    pub(super) fn is_child(&self) -> bool {
        self.rank.is_some()
    }

    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        check_sizes(&[self.bytes])?;
        let name = self.job.clone().unwrap_or_else(|| format!("jobs-{}", std::process::id()));
        let network = match self.joining.controlled(&name, self.rendezvous) {
            Some(controlled) => JobsNetwork::Existing(controlled),
            None if self.shaped => JobsNetwork::Star { rate: self.rate },
            None => {
                return Err(CliError::Usage(
                    "jobs join through a control port: give --controller HOST:PORT, or --shaped".into(),
                ));
            }
        };
        let (workers, bytes, mode, slots) = (self.workers, self.bytes.0, self.mode, self.slots);
        if let (Some(rank), JobsNetwork::Existing(controlled)) = (self.rank, &network) {
            let controlled = controlled.clone();
            let worker = JobWorker { controlled, meeting: self.meeting, rank, workers, bytes, mode, slots };
            return jobs::take_part(&worker).map_err(|source| CliError::Job { rank, source });
        }
        let program = crate::command::own_program()?;
        let config = JobsConfig {
            program,
            network,
            jobs: self.jobs,
            beside: self.beside,
            workers,
            operations: self.operations,
            bytes,
            mode,
            slots,
            rounds: self.rounds,
        };
        let bar = output.bar(u64::from(self.rounds) * 2, "{spinner} {pos}/{len} {msg}");
        let rows = jobs::run(&config, |round, jobs| {
            bar.set_message(format!("round {}: {jobs} jobs", round + 1));
            bar.set_position(u64::from(round) * 2 + u64::from(jobs != self.beside));
        });
        bar.finish_and_clear();
        let rows = rows?;
        output.line(format_args!(
            "{:>6}{:>10}{:>9}{:>12}{:>12}{:>10}{:>9}{:>10}{:>10}{:>8}{:>8}{:>8}",
            "jobs",
            "admitted",
            "workers",
            "slots each",
            "operations",
            "MB/s",
            "min",
            "max",
            "size B",
            "#wrong",
            "ratio",
            "bound"
        ))?;
        rows.iter().try_for_each(|row| show(output, row))?;
        let wrong = rows.iter().map(|row| row.wrong).sum();
        if wrong > 0 { Err(CliError::Wrong { wrong }) } else { Ok(()) }
    }
}

fn show(output: &Output, row: &JobsRow) -> Result<(), CliError> {
    output.event(&Tagged { event: "jobs", row })?;
    let slots = match row.slots_min == row.slots_max {
        true => row.slots_min.to_string(),
        false => format!("{}-{}", row.slots_min, row.slots_max),
    };
    output.line(format_args!(
        "{:>6}{:>10}{:>9}{:>12}{:>12}{:>10.1}{:>9.1}{:>10.1}{:>10}{:>8}{:>8}{:>8}",
        row.jobs,
        row.admitted,
        row.workers,
        slots,
        row.operations,
        row.rate,
        row.rate_min,
        row.rate_max,
        row.bytes,
        row.wrong,
        row.ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
        row.bound_share.map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0))
    ))?;
    match &row.refused {
        Some(reason) => output.line(format_args!("# jobs that were not admitted: {reason}")),
        None => Ok(()),
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    let named = [Mode::Bfp16, Mode::Bfp32].into_iter().find(|mode| mode.name() == text);
    named.ok_or_else(|| format!("mode '{text}' is not measured: give bfp16 or bfp32"))
}
