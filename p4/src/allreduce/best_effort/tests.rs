//! Two jobs whose workers send through one switch to an aggregator, over links that lose, repeat and reorder packets.

mod trees;

use std::sync::Arc;

use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IteratorRandom as _;
use rand::{RngExt, SeedableRng};

use crate::allreduce::{
    self, Child, Node, Parent, aggregator_entries, controller_entry, id, shared_job_entries,
    shared_node_entries,
};
use crate::entry::TableEntry;
use crate::interpret::{Interpreter, Send};
use crate::p4info;
use crate::profile::{Encapsulation, Profile};

const LANES: u32 = 8;

/// Slots of each job. At the switch they are the same ones.
const SLOTS: u32 = 2;

/// The switch's port to the aggregator, and the aggregator's to the switch.
const UP: u16 = 90;
const DOWN: u16 = 1;

/// The multicast group to the aggregator of job 0; that of job 1 is the next, and so on.
const UP_GROUP: u16 = 10;

const CONTROLLER: u16 = 99;

fn profile() -> Profile {
    let encapsulation = Encapsulation::Datagram;
    let small =
        Profile { lane_words: LANES, slots: 16, jobs: 4, workers: 4, ecn_depth: 0, ..Profile::hardware() };
    Profile { encapsulation, ops: vec![LaneOp::Sum, LaneOp::Max], ..small.for_best_effort() }
}

/// A job at the switch, and at the aggregator.
fn nodes(job: u16, workers: u8) -> [Node; 2] {
    let parent = Parent { port: UP, source: 0, group: UP_GROUP + job, rank: 0 };
    let at_switch = Node {
        job,
        epoch: 70 + u32::from(job),
        key: 0xdead_0000 + u32::from(job),
        base: 4,
        slots: SLOTS,
        children: workers,
        workers: workers.into(),
        world: workers.into(),
        group: job,
        parent: Some(parent),
        shift: None,
        bounded_loss: false,
        owners: false,
    };
    [at_switch, Node { base: u32::from(job) * SLOTS, parent: None, ..at_switch }]
}

fn port(job: u16, worker: u8) -> u16 {
    10 * job + u16::from(worker)
}

fn child(port: u16, rank: u8) -> Child {
    Child { port, source: 0, rank, behind: None }
}

fn switches(workers: [u8; 2]) -> [Interpreter; 2] {
    let program = Arc::new(allreduce::program(&profile()).expect("the profile is valid"));
    let [mut switch, mut aggregator] =
        [(); 2].map(|()| Interpreter::new(Arc::clone(&program)).expect("the program is valid"));
    let insert = |at: &mut Interpreter, entries: Vec<_>| {
        entries.iter().for_each(|entry| at.insert(entry).expect("the entry is the program's"));
    };
    for at in [&mut switch, &mut aggregator] {
        insert(at, [Kind::Advance, Kind::Probe].map(|kind| controller_entry(CONTROLLER, kind)).into());
    }
    for (job, workers) in (1..).zip(workers) {
        let [at_switch, at_aggregator] = nodes(job, workers);
        insert(&mut switch, shared_node_entries(&at_switch));
        for rank in 0..workers {
            insert(&mut switch, shared_job_entries(&at_switch, &child(port(job, rank), rank)));
        }
        insert(&mut aggregator, aggregator_entries(&at_aggregator, &child(DOWN, 0)));
    }
    [switch, aggregator]
}

/// A packet of a job's slot, and its lanes.
fn packet(job: u16, workers: u8, slot: u16, round: u32, lanes: &[u32]) -> Vec<u8> {
    let [Node { epoch, key, .. }, _] = nodes(job, workers);
    let chunk = FIRST.wrapping_add(u32::from(slot) + SLOTS * round);
    let repr = Repr {
        kind: Kind::Data,
        flags: if lanes.is_empty() { Flags::BARE } else { Flags::default() },
        op: LaneOp::Sum,
        class: 0,
        reason: Reason::None,
        job,
        slot,
        set: (round % 2) as u8,
        epoch,
        key,
        chunk,
        bitmap: 0,
        count: 1,
        exp: 0,
        exp_next: lanes.first().map_or(0, |lane| (lane % 200) as u8),
        owner: LaneOwner::All,
    };
    emitted(&repr, lanes)
}

fn emitted(repr: &Repr, lanes: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; header::LEN + lanes.len() * 4];
    repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
    for (bytes, lane) in bytes[header::LEN..].chunks_exact_mut(4).zip(lanes) {
        bytes.copy_from_slice(&lane.to_be_bytes());
    }
    bytes
}

