//! Every operation on every type against plain arithmetic, one element at a time.

use half::{bf16, f16};
use netfold_testkit::binary16::nearest_binary16;
use proptest::prelude::*;

use super::*;
use crate::reduce::kernel::{HalfConvert, Soft};

/// A value beyond any element: exact for all integers, and for sums and products of the 16-bit floats in `Real`.
#[derive(Debug, Clone, Copy)]
enum Value {
    Whole(i128),
    Real(f64),
}

fn is_signed(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64)
}

fn load(dtype: DType, bytes: &[u8]) -> Value {
    let float = match dtype {
        DType::F32 => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        DType::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()),
        DType::F16 => f16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        DType::Bf16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        _ => {
            let mut wide = [0u8; 16];
            wide[..bytes.len()].copy_from_slice(bytes);
            let bits = 8 * bytes.len();
            let value = i128::from_le_bytes(wide);
            let negative = is_signed(dtype) && value >> (bits - 1) & 1 == 1;
            return Value::Whole(if negative { value - (1 << bits) } else { value });
        }
    };
    Value::Real(float)
}

fn store(dtype: DType, value: Value) -> Vec<u8> {
    let value = match value {
        Value::Whole(value) => return value.to_le_bytes()[..dtype.size()].to_vec(),
        Value::Real(value) => value,
    };
    match dtype {
        DType::F32 if value.is_nan() => f32::NAN.to_ne_bytes().to_vec(),
        DType::F64 if value.is_nan() => f64::NAN.to_ne_bytes().to_vec(),
        DType::F16 if value.is_nan() => 0x7e00u16.to_ne_bytes().to_vec(),
        DType::Bf16 if value.is_nan() => 0x7fc0u16.to_ne_bytes().to_vec(),
        DType::F32 => (value as f32).to_ne_bytes().to_vec(),
        DType::F64 => value.to_ne_bytes().to_vec(),
        DType::F16 => nearest_binary16(value).to_ne_bytes().to_vec(),
        // Sums and products have no more significant bits than `half` looks at.
        DType::Bf16 => bf16::from_f64(value).to_ne_bytes().to_vec(),
        _ => unreachable!("integers are whole"),
    }
}

/// IEEE 754-2019 minimum and maximum, written differently from the kernel.
fn extreme(a: f64, b: f64, largest: bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    let order = a.total_cmp(&b);
    if order.is_gt() == largest { a } else { b }
}

fn step(op: ReduceOp, a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Whole(a), Value::Whole(b)) => Value::Whole(match op {
            ReduceOp::Sum | ReduceOp::Avg => a + b,
            ReduceOp::Product => a.wrapping_mul(b),
            ReduceOp::Min => a.min(b),
            ReduceOp::Max => a.max(b),
            ReduceOp::BitAnd => a & b,
            ReduceOp::BitOr => a | b,
            ReduceOp::BitXor => a ^ b,
        }),
        (Value::Real(a), Value::Real(b)) => Value::Real(match op {
            ReduceOp::Sum | ReduceOp::Avg => a + b,
            ReduceOp::Product => a * b,
            ReduceOp::Min => extreme(a, b, false),
            ReduceOp::Max => extreme(a, b, true),
            _ => unreachable!("no bit operations on floats"),
        }),
        _ => unreachable!("operands of one type"),
    }
}

/// bfloat16 has binary32's range, so products among its subnormals round twice; as documented.
fn may_round_twice(op: ReduceOp, dtype: DType, result: &[u8]) -> bool {
    let Value::Real(value) = load(dtype, result) else { return false };
    dtype == DType::Bf16 && op == ReduceOp::Product && value.abs() <= f64::from(f32::MIN_POSITIVE)
}

fn expect_reduced(op: ReduceOp, dtype: DType, a: &[u8], b: &[u8], result: &[u8], what: &str) {
    let size = dtype.size();
    for (at, got) in result.chunks(size).enumerate() {
        let (a, b) = (&a[at * size..][..size], &b[at * size..][..size]);
        let expected = store(dtype, step(op, load(dtype, a), load(dtype, b)));
        if may_round_twice(op, dtype, &expected) {
            let as_integer = |bytes: &[u8]| i32::from(i16::from_ne_bytes(bytes.try_into().unwrap()));
            assert!((as_integer(got) - as_integer(&expected)).abs() <= 1);
        } else {
            assert_eq!(got, expected, "{what} {op} {dtype} element {at}: {a:?} and {b:?}");
        }
    }
}

