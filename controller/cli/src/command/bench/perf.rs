//! `netfold bench perf`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use clap::Args;
use netfold::{Builder, Collective, Communicator, DType, GroupKey, Mode, ReduceOp};
use netfold_embedded::EmbeddedSwitch;
use netfold_io::vacant_address;
use netfold_measure::perf::{self, PerfConfig, PerfRow, Timing};
use netfold_wire::vocabulary::one_of;
use serde::Serialize;

use super::Tagged;
use crate::command::joining::JoinOptions;
use crate::command::launched;
use crate::error::CliError;
use crate::lifetime;
use crate::output::Output;
use crate::size::Bytes;

const EXAMPLES: &str = "\
Examples:
  netfold bench perf                                    4 ranks on this machine, in shared memory
  netfold bench perf --switch embedded --no-shared-memory -b 4K -e 64M -f 4
                                                        4 ranks at a switch of this process
  netfold bench perf --ranks 2 --collective all_to_all -d f64 -b 1M -e 1M
  On each of 8 hosts, with a switch on 'tor':
  netfold bench perf --switch tor:20038 --rendezvous host0:20040 --rank R --world 8 --line-rate 100G -b 16M -e 1G -f 2

Rank and world size come from the flags, or else from RANK and WORLD_SIZE, OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and
PMI_SIZE, SLURM_PROCID and SLURM_NTASKS. Without any of them this process starts all ranks.

Columns are those of nccl-tests: out of place, then in place. algbw is size over time; busbw is algbw times 2(n-1)/n (all-reduce),
(n-1)/n (all-gather, reduce-scatter, all-to-all) or 1, the rate of a ring's links. A switch aggregates in the network, so each host
sends and receives the tensor once, and busbw can be up to twice the rate of the links. wire is the kernel's count on rank 0's
links in the busier direction, headers and retransmissions included, and line its fraction of --line-rate.";

/// Measure collectives as nccl-tests does, with its flags and columns.
///
/// Each iteration begins with a barrier and takes as long as its slowest rank; the time is the median. The exit code is 1 when
/// a result is wrong.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Perf {
    /// Smallest size.
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "32M")]
    minbytes: Bytes,
    /// Largest size.
    #[arg(short = 'e', long, value_name = "SIZE", default_value = "32M")]
    maxbytes: Bytes,
    /// Each size is the one before times this.
    #[arg(short = 'f', long, value_name = "N", conflicts_with = "stepbytes", value_parser = clap::value_parser!(u64).range(2..))]
    stepfactor: Option<u64>,
    /// Each size is the one before plus this; 1M if neither -i nor -f is given.
    #[arg(short = 'i', long, value_name = "SIZE")]
    stepbytes: Option<Bytes>,
    /// Timed iterations.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    iters: u32,
    /// Iterations before them.
    #[arg(short = 'w', long, default_value_t = 1)]
    warmup_iters: u32,
    /// Whether to check results: 1 or 0.
    #[arg(short = 'c', long, default_value_t = 1)]
    check: u32,
    /// Element type: f32, f16, bf16, f64, i8 to i64, u8 to u64, or nccl-tests' names (float, half, bfloat16, double, int32, ...).
    #[arg(short = 'd', long, default_value = "float", value_parser = dtype)]
    datatype: DType,
    /// Reduction: sum, avg, prod, min, max, bit_and, bit_or or bit_xor.
    #[arg(short = 'o', long, default_value = "sum", value_parser = reduction)]
    op: ReduceOp,
    /// Root of a broadcast or reduce.
    #[arg(short = 'r', long, default_value_t = 0)]
    root: u16,
    /// all_reduce, reduce, broadcast, all_gather, reduce_scatter or all_to_all.
    #[arg(long, value_name = "NAME", default_value = "all_reduce")]
    collective: String,
    /// Another collective that runs at the same time, in a class of its own: all_gather beside reduce_scatter.
    #[arg(long, value_name = "NAME")]
    beside: Option<String>,
    /// Numeric mode of floating-point tensors at a switch.
    #[arg(long, default_value_t = Mode::Bfp32)]
    mode: Mode,
    /// The switch's control port, HOST:PORT, or 'embedded' for one in this process.
    #[arg(long, value_name = "ADDR", conflicts_with = "controller")]
    switch: Option<String>,
    #[command(flatten)]
    joining: JoinOptions,
    /// Authenticate packets; needs a controller's port with TLS, or on this machine.
    #[arg(long)]
    authenticated: bool,
    /// Slots to request, a power of two: the window in packets.
    #[arg(long, default_value_t = Builder::SLOTS_DEFAULT)]
    slots: u32,
    /// Address at which ranks connect to each other, HOST:PORT: rank 0 listens there.
    #[arg(long, value_name = "ADDR")]
    rendezvous: Option<String>,
    /// Make the job confidential: file of its group key (see `netfold group-key`). Needs a rendezvous.
    #[arg(long, value_name = "FILE")]
    confidential: Option<PathBuf>,
    /// Do not sum ranks of one host in shared memory.
    #[arg(long)]
    no_shared_memory: bool,
    /// Microseconds for which a thread that waits for results polls before it sleeps.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    busy_poll: u64,
    /// Fail instead of using a ring when the switch cannot be used.
    #[arg(long)]
    no_fall_back: bool,
    /// Ranks to start when none are given.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    ranks: u16,
    /// This process's rank.
    #[arg(long, requires = "world")]
    rank: Option<u16>,
    /// Number of ranks.
    #[arg(long, requires = "rank")]
    world: Option<u16>,
    /// Rate of the links, in bits a second: 200M, 100G.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    line_rate: Option<f64>,
    /// Seconds without progress until ranks give up.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Measure in-place calls only.
    #[arg(long)]
    in_place_only: bool,
    /// Print every iteration's time in seconds as a line of JSON.
    #[arg(long, hide = true)]
    each: bool,
    /// Exit when standard input ends, as it does when the process at its other end exits.
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
}

