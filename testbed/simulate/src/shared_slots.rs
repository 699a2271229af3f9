//! Two jobs at one switch with few slots, in virtual time: real workers, the real pipelines, and links of a certain rate.
//!
//! ```text
//!   hosts ---- switch ==== aggregator
//! ```
//!
//! Each rank has a host of its own. Either each job has a part of the switch's slots, or both share all of them below the aggregator. Links send
//! one packet after the other and lose none; what a rank sends starts up to [`SharedSlotsConfig::jitter`] later. Switches take no time. Everything follows from the seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use netfold_control::{Admission, Mode};
use netfold_io::{PortId, Received};
use netfold_p4::allreduce::{self, Child, Node, Parent};
use netfold_p4::entry::TableEntry;
use netfold_p4::p4info;
use netfold_proto::{
    Codec, CodedChunk, Collective, Contributors, DType, Descriptor, Importance, Instant, OpId, OpSpec,
    Sharing, Worker, WorkerConfig, WorkerEvent,
};
use netfold_switch::{Pipeline, Send, Verdict, best_effort_pipeline};
use netfold_wire::{LaneOp, Packet, frame, header};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Jobs.
const JOBS: usize = 2;

/// Lanes a packet.
const LANE_WORDS: u32 = 352;

/// Bytes of a chunk's lanes.
pub const CHUNK_BYTES: u32 = 4 * LANE_WORDS;

/// Ports of the switch from this one on are hosts', ordered by job and rank.
const FIRST_HOST: u16 = 1;

/// The switch's port to the aggregator, and the aggregator's to the switch.
const UP: u16 = 100;
const DOWN: u16 = 1;

/// Bytes of the headers around a datagram.
const OUTER_BYTES: usize = frame::OUTER_LEN;

/// Whose the slots of the switch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotSharing {
    /// Each job has half of them.
    Halves,
    /// Both jobs have all of them, below the aggregator.
    Shared,
    /// The same, but any first packet takes a free slot, also where the first one of its chunk was spilled: to show what that costs.
    SharedWithoutTurns,
}

/// What to simulate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedSlotsConfig {
    /// Whose the slots are.
    pub sharing: SlotSharing,
    /// Slots of the switch, a power of two from 2 on.
    pub slots: u32,
    /// Ranks of each job, 1 to 32.
    pub ranks: u16,
    /// Bits a second of a host's link, in each direction.
    pub host_rate: u64,
    /// Bits a second of the link between switch and aggregator, in each direction.
    pub up_rate: u64,
    /// Time on the wire between a host and the switch, one way.
    pub host_delay: Duration,
    /// Time on the wire between switch and aggregator, one way.
    pub up_delay: Duration,
    /// The longest time by which a rank's packet starts late, uniformly distributed.
    pub jitter: Duration,
    /// Chunks of each all-reduce.
    pub chunks: u32,
    /// How long a rank computes between two all-reduces, up to a tenth more or less. The second job begins half of that later.
    pub compute: Duration,
    /// How long jobs run: what comes in the first tenth is not counted.
    pub time: Duration,
    /// Seed.
    pub seed: u64,
}

impl SharedSlotsConfig {
    fn shares(&self) -> bool {
        self.sharing != SlotSharing::Halves
    }
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SharedSlotsReport {
    /// Chunks of each job that its first rank has the result of.
    pub chunks: [u64; JOBS],
    /// Packets that ranks sent.
    pub sent: u64,
    /// Of those, retransmissions.
    pub retransmitted: u64,
    /// Contributions that were sent on to the aggregator.
    pub spilled: u64,
    /// Packets that the aggregator received.
    pub at_aggregator: u64,
}

/// A direction of a link: one packet after the other.
#[derive(Debug, Clone, Copy)]
struct Wire {
    rate: u64,
    delay: Duration,
    free_at: Duration,
}

impl Wire {
    const fn new(rate: u64, delay: Duration) -> Self {
        Self { rate, delay, free_at: Duration::ZERO }
    }

