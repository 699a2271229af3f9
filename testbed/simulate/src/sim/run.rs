//! The event loop: plays a scenario against a switch and asserts every invariant.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use netfold_control::{Admission, Numerics};
use netfold_proto::{AbortReason, Handled, Instant, OpId, Worker, WorkerConfig, WorkerEvent};
use netfold_wire::{Kind, Packet, header};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::intruder;
use super::network::Delivery;
use super::referee::Referee;
use super::scenario::{Scenario, Straggler};
use super::switch::{JobSetup, SimSwitch};
use super::tensors::{OpPlan, Tensors};

/// Events of one simulation, at most: what a livelock would exceed.
const EVENTS_MAX: u64 = 20_000_000;

/// How long after a crash's last consequence a worker may give up: a few timeouts on top of the stall.
const CRASH_SLACK: Duration = Duration::from_secs(8);

/// What a simulation came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Virtual time at the end.
    pub elapsed: Duration,
    /// Events played.
    pub events: u64,
    /// Datagrams that ranks sent.
    pub sent: u64,
    /// Of those, resends.
    pub retransmitted: u64,
    /// Results that ranks took.
    pub results: u64,
    /// Of those, results whose sum had saturated.
    pub saturated: u64,
    /// Data chunks that ranks delivered by predicted exponents.
    pub predicted: u64,
    /// Results of chunks that were repeated because some rank did not predict the exponent.
    pub mispredicted: u64,
    /// Of those, results that lack contributions.
    pub partial: u64,
    /// Of those, results that lack that of the rank that took them.
    pub left_out: u64,
    /// Datagrams that ranks ignored.
    pub ignored: u64,
    /// Of those that lack contributions, results of slots that were closed.
    pub closed: u64,
    /// Forged packets slipped in.
    pub forged: u64,
    /// Liveness probes that a switch answered.
    pub probes_answered: u64,
    /// Ranks that gave up, with a typed reason.
    pub aborted: u64,
}

/// Plays a scenario of one switch to its end.
///
/// # Panics
///
/// When an invariant is broken. The message does not name the seed: the caller has it.
pub fn run(scenario: Scenario, switch: &mut dyn SimSwitch) -> Report {
    run_tree(scenario, &mut [switch])
}

/// Plays a scenario to its end; switch `i` is number `i` of its shape and knows `scenario.jobs()[i]`.
///
/// # Panics
///
/// When an invariant is broken, or there are fewer switches than the shape has.
pub fn run_tree(mut scenario: Scenario, switches: &mut [&mut dyn SimSwitch]) -> Report {
    let plans = Rc::new(std::mem::take(&mut scenario.plans));
    let mut simulation = Simulation::new(&scenario, switches, plans);
    simulation.play();
    simulation.judge()
}

struct Rank {
    worker: Worker,
    tensors: Tensors,
    alive: bool,
    done: usize,
    aborted: Option<(Duration, AbortReason)>,
    /// The worker's next deadline as of its last call.
    deadline: Option<Instant>,
}

/// Something that will happen.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SimEvent {
    Submit(u16),
    Crash(u16),
    NotifyCrash(u16),
    SendLivenessProbe(u16),
    Intrude,
    /// Switch, port, packet.
    AtSwitch(usize, u16, Rc<[u8]>),
    /// The same of a liveness probe.
    ProbeAtSwitch(usize, u16, Rc<[u8]>),
    AtRank(u16, Rc<[u8]>),
}

/// What is at the other end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Rank(u16),
    /// A switch, at its port.
    Switch(usize, u16),
}

struct Simulation<'s, 'd> {
    scenario: &'s Scenario,
    plans: Rc<Vec<OpPlan>>,
    switches: &'s mut [&'d mut dyn SimSwitch],
    jobs: Vec<[JobSetup; 2]>,
    /// For each switch, what is at each port of the job.
    ends: Vec<Vec<End>>,
    /// For each rank, its switch and the port there.
    seats: Vec<(usize, u16)>,
    rng: Xoshiro256PlusPlus,
    /// Of liveness probes, so that they delay no other packet.
    probe_rng: Xoshiro256PlusPlus,
    now: Duration,
    ranks: Vec<Rank>,
    referee: Referee,
    /// By time, ties in order of creation.
    event_queue: BinaryHeap<Reverse<(Duration, u64, SimEvent)>>,
    serial: u64,
    /// A packet that last reached a switch, with switch and port, and a RESULT that was taken, for the intruder.
    seen_up: Option<(usize, u16, Rc<[u8]>)>,
    seen_down: Option<(u16, Rc<[u8]>)>,
    out: Vec<(u16, Vec<u8>)>,
    buffer: Vec<u8>,
    /// Until when the straggler's chunks are held back.
    held_until: HashMap<u32, Duration>,
    report: Report,
}

