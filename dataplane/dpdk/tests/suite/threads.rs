//! Several threads over one device: each receives its own port, from whichever queue the device puts a datagram in.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use netfold_dpdk::{Dpdk, DpdkError, Port, PortConfig, Spec, open_threads, ring_queues};
use netfold_io::ethernet::{Ethernet, EthernetConfig};
use netfold_io::link::Link;
use netfold_io::{Cores, IoError, OpenOptions, PacketIo, PortId, RxBatch, Transmit};
use netfold_wire::frame::{Endpoint, EthernetAddress, OUTER_LEN, Outer};

use crate::network::{alone, ip, pair};
use crate::{HANG_TIMEOUT, eal, options, send};

const HUB: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), 4000);
/// The first thread's; the others' follow.
const PORT: u16 = 20038;

/// Threads that share a device of rings, and the other end of each of its queues.
struct Rig {
    hubs: Vec<Ethernet<Dpdk>>,
    ends: Vec<Dpdk>,
    mac: [u8; 6],
}

impl Rig {
    fn new(queues: u16, threads: u16) -> Self {
        let (near, far) = ring_queues(&eal(), 1023, queues).expect("rings");
        let config = PortConfig { queues, threads, descriptors: 256, ..PortConfig::default() };
        let (_, queues) = Port::start(near, &config).expect("the port starts");
        let links = Dpdk::share(queues, threads.into(), HUB).expect("links");
        let hubs = (0..threads).zip(links).map(|(thread, link)| {
            let at = SocketAddrV4::new(HUB, PORT + thread);
            let config = EthernetConfig { answers: thread == 0, ..EthernetConfig::new(at) };
            let mut hub = Ethernet::bind(link, config).expect("an adapter");
            hub.bind_port(PortId(0), PEER.into()).expect("a peer");
            hub
        });
        let hubs: Vec<_> = hubs.collect();
        let mac = hubs[0].link_properties().mac;
        // Its buffers are what waits at the threads.
        let config = PortConfig { threads: 1, descriptors: 2048, ..config };
        let (_, queues) = Port::start(far, &config).expect("the port starts");
        let ends = queues.into_iter().map(|queue| Dpdk::new(queue).expect("a link")).collect();
        Self { hubs, ends, mac }
    }

    /// A datagram from the peer to a thread, by a queue.
    fn send(&mut self, queue: usize, thread: u16, payload: &[u8]) {
        let frame = self.frame(HUB, PORT + thread, payload);
        send(&mut self.ends[queue], &frame);
    }

    fn frame(&self, to: Ipv4Addr, port: u16, payload: &[u8]) -> Vec<u8> {
        let end = |mac, ip, port| Endpoint { mac: EthernetAddress(mac), ip, port };
        let outer = Outer {
            source: end(self.ends[0].properties().mac, *PEER.ip(), PEER.port()),
            destination: end(self.mac, to, port),
        };
        let mut frame = vec![0; OUTER_LEN + payload.len()];
        outer.emit(payload, 0, &mut frame).expect("it fits");
        frame
    }

    /// Has the peer ask for the hub's address by a queue, which tells where the peer is.
    fn ask(&mut self, queue: usize) {
        let (mac, ask) = (self.ends[queue].properties().mac, [0, 1, 8, 0, 6, 4, 0, 1]);
        let frame = [&[0xff; 6], &mac, &[8, 6][..], &ask, &mac, &PEER.ip().octets(), &[0; 6], &HUB.octets()];
        send(&mut self.ends[queue], &frame.concat());
    }
}

/// What one hub has received so far: for each queue the number that is next.
fn take(hub: &mut impl PacketIo, batch: &mut RxBatch, next: &mut [u32]) {
    hub.receive(batch).expect("receive");
    for packet in batch.packets() {
        let (queue, number) = batch.bytes(packet).split_first_chunk().expect("two numbers");
        let place = &mut next[u32::from_be_bytes(*queue) as usize];
        assert_eq!(number, place.to_be_bytes(), "in order");
        *place += 1;
    }
}

