//! bmv2 as a Netfold switch: compiled, started, programmed over P4Runtime, and sent packets without any privilege.

mod features;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use netfold_controller::{DriverError, SwitchDriver};
use netfold_lab::bmv2::{
    Bmv2, Bmv2Config, CompileError, DataPlane, FrameControlPort, compile, compile_text, missing_tool,
};
use netfold_p4::allreduce::{self, Child, Node, child_entry, id};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::ir::Program;
use netfold_p4::p4info::{counter_id, table_id};
use netfold_p4::profile::Profile;
use netfold_p4_runtime::v1::{self, EntityKind};
use netfold_southbound::p4runtime::{
    Client, ClientConfig, DeviceFormat, DriverConfig, ELECTION_ID, P4RuntimeDriver, P4RuntimeError, PeerPort,
};
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Reason, Repr, UDP_PORT, header};

const CONTROL_PORT: u16 = 64;
const GROUP: u16 = 3;
const JOB: u16 = 5;
const KEY: u32 = 0xdead_beef;
const EPOCH: u32 = 77;
const BASE: u32 = 16;
const SLOTS: u32 = 8;
const WAIT: Duration = Duration::from_secs(10);
/// What does not come within this time does not come.
const QUIET: Duration = Duration::from_millis(300);

/// Whether bmv2 is absent; reports that the test is skipped then.
fn skipped() -> bool {
    match missing_tool() {
        Some(tool) => {
            println!("skipped: {tool} is not on PATH (see p4.org)");
            true
        }
        None => false,
    }
}

fn program() -> Program {
    allreduce::program(&Profile::hardware()).expect("a profile of ours")
}

fn mac(number: u8) -> u64 {
    0x0200_0000_0000 + u64::from(number)
}

/// Worker `number` has address 10.0.0.`number`, UDP port 4000 + `number`, and is at port `number` of the switch.
fn worker(number: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, number), 4000 + u16::from(number))
}

fn neighbour(peer: SocketAddrV4) -> Option<PeerPort> {
    let number = peer.ip().octets()[3];
    (number < 32).then(|| PeerPort { port: number.into(), mac: mac(number) })
}

fn config() -> DriverConfig {
    DriverConfig::new(Profile::hardware(), CONTROL_PORT, Box::new(neighbour))
}

fn client(bmv2: &Bmv2) -> Client {
    Client::connect(bmv2.p4runtime(), ClientConfig::default()).expect("bmv2 listens")
}

fn driver(bmv2: &Bmv2, plane: &DataPlane) -> P4RuntimeDriver {
    let json = compile(&program()).expect("a program of ours").json.clone();
    let control = FrameControlPort::new(plane.port(CONTROL_PORT));
    P4RuntimeDriver::start(client(bmv2), &program(), json, config(), Box::new(control))
        .expect("bmv2 takes the pipeline")
}

fn start() -> (Bmv2, DataPlane) {
    let bmv2 = Bmv2::start(Bmv2Config::default()).expect("bmv2 starts");
    let plane = DataPlane::connect(&bmv2).expect("bmv2 takes packets");
    (bmv2, plane)
}

fn node() -> Node {
    Node {
        job: JOB,
        epoch: EPOCH,
        key: KEY,
        base: BASE,
        slots: SLOTS,
        children: 2,
        workers: 2,
        world: 2,
        group: GROUP,
        parent: None,
        shift: None,
        bounded_loss: true,
        owners: true,
    }
}

/// Entries of the job, by the control plane's ports: worker 1 has port 10 there, worker 2 has port 11.
fn entries() -> Vec<TableEntry> {
    let mut entries = allreduce::node_entries(&node());
    for (rank, number) in [(0, 1), (1, 2)] {
        let source = worker(number).ip().to_bits();
        entries.extend(allreduce::job_entries(
            &node(),
            &Child { port: 10 + u16::from(rank), source, rank, behind: None },
        ));
    }
    entries
}

fn admit(driver: &mut P4RuntimeDriver) {
    driver.bind_port(10, SocketAddr::V4(worker(1))).expect("a neighbour");
    driver.bind_port(11, SocketAddr::V4(worker(2))).expect("a neighbour");
    driver.set_group(GROUP, &[10, 11].map(|port| Replica { port, instance: port + 1 })).expect("a group");
    driver.insert(&entries()).expect("entries");
}

fn endpoint(number: u8) -> Endpoint {
    let peer = worker(number);
    Endpoint { mac: EthernetAddress([2, 0, 0, 0, 0, number]), ip: *peer.ip(), port: peer.port() }
}

