//! `netfold worker`: one worker of a job, started by hand.

mod checked;
mod resizing;
mod training;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use netfold::{Builder, Communicator, GroupKey, Mode, launcher};
use netfold_io::{Cores, IoSpec};

use crate::command::joining::{self, JoinOptions};
use crate::command::launched;
use crate::error::CliError;
use crate::event::{Done, Event};
use crate::lifetime;
use crate::output::Output;
use crate::size::{Bytes, grouped, human};

const EXAMPLES: &str = "\
Examples, with a switch on the host 'tor':
  host a:  netfold worker --switch tor:20038 --job test --rank 0 --world 2 --bytes 16MiB
  host b:  netfold worker --switch tor:20038 --job test --rank 1 --world 2 --bytes 16MiB
                                     all-reduces, every element checked
  srun -N2 netfold worker --switch tor:20038 --bytes 16MiB
                                     the same on two hosts of Slurm, which sets rank, world size and the job's name
  netfold worker --switch tor:20038 --job test --rank 0 --world 2 --trees 4 --cores 2-5
                                     four trees at a switch of four queues, each pinned to a core of this host
  netfold worker --switch 127.0.0.1:20038 --io shm:gpu --job test --rank 0 --world 2
                                     through shared memory with a switch on this host
  netfold worker --switch tor:20038 --job demo --rank 0 --world 4 --train
                                     the demo's training; the same on ranks 1 to 3";

/// Take part in a job as one rank: all-reduces with checked results, or the demo's training.
///
/// All workers of a job must be started with the same settings and different ranks. The job begins when all have joined.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Worker {
    /// The switch's control port, HOST:PORT.
    #[arg(long, value_name = "ADDR", required_unless_present = "controller", conflicts_with = "controller")]
    switch: Option<String>,
    #[command(flatten)]
    joining: JoinOptions,
    /// Packet I/O, as for `netfold switch`; shm:NAME for a switch of this host with this name.
    #[arg(long, value_name = "IO", default_value_t)]
    io: IoSpec,
    /// Cores to pin the threads of the worker's trees to, as in 0,4-7: one for each tree in turn. Not pinned by default.
    #[arg(long, value_name = "LIST")]
    cores: Option<Cores>,
    /// Address at which the workers of the job connect to each other, HOST:PORT, on the host of rank 0: with it they continue without a
    /// switch that refuses them or is lost.
    #[arg(long, value_name = "ADDR")]
    rendezvous: Option<String>,
    /// Make the job confidential: file of the group key that `netfold group-key` has created, the same on all workers. Switches see masked
    /// lanes only.
    #[arg(long, value_name = "FILE", env = "NETFOLD_CONFIDENTIAL", requires = "rendezvous")]
    confidential: Option<PathBuf>,
    /// Authenticate packets between workers and switches; the same on all workers. Changed and forged packets are dropped. Needs a control
    /// session over TLS or on this machine.
    #[arg(long, env = "NETFOLD_AUTHENTICATED", value_parser = clap::builder::FalseyValueParser::new())]
    authenticated: bool,
    /// Name of the job, the same on all its workers. The launcher's name for the run if not given: under Slurm slurm-JOB.STEP.
    #[arg(long, value_name = "NAME", env = "NETFOLD_JOB")]
    job: Option<String>,
    /// This worker's rank, from 0. By the launcher (srun, mpirun, torchrun) if not given.
    #[arg(long)]
    rank: Option<u16>,
    /// Number of workers, at most 32. By the launcher if not given.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(WORKERS_MAX)))]
    world: Option<u16>,
    /// What to do when another worker is lost; the same on all workers. 'shrink': continue without it, in the next generation of the job.
    #[arg(long, value_name = "ACTION", value_enum, default_value_t, conflicts_with = "train")]
    on_loss: OnLoss,
    /// So many all-reduces after a loss, wait for new workers (--join) in place of those that were lost; the same on all workers. Needs --on-loss
    /// shrink.
    #[arg(long, value_name = "ITERATIONS", conflicts_with = "train")]
    grow_after: Option<u32>,
    /// Join a job that runs, in place of a worker that was lost: its workers have --on-loss shrink and --grow-after. Takes the place of --rank and --world.
    #[arg(long, conflicts_with_all = ["rank", "world", "train"])]
    join: bool,
    /// Numeric mode: bfp16, bfp32 or i32; saturating, wide, half or float at switches with these numerics.
    #[arg(long, default_value_t = Mode::Bfp16)]
    mode: Mode,
    /// Slots to request, a power of two: the window in packets.
    #[arg(long, default_value_t = Builder::SLOTS_DEFAULT)]
    slots: u32,
    /// Importance classes, 1 to 8: packets of larger numbers are of higher classes, for queues that distinguish them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(netfold::IMPORTANCE_MAX)))]
    importance: u8,
    /// Seconds to wait for the other ranks, when joining and between operations.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Tensor bytes of each all-reduce.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", conflicts_with = "train")]
    bytes: Bytes,
    /// All-reduces to do.
    #[arg(long, default_value_t = 10, conflicts_with = "train", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Train the demo's network instead.
    #[arg(long)]
    train: bool,
    /// Passes over the training images.
    #[arg(long, default_value_t = 30, requires = "train")]
    epochs: u32,
    /// Images of one step, of all workers together.
    #[arg(long, default_value_t = 64, requires = "train")]
    batch: usize,
    /// Seed of weights and images, or of the tensors.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Exit when standard input ends, as it does when the process at its other end exits.
    #[arg(long)]
    exit_with_stdin: bool,
}

/// Workers of one switch.
const WORKERS_MAX: u16 = 32;