#[test]
fn a_datagram_reaches_its_thread_from_every_queue() {
    const EACH: u32 = 50;
    for (queues, threads) in [(4, 2), (4, 3), (4, 4), (2, 4), (1, 3), (3, 1)] {
        let mut rig = Rig::new(queues, threads);
        for number in 0..EACH {
            for queue in 0..queues {
                let payload = [u32::from(queue).to_be_bytes(), number.to_be_bytes()].concat();
                (0..threads).for_each(|thread| rig.send(queue.into(), thread, &payload));
                // Without an owner, by port and by address.
                rig.send(queue.into(), threads, b"no owner");
                let elsewhere = rig.frame(Ipv4Addr::new(198, 18, 0, 3), PORT, b"elsewhere");
                send(&mut rig.ends[usize::from(queue)], &elsewhere);
            }
        }
        let mut next = vec![vec![0; queues.into()]; threads.into()];
        let (begun, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
        while next.iter().any(|queues| queues.iter().any(|next| *next != EACH)) {
            for (hub, next) in rig.hubs.iter_mut().zip(&mut next) {
                hub.wait(Duration::ZERO).expect("wait");
                take(hub, &mut batch, next);
            }
            assert!(begun.elapsed() < HANG_TIMEOUT, "{queues} queues, {threads} threads: {next:?}");
        }
        for (thread, hub) in (0..threads).zip(&rig.hubs) {
            let (counters, own) = (hub.counters(), (0..queues).filter(|queue| queue % threads == thread));
            let crossed = u64::from(u32::from(queues - own.count() as u16) * EACH);
            assert_eq!(
                (counters.rx_crossed, counters.rx_dropped),
                (crossed, 0),
                "{queues}, {threads}: {thread}"
            );
            let all = u64::from(u32::from(queues) * EACH);
            assert_eq!((counters.rx_packets, counters.unknown_source, counters.malformed), (all, 0, 0));
        }
        all_send_back(&mut rig, queues, threads);
    }
}

/// Each thread learns the peer's address, and sends through a queue of its own, or through another thread's where there are too few; the first answers.
fn all_send_back(rig: &mut Rig, queues: u16, threads: u16) {
    rig.ask(usize::from(queues) - 1);
    let (begun, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
    let (mut received, mut answers) = (vec![0; threads.into()], 0);
    while received.contains(&0) || answers == 0 {
        for (thread, hub) in (0_u16..).zip(&mut rig.hubs) {
            hub.wait(Duration::ZERO).expect("wait");
            hub.receive(&mut batch).expect("receive");
            let packet = Transmit { port: PortId(0), offset: 0, len: 2 };
            hub.transmit(&thread.to_be_bytes(), &[packet]).expect("transmit");
        }
        for (queue, end) in (0_u16..).zip(&mut rig.ends) {
            end.receive(&mut batch).expect("receive");
            for frame in batch.packets().iter().map(|packet| batch.bytes(packet)) {
                match (&frame[12..14], frame.get(20..22)) {
                    ([8, 0], _) => {
                        let thread = u16::from_be_bytes([frame[OUTER_LEN], frame[OUTER_LEN + 1]]);
                        assert_eq!(queue, thread % queues, "thread {thread} sent by another queue");
                        received[usize::from(thread)] += 1;
                    }
                    ([8, 6], Some([0, 2])) => answers += 1,
                    // Questions for the peer.
                    _ => {}
                }
            }
        }
        assert!(begun.elapsed() < HANG_TIMEOUT, "{received:?}, {answers} answers");
    }
    assert_eq!(answers, 1, "one thread answers");
}

/// A thread without a queue sleeps until another wakes it.
#[test]
fn a_transfer_wakes_the_receiving_thread() {
    const COUNT: u32 = 100;
    let mut rig = Rig::new(1, 2);
    let (mut second, mut first) = (rig.hubs.pop().expect("two"), rig.hubs.pop().expect("two"));
    let received = AtomicU32::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut batch = RxBatch::new(64, 1 << 18);
            while received.load(Ordering::Acquire) < COUNT && begun.elapsed() < HANG_TIMEOUT {
                second.wait(HANG_TIMEOUT).expect("wait");
                let count = second.receive(&mut batch).expect("receive") as u32;
                received.fetch_add(count, Ordering::Release);
            }
        });
        let mut batch = RxBatch::new(64, 1 << 18);
        for number in 0..COUNT {
            rig.send(0, 1, b"wake up");
            while received.load(Ordering::Acquire) == number && begun.elapsed() < HANG_TIMEOUT {
                first.wait(Duration::from_millis(1)).expect("wait");
                assert_eq!(first.receive(&mut batch).expect("receive"), 0);
            }
        }
    });
    // Unwoken it would look every 100 ms, and take 10 s.
    assert!(begun.elapsed() < Duration::from_secs(5), "took {:?}", begun.elapsed());
    assert_eq!(second.counters().rx_crossed, COUNT.into());
}