    /// When a datagram arrives that is sent at `at`.
    fn send(&mut self, at: Duration, len: usize) -> Duration {
        let bits = (len + OUTER_BYTES) as u64 * 8;
        self.free_at = self.free_at.max(at) + Duration::from_nanos(bits * 1_000_000_000 / self.rate);
        self.free_at + self.delay
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SimEvent {
    Submit(usize),
    AtSwitch(u16, Vec<u8>),
    AtAggregator(Vec<u8>),
    AtHost(usize, Vec<u8>),
}

/// A rank's numbers by formula: every result is checked.
struct Numbers {
    job: u32,
    rank: u32,
    ranks: u32,
}

impl Numbers {
    fn number(&self, rank: u32, (op, chunk): (OpId, u32), lane: u32) -> u32 {
        let place = (op.0 as u32).wrapping_mul(0x9e37_79b9) ^ chunk.wrapping_mul(0x85eb_ca6b);
        place.wrapping_add((lane + 1).wrapping_mul(rank + 1 + self.job * 37))
    }
}

impl Codec for Numbers {
    fn exponent(&mut self, _: OpId, _: u32) -> u8 {
        0
    }

    fn pack(&mut self, CodedChunk { op, chunk, .. }: CodedChunk, lanes: &mut [u8]) {
        for (lane, bytes) in (0..).zip(lanes.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&self.number(self.rank, (op, chunk), lane).to_be_bytes());
        }
    }

    fn unpack(&mut self, CodedChunk { op, chunk, .. }: CodedChunk, _: Contributors, lanes: &[u8]) {
        for (lane, bytes) in (0..).zip(lanes.as_chunks::<4>().0) {
            let all = (0..self.ranks).map(|rank| self.number(rank, (op, chunk), lane));
            let sum = all.fold(0, u32::wrapping_add);
            assert_eq!(u32::from_be_bytes(*bytes), sum, "job {}, {op:?}, chunk {chunk}", self.job);
        }
    }
}

struct Rank {
    worker: Worker,
    numbers: Numbers,
    up: Wire,
    down: Wire,
    deadline: Option<Instant>,
}

/// A switch: its pipeline, and the ports of its multicast groups.
struct Switch {
    pipeline: Box<dyn Pipeline>,
    groups: Vec<Vec<u16>>,
    verdicts: Vec<Verdict>,
}

impl Switch {
    fn new() -> Self {
        let pipeline = best_effort_pipeline(CHUNK_BYTES).expect("a generated size");
        Self { pipeline, groups: vec![Vec::new(); 3 * JOBS], verdicts: Vec::new() }
    }

    fn insert(&mut self, entries: Vec<TableEntry>) {
        entries.iter().for_each(|entry| self.pipeline.insert(entry).expect("the tables are large enough"));
    }

