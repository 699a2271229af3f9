//! Jobs at a printed program of several passes, or of one and another for the other half of a result's lanes (Tofino 1), whose packets are lost, overtaken
//! and delayed between passes, and below a parent also on the way to it and back: workers that keep the protocol's rules
//! get exact sums, and the slots can be given to another job. `PASSES_SEED=n` replays one seed, `PASSES_SEEDS=n` changes how many are played.

use std::collections::BTreeMap;

use netfold_p4::allreduce::{self, Address, Child, Node, Parent};
use netfold_p4::profile::Profile;
use netfold_p4::tna::{Chip, print_in_passes};
use netfold_p4_printed::{Outcome, RECIRCULATION_PORT, Sent, Tofino};
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, UDP_PORT, header};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::rig::as_on_chips;

/// Seeds of each program.
const SEEDS: u64 = 20;
/// Events of one job while packets are lost.
const EVENTS: usize = 1000;
/// Slots of the job, and of the switch.
const WINDOW: u32 = 2;
const SLOTS: u32 = 4;
/// The group of all workers; each copy's instance is its port.
const GROUP: u16 = 7;
/// The port of the controller.
const CONTROLLER: u16 = 60;
/// The port of the parent, the instance of its copies, and their group.
const UP: u16 = 50;
const UP_GROUP: u16 = 8;
/// Packets that wait for their next pass at most.
const WAITING_MAX: usize = 12;

/// A worker of the job, at port rank + 1.
struct Worker {
    /// Positions, without a gap, of which it has the result.
    done: Vec<bool>,
    /// Frames that it has sent, any of which may arrive once more.
    sent: Vec<Vec<u8>>,
}

/// A printed program.
#[derive(Debug, Clone, Copy)]
struct PrintedProgram {
    chip: Chip,
    words: u32,
    passes: u32,
    /// Whether the switch is below a parent.
    tree: bool,
}

impl std::fmt::Display for PrintedProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = if self.tree { ", below a parent" } else { "" };
        write!(f, "{}, {} words in {} passes{level}", self.chip.name(), self.words, self.passes)
    }
}

const PROGRAMS: [PrintedProgram; 6] = [
    PrintedProgram { chip: Chip::Tofino2, words: 16, passes: 2, tree: false },
    PrintedProgram { chip: Chip::Tofino2, words: 24, passes: 3, tree: false },
    PrintedProgram { chip: Chip::Tofino2, words: 32, passes: 4, tree: false },
    PrintedProgram { chip: Chip::Tofino2, words: 16, passes: 2, tree: true },
    PrintedProgram { chip: Chip::Tofino1, words: 16, passes: 1, tree: false },
    PrintedProgram { chip: Chip::Tofino1, words: 16, passes: 1, tree: true },
];

/// The parent of the switch, whose only child it is: the first contribution of a chunk is its result.
#[derive(Default)]
struct SimulatedParent {
    /// The last result of each slot and set: its chunk and frame.
    results: BTreeMap<(u16, u8), (u32, Vec<u8>)>,
    /// Frames under way to the switch.
    down: Vec<Vec<u8>>,
}

/// A switch with one job.
struct Rig {
    seed: u64,
    rng: Xoshiro256PlusPlus,
    tofino: Tofino,
    program: PrintedProgram,
    parent: SimulatedParent,
    epoch: u32,
    /// Chunk of position 0.
    first: u32,
    workers: Vec<Worker>,
    /// Packets that wait for their next pass.
    waiting: Vec<Vec<u8>>,
    /// Whether packets may be lost.
    lossy: bool,
    results: usize,
    lost: usize,
}

fn printed(PrintedProgram { chip, words, passes, tree }: PrintedProgram) -> String {
    let profile = Profile {
        lane_words: words,
        slots: SLOTS,
        jobs: 2,
        workers: 4,
        hierarchy: tree,
        ..Profile::tofino()
    };
    print_in_passes(&allreduce::program(&profile).unwrap(), chip, passes).unwrap()
}

/// What a worker contributes.
fn word(epoch: u32, rank: usize, chunk: u32, word: u32) -> u32 {
    let mixed = (epoch ^ chunk.wrapping_mul(0x9e37_79b9)).wrapping_add(word.wrapping_mul(0x85eb_ca6b));
    mixed.wrapping_mul(rank as u32 * 2 + 3)
}

/// Whether a worker contributes a header alone: all do in some chunks, and the first in some others.
fn is_bare(position: u32, rank: usize) -> bool {
    position % 5 == 4 || position % 5 == 2 && rank == 0
}

