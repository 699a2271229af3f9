//! Two racks below one switch that folds, in virtual time: real workers, the real pipeline and the real queues, on links that are
//! too narrow.
//!
//! ```text
//!   hosts ---- rack ====uplink==== switch ====uplink==== rack ---- hosts
//!              (a queue each way)            (a queue each way)
//! ```
//!
//! Racks forward and do not fold; a result goes to each rack once, and from there to all of its hosts. Traffic of others comes in
//! bursts into the queues of the uplinks, up. Everything follows from the seed.

mod tensors;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use netfold::quantize::Lanes;
use netfold_control::{Admission, CongestionAlgorithm};
use netfold_proto::{Importance, Instant, Tolerance, Worker, WorkerConfig, WorkerEvent};
use netfold_switch::queue::{
    ClassConfig, Ecn, PortConfig, QueueConfig, QueueConfigError, Queues, QueuesCounters, Rate,
};
use netfold_wire::{CLASSES_MAX, Flags, Kind, Packet, header};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::sim::{JobSetup, PipelineSwitch, SimSwitch, Straggler};
use tensors::Tensors;
pub use tensors::{Step, Tensors32};

/// Racks.
const RACKS: usize = 2;

/// Job number of the packets of others.
const OTHERS: u16 = 999;

/// Lanes a packet.
pub(crate) const LANE_WORDS: u32 = 352;

/// Bytes of a whole packet.
/// Bytes of a chunk as it is queued.
pub(crate) const PACKET: usize = header::LEN + 4 * LANE_WORDS as usize;

/// One fabric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RacksConfig {
    /// Hosts of each rack, each with one rank.
    pub hosts: u16,
    /// Bits a second of a host's link.
    pub host_rate: u64,
    /// Bits a second of an uplink.
    pub uplink_rate: u64,
    /// Bytes of an uplink's queue, each way.
    pub queue_bytes: u32,
    /// Bytes in a queue above which packets are trimmed that may be; `None`: never.
    pub trim_above: Option<u32>,
    /// Importance classes of chunks, and queues of each uplink, each with [`Self::queue_bytes`] and [`Self::trim_above`]: those of higher classes
    /// are served first, strictly.
    pub importance: u8,
    /// Bytes in a queue above which packets are marked, as DCTCP has it; `None`: never.
    pub mark_above: Option<u32>,
    /// Time on a wire.
    pub wire: Duration,
    /// Share of each uplink, up, that others use on average.
    pub others: f64,
    /// Packets of a burst of theirs.
    pub burst: u32,
    /// Share of packets lost on the link of the first rank's host, each way.
    pub loss: f64,
    /// Slots of the job.
    pub slots: u32,
    /// What sums may lack.
    pub tolerance: Tolerance,
    /// Shortest retransmission timeout, and a quarter of the first one.
    pub rto_min: Duration,
    /// By what ranks decide how much to have in flight.
    pub congestion: CongestionAlgorithm,
    /// A rank that delays some of its chunks.
    pub straggler: Option<Straggler>,
    /// Seed of the other traffic, and of the straggler's delays.
    pub seed: u64,
}

impl Default for RacksConfig {
    /// Eight hosts at 1 Gbit/s, four times what the uplinks carry.
    fn default() -> Self {
        Self {
            hosts: 4,
            host_rate: 1_000_000_000,
            uplink_rate: 1_000_000_000,
            queue_bytes: 100_000,
            trim_above: None,
            importance: 1,
            mark_above: None,
            wire: Duration::from_micros(5),
            others: 0.0,
            burst: 40,
            loss: 0.0,
            slots: 64,
            tolerance: Tolerance::NONE,
            rto_min: Duration::from_millis(1),
            congestion: CongestionAlgorithm::Fixed,
            straggler: None,
            seed: 1,
        }
    }
}

