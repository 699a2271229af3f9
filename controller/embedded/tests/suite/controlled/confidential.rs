//! Confidential jobs: the results of plain ones, whatever the network does, and nothing but masked lanes at the switch.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use netfold::{Builder, Error, GroupKey, Mode, ReduceOp, Tolerance};
use netfold_embedded::{EmbeddedSwitch, Tampering};
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::vacant_address;
use netfold_testkit::job::{CheckedSum, on_all_ranks};
use netfold_wire::{Kind, Packet, header};

use super::losses::expect_rejoin;
use super::test_controller::TestController;
use super::trees::{everything, switches};
use super::{builder, linked_job};

const GRACE: Duration = Duration::from_secs(20);

fn key() -> GroupKey {
    GroupKey::from([0x5a; 32])
}

/// A switch before which packets are lost, repeated and overtaken, and its controller.
fn lossy_switch(faults: &'static str) -> (EmbeddedSwitch, TestController) {
    let wrap = move |io| {
        let config: FaultConfig = faults.parse().unwrap();
        Ok(Box::new(Faulty::new(io, config)) as Box<_>)
    };
    let switch = EmbeddedSwitch::builder().middleware(wrap).start().unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    (switch, controller)
}

#[test]
fn results_are_those_of_a_plain_job() {
    let (switches, controller) = switches(2);
    for mode in [Mode::Bfp16, Mode::Bfp32] {
        for trees in [1, 2] {
            let run = |confidential: bool| {
                let build = |builder: Builder| {
                    let builder = builder.mode(mode).trees(trees).classes(2);
                    if confidential { builder.confidential(key()) } else { builder }
                };
                linked_job(3, controller.address(), build, |comm| {
                    let bits = everything(&comm);
                    assert_eq!((comm.path().name(), comm.path().lost), ("switch", vec![]));
                    comm.leave().unwrap();
                    bits
                })
            };
            assert!(run(true) == run(false), "{mode} over {trees} trees");
        }
    }
    assert!(switches.iter().all(|switch| switch.counters().unwrap().results > 1000));
}

/// Four workers, one packet in a hundred lost on either side, others repeated or overtaken: no element is wrong.
#[test]
fn results_are_right_at_a_lossy_switch() {
    let (_switch, controller) = lossy_switch("loss=0.01,duplicate=0.01,reorder=0.02,seed=7");
    for mode in [Mode::I32, Mode::Bfp16, Mode::Bfp32] {
        let build = |builder: Builder| builder.mode(mode).confidential(key());
        let stats = linked_job(4, controller.address(), build, |comm| {
            for operation in 0..4 {
                let sum = CheckedSum { world: 4, elements: 150_000, operation };
                let mut tensor = sum.contribution(comm.rank());
                comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                sum.verify(comm.rank(), &tensor);
            }
            let mut bits = Vec::new();
            if mode != Mode::I32 {
                let mut tensor: Vec<f32> = (0..150_000).map(|at| (at as f32 * 0.37).sin()).collect();
                comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                for (at, sum) in tensor.iter().enumerate() {
                    let off = (sum - 4.0 * (at as f32 * 0.37).sin()).abs();
                    assert!(off < 4e-3, "{mode}, element {at}: off by {off}");
                }
                bits = tensor.into_iter().map(f32::to_bits).collect();
            }
            let stats = comm.stats().worker;
            comm.leave().unwrap();
            (stats.retransmitted, bits)
        });
        assert!(stats.iter().map(|(retransmitted, _)| retransmitted).sum::<u64>() > 50, "packets were lost");
        assert!(stats.iter().all(|(_, bits)| *bits == stats[0].1), "the same bits on every rank");
    }
}

/// What was under way when the switch was lost, and what comes later under another attachment's key, is right.
#[test]
fn ranks_that_lost_their_switch_rejoin() {
    expect_rejoin(6, |builder| builder.confidential(key()));
}

