//! What a run cannot have at its switches, found before anything is started.

use netfold::quantize::{Lanes, Quantizer};
use netfold::{Collective, Mode, Tolerance};

use super::fabric::Carrier;
use super::layout::layouts;
use super::partial::WORLD_MAX;
use super::{RunConfig, SwitchKind};

/// Why a run cannot have groups, classes or a tolerance, and what can be done.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Some group would have no member.
    #[error(
        "{groups} groups of {workers} workers: choose at most {workers} with --groups, or more --workers"
    )]
    Groups {
        /// Groups.
        groups: u16,
        /// Workers of the job.
        workers: usize,
    },
    /// Each worker has a second end for its group, which this packet I/O has no room for.
    #[error(
        "--groups gives every worker a second socket at its interface, whose packets --io {0} gives to one alone: choose af-packet or packet-ring"
    )]
    GroupSockets(Carrier),
    /// The kernel's program has no queues.
    #[error(
        "--all-classes is for switches with queues, which the program in the kernel does not have: choose --io rings, udp or shm"
    )]
    Queues,
    /// Only sums of floats tolerate.
    #[error(
        "--tolerance is for sums of floats over all ranks: choose --collective all_reduce or reduce_scatter, not {0}"
    )]
    Collective(&'static str),
    /// Results have bits that depend on the order of contributions, or slots are not closed.
    #[error(
        "--tolerance is for modes whose sums are the same in any order and which close slots: choose --mode bfp16 or bfp32, not {0}"
    )]
    Mode(Mode),
    /// Masks would not cancel.
    #[error(
        "--tolerance leaves contributions out, whose masks in a confidential job would not cancel: leave --confidential out"
    )]
    Confidential,
    /// The kernel drops a packet that has to grow.
    #[error(
        "--tolerance is for switches where a CLOSE, which has no lanes, becomes a result with lanes: the kernel gives packets on pairs of virtual interfaces no room for them; choose \
         --io rings, udp or shm"
    )]
    Growth,
    /// Too many sets of contributors.
    #[error(
        "--tolerance compares results with the sums of all sets of contributors: choose at most {WORLD_MAX} --workers, not {0}"
    )]
    Workers(usize),
    /// Slots are closed by another rank at the same switch.
    #[error("{}: ranks at the same switch close the slot of one that is late: choose more --workers, fewer --levels{}",
        Missing(*.group), if .group.is_some() { " or fewer --groups" } else { "" })]
    Alone {
        /// The group; `None` for the job.
        group: Option<usize>,
    },
    /// The tolerance is less than what closing one slot may cost a rank.
    #[error(
        "--tolerance {tolerance} of tensors of {chunks} chunks closes no slot: a closed one counts for 3 chunks or more, so choose a larger --tolerance or more --bytes"
    )]
    Tolerance {
        /// The fraction.
        tolerance: f64,
        /// Chunks of a tensor.
        chunks: usize,
    },
}

/// Who has no such switch.
struct Missing(Option<usize>);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("no switch has two workers"),
            Some(group) => write!(f, "no switch has two workers of group {group}"),
        }
    }
}

/// Refuses what the run cannot have.
pub(super) fn check(config: &RunConfig) -> Result<(), Refusal> {
    let workers = config.shape.workers.len();
    if usize::from(config.groups) > workers {
        return Err(Refusal::Groups { groups: config.groups, workers });
    }
    if config.groups > 0 && matches!(config.carrier, Carrier::AfXdp | Carrier::Dpdk) {
        return Err(Refusal::GroupSockets(config.carrier));
    }
    let kernel = config.switch == SwitchKind::Software && config.carrier == Carrier::XdpKernel;
    if config.classes > 1 && kernel {
        return Err(Refusal::Queues);
    }
    if config.tolerance.any() && kernel {
        return Err(Refusal::Growth);
    }
    if config.tolerance.any() { check_tolerance(config) } else { Ok(()) }
}

fn check_tolerance(config: &RunConfig) -> Result<(), Refusal> {
    if !matches!(config.collective, Collective::AllReduce | Collective::ReduceScatter) {
        return Err(Refusal::Collective(config.collective.name()));
    }
    let lanes = match config.mode {
        Mode::Bfp16 => Lanes::Bfp16,
        Mode::Bfp32 => Lanes::Bfp32,
        mode => return Err(Refusal::Mode(mode)),
    };
    if config.confidential {
        return Err(Refusal::Confidential);
    }
    let workers = config.shape.workers.len();
    if workers > WORLD_MAX {
        return Err(Refusal::Workers(workers));
    }
    for (number, layout) in layouts(config).iter().enumerate() {
        if layout.late_rank().is_none() {
            return Err(Refusal::Alone { group: number.checked_sub(1) });
        }
        let ranks = layout.ends.len();
        let block = Quantizer::new(lanes, ranks as u16).block_elements(config.payload_bytes as usize).max(1);
        let chunks = config.elements_of(ranks).div_ceil(block);
        if chunks * usize::from(config.tolerance.parts) / usize::from(Tolerance::PARTS) < CLOSING {
            return Err(Refusal::Tolerance { tolerance: config.tolerance.as_fraction(), chunks });
        }
    }
    Ok(())
}

/// Chunks that a rank may lack at least, for one slot to be closed: three quarters are for closing, and a closed slot counts twice (docs/bounded-loss.md, rule 10).
const CLOSING: usize = 3;
