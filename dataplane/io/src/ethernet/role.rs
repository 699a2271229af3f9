//! The peers, and the owner of the local address.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use netfold_wire::frame::OUTER_LEN;

use super::EthernetConfig;
use super::headers::is_host;
use super::peers::Peers;
use crate::IoError;
use crate::link::LinkProperties;

/// Whether ports can be bound.
#[derive(Debug)]
pub(super) enum Role {
    /// One peer, port 0.
    Connected(Peers),
    Listening(Peers),
}

impl Role {
    pub(super) fn peers(&self) -> &Peers {
        match self {
            Self::Connected(peers) | Self::Listening(peers) => peers,
        }
    }

    pub(super) fn peers_mut(&mut self) -> &mut Peers {
        match self {
            Self::Connected(peers) | Self::Listening(peers) => peers,
        }
    }
}

/// The right to an address and port: the kernel's, held by a socket that is never read, or our own.
#[derive(Debug)]
pub(crate) struct Claim {
    address: SocketAddrV4,
    socket: Option<UdpSocket>,
}

impl Claim {
    /// Claims `address`. Port 0 becomes a free port.
    ///
    /// # Errors
    ///
    /// [`IoError::Bind`] when the kernel has the address, and the port is taken or may not be had.
    pub(crate) fn new(address: SocketAddrV4) -> Result<Self, IoError> {
        let refused = |source| IoError::Bind { address: SocketAddr::V4(address), source };
        match UdpSocket::bind(address) {
            Ok(socket) if kernel_has(*address.ip()) => {
                #[cfg(target_os = "linux")]
                if let Err(source) = crate::sys::take_nothing(std::os::fd::AsFd::as_fd(&socket)) {
                    return Err(IoError::os("SO_ATTACH_FILTER", source));
                }
                let SocketAddr::V4(address) = socket.local_addr().map_err(refused)? else {
                    return Err(refused(io::ErrorKind::AddrNotAvailable.into()));
                };
                Ok(Self { address, socket: Some(socket) })
            }
            Err(error) if error.kind() != io::ErrorKind::AddrNotAvailable => Err(refused(error)),
            _ => {
                let port = if address.port() == 0 { any_port() } else { address.port() };
                Ok(Self { address: SocketAddrV4::new(*address.ip(), port), socket: None })
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.address
    }

    pub(crate) fn is_the_kernels(&self) -> bool {
        self.socket.is_some()
    }
}

/// Whether an interface has the address. That it can be bound to says less: where there are no addresses yet (a new network namespace), or where
/// it is allowed, any can.
#[cfg(target_os = "linux")]
fn kernel_has(ip: Ipv4Addr) -> bool {
    ip.is_loopback() || crate::link::has_ipv4(ip)
}

#[cfg(not(target_os = "linux"))]
fn kernel_has(_: Ipv4Addr) -> bool {
    true
}

/// A port of the dynamic range (RFC 6335), different from process to process.
fn any_port() -> u16 {
    49_152 | (RandomState::new().build_hasher().finish() as u16)
}

/// Whether a configuration makes sense on a link.
pub(super) fn check(config: &EthernetConfig, link: &LinkProperties) -> Result<(), IoError> {
    let wrong = |problem| Err(IoError::Address { address: SocketAddr::V4(config.address), problem });
    if !is_host(*config.address.ip()) {
        return wrong("name the one IPv4 address that this backend is to have");
    }
    if config.prefix_len > 32 {
        return wrong("an IPv4 prefix has at most 32 bits");
    }
    if config.gateway.is_some_and(|gateway| !is_host(gateway)) {
        return wrong("its gateway is no host's address");
    }
    if link.mac[0] & 1 == 1 || link.mac == [0; 6] {
        return wrong("the interface has no Ethernet address");
    }
    if link.frame_len_max <= OUTER_LEN {
        return wrong("the interface's frames are too short for a datagram; raise its MTU");
    }
    Ok(())
}

/// Whether `ip` is in our own network.
pub(super) fn same_network(config: &EthernetConfig, ip: Ipv4Addr) -> bool {
    let differing = u32::from(*config.address.ip()) ^ u32::from(ip);
    differing.leading_zeros() >= u32::from(config.prefix_len)
}
