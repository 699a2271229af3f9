//! `netfold bench star`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use netfold::{DType, ReduceOp};
use netfold_measure::peers::Peers;
use netfold_measure::star::{self, StarCollective, StarConfig, StarError, StarRow, Variants};
use netfold_measure::wake;
use serde::Serialize;

use super::perf::{dtype, rate, reduction};
use super::{Tagged, check_sizes, try_drawing};
use crate::command::switch::payload;
use crate::error::CliError;
use crate::output::{Output, Tone};
use crate::size::{Bytes, human};

const EXAMPLES: &str = "\
Examples:
  netfold bench star                                   4 and 8 hosts, links of 200 Mbit/s, 16 MiB
  netfold bench star --hosts 4 --rate 1G --bytes 64M --svg star.svg
  netfold bench star --unshaped --bytes 64M --mtu 9000 --payload 1408,8192
  netfold bench star --unshaped --bytes 4K --iterations 200 --busy-poll 200
  netfold bench star --collective reduce-scatter,all-gather,broadcast,overlap
  netfold bench star -d i64 -o sum
  netfold bench star --no-peers --authenticated

Needs root, iproute2 and tbf; measures gloo where a Python with torch is (or NETFOLD_TEST_TORCH names one), and Open MPI where mpicc
is. bound is the fraction of the links' bound reached: M/B through a switch, half of that for sums in 16 bits; in a ring 2M(n-1)/(nB) for an
all-reduce and half of that for a reduce-scatter or an all-gather; less the shapers' burst (80 KiB). overlap is a reduce-scatter and an
all-gather at the same time.
speedup is the best peer's time over this one's, of plain the time of the same job without masks, without tags, or
without polling, over this one's.";

/// Measure collectives beside gloo and Open MPI on a star of hosts in network namespaces, with links of a given rate.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Star {
    /// Numbers of hosts, one star after the other.
    #[arg(long, value_delimiter = ',', default_value = "4,8", value_parser = clap::value_parser!(u16).range(2..=32))]
    hosts: Vec<u16>,
    /// What hosts do together: all-reduce, reduce-scatter, all-gather, broadcast or overlap; several, one after the other.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "all-reduce", value_parser = collective)]
    collective: Vec<StarCollective>,
    /// Element type: f32, f16, bf16, f64, i8 to i64, u8 to u64, or nccl-tests' names (float, half, bfloat16, double, int32, ...).
    #[arg(short = 'd', long, value_name = "TYPE", default_value = "f32", value_parser = dtype)]
    datatype: DType,
    /// Reduction: sum, avg, prod, min, max, bit_and, bit_or or bit_xor. Peers are measured with sums of f32.
    #[arg(short = 'o', long, value_name = "OP", default_value = "sum", value_parser = reduction)]
    op: ReduceOp,
    /// Rate of each link in each direction, bits a second.
    #[arg(long, default_value = "200M", value_parser = rate)]
    rate: f64,
    /// Links without a rate limit.
    #[arg(long, conflicts_with = "rate")]
    unshaped: bool,
    /// MTU of each link in bytes, for all systems.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=65535))]
    mtu: u32,
    /// Payloads of Netfold's switch in bytes, as of `netfold switch`.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1408", value_parser = payload)]
    payload: Vec<u32>,
    /// Tensor size of a rank.
    #[arg(long, default_value = "16M")]
    bytes: Bytes,
    /// Rounds, in which all systems take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Timed iterations of a turn.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Iterations of a turn before those.
    #[arg(long, default_value_t = 1)]
    warmup: u32,
    /// Slots that Netfold requests, a power of two: the window in packets.
    #[arg(long, default_value_t = 128)]
    slots: u32,
    /// Measure jobs whose ranks and switch poll for this time before they sleep, too: as Open MPI does between its messages.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    busy_poll: u64,
    /// Measure confidential jobs, too, with the group key in this file (see `netfold group-key`).
    #[arg(long, value_name = "FILE")]
    confidential: Option<PathBuf>,
    /// Measure jobs of authenticated packets, too: a controller admits them by TLS.
    #[arg(long, conflicts_with = "payload")]
    authenticated: bool,
    /// Measure Netfold alone.
    #[arg(long)]
    no_peers: bool,
    /// Draw the result into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// A row and its comparison with the best peer.
