//! Profiles: the parameters of a program.

mod named;

pub use named::{NamedProfile, by_name, named};
pub use netfold_wire::Numerics;

use netfold_wire::{CHILDREN_MAX, LaneOp, LaneOps, Reason};

/// What surrounds the Netfold header when the pipeline sees a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// Ethernet, IPv4 and UDP, as a hardware switch sees it.
    Ethernet,
    /// Nothing: the transport (a UDP socket, a ring) handles the outer headers.
    Datagram,
}

/// The parameters of an aggregation program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// What surrounds the Netfold header.
    pub encapsulation: Encapsulation,
    /// 32-bit words of lanes per packet, 8 to 4096.
    pub lane_words: u32,
    /// Slots of the whole switch, a power of two up to 2^15; each has two sets.
    pub slots: u32,
    /// Jobs of [`Self::workers`] children that can be admitted at once.
    pub jobs: u32,
    /// Children of one level, 1 to 32.
    pub workers: u32,
    /// Lane operations in the program, by code. Those on packed elements, and bitwise ones, are of word numerics.
    pub ops: Vec<LaneOp>,
    /// Egress queues, strictly by priority; 1 means none. The target must have as many (bmv2: `--priority-queues`).
    pub priorities: u32,
    /// Queue depth in packets at which ECN marks; 0 never marks. Needs the outer headers.
    pub ecn_depth: u32,
    /// Queue depth in packets from which droppable data is trimmed in egress; 0 never. Needs the outer headers.
    pub trim_depth: u32,
    /// Addresses whose packets the switch forwards unchanged ([`transit`](crate::transit)); 0 for no forwarding. Needs the outer
    /// headers.
    pub transit: u32,
    /// Whether the switch can have a parent: it sums its children's contributions, sends the sum up, and passes the result down.
    /// Table entries decide for each job.
    pub hierarchy: bool,
    /// Whether contributions may be left out of a sum where packets allow it (`droppable`): trimmed ones count as received, and
    /// CLOSE completes a slot without the missing ones.
    pub bounded_loss: bool,
    /// Whether the lanes of a result can go to one member alone (`owner`), and the others receive its header.
    pub owners: bool,
    /// Whether jobs can share slots below an aggregator, which sums what finds none ([`allreduce`](mod@crate::allreduce)). The program is that of the
    /// switch and of the aggregator. Needs `hierarchy`, words, and neither `bounded_loss` nor `owners`.
    pub best_effort: bool,
    /// How lanes are aggregated. Wide, half and float programs have the operations sum and max.
    pub numerics: Numerics,
}

/// Most words per packet of a program for bmv2 with operations on packed elements: see [`Profile::for_bmv2`].
pub const PACKED_WORDS_MAX: u32 = 16;

/// Lane operations of the profile [`Profile::hardware`].
const HARDWARE_OPS: [LaneOp; 6] =
    [LaneOp::Sum, LaneOp::Min, LaneOp::Max, LaneOp::And, LaneOp::Or, LaneOp::Xor];

/// Ports that a controller gives to peers at one switch, at most: numbers below this. The software switch has one more, for its controller.
const PORTS_MAX: u16 = 4094;

/// Multicast groups that a controller uses at one switch, at most.
const GROUPS_MAX: u16 = 2048;

/// Entries of the job table that a job takes at a switch, at most: five per child, one more where children may close slots, five for its parent if
/// it has one there, and one.
pub const fn entries_of_job(children: u32, parent: bool, bounded_loss: bool) -> u32 {
    (5 + bounded_loss as u32) * children + 5 * parent as u32 + 1
}

/// Maximum addresses for forwarding.
pub const TRANSIT_MAX: u32 = 4096;

/// Most slots of a profile: those that a packet can name.
pub const SLOTS_MAX: u32 = 1 << 15;

/// Slots of a hardware-shaped program.
const SLOTS_HARDWARE: u32 = 1024;

/// Slots of the software switch.
pub const SLOTS_SOFTWARE: u32 = 8192;

/// Most jobs of a profile.
pub const JOBS_MAX: u32 = 1024;