/// What a step took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepReport {
    /// From the submission on all ranks to the last result on any.
    pub elapsed: Duration,
    /// Packets retransmitted, by all ranks.
    pub retransmitted: u64,
    /// Chunks without a rank's contribution, over all ranks.
    pub left_out: u64,
    /// Chunks without a contribution of the rank that was left out most often.
    pub most_left_out: u64,
    /// Chunks whose slot was closed.
    pub closed: u64,
    /// Smoothed time from a chunk to its result in the end, on the rank where it is longest.
    pub round_trip: Duration,
    /// Chunks, over all ranks.
    pub chunks: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SimEvent {
    /// A packet of a rank reaches its rack.
    AtRack(usize, Vec<u8>),
    /// A burst of others' packets reaches a rack.
    Burst(usize),
    /// A packet reaches the switch from a rack's uplink; the port is the rank's.
    AtSwitch(u16, Vec<u8>),
    /// A result reaches the hosts of a rack.
    AtHosts(usize, Vec<u8>),
    /// A queue may have something to send: rack, and whether upward.
    Serve(usize, bool),
}

struct Rank {
    worker: Worker,
    tensors: Tensors,
    /// When its link is free again.
    free_at: Duration,
    deadline: Option<Instant>,
    done: usize,
}

/// A fabric with its job.
pub struct Racks {
    config: RacksConfig,
    ranks: Vec<Rank>,
    switch: PipelineSwitch,
    /// Of each rack, the queue up and the queue down.
    up: Vec<Queues>,
    down: Vec<Queues>,
    /// When each of them is served next, by rack and whether upward: once for all packets that join it meanwhile.
    due: [[Option<Duration>; 2]; RACKS],
    event_queue: BinaryHeap<Reverse<(Duration, u64, SimEvent)>>,
    serial: u64,
    now: Duration,
    rng: Xoshiro256PlusPlus,
    /// Of losses alone, so that others' bursts are the same with them.
    losses: Xoshiro256PlusPlus,
    /// Until when chunks of the straggler are held back.
    held: HashMap<u32, Duration>,
    buffer: Vec<u8>,
    out: Vec<(u16, Vec<u8>)>,
}

/// What every rank of the job is admitted with.
fn admission(job: &JobSetup, config: &RacksConfig) -> Admission {
    Admission {
        first_chunk: job.first_chunk,
        congestion: config.congestion,
        ..Admission::new((job.job, job.epoch, job.key), job.slots, LANE_WORDS, job.full())
    }
}

impl Racks {
    /// An idle fabric.
    ///
    /// # Errors
    ///
    /// When the queues cannot be so.
    ///
    /// # Panics
    ///
    /// When the job does not fit a switch or a worker.
    pub fn new(config: RacksConfig) -> Result<Self, QueueConfigError> {
        let world = config.hosts * RACKS as u16;
        let job = JobSetup {
            job: 1,
            epoch: 1,
            key: 1,
            base: 0,
            slots: config.slots,
            first_chunk: 1,
            held: 0,
            ports: (0..world).collect(),
            behind: vec![None; usize::from(world)],
            parent: None,
            rank: 0,
            workers: world,
            world,
        };
        let admission = admission(&job, &config);
        let importance = Importance::new(config.importance, CLASSES_MAX).unwrap_or(Importance::NONE);
        let rank = |rank: u16| {
            let mut own =
                WorkerConfig::new(Admission { own_bit: 1 << rank, ..admission.clone() }, rank, world);
            // By default what fits round trips of a tenth of a millisecond.
            (own.rto_min, own.rto_initial) = (config.rto_min, config.rto_min * 4);
            Rank {
                worker: Worker::new(own).expect("a job that a worker can run"),
                tensors: Tensors::new(Lanes::Bfp16, world, importance),
                free_at: Duration::ZERO,
                deadline: None,
                done: 0,
            }
        };
        let queues = || (0..RACKS).map(|_| queue(&config)).collect::<Result<Vec<_>, _>>();
        let mut racks = Self {
            ranks: (0..world).map(rank).collect(),
            switch: PipelineSwitch::new(LANE_WORDS, std::slice::from_ref(&job)).expect("a generated size"),
            up: queues()?,
            down: queues()?,
            due: [[None; 2]; RACKS],
            event_queue: BinaryHeap::new(),
            serial: 0,
            now: Duration::ZERO,
            rng: Xoshiro256PlusPlus::seed_from_u64(config.seed),
            losses: Xoshiro256PlusPlus::seed_from_u64(config.seed ^ 0x1055),
            held: HashMap::new(),
            buffer: vec![0; PACKET],
            out: Vec::new(),
            config,
        };
        if config.others > 0.0 {
            (0..RACKS).for_each(|rack| racks.plan_burst(rack));
        }
        Ok(racks)
    }

