//! A worker's end with several UDP ports, each of which a fabric that spreads flows by a hash of ports may give another path.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use netfold_wire::{Dscp, PATHS_MAX};

use super::{UdpConfig, UdpIo};
use crate::event_waker::EventWaker;
use crate::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit, sys};

/// Groups of consecutive free ports that are tried.
const ATTEMPTS: u32 = 32;

/// Sockets at consecutive UDP ports: what is sent to `PortId(i)` leaves from the i-th, and what arrives there is from `PortId(i)`.
pub struct UdpPaths {
    sockets: Vec<UdpIo>,
    /// The descriptors of the sockets, and that of the waker last.
    list: Vec<libc::pollfd>,
    /// Sockets that had packets when they were last polled, as bits.
    ready: u64,
    waker: Arc<EventWaker>,
    sleeps: u64,
}

impl UdpPaths {
    /// Sockets at `count` consecutive UDP ports (1 to [`PATHS_MAX`]; other values are moved into that range), the first at `local`, or with
    /// port 0 anywhere.
    ///
    /// # Errors
    ///
    /// [`IoError::Bind`] when ports are taken, or the address is none of this machine; [`IoError::Os`].
    pub fn bind(local: SocketAddr, count: u8, config: UdpConfig) -> Result<Self, IoError> {
        let count = count.clamp(1, PATHS_MAX);
        let mut attempts = if local.port() == 0 { ATTEMPTS } else { 1 };
        let sockets = loop {
            attempts -= 1;
            match consecutive(local, count, config) {
                Ok(sockets) => break sockets,
                Err(IoError::Bind { .. } | IoError::PortRange { .. }) if attempts > 0 => {}
                Err(error) => return Err(error),
            }
        };
        Self::over(sockets)
    }

    fn over(mut sockets: Vec<UdpIo>) -> Result<Self, IoError> {
        let waker = Arc::new(EventWaker::new()?);
        let entry =
            |fd: BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut list: Vec<_> = sockets.iter().map(|io| entry(io.as_socket())).collect();
        list.push(entry(waker.fd()));
        // Nothing waits for a single socket.
        sockets.iter_mut().for_each(|io| io.waker = Arc::clone(&waker));
        Ok(Self { sockets, list, ready: 0, waker, sleeps: 0 })
    }

    /// Polls all sockets; whether any has packets, or room for what was kept, and whether the waker was notified.
    fn poll(&mut self, timeout: Duration) -> Result<(bool, bool), IoError> {
        for (entry, io) in self.list.iter_mut().zip(&self.sockets) {
            entry.events = libc::POLLIN | if io.sending.has_unsent() { libc::POLLOUT } else { 0 };
        }
        sys::poll_list(&mut self.list, timeout).map_err(|source| IoError::os("ppoll", source))?;
        let (waker, sockets) = self.list.split_last().expect("the waker is last");
        let woken = waker.revents != 0;
        for (index, entry) in sockets.iter().enumerate() {
            self.ready |= u64::from(entry.revents != 0) << index;
        }
        Ok((self.ready != 0, woken))
    }

    fn first(&self) -> &UdpIo {
        &self.sockets[0]
    }

    fn of(&mut self, port: PortId) -> Result<&mut UdpIo, IoError> {
        self.sockets.get_mut(usize::from(port.0)).ok_or(IoError::UnknownPort(port))
    }
}

/// Sockets at consecutive ports.
fn consecutive(local: SocketAddr, count: u8, config: UdpConfig) -> Result<Vec<UdpIo>, IoError> {
    let mut sockets = Vec::with_capacity(count.into());
    let mut next = local;
    for _ in 0..count {
        let io = UdpIo::bind(next, config)?;
        let port = io.local.port().checked_add(1);
        sockets.push(io);
        next.set_port(port.ok_or(IoError::PortRange { peer: local, udp_ports: count })?);
    }
    Ok(sockets)
}

impl PacketIo for UdpPaths {
    fn capabilities(&self) -> Capabilities {
        self.first().capabilities()
    }

