//! Path validation by a session that waits for its admission: the packets are sent and received by the worker's own packet I/O.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netfold_control::{PathChallenge, PathToken};
use netfold_io::{Authenticated, IoError, PacketIo, PortId, RxBatch, Transmit};
use netfold_proto::PathValidation;
use netfold_wire::{JobKeys, header};

use crate::error::Error;

/// Longest wait for a packet before the session is read again.
const TURN: Duration = Duration::from_millis(20);

/// Opens packet I/O that sends from so many UDP ports; the first of these.
pub(crate) type ReopenPaths<'a> = dyn Fn(u8) -> Result<(Authenticated<Box<dyn PacketIo>>, u16), Error> + 'a;

/// The packet I/O that a worker will have in its job, and the validation under way.
pub(crate) struct PathIo<'a> {
    io: &'a mut Authenticated<Box<dyn PacketIo>>,
    reopen: &'a ReopenPaths<'a>,
    start: Instant,
    state: Option<(PathValidation, RxBatch)>,
}

/// Makes the switch the peer of every path.
pub(crate) fn bind_paths(
    io: &mut Authenticated<Box<dyn PacketIo>>,
    switch: SocketAddr,
) -> Result<(), IoError> {
    (0..io.paths().into()).try_for_each(|path| io.bind_port(PortId(path), switch))
}

impl<'a> PathIo<'a> {
    /// Packet I/O whose ports have no peer yet; `reopen` makes it send from another number of UDP ports.
    pub(crate) fn new(io: &'a mut Authenticated<Box<dyn PacketIo>>, reopen: &'a ReopenPaths<'a>) -> Self {
        Self { io, reopen, start: Instant::now(), state: None }
    }

    /// Sends from so many UDP ports from now on; the first of them.
    pub(super) fn reopen(&mut self, udp_ports: u8) -> Result<u16, Error> {
        let (io, first) = (self.reopen)(udp_ports)?;
        *self.io = io;
        Ok(first)
    }

    fn now(&self) -> netfold_proto::Instant {
        netfold_proto::Instant::ZERO + self.start.elapsed()
    }

    /// Whether a token is awaited.
    pub(super) fn is_validating(&self) -> bool {
        self.state.is_some()
    }

    /// Begins a validation; `port` is the address of the control port.
    pub(super) fn begin(&mut self, challenge: PathChallenge, port: SocketAddr) -> Result<(), Error> {
        let switch = SocketAddr::new(challenge.switch.unwrap_or(port.ip()), challenge.udp_port);
        bind_paths(self.io, switch)?;
        if let Some(keys) = &challenge.keys {
            let keys = JobKeys { job: challenge.job, epoch: challenge.epoch, keys: keys.clone() };
            // What the job's packets need is checked when the lengths of its lanes are known.
            (0..self.io.paths().into())
                .try_for_each(|path| self.io.authenticate(PortId(path), &keys, header::LEN))?;
        }
        log::debug!("validating the path to the switch at {switch}");
        self.state = Some((PathValidation::new(self.now(), challenge), self.io.capabilities().batch()));
        Ok(())
    }

    /// Sends the request that is due, and waits for a moment for the token.
    pub(super) fn turn(&mut self) -> Result<Option<PathToken>, Error> {
        let now = self.now();
        let Some((validation, batch)) = &mut self.state else { return Ok(None) };
        if let Some(request) = validation.poll_transmit(now) {
            // A request that the transport does not take is lost like any other.
            self.io
                .transmit(&request, &[Transmit { port: PortId(0), offset: 0, len: request.len() as u32 }])?;
        }
        self.io.wait(validation.timeout(now).min(TURN))?;
        let mut token = None;
        while token.is_none() && self.io.receive(batch)? > 0 {
            token = batch.packets().iter().find_map(|packet| validation.token(batch.bytes(packet)));
        }
        if token.is_some() {
            self.state = None;
        }
        Ok(token)
    }
}
