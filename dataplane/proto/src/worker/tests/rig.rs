//! A few workers, a switch written to be read, and a network on a virtual clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use netfold_control::{Admission, CongestionAlgorithm};
use netfold_wire::{Flags, Kind, LaneOp, Mode, Packet, Repr, header, serial};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::*;

pub(super) const LANE_WORDS: usize = 64;

/// A worker's place in a job of the plain switch.
pub(super) fn config(slots: u32, first_chunk: u32, rank: u16, world: u16) -> WorkerConfig {
    let (lane_words, bitmap) = (64, u32::MAX >> (32 - u32::from(world)));
    let (job, epoch, key) = (7, 3, 0xfeed_beef);
    let admission = Admission { first_chunk, ..Admission::new((job, epoch, key), slots, lane_words, bitmap) };
    WorkerConfig::new(admission, rank, world)
}

/// An i32 sum.
pub(super) fn integers(data_chunks: u32) -> OpSpec {
    spec(data_chunks, Mode::I32, DType::I32, LaneOp::Sum)
}

/// A sum with block exponents.
pub(super) fn blocks(data_chunks: u32) -> OpSpec {
    spec(data_chunks, Mode::Bfp16, DType::F32, LaneOp::Sum)
}

pub(super) fn spec(data_chunks: u32, mode: Mode, dtype: DType, lane_op: LaneOp) -> OpSpec {
    let elements = u64::from(data_chunks) * 63;
    let descriptor = Descriptor {
        dtype,
        mode,
        op: lane_op.reduction(),
        elements,
        collective: Collective::AllReduce,
        ..Descriptor::BARRIER
    };
    OpSpec {
        descriptor,
        data_chunks,
        exponents: mode != Mode::I32,
        class: 0,
        importance: Importance::NONE,
        lane_op,
        sharing: Sharing::All,
    }
}

/// Tensors by formula: what rank `r` contributes to every lane of every chunk is known to all, so each codec checks every
/// call. Lane `r` counts rank `r`'s contributions.
pub(super) struct Tensors {
    rank: u16,
    world: u16,
    /// Unpacked chunks with their result lanes.
    pub(super) done: BTreeMap<(OpId, u32), Vec<u8>>,
    /// Lane operation by operation number, where it is not a sum.
    pub(super) lane_ops: BTreeMap<OpId, LaneOp>,
    /// Exponents are the same in so many operations; in all of them, and finite, for `u64::MAX`.
    pub(super) period: u64,
    /// What the rank knows the tensors of its operations by.
    pub(super) keys: fn(OpId) -> u64,
    /// Chunks may be packed by other exponents than the agreed ones.
    guesses: bool,
    /// Where input arrives while operations are under way: a few chunks in each period.
    pub(super) arrivals: Option<Arrivals>,
    /// Operations of which every rank is known to have submitted the same.
    pub(super) verified: Vec<OpId>,
}

/// Input that arrives in steps.
pub(super) struct Arrivals {
    /// Chunks in each step, and the time between steps.
    pub(super) chunks: u32,
    pub(super) period: Duration,
    pub(super) now: Instant,
    /// When an operation's first input was asked for: that is when it begins to arrive.
    pub(super) begun: BTreeMap<OpId, Instant>,
}

impl Arrivals {
    fn readable(&mut self, op: OpId) -> u32 {
        let since = self.now - *self.begun.entry(op).or_insert(self.now);
        self.chunks * (since.as_nanos() / self.period.as_nanos()) as u32
    }
}

impl Tensors {
    pub(super) fn new(rank: u16, world: u16) -> Self {
        let (done, lane_ops) = (BTreeMap::new(), BTreeMap::new());
        let (arrivals, verified) = (None, Vec::new());
        Self { rank, world, done, lane_ops, period: 1, keys: |_| 0, guesses: false, arrivals, verified }
    }

    fn exponent_of(&self, rank: u16, op: OpId, chunk: u32) -> u8 {
        let mixed = mix(u64::from(rank), op.0 / self.period, u64::from(chunk), 99);
        if mixed.is_multiple_of(61) && self.period < u64::MAX { 255 } else { 30 + (mixed % 200) as u8 }
    }

