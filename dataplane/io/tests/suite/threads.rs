//! Several threads over one interface: each receives on its own port, from any queue that the interface selects.
#![cfg(target_os = "linux")]

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netfold_io::link::{AfPacket, Link, Xdp, XdpConfig, XdpQueues};
use netfold_io::{
    Cores, IoError, IoSpec, OpenOptions, PacketIo, PortId, RxBatch, ThreadOpener, open_threads,
};
use netfold_io_conformance::segment::{HUB, Segment, address, spoke};
use netfold_wire::frame::{
    ArpOperation, ArpPacket, Endpoint, EthernetAddress, EthernetFrame, EthernetProtocol, OUTER_LEN, Outer,
};
use smoltcp::wire::ArpRepr;

use crate::links::{await_no_program, shown};

const HANG_TIMEOUT: Duration = Duration::from_secs(20);

/// A pair whose ends have this many queues, or `None` where there can be none.
fn pair(queues: usize) -> Option<Segment> {
    Segment::pair_with_queues(1500, queues).inspect_err(|reason| println!("skipped: {reason}")).ok()
}

/// Where `count` threads are: one port after the other at the hub's address.
fn openings(count: u16) -> Vec<OpenOptions> {
    let at = address(HUB);
    (0..count).map(|thread| OpenOptions::at((*at.ip(), at.port() + thread).into())).collect()
}

/// The hub's threads on XDP sockets, whose peer at port 0 is the spoke. `None` where there are no XDP sockets.
fn hubs(segment: &Segment, words: &'static str, count: u16) -> Option<Vec<Box<dyn PacketIo>>> {
    let open = move || {
        let spec: IoSpec = words.parse().expect("a spec");
        let mut hubs = open_threads(&spec, &openings(count), &Cores::default())?;
        for hub in &mut hubs {
            hub.bind_port(PortId(0), SocketAddr::V4(address(&spoke(0))))?;
        }
        Ok::<_, IoError>(hubs)
    };
    segment.namespace().run(open).inspect_err(|error| println!("skipped: {error}")).ok()
}

/// The spoke's end of each queue.
fn spokes(segment: &Segment, queues: u32) -> Vec<Xdp> {
    let config = XdpConfig::new(address(&spoke(0)));
    let open = move || Xdp::open_queues(&spoke(0), config, queues);
    segment.namespace().run(open).expect("the other end has them, too")
}

fn mac(segment: &Segment) -> [u8; 6] {
    segment.namespace().run(|| AfPacket::open(HUB).expect("works on a healthy pair").properties().mac)
}

/// A frame from the spoke's end to a port of the hub's.
fn frame(from: &impl Link, to: [u8; 6], port: u16, payload: &[u8]) -> Vec<u8> {
    let end = |mac, at: SocketAddrV4, port| Endpoint { mac: EthernetAddress(mac), ip: *at.ip(), port };
    let (own, hub) = (address(&spoke(0)), address(HUB));
    let outer =
        Outer { source: end(from.properties().mac, own, own.port()), destination: end(to, hub, port) };
    let mut frame = vec![0; OUTER_LEN + payload.len()];
    outer.emit(payload, 0, &mut frame).expect("it fits");
    frame
}

/// Sends a frame, and waits for room where there is none.
fn send(link: &mut impl Link, bytes: &[u8]) {
    let begun = Instant::now();
    while link.frame(bytes.len()).is_none() {
        link.flush().expect("flush");
        link.wait(Duration::from_millis(1)).expect("wait");
        assert!(begun.elapsed() < HANG_TIMEOUT, "no room for a frame");
    }
    link.frame(bytes.len()).expect("there is room").copy_from_slice(bytes);
    link.push();
}