impl<'s, 'd> Simulation<'s, 'd> {
    fn new(
        scenario: &'s Scenario,
        switches: &'s mut [&'d mut dyn SimSwitch],
        plans: Rc<Vec<OpPlan>>,
    ) -> Self {
        let (job, jobs) = (&scenario.job, scenario.jobs());
        let (ends, seats) = wiring(scenario);
        let admission = admission(scenario);
        let rank = |rank: u16| {
            let [own, _] = &jobs[seats[usize::from(rank)].0];
            let (congestion, share) = (scenario.congestion(rank), 1 << seats[usize::from(rank)].1);
            let admission = Admission { bitmap: own.full(), own_bit: share, congestion, ..admission.clone() };
            let mut config = WorkerConfig::new(admission, rank, scenario.world);
            config.stall_timeout = scenario.stall_timeout;
            config.numerics = scenario.numerics;
            config.predict = scenario.predict;
            Rank {
                worker: Worker::starting_at(scenario.start, config)
                    .expect("scenarios are generated within bounds"),
                tensors: Tensors::new(usize::from(rank), scenario.lane_words as usize, Rc::clone(&plans)),
                alive: true,
                done: 0,
                aborted: None,
                deadline: None,
            }
        };
        let positions: u64 = plans.iter().map(|plan| plan.positions(job.slots)).sum();
        // Chunk numbers: where sums saturate or exponents are predicted, a slot makes two steps for some of its positions.
        let numbers = match scenario.numerics == Numerics::Saturating || scenario.predict {
            true => 2 * (positions + u64::from(job.slots)),
            false => positions,
        };
        Self {
            ranks: (0..scenario.world).map(rank).collect(),
            referee: Referee::new(
                jobs.iter().map(|[job, _]| job.clone()).collect(),
                numbers,
                plans.iter().any(OpPlan::may_lack_contributions),
            ),
            plans,
            scenario,
            switches,
            jobs,
            ends,
            seats,
            rng: Xoshiro256PlusPlus::seed_from_u64(!scenario.seed),
            probe_rng: Xoshiro256PlusPlus::seed_from_u64(scenario.seed.rotate_left(32)),
            now: Duration::ZERO,
            event_queue: BinaryHeap::new(),
            serial: 0,
            seen_up: None,
            seen_down: None,
            out: Vec::new(),
            buffer: vec![0; header::LEN + 4 * scenario.lane_words as usize],
            held_until: HashMap::new(),
            report: Report::default(),
        }
    }

    fn plan(&mut self, at: Duration, what: SimEvent) {
        self.serial += 1;
        self.event_queue.push(Reverse((at, self.serial, what)));
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now.as_nanos() as u64)
    }

    fn play(&mut self) {
        for (rank, times) in self.scenario.submissions.iter().enumerate() {
            times.iter().for_each(|at| self.plan(*at, SimEvent::Submit(rank as u16)));
        }
        if let Some(crash) = self.scenario.crash {
            self.plan(crash.at, SimEvent::Crash(crash.rank));
            if let Some(later) = crash.told_after {
                self.plan(crash.at + later, SimEvent::NotifyCrash(crash.rank));
            }
        }
        for _ in 0..self.scenario.intrusions {
            let at = Duration::from_micros(self.rng.random_range(0..30_000));
            self.plan(at, SimEvent::Intrude);
        }
        for rank in 0..self.scenario.world {
            for _ in 0..self.scenario.liveness_probes {
                let at = Duration::from_micros(self.probe_rng.random_range(0..30_000));
                self.plan(at, SimEvent::SendLivenessProbe(rank));
            }
        }
        while self.step() {
            self.report.events += 1;
            assert!(self.report.events < EVENTS_MAX, "livelock: {:?}", self.report);
        }
    }

    /// Plays the next event, a worker's deadline or something on the agenda; false when there is none.
    fn step(&mut self) -> bool {
        let live = self.ranks.iter().enumerate().filter(|(_, rank)| rank.alive);
        let deadlines = live.filter_map(|(index, rank)| Some((rank.deadline?, index)));
        let deadline = deadlines.min().map(|(at, index)| (Duration::from_nanos(at.as_nanos()), index));
        let next = self.event_queue.peek().map(|Reverse((at, ..))| *at);
        match (deadline, next) {
            (Some((at, index)), next) if next.is_none_or(|next| at < next) => {
                self.now = self.now.max(at);
                let now = self.instant();
                self.ranks[index].worker.handle_timeout(now);
                self.poll(index as u16);
            }
            (_, Some(_)) => {
                if let Some(Reverse((at, _, what))) = self.event_queue.pop() {
                    self.now = self.now.max(at);
                    self.handle_event(what);
                }
            }
            (_, None) => return false,
        }
        true
    }

    fn handle_event(&mut self, what: SimEvent) {
        match what {
            SimEvent::Submit(rank) => {
                let Rank { worker, alive, aborted, .. } = &mut self.ranks[usize::from(rank)];
                if *alive && aborted.is_none() {
                    let op = worker.submit(self.plans[submitted(worker)].spec);
                    op.expect("scenarios stay within the queue");
                    self.poll(rank);
                }
            }
            SimEvent::Crash(rank) => {
                self.ranks[usize::from(rank)].alive = false;
                self.referee.died(rank);
            }
            SimEvent::NotifyCrash(crashed) => {
                for rank in 0..self.scenario.world {
                    if self.ranks[usize::from(rank)].alive && !self.is_done(usize::from(rank)) {
                        self.ranks[usize::from(rank)].worker.abort(AbortReason::PeerLost { rank: crashed });
                        self.poll(rank);
                    }
                }
            }
            SimEvent::SendLivenessProbe(rank) => self.send_liveness_probe(rank),
            SimEvent::ProbeAtSwitch(switch, port, bytes) => {
                self.liveness_probe_at_switch(switch, port, &bytes)
            }
            SimEvent::Intrude => self.intrude(),
            SimEvent::AtSwitch(switch, port, bytes) => self.at_switch(switch, port, bytes),
            SimEvent::AtRank(rank, bytes) => self.at_rank(rank, bytes),
        }
    }

    fn at_switch(&mut self, switch: usize, port: u16, bytes: Rc<[u8]>) {
        self.referee.arrives(&bytes);
        let mut out = std::mem::take(&mut self.out);
        self.switches[switch].process(port, &bytes, &mut out);
        self.seen_up = Some((switch, port, bytes));
        for (to, bytes) in out.drain(..) {
            self.referee.leaves(switch, &bytes);
            self.send(switch, to, bytes);
        }
        self.out = out;
    }

    fn at_rank(&mut self, rank: u16, bytes: Rc<[u8]>) {
        let index = usize::from(rank);
        if !self.ranks[index].alive {
            return;
        }
        let now = self.instant();
        let Rank { worker, tensors, .. } = &mut self.ranks[index];
        match worker.handle_packet(now, &bytes, tensors) {
            Handled::Result => {
                self.referee.took(index, Packet::new_unchecked(&bytes[..]).chunk());
                self.seen_down = Some((rank, bytes));
            }
            Handled::Aborted => {}
            _ => self.report.ignored += 1,
        }
        self.poll(rank);
    }

    /// Any rank that awaits results may doubt that the switch is reachable.
    fn send_liveness_probe(&mut self, rank: u16) {
        let index = usize::from(rank);
        let Rank { worker, alive: true, aborted: None, .. } = &self.ranks[index] else { return };
        let Some(len) = worker.write_liveness_probe(0, &mut self.buffer) else { return };
        let bytes: Rc<[u8]> = self.buffer[..len].into();
        let delivery = self.scenario.up.decide(&mut self.probe_rng);
        let (switch, port) = self.seats[index];
        self.travel(delivery, || SimEvent::ProbeAtSwitch(switch, port, Rc::clone(&bytes)));
    }

    /// **Liveness**: a switch answers a probe, whatever happened meanwhile, and no slot changes.
    fn liveness_probe_at_switch(&mut self, switch: usize, port: u16, bytes: &[u8]) {
        let JobSetup { base, slots, .. } = self.scenario.job;
        let target = &mut *self.switches[switch];
        let before = target.digest(base..base + slots);
        let mut out = Vec::new();
        target.process(port, bytes, &mut out);
        assert_eq!(before, target.digest(base..base + slots), "a liveness probe changed a slot");
        let [(to, answer)] = &out[..] else { panic!("a liveness probe has {} answers", out.len()) };
        let kind = Packet::new_unchecked(&answer[..]).kind();
        assert_eq!((*to, kind), (port, Kind::Stale as u8), "a liveness probe is answered with STALE");
        self.report.probes_answered += 1;
        self.send(switch, port, out.remove(0).1);
    }

    /// Sends what the rank has to send and takes note of its events.
    fn poll(&mut self, rank: u16) {
        let now = self.instant();
        let index = usize::from(rank);
        loop {
            let Rank { worker, tensors, .. } = &mut self.ranks[index];
            let Some(len) = worker.poll_transmit(now, &mut self.buffer, tensors) else { break };
            let bytes: Rc<[u8]> = self.scenario.up.trim(&mut self.rng, &mut self.buffer[..len]).into();
            let delivery = self.delivery(rank, self.scenario.up);
            let delivery = self.hold_back(rank, &bytes, delivery);
            let (switch, port) = self.seats[index];
            self.travel(delivery, || SimEvent::AtSwitch(switch, port, Rc::clone(&bytes)));
        }
        let at = self.now;
        let Rank { worker, tensors, done, aborted, deadline, .. } = &mut self.ranks[index];
        *deadline = worker.next_deadline();
        while let Some(event) = worker.poll_event() {
            match event {
                WorkerEvent::OpDone(OpId(op)) => {
                    assert_eq!(op, *done as u64, "operations are reported in order");
                    tensors.assert_result(*done);
                    *done += 1;
                }
                WorkerEvent::Aborted(reason) => *aborted = Some((at, reason)),
                other => panic!("unknown event {other:?}"),
            }
        }
    }

    fn send(&mut self, from: usize, port: u16, mut bytes: Vec<u8>) {
        // Ports of other jobs lead nowhere.
        let Some(end) = self.ends[from].get(usize::from(port)).copied() else { return };
        let bytes: Rc<[u8]> = match end {
            End::Rank(_) => bytes.into(),
            End::Switch(..) => self.scenario.trunk.trim(&mut self.rng, &mut bytes).into(),
        };
        match end {
            End::Rank(rank) => {
                let delivery = self.delivery(rank, self.scenario.down);
                self.travel(delivery, || SimEvent::AtRank(rank, Rc::clone(&bytes)));
            }
            End::Switch(switch, port) => {
                let delivery = self.scenario.trunk.decide(&mut self.rng);
                self.travel(delivery, || SimEvent::AtSwitch(switch, port, Rc::clone(&bytes)));
            }
        }
    }

    fn delivery(&mut self, rank: u16, faults: super::Faults) -> Delivery {
        let out = self.scenario.outage;
        if out.is_some_and(|out| out.rank == rank && (out.from..out.until).contains(&self.now)) {
            return Delivery::default();
        }
        faults.decide(&mut self.rng)
    }

    /// A straggler's chunk is held back until its time has come, however often it is sent.
    fn hold_back(&mut self, rank: u16, bytes: &[u8], delivery: Delivery) -> Delivery {
        let packet = Packet::new_unchecked(bytes);
        let is_data = packet.kind() == Kind::Data as u8;
        let Some(Straggler { fraction, by, .. }) =
            self.scenario.straggler.filter(|straggler| straggler.rank == rank && is_data)
        else {
            return delivery;
        };
        let until = match self.held_until.get(&packet.chunk()) {
            Some(until) => *until,
            None => {
                let until = if self.rng.random_bool(fraction) { self.now + by } else { self.now };
                self.held_until.insert(packet.chunk(), until);
                until
            }
        };
        let wait = until.saturating_sub(self.now);
        Delivery { first: delivery.first.map(|at| at + wait), second: delivery.second.map(|at| at + wait) }
    }

    fn travel(&mut self, delivery: Delivery, arrival: impl Fn() -> SimEvent) {
        for delay in [delivery.first, delivery.second].into_iter().flatten() {
            self.plan(self.now + delay, arrival());
        }
    }

    /// **Isolation**: forged packets change nothing.
    fn intrude(&mut self) {
        let scenario = self.scenario;
        if let Some((switch, port, genuine)) = self.seen_up.clone() {
            let [job, other_job] = &self.jobs[switch];
            let forgery = intruder::at_switch(&mut self.rng, job, other_job, port, &genuine);
            let target = &mut *self.switches[switch];
            let job = scenario.job.base..scenario.job.base + scenario.job.slots;
            let watched = if forgery.of_other_job { job } else { 0..target.slots() };
            let before = target.digest(watched.clone());
            let mut out = Vec::new();
            target.process(forgery.port, &forgery.bytes, &mut out);
            let after = target.digest(watched);
            assert_eq!(before, after, "a forged packet changed a slot: {forgery:02x?}");
            self.report.forged += 1;
            out.into_iter().for_each(|(to, bytes)| self.send(switch, to, bytes));
        }
        if let Some((rank, genuine)) = self.seen_down.clone() {
            let bytes = intruder::at_rank(&mut self.rng, &scenario.job, &genuine);
            let now = self.instant();
            let Rank { worker, tensors, .. } = &mut self.ranks[usize::from(rank)];
            let before = (worker.stats().results, worker.outstanding(), worker.next_deadline());
            let handled = worker.handle_packet(now, &bytes, tensors);
            assert!(matches!(handled, Handled::Ignored(_)), "a forged packet was taken: {bytes:02x?}");
            let after = (worker.stats().results, worker.outstanding(), worker.next_deadline());
            assert_eq!(before, after, "a forged packet changed a worker: {bytes:02x?}");
            self.report.forged += 1;
        }
    }

    fn is_done(&self, rank: usize) -> bool {
        self.ranks[rank].done == self.plans.len()
    }

    /// **Progress**, and the sum of it all.
    fn judge(mut self) -> Report {
        let last = self.scenario.submissions.iter().flatten().max().copied().unwrap_or_default();
        for (index, rank) in self.ranks.iter().enumerate() {
            let stats = rank.worker.stats();
            self.report.sent += stats.sent;
            self.report.retransmitted += stats.retransmitted;
            self.report.results += stats.results;
            self.report.saturated += stats.saturated;
            self.report.predicted += stats.predicted;
            self.report.mispredicted += stats.mispredicted;
            self.report.partial += stats.partial;
            self.report.left_out += stats.left_out;
            self.report.closed += stats.closed;
            if !rank.alive || self.is_done(index) {
                continue;
            }
            let Some(crash) = self.scenario.crash else {
                panic!(
                    "rank {index} finished {} of {} operations: {:?}",
                    rank.done,
                    self.plans.len(),
                    rank.aborted
                )
            };
            let Some((at, reason)) = rank.aborted else {
                panic!("rank {index} was left waiting for the dead")
            };
            let expected = match reason {
                AbortReason::PeerLost { rank } => rank == crash.rank && crash.told_after.is_some(),
                AbortReason::Stalled { .. } => true,
                _ => false,
            };
            assert!(expected, "rank {index} gave up for the wrong reason: {reason:?}");
            let bound = crash.at.max(last) + self.scenario.stall_timeout + CRASH_SLACK;
            assert!(at <= bound, "rank {index} gave up at {at:?}, later than {bound:?}");
            self.report.aborted += 1;
        }
        self.report.elapsed = self.now;
        self.report
    }
}