/// Under load by all queues at once nothing is lost, and each thread's datagrams of a queue stay in order.
#[test]
fn no_packet_is_lost_between_running_threads() {
    const EACH: u32 = 4000;
    const WINDOW: u32 = 40;
    for (queues, threads) in [(3_usize, 3_u16), (1, 3), (2, 3)] {
        let mut rig = Rig::new(queues as u16, threads);
        let hubs = std::mem::take(&mut rig.hubs);
        // What each thread has received by each queue.
        let received: Vec<Vec<AtomicU32>> =
            (0..threads).map(|_| (0..queues).map(|_| AtomicU32::new(0)).collect()).collect();
        let done = AtomicBool::new(false);
        let counters: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = hubs
                .into_iter()
                .zip(&received)
                .map(|(mut hub, received)| {
                    let done = &done;
                    scope.spawn(move || {
                        let (mut batch, mut next) = (RxBatch::new(64, 1 << 18), vec![0; received.len()]);
                        while !done.load(Ordering::Acquire) {
                            hub.wait(Duration::from_millis(20)).expect("wait");
                            take(&mut hub, &mut batch, &mut next);
                            received
                                .iter()
                                .zip(&next)
                                .for_each(|(received, next)| received.store(*next, Ordering::Release));
                        }
                        hub.counters()
                    })
                })
                .collect();
            feed(&mut rig, &received, EACH, WINDOW);
            done.store(true, Ordering::Release);
            running.into_iter().map(|hub| hub.join().expect("no panic")).collect()
        });
        let total: u64 = counters.iter().map(|counters| counters.rx_packets).sum();
        assert_eq!(total, u64::from(EACH) * queues as u64 * u64::from(threads));
        assert!(counters.iter().all(|counters| counters.rx_dropped == 0), "{counters:?}");
    }
}

/// Sends so many datagrams to each thread by each queue, of which a window each is under way.
fn feed(rig: &mut Rig, received: &[Vec<AtomicU32>], each: u32, window: u32) {
    let queues = rig.ends.len();
    let (begun, mut sent) = (Instant::now(), vec![vec![0_u32; queues]; received.len()]);
    while sent.iter().flatten().any(|sent| *sent < each)
        || received.iter().flatten().any(|received| received.load(Ordering::Acquire) < each)
    {
        assert!(begun.elapsed() < HANG_TIMEOUT, "{sent:?} sent, {received:?} received");
        let mut idle = true;
        for queue in 0..queues {
            for (thread, sent) in sent.iter_mut().enumerate() {
                let under_way = sent[queue] - received[thread][queue].load(Ordering::Acquire);
                if sent[queue] == each || under_way >= window {
                    continue;
                }
                let payload = [(queue as u32).to_be_bytes(), sent[queue].to_be_bytes()].concat();
                rig.send(queue, thread as u16, &payload);
                sent[queue] += 1;
                idle = false;
            }
        }
        if idle {
            std::thread::yield_now();
        }
    }
}

