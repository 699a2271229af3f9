//! `netfold testbed paths`.

use std::time::Duration;

use clap::Args;
use netfold_control::{Multipath, PathPolicy};
use netfold_lab::paths::{Balance, PathsConfig, PathsRig, PortChoice, SlowSpine};
use serde::Serialize;

use super::outcome::conclude;
use crate::error::CliError;
use crate::lifetime;
use crate::output::Output;
use crate::size::{Bits, Bytes};

/// Most that the most loaded spine may have over the mean with several ports.
const IMBALANCE_MAX: f64 = 1.15;

/// Most that it may have with ports that spread exactly.
const EXACT_IMBALANCE_MAX: f64 = 1.02;

const EXAMPLES: &str = "\
Examples, as root:
  netfold testbed paths                         8 leaves, 4 spines, 16 ports a worker: a minute
  netfold testbed paths --policies weighted,fixed --spines 8 --paths 64
  netfold testbed paths --rate 200M --seconds 10";

/// Measure how evenly workers with several UDP ports use the spines of a fabric, and how they avoid one that becomes slow.
///
/// Each worker's host and the switch's are at leaves of their own; leaves spread flows over all spines as the kernel does, by a hash of
/// addresses and ports (ECMP). Jobs run one after the other: with one port a worker, then with several under each policy, with those of several that spread exactly (where the kernel takes a seed of its hash, from Linux 6.11 on), and then with a spine whose links
/// get a tenth of their rate. If, with weights, the most loaded spine passes more than 1.15 times the mean, or 1.02 times with exact ports, a slow spine has more than
/// twice its part of the rates after a second, or an element is wrong, the exit code is 1. Needs root and iproute2.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Paths {
    /// Workers, each at a leaf of its own.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=8))]
    workers: u16,
    /// Spines.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=8))]
    spines: u8,
    /// UDP ports of each worker, a power of two.
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = udp_ports)]
    paths: u8,
    /// Policies to measure, separated by commas. Default: all.
    #[arg(long, value_name = "POLICY", value_delimiter = ',', value_parser = crate::command::multipath::policy)]
    policies: Vec<PathPolicy>,
    /// Rate of each link between a leaf and a spine, in bits a second.
    #[arg(long, value_name = "RATE", default_value = "100M")]
    rate: Bits,
    /// Slots of each job, a power of two.
    #[arg(long, default_value_t = 64)]
    slots: u32,
    /// Tensor bytes of each all-reduce.
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    bytes: Bytes,
    /// Seconds for which each job is observed; three times as many with exact ports, whose bound is the narrowest.
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
}

fn udp_ports(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|number| *number > 1 && Multipath::is_valid(*number));
    number.ok_or_else(|| "give a power of two from 2 to 64".to_owned())
}

#[derive(Debug, Serialize)]
struct Event<'a, T> {
    event: &'static str,
    right: bool,
    #[serde(flatten)]
    row: &'a T,
}

