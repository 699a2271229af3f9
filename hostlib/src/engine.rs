//! The engine thread: moves packets between the transport and the worker until the job is over.

mod alone;
mod segmentation;
mod silence;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::carry_on::{self, Peers};
use crate::error::Error;
use crate::fate::Fate;
use crate::grove::LastLine;
use crate::join::Joiner;
use crate::mailbox::{Command, Mailbox};
use crate::news::News;
use crate::path::PathBoard;
use crate::report::{ControlCounters, Stats};
use crate::route::Route;
use crate::session::Line;
use crate::streams::Streams;
use crate::tensors::Submission;
use netfold_control::Band;
use netfold_io::{Capabilities, IoError, PacketIo, PortId, RxBatch, Transmit};

use segmentation::Segmentation;
use silence::Silence;

/// The port of a worker's only peer, the switch.
const SWITCH: PortId = PortId(0);

/// The ECN bits that a long queue sets (RFC 3168 section 5).
const CE: u8 = 0b11;

/// Longest sleep when nothing is expected.
const IDLE_WAIT: Duration = Duration::from_secs(10);

/// How long operations may make no progress after a rank has left in peace: long enough for results that are lost to be sent
/// again, since the rank may have had its share in them.
const DEPARTURE_GRACE: Duration = Duration::from_secs(2);

/// Most datagrams packed before they are sent.
const BURST_MAX: usize = 64;

/// How often it is looked whether other ranks go on without the switch.
const LOOK: Duration = Duration::from_millis(50);

/// Bursts read in a row before timers are looked at all the same.
const UNREAD_MAX: u32 = 16;

/// Owns the transport and the streams. [`Engine::run`] is the thread.
pub(crate) struct Engine {
    io: Box<dyn PacketIo>,
    streams: Streams,
    mailbox: Arc<Mailbox<Submission>>,
    /// The control session, told when the job ends here.
    line: Option<Line>,
    /// What it has heard.
    news: News,
    clock: Clock,
    rx: RxBatch,
    tx: TxBurst,
    inbox: Vec<Submission>,
    /// There is room again in the streams for operations that wait in the mailbox.
    backlog: bool,
    stop_when_idle: bool,
    /// Turns in a row that found something to read.
    unread: u32,
    /// A rank that has left in peace, since when nothing has moved, and how many results there were.
    departed: Option<(u16, Instant, u64)>,
    /// The way to the other ranks that remains when the switch is lost.
    peers: Option<Box<dyn Peers>>,
    board: PathBoard,
    fate: Fate,
    tree: Tree,
    silence: Silence,
    segmentation: Segmentation,
    /// The next packet goes alone: a timer has expired, perhaps because what goes together gets lost.
    alone: bool,
    /// When it was last looked whether other ranks call.
    looked: Instant,
    /// What workers at places that are lost had counted.
    earlier: Stats,
}

/// What an engine shares with the rest of its communicator.
pub(crate) struct Ties {
    pub(crate) mailbox: Arc<Mailbox<Submission>>,
    /// The control session, told when the job ends here.
    pub(crate) line: Option<Line>,
    /// What it has heard.
    pub(crate) news: News,
    /// The way to the other ranks that remains when the switch is lost.
    pub(crate) peers: Option<Box<dyn Peers>>,
    pub(crate) board: PathBoard,
    pub(crate) fate: Fate,
    pub(crate) tree: Tree,
}

/// The tree of switches that an engine serves.
pub(crate) struct Tree {
    pub(crate) index: u8,
    /// Which operations go over it.
    pub(crate) route: Route,
    /// What to join again with, when its place is lost.
    pub(crate) joiner: Option<Joiner>,
    /// How long the control session may be away.
    pub(crate) grace: Duration,
    /// The control session that is to be left at the end.
    pub(crate) last: LastLine,
    pub(crate) counters: ControlCounters,
}

/// Time as the worker wants it: nanoseconds since the engine was made.
#[derive(Debug)]
struct Clock(Instant);