#[test]
fn a_datagram_reaches_its_thread_from_any_queue() {
    const QUEUES: u32 = 4;
    const EACH: u32 = 50;
    for threads in [2, 3, 4_u16] {
        let Some(segment) = pair(QUEUES as usize) else { return };
        let Some(mut hubs) = hubs(&segment, "af-xdp:hub", threads) else { return };
        let (mut spokes, to) = (spokes(&segment, QUEUES), mac(&segment));
        let port = |thread: u16| address(HUB).port() + thread;
        for number in 0..EACH {
            for (queue, link) in (0..QUEUES).zip(&mut spokes) {
                for thread in 0..threads {
                    let payload = [queue.to_be_bytes(), number.to_be_bytes()].concat();
                    send(link, &frame(link, to, port(thread), &payload));
                }
                // A port without a thread: the kernel gets the datagram.
                send(link, &frame(link, to, port(threads), b"no thread"));
                link.flush().unwrap();
            }
        }
        for (thread, hub) in (0_u32..).zip(&mut hubs) {
            let mut next = [0; QUEUES as usize];
            let (begun, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
            while next != [EACH; QUEUES as usize] {
                hub.wait(Duration::from_millis(20)).unwrap();
                hub.receive(&mut batch).unwrap();
                for packet in batch.packets() {
                    let (queue, number) = batch.bytes(packet).split_first_chunk().unwrap();
                    let place = &mut next[u32::from_be_bytes(*queue) as usize];
                    assert_eq!(number, place.to_be_bytes(), "in order");
                    *place += 1;
                }
                assert!(begun.elapsed() < HANG_TIMEOUT, "{threads} threads, of {thread}: {next:?} arrived");
            }
            let counters = hub.counters();
            let own = (0..QUEUES).filter(|queue| queue % u32::from(threads) == thread).count() as u32;
            let crossed = u64::from((QUEUES - own) * EACH);
            assert_eq!(
                (counters.rx_crossed, counters.rx_dropped),
                (crossed, 0),
                "{threads} threads, {thread}"
            );
            assert_eq!((counters.rx_packets, counters.unknown_source), ((QUEUES * EACH).into(), 0));
        }
        echo_all(&mut hubs, &mut spokes);
    }
}

/// Each thread sends by a queue of its own, to the one address that the spoke has.
fn echo_all(hubs: &mut [Box<dyn PacketIo>], spokes: &mut [Xdp]) {
    let mut received = Vec::new();
    let (begun, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 18));
    while received.len() < hubs.len() {
        for (thread, hub) in (0_u16..).zip(hubs.iter_mut()) {
            // Its neighbour is resolved first: the spoke's end has to reply, which a link alone does not.
            hub.wait(Duration::ZERO).expect("works on a healthy pair");
            hub.receive(&mut batch).expect("works on a healthy pair");
            let word = thread.to_be_bytes();
            let packet = netfold_io::Transmit { port: PortId(0), offset: 0, len: 2 };
            hub.transmit(&word, &[packet]).expect("works on a healthy pair");
        }
        for link in spokes.iter_mut() {
            link.receive(&mut batch).expect("works on a healthy pair");
            let frames: Vec<Vec<u8>> =
                batch.packets().iter().map(|packet| batch.bytes(packet).to_vec()).collect();
            for frame in frames {
                match EthernetFrame::new_unchecked(&frame[..]).ethertype() {
                    EthernetProtocol::Arp => answer(link, &frame),
                    _ => received.push(frame[OUTER_LEN..].to_vec()),
                }
            }
        }
        received.sort();
        received.dedup();
        assert!(begun.elapsed() < HANG_TIMEOUT, "{received:?}");
    }
    assert_eq!(
        received,
        (0..hubs.len() as u16).map(|thread| thread.to_be_bytes().to_vec()).collect::<Vec<_>>()
    );
}

/// Replies to an ARP request for the spoke's Ethernet address.
fn answer(link: &mut impl Link, asked: &[u8]) {
    let own = EthernetAddress(link.properties().mac);
    let packet = ArpPacket::new_unchecked(&asked[14..]);
    let Ok(ArpRepr::EthernetIpv4 {
        source_hardware_addr, source_protocol_addr, target_protocol_addr, ..
    }) = ArpRepr::parse(&packet)
    else {
        return;
    };
    if target_protocol_addr == *address(&spoke(0)).ip() {
        let reply = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply,
            source_hardware_addr: own,
            source_protocol_addr: target_protocol_addr,
            target_hardware_addr: source_hardware_addr,
            target_protocol_addr: source_protocol_addr,
        };
        send(link, &arp(own, source_hardware_addr, &reply));
        link.flush().expect("flush");
    }
}

fn arp(from: EthernetAddress, to: EthernetAddress, repr: &ArpRepr) -> Vec<u8> {
    let mut frame = vec![0; 14 + 28];
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
    ethernet.set_src_addr(from);
    ethernet.set_dst_addr(to);
    ethernet.set_ethertype(EthernetProtocol::Arp);
    repr.emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
    frame
}

/// The thread whose queue it is has nothing to do and sleeps; what another reads there has to come back to it all the same, or the queue
/// runs out of places to receive into after some thousand datagrams.
#[test]
fn a_queue_of_a_sleeping_thread_keeps_frames() {
    const COUNT: u32 = 20_000;
    const WINDOW: u32 = 256;
    let Some(segment) = pair(2) else { return };
    let Some(mut hubs) = hubs(&segment, "af-xdp:hub@0-1", 2) else { return };
    let (mut spokes, to) = (spokes(&segment, 2), mac(&segment));
    let (mut second, mut first) = (hubs.pop().unwrap(), hubs.pop().unwrap());
    let (stop, waker) = (AtomicBool::new(false), first.waker());
    /// Ends the sleeper, also when a check fails.
    struct Ended<'a>(&'a AtomicBool, std::task::Waker);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
            self.1.wake_by_ref();
        }
    }
    let slept = thread::scope(|scope| {
        let ended = Ended(&stop, waker);
        let sleeper = scope.spawn(|| {
            let mut batch = RxBatch::new(64, 1 << 18);
            while !stop.load(Ordering::Acquire) {
                first.wait(HANG_TIMEOUT).unwrap();
                assert_eq!(first.receive(&mut batch).unwrap(), 0, "nothing is for it");
            }
            first.counters().sleeps
        });
        let link = &mut spokes[0];
        let frame = frame(link, to, address(HUB).port() + 1, &[7; 1000]);
        let (mut batch, mut sent, mut received) = (second.capabilities().batch(), 0, 0);
        let begun = Instant::now();
        // On a machine whose cores are all busy the sleeping thread may be delayed, and datagrams be dropped, which is counted.
        let mut dropped = 0;
        while received + dropped < COUNT {
            while sent < COUNT && sent - received - dropped < WINDOW {
                send(link, &frame);
                sent += 1;
            }
            link.flush().unwrap();
            second.wait(Duration::from_millis(5)).unwrap();
            received += second.receive(&mut batch).unwrap() as u32;
            dropped = second.counters().rx_dropped as u32;
            assert!(begun.elapsed() < HANG_TIMEOUT, "{received} of {sent} arrived: {:?}", second.counters());
        }
        drop(ended);
        sleeper.join().unwrap()
    });
    let counters = second.counters();
    assert_eq!(counters.rx_crossed + counters.rx_dropped, COUNT.into());
    println!("woken {slept} times for {COUNT} datagrams, {} dropped", counters.rx_dropped);
    assert!(counters.rx_dropped < u64::from(COUNT / 2), "{} were dropped", counters.rx_dropped);
    assert!(slept > 0 && slept < u64::from(COUNT / 50), "woken {slept} times");
}

