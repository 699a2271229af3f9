//! Eight workers on one link: whole frames made once, with the numbers of each chunk written in.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use netfold_io::link::Link;
use netfold_io::{IoError, RxBatch};
use netfold_wire::frame::{
    ArpOperation, ArpPacket, Endpoint, EthernetAddress, EthernetFrame, EthernetProtocol, OUTER_LEN, Outer,
};
use netfold_wire::header::{self, Packet};

use super::WORKERS;
use super::crowd::{Back, Workers, repr};
use super::sockets::DATAGRAM_LEN;

/// The first worker's address. Workers differ by address and UDP port.
const WORKERS_IP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 200);
/// Their Ethernet address. It is not that of the interface that they use, so this machine's kernel takes frames to them for another host's
/// and drops its copies at once; else it would look for a route for each, on the core of the program that is measured.
pub(super) const WORKERS_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
const FIRST_PORT: u16 = 40_000;
const FRAME_LEN: usize = OUTER_LEN + DATAGRAM_LEN;
/// Bytes before the UDP destination port, and before the UDP checksum.
const PORT_AT: usize = 14 + 20 + 2;
const CHECKSUM_AT: usize = 14 + 20 + 6;

/// Where a worker is.
pub(super) fn worker_address(worker: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from_bits(WORKERS_IP.to_bits() + u32::from(worker)), FIRST_PORT + worker)
}

pub(super) struct Frames<L> {
    link: L,
    /// A frame of each worker.
    made: Vec<Vec<u8>>,
    batch: RxBatch,
    window: u32,
}

impl<L: Link> Frames<L> {
    /// Workers on `link`, whose switch is at `hub` and has this Ethernet address.
    pub(super) fn new(link: L, hub: SocketAddrV4, hub_mac: [u8; 6], window: u32) -> Result<Self, IoError> {
        let hub = Endpoint { mac: EthernetAddress(hub_mac), ip: *hub.ip(), port: hub.port() };
        let datagram = vec![1; DATAGRAM_LEN];
        let frame = |worker| {
            let mut frame = vec![0; FRAME_LEN];
            let source = Endpoint {
                mac: EthernetAddress(WORKERS_MAC),
                ip: *worker_address(worker).ip(),
                port: FIRST_PORT + worker,
            };
            Outer { source, destination: hub }
                .emit(&datagram, 0, &mut frame)
                .map_err(|_| IoError::Unsupported("frames of this length"))?;
            // The numbers change; no checksum is a right one (RFC 768).
            frame[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
            Ok(frame)
        };
        let made = (0..WORKERS).map(frame).collect::<Result<_, IoError>>()?;
        Ok(Self { made, batch: RxBatch::new(256, 512 * 1024), window, link })
    }

    /// Answers a question for the workers' Ethernet address.
    fn reply(&mut self, at: usize) -> Result<(), IoError> {
        let asked = self.batch.bytes(&self.batch.packets()[at]);
        let Ok(arp) = ArpPacket::new_checked(&asked[14..]) else { return Ok(()) };
        let Some(ip) = (0..WORKERS)
            .map(|worker| *worker_address(worker).ip())
            .find(|ip| arp.target_protocol_addr() == ip.octets())
        else {
            return Ok(());
        };
        let Some(frame) = self.link.frame(42) else { return Ok(()) };
        frame.copy_from_slice(&asked[..42]);
        let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
        ethernet.set_dst_addr(EthernetAddress::from_bytes(arp.source_hardware_addr()));
        ethernet.set_src_addr(EthernetAddress(WORKERS_MAC));
        let mut reply = ArpPacket::new_unchecked(&mut frame[14..]);
        reply.set_operation(ArpOperation::Reply);
        reply.set_source_hardware_addr(&WORKERS_MAC);
        reply.set_source_protocol_addr(&ip.octets());
        reply.set_target_hardware_addr(arp.source_hardware_addr());
        reply.set_target_protocol_addr(arp.source_protocol_addr());
        self.link.push();
        self.link.flush()
    }
}

impl<L: Link> Workers for Frames<L> {
    fn addresses(&self) -> Vec<SocketAddr> {
        (0..WORKERS).map(|worker| SocketAddr::V4(worker_address(worker))).collect()
    }

    fn receive(&mut self, back: &mut Vec<Back>) -> Result<(), IoError> {
        self.link.receive(&mut self.batch)?;
        for at in 0..self.batch.len() {
            let frame = self.batch.bytes(&self.batch.packets()[at]);
            if frame.len() == FRAME_LEN {
                let port = u16::from_be_bytes([frame[PORT_AT], frame[PORT_AT + 1]]);
                let worker = port.checked_sub(FIRST_PORT).filter(|worker| *worker < WORKERS);
                let chunk = Packet::new_unchecked(&frame[OUTER_LEN..]).chunk();
                back.extend(worker.map(|worker| (worker, chunk)));
            } else if frame.len() >= 42
                && EthernetFrame::new_unchecked(frame).ethertype() == EthernetProtocol::Arp
            {
                self.reply(at)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, worker: u16, chunk: u32) -> Result<bool, IoError> {
        let Some(frame) = self.link.frame(FRAME_LEN) else { return Ok(false) };
        frame.copy_from_slice(&self.made[usize::from(worker)]);
        let header = &mut frame[OUTER_LEN..OUTER_LEN + header::LEN];
        repr(chunk, self.window).emit(&mut Packet::new_unchecked(header));
        self.link.push();
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.link.flush()
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), IoError> {
        self.link.wait(timeout).map(drop)
    }
}
