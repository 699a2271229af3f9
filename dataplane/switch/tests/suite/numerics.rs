//! Results of the numeric modes against exact arithmetic: the generated pipelines, lane by lane.

use half::f16;
use netfold_io::{PortId, Received};
use netfold_p4::allreduce::{Child, Node, Parent, job_entries, node_entries};
use netfold_p4::profile::Numerics;
use netfold_switch::{Pipeline, Send, SimdLevel, numeric_pipeline};
use netfold_testkit::binary16::nearest_binary16;
use netfold_wire::{Flags, Kind, LaneOp, LaneOps, LaneOwner, Packet, Reason, Repr, header};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const PAYLOAD: usize = 1408;
const WORDS: usize = PAYLOAD / 4;
const HALVES: usize = PAYLOAD / 2;
const PARENT_PORT: u16 = 99;

/// One switch with one job, and its next chunk.
pub(crate) struct Rig {
    pub(crate) pipeline: Box<dyn Pipeline>,
    world: u16,
    pub(crate) chunk: u32,
    /// Where packets lie in memory, in bytes from its start.
    pub(crate) offset: usize,
}

/// The output of the switch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) send: Send,
    flags: Flags,
    kind: u8,
    lanes: Vec<u8>,
}

impl Rig {
    pub(crate) fn new(numerics: Numerics, world: u16, below: bool) -> Self {
        Self::over(numeric_pipeline(PAYLOAD as u32, numerics).unwrap(), numerics, world, below)
    }

    /// The job at a pipeline of these numerics.
    pub(crate) fn over(mut pipeline: Box<dyn Pipeline>, numerics: Numerics, world: u16, below: bool) -> Self {
        let shift = world.next_power_of_two().trailing_zeros() as u8;
        let node = Node {
            job: 3,
            epoch: 1,
            key: 1,
            base: 0,
            slots: 4,
            children: world as u8,
            workers: world,
            world,
            group: 1,
            parent: below.then_some(Parent { port: PARENT_PORT, source: 0, group: 2, rank: 0 }),
            shift: (numerics == Numerics::Wide).then_some(shift),
            bounded_loss: true,
            owners: true,
        };
        for rank in 0..world {
            for entry in job_entries(&node, &Child { port: rank, source: 0, rank: rank as u8, behind: None })
            {
                pipeline.insert(&entry).unwrap();
            }
        }
        for entry in node_entries(&node) {
            pipeline.insert(&entry).unwrap();
        }
        Self { pipeline, world, chunk: 1, offset: 0 }
    }

    pub(crate) fn send(&mut self, port: u16, kind: Kind, op: LaneOp, lanes: &[u8]) -> Out {
        let repr = Repr {
            kind,
            flags: Flags::default(),
            op,
            class: 0,
            reason: Reason::None,
            job: 3,
            slot: 0,
            set: 0,
            epoch: 1,
            key: 1,
            chunk: self.chunk,
            bitmap: 0,
            count: 1,
            exp: 0,
            exp_next: 0,
            owner: LaneOwner::All,
        };
        let len = header::LEN + lanes.len();
        let mut bytes = vec![0; self.offset + len];
        repr.emit(&mut Packet::new_unchecked(&mut bytes[self.offset..]));
        bytes[self.offset + header::LEN..].copy_from_slice(lanes);
        let packet = Received { port: PortId(port), offset: self.offset as u32, len: len as u32, ecn: 0 };
        let mut verdicts = Vec::new();
        self.pipeline.burst(&[packet], &mut bytes, &mut verdicts);
        let out = Packet::new_unchecked(&bytes[self.offset..]);
        Out { send: verdicts[0].send, flags: out.flags(), kind: out.kind(), lanes: out.payload().to_vec() }
    }

