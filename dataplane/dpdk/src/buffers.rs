//! Packets in DPDK's buffers (mbufs): the pool they come from, what arrived, and what is to be sent.
//!
//! A buffer belongs to exactly one holder: its pool, an [`Arrivals`], an [`Outbox`], a `TransferredPacket`, or a device. Only a packet that several
//! threads read has several holders, none of which writes. A pool's memory is freed only when every buffer is back in it, so no holder
//! needs to keep the pool alive, not even one that got a buffer from a port with another pool.
#![expect(unsafe_code, reason = "DPDK's packets are foreign memory")]

use std::ffi::CString;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::sys;

use crate::eal::{self, Eal};
use crate::{DpdkError, Queue};

/// Packets that are received or sent in one call.
pub(crate) const BURST: usize = 32;
/// Buffers that a thread keeps for itself.
const CACHE: u32 = 256;

/// Buffers of one size.
#[derive(Debug)]
pub struct Pool {
    raw: NonNull<sys::rte_mempool>,
    buffers: u32,
    frame_len_max: usize,
    _eal: Eal,
}

// SAFETY: DPDK's pools take and give buffers in any thread; the one call that needs a pool for itself is the one that frees it,
// in `drop`.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// The size of a slot in a packet socket's ring for frames of this length, with the kernel's header before them: the driver needs
/// slots that fill pages.
pub(crate) fn ring_slot(frame_len_max: usize) -> usize {
    match frame_len_max + 66 {
        ..=2048 => 2048,
        len => len.next_multiple_of(4096),
    }
}

/// Dropped pools some of whose buffers are still held by a ring or a device.
static PARKED: Mutex<Vec<Parked>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Parked {
    raw: NonNull<sys::rte_mempool>,
    buffers: u32,
}

// SAFETY: as `Pool`.
unsafe impl Send for Parked {}

impl Parked {
    /// Frees the pool if every buffer is back in it; else returns it.
    fn free(self) -> Option<Self> {
        // SAFETY: the pool is alive, since only this function frees one, and it consumes the pool.
        if unsafe { sys::rte_mempool_avail_count(self.raw.as_ptr()) } < self.buffers {
            return Some(self);
        }
        // SAFETY: as above; every buffer is in the pool, so there is no pointer into its memory, and since no `Pool`
        // refers to it any more, none can be taken.
        unsafe { sys::rte_mempool_free(self.raw.as_ptr()) };
        None
    }
}

impl Pool {
    /// A pool of `buffers` buffers, each with room for a frame of `frame_len_max` bytes in one piece.
    ///
    /// # Errors
    ///
    /// [`DpdkError::Memory`].
    pub fn new(eal: &Eal, buffers: u32, frame_len_max: usize) -> Result<Arc<Self>, DpdkError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let mut parked = PARKED.lock().unwrap_or_else(PoisonError::into_inner);
        *parked = parked.drain(..).filter_map(Parked::free).collect();
        drop(parked);
        let memory = || DpdkError::Memory { what: "packets", log: eal::take_log() };
        let name = format!("netfold-{}", MADE.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name).map_err(|_| memory())?;
        // Drivers take no buffers of less than 2 KiB, and packet sockets none of less than a slot of their rings.
        let room = ring_slot(frame_len_max) + sys::RTE_PKTMBUF_HEADROOM as usize;
        let room = u16::try_from(room).map_err(|_| memory())?;
        // SAFETY: DPDK runs (there is an `Eal`), and the name ends with a zero and is copied.
        let raw = unsafe { sys::rte_pktmbuf_pool_create(name.as_ptr(), buffers, CACHE, 0, room, -1) };
        let raw = NonNull::new(raw).ok_or_else(memory)?;
        Ok(Arc::new(Self { raw, buffers, frame_len_max, _eal: eal.clone() }))
    }

    /// Longest frame in bytes that one buffer holds.
    #[must_use]
    pub fn frame_len_max(&self) -> usize {
        self.frame_len_max
    }

    /// Free buffers.
    #[must_use]
    pub fn available(&self) -> u32 {
        // SAFETY: the pool is alive.
        unsafe { sys::rte_mempool_avail_count(self.raw.as_ptr()) }
    }

    pub(crate) fn raw(&self) -> *mut sys::rte_mempool {
        self.raw.as_ptr()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let parked = Parked { raw: self.raw, buffers: self.buffers };
        if let Some(parked) = parked.free() {
            PARKED.lock().unwrap_or_else(PoisonError::into_inner).push(parked);
        }
    }
}

