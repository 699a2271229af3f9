//! Receiving bursts from a socket.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use super::Role;
use super::kept::Undelivered;
use super::syscall::{MESSAGES_MAX, Message, REST, Receiver};
use crate::{IoCounters, IoError, PortId, RxBatch};

/// Room for one coalesced message: 64 KiB and a little, so that the starts of messages do not all fall into the same
/// few lines of the cache.
const GRO_STRIDE: usize = 65_536 + 5 * 64;

/// Calls in a row that were filled by messages of one datagram each, after which such are expected.
const SINGLES_MIN: u32 = 2;

/// How many of those a burst takes at most: while they are few, what the kernel has copied is still near when it copies it back.
const SINGLES_MAX: usize = 32;

/// Bytes of a batch beyond which more messages a call gain nothing.
const BATCH_BYTES: usize = 1 << 20;

/// System calls of one `receive`: a flood from unknown sources, which is dropped, must not block it for ever.
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
    /// Calls in a row that were filled by messages of one datagram each.
    singles: u32,
    /// Where what was coalesced after all goes, while single datagrams are expected. Made when they first are, and hardly touched.
    rest: Vec<u8>,
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
            singles: 0,
            rest: Vec::new(),
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

    /// Whether messages of one datagram each are expected, although the kernel may coalesce: devices and senders decide, not we. Then each
    /// has room for one in the batch, so that many fit.
    fn expects_singles(&self) -> bool {
        self.gro && self.singles >= SINGLES_MIN
    }

    /// Fills the batch: first with what was kept, then straight from the socket.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        role: &mut Role,
        batch: &mut RxBatch,
        counters: &mut IoCounters,
    ) -> Result<usize, IoError> {
        batch.clear();
        counters.truncated += self.kept.deliver(batch);
        for _ in 0..CALLS_MAX {
            if batch.packets_left() == 0 || self.has_kept() {
                break;
            }
            let expects_singles = self.expects_singles();
            let (stride, messages) = if expects_singles {
                self.segments = 1;
                (single_stride(self.datagram_len_max), SINGLES_MAX.saturating_sub(batch.len()))
            } else {
                (self.stride(), MESSAGES_MAX)
            };
            let room = batch.bytes_left() / stride;
            let wanted = room.min(batch.packets_left().div_ceil(self.segments)).min(messages);
            // A batch too small for the longest message gets datagrams as long as it surely has room for one.
            let small = batch.memory().len() < stride;
            let stop = if wanted > 0 && expects_singles {
                self.receive_singles(socket, role, batch, wanted, counters)
            } else if wanted > 0 {
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
        role: &mut Role,
        batch: &mut RxBatch,
        wanted: usize,
        counters: &mut IoCounters,
    ) -> Result<(), Stop> {
        let (stride, left) = (self.stride(), batch.bytes_left());
        let memory = (batch.free_memory(), stride);
        let got = call(&mut self.receiver, socket, memory, &mut [], wanted, counters)?;
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
        self.singles = if most == 1 && got == wanted { self.singles + 1 } else { 0 };
        if got < wanted { Err(Stop::Empty) } else { Ok(()) }
    }

    /// The same with room for one datagram of each message in the batch. What more a message has lies elsewhere, and is kept
    /// with all that follows it.
    fn receive_singles(
        &mut self,
        socket: &UdpSocket,
        role: &mut Role,
        batch: &mut RxBatch,
        wanted: usize,
        counters: &mut IoCounters,
    ) -> Result<(), Stop> {
        if self.rest.is_empty() {
            self.rest = vec![0; SINGLES_MAX * REST];
        }
        let (stride, left) = (single_stride(self.datagram_len_max), batch.bytes_left());
        let memory = (batch.free_memory(), stride);
        let got = call(&mut self.receiver, socket, memory, &mut self.rest, wanted, counters)?;
        for index in 0..got {
            let message = self.receiver.message(index);
            let Some(port) = self.port(role, index, message, counters) else { continue };
            let mut count = 0;
            for (at, len) in datagrams(message) {
                count += 1;
                if len > self.datagram_len_max {
                    counters.truncated += 1;
                } else if count == 1 && self.kept.is_empty() {
                    // Those before it have taken the places before its own.
                    let gap = index * stride - (left - batch.bytes_left());
                    batch.commit_at(gap, port, len, message.ecn);
                } else {
                    let place = &batch.memory()[batch.memory().len() - left + index * stride..][..stride];
                    let rest = &self.rest[index * REST..][..REST];
                    let front = place.get(at..).map_or(&[][..], |front| &front[..len.min(front.len())]);
                    let behind = &rest[(at + front.len()).saturating_sub(stride)..][..len - front.len()];
                    self.kept.keep_parts(port, [front, behind], message.ecn);
                }
            }
            if count > 1 {
                self.singles = 0;
                counters.gro_runs += 1;
            }
        }
        if got < wanted { Err(Stop::Empty) } else { Ok(()) }
    }

    /// One message goes through memory of its own, because the batch has too little for the longest there can be.
    fn receive_copied(
        &mut self,
        socket: &UdpSocket,
        role: &mut Role,
        batch: &mut RxBatch,
        counters: &mut IoCounters,
    ) -> Result<(), Stop> {
        let stride = self.stride();
        self.scratch.resize(stride, 0);
        let got = call(&mut self.receiver, socket, (&mut self.scratch, stride), &mut [], 1, counters)?;
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
    fn port(
        &self,
        role: &mut Role,
        index: usize,
        message: Message,
        counters: &mut IoCounters,
    ) -> Option<PortId> {
        let port = match role {
            Role::Connected(_) => Some(PortId(0)),
            Role::Listening(peers) => peers.note_source(self.receiver.source(index)),
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

/// Room for one datagram: a cache line more than it takes, so that the starts of datagrams do not all fall into the same few lines.
fn single_stride(datagram_len_max: usize) -> usize {
    datagram_len_max.next_multiple_of(64) + 64
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
    (memory, stride): (&mut [u8], usize),
    rest: &mut [u8],
    wanted: usize,
    counters: &mut IoCounters,
) -> Result<usize, Stop> {
    for _ in 0..REPORTS_MAX {
        counters.rx_calls += 1;
        let error = match receiver.receive(socket.as_fd(), (&mut *memory, stride), rest, wanted) {
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