#[derive(Serialize)]
struct Compared<'a> {
    #[serde(flatten)]
    row: &'a StarRow,
    median_s: f64,
    min_s: f64,
    max_s: f64,
    against_best_peer: Option<f64>,
    of_plain: Option<f64>,
    /// What it takes to wake a thread of this machine, before and after the star was measured.
    wake_up_s: [f64; 2],
}

impl Star {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        check_sizes(&[self.bytes])?;
        let program = crate::command::own_program()?;
        try_drawing(self.svg.as_deref())?;
        let peers = Peers::find().map_err(|error| CliError::Star(StarError::Peer(error)))?;
        for absent in &peers.absent {
            output.line(format_args!("# not measured: {absent}"))?;
        }
        let mut all = Vec::new();
        let stars =
            self.hosts.iter().flat_map(|hosts| self.collective.iter().map(move |what| (*hosts, *what)));
        for (hosts, collective) in stars {
            let config = StarConfig {
                hosts,
                collective,
                dtype: self.datatype,
                op: self.op,
                rate: (!self.unshaped).then_some(self.rate),
                mtu: self.mtu,
                payloads: self.payload.clone(),
                bytes: self.bytes.0,
                rounds: self.rounds,
                iterations: self.iterations,
                warmup: self.warmup,
                slots: self.slots,
                program: program.clone(),
                peers: !self.no_peers,
                busy_poll: Duration::from_micros(self.busy_poll),
                confidential: self.confidential.clone(),
                authenticated: self.authenticated,
            };
            let variants = Variants {
                confidential: self.confidential.is_some(),
                authenticated: self.authenticated,
                polling: self.busy_poll > 0,
            };
            let mut systems = star::systems(&peers, collective, (self.datatype, self.op), variants);
            systems.retain(|system| config.peers || !system.is_peer());
            let before = wake_up()?;
            let bar = output.bar(1, "{spinner} {msg}");
            let rows = star::measure(&config, &peers, &systems, |turn| {
                bar.set_message(turn.to_owned());
                bar.tick();
            });
            bar.finish_and_clear();
            let rows = rows.map_err(CliError::Star)?;
            self.show(output, &config, &rows, [before, wake_up()?])?;
            all.push((config, rows));
        }
        if let Some(path) = &self.svg {
            let drawn = std::fs::write(path, svg(&all));
            drawn.map_err(|source| CliError::File { path: path.clone(), source })?;
        }
        let wrong: u64 = all.iter().flat_map(|(_, rows)| rows).map(|row| row.wrong).sum();
        if wrong > 0 { Err(CliError::Wrong { wrong }) } else { Ok(()) }
    }

    fn show(
        &self,
        output: &Output,
        config: &StarConfig,
        rows: &[StarRow],
        wake_up_s: [f64; 2],
    ) -> Result<(), CliError> {
        let links = config.rate.map_or("unshaped".into(), |rate| format!("{} Mbit/s", rate / 1e6));
        let heading = format!(
            "{} of {} of {} on {} hosts, links {links}",
            config.what(),
            human(config.bytes),
            config.dtype,
            config.hosts
        );
        output.line(format_args!("\n{}", output.paint(Tone::Strong, &heading)))?;
        output.line(format_args!(
            "{:<30}{:>12}{:>12}{:>12}{:>12}{:>8}{:>9}{:>10}{:>8}{:>9}",
            "system",
            "median ms",
            "min ms",
            "max ms",
            "algbw MB/s",
            "bound",
            "speedup",
            "of plain",
            "#wrong",
            "retransm."
        ))?;
        for row in rows {
            let ((median, min, max), against, of_plain) =
                (row.spread(), against(row, rows), of_plain(row, rows));
            let compared = Compared {
                row,
                median_s: median,
                min_s: min,
                max_s: max,
                against_best_peer: against,
                of_plain,
                wake_up_s,
            };
            output.event(&Tagged { event: "star", row: &compared })?;
            let percent = row.bound_share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0));
            let retransmitted =
                row.retransmitted_share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0));
            let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
            output.line(format_args!(
                "{:<30}{:>12.3}{:>12.3}{:>12.3}{:>12.2}{:>8}{:>9}{:>10}{:>8}{:>9}",
                row.name,
                median * 1e3,
                min * 1e3,
                max * 1e3,
                row.algbw,
                percent,
                ratio(against),
                ratio(of_plain),
                row.wrong,
                retransmitted
            ))?;
        }
        let [before, after] = wake_up_s.map(|seconds| seconds * 1e6);
        output.line(format_args!("# waking a thread took {before:.1} us before, {after:.1} us after"))?;
        Ok(())
    }
}