    /// Ranks.
    pub fn world(&self) -> usize {
        self.ranks.len()
    }

    /// Counters of the queues of each uplink, up.
    pub fn uplinks(&self) -> Vec<QueuesCounters> {
        self.up.iter().map(Queues::counters).collect()
    }

    /// Sums tensors over all ranks, all submitted now and in this order: `step` has each rank's, and gets the sums. The clock then
    /// goes on by `pause`, in which ranks do something else.
    pub fn all_reduce(&mut self, step: &mut Step, pause: Duration) -> StepReport {
        let began = self.now;
        let before: Vec<_> = self.ranks.iter().map(|rank| *rank.worker.stats()).collect();
        let tensors = step.tensors();
        for index in 0..self.ranks.len() {
            let rank = &mut self.ranks[index];
            rank.done = 0;
            for spec in rank.tensors.begin(index, step, self.config.tolerance) {
                rank.worker.submit(spec).expect("few operations at a time");
            }
            self.poll(index);
        }
        while self.ranks.iter().any(|rank| rank.done < tensors) {
            self.next();
        }
        let mut taken = StepReport { elapsed: self.now - began, ..StepReport::default() };
        for (index, (rank, before)) in self.ranks.iter_mut().zip(before).enumerate() {
            let stats = rank.worker.stats();
            taken.retransmitted += stats.retransmitted - before.retransmitted;
            let left_out = stats.left_out - before.left_out;
            taken.left_out += left_out;
            taken.most_left_out = taken.most_left_out.max(left_out);
            taken.closed = stats.closed - before.closed;
            taken.round_trip = taken.round_trip.max(stats.rtt_smoothed);
            taken.chunks += rank.tensors.end(index, step);
        }
        self.now += pause;
        taken
    }

    fn plan(&mut self, at: Duration, what: SimEvent) {
        self.serial += 1;
        self.event_queue.push(Reverse((at, self.serial, what)));
    }