/// One thread that does not run costs its own datagrams alone, and those that found no room are counted.
#[test]
fn a_slow_thread_does_not_block_the_others() {
    const COUNT: u32 = 3000;
    let mut rig = Rig::new(1, 2);
    let before = rig.ends[0].port().pool().available();
    let (mut batch, mut next) = (RxBatch::new(64, 1 << 18), [0]);
    for number in 0..COUNT {
        let payload = [[0; 4], number.to_be_bytes()].concat();
        (0..2).for_each(|thread| rig.send(0, thread, &payload));
        take(&mut rig.hubs[0], &mut batch, &mut next);
    }
    let begun = Instant::now();
    while next[0] < COUNT {
        take(&mut rig.hubs[0], &mut batch, &mut next);
        assert!(begun.elapsed() < HANG_TIMEOUT, "{next:?}");
    }
    let (late, mut next) = (&mut rig.hubs[1], [0]);
    let dropped = late.counters().rx_dropped as u32;
    while next[0] < COUNT - dropped {
        take(late, &mut batch, &mut next);
        assert!(begun.elapsed() < HANG_TIMEOUT, "{next:?} arrived, {dropped} were dropped");
    }
    assert!((1..COUNT / 2).contains(&dropped), "{dropped} of {COUNT} were dropped");
    assert_eq!(late.counters().rx_crossed, u64::from(COUNT - dropped));
    // Packets are freed with their last holder.
    rig.hubs.clear();
    let at_home = rig.ends[0].port().pool().available();
    assert!(at_home >= before - 64, "{before} buffers were there before, {at_home} are now");
}

fn openings(count: u16) -> Vec<OpenOptions> {
    (0..count).map(|thread| OpenOptions { answers: thread == 0, ..at(PORT + thread) }).collect()
}

fn at(port: u16) -> OpenOptions {
    OpenOptions::at((HUB, port).into())
}

fn open(words: &str, count: u16) -> Result<Vec<Box<dyn PacketIo>>, IoError> {
    // The first device determines how DPDK starts.
    let _eal = eal();
    open_threads(
        &format!("dpdk:{words} --no-huge").parse().expect("a choice"),
        &openings(count),
        &Cores::default(),
    )
}

/// Sockets of the kernel reach each thread, and are answered; returns how many datagrams of how many crossed threads, for each.
fn sockets_are_answered(mut hubs: Vec<Box<dyn PacketIo>>) -> Vec<(u64, u64)> {
    const EACH: u8 = 20;
    let sockets: Vec<_> = (0..24_u16)
        .map(|index| {
            let socket = UdpSocket::bind((*PEER.ip(), PEER.port() + index)).expect("an address of ours");
            socket.set_nonblocking(true).expect("a socket");
            for hub in &mut hubs {
                hub.bind_port(PortId(index), socket.local_addr().expect("it is bound")).expect("a peer");
            }
            socket
        })
        .collect();
    // Until both ends know where the other is, something is sent in vain.
    let begun = Instant::now();
    while !send_and_receive(&mut hubs, &sockets, u8::MAX, Duration::from_millis(300)) {
        let counters: Vec<_> = hubs.iter().map(|hub| hub.counters()).collect();
        assert!(begun.elapsed() < HANG_TIMEOUT, "nothing gets through: {counters:?}");
    }
    let before: Vec<_> = hubs.iter().map(|hub| hub.counters()).collect();
    for number in 0..EACH {
        assert!(send_and_receive(&mut hubs, &sockets, number, HANG_TIMEOUT), "{number} is not answered");
    }
    let all = u64::from(EACH) * sockets.len() as u64;
    let since = hubs.iter().zip(&before).map(|(hub, before)| {
        let (now, rx_crossed) = (hub.counters(), hub.counters().rx_crossed - before.rx_crossed);
        assert_eq!((now.rx_packets - before.rx_packets, now.rx_dropped), (all, 0), "{now:?}");
        println!("{rx_crossed} of {all} came by another thread's queue");
        (rx_crossed, all)
    });
    since.collect()
}