impl Paths {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        let program = crate::command::own_program()?;
        super::check_link(self.slots, self.rate)?;
        let failed = |error| CliError::testbed("the fabric with several paths", error);
        lifetime::before_exit_on_signal(netfold_lab::paths::abandon)?;
        let bar = output.bar(0, "{spinner} {msg}");
        bar.set_message("namespaces");
        let config = PathsConfig {
            program,
            workers: self.workers,
            spines: self.spines,
            rate_bps: self.rate.0 as f64,
            udp_ports: self.paths,
            slots: self.slots,
            bytes: self.bytes.0,
            observed: Duration::from_secs(self.seconds),
        };
        let rig = PathsRig::build(config).map_err(failed)?;
        bar.suspend(|| self.announce(output))?;
        let policies = if self.policies.is_empty() { PathPolicy::ALL } else { &self.policies };
        let mut problems = Vec::new();
        let mut single = None;
        let exact = rig.equal_paths().map(|_| PortChoice::Exact);
        let choices = policies.iter().copied().map(PortChoice::Policy);
        for choice in std::iter::once(PortChoice::One).chain(choices).chain(exact) {
            bar.set_message(choice.name());
            let row = rig.balance(choice).map_err(failed)?;
            let base = *single.get_or_insert(row.rate);
            problems.extend(problems_of_balance(&row));
            bar.suspend(|| show_balance(output, &row, base))?;
        }
        bar.suspend(|| {
            output.line(format_args!(
                "\n{:<10}{:>14}{:>14}{:>14}{:>12}{:>12}{:>8}",
                "spine 1", "share before", "after 1 s", "of the rates", "lost after", "rate kept", "#wrong"
            ))
        })?;
        for policy in policies {
            bar.set_message(format!("{}, a slow spine", policy.name()));
            let row = rig.slow_spine(*policy).map_err(failed)?;
            problems.extend(problems_of_slow_spine(&row));
            bar.suspend(|| show_slow_spine(output, &row))?;
        }
        bar.finish_and_clear();
        conclude(output, &problems)
    }

    fn announce(&self, output: &Output) -> Result<(), CliError> {
        output.line(format_args!(
            "{} workers and a switch at leaves of their own, {} spines, links of {:.0} Mbit/s; all-reduces of {} bytes of i32, {} slots.\n",
            self.workers,
            self.spines,
            self.rate.0 as f64 / 1e6,
            self.bytes.0,
            self.slots
        ))?;
        output.line(format_args!(
            "{:<10}{:>6}{:>16}{:>14}{:>10}{:>10}{:>8}  MB by spine",
            "policy", "ports", "max over mean", "all-reduces", "MB/s", "ratio", "#wrong"
        ))
    }
}

fn name_of(row: &Balance) -> &'static str {
    match row.policy {
        _ if row.exact => PortChoice::Exact.name(),
        Some(policy) => policy.name(),
        None => "one port",
    }
}

fn problems_of_balance(row: &Balance) -> Option<String> {
    let policy = name_of(row);
    if row.wrong > 0 {
        return Some(format!("{policy}: {} elements wrong", row.wrong));
    }
    let most = match row.policy {
        _ if row.exact => EXACT_IMBALANCE_MAX,
        Some(PathPolicy::Weighted) => IMBALANCE_MAX,
        _ => return None,
    };
    (row.imbalance > most).then(|| {
        format!(
            "{policy}: the most loaded spine passes {:.3} times the mean, more than {most}",
            row.imbalance
        )
    })
}

fn problems_of_slow_spine(row: &SlowSpine) -> Option<String> {
    let policy = row.policy.name();
    if row.wrong > 0 {
        return Some(format!("{policy}: {} elements wrong with a slow spine", row.wrong));
    }
    let bounded = row.policy == PathPolicy::Weighted && !row.is_lost();
    bounded.then(|| {
        format!(
            "{policy}: the slow spine passes {:.1} % of all bytes after a second",
            row.share_after * 100.0
        )
    })
}

fn show_balance(output: &Output, row: &Balance, single: f64) -> Result<(), CliError> {
    let megabytes: Vec<String> =
        row.spine_bytes.iter().map(|bytes| format!("{:.1}", *bytes as f64 / 1e6)).collect();
    output.line(format_args!(
        "{:<10}{:>6}{:>16.3}{:>14}{:>10.1}{:>10.2}{:>8}  {}",
        name_of(row),
        row.udp_ports,
        row.imbalance,
        row.operations,
        row.rate,
        row.rate / single,
        row.wrong,
        megabytes.join(" ")
    ))?;
    let right = problems_of_balance(row).is_none();
    output.event(&Event { event: "paths_balance", right, row })
}

fn show_slow_spine(output: &Output, row: &SlowSpine) -> Result<(), CliError> {
    let per_cent = |part: f64| format!("{:.1} %", part * 100.0);
    output.line(format_args!(
        "{:<10}{:>14}{:>14}{:>14}{:>12}{:>12.2}{:>8}",
        row.policy.name(),
        per_cent(row.share_before),
        per_cent(row.share_after),
        per_cent(row.capacity),
        row.lost_after_ms.map_or("-".to_owned(), |ms| format!("{ms} ms")),
        row.rate_kept,
        row.wrong
    ))?;
    let right = problems_of_slow_spine(row).is_none();
    output.event(&Event { event: "paths_slow_spine", right, row })
}