fn read(bytes: &[u8]) -> (Repr, Vec<u32>) {
    let repr = Repr::parse(&Packet::new_unchecked(bytes)).expect("switches send valid headers");
    let lanes = bytes[header::LEN..].chunks_exact(4).map(|lane| u32::from_be_bytes(lane.try_into().unwrap()));
    (repr, lanes.collect())
}

/// First chunk number of both jobs: it passes the end of serial numbers.
const FIRST: u32 = u32::MAX - 3;

/// Where a packet arrives.
#[derive(Debug, Clone, Copy)]
enum At {
    Switch(u16),
    Aggregator,
    Worker(u16, u8),
}

struct Network {
    rng: Xoshiro256PlusPlus,
    switch: Interpreter,
    aggregator: Interpreter,
    workers: [u8; 2],
    rounds: u32,
    /// Round of each slot that a worker waits for, by job, worker and slot.
    waits: Vec<Vec<[u32; SLOTS as usize]>>,
    under_way: Vec<(At, Vec<u8>)>,
    /// Packets that reached the aggregator.
    up: usize,
    loss: f64,
    /// How often a timer of a worker expires while packets are under way; none do otherwise either if this is 0.
    timeouts: f64,
}

impl Network {
    fn new(seed: u64, workers: [u8; 2], rounds: u32, loss: f64) -> Self {
        let [switch, aggregator] = switches(workers);
        let waits = workers.iter().map(|count| vec![[0; SLOTS as usize]; usize::from(*count)]).collect();
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut network = Self {
            rng,
            switch,
            aggregator,
            workers,
            rounds,
            waits,
            under_way: Vec::new(),
            up: 0,
            loss,
            timeouts: 0.02,
        };
        network.advance();
        network
    }

    /// The controller moves the aggregator's slots to just before the first chunks. The switch's need nothing.
    fn advance(&mut self) {
        for job in 1..=2u16 {
            for index in 0..2 * SLOTS {
                let place = ((2 * SLOTS * u32::from(job) + index) as u16 / 2, (index % 2) as u8);
                // In steps, because a newer number is less than 2^31 ahead.
                for chunk in [FIRST / 3, FIRST / 3 * 2, FIRST - 1] {
                    self.aggregator.process(CONTROLLER, &advance_to(place, 0, chunk));
                }
            }
        }
    }

    fn lanes(job: u16, worker: u8, slot: usize, round: u32) -> Vec<u32> {
        let base = (u32::from(job) * 7919 + u32::from(worker) * 104_729 + slot as u32 * 31)
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(round);
        (0..LANES).map(|lane| base.wrapping_mul(lane + 1)).collect()
    }

    fn send(&mut self, at: At, bytes: Vec<u8>) {
        if !self.rng.random_bool(self.loss) {
            self.under_way.push((at, bytes));
        }
    }

    /// A worker sends what a slot waits for, once more or for the first time.
    fn contribute(&mut self, job: u16, worker: u8, slot: usize, again: bool) {
        let round = self.waits[usize::from(job) - 1][usize::from(worker)][slot];
        if round >= self.rounds {
            return;
        }
        let lanes = Self::lanes(job, worker, slot, round);
        let mut bytes = packet(job, self.workers[usize::from(job) - 1], slot as u16, round, &lanes);
        if again {
            let mut header = Packet::new_unchecked(&mut bytes[..]);
            header.set_flags(header.flags().with(Flags::RESEND));
        }
        self.send(At::Switch(port(job, worker)), bytes);
    }

    /// Delivers a packet.
    fn deliver(&mut self, at: At, bytes: &[u8]) {
        let outcome = match at {
            At::Switch(port) => self.switch.process(port, bytes),
            At::Aggregator => {
                self.up += 1;
                self.aggregator.process(DOWN, bytes)
            }
            At::Worker(job, worker) => return self.result(job, worker, bytes),
        };
        let job = read(bytes).0.job;
        match (at, outcome.send) {
            (_, Send::Drop) => {}
            (At::Switch(_), Send::Multicast(group)) if group == UP_GROUP + job => {
                self.send(At::Aggregator, outcome.bytes);
            }
            (At::Switch(_), Send::Multicast(group)) => {
                assert_eq!(group, job);
                for worker in 0..self.workers[usize::from(job) - 1] {
                    self.send(At::Worker(job, worker), outcome.bytes.clone());
                }
            }
            (At::Aggregator, Send::Unicast(DOWN) | Send::Multicast(_)) => {
                self.send(At::Switch(UP), outcome.bytes);
            }
            (at, send) => panic!("{send:?} at {at:?}"),
        }
    }

