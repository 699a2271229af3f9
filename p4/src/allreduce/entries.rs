//! The table entries by which a controller admits a job.

use netfold_wire::{Kind, Reason};

use super::id;
use crate::entry::{FieldMatch, TableEntry};
use crate::p4info;

/// A worker of a job, as a switch must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Ingress port of its packets.
    pub port: u16,
    /// IPv4 source address of its packets; 0 matches any and is the only choice where the pipeline does not see it.
    pub source: u32,
    /// Rank: the bit in the contributor bitmap, below 32.
    pub rank: u8,
    /// Job number.
    pub job: u16,
    /// Epoch of the membership.
    pub epoch: u32,
    /// Job key.
    pub key: u32,
    /// First slot of the job's range, a multiple of `slots`.
    pub base: u32,
    /// Slots of the job, a power of two.
    pub slots: u32,
    /// Number of workers, 1 to 32.
    pub world: u16,
    /// Multicast group of the job's results.
    pub group: u16,
}

fn field(field: u32, value: u64, bits: u32) -> FieldMatch {
    FieldMatch { field, value, mask: (1 << bits) - 1 }
}

fn entry(matches: Vec<FieldMatch>, priority: i32, action: u32, params: Vec<u64>) -> TableEntry {
    TableEntry {
        table: p4info::table_id(id::JOB),
        matches,
        priority,
        action: p4info::action_id(action),
        params,
    }
}

/// The entries of one member: one that admits its data and four that name the reason when a packet from its port and
/// address is not quite right. They differ in what they match and rank from the most to the least specific.
pub fn job_entries(member: &Member) -> Vec<TableEntry> {
    let all = if member.world >= 32 { u32::MAX } else { (1u32 << member.world) - 1 };
    let bit = 1u32 << (member.rank & 31);
    let mut sender = vec![field(id::key::PORT, u64::from(member.port), 16)];
    if member.source != 0 {
        sender.push(field(id::key::SOURCE, u64::from(member.source), 32));
    }
    sender.push(field(id::key::JOB, u64::from(member.job), 16));
    let with = |more: &[FieldMatch]| sender.iter().chain(more).copied().collect::<Vec<_>>();
    let kind = field(id::key::KIND, Kind::Data as u64, 4);
    let key = field(id::key::KEY, u64::from(member.key), 32);
    let epoch = field(id::key::EPOCH, u64::from(member.epoch), 32);
    let outside = u64::from(!(member.slots - 1)) & 0x7fff;
    let slot = FieldMatch { field: id::key::SLOT, value: 0, mask: outside };
    let admitted = if outside == 0 { with(&[kind, key, epoch]) } else { with(&[kind, key, epoch, slot]) };
    let base = u64::from(member.base) * 2;
    let admit = vec![base, bit.into(), (all & !bit).into(), member.world.into(), member.group.into()];
    let mut entries = vec![entry(admitted, 60, id::ADMIT, admit)];
    if outside != 0 {
        entries.push(entry(with(&[kind, key, epoch]), 50, id::REFUSE, vec![Reason::Slot as u64]));
    }
    entries.push(entry(with(&[kind, key]), 40, id::REFUSE, vec![Reason::Epoch as u64]));
    entries.push(entry(with(&[kind]), 30, id::DENY, vec![Reason::Key as u64]));
    entries.push(entry(with(&[]), 20, id::DENY, vec![Reason::Kind as u64]));
    entries
}

/// The entries that a job needs once, whatever its members: packets of the job from anywhere else are spoofed.
pub fn job_wide_entries(job: u16) -> Vec<TableEntry> {
    vec![entry(vec![field(id::key::JOB, u64::from(job), 16)], 10, id::DENY, vec![Reason::Spoofed as u64])]
}

/// The entry that lets the controller's `port` send ADVANCE (or PROBE) for absolute slots under job number 0.
pub fn controller_entry(port: u16, kind: Kind) -> TableEntry {
    let matches = vec![
        field(id::key::PORT, u64::from(port), 16),
        field(id::key::KIND, kind as u64, 4),
        field(id::key::JOB, 0, 16),
    ];
    entry(matches, 70, id::CONTROL, vec![0])
}
