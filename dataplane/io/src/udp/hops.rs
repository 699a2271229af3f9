//! Which routers a datagram passes, as tracepath(8) finds it: datagrams that may pass few routers expire, and the router where they do reports it by ICMP. No
//! privileges are needed.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use super::syscall::{receive_error, set_option};
use crate::IoError;

/// Attempts of a call: a socket says first which ICMP errors have arrived, each once.
const TRIES: usize = 16;

/// A socket that sends datagrams which pass only so many routers, and learns where they ended. Nothing blocks.
#[derive(Debug)]
pub struct HopSocket {
    socket: UdpSocket,
}

/// A router at which a datagram ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopReport {
    /// The address from which it was reported, which a router may choose as it likes among its own.
    pub router: IpAddr,
    /// Bytes of the datagram that it quotes; some routers quote none.
    pub quoted: usize,
}

impl HopSocket {
    /// A socket at a free port of an address of this host.
    ///
    /// # Errors
    ///
    /// [`IoError::Bind`] and [`IoError::Os`].
    pub fn bind(local: IpAddr) -> Result<Self, IoError> {
        let address = SocketAddr::new(local, 0);
        let socket = UdpSocket::bind(address).map_err(|source| IoError::Bind { address, source })?;
        socket.set_nonblocking(true).map_err(|source| IoError::os("set_nonblocking", source))?;
        let (level, name) = match local {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVERR),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        };
        set_option(socket.as_fd(), level, name, 1).map_err(|source| IoError::os("IP_RECVERR", source))?;
        Ok(Self { socket })
    }

    /// Sends a datagram that ends at router number `hops` on its way (1: the next one), if it has not arrived before.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn send(&self, bytes: &[u8], to: SocketAddr, hops: u8) -> io::Result<()> {
        let (level, name) = match to {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TTL),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        };
        set_option(self.socket.as_fd(), level, name, hops.into())?;
        retried(|| self.socket.send_to(bytes, to)).map(drop)
    }

    /// The next datagram that has arrived, its length and its sender.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn receive(&self, memory: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
        match retried(|| self.socket.recv_from(memory)) {
            Ok(received) => Ok(Some(received)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next report of a router at which a datagram ended, with what it quotes of that in `quoted`; other ICMP errors are left out.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn report(&self, quoted: &mut [u8]) -> io::Result<Option<HopReport>> {
        for _ in 0..TRIES {
            match receive_error(self.socket.as_fd(), quoted)? {
                Some(error) if error.expired => {
                    return Ok(Some(HopReport { router: error.from, quoted: error.quoted }));
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}

impl AsFd for HopSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Calls again while the socket says which errors have arrived.
fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES {
        match call() {
            Err(error) if is_of_icmp(&error) => {}
            done => return done,
        }
    }
    call()
}

/// Whether an error of a call can be that of an earlier datagram.
fn is_of_icmp(error: &io::Error) -> bool {
    let raw = [libc::EPROTO, libc::EMSGSIZE].map(Some).contains(&error.raw_os_error());
    let kinds = [
        ErrorKind::HostUnreachable,
        ErrorKind::NetworkUnreachable,
        ErrorKind::ConnectionRefused,
        ErrorKind::Interrupted,
    ];
    raw || kinds.contains(&error.kind())
}