/// A packet that lies in one buffer or several.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    raw: *const sys::rte_mbuf,
    holder: PhantomData<&'a Arrivals>,
}

impl<'a> Packet<'a> {
    /// Its length in bytes, over all its buffers.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "packets have bytes")]
    pub fn len(self) -> usize {
        // SAFETY: the holder owns the buffer as long as this borrows it.
        unsafe { sys::netfold_packet_len(self.raw) as usize }
    }

    /// Its bytes, buffer by buffer.
    pub fn segments(self) -> impl Iterator<Item = &'a [u8]> {
        let mut next = self.raw;
        std::iter::from_fn(move || {
            if next.is_null() {
                return None;
            }
            let mut segment = sys::netfold_segment { data: std::ptr::null(), len: 0, next: std::ptr::null() };
            // SAFETY: the holder owns the whole chain as long as 'a, and `next` is a buffer of it.
            unsafe { sys::netfold_segment_of(next, &mut segment) };
            next = segment.next;
            // SAFETY: `data` and `len` describe bytes of that buffer, which are not written while the holder is borrowed.
            Some(unsafe { std::slice::from_raw_parts(segment.data, segment.len as usize) })
        })
    }

    /// Its first bytes, as many as `spare` has: borrowed if they are contiguous, or copied.
    pub(crate) fn head<'b>(self, spare: &'b mut [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        let first = self.segments().next().unwrap_or_default();
        let wanted = spare.len().min(self.len());
        if first.len() >= wanted {
            return &first[..wanted];
        }
        let mut len = 0;
        for segment in self.segments() {
            let part = segment.len().min(wanted - len);
            spare[len..len + part].copy_from_slice(&segment[..part]);
            len += part;
        }
        &spare[..len]
    }

    /// Copies the packet into one piece of memory of its length; false, and the memory is as it was or partly written, when the
    /// buffers hold fewer bytes than the packet's length.
    #[must_use]
    pub fn copy_to(self, memory: &mut [u8]) -> bool {
        let mut rest = memory;
        for segment in self.segments() {
            let Some((to, after)) = rest.split_at_mut_checked(segment.len()) else { return false };
            to.copy_from_slice(segment);
            rest = after;
        }
        rest.is_empty()
    }
}

/// A packet in transfer from one thread to another. Returns to its pool when dropped.
#[derive(Debug)]
pub(crate) struct TransferredPacket(NonNull<sys::rte_mbuf>);

// SAFETY: the packet belongs to this value, or to several that only read; DPDK's buffers may be freed from any thread.
unsafe impl Send for TransferredPacket {}