/// Totals for a worker's last line.
#[derive(Debug, Default)]
struct Work {
    seconds: f64,
    elements: u64,
    wrong: u64,
    digest: Option<u64>,
}

/// What a worker does when another one is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum OnLoss {
    /// It fails.
    #[default]
    Fail,
    /// It continues without the lost one.
    Shrink,
}

impl Worker {
    fn rank(&self) -> u16 {
        self.rank.unwrap_or(0)
    }

    fn world(&self) -> u16 {
        self.world.unwrap_or(1)
    }

    fn job(&self) -> &str {
        self.job.as_deref().unwrap_or_default()
    }

    /// Takes from the launcher what no option gives.
    fn complete(&mut self) -> Result<(), CliError> {
        let launchers_job = if self.join {
            launcher::job(&launcher::environment)
        } else {
            let Some(place) = launched::place(self.rank, self.world)? else {
                return Err(CliError::Usage(
                    "give --rank and --world, or start the workers by srun, mpirun or torchrun, which set them"
                        .into(),
                ));
            };
            (self.rank, self.world) = (Some(place.rank), Some(place.world));
            place.job
        };
        if self.world() > WORKERS_MAX {
            let world = self.world();
            return Err(CliError::Usage(format!(
                "the launcher has {world} ranks; a switch takes {WORKERS_MAX}"
            )));
        }
        self.job = self.job.take().filter(|name| !name.is_empty()).or(launchers_job);
        if self.job.is_none() {
            return Err(CliError::Usage(
                "give --job NAME, the same on all workers; the launcher has no name for them".into(),
            ));
        }
        Ok(())
    }

    /// Whether the job shrinks and grows in place.
    fn is_resizable(&self) -> bool {
        self.join || self.on_loss == OnLoss::Shrink
    }

    pub(crate) fn run(mut self, output: &Output) -> Result<(), CliError> {
        self.complete()?;
        if self.exit_with_stdin {
            lifetime::exit_with_stdin();
        }
        let mut communicator = self.connect().map_err(|source| self.failed(source))?;
        self.place(&communicator);
        output.event(&Event::Joined {
            job: self.job().to_owned(),
            rank: self.rank(),
            workers: self.world(),
            mode: self.mode.to_string(),
        })?;
        output.line(format_args!(
            "job '{}': rank {} of {}, {}",
            self.job(),
            self.rank(),
            self.world(),
            self.mode
        ))?;
        if self.joining.controller.is_some() || self.joining.trees.is_some() {
            joining::show(output, self.job(), &communicator.attachments(), Some(&communicator.path()))?;
        }
        let work = if self.train {
            self.train(output, &mut communicator)?
        } else {
            self.all_reduces(output, &mut communicator)?
        };
        let stats = communicator.stats().worker;
        let tree_shares = Some(communicator.tree_shares()).filter(|shares| shares.len() > 1);
        communicator.leave().map_err(|source| self.failed(source))?;
        let done = Done {
            rank: self.rank(),
            seconds: work.seconds,
            digest: work.digest.map(|digest| format!("{digest:016x}")),
            elements: work.elements,
            packets_sent: stats.sent,
            packets_received: stats.results,
            retransmits: stats.retransmitted,
            wire_bytes: stats.sent_bytes,
            f32_bytes: work.elements * 4,
            wrong: work.wrong,
            tree_shares: tree_shares.unwrap_or_default(),
        };
        show_done(output, &done)?;
        if work.wrong > 0 { Err(CliError::Wrong { wrong: work.wrong }) } else { Ok(()) }
    }

    fn connect(&self) -> Result<Communicator, netfold::Error> {
        let timeout = Duration::from_secs(self.timeout);
        let mut builder = Communicator::builder()
            .job(self.job())
            .resizable(self.is_resizable())
            .mode(self.mode)
            .slots(self.slots)
            .importance(self.importance)
            .cores(self.cores.clone().unwrap_or_default())
            .io_by({
                let choice = self.io.clone();
                move |opening| Ok(netfold_dpdk::open(&choice, opening)?)
            })
            .join_timeout(timeout)
            .stall_timeout(timeout);
        builder = match (self.rank, self.world) {
            (Some(rank), Some(world)) => builder.rank(rank).world_size(world),
            _ => builder.join_running(),
        };
        if let Some(switch) = &self.switch {
            builder = builder.switch(switch.as_str())?;
        }
        if let Some(rendezvous) = &self.rendezvous {
            builder = builder.rendezvous(rendezvous.as_str())?;
        }
        // Workers of one host use the switch too, not shared memory.
        builder = builder.shared_memory(false);
        builder = builder.authenticated(self.authenticated);
        if let Some(file) = &self.confidential {
            builder = builder.confidential(GroupKey::from_file(file)?);
        }
        self.joining.apply(builder)?.connect()
    }

    fn failed(&self, source: netfold::Error) -> CliError {
        CliError::Job { rank: self.rank(), source }
    }
}

fn show_done(output: &Output, done: &Done) -> Result<(), CliError> {
    output.event(&Event::Done(done.clone()))?;
    output.line(format_args!(
        "done in {:.2} s: {} elements, {} packets sent ({}), of which {} retransmitted",
        done.seconds,
        grouped(done.elements),
        grouped(done.packets_sent),
        human(done.wire_bytes),
        grouped(done.retransmits)
    ))?;
    if done.tree_shares.is_empty() {
        return Ok(());
    }
    let percent = |share: &f64| format!("{:.0} %", share * 100.0);
    let shares: Vec<String> = done.tree_shares.iter().map(percent).collect();
    output.line(format_args!("shares of the trees, by their rates: {}", shares.join(", ")))
}
