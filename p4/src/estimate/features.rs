//! What owners, queues, trimming and forwarding take: tables in ingress and egress, and packets that egress parses whole. The numbers are those that the
//! compiler was measured to use.

use crate::profile::{Numerics, Profile};

/// RAMs of a table of exact keys: four ways of hashing, and entries of a way.
const WAYS: u32 = 4;
const ENTRIES_WAY: u32 = 1024;
/// TCAM blocks, and SRAM blocks of actions, of the tables on depths, signs and classes.
const TRIM: [u32; 2] = [2, 2];
const SIGNS: [u32; 2] = [2, 1];
const QUEUE: [u32; 2] = [1, 1];
/// TCAM blocks that the verdict has in addition where the signs of an owner, or an output port, are among its keys.
const VERDICT_OWNERS: u32 = 1;
const VERDICT_TRANSIT: u32 = 2;

/// Resources of a profile's features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features {
    /// TCAM blocks.
    pub(super) tcam: u32,
    /// SRAM blocks.
    pub(super) sram: u32,
    /// Stages before the registers: in programs for trees and of saturating sums the compiler places the table of addresses behind the job table, otherwise
    /// beside it.
    pub(super) stages: u32,
    /// Stages behind the flag of saturating sums: the table that selects queues.
    pub(super) stages_behind: u32,
    /// Whether egress parses whole packets.
    pub(super) whole: bool,
}

impl Features {
    pub(super) fn of(profile: &Profile) -> Self {
        let exact = |entries: u32| entries.div_ceil(ENTRIES_WAY).max(WAYS);
        let (mut tcam, mut sram) = (0, 0);
        let mut add = |is_used: bool, blocks: [u32; 2]| {
            if is_used {
                tcam += blocks[0];
                sram += blocks[1];
            }
        };
        add(profile.trim_depth > 0, TRIM);
        add(profile.priorities > 1, QUEUE);
        add(profile.owners, SIGNS);
        add(profile.owners, [VERDICT_OWNERS, exact(profile.receiver_table_size())]);
        add(profile.transit > 0, [VERDICT_TRANSIT, exact(profile.transit)]);
        let forwards = profile.transit > 0;
        let stages = u32::from(forwards && (profile.hierarchy || profile.numerics == Numerics::Saturating));
        let stages_behind = u32::from(profile.priorities > 1);
        Self {
            tcam,
            sram,
            stages,
            stages_behind,
            whole: profile.owners || profile.trim_depth > 0 || forwards,
        }
    }
}
