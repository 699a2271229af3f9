//! The layouts of packet_mmap: where frames are in the area, and who owns them.
//!
//! Sources: the kernel's Documentation/networking/packet_mmap.rst and linux/if_packet.h.

use std::io;
use std::os::fd::BorrowedFd;

use super::super::ARRIVALS;
use super::super::mapping::Mapping;
use super::super::packet::SOL_PACKET;
use super::super::socket::set_value;
use super::{RingVersion, too_long};
use crate::sys;

const PACKET_RX_RING: libc::c_int = 5;
const PACKET_VERSION: libc::c_int = 10;
const TPACKET_V2: libc::c_int = 1;
const TPACKET_V3: libc::c_int = 2;

const STATUS_KERNEL: u32 = 0;
const STATUS_USER: u32 = 1;

/// Bytes before a frame in its place: the header, the sender's address, and what aligns the IP header.
const HEAD_MAX: usize = 48 + 20 + 16 + 16;
/// Bytes of the ring.
const RING_BYTES: usize = ARRIVALS << 11;
/// Bytes of a block of version 3, unless a frame is longer: few, because a block is handed over as a whole.
const BLOCK_BYTES: usize = 1 << 16;
/// Milliseconds after which a block is handed over although it is not full. The kernel counts in whole ones.
const RETIRE_MS: u32 = 1;

/// Offsets of `struct tpacket2_hdr`.
mod two {
    pub(super) const STATUS: usize = 0;
    pub(super) const LEN: usize = 4;
    pub(super) const SNAPLEN: usize = 8;
    pub(super) const MAC: usize = 12;
}

/// Offsets of `struct tpacket_block_desc` and `struct tpacket3_hdr`.
mod three {
    pub(super) const BLOCK_STATUS: usize = 8;
    pub(super) const PACKETS: usize = 12;
    pub(super) const FIRST: usize = 16;
    pub(super) const NEXT: usize = 0;
    pub(super) const SNAPLEN: usize = 12;
    pub(super) const LEN: usize = 16;
    pub(super) const MAC: usize = 24;
}

/// A frame of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// Where it begins in the area.
    pub(super) start: usize,
    pub(super) len: usize,
    /// Whether all of it is there.
    pub(super) whole: bool,
}

/// A receive ring, and how far it has been read.
#[derive(Debug)]
pub(super) struct Ring {
    area: Mapping,
    version: RingVersion,
    /// Bytes of a place (version 2) or a block (version 3).
    stride: usize,
    count: usize,
    /// The place or block that is read next.
    at: usize,
    /// Version 3: the block is ours; where the next frame's header is, and how many frames are left.
    open: Option<(usize, u32)>,
}

impl Ring {
    /// Has the kernel make a ring for frames of up to `frame_len_max` bytes, before the socket is bound.
    pub(super) fn new(fd: BorrowedFd<'_>, version: RingVersion, frame_len_max: usize) -> io::Result<Self> {
        let need = (frame_len_max + HEAD_MAX).next_power_of_two();
        if need > RING_BYTES / 4 {
            return Err(too_long());
        }
        let (kernels, stride, place) = match version {
            RingVersion::Two => (TPACKET_V2, need, need),
            RingVersion::Three => (TPACKET_V3, BLOCK_BYTES.max(2 * need), need),
        };
        sys::set_option(fd, SOL_PACKET, PACKET_VERSION, kernels)?;
        let block = BLOCK_BYTES.max(stride);
        let (blocks, places) = (RING_BYTES / block, RING_BYTES / place);
        // struct tpacket_req3: block size and number, frame size and number, timeout, private bytes, features.
        let mut request = [0_u32; 7];
        for (word, value) in request.iter_mut().zip([block, blocks, place, places]) {
            *word = u32::try_from(value).map_err(|_| too_long())?;
        }
        match version {
            RingVersion::Two => {
                let [a, b, c, d, ..] = request;
                set_value(fd, SOL_PACKET, PACKET_RX_RING, &[a, b, c, d])?;
            }
            RingVersion::Three => {
                request[4] = RETIRE_MS;
                set_value(fd, SOL_PACKET, PACKET_RX_RING, &request)?;
            }
        }
        let area = Mapping::of(fd, RING_BYTES, 0)?;
        let count = area.len() / stride;
        Ok(Self { area, version, stride, count, at: 0, open: None })
    }

    /// The oldest frame that is not taken; it stays until [`pop`](Self::pop).
    pub(super) fn front(&mut self) -> Option<Frame> {
        match self.version {
            RingVersion::Two => self.front_of_places(),
            RingVersion::Three => self.front_of_blocks(),
        }
    }

    fn front_of_places(&self) -> Option<Frame> {
        let at = self.at * self.stride;
        if self.area.acquire(at + two::STATUS) & STATUS_USER == 0 {
            return None;
        }
        let (len, snap) = (self.area.u32(at + two::LEN), self.area.u32(at + two::SNAPLEN));
        let start = at + usize::from(self.area.u16(at + two::MAC));
        Some(Frame { start, len: len as usize, whole: len == snap })
    }

    fn front_of_blocks(&mut self) -> Option<Frame> {
        loop {
            let block = self.at * self.stride;
            if self.open.is_none() {
                if self.area.acquire(block + three::BLOCK_STATUS) & STATUS_USER == 0 {
                    return None;
                }
                let first = block + self.area.u32(block + three::FIRST) as usize;
                self.open = Some((first, self.area.u32(block + three::PACKETS)));
            }
            match self.open {
                Some((at, left)) if left > 0 => {
                    let (len, snap) = (self.area.u32(at + three::LEN), self.area.u32(at + three::SNAPLEN));
                    let start = at + usize::from(self.area.u16(at + three::MAC));
                    return Some(Frame { start, len: len as usize, whole: len == snap });
                }
                _ => self.close(),
            }
        }
    }

    /// Copies a frame's bytes out; `false` when the ring is not as it should be.
    pub(super) fn copy(&self, start: usize, to: &mut [u8]) -> bool {
        self.area.copy_out(start, to)
    }

    /// Gives the oldest frame up.
    pub(super) fn pop(&mut self) {
        match (self.version, &mut self.open) {
            (RingVersion::Two, _) => {
                self.area.release(self.at * self.stride + two::STATUS, STATUS_KERNEL);
                self.at = (self.at + 1) % self.count;
            }
            (RingVersion::Three, Some((at, left))) => {
                *at += self.area.u32(*at + three::NEXT) as usize;
                *left = left.saturating_sub(1);
            }
            (RingVersion::Three, None) => {}
        }
    }

    /// Gives a block back of which everything is taken.
    pub(super) fn hand_back(&mut self) {
        if matches!(self.open, Some((_, 0))) {
            self.close();
        }
    }

    fn close(&mut self) {
        self.area.release(self.at * self.stride + three::BLOCK_STATUS, STATUS_KERNEL);
        self.at = (self.at + 1) % self.count;
        self.open = None;
    }
}
