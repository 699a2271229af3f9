//! `netfold bench groups`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use netfold::{Communicator, Network, ReduceOp};
use netfold_embedded::EmbeddedSwitch;
use netfold_io::vacant_address;
use serde::Serialize;

use super::Tagged;
use crate::command::demo::{ChildEvent, Children};
use crate::command::joining::JoinOptions;
use crate::error::CliError;
use crate::event::{Event, GroupsRank, Held};
use crate::lifetime::{self, Stop};
use crate::output::Output;
use crate::size::{Bytes, human};

/// Name of the job.
const JOB: &str = "netfold bench groups";

/// How long the ranks may print nothing: each prints one event, at its end.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// How long other ranks are given to show that they, and not the first that ended, were killed.
const BLAME_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a rank waits for the threads of groups that it has left.
const LEAVING_TIMEOUT: Duration = Duration::from_secs(20);

const EXAMPLES: &str = "\
Examples:
  netfold bench groups                                   256 groups of 4 over 16 processes, at a switch of this process
  netfold bench groups --controller 127.0.0.1:20041 --tenant red
  netfold bench groups --groups 12 --size 2 --processes 4 --bytes 64K

A group's memory, threads and descriptors are those of one process, without what the job itself has.";

/// Measure process groups: split a job into many, use each, leave them.
///
/// Every process is a rank of one job, which is split until there are as many groups as asked for, each split with other members. All
/// groups exist at the same time, and every element of an all-reduce in each is checked. The exit code is 1 when a result is wrong.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Groups {
    /// Groups in all.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    groups: u32,
    /// Ranks of a group.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    size: u16,
    /// Processes, each a rank.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=32))]
    processes: u16,
    /// Tensor of each group's all-reduce.
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    bytes: Bytes,
    /// Slots that each group asks for, a power of two.
    #[arg(long, default_value_t = 32)]
    slots: u32,
    /// The switch's control port, HOST:PORT; a switch of this process if neither this nor --controller is given.
    #[arg(long, value_name = "ADDR", conflicts_with = "controller")]
    switch: Option<String>,
    #[command(flatten)]
    joining: JoinOptions,
    /// This process's rank.
    #[arg(long, hide = true, requires = "rendezvous")]
    rank: Option<u16>,
    /// Address at which ranks connect to each other.
    #[arg(long, hide = true)]
    rendezvous: Option<SocketAddr>,
    /// Exit when standard input ends, as it does when the process at its other end exits.
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
}

/// What was measured, over all ranks.
#[derive(Debug, Serialize)]
struct GroupsRow {
    groups: u32,
    size: u16,
    processes: u16,
    at_switch: u32,
    wrong: u64,
    split_s: f64,
    split_ms_per_group: f64,
    memory_per_group: u64,
    threads_per_group: f64,
    descriptors_per_group: f64,
    threads_left: u64,
    descriptors_left: u64,
}