/// What it takes to wake a thread, in seconds.
fn wake_up() -> Result<f64, CliError> {
    let taken = wake::wake_up().map_err(|source| CliError::Spawn { name: "a thread".into(), source })?;
    Ok(taken.as_secs_f64())
}

/// The best peer's median over this row's.
fn against(row: &StarRow, rows: &[StarRow]) -> Option<f64> {
    let peers = rows.iter().filter(|row| row.system.is_peer()).map(|row| row.spread().0);
    let best = peers.min_by(f64::total_cmp)?;
    (!row.system.is_peer()).then(|| best / row.spread().0)
}

/// The speed of a confidential, authenticated or polling job relative to that of the plain one: the plain one's median over this row's.
fn of_plain(row: &StarRow, rows: &[StarRow]) -> Option<f64> {
    let plain = row.system.plain()?;
    let plain = rows.iter().find(|row| row.system == plain)?;
    Some(plain.spread().0 / row.spread().0)
}

fn collective(text: &str) -> Result<StarCollective, String> {
    let known = StarCollective::ALL.map(StarCollective::name);
    // As `testbed run` has them, too.
    StarCollective::from_name(&text.replace('_', "-"))
        .ok_or_else(|| format!("expected one of {}", known.join(", ")))
}

const WIDTH: f64 = 820.0;
const LABEL: f64 = 210.0;
const BAR: f64 = 20.0;
const GAP: f64 = 6.0;
const HEAD: f64 = 44.0;

/// Bars of algbw, one group per star, with the range of the iterations as a line.
fn svg(stars: &[(StarConfig, Vec<StarRow>)]) -> String {
    let rows: usize = stars.iter().map(|(_, rows)| rows.len()).sum();
    let height = HEAD * stars.len() as f64 + rows as f64 * (BAR + GAP) + 30.0;
    let rate_of = |row: &StarRow, time: f64| row.bytes as f64 / time / 1e6;
    let max =
        stars.iter().flat_map(|(_, rows)| rows).map(|row| rate_of(row, row.spread().1)).fold(1.0, f64::max);
    let scale = (WIDTH - LABEL - 110.0) / max;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut y = 0.0;
    for (config, rows) in stars {
        let links =
            config.rate.map_or("unshaped links".into(), |rate| format!("links of {} Mbit/s", rate / 1e6));
        let _ = writeln!(
            text,
            "<text x=\"10\" y=\"{:.0}\" font-weight=\"bold\">{} of {} of {}, {} hosts, {links}: algbw in MB/s</text>",
            y + 28.0,
            config.what(),
            human(config.bytes),
            config.dtype,
            config.hosts
        );
        y += HEAD;
        for row in rows {
            let (median, min, longest) = row.spread();
            let (width, from, to) =
                (rate_of(row, median) * scale, rate_of(row, longest) * scale, rate_of(row, min) * scale);
            let colour = if row.system.is_peer() { "#9aa5b1" } else { "#2f6fb0" };
            let middle = y + BAR / 2.0;
            let _ = writeln!(
                text,
                "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                 <rect x=\"{LABEL}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\
                 <line x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\" stroke=\"black\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{:.1}</text>",
                LABEL - 8.0,
                middle + 4.0,
                row.name,
                LABEL + from,
                LABEL + to,
                LABEL + width.max(to) + 8.0,
                middle + 4.0,
                row.algbw
            );
            y += BAR + GAP;
        }
    }
    text + "</svg>\n"
}