    /// The ports to which a packet goes on, which is changed in place.
    fn process(&mut self, port: u16, bytes: &mut Vec<u8>) -> Vec<u16> {
        let packet = Received { port: PortId(port), offset: 0, len: bytes.len() as u32, ecn: 0 };
        bytes.resize(header::LEN + CHUNK_BYTES as usize, 0);
        self.verdicts.clear();
        self.pipeline.burst(&[packet], bytes, &mut self.verdicts);
        let [verdict] = self.verdicts[..] else { return Vec::new() };
        bytes.truncate(verdict.len as usize);
        match verdict.send {
            Send::Drop => Vec::new(),
            Send::Unicast(port) => vec![port],
            Send::Multicast(group) => self.groups[usize::from(group)].clone(),
        }
    }
}

impl Switch {
    /// Has a packet of a job that uses all slots look like the first of its chunk.
    fn forget_turn(&mut self, bytes: &[u8], slots: u32) {
        let packet = Packet::new_unchecked(bytes);
        let index = 2 * usize::from(packet.slot()) + usize::from(packet.set());
        let turns = if packet.chunk() & (2 * slots) == 0 { u32::MAX } else { 0 };
        assert!(self.pipeline.write_register("turns", index, &[turns]), "the program has the register");
    }
}

/// The multicast groups of a job: to its hosts, and to the aggregator.
const fn groups_of(job: usize) -> [u16; 2] {
    [job as u16 + 1, (job + JOBS) as u16 + 1]
}

struct Simulation {
    config: SharedSlotsConfig,
    ranks: Vec<Rank>,
    switch: Switch,
    aggregator: Switch,
    up: Wire,
    down: Wire,
    events: BinaryHeap<Reverse<(Duration, u64, SimEvent)>>,
    serial: u64,
    now: Duration,
    rng: Xoshiro256PlusPlus,
    at_aggregator: u64,
    buffer: Vec<u8>,
}

/// Runs both jobs for a while.
///
/// # Panics
///
/// When a result is wrong, or a parameter is out of range.
pub fn run(config: &SharedSlotsConfig) -> SharedSlotsReport {
    let mut simulation = Simulation::new(*config);
    for index in 0..simulation.ranks.len() {
        let job = index / usize::from(config.ranks);
        simulation.plan(config.compute * job as u32 / 2, SimEvent::Submit(index));
    }
    simulation.play_until(config.time / 10);
    let before = simulation.counted();
    simulation.play_until(config.time);
    let after = simulation.counted();
    SharedSlotsReport {
        chunks: std::array::from_fn(|job| after.chunks[job] - before.chunks[job]),
        sent: after.sent - before.sent,
        retransmitted: after.retransmitted - before.retransmitted,
        spilled: after.spilled - before.spilled,
        at_aggregator: after.at_aggregator - before.at_aggregator,
    }
}

impl Simulation {
    fn new(config: SharedSlotsConfig) -> Self {
        let (mut switch, mut aggregator) = (Switch::new(), Switch::new());
        let mut ranks = Vec::new();
        for job in 0..JOBS {
            let [group, up] = groups_of(job);
            let node = node(&config, job);
            let host = |rank| FIRST_HOST + job as u16 * config.ranks + rank;
            switch.groups[usize::from(group)] = (0..config.ranks).map(host).collect();
            switch.groups[usize::from(up)] = vec![UP];
            aggregator.groups[usize::from(group)] = vec![DOWN];
            let child = |port, rank| Child { port, source: 0, rank, behind: None };
            let shares = config.shares();
            let entries = if shares { allreduce::shared_job_entries } else { allreduce::job_entries };
            let of_node = if shares { allreduce::shared_node_entries } else { allreduce::node_entries };
            switch.insert(of_node(&node));
            for rank in 0..config.ranks {
                switch.insert(entries(&node, &child(host(rank), rank as u8)));
                ranks.push(Rank::new(&config, &node, rank));
            }
            let above = Node { base: job as u32 * node.slots, parent: None, ..node };
            aggregator.insert(allreduce::aggregator_entries(&above, &child(DOWN, 0)));
        }
        let wire = Wire::new(config.up_rate, config.up_delay);
        Self {
            config,
            ranks,
            switch,
            aggregator,
            up: wire,
            down: wire,
            events: BinaryHeap::new(),
            serial: 0,
            now: Duration::ZERO,
            rng: Xoshiro256PlusPlus::seed_from_u64(config.seed),
            at_aggregator: 0,
            buffer: vec![0; header::LEN + CHUNK_BYTES as usize],
        }
    }

    fn counted(&self) -> SharedSlotsReport {
        let stats = || self.ranks.iter().map(|rank| rank.worker.stats());
        let spilled = self.switch.pipeline.counters(p4info::counter_id(allreduce::id::SPILLED));
        SharedSlotsReport {
            chunks: std::array::from_fn(|job| {
                self.ranks[job * usize::from(self.config.ranks)].worker.stats().results
            }),
            sent: stats().map(|stats| stats.sent).sum(),
            retransmitted: stats().map(|stats| stats.retransmitted).sum(),
            spilled: (0..JOBS).map(|job| spilled[usize::from(groups_of(job)[1])]).sum(),
            at_aggregator: self.at_aggregator,
        }
    }

