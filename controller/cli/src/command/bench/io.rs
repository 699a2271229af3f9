//! `netfold bench io`.

use std::time::Duration;

use clap::Args;
use netfold_measure::io::{Backend, IoBenchError, IoConfig, all, named, run};

use super::Tagged;
use crate::error::CliError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  netfold bench io                                UDP sockets on the loopback interface
  netfold bench io --io packet-ring --io udp-veth
  netfold bench io --threads 2                     two packet threads
  netfold bench io --authenticated                 what tags cost a switch
  netfold bench io --all --json                   every back end that can run here";

/// Measure the packet I/O of the software switch, and compare with a plain forwarder on the same device.
///
/// Eight workers send chunks of 1408 bytes from one core; the switch, and in turn a forwarder that returns every packet unread,
/// acknowledges them from another. Devices of DPDK are also compared with `dpdk-testpmd`, if it is installed. Back ends below IP run on
/// a pair of virtual interfaces in a temporary network namespace, which needs root; back ends that cannot run here are skipped with
/// the reason.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Io {
    /// A back end to measure; may be given several times.
    #[arg(long = "io", value_name = "NAME", default_values_t = [String::from("udp")], value_parser = known)]
    names: Vec<String>,
    /// Measure every back end of this program.
    #[arg(long)]
    all: bool,
    /// Packet threads, each with its own device and eight workers; their packets are added.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    threads: u8,
    /// Measure each back end with a job of authenticated packets, too; `udp` and `shm` only.
    #[arg(long)]
    authenticated: bool,
    /// Turns of switch and forwarder each; medians are reported.
    #[arg(long, default_value_t = IoConfig::default().rounds, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Length of a turn in milliseconds.
    #[arg(long, default_value_t = IoConfig::default().turn.as_millis() as u64, value_parser = clap::value_parser!(u64).range(1..))]
    turn_ms: u64,
    /// Window of each worker in chunks, a power of two.
    #[arg(long, default_value_t = IoConfig::default().window, value_parser = window)]
    window: u32,
}

fn known(name: &str) -> Result<String, String> {
    if named(name).is_some() {
        return Ok(name.to_owned());
    }
    let names: Vec<_> = all().iter().map(Backend::name).collect();
    let built = if names.iter().any(|name| name.starts_with("dpdk")) {
        ""
    } else {
        "; those of DPDK are built with `--features dpdk`"
    };
    Err(format!("the back ends are {}{built}", names.join(", ")))
}

fn window(text: &str) -> Result<u32, String> {
    let window =
        text.parse().ok().filter(|window: &u32| window.is_power_of_two() && (2..=1024).contains(window));
    window.ok_or_else(|| "a power of two from 2 to 1024".to_owned())
}

impl Io {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        let backends: Vec<&Backend> = if self.all {
            all().iter().collect()
        } else {
            self.names.iter().filter_map(|name| named(name)).collect()
        };
        let config = IoConfig {
            rounds: self.rounds,
            turn: Duration::from_millis(self.turn_ms),
            window: self.window,
            queues: self.threads.into(),
            authenticated: false,
            ..IoConfig::default()
        };
        output.line(format_args!(
            "{:<20}{:>8}{:>14}{:>17}{:>12}{:>8}{:>7}{:>15}{:>10}{:>7}{:>8}{:>17}",
            "back end",
            "Mpps",
            "cycles/packet",
            "forwarder Mpps",
            "ratio",
            "cycles",
            "busy",
            "calls/packet",
            "copies/B",
            "busy",
            "retransm.",
            "testpmd Mpps"
        ))?;
        for backend in backends {
            for authenticated in [false, true] {
                if !authenticated || self.authenticated {
                    measure(&IoConfig { authenticated, ..config.clone() }, backend, output)?;
                }
            }
        }
        Ok(())
    }
}

/// Measures a back end and prints its line, or why it is skipped.
fn measure(config: &IoConfig, backend: &Backend, output: &Output) -> Result<(), CliError> {
    let bar = output.bar(u64::from(config.rounds), "{spinner} rounds {pos}/{len}");
    let row = run(config, backend, |round| bar.set_position(u64::from(round)));
    bar.finish_and_clear();
    let row = match row {
        Ok(row) => row,
        Err(IoBenchError::Absent(why)) => {
            return output.line(format_args!("skipped: {}: {why}", backend.name()));
        }
        Err(error) => return Err(CliError::IoBench(Box::new(error))),
    };
    output.event(&Tagged { event: "io", row: &row })?;
    output.line(format_args!(
        "{:<20}{:>8.3}{:>14.0}{:>17.3}{:>11.1}%{:>8.0}{:>7.2}{:>15.3}{:>10}{:>7.2}{:>8}{:>17}",
        format!("{}{}", row.io, if row.authenticated { ", tags" } else { "" }),
        row.mpps,
        row.cycles_per_packet,
        row.forwarder_mpps,
        100.0 * row.ratio_to_forwarder,
        row.forwarder_cycles_per_packet,
        row.forwarder_busy,
        row.syscalls_per_packet,
        row.copies_per_byte,
        row.busy,
        row.retransmitted,
        row.testpmd_mpps.map_or_else(|| "-".into(), |mpps| format!("{mpps:.3}")),
    ))?;
    if let Some(why) = &row.testpmd_absent {
        output.line(format_args!("no dpdk-testpmd for {}: {why}", row.io))?;
    }
    Ok(())
}
