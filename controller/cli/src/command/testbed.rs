//! `netfold testbed`: jobs through trees of switches that the command builds.

mod classes;
mod diagnose;
mod experiment;
mod leaf_spine;
mod outcome;
mod paths;
mod rank;
mod schedule;
mod spill;
mod stf;
mod survive;
mod trim;
mod vopr;

use std::time::Duration;

use clap::{Args, Subcommand};
use netfold::{Collective, Extent, Mode, Tolerance};
use netfold_control::CongestionAlgorithm;
use netfold_controller::tree::Shape;
use netfold_io::fault::{FaultConfig, Faults};
use netfold_lab::run::{
    Carrier, Nic, Round, Run, RunConfig, RunError, RunOutcome, SwitchKind, SwitchReport, picture,
};
use netfold_switch::queue::PortConfig;
use serde::Serialize;

use crate::error::CliError;
use crate::lifetime;
use crate::output::{Output, Tone};
use crate::size::{self, Bits, Bytes, grouped, human};

/// Has a controller kill itself at a step of a change, if the environment asks for it.
pub(crate) use netfold_lab::failpoint::count_steps as instrument;

const EXAMPLES: &str = "\
Examples:
  netfold testbed run --levels 2 --workers 8 --loss 0.01    two leaves and a spine, 1 % loss on every link
  netfold testbed run --levels 3 --fan-out 3 --workers 27   9 leaves, 3 spines, one switch on top
  netfold testbed run --switch bmv2 --workers 4 --mode bfp16 --loss 0.01
                                                            the same job through bmv2, compiled by p4c
  netfold testbed run --workers 6 --groups 2 --all-classes --tolerance 0.1
                                                            groups, 16 classes, and slots that CLOSE completes";

/// Build a topology, run a job through it, and check the results.
#[derive(Debug, Args)]
pub(crate) struct Testbed {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Run(RunOptions),
    Stf(stf::Stf),
    Survive(survive::Survive),
    LeafSpine(leaf_spine::LeafSpine),
    Experiment(experiment::Experiment),
    Trim(trim::Trim),
    Vopr(vopr::Vopr),
    Diagnose(diagnose::Diagnose),
    Paths(paths::Paths),
    Schedule(schedule::ScheduleCommand),
    Spill(spill::Spill),
    Classes(classes::Classes),
    #[command(hide = true)]
    Rank(rank::Rank),
    #[command(hide = true)]
    LeafSpineWorker(leaf_spine::LeafSpineWorker),
}

