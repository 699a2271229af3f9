//! The engine thread: moves packets between the transport and the worker until the job is over.

mod driving;
mod iterations;
mod segmentation;
mod switchless;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::Error;
use crate::flight::FlightRecorder;
use crate::join::apply_dscp;
use crate::lower::SwitchOperation;
use crate::mailbox::{Command, Mailbox};
use crate::path::PathCell;
use crate::peers::Peers;
use crate::rejoin::StartRejoin;
use crate::report::{ControlCounters, Stats};
use crate::route::Route;
use crate::session::ControlConnection;
use crate::session_events::SessionEvents;
use crate::shutdown::ShutdownState;
use crate::streams::Streams;
use crate::transfer::INPUT_POLL_INTERVAL;
use crate::tree_set::CurrentControl;
use crate::worker_thread;
use netfold_control::RankEventKind;
use netfold_io::{Capabilities, PacketIo, Paused, PortId, RxBatch, Transmit};
use netfold_proto::{Instant, Liveness, LivenessMonitor};

pub(crate) use driving::SharedEngine;
use driving::{Drive as _, Exit};
use iterations::Iterations;
use segmentation::Segmentation;
use switchless::{Departure, IdleTimer};

/// The ECN bits that a long queue sets (RFC 3168 section 5).
const CE: u8 = 0b11;

/// Longest sleep when nothing is expected.
const IDLE_WAIT: Duration = Duration::from_secs(10);

/// How long operations may make no progress after a rank has left gracefully: long enough for lost results to be retransmitted, since
/// they may contain the rank's contribution.
const DEPARTURE_GRACE: Duration = Duration::from_secs(2);

/// Most datagrams packed before they are sent.
const BURST_MAX: usize = 64;

/// How often the engine publishes the counters for the control port while there is work, and once after it: twice in a heartbeat.
const POST_INTERVAL: Duration = Duration::from_millis(netfold_control::HEARTBEAT_MS / 2);

/// Consecutive turns that receive packets after which timers are handled all the same.
const BUSY_TURNS_MAX: u32 = 16;

/// Owns the transport and the streams. [`Engine::run`] is the thread.
pub(crate) struct Engine {
    io: Box<dyn PacketIo>,
    streams: Streams,
    mailbox: Arc<Mailbox<SwitchOperation>>,
    /// The control connection, which is aborted when the job fails here.
    control: Option<ControlConnection>,
    /// What the control session has received.
    events: SessionEvents,
    clock: Clock,
    rx: RxBatch,
    tx: TxBurst,
    inbox: Vec<SwitchOperation>,
    /// There is room again in the streams for operations that wait in the mailbox.
    backlog: bool,
    stop_when_idle: bool,
    /// Consecutive turns that received packets.
    busy_turns: u32,
    /// A rank that has left gracefully, since when there has been no progress, and the results counted then.
    departed: Option<(u16, Instant, u64)>,
    /// The other ranks, for failover when the switch is lost.
    peers: Option<Box<dyn Peers>>,
    path: PathCell,
    shutdown: ShutdownState,
    tree: EngineTree,
    /// Of the switch; without a control session there is none to lose.
    liveness: Option<LivenessMonitor>,
    segmentation: Segmentation,
    /// What is due is sent singly: a timer has expired, perhaps because batches are lost.
    send_singly: bool,
    /// When the engine last polled whether other ranks wait for this one.
    polled_at: Instant,
    /// When the engine publishes the counters for the control port again.
    post_at: Instant,
    /// An operation has finished since it published them.
    unposted: bool,
    /// What happened last, for a report if the job stalls.
    flight: FlightRecorder,
    /// When the job's iterations begin.
    iterations: Iterations,
    /// Counters of workers whose attachments are lost.
    earlier: Stats,
    /// What a caller that turned the engine failed of.
    failure: Option<Error>,
    /// How long it polls for packets before it sleeps.
    busy_poll: Duration,
    /// Since when it has polled in vain.
    polling_since: Option<Instant>,
    /// What neighbours ask not to be sent, as of the last turn.
    pause: Paused,
    /// Where it gives its slots back after an idle time.
    idle: Option<IdleTimer>,
    /// It has no attachment yet, and requests one for its first operation.
    begins_idle: bool,
}