    fn lane_of(rank: u16, op: OpId, chunk: u32, exp: u8, lane: usize) -> i32 {
        match lane {
            _ if exp == 255 => 0,
            0..32 => i32::from(lane == usize::from(rank)),
            _ => mix(u64::from(rank), op.0, u64::from(chunk) << 8 | u64::from(exp), lane as u64) as i32,
        }
    }

    /// Asserts that a chunk's input is there.
    fn read(&mut self, op: OpId, chunk: u32) {
        let readable = self.readable(op);
        assert!(chunk < readable, "chunk {chunk} is read when {readable} are there");
    }

    fn agreed(&self, op: OpId, chunk: u32) -> u8 {
        (0..self.world).map(|rank| self.exponent_of(rank, op, chunk)).max().unwrap()
    }
}

fn mix(a: u64, b: u64, c: u64, d: u64) -> u64 {
    [a, b, c, d].iter().fold(0x9e37_79b9_7f4a_7c15, |hash, word| {
        (hash ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29).wrapping_mul(0x94d0_49bb_1331_11eb)
            ^ hash >> 31
    }) >> 3
}

impl Codec for Tensors {
    fn exponent(&mut self, op: OpId, chunk: u32) -> u8 {
        assert!(
            !self.done.contains_key(&(op, chunk)),
            "asked for the exponent of a chunk already overwritten"
        );
        self.read(op, chunk);
        self.exponent_of(self.rank, op, chunk)
    }

    fn readable(&mut self, op: OpId) -> u32 {
        self.arrivals.as_mut().map_or(u32::MAX, |arrivals| arrivals.readable(op))
    }

    fn verified(&mut self, op: OpId) {
        self.verified.push(op);
    }

    fn tensor_key(&mut self, op: OpId) -> u64 {
        (self.keys)(op)
    }

    fn pack(&mut self, coded: CodedChunk, lanes: &mut [u8]) {
        let CodedChunk { op, chunk, exp, .. } = coded;
        assert!(!self.done.contains_key(&(op, chunk)), "packed a chunk already overwritten");
        self.read(op, chunk);
        let fits = if self.guesses { exp >= self.exponent_of(self.rank, op, chunk) } else { false };
        assert!(exp == 0 || fits || exp == self.agreed(op, chunk), "not the agreed exponent");
        assert_eq!(lanes.len(), 4 * LANE_WORDS);
        for (lane, word) in lanes.chunks_exact_mut(4).enumerate() {
            word.copy_from_slice(&Self::lane_of(self.rank, op, chunk, exp, lane).to_be_bytes());
        }
    }

    fn unpack(&mut self, coded: CodedChunk, contributors: Contributors, lanes: &[u8]) {
        let CodedChunk { op, chunk, exp, .. } = coded;
        assert!(exp == 0 || exp == self.agreed(op, chunk), "not the agreed exponent");
        assert_eq!(contributors, Contributors { count: self.world, own: true });
        let fold = self.lane_ops.get(&op).copied().unwrap_or(LaneOp::Sum);
        for (lane, word) in lanes.chunks_exact(4).enumerate() {
            let shares = (0..self.world).map(|rank| Self::lane_of(rank, op, chunk, exp, lane));
            let want = shares.map(i32::cast_unsigned).reduce(|a, b| fold.fold(a, b)).unwrap();
            assert_eq!(
                u32::from_be_bytes(word.try_into().unwrap()),
                want,
                "op {op:?} chunk {chunk} lane {lane}"
            );
        }
        assert!(self.done.insert((op, chunk), lanes.to_vec()).is_none(), "unpacked twice");
    }
}

/// A congestion-control algorithm by its number; the first follows the last.
pub(super) fn algorithm(number: usize) -> CongestionAlgorithm {
    CongestionAlgorithm::ALL[number % CongestionAlgorithm::ALL.len()]
}

/// The slot machine of the protocol in its simplest form. It trusts its one job.
#[derive(Default)]
pub(super) struct Switch {
    slots: BTreeMap<(u16, u8), Occupant>,
}

struct Occupant {
    chunk: u32,
    seen: u32,
    exp_next: u8,
    lanes: Vec<i32>,
}

