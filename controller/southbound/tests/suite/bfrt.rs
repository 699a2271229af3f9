//! The driver for Tofino switches, against a fake that checks every call.

use std::io;
use std::net::SocketAddrV4;
use std::time::Instant;

use netfold_controller::{DriverError, SwitchDriver};
use netfold_p4::allreduce::{self, Address, Behind, Child, Node};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::p4info::table_id;
use netfold_p4::profile::Profile;
use netfold_p4::transit;
use netfold_p4_runtime::bfrt::{DataValue, TableData};
use netfold_p4_runtime::config::{Match, MatchType};
use netfold_p4_runtime::p4info;
use netfold_southbound::bfrt::{BfrtConfig, BfrtDriver, BfrtError, BfrtProgram};
use netfold_southbound::p4runtime::{ControlPort, PeerPort};
use serde_json::{Value, json};

use crate::fake_tofino::{Fake, GROUP, NODE};
use crate::rig::{entries_of, node, peer, replicas};

/// No packets: they are another matter.
struct Nowhere;

impl ControlPort for Nowhere {
    fn send(&mut self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::NotConnected.into())
    }

    fn receive(&mut self, _: &mut [u8], _: Instant) -> io::Result<Option<usize>> {
        Err(io::ErrorKind::NotConnected.into())
    }
}

/// The relevant parts of the SDE compiler's description of a program: fields by their names, ports of 9 bits.
fn described(profile: &Profile) -> Vec<u8> {
    let info = p4info(&allreduce::program(profile).unwrap()).unwrap();
    let name =
        |preamble: &Option<netfold_p4_runtime::config::Preamble>| preamble.as_ref().unwrap().name.clone();
    let tables = info.tables.iter().zip(500..).map(|(table, id)| {
        let mut ranked = false;
        let mut keys: Vec<Value> = table
            .match_fields
            .iter()
            .map(|field| {
                let ternary = field.r#match == Some(Match::MatchType(MatchType::Ternary as i32));
                ranked |= ternary;
                let bits = if field.name == "port" { 9 } else { field.bitwidth };
                json!({"id": field.id, "name": field.name, "match_type": if ternary { "Ternary" } else { "Exact" },
                       "type": {"type": "bytes", "width": bits}})
            })
            .collect();
        if ranked {
            keys.push(json!({"id": 65537, "name": "$MATCH_PRIORITY", "match_type": "Exact", "type": {"type": "uint32"}}));
        }
        let actions: Vec<Value> = info
            .actions
            .iter()
            .filter(|action| table.action_refs.iter().any(|one| one.id == action.preamble.as_ref().unwrap().id))
            .zip(900..)
            .map(|(action, id)| {
                let data: Vec<Value> = action.params.iter().map(|param| {
                    json!({"id": param.id, "name": param.name, "type": {"type": "bytes", "width": param.bitwidth}})
                }).collect();
                json!({"id": id, "name": name(&action.preamble), "data": data})
            })
            .collect();
        json!({"name": format!("pipe.{}", name(&table.preamble)), "id": id, "key": keys, "action_specs": actions})
    });
    json!({"schema_version": "1.0.0", "tables": tables.collect::<Vec<_>>()}).to_string().into_bytes()
}

fn device() -> Vec<u8> {
    let data = |id: u32, name: &str, kind: &str| json!({"mandatory": false, "singleton": {"id": id, "name": name, "type": {"type": kind}}});
    let key = |name: &str, kind: &str| json!([{"id": 1, "name": name, "match_type": "Exact", "type": {"type": kind}}]);
    json!({"tables": [
        {"name": "$pre.mgid", "id": GROUP, "key": key("$MGID", "uint16"), "data": [
            data(2, "$MULTICAST_NODE_ID", "uint32"), data(3, "$MULTICAST_NODE_L1_XID_VALID", "bool"),
            data(4, "$MULTICAST_NODE_L1_XID", "uint16")]},
        {"name": "$pre.node", "id": NODE, "key": key("$MULTICAST_NODE_ID", "uint32"), "data": [
            data(5, "$MULTICAST_RID", "uint16"), data(6, "$MULTICAST_LAG_ID", "uint32"), data(7, "$DEV_PORT", "uint32")]},
    ]})
    .to_string()
    .into_bytes()
}

