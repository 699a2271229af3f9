//! A switch with several packet threads, joined by real workers whose jobs have several trees.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use netfold::{Communicator, Error, Mode, ReduceOp};
use netfold_embedded::{EmbeddedError, EmbeddedSwitch, QUEUES_MAX};
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::{CoreError, Cores, cores, vacant_address};
use netfold_testkit::job::on_all_ranks;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Elements of a tensor that goes over all trees, with a last chunk that is not full.
const ELEMENTS: usize = 352 * 2 * 128 * 4 + 77;

fn tensor(seed: u64, rank: u16) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(seed ^ u64::from(rank) << 32);
    (0..ELEMENTS).map(|_| random.random_range(-1.0..1.0)).collect()
}

fn join(control: SocketAddr, job: &str, (rank, world): (u16, u16), trees: u8) -> Communicator {
    Communicator::builder()
        .job(job)
        .rank(rank)
        .world_size(world)
        .mode(Mode::Bfp32)
        .switch(control)
        .unwrap()
        .trees(trees)
        .join_timeout(crate::TIMEOUT)
        .connect()
        .unwrap()
}

/// Sums of every rank's tensors, by rank; large ones over all trees, small ones over one tree each, in turn.
fn sums(control: SocketAddr, world: u16, trees: u8, seed: u64) -> Vec<Vec<Vec<f32>>> {
    let work = |rank: u16| {
        let comm = join(control, &format!("{trees} trees"), (rank, world), trees);
        let places: Vec<_> = comm.attachments().iter().filter_map(|place| place.switch).collect();
        assert_eq!(places.len(), usize::from(trees));
        let all = tensor(seed, rank);
        let mut done = Vec::new();
        for len in [ELEMENTS, 1000, 1, 700, ELEMENTS] {
            let mut sum = all[..len].to_vec();
            comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            done.push(sum);
        }
        comm.leave().unwrap();
        done
    };
    on_all_ranks(world, work)
}

#[test]
fn a_job_over_all_threads_has_the_same_bits_as_over_one_and_is_exact_under_loss() {
    const WORLD: u16 = 3;
    let seed: u64 = 0x71e5;
    println!("seed {seed}");
    let mut queue = 0;
    let lossy = move |io| {
        queue += 1;
        Ok(Box::new(Faulty::new(io, FaultConfig::with_loss(seed.wrapping_add(queue), 0.02))) as _)
    };
    let switch = EmbeddedSwitch::builder().threads(4).middleware(lossy).start().unwrap();
    let places: Vec<_> = switch.queues().map(|place| place.data).collect();
    assert!(places.len() == 4 && places[0] == switch.data(), "{places:?}");
    let one = sums(switch.control(), WORLD, 1, seed);
    let all = sums(switch.control(), WORLD, 4, seed);
    assert_eq!(one, all, "seed {seed}");

    // In binary64. Numbers are below 1, and ranks round them to 2^-29; the sum, below 4, is rounded to binary32.
    let tensors: Vec<_> = (0..WORLD).map(|rank| tensor(seed, rank)).collect();
    let exact_sum = |index: usize| tensors.iter().map(|tensor| f64::from(tensor[index])).sum::<f64>();
    for rank in &all {
        for sum in rank {
            for (index, value) in sum.iter().enumerate() {
                let error = (f64::from(*value) - exact_sum(index)).abs();
                assert!(error < 3e-7, "element {index} of {}: off by {error:e}, seed {seed}", sum.len());
            }
        }
    }
    let counted = switch.queue_counters().unwrap();
    assert!(counted.iter().all(|queue| queue.results > 100 && queue.io.fault_dropped > 0), "{counted:?}");
    let total = switch.counters().unwrap();
    assert_eq!(total.results, counted.iter().map(|queue| queue.results).sum::<u64>());
    assert_eq!(total.io.rx_packets, counted.iter().map(|queue| queue.io.rx_packets).sum::<u64>());
}

#[test]
fn trees_and_jobs_are_distributed_over_threads() {
    let switch = EmbeddedSwitch::builder().threads(2).start().unwrap();
    let control = switch.control();
    let queues: Vec<_> = switch.queues().map(|place| place.data.port()).collect();
    let places = |comm: &Communicator| -> Vec<u16> {
        comm.attachments().iter().filter_map(|place| place.switch).map(|at| at.port()).collect()
    };
    let (first, second) = (join(control, "a", (0, 1), 1), join(control, "b", (0, 1), 1));
    assert_ne!(places(&first), places(&second), "two jobs of one tree each");
    let third = join(control, "c", (0, 1), 2);
    let mut both = places(&third);
    both.sort_unstable();
    let mut sorted = queues.clone();
    sorted.sort_unstable();
    assert_eq!(both, sorted);
    // More trees than queues: as even as possible.
    let fourth = places(&join(control, "d", (0, 1), 4));
    assert!(queues.iter().all(|queue| fourth.iter().filter(|at| *at == queue).count() == 2), "{fourth:?}");
    for comm in [first, second, third] {
        comm.leave().unwrap();
    }
    let started = switch.stop_queues().unwrap();
    assert_eq!(started.len(), 2);
}

