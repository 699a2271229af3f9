//! Trees of unequal rates: parts of operations follow the rates, and results do not change.

use std::time::{Duration, Instant};

use netfold::{Builder, Communicator, GroupKey, Mode, ReduceOp};
use netfold_embedded::EmbeddedSwitch;
use netfold_switch::queue::{PortConfig, QueueConfig, Rate};

use super::test_controller::TestController;
use super::trees::everything;
use super::{job, linked_job, tensor, wrong};

const GRACE: Duration = Duration::from_secs(20);

/// Elements of an operation that is divided between two trees in every mode.
const LEN: usize = 200_000;

/// Two switches whose ports have these rates in bits per second, each for a tree of its own.
fn switches(rates: [u64; 2]) -> (Vec<EmbeddedSwitch>, TestController) {
    let start = |rate: u64| {
        let port = PortConfig { rate: Some(Rate::of(rate)), ..PortConfig::default() };
        EmbeddedSwitch::builder().queues(QueueConfig { port, ..QueueConfig::default() }).start().unwrap()
    };
    let switches: Vec<EmbeddedSwitch> = rates.into_iter().map(start).collect();
    let controller =
        TestController::start(switches.iter().map(EmbeddedSwitch::control).collect(), GRACE, None);
    (switches, controller)
}

/// Sums until all ranks agree that `over` is true; the number of wrong elements.
fn sum_until(comm: &Communicator, over: impl Fn(&Communicator) -> bool) -> usize {
    let (rank, world) = (comm.rank(), comm.world_size());
    let mut wrongs = 0;
    for step in 0.. {
        let mut sum = tensor(rank, step, LEN);
        comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        wrongs += wrong(&sum, world, step);
        let mut stop = [i32::from(over(comm))];
        comm.all_reduce(&mut stop, ReduceOp::Min).unwrap();
        if stop[0] == 1 {
            break;
        }
    }
    wrongs
}

/// The seconds that an operation takes: the fastest of five, which are fewer than those before the first change of shares.
fn seconds(comm: &Communicator) -> f64 {
    let once = |_| {
        let mut sum = tensor(comm.rank(), 0, LEN);
        comm.barrier().unwrap();
        let begun = Instant::now();
        comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        begun.elapsed().as_secs_f64()
    };
    (0..5).map(once).fold(f64::INFINITY, f64::min)
}

fn follow(build: impl Fn(Builder) -> Builder + Sync) {
    let (_switches, controller) = switches([40_000_000, 10_000_000]);
    let done = linked_job(2, controller.address(), build, |comm| {
        assert_eq!(comm.tree_shares(), [0.5; 2]);
        let first = seconds(&comm);
        let wrongs = sum_until(&comm, |comm| comm.tree_shares()[0] > 0.75);
        let last = seconds(&comm);
        if comm.rank() == 0 {
            println!("shares {:?}: {:.2} times as fast as even ones", comm.tree_shares(), first / last);
        }
        // All ranks divide alike: otherwise they would not execute the same operations.
        let shares = comm.tree_shares();
        comm.leave().unwrap();
        (wrongs, shares)
    });
    assert!(done.iter().all(|(wrongs, _)| *wrongs == 0), "{done:?}");
    assert_eq!(done[0].1, done[1].1);
}

#[test]
fn parts_follow_the_rates_of_the_trees() {
    follow(|builder| builder.trees(2));
}

/// Rates are exchanged under masks, too.
#[test]
fn parts_follow_the_rates_in_a_confidential_job() {
    follow(|builder| builder.trees(2).classes(2).confidential(GroupKey::from([7; 32])));
}

#[test]
fn results_do_not_depend_on_shares() {
    let bits = |rates: [u64; 2], trees: u8| {
        let (_switches, controller) = switches(rates);
        let build = |builder: Builder| builder.mode(Mode::Bfp16).trees(trees);
        job(2, controller.address(), build, |comm| {
            if trees > 1 {
                sum_until(&comm, |comm| comm.tree_shares()[0] > 0.6);
            }
            let bits = everything(&comm);
            comm.leave().unwrap();
            bits
        })
    };
    assert!(bits([80_000_000, 20_000_000], 2) == bits([1_000_000_000; 2], 1));
}

/// A tree that is lost has no share, and an even one when it is used again.
#[test]
fn a_tree_that_is_used_again_has_a_share_again() {
    let (_switches, controller) = switches([40_000_000, 10_000_000]);
    let build = |builder: Builder| builder.trees(2);
    linked_job(2, controller.address(), build, |comm| {
        assert_eq!(sum_until(&comm, |comm| comm.tree_shares()[0] > 0.6), 0);
        if comm.rank() == 0 {
            controller.set_closed(true);
            controller.lose(1, "lost");
        }
        assert_eq!(sum_until(&comm, |comm| comm.tree_shares() == [1.0, 0.0]), 0);
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            controller.set_closed(false);
        }
        assert_eq!(sum_until(&comm, |comm| comm.tree_shares()[1] > 0.0), 0);
        comm.leave().unwrap();
    });
}