fn switch() -> Endpoint {
    Endpoint {
        mac: EthernetAddress([2, 0, 0, 0, 0, 254]),
        ip: Ipv4Address::new(10, 0, 0, 254),
        port: UDP_PORT,
    }
}

/// The header of a contribution.
fn contribution(job: u16, slot: u16, chunk: u32) -> Repr {
    Repr {
        kind: Kind::Data,
        flags: Flags::default(),
        op: LaneOp::Sum,
        class: 0,
        reason: Reason::None,
        job,
        slot,
        set: 0,
        epoch: EPOCH,
        key: KEY,
        chunk,
        bitmap: 0,
        count: 1,
        exp: 0,
        exp_next: 0,
        owner: LaneOwner::All,
    }
}

fn data(number: u8, slot: u16, chunk: u32) -> Vec<u8> {
    let lanes: Vec<u32> =
        (0..Profile::hardware().lane_words).map(|lane| u32::from(number) * 1000 + lane).collect();
    frame(number, &contribution(JOB, slot, chunk), &lanes)
}

/// A packet of a worker with its headers.
fn frame(number: u8, repr: &Repr, lanes: &[u32]) -> Vec<u8> {
    let mut datagram = vec![0; header::LEN];
    repr.emit(&mut header::Packet::new_unchecked(&mut datagram[..]));
    datagram.extend(lanes.iter().flat_map(|lane| lane.to_be_bytes()));
    let mut frame = vec![0; OUTER_LEN + datagram.len()];
    let outer = Outer { source: endpoint(number), destination: switch() };
    outer.emit(&datagram, 0, &mut frame).expect("it fits");
    frame
}

/// Takes the next frame apart.
fn next(plane: &DataPlane) -> (u16, Outer, Repr, Vec<u32>) {
    let (port, frame) = plane.receive(WAIT).expect("the stream is open").expect("a frame in time");
    let (outer, datagram) = Outer::parse(&frame).expect("outer headers with good checksums");
    let repr = Repr::parse(&header::Packet::new_checked(datagram).expect("a header")).expect("fields");
    let lanes = datagram[header::LEN..].as_chunks().0.iter().map(|word| u32::from_be_bytes(*word)).collect();
    (port, outer, repr, lanes)
}

/// Sends one chunk from both workers and checks what each gets.
fn fold(plane: &DataPlane, slot: u16, chunk: u32) {
    plane.send(1, &data(1, slot, chunk)).expect("bmv2 takes it");
    plane.send(2, &data(2, slot, chunk)).expect("bmv2 takes it");
    let mut results = [next(plane), next(plane)];
    results.sort_by_key(|(port, ..)| *port);
    for ((port, outer, repr, lanes), number) in results.into_iter().zip([1u8, 2]) {
        assert_eq!(port, u16::from(number));
        assert_eq!(outer, Outer { source: switch(), destination: endpoint(number) });
        assert_eq!((repr.kind, repr.chunk, repr.slot), (Kind::Result, chunk, slot));
        assert_eq!((repr.bitmap, repr.count), (3, 2));
        let expected: Vec<u32> = (0..Profile::hardware().lane_words).map(|lane| 3000 + 2 * lane).collect();
        assert_eq!(lanes, expected);
    }
    assert_eq!(plane.receive(QUIET), Ok(None), "one copy each and no more");
}

fn table(driver: &P4RuntimeDriver, table: u32) -> usize {
    let pattern = v1::TableEntry { table_id: table_id(table), ..Default::default() };
    driver.client().read(vec![EntityKind::TableEntry(pattern)]).expect("bmv2 reads").len()
}

