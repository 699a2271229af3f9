//! The table entries by which a controller admits a job at a switch.

use netfold_wire::{Kind, LaneOwner, Reason, WORLD_MAX};

use super::id;
use crate::entry::{FieldMatch, TableEntry};
use crate::p4info;

/// A job's configuration at one switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Job number: the same at every switch of the job's tree.
    pub job: u16,
    /// Epoch of the membership.
    pub epoch: u32,
    /// Job key.
    pub key: u32,
    /// First slot of the job's range, a multiple of `slots`.
    pub base: u32,
    /// Slots of the job, a power of two: the same at every switch of the tree.
    pub slots: u32,
    /// Children that take part, 1 to 32.
    pub children: u8,
    /// Workers below this switch.
    pub workers: u16,
    /// Workers of the whole job; at the root the same as `workers`.
    pub world: u16,
    /// Multicast group of the children.
    pub group: u16,
    /// The parent; none at the root.
    pub parent: Option<Parent>,
    /// Bits by which this switch shifts its sums right, only in programs with wide numerics. At least the logarithm to base 2
    /// of its children, equal at every switch of a level.
    pub shift: Option<u8>,
    /// Whether the program is one for bounded loss.
    pub bounded_loss: bool,
    /// Whether the program is one with owners.
    pub owners: bool,
}

/// The parent of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Port of its packets.
    pub port: u16,
    /// IPv4 source address of its packets; 0 matches any, as for a [`Child`].
    pub source: u32,
    /// Multicast group of one copy, to the parent.
    pub group: u16,
    /// This switch's bit in the parent's contributor bitmap, below 32.
    pub rank: u8,
}

/// A child of a switch: a worker or another switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// Port of its packets.
    pub port: u16,
    /// IPv4 source address of its packets; 0 matches any and is required where the pipeline does not see it.
    pub source: u32,
    /// Its bit in the contributor bitmap, below 32: each child of the node once.
    pub rank: u8,
    /// The members behind it; `None` if it receives the lanes of all results. Only in programs with owners.
    pub behind: Option<Behind>,
}

/// The members behind a child: a worker, or those below a switch. The child receives the lanes of results that one of them owns, and of those
/// that all do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// Replica instance of the child's copies, 1 or more.
    pub instance: u16,
    /// The lowest rank.
    pub first: u16,
    /// The highest rank. Ranks between the two may be behind other children: then lanes come to this child in vain.
    pub last: u16,
}

impl Behind {
    /// As packets name them: the range, without the instance.
    const fn range(self) -> [u16; 2] {
        [LaneOwner::Rank(self.first).to_wire(), LaneOwner::Rank(self.last).to_wire()]
    }
}

/// An address that the switch writes into the outer headers of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Ethernet address, in the low 48 bits.
    pub mac: u64,
    /// IPv4 address.
    pub ip: u32,
    /// UDP port.
    pub port: u16,
}

impl Node {
    /// The contributor bitmap of a complete sum at this switch.
    pub const fn full(&self) -> u32 {
        if self.children >= 32 { u32::MAX } else { (1 << self.children) - 1 }
    }

    /// The matches of an admitted packet, without the sender: slots outside the range are masked out.
    fn slot(&self) -> Option<FieldMatch> {
        let outside = u64::from(!(self.slots - 1)) & 0x7fff;
        (outside != 0).then_some(FieldMatch { field: id::key::SLOT, value: 0, mask: outside })
    }
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

/// Matches of one sender's packets of a job, in ascending order of specificity.
struct Sender {
    from: Vec<FieldMatch>,
    kind: FieldMatch,
    key: FieldMatch,
    epoch: FieldMatch,
}

impl Sender {
    fn new(node: &Node, port: u16, source: u32, kind: Kind) -> Self {
        let mut from = vec![field(id::key::PORT, u64::from(port), 16)];
        if source != 0 {
            from.push(field(id::key::SOURCE, u64::from(source), 32));
        }
        from.push(field(id::key::JOB, u64::from(node.job), 16));
        Self {
            from,
            kind: field(id::key::KIND, kind as u64, 4),
            key: field(id::key::KEY, u64::from(node.key), 32),
            epoch: field(id::key::EPOCH, u64::from(node.epoch), 32),
        }
    }

