//! Reductions of every type and operation: the same bits through a switch, in a ring and in shared memory; and ranks that do not agree.

use std::time::{Duration, Instant};

use netfold::{
    Builder, Communicator, DType, Element, Error, LaneOps, Mode, ReduceOp, bf16, f16, switch_lane_op,
    switch_reduces,
};
use netfold_embedded::EmbeddedSwitch;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::vacant_address;
use netfold_p4::allreduce;
use netfold_p4::profile::{Profile, by_name};
use netfold_switch::InterpretedPipeline;
use netfold_testkit::job::on_all_ranks;
use netfold_wire::LaneOp;

use crate::TIMEOUT;

const WORLD: u16 = 4;

/// Elements of a tensor: several windows of packets, and a part of one.
const ELEMENTS: usize = 9_001;

/// The outcome of one reduction on one rank.
#[derive(Debug, PartialEq)]
struct Outcome {
    name: String,
    bytes: Vec<u8>,
    by_switch: bool,
}

/// 64 bits for an element of a rank; every 16th is the same on all ranks, every 64th of a few special ones.
fn bits(rank: u16, index: usize) -> u64 {
    let mix = (index as u64) << 8 | if index.is_multiple_of(16) { 0 } else { u64::from(rank) + 1 };
    let mix = mix.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mix ^ mix >> 29
}

/// All operations of one type but sums and averages of floating-point numbers, which are within a bound and not the same.
fn of_type<T: Element>(
    comm: &Communicator,
    make: fn(u64) -> T,
    to: fn(&T) -> Vec<u8>,
    ops: &[ReduceOp],
) -> Vec<Outcome> {
    let run = |op: &ReduceOp| {
        let mut tensor: Vec<T> = (0..ELEMENTS).map(|index| make(bits(comm.rank(), index))).collect();
        let report = comm.all_reduce(&mut tensor, *op).unwrap();
        Outcome {
            name: format!("{} {op}", T::DTYPE),
            bytes: tensor.iter().flat_map(to).collect(),
            by_switch: report.chunks > 0,
        }
    };
    ops.iter().map(run).collect()
}

const INTEGER: &[ReduceOp] = {
    use ReduceOp::{Avg, BitAnd, BitOr, BitXor, Max, Min, Product, Sum};
    &[Sum, Min, Max, BitAnd, BitOr, BitXor, Avg, Product]
};
const FLOAT: &[ReduceOp] = &[ReduceOp::Min, ReduceOp::Max];

macro_rules! every_type {
    ($comm:expr, integers: [$($integer:ty),+], floats: [$($float:ty: $bits:ty),+]) => {{
        let mut all = Vec::new();
        $(all.extend(of_type::<$integer>($comm, |bits| bits as $integer, |x| x.to_ne_bytes().to_vec(), INTEGER));)+
        $(all.extend(of_type::<$float>(
            $comm,
            // Zeros of both signs and NaN of both signs are frequent.
            |bits| <$float>::from_bits(match bits % 32 {
                0 => 0,
                1 => 1 << (<$bits>::BITS - 1),
                2 => <$bits>::MAX,
                3 => <$bits>::MAX >> 1,
                _ => (bits >> 5) as $bits,
            }),
            |x| x.to_ne_bytes().to_vec(),
            FLOAT,
        ));)+
        all
    }};
}

fn every_reduction(comm: &Communicator) -> Vec<Outcome> {
    every_type!(comm,
        integers: [i8, u8, i16, u16, i32, u32, i64, u64],
        floats: [f32: u32, f64: u64, f16: u16, bf16: u16])
}

/// Runs all ranks of a job, built by `build`; what the first has, which is what all have.
fn outcomes(build: impl Fn(Builder) -> Builder + Sync) -> Vec<Outcome> {
    let rendezvous = vacant_address().unwrap();
    let mut ranks = on_all_ranks(WORLD, |rank| {
        let builder = Communicator::builder().job("reductions").rank(rank).world_size(WORLD).mode(Mode::I32);
        let builder = builder.stall_timeout(TIMEOUT).rendezvous(rendezvous).unwrap();
        let comm = build(builder).connect().unwrap();
        let outcomes = every_reduction(&comm);
        comm.leave().unwrap();
        outcomes
    });
    let first = ranks.swap_remove(0);
    assert!(ranks.iter().all(|rank| *rank == first), "the same bits on all ranks");
    first
}

