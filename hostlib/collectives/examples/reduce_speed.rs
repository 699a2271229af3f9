//! Bytes a second of one core for each operation and type: `cargo run --release -p netfold-collectives --example reduce_speed`.

use std::time::{Duration, Instant};

use netfold_collectives::reduce::{reduce, supports};
use netfold_collectives::{DType, ReduceOp};

/// A buffer that stays in the second-level cache.
const BYTES: usize = 128 * 1024;

fn main() {
    for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::BitXor] {
        for dtype in DType::ALL.iter().copied().filter(|dtype| supports(op, *dtype)) {
            let (mut into, from) = (vec![0u8; BYTES], vec![0u8; BYTES]);
            let (start, mut rounds) = (Instant::now(), 0u32);
            while start.elapsed() < Duration::from_millis(50) {
                reduce(op, dtype, &mut into, &from).expect("supported, and equal lengths");
                rounds += 1;
            }
            let gigabytes = f64::from(rounds) * BYTES as f64 / 1e9;
            println!("{op:>8} {dtype:>5} {:7.1} GB/s", gigabytes / start.elapsed().as_secs_f64());
        }
    }
}