/// Run collectives through a tree of switches and check every element of every worker, bit for bit.
///
/// Workers are threads of this process that use the host library. Faults are on every link, in both directions, including those
/// between switches. If an element is wrong the exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct RunOptions {
    /// Kind of switches: software, interpreter, p4runtime (software, controlled over P4Runtime) or bmv2.
    #[arg(long, default_value_t = SwitchKind::Software)]
    switch: SwitchKind,
    /// What the lowest switches of the tree are, as if each were the network card of a host with several ranks: swx (DPDK's software pipeline,
    /// where DPDK is built in). The others are software switches.
    #[arg(long, value_name = "KIND")]
    nic: Option<Nic>,
    /// Levels of switches, 1 to 3.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    levels: u8,
    /// Children of each switch that is not a leaf.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=32))]
    fan_out: u8,
    /// Number of workers, distributed evenly to the leaves.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// What workers do: all_reduce, reduce, broadcast (root 0), all_gather or reduce_scatter.
    #[arg(long, value_name = "NAME", default_value = "all_reduce", value_parser = collective)]
    collective: Collective,
    /// Numeric mode: bfp16, bfp32 or i32; saturating, wide, half or float at switches with these numerics.
    #[arg(long, default_value_t = Mode::Bfp16)]
    mode: Mode,
    /// Size of each worker's tensor; 1MiB by default, 64KiB with bmv2; with --all-classes, of each class, a quarter of that.
    #[arg(long, value_name = "SIZE", conflicts_with = "elements")]
    bytes: Option<Bytes>,
    /// The same in elements of 4 bytes.
    #[arg(long)]
    elements: Option<u32>,
    /// Operations, one after the other.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Fraction of packets to drop on every link, in each direction.
    #[arg(long, default_value_t = 0.0, value_parser = size::loss)]
    loss: f64,
    /// Faults of every link, in each direction, as in loss=0.01,duplicate=0.01,reorder=0.01,corrupt=0.001,delay=1ms..2ms.
    /// Corrupted packets are dropped, as UDP checksums show it; undetected=0.001 delivers them, and results can be wrong.
    #[arg(long, conflicts_with = "loss", value_parser = faults)]
    faults: Option<Faults>,
    /// Seed of tensors and faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Packet I/O: auto, rings, udp or shm (rings in shared memory between a switch and its workers, udp between switches; all
    /// for software switches; p4runtime: udp), veth or grpc (bmv2); in network namespaces
    /// (software switches, as root) af-packet, packet-ring, af-xdp, dpdk:net_af_packet where DPDK is built in, or xdp-kernel, where the
    /// kernel runs the switches' program.
    #[arg(long, default_value_t = Carrier::Auto)]
    io: Carrier,
    /// Lanes of a packet in bytes; 1408 by default, 256 with bmv2 and --nic swx.
    #[arg(long)]
    payload: Option<u32>,
    /// Slots of the job, a power of two: the window in packets. 256 by default, 16 with bmv2, whose queues are short; with --all-classes, of
    /// each class, 16 and 4. Groups have as many each.
    #[arg(long)]
    slots: Option<u32>,
    /// Timeout of a worker without progress, in seconds.
    #[arg(long, default_value_t = 60)]
    stall: u64,
    /// Rate limit from every switch to its parent, in bits a second, as in 200M; packets in longer queues are marked. Software switches
    /// only.
    #[arg(long, value_name = "RATE")]
    uplink_rate: Option<Bits>,
    /// The workers' congestion-control algorithm: fixed, aimd, dctcp, swift, dcqcn, or mltcp- and one of these but fixed.
    #[arg(long, value_name = "ALGORITHM", default_value = "fixed", value_parser = super::congestion)]
    congestion: CongestionAlgorithm,
    /// Make the job confidential, under a key of its own: switches see masked lanes only. Modes i32, bfp32 and bfp16.
    #[arg(long)]
    confidential: bool,
    /// Authenticate packets: those that are changed or forged are dropped. Software switches only.
    #[arg(long)]
    authenticated: bool,
    /// Process groups of the job: after its operations, ranks with equal number modulo N are a group each, with slots of its own, and run the
    /// same collectives, all groups at once. Not with --io af-xdp and DPDK.
    #[arg(long, value_name = "N", default_value_t = 0)]
    groups: u16,
    /// Run an operation in each of the 16 classes at once, through eight queues of every port. Not with --io xdp-kernel, which has no queues.
    #[arg(long)]
    all_classes: bool,
    /// Fraction of contributions that sums may lack, above 0 and up to 1. One rank holds a contribution to each operation back until the
    /// others have closed its slot without it. Every block must be the rescaled sum of exactly the contributions that the result names. Modes bfp16 and
    /// bfp32, all_reduce and reduce_scatter, up to 16 workers, of which two are at one switch, in each group, too. Not with --io xdp-kernel.
    #[arg(long, value_name = "FRACTION", value_parser = trim::part)]
    tolerance: Option<f64>,
}

/// Classes of operations with `--all-classes`.
const CLASSES: u8 = netfold_wire::CLASSES_MAX;

/// The slowest link, in bits a second.
const RATE_MIN: u64 = 1_000_000;