    fn with(&self, more: &[FieldMatch]) -> Vec<FieldMatch> {
        self.from.iter().chain(more).copied().collect()
    }

    /// The entry that admits.
    fn right(&self, node: &Node, (action, params): (u32, Vec<u64>)) -> TableEntry {
        let right: Vec<_> = [self.kind, self.key, self.epoch].into_iter().chain(node.slot()).collect();
        entry(self.with(&right), 60, action, params)
    }

    /// One entry that admits, and those that give the reason when a packet from this sender is refused, in descending order
    /// of specificity.
    fn entries(&self, node: &Node, admit: (u32, Vec<u64>), wrong: u32) -> Vec<TableEntry> {
        let Self { kind, key, epoch, .. } = self;
        let with = |more: &[FieldMatch]| self.with(more);
        let slot = node.slot();
        let mut entries = vec![self.right(node, admit)];
        if slot.is_some() {
            entries.push(entry(with(&[*kind, *key, *epoch]), 50, wrong, vec![Reason::Slot as u64]));
        }
        entries.push(entry(with(&[*kind, *key]), 40, wrong, vec![Reason::Epoch as u64]));
        entries.push(entry(with(&[*kind]), 30, id::DENY, vec![Reason::Key as u64]));
        entries.push(entry(with(&[]), 20, id::DENY, vec![Reason::Kind as u64]));
        entries
    }
}

/// The entries of one child: one that admits its data and four that give the reason when a packet from its port and
/// address is refused; in a program for bounded loss, one more that admits its CLOSE; in a program with owners, one for its copies of results.
pub fn job_entries(node: &Node, child: &Child) -> Vec<TableEntry> {
    let bit = 1u32 << (child.rank & 31);
    let sender = Sender::new(node, child.port, child.source, Kind::Data);
    let admit = |bits, others| admission(node, child, bits, others);
    let mut entries = sender.entries(node, admit(bit, node.full() & !bit), id::REFUSE);
    if node.bounded_loss {
        let close = Sender::new(node, child.port, child.source, Kind::Close);
        entries.push(close.right(node, admit(node.full(), node.full())));
    }
    entries.extend(child.behind.filter(|_| node.owners).map(receiver_entry));
    entries
}

/// The entries of one child of a best-effort job, at a switch whose slots jobs share; `node` has a parent, the aggregator. Like [`job_entries`].
pub fn shared_job_entries(node: &Node, child: &Child) -> Vec<TableEntry> {
    let bit = 1u32 << (child.rank & 31);
    let up = node.parent.map_or(0, |parent| parent.group);
    let mut params = common_params(node);
    params.splice(1..1, [u64::from(bit), u64::from(node.full() & !bit)]);
    // The job's bit in the register of turns, and the bit of chunk numbers that tells chunks of a slot and set apart that follow each other.
    let (mark, turn) = (1u64 << (node.job % 32), u64::from(2 * node.slots));
    params.extend([u64::from(up), u64::from(node.workers), mark, turn]);
    let sender = Sender::new(node, child.port, child.source, Kind::Data);
    sender.entries(node, (id::ADMIT_SHARED, params), id::REFUSE)
}

/// The entries that a best-effort job needs once at a switch whose slots jobs share: those that admit the aggregator's RESULTs, and one that
/// refuses packets of the job from other senders as spoofed.
pub fn shared_node_entries(node: &Node) -> Vec<TableEntry> {
    let mut entries = Vec::new();
    if let Some(parent) = node.parent {
        let sender = Sender::new(node, parent.port, parent.source, Kind::Result);
        let mut params = common_params(node);
        params.insert(1, node.full().into());
        entries = sender.entries(node, (id::ADMIT_DOWN, params), id::DENY);
    }
    entries.push(spoofed_entry(node));
    entries
}

/// The entries of a best-effort job at an aggregator, all of whose packets but the parent's come from one switch, `below`. The node's children are those of that switch, and its multicast
/// group is one copy, to it. It is the root, or has a parent as any switch.
pub fn aggregator_entries(node: &Node, below: &Child) -> Vec<TableEntry> {
    let sender = Sender::new(node, below.port, below.source, Kind::Data);
    let mut params = common_params(node);
    params.insert(1, node.full().into());
    let mut action = id::ADMIT_NAMED;
    if let Some(parent) = node.parent {
        params.extend([u64::from(parent.group), u64::from(node.workers)]);
        action = id::ADMIT_NAMED_BELOW;
    }
    let mut entries = sender.entries(node, (action, params), id::DENY);
    entries.extend(node_entries(node));
    entries
}

/// Parameters that the actions of best-effort jobs have in common: the first register index, and the results' count and group.
fn common_params(node: &Node) -> Vec<u64> {
    vec![u64::from(node.base) * 2, node.world.into(), node.group.into()]
}

/// The entry that refuses packets of the job from senders that no other entry names.
fn spoofed_entry(node: &Node) -> TableEntry {
    let job = vec![field(id::key::JOB, u64::from(node.job), 16)];
    entry(job, 10, id::DENY, vec![Reason::Spoofed as u64])
}

/// The entry by which copies with this instance lose the lanes of results that belong to other members.
fn receiver_entry(behind: Behind) -> TableEntry {
    TableEntry {
        table: p4info::table_id(id::RECEIVER),
        matches: vec![field(1, behind.instance.into(), 16)],
        priority: 0,
        action: p4info::action_id(id::MEMBERS),
        params: behind.range().map(u64::from).to_vec(),
    }
}

/// The entry of a child whose address is not validated yet: it replies to the child's DATA with a REJECT for [`Reason::Path`], which
/// carries `token` and is never longer than the packet that it replies to. Nothing else of the child is replied to.
pub fn challenge_entry(node: &Node, child: &Child, token: u64) -> TableEntry {
    let Sender { from, kind, key, epoch } = Sender::new(node, child.port, child.source, Kind::Data);
    let matches = from.into_iter().chain([kind, key, epoch]).collect();
    entry(matches, 60, id::CHALLENGE, vec![token >> 32, token & u64::from(u32::MAX)])
}

/// The action that admits a packet of `child` for the children `bits`. It completes a slot that has received `others` before.
fn admission(node: &Node, child: &Child, bits: u32, others: u32) -> (u32, Vec<u64>) {
    let mut params =
        vec![u64::from(node.base) * 2, bits.into(), others.into(), node.world.into(), node.group.into()];
    let action = match node.parent {
        Some(parent) => {
            params.extend([u64::from(parent.group), u64::from(node.workers)]);
            id::ADMIT_BELOW
        }
        None => id::ADMIT,
    };
    params.extend(node.shift.map(u64::from));
    if node.owners {
        let range = child.behind.map_or([1, WORLD_MAX], Behind::range);
        params.extend(range.map(u64::from));
    }
    (action, params)
}

/// The entries that a job needs once at a switch, independent of its children: those that admit the parent's RESULTs, if there
/// is a parent, and one that refuses packets of the job from other senders as spoofed.
pub fn node_entries(node: &Node) -> Vec<TableEntry> {
    let mut entries = Vec::new();
    if let Some(parent) = node.parent {
        let sender = Sender::new(node, parent.port, parent.source, Kind::Result);
        let mut params =
            vec![u64::from(node.base) * 2, node.full().into(), node.world.into(), node.group.into()];
        params.extend(node.bounded_loss.then(|| 1u64 << (parent.rank & 31)));
        entries = sender.entries(node, (id::ADMIT_RESULT, params), id::DENY);
    }
    entries.push(spoofed_entry(node));
    entries
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

/// The entry by which copies with this replica instance, 1 or more, are addressed; only in programs that see the outer
/// headers. Every child of every node, and every parent, has a separate instance at a switch.
pub fn child_entry(instance: u16, to: Address, from: Address) -> TableEntry {
    let address = |address: Address| [address.mac, address.ip.into(), address.port.into()];
    TableEntry {
        table: p4info::table_id(id::CHILD),
        matches: vec![field(1, instance.into(), 16)],
        priority: 0,
        action: p4info::action_id(id::REWRITE),
        params: address(to).into_iter().chain(address(from)).collect(),
    }
}
