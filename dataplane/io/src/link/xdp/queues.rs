//! Several queues of an interface as one link.

use std::os::fd::{AsFd, BorrowedFd};
use std::task::Waker;
use std::time::Duration;

use rustix::event::epoll;

use super::{Xdp, XdpConfig};
use crate::link::{Link, LinkProperties};
use crate::{IoCounters, IoError, RxBatch};

/// Queues of an interface that follow each other, for one thread: datagrams are taken from whichever they arrive by, and sent by the first.
///
/// An interface deals what arrives out to its queues, by addresses and ports; with this nothing has to be steered, and nothing is missed.
pub struct XdpQueues {
    /// The first also hears ARP, and sleeps for all.
    queues: Vec<Xdp>,
    /// The queue that is looked at first.
    next: usize,
}

impl XdpQueues {
    /// Opens `count` queues of `interface` from `config.queue` on.
    ///
    /// # Errors
    ///
    /// As [`Xdp::open`]; [`IoError::Unsupported`] for no queue at all.
    pub fn open(interface: &str, config: XdpConfig, count: u32) -> Result<Self, IoError> {
        let mut queues = Xdp::open_queues(interface, config, count)?;
        let Some((first, others)) = queues.split_first_mut() else {
            return Err(IoError::Unsupported("a link without queues"));
        };
        if !others.is_empty() {
            let os = |call| move |source: rustix::io::Errno| IoError::os(call, source.into());
            let arrivals = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(os("epoll_create"))?;
            for queue in others {
                let data = epoll::EventData::new_u64(0);
                epoll::add(&arrivals, queue.fd.as_fd(), data, epoll::EventFlags::IN)
                    .map_err(os("epoll_ctl"))?;
                queue.leave_arp()?;
            }
            first.others = Some(arrivals);
        }
        Ok(Self { queues, next: 0 })
    }
}

impl Link for XdpQueues {
    fn properties(&self) -> LinkProperties {
        self.queues[0].properties()
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let count = self.queues.len();
        for index in (self.next..count).chain(0..self.next) {
            if self.queues[index].receive(batch)? > 0 {
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
        if self.queues.iter_mut().any(|queue| queue.queue.has_arrivals()) {
            return Ok(true);
        }
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
        counters
    }
}