/// The kernel does not have the address, so we reply for it, once.
#[test]
fn an_arp_request_is_answered_once() {
    const ASKED: usize = 5;
    for kind in ["af-packet", "packet-ring", "af-xdp"] {
        let Some(segment) = pair(3) else { return };
        let spec: IoSpec = format!("{kind}:{HUB}").parse().unwrap();
        let opened = segment.namespace().run(move || {
            let (mut opener, openings) = (ThreadOpener::new(vec![spec], open_threads), openings(3));
            let open = |thread| opener.open(thread, &openings, &Cores::default());
            (0..3).map(open).collect::<Result<Vec<_>, _>>()
        });
        let mut hubs = match opened {
            Ok(hubs) => hubs,
            Err(error) => {
                println!("skipped: {kind}: {error}");
                continue;
            }
        };
        let mut link = segment.namespace().run(|| AfPacket::open(&spoke(0)).unwrap());
        let own = EthernetAddress(link.properties().mac);
        let question = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: own,
            source_protocol_addr: Ipv4Addr::new(198, 18, 0, 99),
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: *address(HUB).ip(),
        };
        let (begun, mut batch, mut answers) = (Instant::now(), RxBatch::new(64, 1 << 18), 0);
        for _ in 0..ASKED {
            send(&mut link, &arp(own, EthernetAddress::BROADCAST, &question));
        }
        link.flush().unwrap();
        let mut quiet = 0;
        while answers < ASKED || quiet < 20 {
            for hub in &mut hubs {
                hub.wait(Duration::from_millis(1)).unwrap();
                hub.receive(&mut batch).unwrap();
            }
            link.receive(&mut batch).unwrap();
            let is_answer = |frame: &[u8]| frame[12..14] == [8, 6] && frame[20..22] == [0, 2];
            let received = batch.packets().iter().filter(|packet| is_answer(batch.bytes(packet))).count();
            answers += received;
            quiet = if received == 0 { quiet + 1 } else { 0 };
            assert!(begun.elapsed() < HANG_TIMEOUT, "{kind}: {answers} answers");
        }
        assert_eq!(answers, ASKED, "{kind}");
    }
}

#[test]
fn the_last_thread_removes_the_program_and_too_few_queues_are_an_error() {
    let Some(segment) = pair(2) else { return };
    let Some(mut both) = hubs(&segment, "af-xdp:hub", 2) else { return };
    assert!(shown(&segment, HUB).contains("prog/xdp"));
    drop(both.pop());
    assert!(shown(&segment, HUB).contains("prog/xdp"), "the other thread still needs it");
    drop(both);
    await_no_program(&segment, "the last thread removes the program");
    let refused = segment.namespace().run(|| {
        let spec = format!("af-xdp:{HUB}").parse().unwrap();
        open_threads(&spec, &openings(3), &Cores::default()).map(drop)
    });
    let Err(error @ IoError::Link { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("ethtool -L"), "{error}");
    let config = XdpConfig::new(address(HUB));
    let beyond = segment
        .namespace()
        .run(move || XdpQueues::open_threads(HUB, config, 4, &[1, 2], &Cores::default()).map(drop));
    assert!(matches!(beyond, Err(IoError::Link { .. })), "there are no queues 2 and 3");
    let twice = segment.namespace().run(|| {
        let (spec, at) = (format!("af-xdp:{HUB}").parse().unwrap(), openings(1)[0]);
        let elsewhere = OpenOptions::at(([198, 18, 0, 77], at.local.port()).into());
        open_threads(&spec, &[at, elsewhere], &Cores::default()).map(drop)
    });
    assert!(matches!(twice, Err(IoError::Address { .. })), "{twice:?}");
    await_no_program(&segment, "what is refused leaves nothing");
}