impl Groups {
    /// Whether another command started this one.
    pub(super) fn is_child(&self) -> bool {
        self.exit_with_stdin
    }

    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        if self.size > self.processes {
            return Err(CliError::Usage(format!(
                "groups of {} ranks do not fit {} processes: give more --processes, or a smaller --size",
                self.size, self.processes
            )));
        }
        match (self.rank, self.rendezvous) {
            (Some(rank), Some(at)) => {
                if self.exit_with_stdin {
                    lifetime::exit_with_stdin();
                }
                let held = self.take_part(rank, at).map_err(|source| CliError::Job { rank, source })?;
                output.event(&Event::GroupsRank(held))
            }
            _ => self.start_all(output),
        }
    }

    fn start_all(&self, output: &Output) -> Result<(), CliError> {
        let stop = Stop::on_signals()?;
        let own = self.switch.is_none() && self.joining.controller.is_none();
        let switch =
            own.then(|| EmbeddedSwitch::builder().start()).transpose().map_err(CliError::Embedded)?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let rendezvous = vacant_address().map_err(|source| CliError::Listen { address: any, source })?;
        output.print_settings()?;
        let mut children = Children::new();
        for rank in 0..self.processes {
            let mut words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--json").collect();
            words.extend(["--rank".into(), rank.to_string()]);
            words.extend(["--rendezvous".into(), rendezvous.to_string()]);
            if let Some(switch) = &switch {
                words.extend(["--switch".into(), switch.control().to_string()]);
            }
            children.start(format!("rank {rank}"), &words)?;
        }
        let (mut ranks, mut ended) = (Vec::new(), 0);
        while ended < self.processes {
            match children.next(SILENCE_MAX, &stop) {
                Ok(ChildEvent::Event(Event::GroupsRank(rank))) => ranks.push(rank),
                Ok(ChildEvent::Event(_)) => {}
                Ok(ChildEvent::Ended(_)) => ended += 1,
                Err(error) => return Err(blamed(error, &mut children, &stop)),
            }
        }
        show(output, &self.row(&ranks))
    }

    fn row(&self, ranks: &[GroupsRank]) -> GroupsRow {
        let mine: u64 = ranks.iter().map(|rank| u64::from(rank.groups)).sum();
        let per_group = |what: fn(&Held) -> u64| {
            let more = |rank: &GroupsRank| what(&rank.with_groups).saturating_sub(what(&rank.before));
            ranks.iter().map(more).sum::<u64>() as f64 / mine.max(1) as f64
        };
        let left = |what: fn(&Held) -> u64| {
            let more = |rank: &GroupsRank| what(&rank.after).saturating_sub(what(&rank.before));
            ranks.iter().map(more).max().unwrap_or(0)
        };
        let split_s = ranks.iter().map(|rank| rank.split_s).fold(0.0, f64::max);
        let at_switch: u32 = ranks.iter().map(|rank| rank.at_switch).sum();
        GroupsRow {
            groups: self.groups,
            size: self.size,
            processes: self.processes,
            at_switch: at_switch / u32::from(self.size),
            wrong: ranks.iter().map(|rank| rank.wrong).sum(),
            split_s,
            split_ms_per_group: split_s * 1e3 / f64::from(self.groups),
            memory_per_group: per_group(|held| held.memory) as u64,
            threads_per_group: per_group(|held| held.threads),
            descriptors_per_group: per_group(|held| held.descriptors),
            threads_left: left(|held| held.threads),
            descriptors_left: left(|held| held.descriptors),
        }
    }

    /// One rank: splits, uses the groups, leaves them.
    fn take_part(&self, rank: u16, at: SocketAddr) -> Result<GroupsRank, netfold::Error> {
        let builder = Communicator::builder().job(JOB).rank(rank).world_size(self.processes);
        // Groups at the switch are counted at the end: none may give its slots back until then.
        let builder = builder.idle_timeout(Duration::MAX);
        let mut builder = builder.slots(self.slots).shared_memory(false).rendezvous(at)?;
        if let Some(switch) = &self.switch {
            builder = builder.switch(switch.clone())?;
        }
        let comm = self.joining.apply_to_rank(builder, rank)?.connect()?;
        comm.barrier()?;
        let before = Held::now();
        let start = Instant::now();
        let mut groups = Vec::new();
        for split in 0..self.splits() {
            let members = self.members(split, rank);
            let color = members.as_ref().map(|(color, _)| u32::from(*color));
            let key = |members: &[u16]| members.iter().position(|member| *member == rank).unwrap_or(0) as i32;
            let order = members.as_ref().map_or(0, |(_, members)| key(members));
            if let (Some(builder), Some((_, members))) = (comm.split(color, order)?, members) {
                groups.push((builder.connect()?, members));
            }
        }
        comm.barrier()?;
        let split_s = start.elapsed().as_secs_f64();
        let mut wrong = 0;
        for (group, members) in &groups {
            wrong += self.check(group, members, rank)?;
        }
        comm.barrier()?;
        let with_groups = Held::now();
        let at_switch = groups.iter().filter(|(group, _)| at_switch(group)).count() as u32;
        let count = groups.len() as u32;
        for (group, _) in groups {
            group.leave()?;
        }
        comm.barrier()?;
        let after = Held::settled(&before);
        comm.leave()?;
        Ok(GroupsRank { rank, groups: count, at_switch, wrong, split_s, before, with_groups, after })
    }

    /// Groups of one split.
    fn per_split(&self) -> u32 {
        u32::from(self.processes / self.size)
    }

    fn splits(&self) -> u32 {
        self.groups.div_ceil(self.per_split())
    }

    /// The color and the members of a rank's group in a split, in order; other members in each split.
    fn members(&self, split: u32, rank: u16) -> Option<(u16, Vec<u16>)> {
        let place = |rank: u16| {
            let number = (u64::from(split) << 16 | u64::from(rank)).wrapping_add(1);
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93)
        };
        let mut order: Vec<u16> = (0..self.processes).collect();
        order.sort_by_key(|rank| (place(*rank), *rank));
        let groups = (self.groups - split * self.per_split()).min(self.per_split());
        let chunks = order.chunks_exact(usize::from(self.size)).take(groups as usize);
        let mut colored = (0u16..).zip(chunks);
        let (color, members) = colored.find(|(_, members)| members.contains(&rank))?;
        Some((color, members.to_vec()))
    }

    /// The number of wrong elements of an all-reduce.
    fn check(&self, group: &Communicator, members: &[u16], rank: u16) -> Result<u64, netfold::Error> {
        let value = |rank: u16, index: usize| (usize::from(rank) * 3 + index % 101) as f32;
        let count = (self.bytes.0 / 4).max(1) as usize;
        let mut tensor: Vec<f32> = (0..count).map(|index| value(rank, index)).collect();
        group.all_reduce(&mut tensor, ReduceOp::Sum)?;
        let expected = |index| members.iter().map(|member| value(*member, index)).sum::<f32>();
        Ok(tensor.iter().enumerate().filter(|(index, sum)| **sum != expected(*index)).count() as u64)
    }
}

