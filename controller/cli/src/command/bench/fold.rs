//! `netfold bench fold`.

use std::time::Duration;

use clap::Args;
use netfold_measure::fold::{FoldBench, FoldRow, run};
use netfold_switch::SimdLevel;
use netfold_wire::LaneOp;

use super::Tagged;
use crate::command::p4::lane_op;
use crate::error::CliError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  netfold bench fold
  netfold bench fold --rounds 2001 --json
  netfold bench fold --simd portable        without AVX2 and AVX-512";

/// Measure the packet rate of the switch's pipeline in cache, and compare with plain loops over the same bytes.
///
/// From received bytes to the packets to send, for every payload. The time of a packet is a fixed cost plus its lanes;
/// the lanes are compared with a plain loop of the same arithmetic: load, swap, convert, add, store.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fold {
    /// Timed rounds of each kind; medians are reported.
    #[arg(long, default_value_t = FoldBench::default().rounds as u32, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Length of a round in microseconds.
    #[arg(long, default_value_t = FoldBench::default().round.as_micros() as u64, value_parser = clap::value_parser!(u64).range(1..))]
    round_us: u64,
    /// SIMD level of the pipeline; by default the best that this processor supports.
    #[arg(long, value_name = "LEVEL", value_parser = simd_level)]
    simd: Option<SimdLevel>,
    /// Lane operation of the packets: sum, min, max, and, or, xor, sum16, min16, max16, sum8, min8 or max8.
    #[arg(long, value_name = "OP", default_value = "sum", value_parser = lane_op)]
    op: LaneOp,
    /// Time bmv2 as well, by its packet stream; needs p4c-bm2-ss and simple_switch_grpc (see p4.org).
    #[cfg(feature = "testbed")]
    #[arg(long)]
    bmv2: bool,
}

impl Fold {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        #[cfg(feature = "testbed")]
        bmv2::check(self.bmv2)?;
        output.line(format_args!(
            "{:>10}{:>12}{:>10}{:>12}{:>10}{:>10}{:>12}{:>12}{:>12}{:>10}{:>18}",
            "payload B",
            "numerics",
            "simd",
            "parses",
            "fixed ns",
            "lanes ns",
            "loop ns",
            "lane ratio",
            "packet ns",
            "Mpps",
            "interpreted Mpps"
        ))?;
        let simd = self.simd.unwrap_or_else(SimdLevel::detect);
        let round = Duration::from_micros(self.round_us);
        let bench = FoldBench { rounds: self.rounds as usize, round, simd, op: self.op };
        let mut shown = Ok(());
        run(&bench, |row| {
            if shown.is_ok() {
                shown = show(output, row);
            }
        })?;
        shown?;
        #[cfg(feature = "testbed")]
        bmv2::show(self.bmv2, output)?;
        Ok(())
    }
}

/// A level by its name, if this processor supports it.
fn simd_level(text: &str) -> Result<SimdLevel, String> {
    let mut available = SimdLevel::available();
    available.find(|level| level.name() == text).ok_or_else(|| {
        let names: Vec<_> = SimdLevel::available().map(SimdLevel::name).collect();
        format!("this processor supports {}", names.join(", "))
    })
}

fn show(output: &Output, row: &FoldRow) -> Result<(), CliError> {
    output.event(&Tagged { event: "fold", row })?;
    output.line(format_args!(
        "{:>10}{:>12}{:>10}{:>12}{:>10.1}{:>10.1}{:>12.1}{:>12.2}{:>12.1}{:>10.2}{:>18.4}",
        row.payload_bytes,
        row.mode,
        row.simd,
        row.encapsulation,
        row.fixed_ns,
        row.lanes_ns,
        row.plain_loop_ns,
        row.lane_ratio,
        row.total_ns,
        row.mpps,
        row.interpreted_mpps
    ))
}

/// The reference switch, which the lab starts and programs.
#[cfg(feature = "testbed")]
mod bmv2 {
    use netfold_lab::bmv2::missing_tool;
    use netfold_lab::differential::bmv2_rate;
    use serde::Serialize;

    use crate::error::CliError;
    use crate::output::Output;

    /// Packets over which bmv2 is timed.
    const PACKETS: usize = 3000;

    /// bmv2's packet rate, with `--json`.
    #[derive(Serialize)]
    struct Rate {
        event: &'static str,
        payload_bytes: u32,
        pps: f64,
    }

    pub(super) fn check(wanted: bool) -> Result<(), CliError> {
        match missing_tool().filter(|_| wanted) {
            Some(tool) => Err(CliError::Usage(format!("--bmv2 needs {tool} on the PATH: see p4.org"))),
            None => Ok(()),
        }
    }

    pub(super) fn show(wanted: bool, output: &Output) -> Result<(), CliError> {
        if !wanted {
            return Ok(());
        }
        let rate = bmv2_rate(PACKETS).map_err(|error| CliError::testbed("bmv2's measurement", error))?;
        let Some(pps) = rate else { return Ok(()) };
        output.event(&Rate { event: "bmv2", payload_bytes: 256, pps })?;
        output.line(format_args!("bmv2, 256 bytes, all its threads: {:.4} Mpps", pps / 1e6))
    }
}