/// Refuses slots and rates with which an experiment over shaped links does not work.
fn check_link(slots: u32, rate: Bits) -> Result<(), CliError> {
    if !slots.is_power_of_two() {
        return Err(CliError::Usage(format!("--slots {slots}: give a power of two")));
    }
    if rate.0 < RATE_MIN {
        return Err(CliError::Usage("--rate: give 1M or more, in bits a second".into()));
    }
    Ok(())
}

/// The bytes of a tensor's whole elements.
fn whole_elements(bytes: u64) -> Result<u64, CliError> {
    match bytes / 4 * 4 {
        0 => Err(CliError::Usage("--bytes: give 4 or more".into())),
        whole => Ok(whole),
    }
}

fn collective(name: &str) -> Result<Collective, String> {
    let through_switches = |collective: &Collective| collective.info().descriptor_code.is_some();
    // As `bench star` has them, too.
    let named = Collective::from_name(&name.replace('-', "_"), 0).filter(through_switches);
    named
        .filter(|collective| *collective != Collective::Barrier)
        .ok_or_else(|| "expected all_reduce, reduce, broadcast, all_gather or reduce_scatter".to_owned())
}

fn faults(text: &str) -> Result<Faults, String> {
    let config: FaultConfig = text.parse().map_err(|error| format!("{error}"))?;
    if config.rx != config.tx || config.seed != 0 {
        return Err(
            "rx. and tx. have no meaning here, as faults are on both ends of every link; the seed is --seed"
                .into(),
        );
    }
    Ok(config.rx)
}

/// The topology.
#[derive(Debug, Serialize)]
struct Topology<'a> {
    event: &'static str,
    switch: &'a str,
    io: &'a str,
    levels: u8,
    switches: usize,
    workers: u16,
    collective: &'static str,
    mode: Mode,
    elements: usize,
    payload_bytes: u32,
    slots: u32,
    loss: f64,
    seed: u64,
    groups: u16,
    classes: u8,
    tolerance: f64,
}

/// One collective in each class, of the job or of all groups.
#[derive(Debug, Serialize)]
struct RoundEvent {
    event: &'static str,
    iteration: u32,
    time_us: f64,
    operations: u64,
    checked: u64,
    wrong: u64,
}

/// What all iterations came to.
#[derive(Debug, Default, Clone, Copy)]
struct Checked {
    operations: u64,
    checked: u64,
    wrong: u64,
    seconds: f64,
}

/// The results.
#[derive(Debug, Serialize)]
struct Summary {
    event: &'static str,
    operations: u64,
    checked: u64,
    wrong: u64,
    seconds: f64,
    group_operations: u64,
    group_checked: u64,
    group_wrong: u64,
    group_seconds: f64,
    closed: u64,
    partial: u64,
    left_out: u64,
    sent: u64,
    retransmitted: u64,
    results: u64,
    saturated: u64,
    switches: Vec<SwitchSummary>,
}

#[derive(Debug, Serialize)]
struct SwitchSummary {
    node: usize,
    level: usize,
    children: u8,
    results: u64,
    repeated: u64,
    up: u64,
    up_again: u64,
    dropped: std::collections::BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uplink: Option<UplinkSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    received_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_bytes: Option<u64>,
}

/// Counters of the queues to a switch's parent.
#[derive(Debug, Serialize)]
struct UplinkSummary {
    sent: u64,
    marked: u64,
    dropped: u64,
    held_bytes_max: u64,
}

impl Testbed {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        match self.what {
            What::Run(options) => options.run(output),
            What::Stf(stf) => stf.run(output),
            What::Survive(survive) => survive.run(output),
            What::LeafSpine(fabric) => fabric.run(output),
            What::Experiment(experiment) => experiment.run(output),
            What::Vopr(vopr) => vopr.run(output),
            What::Diagnose(diagnose) => diagnose.run(output),
            What::Paths(paths) => paths.run(output),
            What::Schedule(schedule) => schedule.run(output),
            What::Spill(spill) => spill.run(output),
            What::Classes(classes) => classes.run(output),
            What::Rank(rank) => rank.run(),
            What::Trim(trim) => trim.run(output),
            What::LeafSpineWorker(worker) => worker.run(),
        }
    }
}

