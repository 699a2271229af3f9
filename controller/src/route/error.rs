//! Why there is no tree.

use std::fmt;

use netfold_control::{Numerics, Refusal};
use netfold_wire::{CHILDREN_MAX, WORLD_MAX};

/// Why a switch can be no part of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// It does not answer.
    #[error("does not answer: check that it is running")]
    Down,
    /// It takes no new jobs.
    #[error("is being drained: wait until it takes jobs again")]
    Draining,
    /// It runs other numerics than the mode needs.
    #[error("folds {found} and the mode needs {need}: use one of the modes {modes}", modes = .found.modes())]
    Numerics {
        /// What it runs.
        found: Numerics,
        /// What the job needs.
        need: Numerics,
    },
    /// Its packets have another length than those of the first worker's switch.
    #[error(
        "has {found} lane words a packet and the switch of rank 0 {need}: give all switches of a tree one profile"
    )]
    LaneWords {
        /// Its lane words.
        found: u32,
        /// Those of the first worker's switch.
        need: u32,
    },
    /// It has too few slots, ports or groups left.
    #[error("has {free} {what} left and the job needs {need}: end another job or request for less")]
    Short {
        /// Of what.
        what: &'static str,
        /// As many as are left; of slots, in the largest range.
        free: usize,
        /// As many as are needed.
        need: usize,
    },
}

/// Why there is no tree for a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// No worker, or too many.
    #[error("{0} workers: a job has 1 to {WORLD_MAX}")]
    Workers(usize),
    /// A switch that the tree cannot do without is unfit for it.
    #[error("switch {switch:?} (of {}) {why}", Ranks(.ranks))]
    Switch {
        /// The switch.
        switch: String,
        /// What is wrong with it.
        why: Unfit,
        /// The workers at it, by rank, or below it.
        ranks: Vec<u16>,
    },
    /// More children at a switch than it can fold.
    #[error(
        "switch {switch:?} would fold {children} children and folds at most {CHILDREN_MAX}: spread the workers over more switches, or put a level of switches in between"
    )]
    FanIn {
        /// The switch.
        switch: String,
        /// The children.
        children: usize,
    },
    /// Two workers at one port of a switch that distinguishes a job's workers by their ports.
    #[error(
        "{} are at port {port} of switch {switch:?}, which distinguishes a job's workers by their ports: let the ranks of a host share memory, or run one rank at each port", Ranks(.ranks)
    )]
    SharedPort {
        /// The switch.
        switch: String,
        /// Its port.
        port: u16,
        /// The workers, by rank.
        ranks: Vec<u16>,
    },
    /// The numerics need all workers at one depth, and they are not.
    #[error(
        "sums are shifted at every level in wide numerics, and below switch {root:?} workers would be at different depths: use another mode, or switches of one kind of place"
    )]
    Depth {
        /// The root that was tried.
        root: String,
    },
    /// No switch is reached from all workers.
    #[error("{}", path(.root.as_deref(), .ranks))]
    Path {
        /// The root that most workers reach; `None` where no switch may be a root.
        root: Option<String>,
        /// The workers that do not reach it, by rank.
        ranks: Vec<u16>,
    },
}

fn path(root: Option<&str>, ranks: &[u16]) -> String {
    match root {
        Some(root) => format!(
            "no tree of switches reaches all workers: of the best root, {root:?}, the links and switches that are up do not lead to {}; check these links",
            Ranks(ranks)
        ),
        None => "the workers are at several switches, and no switch that is up and has room may fold sums of other switches: \
                 add one with the role \"spine\" or \"any\""
            .into(),
    }
}

/// Ranks, in few words.
struct Ranks<'a>(&'a [u16]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        f.write_str(if self.0.len() == 1 { "rank " } else { "ranks " })?;
        for (index, rank) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{rank}", if index == 0 { "" } else { ", " })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl RouteError {
    /// The reason that is sent to workers.
    pub const fn refusal(&self) -> Refusal {
        match self {
            Self::Workers(_) => Refusal::Argument,
            Self::Switch { why: Unfit::Numerics { .. }, .. } => Refusal::Numerics,
            // Both pass, and workers try again.
            Self::Switch { why: Unfit::Down | Unfit::Draining, .. } => Refusal::Unavailable,
            Self::Switch { why: Unfit::Short { what, .. }, .. } => match what.as_bytes() {
                b"slots" => Refusal::Slots,
                _ => Refusal::Busy,
            },
            Self::Switch { why: Unfit::LaneWords { .. }, .. }
            | Self::FanIn { .. }
            | Self::SharedPort { .. }
            | Self::Depth { .. }
            | Self::Path { .. } => Refusal::Path,
        }
    }

    /// Of two reasons against two roots the one that tells more: what is wrong with a tree that reaches all workers, or else the
    /// root that the fewest do not reach.
    pub(super) fn more_specific(one: Option<Self>, other: Self) -> Self {
        let misses = |error: &Self| match error {
            Self::Path { ranks, .. } => ranks.len(),
            _ => 0,
        };
        match one {
            Some(one) if misses(&one) <= misses(&other) => one,
            _ => other,
        }
    }
}
