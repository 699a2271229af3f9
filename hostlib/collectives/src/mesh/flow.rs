//! Transfers the bytes of one plan over the links, in both directions of all of them at once, so that no order of calls on the
//! ranks can deadlock them.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::CallSignature;
use crate::mesh::abort::AbortSignal;
use crate::mesh::error::{Loss, MeshError};
use crate::mesh::frame::{FAILURE, FRAME_MAX, HEAD, Head, Kind, MeshFailure};
use crate::mesh::link::{Link, OutFrame, ReadOutcome};
use crate::mesh::memory::Memory;
use crate::mesh::plan::{Gate, MeshPlan, Offset};

/// Smallest frame while more bytes are to come.
const FRAME_MIN: usize = 64 * 1024;
/// Reads from one link before the other links are served.
const READS_MAX: usize = 4;
/// How long a failing rank tries to send its failure to the others.
const FAILURE_SEND_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it then waits for them to receive it: a connection that is closed with bytes unread is reset, and the last bytes
/// sent may be lost.
const FAILURE_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;

/// What limits a call in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A peer that transfers no byte for so long is lost.
    pub(crate) stall: Duration,
    /// The call fails when it is not done by then.
    pub(crate) deadline: Option<Instant>,
}

/// One call in progress.
pub(crate) struct Flow<'a> {
    links: &'a mut [Option<Link>],
    rank: u16,
    call: CallSignature,
    plan: &'a MeshPlan,
    memory: Memory<'a>,
    /// Number of ranks that take part: an average's divisor.
    ranks: u32,
    sent: Vec<usize>,
    sent_done: Vec<bool>,
    arrived: Vec<usize>,
    arrived_done: Vec<bool>,
    /// Messages that are not done.
    left: usize,
}

/// What became of the bytes that were received.
enum Progress {
    Moved,
    /// More bytes are needed.
    More,
    /// They cannot be used yet.
    Stall,
}

fn further(place: Offset, by: usize) -> Offset {
    Offset { at: place.at + by, ..place }
}

impl<'a> Flow<'a> {
    /// Begins a call among the ranks `members`, which the plan's messages name.
    pub(crate) fn new(
        links: &'a mut [Option<Link>],
        (rank, members): (u16, &[u16]),
        call: CallSignature,
        plan: &'a MeshPlan,
        memory: Memory<'a>,
    ) -> Self {
        for (peer, link) in links.iter_mut().enumerate() {
            if let Some(link) = link {
                link.begin(members.contains(&(peer as u16)));
            }
        }
        for (index, send) in plan.sends.iter().enumerate() {
            if let Some(link) = &mut links[usize::from(send.to)] {
                link.sends.push(index);
            }
        }
        for (index, arrival) in plan.arrivals.iter().enumerate() {
            if let Some(link) = &mut links[usize::from(arrival.from)] {
                link.arrivals.push(index);
            }
        }
        Self {
            links,
            rank,
            call,
            memory,
            ranks: members.len() as u32,
            sent: vec![0; plan.sends.len()],
            sent_done: vec![false; plan.sends.len()],
            arrived: vec![0; plan.arrivals.len()],
            arrived_done: vec![false; plan.arrivals.len()],
            left: plan.sends.len() + plan.arrivals.len(),
            plan,
        }
    }

    /// Runs the call to its end. On an error every peer was notified, and no link is usable any more.
    pub(crate) fn run(mut self, limits: Limits, abort: &AbortSignal) -> Result<(), MeshError> {
        let result = self.pump(limits, abort);
        if let Err(error) = &result {
            self.send_failure(failure_of(error, self.rank));
        }
        result
    }

    fn pump(&mut self, limits: Limits, abort: &AbortSignal) -> Result<(), MeshError> {
        for (from, into, len) in &self.plan.copies {
            self.memory.copy(*from, *into, *len);
        }
        let mut last_moved = Instant::now();
        let mut moved_since = false;
        loop {
            let mut moved = false;
            for peer in 0..self.links.len() {
                moved |= self.pump_out(peer)?;
                moved |= self.pump_in(peer)?;
            }
            if self.left == 0 {
                return Ok(());
            }
            moved_since |= moved;
            if !moved {
                let now = Instant::now();
                if std::mem::take(&mut moved_since) {
                    last_moved = now;
                }
                self.wait(limits, last_moved, now, abort)?;
            }
        }
    }

