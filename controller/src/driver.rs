//! The interface to a switch: what the control plane asks of the device that forwards the packets.
//!
//! An in-process software switch implements [`SwitchDriver`], and so do the clients of P4Runtime and BF Runtime in
//! `netfold-southbound`: entries and groups follow P4Runtime's shapes, and every call may block and may fail.

use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_p4::profile::{Encapsulation, Numerics, Profile};
use netfold_wire::{JobKeys, LaneOps};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::net::SocketAddr;

/// What a switch has to share out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Aggregation slots, each of two sets.
    pub slots: u32,
    /// 32-bit words of lanes in every packet that is not bare.
    pub lane_words: u32,
    /// Ports that peers may be bound to: numbers `0..ports_max`.
    pub ports_max: u16,
    /// Multicast groups: ids `1..=groups_max`. Every running job needs one, and one more at a switch below a parent.
    pub groups_max: u16,
    /// Entries of its job table that jobs can use ([`netfold_p4::profile::entries_of_job`]).
    #[serde(default)]
    pub entries: u32,
    /// UDP port that the switch listens on for packets of the data path.
    pub udp_port: u16,
    /// Whether the pipeline sees a packet's IPv4 source address. If so, the job table matches it beside the port;
    /// if not, a port must stand for exactly one peer address by itself.
    pub sees_source: bool,
    /// Whether its program can leave shares out of a sum.
    #[serde(default)]
    pub bounded_loss: bool,
    /// Whether its program can deliver the lanes of a result to one member alone.
    #[serde(default)]
    pub owners: bool,
    /// Which lane operations its program has.
    #[serde(default)]
    pub lane_ops: LaneOps,
    /// Whether a peer may send from several UDP ports ([`SwitchDriver::bind_ports`]).
    #[serde(default)]
    pub multipath: bool,
    /// Whether it authenticates packets, and is given keys over a connection that does not reveal them.
    #[serde(default)]
    pub authenticates: bool,
}

/// What one set of a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotState {
    /// The slot.
    pub slot: u32,
    /// Which of its sets: 0 or 1.
    pub set: u8,
    /// Number of the chunk.
    pub chunk: u32,
    /// Bitmap of the children from which a packet of the chunk was received. All of them, if the slot was closed.
    pub seen: u32,
}

impl Limits {
    /// Those of a program of this profile that receives the data path's packets at a UDP port, and does not authenticate them. Ports are numbers for
    /// peers, of which the tables hold so many.
    pub fn of(profile: &Profile, udp_port: u16) -> Self {
        Self {
            slots: profile.slots,
            lane_words: profile.lane_words,
            ports_max: profile.ports(),
            groups_max: profile.groups(),
            entries: profile.entries(),
            udp_port,
            sees_source: profile.encapsulation == Encapsulation::Ethernet,
            bounded_loss: profile.bounded_loss,
            owners: profile.owners,
            lane_ops: profile.lane_ops(),
            multipath: false,
            authenticates: false,
        }
    }
}

/// Control of one switch. Calls come from one thread at a time, in order, and may block for a bounded time (a few
/// seconds at most: jobs on the same switch wait for each other, sessions do not).
///
/// Contract of every call that changes something: on an error nothing has changed. A driver whose switch can fail half
/// way restores the old state, or finishes the change, before it returns.
pub trait SwitchDriver: Send {
    /// The switch's capacity; the same at every call.
    fn limits(&self) -> Limits;

    /// How the switch folds lanes; the same at every call. Words by default.
    fn numerics(&self) -> Numerics {
        Numerics::Word
    }

    /// Makes packets from `peer` arrive on `port`, and packets sent to `port` go to `peer` (an address and a UDP
    /// port). The port is not bound when this is called; nor is the peer, unless it is a switch, which has a port in every tree.
    ///
    /// # Errors
    /// [`DriverError`] when the port does not exist or the switch cannot reach such an address.
    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError>;

    /// As [`SwitchDriver::bind_port`], of a peer that sends from several consecutive UDP ports, `peer`'s first: packets sent to `port` go to one of
    /// them. Called with more than one of switches with [`multipath`](Limits::multipath) alone.
    ///
    /// # Errors
    /// As [`SwitchDriver::bind_port`].
    fn bind_ports(&mut self, port: u16, peer: SocketAddr, udp_ports: u8) -> Result<(), DriverError> {
        if udp_ports > 1 {
            let source = "the switch knows a peer by one UDP port".into();
            return Err(DriverError::Port { port, source });
        }
        self.bind_port(port, peer)
    }

    /// Authenticates a job's packets on a bound port: those that it receives there have tags under the one key, and those that it sends under the
    /// other. Of a port that several jobs share, others' packets are not affected. [`SwitchDriver::unbind_port`] undoes it. Called of switches
    /// that [`authenticate`](Limits::authenticates) alone.
    ///
    /// # Errors
    /// [`DriverError`] when the switch cannot, or does not answer.
    fn authenticate(&mut self, port: u16, keys: &JobKeys) -> Result<(), DriverError> {
        let _ = keys;
        Err(DriverError::Port { port, source: "the switch does not authenticate packets".into() })
    }

    /// Undoes [`SwitchDriver::bind_port`]: packets from the peer are dropped from now on.
    ///
    /// # Errors
    /// [`DriverError`] when the switch does not answer; the call is repeated later.
    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError>;

    /// Adds table entries, all or none. No entry with one of these keys exists.
    ///
    /// # Errors
    /// [`DriverError`] when a table is full or the switch does not answer.
    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError>;

