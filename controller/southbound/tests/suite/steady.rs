//! A switch that stays reachable, with and without another client that changes its entries.

use std::time::{Duration, Instant};

use netfold_controller::driver::HeldEntity;
use netfold_controller::{DriverError, SwitchDriver};
use netfold_p4::allreduce::{Child, job_entries};
use netfold_p4::entry::Replica;
use netfold_p4::profile::Profile;
use netfold_p4_runtime::v1::UpdateType;
use netfold_southbound::p4runtime::{Attachment, ManagedConfig, Pipeline, Repaired, SwitchEvent};
use netfold_wire::{JobKeys, PacketKey, PortKeys};

use crate::rig::{
    Device, ELECTION, LANE_WORDS, Raw, Watched, config, entries, group, held, node, peer, profile, replicas,
    update,
};

/// Admits a job with two children.
pub(crate) fn admit(switch: &mut impl SwitchDriver, job: u16, ports: [u16; 2]) {
    for port in ports {
        switch.bind_port(port, peer(port)).unwrap();
    }
    switch.set_group(job, &replicas(ports)).unwrap();
    switch.insert(&entries(job, ports)).unwrap();
}

#[test]
fn a_switch_that_runs_our_pipeline_is_adopted_without_a_write() {
    let device = Device::start();
    let mut first = Watched::start(config(device.address()), Vec::new());
    let (fresh, boot, data) = first.wait(|event| match event {
        SwitchEvent::Up { fresh, boot, data, .. } => Some((*fresh, boot.clone(), *data)),
        _ => None,
    });
    assert!(fresh, "it had no pipeline");
    assert_eq!(data, Some(device.data));
    first.eventually_up();
    assert_eq!(first.switch.counts().pushes, 1);
    admit(&mut first.switch, 1, [0, 1]);
    admit(&mut first.switch, 2, [2, 3]);
    let raw = Raw::connect(device.address());
    let before = raw.holding();
    assert_eq!((before.entries.len(), before.groups.len(), before.ports.len()), (2 + 2 * 11, 2, 4));
    drop(first);

    let known = [held(1, [0, 1]), held(2, [2, 3])].concat();
    let mut second = Watched::start(ManagedConfig { boot, ..config(device.address()) }, known);
    assert!(!second.up().0, "nothing was lost");
    assert_eq!(second.switch.resync().unwrap(), Repaired::default());
    let counts = second.switch.counts();
    assert_eq!((counts.pushes, counts.writes, counts.updates), (0, 0, 0), "{counts:?}");
    assert!(counts.passes >= 2);
    assert_eq!(raw.holding(), before);

    // What was adopted can be taken away.
    second.switch.delete(&entries(1, [0, 1])).unwrap();
    second.switch.delete_group(1).unwrap();
    (0..2).for_each(|port| second.switch.unbind_port(port).unwrap());
    let after = raw.holding();
    assert_eq!((after.entries.len(), after.groups.len(), after.ports.len()), (2 + 11, 1, 2));
}

fn keys(job: u16) -> JobKeys {
    let key = |byte: u16| PacketKey([byte as u8; 32]);
    JobKeys { job, epoch: 7, keys: PortKeys { receive: key(job), send: key(job + 100) } }
}

/// Two ports of the control plane lead to one switch, whose port there is shared by two authenticated jobs: each takes its own keys away.
#[test]
fn jobs_that_share_a_port_of_the_switch_have_keys_of_their_own() {
    let device = Device::start();
    let mut watched = Watched::start(config(device.address()), Vec::new());
    watched.up();
    let switch = &mut watched.switch;
    assert!(switch.limits().authenticates);
    let raw = Raw::connect(device.address());
    for (port, job) in [(0, 1), (1, 2)] {
        assert!(switch.authenticate(port, &keys(job)).is_err(), "no peer yet");
        switch.bind_port(port, peer(9)).unwrap();
        switch.authenticate(port, &keys(job)).unwrap();
    }
    assert_eq!(raw.keyed(peer(9)), [1, 2]);
    assert_eq!(switch.resync().unwrap(), Repaired::default());

    // Another client takes keys away, and adds some.
    raw.detach_keys(peer(9), 1);
    raw.attach_keys(peer(9), 3);
    assert_eq!(raw.keyed(peer(9)), [2, 3]);
    assert_eq!(switch.resync().unwrap(), Repaired { inserted: 1, removed: 1, modified: 0 });
    assert_eq!(raw.keyed(peer(9)), [2, 1]);

    switch.unbind_port(0).unwrap();
    assert_eq!(raw.keyed(peer(9)), [2]);
    switch.unbind_port(1).unwrap();
    assert!(raw.holding().ports.is_empty());
}

