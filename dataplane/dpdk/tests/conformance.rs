//! The checks that every backend passes, over DPDK: rings and shared memory (memif), with a small switch between them, and packet sockets on a bridge, of one thread
//! and shared by two.
//!
//! `cargo test -p netfold-dpdk --features dpdk --test conformance -- ring` runs what has `ring` in the backend's or the check's name.

use std::collections::HashMap;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netfold_dpdk::{Device, Dpdk, DpdkError, Eal, Huge, Options, Port, PortConfig, Spec, rings};
use netfold_io::ethernet::Ethernet;
use netfold_io::link::{Link, LinkProperties};
use netfold_io::{Cores, IoCounters, IoError, OpenOptions, PacketIo, RxBatch};
use netfold_io_conformance::segment::{HUB, MTU, Segment, hub_config, spoke_config};
use netfold_io_conformance::{Backend, Beside, DATAGRAM_LEN_MAX, Rig, SPOKES, run};

fn main() -> ExitCode {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let mut backends = Vec::from(Backend::new("dpdk:net_ring", || Ok(switched(ring))).with_middleware());
    backends.push(Backend::new("dpdk:net_memif", || Ok(switched(memif))));
    backends.push(Backend::new("dpdk:net_af_packet", || Segment::new()?.rig(packet_socket)));
    backends.push(Backend::new("dpdk:net_af_packet, one of two threads", || of_two_threads(2)));
    backends.push(Backend::new("dpdk:net_af_packet, one without a queue", || of_two_threads(1)));
    let table = run(&backends, filter.as_deref(), 1);
    println!("{table}");
    println!("{} failed, {} skipped", table.failed(), table.skipped());
    if table.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many segments of memory there were: each has a socket of its own.
static SEGMENTS: AtomicU32 = AtomicU32::new(0);

/// The two ends of memory that is shared (`net_memif`), of one process here, connected.
fn memif() -> (Dpdk, Dpdk) {
    let number = SEGMENTS.fetch_add(1, Ordering::Relaxed);
    let socket = format!("socket=/netfold-{}-{number},socket-abstract=yes", std::process::id());
    let open = |role: &str| -> Dpdk {
        let spec: Spec = format!("net_memif,role={role},{socket} mtu={MTU}").parse().expect("a spec");
        let links = Dpdk::open(&Spec { options: options(), ..spec });
        links.expect("memory is there").remove(0)
    };
    let (server, mut client) = (open("server"), open("client"));
    let begun = Instant::now();
    while !(server.port().link_state().up && client.port().link_state().up) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the ends do not connect");
        std::thread::sleep(Duration::from_millis(1));
    }
    // A client has buffers for the server to write to after it has looked for the first time.
    client.receive(&mut RxBatch::new(1, 2000)).expect("receive");
    (server, client)
}

fn options() -> Options {
    Options { huge: Huge::Never, memory_mb: 256, more: Vec::new() }
}

fn packet_socket(interface: &str) -> Result<Dpdk, IoError> {
    let open = || -> Result<Dpdk, DpdkError> {
        let spec: Spec = format!("net_af_packet,iface={interface} mtu={MTU}").parse()?;
        Ok(Dpdk::open(&Spec { options: options(), ..spec })?.remove(0))
    };
    open().map_err(|error| IoError::Os { call: "opening", source: io::Error::other(error) })
}

/// A hub that shares a device with another thread, which has one of its queues. It receives its datagrams from that one, too; if there is no other
/// queue, from that alone, and sends through it.
fn of_two_threads(queues: u16) -> Result<Rig, String> {
    Segment::new()?.around(
        move || {
            // The first device determines how DPDK starts.
            let _eal = Eal::start(&options(), false);
            let at = hub_config().address;
            let opening = |port| OpenOptions {
                datagram_len_max: DATAGRAM_LEN_MAX,
                ..OpenOptions::at((*at.ip(), port).into())
            };
            let words = format!("dpdk:net_af_packet,iface={HUB} mtu={MTU} queues={queues} --no-huge");
            let both = [opening(at.port() + 1), opening(at.port())];
            let choice = words.parse().expect("a choice");
            let mut ends = netfold_dpdk::open_threads(&choice, &both, &Cores::default())?;
            let hub = ends.pop().expect("two threads");
            Ok((hub, Beside::start(ends.pop().expect("two threads"))))
        },
        packet_socket,
    )
}