/// What an engine shares with the rest of its communicator.
pub(crate) struct EngineContext {
    pub(crate) mailbox: Arc<Mailbox<SwitchOperation>>,
    /// The control connection, which is aborted when the job fails here.
    pub(crate) control: Option<ControlConnection>,
    /// What the control session has received.
    pub(crate) events: SessionEvents,
    /// The other ranks, for failover when the switch is lost.
    pub(crate) peers: Option<Box<dyn Peers>>,
    pub(crate) path: PathCell,
    pub(crate) shutdown: ShutdownState,
    pub(crate) tree: EngineTree,
    pub(crate) clock: Clock,
    /// How long to poll for packets before sleeping, while results are awaited.
    pub(crate) busy_poll: Duration,
    /// There is no attachment yet: one is requested for the first operation.
    pub(crate) begins_idle: bool,
}

/// The tree of switches that an engine serves.
pub(crate) struct EngineTree {
    pub(crate) index: u8,
    /// Which operations use it.
    pub(crate) route: Route,
    /// What to rejoin with when the attachment is lost.
    pub(crate) joiner: Option<Box<dyn StartRejoin>>,
    /// The grace period of the control session.
    pub(crate) grace: Duration,
    /// The control connection to leave at the end.
    pub(crate) last: CurrentControl,
    pub(crate) counters: ControlCounters,
}

