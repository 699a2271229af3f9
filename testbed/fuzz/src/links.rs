//! What other hosts and processes send over streams: hellos and frames of the ranks' links and rendezvous, messages of NCCL's plugin, the
//! handshake of shared memory. The other side has sent all that it ever sends before it is read, so nothing here waits.

mod hello;
mod mesh;
mod messages;
mod rendezvous;
mod shared;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::input::Input;

/// The first byte chooses the protocol, modulo 5: `0` calls of a mesh, `1` exchanges by a rendezvous, `2` hellos, `3` messages to NCCL's
/// plugin, `4` shared memory.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(5) {
        0 => mesh::run(&mut input),
        1 => rendezvous::run(&mut input),
        2 => hello::run(&mut input),
        3 => messages::run(&mut input),
        _ => shared::run(&mut input),
    }
}

/// A stream on which `sent` has arrived, and nothing will follow; and its other end.
fn stream(sent: &[u8]) -> (TcpStream, UnixStream) {
    let (ours, mut theirs) = UnixStream::pair().expect("there are descriptors");
    theirs.set_nonblocking(true).expect("a socket");
    theirs.write_all(sent).expect("an input is shorter than a socket's buffer");
    theirs.shutdown(Shutdown::Write).expect("it is connected");
    (TcpStream::from(OwnedFd::from(ours)), theirs)
}

/// All that was sent to this end, whose other end is closed.
fn received(mut theirs: UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The end of a stream with unread bytes is an error.
    match theirs.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("{error}"),
    }
}

/// `len` bytes that repeat up to 16 of the input's.
fn repeated(input: &mut Input<'_>, len: usize) -> Vec<u8> {
    let bytes = input.bytes(16);
    if bytes.is_empty() { vec![0; len] } else { bytes.iter().copied().cycle().take(len).collect() }
}
