//! Receiving bursts from a socket.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use super::Role;
use super::kept::Undelivered;
use super::syscall::{MESSAGES_MAX, Message, Receiver};
use crate::{IoCounters, IoError, PortId, RxBatch};

/// Room for one coalesced message: 64 KiB and a little, so that the starts of messages do not all fall into the same
/// few lines of the cache.
const GRO_STRIDE: usize = 65_536 + 5 * 64;

/// Bytes of a batch beyond which more messages a call gain nothing.
const BATCH_BYTES: usize = 1 << 20;

/// System calls of one `receive`: a flood from strangers, who are dropped, must not keep it for ever.
const CALLS_MAX: usize = 16;

/// How often reports about earlier sends are skipped within one call.
const REPORTS_MAX: u32 = 16;

/// The receiving half of a socket.
pub(super) struct Receiving {
    receiver: Receiver,
    kept: Undelivered,
    /// One message's room, for batches that have less than that.
    scratch: Vec<u8>,
    datagram_len_max: usize,
    gro: bool,
    /// Datagrams a message held lately; decays.
    segments: usize,
}

/// Why no (more) messages came.
enum Stop {
    Empty,
    Fatal(IoError),
}

impl Receiving {
    pub(super) fn new(datagram_len_max: usize, gro: bool) -> Self {
        Self {
            receiver: Receiver::new(),
            kept: Undelivered::default(),
            scratch: Vec::new(),
            datagram_len_max,
            gro,
            segments: 1,
        }
    }

    pub(super) fn gro(&self) -> bool {
        self.gro
    }

    pub(super) fn batch_bytes(&self) -> usize {
        (MESSAGES_MAX * self.stride()).min(BATCH_BYTES)
    }

    pub(super) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    fn stride(&self) -> usize {
        if self.gro { GRO_STRIDE } else { self.datagram_len_max }
    }

    /// Fills the batch: first with what was kept, then straight from the socket.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        role: &Role,
        batch: &mut RxBatch,
        counters: &mut IoCounters,
    ) -> Result<usize, IoError> {
        batch.clear();
        counters.truncated += self.kept.deliver(batch);
        let stride = self.stride();
        for _ in 0..CALLS_MAX {
            if batch.packets_left() == 0 || self.has_kept() {
                break;
            }
            let room = batch.bytes_left() / stride;
            let wanted = room.min(batch.packets_left().div_ceil(self.segments)).min(MESSAGES_MAX);
            // A batch too small for the longest message gets datagrams as long as it surely has room for one.
            let small = batch.memory().len() < stride;
            let stop = if wanted > 0 {
                self.receive_direct(socket, role, batch, wanted, counters)
            } else if small && (batch.is_empty() || batch.bytes_left() >= self.datagram_len_max) {
                self.receive_copied(socket, role, batch, counters)
            } else {
                break;
            };
            match stop {
                Ok(()) => {}
                Err(Stop::Empty) => break,
                Err(Stop::Fatal(error)) if batch.is_empty() => return Err(error),
                Err(Stop::Fatal(_)) => break, // it will be there again next time
            }
        }
        counters.rx_packets += batch.len() as u64;
        counters.rx_bytes += batch.packets().iter().map(|packet| u64::from(packet.len)).sum::<u64>();
        Ok(batch.len())
    }

    /// Messages go straight into the batch's memory, one a stride.
    fn receive_direct(
        &mut self,
        socket: &UdpSocket,
        role: &Role,
        batch: &mut RxBatch,
        wanted: usize,
        counters: &mut IoCounters,
    ) -> Result<(), Stop> {
        let (stride, left) = (self.stride(), batch.bytes_left());
        let got = call(&mut self.receiver, socket, batch.free_memory(), stride, wanted, counters)?;
        let mut most = 1;
        for index in 0..got {
            let message = self.receiver.message(index);
            let Some(port) = self.port(role, index, message, counters) else { continue };
            let mut count = 0;
            for (at, len) in datagrams(message) {
                count += 1;
                if len > self.datagram_len_max {
                    counters.truncated += 1;
                    continue;
                }
                let gap = index * stride + at - (left - batch.bytes_left());
                if batch.packets_left() > 0 {
                    batch.commit_at(gap, port, len, message.ecn);
                } else {
                    self.kept.keep(port, &batch.free_memory()[gap..][..len], message.ecn);
                }
            }
            most = most.max(count);
            counters.gro_runs += u64::from(count > 1);
        }
        self.segments = most.max(self.segments - self.segments / 8);
        if got < wanted { Err(Stop::Empty) } else { Ok(()) }
    }

    /// One message goes through memory of its own, because the batch has too little for the longest there can be.
    fn receive_copied(
        &mut self,
        socket: &UdpSocket,
        role: &Role,
        batch: &mut RxBatch,
        counters: &mut IoCounters,
    ) -> Result<(), Stop> {
        let stride = self.stride();
        self.scratch.resize(stride, 0);
        let got = call(&mut self.receiver, socket, &mut self.scratch, stride, 1, counters)?;
        if got == 0 {
            return Err(Stop::Empty);
        }
        let message = self.receiver.message(0);
        let Some(port) = self.port(role, 0, message, counters) else { return Ok(()) };
        let mut count = 0;
        for (at, len) in datagrams(message) {
            count += 1;
            if len > self.datagram_len_max {
                counters.truncated += 1;
            } else {
                self.kept.keep(port, &self.scratch[at..][..len], message.ecn);
            }
        }
        counters.gro_runs += u64::from(count > 1);
        counters.truncated += self.kept.deliver(batch);
        Ok(())
    }

    /// The port of a message that is to be delivered; counts it when it is not.
    fn port(&self, role: &Role, index: usize, message: Message, counters: &mut IoCounters) -> Option<PortId> {
        let port = match role {
            Role::Connected(_) => Some(PortId(0)),
            Role::Listening(peers) => peers.port_of(self.receiver.source(index)),
        };
        if port.is_none() {
            counters.unknown_source += datagrams(message).count() as u64;
        } else if message.truncated {
            counters.truncated += 1;
            return None;
        }
        port
    }
}