/// Runs in place, out of place, at odd addresses and by the plain loops, and compares all of them.
fn every_way(op: ReduceOp, dtype: DType, a: &[u8], b: &[u8]) {
    let mut in_place = a.to_vec();
    reduce(op, dtype, &mut in_place, b).unwrap();
    expect_reduced(op, dtype, a, b, &in_place, "in place");

    let mut shifted = vec![0; a.len() + 3];
    let odd: Vec<u8> = [0].iter().chain(b).copied().collect();
    reduce_from(op, dtype, &mut shifted[3..], a, &odd[1..]).unwrap();
    assert_eq!(shifted[3..], in_place, "out of place, {op} {dtype}");

    let mut plain = a.to_vec();
    kernel::fold(op, dtype, InPlace { into: &mut plain, from: b, half: Soft });
    assert_eq!(plain, in_place, "plain loops, {op} {dtype}");
    let mut plain = vec![0; a.len()];
    kernel::fold(op, dtype, OutOfPlace { into: &mut plain, a: b, b: a, half: Soft });
    assert_eq!(plain, in_place, "commuted, {op} {dtype}");
}

fn every_pair() -> impl Iterator<Item = (ReduceOp, DType)> {
    let pairs = ReduceOp::ALL.iter().flat_map(|op| DType::ALL.iter().map(|dtype| (*op, *dtype)));
    pairs.filter(|(op, dtype)| supports(*op, *dtype))
}

