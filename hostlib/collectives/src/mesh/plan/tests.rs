//! Plans against a direct model: all ranks' plans run in one process, their messages cut and interleaved at random, and the
//! outputs are compared with each collective's definition.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::Extent;

/// Bytes of an element in the model: a wrapping sum of u16.
const ELEMENT: usize = 2;

struct Rank {
    plan: MeshPlan,
    in_place: bool,
    input_at: usize,
    output_at: usize,
    input: Vec<u8>,
    output: Vec<u8>,
    scratch: Vec<u8>,
    sent: Vec<usize>,
    sent_done: Vec<bool>,
    arrived: Vec<usize>,
    arrived_done: Vec<bool>,
}

impl Rank {
    fn memory(&mut self, offset: Offset) -> (&mut Vec<u8>, usize) {
        match offset.area {
            Area::Scratch => (&mut self.scratch, offset.at),
            Area::Input if !self.in_place => (&mut self.input, offset.at),
            Area::Input => (&mut self.output, offset.at + self.input_at),
            Area::Output => (&mut self.output, offset.at + self.output_at),
        }
    }

    fn read(&mut self, offset: Offset, from: usize, len: usize) -> Vec<u8> {
        let (memory, at) = self.memory(offset);
        memory[at + from..at + from + len].to_vec()
    }

    fn write(&mut self, offset: Offset, from: usize, bytes: &[u8]) {
        let (memory, at) = self.memory(offset);
        memory[at + from..at + from + bytes.len()].copy_from_slice(bytes);
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
}

/// A direction of a link: bytes, and ends of messages.
#[derive(Default)]
struct Wire {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
}

struct Model {
    ranks: Vec<Rank>,
    /// A rank that has not begun.
    absent: Option<usize>,
    /// `wires[from][to]`.
    wires: Vec<Vec<Wire>>,
    random: SmallRng,
    folds: Vec<usize>,
}

impl Model {
    /// Sends a piece of the first unfinished message from one rank to another.
    fn send(&mut self, from: usize, to: usize) -> bool {
        if self.absent == Some(from) {
            return false;
        }
        let rank = &mut self.ranks[from];
        let next = (0..rank.plan.sends.len())
            .find(|index| usize::from(rank.plan.sends[*index].to) == to && !rank.sent_done[*index]);
        let Some(index) = next else { return false };
        let send = rank.plan.sends[index];
        let (open, end) = rank.open(send.after, send.len);
        let ready = (open - rank.sent[index]) / ELEMENT;
        if ready == 0 && !(send.len == 0 && end) {
            return false;
        }
        let len = if ready == 0 { 0 } else { self.random.random_range(1..=ready) * ELEMENT };
        let piece = rank.read(send.from, rank.sent[index], len);
        rank.sent[index] += len;
        rank.sent_done[index] = rank.sent[index] == send.len;
        let wire = &mut self.wires[from][to];
        wire.bytes += len;
        wire.pieces.push_back(piece);
        true
    }

    /// Takes the next piece from a link.
    fn arrive(&mut self, from: usize, to: usize) -> bool {
        if self.absent == Some(to) {
            return false;
        }
        let rank = &mut self.ranks[to];
        let wire = &mut self.wires[from][to];
        let Some(piece) = wire.pieces.front_mut() else { return false };
        let index = (0..rank.plan.arrivals.len())
            .find(|index| usize::from(rank.plan.arrivals[*index].from) == from && !rank.arrived_done[*index])
            .expect("every message is expected");
        let arrival = rank.plan.arrivals[index];
        let (open, end) = rank.open(arrival.after, arrival.len);
        let done = rank.arrived[index];
        let len = piece.len().min(open - done) / ELEMENT * ELEMENT;
        if len == 0 && !(piece.is_empty() && end) {
            return false;
        }
        let mut bytes: Vec<u8> = piece.drain(..len).collect();
        if piece.is_empty() {
            wire.pieces.pop_front();
        }
        if let Some(with) = arrival.with {
            for (a, b) in bytes.chunks_mut(ELEMENT).zip(rank.read(with, done, len).chunks(ELEMENT)) {
                let sum = u16::from_ne_bytes([a[0], a[1]]).wrapping_add(u16::from_ne_bytes([b[0], b[1]]));
                a.copy_from_slice(&sum.to_ne_bytes());
            }
        }
        if arrival.last {
            self.folds[to] += len;
        }
        rank.write(arrival.into, done, &bytes);
        rank.arrived[index] += len;
        rank.arrived_done[index] = rank.arrived[index] == arrival.len;
        true
    }

