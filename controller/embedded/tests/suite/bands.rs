//! A control plane's precedence between jobs, on the wire: the classes of packets of two jobs, and their rates at a slow port.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use netfold::{Communicator, ReduceOp};
use netfold_control::Band;
use netfold_control::{Iteration, Mode, Numerics};
use netfold_controller::admission::Config;
use netfold_controller::bands::{Banding, Ranking};
use netfold_controller::command::Command;
use netfold_controller::record::{JobName, JobSpec};
use netfold_controller::{Limits, Plane, Server, ServerHandle};
use netfold_embedded::{EmbeddedSwitch, LocalDriver, PORTS_MAX};
use netfold_io::{IoError, PacketIo, Transmit};
use netfold_switch::queue::{ClassConfig, PortConfig, QueueConfig, Queues, Rate};
use netfold_wire::{Dscp, Packet};

use crate::TIMEOUT;

const SLOTS: u32 = 64;
/// Classes of operations of each job.
const CLASSES: u8 = 2;

/// What a worker has sent since the last reset, and its DSCP.
#[derive(Debug, Default)]
struct SentPackets {
    classes: BTreeSet<u8>,
    dscp: Option<Dscp>,
    /// The last datagram.
    last: Vec<u8>,
}

/// Packet I/O that records what is sent.
struct Recorder {
    io: Box<dyn PacketIo>,
    seen: Arc<Mutex<SentPackets>>,
}

impl netfold_io::Middleware for Recorder {
    type Inner = dyn PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.io
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.io
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        let taken = self.inner_mut().transmit(memory, packets)?;
        let mut seen = self.seen.lock().unwrap();
        for packet in &packets[..taken] {
            let bytes = packet.bytes(memory).unwrap();
            seen.classes.insert(Packet::new_checked(bytes).unwrap().class());
            seen.last = bytes.to_vec();
        }
        Ok(taken)
    }

    fn set_dscp(&mut self, dscp: &Dscp) -> Result<(), IoError> {
        self.seen.lock().unwrap().dscp = Some(*dscp);
        self.inner_mut().set_dscp(dscp)
    }
}

/// A control plane of a switch in this process that, as a controller, accepts declarations of jobs.
fn control(switch: &EmbeddedSwitch, banding: Banding) -> ServerHandle {
    let limits = Limits {
        slots: 1024,
        lane_words: 352,
        ports_max: PORTS_MAX,
        groups_max: 16,
        entries: u32::MAX,
        udp_port: switch.data().port(),
        sees_source: false,
        bounded_loss: true,
        owners: true,
        lane_ops: netfold_wire::LaneOps::ALL,
        multipath: false,
        authenticates: false,
    };
    let driver = LocalDriver::new(switch.handle(), limits, Numerics::Word);
    let config = Config { banding, jobs_kept: 10, ..Config::new(1) };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Server::over(any, config, Plane::own(Box::new(driver))).unwrap().spawn().unwrap()
}

struct Job {
    name: &'static str,
    ranks: Vec<Communicator>,
    seen: Arc<Mutex<SentPackets>>,
}