fn groups(driver: &P4RuntimeDriver) -> usize {
    let group = v1::Replication::MulticastGroupEntry(v1::MulticastGroupEntry::default());
    let pattern = v1::PacketReplicationEngineEntry { r#type: Some(group) };
    driver.client().read(vec![EntityKind::PacketReplicationEngineEntry(pattern)]).expect("bmv2 reads").len()
}

#[test]
fn two_members_fold_through_bmv2() {
    if skipped() {
        return;
    }
    let (bmv2, plane) = start();
    let mut driver = driver(&bmv2, &plane);
    assert!(driver.client().is_primary());
    assert!(driver.client().capabilities().unwrap().starts_with("1."));
    assert_eq!(driver.advance(BASE, SLOTS, 40).unwrap(), 40);
    admit(&mut driver);
    fold(&plane, 0, 41);
    fold(&plane, 0, 49);
    fold(&plane, 3, 44);
    assert_eq!(driver.advance(BASE, SLOTS, 42).unwrap(), 49, "a newer chunk stays");

    // The reply to a duplicate of a finished chunk goes to its sender alone.
    plane.send(2, &data(2, 0, 49)).unwrap();
    let (port, outer, repr, _) = next(&plane);
    assert_eq!((port, outer.destination, repr.kind), (2, endpoint(2), Kind::Result));
    // Another host does not get in, whatever it claims.
    plane.send(3, &data(1, 0, 50)).unwrap();
    assert_eq!(plane.receive(QUIET).unwrap(), None);
    let packets = driver.counters(counter_id(id::PACKETS)).unwrap();
    let counted = |reason: Reason| packets[Reason::ALL.iter().position(|r| *r == reason).unwrap()];
    assert_eq!(counted(Reason::Spoofed), 1);
    // Two times 16 slot-sets (an ADVANCE may have been retransmitted), six chunks and a duplicate.
    assert!(counted(Reason::None) > 2 * 16 + 6, "{packets:?}");

    // One member goes: copies go to the other alone, and nothing of it stays behind.
    let gone = allreduce::job_entries(
        &node(),
        &Child { port: 10, source: worker(1).ip().to_bits(), rank: 0, behind: None },
    );
    driver.delete(&gone).unwrap();
    driver.delete(&gone).unwrap();
    driver.set_group(GROUP, &[Replica { port: 11, instance: 12 }]).unwrap();
    assert_eq!(table(&driver, id::CHILD), 1);
    plane.send(2, &data(2, 1, 60)).unwrap();
    plane.send(1, &data(1, 1, 60)).unwrap();
    assert_eq!(plane.receive(QUIET).unwrap(), None, "nothing is added for a member that has left");
    driver.delete_group(GROUP).unwrap();
    assert_eq!((table(&driver, id::CHILD), groups(&driver)), (0, 0));
}

#[test]
fn a_pipeline_pushed_again_sends_no_copy_twice() {
    if skipped() {
        return;
    }
    let (bmv2, plane) = start();
    for chunk in [10, 20, 30] {
        let mut driver = driver(&bmv2, &plane);
        admit(&mut driver);
        fold(&plane, 0, chunk);
    }
}

/// What comes of a driver with such a device configuration.
fn refused(bmv2: &Bmv2, plane: &DataPlane, json: &[u8], device_format: DeviceFormat) -> P4RuntimeError {
    let control = FrameControlPort::new(plane.port(CONTROL_PORT));
    let config = DriverConfig { device_format, ..config() };
    let started = P4RuntimeDriver::start(client(bmv2), &program(), json.to_vec(), config, Box::new(control));
    started.map(|_| ()).expect_err("no pipeline of ours")
}

#[test]
fn a_wrong_pipeline_changes_nothing() {
    if skipped() {
        return;
    }
    let (bmv2, plane) = start();
    let no_child = br#"{"actions": [], "pipelines": [{"tables": [{"name": "IngressImpl.job"}]}]}"#;
    let wrong = |what: &str| {
        for json in [b"no json at all".as_slice(), b"{}", no_child] {
            let error = refused(&bmv2, &plane, json, DeviceFormat::Bmv2);
            assert!(matches!(error, P4RuntimeError::DeviceConfig { .. }), "{what}: {error}");
        }
        // bmv2 itself would take this for a request to start without a program.
        let error = refused(&bmv2, &plane, b"", DeviceFormat::Bmv2);
        assert!(matches!(error, P4RuntimeError::EmptyPipeline { .. }), "{what}: {error}");
    };
    wrong("without a pipeline");
    assert!(client(&bmv2).pipeline().unwrap().is_none());
    let mut driver = driver(&bmv2, &plane);
    admit(&mut driver);
    drop(driver);
    wrong("with a pipeline");
    fold(&plane, 0, 1);
}

#[test]
fn the_refusal_of_a_pipeline_is_reported() {
    if skipped() {
        return;
    }
    for json in ["no json at all", "{}"] {
        let (bmv2, plane) = start();
        let error = refused(&bmv2, &plane, json.as_bytes(), DeviceFormat::Opaque);
        assert!(matches!(error, P4RuntimeError::Pipeline { .. }), "{error}");
        assert!(error.to_string().starts_with("switch 1 refuses the pipeline: "), "{error}");
    }
}

#[test]
fn entries_are_taken_all_or_none() {
    if skipped() {
        return;
    }
    let (bmv2, plane) = start();
    let mut driver = driver(&bmv2, &plane);
    let before = table(&driver, id::JOB);
    admit(&mut driver);
    let admitted = table(&driver, id::JOB);
    assert_eq!(admitted, before + entries().len());

    // A new job of many entries, one of which stands already.
    let other = Node { job: 9, ..node() };
    let mut many: Vec<TableEntry> = (0..40)
        .flat_map(|rank| {
            allreduce::job_entries(
                &other,
                &Child { port: 10, source: 0x0a01_0000 + rank, rank: rank as u8 % 32, behind: None },
            )
        })
        .collect();
    many.insert(120, entries()[0].clone());
    match driver.insert(&many) {
        Err(DriverError::Refused(source)) => {
            let text = source.to_string();
            assert!(text.contains("1 of 241 updates") && text.contains("INSERT into table"), "{text}");
            assert!(text.contains("ALREADY_EXISTS"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(table(&driver, id::JOB), admitted);
    fold(&plane, 0, 1);

    // Groups and ports that make no sense are refused, and what was there stays.
    let copies = |copies: &[(u16, u16)]| -> Vec<Replica> {
        copies.iter().map(|&(port, instance)| Replica { port, instance }).collect()
    };
    assert!(driver.set_group(GROUP, &copies(&[(10, 11), (12, 13)])).is_err(), "port 12 is not bound");
    assert!(driver.set_group(GROUP, &copies(&[(10, 0)])).is_err(), "0 is no instance");
    assert!(driver.set_group(GROUP, &copies(&[(10, 5), (11, 5)])).is_err(), "an instance is one copy's");
    assert!(driver.set_group(GROUP + 1, &copies(&[(10, 11)])).is_err(), "an instance is one group's");
    assert!(driver.set_group(0, &copies(&[(10, 11)])).is_err());
    assert!(driver.bind_port(12, "10.9.9.99:4000".parse().unwrap()).is_err(), "no such neighbour");
    assert!(driver.bind_port(12, "[::1]:4000".parse().unwrap()).is_err());
    let raw = child_entry(
        11,
        allreduce::Address { mac: 1 << 50, ip: 1, port: 1 },
        allreduce::Address { mac: 1, ip: 1, port: 1 },
    );
    assert!(matches!(driver.insert(&[raw]), Err(DriverError::Refused(_))), "49 bits are no Ethernet address");
    assert_eq!((table(&driver, id::CHILD), groups(&driver)), (2, 1));
    fold(&plane, 0, 2);
}

#[test]
fn the_greater_election_id_is_in_charge() {
    if skipped() {
        return;
    }
    let (bmv2, _plane) = start();
    let first = client(&bmv2);
    let config = |election_id| ClientConfig { name: "s1".into(), election_id, ..ClientConfig::default() };
    match Client::connect(bmv2.p4runtime(), config(ELECTION_ID - 1)).map(|_| ()) {
        Err(error @ P4RuntimeError::NotPrimary { highest: ELECTION_ID, .. }) => {
            assert!(error.to_string().contains("switch s1"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let second = Client::connect(bmv2.p4runtime(), config(ELECTION_ID + 1)).unwrap();
    assert!(second.is_primary());
    let json = compile(&program()).unwrap().json.clone();
    let info = netfold_p4_runtime::p4info(&program()).unwrap();
    let refused = first.set_pipeline(info, json);
    assert!(matches!(refused, Err(P4RuntimeError::NotPrimary { .. })), "{refused:?}");
}

#[test]
fn a_lost_switch_is_named_in_the_error() {
    if skipped() {
        return;
    }
    let (bmv2, plane) = start();
    let mut driver = driver(&bmv2, &plane);
    assert_eq!(driver.advance(0, 1, 7).unwrap(), 7);
    let address = bmv2.p4runtime().to_owned();
    drop(bmv2);
    match driver.set_group(1, &[]) {
        Err(DriverError::Unreachable(source)) => assert!(source.to_string().contains("switch 1"), "{source}"),
        other => panic!("{other:?}"),
    }
    assert!(plane.receive(WAIT).is_err(), "the stream ends with the switch");
    let config = ClientConfig { connect_within: Duration::from_millis(300), ..ClientConfig::default() };
    assert!(matches!(Client::connect(&address, config), Err(P4RuntimeError::Connect { .. })));
}

#[test]
fn the_compiler_says_where_it_stopped() {
    if skipped() {
        return;
    }
    let text = "#include <core.p4>\n#include <v1model.p4>\nheader h {\n    bit<8> a;\n    bit<8> a;\n}\n";
    match compile_text(text) {
        Err(CompileError::Rejected { line: Some(line), construct, message, .. }) => {
            assert!((3..=5).contains(&line), "line {line}");
            assert!(!construct.is_empty() && !message.is_empty());
        }
        other => panic!("{other:?}"),
    }
    let compiled = compile(&program()).unwrap();
    assert_eq!(compiled.warnings, "");
    assert!(std::sync::Arc::ptr_eq(&compiled, &compile(&program()).unwrap()), "compiled once");
}