/// What all ranks are admitted with, but for what differs between them.
fn admission(scenario: &Scenario) -> Admission {
    let job = &scenario.job;
    Admission {
        first_chunk: job.first_chunk.wrapping_sub(scenario.start as u32),
        ..Admission::new((job.job, job.epoch, job.key), job.slots, scenario.lane_words, 0)
    }
}

/// What is at each port of each switch, in the order of [`Scenario::jobs`], and where each rank is.
fn wiring(scenario: &Scenario) -> (Vec<Vec<End>>, Vec<(usize, u16)>) {
    let shape = &scenario.shape;
    let mut ends = vec![Vec::new(); shape.above.len()];
    let mut ports = vec![0; shape.above.len()];
    for (switch, above) in shape.above.iter().enumerate() {
        if let Some(above) = *above {
            ports[switch] = ends[above].len() as u16;
            ends[above].push(switch);
        }
    }
    let mut seats = vec![(0, 0); shape.workers.len()];
    let mut wired: Vec<Vec<End>> = Vec::new();
    for (switch, below) in ends.iter().enumerate() {
        // A child sees this switch at the port after its own children.
        let up = |child: usize| {
            (ends[child].len() + shape.workers.iter().filter(|leaf| **leaf == child).count()) as u16
        };
        let mut row: Vec<End> = below.iter().map(|child| End::Switch(*child, up(*child))).collect();
        for (rank, _) in shape.workers.iter().enumerate().filter(|(_, leaf)| **leaf == switch) {
            seats[rank] = (switch, row.len() as u16);
            row.push(End::Rank(rank as u16));
        }
        row.extend(shape.above[switch].map(|above| End::Switch(above, ports[switch])));
        wired.push(row);
    }
    (wired, seats)
}

/// Operations submitted so far.
fn submitted(worker: &Worker) -> usize {
    worker.pending() + worker.stats().ops_done as usize
}
