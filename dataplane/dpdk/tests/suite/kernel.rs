//! Packet sockets on virtual interfaces, and tap interfaces.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use netfold_io::link::Link;
use netfold_io::{IoError, OpenOptions, PortId, RxBatch, Transmit};

use crate::network::{alone, ip, pair};
use crate::{HANG_TIMEOUT, both_ways, eal, numbered, open, receive, send};

#[test]
fn packet_sockets_carry_frames_both_ways() {
    alone(|| {
        pair(1968);
        let mut a = open("net_af_packet,iface=va mtu=1968").expect("a packet socket");
        let mut b = open("net_af_packet,iface=vb mtu=1968").expect("a packet socket");
        assert_eq!(a.properties().frame_len_max, 1982);
        let shown = ip("-o link show va");
        let mac: Vec<_> = a.properties().mac.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(shown.contains(&mac.join(":")), "{shown}");
        both_ways(&mut a, &mut b, 1982);
        assert!(a.counters().tx_calls > 0, "this driver calls the system");
    });
}

#[test]
fn jumbo_frames_fit_the_rings_of_a_packet_socket() {
    alone(|| {
        pair(9000);
        let mut a = open("net_af_packet,iface=va mtu=9000").expect("a packet socket");
        let mut b = open("net_af_packet,iface=vb mtu=9000").expect("a packet socket");
        both_ways(&mut a, &mut b, 9014);
    });
}

#[test]
fn a_tap_interface_is_removed_with_its_port() {
    alone(|| {
        let mut tap = open("net_tap,iface=nf0").expect("a tap");
        ip("addr add 10.9.8.1/24 dev nf0");
        ip("link set nf0 up");
        let socket = UdpSocket::bind("10.9.8.1:0").expect("an address of ours");
        socket.send_to(b"hello", "10.9.8.2:7").expect("the kernel asks for the neighbour first");
        let asked = receive(&mut tap, 1, |frame| frame.get(12..14) == Some(&[8, 6]));
        assert_eq!(asked[0][38..42], [10, 9, 8, 2], "an ARP request for the address");
        send(&mut tap, &numbered(1, 60));
        let begun = Instant::now();
        while !ip("-s -o link show nf0").contains("60 ") {
            assert!(begun.elapsed() < HANG_TIMEOUT, "the kernel never got the frame");
        }
        assert!(!tap.wait(Duration::ZERO).expect("wait") || tap.counters().rx_calls > 0);
        drop(tap);
        // The kernel removes it with its last descriptor, which a child that another test starts may hold until it executes.
        let begun = Instant::now();
        while ip("-o link show").contains("nf0") {
            assert!(begun.elapsed() < HANG_TIMEOUT, "the interface is still there");
        }
    });
}

#[test]
fn a_device_is_restored_when_closed() {
    alone(|| {
        pair(1500);
        for _ in 0..5 {
            let mut a = open("net_af_packet77,iface=va").expect("the name is free again");
            send(&mut a, &numbered(1, 60));
        }
        assert!(ip("-o link show va").contains("mtu 1500"));
        assert!(!ip("-d -o link show va").contains("promiscuity 1"));
    });
}

#[test]
fn datagrams_pass_between_what_stands_behind_io() {
    alone(|| {
        pair(1500);
        // The first device determines how DPDK starts.
        let _eal = eal();
        let choice = |words: &str| words.parse().expect("a device of DPDK");
        let any = OpenOptions::at(([0, 0, 0, 0], 20038).into());
        let hub = choice("dpdk:net_af_packet,iface=va address=10.1.1.1 --no-huge");
        let mut hub = netfold_dpdk::open(&hub, &any).expect("opens");
        let at = hub.local_addr().expect("the address that was given");
        assert_eq!(at, ([10, 1, 1, 1], 20038).into());
        let peer = OpenOptions { local: ([10, 1, 1, 2], 4000).into(), peer: Some(at), ..any };
        let spoke = choice("dpdk:net_af_packet,iface=vb --no-huge");
        let mut spoke = netfold_dpdk::open(&spoke, &peer).expect("opens");
        hub.bind_port(PortId(3), peer.local).expect("a port");
        let (begun, mut batch) = (Instant::now(), hub.capabilities().batch());
        while hub.receive(&mut batch).expect("receive") == 0 {
            spoke.transmit(b"hello", &[Transmit { port: PortId(0), offset: 0, len: 5 }]).expect("transmit");
            hub.wait(Duration::from_millis(1)).expect("wait");
            spoke.wait(Duration::from_millis(1)).expect("wait");
            spoke.receive(&mut RxBatch::new(16, 20_000)).expect("receive");
            assert!(begun.elapsed() < HANG_TIMEOUT, "nothing gets through");
        }
        assert_eq!((batch.packets()[0].port, batch.bytes(&batch.packets()[0])), (PortId(3), &b"hello"[..]));
        let nowhere = netfold_dpdk::open(&choice("dpdk:net_ring0"), &any).err().expect("it has no address");
        let nowhere = IoError::from(nowhere);
        assert!(matches!(nowhere, IoError::Address { .. }), "{nowhere}");
    });
}
