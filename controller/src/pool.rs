//! What a switch's jobs share: slot ranges, ports, multicast groups, job numbers, epochs and keys.

use crate::driver::Limits;
use crate::slots::{SlotAllocator, SlotRange};
use bitvec::vec::BitVec;
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// One member's place at the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// Rank in the job.
    pub rank: u8,
    /// Port of the switch that stands for this member.
    pub port: u16,
    /// Where the member sends from: address and UDP port.
    pub peer: SocketAddr,
}

/// Everything a job is given at the switch, apart from its first chunk number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Job number, not 0; unique among the jobs that exist.
    pub job: u16,
    /// Epoch, greater than every epoch before.
    pub epoch: u32,
    /// Job key, not 0.
    pub key: u32,
    /// Multicast group, not 0.
    pub group: u16,
    /// First slot of the range.
    pub first_slot: u32,
    /// Slots of the range, a power of two.
    pub slots: u32,
    /// Number of workers.
    pub world: u16,
    /// Members whose ports are held, by rank.
    pub seats: Vec<Seat>,
}

/// What there is not enough of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// No aligned range of the least acceptable size.
    #[error(
        "no aligned range of {least} slots is free ({free} of {capacity} slots are): end another job, ask for fewer slots, or start the switch with more"
    )]
    Slots {
        /// Least number of slots that would do.
        least: u32,
        /// Free slots.
        free: u32,
        /// Slots in all.
        capacity: u32,
    },
    /// Too few free ports.
    #[error(
        "the switch has {free} free ports and the job needs {need}: end another job or start the switch with more ports"
    )]
    Ports {
        /// Free ports.
        free: usize,
        /// Ports needed.
        need: usize,
    },
    /// No free multicast group or job number.
    #[error("the switch has no multicast group left: end another job")]
    Groups,
    /// The UDP endpoint is still bound for a job that is being withdrawn.
    #[error("{0} is still bound for an earlier job: wait a moment or use another UDP port")]
    Address(SocketAddr),
    /// Epoch numbers are used up.
    #[error("all epoch numbers are used up: restart the switch and its controller")]
    Epochs,
}

/// Allocator of all that jobs share at one switch.
pub(crate) struct Pool {
    limits: Limits,
    slots: SlotAllocator,
    ports: BitVec,
    groups: BitVec,
    jobs: BTreeSet<u16>,
    peers: BTreeSet<SocketAddr>,
    job_last: u16,
    /// `None` when 2^32 is reached.
    epoch_next: Option<u32>,
    keys: StdRng,
}

