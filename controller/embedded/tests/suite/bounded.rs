//! Ranks at a switch whose input is trimmed: how much is left out, how sums are rescaled, and what error feedback adds later.

use std::collections::HashMap;

use netfold::{Communicator, Error, Mode, OpReport, ReduceOp, Tolerance};
use netfold_embedded::{EmbeddedSwitch, Tampering};
use netfold_io::PacketIo;
use netfold_testkit::job::on_all_ranks;
use netfold_wire::{Flags, Kind, Packet};

use crate::TIMEOUT;

const WORLD: u16 = 4;

/// Runs `rank` on every rank of a job, each with its tolerance, at a switch before which two of five droppable packets are trimmed.
fn job<R: Send>(
    mode: Mode,
    tolerance: impl Fn(u16) -> Tolerance + Sync,
    rank: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    job_behind(|io| Tampering::trimming(io, 0.4, 20_241_122), mode, tolerance, rank)
}

fn job_behind<R: Send>(
    tamper: impl Fn(Box<dyn PacketIo>) -> Tampering + Send + 'static,
    mode: Mode,
    tolerance: impl Fn(u16) -> Tolerance + Sync,
    rank: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    let switch = EmbeddedSwitch::builder().middleware(move |io| Ok(Box::new(tamper(io)))).start().unwrap();
    let control = switch.control();
    on_all_ranks(WORLD, |number| {
        let builder = Communicator::builder()
            .job("bounded")
            .rank(number)
            .world_size(WORLD)
            .slots(64)
            .mode(mode)
            .tolerance(tolerance(number))
            .stall_timeout(TIMEOUT)
            .switch(control)
            .unwrap();
        rank(builder.connect().unwrap())
    })
}

/// Every rank's contribution identifies it: 1, 2, 4 and 8.
fn contribution(rank: u16) -> f32 {
    f32::from(1u16 << rank)
}

/// Sums of the contributions of some ranks, rescaled by the number of ranks over that of contributions.
fn possible() -> Vec<f32> {
    (1u16..1 << WORLD)
        .map(|members| f32::from(members) * f32::from(WORLD) / members.count_ones() as f32)
        .chain([0.0])
        .collect()
}

#[test]
fn sums_are_rescaled_by_their_contributors_and_no_rank_exceeds_its_tolerance() {
    let tolerance = Tolerance::fraction(0.2).unwrap();
    for mode in [Mode::Bfp32, Mode::Bfp16] {
        let results = job(
            mode,
            |_| tolerance,
            |comm| {
                let mut tensor = vec![contribution(comm.rank()); 100_000];
                let report = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                comm.leave().unwrap();
                (tensor, report)
            },
        );
        let possible = possible();
        let (first, OpReport { chunks, partial, .. }) = &results[0];
        println!("{mode:?}: {chunks} chunks, {partial} partial");
        assert!(*partial > chunks / 20, "{partial} of {chunks} chunks lack contributions");
        for (rank, (tensor, report)) in results.iter().enumerate() {
            assert_eq!((tensor, report.partial), (first, *partial), "rank {rank} has the result of rank 0");
            assert!(report.left_out > 0 && report.left_out <= chunks / 5, "rank {rank}: {report:?}");
        }
        for element in first {
            let near = |sum: &&f32| (**sum - element).abs() < 1e-2;
            assert!(possible.iter().any(|sum| near(&sum)), "{element} is not a sum of contributions");
        }
    }
}

#[test]
fn error_feedback_adds_what_was_left_out_in_a_later_step() {
    const STEPS: usize = 12;
    const LEN: usize = 30_000;
    let as_it_is = Tolerance { rescale: false, ..Tolerance::fraction(0.3).unwrap() };
    let input =
        |rank: u16, step: usize, at: usize| ((at * 7 + step * 13 + usize::from(rank)) % 97) as f32 - 48.0;
    let results = job(
        Mode::Bfp32,
        |_| as_it_is,
        |comm| {
            let mut residual = vec![0.0f32; LEN];
            let mut delivered = vec![0.0f64; LEN];
            let mut left_out = 0;
            for step in 0..STEPS {
                let mut tensor: Vec<f32> = (0..LEN).map(|at| input(comm.rank(), step, at)).collect();
                let report =
                    comm.all_reduce_with_feedback(&mut tensor, &mut residual, ReduceOp::Sum).unwrap();
                left_out += report.left_out;
                delivered.iter_mut().zip(&tensor).for_each(|(sum, new)| *sum += f64::from(*new));
            }
            comm.leave().unwrap();
            (delivered, residual, left_out)
        },
    );
    assert!(results.iter().all(|(_, _, left_out)| *left_out > 0), "something is left out of every rank");
    for at in 0..LEN {
        let sent: f64 =
            (0..WORLD).flat_map(|rank| (0..STEPS).map(move |step| f64::from(input(rank, step, at)))).sum();
        let held: f64 = results.iter().map(|(_, residual, _)| f64::from(residual[at])).sum();
        let found = results[0].0[at] + held;
        assert!(
            (sent - found).abs() < 1e-3,
            "element {at}: {sent} was sent, {found} was received or is kept"
        );
    }
}