impl Perf {
    /// Whether another command started this one.
    pub(super) fn is_child(&self) -> bool {
        self.exit_with_stdin
    }

    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        let collective = self.named(&self.collective)?;
        let beside = self.beside.as_deref().map(|name| self.named(name)).transpose()?;
        if self.minbytes.0 > self.maxbytes.0 {
            return Err(CliError::Usage("-b is larger than -e; give the smaller size first".into()));
        }
        if self.joining.trees.is_some() && self.joining.controller.is_none() {
            return Err(CliError::Usage("--trees needs a controller: add --controller HOST:PORT".into()));
        }
        match self.place()? {
            Some((rank, world)) => self.take_part(output, (collective, beside), rank, world),
            None => self.start_all(output),
        }
    }

    fn named(&self, name: &str) -> Result<Collective, CliError> {
        let name = match name {
            "alltoall" => Collective::AllToAll.name(),
            name => name,
        };
        let measured = |collective: &Collective| *collective != Collective::Barrier;
        Collective::from_name(name, self.root).filter(measured).ok_or_else(|| {
            let names =
                one_of(Collective::ALL.iter().filter(|known| measured(known)).map(|known| known.name()));
            CliError::Usage(format!("'{name}' is not a collective that is measured: expected {names}"))
        })
    }

    /// Rank and world size, from the flags or the launcher.
    fn place(&self) -> Result<Option<(u16, u16)>, CliError> {
        let place = launched::place(self.rank, self.world)?;
        Ok(place.map(|place| (place.rank, place.world)))
    }

    fn take_part(
        &self,
        output: &Output,
        (collective, beside): (Collective, Option<Collective>),
        rank: u16,
        world: u16,
    ) -> Result<(), CliError> {
        if self.exit_with_stdin {
            lifetime::exit_with_stdin();
        }
        if self.switch.as_deref() == Some("embedded") {
            return Err(CliError::Usage(
                "--switch embedded is for ranks that this command starts; give HOST:PORT".into(),
            ));
        }
        let meet = self.rendezvous.is_some() || self.switch.is_some() || self.joining.controller.is_some();
        if world > 1 && !meet {
            return Err(CliError::Usage(
                "ranks cannot find each other: give all of them --rendezvous, --switch or --controller HOST:PORT".into(),
            ));
        }
        let failed = |source| CliError::Job { rank, source };
        let comm = self.join(rank, world).map_err(failed)?;
        if rank == 0 {
            self.heading(output, &comm)?;
        }
        let config = PerfConfig {
            collective,
            beside,
            dtype: self.datatype,
            op: self.op,
            iterations: self.iters,
            warmup: self.warmup_iters,
            check: self.check != 0,
            line_rate: self.line_rate,
            in_place_only: self.in_place_only,
        };
        let (mut wrong, mut rates) = (0, Vec::new());
        for size in self.sizes() {
            let row = perf::measure(&comm, &config, size).map_err(failed)?;
            for timing in [&row.out_of_place, &row.in_place] {
                wrong += timing.wrong.unwrap_or(0);
                rates.push(timing.busbw);
            }
            if rank == 0 {
                show(output, &row)?;
                if self.each {
                    let wrong = row.in_place.wrong.unwrap_or(0);
                    let Timing { times, retransmitted, sent, .. } = &row.in_place;
                    output.event(&Each { times, wrong, retransmitted: *retransmitted, sent: *sent })?;
                }
            }
        }
        comm.leave().map_err(failed)?;
        if rank == 0 {
            let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
            output.event(&Summary { event: "perf_summary", wrong, avg_busbw_gbps: mean })?;
            output.line(format_args!(
                "# Out of bounds values : {wrong} {}",
                if wrong == 0 { "OK" } else { "FAILED" }
            ))?;
            output.line(format_args!("# Avg bus bandwidth    : {mean:.4}"))?;
        }
        if wrong > 0 { Err(CliError::Wrong { wrong }) } else { Ok(()) }
    }

    fn join(&self, rank: u16, world: u16) -> Result<Communicator, netfold::Error> {
        let timeout = Duration::from_secs(self.timeout);
        let builder = Communicator::builder()
            .job("netfold bench perf")
            .rank(rank)
            .world_size(world)
            .mode(self.mode)
            .slots(self.slots)
            .classes(if self.beside.is_some() { 2 } else { 1 })
            .join_timeout(timeout.min(Duration::from_secs(60)))
            .stall_timeout(timeout)
            .shared_memory(!self.no_shared_memory)
            .busy_poll(Duration::from_micros(self.busy_poll))
            .authenticated(self.authenticated)
            .fall_back(!self.no_fall_back);
        let mut builder = self.joining.apply_to_rank(builder, rank)?;
        if let Some(switch) = &self.switch {
            builder = builder.switch(switch.clone())?;
        }
        if let Some(address) = &self.rendezvous {
            builder = builder.rendezvous(address.clone())?;
        } else if world == 1 {
            builder = builder.rendezvous("127.0.0.1:0")?;
        }
        if let Some(file) = &self.confidential {
            builder = builder.confidential(GroupKey::from_file(file)?);
        }
        builder.connect()
    }

    fn sizes(&self) -> impl Iterator<Item = u64> {
        let (last, factor) = (self.maxbytes.0, self.stepfactor);
        let step = self.stepbytes.map_or(1 << 20, |Bytes(step)| step.max(1));
        let next = move |size: &u64| match factor {
            Some(factor) => size.checked_mul(factor).filter(|next| next > size),
            None => size.checked_add(step),
        };
        std::iter::successors(Some(self.minbytes.0), next).take_while(move |size| *size <= last)
    }

    /// Starts all ranks as processes on this machine, and a switch if requested.
    fn start_all(&self, output: &Output) -> Result<(), CliError> {
        let switch = match self.switch.as_deref() {
            Some("embedded") => Some(EmbeddedSwitch::builder().start().map_err(CliError::Embedded)?),
            _ => None,
        };
        let rendezvous = match &self.rendezvous {
            Some(address) => address.clone(),
            None => {
                let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                vacant_address().map_err(|source| CliError::Listen { address: any, source })?.to_string()
            }
        };
        // The first rank prints the results.
        output.print_settings()?;
        let mut children = Vec::new();
        for rank in 0..self.ranks {
            let spawn = || {
                let mut command = Command::new(std::env::current_exe()?);
                if output.is_json() {
                    command.arg("--json");
                }
                command.args(["bench", "perf"]).args(self.arguments());
                command.args(["--rank", &rank.to_string(), "--world", &self.ranks.to_string()]);
                command.args(["--rendezvous", &rendezvous, "--exit-with-stdin"]);
                if let Some(switch) = &switch {
                    command.args(["--switch", &switch.control().to_string()]);
                } else if let Some(switch) = &self.switch {
                    command.args(["--switch", switch]);
                }
                self.joining.pass_on(&mut command);
                let stdout = if rank == 0 { Stdio::inherit() } else { Stdio::null() };
                command.stdin(Stdio::piped()).stdout(stdout).spawn()
            };
            let mut child =
                spawn().map_err(|source| CliError::Spawn { name: format!("rank {rank}"), source })?;
            let stdin = child.stdin.take();
            children.push(Rank { child, _stdin: stdin });
        }
        let mut failed = None;
        for (rank, child) in children.iter_mut().enumerate() {
            let name = format!("rank {rank}");
            let status =
                child.child.wait().map_err(|source| CliError::Spawn { name: name.clone(), source })?;
            if !status.success() {
                failed.get_or_insert(CliError::ChildDied { name, status, reported: None });
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The flags that are passed on to ranks.
    fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        flag("-b", self.minbytes.0.to_string());
        flag("-e", self.maxbytes.0.to_string());
        if let Some(factor) = self.stepfactor {
            flag("-f", factor.to_string());
        }
        if let Some(Bytes(step)) = self.stepbytes {
            flag("-i", step.to_string());
        }
        flag("-n", self.iters.to_string());
        flag("-w", self.warmup_iters.to_string());
        flag("-c", self.check.to_string());
        flag("-d", self.datatype.to_string());
        flag("-o", self.op.to_string());
        flag("-r", self.root.to_string());
        flag("--collective", self.collective.clone());
        if let Some(beside) = &self.beside {
            flag("--beside", beside.clone());
        }
        flag("--mode", self.mode.to_string());
        flag("--slots", self.slots.to_string());
        flag("--timeout", self.timeout.to_string());
        flag("--busy-poll", self.busy_poll.to_string());
        if let Some(rate) = self.line_rate {
            flag("--line-rate", rate.to_string());
        }
        words.extend(self.authenticated.then(|| "--authenticated".to_owned()));
        words.extend(self.in_place_only.then(|| "--in-place-only".to_owned()));
        words.extend(self.no_shared_memory.then(|| "--no-shared-memory".to_owned()));
        words.extend(self.no_fall_back.then(|| "--no-fall-back".to_owned()));
        words
    }

    fn heading(&self, output: &Output, comm: &Communicator) -> Result<(), CliError> {
        output.line(format_args!(
            "# {} ranks, {}; mode {}; by {}",
            comm.world_size(),
            self.collective,
            comm.mode(),
            comm.path()
        ))?;
        let group = |text: &str| {
            format!("{:>10} {:>7} {:>7} {:>7} {:>5} {:>6}", "time", "algbw", "busbw", "wire", "line", text)
        };
        output.line(format_args!(
            "#{:>11} {:>12} {:>8} {:>7} {:>5} {} {}",
            "size",
            "count",
            "type",
            "redop",
            "root",
            group("#wrong"),
            group("#wrong")
        ))?;
        let units =
            format!("{:>10} {:>7} {:>7} {:>7} {:>5} {:>6}", "(us)", "(GB/s)", "(GB/s)", "(GB/s)", "%", "");
        output.line(format_args!(
            "#{:>11} {:>12} {:>8} {:>7} {:>5} {units} {units}",
            "(B)", "(elements)", "", "", ""
        ))
    }
}

/// A rank's process, killed when it is dropped.
struct Rank {
    child: Child,
    /// Held open while the process shall run; waiting would close it.
    _stdin: Option<ChildStdin>,
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Serialize)]
struct Each<'a> {
    times: &'a [f64],
    wrong: u64,
    retransmitted: u64,
    sent: u64,
}