impl Switch {
    /// Folds rank `from`'s DATA and returns what to send: to one rank, or to all.
    pub(super) fn process(
        &mut self,
        world: u16,
        from: u16,
        datagram: &[u8],
    ) -> Option<(Option<u16>, Vec<u8>)> {
        let packet = Packet::new_checked(datagram).unwrap();
        let data = Repr::parse(&packet).unwrap();
        let mut lanes: Vec<i32> = packet
            .payload()
            .chunks_exact(4)
            .map(|word| i32::from_be_bytes(word.try_into().unwrap()))
            .collect();
        lanes.resize(LANE_WORDS, 0);
        let full = u32::MAX >> (32 - u32::from(world));
        let answer = |kind, seen: u32, exp_next, lanes: &[i32]| {
            let reply = Repr {
                kind,
                flags: data.flags.without(Flags::RESEND),
                bitmap: seen,
                count: seen.count_ones() as u16,
                exp_next,
                ..data
            };
            let mut bytes = vec![0; header::LEN];
            reply.emit(&mut Packet::new_unchecked(&mut bytes[..]));
            if !data.flags.contains(Flags::BARE) {
                bytes.extend(lanes.iter().flat_map(|lane| lane.to_be_bytes()));
            }
            bytes
        };
        let slot = self.slots.entry((data.slot, data.set)).or_insert_with(|| Occupant {
            chunk: data.chunk.wrapping_sub(1 << 20),
            seen: 0,
            exp_next: 0,
            lanes: Vec::new(),
        });
        if serial::newer(slot.chunk, data.chunk) {
            return Some((Some(from), answer(Kind::Stale, 0, 0, &[])));
        }
        if data.chunk != slot.chunk {
            *slot = Occupant { chunk: data.chunk, seen: 1 << from, exp_next: data.exp_next, lanes };
        } else if slot.seen >> from & 1 == 1 {
            return (slot.seen == full)
                .then(|| (Some(from), answer(Kind::Result, slot.seen, slot.exp_next, &slot.lanes)));
        } else {
            slot.seen |= 1 << from;
            slot.exp_next = slot.exp_next.max(data.exp_next);
            for (sum, lane) in slot.lanes.iter_mut().zip(lanes) {
                *sum = data.op.fold(sum.cast_unsigned(), lane.cast_unsigned()).cast_signed();
            }
        }
        (slot.seen == full).then(|| (None, answer(Kind::Result, slot.seen, slot.exp_next, &slot.lanes)))
    }
}

/// How the network treats a packet, in each direction.
#[derive(Clone, Copy)]
pub(super) struct Network {
    pub(super) loss: f64,
    pub(super) duplicate: f64,
    /// One-way delay: at least, and at most that much more.
    pub(super) delay_us: u64,
    pub(super) jitter_us: u64,
    /// A link that all packets to the switch share, if there is one.
    pub(super) shared: Option<SharedLink>,
}

/// A link with a queue that drops at its tail and marks when it is long.
#[derive(Clone, Copy)]
pub(super) struct SharedLink {
    /// Time that a packet takes.
    pub(super) packet_us: u64,
    /// Packets that the queue holds.
    pub(super) room: u64,
    /// Packets in it from which on it marks.
    pub(super) mark_from: u64,
}

impl Network {
    pub(super) const PERFECT: Self =
        Self { loss: 0.0, duplicate: 0.0, delay_us: 50, jitter_us: 0, shared: None };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Link(u16),
    Switch(u16),
    Worker(u16),
}

/// When it arrives, a tie-breaker, where, and what.
type Arrival = (Instant, u64, Place, Vec<u8>);

/// All of it.
pub(super) struct Rig {
    pub(super) now: Instant,
    pub(super) workers: Vec<Worker>,
    pub(super) tensors: Vec<Tensors>,
    pub(super) events: Vec<Vec<WorkerEvent>>,
    pub(super) switch: Switch,
    pub(super) network: Network,
    /// Ranks that neither send nor receive.
    pub(super) dead: Vec<u16>,
    rng: Xoshiro256PlusPlus,
    flying: BinaryHeap<Reverse<Arrival>>,
    sequence: u64,
    /// When the shared link has sent what it holds.
    busy_until: Instant,
    /// The same of each rank's own link.
    own_busy_until: Vec<Instant>,
    /// Packets that its queue had no room for.
    pub(super) dropped: u64,
}

