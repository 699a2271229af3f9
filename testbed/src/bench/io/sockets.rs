//! Eight workers with a UDP socket each.

use std::net::SocketAddr;
use std::time::Duration;

use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{IoError, PacketIo, PortId, RxBatch, Transmit};
use netfold_wire::header::{self, Packet};

use super::crowd::{Back, Workers, repr};
use super::{PAYLOAD_BYTES, WORKERS};

pub(super) const DATAGRAM_LEN: usize = header::LEN + PAYLOAD_BYTES as usize;

/// How often a full socket is offered the rest of a burst.
const OFFERS_MAX: u32 = 1000;

struct Worker {
    io: UdpIo,
    /// Room for a window of datagrams, the first of which are queued.
    memory: Vec<u8>,
    queued: Vec<Transmit>,
}

pub(super) struct Sockets {
    workers: Vec<Worker>,
    batch: RxBatch,
    window: u32,
}

impl Sockets {
    pub(super) fn connect(to: SocketAddr, window: u32) -> Result<Self, IoError> {
        let config = UdpConfig { datagram_len_max: DATAGRAM_LEN, ..UdpConfig::default() };
        let worker = |_| {
            let io = UdpIo::connect(to, config)?;
            let memory = vec![1; window as usize * DATAGRAM_LEN];
            Ok(Worker { io, memory, queued: Vec::with_capacity(window as usize) })
        };
        let workers: Vec<Worker> = (0..WORKERS).map(worker).collect::<Result<_, IoError>>()?;
        let batch = workers[0].io.capabilities().batch();
        Ok(Self { workers, batch, window })
    }
}

impl Workers for Sockets {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.workers.iter().filter_map(|worker| worker.io.local_addr()).collect()
    }

    fn receive(&mut self, back: &mut Vec<Back>) -> Result<(), IoError> {
        for (number, worker) in (0..).zip(&mut self.workers) {
            worker.io.receive(&mut self.batch)?;
            let packets = self.batch.packets().iter().map(|packet| self.batch.bytes(packet));
            let packets = packets.filter_map(|bytes| Packet::new_checked(bytes).ok());
            back.extend(packets.map(|packet| (number, packet.chunk())));
        }
        Ok(())
    }

    fn send(&mut self, worker: u16, chunk: u32) -> Result<bool, IoError> {
        let worker = &mut self.workers[usize::from(worker)];
        let offset = worker.queued.len() * DATAGRAM_LEN;
        let Some(datagram) = worker.memory.get_mut(offset..offset + DATAGRAM_LEN) else { return Ok(false) };
        repr(chunk, self.window).emit(&mut Packet::new_unchecked(&mut datagram[..header::LEN]));
        worker.queued.push(Transmit { port: PortId(0), offset: offset as u32, len: DATAGRAM_LEN as u32 });
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        for worker in &mut self.workers {
            let (mut taken, mut offers) = (0, 0);
            while taken < worker.queued.len() && offers < OFFERS_MAX {
                taken += worker.io.transmit(&worker.memory, &worker.queued[taken..])?;
                offers += 1;
            }
            worker.queued.clear();
        }
        Ok(())
    }

    fn wait(&mut self, _: Duration) -> Result<(), IoError> {
        // There is no sleeping on eight sockets at once, and the core is the workers' own.
        std::thread::yield_now();
        Ok(())
    }
}
