//! Several queues of an interface as one link.

use std::os::fd::{AsFd, BorrowedFd};
use std::task::Waker;
use std::time::Duration;

use rustix::event::epoll;

use super::borrowed::BorrowedQueue;
use super::{Xdp, XdpConfig};
use crate::link::{Link, LinkProperties};
use crate::{IoCounters, IoError, RxBatch};

/// Queues of an interface, for one thread: datagrams are received from all of them, and sent by the first.
///
/// An interface deals what arrives out to its queues, by addresses and ports; with this nothing has to be steered, and nothing is missed.
/// Where several threads have an interface ([`open_threads`](Self::open_threads)), each has some of the queues, and sockets at those of
/// the others.
pub struct XdpQueues {
    /// The first also receives ARP, and sleeps for all.
    queues: Vec<Xdp>,
    /// What arrives for us by queues of other threads.
    borrowed: Vec<BorrowedQueue>,
    /// The queue or borrowed queue that is polled first.
    next: usize,
}

impl XdpQueues {
    /// Opens `count` queues of `interface` from `config.queue` on.
    ///
    /// # Errors
    ///
    /// As [`Xdp::open`]; [`IoError::Unsupported`] for no queue at all.
    pub fn open(interface: &str, config: XdpConfig, count: u32) -> Result<Self, IoError> {
        Self::of(Xdp::open_queues(interface, config, count)?, Vec::new())
    }

    /// One link of these.
    pub(super) fn of(mut queues: Vec<Xdp>, borrowed: Vec<BorrowedQueue>) -> Result<Self, IoError> {
        let Some((first, others)) = queues.split_first_mut() else {
            return Err(IoError::Unsupported("a link without queues"));
        };
        if !others.is_empty() || !borrowed.is_empty() {
            let os = |call| move |source: rustix::io::Errno| IoError::os(call, source.into());
            let arrivals = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(os("epoll_create"))?;
            let fds =
                others.iter().map(|queue| queue.fd.as_fd()).chain(borrowed.iter().map(BorrowedQueue::fd));
            for fd in fds {
                let data = epoll::EventData::new_u64(0);
                epoll::add(&arrivals, fd, data, epoll::EventFlags::IN).map_err(os("epoll_ctl"))?;
            }
            for queue in others {
                queue.leave_arp()?;
            }
            first.others = Some(arrivals);
        }
        Ok(Self { queues, borrowed, next: 0 })
    }
}

impl Link for XdpQueues {
    fn properties(&self) -> LinkProperties {
        self.queues[0].properties()
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let own = self.queues.len();
        let count = own + self.borrowed.len();
        for index in (self.next..count).chain(0..self.next) {
            if index < own {
                self.queues[index].receive(batch)?;
            } else {
                batch.clear();
                self.borrowed[index - own].receive(batch);
            }
            if !batch.is_empty() {
                self.next = (index + 1) % count;
                return Ok(batch.len());
            }
        }
        Ok(0)
    }

    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        self.queues[0].frame(len)
    }

    fn push(&mut self) {
        self.queues[0].push();
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.queues[0].flush()
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        if self.queues.iter_mut().any(|queue| queue.queue.has_arrivals())
            || self.borrowed.iter_mut().any(BorrowedQueue::has_arrivals)
        {
            return Ok(true);
        }
        // Other threads may have woken us for that alone.
        self.queues.iter_mut().for_each(|queue| queue.queue.take_back());
        self.queues[0].wait(timeout)
    }

    fn waker(&self) -> Waker {
        self.queues[0].waker()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.queues[0].wake_fd()
    }

    fn counters(&self) -> IoCounters {
        let mut counters = IoCounters::default();
        self.queues.iter().for_each(|queue| counters.add(&queue.counters()));
        self.borrowed.iter().for_each(|borrowed| counters.add(&borrowed.counters()));
        counters
    }
}
