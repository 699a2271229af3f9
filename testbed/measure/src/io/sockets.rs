//! Eight workers with packet I/O of their own each: a UDP socket, or rings.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use netfold_io::shm::{Name, Spoke};
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{Authenticated, IoError, PacketIo, PortId, RxBatch, Transmit};
use netfold_wire::header::{self, Packet};
use netfold_wire::{JobKeys, PacketKey, PortKeys, TAG_LEN};

use super::crowd::{Back, EPOCH, JOB, Workers, repr};
use super::{PAYLOAD_BYTES, WORKERS};

pub(super) const DATAGRAM_LEN: usize = header::LEN + PAYLOAD_BYTES as usize;
/// The same with a tag.
pub(super) const TAGGED_LEN: usize = DATAGRAM_LEN + TAG_LEN;

/// How often a full socket is offered the rest of a burst.
const OFFERS_MAX: u32 = 1000;

struct Worker<I> {
    io: I,
    /// Room for a window of datagrams, the first of which are queued.
    memory: Vec<u8>,
    queued: Vec<Transmit>,
}

pub(super) struct Sockets<I> {
    workers: Vec<Worker<I>>,
    /// The one that is looked at first.
    next: usize,
    batch: RxBatch,
    window: u32,
}

impl Sockets<UdpIo> {
    pub(super) fn connect(to: SocketAddr, window: u32, len: usize) -> Result<Self, IoError> {
        let config = UdpConfig { datagram_len_max: len, ..UdpConfig::default() };
        Self::of(|| UdpIo::connect(to, config), window)
    }
}

impl Sockets<Spoke> {
    pub(super) fn attach(to: &Name, window: u32, len: usize) -> Result<Self, IoError> {
        Self::of(|| Spoke::attach(to, Ipv4Addr::LOCALHOST.into(), len), window)
    }
}

impl<I: PacketIo> Sockets<I> {
    fn of(open: impl Fn() -> Result<I, IoError>, window: u32) -> Result<Self, IoError> {
        let worker = |_| {
            let memory = vec![1; window as usize * DATAGRAM_LEN];
            Ok(Worker { io: open()?, memory, queued: Vec::with_capacity(window as usize) })
        };
        let workers: Vec<Worker<I>> = (0..WORKERS).map(worker).collect::<Result<_, IoError>>()?;
        let batch = workers[0].io.capabilities().batch();
        Ok(Self { workers, next: 0, batch, window })
    }

    /// The same workers, whose job's packets are authenticated.
    pub(super) fn authenticated(self) -> Result<Sockets<Authenticated<I>>, IoError> {
        let Self { workers, next, batch, window } = self;
        let wrap = |(rank, Worker { io, memory, queued }): (usize, Worker<I>)| {
            let mut io = Authenticated::new(io);
            io.authenticate(PortId(0), &keys(SWITCH, rank as u8), DATAGRAM_LEN)?;
            Ok(Worker { io, memory, queued })
        };
        let workers = workers.into_iter().enumerate().map(wrap).collect::<Result<_, IoError>>()?;
        Ok(Sockets { workers, next, batch, window })
    }
}

/// Whose keys are the switch's; the others are the ranks'.
const SWITCH: u8 = u8::MAX;

/// The switch's packet I/O, whose job's packets are authenticated on the ports of all workers. Binding a port takes its keys away.
pub(super) fn authenticate(io: Box<dyn PacketIo>) -> Result<Box<dyn PacketIo>, IoError> {
    let mut io = Authenticated::new(io);
    for rank in 0..WORKERS {
        io.authenticate(PortId(rank + 1), &keys(rank as u8, SWITCH), DATAGRAM_LEN)?;
    }
    Ok(Box::new(io))
}

/// Keys between two senders.
fn keys(receive: u8, send: u8) -> JobKeys {
    let keys = PortKeys { receive: PacketKey([receive; 32]), send: PacketKey([send; 32]) };
    JobKeys { job: JOB, epoch: EPOCH, keys }
}

impl<I: PacketIo> Workers for Sockets<I> {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.workers.iter().filter_map(|worker| worker.io.local_addr()).collect()
    }

    /// One worker's, which replies before the next one is looked at: each would do so on a machine of its own.
    fn receive(&mut self, back: &mut Vec<Back>) -> Result<(), IoError> {
        for _ in 0..self.workers.len() {
            let number = self.next;
            self.next = if number + 1 < self.workers.len() { number + 1 } else { 0 };
            if self.workers[number].io.receive(&mut self.batch)? > 0 {
                let packets = self.batch.packets().iter().map(|packet| self.batch.bytes(packet));
                let packets = packets.filter_map(|bytes| Packet::new_checked(bytes).ok());
                back.extend(packets.map(|packet| (number as u16, packet.chunk())));
                break;
            }
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