/// Offset and length of each datagram of a message; an empty message is one empty datagram.
fn datagrams(message: Message) -> impl Iterator<Item = (usize, usize)> {
    let segment = message.segment.unwrap_or(message.len).max(1);
    let count = message.len.div_ceil(segment).max(1);
    (0..count).map(move |index| (index * segment, segment.min(message.len - index * segment)))
}

/// One `recvmmsg`, without the reports about earlier sends that a connected socket hands out first.
fn call(
    receiver: &mut Receiver,
    socket: &UdpSocket,
    memory: &mut [u8],
    stride: usize,
    wanted: usize,
    counters: &mut IoCounters,
) -> Result<usize, Stop> {
    for _ in 0..REPORTS_MAX {
        counters.rx_calls += 1;
        let error = match receiver.receive(socket.as_fd(), memory, stride, wanted) {
            Ok(got) => return Ok(got),
            Err(error) => error,
        };
        match error.kind() {
            io::ErrorKind::WouldBlock => break,
            io::ErrorKind::Interrupted => {}
            _ if matches!(
                error.raw_os_error(),
                Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL | libc::ENOTCONN)
            ) =>
            {
                return Err(Stop::Fatal(IoError::os("recvmmsg", error)));
            }
            // Refused, or the host or network is unreachable: a matter of single packets.
            _ => counters.refused += 1,
        }
    }
    Err(Stop::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_messages() {
        let split = |len, segment| -> Vec<(usize, usize)> {
            datagrams(Message { len, truncated: false, ecn: 0, segment }).collect()
        };
        assert_eq!(split(0, None), [(0, 0)]);
        assert_eq!(split(9, None), [(0, 9)]);
        assert_eq!(split(9, Some(20)), [(0, 9)]);
        assert_eq!(split(9, Some(4)), [(0, 4), (4, 4), (8, 1)]);
        assert_eq!(split(8, Some(4)), [(0, 4), (4, 4)]);
    }
}
