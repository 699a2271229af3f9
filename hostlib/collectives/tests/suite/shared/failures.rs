//! Wrong calls and broken groups, with threads as ranks.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use netfold_collectives::shared::{SharedConfig, SharedError, SharedGroup, SharedHandle};
use netfold_collectives::{CallKind, Collective, DType, ReduceOp};
use netfold_testkit::wait::eventually;

use crate::shared::ranks::{config, group};

#[test]
fn a_mismatch_is_reported_on_all_ranks_and_the_group_continues() {
    group(config(3), 3, |mut shared| {
        let rank = shared.local_rank();
        let mut tensor = vec![rank as u8; 40_000];
        for round in 0..4 {
            let odd = rank == 1;
            let dtype = if odd && round == 0 { DType::I8 } else { DType::U8 };
            let op = if odd && round == 1 { ReduceOp::Max } else { ReduceOp::Sum };
            let len = if odd && round == 2 { 39_999 } else { 40_000 };
            let result = if odd && round == 3 {
                shared.barrier()
            } else {
                shared.all_reduce(dtype, op, &mut tensor[..len])
            };
            match result {
                Err(SharedError::Mismatch { local_rank, mine, theirs }) => {
                    assert_eq!(local_rank, if odd { 0 } else { 1 });
                    assert_ne!(mine, theirs);
                    let (other, own) = if odd { (theirs, mine) } else { (mine, theirs) };
                    assert_eq!(other.count, 40_000);
                    match round {
                        0 => assert_eq!((other.dtype, own.dtype), (DType::U8, DType::I8)),
                        1 => assert_eq!((other.op, own.op), (ReduceOp::Sum, ReduceOp::Max)),
                        2 => assert_eq!(own.count, 39_999),
                        _ => assert_eq!(own.kind, CallKind::Collective(Collective::Barrier)),
                    }
                }
                other => panic!("round {round}: {other:?}"),
            }
            assert!(tensor.iter().all(|byte| *byte == rank as u8), "round {round} touched the tensor");
        }
        shared.all_reduce(DType::U8, ReduceOp::Sum, &mut tensor[..]).unwrap();
        assert!(tensor.iter().all(|byte| *byte == 3));
    });
}

#[test]
fn different_roots_differ() {
    group(config(2), 2, |mut shared| {
        let root = shared.local_rank();
        let result = shared.broadcast(DType::U8, root, &mut [1u8; 10][..]);
        assert!(matches!(result, Err(SharedError::Mismatch { .. })), "{result:?}");
    });
}

#[test]
fn invalid_arguments_are_refused_at_once() {
    let (mut shared, _handle) = SharedGroup::create(config(3)).unwrap();
    let mut bytes = [0u8; 16];
    let mut other = [0u8; 12];
    let is_length = |result| matches!(result, Err(SharedError::Length { .. }));
    assert!(is_length(shared.all_reduce(DType::F32, ReduceOp::Sum, &mut bytes[..15])));
    assert!(is_length(shared.all_reduce(DType::F32, ReduceOp::Sum, (&other[..], &mut bytes[..]))));
    assert!(is_length(shared.all_gather(DType::F32, &mut bytes[..])));
    assert!(is_length(shared.all_gather(DType::F32, (&bytes[..4], &mut other[..8]))));
    assert!(is_length(shared.all_to_all(DType::F32, (&bytes[..12], &mut other[..8]))));
    assert!(is_length(shared.reduce_scatter(DType::F32, ReduceOp::Sum, (&bytes[..8], &mut other[..4]))));
    let result = shared.broadcast(DType::F32, 3, &mut bytes[..]);
    assert!(matches!(result, Err(SharedError::Root { root: 3, world: 3 })), "{result:?}");
    let result = shared.all_reduce(DType::F32, ReduceOp::BitXor, &mut bytes[..]);
    assert!(matches!(result, Err(SharedError::Unsupported { .. })), "{result:?}");
    let result = shared.all_reduce(DType::None, ReduceOp::Sum, &mut bytes[..]);
    assert!(matches!(result, Err(SharedError::Unsupported { .. })), "{result:?}");
}