impl Rig {
    pub(super) fn new(seed: u64, world: u16, slots: u32, first_chunk: u32, network: Network) -> Self {
        Self::sharing(seed, world, SlotShare { first: 0, count: slots }, slots, first_chunk, network)
    }

    /// Workers whose stream uses a share of the job's slots.
    pub(super) fn sharing(
        seed: u64,
        world: u16,
        share: SlotShare,
        slots: u32,
        first_chunk: u32,
        network: Network,
    ) -> Self {
        let config = |rank| WorkerConfig { share, ..config(slots, first_chunk, rank, world) };
        Self {
            now: Instant::ZERO,
            workers: (0..world).map(|rank| Worker::new(config(rank)).unwrap()).collect(),
            tensors: (0..world).map(|rank| Tensors::new(rank, world)).collect(),
            events: vec![Vec::new(); usize::from(world)],
            switch: Switch::default(),
            network,
            dead: Vec::new(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            flying: BinaryHeap::new(),
            sequence: 0,
            busy_until: Instant::ZERO,
            own_busy_until: vec![Instant::ZERO; usize::from(world)],
            dropped: 0,
        }
    }

    /// The same where exponents are predicted, and change every `period` operations.
    pub(super) fn predicting(mut self, period: u64) -> Self {
        for (worker, tensors) in self.workers.iter_mut().zip(&mut self.tensors) {
            let config = WorkerConfig { predict: true, ..worker.config().clone() };
            *worker = Worker::new(config).unwrap();
            (tensors.period, tensors.guesses) = (period, true);
        }
        self
    }

    /// The same where each rank has a congestion-control algorithm.
    pub(super) fn controlled(mut self, algorithm: impl Fn(usize) -> CongestionAlgorithm) -> Self {
        for (rank, worker) in self.workers.iter_mut().enumerate() {
            let config = worker.config().clone();
            let admission = Admission { congestion: algorithm(rank), ..config.admission.clone() };
            *worker = Worker::new(WorkerConfig { admission, ..config }).unwrap();
        }
        self
    }

    /// Submits nine operations: sums of integers and of blocks, and barriers, in turn, of lengths that the seed determines.
    pub(super) fn submit_nine(&mut self, seed: u64) {
        for op in 0..9 {
            self.submit(match op % 3 {
                0 => integers(1 + (seed % 40) as u32),
                1 => blocks(1 + (seed % 70) as u32),
                _ => OpSpec::BARRIER,
            });
        }
    }

    /// Submits the operation on every rank.
    pub(super) fn submit(&mut self, spec: OpSpec) {
        for (worker, tensors) in self.workers.iter_mut().zip(&mut self.tensors) {
            let id = worker.submit(spec).unwrap();
            tensors.lane_ops.insert(id, spec.lane_op);
        }
        (0..self.workers.len()).for_each(|rank| self.poll(rank as u16));
    }

    /// Runs until nothing is left to do, and returns each worker's events.
    pub(super) fn run(&mut self) -> &[Vec<WorkerEvent>] {
        for _ in 0..10_000_000 {
            if !self.turn() {
                return &self.events;
            }
        }
        panic!("did not settle");
    }

    /// Has all workers send what they can, and moves on; false when there is nothing left to do.
    pub(super) fn turn(&mut self) -> bool {
        (0..self.workers.len()).for_each(|rank| self.poll(rank as u16));
        self.step()
    }

    /// Moves on to the next packet, deadline or input; false when there is none.
    pub(super) fn step(&mut self) -> bool {
        let deadline = self.workers.iter().filter_map(Worker::next_deadline).min();
        let arrival = self.flying.peek().map(|Reverse((at, ..))| *at);
        let awaiting = self.workers.iter().zip(&self.tensors).filter(|(worker, _)| worker.awaits_input());
        let periods = awaiting.filter_map(|(_, tensors)| tensors.arrivals.as_ref());
        let input = periods.map(|arrivals| self.now + arrivals.period).min();
        let Some(next) = deadline.into_iter().chain(arrival).chain(input).min() else { return false };
        self.now = next.max(self.now);
        for arrivals in self.tensors.iter_mut().filter_map(|tensors| tensors.arrivals.as_mut()) {
            arrivals.now = self.now;
        }
        for worker in &mut self.workers {
            if worker.next_deadline().is_some_and(|at| at <= self.now) {
                worker.handle_timeout(self.now);
            }
        }
        while self.flying.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Reverse((_, _, place, bytes)) = self.flying.pop().unwrap();
            self.arrive(place, &bytes);
        }
        true
    }

