//! A driver's control packets as frames of one port.

use std::io;
use std::time::Instant;

use netfold_southbound::p4runtime::ControlPort;
use netfold_wire::UDP_PORT;
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};

use super::dataplane::FramePort;

/// Longest datagram that a control port sends: a header with room to spare.
const DATAGRAM_LEN_MAX: usize = 256;

/// A [`ControlPort`] over one port of a [`super::DataPlane`], in Ethernet, IPv4 and UDP headers.
#[derive(Debug)]
pub struct FrameControlPort {
    port: FramePort,
    outer: Outer,
}

impl FrameControlPort {
    /// A controller at 10.0.0.253 that talks to a switch at 10.0.0.254; the pipeline looks at neither.
    pub fn new(port: FramePort) -> Self {
        let end = |last| Endpoint {
            mac: EthernetAddress([2, 0, 0, 0, 0, last]),
            ip: Ipv4Address::new(10, 0, 0, last),
            port: UDP_PORT,
        };
        Self { port, outer: Outer { source: end(253), destination: end(254) } }
    }
}

impl ControlPort for FrameControlPort {
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        let mut frame = [0; OUTER_LEN + DATAGRAM_LEN_MAX];
        let len = self.outer.emit(datagram, 0, &mut frame).map_err(io::Error::other)?;
        self.port.send(&frame[..len]).map_err(io::Error::other)
    }

    fn receive(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<Option<usize>> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(frame) = self.port.receive(left).map_err(io::Error::other)? else { return Ok(None) };
            // What is no datagram at all was not for us.
            if let Ok((_, datagram)) = Outer::parse(&frame) {
                let len = datagram.len().min(buffer.len());
                buffer[..len].copy_from_slice(&datagram[..len]);
                return Ok(Some(len));
            }
        }
    }
}