    fn plan(&mut self, at: Duration, event: SimEvent) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial, event)));
    }

    /// Plays workers' deadlines and events, in order of time.
    fn play_until(&mut self, end: Duration) {
        loop {
            let deadlines = self.ranks.iter().zip(0..).filter_map(|(rank, index)| {
                rank.deadline.map(|at| (Duration::from_nanos(at.as_nanos()), index))
            });
            let deadline = deadlines.min();
            let next = self.events.peek().map(|Reverse((at, ..))| *at);
            let Some(at) = deadline.map(|(at, _)| at).into_iter().chain(next).min() else { return };
            if at > end {
                return;
            }
            self.now = self.now.max(at);
            match deadline.filter(|(at, _)| next.is_none_or(|next| *at < next)) {
                Some((_, index)) => {
                    let now = self.instant();
                    self.ranks[index].worker.handle_timeout(now);
                    self.poll(index);
                }
                None => {
                    if let Some(Reverse((_, _, event))) = self.events.pop() {
                        self.handle_event(event);
                    }
                }
            }
        }
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now.as_nanos() as u64)
    }

    fn handle_event(&mut self, event: SimEvent) {
        match event {
            SimEvent::Submit(index) => {
                let spec = operation(self.config.chunks);
                self.ranks[index].worker.submit(spec).expect("one operation at a time");
                self.poll(index);
            }
            SimEvent::AtSwitch(port, mut bytes) => {
                if self.config.sharing == SlotSharing::SharedWithoutTurns && port != UP {
                    self.switch.forget_turn(&bytes, self.config.slots);
                }
                for to in self.switch.process(port, &mut bytes) {
                    let bytes = bytes.clone();
                    if to == UP {
                        let at = self.up.send(self.now, bytes.len());
                        self.plan(at, SimEvent::AtAggregator(bytes));
                    } else {
                        let index = usize::from(to - FIRST_HOST);
                        let at = self.ranks[index].down.send(self.now, bytes.len());
                        self.plan(at, SimEvent::AtHost(index, bytes));
                    }
                }
            }
            SimEvent::AtAggregator(mut bytes) => {
                self.at_aggregator += 1;
                for _ in self.aggregator.process(DOWN, &mut bytes) {
                    let at = self.down.send(self.now, bytes.len());
                    self.plan(at, SimEvent::AtSwitch(UP, bytes.clone()));
                }
            }
            SimEvent::AtHost(index, bytes) => {
                let now = self.instant();
                let Rank { worker, numbers, .. } = &mut self.ranks[index];
                worker.handle_packet(now, &bytes, numbers);
                self.poll(index);
            }
        }
    }

    /// Sends what a rank has to send, and submits its next operation when one is done.
    fn poll(&mut self, index: usize) {
        let now = self.instant();
        loop {
            let Rank { worker, numbers, up, .. } = &mut self.ranks[index];
            let Some(len) = worker.poll_transmit(now, &mut self.buffer, numbers) else { break };
            let late = self.config.jitter.mul_f64(self.rng.random());
            let at = up.send(self.now + late, len);
            let bytes = self.buffer[..len].to_vec();
            self.plan(at, SimEvent::AtSwitch(FIRST_HOST + index as u16, bytes));
        }
        while let Some(event) = self.ranks[index].worker.poll_event() {
            assert!(matches!(event, WorkerEvent::OpDone(_)), "rank {index}: {event:?}");
            let compute = self.config.compute.mul_f64(0.9 + 0.2 * self.rng.random::<f64>());
            self.plan(self.now + compute, SimEvent::Submit(index));
        }
        let rank = &mut self.ranks[index];
        rank.deadline = rank.worker.next_deadline();
    }
}

