//! Every build of the generated loops over lanes gives the bits of the interpreter, which executes the program lane by lane: whatever the lanes
//! hold, wherever a packet lies, and where the number of lanes is no multiple of a vector's width.

use std::sync::Arc;

use netfold_p4::allreduce;
use netfold_p4::profile::{Numerics, Profile};
use netfold_switch::{InterpretedPipeline, Pipeline, Send, SimdLevel, numeric_pipeline};
use netfold_wire::{Kind, LaneOp};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::numerics::{Rig, halves, words};

const PAYLOAD: usize = 1408;
const HALVES: usize = PAYLOAD / 2;

/// Lanes of the pipelines with few lanes, which build.rs generates for this test.
const FEW_WORDS: usize = 19;

macro_rules! generated {
    ($module:ident) => {
        #[cfg_attr(
            target_arch = "x86_64",
            expect(unsafe_code, reason = "generated: calls of the SIMD builds, after detection")
        )]
        #[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated text")]
        mod $module {
            use netfold_switch::runtime as rt;
            include!(concat!(env!("OUT_DIR"), "/", stringify!($module), ".rs"));

            pub(super) fn pipeline() -> Box<dyn rt::Pipeline> {
                Box::new(Program::new())
            }
        }
    };
}
generated!(tested_word);
generated!(tested_saturating);
generated!(tested_wide);
generated!(tested_half);
generated!(tested_float);

fn few_lanes(numerics: Numerics) -> Box<dyn Pipeline> {
    match numerics {
        Numerics::Word => tested_word::pipeline(),
        Numerics::Saturating => tested_saturating::pipeline(),
        Numerics::Wide => tested_wide::pipeline(),
        Numerics::Half => tested_half::pipeline(),
        Numerics::Float => tested_float::pipeline(),
    }
}

/// The same job at every build of a pipeline and, if wanted, at the interpreter.
struct Rigs {
    rigs: Vec<(&'static str, Rig)>,
}

impl Rigs {
    fn new(
        numerics: Numerics,
        world: u16,
        lane_words: usize,
        interpreted: bool,
        pipeline: impl Fn() -> Box<dyn Pipeline>,
    ) -> Self {
        let mut rigs: Vec<_> = SimdLevel::available()
            .map(|level| {
                let mut pipeline = pipeline();
                pipeline.set_simd(level);
                (level.name(), Rig::over(pipeline, numerics, world, false))
            })
            .collect();
        if interpreted {
            let program = allreduce::program(&Profile::software_with(lane_words as u32, numerics)).unwrap();
            let reference: Box<dyn Pipeline> = Box::new(InterpretedPipeline::new(Arc::new(program)).unwrap());
            rigs.insert(0, ("interpreter", Rig::over(reference, numerics, world, false)));
        }
        Self { rigs }
    }

    fn full(numerics: Numerics, world: u16, interpreted: bool) -> Self {
        let pipeline = || numeric_pipeline(PAYLOAD as u32, numerics).unwrap();
        Self::new(numerics, world, PAYLOAD / 4, interpreted, pipeline)
    }

    /// Sends one contribution of each worker to all, packets at `offset`, and compares every packet and the slot's sums with the first's.
    fn compare(&mut self, op: LaneOp, offset: usize, contributions: &[Vec<u8>], context: &str) {
        let mut first = None;
        for (name, rig) in &mut self.rigs {
            rig.offset = offset;
            let mut outs = Vec::new();
            for (rank, lanes) in contributions.iter().enumerate() {
                let out = rig.send(rank as u16, Kind::Data, op, lanes);
                // The bytes of a packet that is dropped are nothing that a switch gives.
                outs.extend((out.send != Send::Drop).then_some(out));
            }
            assert_eq!(outs.len(), 1, "{name}: {context}");
            let mut sums = Vec::new();
            assert!(rig.pipeline.read_register("sum", 0, &mut sums));
            rig.chunk += 8;
            match &first {
                None => first = Some((*name, outs, sums)),
                Some((other, wanted, wanted_sums)) => {
                    assert!(*wanted == outs, "packets of {name} and {other} differ: {context}");
                    assert!(*wanted_sums == sums, "sums of {name} and {other} differ: {context}");
                }
            }
        }
    }
}

/// Numbers of every kind as binary16: zeros, subnormal, smallest and largest normal numbers, those about the switch's unit of 2^-15 and where numbers
/// become exact, and what is no number.
const SPECIAL_HALVES: [u16; 16] = [
    0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x0200, 0x8201, 0x1400, 0x27ff, 0xa800, 0x3c00, 0xbc01, 0x7bff,
    0xfbff, 0x7c00, 0xfe01,
];

/// The same as binary32, with mantissas that align and carry in every way.
const SPECIAL_FLOATS: [u32; 20] = [
    0x0000_0000,
    0x8000_0000,
    0x0000_0001,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0001,
    0x00ff_ffff,
    0x3380_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3fff_ffff,
    0xbf7f_ffff,
    0x4b00_0001,
    0xcb7f_ffff,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f00_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0001,
];

/// About the ends of the range of two's complement, and zero.
const SPECIAL_WORDS: [u32; 10] = [
    0,
    1,
    u32::MAX,
    0x7fff_ffff,
    0x7fff_fffe,
    0x8000_0000,
    0x8000_0001,
    0x4000_0000,
    0xc000_0000,
    0x7fff_0000,
];

fn special(numerics: Numerics) -> &'static [u32] {
    match numerics {
        Numerics::Float => &SPECIAL_FLOATS,
        _ => &SPECIAL_WORDS,
    }
}

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    println!("seed {seed:#x}");
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