/// The lanes of the packets that a switch receives from ranks with all-zero tensors.
#[test]
fn a_switch_sees_nothing_of_tensors() {
    const OPERATIONS: usize = 3;
    const WORLD: u16 = 3;
    let seen: Arc<Mutex<HashSet<Vec<u8>>>> = Arc::default();
    let capture = Arc::clone(&seen);
    let wrap = move |io| {
        let capture = Arc::clone(&capture);
        let note = move |bytes: &mut [u8]| {
            if let Ok(packet) = Packet::new_checked(&*bytes)
                && packet.kind() == Kind::Data as u8
                && bytes.len() > header::LEN
            {
                // A retransmission has the same lanes.
                capture.lock().unwrap().insert(bytes[header::LEN..].to_vec());
            }
            Some(bytes.len())
        };
        Ok(Box::new(Tampering::new(io, note)) as Box<_>)
    };
    let switch = EmbeddedSwitch::builder().middleware(wrap).start().unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    let build = |builder: Builder| builder.confidential(key());
    linked_job(WORLD, controller.address(), build, |comm| {
        for _ in 0..OPERATIONS {
            let mut zeros = vec![0.0f32; 300_000];
            comm.all_reduce(&mut zeros, ReduceOp::Sum).unwrap();
            assert!(zeros.iter().all(|zero| zero.to_bits() == 0));
        }
        comm.leave().unwrap();
    });
    let seen = seen.lock().unwrap();
    let zeros = |lanes: &&Vec<u8>| lanes.iter().filter(|byte| **byte == 0).count() > lanes.len() / 16;
    let in_clear = seen.iter().filter(zeros).count();
    assert!(in_clear <= usize::from(WORLD), "{in_clear} packets, more than the descriptors' {WORLD}");
    let masked: Vec<&Vec<u8>> = seen.iter().filter(|lanes| !zeros(lanes)).collect();
    assert!(masked.len() > 5000, "{} packets", masked.len());
    let mut counts = [0u64; 256];
    masked.iter().copied().flatten().for_each(|byte| counts[usize::from(*byte)] += 1);
    let expected = counts.iter().sum::<u64>() as f64 / 256.0;
    let chi_squared: f64 = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    // Bounds of probability 10^-6 on either side, with 255 degrees of freedom.
    assert!((161.0..=378.0).contains(&chi_squared), "chi-squared {chi_squared}");
    let mut windows: Vec<&[u8]> = masked.iter().flat_map(|lanes| lanes.windows(32).step_by(16)).collect();
    let all = windows.len();
    windows.sort_unstable();
    windows.dedup();
    assert_eq!(windows.len(), all, "windows of 32 bytes that occur twice");
    println!("{} packets, chi-squared {chi_squared:.1}", masked.len());
}

/// Builds every rank, of which some have other settings.
fn refused(
    world: u16,
    controller: std::net::SocketAddr,
    build: impl Fn(u16, Builder) -> Builder + Sync,
) -> Vec<Error> {
    let at = vacant_address().unwrap();
    on_all_ranks(world, |rank| {
        let builder = builder(controller, rank, world).rendezvous(at).unwrap();
        build(rank, builder).connect().map(drop).unwrap_err()
    })
}

#[test]
fn ranks_with_another_group_key_are_named() {
    let (_switches, controller) = switches(1);
    let errors = refused(4, controller.address(), |rank, builder| {
        builder.confidential(if rank == 2 { GroupKey::from([1; 32]) } else { key() })
    });
    let names = |ranks: &[u16]| Error::GroupKeyDiffers { ranks: ranks.to_vec() };
    assert_eq!(errors, [names(&[2]), names(&[2]), names(&[0, 1, 3]), names(&[2])]);
    assert!(errors[0].to_string().contains("rank 2"), "{}", errors[0]);
    assert!(errors[2].to_string().contains("ranks 0, 1 and 3"), "{}", errors[2]);
    assert_eq!((errors[0].kind(), errors[0].peer()), ("group_key", Some(2)));
}

#[test]
fn ranks_of_which_some_are_not_confidential_are_refused() {
    let (_switches, controller) = switches(1);
    let errors =
        refused(
            2,
            controller.address(),
            |rank, builder| {
                if rank == 1 { builder.confidential(key()) } else { builder }
            },
        );
    for error in errors {
        assert!(matches!(&error, Error::Differs { .. }), "{error}");
        assert!(error.to_string().contains("confidential yes"), "{error}");
    }
}

#[test]
fn what_cannot_be_masked_is_refused_with_the_reason() {
    let (_switches, controller) = switches(1);
    let tolerance = Tolerance::fraction(0.01).unwrap();
    let confidential = |change: fn(Builder, Tolerance) -> Builder| {
        let errors =
            refused(1, controller.address(), |_, builder| change(builder.confidential(key()), tolerance));
        let [error] = &errors[..] else { panic!("one rank") };
        assert!(matches!(error, Error::Confidential { .. }) && error.kind() == "argument", "{error}");
        error.to_string()
    };
    for mode in [Mode::Saturating, Mode::Wide, Mode::Half, Mode::Float] {
        let at = vacant_address().unwrap();
        let builder = builder(controller.address(), 0, 1).rendezvous(at).unwrap().confidential(key());
        let error = builder.mode(mode).connect().map(drop).unwrap_err();
        assert!(error.to_string().contains("use mode i32, bfp32 or bfp16"), "{error}");
    }
    assert!(confidential(|builder, tolerance| builder.tolerance(tolerance)).contains("set no tolerance"));
    let alone = builder(controller.address(), 0, 1).confidential(key()).connect().map(drop).unwrap_err();
    assert!(alone.to_string().contains("rendezvous"), "{alone}");
}