/// A peer with several UDP ports has all of them, also when the switch has lost its port.
#[test]
fn all_udp_ports_of_a_peer_are_attached_and_attached_again() {
    let device = Device::start();
    let mut watched = Watched::start(config(device.address()), Vec::new());
    watched.up();
    let switch = &mut watched.switch;
    let raw = Raw::connect(device.address());
    switch.bind_ports(0, peer(8), 4).unwrap();
    let taken = raw.attach(peer(11), 1).unwrap_err();
    assert_eq!(taken.code(), tonic::Code::InvalidArgument, "{taken:?}");
    assert!(taken.message().contains("bound"), "{taken:?}");
    raw.attach(peer(12), 1).expect("the next port is another peer's");

    raw.detach(peer(8));
    assert_eq!(switch.resync().unwrap().inserted, 1);
    assert!(raw.attach(peer(11), 1).is_err(), "four ports again");
    switch.unbind_port(0).unwrap();
    raw.attach(peer(11), 1).expect("all four are free");

    for (first, udp_ports) in [(peer(20), 65), (peer(20), 1000), (([127, 0, 0, 1], 65_530).into(), 16)] {
        let refused = raw.attach(first, udp_ports).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused:?}");
    }
}

/// A control plane that has restarted gives a switch that has lost them the keys of its jobs again.
#[test]
fn keys_of_running_jobs_are_given_again() {
    let device = Device::start();
    let mut first = Watched::start(config(device.address()), Vec::new());
    let (_, boot) = first.up();
    admit(&mut first.switch, 1, [0, 1]);
    (0..2).for_each(|port| first.switch.authenticate(port, &keys(1)).unwrap());
    // The keys of one port are lost behind its back.
    let raw = Raw::connect(device.address());
    raw.detach_keys(peer(0), 1);
    drop(first);
    let with_keys = |held| match held {
        HeldEntity::Port { port, peer, .. } => {
            HeldEntity::Port { port, peer, udp_ports: 1, keys: Some(keys(1)) }
        }
        held => held,
    };
    let known = held(1, [0, 1]).into_iter().map(with_keys).collect();
    let second = Watched::start(ManagedConfig { boot, ..config(device.address()) }, known);
    assert!(!second.up().0, "nothing was lost");
    assert_eq!((raw.keyed(peer(0)), raw.keyed(peer(1))), (vec![1], vec![1]));
}

/// Keys do not cross a network in clear text.
#[test]
fn a_switch_that_is_reached_in_clear_text_is_given_no_keys() {
    let authenticates =
        |config: &ManagedConfig| config.limits(&Pipeline::software(profile()).unwrap()).authenticates;
    let at = |address: &str| ManagedConfig { ..ManagedConfig::new("s1", address, Attachment::Attached) };
    for local in ["127.0.0.1:9559", "localhost:9559", "[::1]:9559", "unix:/run/netfold"] {
        assert!(authenticates(&at(local)), "{local}");
    }
    for remote in ["192.0.2.1:9559", "tor:9559", "[2001:db8::1]:9559"] {
        assert!(!authenticates(&at(remote)), "{remote}");
    }
    let known = Attachment::Known(Box::new(|_| None));
    assert!(!authenticates(&ManagedConfig::new("b1", "127.0.0.1:9559", known)), "a P4 target");
}

#[test]
fn slots_are_moved_on_over_the_stream() {
    let device = Device::start();
    let mut watched = Watched::start(config(device.address()), Vec::new());
    watched.up();
    let switch = &mut watched.switch;
    assert_eq!(switch.limits().slots, 64);
    assert_eq!(switch.advance(0, 64, 40).unwrap(), 40);
    assert_eq!(switch.advance(8, 1, 50).unwrap(), 50);
    assert_eq!(switch.advance(0, 16, 45).unwrap(), 50, "a newer chunk stays");
    assert_eq!(switch.advance(16, 48, 41).unwrap(), 41);
    assert!(matches!(switch.advance(60, 8, 1), Err(DriverError::Entry(_))), "there are 64 slots");
    let read = |first, slots, switch: &mut dyn SwitchDriver| {
        let read = switch.read_slots(first, slots).unwrap();
        read.iter().map(|state| (state.slot, state.set, state.chunk, state.seen)).collect::<Vec<_>>()
    };
    let stored = [(7, 0, 45, 0), (7, 1, 45, 0), (8, 0, 50, 0), (8, 1, 50, 0)];
    assert_eq!(read(7, 2, switch), stored);
    assert_eq!(read(7, 2, switch), stored, "reading changes nothing");
    assert!(matches!(switch.read_slots(60, 8), Err(DriverError::Entry(_))));
}