    /// How many bytes of a message of `len` its gate lets pass, and whether its end may.
    fn open(&self, gate: Gate, len: usize) -> (usize, bool) {
        let (progress, done) = match gate {
            Gate::Open => (len, true),
            Gate::Arrived(index) => (self.arrived[index], self.arrived_done[index]),
            Gate::Sent(index) => (self.sent[index], self.sent_done[index]),
        };
        (if done { len } else { progress.min(len) }, done)
    }

    /// Sends to one peer what may be sent. Returns whether anything was.
    fn pump_out(&mut self, peer: usize) -> Result<bool, MeshError> {
        let mut moved = false;
        loop {
            let Some(link) = &self.links[peer] else { return Ok(false) };
            let Some(&index) = link.sends.get(link.send_at) else { return Ok(moved) };
            let send = &self.plan.sends[index];
            let begun = link.frame.is_some();
            let (open, end) = if begun { (0, false) } else { self.open(send.after, send.len) };
            let Some(link) = &mut self.links[peer] else { return Ok(false) };
            if !begun {
                let (ready, remaining) = (open.saturating_sub(self.sent[index]), send.len - self.sent[index]);
                let is_due = if send.len == 0 { end } else { ready > 0 && ready >= FRAME_MIN.min(remaining) };
                if !is_due {
                    return Ok(moved);
                }
                let call = (!link.call_sent).then_some(self.call);
                link.call_sent = true;
                link.writable = true;
                let body = further(send.from, self.sent[index]);
                link.frame = Some(OutFrame::new(call, link.seq, body, ready.min(FRAME_MAX)));
            }
            let (Some(frame), true) = (&link.frame, link.writable) else { return Ok(moved) };
            let (before, len) = (link.bytes_out, frame.len);
            let pushed = link.push(self.memory.read(frame.body, len));
            moved |= link.bytes_out > before;
            match pushed {
                Ok(false) => return Ok(moved),
                Ok(true) => {
                    self.sent[index] += len;
                    if self.sent[index] == send.len {
                        self.sent_done[index] = true;
                        link.send_at += 1;
                        self.left -= 1;
                    }
                }
                Err(error) => return Err(self.broken(peer, error.kind())),
            }
        }
    }

    /// A send to a peer failed. The peer may have sent the reason.
    fn broken(&mut self, peer: usize, kind: io::ErrorKind) -> MeshError {
        if let Some(link) = &mut self.links[peer] {
            link.readable = true;
        }
        loop {
            match self.pump_in(peer) {
                Err(error) => return error,
                Ok(true) => {}
                Ok(false) => return MeshError::PeerLost { rank: peer as u16, why: Loss::Broken(kind) },
            }
        }
    }

    /// Uses what was received from one peer. Returns whether there was anything.
    fn pump_in(&mut self, peer: usize) -> Result<bool, MeshError> {
        let mut moved = false;
        let mut reads = 0;
        loop {
            match self.digest(peer)? {
                Progress::Moved => {
                    moved = true;
                    continue;
                }
                Progress::Stall => return Ok(moved),
                Progress::More => {}
            }
            let Some(link) = &mut self.links[peer] else { return Ok(false) };
            if let Some(kind) = link.closed
                && link.is_member
                && !link.is_done()
            {
                let why = match kind {
                    io::ErrorKind::UnexpectedEof => Loss::Closed,
                    kind => Loss::Broken(kind),
                };
                return Err(MeshError::PeerLost { rank: peer as u16, why });
            }
            if !link.readable || reads == READS_MAX {
                return Ok(moved);
            }
            reads += 1;
            moved |= matches!(self.take(peer)?, ReadOutcome::Bytes(_));
        }
    }

    /// Reads from one peer: straight to the destination if the bytes are stored as they are, otherwise into the staging buffer.
    fn take(&mut self, peer: usize) -> Result<ReadOutcome, MeshError> {
        let Some(link) = &self.links[peer] else { return Ok(ReadOutcome::Nothing) };
        let direct = if link.body_left > 0 && link.staged().is_empty() {
            let index = link.arrivals[link.arrival_at];
            let arrival = &self.plan.arrivals[index];
            let (open, _) = self.open(arrival.after, arrival.len);
            let len = link.body_left.min(open - self.arrived[index]);
            arrival.with.is_none().then_some((further(arrival.into, self.arrived[index]), len))
        } else {
            None
        };
        let Some(link) = &mut self.links[peer] else { return Ok(ReadOutcome::Nothing) };
        let Some((place, len)) = direct else { return Ok(link.fill()) };
        let got = link.read_into(self.memory.write(place, len));
        if let ReadOutcome::Bytes(len) = got {
            self.account(peer, len);
        }
        Ok(got)
    }

