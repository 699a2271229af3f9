//! A thread's socket at a queue that is another thread's: datagrams to its own port that arrive there come straight to it.
//!
//! The kernel lets a socket receive from the one queue that it is bound to, and gives all sockets of a queue the same memory, with one
//! ring of places to receive into. The thread whose queue it is fills that ring. So a borrowed queue hands frames that it has read back to
//! that thread, by a ring with one writer and one reader: of addresses, never of packets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rtrb::{Producer, RingBuffer};

use super::super::mapping::Mapping;
use super::super::socket::{bind_beside, socket};
use super::Xdp;
use super::queue::{RX_FRAMES, dropped, take};
use super::ring::{Kind, Ring, make};
use crate::event_waker::EventWaker;
use crate::{IoCounters, RxBatch};

/// The socket.
pub(super) struct BorrowedQueue {
    rx: Ring,
    memory: Arc<Mapping>,
    /// Frames on their way back. It has room for all that there are.
    back: Producer<u64>,
    /// Wakes the thread that they go back to.
    owner: Arc<EventWaker>,
    /// Frames that it may have to take back before it is woken.
    returns_max: usize,
    frame_len_max: usize,
    fd: OwnedFd,
    counters: IoCounters,
}

impl BorrowedQueue {
    /// Opens the socket at the queue of `host`, for one of `threads` threads that have sockets there.
    pub(super) fn open(host: &mut Xdp, threads: usize) -> io::Result<Self> {
        let fd = socket(libc::AF_XDP, libc::SOCK_RAW)?;
        make(fd.as_fd(), Kind::Rx, RX_FRAMES)?;
        let rx = Ring::map(fd.as_fd(), Kind::Rx, RX_FRAMES)?;
        bind_beside(fd.as_fd(), host.device.facts.index, host.number, host.fd.as_fd())?;
        let (back, returned) = RingBuffer::new(RX_FRAMES as usize);
        host.queue.share(returned);
        Ok(Self {
            rx,
            memory: Arc::clone(&host.queue.memory),
            back,
            owner: Arc::clone(&host.waker),
            // All borrowed queues together then have a quarter of the frames when a thread that sleeps is woken.
            returns_max: RX_FRAMES as usize / (4 * threads.max(1)),
            frame_len_max: host.device.frame_len_max(),
            fd,
            counters: IoCounters::default(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn has_arrivals(&mut self) -> bool {
        self.rx.available(1) > 0
    }

    /// Appends frames to the batch.
    pub(super) fn receive(&mut self, batch: &mut RxBatch) {
        let Self { rx, memory, back, owner, returns_max, frame_len_max, counters, .. } = self;
        if rx.available(1) == 0 {
            return;
        }
        let room = back.slots();
        let Ok(frames) = back.write_chunk_uninit(room) else { return };
        let before = batch.len();
        let read = frames.fill_from_iter(std::iter::from_fn(|| {
            take(rx, memory, batch, *frame_len_max, &mut counters.truncated)
        }));
        rx.publish();
        counters.rx_crossed += (batch.len() - before) as u64;
        let late = RX_FRAMES as usize - room + read;
        if late >= *returns_max {
            owner.notify();
        }
        if late >= 2 * *returns_max {
            // It was woken before and has not run: it may wait for this core.
            std::thread::yield_now();
        }
    }

    pub(super) fn counters(&self) -> IoCounters {
        IoCounters { rx_dropped: dropped(self.fd()), ..self.counters }
    }
}
