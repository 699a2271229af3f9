//! Packet I/O that wraps packet I/O.

use std::net::SocketAddr;
#[cfg(target_os = "linux")]
use std::os::fd::BorrowedFd;
use std::task::Waker;
use std::time::Duration;

use netfold_wire::Dscp;

use crate::{Capabilities, IoCounters, IoError, PacketIo, Paused, PortId, RxBatch, Transmit};

/// Packet I/O that wraps packet I/O: an implementation names the wrapped one and overrides the methods that it changes; the others
/// forward. Every `Middleware` is [`PacketIo`], which documents the methods.
///
/// Import [`PacketIo`] alone, since a type that is middleware has each method in both traits; a method that wraps the inner one calls it
/// as `self.inner_mut().receive(..)`.
///
/// ```
/// use netfold_io::{IoError, Middleware, PacketIo, RxBatch};
///
/// /// Counts the calls of `receive`.
/// struct Counted<B>(B, u64);
///
/// impl<B: PacketIo> Middleware for Counted<B> {
///     type Inner = B;
///
///     fn inner(&self) -> &B {
///         &self.0
///     }
///
///     fn inner_mut(&mut self) -> &mut B {
///         &mut self.0
///     }
///
///     fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
///         self.1 += 1;
///         self.inner_mut().receive(batch)
///     }
/// }
/// ```
#[expect(missing_docs, clippy::missing_errors_doc, reason = "the methods are those of PacketIo")]
pub trait Middleware: Send {
    /// What is wrapped.
    type Inner: PacketIo + ?Sized;

    /// The wrapped packet I/O.
    fn inner(&self) -> &Self::Inner;

    /// The wrapped packet I/O, to use it.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.inner_mut().receive(batch)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        self.inner_mut().transmit(memory, packets)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.inner_mut().wait(timeout)
    }

    fn waker(&self) -> Waker {
        self.inner().waker()
    }

    #[cfg(target_os = "linux")]
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner().wake_fd()
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        self.inner_mut().bind_port(port, peer)
    }

    fn bind_ports(&mut self, port: PortId, peer: SocketAddr, udp_ports: u8) -> Result<(), IoError> {
        self.inner_mut().bind_ports(port, peer, udp_ports)
    }

    fn paths(&self) -> u8 {
        self.inner().paths()
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        self.inner_mut().unbind_port(port)
    }

    fn set_ecn_capable(&mut self, capable: bool) -> Result<(), IoError> {
        self.inner_mut().set_ecn_capable(capable)
    }

    fn set_dscp(&mut self, dscp: &Dscp) -> Result<(), IoError> {
        self.inner_mut().set_dscp(dscp)
    }

    fn pause(&mut self, priorities: u8) -> Result<Duration, IoError> {
        self.inner_mut().pause(priorities)
    }

    fn paused(&mut self) -> Paused {
        self.inner_mut().paused()
    }

    fn set_segmentation(&mut self, allowed: bool) {
        self.inner_mut().set_segmentation(allowed);
    }

    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        self.inner().peer(port)
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.inner().local_addr()
    }

    fn path_mtu(&self, peer: SocketAddr) -> Option<usize> {
        self.inner().path_mtu(peer)
    }

    fn counters(&self) -> IoCounters {
        self.inner().counters()
    }
}

impl<M: Middleware> PacketIo for M {
    fn capabilities(&self) -> Capabilities {
        Middleware::capabilities(self)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        Middleware::receive(self, batch)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        Middleware::transmit(self, memory, packets)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        Middleware::wait(self, timeout)
    }

    fn waker(&self) -> Waker {
        Middleware::waker(self)
    }

    #[cfg(target_os = "linux")]
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Middleware::wake_fd(self)
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        Middleware::bind_port(self, port, peer)
    }

    fn bind_ports(&mut self, port: PortId, peer: SocketAddr, udp_ports: u8) -> Result<(), IoError> {
        Middleware::bind_ports(self, port, peer, udp_ports)
    }

    fn paths(&self) -> u8 {
        Middleware::paths(self)
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        Middleware::unbind_port(self, port)
    }

    fn set_ecn_capable(&mut self, capable: bool) -> Result<(), IoError> {
        Middleware::set_ecn_capable(self, capable)
    }

    fn set_dscp(&mut self, dscp: &Dscp) -> Result<(), IoError> {
        Middleware::set_dscp(self, dscp)
    }

    fn pause(&mut self, priorities: u8) -> Result<Duration, IoError> {
        Middleware::pause(self, priorities)
    }

    fn paused(&mut self) -> Paused {
        Middleware::paused(self)
    }

    fn set_segmentation(&mut self, allowed: bool) {
        Middleware::set_segmentation(self, allowed);
    }

    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        Middleware::peer(self, port)
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        Middleware::local_addr(self)
    }

    fn path_mtu(&self, peer: SocketAddr) -> Option<usize> {
        Middleware::path_mtu(self, peer)
    }

    fn counters(&self) -> IoCounters {
        Middleware::counters(self)
    }
}

impl<T: PacketIo + ?Sized> Middleware for Box<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        self
    }

    fn inner_mut(&mut self) -> &mut T {
        self
    }
}
