//! Two ports back to back.

use std::time::Duration;

use netfold_dpdk::{Arrivals, Dpdk, Port, PortConfig, Spec, Steering, rings};
use netfold_io::RxBatch;
use netfold_io::link::Link;

use crate::{HANG_TIMEOUT, both_ways, eal, is_ours, numbered, options, receive, send, start};

const SMALL: PortConfig = PortConfig { mtu: Some(1500), queues: 1, descriptors: 64, threads: 1 };

fn back_to_back(config: &PortConfig, len: u32) -> (Dpdk, Dpdk) {
    let (a, b) = rings(&eal(), len).expect("rings");
    (start(a, config), start(b, config))
}

#[test]
fn frames_pass_whole_and_in_order() {
    let (mut a, mut b) = back_to_back(&SMALL, 255);
    assert_eq!(a.properties().frame_len_max, 1514);
    both_ways(&mut a, &mut b, 1514);
    let jumbo = PortConfig { mtu: Some(9000), ..SMALL };
    let (mut a, mut b) = back_to_back(&jumbo, 255);
    both_ways(&mut a, &mut b, 9014);
    assert!(a.frame(9015).is_none(), "longer than the link's frames");
    let stats = a.port().stats();
    assert_eq!((stats.rx_packets, stats.tx_packets), (300, 300));
    assert!(a.port().link_state().up);
}

#[test]
fn a_full_ring_pushes_back_and_loses_nothing() {
    let (mut a, mut b) = back_to_back(&SMALL, 63);
    let mut sent = 0;
    while let Some(frame) = a.frame(60) {
        frame.copy_from_slice(&numbered(sent, 60));
        a.push();
        a.flush().expect("flush");
        sent += 1;
        assert!(sent < 10_000, "a ring of 63 frames never fills");
    }
    assert!(sent > 63);
    assert!(!a.wait(Duration::from_millis(5)).expect("wait"), "there is no room yet");
    let first = receive(&mut b, 63, is_ours);
    assert!(a.wait(HANG_TIMEOUT).expect("wait") && a.frame(60).is_some(), "there is room again");
    a.flush().expect("flush");
    let mut got = first;
    while got.len() < sent as usize {
        got.extend(receive(&mut b, 1, is_ours));
        a.flush().expect("flush");
    }
    assert!((0..sent).zip(&got).all(|(number, frame)| *frame == numbered(number, 60)));
}

#[test]
fn packets_in_several_buffers_arrive_in_one_piece_and_those_too_long_are_counted() {
    let (a, b) = rings(&eal(), 255).expect("rings");
    let (_, mut queues) = Port::start(a, &SMALL).expect("starts");
    let mut queue = queues.remove(0);
    let mut outbox = queue.outbox(64);
    let mut b = start(b, &SMALL);
    let (fits, long) = (numbered(1, 1514), numbered(2, 1515));
    assert!(outbox.push_parts(&[&fits[..20], &fits[20..21], &fits[21..21], &fits[21..]]));
    assert!(outbox.push_parts(&[&long[..1000], &long[1000..]]));
    assert!(!outbox.push_parts(&[]));
    assert!(!outbox.push_parts(&[&fits, &[0; 9000]]), "a part that no buffer holds");
    assert!(outbox.push_parts(&[&fits]));
    assert_eq!(outbox.flush(&mut queue), 3);
    assert!(receive(&mut b, 2, |_| true) == [&fits[..], &fits[..]]);
    assert_eq!(b.counters().truncated, 1);

    // The same, seen by who looks at the buffers.
    send(&mut b, &fits);
    let mut arrivals = Arrivals::default();
    assert!(arrivals.fill(&mut queue));
    let packet = arrivals.first().expect("it was filled");
    assert_eq!((packet.len(), packet.segments().count()), (1514, 1));
    let mut copy = vec![0; 1513];
    assert!(!packet.copy_to(&mut copy), "memory that is too short");
    arrivals.pop();
    assert!(arrivals.first().is_none() && !arrivals.fill(&mut queue));
}

#[test]
fn batches_bound_what_is_received_and_the_rest_stays() {
    let (mut a, mut b) = back_to_back(&SMALL, 255);
    (0..10).for_each(|number| send(&mut a, &numbered(number, 100)));
    let mut batch = RxBatch::new(64, 350);
    let mut seen = Vec::new();
    while b.receive(&mut batch).expect("receive") > 0 {
        assert!(batch.len() <= 3);
        seen.extend(batch.packets().iter().map(|packet| batch.bytes(packet)[17]));
    }
    assert_eq!(seen, (0..10).collect::<Vec<u8>>());
}

#[test]
fn wakers_and_arrivals_end_a_wait() {
    let (mut a, mut b) = back_to_back(&SMALL, 255);
    a.waker().wake();
    assert!(a.wait(HANG_TIMEOUT).expect("wait"));
    assert!(!a.wait(Duration::from_millis(2)).expect("wait"), "used up");
    let waker = a.waker();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| a.wait(HANG_TIMEOUT));
        waker.wake();
        assert!(waiting.join().expect("no panic").expect("wait"));
    });
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| receive(&mut a, 1, is_ours));
        send(&mut b, &numbered(7, 60));
        assert_eq!(waiting.join().expect("no panic"), [numbered(7, 60)]);
    });
}

#[test]
fn buffers_return_to_their_pool_and_memory_is_reused() {
    // Each of these ports takes several megabytes; if none were freed there would soon be none left.
    for round in 0..60 {
        let (mut a, mut b) = back_to_back(&PortConfig { mtu: Some(9000), ..SMALL }, 63);
        let before = a.port().pool().available();
        (0..20).for_each(|number| send(&mut a, &numbered(number, 9014)));
        if round % 2 == 0 {
            receive(&mut b, 20, is_ours);
        }
        assert!(a.port().pool().available() <= before);
    }
}

#[test]
fn several_queues_are_links_of_their_own() {
    // A device that receives as much as one takes, with a hash that says where.
    let spec = Spec { options: options(), ..Spec::of("net_null,size=100") };
    let mut links = Dpdk::open(&Spec { queues: Some(2), ..spec.clone() }).expect("two queues");
    assert_eq!((links.len(), links[0].port().steering()), (2, Steering::Hash));
    std::thread::scope(|scope| {
        for link in &mut links {
            scope.spawn(|| {
                let frames = receive(link, 5000, |frame| frame.len() == 100);
                assert!(frames.len() >= 5000);
            });
        }
    });
    assert!(links[0].port().stats().rx_packets >= 10_000);
    let one = Dpdk::open(&spec).expect("one queue");
    assert_eq!(one[0].port().steering(), Steering::One);
}