    /// Aggregates one packet of each worker and returns the result. The result retransmitted to a child is the same.
    fn aggregate(&mut self, op: LaneOp, contributions: &[Vec<u8>]) -> Out {
        assert_eq!(contributions.len(), usize::from(self.world));
        let mut last = None;
        for (rank, contribution) in contributions.iter().enumerate() {
            let out = self.send(rank as u16, Kind::Data, op, contribution);
            assert_eq!(out.send == Send::Drop, rank + 1 < contributions.len());
            last = Some(out);
        }
        let last = last.unwrap();
        let again = self.send(0, Kind::Data, op, &contributions[0]);
        assert!(
            again.lanes == last.lanes && again.flags == last.flags,
            "the retransmitted result is identical"
        );
        self.chunk += 8;
        last
    }
}

pub(crate) fn words(lanes: &[u32]) -> Vec<u8> {
    lanes.iter().flat_map(|lane| lane.to_be_bytes()).collect()
}

pub(crate) fn halves(lanes: &[u16]) -> Vec<u8> {
    lanes.iter().flat_map(|lane| lane.to_be_bytes()).collect()
}

fn to_words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
}

fn to_halves(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|half| u16::from_be_bytes(half.try_into().unwrap())).collect()
}

/// The binary16 number nearest to a number in its normal range, ties to even.
fn nearest_half(value: f64) -> f64 {
    let unit = 2f64.powi((value.abs().log2().floor() as i32).max(-14) - 10);
    (value / unit).round_ties_even() * unit
}

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Every operation of plain words, in every build of the generated code, against its definition.
#[test]
fn lane_operations_are_those_of_plain_arithmetic() {
    let ends = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX];
    for level in SimdLevel::available() {
        let mut rig = Rig::new(Numerics::Word, 5, false);
        rig.pipeline.set_simd(level);
        assert_eq!(rig.pipeline.info().lane_ops, LaneOps::ALL);
        let mut rng = rng(31);
        for op in LaneOp::ALL.iter().cycle().take(50 * LaneOp::ALL.len()) {
            let mut lane =
                || if rng.random_bool(0.2) { ends[rng.random_range(0..ends.len())] } else { rng.random() };
            let contributions: Vec<Vec<u32>> = (0..5).map(|_| (0..WORDS).map(|_| lane()).collect()).collect();
            let fold =
                |at: usize| contributions.iter().map(|lanes| lanes[at]).reduce(|a, b| op.fold(a, b)).unwrap();
            let expected: Vec<u32> = (0..WORDS).map(fold).collect();
            let sent: Vec<_> = contributions.iter().map(|lanes| words(lanes)).collect();
            assert_eq!(to_words(&rig.aggregate(*op, &sent).lanes), expected, "{op} {}", level.name());
        }
    }
}

#[test]
fn saturated_sums_stay_saturated_and_are_flagged() {
    let mut rig = Rig::new(Numerics::Saturating, 3, false);
    let mut lanes = [vec![5u32; WORDS], vec![7; WORDS], vec![u32::MAX; WORDS]];
    let out =
        rig.aggregate(LaneOp::Sum, &lanes.iter().map(|contribution| words(contribution)).collect::<Vec<_>>());
    assert!(!out.flags.contains(Flags::SATURATED));
    assert_eq!(to_words(&out.lanes), [11; WORDS]);
    // Above the range, then back: the maximum is kept.
    (lanes[0][9], lanes[1][9], lanes[2][9]) = (0x7fff_fff0, 0x100, (-0x1000i32).cast_unsigned());
    // The contribution of a child switch that has reached the minimum.
    (lanes[0][10], lanes[1][10]) = (0x8000_0000, 0x1000);
    let out =
        rig.aggregate(LaneOp::Sum, &lanes.iter().map(|contribution| words(contribution)).collect::<Vec<_>>());
    assert!(out.flags.contains(Flags::SATURATED));
    let sums = to_words(&out.lanes);
    assert_eq!((sums[8], sums[9], sums[10]), (11, 0x7fff_ffff, 0x8000_0000));
    let out =
        rig.aggregate(LaneOp::Min, &lanes.iter().map(|contribution| words(contribution)).collect::<Vec<_>>());
    assert_eq!(to_words(&out.lanes)[0], u32::MAX, "-1 is the least");
}