    /// The next burst of other traffic, at a time from the exponential distribution.
    fn plan_burst(&mut self, rack: usize) {
        let bits = (self.config.burst as usize * PACKET * 8) as f64;
        let mean = bits / (self.config.others * self.config.uplink_rate as f64);
        let wait = -mean * (1.0 - self.rng.random::<f64>()).ln();
        self.plan(self.now + Duration::from_secs_f64(wait), SimEvent::Burst(rack));
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now.as_nanos() as u64)
    }

    /// Plays a worker's deadline or what is next on the agenda.
    fn next(&mut self) {
        let deadlines =
            self.ranks.iter().enumerate().filter_map(|(index, rank)| Some((rank.deadline?, index)));
        let deadline = deadlines.min().map(|(at, index)| (Duration::from_nanos(at.as_nanos()), index));
        let next = self.event_queue.peek().map(|Reverse((at, ..))| *at);
        if let Some((at, index)) = deadline.filter(|(at, _)| next.is_none_or(|next| *at < next)) {
            self.now = self.now.max(at);
            let now = self.instant();
            self.ranks[index].worker.handle_timeout(now);
            self.poll(index);
        } else if let Some(Reverse((at, _, what))) = self.event_queue.pop() {
            self.now = self.now.max(at);
            self.handle_event(what);
        } else {
            unreachable!("a rank that waits has a deadline");
        }
    }

    fn handle_event(&mut self, what: SimEvent) {
        match what {
            SimEvent::AtRack(rack, bytes) => {
                self.up[rack].enqueue(0, &bytes);
                self.serve(rack, true);
            }
            SimEvent::Burst(rack) => {
                let mut bytes = vec![0; PACKET];
                let mut packet = Packet::new_unchecked(&mut bytes[..]);
                packet.set_kind_raw(Kind::Result as u8);
                packet.set_job(OTHERS);
                packet.set_version(netfold_wire::VERSION);
                packet.set_class(CLASSES_MAX - 1);
                for _ in 0..self.config.burst {
                    self.up[rack].enqueue(0, &bytes);
                }
                self.serve(rack, true);
                self.plan_burst(rack);
            }
            SimEvent::Serve(rack, up) => self.serve(rack, up),
            SimEvent::AtSwitch(port, bytes) => self.at_switch(port, &bytes),
            SimEvent::AtHosts(rack, bytes) => {
                let hosts = usize::from(self.config.hosts);
                let packet = Packet::new_unchecked(&bytes[..]);
                match packet.kind() == Kind::Heard as u8 {
                    true => self.at_host(packet.count().into(), &bytes),
                    false => (rack * hosts..(rack + 1) * hosts).for_each(|index| self.at_host(index, &bytes)),
                }
            }
        }
    }

    /// Sends what a queue may send now, and comes back when it may send more.
    fn serve(&mut self, rack: usize, up: bool) {
        let (now, arrives) = (self.now, self.now + self.config.wire);
        loop {
            let queues = if up { &mut self.up[rack] } else { &mut self.down[rack] };
            let Some(departure) = queues.dequeue(now) else { break };
            let bytes = queues.bytes(&departure).to_vec();
            queues.release(departure);
            let packet = Packet::new_unchecked(&bytes[..]);
            let others = packet.job() == OTHERS;
            // Which rank it is from: of DATA its bit is its number here, and no switch reads that; of CLOSE, `count` is.
            let closes = packet.kind() == Kind::Close as u8;
            let rank = if closes { packet.count() } else { packet.bitmap().trailing_zeros() as u16 };
            match (others, up) {
                (true, _) => {}
                (false, true) => self.plan(arrives, SimEvent::AtSwitch(rank, bytes)),
                (false, false) => self.plan(arrives, SimEvent::AtHosts(rack, bytes)),
            }
        }
        let queues = if up { &self.up[rack] } else { &self.down[rack] };
        let Some(at) = queues.ready_at() else { return };
        let at = at.max(now + Duration::from_nanos(1));
        let due = &mut self.due[rack][usize::from(up)];
        if due.is_none_or(|due| due <= now || at < due) {
            *due = Some(at);
            self.plan(at, SimEvent::Serve(rack, up));
        }
    }

    fn at_switch(&mut self, port: u16, bytes: &[u8]) {
        let mut out = std::mem::take(&mut self.out);
        self.switch.process(port, bytes, &mut out);
        let mut served = [false; RACKS];
        for (to, mut bytes) in out.drain(..) {
            let rack = usize::from(to / self.config.hosts);
            let mut packet = Packet::new_unchecked(&mut bytes[..]);
            if packet.kind() == Kind::Heard as u8 {
                // For one rank, whose number no worker reads.
                packet.set_count(to);
            }
            // One copy a rack.
            if !std::mem::replace(&mut served[rack], true) {
                self.down[rack].enqueue(0, &bytes);
                self.serve(rack, false);
            }
        }
        self.out = out;
    }

    /// Whether a packet to or from a host is lost on its link.
    fn loses(&mut self, index: usize) -> bool {
        index == 0 && self.config.loss > 0.0 && self.losses.random::<f64>() < self.config.loss
    }

    fn at_host(&mut self, index: usize, bytes: &[u8]) {
        if self.loses(index) {
            return;
        }
        let now = self.instant();
        let Rank { worker, tensors, .. } = &mut self.ranks[index];
        worker.handle_packet(now, bytes, tensors);
        self.poll(index);
    }

    /// Sends what a rank has to send, one packet after the other, and takes note of what is done.
    fn poll(&mut self, index: usize) {
        let now = self.instant();
        let rack = index / usize::from(self.config.hosts);
        loop {
            let Rank { worker, tensors, free_at, .. } = &mut self.ranks[index];
            let Some(len) = worker.poll_transmit(now, &mut self.buffer, tensors) else { break };
            let takes = Duration::from_nanos(len as u64 * 8_000_000_000 / self.config.host_rate);
            *free_at = (*free_at).max(self.now) + takes;
            let (at, mut bytes) = (*free_at + self.config.wire, self.buffer[..len].to_vec());
            let mut packet = Packet::new_unchecked(&mut bytes[..]);
            if packet.kind() == Kind::Close as u8 {
                packet.set_count(index as u16);
            }
            let at = at.max(self.held_until(index, &bytes));
            if !self.loses(index) {
                self.plan(at, SimEvent::AtRack(rack, bytes));
            }
        }
        let Rank { worker, deadline, done, .. } = &mut self.ranks[index];
        while let Some(event) = worker.poll_event() {
            assert!(matches!(event, WorkerEvent::OpDone(_)), "rank {index}: {event:?}");
            *done += 1;
        }
        *deadline = worker.next_deadline();
    }
}