    fn result(&mut self, job: u16, worker: u8, bytes: &[u8]) {
        let (repr, lanes) = read(bytes);
        let slot = usize::from(repr.slot);
        let wait = self.waits[usize::from(job) - 1][usize::from(worker)][slot];
        let chunk = FIRST.wrapping_add(slot as u32 + SLOTS * wait);
        if repr.kind != Kind::Result || repr.chunk != chunk {
            return;
        }
        let workers = self.workers[usize::from(job) - 1];
        let all = (0..workers).map(|worker| Self::lanes(job, worker, slot, wait));
        let sum = all.reduce(|a, b| a.iter().zip(b).map(|(a, b)| a.wrapping_add(b)).collect()).unwrap();
        assert_eq!(lanes, sum, "job {job}, slot {slot}, round {wait}");
        assert_eq!((repr.bitmap, repr.count), ((1 << workers) - 1, u16::from(workers)));
        self.waits[usize::from(job) - 1][usize::from(worker)][slot] += 1;
        self.contribute(job, worker, slot, false);
    }

    fn finished(&self) -> bool {
        self.waits.iter().flatten().flatten().all(|round| *round >= self.rounds)
    }

    fn run(&mut self, jobs: &[u16]) {
        for job in jobs {
            for worker in 0..self.workers[usize::from(*job) - 1] {
                (0..SLOTS as usize).for_each(|slot| self.contribute(*job, worker, slot, false));
            }
        }
        for _ in 0..100_000 {
            if jobs.len() == 2 && self.finished() {
                return;
            }
            if self.under_way.is_empty() || self.rng.random_bool(self.timeouts) {
                if jobs.len() == 1 && self.under_way.is_empty() {
                    return;
                }
                assert!(self.timeouts > 0.0, "a worker waits for a retransmission: {:?}", self.waits);
                // Some worker's timer expires.
                let job = *jobs.iter().choose(&mut self.rng).unwrap();
                let worker = self.rng.random_range(0..self.workers[usize::from(job) - 1]);
                let slot = self.rng.random_range(0..SLOTS as usize);
                self.contribute(job, worker, slot, true);
                continue;
            }
            // Packets overtake each other, and come twice.
            let at = self.rng.random_range(0..self.under_way.len().min(6));
            let (to, bytes) = self.under_way[at].clone();
            if self.loss == 0.0 || self.rng.random_bool(0.9) {
                self.under_way.remove(at);
            }
            self.deliver(to, &bytes);
        }
        panic!("it does not end: {:?}", self.waits);
    }

    fn spilled(&self, job: u16) -> u64 {
        self.switch.counters(p4info::counter_id(id::SPILLED))[usize::from(UP_GROUP + job)]
    }
}

#[test]
fn jobs_that_share_slots_get_exact_sums_over_lossy_links() {
    let (mut spilled, mut up) = (0, 0);
    for seed in 0..60 {
        let workers = [1 + (seed % 4) as u8, 1 + (seed / 4 % 4) as u8];
        let mut network = Network::new(seed, workers, 12, 0.1);
        network.run(&[1, 2]);
        spilled += network.spilled(1) + network.spilled(2);
        up += network.up;
    }
    assert!(spilled > 1000, "{spilled}");
    println!("{up} packets reached the aggregator, {spilled} contributions were spilled");
}

/// Where nothing is lost: a contribution that takes a slot waits for none that was spilled.
#[test]
fn no_chunk_waits_for_a_retransmission_over_reliable_links() {
    let mut spilled = 0;
    for seed in 0..40 {
        let workers = [2 + (seed % 3) as u8, 2 + (seed / 3 % 3) as u8];
        let mut network = Network::new(seed, workers, 30, 0.0);
        network.timeouts = 0.0;
        // Turns that earlier jobs have left.
        let turns = [0, u32::MAX, 0x5555_5555][(seed % 3) as usize];
        (0..32).for_each(|index| assert!(network.switch.write_register("turns", index, &[turns])));
        network.run(&[1, 2]);
        spilled += network.spilled(1) + network.spilled(2);
    }
    println!("{spilled} contributions were spilled");
    assert!(spilled > 1000, "{spilled}");
}

/// The slot of a chunk whose first contribution was spilled is free, and for other chunks only.
#[test]
fn the_first_contribution_to_a_chunk_decides_for_all() {
    let [mut switch, _] = switches([2, 3]);
    let lanes = Network::lanes(1, 0, 0, 0);
    let send = |switch: &mut Interpreter, job: u16, rank, round| {
        let workers = [2, 3][usize::from(job) - 1];
        switch.process(port(job, rank), &packet(job, workers, 0, round, &lanes)).send
    };
    let up = |job| Send::Multicast(UP_GROUP + job);
    assert_eq!(send(&mut switch, 1, 0, 0), Send::Drop, "it takes the slot");
    assert_eq!(send(&mut switch, 2, 0, 0), up(2), "the other job's does not");
    assert_eq!(send(&mut switch, 1, 1, 0), up(1), "the sum of the first job");
    release(&mut switch, 71);
    for rank in [1, 2] {
        assert_eq!(send(&mut switch, 2, rank, 0), up(2), "no more do further ones to the chunk");
    }
    assert_eq!(send(&mut switch, 2, 1, 2), Send::Drop, "the next chunk of the slot and set takes it");
}