    /// Removes table entries that [`SwitchDriver::insert`] added, all or none. When it returns, no packet admitted by
    /// one of them is still to change a slot; where the switch is out of reach, none is when it is up again and next takes a call.
    ///
    /// # Errors
    /// [`DriverError`] when the switch does not answer; the call is repeated later.
    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError>;

    /// Creates multicast group `group` or replaces its replicas.
    ///
    /// # Errors
    /// [`DriverError`] when the switch has no room for the group or does not answer.
    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError>;

    /// Removes a multicast group.
    ///
    /// # Errors
    /// [`DriverError`] when the switch does not answer; the call is repeated later.
    fn delete_group(&mut self, group: u16) -> Result<(), DriverError>;

    /// Moves both sets of the slots `first_slot .. first_slot + slots` forward to chunk number `chunk`, and learns
    /// what they hold then: a slot whose chunk is newer than `chunk` in serial order stays as it is. No job is
    /// admitted to these slots. The driver retransmits lost packets; repeating does no harm.
    ///
    /// Returns the newest chunk number stored: that whose distance `stored.wrapping_sub(chunk)` is greatest. By
    /// serial order it is at most 2^31.
    ///
    /// # Errors
    /// [`DriverError`] when some slot does not answer.
    ///
    /// Source: the slot machine's ADVANCE, docs/protocol.md.
    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError>;

    /// Releases what an epoch occupies of slots that best-effort jobs share: both sets of `first_slot .. first_slot + slots`. Its packets are not admitted
    /// any more. What other jobs have there may be lost, which delays them. Where the switch is out of reach, it is done before the switch next takes
    /// entries, unless it has lost what its slots held. Repeating does no harm.
    ///
    /// # Errors
    /// [`DriverError`] when some slot does not answer, or the driver does not know such slots, as by default.
    ///
    /// Source: ADVANCE of the program for best-effort jobs, docs/adr/0052.
    fn release(&mut self, first_slot: u32, slots: u32, epoch: u32) -> Result<(), DriverError> {
        let _ = (first_slot, slots, epoch);
        Err(DriverError::Refused("its driver does not release slots that jobs share".into()))
    }

    /// How many contributions of a best-effort job found no slot and were sent on to its aggregator, by the job's multicast group to the aggregator.
    /// The number includes those of earlier jobs that had the group.
    ///
    /// # Errors
    /// [`DriverError`] when the switch does not answer, or does not count them, as by default.
    fn spilled(&mut self, group: u16) -> Result<u64, DriverError> {
        let _ = group;
        Err(DriverError::Refused("its driver does not count spilled contributions".into()))
    }

    /// Reads both sets of the slots `first_slot .. first_slot + slots`, in order, and changes nothing: jobs may be admitted to them. Each is read
    /// by itself, so that a job which is running may change between two of them.
    ///
    /// # Errors
    /// [`DriverError`] when some slot does not answer, or the driver cannot read slots, as by default.
    ///
    /// Source: the slot machine's PROBE, docs/protocol.md.
    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        let _ = (first_slot, slots);
        Err(DriverError::Refused("its driver does not read slots".into()))
    }
}

/// An object that a switch holds for the control plane, in the terms of [`SwitchDriver`]: what a restarted control plane
/// reports as installed there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldEntity {
    /// What [`SwitchDriver::bind_port`] has bound.
    Port {
        /// The port.
        port: u16,
        /// Who is there; with several UDP ports, the first.
        peer: SocketAddr,
        /// From how many UDP ports it sends.
        udp_ports: u8,
        /// What [`SwitchDriver::authenticate`] was given.
        keys: Option<JobKeys>,
    },
    /// What [`SwitchDriver::set_group`] has set.
    Group {
        /// The group.
        group: u16,
        /// Its copies.
        replicas: Vec<Replica>,
    },
    /// Slots that best-effort jobs share, of which this epoch may occupy some: [`SwitchDriver::release`].
    SharedSlots {
        /// The first of the job's.
        first: u32,
        /// How many it has.
        slots: u32,
        /// The job's epoch.
        epoch: u32,
    },
    /// What [`SwitchDriver::insert`] has added.
    Entries(Vec<TableEntry>),
}

/// Why a switch did not do what it was asked; nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The switch refused a table entry or a group.
    #[error("the switch refused a table entry or a multicast group")]
    Entry(#[from] EntryError),
    /// The switch refused a change, for a reason of its own that the source names.
    #[error("the switch refused a change")]
    Refused(#[source] Box<dyn Error + Send + Sync>),
    /// The port cannot be bound or unbound.
    #[error("port {port} cannot be bound to or released from a peer")]
    Port {
        /// The port.
        port: u16,
        /// What the transport said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// ADVANCE or PROBE packets were not answered by every slot.
    #[error("only {answered} of {asked} slot-sets answered: check that the switch is running")]
    Silent {
        /// Slot-sets that answered.
        answered: u32,
        /// Slot-sets asked.
        asked: u32,
    },
    /// ADVANCE returned a chunk number that serial order cannot give.
    #[error("the slots hold chunk {stored}, which cannot be after an advance to {chunk}: restart the switch")]
    Serial {
        /// The number returned.
        stored: u32,
        /// The number asked for.
        chunk: u32,
    },
    /// The switch is unreachable or does not answer.
    #[error("the switch does not answer: check that it is running")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
}

impl DriverError {
    /// The error and its sources in one line, for messages to people.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = self.source();
        while let Some(error) = source {
            text.push_str(": ");
            text.push_str(&error.to_string());
            source = error.source();
        }
        text
    }
}
