//! Real ranks at a real switch into which a queue trims what it may: how much is missing, what is made of it, and what comes later.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use netfold::{Communicator, Error, Mode, OpReport, ReduceOp, Tolerance};
use netfold_embedded::{EmbeddedSwitch, Tampering};
use netfold_io::PacketIo;
use netfold_testkit::job::on_all_ranks;
use netfold_wire::{Flags, Kind, Packet};

const WORLD: u16 = 4;

/// Runs `rank` on every rank of a job at a switch before which two of five packets that may be trimmed are, each with its tolerance.
fn job<R: Send>(
    mode: Mode,
    tolerance: impl Fn(u16) -> Tolerance + Sync,
    rank: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    behind(|io| Tampering::trimming(io, 0.4, 20_241_122), mode, tolerance, rank)
}

fn behind<R: Send>(
    way: fn(Box<dyn PacketIo>) -> Tampering,
    mode: Mode,
    tolerance: impl Fn(u16) -> Tolerance + Sync,
    rank: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    let switch = EmbeddedSwitch::builder().middleware(move |io| Ok(Box::new(way(io)))).start().unwrap();
    let control = switch.control();
    on_all_ranks(WORLD, |number| {
        let builder = Communicator::builder()
            .job("bounded")
            .rank(number)
            .world_size(WORLD)
            .slots(64)
            .mode(mode)
            .tolerance(tolerance(number))
            .stall_timeout(Duration::from_secs(20))
            .switch(control)
            .unwrap();
        rank(builder.connect().unwrap())
    })
}

/// Every rank's share tells it apart: 1, 2, 4 and 8.
fn share(rank: u16) -> f32 {
    f32::from(1u16 << rank)
}

/// Sums of the shares of some ranks, times ranks over shares.
fn possible() -> Vec<f32> {
    (1u16..1 << WORLD)
        .map(|members| f32::from(members) * f32::from(WORLD) / members.count_ones() as f32)
        .chain([0.0])
        .collect()
}

#[test]
fn sums_are_rescaled_by_what_is_in_them_and_no_rank_lacks_more_than_it_tolerates() {
    let tolerance = Tolerance::fraction(0.2).unwrap();
    for mode in [Mode::Bfp32, Mode::Bfp16] {
        let results = job(
            mode,
            |_| tolerance,
            |comm| {
                let mut tensor = vec![share(comm.rank()); 100_000];
                let report = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                comm.leave().unwrap();
                (tensor, report)
            },
        );
        let possible = possible();
        let (first, OpReport { chunks, partial, .. }) = &results[0];
        println!("{mode:?}: {chunks} chunks, {partial} partial");
        assert!(*partial > chunks / 20, "{partial} of {chunks} chunks lack shares");
        for (rank, (tensor, report)) in results.iter().enumerate() {
            assert_eq!((tensor, report.partial), (first, *partial), "rank {rank} has what rank 0 has");
            assert!(report.left_out > 0 && report.left_out <= chunks / 5, "rank {rank}: {report:?}");
        }
        for element in first {
            let near = |sum: &&f32| (**sum - element).abs() < 1e-2;
            assert!(possible.iter().any(|sum| near(&sum)), "{element} is the sum of no shares");
        }
    }
}

#[test]
fn what_is_left_out_of_one_step_comes_in_a_later_one() {
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
    assert!(results.iter().all(|(_, _, left_out)| *left_out > 0), "something is left out of every rank's");
    for at in 0..LEN {
        let sent: f64 =
            (0..WORLD).flat_map(|rank| (0..STEPS).map(move |step| f64::from(input(rank, step, at)))).sum();
        let held: f64 = results.iter().map(|(_, residual, _)| f64::from(residual[at])).sum();
        let found = results[0].0[at] + held;
        assert!((sent - found).abs() < 1e-3, "element {at}: {sent} was sent, {found} came or is kept");
    }
}

/// How late chunks of the last rank are.
const LATE: Duration = Duration::from_millis(400);

/// One in twenty whole chunks of the last rank comes no sooner than that after it was first sent: what comes sooner is lost.
fn holding(io: Box<dyn PacketIo>) -> Tampering {
    let mut held = HashMap::new();
    Tampering::new(io, move |bytes| {
        let Ok(packet) = Packet::new_checked(&*bytes) else { return Some(bytes.len()) };
        // A worker's own bit is its rank's number.
        let late = packet.kind() == Kind::Data as u8
            && packet.bitmap() == 1 << (WORLD - 1)
            && !packet.flags().contains(Flags::BARE)
            && packet.chunk().wrapping_mul(2_654_435_761) >> 16 < 65_536 / 20;
        let stays = late && held.entry(packet.chunk()).or_insert_with(Instant::now).elapsed() < LATE;
        (!stays).then_some(bytes.len())
    })
}

/// One rank's chunks come 400 ms late, one in twenty: exact sums wait for each window's, and others close slots without it.
#[test]
fn late_shares_are_left_out_of_one_rank_alone_and_the_others_do_not_wait() {
    let play = |tolerance: Tolerance| {
        behind(
            holding,
            Mode::Bfp32,
            |_| tolerance,
            |comm| {
                let mut tensor = vec![share(comm.rank()); 300_000];
                let began = Instant::now();
                let report = comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                let took = began.elapsed();
                comm.leave().unwrap();
                (tensor, report, took)
            },
        )
    };
    let exact = play(Tolerance::NONE);
    let tolerance = Tolerance { rescale: false, ..Tolerance::fraction(0.3).unwrap() };
    let closed = play(tolerance.without_late());
    println!("exact {:?}, closed {:?}: {:?}", exact[0].2, closed[0].2, closed[0].1);
    let all: f32 = (0..WORLD).map(share).sum();
    assert!(exact.iter().all(|(tensor, ..)| tensor.iter().all(|sum| *sum == all)), "exact sums are");
    assert!(exact[0].2 > LATE * 2, "and wait: {:?}", exact[0].2);
    let (first, OpReport { chunks, partial, .. }, took) = &closed[0];
    assert!(*partial > chunks / 50, "{partial} of {chunks} slots were closed");
    // Shares are powers of two, so a sum says whose it has.
    let lanes = first.chunks(first.len().div_ceil(*chunks as usize));
    assert!(lanes.clone().all(|chunk| chunk.iter().all(|sum| *sum == chunk[0])), "a chunk is whole");
    let sums: Vec<u32> = lanes.map(|chunk| chunk[0] as u32).collect();
    let lacking = |rank: usize| sums.iter().filter(|sum| **sum & (1 << rank) == 0).count() as u32;
    for (rank, (tensor, report, _)) in closed.iter().enumerate() {
        assert_eq!((tensor, report.partial), (first, *partial), "rank {rank} has what rank 0 has");
        assert_eq!(report.left_out, lacking(rank), "rank {rank}: {report:?}");
        assert!(report.left_out <= chunks * 3 / 10, "rank {rank}: {report:?}");
    }
    // On a busy machine another rank may be late with a chunk, too.
    let others: u32 = (0..usize::from(WORLD) - 1).map(lacking).sum();
    assert!(
        lacking(usize::from(WORLD) - 1) > chunks / 50 && others <= chunks / 50,
        "{others} of others, {sums:?}"
    );
    assert!(*took < exact[0].2 / 2, "{took:?} rather than {:?}", exact[0].2);
}

#[test]
fn exact_sums_are_exact_whatever_is_trimmed() {
    let results = job(
        Mode::Bfp32,
        |_| Tolerance::NONE,
        |comm| {
            let mut tensor = vec![share(comm.rank()); 50_000];
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
fn ranks_that_tolerate_differently_are_told_so() {
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
