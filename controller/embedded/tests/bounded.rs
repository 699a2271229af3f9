//! Real ranks at a real switch into which a queue trims what it may: how much is missing, what is made of it, and what comes later.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use netfold::{Communicator, Error, Mode, OpReport, ReduceOp, Tolerance};
use netfold_embedded::EmbeddedSwitch;
use netfold_io::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit};
use netfold_wire::{Flags, Kind, Packet, header};

const WORLD: u16 = 4;

/// What happens on the way to the switch.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mishap {
    /// Two of five packets that may be trimmed are.
    Trims,
    /// One in twenty whole chunks of the rank with the largest share comes no sooner than this after it was first sent.
    Holds(Duration),
}

struct Way {
    inner: Box<dyn PacketIo>,
    batch: RxBatch,
    state: u32,
    mishap: Mishap,
    held: HashMap<u32, Instant>,
}

impl Way {
    fn new(inner: Box<dyn PacketIo>, mishap: Mishap) -> Self {
        let batch = inner.capabilities().batch();
        Self { inner, batch, state: 20_241_122, mishap, held: HashMap::new() }
    }

    /// Whether a packet is kept away: its rank sends it again.
    fn holds(&mut self, bytes: &[u8]) -> bool {
        let (Mishap::Holds(time), Ok(packet)) = (self.mishap, Packet::new_checked(bytes)) else {
            return false;
        };
        // A worker's own bit is its rank's number.
        let late = packet.kind() == Kind::Data as u8
            && packet.bitmap() == 1 << (WORLD - 1)
            && !packet.flags().contains(Flags::BARE)
            && packet.chunk().wrapping_mul(2_654_435_761) >> 16 < 65_536 / 20;
        late && self.held.entry(packet.chunk()).or_insert_with(Instant::now).elapsed() < time
    }

    fn strikes(&mut self) -> bool {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.state >> 16 < 26_214
    }
}

impl PacketIo for Way {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let received = self.inner.receive(&mut self.batch)?;
        batch.clear();
        for at in 0..self.batch.len() {
            let packet = self.batch.packets()[at];
            let held = self.batch.bytes_mut(&packet).to_vec();
            if self.holds(&held) {
                continue;
            }
            let strikes = self.mishap == Mishap::Trims && self.strikes();
            let bytes = self.batch.bytes_mut(&packet);
            let mut len = bytes.len();
            if let Ok(mut view) = Packet::new_checked(&mut *bytes)
                && strikes
                && view.flags().contains(Flags::DROPPABLE)
            {
                view.set_flags(view.flags().with(Flags::TRIMMED).with(Flags::BARE));
                view.set_count(0);
                len = header::LEN;
            }
            batch.spare(len).unwrap().copy_from_slice(&bytes[..len]);
            batch.commit(packet.port, len, packet.ecn);
        }
        Ok(received)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        self.inner.transmit(memory, packets)
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.inner.wait(timeout)
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        self.inner.bind_port(port, peer)
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        self.inner.unbind_port(port)
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.inner.local_addr()
    }

    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        self.inner.peer(port)
    }

    fn counters(&self) -> IoCounters {
        self.inner.counters()
    }
}

/// Runs `rank` on every rank of a job at a switch behind [`Mishap`], each with its tolerance.
fn job<R: Send>(
    mode: Mode,
    tolerance: impl Fn(u16) -> Tolerance + Sync,
    rank: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    behind(Mishap::Trims, mode, tolerance, rank)
}

fn behind<R: Send>(
    mishap: Mishap,
    mode: Mode,
    tolerance: impl Fn(u16) -> Tolerance + Sync,
    rank: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    let middleware = move |io| Ok(Box::new(Way::new(io, mishap)) as Box<dyn PacketIo>);
    let switch = EmbeddedSwitch::builder().middleware(middleware).start().unwrap();
    let control = switch.control();
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..WORLD)
            .map(|number| {
                let (tolerance, rank) = (&tolerance, &rank);
                scope.spawn(move || {
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
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
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

/// One rank's chunks come 400 ms late, one in twenty: exact sums wait for each window's, and others close slots without it.
#[test]
fn late_shares_are_left_out_of_one_rank_alone_and_the_others_do_not_wait() {
    let by = Duration::from_millis(400);
    let play = |tolerance: Tolerance| {
        behind(
            Mishap::Holds(by),
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
    assert!(exact[0].2 > by * 2, "and wait: {:?}", exact[0].2);
    let (first, OpReport { chunks, partial, .. }, took) = &closed[0];
    assert!(*partial > chunks / 50, "{partial} of {chunks} slots were closed");
    for (rank, (tensor, report, _)) in closed.iter().enumerate() {
        assert_eq!((tensor, report.partial), (first, *partial), "rank {rank} has what rank 0 has");
        let late = rank + 1 == usize::from(WORLD);
        assert!(
            late == (report.left_out > 0) && report.left_out <= chunks * 3 / 10,
            "rank {rank}: {report:?}"
        );
    }
    let without = all - share(WORLD - 1);
    assert!(first.iter().all(|sum| *sum == all || *sum == without), "sums lack the late rank or nobody");
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
        assert!(error.to_string().contains("up to 1 % of shares left out"), "{error}");
    }
}