fn start(device: Device) -> Dpdk {
    let config = PortConfig { mtu: Some(MTU as u16), queues: 1, descriptors: 256, threads: 1 };
    let (_, mut queues) = Port::start(device, &config).expect("the port starts");
    Dpdk::new(queues.remove(0)).expect("a link")
}

fn ring() -> (Dpdk, Dpdk) {
    let eal = Eal::start(&options(), false).expect("DPDK starts");
    let (end, port) = rings(&eal, 1023).expect("rings");
    (start(end), start(port))
}

/// Pairs of ports, of which the one end is the rig's and the other the switch's.
fn switched(pair: fn() -> (Dpdk, Dpdk)) -> Rig {
    let (mut ends, mut ports) = (Vec::new(), Vec::new());
    for _ in 0..=SPOKES {
        let (end, port) = pair();
        ends.push(end);
        ports.push(port);
    }
    let home = Arc::new(Home { _switch: Switch::start(ports), links: Mutex::default() });
    let mut ends = ends.into_iter().map(|link| End { link: Some(link), home: Arc::clone(&home) });
    let hub = Ethernet::bind(ends.next().expect("one for each"), hub_config()).expect("the hub's adapter");
    let at = hub.local_addr().expect("adapters have one");
    let spokes = ends.enumerate().map(|(index, end)| -> Box<dyn PacketIo> {
        Box::new(Ethernet::connect(end, at, spoke_config(index)).expect("a spoke's adapter"))
    });
    let spokes = spokes.collect();
    Rig::bound(Box::new(hub), spokes).settled()
}

/// Links that are closed in this order once all ends are done: shared memory is unmapped with either end, and must not be in use then.
struct Home {
    _switch: Switch,
    links: Mutex<Vec<Dpdk>>,
}

/// A link that is returned to its owner when dropped.
struct End {
    link: Option<Dpdk>,
    home: Arc<Home>,
}

impl End {
    fn link(&mut self) -> &mut Dpdk {
        self.link.as_mut().expect("present until dropped")
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.home.links.lock().expect("not poisoned").extend(self.link.take());
    }
}

impl Link for End {
    fn properties(&self) -> LinkProperties {
        self.link.as_ref().expect("present until dropped").properties()
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.link().receive(batch)
    }

    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        self.link().frame(len)
    }

    fn push(&mut self) {
        self.link().push();
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.link().flush()
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        self.link().wait(timeout)
    }

    fn waker(&self) -> Waker {
        self.link.as_ref().expect("present until dropped").waker()
    }

    fn counters(&self) -> IoCounters {
        self.link.as_ref().expect("present until dropped").counters()
    }
}

/// A thread that forwards frames to the port where their destination was seen last, or to all.
struct Switch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    fn start(ports: Vec<Dpdk>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || switch(ports, &stopped));
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the switch does not panic");
        }
    }
}

fn switch(mut ports: Vec<Dpdk>, stop: &AtomicBool) {
    let mut batch = RxBatch::new(64, 1 << 17);
    let mut ports_by_address: HashMap<[u8; 6], usize> = HashMap::new();
    while !stop.load(Ordering::Acquire) {
        let mut moved = 0;
        for from in 0..ports.len() {
            moved += ports[from].receive(&mut batch).expect("receive");
            for packet in batch.packets() {
                let frame = batch.bytes(packet);
                let (to, rest) = frame.split_first_chunk::<6>().expect("frames have addresses");
                ports_by_address.insert(*rest.first_chunk().expect("frames have addresses"), from);
                for (port, link) in ports.iter_mut().enumerate() {
                    if port == from || ports_by_address.get(to).is_some_and(|place| *place != port) {
                        continue;
                    }
                    // Where there is no room the frame is lost, as in any switch.
                    if let Some(memory) = link.frame(frame.len()) {
                        memory.copy_from_slice(frame);
                        link.push();
                    }
                }
            }
            ports.iter_mut().for_each(|link| link.flush().expect("flush"));
        }
        if moved == 0 {
            std::thread::yield_now();
        }
    }
}
