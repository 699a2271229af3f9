//! Sequences played to pipelines of the software switch.

use std::fmt;
use std::ops::AddAssign;

use netfold_io::{PortId, Received};
use netfold_p4::allreduce;
use netfold_p4::entry::EntryError;
use netfold_p4::p4info;
use netfold_switch::{Pipeline, Send, Verdict};
use netfold_wire::Reason;

use super::sequence::{Arrival, Group, Sequence};

/// A packet that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Port.
    pub port: u16,
    /// The whole packet.
    pub bytes: Vec<u8>,
}

/// A pipeline with its control-plane state set, to be fed packets one by one.
pub struct Player<'s> {
    pipeline: Box<dyn Pipeline>,
    groups: &'s [Group],
    memory: Vec<u8>,
    verdicts: Vec<Verdict>,
}

impl<'s> Player<'s> {
    /// Fills the tables of an empty pipeline.
    ///
    /// # Errors
    ///
    /// The first entry's that the pipeline refuses.
    pub fn new(mut pipeline: Box<dyn Pipeline>, sequence: &'s Sequence) -> Result<Self, EntryError> {
        for entry in &sequence.entries {
            pipeline.insert(entry)?;
        }
        Ok(Self { pipeline, groups: &sequence.groups, memory: Vec::new(), verdicts: Vec::new() })
    }

    /// Feeds one packet and returns what leaves for it, in the order of the group's replicas.
    ///
    /// # Panics
    ///
    /// When the pipeline does not decide about the packet exactly once.
    pub fn feed(&mut self, arrival: &Arrival) -> Vec<Copy> {
        self.memory.clear();
        self.memory.extend_from_slice(&arrival.bytes);
        // Room for lanes that were cut off.
        let lanes = 4 * self.pipeline.info().lane_words as usize;
        self.memory.resize(arrival.bytes.len() + lanes, 0xee);
        self.verdicts.clear();
        let packet =
            Received { port: PortId(arrival.port), offset: 0, len: arrival.bytes.len() as u32, ecn: 0 };
        self.pipeline.burst(&[packet], &mut self.memory, &mut self.verdicts);
        let [verdict] = self.verdicts[..] else { panic!("{} verdicts for a packet", self.verdicts.len()) };
        let sent = &self.memory[..verdict.len as usize];
        let pipeline = &mut self.pipeline;
        let mut copy = |port, instance| {
            let mut bytes = sent.to_vec();
            let len = pipeline.egress(instance, arrival.queue_depth, &mut bytes);
            bytes.truncate(len);
            Copy { port, bytes }
        };
        match verdict.send {
            Send::Drop => Vec::new(),
            Send::Unicast(port) => vec![copy(port, 0)],
            Send::Multicast(id) => {
                let group = self.groups.iter().find(|group| group.id == id);
                let replicas = group.into_iter().flat_map(|group| &group.replicas);
                replicas.map(|replica| copy(replica.port, replica.instance)).collect()
            }
        }
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &dyn Pipeline {
        &*self.pipeline
    }

    fn counters(&self) -> [&[u64]; 2] {
        [allreduce::id::PACKETS, allreduce::id::ANSWERS]
            .map(|id| self.pipeline.counters(p4info::counter_id(id)))
    }
}

impl fmt::Debug for Player<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Player").field("info", self.pipeline.info()).finish_non_exhaustive()
    }
}

/// What was compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sequences.
    pub sequences: u64,
    /// Packets that came in.
    pub packets: u64,
    /// Packets that left.
    pub copies: u64,
    /// Packets that came in, by [`Reason`] in wire order.
    pub reasons: Vec<u64>,
    /// Results multicast and repeated, folds sent up and sent up again.
    pub answers: Vec<u64>,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.sequences += other.sequences;
        self.packets += other.packets;
        self.copies += other.copies;
        for (sum, more) in [(&mut self.reasons, other.reasons), (&mut self.answers, other.answers)] {
            sum.resize(sum.len().max(more.len()), 0);
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sequences, {} packets in, {} out;", self.sequences, self.packets, self.copies)?;
        for (reason, count) in Reason::ALL.iter().zip(&self.reasons) {
            write!(f, " {reason} {count}")?;
        }
        write!(f, "; answers {:?}", self.answers)
    }
}

/// Two targets that did not do the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sequence {seed}: the targets differ at packet {at}: {what}")]
pub struct Difference {
    /// Seed of the sequence.
    pub seed: u64,
    /// Number of the packet, from 0; the number of packets when the state at the end differs.
    pub at: usize,
    /// What differs, and how.
    pub what: String,
}

/// Plays a sequence to two pipelines and compares every packet that leaves, every counter after every packet, and
/// the registers at the end.
///
/// # Errors
///
/// The first difference.
pub fn compare(
    sequence: &Sequence,
    first: Box<dyn Pipeline>,
    second: Box<dyn Pipeline>,
) -> Result<Tally, Difference> {
    let differs = |at, what| Difference { seed: sequence.seed, at, what };
    let player = |pipeline| Player::new(pipeline, sequence);
    let (mut first, mut second) = match (player(first), player(second)) {
        (Ok(first), Ok(second)) => (first, second),
        refused => return Err(differs(0, format!("table entries: {refused:?}"))),
    };
    let mut copies = 0;
    for (at, arrival) in sequence.packets.iter().enumerate() {
        let (one, other) = (first.feed(arrival), second.feed(arrival));
        if one != other {
            return Err(differs(at, format!("{arrival:02x?} yields {one:02x?} and {other:02x?}")));
        }
        if first.counters() != second.counters() {
            let counters = (first.counters(), second.counters());
            return Err(differs(at, format!("{arrival:02x?}: counters {counters:?}")));
        }
        copies += one.len() as u64;
    }
    registers(sequence, first.pipeline(), second.pipeline())
        .map_err(|what| differs(sequence.packets.len(), what))?;
    let [reasons, answers] = first.counters().map(<[u64]>::to_vec);
    Ok(Tally { sequences: 1, packets: sequence.packets.len() as u64, copies, reasons, answers })
}

/// Compares every entry of every register.
fn registers(sequence: &Sequence, first: &dyn Pipeline, second: &dyn Pipeline) -> Result<(), String> {
    let program = allreduce::program(&sequence.profile).map_err(|error| error.to_string())?;
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for register in &program.registers {
        for index in 0..register.size as usize {
            one.clear();
            other.clear();
            let found = first.read_register(&register.name, index, &mut one);
            let also = second.read_register(&register.name, index, &mut other);
            if !found || !also || one != other {
                return Err(format!("register {}[{index}]: {one:x?} and {other:x?}", register.name));
            }
        }
    }
    Ok(())
}