impl RunOptions {
    fn run(&self, output: &Output) -> Result<(), CliError> {
        let config = self.config()?;
        lifetime::before_exit_on_signal(netfold_lab::run::abandon)?;
        let shape = config.shape.clone();
        let bar = output.bar(self.bar_len(), "{spinner} {msg} {pos}/{len}");
        bar.set_message(format!("starting {} {} switches", shape.above.len(), self.switch));
        let mut run = Run::start(config.clone())?;
        let (carrier, note) = run.carrier();
        output.event(&self.topology(&config, carrier))?;
        let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
        bar.suspend(|| {
            output.line(format_args!(
                "{} switches over {carrier}{note}, {} workers",
                self.switch, self.workers
            ))?;
            output.line(format_args!("{}", picture(&shape, run.plan()).trim_end()))
        })?;
        bar.set_message(format!("{} of {} elements", self.collective, grouped(config.elements as u64)));
        let job = self.rounds(output, "round", || {
            bar.inc(1);
            run.round()
        })?;
        let groups = match self.groups {
            0 => Checked::default(),
            _ => self.rounds(output, "group_round", || {
                bar.inc(1);
                run.group_round()
            })?,
        };
        bar.finish_and_clear();
        let outcome = run.finish()?;
        self.show(output, &outcome, job, groups)?;
        verdict(job.wrong + groups.wrong, self.undetected())
    }

    /// Rounds of the job and of groups.
    fn bar_len(&self) -> u64 {
        u64::from(self.iterations) * if self.groups > 0 { 2 } else { 1 }
    }