impl TransferredPacket {
    /// The packet.
    pub(crate) fn packet(&self) -> Packet<'_> {
        Packet { raw: self.0.as_ptr(), holder: PhantomData }
    }

    /// The same packet for another reader.
    pub(crate) fn again(&self) -> Self {
        // SAFETY: the packet is alive, and from here on it has another holder, the value below.
        unsafe { sys::netfold_hold(self.0.as_ptr()) };
        Self(self.0)
    }

    fn into_raw(self) -> *mut sys::rte_mbuf {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for TransferredPacket {
    fn drop(&mut self) {
        // SAFETY: the packet belongs to this value, which is about to end.
        unsafe { sys::rte_pktmbuf_free_bulk(&mut self.0.as_ptr(), 1) };
    }
}

/// Packets received and not yet processed, oldest first.
#[derive(Debug)]
pub struct Arrivals {
    raw: [*mut sys::rte_mbuf; BURST],
    next: usize,
    len: usize,
}

// SAFETY: the buffers belong to this value alone, and DPDK's buffers may be freed from any thread.
unsafe impl Send for Arrivals {}

impl Default for Arrivals {
    fn default() -> Self {
        Self { raw: [std::ptr::null_mut(); BURST], next: 0, len: 0 }
    }
}

impl Arrivals {
    /// Receives from a queue, if nothing is left here. Returns whether there is something now.
    pub fn fill(&mut self, queue: &mut Queue) -> bool {
        if self.next == self.len {
            self.release();
            self.len = queue.receive(&mut self.raw);
        }
        self.next < self.len
    }

    /// Passes every packet here through `keep`, which returns those that stay.
    pub(crate) fn sort(&mut self, mut keep: impl FnMut(TransferredPacket) -> Option<TransferredPacket>) {
        let (next, len) = (self.next, self.len);
        (self.next, self.len) = (0, 0);
        for index in next..len {
            let Some(raw) = NonNull::new(self.raw[index]) else { continue };
            // Entries up to here were read before.
            if let Some(stays) = keep(TransferredPacket(raw)) {
                self.raw[self.len] = stays.into_raw();
                self.len += 1;
            }
        }
    }

    /// Takes packets from `next`, up to a burst, if nothing is left here.
    pub(crate) fn take(&mut self, next: impl Iterator<Item = TransferredPacket>) {
        if self.next == self.len {
            self.release();
            for packet in next.take(BURST) {
                self.raw[self.len] = packet.into_raw();
                self.len += 1;
            }
        }
    }

    /// How many are left.
    pub(crate) fn len(&self) -> usize {
        self.len - self.next
    }

    /// The oldest packet.
    #[must_use]
    pub fn first(&self) -> Option<Packet<'_>> {
        let raw = self.raw[..self.len].get(self.next)?;
        Some(Packet { raw: *raw, holder: PhantomData })
    }

    /// Frees the oldest packet.
    pub fn pop(&mut self) {
        self.next = self.len.min(self.next + 1);
        if self.next == self.len {
            self.release();
        }
    }

    /// Frees all buffers.
    fn release(&mut self) {
        if self.len > 0 {
            // SAFETY: the first `len` pointers are buffers that belong to this value, and it forgets them.
            unsafe { sys::rte_pktmbuf_free_bulk(self.raw.as_mut_ptr(), self.len as u32) };
        }
        (self.next, self.len) = (0, 0);
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.release();
    }
}

/// Frames to send, oldest first, and empty buffers for more of them.
#[derive(Debug)]
pub struct Outbox {
    pool: Arc<Pool>,
    /// Empty buffers, the last of which may have been lent.
    empty: Vec<*mut sys::rte_mbuf>,
    /// What was lent of it.
    lent: Option<(NonNull<u8>, u16)>,
    /// Frames from `sent` on.
    queued: Vec<*mut sys::rte_mbuf>,
    sent: usize,
    queued_max: usize,
}

// SAFETY: the buffers belong to this value alone, and DPDK's buffers may be freed from any thread.
unsafe impl Send for Outbox {}

impl Outbox {
    /// Room for `queued_max` frames, in buffers of `pool`.
    #[must_use]
    pub fn new(pool: Arc<Pool>, queued_max: usize) -> Self {
        let empty = Vec::with_capacity(BURST);
        Self { pool, empty, lent: None, queued: Vec::with_capacity(queued_max), sent: 0, queued_max }
    }

