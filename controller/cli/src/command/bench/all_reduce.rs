//! `netfold bench all-reduce`.

use clap::Args;
use netfold::{Builder, Mode, ReduceOp};
use netfold_control::CongestionAlgorithm;
use netfold_measure::all_reduce::{AllReduceBench, AllReduceConfig, AllReduceRow, Transport};

use super::Tagged;
use crate::command::joining::{self, JoinOptions};
use crate::error::CliError;
use crate::output::Output;
use crate::size::{self, ByteRange};

const EXAMPLES: &str = "\
Examples:
  netfold bench all-reduce --bytes 4KiB..64MiB
  netfold bench all-reduce --workers 8 --bytes 64MiB --mode bfp32 --transport udp --loss 0.01
  netfold bench all-reduce --mode i32 --op max --bytes 1MiB --json
  netfold bench all-reduce --controller tor:20038 --tenant acme --token TOKEN --workers 4 --bytes 1MiB
                                     workers of this process join a controller's job

algbw is tensor bytes of one rank over the time; busbw is that times 2(n-1)/n, the rate of a ring's links.
bound is the fraction of the rate that a plain forwarder reaches on the same transport with the same packets and window.";

/// Measure all-reduces over a switch, every element checked, and compare with a plain forwarder.
///
/// Switch and workers are threads of this process, over rings in memory or real UDP sockets. The columns are those of
/// nccl-tests; a result outside the mode's error bound counts as wrong, and then the exit code is 1. With --controller the workers
/// join through it, and their switches are printed last; a refusal is an error of the kind that the controller names.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AllReduce {
    /// Number of workers.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    workers: u16,
    /// Tensor sizes of one rank: one, or FIRST..LAST, doubling.
    #[arg(long, value_name = "SIZES", default_value = "4KiB..64MiB")]
    bytes: ByteRange,
    /// Numeric mode: bfp16, bfp32 or i32.
    #[arg(long, default_value_t = Mode::Bfp16)]
    mode: Mode,
    /// The reduction: sum, or min and max with --mode i32.
    #[arg(long, default_value = "sum", value_parser = reduce_op)]
    op: ReduceOp,
    /// Packet I/O: loopback or udp.
    #[arg(long, default_value_t = Transport::Loopback, conflicts_with = "controller")]
    transport: Transport,
    /// The workers' congestion-control algorithm: fixed, aimd, dctcp, swift and others.
    #[arg(long, value_name = "ALGORITHM", default_value = "fixed", value_parser = crate::command::congestion, conflicts_with = "controller")]
    congestion: CongestionAlgorithm,
    /// Fraction of packets to drop on purpose, in each direction.
    #[arg(long, default_value_t = 0.0, value_parser = size::loss, conflicts_with = "controller")]
    loss: f64,
    /// Seed of losses and tensors.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Payload of a packet in bytes: 256, 1408 or 8192.
    #[arg(long, default_value_t = 1408, conflicts_with = "controller")]
    payload: u32,
    /// Slots of the job, a power of two: the window in packets.
    #[arg(long, default_value_t = Builder::SLOTS_DEFAULT)]
    slots: u32,
    /// Iterations before the timed ones.
    #[arg(long, default_value_t = 1)]
    warmup: u32,
    /// Timed iterations; 3 to 20 by size if not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    #[command(flatten)]
    joining: JoinOptions,
    /// Name of the controller's job; unique to this process if not given.
    #[arg(long, value_name = "NAME", requires = "controller")]
    job: Option<String>,
    /// Connect the workers to each other, so that they continue without a switch that refuses them or is lost.
    #[arg(long, requires = "controller")]
    rendezvous: bool,
}

impl AllReduce {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        if self.mode != Mode::I32 && self.op != ReduceOp::Sum {
            return Err(CliError::Usage(format!("--op {} needs integers: add --mode i32", self.op)));
        }
        if self.joining.trees.is_some() && self.joining.controller.is_none() {
            return Err(CliError::Usage("--trees needs a control port: add --controller".into()));
        }
        let config = self.config();
        let job = config.controlled.as_ref().map(|controlled| controlled.job.clone());
        let mut bench = AllReduceBench::new(config)?;
        heading(output)?;
        let mut wrong = 0;
        for bytes in self.bytes.doubling() {
            let bar = output.bar(1, "{spinner} {msg}");
            bar.set_message(size::human(bytes));
            let row = bench.measure(bytes)?;
            bar.finish_and_clear();
            show(output, &row)?;
            wrong += row.wrong;
        }
        if let Some(job) = job {
            let (places, path) = bench.path();
            joining::show(output, &job, &places, path.as_ref())?;
            bench.leave()?;
        }
        if wrong > 0 { Err(CliError::Wrong { wrong }) } else { Ok(()) }
    }

    fn config(&self) -> AllReduceConfig {
        let job = self.job.clone().unwrap_or_else(|| format!("bench-{}", std::process::id()));
        AllReduceConfig {
            workers: self.workers,
            mode: self.mode,
            op: self.op,
            transport: self.transport,
            payload_bytes: self.payload,
            slots: self.slots,
            congestion: self.congestion,
            loss: self.loss,
            seed: self.seed,
            warmup: self.warmup,
            iterations: self.iterations,
            controlled: self.joining.controlled(&job, self.rendezvous),
        }
    }
}

fn heading(output: &Output) -> Result<(), CliError> {
    output.line(format_args!(
        "{:>12}{:>12}{:>6}{:>7}{:>12}{:>12}{:>12}{:>8}{:>8}{:>11}",
        "size B",
        "count",
        "type",
        "redop",
        "time us",
        "algbw MB/s",
        "busbw MB/s",
        "bound",
        "#wrong",
        "retransm."
    ))
}

fn show(output: &Output, row: &AllReduceRow) -> Result<(), CliError> {
    output.event(&Tagged { event: "all_reduce", row })?;
    output.line(format_args!(
        "{:>12}{:>12}{:>6}{:>7}{:>12.1}{:>12.1}{:>12.1}{:>6.0} %{:>8}{:>11}",
        row.bytes,
        row.count,
        row.dtype,
        row.redop,
        row.time_us,
        row.algbw,
        row.busbw,
        row.bound_ratio * 100.0,
        row.wrong,
        row.retransmits
    ))
}

fn reduce_op(text: &str) -> Result<ReduceOp, String> {
    let folded = [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max]; // what a switch folds
    let named = folded.into_iter().find(|op| op.name() == text);
    named.ok_or_else(|| format!("unknown reduction '{text}': expected sum, min or max"))
}
