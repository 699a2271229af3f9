//! `netfold testbed leaf-spine`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use netfold::Mode;
use netfold_lab::leaf_spine::{
    self, FabricConfig, FabricReport, Fault, Leaf, Progress, TreePlacement, WorkerConfig,
};
use serde::Serialize;

use crate::error::CliError;
use crate::lifetime;
use crate::output::{Output, Tone};
use crate::size::{Bytes, grouped, human};

const EXAMPLES: &str = "\
Examples, as root:
  netfold testbed leaf-spine                     8 workers, the first spine's process is killed
  netfold testbed leaf-spine --spine 2 --power   the second spine loses power, with all its links
  netfold testbed leaf-spine --workers 4 --bytes 512KiB --operations 5";

/// Kill a spine of a leaf-spine fabric during a job on two trees, and check that the job finishes correctly.
///
/// Two leaves, two spines, a controller and a host for each worker, each in its own network namespace. Switches and workers are
/// processes; the controller reads a topology file only. Every element of every all-reduce is checked on every worker. If an element
/// is wrong, or the job does not return to two trees, the exit code is 1. Needs root and iproute2.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct LeafSpine {
    /// Number of workers; half of them at each leaf.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=32))]
    workers: u16,
    /// Numeric mode: i32 (whose sums must be exact), bfp32 or bfp16.
    #[arg(long, default_value_t = Mode::I32, value_parser = mode)]
    mode: Mode,
    /// Size of each worker's tensor. Tensors below 368KiB use one tree each, in turn.
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    bytes: Bytes,
    /// Slots to request in each tree, a power of two.
    #[arg(long, default_value_t = 128)]
    slots: u32,
    /// All-reduces before the kill, and again once the job has both trees again.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    operations: u32,
    /// The spine that is killed.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    spine: u8,
    /// Also take its links down, so that not even resets come back from it.
    #[arg(long)]
    power: bool,
    /// Seconds that each step may take: to start, to join, to have both trees again.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Seed of the tensors.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// One worker of the fabric's job, in its host's namespace.
#[derive(Debug, Args)]
pub(super) struct LeafSpineWorker {
    #[arg(long)]
    controller: SocketAddr,
    #[arg(long)]
    rendezvous: SocketAddr,
    #[arg(long)]
    bind: IpAddr,
    #[arg(long)]
    rank: u16,
    #[arg(long)]
    world: u16,
    #[arg(long)]
    trees: u8,
    #[arg(long)]
    mode: Mode,
    #[arg(long)]
    elements: usize,
    #[arg(long)]
    slots: u32,
    #[arg(long)]
    payload: u32,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    stall: u64,
}

/// The fabric.
#[derive(Debug, Serialize)]
struct FabricEvent<'a> {
    event: &'static str,
    leaves: &'a [Leaf],
    spines: u8,
    trees: u8,
    workers: u16,
    mode: Mode,
    elements: usize,
    seed: u64,
}

/// The results.
#[derive(Debug, Serialize)]
struct LeafSpineEvent<'a> {
    event: &'static str,
    right: bool,
    wrong: u64,
    #[serde(flatten)]
    report: &'a FabricReport,
}

fn mode(text: &str) -> Result<Mode, String> {
    match text.parse()? {
        mode @ (Mode::I32 | Mode::Bfp32 | Mode::Bfp16) => Ok(mode),
        other => Err(format!(
            "these switches add words, which does not fit mode {other}: choose i32, bfp32 or bfp16"
        )),
    }
}