#[test]
fn abort_ends_a_call_and_the_others_report_a_lost_rank() {
    let (about_to_call, aborted) = (AtomicU32::new(0), AtomicBool::new(false));
    let errors = group(config(3), 3, |mut shared| {
        shared.barrier().unwrap();
        let aborter = shared.aborter();
        let result = thread::scope(|scope| {
            match shared.local_rank() {
                // Calls after the abort, so that the others wait for it.
                0 => eventually("the abort", || aborted.load(Ordering::SeqCst)),
                1 => drop(scope.spawn(|| {
                    eventually("two calls", || about_to_call.load(Ordering::SeqCst) == 2);
                    aborter.abort();
                    aborted.store(true, Ordering::SeqCst);
                })),
                _ => {}
            }
            about_to_call.fetch_add(1, Ordering::SeqCst);
            shared.barrier()
        });
        let again = shared.barrier();
        assert_eq!(format!("{result:?}"), format!("{again:?}"), "the reason stays");
        result.unwrap_err()
    });
    assert!(matches!(errors[1], SharedError::Aborted), "{errors:?}");
    assert!(matches!(errors[0], SharedError::PeerLost { local_rank: 1 }), "{errors:?}");
    assert!(matches!(errors[2], SharedError::PeerLost { local_rank: 1 }), "{errors:?}");
}

#[test]
fn a_rank_that_leaves_is_lost() {
    group(config(4), 4, |mut shared| {
        shared.barrier().unwrap();
        if shared.local_rank() == 3 {
            return;
        }
        let result = shared.all_reduce(DType::U8, ReduceOp::Sum, &mut vec![1u8; 100_000][..]);
        assert!(matches!(result, Err(SharedError::PeerLost { local_rank: 3 })), "{result:?}");
    });
}

#[test]
fn the_first_rank_to_detect_a_mismatch_may_leave_at_once() {
    for _ in 0..300 {
        group(config(2), 2, |mut shared| {
            let aborter = shared.aborter();
            let mut mine = vec![1u8; 100 + usize::from(shared.local_rank())];
            let result = shared.all_reduce(DType::U8, ReduceOp::Sum, &mut mine[..]);
            aborter.abort();
            assert!(matches!(result, Err(SharedError::Mismatch { .. })), "{result:?}");
        });
    }
}

#[test]
fn a_rank_without_progress_stalls_the_group() {
    let failed = AtomicU32::new(0);
    group(config(3).stall_timeout(Duration::from_millis(500)), 3, |mut shared| {
        shared.barrier().unwrap();
        if shared.local_rank() == 2 {
            eventually("the others' failure", || failed.load(Ordering::SeqCst) == 2);
        }
        let result = shared.barrier();
        failed.fetch_add(1, Ordering::SeqCst);
        assert!(matches!(result, Err(SharedError::Stalled { local_rank: 2 })), "{result:?}");
    });
}

#[test]
fn missing_ranks_end_in_a_timeout() {
    let (mut zero, handle) = SharedGroup::create(config(3).join_timeout(Duration::from_millis(100))).unwrap();
    let mut one = SharedGroup::join(&handle, 1).unwrap();
    let result = zero.barrier();
    assert!(matches!(result, Err(SharedError::NotJoined { local_rank: 2, .. })), "{result:?}");
    let result = one.barrier();
    assert!(matches!(result, Err(SharedError::PeerLost { local_rank: 2 })), "{result:?}");
    let result = SharedGroup::join(&handle, 2);
    assert!(matches!(result, Err(SharedError::Open { .. })), "{result:?}");
}

#[test]
fn a_local_rank_can_be_joined_once() {
    let (_zero, handle) = SharedGroup::create(config(3)).unwrap();
    for local_rank in [0, 3, 77] {
        assert!(matches!(SharedGroup::join(&handle, local_rank), Err(SharedError::Rank { .. })));
    }
    let one = SharedGroup::join(&handle, 1).unwrap();
    assert!(matches!(SharedGroup::join(&handle, 1), Err(SharedError::AlreadyJoined { local_rank: 1 })));
    drop(one);
    assert!(matches!(SharedGroup::join(&handle, 1), Err(SharedError::AlreadyJoined { local_rank: 1 })));
    assert!(matches!(SharedGroup::create(SharedConfig::new(0)), Err(SharedError::World { .. })));
    assert!(matches!(SharedGroup::create(SharedConfig::new(257)), Err(SharedError::World { .. })));
}