    /// Records that `len` bytes of the current frame have been used.
    fn account(&mut self, peer: usize, len: usize) {
        let Some(link) = &mut self.links[peer] else { return };
        let index = link.arrivals[link.arrival_at];
        link.body_left -= len;
        self.arrived[index] += len;
        if self.arrived[index] == self.plan.arrivals[index].len {
            self.arrived_done[index] = true;
            link.arrival_at += 1;
            self.left -= 1;
        }
    }

    /// Uses some of the bytes received from one peer.
    fn digest(&mut self, peer: usize) -> Result<Progress, MeshError> {
        let world = self.links.len();
        let Some(link) = &mut self.links[peer] else { return Ok(Progress::More) };
        if link.body_left > 0 {
            return self.digest_body(peer);
        }
        let Some(bytes) = link.head() else { return Ok(Progress::More) };
        let rank = peer as u16;
        let Some(head) = Head::from_bytes(bytes) else {
            return Err(MeshError::Protocol { rank, what: "no frame" });
        };
        if head.seq == link.seq.wrapping_add(1) {
            if link.is_member && !link.is_done() {
                return Err(MeshError::Protocol { rank, what: "the next operation before this one's end" });
            }
            // The next operation, or its failure: the current one may still succeed.
            link.stalled = true;
            return Ok(Progress::Stall);
        }
        if head.kind == Kind::Failure {
            let Some(body) = link.body::<FAILURE>() else { return Ok(Progress::More) };
            let failure = MeshFailure::from_bytes(body).filter(|failure| failure.is_among(world));
            let failure = failure.ok_or(MeshError::Protocol { rank, what: "no failure" })?;
            return Err(self.peer_failure(rank, failure));
        }
        if !link.is_member {
            link.stalled = true;
            return Ok(Progress::Stall);
        }
        if head.seq != link.seq {
            return Err(MeshError::Protocol { rank, what: "a frame of another operation" });
        }
        if head.kind == Kind::Call {
            let Some(body) = link.body::<{ CallSignature::LEN }>() else { return Ok(Progress::More) };
            let theirs =
                CallSignature::from_bytes(body).ok_or(MeshError::Protocol { rank, what: "no call" })?;
            if theirs != self.call {
                return Err(MeshError::Mismatch { rank, mine: self.call, theirs });
            }
            link.call_seen = true;
            link.consume(HEAD + CallSignature::LEN);
            return Ok(Progress::Moved);
        }
        self.begin_data(peer, head.len).map_err(|what| MeshError::Protocol { rank, what })
    }