/// Drops the first `drops` transmissions of one in twenty whole chunks of the last rank.
fn dropping(io: Box<dyn PacketIo>, drops: u32) -> Tampering {
    let mut dropped: HashMap<u32, u32> = HashMap::new();
    Tampering::new(io, move |bytes| {
        let Ok(packet) = Packet::new_checked(&*bytes) else { return Some(bytes.len()) };
        // A worker's own bit is its rank's number.
        let affected = packet.kind() == Kind::Data as u8
            && packet.bitmap() == 1 << (WORLD - 1)
            && !packet.flags().contains(Flags::BARE)
            && packet.chunk().wrapping_mul(2_654_435_761) >> 16 < 65_536 / 20;
        if affected {
            let dropped = dropped.entry(packet.chunk()).or_default();
            if *dropped < drops {
                *dropped += 1;
                return None;
            }
        }
        Some(bytes.len())
    })
}

/// One in twenty chunks of one rank is lost: exact sums wait for its retransmission, and tolerant ones close the slot without it.
#[test]
fn missing_contributions_are_left_out_of_their_rank_and_the_others_do_not_wait() {
    let play = |tolerance: Tolerance, drops: u32| {
        job_behind(
            move |io| dropping(io, drops),
            Mode::Bfp32,
            |_| tolerance,
            |comm| {
                let mut tensor = vec![contribution(comm.rank()); 300_000];
                let report = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                comm.leave().unwrap();
                (tensor, report)
            },
        )
    };
    // Three transmissions of each are lost: only retransmissions complete the sums.
    let exact = play(Tolerance::NONE, 3);
    let tolerance = Tolerance { rescale: false, ..Tolerance::fraction(0.3).unwrap() };
    // None ever arrives: a rank that waited for it would wait until the test's timeout.
    let closed = play(tolerance.with_stragglers(), u32::MAX);
    println!("{:?}", closed[0].1);
    let all: f32 = (0..WORLD).map(contribution).sum();
    assert!(exact.iter().all(|(tensor, _)| tensor.iter().all(|sum| *sum == all)), "exact sums are exact");
    assert!(exact.iter().all(|(_, report)| report.partial == 0), "no slot was closed");
    let (first, OpReport { chunks, partial, .. }) = &closed[0];
    assert!(*partial > chunks / 50, "{partial} of {chunks} slots were closed");
    // Contributions are powers of two, so that a sum identifies its contributors.
    let lanes = first.chunks(first.len().div_ceil(*chunks as usize));
    assert!(
        lanes.clone().all(|chunk| chunk.iter().all(|sum| *sum == chunk[0])),
        "all elements of a chunk have the same contributors"
    );
    let sums: Vec<u32> = lanes.map(|chunk| chunk[0] as u32).collect();
    let lacking = |rank: usize| sums.iter().filter(|sum| **sum & (1 << rank) == 0).count() as u32;
    for (rank, (tensor, report)) in closed.iter().enumerate() {
        assert_eq!((tensor, report.partial), (first, *partial), "rank {rank} has the result of rank 0");
        assert_eq!(report.left_out, lacking(rank), "rank {rank}: {report:?}");
        assert!(report.left_out <= chunks * 3 / 10, "rank {rank}: {report:?}");
    }
    assert!(lacking(usize::from(WORLD) - 1) > chunks / 50, "{sums:?}");
}

#[test]
fn exact_sums_are_exact_under_trimming() {
    let results = job(
        Mode::Bfp32,
        |_| Tolerance::NONE,
        |comm| {
            let mut tensor = vec![contribution(comm.rank()); 50_000];
            let report = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
            comm.leave().unwrap();
            (tensor, report)
        },
    );
    for (tensor, report) in results {
        assert!(tensor.iter().all(|sum| *sum == 15.0));
        assert_eq!((report.partial, report.left_out), (0, 0));
    }
}

#[test]
fn ranks_with_different_tolerances_get_an_error() {
    let errors = job(
        Mode::Bfp32,
        |rank| if rank == 2 { Tolerance::NONE } else { Tolerance::fraction(0.01).unwrap() },
        |comm| comm.all_reduce(&mut vec![1.0f32; 5000], ReduceOp::Sum).unwrap_err(),
    );
    for error in errors {
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        assert!(error.to_string().contains("up to 1 % of contributions left out"), "{error}");
    }
}
