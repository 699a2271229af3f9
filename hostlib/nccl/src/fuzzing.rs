//! What the fuzz targets call in place of NCCL. No part of the interface: NCCL has the tables of `abi`.
#![expect(unsafe_code, reason = "lends buffers to a connection, as NCCL does")]

use std::net::TcpStream;

use crate::abi::{HANDLE_LEN, Handle};
use crate::handle::{self, Endpoint, Purpose};
use crate::handshake;
use crate::link::{Direction, Link};
use crate::memory::Region;
use crate::registry::{self, Id};

/// Bytes of the first message of a connection.
pub const HELLO: usize = handshake::HELLO;
/// Bytes of a handle that ranks pass to each other.
pub const HANDLE: usize = HANDLE_LEN;

/// Whether a listener with this handle accepts a connection by this hello; `None` when it is no handle of a listener.
pub fn accepts(handle: &[u8; HANDLE], hello: &[u8; HELLO]) -> Option<bool> {
    let endpoint = Endpoint::from_bytes(Purpose::Link, handle).ok()?;
    Some(handshake::is_of(&endpoint, hello))
}

/// A handle, read and written again, without the state of the connecting side; `None` when it is refused.
pub fn handle(handle: &[u8; HANDLE]) -> Option<[u8; HANDLE]> {
    let read = |purpose| Endpoint::from_bytes(purpose, handle).ok();
    let (link, group) = (read(Purpose::Link), read(Purpose::Group));
    assert!(link.is_none() || group.is_none(), "a handle has one purpose");
    let mut written = link.or(group)?.to_bytes();
    handle::set_state(&mut written, handle::state(handle));
    Some(written)
}

/// One posted receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receive {
    /// Of the messages that it is for.
    pub tag: i32,
    /// Zeros, which are replaced by the message.
    pub buffer: Vec<u8>,
    /// Bytes of the message, once it is complete.
    pub done: Option<usize>,
}

/// Posts receives on a connection, in order, and tests each until no more bytes are there. Returns why the connection is
/// unusable, if it is.
pub fn receive(stream: TcpStream, receives: &mut [Receive]) -> Option<String> {
    let link = Link::new(Id::from_bits(1), Direction::In, stream);
    let mut failure = None;
    let mut requests = Vec::with_capacity(receives.len());
    for Receive { buffer, tag, .. } in receives.iter_mut() {
        // SAFETY: the buffer outlives the link, which is dropped in this function, and is not used before that.
        let region = unsafe { Region::new(buffer.as_mut_ptr().cast(), buffer.len()) };
        let posted = region.and_then(|region| link.post(Direction::In, region, *tag));
        requests.push(posted.unwrap_or_else(|error| {
            failure = Some(error.message);
            None
        }));
    }
    let test = |request: &Option<Handle>| {
        let Some(request) = request else { return Ok(None) };
        registry::parts(*request).and_then(|(_, slot, turn)| link.test(slot, turn))
    };
    let tested: Vec<_> = requests.iter().map(test).collect();
    drop(link);
    for (receive, tested) in receives.iter_mut().zip(tested) {
        match tested {
            Ok(done) => receive.done = done,
            Err(error) => failure = Some(error.message),
        }
    }
    failure
}