fn at_switch(group: &Communicator) -> bool {
    matches!(group.path().network, Network::Switch { .. })
}

/// The error that explains others best: a rank that was killed ends the others.
fn blamed(error: CliError, children: &mut Children, stop: &Stop) -> CliError {
    let killed =
        |error: &CliError| matches!(error, CliError::ChildDied { status, .. } if status.signal().is_some());
    if killed(&error) || !matches!(error, CliError::ChildDied { .. }) {
        return error;
    }
    let until = Instant::now() + BLAME_TIMEOUT;
    while Instant::now() < until {
        match children.next(until.saturating_duration_since(Instant::now()), stop) {
            Err(other) if killed(&other) => return other,
            Err(CliError::ChildDied { .. }) | Ok(_) => {}
            Err(_) => break,
        }
    }
    error
}

fn show(output: &Output, row: &GroupsRow) -> Result<(), CliError> {
    output.line(format_args!(
        "{:>7}{:>6}{:>11}{:>11}{:>7}{:>9}{:>10}{:>13}{:>15}{:>19}{:>13}{:>17}",
        "groups",
        "size",
        "processes",
        "at switch",
        "wrong",
        "split s",
        "ms/group",
        "memory/group",
        "threads/group",
        "descriptors/group",
        "threads left",
        "descriptors left"
    ))?;
    output.event(&Tagged { event: "groups", row })?;
    output.line(format_args!(
        "{:>7}{:>6}{:>11}{:>11}{:>7}{:>9.2}{:>10.2}{:>13}{:>15.1}{:>19.1}{:>13}{:>17}",
        row.groups,
        row.size,
        row.processes,
        row.at_switch,
        row.wrong,
        row.split_s,
        row.split_ms_per_group,
        human(row.memory_per_group),
        row.threads_per_group,
        row.descriptors_per_group,
        row.threads_left,
        row.descriptors_left
    ))?;
    if row.wrong > 0 { Err(CliError::Wrong { wrong: row.wrong }) } else { Ok(()) }
}

impl Held {
    /// What this process holds now.
    fn now() -> Self {
        let process = Path::new("/proc/self");
        let count =
            |folder: &str| fs::read_dir(process.join(folder)).map_or(0, |entries| entries.count() as u64);
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Self { threads: count("task"), descriptors: count("fd"), memory: kib.unwrap_or(0) * 1024 }
    }

    /// What it holds once it has no more threads and descriptors than `before`, or the time for that has passed.
    fn settled(before: &Self) -> Self {
        let until = Instant::now() + LEAVING_TIMEOUT;
        loop {
            let now = Self::now();
            let settled = now.threads <= before.threads && now.descriptors <= before.descriptors;
            if settled || Instant::now() >= until {
                return now;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