impl Pool {
    pub(crate) fn new(limits: Limits, epoch_floor: u32, keys: StdRng) -> Self {
        Self {
            limits,
            slots: SlotAllocator::new(limits.slots),
            ports: BitVec::repeat(false, usize::from(limits.ports_max)),
            groups: BitVec::repeat(false, usize::from(limits.groups_max)),
            jobs: BTreeSet::new(),
            peers: BTreeSet::new(),
            job_last: 0,
            epoch_next: Some(epoch_floor),
            keys,
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Reserves a place for a job of the given peers (rank and UDP endpoint of each), all or nothing.
    pub(crate) fn reserve(
        &mut self,
        wanted: u32,
        least: u32,
        peers: &[(u8, SocketAddr)],
    ) -> Result<(Placement, SlotRange), Shortage> {
        if let Some((_, peer)) = peers.iter().find(|(_, peer)| self.peers.contains(peer)) {
            return Err(Shortage::Address(*peer));
        }
        let free = self.ports.count_zeros();
        if free < peers.len() {
            return Err(Shortage::Ports { free, need: peers.len() });
        }
        let group = self.groups.first_zero().ok_or(Shortage::Groups)?;
        let job = self.free_job().ok_or(Shortage::Groups)?;
        let epoch = self.epoch_next.ok_or(Shortage::Epochs)?;
        let range = self.slots.allocate(wanted, least).ok_or(Shortage::Slots {
            least,
            free: self.slots.free_slots(),
            capacity: self.slots.capacity(),
        })?;

        // Nothing fails from here on.
        self.epoch_next = epoch.checked_add(1);
        self.job_last = job;
        self.jobs.insert(job);
        self.groups.set(group, true);
        let mut seats = Vec::with_capacity(peers.len());
        for (port, &(rank, peer)) in self.ports.iter_zeros().zip(peers) {
            seats.push(Seat { rank, port: port as u16, peer });
            self.peers.insert(peer);
        }
        for seat in &seats {
            self.ports.set(usize::from(seat.port), true);
        }
        let placement = Placement {
            job,
            epoch,
            key: self.keys.random_range(1..=u32::MAX),
            group: group as u16 + 1,
            first_slot: range.first(),
            slots: range.slots(),
            world: peers.len() as u16,
            seats,
        };
        Ok((placement, range))
    }

    /// Frees one member's port and endpoint.
    pub(crate) fn release_seat(&mut self, seat: &Seat) {
        self.ports.set(usize::from(seat.port), false);
        self.peers.remove(&seat.peer);
    }

    /// Frees a job's number, group, range and the seats it still holds.
    pub(crate) fn release(&mut self, placement: &Placement, range: SlotRange) {
        self.slots.free(range);
        self.groups.set(usize::from(placement.group) - 1, false);
        self.jobs.remove(&placement.job);
        for seat in &placement.seats {
            self.release_seat(seat);
        }
    }

    /// The next unused job number after the last one given, so that a number comes back as late as possible.
    fn free_job(&self) -> Option<u16> {
        let all = 1..=u16::MAX;
        let after = all.clone().filter(|job| *job > self.job_last);
        after.chain(all).find(|job| !self.jobs.contains(job))
    }

    /// Whether nothing is held.
    pub(crate) fn is_unused(&self) -> bool {
        self.slots.free_slots() == self.slots.capacity()
            && self.ports.not_any()
            && self.groups.not_any()
            && self.jobs.is_empty()
            && self.peers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn pool(slots: u32, ports_max: u16, groups_max: u16, epoch_floor: u32) -> Pool {
        let limits = Limits { slots, lane_words: 64, ports_max, groups_max, udp_port: 1, sees_source: false };
        Pool::new(limits, epoch_floor, StdRng::seed_from_u64(1))
    }

    fn peers(ports: core::ops::Range<u16>) -> Vec<(u8, SocketAddr)> {
        ports.enumerate().map(|(rank, port)| (rank as u8, ([127, 0, 0, 1], port + 1).into())).collect()
    }

    #[test]
    fn numbers_are_not_used_again_at_once_and_epochs_never() {
        let mut pool = pool(64, 8, 4, 100);
        let (a, range) = pool.reserve(16, 16, &peers(0..2)).unwrap();
        pool.release(&a, range);
        assert!(pool.is_unused());
        let (b, _range) = pool.reserve(16, 16, &peers(0..2)).unwrap();
        assert_eq!((a.job, b.job), (1, 2));
        assert_eq!((a.epoch, b.epoch), (100, 101));
        assert_eq!((a.group, b.group), (1, 1));
        assert_ne!(a.key, b.key);
        assert_eq!(b.seats.iter().map(|seat| seat.port).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn every_shortage_leaves_the_pool_as_it_was() {
        let mut pool = pool(64, 4, 2, u32::MAX - 1);
        let (a, range) = pool.reserve(32, 32, &peers(0..2)).unwrap();
        let short = |pool: &mut Pool, slots, ports| pool.reserve(slots, slots, &peers(ports)).unwrap_err();
        assert!(matches!(short(&mut pool, 64, 2..4), Shortage::Slots { least: 64, free: 32, capacity: 64 }));
        assert!(matches!(short(&mut pool, 1, 2..5), Shortage::Ports { free: 2, need: 3 }));
        assert!(matches!(short(&mut pool, 1, 1..2), Shortage::Address(_)));
        let (b, range_b) = pool.reserve(1, 1, &peers(2..3)).unwrap();
        assert_eq!(b.epoch, u32::MAX);
        assert!(matches!(short(&mut pool, 1, 3..4), Shortage::Groups));
        pool.release(&a, range);
        assert!(matches!(short(&mut pool, 1, 3..4), Shortage::Epochs), "an epoch is never used twice");
        pool.release(&b, range_b);
        assert!(pool.is_unused());
    }

    #[test]
    fn a_seat_can_go_before_its_job() {
        let mut pool = pool(64, 2, 2, 1);
        let (mut a, range) = pool.reserve(1, 1, &peers(0..2)).unwrap();
        pool.release_seat(&a.seats.remove(0));
        let (b, range_b) = pool.reserve(1, 1, &peers(0..1)).unwrap();
        assert_eq!(b.seats[0].port, 0);
        pool.release(&a, range);
        assert!(!pool.is_unused());
        pool.release(&b, range_b);
        assert!(pool.is_unused());
    }
}
