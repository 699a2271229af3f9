//! Packet sockets by the `pnet` crate, a frame a system call: the link that works wherever there are packet sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use pnet_datalink::{Channel, Config, DataLinkReceiver, DataLinkSender};

use super::device::{Device, SocketFault, classify, refused};
use super::socket;
use super::staging::Staging;
use super::{Link, LinkProperties, Lost};
use crate::event_waker::EventWaker;
use crate::{IoCounters, IoError, PortId, RxBatch, sys};

const NAME: &str = "af-packet";
/// Frames that wait to be sent.
const FRAMES: usize = 64;

/// A packet socket on an interface (packet(7)), read and written by pnet.
///
/// Two system calls a frame each way, and a few allocations whenever there is nothing (more) to receive, both by pnet. What the interface's kernel sends and receives otherwise goes on undisturbed; frames that leave the
/// machine here do not come back in.
pub struct AfPacket {
    device: Device,
    /// The socket, also pnet's.
    fd: OwnedFd,
    sender: Box<dyn DataLinkSender>,
    receiver: Box<dyn DataLinkReceiver>,
    staging: Staging,
    waker: Arc<EventWaker>,
    /// A frame for which the last batch had no room.
    kept: Vec<u8>,
    counters: IoCounters,
    lost: Lost,
}

impl AfPacket {
    /// Opens `interface`.
    ///
    /// # Errors
    ///
    /// [`IoError::Link`] with what is missing: the interface, or the right to open packet sockets.
    pub fn open(interface: &str) -> Result<Self, IoError> {
        let refuse = |source| refused(NAME, interface, source);
        let fd = socket::socket(libc::AF_PACKET, libc::SOCK_RAW).map_err(refuse)?;
        let device = Device::open(NAME, interface, fd.as_fd())?;
        super::hear_arrivals_only(fd.as_fd()).map_err(refuse)?;
        sys::enlarge_buffers(fd.as_fd(), super::SOCKET_BUFFER);
        let interfaces = pnet_datalink::interfaces();
        let found = interfaces.iter().find(|found| found.index == device.facts.index);
        let found = found.ok_or_else(|| refuse(io::Error::from_raw_os_error(libc::ENODEV)))?;
        // One byte more than the longest frame shows that a frame is longer.
        let longest = device.frame_len_max() + 1;
        let config = Config {
            write_buffer_size: longest,
            read_buffer_size: longest,
            read_timeout: Some(Duration::ZERO),
            write_timeout: Some(Duration::ZERO),
            promiscuous: false,
            // pnet closes it, also when it fails.
            socket_fd: Some(fd.try_clone().map_err(refuse)?.into_raw_fd()),
            ..Config::default()
        };
        let Channel::Ethernet(sender, receiver) = pnet_datalink::channel(found, config).map_err(refuse)?
        else {
            return Err(refuse(io::Error::from_raw_os_error(libc::EPROTOTYPE)));
        };
        Ok(Self {
            staging: Staging::new(FRAMES, device.frame_len_max()),
            device,
            fd,
            sender,
            receiver,
            waker: Arc::new(EventWaker::new()?),
            kept: Vec::with_capacity(longest),
            counters: IoCounters::default(),
            lost: Lost::default(),
        })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Link for AfPacket {
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
        super::hear_port_only(self.fd(), port).map_err(|source| IoError::os("SO_ATTACH_FILTER", source))
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        self.device.check()?;
        if !self.kept.is_empty() {
            if !batch.push(PortId(0), &self.kept, 0) {
                self.counters.truncated += 1;
            }
            self.kept.clear();
        }
        while batch.packets_left() > 0 && self.kept.is_empty() {
            self.counters.rx_calls += 2;
            match self.receiver.next() {
                Ok(frame) if frame.len() > self.device.facts.mtu + 14 => self.counters.truncated += 1,
                Ok(frame) => {
                    if !batch.push(PortId(0), frame, 0) {
                        self.kept.extend_from_slice(frame);
                    }
                }
                Err(error) => {
                    if classify(&error) == SocketFault::Again {
                        continue;
                    }
                    if classify(&error) == SocketFault::Lost {
                        // pnet says that the socket has an error, and not which: it is asked for, and so taken away.
                        let code = sys::option(self.fd(), libc::SOL_SOCKET, libc::SO_ERROR);
                        let fd = self.fd.as_fd();
                        self.device.judge(fd, "recvfrom", code.ok().or(error.raw_os_error()))?;
                    }
                    self.counters.rx_calls -= 1;
                    break;
                }
            }
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
        loop {
            let Some(frame) = self.staging.frames().next() else { return Ok(()) };
            self.counters.tx_calls += 2;
            let Some(Err(error)) = self.sender.send_to(frame, None) else {
                self.staging.pop(1);
                continue;
            };
            match classify(&error) {
                SocketFault::Again => {}
                SocketFault::Full => return Ok(()),
                SocketFault::Lost => {
                    self.staging.pop(1);
                    self.counters.tx_failed += 1;
                    let fd = self.fd.as_fd();
                    self.device.judge(fd, "sendto", error.raw_os_error())?;
                }
            }
        }
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.device.check()?;
        if !self.kept.is_empty() || !self.waker.announce_sleep() {
            return Ok(true);
        }
        let unsent = !self.staging.is_empty();
        let Self { device, fd, waker, counters, .. } = self;
        let ready = device
            .sleep(fd.as_fd(), timeout, |nap| super::sleep(fd.as_fd(), unsent, waker, nap, counters))?;
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
        IoCounters { rx_dropped: self.lost.count(self.fd()), ..self.counters }
    }
}
