//! One queue: the memory that is shared with the kernel, and which side owns which part of it.
#![expect(unsafe_code, reason = "frames are written in memory that the kernel reads, too")]

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rtrb::Consumer;

use super::super::ARRIVALS;
use super::super::mapping::Mapping;
use super::super::socket::{bind_xdp, kick, set_value, words};
use super::release::retry_while_taken;
use super::ring::{Kind, Ring, make};
use crate::{PortId, RxBatch, sys};

/// Frames that the kernel may have to receive into.
pub(super) const RX_FRAMES: u32 = ARRIVALS as u32;
/// Frames that may be on their way out.
const TX_FRAMES: u32 = 1024;
/// What the kernel keeps free before a received frame: `XDP_PACKET_HEADROOM`.
const HEADROOM: usize = 256;
/// `XDP_MAX_TX_SKB_BUDGET` of linux/if_xdp.h, since Linux 6.17: frames a call, where the kernel copies.
const MAX_TX_BUDGET: libc::c_int = 9;
/// Calls to have everything sent before the rest waits.
const KICKS_MAX: u32 = 64;

/// The kernel's own number for "not supported", which some drivers let out.
const ENOTSUPP: i32 = 524;

/// Frames for a socket that were dropped for lack of memory to receive into or of room in the ring; 0 where the kernel does not say.
/// Source: `struct xdp_statistics` of linux/if_xdp.h, whose first word is `rx_dropped` and fourth `rx_ring_full`.
pub(super) fn dropped(fd: BorrowedFd<'_>) -> u64 {
    words::<6>(fd, libc::SOL_XDP, libc::XDP_STATISTICS).map_or(0, |words| words[0] + words[3])
}

/// Whether an error of attaching means that the driver has no XDP of its own, or not for this MTU or number of queues.
pub(super) fn driver_cannot(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE | libc::ENOSPC | libc::ENOMEM | ENOTSUPP)
    )
}

/// The rings of a socket and its frames. The first [`RX_FRAMES`] go around between fill and receive ring, the rest between us, the send
/// ring and the completion ring.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) memory: Arc<Mapping>,
    chunk: usize,
    rx: Ring,
    tx: Ring,
    fill: Ring,
    completion: Ring,
    /// Frames that other threads have received into, and are done with: each has a socket at this queue.
    returned: Vec<Consumer<u64>>,
    /// Frames to send that are ours.
    free: Vec<u64>,
    /// What [`lend`](Self::lend) lent: where and how long.
    lent: Option<(u64, u32)>,
    zero_copy: bool,
}