#[test]
fn a_job_alone_finds_all_slots() {
    let mut network = Network::new(1, [4, 1], 10, 0.0);
    // No timer of a worker expires before the end.
    network.loss = 0.0;
    for worker in 0..4 {
        (0..SLOTS as usize).for_each(|slot| network.contribute(1, worker, slot, false));
    }
    while !network.under_way.is_empty() {
        let (to, bytes) = network.under_way.remove(0);
        network.deliver(to, &bytes);
    }
    assert_eq!(network.spilled(1), 0);
    assert_eq!(network.up, 10 * SLOTS as usize, "one packet for each chunk");
    assert!(network.waits[0].iter().flatten().all(|round| *round == 10));
    let occupied = (0..32).filter(|index| network.switch.read_register("occupant", *index) != Some(&[0]));
    assert_eq!(occupied.count(), 0, "results release all slots");
}

/// What the switch holds can be taken away.
#[test]
fn the_controller_releases_the_slots_of_an_epoch() {
    let mut network = Network::new(1, [2, 2], 1, 0.0);
    let lanes = Network::lanes(1, 0, 0, 0);
    let data = packet(1, 2, 0, 0, &lanes);
    assert_eq!(network.switch.process(port(1, 0), &data).send, Send::Drop, "it waits for the other worker's");
    let other = packet(2, 2, 0, 0, &lanes);
    assert_eq!(
        network.switch.process(port(2, 0), &other).send,
        Send::Multicast(UP_GROUP + 2),
        "the slot is taken"
    );
    for (epoch, round, send) in [(72, 2, Send::Multicast(UP_GROUP + 2)), (71, 4, Send::Drop)] {
        release(&mut network.switch, epoch);
        let next = packet(2, 2, 0, round, &lanes);
        assert_eq!(network.switch.process(port(2, 0), &next).send, send, "released for epoch {epoch}");
    }
}

/// An ADVANCE of a set of a slot to a chunk, or of the set that an epoch occupies.
fn advance_to(place: (u16, u8), epoch: u32, chunk: u32) -> Vec<u8> {
    emitted(&Repr { epoch, ..Repr::from_controller(Kind::Advance, place, chunk) }, &[])
}

/// The controller releases the first slot of both jobs at the switch, set 0, if an epoch occupies it.
fn release(switch: &mut Interpreter, epoch: u32) {
    switch.process(CONTROLLER, &advance_to((4, 0), epoch, FIRST));
}

#[test]
fn an_aggregator_refuses_packets_that_name_neither_one_contributor_nor_all() {
    let mut network = Network::new(1, [3, 1], 1, 0.0);
    let lanes = Network::lanes(1, 0, 0, 0);
    let named = |bitmap| {
        let mut bytes = packet(1, 3, 0, 0, &lanes);
        Packet::new_unchecked(&mut bytes[..]).set_bitmap(bitmap);
        bytes
    };
    let unexpected = |network: &Network| {
        network.aggregator.counters(p4info::counter_id(id::PACKETS))[Reason::Unexpected as usize]
    };
    for (count, bitmap) in (1..).zip([0, 0b011, 0b101, 0b1000]) {
        assert_eq!(network.aggregator.process(DOWN, &named(bitmap)).send, Send::Drop, "{bitmap:b}");
        assert_eq!(unexpected(&network), count, "{bitmap:b}");
    }
    assert_eq!(network.aggregator.process(DOWN, &named(0b001)).send, Send::Drop);
    assert_eq!(network.aggregator.process(DOWN, &named(0b010)).send, Send::Drop);
    // All contributions, two of which are there already.
    let outcome = network.aggregator.process(DOWN, &named(0b111));
    assert_eq!(outcome.send, Send::Multicast(1));
    let (repr, sum) = read(&outcome.bytes);
    assert_eq!((repr.kind, repr.bitmap, sum), (Kind::Result, 0b111, lanes.clone()));
    // From then on the result is repeated, whichever is named.
    for bitmap in [0b001, 0b100, 0b111] {
        let outcome = network.aggregator.process(DOWN, &named(bitmap));
        assert_eq!((outcome.send, read(&outcome.bytes).1), (Send::Unicast(DOWN), lanes.clone()));
    }
    assert_eq!(unexpected(&network), 4);
}
