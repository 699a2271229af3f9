//! Captures: classic pcap files, and middleware that writes one.
//!
//! Source: the pcap capture file format, draft-ietf-opsawg-pcap, sections 4 and 5. Backends carry datagrams without
//! outer headers, so the capture gets synthetic ones: Ethernet, IPv4 and UDP, with the peer's real address where the
//! backend knows it and it is IPv4.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use netfold_wire::UDP_PORT;
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};

use crate::{IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit};

/// Longest frame in bytes that a capture holds: `snaplen` of the file header.
pub const FRAME_LEN_MAX: usize = 1 << 18;

/// LINKTYPE_ETHERNET.
const LINKTYPE: u32 = 1;

/// The unit of a capture's fractions of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolution {
    /// Microseconds: magic 0xa1b2c3d4, read by every tool.
    #[default]
    Micro,
    /// Nanoseconds: magic 0xa1b23c4d.
    Nano,
}

/// Writes a capture of Ethernet frames, in the machine's byte order.
#[derive(Debug)]
pub struct PcapWriter<W> {
    out: W,
    resolution: Resolution,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header. `out` should be buffered.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn new(mut out: W, resolution: Resolution) -> io::Result<Self> {
        let magic: u32 = match resolution {
            Resolution::Micro => 0xa1b2_c3d4,
            Resolution::Nano => 0xa1b2_3c4d,
        };
        let mut header = [0; 24];
        header[..4].copy_from_slice(&magic.to_ne_bytes());
        header[4..6].copy_from_slice(&2_u16.to_ne_bytes()); // version 2.4
        header[6..8].copy_from_slice(&4_u16.to_ne_bytes());
        header[16..20].copy_from_slice(&(FRAME_LEN_MAX as u32).to_ne_bytes());
        header[20..].copy_from_slice(&LINKTYPE.to_ne_bytes());
        out.write_all(&header)?;
        Ok(Self { out, resolution })
    }

    /// Appends a frame seen at `time` since 1970. A frame longer than [`FRAME_LEN_MAX`] is cut, and says so.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write(&mut self, time: Duration, frame: &[u8]) -> io::Result<()> {
        let fraction = match self.resolution {
            Resolution::Micro => time.subsec_micros(),
            Resolution::Nano => time.subsec_nanos(),
        };
        let kept = &frame[..frame.len().min(FRAME_LEN_MAX)];
        let mut record = [0; 16];
        record[..4].copy_from_slice(&(time.as_secs() as u32).to_ne_bytes()); // the format ends in 2106
        record[4..8].copy_from_slice(&fraction.to_ne_bytes());
        record[8..12].copy_from_slice(&(kept.len() as u32).to_ne_bytes());
        record[12..].copy_from_slice(&u32::try_from(frame.len()).unwrap_or(u32::MAX).to_ne_bytes());
        self.out.write_all(&record)?;
        self.out.write_all(kept)
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The output, with everything flushed to it.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Middleware that writes every datagram received and every one taken for sending to a capture, and otherwise leaves
/// the backend as it is.
///
/// A capture that fails (disk full) ends there: [`IoCounters::capture_failed`] counts the packets it lacks,
/// [`take_error`](Self::take_error) has the reason, and the packets themselves go on.
#[derive(Debug)]
pub struct Captured<B, W: Write> {
    inner: B,
    writer: PcapWriter<W>,
    error: Option<io::Error>,
    /// A write failed; nothing more is written.
    ended: bool,
    failed: u64,
    frame: Vec<u8>,
}

/// Whether a packet was received or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

impl<B: PacketIo> Captured<B, BufWriter<File>> {
    /// Captures to a new file; an old one of that name is replaced.
    ///
    /// # Errors
    ///
    /// When the file cannot be created or written.
    pub fn create(inner: B, path: impl AsRef<Path>, resolution: Resolution) -> io::Result<Self> {
        Self::new(inner, BufWriter::new(File::create(path)?), resolution)
    }
}

impl<B: PacketIo, W: Write + Send> Captured<B, W> {
    /// Captures to `out`.
    ///
    /// # Errors
    ///
    /// When the file header cannot be written.
    pub fn new(inner: B, out: W, resolution: Resolution) -> io::Result<Self> {
        let frame = vec![0; OUTER_LEN + inner.capabilities().datagram_len_max];
        Ok(Self {
            inner,
            writer: PcapWriter::new(out, resolution)?,
            error: None,
            ended: false,
            failed: 0,
            frame,
        })
    }

    /// Why the capture ended early; returned once.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Writes out what is buffered, and returns the backend and the output.
    ///
    /// # Errors
    ///
    /// Those of the output, also of earlier writes that were not asked for with [`take_error`](Self::take_error).
    pub fn finish(self) -> io::Result<(B, W)> {
        match self.error {
            Some(error) => Err(error),
            None => Ok((self.inner, self.writer.finish()?)),
        }
    }

    /// Writes datagrams, each with its port and its ECN bits.
    fn capture<'a>(&mut self, way: Way, packets: impl Iterator<Item = (PortId, u8, &'a [u8])>) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let local = endpoint(0, self.inner.local_addr());
        for (port, ecn, datagram) in packets {
            if self.ended {
                self.failed += 1;
                continue;
            }
            let peer = endpoint(u32::from(port.0) + 1, self.inner.peer(port));
            let outer = Outer { source: local, destination: peer };
            let outer = if way == Way::In { outer.reversed() } else { outer };
            // Only datagrams longer than IPv4 carries are refused.
            let Ok(len) = outer.emit(datagram, ecn, &mut self.frame) else {
                self.failed += 1;
                continue;
            };
            if let Err(error) = self.writer.write(time, &self.frame[..len]) {
                self.error = Some(error);
                self.ended = true;
                self.failed += 1;
            }
        }
    }
}

/// The address to show: the real one where it is IPv4 and says something, else 10.0.0.0 plus the number and Netfold's
/// port. Hardware addresses are made from the number: this end is 0, port n is n + 1.
fn endpoint(number: u32, address: Option<SocketAddr>) -> Endpoint {
    let [_, high, middle, low] = number.to_be_bytes();
    let mac = EthernetAddress([2, 0, 0, high, middle, low]);
    let synthetic = Ipv4Address::from(0x0a00_0001 + number);
    match address {
        Some(address) => match address.ip() {
            IpAddr::V4(ip) if !ip.is_unspecified() => Endpoint { mac, ip, port: address.port() },
            _ => Endpoint { mac, ip: synthetic, port: address.port() },
        },
        None => Endpoint { mac, ip: synthetic, port: UDP_PORT },
    }
}

impl<B: PacketIo, W: Write + Send> crate::Middleware for Captured<B, W> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut B {
        &mut self.inner
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let count = self.inner.receive(batch)?;
        if count > 0 {
            let packets = batch.packets().iter();
            self.capture(Way::In, packets.map(|packet| (packet.port, packet.ecn, batch.bytes(packet))));
        }
        Ok(count)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        let taken = self.inner.transmit(memory, packets)?;
        if taken > 0 {
            let packets = packets[..taken].iter();
            self.capture(
                Way::Out,
                packets.filter_map(|packet| Some((packet.port, 0, packet.bytes(memory)?))),
            );
        }
        Ok(taken)
    }

    fn counters(&self) -> IoCounters {
        let mut counters = self.inner.counters();
        counters.capture_failed += self.failed;
        counters
    }
}
