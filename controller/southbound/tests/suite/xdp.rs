//! The driver of a program in this host's kernel, whose only interface is the loopback interface: calls take effect completely or not at all.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;

use netfold_controller::DriverError;
use netfold_controller::driver::SwitchDriver;
use netfold_p4::allreduce::{self, Address, Child, Node, job_entries};
use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_p4::profile::{Numerics, Profile};
use netfold_southbound::p4runtime::PeerPort;
use netfold_southbound::xdp::{SharedDatapath, XdpDriver};
use netfold_wire::UDP_PORT;
use netfold_xdp::{Datapath, XdpError};

const PORT: u16 = 1;
const LOOPBACK: u32 = 1;

/// Workers at 10.0.0.0/24 are at the one port.
fn place(peer: SocketAddrV4) -> Option<PeerPort> {
    let [a, b, c, d] = peer.ip().octets();
    ([a, b, c] == [10, 0, 0]).then_some(PeerPort { port: PORT, mac: d.into() })
}

/// A driver; `None`, with a line that says so, where the kernel does not permit it.
fn driver() -> Option<XdpDriver> {
    let profile = Profile { slots: 64, ..Profile::kernel(8, Numerics::Word) };
    let program = allreduce::program(&profile).expect("the profile is in range");
    let mut datapath = match Datapath::new(Arc::new(program)) {
        Ok(datapath) => datapath,
        Err(XdpError::Map { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("skipped: bpf(2) is not permitted");
            return None;
        }
        Err(error) => panic!("{error}: {error:?}"),
    };
    datapath.set_port(PORT, LOOPBACK).expect("there is a loopback interface");
    let own = Address { mac: 0x0200_0000_0001, ip: 0x0a00_00fe, port: UDP_PORT };
    let driver = XdpDriver::new(SharedDatapath::new(datapath), profile, own, Box::new(place));
    Some(driver.expect("the program has a job table"))
}

fn worker(number: u8) -> SocketAddr {
    ([10, 0, 0, number], 40_000).into()
}

/// The entries of a child of a job at the control plane's port of that number.
fn entries(port: u16) -> Vec<TableEntry> {
    let node = Node {
        job: 1,
        epoch: 1,
        key: 7,
        base: 0,
        slots: 16,
        children: 2,
        workers: 2,
        world: 2,
        group: 1,
        parent: None,
        shift: None,
        bounded_loss: true,
        owners: true,
    };
    let source = 0x0a00_0000 | u32::from(port);
    job_entries(&node, &Child { port, source, rank: port as u8 - 1, behind: None })
}

#[test]
fn ports_are_bound_to_neighbours() {
    let Some(mut driver) = driver() else { return };
    driver.bind_port(1, worker(1)).expect("a neighbour");
    for (port, peer) in [
        (2, "[::1]:9".parse().unwrap()),
        (2, ([10, 0, 1, 1], 9).into()),
        (driver.limits().ports_max, worker(2)),
    ] {
        let refused = driver.bind_port(port, peer);
        assert!(matches!(refused, Err(DriverError::Port { .. })), "{port} {peer}: {refused:?}");
    }
    // Entries name the control plane's ports, of which the second is not bound.
    assert!(matches!(driver.insert(&entries(2)), Err(DriverError::Port { port: 2, .. })));
    driver.unbind_port(1).expect("it is bound");
    assert!(matches!(driver.insert(&entries(1)), Err(DriverError::Port { port: 1, .. })));
}

#[test]
fn entries_change_all_or_none() {
    let Some(mut driver) = driver() else { return };
    (1..=2).for_each(|port| driver.bind_port(port, worker(port as u8)).expect("a neighbour"));
    let (one, two) = (entries(1), entries(2));
    driver.insert(&one).expect("there is room");
    let mixed: Vec<TableEntry> = [two.clone(), one.clone()].concat();
    assert!(matches!(driver.insert(&mixed), Err(DriverError::Entry(EntryError::Exists))));
    driver.insert(&two).expect("what came before the existing entry was taken back");
    driver.delete(&two).expect("they exist");
    let mixed: Vec<TableEntry> = [one.clone(), two].concat();
    assert!(matches!(driver.delete(&mixed), Err(DriverError::Entry(EntryError::NotFound))));
    assert!(
        matches!(driver.insert(&one), Err(DriverError::Entry(EntryError::Exists))),
        "all are there still"
    );
    driver.delete(&one).expect("they exist");
}

#[test]
fn groups_change_all_or_none() {
    let Some(mut driver) = driver() else { return };
    (1..=3).for_each(|port| driver.bind_port(port, worker(port as u8)).expect("a neighbour"));
    let replicas = |ports: &[u16]| -> Vec<Replica> {
        ports.iter().map(|port| Replica { port: *port, instance: *port }).collect()
    };
    driver.set_group(1, &replicas(&[1, 2])).expect("two members at one interface");
    for (group, members) in
        [(0, replicas(&[3])), (2, replicas(&[1])), (driver.limits().groups_max + 1, vec![])]
    {
        let refused = driver.set_group(group, &members);
        assert!(matches!(refused, Err(DriverError::Entry(EntryError::Group(_)))), "{group}: {refused:?}");
    }
    assert!(matches!(driver.set_group(2, &replicas(&[9])), Err(DriverError::Port { port: 9, .. })));
    // A member that has another address, one that is new, and one that has left.
    driver.bind_port(1, worker(11)).expect("a neighbour");
    driver.set_group(1, &replicas(&[1, 3])).expect("the group exists");
    driver.set_group(2, &replicas(&[2])).expect("its address is free again");
    for _ in 0..2 {
        driver.delete_group(1).expect("deleting a group that does not exist is no error");
    }
    driver.set_group(1, &replicas(&[1, 3])).expect("its addresses are free again");
}

#[test]
fn slots_advance_and_report_the_newest_chunk() {
    let Some(mut driver) = driver() else { return };
    assert_eq!(driver.advance(0, 64, 5).expect("the kernel answers"), 5);
    assert_eq!(driver.advance(9, 1, 1000).expect("the kernel answers"), 1000);
    assert_eq!(driver.advance(8, 4, 6).expect("the kernel answers"), 1000, "that of slot 9");
    let read = driver.read_slots(8, 2).expect("the kernel answers");
    let read: Vec<_> = read.iter().map(|state| (state.slot, state.set, state.chunk)).collect();
    assert_eq!(read, [(8, 0, 6), (8, 1, 6), (9, 0, 1000), (9, 1, 1000)]);
    assert!(matches!(driver.read_slots(60, 5), Err(DriverError::Entry(EntryError::Param(_)))));
    assert_eq!(driver.advance(16, 4, 6).expect("the kernel answers"), 6);
    for (first, slots) in [(0, 65), (64, 1), (0, 0), (u32::MAX, 2)] {
        let refused = driver.advance(first, slots, 7);
        assert!(
            matches!(refused, Err(DriverError::Entry(EntryError::Param(_)))),
            "{first} {slots}: {refused:?}"
        );
    }
}
