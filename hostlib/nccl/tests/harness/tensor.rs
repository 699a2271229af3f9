//! Tensors whose reduction is known.

use half::{bf16, f16};

/// Data types and operations of NCCL that are tried, with names: (dtype, op, name).
pub(crate) const REDUCTIONS: &[(i32, i32, &str)] = &[
    (7, 0, "f32 sum"),
    (6, 0, "f16 sum"),
    (9, 0, "bf16 sum"),
    (2, 0, "i32 sum"),
    (2, 2, "i32 max"),
    (2, 3, "i32 min"),
    (3, 0, "u32 sum"),
    (0, 0, "i8 sum"),
    (0, 2, "i8 max"),
    (0, 3, "i8 min"),
    (1, 0, "u8 sum"),
    (1, 2, "u8 max"),
    (1, 3, "u8 min"),
    (3, 2, "u32 max"),
    (3, 3, "u32 min"),
    (4, 0, "i64 sum"),
    (5, 0, "u64 sum"),
    (6, 2, "f16 max"),
    (6, 3, "f16 min"),
    (7, 2, "f32 max"),
    (7, 3, "f32 min"),
    (9, 2, "bf16 max"),
    (9, 3, "bf16 min"),
];

pub(crate) fn size_of(dtype: i32) -> usize {
    match dtype {
        0 | 1 | 10 | 11 => 1,
        6 | 9 => 2,
        2 | 3 | 7 => 4,
        _ => 8,
    }
}

/// A small integer, so that every sum of few is exact in every type.
fn value(rank: usize, salt: usize, index: usize) -> i64 {
    let mixed =
        (index as u64 ^ (salt as u64) << 32 ^ (rank as u64) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as i64 % 16
}

fn write(dtype: i32, value: i64, out: &mut Vec<u8>) {
    match dtype {
        0 => out.extend((value as i8).to_ne_bytes()),
        1 => out.extend((value as u8).to_ne_bytes()),
        4 | 5 => out.extend(value.to_ne_bytes()),
        2 => out.extend((value as i32).to_ne_bytes()),
        3 => out.extend((value as u32).to_ne_bytes()),
        6 => out.extend(f16::from_f32(value as f32).to_ne_bytes()),
        7 => out.extend((value as f32).to_ne_bytes()),
        9 => out.extend(bf16::from_f32(value as f32).to_ne_bytes()),
        other => panic!("no tensors of type {other}"),
    }
}

/// Integers may be negative, and large enough to wrap.
fn spread(dtype: i32, value: i64) -> i64 {
    match dtype {
        2 => (value - 8) * 150_000_001,
        3 => value * 250_000_001,
        1 => value * 15,
        4 => (value - 8) * 500_000_000_000_000_003,
        // The bits of what is negative are those of large numbers.
        5 => (value - 8) * 500_000_000_000_000_003,
        _ => value - 8,
    }
}

pub(crate) fn input(dtype: i32, rank: usize, salt: usize, count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(count * size_of(dtype));
    (0..count).for_each(|index| write(dtype, spread(dtype, value(rank, salt, index)), &mut out));
    out
}

pub(crate) fn expected(dtype: i32, op: i32, world: usize, salt: usize, count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(count * size_of(dtype));
    for index in 0..count {
        let values = (0..world).map(|rank| spread(dtype, value(rank, salt, index)));
        let folded = match op {
            0 => values.fold(0, i64::wrapping_add),
            2 => values.max().unwrap(),
            3 => values.min().unwrap(),
            other => panic!("no operation {other}"),
        };
        write(dtype, folded, &mut out);
    }
    out
}
