//! Blocking reads and writes of whole buffers with a deadline.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn remaining(until: Instant) -> io::Result<Duration> {
    let now = Instant::now();
    // The system treats a timeout of zero as none.
    (until > now).then(|| until - now).ok_or_else(|| io::ErrorKind::TimedOut.into())
}

fn is_retryable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Fills `into`.
pub(crate) fn read_by(mut stream: &TcpStream, into: &mut [u8], until: Instant) -> io::Result<()> {
    let mut len = 0;
    while len < into.len() {
        stream.set_read_timeout(Some(remaining(until)?))?;
        match stream.read(&mut into[len..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => len += more,
            Err(error) if is_retryable(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes`.
pub(crate) fn write_by(stream: &TcpStream, bytes: &[u8], until: Instant) -> io::Result<()> {
    let mut len = 0;
    while len < bytes.len() {
        stream.set_write_timeout(Some(remaining(until)?))?;
        match rustix::net::send(stream, &bytes[len..], rustix::net::SendFlags::NOSIGNAL) {
            Ok(more) => len += more,
            Err(error) if is_retryable(&error.into()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