/// Jobs of the software switch.
pub const JOBS_SOFTWARE: u32 = JOBS_MAX;

impl Profile {
    /// The profile of a hardware-shaped program: 64 lanes (256 bytes) per packet. Without operations on packed elements, whose
    /// expressions take p4c longer to compile for bmv2 than all others: minima and maxima minutes.
    pub fn hardware() -> Self {
        Self {
            encapsulation: Encapsulation::Ethernet,
            lane_words: 64,
            slots: SLOTS_HARDWARE,
            jobs: 16,
            workers: CHILDREN_MAX as u32,
            ops: HARDWARE_OPS.to_vec(),
            priorities: 1,
            ecn_depth: 16,
            trim_depth: 0,
            transit: 0,
            hierarchy: true,
            bounded_loss: true,
            owners: true,
            best_effort: false,
            numerics: Numerics::Word,
        }
    }

    /// The profile for best-effort jobs, where this one is for jobs with slots of their own.
    #[must_use]
    pub fn for_best_effort(self) -> Self {
        Self { hierarchy: true, bounded_loss: false, owners: false, best_effort: true, ..self }
    }

    /// A profile that fits the 12 stages of a Tofino 1: sum only, no parent, 8192 slot-sets.
    pub fn tofino() -> Self {
        Self {
            ops: vec![LaneOp::Sum],
            slots: 4096,
            jobs: 12,
            hierarchy: false,
            bounded_loss: false,
            owners: false,
            ..Self::hardware()
        }
    }

    /// The profile of the software switch on transports that handle the outer headers. Its tables are hash maps, and memory of slots and entries
    /// that no job has used is not touched; so it has as many of both as hundreds of jobs need.
    pub fn software(lane_words: u32) -> Self {
        Self {
            encapsulation: Encapsulation::Datagram,
            lane_words,
            slots: SLOTS_SOFTWARE,
            jobs: JOBS_SOFTWARE,
            ecn_depth: 0,
            ops: Numerics::Word.lane_ops().to_vec(),
            ..Self::hardware()
        }
    }

    /// The profile of the software switch with other numerics than words.
    pub fn software_with(lane_words: u32, numerics: Numerics) -> Self {
        Self { numerics, ops: numerics.lane_ops().to_vec(), ..Self::software(lane_words) }
    }

    /// The profile of a switch in the kernel's driver path: whole frames, as many jobs as a host's switch needs, and no marks, because there are no
    /// queues whose length it could read.
    pub fn kernel(lane_words: u32, numerics: Numerics) -> Self {
        Self {
            lane_words,
            jobs: 64,
            slots: 4096,
            ecn_depth: 0,
            numerics,
            ops: numerics.lane_ops().to_vec(),
            ..Self::hardware()
        }
    }

    /// The profile without the lane operations that p4c takes long to compile for bmv2: those on packed elements, in more than
    /// [`PACKED_WORDS_MAX`] words.
    #[must_use]
    pub fn for_bmv2(mut self) -> Self {
        if self.lane_words > PACKED_WORDS_MAX {
            self.ops.retain(|op| HARDWARE_OPS.contains(op));
        }
        self
    }

    /// The set of its lane operations.
    pub fn lane_ops(&self) -> LaneOps {
        self.ops.iter().copied().collect()
    }

    /// Payload bytes of a packet that has lanes.
    pub const fn payload_bytes(&self) -> u32 {
        self.lane_words * 4
    }

