//! Counts the packets of each UDP port of a worker, at the side of the network.

use std::sync::{Arc, Mutex, PoisonError};

use netfold_io::{IoError, Middleware, PacketIo, RxBatch, Transmit};

/// Packets of a path from which so few were sent say nothing of it.
const SENT_MIN: u64 = 8;

/// What was sent from a port and received there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PortCount {
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// The counts of all ports, which the packet I/O of an engine adds to.
#[derive(Debug, Clone, Default)]
pub(super) struct PortCounts(Arc<Mutex<Vec<PortCount>>>);

impl PortCounts {
    /// Wraps packet I/O, which is counted from now on.
    pub(super) fn tap(&self, io: Box<dyn PacketIo>) -> Box<dyn PacketIo> {
        let paths = usize::from(PacketIo::paths(&io));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = vec![PortCount::default(); paths];
        Box::new(Tap { io, counts: self.clone() })
    }

    fn count(&self, ports: impl Iterator<Item = u16>, add: impl Fn(&mut PortCount)) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for port in ports {
            counts.get_mut(usize::from(port)).into_iter().for_each(&add);
        }
    }

    /// Packets sent and received, by all ports together.
    pub(super) fn total(&self) -> PortCount {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().fold(PortCount::default(), |sum, port| PortCount {
            sent: sum.sent + port.sent,
            received: sum.received + port.received,
        })
    }

    /// How many ports were used, and at how many of these something was received.
    pub(super) fn replied(&self) -> (u8, u8) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used: Vec<_> = counts.iter().filter(|port| port.sent >= SENT_MIN).collect();
        let replied = used.iter().filter(|port| port.received > 0).count();
        (used.len() as u8, replied as u8)
    }
}

struct Tap {
    io: Box<dyn PacketIo>,
    counts: PortCounts,
}

impl Middleware for Tap {
    type Inner = dyn PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.io
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.io
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let received = self.inner_mut().receive(batch)?;
        self.counts.count(batch.packets().iter().map(|packet| packet.port.0), |port| port.received += 1);
        Ok(received)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        let taken = self.inner_mut().transmit(memory, packets)?;
        self.counts.count(packets[..taken].iter().map(|packet| packet.port.0), |port| port.sent += 1);
        Ok(taken)
    }
}