impl LeafSpine {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        let program = crate::command::own_program()?;
        let elements = usize::try_from(self.bytes.0 / 4).unwrap_or(usize::MAX);
        if elements == 0 || elements > 1 << 28 {
            return Err(CliError::Usage("a tensor has 1 to 2^28 elements: change --bytes".into()));
        }
        if !self.slots.is_power_of_two() || self.slots > leaf_spine::SLOTS {
            let message = format!("--slots {}: a power of two up to {}", self.slots, leaf_spine::SLOTS);
            return Err(CliError::Usage(message));
        }
        let config = FabricConfig {
            workers: self.workers,
            mode: self.mode,
            elements,
            slots: self.slots,
            operations: self.operations,
            seed: self.seed,
            spine: self.spine,
            fault: if self.power { Fault::Power } else { Fault::Kill },
            timeout: Duration::from_secs(self.timeout),
            program,
        };
        lifetime::before_exit_on_signal(leaf_spine::abandon)?;
        let bar = output.bar(0, "{spinner} {msg}");
        bar.set_message("namespaces, switches and a controller");
        let mut announced = Ok(());
        let report = leaf_spine::run(&config, |progress| match progress {
            Progress::Starting => bar.set_message("workers"),
            Progress::Running { leaves } => {
                announced = bar.suspend(|| self.announce(output, &config, &leaves))
            }
            Progress::Killed(spine) => bar.set_message(format!("{spine} is lost")),
            Progress::Done(number) => {
                bar.set_message(format!("{number} all-reduces"));
                bar.tick();
            }
            _ => {}
        });
        bar.finish_and_clear();
        announced?;
        let report = report.map_err(|error| CliError::testbed("the leaf-spine fabric", error))?;
        self.show(output, &report)?;
        match report.problems.len() {
            0 => Ok(()),
            _ => Err(CliError::Fabric { problems: report.problems.join("; ") }),
        }
    }

    fn announce(&self, output: &Output, config: &FabricConfig, leaves: &[Leaf]) -> Result<(), CliError> {
        output.event(&FabricEvent {
            event: "fabric",
            leaves,
            spines: leaf_spine::TREES,
            trees: leaf_spine::TREES,
            workers: config.workers,
            mode: config.mode,
            elements: config.elements,
            seed: config.seed,
        })?;
        for line in picture(leaves) {
            output.line(format_args!("{line}"))?;
        }
        output.line(format_args!(
            "\n4 software switches, a controller and {} workers, each in its own network namespace.\n\
             One job on {} trees: all-reduces of {} ({}), every element checked; seed {}.\n",
            config.workers,
            leaf_spine::TREES,
            human(config.elements as u64 * 4),
            config.mode,
            config.seed
        ))
    }

    fn show(&self, output: &Output, report: &FabricReport) -> Result<(), CliError> {
        let (right, wrong) = (report.problems.is_empty(), report.wrong());
        output.event(&LeafSpineEvent { event: "leaf_spine", right, wrong, report })?;
        let how = if self.power { "killed and cut off" } else { "killed with SIGKILL" };
        output.line(format_args!("{} was {how} during the all-reduces.\n", report.killed))?;
        output.line(format_args!("{:<6}{:<34}after", "tree", "before: root, slots at each"))?;
        for tree in &report.trees {
            let (before, after) = (placement_text(tree.before.as_ref()), placement_text(tree.after.as_ref()));
            output.line(format_args!("{:<6}{before:<34}{after}", tree.tree))?;
        }
        output.line(format_args!(
            "\n{:<22}{:>12}{:>16}{:>9}{:>12}{:>13}",
            "all-reduces", "done", "elements", "#wrong", "median ms", "longest ms"
        ))?;
        let names = ["before the kill", "until both trees again", "over both again"];
        for (name, phase) in names.iter().zip(&report.phases) {
            output.line(format_args!(
                "{name:<22}{:>12}{:>16}{:>9}{:>12.0}{:>13.0}",
                phase.operations,
                grouped(phase.checked),
                grouped(phase.wrong),
                phase.median_s * 1e3,
                phase.longest_s * 1e3
            ))?;
        }
        output.line(format_args!("\nafter the kill"))?;
        let times = &report.times;
        for (time, what) in [
            (times.controller_s, "the controller detected it"),
            (times.went_on_s, "the current all-reduce completed: the job continued with one tree"),
            (times.placed_s, "the lost tree was set up over the other spine"),
            (times.regained_s, "the first all-reduce over both trees again completed"),
        ] {
            let time = time.map_or("never".into(), |time| format!("{time:.2} s"));
            output.line(format_args!("{time:>9}  {what}"))?;
        }
        let checked: u64 = report.phases.iter().map(|phase| phase.checked).sum();
        let verdict =
            if right { output.paint(Tone::Good, "correct") } else { output.paint(Tone::Bad, "not correct") };
        output.line(format_args!(
            "\n{verdict}: {} of {} elements wrong, {} workers left gracefully",
            grouped(wrong),
            grouped(checked),
            self.workers
        ))
    }
}

impl LeafSpineWorker {
    pub(super) fn run(self) -> Result<(), CliError> {
        let config = WorkerConfig {
            controller: self.controller,
            rendezvous: self.rendezvous,
            bind: self.bind,
            rank: self.rank,
            world: self.world,
            trees: self.trees,
            mode: self.mode,
            elements: self.elements,
            slots: self.slots,
            payload_bytes: self.payload,
            seed: self.seed,
            stall: Duration::from_secs(self.stall),
        };
        leaf_spine::work(&config).map_err(|source| CliError::Job { rank: self.rank, source })
    }
}

/// `spine1  0-127, 0-127, 0-127`: the root, and the slots at it and at each leaf.
fn placement_text(place: Option<&TreePlacement>) -> String {
    let Some(place) = place else { return "not placed".into() };
    let slots: Vec<String> = place
        .switches
        .iter()
        .map(|at| format!("{}-{}", at.first, at.first + at.slots.saturating_sub(1)))
        .collect();
    let same = slots.windows(2).all(|two| two[0] == two[1]);
    let slots = if same { slots.first().cloned().unwrap_or_default() } else { slots.join(", ") };
    format!("{}, {slots}", place.root)
}

/// The fabric, drawn.
fn picture(leaves: &[Leaf]) -> Vec<String> {
    let centre = |text: &str| format!("{text:^16}");
    let mut lines = vec![format!("{}  {}", centre("spine1"), centre("spine2"))];
    lines.extend(
        [
            "       |   \\          /   |",
            "       |      \\    /      |",
            "       |        ><        |",
            "       |      /    \\      |",
            "       |   /          \\   |",
        ]
        .map(str::to_owned),
    );
    let names: Vec<String> = leaves.iter().map(|leaf| centre(&leaf.name)).collect();
    let ranks = |leaf: &Leaf| match (leaf.ranks.first(), leaf.ranks.last()) {
        (Some(first), Some(last)) if first != last => format!("ranks {first}-{last}"),
        (Some(first), _) => format!("rank {first}"),
        _ => String::new(),
    };
    let hosts: Vec<String> = leaves.iter().map(|leaf| centre(&ranks(leaf))).collect();
    lines.push(names.join("  "));
    lines.push(hosts.join("  "));
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}
