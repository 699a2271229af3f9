//! Jobs and their groups, owners, classes in egress queues of their own, and CLOSE, on bmv2.

use netfold_p4::allreduce::Behind;

use super::*;

/// The group's job number, slots and multicast group; its members are at ports of the control plane two above the job's.
const GROUP_JOB: u16 = 6;
const GROUP_BASE: u32 = BASE + SLOTS;
const GROUP_COPIES: u16 = 4;

/// Few words, so that the program is compiled in seconds, and four egress queues.
fn profile() -> Profile {
    Profile {
        lane_words: 8,
        slots: 64,
        jobs: 4,
        ops: vec![LaneOp::Sum],
        priorities: 4,
        ..Profile::hardware()
    }
}

fn small_driver(bmv2: &Bmv2, plane: &DataPlane) -> P4RuntimeDriver {
    let program = allreduce::program(&profile()).expect("a profile in range");
    let json = compile(&program).expect("a program of ours").json.clone();
    let control = FrameControlPort::new(plane.port(CONTROL_PORT));
    let config = DriverConfig::new(profile(), CONTROL_PORT, Box::new(neighbour));
    P4RuntimeDriver::start(client(bmv2), &program, json, config, Box::new(control)).expect("a pipeline")
}

/// Admits a job of workers 1 and 2, each of which receives the lanes that it owns, at ports of the control plane from `port` on.
fn admit_owners(driver: &mut P4RuntimeDriver, node: &Node, port: u16) {
    driver.insert(&allreduce::node_entries(node)).unwrap();
    for rank in 0..2_u8 {
        let (port, peer) = (port + u16::from(rank), worker(rank + 1));
        driver.bind_port(port, SocketAddr::V4(peer)).unwrap();
    }
    let replicas = [port, port + 1].map(|port| Replica { port, instance: port + 1 });
    driver.set_group(node.group, &replicas).unwrap();
    for rank in 0..2_u8 {
        let port = port + u16::from(rank);
        let behind = Behind { instance: port + 1, first: rank.into(), last: rank.into() };
        let source = worker(rank + 1).ip().to_bits();
        let child = Child { port, source, rank, behind: Some(behind) };
        driver.insert(&allreduce::job_entries(node, &child)).unwrap();
    }
}

/// The job, and a group of it that has slots of its own.
fn nodes() -> [Node; 2] {
    [node(), Node { job: GROUP_JOB, base: GROUP_BASE, group: GROUP_COPIES, ..node() }]
}

/// Sends a packet of a worker, whose lanes are the worker's number, unless it has none.
fn send(plane: &DataPlane, number: u8, repr: &Repr) {
    let bare = repr.flags.contains(Flags::BARE);
    let lanes = vec![number.into(); if bare { 0 } else { profile().lane_words as usize }];
    let frame = frame(number, repr, &lanes);
    plane.send(number.into(), &frame).expect("bmv2 takes it");
}

/// Header and lanes of the next results, by port.
fn results(plane: &DataPlane, count: usize) -> Vec<(u16, Repr, Vec<u32>)> {
    let taken = |_| {
        let (port, outer, repr, lanes) = next(plane);
        assert_eq!(outer.destination, endpoint(port as u8));
        assert_eq!(repr.kind, Kind::Result, "{repr:?}");
        (port, repr, lanes)
    };
    let mut results: Vec<_> = (0..count).map(taken).collect();
    results.sort_by_key(|(port, ..)| *port);
    results
}

/// The lanes that each worker receives.
fn lanes(results: &[(u16, Repr, Vec<u32>)]) -> Vec<(u16, Vec<u32>)> {
    results.iter().map(|(port, _, lanes)| (*port, lanes.clone())).collect()
}

#[test]
fn a_job_and_its_group_have_owners_queues_and_close_on_bmv2() {
    if skipped() {
        return;
    }
    let (bmv2, plane) = start();
    let mut driver = small_driver(&bmv2, &plane);
    for (node, port) in nodes().iter().zip([10, 12]) {
        assert_eq!(driver.advance(node.base, SLOTS, 40).unwrap(), 40);
        admit_owners(&mut driver, node, port);
    }
    let sums = |value: u32| vec![value; profile().lane_words as usize];
    for (job, chunk) in [(JOB, 41), (GROUP_JOB, 42)] {
        // Every class, and so every queue; the job and its group use the same slots of their ranges.
        for class in 0..16 {
            let repr = Repr { class, ..contribution(job, u16::from(class % 8), chunk + u32::from(class)) };
            for number in [1, 2] {
                send(&plane, number, &repr);
            }
            let found = results(&plane, 2);
            assert_eq!(lanes(&found), [(1, sums(3)), (2, sums(3))], "class {class}");
            assert!(found.iter().all(|(_, result, _)| result.class == class && result.job == job));
        }
    }
    let owned = Repr { owner: LaneOwner::Rank(1), ..contribution(JOB, 0, 70) };
    for number in [1, 2] {
        send(&plane, number, &owned);
    }
    let found = results(&plane, 2);
    assert_eq!(lanes(&found), [(1, vec![]), (2, sums(3))]);
    assert!(found[0].1.flags.contains(Flags::BARE) && !found[1].1.flags.contains(Flags::BARE));
    for (number, expected) in [(1, vec![]), (2, sums(3))] {
        send(&plane, number, &owned);
        assert_eq!(lanes(&results(&plane, 1)), [(number.into(), expected)], "a stored result");
    }
    let droppable = Repr { flags: Flags::DROPPABLE, ..contribution(GROUP_JOB, 1, 80) };
    send(&plane, 1, &droppable);
    let flags = Flags::BARE.with(Flags::TRIMMED).with(Flags::DROPPABLE);
    send(&plane, 1, &Repr { kind: Kind::Close, flags, count: 0, ..droppable });
    let found = results(&plane, 2);
    assert_eq!(lanes(&found), [(1, sums(1)), (2, sums(1))], "without the other contribution");
    assert!(found.iter().all(|(_, result, _)| (result.bitmap, result.count) == (1, 1)), "{found:?}");
    assert!(found.iter().all(|(_, result, _)| result.flags.contains(Flags::PARTIAL)), "{found:?}");
    assert_eq!(plane.receive(QUIET), Ok(None), "one copy each and no more");
}