/// Datagrams to send, contiguous in one buffer.
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

    fn commit(&mut self, len: usize, path: u8) {
        self.packets.push(Transmit { port: PortId(path.into()), offset: self.used as u32, len: len as u32 });
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
enum TurnOutcome {
    /// Something: turn again at once.
    Busy,
    /// Nothing: sleep first.
    Idle,
    /// To stop using the switch.
    Depart(Departure),
}

/// Why [`Engine::work`] returned.
enum WorkEnd {
    Departed(Departure),
    /// Callers may take the engine.
    Released,
}

impl Engine {
    /// Everything allocated. The transport must carry the streams' datagrams.
    pub(crate) fn new(io: Box<dyn PacketIo>, mut streams: Streams, ties: EngineContext) -> Self {
        let EngineContext { mailbox, control, events, peers, path, shutdown, tree, .. } = ties;
        let EngineContext { clock, busy_poll, begins_idle, .. } = ties;
        let liveness = control.is_some().then(LivenessMonitor::new);
        if peers.is_some() {
            streams.retain_results();
        }
        let capabilities = io.capabilities();
        let config = streams.config();
        let datagram_len_max = config.datagram_len_max();
        let burst = burst(&capabilities);
        // Each of several trees takes parts of operations, so none is idle by itself.
        let joiner = tree.joiner.as_ref().filter(|_| peers.is_some() && tree.route.is_single());
        let idle_timeout = joiner.and_then(|joiner| joiner.config().idle_timeout());
        let idle = idle_timeout.map(|timeout| IdleTimer::new(timeout, clock.now()));
        Self {
            rx: capabilities.batch(),
            tx: TxBurst::new(burst, datagram_len_max),
            inbox: Vec::with_capacity(config.ops_max),
            backlog: false,
            stop_when_idle: false,
            busy_turns: 0,
            departed: None,
            io,
            streams,
            mailbox,
            control,
            events,
            peers,
            path,
            shutdown,
            tree,
            liveness,
            segmentation: Segmentation::new(),
            send_singly: false,
            polled_at: clock.now(),
            clock,
            post_at: Instant::ZERO,
            unposted: false,
            flight: FlightRecorder::new(),
            iterations: Iterations::default(),
            earlier: Stats::default(),
            failure: None,
            busy_poll,
            pause: Paused::default(),
            polling_since: None,
            idle,
            begins_idle,
        }
    }

    /// Works until the job is over, then settles every tensor and ends the control session: on this thread alone.
    pub(crate) fn run(mut self) {
        let (mailbox, shutdown) = (Arc::clone(&self.mailbox), self.shutdown.clone());
        let control = self.control.clone();
        let abort = move || control.iter().for_each(ControlConnection::abort);
        let (error, queued) =
            worker_thread::run(&mailbox, &shutdown, abort, || match self.run_with_failover(None) {
                Exit::Ended(error) => error,
                Exit::Released => Error::EngineFailed,
            });
        self.end(&error, queued);
    }

    /// Settles every tensor and ends the control session, after an error that ended the job; `queued` operations were in the mailbox.
    fn end(&mut self, error: &Error, queued: usize) {
        let undone = queued + self.streams.len();
        if let Some(control) = &self.control {
            // A rank that closes with operations unfinished, or fails, is lost to the others. Every rank detects a mismatch in the
            // same chunk, so it needs no abort.
            match error {
                Error::Closed if undone == 0 => {}
                Error::Mismatch { .. } => {}
                _ => control.abort(),
            }
        }
        self.streams.fail(error);
    }

    /// Works until the job is over, the engine stops using the switch, or callers may take it.
    fn work(&mut self, shared: Option<&SharedEngine>) -> WorkEnd {
        if let Some(error) = self.failure.take() {
            return WorkEnd::Departed(Departure::Lost(error));
        }
        loop {
            let slept = match self.turn() {
                Ok(TurnOutcome::Busy) => Ok(()),
                Ok(TurnOutcome::Depart(departure)) => return WorkEnd::Departed(departure),
                Ok(TurnOutcome::Idle)
                    if self.is_idle()
                        && shared.is_some_and(|shared| shared.is_wanted(self.release_time())) =>
                {
                    return WorkEnd::Released;
                }
                Ok(TurnOutcome::Idle) => self.sleep(),
                Err(error) => Err(error),
            };
            if let Err(error) = slept {
                return WorkEnd::Departed(Departure::Lost(error));
            }
        }
    }

    /// Works until the job is over, with the switch and, while it is lost or not needed, without; or until callers may take the engine.
    fn run_with_failover(&mut self, shared: Option<&SharedEngine>) -> Exit {
        loop {
            let departure = if self.begins_idle { None } else { Some(self.work(shared)) };
            let departure = match departure {
                Some(WorkEnd::Released) => return Exit::Released,
                Some(WorkEnd::Departed(departure)) => Some(departure),
                None => None,
            };
            self.post_stats();
            let allowed = departure.as_ref().is_none_or(Departure::allows_failover);
            let Some(mut peers) = self.peers.take().filter(|_| allowed) else {
                return Exit::Ended(departure.map_or(Error::EngineFailed, Departure::into_error));
            };
            let resumed = match departure {
                Some(departure) => self.fail_over(&mut *peers, departure),
                None => self.begin_idle(&mut *peers),
            };
            self.begins_idle = false;
            match resumed {
                Ok(()) => self.peers = Some(peers),
                Err(error) => return Exit::Ended(error),
            }
        }
    }

    fn turn(&mut self) -> Result<TurnOutcome, Error> {
        if self.mailbox.take_notification() || self.backlog || self.iterations.is_waiting() {
            self.collect()?;
        }
        let received = self.io.receive(&mut self.rx)?;
        let now = self.clock.now();
        self.check_liveness(now, received > 0)?;
        if let Some(departure) = self.departure(now) {
            return Ok(TurnOutcome::Depart(departure));
        }
        if now >= self.post_at {
            let counters = self.streams.counters();
            self.events.post_counters(counters);
            if let Some(pattern) = self.iterations.pattern(now) {
                self.events.post_pattern(pattern);
            }
            if let Some(report) = self.streams.path_report() {
                self.events.post_paths(report);
            }
            if let Some(report) = self.flight.watch(now, &self.streams, &counters) {
                self.events.post_stall(report);
            }
            (self.post_at, self.unposted) = (now + POST_INTERVAL, false);
        }
        if received > 0 {
            self.polling_since = None;
        }
        self.busy_turns = if received > 0 { self.busy_turns + 1 } else { 0 };
        let paths = self.streams.path_count();
        for packet in self.rx.packets() {
            if let Some(path) = u8::try_from(packet.port.0).ok().filter(|path| *path < paths) {
                self.streams.handle_packet(now, path, self.rx.bytes(packet), packet.ecn == CE);
            }
        }
        // The transport may hold results that are not read yet, for example when this thread was not scheduled; a timer that expires
        // meanwhile proves nothing.
        let caught_up = self.busy_turns == 0 || self.busy_turns >= BUSY_TURNS_MAX;
        if caught_up && self.streams.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.streams.handle_timeout(now);
            self.busy_turns = 0;
            self.send_singly = true;
            self.update_segmentation();
        }
        let sent = self.transmit(now)?;
        self.events(now)?;
        self.check_departed()?;
        if self.stop_when_idle && self.streams.len() == 0 && !self.backlog && !self.iterations.is_waiting() {
            return Err(Error::Closed);
        }
        Ok(if received > 0 || sent { TurnOutcome::Busy } else { TurnOutcome::Idle })
    }

    /// Gives the switch up when it answers no packet.
    fn check_liveness(&mut self, now: Instant, received: bool) -> Result<(), Error> {
        if let Some(liveness) = &mut self.liveness {
            liveness.observe(now, received, self.streams.outstanding() > 0);
            match liveness.poll(now) {
                Liveness::Assumed => {}
                Liveness::ProbeDue => self.send_liveness_probe()?,
                Liveness::Lost => {
                    return Err(Error::switch_lost(format!(
                        "it answers no packet as long as the job's, {} bytes over UDP: if it runs, something on the way drops them",
                        self.streams.config().datagram_len_max()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Sends a packet that the switch answers if it is reachable, unless the transport pushes back.
    fn send_liveness_probe(&mut self) -> Result<(), Error> {
        if self.tx.flush(&mut *self.io)?
            && let Some(spare) = self.tx.spare()
            && let Some(len) = self.streams.write_liveness_probe(spare)
        {
            self.tx.commit(len, 0);
            // Singly, and not in a GSO packet with others.
            self.tx.flush(&mut *self.io)?;
        }
        Ok(())
    }

    /// Disables GSO where GSO packets are lost, and enables it otherwise.
    fn update_segmentation(&mut self) {
        let Some(allowed) = self.segmentation.update(self.streams.batch_stats()) else {
            return;
        };
        if !allowed && self.io.counters().gso_runs > 0 {
            log::warn!(
                "GSO packets (UDP_SEGMENT) are lost, so datagrams are sent singly: does a packet socket receive them behind a virtual \
                 interface? `ip link set IFACE gso_max_segs 1` on the senders' side costs less"
            );
        }
        self.io.set_segmentation(allowed);
    }

    /// Fails when a rank has left gracefully whose contribution is still needed.
    fn check_departed(&mut self) -> Result<(), Error> {
        let Some((rank, since, results)) = &mut self.departed else { return Ok(()) };
        let now = self.clock.now();
        if self.streams.outstanding() == 0 || self.streams.results() != *results {
            (*since, *results) = (now, self.streams.results());
        }
        if now - *since < DEPARTURE_GRACE {
            return Ok(());
        }
        Err(departed_error(*rank))
    }

    /// Takes operations and commands from the mailbox.
    fn collect(&mut self) -> Result<(), Error> {
        let now = self.clock.now();
        if let Some((age, hold)) = self.events.take_hold() {
            self.iterations.set_hold(now, age, hold);
        }
        if let Some(ports) = self.events.take_ports() {
            self.streams.use_ports(now, ports);
        }
        let pending = || !self.mailbox.is_empty();
        let room = match self.iterations.holds(now, self.streams.len() > 0, pending) {
            true => 0,
            false => self.streams.capacity(),
        };
        let order = self.mailbox.collect(room, &mut self.inbox, self.events.failure());
        let (band, session) = self.events.take_changes();
        if let Some(band) = band {
            self.streams.set_band(band);
            apply_dscp(&mut *self.io, &band);
        }
        if let Some(change) = session {
            self.flight.note(self.clock.now(), change, None);
        }
        // The rest waits until an operation finishes.
        self.backlog = false;
        if self.departed.is_none()
            && let Some(rank) = self.events.left()
        {
            self.departed = Some((rank, self.clock.now(), self.streams.results()));
        }
        match (order, self.departed) {
            (Command::Work, _) => {}
            (Command::StopWhenIdle, _) => self.stop_when_idle = true,
            // No new sum could complete since that rank left: ranks that were lost afterwards are its consequence.
            (Command::End(Error::PeerLost { .. }), Some((rank, ..))) => return Err(departed_error(rank)),
            (Command::End(error), _) => return Err(error),
        }
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.drain(..).for_each(|operation| self.submit(operation));
        // It keeps its memory.
        self.inbox = inbox;
        Ok(())
    }

    fn submit(&mut self, operation: SwitchOperation) {
        let (now, number) = (self.clock.now(), self.streams.next_number());
        if self.streams.len() == 0 {
            self.iterations.begin(now);
        }
        self.flight.note(now, RankEventKind::Submitted, Some(number));
        self.streams.submit(operation);
    }

    /// Packs and sends until nothing is due or the transport pushes back; whether anything was sent.
    ///
    /// After a timer has expired, all that is due is sent singly, and not one packet alone: where the batches of all ranks are lost, a slot is complete
    /// only when each of them has sent its packet for that slot singly.
    fn transmit(&mut self, now: Instant) -> Result<bool, Error> {
        let mut sent = false;
        self.pause = self.io.paused();
        self.streams.set_paused(self.pause);
        if let Some(spare) = self.tx.spare()
            && let Some((len, path)) = self.streams.poll_path_probe(now, spare)
        {
            self.tx.commit(len, path);
        }
        loop {
            while let Some(spare) = self.tx.spare() {
                let Some((len, path)) = self.streams.poll_transmit(now, spare) else { break };
                self.tx.commit(len, path);
                if self.send_singly {
                    self.streams.end_batch();
                }
            }
            if self.tx.packets.is_empty() {
                self.send_singly = false;
                return Ok(sent);
            }
            let before = self.tx.taken;
            let all = self.flush()?;
            sent |= all || self.tx.taken > before;
            if !all {
                return Ok(sent);
            }
        }
    }

    /// Offers what is packed to the transport; whether all was taken.
    fn flush(&mut self) -> Result<bool, Error> {
        if !self.send_singly || !self.segmentation.is_allowed() {
            return self.tx.flush(&mut *self.io);
        }
        self.io.set_segmentation(false);
        let all = self.tx.flush(&mut *self.io);
        self.io.set_segmentation(true);
        all
    }

    fn events(&mut self, now: Instant) -> Result<(), Error> {
        while let Some(done) = self.streams.poll_done()? {
            self.post_stats();
            self.update_segmentation();
            let number = self.streams.finish(done);
            self.flight.note(now, RankEventKind::Finished, number);
            self.unposted = true;
            self.backlog = true; // there is capacity now; one check of the mailbox for each operation
            if self.streams.len() == 0 {
                self.iterations.end(now, self.streams.counters().bytes_sent);
            }
        }
        Ok(())
    }

    fn sleep(&mut self) -> Result<(), Error> {
        if self.backlog {
            return Ok(());
        }
        let now = self.clock.now();
        let timeout = self.streams.next_deadline().map_or(IDLE_WAIT, |deadline| deadline - now);
        let timeout = if self.unposted { timeout.min(self.post_at - now) } else { timeout };
        let paused = self.pause.priorities != 0 && self.streams.len() > 0;
        let timeout = if paused { timeout.min(self.pause.left) } else { timeout };
        // While the transport pushes back no probe is sent.
        let probe = self.streams.next_path_probe_at().filter(|_| self.tx.packets.is_empty());
        let timeout = probe.map_or(timeout, |at| timeout.min(at - now));
        let awaiting = self.departed.is_some() && self.streams.outstanding() > 0;
        let longest = if awaiting
            || self.peers.is_some()
            || self.liveness.as_ref().is_some_and(LivenessMonitor::is_waiting)
        {
            DEPARTURE_GRACE / 8
        } else {
            IDLE_WAIT
        };
        let timeout = if self.streams.awaits_input() { timeout.min(INPUT_POLL_INTERVAL) } else { timeout };
        let held = self.iterations.wait_left(now);
        let timeout = held.map_or(timeout, |left| timeout.min(left));
        let idle = self.idle.filter(|_| self.streams.len() == 0).map(|timer| timer.left(now));
        let timeout = idle.map_or(timeout, |left| timeout.min(left));
        if !timeout.is_zero() && !self.polls_on(now) {
            self.io.wait(timeout.min(longest))?;
        }
        Ok(())
    }

    /// Whether it polls for results again rather than sleeping: for a bounded time. Threads that wait for this core come first.
    fn polls_on(&mut self, now: Instant) -> bool {
        if self.busy_poll.is_zero() || self.streams.outstanding() == 0 {
            return false;
        }
        let since = *self.polling_since.get_or_insert(now);
        if now - since >= self.busy_poll {
            return false;
        }
        std::thread::yield_now();
        true
    }

    fn post_stats(&self) {
        let mut stats = Stats { worker: self.streams.stats(), io: self.io.counters(), ..Stats::default() };
        stats.add(&self.earlier);
        self.mailbox.post(stats);
    }
}

/// Datagrams packed before they are sent.
fn burst(capabilities: &Capabilities) -> usize {
    capabilities.burst_max.clamp(1, BURST_MAX)
}

/// The error of operations that need the contribution of a rank that has left gracefully.
fn departed_error(rank: u16) -> Error {
    let message = "it left the job before this operation; have all ranks do the same operations".into();
    Error::PeerLost { rank, message }
}
