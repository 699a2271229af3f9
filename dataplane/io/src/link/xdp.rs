//! XDP sockets: frames of one queue, taken by a program before the kernel's network stack sees them.

mod borrowed;
mod program;
mod queue;
mod queues;
mod release;
mod ring;
mod threads;

use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use self::program::{Attachment, Hook};
use self::queue::Queue;
pub use self::queues::XdpQueues;
use super::device::{Device, refused};
use super::{Link, LinkProperties, socket};
use crate::event_waker::EventWaker;
use crate::{IoCounters, IoError, PortId, RxBatch, sys};

const NAME: &str = "af-xdp";
/// Frames a call beyond which more gain nothing.
const BURST: usize = 256;
/// Calls of `receive` between two checks of the ARP socket when no neighbour is unresolved.
const CALLS_A_LOOK: u32 = 256;

/// How frames come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// The device writes into our memory: the driver's XDP, zero-copy.
    ZeroCopy,
    /// The driver's XDP, and the kernel copies each frame once.
    Native,
    /// The driver has no XDP: the program runs behind it, on packet buffers. No faster than packet sockets.
    Generic,
}

/// What an XDP socket takes, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpConfig {
    /// IPv4 address and UDP port whose datagrams are taken. Everything else goes on to the kernel.
    pub address: SocketAddrV4,
    /// The first receive queue.
    pub queue: u32,
    /// Refuse generic mode rather than fall back to it.
    pub native_only: bool,
    /// Use generic mode though the driver may do better.
    pub force_generic: bool,
}

impl XdpConfig {
    /// Datagrams to `address` that arrive by queue 0.
    #[must_use]
    pub fn new(address: SocketAddrV4) -> Self {
        Self { address, queue: 0, native_only: false, force_generic: false }
    }
}

/// A queue of an interface by an XDP socket (AF_XDP).
///
/// A program on the interface takes the UDP datagrams to one address and port, and lets everything else through to the kernel, which goes
/// on to answer ARP and pings. ARP frames are received beside it by a packet socket, because peers are looked for by ARP. The program
/// leaves the interface with the last link that uses it, and when the process is killed.
///
/// Datagrams that arrive by queues without a socket go to the kernel. Give the interface one queue (`ethtool -L IFACE combined 1`), steer our
/// datagrams to ours (`ethtool -N`), or open all, for a thread each ([`open_queues`](Self::open_queues)), for one
/// ([`XdpQueues`]), or for several that are distinguished by their ports ([`XdpQueues::open_threads`]).
///
/// A driver that cannot run the program has it run behind it; [`mode`](Self::mode) and the link's name say so. On pairs of virtual
/// interfaces frames have incomplete checksums ([`ethernet`](crate::ethernet) takes them).
pub struct Xdp {
    queue: Queue,
    number: u32,
    device: Device,
    fd: OwnedFd,
    arp: OwnedFd,
    arp_ready: bool,
    /// ARP is received by another queue of the same link.
    arp_left: bool,
    /// Readable when something has arrived at other queues that this one sleeps for.
    others: Option<OwnedFd>,
    calls: u32,
    mode: XdpMode,
    waker: Arc<EventWaker>,
    counters: IoCounters,
    /// Dropped last: the queue's socket must be there as long as the program sends to it.
    _attachment: Arc<Attachment>,
}

impl Xdp {
    /// Opens queue `config.queue` of `interface`.
    ///
    /// # Errors
    ///
    /// [`IoError::Link`] with what is missing: the interface, the queue, the right (CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF), XDP sockets in the
    /// kernel (5.9), or a driver that takes frames of the interface's MTU.
    pub fn open(interface: &str, config: XdpConfig) -> Result<Self, IoError> {
        Self::open_queues(interface, config, 1)?.pop().ok_or(IoError::Unsupported("a link without queues"))
    }