impl Job {
    /// Declares the job with that work in an iteration, and joins two workers to it.
    fn start(server: &ServerHandle, name: &'static str, work: u64) -> Self {
        let iteration = Iteration { work, compute_us: 100_000, send_after_us: 100_000, bytes: 1_250_000_000 };
        let slots = SLOTS * u32::from(CLASSES);
        let spec = JobSpec {
            world: 2,
            mode: Mode::Bfp16,
            slots,
            classes: CLASSES,
            trees: 1,
            authenticated: false,
            udp_ports: 1,
            iteration: Some(iteration),
        };
        let control = server.control();
        run(control.execute(Command::DeclareJob { name: job_name(name), spec })).unwrap();
        let (address, seen) = (server.local_addr(), Arc::<Mutex<SentPackets>>::default());
        let join = |rank: u16, seen: Arc<Mutex<SentPackets>>| {
            let builder = Communicator::builder()
                .job(name)
                .rank(rank)
                .world_size(2)
                .mode(Mode::Bfp16)
                .slots(SLOTS)
                .classes(CLASSES)
                .switch(address)
                .unwrap();
            builder.middleware(move |io| Box::new(Recorder { io, seen }) as _).connect().unwrap()
        };
        let ranks = thread::scope(|scope| {
            let joining = [0, 1].map(|rank| {
                let seen = Arc::clone(&seen);
                scope.spawn(move || join(rank, seen))
            });
            joining.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        Self { name, ranks, seen }
    }

    /// The classes of packets of an operation of each of the job's classes, on both ranks.
    fn classes(&self) -> BTreeSet<u8> {
        self.seen.lock().unwrap().classes.clear();
        thread::scope(|scope| {
            for comm in &self.ranks {
                scope.spawn(|| {
                    for class in 0..CLASSES {
                        let started = comm.all_reduce_in_class(vec![1_i32; 5000], ReduceOp::Sum, class);
                        assert_eq!(started.unwrap().wait().unwrap().0, [2; 5000]);
                    }
                });
            }
        });
        self.seen.lock().unwrap().classes.clone()
    }

    /// The band that the control plane reports.
    fn band(&self, server: &ServerHandle) -> Band {
        run(server.control().job(job_name(self.name))).unwrap().unwrap().band.unwrap()
    }

    /// Runs operations until packets have the band's classes and no others.
    fn wait_for(&self, band: Band) {
        let expected = BTreeSet::from([0, 1].map(|class| band.class_of(class, CLASSES)));
        let begin = Instant::now();
        loop {
            let classes = self.classes();
            if classes == expected {
                return;
            }
            assert!(begin.elapsed() < TIMEOUT, "{}: {classes:?} instead of {expected:?}", self.name);
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn leave(self) {
        self.ranks.into_iter().for_each(|comm| comm.leave().unwrap());
    }
}

fn job_name(job: &str) -> JobName {
    JobName { tenant: String::new(), job: job.into() }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Fractions of a port's 1 Gbit/s for the packets of two jobs, each of which could fill it.
fn rate_fractions(datagrams: [&[u8]; 2]) -> [f64; 2] {
    let len = datagrams[0].len().max(datagrams[1].len());
    let limit = ClassConfig { bytes_max: 256 << 10, ..ClassConfig::default() };
    let rate = Some(Rate { bits_per_second: 1_000_000_000, burst_bytes: len as u32 });
    let port = PortConfig { rate, ..PortConfig::strict(8, &limit) };
    let mut queues = Queues::new(&QueueConfig { port, ..QueueConfig::default() }, len).unwrap();
    let job_of = |bytes: &[u8]| Packet::new_checked(bytes).unwrap().job();
    let jobs = datagrams.map(job_of);
    assert_ne!(jobs[0], jobs[1]);
    let step = Duration::from_nanos(8 * len as u64);
    let mut bytes = [0_u64; 2];
    for at in 0..50_000 {
        let now = step * at;
        // In turns, or one of them would get all memory that becomes free.
        for datagram in [datagrams[at as usize % 2], datagrams[1 - at as usize % 2]] {
            queues.enqueue(0, datagram);
        }
        while let Some(departure) = queues.dequeue(now) {
            let packet = queues.bytes(&departure);
            bytes[usize::from(job_of(packet) == jobs[1])] += packet.len() as u64;
            queues.release(departure);
        }
    }
    let capacity = 50_000.0 * len as f64;
    bytes.map(|bytes| bytes as f64 / capacity)
}

#[test]
fn the_job_with_precedence_has_its_own_classes_and_the_rate_of_a_slow_port() {
    let switch = EmbeddedSwitch::builder().slots(1024).start().unwrap();
    let mut points = [0; 16];
    points.iter_mut().zip(0..).for_each(|(point, class)| *point = 10 + class);
    let dscp = Dscp::new(&points).unwrap();
    let server = control(&switch, Banding { ranking: Ranking::Crux, dscp, ..Banding::default() });
    let light = Job::start(&server, "light", 100);
    let alone = light.band(&server);
    light.wait_for(alone);
    assert_eq!(light.seen.lock().unwrap().dscp, Some(dscp), "code points of all classes");

    let heavy = Job::start(&server, "heavy", 1600);
    let (low, high) = (light.band(&server), heavy.band(&server));
    assert!(low.last() < high.first(), "{low} and {high}");
    heavy.wait_for(high);
    light.wait_for(low);

    // Both jobs' packets at one port.
    let last = |job: &Job| job.seen.lock().unwrap().last.clone();
    let (of_light, of_heavy) = (last(&light), last(&heavy));
    let len = of_light.len().min(of_heavy.len());
    assert!(len > 100, "data");
    let [heavy_has, light_has] = rate_fractions([&of_heavy[..len], &of_light[..len]]);
    println!("bands {high} and {low}: {heavy_has:.3} and {light_has:.3} of the port");
    assert!(heavy_has > 0.95 && light_has < 0.05, "{heavy_has} and {light_has}");
    let as_one = |bytes: &[u8]| {
        let mut bytes = bytes[..len].to_vec();
        Packet::new_unchecked(&mut bytes[..]).set_class(0);
        bytes
    };
    let [heavy_has, light_has] = rate_fractions([&as_one(&of_heavy), &as_one(&of_light)]);
    println!("in one class: {heavy_has:.3} and {light_has:.3} of the port");
    assert!(
        (0.4..0.6).contains(&heavy_has) && (0.4..0.6).contains(&light_has),
        "{heavy_has} and {light_has}"
    );

    heavy.leave();
    light.wait_for(alone);
    light.leave();
    server.shutdown().unwrap();
    switch.stop().unwrap();
}
