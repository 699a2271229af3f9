//! Middleware that authenticates the datagrams of jobs: a tag at the end of each, which is verified and removed on arrival
//! (docs/protocol.md, "Authenticated packets").
//!
//! Everything above sees datagrams without tags, and of authenticated jobs only those whose tag was right. Other datagrams are as without the
//! middleware.

mod tag;

use std::net::SocketAddr;

use netfold_wire::{JobKeys, Kind, PacketKey, PortKeys, TAG_LEN, header};

use crate::batch::Part;
use crate::{
    Capabilities, IoCounters, IoError, Middleware, PacketIo, PortId, RxBatch, Transmit, check_transmit,
};
use tag::TagKey;

/// Packet I/O on whose ports jobs may have keys: what is sent there of such a job and epoch has a tag, and what arrives without the right
/// one is dropped and counted in [`IoCounters::unauthenticated`].
///
/// A tag covers the datagram and the upper 32 bits of the chunk's number in the job's stream, which the header does not have: they follow from
/// the newest chunk of the stream, as in extended sequence numbers (RFC 4304). A datagram that was recorded 2^32 chunks ago is therefore not
/// accepted as one of now.
pub struct Authenticated<B> {
    inner: B,
    /// The authenticated streams of each port.
    ports: Vec<Vec<Stream>>,
    /// Streams of all ports.
    streams: usize,
    /// Datagrams with their tags, on their way out.
    staging: Vec<u8>,
    staged: Vec<Transmit>,
    unauthenticated: u64,
}

/// The packets of one job on one port, in both directions.
struct Stream {
    job: u16,
    epoch: u32,
    receive: TagKey,
    send: TagKey,
    newest: ExtendedChunk,
}

/// The newest chunk that a stream has sent or received, as a number that does not wrap; 0 at the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct ExtendedChunk(i64);

impl ExtendedChunk {
    /// The chunk of these lower 32 bits that is closest to `self`.
    const fn closest(self, chunk: u32) -> Self {
        Self(self.0.wrapping_add(chunk.wrapping_sub(self.0 as u32) as i32 as i64))
    }

    /// The upper 32 bits.
    const fn upper(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Streams of one port: links between switches have one for each authenticated job that uses them.
const STREAMS_MAX: usize = 1024;

impl Stream {
    fn new(JobKeys { job, epoch, keys: PortKeys { receive, send } }: &JobKeys) -> Self {
        let (receive, send) = (TagKey::new(receive), TagKey::new(send));
        Self { job: *job, epoch: *epoch, receive, send, newest: ExtendedChunk::default() }
    }

    fn has(&self, PortKeys { receive, send }: &PortKeys) -> bool {
        self.receive.key() == receive && self.send.key() == send
    }

    /// The number of a datagram's chunk.
    fn chunk(&self, packet: &header::Packet<&[u8]>) -> ExtendedChunk {
        self.newest.closest(packet.chunk())
    }

    /// A datagram was sent or has arrived. Replies of other kinds have other numbers in the place of the chunk.
    fn advance(&mut self, packet: &header::Packet<&[u8]>, chunk: ExtendedChunk) {
        if [Kind::Data as u8, Kind::Result as u8].contains(&packet.kind()) {
            self.newest = self.newest.max(chunk);
        }
    }

    /// Length of a datagram without its tag, if the tag is right.
    fn verify(&mut self, tagged: &[u8]) -> Option<usize> {
        let (datagram, tag) = tagged.split_last_chunk::<TAG_LEN>()?;
        let packet = header::Packet::new_checked(datagram).ok()?;
        let chunk = self.chunk(&packet);
        let expected = self.receive.tag(datagram, chunk.upper());
        // One comparison of 64 bits: its time does not depend on where they differ.
        if u64::from_ne_bytes(expected) != u64::from_ne_bytes(*tag) {
            return None;
        }
        self.advance(&packet, chunk);
        Some(datagram.len())
    }
}

/// The stream that a datagram belongs to, if it has keys.
fn stream_of<'a>(ports: &'a mut [Vec<Stream>], port: PortId, datagram: &[u8]) -> Option<&'a mut Stream> {
    let streams = ports.get_mut(usize::from(port.0)).filter(|streams| !streams.is_empty())?;
    let packet = header::Packet::new_checked(datagram).ok()?;
    let (job, epoch) = (packet.job(), packet.epoch());
    streams.iter_mut().find(|stream| (stream.job, stream.epoch) == (job, epoch))
}