impl Queue {
    /// Shares memory with the kernel and binds the socket, waiting for a queue that is being released. `copy`: do not try without copies.
    pub(super) fn open(
        fd: BorrowedFd<'_>,
        index: u32,
        number: u32,
        frame_len_max: usize,
        copy: bool,
    ) -> io::Result<Self> {
        let chunk = if frame_len_max + HEADROOM <= 2048 { 2048 } else { 4096 };
        if frame_len_max + HEADROOM > chunk {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        let memory = Mapping::fresh((RX_FRAMES + TX_FRAMES) as usize * chunk)?;
        // struct xdp_umem_reg, as it was before it grew: address, length, chunk size and headroom.
        let chunk_and_headroom = u64::from_ne_bytes(pair(chunk as u32, 0));
        let register = [memory.address(), memory.len() as u64, chunk_and_headroom];
        set_value(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &register)?;
        make(fd, Kind::Fill, RX_FRAMES)?;
        make(fd, Kind::Completion, TX_FRAMES)?;
        make(fd, Kind::Rx, RX_FRAMES)?;
        make(fd, Kind::Tx, TX_FRAMES)?;
        // Best effort: older kernels send 32 frames a call.
        let _ = sys::set_option(fd, libc::SOL_XDP, MAX_TX_BUDGET, TX_FRAMES as libc::c_int);
        let mut queue = Self {
            rx: Ring::map(fd, Kind::Rx, RX_FRAMES)?,
            tx: Ring::map(fd, Kind::Tx, TX_FRAMES)?,
            fill: Ring::map(fd, Kind::Fill, RX_FRAMES)?,
            completion: Ring::map(fd, Kind::Completion, TX_FRAMES)?,
            free: (RX_FRAMES..RX_FRAMES + TX_FRAMES).map(|frame| u64::from(frame) * chunk as u64).collect(),
            returned: Vec::new(),
            lent: None,
            zero_copy: false,
            memory: Arc::new(memory),
            chunk,
        };
        for frame in 0..RX_FRAMES {
            queue.fill.produce(u64::from(frame) * chunk as u64, 0);
        }
        queue.fill.publish();
        let flags = libc::XDP_USE_NEED_WAKEUP | if copy { libc::XDP_COPY } else { 0 };
        retry_while_taken(|| bind_xdp(fd, index, number, flags))?;
        let options: [u64; 1] = words(fd, libc::SOL_XDP, libc::XDP_OPTIONS)?;
        queue.zero_copy = options[0] & u64::from(libc::XDP_OPTIONS_ZEROCOPY) != 0;
        Ok(queue)
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    pub(super) fn has_arrivals(&mut self) -> bool {
        self.rx.available(1) > 0
    }

    /// Copies frames into the batch and gives their places back, with those that other threads are done with.
    pub(super) fn receive(&mut self, batch: &mut RxBatch, frame_len_max: usize, truncated: &mut u64) {
        self.take_back();
        let Self { rx, fill, memory, chunk, .. } = self;
        let mut taken = false;
        while let Some(address) = take(rx, memory, batch, frame_len_max, truncated) {
            // There is room: no more places are under way than the ring has.
            fill.produce(address - address % *chunk as u64, 0);
            taken = true;
        }
        if taken {
            rx.publish();
            fill.publish();
        }
    }

    /// Has another thread's socket at this queue give back its frames by `returned`.
    pub(super) fn share(&mut self, returned: Consumer<u64>) {
        self.returned.push(returned);
    }

    /// Gives the places that other threads are done with back to the kernel.
    pub(super) fn take_back(&mut self) {
        let Self { returned, fill, chunk, .. } = self;
        let mut taken = false;
        for frames in returned {
            // There are as many as it says.
            let Ok(frames) = frames.read_chunk(frames.slots()) else { continue };
            for address in frames {
                fill.produce(address - address % *chunk as u64, 0);
                taken = true;
            }
        }
        if taken {
            fill.publish();
        }
    }

    /// Whether the driver must be notified of free frames to receive into.
    pub(super) fn wants_fill(&self) -> bool {
        self.zero_copy && self.fill.needs_wakeup()
    }

    /// A frame to write into; `None` when all are under way.
    pub(super) fn lend(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.free.is_empty() {
            self.reclaim();
        }
        let address = *self.free.last()?;
        if self.tx.available(1) == 0 {
            return None;
        }
        self.lent = Some((address, u32::try_from(len).ok()?));
        // SAFETY: the frame is on the list of free ones, so it is in none of the rings: the kernel has no business with it until `push`
        // queues it.
        unsafe { self.memory.lend(address as usize, len) }
    }

    /// Queues what was lent.
    pub(super) fn push(&mut self) {
        let (address, len) = self.lent.take().expect("lend() says where the frame is that push() queues");
        let last = self.free.pop();
        debug_assert_eq!(last, Some(address));
        self.tx.produce(address, len);
    }

    /// Takes frames back that were sent.
    fn reclaim(&mut self) {
        let count = self.completion.available(TX_FRAMES);
        for _ in 0..count {
            let (address, _) = self.completion.consume();
            if self.free.len() < TX_FRAMES as usize {
                self.free.push(address - address % self.chunk as u64);
            }
        }
        if count > 0 {
            self.completion.publish();
        }
    }

    pub(super) fn has_unsent(&mut self) -> bool {
        self.tx.pending() > 0 || self.free.is_empty()
    }

    /// Has the kernel send what is queued, as far as it goes now. The error is one of the interface; what is queued stays so.
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>, calls: &mut u64) -> io::Result<()> {
        self.tx.publish();
        for _ in 0..KICKS_MAX {
            if self.tx.pending() == 0 || !self.tx.needs_wakeup() {
                break;
            }
            *calls += 1;
            match kick(fd).map_err(|error| (error.raw_os_error(), error)) {
                // More is queued than one call sends, or completions are to be taken first.
                Ok(()) | Err((Some(libc::EAGAIN | libc::EINTR), _)) => self.reclaim(),
                // The device's own queue is full: later.
                Err((Some(libc::EBUSY | libc::ENOBUFS), _)) => break,
                Err((_, error)) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Copies the next frame of `rx` into the batch and returns its address, which is the caller's to give back; `None` when there is no frame
/// or no room for it. Frames that are too long are counted and not copied.
pub(super) fn take(
    rx: &mut Ring,
    memory: &Mapping,
    batch: &mut RxBatch,
    frame_len_max: usize,
    truncated: &mut u64,
) -> Option<u64> {
    if batch.packets_left() == 0 || rx.available(1) == 0 {
        return None;
    }
    let (address, len) = rx.front();
    let len = len as usize;
    if len > frame_len_max || len > batch.memory().len() {
        *truncated += 1;
    } else {
        let place = batch.spare(len)?;
        if memory.copy_out(address as usize, place) {
            batch.commit(PortId(0), len, 0);
        }
    }
    let _ = rx.consume();
    Some(address)
}

/// Two words side by side, as they lie in a structure.
fn pair(first: u32, second: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    bytes
}