#[test]
fn every_reduction_has_the_same_bits_on_every_path() {
    let lossy = |io| Ok(Box::new(Faulty::new(io, FaultConfig::with_loss(11, 0.01))) as _);
    let switch = EmbeddedSwitch::builder().middleware(lossy).start().unwrap();
    let control = switch.control();
    let through = outcomes(|builder| builder.shared_memory(false).slots(64).switch(control).unwrap());
    switch.stop().unwrap();
    let ring = outcomes(|builder| builder.shared_memory(false));
    let memory = outcomes(|builder| builder);
    for ((switch, ring), memory) in through.iter().zip(&ring).zip(&memory) {
        assert!(switch.bytes == ring.bytes, "{}: a switch has other bits than a ring", switch.name);
        assert!(switch.bytes == memory.bytes, "{}: a switch has other bits than shared memory", switch.name);
        let (dtype, op) = switch.name.split_once(' ').unwrap();
        let (dtype, op) = (DType::from_name(dtype).unwrap(), ReduceOp::from_name(op).unwrap());
        let expected = switch_reduces(Mode::I32, LaneOps::ALL, dtype, op).is_ok();
        assert_eq!(switch.by_switch, expected, "{}", switch.name);
        assert!(!ring.by_switch && !memory.by_switch);
    }
    let by_switch = through.iter().filter(|outcome| outcome.by_switch).count();
    assert_eq!((by_switch, through.len()), (8 * 6 - 4 + 3 * 2, 8 * 8 + 4 * 2));
}

/// What the admission says is what the ranks rely on: the rest is done by the hosts.
#[test]
fn a_switch_without_an_operation_leaves_it_to_the_hosts() {
    let ops = vec![LaneOp::Sum, LaneOp::And];
    let program = allreduce::program(&Profile { ops, ..Profile::software(64) }).unwrap();
    let program = std::sync::Arc::new(program);
    let pipeline = move || Ok(Box::new(InterpretedPipeline::new(std::sync::Arc::clone(&program))?) as _);
    let switch = EmbeddedSwitch::builder().pipeline_by(pipeline).start().unwrap();
    let control = switch.control();
    let through = outcomes(|builder| builder.shared_memory(false).slots(64).switch(control).unwrap());
    switch.stop().unwrap();
    let ring = outcomes(|builder| builder.shared_memory(false));
    for (switch, ring) in through.iter().zip(&ring) {
        assert!(switch.bytes == ring.bytes, "{}", switch.name);
        let sums = ["i32 sum", "u32 sum", "i64 sum", "u64 sum"].contains(&&switch.name[..]);
        assert_eq!(switch.by_switch, sums || switch.name.ends_with("bit_and"), "{}", switch.name);
    }
}

/// A call of one rank.
type Call = fn(&Communicator) -> Result<(), Error>;

fn reduce<T: Element>(comm: &Communicator, len: usize, op: ReduceOp) -> Result<(), Error> {
    comm.all_reduce(&mut vec![T::default(); len], op).map(drop)
}

/// Two calls of which one rank makes the first and the others the second: each is told of the other by name.
const DIFFERENT: [(&str, Call, Call); 9] = {
    use ReduceOp::{BitOr, Max, Min, Product, Sum};
    [
        ("a float sum, an integer sum", |c| reduce::<f32>(c, 5_000, Sum), |c| reduce::<i32>(c, 5_000, Sum)),
        ("a float sum, a float minimum", |c| reduce::<f32>(c, 5_000, Sum), |c| reduce::<f32>(c, 5_000, Min)),
        ("a float sum, bits", |c| reduce::<f32>(c, 70_000, Sum), |c| reduce::<u8>(c, 70_000, BitOr)),
        ("a float sum, one by hosts", |c| reduce::<f32>(c, 5_000, Sum), |c| reduce::<f64>(c, 5_000, Sum)),
        ("minimum, maximum", |c| reduce::<i16>(c, 5_000, Min), |c| reduce::<i16>(c, 5_000, Max)),
        ("signed, unsigned", |c| reduce::<i16>(c, 5_000, Max), |c| reduce::<u16>(c, 5_000, Max)),
        (
            "64 bits, a product by hosts",
            |c| reduce::<i64>(c, 5_000, Sum),
            |c| reduce::<i64>(c, 5_000, Product),
        ),
        ("lengths", |c| reduce::<u8>(c, 5_000, Sum), |c| reduce::<u8>(c, 5_001, Sum)),
        (
            "roots",
            |c| c.reduce(&mut [0_u8; 100], Min, 1).map(drop),
            |c| c.reduce(&mut [0_u8; 100], Min, 2).map(drop),
        ),
    ]
};

