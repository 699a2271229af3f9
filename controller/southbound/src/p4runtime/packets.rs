//! Control packets over the stream: PacketOut into the pipeline's CPU port, PacketIn out of it.
//!
//! The programs of [`netfold_p4::allreduce`] have no controller headers, so a packet is its payload alone in both
//! directions: it comes in at the switch's CPU port as if from a wire, and what leaves by that port comes back.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use netfold_p4::profile::Encapsulation;
use netfold_p4_runtime::v1::{PacketOut, StreamMessageRequest, StreamRequest};
use netfold_wire::UDP_PORT;
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use tokio::sync::mpsc::{Sender, error::TrySendError};

use super::control::ControlPort;

/// Packets that wait to be received; more are dropped, as on a wire.
const INBOX_MAX: usize = 1024;

/// Longest datagram that is sent: a header with room to spare.
const DATAGRAM_LEN_MAX: usize = 256;

/// Packets between the stream's task and the caller that advances slots. It outlives every connection.
#[derive(Debug, Default)]
pub(super) struct PacketLine {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// Absent while there is no stream.
    requests: Option<Sender<StreamMessageRequest>>,
    inbox: VecDeque<Vec<u8>>,
}

impl PacketLine {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packets go by this stream from now on.
    pub(super) fn open(&self, requests: Sender<StreamMessageRequest>) {
        *self.inner() = Inner { requests: Some(requests), inbox: VecDeque::new() };
    }

    /// There is no stream; a caller that waits for a packet is notified.
    pub(super) fn close(&self) {
        self.inner().requests = None;
        self.arrived.notify_all();
    }

    pub(super) fn arrive(&self, payload: Vec<u8>) {
        let mut inner = self.inner();
        if inner.inbox.len() < INBOX_MAX {
            inner.inbox.push_back(payload);
        }
        drop(inner);
        self.arrived.notify_all();
    }

    fn send(&self, payload: Vec<u8>) -> io::Result<()> {
        let packet = PacketOut { payload, metadata: Vec::new() };
        let request = StreamMessageRequest { update: Some(StreamRequest::Packet(packet)) };
        let inner = self.inner();
        let Some(requests) = &inner.requests else { return Err(gone()) };
        match requests.try_send(request) {
            // No room is a lost packet.
            Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(gone()),
        }
    }

    fn receive(&self, deadline: Instant) -> io::Result<Option<Vec<u8>>> {
        let mut inner = self.inner();
        loop {
            if let Some(payload) = inner.inbox.pop_front() {
                return Ok(Some(payload));
            }
            if inner.requests.is_none() {
                return Err(gone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            inner = self.arrived.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "there is no stream to the switch")
}

/// A [`ControlPort`] by PacketOut and PacketIn. Where the pipeline sees outer headers, datagrams go in Ethernet, IPv4 and
/// UDP headers, of which the pipeline looks at the UDP port alone.
pub(super) struct PacketControlPort {
    line: Arc<PacketLine>,
    outer: Option<Outer>,
}

impl PacketControlPort {
    pub(super) fn new(line: Arc<PacketLine>, encapsulation: Encapsulation) -> Self {
        let end = |last| Endpoint {
            mac: EthernetAddress([2, 0, 0, 0, 0, last]),
            ip: Ipv4Address::new(10, 0, 0, last),
            port: UDP_PORT,
        };
        let outer = Outer { source: end(253), destination: end(254) };
        Self { line, outer: (encapsulation == Encapsulation::Ethernet).then_some(outer) }
    }
}

impl ControlPort for PacketControlPort {
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        let Some(outer) = &self.outer else { return self.line.send(datagram.to_vec()) };
        let mut frame = [0; OUTER_LEN + DATAGRAM_LEN_MAX];
        let len = outer.emit(datagram, 0, &mut frame).map_err(io::Error::other)?;
        self.line.send(frame[..len].to_vec())
    }

    fn receive(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<Option<usize>> {
        loop {
            let Some(payload) = self.line.receive(deadline)? else { return Ok(None) };
            let datagram = match &self.outer {
                None => payload.as_slice(),
                // What is no datagram at all was not for us.
                Some(_) => match Outer::parse(&payload) {
                    Ok((_, datagram)) => datagram,
                    Err(_) => continue,
                },
            };
            let len = datagram.len().min(buffer.len());
            buffer[..len].copy_from_slice(&datagram[..len]);
            return Ok(Some(len));
        }
    }
}