/// Each queue's packet I/O is opened on its own thread.
#[test]
fn packet_threads_are_pinned_to_the_given_cores() {
    let allowed: Vec<usize> = cores::allowed().unwrap().iter().collect();
    let named: Cores = allowed.iter().rev().copied().take(2).collect();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&seen);
    let switch = EmbeddedSwitch::builder()
        .threads(2)
        .cores(named.clone())
        .middleware(move |io| {
            note.lock().unwrap().push(cores::allowed()?);
            Ok(io)
        })
        .start()
        .unwrap();
    let want: Vec<Cores> = (0..2).map(|queue| named.of(queue).into_iter().collect()).collect();
    assert_eq!(*seen.lock().unwrap(), want);
    assert!(switch.queues().map(|place| place.core).eq((0..2).map(|queue| named.of(queue))));
    // They stay pinned; the first queue's thread reports it.
    assert_eq!(switch.handle().call(|_| cores::allowed().unwrap()).unwrap(), want[0]);
    assert_eq!(cores::allowed().unwrap().len(), allowed.len(), "the starting thread is not pinned");
}

/// The worker's thread calls its packet I/O.
#[test]
fn worker_threads_are_pinned_to_the_given_cores() {
    let switch = EmbeddedSwitch::builder().threads(2).start().unwrap();
    let core = cores::allowed().unwrap().iter().last().unwrap();
    let (elsewhere, bursts) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (away, seen) = (Arc::clone(&elsewhere), Arc::clone(&bursts));
    let comm = Communicator::builder()
        .job("pinned")
        .rank(0)
        .world_size(1)
        .switch(switch.control())
        .unwrap()
        .cores([core].into_iter().collect())
        .middleware(move |io| Box::new(PinningCheck { io, core, away, seen }))
        .connect()
        .unwrap();
    let mut tensor = vec![1.0_f32; 10_000];
    comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
    comm.leave().unwrap();
    assert!(bursts.load(Ordering::Relaxed) > 0);
    assert_eq!(elsewhere.load(Ordering::Relaxed), 0);
}

/// Packet I/O that records whether its caller is pinned to the core.
struct PinningCheck {
    io: Box<dyn netfold_io::PacketIo>,
    core: usize,
    away: Arc<AtomicU64>,
    seen: Arc<AtomicU64>,
}

impl netfold_io::Middleware for PinningCheck {
    type Inner = dyn netfold_io::PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.io
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.io
    }

    fn receive(&mut self, batch: &mut netfold_io::RxBatch) -> Result<usize, netfold_io::IoError> {
        let kept = cores::allowed().is_ok_and(|allowed| allowed.iter().eq([self.core]));
        self.away.fetch_add(u64::from(!kept), Ordering::Relaxed);
        self.seen.fetch_add(1, Ordering::Relaxed);
        self.inner_mut().receive(batch)
    }
}

#[test]
fn impossible_queues_are_errors() {
    let queues = |queues| EmbeddedSwitch::builder().threads(queues);
    let start = |builder: netfold_embedded::Builder| builder.start().map(drop);
    for wrong in [0, QUEUES_MAX + 1] {
        assert!(matches!(start(queues(wrong)), Err(EmbeddedError::Threads { queues }) if queues == wrong));
    }
    assert!(matches!(start(queues(2).slots(3)), Err(EmbeddedError::Slots { slots: 3, .. })));
    assert!(matches!(start(queues(2).bare(Vec::new())), Err(EmbeddedError::Bare { queues: 2 })));
    let last = SocketAddr::from((Ipv4Addr::LOCALHOST, u16::MAX));
    let ports = start(queues(2).listen(last));
    assert!(matches!(ports, Err(EmbeddedError::Ports { first: u16::MAX, queues: 2 })), "{ports:?}");
    let two: Cores = [0, 1].into_iter().collect();
    assert!(matches!(start(queues(1).cores(two)), Err(EmbeddedError::Cores { cores: 2, queues: 1 })));
    let none: Cores = [1023].into_iter().collect();
    let refused = start(queues(2).cores(none.clone()));
    assert!(matches!(refused, Err(EmbeddedError::Core(CoreError::Absent { core: 1023, .. }))), "{refused:?}");

    // A later queue's failure closes the earlier ones: their ports are free again.
    let free = vacant_address().unwrap();
    let mut calls = 0;
    let fails = start(queues(2).listen(free).middleware(move |io| {
        calls += 1;
        if calls == 2 { Err(std::io::Error::other("no")) } else { Ok(io) }
    }));
    assert!(matches!(fails, Err(EmbeddedError::Middleware(_))), "{fails:?}");
    let again = EmbeddedSwitch::builder().listen(free).start().unwrap();

    let worker = Communicator::builder().job("none").rank(0).world_size(1).switch(again.control()).unwrap();
    match worker.cores(none).connect() {
        Err(error @ Error::Core(_)) => assert_eq!(error.kind(), "argument"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_switch_that_polls_sums_exactly_and_answers_control_calls() {
    // Longer than the test takes: the threads of this switch do not sleep at all.
    let polling = EmbeddedSwitch::builder().threads(2).busy_poll(10 * crate::TIMEOUT).start().unwrap();
    let sleeping = EmbeddedSwitch::builder().start().unwrap();
    let of = |switch: &EmbeddedSwitch| sums(switch.control(), 2, 1, 7);
    assert_eq!(of(&polling), of(&sleeping));
    let started = std::time::Instant::now();
    let counted = polling.stop().unwrap();
    assert!(started.elapsed() < crate::TIMEOUT, "calls are handled between polls");
    assert_eq!(counted.io.sleeps, 0, "{counted:?}");
    assert!(counted.results > 0);
}