fn exponent(rank: usize, chunk: u32) -> u8 {
    chunk.wrapping_mul(37).wrapping_add(rank as u32 * 91) as u8
}

fn endpoint(port: u16) -> Endpoint {
    let mac = EthernetAddress([2, 0, 0, 0, (port >> 8) as u8, port as u8]);
    Endpoint { mac, ip: Ipv4Address::from_bits(0x0a00_0000 | u32::from(port)), port: 4000 + port }
}

fn frame(from: u16, datagram: &[u8]) -> Vec<u8> {
    let switch = Endpoint { port: UDP_PORT, ..endpoint(200) };
    let outer = Outer { source: endpoint(from), destination: switch };
    let mut frame = vec![0; OUTER_LEN + datagram.len()];
    outer.emit(datagram, 0, &mut frame).unwrap();
    frame
}

impl Rig {
    fn new(text: &str, seed: u64, program: PrintedProgram) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut rig = Self {
            seed,
            tofino: Tofino::new(text).unwrap(),
            program,
            parent: SimulatedParent::default(),
            epoch: 1,
            first: 4,
            workers: Vec::new(),
            waiting: Vec::new(),
            lossy: true,
            results: 0,
            lost: 0,
            rng,
        };
        for kind in [Kind::Advance, Kind::Probe] {
            let entry = allreduce::controller_entry(CONTROLLER, kind);
            rig.tofino.insert(&as_on_chips(&entry)).unwrap();
        }
        for port in (1..=4).chain(program.tree.then_some(UP)) {
            let address = |port: u16| {
                let Endpoint { mac, ip, port } = endpoint(port);
                let mac = mac.0.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte));
                Address { mac, ip: ip.to_bits(), port }
            };
            rig.tofino.insert(&allreduce::child_entry(port, address(port), address(200))).unwrap();
        }
        // Streams begin near 0, 2^31 and 2^32, which sets reach in steps.
        let steps = [0x4000_0000, 0x7fff_fff0, 0xbfff_fff0, 0xffff_fff0];
        let steps = &steps[..[0, 2, 4][rig.rng.random_range(0..3)]];
        for to in steps {
            rig.first = first_behind(&rig.advance_all(*to), *to);
        }
        rig
    }

    fn node(&self) -> Node {
        let children = self.workers.len();
        Node {
            job: 5,
            epoch: self.epoch,
            key: 0x5eed_0000 | self.epoch,
            base: WINDOW,
            slots: WINDOW,
            children: children as u8,
            workers: children as u16,
            world: children as u16,
            group: GROUP,
            parent: self.program.tree.then_some(Parent { port: UP, source: 0, group: UP_GROUP, rank: 0 }),
            shift: None,
            bounded_loss: false,
            owners: false,
        }
    }

    fn entries(&self) -> Vec<netfold_p4::entry::TableEntry> {
        let node = self.node();
        let child = |rank: usize| {
            let port = rank as u16 + 1;
            Child { port, source: endpoint(port).ip.to_bits(), rank: rank as u8, behind: None }
        };
        let children = (0..self.workers.len()).flat_map(|rank| allreduce::job_entries(&node, &child(rank)));
        allreduce::node_entries(&node).into_iter().chain(children).map(|entry| as_on_chips(&entry)).collect()
    }

    /// Admits workers to an epoch of the job.
    fn begin(&mut self, workers: usize) {
        self.workers = (0..workers).map(|_| Worker { done: Vec::new(), sent: Vec::new() }).collect();
        for entry in self.entries() {
            self.tofino.insert(&entry).unwrap();
        }
    }

    fn withdraw(&mut self) {
        for entry in self.entries() {
            self.tofino.delete(&entry).unwrap();
        }
        self.epoch += 1;
    }

    fn lanes(&self, rank: usize, chunk: u32) -> Vec<u32> {
        (0..self.program.words).map(|at| word(self.epoch, rank, chunk, at)).collect()
    }

    /// The frame of a worker's contribution.
    fn contribution(&self, rank: usize, position: u32) -> Vec<u8> {
        let node = self.node();
        let chunk = self.first.wrapping_add(position);
        let bare = is_bare(position, rank);
        let repr = Repr {
            kind: Kind::Data,
            flags: if bare { Flags::BARE } else { Flags(0) },
            op: LaneOp::Sum,
            class: 0,
            reason: Reason::None,
            job: node.job,
            slot: (chunk % WINDOW) as u16,
            set: (chunk / WINDOW % 2) as u8,
            epoch: node.epoch,
            key: node.key,
            chunk,
            bitmap: 0,
            count: 1,
            exp: 0,
            exp_next: exponent(rank, chunk),
            owner: LaneOwner::All,
        };
        let lanes = if bare { Vec::new() } else { self.lanes(rank, chunk) };
        let mut datagram = vec![0; header::LEN];
        repr.emit(&mut Packet::new_unchecked(&mut datagram));
        datagram.extend(lanes.iter().flat_map(|lane| lane.to_be_bytes()));
        frame(rank as u16 + 1, &datagram)
    }

    fn is_lost(&mut self) -> bool {
        let lost = self.lossy && self.rng.random_bool(0.1);
        self.lost += usize::from(lost);
        lost
    }

    /// A packet reaches the pipe, from a port or for its next pass.
    fn arrive(&mut self, port: u16, bytes: &[u8]) {
        let outcome = self.tofino.ingress(port, bytes).unwrap_or_else(|fault| self.fail(&fault.to_string()));
        if outcome.is_recirculated() {
            if self.waiting.len() == WAITING_MAX && self.lossy || self.is_lost() {
                return;
            }
            self.waiting.push(outcome.bytes);
            return;
        }
        for (port, bytes) in self.copies(&outcome) {
            if self.is_lost() {
                continue;
            }
            if port == UP {
                self.contribute_to_parent(&bytes);
            } else if port <= self.workers.len() as u16 {
                self.accept(usize::from(port) - 1, &bytes);
            }
        }
    }

    /// A packet reaches the parent, which replies with the result of its chunk. A result that is not right there is wrong at every worker.
    fn contribute_to_parent(&mut self, bytes: &[u8]) {
        let (_, datagram) = Outer::parse(bytes).unwrap_or_else(|error| self.fail(&error.to_string()));
        let packet = Packet::new_checked(datagram).unwrap();
        let mut repr = Repr::parse(&packet).unwrap();
        if repr.epoch != self.epoch {
            return;
        }
        if repr.kind != Kind::Data || repr.count != self.workers.len() as u16 {
            self.fail(&format!("the parent receives {repr}"));
        }
        let place = (repr.slot, repr.set);
        let (chunk, lanes) = (repr.chunk, packet.payload().to_vec());
        let age = self.parent.results.get(&place).map(|(known, _)| chunk.wrapping_sub(*known).cast_signed());
        if age.is_some_and(|age| age < 0) {
            return;
        }
        if age != Some(0) {
            repr.kind = Kind::Result;
            let mut datagram = vec![0; header::LEN];
            repr.emit(&mut Packet::new_unchecked(&mut datagram));
            datagram.extend(lanes);
            self.parent.results.insert(place, (chunk, frame(UP, &datagram)));
        }
        let result = self.parent.results[&place].1.clone();
        self.parent.down.push(result);
    }

    /// One of the parent's packets reaches the switch, or is lost.
    fn deliver_from_parent(&mut self) {
        if self.parent.down.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.parent.down.len());
        let bytes = self.parent.down.remove(at);
        if !self.is_lost() {
            self.arrive(UP, &bytes);
        }
    }

    fn copies(&mut self, outcome: &Outcome) -> Vec<(u16, Vec<u8>)> {
        let targets = match outcome.sent {
            Sent::Nothing => Vec::new(),
            Sent::Port(port) => vec![(port, 0)],
            Sent::Group(group) => {
                assert!(group == GROUP || self.program.tree && group == UP_GROUP);
                let ports = if group == GROUP { 1..=self.workers.len() as u16 } else { UP..=UP };
                ports.map(|port| (port, port)).collect()
            }
        };
        let copy = |(port, instance): (u16, u16)| {
            let bytes = self.tofino.egress(instance, 0, &outcome.bytes).unwrap();
            bytes.map(|bytes| (port, bytes))
        };
        targets.into_iter().filter_map(copy).collect()
    }

    fn fail(&self, what: &str) -> ! {
        panic!(
            "{}, seed {}: {what}\nreplay: PASSES_SEED={} cargo test -p netfold-p4-printed",
            self.program, self.seed, self.seed
        )
    }

    /// A packet reaches a worker.
    fn accept(&mut self, rank: usize, bytes: &[u8]) {
        let (_, datagram) = Outer::parse(bytes).unwrap_or_else(|error| self.fail(&error.to_string()));
        let packet = Packet::new_checked(datagram).unwrap();
        let repr = Repr::parse(&packet).unwrap();
        let position = repr.chunk.wrapping_sub(self.first);
        let current = repr.epoch == self.epoch && repr.key == self.node().key;
        let awaited = self.workers[rank].done.get(position as usize) == Some(&false);
        if !current || !awaited {
            return;
        }
        if repr.kind != Kind::Result {
            self.fail(&format!("worker {rank} receives {repr} for position {position}"));
        }
        let contributors = |rank: &usize| !is_bare(position, *rank);
        let (mut sums, mut exponents) = (vec![0u32; self.program.words as usize], 0);
        for other in 0..self.workers.len() {
            exponents = exponents.max(exponent(other, repr.chunk));
            let lanes = self.lanes(other, repr.chunk);
            if contributors(&other) {
                sums.iter_mut().zip(lanes).for_each(|(sum, lane)| *sum = sum.wrapping_add(lane));
            }
        }
        let received: Vec<u32> =
            packet.payload().chunks(4).map(|lane| u32::from_be_bytes(lane.try_into().unwrap())).collect();
        let bare = repr.flags.contains(Flags::BARE);
        let right = if bare { received.is_empty() } else { received == sums };
        let expected_bare = if position % 5 == 2 { bare } else { is_bare(position, rank) };
        let all = self.node().full();
        let header = [repr.bitmap, repr.count.into(), repr.exp_next.into()];
        if !right || bare != expected_bare || header != [all, self.workers.len() as u32, exponents.into()] {
            self.fail(&format!("worker {rank}, position {position}: {repr}, {received:x?}, {sums:x?}"));
        }
        self.workers[rank].done[position as usize] = true;
        self.results += 1;
    }

    /// The positions whose results a worker lacks, up to the end of its window: those that it has not sent are sent first here.
    fn outstanding(&mut self, rank: usize) -> Vec<u32> {
        let done = &mut self.workers[rank].done;
        // A slot's next position follows the result of the one before.
        for slot in 0..WINDOW as usize {
            let last = done.iter().skip(slot).step_by(WINDOW as usize).next_back();
            if last.is_none_or(|done| *done) && done.len() % WINDOW as usize == slot {
                done.push(false);
            }
        }
        let lacking = done.iter().enumerate().filter(|(_, done)| !**done);
        lacking.map(|(position, _)| position as u32).collect()
    }

    fn send(&mut self, rank: usize, position: u32) {
        let frame = self.contribution(rank, position);
        self.workers[rank].sent.push(frame.clone());
        if !self.is_lost() {
            self.arrive(rank as u16 + 1, &frame);
        }
    }

    /// One packet that waits has its next pass, any of them.
    fn next_pass(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.waiting.len());
        let bytes = self.waiting.remove(at);
        self.arrive(RECIRCULATION_PORT, &bytes);
    }

    /// Any event while packets are lost.
    fn event(&mut self) {
        let rank = self.rng.random_range(0..self.workers.len());
        match self.rng.random_range(0..12) {
            0..3 => {
                let positions = self.outstanding(rank);
                if !positions.is_empty() {
                    let at = self.rng.random_range(0..positions.len());
                    self.send(rank, positions[at]);
                }
            }
            3 => {
                // A frame that the network has delayed, of the last few.
                let sent = &self.workers[rank].sent;
                let delayed = sent.len().saturating_sub(self.rng.random_range(1..6));
                if let Some(frame) = sent.get(delayed).cloned() {
                    self.arrive(rank as u16 + 1, &frame);
                }
            }
            4 => {
                // A frame that ends before its lanes do.
                let positions = self.outstanding(rank);
                if let Some(position) = positions.first() {
                    let mut frame = self.contribution(rank, *position);
                    frame.truncate(self.rng.random_range(OUTER_LEN..frame.len()));
                    self.arrive(rank as u16 + 1, &frame);
                }
            }
            5..8 if self.program.tree => self.deliver_from_parent(),
            _ => self.next_pass(),
        }
    }

    /// Without loss, every worker gets what it lacks after it has sent it once more.
    fn settle(&mut self) {
        self.lossy = false;
        let lacking: Vec<Vec<u32>> = (0..self.workers.len()).map(|rank| self.outstanding(rank)).collect();
        let newest = lacking.iter().flatten().max().copied().unwrap_or(0);
        // Some workers may be a chunk of each slot ahead of others.
        for _ in 0..3 {
            for rank in 0..self.workers.len() {
                for position in self.outstanding(rank).into_iter().filter(|position| *position <= newest) {
                    self.send(rank, position);
                    while !self.waiting.is_empty() || !self.parent.down.is_empty() {
                        if self.waiting.is_empty() {
                            self.deliver_from_parent();
                        } else {
                            let bytes = self.waiting.remove(0);
                            self.arrive(RECIRCULATION_PORT, &bytes);
                        }
                    }
                }
            }
        }
        for rank in 0..self.workers.len() {
            if let Some(position) = self.outstanding(rank).iter().find(|position| **position <= newest) {
                self.fail(&format!("worker {rank} lacks position {position}, and the newest is {newest}"));
            }
        }
        self.lossy = true;
    }

    fn advance_all(&mut self, to: u32) -> Vec<u32> {
        let sets = (WINDOW..2 * WINDOW).flat_map(|slot| [(slot, 0), (slot, 1)]);
        sets.map(|(slot, set)| self.advance(slot, set, to)).collect()
    }

    /// Sends ADVANCE to a set until its reply arrives, and returns the chunk that it names.
    fn advance(&mut self, slot: u32, set: u8, chunk: u32) -> u32 {
        let repr = Repr::from_controller(Kind::Advance, (slot as u16, set), chunk);
        let mut datagram = vec![0; header::LEN];
        repr.emit(&mut Packet::new_unchecked(&mut datagram));
        let frame = frame(CONTROLLER, &datagram);
        loop {
            let (mut port, mut bytes) = (CONTROLLER, frame.clone());
            while !self.is_lost() {
                // Packets of the job that ended are under way, too.
                if self.rng.random_bool(0.3) {
                    self.next_pass();
                }
                let outcome = self.tofino.ingress(port, &bytes).unwrap();
                if outcome.is_recirculated() {
                    (port, bytes) = (RECIRCULATION_PORT, outcome.bytes);
                    continue;
                }
                assert_eq!((outcome.sent, outcome.bytes.len()), (Sent::Port(CONTROLLER), frame.len()));
                let reply = Packet::new_checked(&outcome.bytes[OUTER_LEN..]).unwrap();
                assert_eq!((reply.slot(), reply.set()), (slot as u16, set));
                return reply.chunk();
            }
        }
    }
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    match number("PASSES_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PASSES_SEEDS").unwrap_or(SEEDS),
    }
}