    /// Frames that are queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queued.len() - self.sent
    }

    /// Whether none is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is room and a buffer for one more frame.
    #[must_use]
    pub fn has_room(&mut self) -> bool {
        if self.queued.len() == self.queued_max {
            return false;
        }
        if self.empty.is_empty() {
            let mut fresh = [std::ptr::null_mut(); BURST];
            // SAFETY: the pool is alive, and the array has as many entries as buffers are requested.
            if unsafe { sys::netfold_alloc(self.pool.raw(), fresh.as_mut_ptr(), BURST as u32) } != 0 {
                return false;
            }
            self.empty.extend(fresh);
        }
        true
    }

    /// Memory for a frame of `len` bytes, with whatever was in it, or `None` when the queue is full, the pool is empty or the
    /// frame does not fit a buffer. Nothing has happened without [`push`](Self::push).
    pub fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.pool.frame_len_max || !self.has_room() {
            return None;
        }
        let (last, len) = (*self.empty.last()?, u16::try_from(len).ok()?);
        // A repeated request for the same length is free.
        let bytes = match self.lent {
            Some((bytes, same)) if same == len => bytes,
            lent => {
                if lent.is_some() {
                    // SAFETY: the buffer belongs to this value and is alone, not a chain.
                    unsafe { sys::netfold_reset(last) };
                    self.lent = None;
                }
                // SAFETY: `last` is an empty buffer of this value.
                NonNull::new(unsafe { sys::netfold_append(last, len) })?
            }
        };
        self.lent = Some((bytes, len));
        // SAFETY: the buffer has `len` bytes there, initialised by its last user or zero from the kernel, and this value,
        // which the slice borrows, alone has the buffer.
        Some(unsafe { std::slice::from_raw_parts_mut(bytes.as_ptr(), usize::from(len)) })
    }

    /// Queues the frame that [`frame`](Self::frame) lent last.
    ///
    /// # Panics
    ///
    /// When none was lent since the last call.
    pub fn push(&mut self) {
        assert!(self.lent.take().is_some(), "no frame was lent");
        self.queued.extend(self.empty.pop());
    }

    /// Queues a frame in several buffers, one for each part. False, and nothing is queued, when there are no parts or no room,
    /// for a moment, for each part as a frame of its own.
    #[must_use]
    pub fn push_parts(&mut self, parts: &[&[u8]]) -> bool {
        let first = self.queued.len();
        let mut whole = !parts.is_empty();
        for part in parts {
            let Some(bytes) = self.frame(part.len()) else {
                whole = false;
                break;
            };
            bytes.copy_from_slice(part);
            self.push();
        }
        while whole && self.queued.len() > first + 1 {
            let buffer = self.queued.remove(first + 1);
            // SAFETY: both belong to this value; from here on the second one belongs to the first.
            if unsafe { sys::netfold_chain(self.queued[first], buffer) } != 0 {
                self.queued.push(buffer);
                whole = false;
            }
        }
        if !whole {
            for mut buffer in self.queued.drain(first..) {
                // SAFETY: the buffer, and what hangs on it, belongs to this value, which forgets it.
                unsafe { sys::rte_pktmbuf_free_bulk(&mut buffer, 1) };
            }
        }
        whole
    }

    /// The oldest frames that are queued, up to `count` of them, for another thread to send. They have to be taken, all of them.
    pub(crate) fn pass_on(&mut self, count: usize) -> impl Iterator<Item = TransferredPacket> + '_ {
        let count = count.min(self.len());
        // `sent` is 0 between calls.
        self.queued.drain(..count).filter_map(NonNull::new).map(TransferredPacket)
    }

    /// Queues frames of another thread, as far as there is room.
    pub(crate) fn adopt(&mut self, others: impl Iterator<Item = TransferredPacket>) {
        let places = self.places();
        self.queued.extend(others.take(places).map(TransferredPacket::into_raw));
    }

    /// Frames that can be queued.
    pub(crate) fn places(&self) -> usize {
        self.queued_max - self.queued.len()
    }

    /// Sends frames through a queue, in order, as many as it takes. The others stay.
    pub fn flush(&mut self, queue: &mut Queue) -> usize {
        let mut count = 0;
        while self.sent < self.queued.len() {
            let taken = queue.send(&mut self.queued[self.sent..]);
            self.sent += taken;
            count += taken;
            if taken == 0 {
                break;
            }
        }
        if self.sent == self.queued.len() {
            self.queued.clear();
            self.sent = 0;
        } else if self.sent > 0 {
            self.queued.drain(..self.sent);
            self.sent = 0;
        }
        count
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        for buffers in [&mut self.empty, &mut self.queued] {
            if !buffers.is_empty() {
                // SAFETY: all belong to this value, which is about to forget them; `sent` is 0 between calls.
                unsafe { sys::rte_pktmbuf_free_bulk(buffers.as_mut_ptr(), buffers.len() as u32) };
            }
        }
    }
}
