//! Jobs on several trees: two switches, each with its own tree.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use netfold::quantize::Rounding;
use netfold::{Builder, Communicator, Mode, ReduceOp};
use netfold_embedded::EmbeddedSwitch;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::losses::work_until;
use super::test_controller::TestController;
use super::{builder, job, linked_job, tensor, wrong};

const GRACE: Duration = Duration::from_secs(20);

pub(super) fn switches(count: usize) -> (Vec<EmbeddedSwitch>, TestController) {
    let switches: Vec<_> = (0..count).map(|_| EmbeddedSwitch::builder().start().unwrap()).collect();
    let controller =
        TestController::start(switches.iter().map(EmbeddedSwitch::control).collect(), GRACE, None);
    (switches, controller)
}

/// Runs every kind of operation and returns the rank's results; no sum of the floats is exact.
pub(super) fn everything(comm: &Communicator) -> Vec<Vec<u32>> {
    let (rank, world) = (comm.rank(), comm.world_size());
    let mut bits = Vec::new();
    let mut keep = |tensor: &[f32]| bits.push(tensor.iter().map(|value| value.to_bits()).collect());
    let odd = |len: usize, step: usize| -> Vec<f32> {
        (0..len).map(|index| ((index * 7 + step) as f32 * 0.37).sin() / f32::from(rank + 1)).collect()
    };
    for (step, len) in [1, 300, 100_000, 352 * 2 * 128 * 2, 400_001].into_iter().enumerate() {
        let mut sum = odd(len, step);
        comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        keep(&sum);
        let mut mean = odd(len, step + 9);
        let report = comm.all_reduce(&mut mean, ReduceOp::Avg).unwrap();
        assert_eq!(report.elements, len as u64);
        keep(&mean);
    }
    let mut sum = odd(300_000, 4);
    let mut residual = vec![0.0f32; sum.len()];
    for _ in 0..2 {
        comm.all_reduce_with_feedback(&mut sum, &mut residual, ReduceOp::Avg).unwrap();
        keep(&sum);
        keep(&residual);
    }
    let mut not_all_finite = odd(300_000, 5);
    not_all_finite[290_000] = f32::NAN;
    let report = comm.all_reduce(&mut not_all_finite, ReduceOp::Sum).unwrap();
    assert_eq!(report.non_finite, 1);
    let mut one = odd(300_000, 6);
    comm.broadcast(&mut one, 1).unwrap();
    keep(&one);
    let mut part = vec![0.0; 100_000];
    comm.reduce_scatter(&odd(100_000 * usize::from(world), 7), &mut part, ReduceOp::Sum).unwrap();
    keep(&part);
    let mut all = vec![0.0; 100_000 * usize::from(world)];
    comm.all_gather(&part, &mut all).unwrap();
    keep(&all);
    let mut wide = vec![u64::from(rank) << 40 | 5; 100_000];
    comm.broadcast(&mut wide, 0).unwrap();
    assert_eq!(wide, vec![5; 100_000]);
    let mut largest: Vec<i32> = (0..300_000).map(|index| index * (i32::from(rank) - 1)).collect();
    comm.all_reduce(&mut largest, ReduceOp::Max).unwrap();
    assert!(largest.iter().zip(0..).all(|(value, index)| *value == index * (i32::from(world) - 2)));
    comm.barrier().unwrap();
    bits
}

/// The same bits as over one tree, on all ranks.
#[test]
fn several_trees_give_the_results_of_one() {
    let (switches, controller) = switches(3);
    for mode in [Mode::Bfp16, Mode::Bfp32] {
        let run = |trees: u8| {
            let build = |builder: Builder| builder.mode(mode).trees(trees);
            job(3, controller.address(), build, |comm| {
                assert_eq!((comm.attachments().len(), comm.path().trees), (usize::from(trees), trees));
                let bits = everything(&comm);
                comm.leave().unwrap();
                bits
            })
        };
        let one = run(1);
        let before: Vec<u64> = switches.iter().map(|switch| switch.counters().unwrap().results).collect();
        for trees in [2, 3] {
            let several = run(trees);
            // Residuals and the parts of a scatter differ between ranks.
            assert!(several == one, "{mode} over {trees} trees");
        }
        for (switch, before) in switches.iter().zip(before) {
            assert!(switch.counters().unwrap().results > before + 1000, "all of them are used");
        }
    }
}