/// Three jobs at a printed program, one after the other, in the same slots.
fn play(text: &str, seed: u64, program: PrintedProgram) -> Rig {
    let mut rig = Rig::new(text, seed, program);
    for workers in [2, 3, 2] {
        rig.begin(workers);
        rig.parent.results.clear();
        (0..EVENTS).for_each(|_| rig.event());
        rig.settle();
        (0..EVENTS / 4).for_each(|_| rig.event());
        rig.withdraw();
        rig.first = next_first(&mut rig);
    }
    rig
}

#[test]
fn sums_are_exact_whatever_is_lost_or_overtaken_between_passes() {
    for program in PROGRAMS {
        let text = printed(program);
        let (mut results, mut lost) = (0, 0);
        for seed in seeds() {
            let rig = play(&text, seed, program);
            results += rig.results;
            lost += rig.lost;
        }
        assert!(results > 100 && lost > 100, "{program}: {results} results, {lost} packets lost");
        println!("{program}: {results} results, all exact; {lost} packets lost");
    }
}

/// Changes that make no difference while packets keep their order and none is lost.
#[test]
fn changes_that_only_loss_and_order_show_are_noticed() {
    let text = printed(PROGRAMS[0]);
    for (from, to) in [
        // ADVANCE leaves parts that have missed a packet behind.
        ("hdr.netfold.chunk = meta.stored;\n        hdr.lanes_0", "hdr.lanes_0"),
        // The first part agrees on exponents.
        ("(0x7, 0x0, 0x0,", "(0x6, 0x0, 0x0,"),
    ] {
        assert!(text.contains(from), "{from}");
        let changed = text.replace(from, to);
        let noticed =
            (0..SEEDS).any(|seed| std::panic::catch_unwind(|| play(&changed, seed, PROGRAMS[0])).is_err());
        assert!(noticed, "{from} is {to}");
    }
}

/// Moves all sets on, behind a job whose packets may be under way, and returns a chunk that is newer than all that they hold.
fn next_first(rig: &mut Rig) -> u32 {
    let position = rig.workers.iter().map(|worker| worker.done.len()).max().unwrap_or(0) as u32;
    let old = rig.first.wrapping_add(position);
    // Before or behind what the sets hold.
    let to = old.wrapping_sub(8).wrapping_add(rig.rng.random_range(0..16));
    first_behind(&rig.advance_all(to), to)
}

/// The first chunk of a job in sets that hold these, at or behind a chunk.
fn first_behind(held: &[u32], to: u32) -> u32 {
    let newest = held.iter().copied().max_by_key(|chunk| chunk.wrapping_sub(to).cast_signed()).unwrap_or(to);
    newest.wrapping_add(1)
}
