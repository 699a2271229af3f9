//! Groups of threads, tensors, and the expected results of collectives.

use std::thread;
use std::time::Duration;

use netfold_collectives::shared::{SharedConfig, SharedGroup, SharedHandle};
use netfold_collectives::{DType, ReduceOp};

/// Longer than any test takes; a hang fails instead of lasting.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// Runs `rank` on a thread for each rank of a group; returns what they return, in order of rank.
pub(crate) fn group<T: Send>(
    config: SharedConfig,
    world: u16,
    rank: impl Fn(SharedGroup) -> T + Sync,
) -> Vec<T> {
    let (zero, handle) = SharedGroup::create(config.join_timeout(HANG)).unwrap();
    let bytes = handle.to_bytes();
    thread::scope(|scope| {
        let (rank, bytes) = (&rank, &bytes);
        let others: Vec<_> = (1..world)
            .map(|local_rank| {
                scope.spawn(move || {
                    let mut shared =
                        SharedGroup::join(&SharedHandle::from_bytes(bytes).unwrap(), local_rank).unwrap();
                    shared.set_join_timeout(HANG);
                    shared.set_stall_timeout(HANG);
                    rank(shared)
                })
            })
            .collect();
        let mut results = vec![rank(zero)];
        results.extend(others.into_iter().map(|other| other.join().unwrap()));
        results
    })
}

/// A short segment, so that small tensors take many.
pub(crate) fn config(world: u16) -> SharedConfig {
    SharedConfig::new(world).segment_bytes(4096).stall_timeout(HANG)
}

/// Bytes that differ by seed and position, and are ordinary numbers in every type.
pub(crate) fn tensor(dtype: DType, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(count * dtype.size());
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let small = (state >> 40) as i32 % 1000;
        match dtype {
            DType::F32 => bytes.extend((small as f32 / 7.0).to_ne_bytes()),
            DType::F64 => bytes.extend((f64::from(small) / 7.0).to_ne_bytes()),
            // The upper half of a binary32 is a bfloat16, and a plausible binary16.
            DType::F16 | DType::Bf16 => {
                bytes.extend(((small as f32 / 7.0).to_bits() as u64 >> 16).to_ne_bytes()[..2].iter())
            }
            _ => bytes.extend_from_slice(&state.to_ne_bytes()[..dtype.size()]),
        }
    }
    bytes
}

/// The reduction of tensors from the left, divided for averages.
pub(crate) fn fold(dtype: DType, op: ReduceOp, tensors: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = tensors[0].clone();
    for tensor in &tensors[1..] {
        netfold_collectives::reduce::reduce(op, dtype, &mut sum, tensor).unwrap();
    }
    netfold_collectives::reduce::finish(op, dtype, &mut sum, tensors.len() as u32).unwrap();
    sum
}