    fn topology<'a>(&'a self, config: &RunConfig, carrier: Carrier) -> Topology<'a> {
        Topology {
            event: "topology",
            switch: self.switch.name(),
            io: carrier.name(),
            levels: self.levels,
            switches: config.shape.above.len(),
            workers: self.workers,
            collective: self.collective.name(),
            mode: self.mode,
            elements: config.elements,
            payload_bytes: config.payload_bytes,
            slots: config.slots,
            loss: config.faults.loss,
            seed: self.seed,
            groups: self.groups,
            classes: config.classes,
            tolerance: config.tolerance.as_fraction(),
        }
    }

    /// All iterations of the job, or of its groups.
    fn rounds(
        &self,
        output: &Output,
        event: &'static str,
        mut run: impl FnMut() -> Result<Round, RunError>,
    ) -> Result<Checked, CliError> {
        let mut all = Checked::default();
        for iteration in 1..=self.iterations {
            let Round { operations, elapsed, checked, wrong } = run()?;
            all.operations += operations;
            all.checked += checked;
            all.wrong += wrong;
            all.seconds += elapsed.as_secs_f64();
            let time_us = elapsed.as_secs_f64() * 1e6;
            output.event(&RoundEvent { event, iteration, time_us, operations, checked, wrong })?;
        }
        Ok(all)
    }

    /// Whether packets are delivered corrupted.
    fn undetected(&self) -> bool {
        self.faults.is_some_and(|faults| faults.undetected > 0.0)
    }

    fn config(&self) -> Result<RunConfig, CliError> {
        let bmv2 = self.switch == SwitchKind::Bmv2;
        let part = if self.all_classes { 4 } else { 1 };
        let bytes = self.bytes.map_or(if bmv2 { 64 << 10 } else { 1 << 20 } / part, |bytes| bytes.0);
        let slots = match (bmv2, self.all_classes) {
            (true, true) => 4,
            (true, false) | (false, true) => 16,
            (false, false) => 256,
        };
        let elements =
            self.elements.map_or_else(|| usize::try_from(bytes / 4).unwrap_or(usize::MAX), |n| n as usize);
        let info = self.collective.info();
        let parts = [info.input, info.output].contains(&Extent::CountPerRank);
        let elements = if parts { elements - elements % usize::from(self.workers) } else { elements };
        if elements == 0 || elements > 1 << 30 {
            return Err(CliError::Usage(
                "a tensor has 1 to 2^30 elements, and where each worker has a part of it at least one for each: change --bytes or --elements"
                    .into(),
            ));
        }
        if bmv2 && self.undetected() {
            let message = "links between bmv2 switches cannot corrupt packets undetected: leave `undetected` out of --faults";
            return Err(CliError::Usage(message.into()));
        }
        let shape = Shape::regular(self.levels.into(), self.fan_out.into(), self.workers)
            .map_err(|error| CliError::Usage(format!("{error}: change --workers, --levels or --fan-out")))?;
        Ok(RunConfig {
            switch: self.switch,
            shape,
            collective: self.collective,
            mode: self.mode,
            elements,
            faults: self.faults.unwrap_or(Faults { loss: self.loss, ..Faults::default() }),
            seed: self.seed,
            carrier: self.io,
            payload_bytes: self.payload.unwrap_or(if bmv2 || self.nic.is_some() { 256 } else { 1408 }),
            slots: self.slots.unwrap_or(slots),
            stall_timeout: Duration::from_secs(self.stall.max(1)),
            uplink: self.uplink_rate.map(|Bits(rate)| PortConfig::slow(rate)),
            congestion: self.congestion,
            nic: self.nic,
            confidential: self.confidential,
            authenticated: self.authenticated,
            groups: self.groups,
            classes: if self.all_classes { CLASSES } else { 1 },
            tolerance: self
                .tolerance
                .and_then(Tolerance::fraction)
                .map_or(Tolerance::NONE, Tolerance::with_stragglers),
        })
    }

    fn show(
        &self,
        output: &Output,
        outcome: &RunOutcome,
        job: Checked,
        groups: Checked,
    ) -> Result<(), CliError> {
        output.event(&summary(outcome, job, groups))?;
        show_switches(output, &outcome.switches)?;
        let saturated = match outcome.saturated {
            0 => String::new(),
            results => format!("; {} results were saturated and repeated", grouped(results)),
        };
        output.line(format_args!(
            "\n{} of {} elements checked, {:.3} s; workers sent {} packets, of which {} retransmitted{saturated}",
            painted(output, job.wrong),
            grouped(job.checked),
            job.seconds,
            grouped(outcome.sent),
            grouped(outcome.retransmitted)
        ))?;
        if self.groups > 0 {
            output.line(format_args!(
                "{} groups: {} of {} elements checked in {} operations, {:.3} s",
                self.groups,
                painted(output, groups.wrong),
                grouped(groups.checked),
                grouped(groups.operations),
                groups.seconds
            ))?;
        }
        if self.tolerance.is_some() {
            output.line(format_args!(
                "{} slots closed, {} results that lack contributions, {} contributions left out",
                grouped(outcome.closed),
                grouped(outcome.partial),
                grouped(outcome.left_out)
            ))?;
        }
        Ok(())
    }
}

/// What a run with that many wrong elements ends with, where packets were delivered corrupted or not.
fn verdict(wrong: u64, undetected: bool) -> Result<(), CliError> {
    match (wrong, undetected) {
        (0, _) => Ok(()),
        (_, true) => Err(CliError::Corrupted { wrong }),
        (_, false) => Err(CliError::Wrong { wrong }),
    }
}

/// The number of wrong elements, good or bad.
fn painted(output: &Output, wrong: u64) -> String {
    match wrong {
        0 => output.paint(Tone::Good, "0 wrong"),
        wrong => output.paint(Tone::Bad, &format!("{} wrong", grouped(wrong))),
    }
}