/// Bytes that are often extreme: zeros, ones and the patterns of infinities and NaN are more frequent than in uniform random data.
fn bytes(len_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => any::<u8>(), 1 => Just(0), 1 => Just(0xff), 1 => Just(0x7f), 1 => Just(0x80), 1 => Just(0x7c)];
    proptest::collection::vec(byte, 0..len_max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn reduces_like_plain_arithmetic(mut a in bytes(1500), mut b in bytes(1500)) {
        let len = a.len().min(b.len()) / 8 * 8;
        a.truncate(len);
        b.truncate(len);
        for (op, dtype) in every_pair() {
            every_way(op, dtype, &a, &b);
        }
    }

    #[test]
    fn counts_that_fill_no_vector(elements in 0usize..70, seed in any::<u64>()) {
        for (op, dtype) in every_pair() {
            let fill = |salt: u64| -> Vec<u8> {
                (0..elements * dtype.size()).map(|at| {
                    let mixed = (seed ^ salt).wrapping_add(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    (mixed >> 40) as u8
                }).collect()
            };
            every_way(op, dtype, &fill(1), &fill(2));
        }
    }

    #[test]
    fn divides_like_plain_arithmetic(mut a in bytes(1200), by in prop_oneof![1u32..40, Just(65_535), any::<u32>()]) {
        a.truncate(a.len() / 8 * 8);
        prop_assume!(by > 0);
        for dtype in DType::ALL.iter().copied().filter(|dtype| *dtype != DType::None) {
            let mut got = a.clone();
            divide(dtype, &mut got, by).unwrap();
            let mut plain = a.clone();
            kernel::divide(dtype, &mut plain, by, Soft);
            prop_assert_eq!(&got, &plain);
            for (before, after) in a.chunks(dtype.size()).zip(got.chunks(dtype.size())) {
                expect_quotient(dtype, before, by, after);
            }
        }
    }
}

fn expect_quotient(dtype: DType, before: &[u8], by: u32, after: &[u8]) {
    match load(dtype, before) {
        Value::Whole(value) => assert_eq!(after, store(dtype, Value::Whole(value / i128::from(by)))),
        Value::Real(value) => {
            let divisor = if dtype == DType::F64 { f64::from(by) } else { f64::from(by as f32) };
            let expected = store(dtype, Value::Real(value / divisor));
            if matches!(dtype, DType::F16 | DType::Bf16) {
                // Rounded through binary32: a tie may go to the other side.
                let as_integer = |bytes: &[u8]| i32::from(i16::from_ne_bytes(bytes.try_into().unwrap()));
                let off = (as_integer(after) - as_integer(&expected)).abs();
                assert!(off <= 1, "{dtype}: {value} / {by}");
            } else {
                assert_eq!(after, expected, "{dtype}: {value} / {by}");
            }
        }
    }
}

#[test]
fn every_binary16_and_bfloat16_is_widened_and_narrowed_exactly() {
    for bits in 0..=u16::MAX {
        let bytes = bits.to_ne_bytes();
        if !f16::from_bits(bits).is_nan() {
            assert_eq!(float16::narrow_f16(float16::widen_f16(bytes)), bytes);
            let mut block = [0.0; 256];
            let mut back = [0; 16];
            Soft.widen(&[bytes; 8].concat(), &mut block);
            Soft.narrow(&block, &mut back);
            assert_eq!(back.as_slice(), [bytes; 8].concat());
        }
        if !bf16::from_bits(bits).is_nan() {
            assert_eq!(float16::narrow_bf16(float16::widen_bf16(bytes)), bytes);
        }
    }
}

#[test]
fn an_average_of_16_bit_floats_by_a_world_of_32_is_the_nearest() {
    for bits in 0..=u16::MAX {
        for by in [2u32, 3, 5, 7, 8, 12, 31, 32] {
            let value = f16::from_bits(bits);
            let mut bytes = bits.to_ne_bytes();
            finish(ReduceOp::Avg, DType::F16, &mut bytes, by).unwrap();
            let expected = nearest_binary16(value.to_f64() / f64::from(by));
            assert_eq!(u16::from_ne_bytes(bytes), expected, "{value} / {by}");
        }
    }
}

#[test]
fn nan_propagates_and_zeros_have_signs() {
    let f = |x: f32| x.to_ne_bytes();
    for (op, a, b, expected) in [
        (ReduceOp::Min, f32::NAN, 1.0, f32::NAN),
        (ReduceOp::Max, 1.0, -f32::NAN, f32::NAN),
        (ReduceOp::Min, 0.0, -0.0, -0.0),
        (ReduceOp::Max, -0.0, 0.0, 0.0),
        (ReduceOp::Sum, f32::INFINITY, f32::NEG_INFINITY, f32::NAN),
        (ReduceOp::Product, 0.0, f32::INFINITY, f32::NAN),
    ] {
        let mut into = f(a);
        reduce(op, DType::F32, &mut into, &f(b)).unwrap();
        assert_eq!(into, f(expected), "{op} of {a} and {b}");
    }
}

#[test]
fn signed_averages_truncate_toward_zero() {
    let mut bytes: Vec<u8> = [-7i32, 7, i32::MIN].iter().flat_map(|x| x.to_ne_bytes()).collect();
    divide(DType::I32, &mut bytes, 2).unwrap();
    assert_eq!(bytes, [-3i32, 3, i32::MIN / 2].iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>());
}

#[test]
fn invalid_arguments_are_refused_and_nothing_written() {
    let mut four = [1u8; 4];
    let unsupported = ReduceError::Unsupported { op: ReduceOp::BitXor, dtype: DType::F32 };
    assert_eq!(reduce(ReduceOp::BitXor, DType::F32, &mut four, &[1; 4]), Err(unsupported));
    let none = ReduceError::Unsupported { op: ReduceOp::Sum, dtype: DType::None };
    assert_eq!(reduce(ReduceOp::Sum, DType::None, &mut four, &[1; 4]), Err(none));
    let length = ReduceError::Length { into: 4, from: 8 };
    assert_eq!(reduce(ReduceOp::Sum, DType::F32, &mut four, &[1; 8]), Err(length));
    assert_eq!(reduce_from(ReduceOp::Sum, DType::F32, &mut four, &[1; 4], &[1; 8]), Err(length));
    let ragged = ReduceError::Ragged { len: 4, dtype: DType::F64 };
    assert_eq!(reduce(ReduceOp::Sum, DType::F64, &mut four, &[1; 4]), Err(ragged));
    assert_eq!(divide(DType::F32, &mut four, 0), Err(ReduceError::DivisionByZero));
    assert_eq!(four, [1; 4]);
    assert_eq!(finish(ReduceOp::Sum, DType::F32, &mut four, 0), Ok(()));
}

#[test]
fn codes_and_names_are_unique() {
    for (code, op) in ReduceOp::ALL.iter().enumerate() {
        assert_eq!(*op as usize, code);
        assert_eq!(ReduceOp::from_code(code as u8), Some(*op));
        assert_eq!(ReduceOp::ALL.iter().filter(|other| other.name() == op.name()).count(), 1);
    }
    assert_eq!(ReduceOp::from_code(8), None);
}