fn program() -> BfrtProgram {
    let profile = Profile::tofino();
    BfrtProgram {
        bfrt_info: described(&profile),
        profile,
        p4_name: "netfold".into(),
        context: b"{}".to_vec(),
        binary: vec![1, 2, 3],
        pipeline: "pipe".into(),
        pipes: vec![0, 1],
    }
}

fn start(fake: &Fake, program: BfrtProgram) -> Result<BfrtDriver, BfrtError> {
    let places =
        |peer: SocketAddrV4| Some(PeerPort { port: peer.port() - 30_000 + 128, mac: 0x0200_0000_0001 });
    let switch = Address { mac: 0x0200_0000_00fe, ip: 0x0a00_00fe, port: 20038 };
    let config = BfrtConfig::new("t1", fake.address());
    BfrtDriver::start(config, program, switch, 320, Box::new(places), Box::new(Nowhere))
}

fn admit(driver: &mut BfrtDriver) {
    for port in [0, 1] {
        driver.bind_port(port, peer(port)).unwrap();
    }
    driver.set_group(1, &replicas([0, 1])).unwrap();
    driver.insert(&entries()).unwrap();
}

fn stream(data: &TableData, field: usize) -> &[u8] {
    match &data.fields[field].value {
        Some(DataValue::Stream(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

/// The entries of a job, whose results go to all members on a Tofino.
fn entries() -> Vec<TableEntry> {
    entries_of(&Node { owners: false, ..node(1) }, [0, 1])
}

/// What the chips' compiler says of the printed programs, as far as the driver reads it. The test of the P4 package that runs the compiler
/// compares it with this.
#[test]
fn the_compilers_own_description_is_understood() {
    let description = include_bytes!("../../../../p4/tests/bfrt/tofino.json");
    let fake = Fake::start(device());
    let compiled = BfrtProgram { bfrt_info: description.to_vec(), ..program() };
    let mut driver = start(&fake, compiled).unwrap();
    admit(&mut driver);
    let json: Value = serde_json::from_slice(description).unwrap();
    let id = |name: &str| {
        let table = json["tables"].as_array().unwrap().iter().find(|table| table["name"] == name);
        table.unwrap()["id"].as_u64().unwrap() as u32
    };
    let tofino = fake.lock();
    assert_eq!(tofino.complaints, Vec::<String>::new());
    assert_eq!(tofino.tables[&id("pipe.IngressImpl.job")].len(), 2 + 11);
    assert_eq!(tofino.tables[&id("pipe.EgressImpl.child")].len(), 2);
}

/// The same of a program with owners and forwarding: a table of receivers in egress, and one of addresses.
#[test]
fn the_compilers_own_description_of_all_features_is_understood() {
    let description = include_bytes!("../../../../p4/tests/bfrt/features.json");
    let profile = Profile { owners: true, trim_depth: 16, transit: 1024, priorities: 4, ..Profile::tofino() };
    let fake = Fake::start(device());
    let compiled = BfrtProgram { bfrt_info: description.to_vec(), profile, ..program() };
    let mut driver = start(&fake, compiled).unwrap();
    for port in [0, 1] {
        driver.bind_port(port, peer(port)).unwrap();
    }
    driver.set_group(1, &replicas([0, 1])).unwrap();
    let node = node(1);
    let mut entries = allreduce::node_entries(&node);
    for rank in 0..2_u8 {
        let port = u16::from(rank);
        let behind = Behind { instance: port + 1, first: port, last: port };
        entries.extend(allreduce::job_entries(&node, &Child { port, source: 0, rank, behind: Some(behind) }));
    }
    entries.push(transit::entry(0x0a63_0001, 1));
    driver.insert(&entries).unwrap();
    let json: Value = serde_json::from_slice(description).unwrap();
    let table = |name: &str| {
        let table = json["tables"].as_array().unwrap().iter().find(|table| table["name"] == name);
        table.unwrap()["id"].as_u64().unwrap() as u32
    };
    let of_job = entries.iter().filter(|entry| entry.table == table_id(allreduce::id::JOB)).count();
    {
        let tofino = fake.lock();
        assert_eq!(tofino.complaints, Vec::<String>::new());
        let held = |name| tofino.tables[&table(name)].len();
        assert_eq!(held("pipe.IngressImpl.job"), 2 + of_job);
        assert_eq!(held("pipe.IngressImpl.transit"), 1);
        assert_eq!(held("pipe.EgressImpl.child"), 2);
        assert_eq!(held("pipe.EgressImpl.receiver"), 2);
    }
    driver.delete(&entries).unwrap();
    let tofino = fake.lock();
    let left = ["pipe.IngressImpl.transit", "pipe.EgressImpl.receiver"]
        .map(|name| tofino.tables[&table(name)].len());
    assert_eq!((left, &tofino.complaints), ([0, 0], &Vec::new()));
}

#[test]
fn a_tofino_receives_its_program_and_its_tables() {
    let fake = Fake::start(device());
    let mut driver = start(&fake, program()).unwrap();
    assert_eq!(fake.lock().pushes, 1);
    admit(&mut driver);
    {
        let tofino = fake.lock();
        assert_eq!(tofino.complaints, Vec::<String>::new());
        let jobs = &tofino.tables[&500];
        assert_eq!(jobs.len(), 2 + 11);
        // The more specific wins: the least number there.
        let ranks: Vec<u32> = jobs
            .keys()
            .map(|key| {
                let (_, value, _) = key.iter().find(|(id, ..)| *id == 65537).unwrap();
                u32::from_be_bytes(value.as_slice().try_into().unwrap())
            })
            .collect();
        assert_eq!(ranks.iter().min(), Some(&((1 << 24) - 1 - 70)));
        assert_eq!(ranks.iter().max(), Some(&((1 << 24) - 1 - 10)));
        // Worker 0 is at device port 128, under a mask of the port's 9 bits.
        let port = (1, vec![0, 128], vec![1, 255]);
        assert_eq!(jobs.keys().filter(|key| key.contains(&port)).count(), 5);
        let nodes = &tofino.tables[&NODE];
        let node = &nodes[&vec![(1, vec![0, 0, 0, 1], Vec::new())]];
        assert_eq!(stream(node, 0), [0, 1]);
        assert_eq!(
            node.fields[2].value,
            Some(DataValue::IntArrVal(netfold_p4_runtime::bfrt::IntArray { val: vec![128] }))
        );
        assert_eq!((nodes.len(), tofino.tables[&GROUP].len(), tofino.tables[&501].len()), (2, 1, 2));
    }
    // One member goes, then all.
    driver.set_group(1, &replicas([0, 1])[1..]).unwrap();
    let left = [NODE, 501].map(|table| fake.lock().tables[&table].len());
    assert_eq!(left, [1, 1]);
    driver.delete(&entries()).unwrap();
    driver.delete(&entries()).unwrap();
    driver.delete_group(1).unwrap();
    let tofino = fake.lock();
    let left: Vec<usize> = [500, 501, NODE, GROUP].iter().map(|table| tofino.tables[table].len()).collect();
    assert_eq!(left, [2, 0, 0, 0]);
    assert_eq!(tofino.complaints, Vec::<String>::new());
}

#[test]
fn a_tofino_that_runs_the_program_is_only_emptied() {
    let fake = Fake::start(device());
    admit(&mut start(&fake, program()).unwrap());
    // The stream of the first ends with it, which the fake may detect a moment later.
    let begun = Instant::now();
    while fake.lock().subscribed.is_some() {
        assert!(begun.elapsed() < crate::rig::TEST_TIMEOUT);
        std::thread::yield_now();
    }
    let _driver = start(&fake, program()).unwrap();
    let tofino = fake.lock();
    assert_eq!(tofino.pushes, 1);
    assert_eq!(tofino.complaints, Vec::<String>::new());
    let left: Vec<usize> = [500, 501, NODE, GROUP].iter().map(|table| tofino.tables[table].len()).collect();
    assert_eq!(left, [2, 0, 0, 0]);
}

#[test]
fn a_change_that_fails_anywhere_leaves_nothing() {
    let fake = Fake::start(device());
    let mut driver = start(&fake, program()).unwrap();
    for port in 0..4 {
        driver.bind_port(port, peer(port)).unwrap();
    }
    let all = entries();
    let before = fake.lock().tables.clone();
    let fail = |after: usize| fake.lock().fail_after = Some(after);
    let is_refused = |result: Result<(), DriverError>| matches!(result, Err(DriverError::Refused(_)));
    for after in 0..all.len() {
        fail(after);
        assert!(is_refused(driver.insert(&all)), "update {after}");
        assert_eq!(fake.lock().tables[&500], before[&500], "update {after}");
    }
    driver.insert(&all).unwrap();
    let held = fake.lock().tables.clone();
    for after in 0..all.len() {
        fail(after);
        assert!(is_refused(driver.delete(&all)), "update {after}");
        assert_eq!(fake.lock().tables, held, "update {after}");
    }
    // Two addresses, two nodes, and the group.
    for after in 0..5 {
        fail(after);
        assert!(is_refused(driver.set_group(1, &replicas([0, 1]))), "update {after}");
        let tofino = fake.lock();
        assert!([501, NODE, GROUP].iter().all(|table| tofino.tables.get(table).is_none_or(|t| t.is_empty())));
    }
    driver.set_group(1, &replicas([0, 1])).unwrap();
    let held = fake.lock().tables.clone();
    let other = [Replica { port: 1, instance: 2 }, Replica { port: 2, instance: 3 }];
    for after in 0..7 {
        fail(after);
        assert!(is_refused(driver.set_group(1, &other)), "update {after}");
        assert_eq!(fake.lock().tables, held, "update {after}");
    }
    fake.lock().fail_after = None;
    driver.set_group(1, &other).unwrap();
    // The node of the group is missing in what was refused; nothing else was wrong.
    assert!(
        fake.lock().complaints.iter().all(|what| what.starts_with("node ")),
        "{:?}",
        fake.lock().complaints
    );
}

#[test]
fn mismatched_clients_and_programs_are_reported() {
    let fake = Fake::start(device());
    let driver = start(&fake, program()).unwrap();
    match start(&fake, program()).map(drop) {
        Err(BfrtError::Refused { message, .. }) => assert!(message.contains("in use"), "{message}"),
        other => panic!("{other:?}"),
    }
    drop(driver);
    let fake = Fake::start(device());
    let wrong = BfrtProgram { bfrt_info: br#"{"tables": []}"#.to_vec(), ..program() };
    match start(&fake, wrong).map(drop) {
        Err(BfrtError::Info(what)) => assert!(what.contains("has no job"), "{what}"),
        other => panic!("{other:?}"),
    }
    let address = fake.address();
    drop(fake);
    let gone =
        BfrtConfig { call_within: std::time::Duration::from_secs(2), ..BfrtConfig::new("t1", address) };
    let places = |_: SocketAddrV4| None;
    let switch = Address { mac: 1, ip: 1, port: 1 };
    let started = BfrtDriver::start(gone, program(), switch, 320, Box::new(places), Box::new(Nowhere));
    assert!(matches!(started.map(drop), Err(BfrtError::Unreachable { .. })));
}