    /// A data frame of `len` bytes begins: compared with what the plan expects next.
    fn begin_data(&mut self, peer: usize, len: usize) -> Result<Progress, &'static str> {
        let Some(link) = &self.links[peer] else { return Ok(Progress::More) };
        if !link.call_seen {
            return Err("data before the call");
        }
        let Some(&index) = link.arrivals.get(link.arrival_at) else { return Err("more data than planned") };
        let arrival = &self.plan.arrivals[index];
        if len > arrival.len - self.arrived[index] || (len == 0 && arrival.len > 0) {
            return Err("data of another length");
        }
        if arrival.with.is_some() && !len.is_multiple_of(self.call.dtype.size().max(1)) {
            return Err("a piece of an element");
        }
        let is_closed = len == 0 && !self.open(arrival.after, 0).1;
        let Some(link) = &mut self.links[peer] else { return Ok(Progress::More) };
        link.stalled = is_closed;
        if is_closed {
            return Ok(Progress::Stall);
        }
        link.consume(HEAD);
        link.body_left = len;
        if len == 0 {
            self.account(peer, 0);
        }
        Ok(Progress::Moved)
    }

    fn digest_body(&mut self, peer: usize) -> Result<Progress, MeshError> {
        let Some(link) = &self.links[peer] else { return Ok(Progress::More) };
        let index = link.arrivals[link.arrival_at];
        let arrival = self.plan.arrivals[index];
        let done = self.arrived[index];
        let (open, _) = self.open(arrival.after, arrival.len);
        let (at_hand, open) = (link.staged().len().min(link.body_left), open - done);
        let element = if arrival.with.is_some() { self.call.dtype.size().max(1) } else { 1 };
        let len = at_hand.min(open) / element * element;
        let Some(link) = &mut self.links[peer] else { return Ok(Progress::More) };
        if len == 0 {
            // Behind a closed gate no more is read than fits.
            link.stalled = open < element && (at_hand >= element || link.is_full() || open == 0);
            return Ok(if link.stalled { Progress::Stall } else { Progress::More });
        }
        link.stalled = false;
        let into = further(arrival.into, done);
        let incoming = &link.staged()[..len];
        match arrival.with {
            None => self.memory.write(into, len).copy_from_slice(incoming),
            Some(with) => {
                let how = (self.call.op, self.call.dtype);
                self.memory.fold(how, further(with, done), into, incoming)?;
                if arrival.last {
                    self.memory.finish(how, into, len, self.ranks)?;
                }
            }
        }
        link.consume(len);
        self.account(peer, len);
        Ok(Progress::Moved)
    }

    /// The error on this rank for another rank's failure.
    fn peer_failure(&self, by: u16, failure: MeshFailure) -> MeshError {
        match failure {
            MeshFailure::Mismatch { one, other } => {
                let differs = |(rank, call): &(u16, CallSignature)| *rank != self.rank && *call != self.call;
                match [one, other].into_iter().find(differs) {
                    Some((rank, theirs)) => MeshError::Mismatch { rank, mine: self.call, theirs },
                    None => MeshError::PeerLost { rank: by, why: Loss::GaveUp },
                }
            }
            MeshFailure::Lost { rank } | MeshFailure::GaveUp { rank } if rank == self.rank => {
                MeshError::PeerLost { rank: by, why: Loss::GaveUp }
            }
            MeshFailure::Lost { rank } if rank == by => MeshError::PeerLost { rank, why: Loss::GaveUp },
            MeshFailure::Lost { rank } => MeshError::PeerLost { rank, why: Loss::Reported { by } },
            MeshFailure::GaveUp { rank } => MeshError::PeerLost { rank, why: Loss::GaveUp },
        }
    }

    /// The peer that this rank waits for.
    fn awaited(&self) -> u16 {
        let links = || self.links.iter().enumerate().filter_map(|(peer, link)| Some((peer, link.as_ref()?)));
        let waits = links().find(|(_, link)| {
            link.arrivals.get(link.arrival_at).is_some_and(|index| {
                let arrival = &self.plan.arrivals[*index];
                let (open, end) = self.open(arrival.after, arrival.len);
                end || open > self.arrived[*index]
            })
        });
        let peer = waits.or_else(|| links().find(|(_, link)| link.send_at < link.sends.len()));
        peer.map_or(self.rank, |(peer, _)| peer as u16)
    }

    /// Sleeps until a link is ready, the call is aborted, or a timeout expires.
    fn wait(
        &mut self,
        limits: Limits,
        last_moved: Instant,
        now: Instant,
        abort: &AbortSignal,
    ) -> Result<(), MeshError> {
        if abort.is_aborted() {
            return Err(MeshError::Aborted);
        }
        if limits.deadline.is_some_and(|deadline| deadline <= now) {
            return Err(MeshError::Deadline { rank: self.awaited() });
        }
        let quiet = now.duration_since(last_moved);
        if quiet >= limits.stall {
            return Err(MeshError::PeerLost { rank: self.awaited(), why: Loss::Stalled(limits.stall) });
        }
        let mut sleep = limits.stall - quiet;
        if let Some(deadline) = limits.deadline {
            sleep = sleep.min(deadline - now);
        }
        let mut ready: Vec<(usize, PollFlags)> = Vec::with_capacity(self.links.len());
        {
            let mut fds = Vec::with_capacity(self.links.len() + 1);
            fds.push(PollFd::new(abort, PollFlags::IN));
            for (peer, link) in self.links.iter().enumerate() {
                let Some(link) = link else { continue };
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, link.closed.is_none() && !link.stalled);
                flags.set(PollFlags::OUT, link.frame.is_some() && !link.writable);
                if !flags.is_empty() {
                    fds.push(PollFd::new(&link.stream, flags));
                    ready.push((peer, PollFlags::empty()));
                }
            }
            let timeout =
                Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: i64::from(sleep.subsec_nanos()) };
            let spin_until = now + SPIN;
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            loop {
                let spinning = quiet < SPIN && Instant::now() < spin_until;
                match poll(&mut fds, Some(if spinning { &zero } else { &timeout })) {
                    Ok(0) if spinning => std::thread::yield_now(),
                    Ok(_) | Err(rustix::io::Errno::INTR) => break,
                    Err(error) => return Err(io::Error::from(error).into()),
                }
            }
            for (entry, fd) in ready.iter_mut().zip(&fds[1..]) {
                entry.1 = fd.revents();
            }
        }
        let over = PollFlags::HUP | PollFlags::ERR;
        for (peer, flags) in ready {
            let Some(link) = &mut self.links[peer] else { continue };
            link.readable |= flags.intersects(PollFlags::IN | over);
            link.writable |= flags.intersects(PollFlags::OUT | over);
        }
        Ok(())
    }

    /// Sends every peer the failure of this rank: finishes the frame under way, then sends the failure. What arrives meanwhile
    /// is dropped, so that two failing ranks never wait for each other.
    fn send_failure(&mut self, failure: MeshFailure) {
        let mut bytes = [0; HEAD + FAILURE];
        bytes[HEAD..].copy_from_slice(&failure.to_bytes());
        let mut progress: Vec<Option<usize>> =
            self.links.iter().map(|link| link.is_some().then_some(0)).collect();
        let mut until = Instant::now() + FAILURE_SEND_TIMEOUT;
        let mut all_sent = None;
        let mut discarded = vec![0; 64 * 1024];
        loop {
            for (peer, at) in progress.iter_mut().enumerate() {
                let (Some(link), Some(sent)) = (&mut self.links[peer], *at) else { continue };
                let pushed = match &link.frame {
                    Some(frame) => link.push(self.memory.read(frame.body, frame.len)),
                    None => Ok(true),
                };
                let head = Head { kind: Kind::Failure, seq: link.seq, len: FAILURE };
                bytes[..HEAD].copy_from_slice(&head.to_bytes());
                *at = match pushed {
                    Ok(true) => link.push_failure(&bytes, sent).filter(|sent| *sent < bytes.len()),
                    Ok(false) => Some(sent),
                    Err(_) => None,
                };
                if at.is_none() {
                    let _ = link.stream.shutdown(std::net::Shutdown::Write);
                }
            }
            let now = Instant::now();
            if progress.iter().all(Option::is_none) {
                until = until.min(*all_sent.get_or_insert(now) + FAILURE_DRAIN_TIMEOUT);
                if self.links.iter().flatten().all(|link| link.closed.is_some()) {
                    return;
                }
            }
            if now >= until {
                return;
            }
            self.wait_writable(&progress, &mut discarded, until - now);
        }
    }

    fn wait_writable(&mut self, progress: &[Option<usize>], discarded: &mut [u8], sleep: Duration) {
        let mut fds = Vec::with_capacity(self.links.len());
        for (link, at) in self.links.iter().zip(progress) {
            let Some(link) = link else { continue };
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::OUT, at.is_some());
            flags.set(PollFlags::IN, link.closed.is_none());
            if !flags.is_empty() {
                fds.push(PollFd::new(&link.stream, flags));
            }
        }
        let timeout = Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: i64::from(sleep.subsec_nanos()) };
        let _ = poll(&mut fds, Some(&timeout));
        drop(fds);
        for link in self.links.iter_mut().flatten() {
            link.writable = true;
            link.read_into(discarded);
        }
    }
}

/// How long a waiting rank polls before it sleeps: waking it takes longer than a small message.
const SPIN: Duration = Duration::from_micros(100);

/// The failure to send to the others for an error of this rank.
fn failure_of(error: &MeshError, rank: u16) -> MeshFailure {
    match error {
        MeshError::Mismatch { rank: other, mine, theirs } => {
            MeshFailure::Mismatch { one: (rank, *mine), other: (*other, *theirs) }
        }
        MeshError::PeerLost { rank, why: Loss::GaveUp } => MeshFailure::GaveUp { rank: *rank },
        MeshError::PeerLost { rank, .. }
        | MeshError::Protocol { rank, .. }
        | MeshError::Deadline { rank } => MeshFailure::Lost { rank: *rank },
        _ => MeshFailure::GaveUp { rank },
    }
}