    /// Validates every parameter.
    ///
    /// # Errors
    ///
    /// [`ProfileError`] with the parameter, its value and the permitted values.
    pub fn check(&self) -> Result<(), ProfileError> {
        let bad = |name, value, allowed| Err(ProfileError { name, value, allowed });
        if !(8..=4096).contains(&self.lane_words) {
            return bad("lane_words", self.lane_words, "8 to 4096");
        }
        if !self.slots.is_power_of_two() || self.slots > SLOTS_MAX {
            return bad("slots", self.slots, "a power of two up to 32768");
        }
        if !(1..=JOBS_MAX).contains(&self.jobs) {
            return bad("jobs", self.jobs, "1 to 1024");
        }
        if !(1..=CHILDREN_MAX as u32).contains(&self.workers) {
            return bad("workers", self.workers, "1 to 32");
        }
        if !(1..=8).contains(&self.priorities) {
            return bad("priorities", self.priorities, "1 to 8");
        }
        let mut ops = self.ops.clone();
        ops.dedup();
        if ops.is_empty() || ops != self.ops || !self.ops.is_sorted_by_key(|op| *op as u8) {
            return bad(
                "ops",
                self.ops.len() as u32,
                "at least one lane operation, each at most once, in the order of their codes",
            );
        }
        if self.numerics.converts() && self.ops != self.numerics.lane_ops() {
            return bad("ops", self.ops.len() as u32, "sum and max in a wide, half or float program");
        }
        if let Some(op) = self.ops.iter().find(|op| !self.numerics.lane_ops().contains(op)) {
            return bad("ops", *op as u32, "sum, min and max (0 to 2) in a saturating program");
        }
        for (name, depth) in [("ecn_depth", self.ecn_depth), ("trim_depth", self.trim_depth)] {
            if depth >= 1 << 19 {
                return bad(name, depth, "below 524288");
            }
            if depth > 0 && self.encapsulation == Encapsulation::Datagram {
                return bad(name, depth, "0 where the transport owns the IPv4 header");
            }
        }
        let exact = !self.bounded_loss && !self.owners;
        if self.best_effort && (!self.hierarchy || !exact || self.numerics != Numerics::Word) {
            let allowed = "0 but in a program of words with hierarchy, without bounded loss and owners";
            return bad("best_effort", 1, allowed);
        }
        if self.transit > TRANSIT_MAX {
            return bad("transit", self.transit, "up to 4096");
        }
        if self.transit > 0 && self.encapsulation == Encapsulation::Datagram {
            return bad("transit", self.transit, "0 where the transport owns the IPv4 header");
        }
        Ok(())
    }

    /// Entries of the job table: as many as [`Self::jobs`] jobs of [`Self::workers`] children below a parent take, and two for the controller. More
    /// jobs fit if they have fewer children ([`Self::jobs_of`]).
    pub const fn job_table_size(&self) -> u32 {
        self.entries() + 2
    }

    /// Entries of the job table that jobs can use.
    pub const fn entries(&self) -> u32 {
        self.jobs * entries_of_job(self.workers, self.hierarchy, self.bounded_loss)
    }

    /// Ports that a controller can give to children and parents of jobs: numbers below this.
    pub const fn ports(&self) -> u16 {
        let children = self.jobs * self.workers;
        if children < PORTS_MAX as u32 { children as u16 } else { PORTS_MAX }
    }

    /// Multicast groups that a controller uses, from 1 on: one for each job that the tables hold, and one more for each below a parent.
    pub const fn groups(&self) -> u16 {
        let jobs = self.entries() / entries_of_job(1, false, self.bounded_loss);
        if jobs < GROUPS_MAX as u32 { jobs as u16 } else { GROUPS_MAX }
    }

    /// Jobs, or process groups, of so many ranks, 1 or more, that the tables hold at once at a switch without a parent.
    pub fn jobs_of(&self, ranks: u32) -> u32 {
        let ranks = ranks.max(1);
        let by_entries = self.entries() / entries_of_job(ranks, false, self.bounded_loss);
        by_entries.min(u32::from(self.ports()) / ranks).min(self.groups().into())
    }

    /// Entries of the table of addresses: one per child, and one for a job's parent.
    pub const fn child_table_size(&self) -> u32 {
        self.jobs * (self.workers + self.hierarchy as u32)
    }

    /// Entries of the table of receivers: one per child.
    pub const fn receiver_table_size(&self) -> u32 {
        self.jobs * self.workers
    }

    /// Number of packet counters, one for each [`Reason`].
    pub fn reasons() -> u32 {
        Reason::ALL.len() as u32
    }
}

/// A profile parameter out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("profile parameter {name} is {value}; it must be {allowed}")]
pub struct ProfileError {
    /// Parameter.
    pub name: &'static str,
    /// Its value.
    pub value: u32,
    /// The permitted values.
    pub allowed: &'static str,
}
