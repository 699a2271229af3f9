//! What carries whole Ethernet frames: the seam below the backends that write their own outer headers.
//!
//! A [`Link`] is one queue of one interface. It knows frames and nothing of addresses: Ethernet, ARP, IPv4 and UDP are the
//! business of its user, so that every way to reach a queue (a packet socket, its memory-mapped ring, an XDP socket, a
//! DPDK port) is a `Link` of a few hundred lines, and all of them share one implementation of headers and replies.

#[cfg(target_os = "linux")]
mod af_packet;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
pub(crate) mod mapping;
#[cfg(target_os = "linux")]
mod packet;
#[cfg(target_os = "linux")]
mod packet_ring;
mod segment;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
mod staging;
#[cfg(target_os = "linux")]
mod xdp;

#[cfg(target_os = "linux")]
use std::os::fd::BorrowedFd;
use std::task::Waker;
use std::time::Duration;

#[cfg(target_os = "linux")]
pub use self::af_packet::AfPacket;
#[cfg(target_os = "linux")]
pub use self::device::{InterfaceInfo, interfaces};
#[cfg(target_os = "linux")]
pub(crate) use self::device::{has_ipv4, ipv4_of};
#[cfg(target_os = "linux")]
use self::packet::{Lost, SOCKET_BUFFER, hear_arrivals_only, hear_port_only, sleep};
#[cfg(target_os = "linux")]
pub use self::packet_ring::{PacketRing, RingVersion};
pub use self::segment::{Station, segment};
#[cfg(target_os = "linux")]
pub use self::xdp::{Xdp, XdpConfig, XdpMode, XdpQueues};
use crate::{IoCounters, IoError, RxBatch};

/// Frames of the usual length, up to 2 KiB, that may have arrived at a link and wait to be received: the windows of 16 workers, of 256
/// packets each. Where all windows together are longer, a delayed thread loses their ends, and the same after retransmission;
/// longer rings cost everybody, since frames go around all of their memory and not the cache alone.
pub const ARRIVALS: usize = 4096;

/// What a link is. Constant for its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkProperties {
    /// Name of the way that frames take, for messages: `"af-packet"`.
    pub name: &'static str,
    /// The interface's own Ethernet address.
    pub mac: [u8; 6],
    /// Longest frame in bytes, from the destination address to the end of the payload: the MTU and 14.
    pub frame_len_max: usize,
    /// The rate in bits a second, where it is known.
    pub bits_per_second: Option<u64>,
    /// Frames a call of [`Link::receive`] beyond which a larger burst gains nothing.
    pub burst_max: usize,
}

/// One queue of an Ethernet interface: bursts of frames in, bursts of frames out, and a way to sleep between them.
///
/// One thread drives it. A frame begins with the destination's address and ends with the payload: no preamble, no frame check
/// sequence, and an 802.1Q tag only where one was on the wire. No call allocates once the link is open, and none but
/// [`wait`](Self::wait) sleeps.
pub trait Link: Send {
    /// What this link is.
    fn properties(&self) -> LinkProperties;

    /// Sets that of UDP only datagrams to this port are wanted from now on. A link that can filter drops the rest; others, and those that receive
    /// their port alone in any case, do nothing.
    ///
    /// # Errors
    ///
    /// [`IoError::Os`] when the system refuses.
    fn hear_port(&mut self, _port: u16) -> Result<(), IoError> {
        Ok(())
    }

    /// Clears `batch` and fills it with frames that have arrived, oldest first, each with port 0 and ECN bits 0. Frames longer than
    /// `frame_len_max` or the batch's whole memory are dropped and counted in [`IoCounters::truncated`].
    ///
    /// # Errors
    ///
    /// [`IoError::Os`] when the link is broken for good, for instance because its interface was removed.
    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError>;

    /// Memory for the next frame to send, `len` bytes with unspecified content, or `None` when the queue is full or `len` is
    /// above `frame_len_max`. Without [`push`](Self::push) nothing is sent.
    fn frame(&mut self, len: usize) -> Option<&mut [u8]>;

    /// Queues the frame that [`frame`](Self::frame) lent last, with that length.
    ///
    /// # Panics
    ///
    /// May panic when `frame` was not called since the last `push`.
    fn push(&mut self);

    /// Has what is queued sent. Frames of one link leave in order. What the system then fails to send is counted in
    /// [`IoCounters::tx_failed`].
    ///
    /// # Errors
    ///
    /// [`IoError::Os`] when the link is broken for good.
    fn flush(&mut self) -> Result<(), IoError>;

    /// Sleeps until a frame has arrived, a full queue has room again, or the waker fires (all `Ok(true)`), or until `timeout` is
    /// over (`Ok(false)`). May return `Ok(true)` without cause.
    ///
    /// # Errors
    ///
    /// [`IoError::Os`] when the link is broken for good.
    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError>;

    /// A handle that ends the current or the next [`wait`](Self::wait), from any thread.
    fn waker(&self) -> Waker;

    /// An event descriptor (eventfd(2)) that ends the current or the next [`wait`](Self::wait) when it is written, where there is one.
    #[cfg(target_os = "linux")]
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The counters so far: calls of the system, sleeps, frames that were cut off or failed. Packets and bytes are counted above.
    fn counters(&self) -> IoCounters;
}

impl<T: Link + ?Sized> Link for Box<T> {
    fn properties(&self) -> LinkProperties {
        (**self).properties()
    }

    fn hear_port(&mut self, port: u16) -> Result<(), IoError> {
        (**self).hear_port(port)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        (**self).receive(batch)
    }

    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        (**self).frame(len)
    }

    fn push(&mut self) {
        (**self).push();
    }

    fn flush(&mut self) -> Result<(), IoError> {
        (**self).flush()
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        (**self).wait(timeout)
    }

    fn waker(&self) -> Waker {
        (**self).waker()
    }

    #[cfg(target_os = "linux")]
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).wake_fd()
    }

    fn counters(&self) -> IoCounters {
        (**self).counters()
    }
}