    /// Opens `count` queues of `interface` from `config.queue` on, a link each, for a thread each.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_queues(interface: &str, config: XdpConfig, count: u32) -> Result<Vec<Self>, IoError> {
        let attachment = attach(interface, &config, count, &[config.address.port()])?;
        let queues = config.queue..config.queue.saturating_add(count);
        queues.map(|queue| Self::on(interface, (queue, 0), &attachment)).collect()
    }

    /// How many receive queues an interface has in use; 1 where its driver does not say.
    ///
    /// # Errors
    ///
    /// [`IoError::Link`] when there is no such interface, or without the right to look.
    pub fn queues_of(interface: &str) -> Result<u32, IoError> {
        let refuse = |source| refused(NAME, interface, source);
        let look = socket::socket(libc::AF_PACKET, libc::SOCK_RAW).map_err(refuse)?;
        Device::open(NAME, interface, look.as_fd())?;
        Ok(socket::receive_queues(look.as_fd(), interface))
    }

    /// Opens a queue, which has what arrives by it for the program's port of that number.
    fn on(
        interface: &str,
        (number, port): (u32, u32),
        (attachment, hook): &(Arc<Attachment>, Hook),
    ) -> Result<Self, IoError> {
        let refuse = |source| refused(NAME, interface, source);
        let arp = socket::socket(libc::AF_PACKET, libc::SOCK_RAW).map_err(refuse)?;
        let device = Device::open(NAME, interface, arp.as_fd())?;
        super::hear_arrivals_only(arp.as_fd()).map_err(refuse)?;
        socket::bind_packet(arp.as_fd(), device.facts.index, libc::ETH_P_ARP).map_err(refuse)?;
        let _ = sys::option(arp.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR);
        let fd = socket::socket(libc::AF_XDP, libc::SOCK_RAW).map_err(refuse)?;
        let copy = *hook == Hook::Generic;
        let queue = Queue::open(fd.as_fd(), device.facts.index, number, device.frame_len_max(), copy);
        let queue = queue.map_err(refuse)?;
        attachment.steer(number, port, fd.as_fd()).map_err(refuse)?;
        let mode = match (hook, queue.is_zero_copy()) {
            (Hook::Generic, _) => XdpMode::Generic,
            (Hook::Driver, true) => XdpMode::ZeroCopy,
            (Hook::Driver, false) => XdpMode::Native,
        };
        Ok(Self {
            queue,
            number,
            device,
            fd,
            arp,
            arp_ready: true,
            arp_left: false,
            others: None,
            calls: 0,
            mode,
            waker: Arc::new(EventWaker::new()?),
            counters: IoCounters::default(),
            _attachment: Arc::clone(attachment),
        })
    }

    /// How frames come in: as fast as the driver goes, or the fall-back.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Receives no ARP from now on: one queue of an interface is enough.
    fn leave_arp(&mut self) -> Result<(), IoError> {
        self.arp_left = true;
        sys::take_nothing(self.arp.as_fd()).map_err(|source| IoError::os("setsockopt", source))
    }

    /// Appends ARP frames to the batch.
    fn hear_arp(&mut self, batch: &mut RxBatch) -> Result<(), IoError> {
        /// An ARP frame for IPv4, padded as Ethernet pads.
        const LEN: usize = 60;
        self.calls = 0;
        self.arp_ready = true;
        while let Some(place) = batch.spare(LEN) {
            self.counters.rx_calls += 1;
            match socket::receive(self.arp.as_fd(), place) {
                Ok(len) => batch.commit(PortId(0), len.min(LEN), 0),
                Err(error) => {
                    self.arp_ready = false;
                    if error.kind() == std::io::ErrorKind::WouldBlock {
                        break;
                    }
                    self.device.judge(self.arp.as_fd(), "recv", error.raw_os_error())?;
                }
            }
        }
        Ok(())
    }

    /// Has the kernel send what is queued, as far as it goes.
    fn drive(&mut self) -> Result<(), IoError> {
        let Self { queue, fd, counters, .. } = self;
        match queue.send(fd.as_fd(), &mut counters.tx_calls) {
            Ok(()) => Ok(()),
            Err(error) => self.device.judge(self.arp.as_fd(), "sendto", error.raw_os_error()),
        }
    }
}

