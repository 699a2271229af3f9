//! Packet sockets with a receive ring in memory that is shared with the kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use self::ring::{Frame, Ring};
use super::device::{Device, SocketFault, classify, refused};
use super::socket::{self, FrameSender, MESSAGES_MAX};
use super::staging::Staging;
use super::{Link, LinkProperties, Lost};
use crate::event_waker::EventWaker;
use crate::{IoCounters, IoError, PortId, RxBatch, sys};

mod ring;

const NAME: &str = "packet-ring";
/// Frames that wait to be sent.
const FRAMES: usize = 256;
/// Calls of `receive` that find nothing between two looks at the socket's error.
const IDLE_CALLS_A_LOOK: u32 = 1024;

/// How the ring is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RingVersion {
    /// TPACKET_V2: a place a frame, each handed over by itself.
    #[default]
    Two,
    /// TPACKET_V3: blocks of frames, handed over when they are full or a timer of at least 1 ms fires.
    Three,
}

/// A packet socket on an interface (packet(7)): received frames are copied from a ring that the kernel fills, without a system
/// call; frames to send go 64 a call by `sendmmsg`.
///
/// What the interface's kernel sends and receives otherwise goes on undisturbed; frames that leave the machine here do not come
/// back in. When the ring is full, the kernel drops frames, and counts them.
pub struct PacketRing {
    device: Device,
    ring: Ring,
    fd: OwnedFd,
    sender: FrameSender,
    staging: Staging,
    waker: Arc<EventWaker>,
    idle: u32,
    counters: IoCounters,
    lost: Lost,
}

impl PacketRing {
    /// Opens `interface` with the layout that suits exchanges of short bursts: [`RingVersion::Two`].
    ///
    /// # Errors
    ///
    /// [`IoError::Link`] with what is missing: the interface, the right to open packet sockets, or memory.
    pub fn open(interface: &str) -> Result<Self, IoError> {
        Self::open_as(interface, RingVersion::default())
    }

    /// Opens `interface` with a ring of this layout.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_as(interface: &str, version: RingVersion) -> Result<Self, IoError> {
        let refuse = |source| refused(NAME, interface, source);
        let fd = socket::socket(libc::AF_PACKET, libc::SOCK_RAW).map_err(refuse)?;
        let device = Device::open(NAME, interface, fd.as_fd())?;
        super::hear_arrivals_only(fd.as_fd()).map_err(refuse)?;
        sys::enlarge_buffers(fd.as_fd(), super::SOCKET_BUFFER);
        let ring = Ring::new(fd.as_fd(), version, device.frame_len_max()).map_err(refuse)?;
        socket::bind_packet(fd.as_fd(), device.facts.index, libc::ETH_P_ALL).map_err(refuse)?;
        // Binding to an interface that is down leaves an error behind, which the first look would find.
        let _ = sys::option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR);
        Ok(Self {
            staging: Staging::new(FRAMES, device.frame_len_max()),
            ring,
            device,
            fd,
            sender: FrameSender::new(),
            waker: Arc::new(EventWaker::new()?),
            idle: 0,
            counters: IoCounters::default(),
            lost: Lost::default(),
        })
    }

    /// Takes the socket's error away, and says whether it is the end.
    fn look(&mut self) -> Result<(), IoError> {
        self.idle = 0;
        self.counters.rx_calls += 1;
        match sys::option(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR) {
            Ok(0) => Ok(()),
            Ok(code) => self.device.judge(self.fd.as_fd(), "packet socket", Some(code)),
            Err(source) => Err(IoError::os("getsockopt", source)),
        }
    }
}

impl Link for PacketRing {
    fn properties(&self) -> LinkProperties {
        LinkProperties {
            name: NAME,
            mac: self.device.facts.mac,
            frame_len_max: self.device.frame_len_max(),
            bits_per_second: self.device.bits_per_second(),
            burst_max: FRAMES,
        }
    }

    fn hear_port(&mut self, port: u16) -> Result<(), IoError> {
        super::hear_port_only(self.fd.as_fd(), port).map_err(|source| IoError::os("SO_ATTACH_FILTER", source))
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        self.device.check()?;
        let longest = self.device.frame_len_max();
        while batch.packets_left() > 0 {
            let Some(Frame { start, len, whole }) = self.ring.front() else { break };
            if !whole || len > longest || len > batch.memory().len() {
                self.counters.truncated += 1;
            } else {
                let Some(place) = batch.spare(len) else { break };
                if self.ring.copy(start, place) {
                    batch.commit(PortId(0), len, 0);
                }
            }
            self.ring.pop();
        }
        self.ring.hand_back();
        self.idle = if batch.is_empty() { self.idle + 1 } else { 0 };
        if self.idle >= IDLE_CALLS_A_LOOK {
            self.look()?;
        }
        Ok(batch.len())
    }

    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        self.staging.lend(len)
    }

    fn push(&mut self) {
        self.staging.push();
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.device.check()?;
        while !self.staging.is_empty() {
            self.counters.tx_calls += 1;
            let error = match self.sender.send(self.fd.as_fd(), self.staging.frames().take(MESSAGES_MAX)) {
                Ok(sent) => {
                    self.staging.pop(sent);
                    continue;
                }
                Err(error) => error,
            };
            match classify(&error) {
                SocketFault::Again => {}
                SocketFault::Full => break,
                SocketFault::Lost => {
                    self.staging.pop(1);
                    self.counters.tx_failed += 1;
                    self.device.judge(self.fd.as_fd(), "sendmmsg", error.raw_os_error())?;
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.device.check()?;
        if self.ring.front().is_some() || !self.waker.announce_sleep() {
            return Ok(true);
        }
        let unsent = !self.staging.is_empty();
        let Self { device, fd, waker, counters, .. } = self;
        let ready = device
            .sleep(fd.as_fd(), timeout, |nap| super::sleep(fd.as_fd(), unsent, waker, nap, counters))?;
        if ready && self.ring.front().is_none() {
            self.look()?;
        }
        if unsent && ready {
            self.flush()?;
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
        IoCounters { rx_dropped: self.lost.count(self.fd.as_fd()), ..self.counters }
    }
}

/// An error of a layout that cannot be had.
fn too_long() -> io::Error {
    io::Error::from_raw_os_error(libc::EMSGSIZE)
}
