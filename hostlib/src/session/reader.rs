//! The receiving side of a control session.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use netfold_control::{LINE_LEN_MAX, PortProtocol, SessionEvent};

use super::connection::Connection;
use crate::error::Error;

/// Reads the port's events, one a line.
#[derive(Debug)]
pub(super) struct EventReader {
    stream: Connection,
    buffer: Vec<u8>,
    /// Bytes of the buffer that hold data.
    filled: usize,
    /// The port's address, until its first bytes have shown that it is a control port.
    unverified: Option<SocketAddr>,
}

/// The outcome of a read.
pub(super) enum Received {
    Event(SessionEvent),
    /// Nothing within the time given.
    Timeout,
    /// The port has closed the connection.
    Closed,
    /// The connection broke.
    Broken,
}

impl EventReader {
    /// Of a new connection to the port at an address.
    pub(super) fn new(stream: Connection, port: SocketAddr) -> Self {
        Self { stream, buffer: vec![0; LINE_LEN_MAX], filled: 0, unverified: Some(port) }
    }

    /// Fails when the first bytes are those of another protocol.
    fn verify(&mut self) -> Result<(), Error> {
        let Some(address) = self.unverified else { return Ok(()) };
        match PortProtocol::of(&self.buffer[..self.filled]) {
            Some(PortProtocol::Control) => self.unverified = None,
            Some(found) => return Err(Error::WrongPort { address, found }),
            // Lines that are no events are refused below.
            None => {}
        }
        Ok(())
    }

    /// The next event, waiting for at most `timeout`.
    pub(super) fn next(&mut self, timeout: Duration) -> Result<Received, Error> {
        loop {
            if let Some(end) = self.buffer[..self.filled].iter().position(|&byte| byte == b'\n') {
                let event = serde_json::from_slice(&self.buffer[..end]);
                self.buffer.copy_within(end + 1..self.filled, 0);
                self.filled -= end + 1;
                return event.map(Received::Event).map_err(|_| Error::Control { what: "an unknown event" });
            }
            if self.filled == self.buffer.len() {
                return Err(Error::Control { what: "a line without end" });
            }
            match self.stream.read(&mut self.buffer[self.filled..], timeout) {
                Ok(0) => return Ok(Received::Closed),
                Ok(count) => {
                    self.filled += count;
                    self.verify()?;
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(Received::Timeout),
                    ErrorKind::Interrupted => {}
                    _ => return Ok(Received::Broken),
                },
            }
        }
    }
}
