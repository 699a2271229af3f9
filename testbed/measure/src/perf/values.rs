//! Tensors whose reduction is known, in every element type.

use half::{bf16, f16};
use netfold::{Call, Collective, Communicator, DType, Mode, ReduceOp};

/// Rank `rank`'s element `index`: a small whole number, so that every type holds the reduction of many ranks exactly.
fn value(call: &Call, rank: u16, index: usize) -> u8 {
    match call.op {
        // Products of whole tensors of ones and one two.
        ReduceOp::Product if call.collective.reduces() => {
            if (index + usize::from(rank)).is_multiple_of(31) && rank < 3 { 2 } else { 1 }
        }
        _ => ((index * 7 + usize::from(rank) * 3) % 4) as u8,
    }
}

/// Fills this rank's input.
pub(super) fn fill(call: &Call, bytes: &mut [u8], rank: u16) {
    macro_rules! each {
        ($ty:ty, $make:expr) => {
            for (index, to) in bytes.as_chunks_mut::<{ size_of::<$ty>() }>().0.iter_mut().enumerate() {
                let make: fn(u8) -> $ty = $make;
                *to = make(value(call, rank, index)).to_ne_bytes();
            }
        };
    }
    match call.dtype {
        DType::None => {}
        DType::F32 => each!(f32, f32::from),
        DType::F64 => each!(f64, f64::from),
        DType::F16 => each!(f16, |value| f16::from_f32(f32::from(value))),
        DType::Bf16 => each!(bf16, |value| bf16::from_f32(f32::from(value))),
        DType::I8 => each!(i8, |value| value as i8),
        DType::U8 => each!(u8, |value| value),
        DType::I16 => each!(i16, i16::from),
        DType::U16 => each!(u16, u16::from),
        DType::I32 => each!(i32, i32::from),
        DType::U32 => each!(u32, u32::from),
        DType::I64 => each!(i64, i64::from),
        DType::U64 => each!(u64, u64::from),
    }
}

/// Knows what a call must give.
pub(super) struct Checker {
    rank: u16,
    world: u16,
    /// Largest deviation allowed.
    tolerance: f64,
    /// Expected values, by index modulo their period.
    expected: Vec<f64>,
}

/// Values repeat after so many elements: 4 of the sums, 31 of the products.
const PERIOD: usize = 4 * 31;

impl Checker {
    pub(super) fn new(call: &Call, comm: &Communicator) -> Self {
        let (rank, world) = (comm.rank(), comm.world_size());
        let n = f64::from(world);
        let largest = 3.0 * n;
        let tolerance = if !super::quantised(comm, call) {
            match (call.op, call.dtype) {
                (ReduceOp::Avg, DType::F16 | DType::Bf16) => 0.02,
                (ReduceOp::Avg, _) => 1e-5,
                _ => 0.0,
            }
        } else {
            // Half a step of the coarsest quantisation a rank (see docs/numerics.md), and the element type's rounding.
            let bits = if comm.mode() == Mode::Bfp16 { 15.0 } else { 24.0 };
            let type_bits = if call.dtype == DType::Bf16 { 8.0 } else { 11.0 };
            let coded = n * 4.0 * 2f64.powf(n.log2().ceil() - bits);
            let rounded = if call.dtype == DType::F32 { 0.0 } else { largest * 2f64.powf(-type_bits) };
            coded + rounded
        };
        let expected = (0..PERIOD).map(|index| expected(call, world, index)).collect();
        Self { rank, world, tolerance, expected }
    }

    /// Elements of the output that are not what they should be.
    pub(super) fn wrong(&self, call: &Call, output: &[u8]) -> u64 {
        let mut wrong = 0;
        let mut check = |index: usize, got: f64| {
            let expected = self.at(call, index);
            wrong += u64::from(
                expected.is_some_and(|expected| (got - expected).abs() > self.tolerance || got.is_nan()),
            );
        };
        macro_rules! each {
            ($ty:ty, $to:expr) => {
                for (index, bytes) in output.as_chunks::<{ size_of::<$ty>() }>().0.iter().enumerate() {
                    let to: fn($ty) -> f64 = $to;
                    check(index, to(<$ty>::from_ne_bytes(*bytes)));
                }
            };
        }
        match call.dtype {
            DType::None => {}
            DType::F32 => each!(f32, f64::from),
            DType::F64 => each!(f64, |value| value),
            DType::F16 => each!(f16, f64::from),
            DType::Bf16 => each!(bf16, f64::from),
            DType::I8 => each!(i8, f64::from),
            DType::U8 => each!(u8, f64::from),
            DType::I16 => each!(i16, f64::from),
            DType::U16 => each!(u16, f64::from),
            DType::I32 => each!(i32, f64::from),
            DType::U32 => each!(u32, f64::from),
            DType::I64 => each!(i64, |value| value as f64),
            DType::U64 => each!(u64, |value| value as f64),
        }
        wrong
    }

    /// What element `index` of the output must be; `None` where the output means nothing on this rank.
    fn at(&self, call: &Call, index: usize) -> Option<f64> {
        let count = call.count.max(1);
        let folded = |index: usize| self.expected[index % PERIOD];
        let from = |rank: u16, index: usize| f64::from(value(call, rank, index));
        match call.collective {
            Collective::AllReduce => Some(folded(index)),
            Collective::Reduce { root } => (root == self.rank).then(|| folded(index)),
            Collective::ReduceScatter => Some(folded(usize::from(self.rank) * count + index)),
            Collective::Broadcast { root } => Some(from(root, index)),
            Collective::AllGather => Some(from((index / count) as u16, index % count)),
            Collective::AllToAll => {
                Some(from((index / count) as u16, usize::from(self.rank) * count + index % count))
            }
            _ => None,
        }
        .filter(|_| self.world > 0)
    }
}

fn expected(call: &Call, world: u16, index: usize) -> f64 {
    let of = || (0..world).map(|rank| value(call, rank, index));
    let bits = |fold: fn(u8, u8) -> u8| of().reduce(fold).map_or(0.0, f64::from);
    match call.op {
        ReduceOp::Sum => of().map(f64::from).sum(),
        ReduceOp::Avg => {
            let mean = of().map(f64::from).sum::<f64>() / f64::from(world.max(1));
            let whole = !matches!(call.dtype, DType::F32 | DType::F64 | DType::F16 | DType::Bf16);
            if whole { mean.trunc() } else { mean }
        }
        ReduceOp::Product => of().map(f64::from).product(),
        ReduceOp::Min => bits(u8::min),
        ReduceOp::BitAnd => bits(|a, b| a & b),
        ReduceOp::BitOr => bits(|a, b| a | b),
        ReduceOp::BitXor => bits(|a, b| a ^ b),
        _ => bits(u8::max),
    }
}
