//! Tables, registers, counters, groups: changes from outside, and what the kernel refuses.

use std::sync::Arc;

use netfold_p4::entry::{EntryError, FieldMatch, Replica, TableEntry};
use netfold_p4::interpret::Send;
use netfold_p4::profile::Profile;
use netfold_p4::{allreduce, p4info, transit, xdp};
use netfold_xdp::{Datapath, XdpError};

use crate::{datapath, program};

/// The loopback interface.
const LOOPBACK: u32 = 1;

fn small() -> Profile {
    Profile { lane_words: 8, slots: 16, jobs: 2, transit: 4, ..Profile::hardware() }
}

/// An entry of table `job` that matches a job number under a mask.
fn entry(job: u64, mask: u64, priority: i32) -> TableEntry {
    TableEntry {
        table: p4info::table_id(allreduce::id::JOB),
        matches: vec![FieldMatch { field: allreduce::id::key::JOB, value: job & mask, mask }],
        priority,
        action: p4info::action_id(allreduce::id::DENY),
        params: vec![3],
    }
}

#[test]
fn entries_exist_once_and_combinations_of_masks_are_limited() {
    let Some(mut datapath) = datapath(&program(&small())) else { return };
    datapath.insert(&entry(1, 0xffff, 10)).expect("it fits");
    assert_eq!(datapath.insert(&entry(1, 0xffff, 10)), Err(EntryError::Exists));
    datapath.insert(&entry(1, 0xffff, 11)).expect("another priority is another entry");
    assert_eq!(datapath.delete(&entry(2, 0xffff, 10)), Err(EntryError::NotFound));
    assert_eq!(datapath.delete(&entry(1, 0xffff, 12)), Err(EntryError::NotFound));
    for priority in 12..10 + xdp::TUPLES_MAX as i32 {
        datapath.insert(&entry(1, 0xffff, priority)).expect("there is room for combinations");
    }
    let more = entry(1, 0xfffe, 5);
    assert_eq!(datapath.insert(&more), Err(EntryError::Full(xdp::TUPLES_MAX)));
    datapath.delete(&entry(1, 0xffff, 12)).expect("it is there");
    datapath.insert(&more).expect("a combination was removed with its last entry");
    assert!(matches!(datapath.insert(&TableEntry { table: 7, ..more }), Err(EntryError::Table(7))));
}

#[test]
fn registers_are_written_and_read_by_slot() {
    let Some(mut datapath) = datapath(&program(&small())) else { return };
    assert!(datapath.write_register("claim", 3, &[1, 2]));
    assert!(datapath.write_register("sum", 3, &[9; 8]));
    assert!(datapath.write_register("exponent", 3, &[0x1ff]));
    let read = |name: &str, index| {
        let mut cells = Vec::new();
        datapath.read_register(name, index, &mut cells).then_some(cells)
    };
    assert_eq!((read("claim", 3), read("sum", 3)), (Some(vec![1, 2]), Some(vec![9; 8])));
    assert_eq!((read("exponent", 3), read("claim", 2)), (Some(vec![0xff]), Some(vec![0, 0])));
    assert_eq!((read("claim", 32), read("none", 0)), (None, None));
    assert!(!datapath.write_register("claim", 3, &[1]) && !datapath.write_register("claim", 32, &[1, 2]));
}

#[test]
fn groups_have_members_at_ports() {
    let Some(mut datapath) = datapath(&program(&small())) else { return };
    let replica = |port, instance| Replica { port, instance };
    assert!(matches!(datapath.set_group(1, &[replica(1, 1)]), Err(XdpError::Group { group: 1, .. })));
    for port in [1, 2] {
        datapath.set_port(port, LOOPBACK).expect("the interface exists");
    }
    datapath.set_group(1, &[replica(1, 1), replica(2, 2)]).expect("two members at an interface");
    datapath.set_group(1, &[replica(1, 1)]).expect("one member");
    datapath.set_group(1, &[replica(2, 2)]).expect("another member");
    datapath.set_group(1, &[]).expect("no member");
    for group in [0, 4096] {
        assert!(matches!(datapath.set_group(group, &[]), Err(XdpError::Group { .. })));
    }
    datapath.wait_for_packets().expect("no packet is being processed");
    assert!(matches!(datapath.set_port(3, u32::MAX), Err(XdpError::Change { name: "ports", .. })));
}

/// A frame to an address, with the right checksum.
fn frame(to: [u8; 4], protocol: u8) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, protocol]);
    frame[30..34].copy_from_slice(&to);
    let words = frame[14..34].chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

#[test]
fn frames_for_others_are_forwarded_and_those_of_other_protocols_are_the_kernels() {
    let Some(mut datapath) = datapath(&program(&small())) else { return };
    let run = |datapath: &Datapath, mut bytes: Vec<u8>| {
        let ran = datapath.test_ingress(&mut bytes).expect("the frame is long enough");
        (ran.send, ran.passed)
    };
    // The interface is no port.
    assert_eq!(run(&datapath, frame([10, 0, 0, 1], 17)), (Send::Drop, true));
    datapath.set_port(5, LOOPBACK).expect("the interface exists");
    datapath.insert(&transit::entry(u32::from_be_bytes([10, 0, 0, 9]), 5)).expect("it fits");
    assert_eq!(run(&datapath, frame([10, 0, 0, 9], 17)), (Send::Unicast(5), false));
    assert_eq!(run(&datapath, frame([10, 0, 0, 1], 6)), (Send::Drop, true), "TCP");
    assert_eq!(run(&datapath, vec![0xff; 14]), (Send::Drop, true), "not IPv4");
    let counted = datapath.counters(p4info::counter_id(allreduce::id::PACKETS));
    assert_eq!(counted.iter().sum::<u64>(), 2, "they are counted as not Netfold's: {counted:?}");
    let short = datapath.test_ingress(&mut vec![0; 13]);
    assert!(matches!(short, Err(XdpError::Run { bytes: 13, .. })), "{short:?}");
}

#[test]
fn a_rejection_names_the_element_of_the_program() {
    let program = program(&small());
    if datapath(&program).is_none() {
        return;
    }
    let mut lowered = xdp::lower(&program).expect("it can be expressed");
    let table =
        lowered.ingress.origins.iter().find(|origin| origin.element == "table job").expect("it is applied");
    // The first instruction of the lookup reads what is not there.
    let at = table.first;
    lowered.ingress.instructions[at].offset = i16::MAX;
    match Datapath::of(Arc::clone(&program), lowered) {
        Err(XdpError::Rejected { block, element, instruction, log, .. }) => {
            assert_eq!((block, &element[..], instruction), ("ingress", "table job", Some(at)), "{log}");
        }
        other => panic!("{other:?}"),
    }
}