#[test]
fn classes_and_stochastic_rounding_work_on_several_trees() {
    let (_switches, controller) = switches(2);
    let build = |builder: Builder| {
        builder.trees(2).classes(2).mode(Mode::Bfp16).rounding(Rounding::Stochastic { seed: 3 })
    };
    let sums = job(2, controller.address(), build, |comm| {
        let handles: Vec<_> = (0..12usize)
            .map(|step| {
                let len = [100, 250_000][step % 2];
                let class = (step / 2 % 2) as u8;
                comm.all_reduce_in_class(vec![0.1f32; len], ReduceOp::Sum, class).unwrap()
            })
            .collect();
        let sums: Vec<Vec<f32>> = handles.into_iter().map(|handle| handle.wait().unwrap().0).collect();
        comm.leave().unwrap();
        sums
    });
    assert!(sums[0] == sums[1], "the same bits on all ranks");
    assert!(sums[0].iter().flatten().all(|sum| (sum - 0.2).abs() < 1e-4));
}

#[test]
fn no_operation_is_lost_with_a_tree_and_the_tree_is_rejoined() {
    for seed in 0..6u64 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let delay = Duration::from_micros(rng.random_range(0..80_000));
        let lost = rng.random_range(0..2usize);
        let (mut switches, controller) = switches(2);
        let spare = EmbeddedSwitch::builder().start().unwrap();
        let failing = Mutex::new(Some(switches.remove(lost)));
        let build = |builder: Builder| builder.trees(2);
        let done = linked_job(3, controller.address(), build, |comm| {
            comm.barrier().unwrap();
            let (wrong, count) = thread::scope(|scope| {
                if comm.rank() == 0 {
                    scope.spawn(|| {
                        thread::sleep(delay);
                        controller.set_switch(lost, spare.control());
                        if seed % 2 == 0 {
                            drop(failing.lock().unwrap().take());
                        } else {
                            controller.lose(lost, "the spine is lost");
                        }
                    });
                }
                work_until(&comm, || comm.stats().control.rejoined == 1)
            });
            assert_eq!((comm.path().name(), comm.path().lost), ("switch", vec![]));
            assert_eq!(comm.attachments().len(), 2);
            comm.barrier().unwrap();
            // Both trees are used again.
            let more = work_until(&comm, || true).0;
            comm.leave().unwrap();
            (wrong + more, count)
        });
        println!("tree {lost} after {delay:?}: {done:?} wrong elements and operations");
        assert!(done.iter().all(|(wrong, _)| *wrong == 0), "{done:?}");
        assert!(spare.counters().unwrap().results > 0);
    }
}

/// Both trees are lost, one after the other, and joins are refused for a while.
#[test]
fn ranks_that_lose_all_trees_continue_in_a_ring() {
    let (_switches, controller) = switches(2);
    let build = |builder: Builder| builder.trees(2);
    linked_job(2, controller.address(), build, |comm| {
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            controller.set_closed(true);
            controller.lose(1, "lost");
        }
        assert_eq!(work_until(&comm, || comm.path().lost.len() == 1).0, 0);
        assert_eq!((comm.path().name(), comm.attachments().len()), ("switch", 1));
        let before = comm.stats().worker.results;
        let mut sum = tensor(comm.rank(), 0, 300_000);
        comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        assert_eq!(wrong(&sum, 2, 0), 0);
        assert!(comm.stats().worker.results >= before + 300_000 / 352, "all of it over the other tree");
        comm.barrier().unwrap();
        if comm.rank() == 1 {
            controller.lose(0, "lost, too");
        }
        assert_eq!(work_until(&comm, || comm.path().lost.len() == 2).0, 0);
        assert_eq!(comm.path().name(), "ring");
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            controller.set_closed(false);
        }
        assert_eq!(work_until(&comm, || comm.path().lost.is_empty()).0, 0);
        comm.leave().unwrap();
    });
}

#[test]
fn invalid_numbers_of_trees_are_refused() {
    let (_switches, controller) = switches(1);
    for trees in [0, 9] {
        let error = builder(controller.address(), 0, 1).trees(trees).connect().unwrap_err();
        assert_eq!(error.kind(), "argument", "{error}");
    }
}