fn summary(outcome: &RunOutcome, job: Checked, groups: Checked) -> Summary {
    Summary {
        event: "testbed_run",
        operations: job.operations,
        checked: job.checked,
        wrong: job.wrong,
        seconds: job.seconds,
        group_operations: groups.operations,
        group_checked: groups.checked,
        group_wrong: groups.wrong,
        group_seconds: groups.seconds,
        closed: outcome.closed,
        partial: outcome.partial,
        left_out: outcome.left_out,
        sent: outcome.sent,
        retransmitted: outcome.retransmitted,
        results: outcome.results,
        saturated: outcome.saturated,
        switches: outcome.switches.iter().map(summarised).collect(),
    }
}

/// The switches' counters.
fn show_switches(output: &Output, switches: &[SwitchReport]) -> Result<(), CliError> {
    output.line(format_args!(
        "\n{:>7}{:>7}{:>10}{:>12}{:>10}{:>12}{:>10}{:>13}{:>12}  dropped",
        "switch", "level", "children", "results", "repeated", "up", "up again", "received MB", "sent MB"
    ))?;
    for switch in switches {
        let dropped: Vec<_> =
            switch.dropped.iter().map(|(reason, n)| format!("{reason} {}", grouped(*n))).collect();
        output.line(format_args!(
            "{:>7}{:>7}{:>10}{:>12}{:>10}{:>12}{:>10}{:>13}{:>12}  {}",
            switch.switch,
            switch.depth + 1,
            switch.children,
            grouped(switch.results),
            grouped(switch.repeated),
            grouped(switch.up),
            grouped(switch.up_again),
            megabytes(switch.bytes.map(|(received, _)| received)),
            megabytes(switch.bytes.map(|(_, sent)| sent)),
            if dropped.is_empty() { "-".into() } else { dropped.join(", ") },
        ))?;
        if let Some(queues) = &switch.uplink {
            output.line(format_args!(
                "        uplink: {} sent, {} marked, {} dropped, at most {} held",
                grouped(queues.sent),
                grouped(queues.marked),
                grouped(queues.dropped),
                human(queues.held_bytes_max),
            ))?;
        }
    }
    Ok(())
}

/// 10^6 bytes, where they are counted.
fn megabytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".into(), |bytes| format!("{:.2}", bytes as f64 / 1e6))
}

fn summarised(report: &SwitchReport) -> SwitchSummary {
    SwitchSummary {
        node: report.switch,
        level: report.depth + 1,
        children: report.children,
        results: report.results,
        repeated: report.repeated,
        up: report.up,
        up_again: report.up_again,
        dropped: report.dropped.iter().copied().collect(),
        uplink: report.uplink.map(|queues| UplinkSummary {
            sent: queues.sent,
            marked: queues.marked,
            dropped: queues.dropped,
            held_bytes_max: queues.held_bytes_max,
        }),
        queues: report.queues,
        received_bytes: report.bytes.map(|(received, _)| received),
        sent_bytes: report.bytes.map(|(_, sent)| sent),
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Payload { .. }
            | RunError::Uplink(_)
            | RunError::Queues(_)
            | RunError::Carrier { .. }
            | RunError::Refused(_)
            | RunError::Profile(_)
            | RunError::Tree(_) => {
                let mut text = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    text = format!("{text}: {cause}");
                    source = cause.source();
                }
                Self::Usage(text)
            }
            RunError::Worker { rank, source } => Self::Job { rank, source },
            error => Self::testbed("the testbed", error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_results_are_a_bug_unless_packets_were_delivered_corrupted() {
        assert!(verdict(0, false).is_ok() && verdict(0, true).is_ok());
        let message = |undetected| verdict(3, undetected).unwrap_err().to_string();
        assert!(message(false).contains("3 elements") && message(false).contains("this is a bug"));
        assert!(message(true).contains("3 elements") && message(true).contains("`undetected` can cause"));
    }
}
