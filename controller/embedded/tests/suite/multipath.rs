//! Workers that send from several UDP ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use netfold::{Builder, Communicator, Mode, ReduceOp};
use netfold_control::{Multipath, PathPolicy};
use netfold_embedded::EmbeddedSwitch;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::{Capabilities, IoError, Middleware, PacketIo, RxBatch, Transmit};
use netfold_testkit::job::on_all_ranks;

use crate::TIMEOUT;

const WORLD: u16 = 4;
const UDP_PORTS: u8 = 16;

/// Packets of each path, sent and received.
#[derive(Debug, Default)]
struct Counts {
    sent: [AtomicU64; UDP_PORTS as usize],
    received: [AtomicU64; UDP_PORTS as usize],
}

impl Counts {
    fn get(counts: &[AtomicU64]) -> Vec<u64> {
        counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Counts packets by path, and drops those sent by one path.
struct Tap {
    inner: Box<dyn PacketIo>,
    counts: Arc<Counts>,
    failed: Option<u16>,
    kept: Vec<Transmit>,
}

impl Middleware for Tap {
    type Inner = Box<dyn PacketIo>;

    fn inner(&self) -> &Self::Inner {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut self.inner
    }

    fn capabilities(&self) -> Capabilities {
        PacketIo::capabilities(&self.inner)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let received = PacketIo::receive(&mut self.inner, batch)?;
        for packet in batch.packets() {
            self.counts.received[usize::from(packet.port.0)].fetch_add(1, Ordering::Relaxed);
        }
        Ok(received)
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        for packet in packets {
            self.counts.sent[usize::from(packet.port.0)].fetch_add(1, Ordering::Relaxed);
        }
        let Some(failed) = self.failed else { return PacketIo::transmit(&mut self.inner, memory, packets) };
        self.kept.clear();
        self.kept.extend(packets.iter().filter(|packet| packet.port.0 != failed));
        // What the socket has no room for is lost as well.
        PacketIo::transmit(&mut self.inner, memory, &self.kept)?;
        Ok(packets.len())
    }
}

/// Element `index` of rank `rank`.
fn value(rank: u16, step: i32, index: usize) -> i32 {
    i32::from(rank) * 1000 + step + index as i32 % 977
}

/// All-reduces a tensor of 1 MiB; wrong elements.
fn all_reduce(comm: &Communicator, step: i32) -> usize {
    let mut tensor: Vec<i32> = (0..1 << 18).map(|index| value(comm.rank(), step, index)).collect();
    comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
    let expected = |index| (0..WORLD).map(|rank| value(rank, step, index)).sum::<i32>();
    tensor.iter().enumerate().filter(|(index, sum)| **sum != expected(*index)).count()
}

fn switch(policy: PathPolicy, loss: f64) -> EmbeddedSwitch {
    let lossy = move |io| Ok(Box::new(Faulty::new(io, FaultConfig::with_loss(3, loss))) as _);
    let multipath = Some(Multipath { udp_ports: UDP_PORTS, policy });
    EmbeddedSwitch::builder().multipath(multipath).middleware(lossy).start().unwrap()
}

fn connect(switch: &EmbeddedSwitch, rank: u16, counts: &Arc<Counts>, failed: Option<u16>) -> Communicator {
    connect_by(switch, rank, counts, failed, |builder| builder)
}

fn connect_by(
    switch: &EmbeddedSwitch,
    rank: u16,
    counts: &Arc<Counts>,
    failed: Option<u16>,
    build: impl Fn(Builder) -> Builder,
) -> Communicator {
    let counts = Arc::clone(counts);
    let builder = Communicator::builder().job("multipath").rank(rank).world_size(WORLD).slots(256);
    let builder = builder.mode(Mode::I32).stall_timeout(TIMEOUT).join_timeout(TIMEOUT);
    let builder = builder.middleware(move |inner| Box::new(Tap { inner, counts, failed, kept: Vec::new() }));
    build(builder.switch(switch.control()).unwrap()).connect().unwrap()
}

#[test]
fn every_policy_is_exact_at_two_per_cent_of_loss() {
    for policy in PathPolicy::ALL {
        let switch = switch(*policy, 0.02);
        let counts: Vec<_> = (0..WORLD).map(|_| Arc::<Counts>::default()).collect();
        let wrong = on_all_ranks(WORLD, |rank| {
            let comm = connect(&switch, rank, &counts[usize::from(rank)], None);
            let wrong: usize = (0..4).map(|step| all_reduce(&comm, step)).sum();
            comm.leave().unwrap();
            wrong
        });
        assert_eq!(wrong, [0; WORLD as usize], "{policy:?}");
        let unknown = switch.stop().unwrap().unknown_source;
        assert_eq!(unknown, 0, "the switch knows all of a worker's ports");
        for counts in &counts {
            let (sent, received) = (Counts::get(&counts.sent), Counts::get(&counts.received));
            let used = sent.iter().filter(|sent| **sent > 0).count();
            // Of those that use ports again whose packets were acknowledged, the number depends on what was lost.
            assert!(used >= 4, "{policy:?}: {sent:?}");
            // Results return to the ports that packets came from.
            let replied = received.iter().zip(&sent).filter(|(received, sent)| **received > 0 && **sent > 0);
            assert!(replied.count() >= 2, "{policy:?}: {sent:?} {received:?}");
            let unused = received.iter().zip(&sent).filter(|(received, sent)| **received > 0 && **sent == 0);
            assert_eq!(unused.count(), 0, "{policy:?}: {sent:?} {received:?}");
        }
    }
}

/// Packets of all ports have tags under the keys of the worker's port at the switch.
#[test]
fn authenticated_packets_take_all_paths() {
    let switch = switch(PathPolicy::Weighted, 0.01);
    let counts = Arc::<Counts>::default();
    let wrong = on_all_ranks(WORLD, |rank| {
        let comm = connect_by(&switch, rank, &counts, None, |builder| builder.authenticated(true));
        let wrong = all_reduce(&comm, 0) + all_reduce(&comm, 1);
        comm.leave().unwrap();
        wrong
    });
    assert_eq!(wrong, [0; WORLD as usize]);
    assert!(Counts::get(&counts.sent).iter().all(|sent| *sent > 0), "{counts:?}");
    let io = switch.stop().unwrap().io;
    assert_eq!((io.unauthenticated, io.unknown_source), (0, 0));
}

/// A path on which everything is lost is tried from time to time only.
#[test]
fn a_failed_path_loses_its_share() {
    const FAILED: u16 = 5;
    let switch = switch(PathPolicy::Weighted, 0.0);
    let counts: Vec<_> = (0..WORLD).map(|_| Arc::<Counts>::default()).collect();
    let shares = on_all_ranks(WORLD, |rank| {
        let counts = &counts[usize::from(rank)];
        let failed = (rank == 1).then_some(FAILED);
        let comm = connect(&switch, rank, counts, failed);
        let mut step = 0;
        let mut run = |time: Duration| {
            // All ranks do the same number of operations: the first one's clock decides.
            let begin = Instant::now();
            loop {
                assert_eq!(all_reduce(&comm, step), 0);
                step += 1;
                let mut over = [i32::from(rank == 0 && begin.elapsed() > time)];
                comm.all_reduce(&mut over, ReduceOp::Sum).unwrap();
                if over[0] > 0 {
                    break;
                }
            }
        };
        run(Duration::from_millis(1500));
        let before = Counts::get(&counts.sent);
        run(Duration::from_millis(500));
        let sent: Vec<u64> =
            Counts::get(&counts.sent).iter().zip(before).map(|(after, before)| after - before).collect();
        comm.leave().unwrap();
        sent[usize::from(FAILED)] as f64 / (sent.iter().sum::<u64>() as f64 / f64::from(UDP_PORTS))
    });
    println!("share of the path that fails for rank 1, of the mean of all: {shares:.3?}");
    assert!(shares[1] < 0.25, "{shares:?}");
    // On a busy machine any path may be late at times; this one always is.
    assert!(shares[0] > shares[1], "of a rank whose path works: {shares:?}");
}

#[test]
fn a_data_path_without_sockets_has_one_path() {
    let multipath = Some(Multipath { udp_ports: UDP_PORTS, policy: PathPolicy::Weighted });
    let name = format!("shm:multipath-{}", std::process::id());
    let switch = EmbeddedSwitch::builder().multipath(multipath).io(name.parse().unwrap()).start().unwrap();
    let counts = Arc::<Counts>::default();
    let wrong = on_all_ranks(WORLD, |rank| {
        let builder = Communicator::builder().job("one path").rank(rank).world_size(WORLD).slots(64);
        let builder = builder.mode(Mode::I32).stall_timeout(TIMEOUT).io(name.parse().unwrap());
        let counts = Arc::clone(&counts);
        let builder =
            builder.middleware(move |inner| Box::new(Tap { inner, counts, failed: None, kept: Vec::new() }));
        let comm = builder.switch(switch.control()).unwrap().connect().unwrap();
        all_reduce(&comm, 0)
    });
    assert_eq!(wrong, [0; WORLD as usize]);
    assert_eq!(Counts::get(&counts.sent).iter().filter(|sent| **sent > 0).count(), 1);
}