/// The datagram that was staged last: which it was, and under which key.
struct LastStaged {
    offset: u32,
    len: u32,
    key: PacketKey,
    chunk: ExtendedChunk,
    staged_offset: u32,
}

impl LastStaged {
    /// Whether a datagram has the same bytes with its tag.
    fn is(&self, Transmit { offset, len, .. }: Transmit, key: &PacketKey, chunk: ExtendedChunk) -> bool {
        (self.offset, self.len, self.chunk) == (offset, len, chunk) && self.key == *key
    }
}

impl<B: PacketIo> Authenticated<B> {
    /// Wraps packet I/O; no job has keys.
    pub const fn new(inner: B) -> Self {
        Self {
            inner,
            ports: Vec::new(),
            streams: 0,
            staging: Vec::new(),
            staged: Vec::new(),
            unauthenticated: 0,
        }
    }

    /// Gives a job keys on a port, for datagrams of at most `datagram_len` bytes without the tag. Keys that it has already change nothing.
    /// Binding the port to a peer, or unbinding it, takes the keys of all jobs there away.
    ///
    /// # Errors
    ///
    /// [`IoError::Oversize`] when such a datagram with a tag is longer than the wrapped packet I/O sends;
    /// [`IoError::Unsupported`] when 1,024 jobs have keys on the port. Nothing has changed then.
    pub fn authenticate(&mut self, port: PortId, keys: &JobKeys, datagram_len: usize) -> Result<(), IoError> {
        let capabilities = self.inner.capabilities();
        let (len, max) = (datagram_len + TAG_LEN, capabilities.datagram_len_max);
        if len > max {
            return Err(IoError::Oversize { port, len, max });
        }
        let index = usize::from(port.0);
        if self.ports.len() <= index {
            self.ports.resize_with(index + 1, Vec::new);
        }
        let streams = &mut self.ports[index];
        let same = |held: &Stream| (held.job, held.epoch) == (keys.job, keys.epoch);
        match streams.iter().position(same) {
            Some(at) if streams[at].has(&keys.keys) => return Ok(()),
            Some(at) => streams[at] = Stream::new(keys),
            None if streams.len() == STREAMS_MAX => {
                return Err(IoError::Unsupported("more authenticated jobs on one port"));
            }
            None => {
                streams.push(Stream::new(keys));
                self.streams += 1;
            }
        }
        // Nothing is allocated for a packet.
        let packets = capabilities.burst_max.max(1);
        self.staged.reserve(packets * COPIES);
        self.staging.reserve((packets * max).min(capabilities.batch_bytes).max(max));
        Ok(())
    }

    /// Takes a job's keys on a port away: its datagrams are as those of other jobs. Done as well when it has none.
    pub fn forget(&mut self, port: PortId, job: u16, epoch: u32) {
        if let Some(streams) = self.ports.get_mut(usize::from(port.0)) {
            let before = streams.len();
            streams.retain(|stream| (stream.job, stream.epoch) != (job, epoch));
            self.streams -= before - streams.len();
        }
    }