impl Rank {
    fn new(config: &SharedSlotsConfig, node: &Node, rank: u16) -> Self {
        let place = (node.job, node.epoch, node.key);
        let admission = Admission {
            first_chunk: 1,
            own_bit: 1 << rank,
            ..Admission::new(place, node.slots, LANE_WORDS, node.full())
        };
        let worker = Worker::new(WorkerConfig::new(admission, rank, config.ranks));
        let wire = Wire::new(config.host_rate, config.host_delay);
        Self {
            worker: worker.expect("a job that a worker can run"),
            numbers: Numbers { job: node.job.into(), rank: rank.into(), ranks: config.ranks.into() },
            up: wire,
            down: wire,
            deadline: None,
        }
    }
}

/// A job at the switch.
fn node(config: &SharedSlotsConfig, job: usize) -> Node {
    let [group, up] = groups_of(job);
    let shares = config.shares();
    let slots = if shares { config.slots } else { config.slots / JOBS as u32 };
    Node {
        job: job as u16 + 1,
        epoch: job as u32 + 1,
        key: job as u32 + 1,
        base: if shares { 0 } else { job as u32 * slots },
        slots,
        children: config.ranks as u8,
        workers: config.ranks,
        world: config.ranks,
        group,
        parent: shares.then_some(Parent { port: UP, source: 0, group: up, rank: 0 }),
        shift: None,
        bounded_loss: false,
        owners: false,
    }
}

/// An all-reduce of whole numbers.
fn operation(chunks: u32) -> OpSpec {
    let elements = u64::from(chunks) * u64::from(LANE_WORDS);
    OpSpec {
        descriptor: Descriptor {
            dtype: DType::I32,
            mode: Mode::I32,
            op: LaneOp::Sum.reduction(),
            elements,
            collective: Collective::AllReduce,
            ..Descriptor::BARRIER
        },
        data_chunks: chunks,
        exponents: false,
        class: 0,
        importance: Importance::NONE,
        lane_op: LaneOp::Sum,
        sharing: Sharing::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two jobs of two ranks.
    fn config(slots: u32, host_delay: Duration, jitter: Duration) -> SharedSlotsConfig {
        SharedSlotsConfig {
            sharing: SlotSharing::Halves,
            slots,
            ranks: 2,
            host_rate: 200_000_000,
            up_rate: 800_000_000,
            host_delay,
            up_delay: Duration::from_micros(20),
            jitter,
            chunks: 745,
            compute: Duration::ZERO,
            time: Duration::from_millis(500),
            seed: 2,
        }
    }

    fn total(report: &SharedSlotsReport) -> f64 {
        report.chunks.iter().sum::<u64>() as f64
    }

    /// Where links limit jobs, sharing costs nothing, and no chunk waits for a retransmission; where slots do, sharing is worth much.
    #[test]
    fn jobs_that_share_slots_are_as_fast_as_with_half_of_them_each() {
        let (micros, millis) = (Duration::from_micros, Duration::from_millis);
        let links = config(16, micros(20), micros(200));
        let slots = SharedSlotsConfig { seed: 1, ..config(16, micros(200), micros(500)) };
        let settings = [
            ("links limit", links, 0.99),
            ("links limit, computing", SharedSlotsConfig { compute: millis(100), ..links }, 0.97),
            ("slots limit", slots, 1.5),
            ("slots limit, computing", SharedSlotsConfig { compute: millis(60), chunks: 187, ..slots }, 1.0),
        ];
        for (name, config, least) in settings {
            use SlotSharing::{Halves, Shared, SharedWithoutTurns};
            let [halves, shared, without] = [Halves, Shared, SharedWithoutTurns]
                .map(|sharing| run(&SharedSlotsConfig { sharing, ..config }));
            let [ratio, worse] = [&shared, &without].map(|report| total(report) / total(&halves));
            println!(
                "{name}: {ratio:.3} of halves: {halves:?}, {shared:?}; without turns {worse:.3}, {without:?}"
            );
            assert!(ratio >= least, "{name}: {ratio}");
            if config.compute.is_zero() {
                assert_eq!(shared.retransmitted, 0, "{name}");
                assert!(without.retransmitted > 10 && worse < ratio, "{name}: {without:?}");
            }
        }
    }
}