#[test]
fn ranks_that_differ_are_named_on_all_ranks() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let control = switch.control();
    for (number, (name, one, others)) in DIFFERENT.into_iter().enumerate() {
        for odd in [0, 2] {
            let (rendezvous, began) = (vacant_address().unwrap(), Instant::now());
            let job = format!("different {number} {odd}").replace(' ', "-");
            let errors = on_all_ranks(WORLD, |rank| {
                let builder = Communicator::builder().job(&*job).rank(rank).world_size(WORLD);
                let builder =
                    builder.mode(Mode::Bfp32).slots(16).shared_memory(false).switch(control).unwrap();
                let comm = builder.rendezvous(rendezvous).unwrap().connect().unwrap();
                reduce::<f32>(&comm, 100, ReduceOp::Sum).unwrap();
                let call = if rank == odd { one } else { others };
                call(&comm).unwrap_err()
            });
            for (rank, error) in (0..).zip(&errors) {
                let named = if rank != odd { odd } else { u16::from(odd == 0) };
                let Error::Mismatch { rank: Some(found), mine, theirs: Some(theirs) } = error else {
                    panic!("{name}, rank {rank} of which {odd} differs: {error}")
                };
                assert!(*found == named && mine != theirs, "{name}, rank {rank}: {error}");
            }
            // No rank waited for a timeout.
            assert!(began.elapsed() < Duration::from_secs(20), "{name}: {:?}", began.elapsed());
        }
    }
    switch.stop().unwrap();
}

/// Bytes that the switch receives for one all-reduce of 1 Mi elements by 4 ranks, and the bytes that a ring moves.
#[test]
fn a_switch_moves_fewer_bytes_than_a_ring() {
    fn moved<T: Element>(op: ReduceOp) {
        let switch = EmbeddedSwitch::builder().start().unwrap();
        let control = switch.control();
        let len = 1 << 20;
        on_all_ranks(WORLD, |rank| {
            let builder = Communicator::builder().job("bytes").rank(rank).world_size(WORLD).mode(Mode::I32);
            let builder = builder.slots(64).stall_timeout(TIMEOUT).switch(control).unwrap();
            let comm = builder.connect().unwrap();
            reduce::<T>(&comm, len, op).unwrap();
            comm.leave().unwrap();
        });
        let io = switch.stop().unwrap().io;
        let ring = 2 * u64::from(WORLD - 1) * (len * size_of::<T>()) as u64;
        println!(
            "{} {op}: {:.1} MB to the switch, {:.1} MB from it, {:.1} MB in a ring",
            T::DTYPE,
            io.rx_bytes as f64 / 1e6,
            io.tx_bytes as f64 / 1e6,
            ring as f64 / 1e6
        );
        assert!(io.rx_bytes.max(io.tx_bytes) < ring * 3 / 4, "{} {op}", T::DTYPE);
    }
    moved::<i8>(ReduceOp::Sum);
    moved::<u8>(ReduceOp::Max);
    moved::<i16>(ReduceOp::Max);
    moved::<u16>(ReduceOp::Sum);
    moved::<bf16>(ReduceOp::Min);
    moved::<f32>(ReduceOp::Min);
    moved::<u32>(ReduceOp::Max);
    moved::<i32>(ReduceOp::BitXor);
    moved::<i64>(ReduceOp::Sum);
    moved::<u64>(ReduceOp::BitAnd);
}

/// Whether hosts do it: bits are those of integers.
fn is_defined(op: ReduceOp, dtype: DType) -> bool {
    let floats = [DType::F32, DType::F64, DType::F16, DType::Bf16].contains(&dtype);
    dtype != DType::None && !(op.is_bitwise() && floats)
}

/// The rows of the table in docs/numerics.md: reductions whose lane operation is the same, and where they run on each target.
fn rows() -> Vec<String> {
    let targets = [Profile::software(352), Profile::hardware(), Profile::tofino(), by_name("nic").unwrap()];
    let targets = targets.map(|profile| profile.lane_ops());
    let mut rows = Vec::new();
    for op in ReduceOp::ALL {
        let mut kinds: Vec<(Option<LaneOp>, Vec<&str>)> = Vec::new();
        for dtype in DType::ALL.iter().filter(|dtype| is_defined(*op, **dtype)) {
            let lane_op = switch_lane_op(Mode::Bfp32, *dtype, *op);
            match kinds.iter_mut().find(|(other, _)| *other == lane_op) {
                Some((_, names)) => names.push(dtype.name()),
                None => kinds.push((lane_op, vec![dtype.name()])),
            }
        }
        for (lane_op, names) in kinds {
            let on = |has: &LaneOps| if lane_op.is_some_and(|op| has.has(op)) { "switch" } else { "hosts" };
            let name = lane_op.map_or("-".to_owned(), |op| format!("`{op}`"));
            rows.push(format!(
                "| {op} | {} | {name} | {} |",
                names.join(", "),
                targets.iter().map(on).collect::<Vec<_>>().join(" | ")
            ));
        }
    }
    rows
}

#[test]
fn the_page_says_what_runs_where() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/numerics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = rows().join("\n");
    assert!(
        page.contains(&rows),
        "the table of types and operations in docs/numerics.md must have these rows:\n{rows}"
    );
}