    fn arrive(&mut self, place: Place, bytes: &[u8]) {
        let world = self.workers.len() as u16;
        match place {
            Place::Worker(rank) => {
                let worker = &mut self.workers[usize::from(rank)];
                worker.handle_packet(self.now, bytes, &mut self.tensors[usize::from(rank)]);
                self.poll(rank);
            }
            Place::Link(rank) => self.queue(rank, bytes.to_vec()),
            Place::Switch(from) => match self.switch.process(world, from, bytes) {
                Some((Some(rank), bytes)) => self.send(Place::Worker(rank), bytes),
                Some((None, bytes)) => {
                    (0..world).for_each(|rank| self.send(Place::Worker(rank), bytes.clone()))
                }
                None => {}
            },
        }
    }

    fn poll(&mut self, rank: u16) {
        let mut buffer = [0xa5; header::LEN + 4 * LANE_WORDS];
        let at = usize::from(rank);
        while let Some(len) = self.workers[at].poll_transmit(self.now, &mut buffer, &mut self.tensors[at]) {
            self.send(Place::Switch(rank), buffer[..len].to_vec());
        }
        while let Some(event) = self.workers[at].poll_event() {
            self.events[at].push(event);
        }
    }

    fn send(&mut self, to: Place, bytes: Vec<u8>) {
        let (Place::Switch(rank) | Place::Worker(rank) | Place::Link(rank)) = to;
        if self.dead.contains(&rank) {
            return;
        }
        let copies = 1 + u32::from(self.rng.random_bool(self.network.duplicate));
        for _ in 0..copies {
            if self.rng.random_bool(self.network.loss) {
                continue;
            }
            match (to, self.network.shared) {
                // Its own link first, so that packets of several ranks come to the shared one in turn.
                (Place::Switch(_), Some(shared)) => {
                    let own = &mut self.own_busy_until[usize::from(rank)];
                    *own = (*own).max(self.now) + Duration::from_micros(shared.packet_us);
                    let at = *own;
                    self.push(at, Place::Link(rank), bytes.clone());
                }
                _ => self.travel(self.now, to, bytes.clone()),
            }
        }
    }

    fn travel(&mut self, from: Instant, to: Place, bytes: Vec<u8>) {
        let delay = self.network.delay_us + self.rng.random_range(0..=self.network.jitter_us);
        self.push(from + Duration::from_micros(delay), to, bytes);
    }

    fn push(&mut self, at: Instant, to: Place, bytes: Vec<u8>) {
        self.sequence += 1;
        self.flying.push(Reverse((at, self.sequence, to, bytes)));
    }

    /// A packet comes to the shared link: it is queued, marked or dropped.
    fn queue(&mut self, rank: u16, mut bytes: Vec<u8>) {
        let Some(SharedLink { packet_us, room, mark_from }) = self.network.shared else { return };
        let backlog = (self.busy_until - self.now).as_micros() as u64 / packet_us;
        if backlog >= room {
            self.dropped += 1;
            return;
        }
        if backlog >= mark_from {
            let mut packet = Packet::new_unchecked(&mut bytes[..]);
            let data = Repr::parse(&packet).unwrap();
            Repr { flags: data.flags.with(Flags::CONGESTION), ..data }.emit(&mut packet);
        }
        self.busy_until = self.busy_until.max(self.now) + Duration::from_micros(packet_us);
        self.travel(self.busy_until, Place::Switch(rank), bytes);
    }

    /// Asserts that every rank finished operations `0..ops`, in order and without an abort, and that all ranks were
    /// given the same bytes.
    pub(super) fn assert_done(&self, ops: u64) {
        for (rank, events) in self.events.iter().enumerate() {
            let want: Vec<_> = (0..ops).map(|op| WorkerEvent::OpDone(OpId(op))).collect();
            assert_eq!(events, &want, "rank {rank}");
            assert_eq!(self.tensors[rank].done, self.tensors[0].done, "rank {rank}");
            assert_eq!(self.workers[rank].outstanding(), 0);
            assert_eq!(self.workers[rank].pending(), 0);
        }
    }
}