#[test]
fn unclaimed_entries_are_removed() {
    let device = Device::start();
    let mut first = Watched::start(config(device.address()), Vec::new());
    first.up();
    admit(&mut first.switch, 1, [0, 1]);
    admit(&mut first.switch, 2, [2, 3]);
    drop(first);
    let second = Watched::start(config(device.address()), held(2, [2, 3]));
    assert!(!second.up().0);
    let repaired = second.wait(|event| match event {
        SwitchEvent::Repaired(repaired) => Some(*repaired),
        _ => None,
    });
    assert_eq!(repaired, Repaired { inserted: 0, removed: 11 + 1 + 2, modified: 0 });
    let holding = Raw::connect(device.address()).holding();
    assert_eq!((holding.entries.len(), holding.groups.len(), holding.ports.len()), (2 + 11, 1, 2));
}

#[test]
fn a_meddler_is_undone() {
    let device = Device::start();
    let mut watched = Watched::start(config(device.address()), Vec::new());
    watched.up();
    admit(&mut watched.switch, 1, [0, 1]);
    let raw = Raw::connect(device.address());
    let before = raw.holding();
    // By the switch's ports, which are one above ours.
    let ours = entries(1, [1, 2]);
    let mut changed = ours[3].clone();
    assert_eq!(ours[3].params.len(), 1);
    changed.params[0] ^= 1;
    let foreign = entries(3, [3, 4]);
    let mut updates = vec![
        raw.entry(UpdateType::Delete, &ours[1]),
        raw.entry(UpdateType::Modify, &changed),
        update(UpdateType::Delete, group(1, &[])),
        update(UpdateType::Insert, group(9, &[Replica { port: 1, instance: 5 }])),
    ];
    updates.extend(foreign.iter().map(|entry| raw.entry(UpdateType::Insert, entry)));
    raw.write(ELECTION, updates).unwrap();
    assert_ne!(raw.holding(), before);
    let repaired = watched.switch.resync().unwrap();
    assert_eq!(repaired, Repaired { inserted: 2, removed: 1 + foreign.len(), modified: 1 });
    assert_eq!(raw.holding(), before);
    assert_eq!(watched.switch.resync().unwrap(), Repaired::default());

    // A copy that goes elsewhere.
    raw.write(ELECTION, vec![update(UpdateType::Modify, group(1, &[Replica { port: 1, instance: 9 }]))])
        .unwrap();
    assert_eq!(watched.switch.resync().unwrap(), Repaired { modified: 1, ..Repaired::default() });
    assert_eq!(raw.holding(), before);
}

#[test]
fn comparisons_are_periodic() {
    let device = Device::start();
    let every = Duration::from_millis(50);
    let config = ManagedConfig { resync_every: every, ..config(device.address()) };
    let mut watched = Watched::start(config, Vec::new());
    watched.up();
    admit(&mut watched.switch, 1, [0, 1]);
    let raw = Raw::connect(device.address());
    let before = raw.holding();
    let counted = watched.wait(|event| match event {
        SwitchEvent::Counters { packets, .. } => Some(packets.len()),
        _ => None,
    });
    assert_eq!(counted, netfold_wire::Reason::ALL.len());
    raw.write(ELECTION, vec![raw.entry(UpdateType::Delete, &entries(1, [1, 2])[0])]).unwrap();
    let repaired = watched.wait(|event| match event {
        SwitchEvent::Repaired(repaired) => Some(*repaired),
        _ => None,
    });
    assert_eq!(repaired, Repaired { inserted: 1, ..Repaired::default() });
    assert_eq!(raw.holding(), before);
}