#[derive(Serialize)]
struct Summary {
    event: &'static str,
    wrong: u64,
    #[serde(rename = "avg_busbw_GBps")]
    avg_busbw_gbps: f64,
}

fn show(output: &Output, row: &PerfRow) -> Result<(), CliError> {
    output.event(&Tagged { event: "perf", row })?;
    let timing = |timing: &Timing| {
        let line = timing.line_share.map_or("-".into(), |share| format!("{:.0}", share * 100.0));
        let wrong = timing.wrong.map_or("N/A".into(), |wrong| wrong.to_string());
        format!(
            "{:>10.1} {:>7.3} {:>7.3} {:>7.3} {:>5} {:>6}",
            timing.time_us, timing.algbw, timing.busbw, timing.wire, line, wrong
        )
    };
    output.line(format_args!(
        " {:>11} {:>12} {:>8} {:>7} {:>5} {} {}",
        row.size,
        row.count,
        row.dtype,
        row.redop,
        row.root,
        timing(&row.out_of_place),
        timing(&row.in_place)
    ))
}

pub(super) fn dtype(text: &str) -> Result<DType, String> {
    let name = match text {
        "float" | "fp32" => "f32",
        "half" | "fp16" => "f16",
        "bfloat16" => "bf16",
        "double" | "fp64" => "f64",
        "int8" => "i8",
        "uint8" => "u8",
        "int16" => "i16",
        "uint16" => "u16",
        "int32" | "int" => "i32",
        "uint32" => "u32",
        "int64" => "i64",
        "uint64" => "u64",
        other => other,
    };
    let known = DType::from_name(name).filter(|dtype| *dtype != DType::None);
    known.ok_or_else(|| format!("'{text}' is not an element type: expected float, half, bfloat16, double, int8 to int64 or uint8 to uint64"))
}