impl Racks {
    /// Until when a packet is held back at its host: retransmissions of a delayed chunk arrive no sooner.
    fn held_until(&mut self, index: usize, bytes: &[u8]) -> Duration {
        let packet = Packet::new_unchecked(bytes);
        let whole = packet.kind() == Kind::Data as u8 && !packet.flags().contains(Flags::BARE);
        let Some(Straggler { fraction, by, .. }) =
            self.config.straggler.filter(|straggler| usize::from(straggler.rank) == index && whole)
        else {
            return Duration::ZERO;
        };
        let (now, rng) = (self.now, &mut self.rng);
        *self
            .held
            .entry(packet.chunk())
            .or_insert_with(|| if rng.random_bool(fraction) { now + by } else { now })
    }
}

fn queue(config: &RacksConfig) -> Result<Queues, QueueConfigError> {
    let class = ClassConfig {
        bytes_max: config.queue_bytes,
        trim_above: config.trim_above,
        ecn: config.mark_above.map(|bytes| Ecn { k_min: bytes, k_max: bytes, p_max: 1.0 }),
        ..ClassConfig::default()
    };
    let rate = Rate { bits_per_second: config.uplink_rate, burst_bytes: PACKET as u32 };
    let port = PortConfig { rate: Some(rate), ..PortConfig::strict(config.importance, &class) };
    Queues::new(&QueueConfig { port, ..QueueConfig::default() }, PACKET)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(world: usize, len: usize, salt: u64) -> Step {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(salt);
        let mut tensor = || (0..len).map(|_| rng.random_range(-1.0f32..1.0)).collect::<Vec<_>>();
        Step::new((0..world).map(|_| vec![tensor(), tensor()]).collect(), false)
    }

    #[test]
    fn sums_are_right_and_the_same_seed_does_the_same() {
        let config = RacksConfig { others: 0.3, ..RacksConfig::default() };
        let play = || {
            let mut racks = Racks::new(config).unwrap();
            let mut step = step(racks.world(), 40_000, 3);
            let exact: Vec<f64> =
                (0..40_000).map(|at| step.inputs().iter().map(|rank| f64::from(rank[1][at])).sum()).collect();
            let taken = racks.all_reduce(&mut step, Duration::ZERO);
            let worst = step.sums()[1].iter().zip(exact).map(|(sum, want)| (f64::from(*sum) - want).abs());
            (taken, worst.fold(0.0, f64::max))
        };
        let (taken, worst) = play();
        println!("{taken:?}, off by {worst} at most");
        assert!(worst < 8.0 * 8.0 / 32768.0, "{worst}");
        assert_eq!(taken.left_out, 0);
        assert_eq!(play(), (taken, worst));
        // Four hosts share an uplink: no step is faster than that.
        let bits = f64::from(taken.chunks as u32) / 2.0 * PACKET as f64 * 8.0;
        assert!(taken.elapsed.as_secs_f64() > bits / 1e9, "{taken:?}");
    }

    /// Blocks of which each is larger or smaller than the others, by powers of two, on all ranks alike.
    fn uneven_step(world: usize, blocks: usize, salt: u64) -> Step {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(salt);
        let scales: Vec<f32> = (0..blocks).map(|_| 2f32.powi(-rng.random_range(0..24))).collect();
        let mut tensor = || {
            let values = scales.iter().flat_map(|scale| std::iter::repeat_n(*scale, 2 * LANE_WORDS as usize));
            values.map(|scale| scale * rng.random_range(-1.0f32..1.0)).collect::<Vec<_>>()
        };
        Step::new((0..world).map(|_| vec![tensor()]).collect(), false)
    }

    #[test]
    fn importance_changes_the_order_of_chunks_and_neither_sums_nor_what_is_deemed_lost() {
        for seed in 0..6 {
            let play = |importance| {
                let config = RacksConfig {
                    queue_bytes: 400_000,
                    slots: 16,
                    importance,
                    seed,
                    ..RacksConfig::default()
                };
                let mut racks = Racks::new(config).expect("valid queues");
                let (mut sums, mut retransmitted) = (Vec::new(), 0);
                for salt in 0..4 {
                    let mut step = uneven_step(racks.world(), 300, 100 * seed + salt);
                    retransmitted += racks.all_reduce(&mut step, Duration::ZERO).retransmitted;
                    sums.push(step.into_parts().0);
                }
                let queues: Vec<_> = racks.uplinks().iter().flat_map(|up| up.queues.clone()).collect();
                (sums, retransmitted, queues)
            };
            let (one, before, _) = play(1);
            for importance in [2, 8] {
                let (many, retransmitted, queues) = play(importance);
                println!("seed {seed}, {importance} classes: {before} and {retransmitted} retransmitted");
                assert!(retransmitted <= before + 10, "seed {seed}, {importance} classes");
                assert_eq!(many, one, "seed {seed}: sums do not depend on classes");
                assert_eq!(
                    queues.len(),
                    RACKS * usize::from(importance),
                    "every class has chunks: {queues:?}"
                );
                assert!(queues.iter().all(|(.., queue)| queue.dropped == 0 && queue.held_bytes == 0));
            }
        }
    }

    #[test]
    fn trimming_leaves_contributions_out_within_bounds() {
        let config = RacksConfig { others: 0.3, ..RacksConfig::default() };
        let tolerance = Tolerance::fraction(0.05).unwrap();
        let trimming = RacksConfig { trim_above: Some(30_000), tolerance, ..config };
        let [exact, trimmed] = [config, trimming].map(|config| {
            let mut racks = Racks::new(config).unwrap();
            let mut all = StepReport::default();
            for salt in 0..10 {
                let mut step = step(racks.world(), 40_000, salt);
                let taken = racks.all_reduce(&mut step, Duration::from_millis(1));
                all.elapsed += taken.elapsed;
                all.left_out += taken.left_out;
                all.chunks += taken.chunks;
                assert!(taken.left_out as f64 <= 0.05 * taken.chunks as f64);
            }
            all
        });
        println!("{exact:#?} {trimmed:#?}");
        assert!(exact.left_out == 0 && trimmed.left_out > 0);
    }
}