#[test]
fn wide_sums_are_rounded_once() {
    for world in [1u16, 2, 3, 5, 8, 31, 32] {
        let mut rig = Rig::new(Numerics::Wide, world, false);
        let mut rng = rng(u64::from(world));
        let shift = u32::from(world).next_power_of_two().trailing_zeros();
        for _ in 0..50 {
            let contributions: Vec<Vec<u16>> = (0..world)
                .map(|_| (0..HALVES).map(|i| if i == 0 { u16::MAX } else { rng.random() }).collect())
                .collect();
            let out = rig.aggregate(
                LaneOp::Sum,
                &contributions.iter().map(|contribution| halves(contribution)).collect::<Vec<_>>(),
            );
            for (lane, got) in to_halves(&out.lanes).into_iter().enumerate() {
                let sum: u32 = contributions.iter().map(|contribution| u32::from(contribution[lane])).sum();
                assert_eq!(
                    u32::from(got),
                    (sum + ((1 << shift) >> 1)) >> shift,
                    "{world} workers, lane {lane}"
                );
            }
            let out = rig.aggregate(
                LaneOp::Max,
                &contributions.iter().map(|contribution| halves(contribution)).collect::<Vec<_>>(),
            );
            let most =
                |lane: usize| contributions.iter().map(|contribution| contribution[lane]).max().unwrap();
            assert_eq!(to_halves(&out.lanes), (0..HALVES).map(most).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_result_from_the_parent_is_not_shifted_again() {
    let mut rig = Rig::new(Numerics::Wide, 2, true);
    let contribution = halves(&[1000; HALVES]);
    assert_eq!(rig.send(0, Kind::Data, LaneOp::Sum, &contribution).send, Send::Drop);
    let up = rig.send(1, Kind::Data, LaneOp::Sum, &contribution);
    assert_eq!((up.send, up.kind), (Send::Multicast(2), Kind::Data as u8));
    assert_eq!(to_halves(&up.lanes), [1000; HALVES], "2000, shifted by one");
    let up = rig.send(1, Kind::Data, LaneOp::Sum, &contribution);
    assert_eq!(
        (up.send, to_halves(&up.lanes)[5]),
        (Send::Multicast(2), 1000),
        "the sum is sent to the parent again"
    );
    let result = halves(&[777; HALVES]);
    let down = rig.send(PARENT_PORT, Kind::Result, LaneOp::Sum, &result);
    assert_eq!((down.send, down.lanes), (Send::Multicast(1), result.clone()));
    assert_eq!(
        rig.send(PARENT_PORT, Kind::Result, LaneOp::Sum, &result).send,
        Send::Drop,
        "a duplicate is dropped"
    );
    let again = rig.send(0, Kind::Data, LaneOp::Sum, &contribution);
    assert_eq!((again.send, again.kind), (Send::Unicast(0), Kind::Result as u8));
    assert_eq!(again.lanes, result);
}

#[test]
fn every_half_in_range_is_returned_unchanged() {
    let mut rig = Rig::new(Numerics::Half, 1, false);
    let all: Vec<u16> = (0..=u16::MAX).filter(|bits| f16::from_bits(*bits).is_finite()).collect();
    for lanes in all.chunks(HALVES) {
        let mut lanes = lanes.to_vec();
        lanes.resize(HALVES, 0);
        let out = rig.aggregate(LaneOp::Sum, &[halves(&lanes)]);
        for (sent, got) in lanes.iter().zip(to_halves(&out.lanes)) {
            let value = f16::from_bits(*sent).to_f64();
            // To units of 2^-15, ties to even.
            let units = (value * 32768.0).round_ties_even();
            let expected = f16::from_bits(nearest_binary16(units / 32768.0));
            let got = f16::from_bits(got);
            assert!(got == expected, "{value} became {got}, not {expected}");
        }
    }
}

#[test]
fn representable_sums_of_halves_are_exact_and_others_rounded_once() {
    let mut rng = rng(5);
    for world in [2u16, 3, 8, 32] {
        let mut rig = Rig::new(Numerics::Half, world, false);
        for _ in 0..100 {
            // Multiples of 2^-15, so that conversion is exact.
            let mut contribution = || -> Vec<u16> {
                (0..HALVES)
                    .map(|_| {
                        let magnitude = 2f64.powi(rng.random_range(-5..11));
                        f16::from_bits(nearest_binary16(magnitude * rng.random_range(-1.0..1.0f64)))
                    })
                    .map(|value| nearest_binary16((value.to_f64() * 32768.0).round() / 32768.0))
                    .collect()
            };
            let contributions: Vec<Vec<u16>> = (0..world).map(|_| contribution()).collect();
            let out = rig.aggregate(
                LaneOp::Sum,
                &contributions.iter().map(|contribution| halves(contribution)).collect::<Vec<_>>(),
            );
            for (lane, got) in to_halves(&out.lanes).into_iter().enumerate() {
                let exact: f64 = contributions
                    .iter()
                    .map(|contribution| f16::from_bits(contribution[lane]).to_f64())
                    .sum();
                assert!(
                    f16::from_bits(got).to_f64() == nearest_half(exact),
                    "{world} workers, lane {lane}: {exact}"
                );
            }
        }
    }
}

#[test]
fn every_float_of_a_single_worker_is_returned_unchanged() {
    let mut rig = Rig::new(Numerics::Float, 1, false);
    let mut rng = rng(9);
    for round in 0..400 {
        let lanes: Vec<u32> = (0..WORDS)
            .map(|lane| match (round, lane) {
                (0, lane) if lane < 32 => {
                    [0, 1, 0x7f_ffff, 0x80_0000, 0x7f7f_ffff][lane % 5] | (lane as u32 & 1) << 31
                }
                _ => rng.random::<u32>(),
            })
            .map(|bits| if f32::from_bits(bits).is_finite() { bits } else { 0x3f80_0000 })
            .collect();
        let out = rig.aggregate(LaneOp::Sum, &[words(&lanes)]);
        for (sent, got) in lanes.iter().zip(to_words(&out.lanes)) {
            assert_eq!(f32::from_bits(*sent), f32::from_bits(got), "{sent:#x} became {got:#x}");
        }
        let out = rig.aggregate(LaneOp::Max, &[words(&lanes)]);
        assert_eq!(to_words(&out.lanes), lanes, "max is over bits");
    }
}

#[test]
fn sums_of_floats_stay_within_their_bound() {
    let mut rng = rng(11);
    let mut worst = 0f64;
    for world in [2u16, 3, 8, 32] {
        let mut rig = Rig::new(Numerics::Float, world, false);
        for _ in 0..200 {
            let spread = rng.random_range(1..60);
            let contributions: Vec<Vec<u32>> = (0..world)
                .map(|_| {
                    (0..WORDS)
                        .map(|_| {
                            let exponent = rng.random_range(-spread..=0);
                            (rng.random_range(-1.0..1.0f32) * 2f32.powi(exponent)).to_bits()
                        })
                        .collect()
                })
                .collect();
            let out = rig.aggregate(
                LaneOp::Sum,
                &contributions.iter().map(|contribution| words(contribution)).collect::<Vec<_>>(),
            );
            for (lane, got) in to_words(&out.lanes).into_iter().enumerate() {
                let values =
                    || contributions.iter().map(|contribution| f64::from(f32::from_bits(contribution[lane])));
                let exact: f64 = values().sum();
                let largest = values().fold(0f64, |largest, value| largest.max(value.abs()));
                // Two truncations per contribution, each below one unit in the last place of the largest, and a
                // rounding of the sum, whose unit in the last place is at most `world` times as large.
                let unit = 2f64.powi(largest.log2().floor() as i32 - 23);
                let bound = unit * (2.0 * f64::from(world) + f64::from(world) / 2.0);
                let error = (f64::from(f32::from_bits(got)) - exact).abs();
                worst = worst.max(error / bound);
                assert!(error <= bound, "{world} workers: {error:e} above {bound:e}");
            }
        }
    }
    assert!(worst > 0.05, "the bound is loose: {worst}");
}