pub(super) fn reduction(text: &str) -> Result<ReduceOp, String> {
    let name = if text == "prod" { "product" } else { text };
    ReduceOp::from_name(name).ok_or_else(|| {
        format!("'{text}' is not a reduction: expected sum, avg, prod, min, max, bit_and, bit_or or bit_xor")
    })
}

/// Bits a second, with a decimal unit.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "bit" => 1.0,
        "k" | "K" | "kbit" => 1e3,
        "M" | "m" | "Mbit" | "mbit" => 1e6,
        "G" | "g" | "Gbit" | "gbit" => 1e9,
        _ => 0.0,
    };
    let rate = number.parse::<f64>().unwrap_or(0.0) * factor;
    if rate > 0.0 {
        Ok(rate)
    } else {
        Err(format!("'{text}' is not a rate: write bits a second, as in 200M or 100G"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nccl_tests_are_accepted() {
        let names = "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16";
        let types: Vec<_> = names.split(' ').map(|name| dtype(name).unwrap().name()).collect();
        assert_eq!(types, ["i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16"]);
        assert_eq!(dtype("u16"), Ok(DType::U16));
        assert!(dtype("none").is_err() && dtype("f8").is_err());
        assert_eq!(reduction("prod"), Ok(ReduceOp::Product));
        assert!(reduction("median").is_err());
        assert_eq!((rate("200M"), rate("1.5G")), (Ok(2e8), Ok(1.5e9)));
        assert!(rate("fast").is_err() && rate("0").is_err() && rate("-1").is_err());
    }
}
