//! What a sequence consists of.

use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::profile::Profile;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::generate::Generator;
use super::jobs::Jobs;

/// What a sequence may contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Packets behind those by which the controller prepares the slots.
    pub packets: usize,
    /// Whether copies join queues of various depths; else every queue is empty.
    pub queue_depths: bool,
    /// Whether the controller may name slots that the switch has not. The software switch drops such packets; hardware
    /// and bmv2 leave the effect open.
    pub out_of_range: bool,
    /// Length of the shortest packet.
    pub bytes_min: usize,
}

impl Settings {
    /// Everything that two software pipelines must agree on.
    pub const fn software(packets: usize) -> Self {
        Self { packets, queue_depths: true, out_of_range: true, bytes_min: 0 }
    }

    /// What every target defines and can be sent over an Ethernet link.
    pub const fn any_target(packets: usize) -> Self {
        Self { packets, queue_depths: false, out_of_range: false, bytes_min: 14 }
    }
}

/// A multicast group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Number, 1 or more.
    pub id: u16,
    /// Copies it makes.
    pub replicas: Vec<Replica>,
}

/// A packet that comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Port.
    pub port: u16,
    /// The whole packet.
    pub bytes: Vec<u8>,
    /// Packets in the queue that each copy of what is sent for it joins.
    pub queue_depth: u32,
}

/// State of the control plane, then packets: all that a target needs to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// What it was generated from, with profile and settings.
    pub seed: u64,
    /// The program it is for, as [`netfold_p4::allreduce::program`] makes it.
    pub profile: Profile,
    /// Table entries, all of which fit.
    pub entries: Vec<TableEntry>,
    /// Multicast groups.
    pub groups: Vec<Group>,
    /// Packets in order. Ports are below 256.
    pub packets: Vec<Arrival>,
}

impl Sequence {
    /// Nothing at all, for the first profile that has a name.
    pub(crate) fn empty() -> Self {
        Self {
            seed: 0,
            profile: Profile::hardware(),
            entries: Vec::new(),
            groups: Vec::new(),
            packets: Vec::new(),
        }
    }

    /// Draws a sequence: equal arguments, equal sequences.
    pub fn from_seed(seed: u64, profile: &Profile, settings: &Settings) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let jobs = Jobs::generate(&mut rng, profile);
        let entries = jobs.entries(&mut rng, profile);
        let groups = jobs.groups();
        let packets = Generator::new(rng, profile, settings, jobs).packets();
        Self { seed, profile: profile.clone(), entries, groups, packets }
    }
}
