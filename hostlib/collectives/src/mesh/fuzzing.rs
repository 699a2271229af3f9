//! What the fuzz targets call in place of listeners and connections of the system. No part of the interface.

use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::mesh::connect::{self, Connected, Introduction};
use crate::mesh::link::Link;
use crate::mesh::{ExchangeError, HostId, Mesh, MeshConfig, MeshError, TcpRendezvous, rendezvous};

/// Bytes of the hello of a link.
pub const LINK_HELLO: usize = connect::HELLO;
/// Bytes of the hello of a rendezvous.
pub const HELLO: usize = rendezvous::HELLO;
/// Bytes of rank 0's answer to it.
pub const WELCOME: usize = rendezvous::WELCOME;

/// A mesh over non-blocking streams to the other ranks, each of which is on a host of its own.
///
/// # Errors
///
/// [`MeshError::System`].
pub fn mesh(rank: u16, streams: Vec<Option<TcpStream>>, config: MeshConfig) -> Result<Mesh, MeshError> {
    let world = streams.len() as u16;
    let hosts = (0..world).map(|rank| HostId::named(&rank.to_string())).collect();
    let links = streams.into_iter().map(|stream| stream.map(Link::new)).collect();
    let connected = Connected { links, hosts, ip: IpAddr::V4(Ipv4Addr::LOCALHOST) };
    Mesh::over((rank, world), connected, config)
}

/// What a rank announces to the others, read and written again; `None` when it is refused.
pub fn introduction(bytes: &[u8]) -> Option<Vec<u8>> {
    Introduction::from_bytes(bytes).map(|introduction| introduction.to_bytes())
}

/// The rank whose link `rank` accepts by this hello, where all ranks have announced these bytes.
pub fn link_caller(rank: u16, announced: &[Vec<u8>], hello: &[u8; LINK_HELLO]) -> Option<u16> {
    let introductions =
        announced.iter().map(|bytes| Introduction::from_bytes(bytes)).collect::<Option<_>>()?;
    connect::caller(rank, introductions, hello)
}

/// A rendezvous over blocking streams, by rank: those of all others at rank 0, that of rank 0 at the others.
pub fn rendezvous(job: &str, rank: u16, streams: Vec<Option<TcpStream>>, timeout: Duration) -> TcpRendezvous {
    TcpRendezvous::over(job, rank, streams, timeout)
}

/// What `rendezvous` sends to rank 0 first.
pub fn hello(rendezvous: &TcpRendezvous) -> [u8; HELLO] {
    rendezvous.hello()
}

/// What rank 0 answers to a hello while no rank is connected, if it does; and the rank, if it accepts it.
pub fn answer(rendezvous: &TcpRendezvous, hello: &[u8; HELLO]) -> (Option<u16>, Option<[u8; WELCOME]>) {
    rendezvous.answer(hello)
}

/// Whether rank 0 has accepted this rank.
///
/// # Errors
///
/// [`ExchangeError::Version`], [`ExchangeError::NotRendezvous`], [`ExchangeError::Refused`].
pub fn check_welcome(rendezvous: &TcpRendezvous, welcome: &[u8; WELCOME]) -> Result<(), ExchangeError> {
    rendezvous.check_welcome(welcome)
}