    /// Number and epoch of the jobs that have keys on a port.
    pub fn authenticated(&self, port: PortId) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.ports.get(usize::from(port.0)).into_iter().flatten().map(|stream| (stream.job, stream.epoch))
    }

    /// The same over other packet I/O, which `wrap` makes of the wrapped one.
    pub fn map<C: PacketIo>(self, wrap: impl FnOnce(B) -> C) -> Authenticated<C> {
        let Self { inner, ports, streams, staging, staged, unauthenticated } = self;
        Authenticated { inner: wrap(inner), ports, streams, staging, staged, unauthenticated }
    }

    /// The wrapped packet I/O, if no job has keys.
    ///
    /// # Errors
    ///
    /// `self` when one has.
    pub fn into_inner(self) -> Result<B, Self> {
        if self.streams == 0 { Ok(self.inner) } else { Err(self) }
    }

    fn forget_all(&mut self, port: PortId) {
        if let Some(streams) = self.ports.get_mut(usize::from(port.0)) {
            self.streams -= streams.len();
            streams.clear();
        }
    }

    /// Copies datagrams and adds tags to those of authenticated jobs, as far as there is room; equal ones in a row share their bytes. One that
    /// would be longer than `max` with a tag has none, and is dropped by its receiver.
    fn stage(&mut self, memory: &[u8], packets: &[Transmit], max: usize) {
        let Self { ports, staging, staged, .. } = self;
        staging.clear();
        staged.clear();
        let mut last: Option<LastStaged> = None;
        for packet in packets {
            let Some(bytes) = packet.bytes(memory).filter(|_| staged.len() < staged.capacity()) else {
                break;
            };
            let stream = stream_of(ports, packet.port, bytes).filter(|_| bytes.len() + TAG_LEN <= max);
            let Some(stream) = stream else {
                let Some(offset) = copy(staging, bytes, &[]) else { break };
                staged.push(Transmit { offset, ..*packet });
                last = None;
                continue;
            };
            let view = header::Packet::new_unchecked(bytes);
            let chunk = stream.chunk(&view);
            stream.advance(&view, chunk);
            let key = stream.send.key();
            let offset = match last.as_ref().filter(|last| last.is(*packet, key, chunk)) {
                Some(last) => last.staged_offset,
                None => {
                    let tag = stream.send.tag(bytes, chunk.upper());
                    let Some(staged_offset) = copy(staging, bytes, &tag) else { break };
                    let Transmit { offset, len, .. } = *packet;
                    last = Some(LastStaged { offset, len, key: key.clone(), chunk, staged_offset });
                    staged_offset
                }
            };
            staged.push(Transmit { port: packet.port, offset, len: packet.len + TAG_LEN as u32 });
        }
    }
}

/// How many copies of each datagram of a burst are sent at once.
const COPIES: usize = 32;

/// Appends bytes within the capacity, and returns where they begin.
fn copy(staging: &mut Vec<u8>, bytes: &[u8], tag: &[u8]) -> Option<u32> {
    if staging.capacity() - staging.len() < bytes.len() + tag.len() {
        return None;
    }
    let offset = u32::try_from(staging.len()).ok()?;
    staging.extend_from_slice(bytes);
    staging.extend_from_slice(tag);
    Some(offset)
}

impl<B: PacketIo> Middleware for Authenticated<B> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut B {
        &mut self.inner
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let received = PacketIo::receive(&mut self.inner, batch)?;
        if self.streams == 0 {
            return Ok(received);
        }
        let Self { ports, unauthenticated, .. } = self;
        batch.narrow(|received, bytes| {
            let whole = Part { port: received.port, start: 0, len: received.len, ecn: received.ecn };
            let Some(stream) = stream_of(ports, received.port, bytes) else { return Some(whole) };
            let Some(len) = stream.verify(bytes) else {
                *unauthenticated += 1;
                return None;
            };
            Some(Part { len: len as u32, ..whole })
        });
        Ok(batch.len())
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        let keyed = |packet: &Transmit| {
            self.ports.get(usize::from(packet.port.0)).is_some_and(|streams| !streams.is_empty())
        };
        if self.streams == 0 || !packets.iter().any(keyed) {
            return PacketIo::transmit(&mut self.inner, memory, packets);
        }
        let max = self.inner.capabilities().datagram_len_max;
        check_transmit(memory, packets, max)?;
        self.stage(memory, packets, max);
        PacketIo::transmit(&mut self.inner, &self.staging, &self.staged)
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        PacketIo::bind_port(&mut self.inner, port, peer)?;
        self.forget_all(port);
        Ok(())
    }

    fn bind_ports(&mut self, port: PortId, peer: SocketAddr, udp_ports: u8) -> Result<(), IoError> {
        PacketIo::bind_ports(&mut self.inner, port, peer, udp_ports)?;
        self.forget_all(port);
        Ok(())
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        PacketIo::unbind_port(&mut self.inner, port)?;
        self.forget_all(port);
        Ok(())
    }

    fn counters(&self) -> IoCounters {
        let inner = self.inner.counters();
        IoCounters { unauthenticated: inner.unauthenticated + self.unauthenticated, ..inner }
    }
}

#[cfg(test)]
mod tests;