/// Puts the program for `ports` onto the interface, for `count` queues from the first on: into the driver, or where that cannot, behind it.
fn attach(
    interface: &str,
    config: &XdpConfig,
    count: u32,
    ports: &[u16],
) -> Result<(Arc<Attachment>, Hook), IoError> {
    let refuse = |source| refused(NAME, interface, source);
    let look = socket::socket(libc::AF_PACKET, libc::SOCK_RAW).map_err(refuse)?;
    let index = Device::open(NAME, interface, look.as_fd())?.facts.index;
    let (end, ip) = (config.queue.saturating_add(count), *config.address.ip());
    let attach = |hook| release::retry_while_taken(|| Attachment::new(index, hook, end, (ip, ports)));
    let first = if config.force_generic { Hook::Generic } else { Hook::Driver };
    let (attachment, hook) = match attach(first) {
        Ok(attachment) => (attachment, first),
        Err(error) if first == Hook::Driver && queue::driver_cannot(&error) && !config.native_only => {
            (attach(Hook::Generic).map_err(refuse)?, Hook::Generic)
        }
        Err(error) => return Err(refuse(error)),
    };
    Ok((Arc::new(attachment), hook))
}

impl Link for Xdp {
    fn properties(&self) -> LinkProperties {
        LinkProperties {
            name: match self.mode {
                XdpMode::ZeroCopy => "af-xdp, zero-copy",
                XdpMode::Native => NAME,
                XdpMode::Generic => "af-xdp, generic",
            },
            mac: self.device.facts.mac,
            frame_len_max: self.device.frame_len_max(),
            bits_per_second: self.device.bits_per_second(),
            burst_max: BURST,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        self.device.check()?;
        self.calls += 1;
        if !self.arp_left && (self.arp_ready || self.calls >= CALLS_A_LOOK) {
            self.hear_arp(batch)?;
        }
        let longest = self.device.frame_len_max();
        self.queue.receive(batch, longest, &mut self.counters.truncated);
        if batch.is_empty() && self.queue.wants_fill() {
            // The driver stopped for want of places, and has them again.
            self.counters.rx_calls += 1;
            let _ = socket::receive(self.fd.as_fd(), &mut []);
        }
        Ok(batch.len())
    }

    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.device.frame_len_max() {
            return None;
        }
        self.queue.lend(len)
    }

    fn push(&mut self) {
        self.queue.push();
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.device.check()?;
        self.drive()
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.device.check()?;
        if self.queue.has_arrivals() || !self.waker.announce_sleep() {
            return Ok(true);
        }
        let unsent = self.queue.has_unsent();
        let Self { device, fd, arp, others, waker, counters, arp_ready, .. } = self;
        let ready = device.sleep(arp.as_fd(), timeout, |nap| {
            let out = if unsent { libc::POLLOUT } else { 0 };
            let others = others.as_ref().map_or(fd.as_fd(), |others| others.as_fd());
            let fds = [
                (fd.as_fd(), libc::POLLIN | out),
                (arp.as_fd(), libc::POLLIN),
                (waker.fd(), libc::POLLIN),
                (others, libc::POLLIN),
            ];
            counters.sleeps += u64::from(!nap.is_zero());
            let ready = sys::poll(fds, nap);
            waker.end_sleep(matches!(ready, Ok([_, _, true, _])));
            let ready = ready.map_err(|source| IoError::os("ppoll", source))?;
            *arp_ready |= ready[1];
            Ok(ready != [false; 4])
        })?;
        if unsent {
            self.drive()?;
        }
        Ok(ready)
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.waker))
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waker.fd())
    }

    fn counters(&self) -> IoCounters {
        IoCounters { rx_dropped: queue::dropped(self.fd.as_fd()), ..self.counters }
    }
}