/// Sends a datagram by each socket to each thread, which sends it back. Whether all answers came in time.
fn send_and_receive(
    hubs: &mut [Box<dyn PacketIo>],
    sockets: &[UdpSocket],
    number: u8,
    timeout: Duration,
) -> bool {
    let who = |socket| (0..hubs.len()).map(move |hub| (socket, hub));
    let mut waiting: Vec<_> = (0..sockets.len()).flat_map(who).collect();
    for (socket, hub) in &waiting {
        let to = SocketAddr::from((HUB, PORT + *hub as u16));
        sockets[*socket].send_to(&[number, *hub as u8], to).expect("it fits the socket's buffer");
    }
    let (begun, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
    while !waiting.is_empty() && begun.elapsed() < timeout {
        for hub in &mut *hubs {
            hub.wait(Duration::ZERO).expect("wait");
            hub.receive(&mut batch).expect("receive");
            let echo: Vec<_> = batch.packets().iter().map(|packet| packet.to(packet.port)).collect();
            hub.transmit(batch.memory(), &echo).expect("transmit");
        }
        let mut received = [0; 2];
        for (index, socket) in sockets.iter().enumerate() {
            while let Ok((2, from)) = socket.recv_from(&mut received) {
                let hub = usize::from(from.port() - PORT);
                assert_eq!(usize::from(received[1]), hub, "from the hub that it was sent to");
                waiting.retain(|who| received[0] != number || *who != (index, hub));
            }
        }
    }
    waiting.is_empty()
}

#[test]
fn threads_share_a_packet_socket() {
    for (queues, threads) in [("", 2), ("", 3), (",qpairs=1", 2), (",qpairs=4", 2)] {
        alone(|| {
            pair(1500);
            ip(&format!("addr add {}/24 dev vb", PEER.ip()));
            let hubs = open(&format!("net_af_packet,iface=va{queues}"), threads).expect("opens");
            let crossed = sockets_are_answered(hubs);
            if queues == ",qpairs=1" {
                assert_eq!((crossed[0].0, crossed[1].0), (0, crossed[1].1), "one thread has the queue");
            } else {
                // The kernel's hash distributes the flows.
                assert!(crossed.iter().all(|(crossed, _)| *crossed > 0), "{crossed:?}");
            }
        });
    }
}

/// A tap takes rules where the kernel has `cls_flower` and `act_skbedit`; without them the kernel puts a flow where its answers come from.
#[test]
fn threads_share_a_tap() {
    alone(|| {
        let hubs = open("net_tap,iface=nf2", 2).expect("a tap of two queues");
        ip(&format!("addr add {}/24 dev nf2", PEER.ip()));
        // The driver gives the kernel's end its own address, which cannot be a neighbour entry of itself.
        ip("link set nf2 address 02:00:00:00:00:02 up");
        sockets_are_answered(hubs);
    });
}

#[test]
fn devices_that_cannot_be_shared_are_reported() {
    let null = "net_null address=198.18.0.1";
    assert_eq!(open(null, 2).expect("a device with queues enough").len(), 2);
    let count = |words: &str| -> Result<usize, DpdkError> {
        let spec = Spec { options: options(), ..words.parse()? };
        Ok(Dpdk::open_threads(&spec, 3, HUB)?.iter().map(|link| link.queues().len()).sum())
    };
    assert_eq!(count("net_null").expect("one for each"), 3);
    assert_eq!(count("net_null queues=2").expect("two for three"), 2);
    assert_eq!(count("net_null queues=4").expect("four for three"), 4);
    let refusal = |refused: Result<Vec<Box<dyn PacketIo>>, IoError>| {
        let error = refused.err().expect("it is refused");
        match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        }
    };
    let many = refusal(open(null, 65));
    assert!(many.contains("65 packet threads are to share net_null, which takes 1 to 64"), "{many}");
    let choice = format!("dpdk:{null}").parse().expect("a choice");
    let twice = refusal(open_threads(&choice, &[at(7), at(7)], &Cores::default()));
    assert!(twice.contains("another packet thread has this port"), "{twice}");
    let elsewhere = OpenOptions::at(([198, 18, 0, 9], 8).into());
    let choice = "dpdk:net_null".parse().expect("a choice");
    let apart = refusal(open_threads(&choice, &[at(7), elsewhere], &Cores::default()));
    assert!(apart.contains("have one address"), "{apart}");
}