#[test]
fn a_call_that_is_refused_half_way_leaves_nothing() {
    let device = Device::start();
    let mut watched = Watched::start(config(device.address()), Vec::new());
    watched.up();
    admit(&mut watched.switch, 1, [0, 1]);
    let raw = Raw::connect(device.address());
    let before = raw.holding();
    let switch = &mut watched.switch;
    (2..4).for_each(|port| switch.bind_port(port, peer(port)).unwrap());
    // Another client holds the third of them.
    let new = entries(2, [2, 3]);
    let theirs = entries(2, [3, 4])[2].clone();
    raw.write(ELECTION, vec![raw.entry(UpdateType::Insert, &theirs)]).unwrap();
    match switch.insert(&new) {
        Err(DriverError::Refused(source)) => {
            assert!(source.to_string().contains("ALREADY_EXISTS"), "{source}")
        }
        other => panic!("{other:?}"),
    }
    // Theirs has no business here either.
    assert_eq!(raw.holding().entries, before.entries);
    switch.insert(&new).unwrap();
    assert_eq!(raw.holding().entries.len(), before.entries.len() + new.len());
    // A duplicate is the caller's mistake; no call is sent to the switch.
    let writes = switch.counts().writes;
    assert!(matches!(switch.insert(&new), Err(DriverError::Entry(_))));
    assert!(
        matches!(switch.set_group(2, &replicas([0, 2])), Err(DriverError::Entry(_))),
        "1 has that instance"
    );
    assert!(matches!(switch.set_group(2, &replicas([2, 9])), Err(DriverError::Port { port: 9, .. })));
    assert!(matches!(switch.bind_port(99, peer(99)), Err(DriverError::Port { port: 99, .. })));
    assert_eq!(switch.counts().writes, writes);
    // What is so already is not written.
    switch.set_group(1, &replicas([0, 1])).unwrap();
    assert_eq!(switch.counts().writes, writes);
}

#[test]
fn held_things_that_make_no_sense_are_refused_at_once() {
    let address = ([127, 0, 0, 1], 1).into();
    let refused = |held: Vec<HeldEntity>| {
        netfold_southbound::p4runtime::Managed::start(config(address), crate::rig::pipeline(), held, |_| {})
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    let text = refused(vec![HeldEntity::Entries(entries(1, [0, 1]))]);
    assert!(text.starts_with("switch s1: what is said to be there already cannot be: port 0"), "{text}");
    let bound = [0, 1].map(|port| HeldEntity::Port { port, peer: peer(port), udp_ports: 1, keys: None });
    let twice = HeldEntity::Group { group: 1, replicas: vec![Replica { port: 0, instance: 1 }; 2] };
    assert!(refused(bound.into_iter().chain([twice]).collect()).contains("group 1"));
}

#[test]
fn ten_thousand_entries_go_in_batches() {
    const JOBS: u16 = 61;
    let device = Device::start();
    let profile = Profile { slots: 512, jobs: 64, ..Profile::software(LANE_WORDS) };
    let pipeline = Pipeline::software(profile.clone()).unwrap();
    let mut watched = Watched::running(config(device.address()), pipeline.clone(), Vec::new());
    watched.up();
    let switch = &mut watched.switch;
    (0..32).for_each(|port| switch.bind_port(port, peer(port)).unwrap());
    let all: Vec<_> = (1..=JOBS)
        .flat_map(|job| {
            let child = |rank: u8| Child { port: rank.into(), source: 0, rank, behind: None };
            (0..32).flat_map(move |rank| job_entries(&node(job), &child(rank)))
        })
        .collect();
    assert!(all.len() >= 9_760, "{}", all.len());
    let (begun, writes) = (Instant::now(), switch.counts().writes);
    switch.insert(&all).unwrap();
    let inserted = begun.elapsed();
    let writes = switch.counts().writes - writes;
    assert!(writes >= (all.len() / 80) as u64, "at most 80 updates each");
    let begun = Instant::now();
    assert!(switch.resync().unwrap().is_nothing());
    let compared = begun.elapsed();
    println!("{} entries inserted in {inserted:?} by {writes} requests; compared in {compared:?}", all.len());
    let held: Vec<_> = (0..32)
        .map(|port| HeldEntity::Port { port, peer: peer(port), udp_ports: 1, keys: None })
        .chain([HeldEntity::Entries(all.clone())])
        .collect();
    drop(watched);

    // A new controller finds it all, or puts it all back.
    let raw = Raw::of(device.address(), &profile);
    let before = raw.holding();
    assert_eq!(before.entries.len(), all.len() + 2);
    let begun = Instant::now();
    let watched = Watched::running(config(device.address()), pipeline, held);
    assert!(!watched.up().0);
    println!("adopted in {:?}", begun.elapsed());
    assert_eq!(watched.switch.counts().writes, 0);
    let by_port = |entry: &netfold_p4::entry::TableEntry| {
        let mut entry = entry.clone();
        entry.matches.iter_mut().filter(|field| field.field == 1).for_each(|field| field.value += 1);
        raw.entry(UpdateType::Delete, &entry)
    };
    for part in all.chunks(1000) {
        raw.write(ELECTION, part.iter().map(by_port).collect()).unwrap();
    }
    let begun = Instant::now();
    assert_eq!(watched.switch.resync().unwrap().inserted, all.len());
    println!("put back in {:?}", begun.elapsed());
    assert_eq!(raw.holding(), before);
}