impl Clock {
    fn now(&self) -> netfold_proto::Instant {
        netfold_proto::Instant::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
}

/// Datagrams on their way to the transport, one behind the other in one memory.
#[derive(Debug)]
struct TxBurst {
    memory: Vec<u8>,
    used: usize,
    packets: Vec<Transmit>,
    /// How many of them the transport has taken.
    taken: usize,
    packets_max: usize,
    datagram_len_max: usize,
}

impl TxBurst {
    fn new(packets_max: usize, datagram_len_max: usize) -> Self {
        Self {
            memory: vec![0; packets_max * datagram_len_max],
            used: 0,
            packets: Vec::with_capacity(packets_max),
            taken: 0,
            packets_max,
            datagram_len_max,
        }
    }

    /// Room for one more datagram of any length.
    fn spare(&mut self) -> Option<&mut [u8]> {
        if self.packets.len() == self.packets_max {
            return None;
        }
        Some(&mut self.memory[self.used..][..self.datagram_len_max])
    }

    fn commit(&mut self, len: usize) {
        self.packets.push(Transmit { port: SWITCH, offset: self.used as u32, len: len as u32 });
        self.used += len;
    }

    /// Offers what is left to the transport; whether all was taken.
    fn flush(&mut self, io: &mut dyn PacketIo) -> Result<bool, Error> {
        if self.taken < self.packets.len() {
            self.taken += io.transmit(&self.memory, &self.packets[self.taken..])?;
        }
        let all = self.taken >= self.packets.len();
        if all {
            self.packets.clear();
            self.used = 0;
            self.taken = 0;
        }
        Ok(all)
    }
}

/// What a turn of the loop found to do.
enum Turn {
    /// Something: turn again at once.
    Busy,
    /// Nothing: sleep first.
    Idle,
}

impl Engine {
    /// Everything allocated. The transport must carry the streams' datagrams.
    pub(crate) fn new(io: Box<dyn PacketIo>, mut streams: Streams, ties: Ties) -> Self {
        let Ties { mailbox, line, news, peers, board, fate, tree } = ties;
        let silence = Silence::new(line.is_some().then(|| &streams.config().admission));
        if peers.is_some() {
            streams.keep_tails();
        }
        let capabilities = io.capabilities();
        let config = streams.config();
        let datagram_len_max = config.datagram_len_max();
        let burst = burst(&capabilities);
        Self {
            rx: capabilities.batch(),
            tx: TxBurst::new(burst, datagram_len_max),
            inbox: Vec::with_capacity(config.ops_max),
            clock: Clock(Instant::now()),
            backlog: false,
            stop_when_idle: false,
            unread: 0,
            departed: None,
            io,
            streams,
            mailbox,
            line,
            news,
            peers,
            board,
            fate,
            tree,
            silence,
            segmentation: Segmentation::new(),
            alone: false,
            looked: Instant::now(),
            earlier: Stats::default(),
        }
    }