fn every_half() -> impl Iterator<Item = Vec<u16>> + Clone {
    let packets = 65_536usize.div_ceil(HALVES);
    (0..packets).map(|packet| (0..HALVES).map(|lane| (packet * HALVES + lane) as u16).collect())
}

/// A lane of random bits, or one in four of the special ones.
fn random_lane(numerics: Numerics, rng: &mut Xoshiro256PlusPlus) -> [u8; 4] {
    let special_half = |rng: &mut Xoshiro256PlusPlus| match rng.random_bool(0.25) {
        true => SPECIAL_HALVES[rng.random_range(0..SPECIAL_HALVES.len())],
        false => rng.random(),
    };
    match numerics {
        Numerics::Half => u32::from(special_half(rng)) << 16 | u32::from(special_half(rng)),
        _ if rng.random_bool(0.25) => special(numerics)[rng.random_range(0..special(numerics).len())],
        // Exponents that are close, so that mantissas overlap.
        Numerics::Float if rng.random_bool(0.5) => rng.random::<u32>() & 0x81ff_ffff | 0x3e00_0000,
        _ => rng.random(),
    }
    .to_be_bytes()
}

fn random_lanes(numerics: Numerics, words: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    (0..words).flat_map(|_| random_lane(numerics, rng)).collect()
}

#[test]
fn every_half_has_the_same_bits_in_every_build_with_every_partner() {
    let mut rigs = Rigs::full(Numerics::Half, 2, false);
    for partner in SPECIAL_HALVES {
        for lanes in every_half() {
            let context = format!("partner {partner:#06x}, lanes from {:#06x}", lanes[0]);
            rigs.compare(LaneOp::Sum, 0, &[halves(&lanes), halves(&[partner; HALVES])], &context);
        }
    }
    let mut rng = rng(0x6861_6c66);
    for lanes in every_half().cycle().take(2000) {
        let partners: Vec<u16> = (0..HALVES).map(|_| rng.random()).collect();
        rigs.compare(LaneOp::Sum, 0, &[halves(&lanes), halves(&partners)], "random partners");
    }
}

#[test]
fn every_half_has_the_bits_of_the_interpreter() {
    let mut rigs = Rigs::full(Numerics::Half, 2, true);
    let mut rng = rng(0x7363_616c);
    for lanes in every_half() {
        let context = format!("lanes from {:#06x}", lanes[0]);
        rigs.compare(LaneOp::Sum, 0, &[halves(&lanes), halves(&[0; HALVES])], &context);
        let partners: Vec<u16> = (0..HALVES).map(|_| rng.random()).collect();
        rigs.compare(LaneOp::Sum, 0, &[halves(&lanes), halves(&partners)], &context);
    }
}

#[test]
fn special_and_random_lanes_have_the_bits_of_the_interpreter() {
    for numerics in Numerics::ALL {
        let mut rigs = Rigs::full(*numerics, 3, true);
        let mut rng = rng(0x666c_6f61 + *numerics as u64);
        let special = special(*numerics);
        // Every pair of special numbers, and random ones in the rest of the lanes.
        let pairs = special.iter().flat_map(|a| special.iter().map(move |b| (*a, *b)));
        let (mut one, mut other): (Vec<u32>, Vec<u32>) = pairs.unzip();
        for lanes in [&mut one, &mut other] {
            lanes.resize_with((PAYLOAD / 4).max(lanes.len()), || rng.random());
        }
        for (one, other) in one.chunks(PAYLOAD / 4).zip(other.chunks(PAYLOAD / 4)) {
            let padded = |lanes: &[u32]| {
                let mut lanes = lanes.to_vec();
                lanes.resize(PAYLOAD / 4, 0);
                words(&lanes)
            };
            let third = random_lanes(*numerics, PAYLOAD / 4, &mut rng);
            rigs.compare(LaneOp::Sum, 0, &[padded(one), padded(other), third], numerics.name());
        }
        for op in [LaneOp::Sum, LaneOp::Max].into_iter().cycle().take(24) {
            let lanes: Vec<_> = (0..3).map(|_| random_lanes(*numerics, PAYLOAD / 4, &mut rng)).collect();
            rigs.compare(op, 0, &lanes, &format!("{} {op}", numerics.name()));
        }
    }
}

#[test]
fn packets_at_any_address_and_lanes_beyond_the_last_vector_are_folded_alike() {
    for numerics in Numerics::ALL {
        let mut rigs = Rigs::new(*numerics, 3, FEW_WORDS, true, || few_lanes(*numerics));
        let mut rng = rng(0x7461_696c + *numerics as u64);
        for offset in (0..64).cycle().take(320) {
            let lanes: Vec<_> = (0..3).map(|_| random_lanes(*numerics, FEW_WORDS, &mut rng)).collect();
            rigs.compare(LaneOp::Sum, offset, &lanes, &format!("{} at {offset}", numerics.name()));
        }
        let mut rigs = Rigs::full(*numerics, 2, false);
        for offset in 0..64 {
            let lanes: Vec<_> = (0..2).map(|_| random_lanes(*numerics, PAYLOAD / 4, &mut rng)).collect();
            rigs.compare(LaneOp::Sum, offset, &lanes, &format!("{} at {offset}", numerics.name()));
        }
    }
}