#[test]
fn a_handle_of_another_segment_is_refused() {
    let (_zero, handle) = SharedGroup::create(config(2)).unwrap();
    let bytes = handle.to_bytes();
    // The token, which the header must have.
    let mut bad = bytes.clone();
    bad[20] ^= 1;
    let result = SharedGroup::join(&SharedHandle::from_bytes(&bad).unwrap(), 1);
    assert!(matches!(result, Err(SharedError::WrongSegment { what: "wrong header", .. })), "{result:?}");
    // Another number of ranks, hence another length.
    let mut bad = bytes.clone();
    bad[9] = 5;
    let result = SharedGroup::join(&SharedHandle::from_bytes(&bad).unwrap(), 1);
    assert!(matches!(result, Err(SharedError::WrongSegment { what: "wrong length", .. })), "{result:?}");
    // A symbolic link is not followed; a file that other users may open is not trusted.
    let mut bad = bytes.clone();
    let at = bad.len() - 1;
    bad[at] = if bad[at] == b'0' { b'1' } else { b'0' };
    let path = std::str::from_utf8(&bad[30..]).unwrap();
    std::os::unix::fs::symlink(std::str::from_utf8(&bytes[30..]).unwrap(), path).unwrap();
    let result = SharedGroup::join(&SharedHandle::from_bytes(&bad).unwrap(), 1);
    std::fs::remove_file(path).unwrap();
    assert!(matches!(result, Err(SharedError::Open { .. })), "{result:?}");
    std::fs::write(path, vec![0; handle_len(&handle)]).unwrap();
    let result = SharedGroup::join(&SharedHandle::from_bytes(&bad).unwrap(), 1);
    std::fs::remove_file(path).unwrap();
    assert!(
        matches!(result, Err(SharedError::WrongSegment { what: "not a private file of this user", .. })),
        "{result:?}"
    );
}

fn handle_len(handle: &SharedHandle) -> usize {
    let bytes = handle.to_bytes();
    std::fs::metadata(std::str::from_utf8(&bytes[30..]).unwrap()).unwrap().len() as usize
}

#[test]
fn the_file_is_unlinked_once_all_have_joined() {
    let (zero, handle) = SharedGroup::create(config(2)).unwrap();
    let path = String::from_utf8(handle.to_bytes()[30..].to_vec()).unwrap();
    assert!(std::fs::exists(&path).unwrap());
    let one = SharedGroup::join(&handle, 1).unwrap();
    assert!(!std::fs::exists(&path).unwrap());
    drop((zero, one));
    let (zero, handle) = SharedGroup::create(config(2)).unwrap();
    let path = String::from_utf8(handle.to_bytes()[30..].to_vec()).unwrap();
    drop(zero);
    assert!(!std::fs::exists(&path).unwrap());
}

/// Another process of the same user may write anywhere: an error, no panic, no hang.
#[test]
fn a_damaged_segment_is_an_error() {
    // Failure word; step, both descriptors, sleepers, and all of the control block of rank 1; everything before the areas.
    for (at, len) in [(128, 8), (4608, 4), (4608 + 16, 32), (4608 + 128, 4), (4608, 512), (0, 5120)] {
        for garbage in [0xffu8, 0x80, 0x55] {
            let (mut zero, handle) = SharedGroup::create(config(2)).unwrap();
            let path = String::from_utf8(handle.to_bytes()[30..].to_vec()).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            let one = SharedGroup::join(&handle, 1).unwrap();
            zero.set_stall_timeout(Duration::from_millis(100));
            zero.wait_joined().unwrap();
            file.write_all_at(&vec![garbage; len], at).unwrap();
            let result = zero.all_reduce(DType::U8, ReduceOp::Sum, &mut vec![1; 50_000][..]);
            let reported = matches!(
                result,
                Err(SharedError::Corrupt { .. } | SharedError::Stalled { .. } | SharedError::PeerLost { .. })
            );
            assert!(reported, "{garbage:#x} at {at}: {result:?}");
            drop(one);
        }
    }
}