    /// Works until the job is over, then gives every tensor back and tells the control session.
    pub(crate) fn run(mut self) {
        /// Ends the job also when the engine panics; the tensors settle themselves when they are dropped.
        struct EndOnPanic(Arc<Mailbox<Submission>>, Option<Line>);
        impl Drop for EndOnPanic {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.end(Error::EngineFailed);
                    self.1.iter().for_each(Line::hang_up);
                }
            }
        }
        let _end = EndOnPanic(Arc::clone(&self.mailbox), self.line.clone());
        let mut error = self.work_on();
        if !matches!(error, Error::Closed) {
            error = self.fate.end(error);
        }
        let undone = self.mailbox.end(error.clone()) + self.streams.len();
        if let Some(line) = &self.line {
            // Whoever closes with work undone, or met any error of its own, is lost to the others. A mismatch is seen by
            // every rank in the same chunk, so nobody needs to be told.
            match error {
                Error::Closed if undone == 0 => {}
                Error::Mismatch { .. } => {}
                _ => line.hang_up(),
            }
        }
        self.streams.fail(&error);
    }

    /// Works until the job is over, or the switch is lost.
    fn work(&mut self) -> Error {
        loop {
            match self.turn().and_then(|turn| match turn {
                Turn::Busy => Ok(()),
                Turn::Idle => self.sleep(),
            }) {
                Ok(()) => {}
                Err(error) => return error,
            }
        }
    }

    /// Works until the job is over, with the switch and, while that is lost, without.
    fn work_on(&mut self) -> Error {
        loop {
            let error = self.work();
            self.post_stats();
            let Some(mut peers) = self.peers.take().filter(|_| carry_on::spares_the_ranks(&error)) else {
                return error;
            };
            match self.without_the_switch(&mut *peers, error) {
                Ok(()) => self.peers = Some(peers),
                Err(error) => return error,
            }
        }
    }

    fn turn(&mut self) -> Result<Turn, Error> {
        if self.mailbox.has_news() || self.backlog {
            self.collect()?;
        }
        let received = self.io.receive(&mut self.rx)?;
        let now = self.clock.now();
        self.silence.note(received > 0, self.streams.outstanding() > 0);
        self.look_around()?;
        self.unread = if received > 0 { self.unread + 1 } else { 0 };
        for packet in self.rx.packets() {
            if packet.port == SWITCH {
                self.streams.handle_packet(now, self.rx.bytes(packet), packet.ecn == CE);
            }
        }
        // Results may lie unread in the transport, above all after this thread has not run for a while; a timer that expires
        // meanwhile proves nothing.
        let caught_up = self.unread == 0 || self.unread >= UNREAD_MAX;
        if caught_up && self.streams.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.streams.handle_timeout(now);
            self.unread = 0;
            self.alone = true;
            self.allow_runs();
        }
        let sent = self.transmit(now)?;
        self.events()?;
        self.miss_departed()?;
        if self.stop_when_idle && self.streams.len() == 0 && !self.backlog {
            return Err(Error::Closed);
        }
        Ok(if received > 0 || sent { Turn::Busy } else { Turn::Idle })
    }

    /// Gives the switch up when other ranks have, or when it answers nothing.
    fn look_around(&mut self) -> Result<(), Error> {
        if let Some(question) = self.silence.question()?
            && self.tx.flush(&mut *self.io)?
            && let Some(spare) = self.tx.spare()
        {
            let len = question.write(self.streams.band().first(), spare);
            self.tx.commit(len);
            // Alone, and not in a run with others.
            self.tx.flush(&mut *self.io)?;
        }
        if let Some(peers) = &self.peers
            && self.looked.elapsed() >= LOOK
        {
            self.looked = Instant::now();
            if peers.are_calling() {
                return Err(Error::switch_lost("another rank goes on without it"));
            }
        }
        Ok(())
    }

    /// Has datagrams go one by one where runs of them get lost, and in runs otherwise.
    fn allow_runs(&mut self) {
        let Some(allowed) = self.segmentation.look(self.streams.tally()) else {
            return;
        };
        if !allowed && self.io.counters().gso_runs > 0 {
            log::warn!(
                "packets that go in runs for the kernel to cut (UDP_SEGMENT) get lost, so they go one by one: does a packet socket receive \
                 them behind a virtual interface? `ip link set IFACE gso_max_segs 1` on the senders' side costs less"
            );
        }
        self.io.set_segmentation(allowed);
    }

    /// Gives up when a rank has left in peace whose share is still needed.
    fn miss_departed(&mut self) -> Result<(), Error> {
        let Some((rank, since, results)) = &mut self.departed else { return Ok(()) };
        if self.streams.outstanding() == 0 || self.streams.results() != *results {
            (*since, *results) = (Instant::now(), self.streams.results());
        }
        if since.elapsed() < DEPARTURE_GRACE {
            return Ok(());
        }
        Err(missed(*rank))
    }

    /// Takes operations and orders out of the mailbox.
    fn collect(&mut self) -> Result<(), Error> {
        let order = self.mailbox.collect(self.streams.room(), &mut self.inbox, self.news.verdict());
        if let Some(band) = self.news.take_band() {
            self.streams.set_band(band);
            say_dscp(&mut *self.io, &band);
        }
        // What is left waits for room, and room comes with a finished operation.
        self.backlog = false;
        if self.departed.is_none()
            && let Some(rank) = self.news.departed()
        {
            self.departed = Some((rank, Instant::now(), self.streams.results()));
        }
        match (order, self.departed) {
            (Command::Work, _) => {}
            (Command::StopWhenIdle, _) => self.stop_when_idle = true,
            // Nothing new could be summed since that rank left: whoever went afterwards went because of it.
            (Command::End(Error::PeerLost { .. }), Some((rank, ..))) => return Err(missed(rank)),
            (Command::End(error), _) => return Err(error),
        }
        for submission in self.inbox.drain(..) {
            self.streams.submit(submission);
        }
        Ok(())
    }

    /// Packs and sends until nothing is due or the transport pushes back; whether anything was sent.
    fn transmit(&mut self, now: netfold_proto::Instant) -> Result<bool, Error> {
        let mut sent = false;
        loop {
            let alone = std::mem::take(&mut self.alone);
            let most = if alone { 1 } else { usize::MAX };
            while self.tx.packets.len() < most
                && let Some(spare) = self.tx.spare()
            {
                let Some(len) = self.streams.poll_transmit(now, spare) else { break };
                self.tx.commit(len);
            }
            if self.tx.packets.is_empty() {
                return Ok(sent);
            }
            let before = self.tx.taken;
            let all = self.tx.flush(&mut *self.io)?;
            sent |= all || self.tx.taken > before;
            if !all {
                return Ok(sent);
            }
            if alone {
                self.streams.part();
            }
        }
    }

    fn events(&mut self) -> Result<(), Error> {
        while let Some(done) = self.streams.poll_done()? {
            self.post_stats();
            self.allow_runs();
            self.streams.finish(done);
            self.backlog = true; // there is room now; one look at the mailbox an operation
        }
        Ok(())
    }

    fn sleep(&mut self) -> Result<(), Error> {
        if self.backlog {
            return Ok(());
        }
        let timeout = self.streams.next_deadline().map_or(IDLE_WAIT, |deadline| deadline - self.clock.now());
        let watched = self.departed.is_some() && self.streams.outstanding() > 0;
        let longest = if watched || self.peers.is_some() || self.silence.is_watched() {
            DEPARTURE_GRACE / 8
        } else {
            IDLE_WAIT
        };
        if !timeout.is_zero() {
            self.io.wait(timeout.min(longest))?;
        }
        Ok(())
    }

    fn post_stats(&self) {
        self.mailbox.post(Stats { worker: self.streams.stats(), io: self.io.counters(), ..Stats::default() });
    }
}

/// Has IP headers say what the classes of a job's packets are to equipment that sees nothing else. Best effort: queues without it are
/// those of a job that has no band.
pub(crate) fn say_dscp(io: &mut dyn PacketIo, band: &Band) {
    match io.set_dscp(band.dscp()) {
        Ok(()) => {}
        // Rings in memory have no IP header.
        Err(IoError::Unsupported(_)) => {}
        Err(error) => log::warn!("packets have no DSCP: {error}"),
    }
}

/// Datagrams packed before they are sent.
fn burst(capabilities: &Capabilities) -> usize {
    capabilities.burst_max.clamp(1, BURST_MAX)
}

/// The error of operations that want the share of a rank that has left in peace.
fn missed(rank: u16) -> Error {
    let message = "it left the job before this operation; have all ranks do the same operations".into();
    Error::PeerLost { rank, message }
}
