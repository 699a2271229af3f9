//! What the fuzz targets call in place of the named socket of a switch. No part of the interface.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::handshake::{self, HandshakeOutcome, Terms};
use super::{Spoke, acceptor};

/// Bytes of a worker's hello.
pub const HELLO: usize = handshake::HELLO_LEN;

/// The worker's part of the handshake, and its end of the rings.
///
/// # Errors
///
/// The problem that is reported, and its cause.
pub fn attach(line: UnixStream, datagram_len_max: usize) -> Result<Spoke, (&'static str, io::Error)> {
    let attached = handshake::attach_over(line).map_err(|refused| (refused.problem, refused.source))?;
    Ok(Spoke::over(attached, IpAddr::V4(Ipv4Addr::LOCALHOST), datagram_len_max))
}

/// The switch's part: the answer to a hello, with rings for datagrams of this length where the worker is accepted. Returns whether
/// it is; `None` when there is no answer.
///
/// # Errors
///
/// The system's.
pub fn serve(line: &UnixStream, hello: &[u8; HELLO], datagram_len_max: usize) -> io::Result<Option<bool>> {
    let Some(outcome) = handshake::check(hello, line)? else { return Ok(None) };
    if outcome != HandshakeOutcome::Welcome {
        handshake::refuse(line, outcome)?;
        return Ok(Some(false));
    }
    let (_, invitation) = handshake::invite(&Terms { port: 1, datagram_len_max, lossless: true })?;
    let (hub, worker) = (acceptor::event()?, acceptor::event()?);
    invitation.send(line, [hub.as_fd(), worker.as_fd()])?;
    Ok(Some(true))
}