    /// What one socket has; the next call receives from the next one that has any.
    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        if self.ready == 0 && !self.poll(Duration::ZERO)?.0 {
            return Ok(0);
        }
        while self.ready != 0 {
            let index = self.ready.trailing_zeros() as usize;
            let io = &mut self.sockets[index];
            let received = io.receive(batch)?;
            if !io.receiving.has_kept() {
                self.ready &= !(1 << index);
            }
            if received > 0 {
                return Ok(received);
            }
        }
        Ok(0)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        crate::check_transmit(memory, packets, self.first().datagram_len_max)?;
        let mut taken = 0;
        for run in packets.chunk_by(|a, b| a.port == b.port) {
            let Some(io) = self.sockets.get_mut(usize::from(run[0].port.0)) else {
                self.sockets[0].counters.unbound_port += run.len() as u64;
                taken += run.len();
                continue;
            };
            let of_run = io.transmit(memory, run)?;
            taken += of_run;
            if of_run < run.len() {
                break;
            }
        }
        Ok(taken)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        if self.ready != 0 || !self.waker.announce_sleep() {
            return Ok(true);
        }
        self.sleeps += u64::from(!timeout.is_zero());
        let polled = self.poll(timeout);
        self.waker.end_sleep(matches!(polled, Ok((_, true))));
        let (ready, woken) = polled?;
        Ok(ready || woken)
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.waker))
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waker.fd())
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        self.of(port)?.bind_port(port, peer)
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        self.of(port)?.unbind_port(port)
    }

    fn paths(&self) -> u8 {
        self.sockets.len() as u8
    }

    fn set_ecn_capable(&mut self, capable: bool) -> Result<(), IoError> {
        self.sockets.iter_mut().try_for_each(|io| io.set_ecn_capable(capable))
    }

    fn set_dscp(&mut self, dscp: &Dscp) -> Result<(), IoError> {
        self.sockets.iter_mut().try_for_each(|io| io.set_dscp(dscp))
    }

    fn set_segmentation(&mut self, allowed: bool) {
        self.sockets.iter_mut().for_each(|io| PacketIo::set_segmentation(io, allowed));
    }

    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        self.sockets.get(usize::from(port.0))?.peer(port)
    }

    /// Of the first.
    fn local_addr(&self) -> Option<SocketAddr> {
        self.first().local_addr()
    }

    fn path_mtu(&self, peer: SocketAddr) -> Option<usize> {
        self.first().path_mtu(peer)
    }

    fn counters(&self) -> IoCounters {
        let mut sum = IoCounters { sleeps: self.sleeps, ..IoCounters::default() };
        self.sockets.iter().for_each(|io| sum.add(&io.counters()));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives everything that arrives within a moment: ports and first bytes.
    fn all(io: &mut impl PacketIo, count: usize) -> Vec<(u16, u8)> {
        let mut batch = io.capabilities().batch();
        let mut received = Vec::new();
        while received.len() < count {
            if io.receive(&mut batch).unwrap() == 0 && !io.wait(Duration::from_secs(5)).unwrap() {
                break;
            }
            received.extend(batch.packets().iter().map(|packet| (packet.port.0, batch.bytes(packet)[0])));
        }
        received
    }

    fn to(port: u16, offset: u32) -> Transmit {
        Transmit { port: PortId(port), offset, len: 1 }
    }

    #[test]
    fn each_port_is_a_path_of_its_own_in_both_directions() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut hub = UdpIo::bind(any, UdpConfig::default()).unwrap();
        let mut worker = UdpPaths::bind(any, 16, UdpConfig::default()).unwrap();
        assert_eq!(worker.paths(), 16);
        let (switch, own) = (hub.local_addr().unwrap(), worker.local_addr().unwrap());
        (0..16).for_each(|path| worker.bind_port(PortId(path), switch).unwrap());
        hub.bind_ports(PortId(7), own, 16).unwrap();

        let memory: Vec<u8> = (0..16).collect();
        let packets: Vec<_> = [3, 3, 15, 0, 7].map(|path| to(path, u32::from(path))).into();
        assert_eq!(worker.transmit(&memory, &packets).unwrap(), 5);
        let mut received = all(&mut hub, 5);
        received.sort_unstable();
        assert_eq!(received, [(7, 0), (7, 3), (7, 3), (7, 7), (7, 15)], "one peer, whatever the UDP port");

        for path in [9, 2] {
            worker.transmit(&memory, &[to(path, 1)]).unwrap();
            assert_eq!(all(&mut hub, 1).len(), 1);
            hub.transmit(&memory, &[to(7, 5), to(7, 6)]).unwrap();
            assert_eq!(all(&mut worker, 2), [(path, 5), (path, 6)], "where the last one came from");
        }
        assert_eq!(hub.counters().unknown_source, 0);
        assert_eq!((worker.counters().tx_packets, worker.counters().rx_packets), (7, 4));
        worker.transmit(&memory, &[to(16, 0)]).unwrap();
        assert_eq!(worker.counters().unbound_port, 1);
    }

    #[test]
    fn a_notification_ends_a_wait() {
        let mut worker =
            UdpPaths::bind(SocketAddr::from(([127, 0, 0, 1], 0)), 3, UdpConfig::default()).unwrap();
        assert!(!worker.wait(Duration::ZERO).unwrap());
        worker.waker().wake();
        assert!(worker.wait(Duration::from_secs(60)).unwrap());
        assert!(!worker.wait(Duration::ZERO).unwrap());
    }
}