    fn run(&mut self) {
        let n = self.ranks.len();
        for rank in &mut self.ranks {
            for (from, into, len) in rank.plan.copies.clone() {
                let bytes = rank.read(from, 0, len);
                rank.write(into, 0, &bytes);
            }
        }
        loop {
            let mut moved = false;
            for _ in 0..4 * n {
                let (from, to) = (self.random.random_range(0..n), self.random.random_range(0..n));
                moved |= if self.random.random() { self.send(from, to) } else { self.arrive(from, to) };
            }
            // A random choice may miss what can move.
            let all = (0..n * n).any(|pair| self.send(pair / n, pair % n) | self.arrive(pair / n, pair % n));
            if !moved && !all {
                break;
            }
        }
    }

    fn expect_done(&self) {
        for (number, rank) in self.ranks.iter().enumerate() {
            assert!(rank.sent_done.iter().all(|done| *done), "rank {number} still sends");
            assert!(rank.arrived_done.iter().all(|done| *done), "rank {number} still waits");
        }
    }
}

/// Elements of input and output, and where they lie in the buffer of a call in place.
fn sizes(collective: Collective, shape: &Shape) -> (usize, usize, usize, usize) {
    let (count, n, own) = (shape.count, shape.world, shape.rank * shape.count);
    let info = collective.info();
    let [input, output] = [info.input, info.output].map(|extent| match extent {
        Extent::CountPerRank => n * count,
        Extent::Count | Extent::Empty => count,
    });
    match collective {
        Collective::AllGather => (input, output, own, 0),
        Collective::ReduceScatter => (input, output, 0, own),
        _ => (input, output, 0, 0),
    }
}

/// What rank `rank` contributes as its element `at`.
fn contributed(rank: usize, at: usize) -> u16 {
    (rank * 7919 + at * 31 + 1) as u16
}

fn expected(collective: Collective, shape: &Shape, at: usize) -> u16 {
    let (n, count) = (shape.world, shape.count);
    let sum = |at: usize| (0..n).fold(0u16, |sum, rank| sum.wrapping_add(contributed(rank, at)));
    match collective {
        Collective::AllReduce | Collective::Reduce { .. } => sum(at),
        Collective::Broadcast { root } => contributed(usize::from(root), at),
        Collective::AllGather => contributed(at / count, at % count),
        Collective::ReduceScatter => sum(shape.rank * count + at),
        Collective::AllToAll => contributed(at / count, shape.rank * count + at % count),
        Collective::Barrier => 0,
    }
}

fn model(collective: Collective, world: usize, count: usize, in_place: bool, seed: u64) -> Model {
    let shape = |rank| Shape { world, rank, count, element: ELEMENT, in_place };
    let ranks: Vec<Rank> = (0..world)
        .map(|rank| {
            let plan = MeshPlan::new(collective, shape(rank));
            let (inputs, outputs, input_at, output_at) = sizes(collective, &shape(rank));
            let input: Vec<u8> = (0..inputs).flat_map(|at| contributed(rank, at).to_ne_bytes()).collect();
            let mut output = vec![0xee; ELEMENT * if in_place { inputs.max(outputs) } else { outputs }];
            let (input_at, output_at) = (ELEMENT * input_at, ELEMENT * output_at);
            if in_place {
                output[input_at..input_at + input.len()].copy_from_slice(&input);
            }
            Rank {
                in_place,
                input_at,
                output_at: if in_place { output_at } else { 0 },
                input,
                output,
                scratch: vec![0xdd; plan.scratch],
                sent: vec![0; plan.sends.len()],
                sent_done: vec![false; plan.sends.len()],
                arrived: vec![0; plan.arrivals.len()],
                arrived_done: vec![false; plan.arrivals.len()],
                plan,
            }
        })
        .collect();
    let wires = (0..world).map(|_| (0..world).map(|_| Wire::default()).collect()).collect();
    let random = SmallRng::seed_from_u64(seed);
    Model { ranks, absent: None, wires, random, folds: vec![0; world] }
}

fn check(collective: Collective, world: usize, count: usize, in_place: bool, seed: u64) -> Model {
    let shape = |rank| Shape { world, rank, count, element: ELEMENT, in_place };
    let mut model = model(collective, world, count, in_place, seed);
    model.run();
    model.expect_done();
    for (number, rank) in model.ranks.iter().enumerate() {
        let what =
            format!("{collective:?} of {count}, rank {number} of {world}, in offset {in_place}, seed {seed}");
        let (_, outputs, _, _) = sizes(collective, &shape(number));
        if collective.root().is_some_and(|root| {
            matches!(collective, Collective::Reduce { .. }) && usize::from(root) != number
        }) {
            let untouched: Vec<u8> =
                if in_place { rank.input.clone() } else { vec![0xee; ELEMENT * outputs] };
            assert_eq!(rank.output, untouched, "{what}");
            continue;
        }
        for at in 0..if collective == Collective::Barrier { 0 } else { outputs } {
            let bytes = &rank.output[rank.output_at + ELEMENT * at..][..ELEMENT];
            let got = u16::from_ne_bytes([bytes[0], bytes[1]]);
            assert_eq!(got, expected(collective, &shape(number), at), "{what}, element {at}");
        }
        if collective == Collective::ReduceScatter && in_place {
            let own = rank.output_at..rank.output_at + ELEMENT * count;
            let mut others = rank.output.clone();
            others[own.clone()].copy_from_slice(&rank.input[own]);
            assert_eq!(others, rank.input, "{what}: other parts are left alone");
        }
        if collective.reduces() && world > 1 {
            let is_helped = model.folds[number] == 0;
            assert!(is_helped || model.folds[number] <= ELEMENT * outputs, "{what}: divided twice");
        }
    }
    model
}

fn collectives(world: usize) -> Vec<Collective> {
    let mut all = vec![
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllToAll,
        Collective::Barrier,
    ];
    for root in [0, world / 2, world - 1] {
        all.push(Collective::Reduce { root: root as u16 });
        all.push(Collective::Broadcast { root: root as u16 });
    }
    all
}

#[test]
fn small_plans_are_correct_for_every_world_up_to_17() {
    for world in 1..=17 {
        for collective in collectives(world) {
            for count in [0, 1, world - 1, world, 3 * world + 1] {
                for in_place in [false, true] {
                    check(collective, world, count, in_place, (world * 1000 + count) as u64);
                }
            }
        }
    }
}

#[test]
fn large_plans_are_correct_for_every_world_up_to_17() {
    for world in 1..=17 {
        for collective in collectives(world) {
            let parted = matches!(collective, Collective::ReduceScatter | Collective::AllToAll);
            let count = if parted { 257 } else { SMALL_MAX / ELEMENT + 131 };
            for in_place in [false, true] {
                check(collective, world, count, in_place, world as u64);
            }
        }
    }
}

#[test]
fn chains_of_reductions_reuse_their_slots_safely() {
    // Twelve segments through four slots.
    for seed in 0..3 {
        check(Collective::Reduce { root: 1 }, 4, 12 * 128 * 1024 - 5, false, seed);
    }
}

#[test]
fn every_average_is_divided_once() {
    for world in 2..=17usize {
        for count in [5, SMALL_MAX / ELEMENT + 7] {
            let model = check(Collective::AllReduce, world, count, false, 1);
            if count > 5 {
                assert_eq!(model.folds.iter().sum::<usize>(), ELEMENT * count, "each part at one rank");
            } else {
                let extra = world - (1 << world.ilog2());
                assert_eq!(model.folds.iter().sum::<usize>(), ELEMENT * count * (world - extra));
            }
        }
    }
}

#[test]
fn no_rank_ends_before_every_rank_has_begun() {
    for world in 2..=17 {
        for collective in collectives(world) {
            for count in [1, SMALL_MAX / ELEMENT + 1] {
                for absent in [0, 1, world / 2, world - 1] {
                    let mut model = model(collective, world, count, false, absent as u64);
                    model.absent = Some(absent);
                    model.run();
                    for (number, rank) in model.ranks.iter().enumerate() {
                        let done = rank.sent_done.iter().chain(&rank.arrived_done).all(|done| *done);
                        assert!(!done, "{collective:?}: {number} of {world} does not wait for {absent}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_ring_transfers_the_minimum_of_bytes() {
    let (world, count) = (5, 50_000);
    let model = check(Collective::AllReduce, world, count, true, 3);
    for (rank, wires) in model.wires.iter().enumerate() {
        let bytes: usize = wires.iter().map(|wire| wire.bytes).sum();
        assert_eq!(bytes, 2 * (world - 1) * ELEMENT * count / world, "rank {rank}");
    }
}

#[test]
fn every_plan_but_recursive_doubling_sends_to_the_next_rank_at_once() {
    for world in 2..=17 {
        for collective in collectives(world) {
            for count in [1, 40_000] {
                for rank in 0..world {
                    let plan =
                        MeshPlan::new(collective, Shape { world, rank, count, element: 2, in_place: true });
                    let doubles = collective == Collective::AllReduce && count == 1;
                    let next = (rank + 1) % world;
                    let first = plan.sends.iter().find(|send| usize::from(send.to) == next);
                    assert!(
                        doubles || first.is_some_and(|send| send.after == Gate::Open),
                        "{collective:?}, rank {rank} of {world}"
                    );
                }
            }
        }
    }
}
