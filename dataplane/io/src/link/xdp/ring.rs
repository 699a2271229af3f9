//! The four rings of an XDP socket: single producer, single consumer, one side the kernel's.
//!
//! Sources: the kernel's Documentation/networking/af_xdp.rst and linux/if_xdp.h.

use std::io;
use std::os::fd::BorrowedFd;

use super::super::mapping::Mapping;
use super::super::socket::words;
use crate::sys;

const NEED_WAKEUP: u32 = 1;

/// Which ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rx,
    Tx,
    Fill,
    Completion,
}

impl Kind {
    /// The socket option that makes it, and where it is mapped.
    fn numbers(self) -> (libc::c_int, u64, usize) {
        match self {
            Self::Rx => (libc::XDP_RX_RING, 0, 0),
            Self::Tx => (libc::XDP_TX_RING, 0x8000_0000, 1),
            Self::Fill => (libc::XDP_UMEM_FILL_RING, 0x1_0000_0000, 2),
            Self::Completion => (libc::XDP_UMEM_COMPLETION_RING, 0x1_8000_0000, 3),
        }
    }

    /// Bytes of an entry: a descriptor (address, length, options) or an address.
    fn entry(self) -> usize {
        match self {
            Self::Rx | Self::Tx => 16,
            Self::Fill | Self::Completion => 8,
        }
    }
}

/// Asks for a ring of `entries` (a power of two) entries.
pub(super) fn make(fd: BorrowedFd<'_>, kind: Kind, entries: u32) -> io::Result<()> {
    sys::set_option(fd, libc::SOL_XDP, kind.numbers().0, entries as libc::c_int)
}

/// A mapped ring. We produce into Tx and Fill, and consume from Rx and Completion.
#[derive(Debug)]
pub(super) struct Ring {
    area: Mapping,
    entries: u32,
    entry: usize,
    producer: usize,
    consumer: usize,
    flags: usize,
    first: usize,
    /// Our own index, published by `publish`.
    own: u32,
    /// The other side's, as last seen.
    theirs: u32,
    consuming: bool,
}

impl Ring {
    /// Maps a ring that was made.
    pub(super) fn map(fd: BorrowedFd<'_>, kind: Kind, entries: u32) -> io::Result<Self> {
        let (_, page, number) = kind.numbers();
        // struct xdp_mmap_offsets: for each ring the offsets of producer, consumer, entries and flags.
        let offsets: [u64; 16] = words(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let offset = |field: usize| offsets[4 * number + field] as usize;
        let first = offset(2);
        let area = Mapping::of(fd, first + entries as usize * kind.entry(), page)?;
        let ring = Self {
            area,
            entries,
            entry: kind.entry(),
            producer: offset(0),
            consumer: offset(1),
            flags: offset(3),
            first,
            own: 0,
            theirs: 0,
            consuming: matches!(kind, Kind::Rx | Kind::Completion),
        };
        Ok(ring)
    }

    fn place(&self, index: u32) -> usize {
        self.first + (index & (self.entries - 1)) as usize * self.entry
    }

    /// How many entries we may produce or consume; looks at the other side's index when fewer than `wanted` are known of.
    pub(super) fn available(&mut self, wanted: u32) -> u32 {
        let known = |ring: &Self| {
            let gap = if ring.consuming {
                ring.theirs.wrapping_sub(ring.own)
            } else {
                ring.entries.wrapping_sub(ring.own.wrapping_sub(ring.theirs))
            };
            gap.min(ring.entries)
        };
        if known(self) < wanted {
            self.theirs = self.area.acquire(if self.consuming { self.producer } else { self.consumer });
        }
        known(self)
    }

    /// Entries that we have produced and the kernel has not consumed.
    pub(super) fn pending(&mut self) -> u32 {
        self.theirs = self.area.acquire(self.consumer);
        self.own.wrapping_sub(self.theirs)
    }

    /// The next address to consume: of a completion, or with its length a received frame's.
    pub(super) fn consume(&mut self) -> (u64, u32) {
        let place = self.place(self.own);
        self.own = self.own.wrapping_add(1);
        let len = if self.entry == 16 { self.area.u32(place + 8) } else { 0 };
        (self.area.u64(place), len)
    }

    /// The address of the next frame to consume and its length, without consuming it.
    pub(super) fn front(&self) -> (u64, u32) {
        let place = self.place(self.own);
        (self.area.u64(place), self.area.u32(place + 8))
    }

    /// Produces an entry; its length counts in descriptors only.
    pub(super) fn produce(&mut self, address: u64, len: u32) {
        let place = self.place(self.own);
        self.own = self.own.wrapping_add(1);
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&address.to_ne_bytes());
        entry[8..12].copy_from_slice(&len.to_ne_bytes());
        self.area.copy_in(place, &entry[..self.entry]);
    }

    /// Lets the kernel see how far we are.
    pub(super) fn publish(&mut self) {
        self.area.release(if self.consuming { self.consumer } else { self.producer }, self.own);
    }

    /// Whether the kernel must be notified of produced entries.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.area.acquire(self.flags) & NEED_WAKEUP != 0
    }
}
