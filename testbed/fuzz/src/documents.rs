//! What is read from files, databases and other controllers: topologies, programs, stored records, P4Runtime's entries, STF scripts.

use std::str;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use netfold_controller::admission::{Config, Coordinator, Output};
use netfold_controller::fleet::{Fleet, OneSwitch, SwitchInfo};
use netfold_controller::record::{
    Change, JobRecord, LinkName, MembershipRecord, PlaceRecord, StoredRecords, SwitchRecord, TenantRecord,
};
use netfold_controller::topology::Topology;
use netfold_p4::allreduce;
use netfold_p4::interpret::Interpreter;
use netfold_p4::ir::Program;
use netfold_p4::profile::Profile;
use netfold_p4::stf::Script;
use netfold_p4_runtime::config::P4Info;
use netfold_p4_runtime::{Schema, bytestring, schema, v1};
use prost::Message;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::control::limits;
use crate::input::Input;

/// Bytes of registers of a program that is run.
const STATE_BYTES_MAX: u64 = 1 << 20;
/// Lengths in bytes of the packets that a program is run with.
const PACKETS: [usize; 3] = [0, 70, 326];
/// Bytes that replace others in the JSON of a program.
const REPLACEMENTS: &[u8; 18] = b"0123456789,:[]{}\"-";

/// The first byte chooses the kind of document: `0` a topology file, `1` a program, `2` stored records, `3` messages of P4Runtime, `4` an STF
/// script, and every other byte as well: as far as it is above `0`, modulo 5.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind.wrapping_sub(b'0') % 5 {
        0 => topology(rest),
        1 => program(rest),
        2 => records(rest),
        3 => entry(rest),
        _ => script(rest),
    }
}

/// A topology that is accepted is whole: all that it names exists.
fn topology(text: &[u8]) {
    let Ok(text) = str::from_utf8(text) else { return };
    let topology = match Topology::from_toml(text) {
        Ok(topology) => topology,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(!topology.switches().is_empty());
    for id in topology.switch_ids() {
        assert_eq!(topology.switch_named(&topology.switch(id).name), Some(id));
        for (link, neighbour) in topology.neighbours(id) {
            assert!(topology.link(*link).seen_from(id).is_some());
            assert!(topology.links_between(id, *neighbour).any(|between| between == *link));
        }
    }
    let links: usize = topology.switch_ids().map(|id| topology.neighbours(id).len()).sum();
    assert_eq!(links, 2 * topology.links().len());
}

/// The JSON of a small program, which is too long to be an input, and where its digits are.
fn base() -> &'static (String, Vec<usize>) {
    static BASE: OnceLock<(String, Vec<usize>)> = OnceLock::new();
    BASE.get_or_init(|| {
        let profile = Profile { slots: 4, jobs: 1, lane_words: 8, ..Profile::hardware() };
        let text = allreduce::program(&profile).expect("a right profile").to_json();
        let digits = text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
        (text, digits)
    })
}

/// The data as a program, or as changes of one: it is refused, or written as it was read, and runs.
fn program(data: &[u8]) {
    if data.first() == Some(&b'{') {
        return run_program(data);
    }
    let (text, digits) = base();
    let mut bytes = text.clone().into_bytes();
    let mut input = Input::new(data);
    for _ in 0..8 {
        if input.is_empty() {
            break;
        }
        let (at, value) = (input.word() as usize, input.byte());
        if value % 4 == 0 {
            bytes[at % text.len()] = REPLACEMENTS[usize::from(value / 4) % REPLACEMENTS.len()];
        } else {
            bytes[digits[at % digits.len()]] = b'0' + value % 10;
        }
    }
    run_program(&bytes);
}

fn run_program(text: &[u8]) {
    let program = match Program::from_json(text) {
        Ok(program) => program,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let again = Program::from_json(program.to_json().as_bytes()).expect("what was written is read");
    assert_eq!(again, program);
    let Ok(mut interpreter) = Interpreter::with_limit(Arc::new(program), STATE_BYTES_MAX) else { return };
    for len in PACKETS {
        let outcome = interpreter.process(1, &vec![1; len]);
        interpreter.egress(1, 1, &outcome.bytes);
    }
}

/// Reads a row of a database, which is written as it was read.
fn row<R: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(text: &[u8]) -> Option<R> {
    let record: R = serde_json::from_slice(text).ok()?;
    let written = serde_json::to_vec(&record).expect("records are plain values");
    assert_eq!(serde_json::from_slice::<R>(&written).ok().as_ref(), Some(&record));
    Some(record)
}

/// Lines as rows of a controller's database: a controller starts with them, whatever they say, and shuts down.
fn records(data: &[u8]) {
    let mut records = StoredRecords::default();
    for line in data.split(|byte| *byte == b'\n') {
        let change = row::<PlaceRecord>(line).map(|record| Change::Place(Box::new(record)));
        let change = change.or_else(|| row::<JobRecord>(line).map(Change::Job));
        let membership = || row::<MembershipRecord>(line).map(|record| Change::Membership(Box::new(record)));
        let change = change.or_else(membership);
        let change = change.or_else(|| row::<TenantRecord>(line).map(Change::Tenant));
        let change = change.or_else(|| row::<SwitchRecord>(line).map(Change::Switch));
        let change = change.or_else(|| row::<LinkName>(line).map(Change::LinkDrained));
        if let Some(change) = change {
            records.apply(change);
        }
    }
    let config = Config { sessions_max: 8, jobs_max: 4, ..Config::controller(1000, 1_700_000_000) };
    let switch = SwitchInfo::own(limits(true, true), netfold_control::Numerics::Word);
    let keys = StdRng::seed_from_u64(1);
    let fleet = Fleet::new(vec![switch], Box::new(OneSwitch), config.epoch_floor, keys);
    let mut coordinator = Coordinator::new(config, fleet, records);
    coordinator.holdings();
    while let Some(output) = coordinator.poll_output() {
        assert!(!matches!(output, Output::Send { .. } | Output::Close { .. }), "there are no sessions");
    }
    coordinator.handle_timeout(Duration::from_secs(3600));
    coordinator.shutdown();
    while coordinator.poll_output().is_some() {}
}

/// An STF script that is accepted is written so that it is read again as the same statements.
fn script(text: &[u8]) {
    let Ok(text) = str::from_utf8(text) else { return };
    let script = match Script::parse(text) {
        Ok(script) => script,
        Err(error) => {
            assert!((1..=text.lines().count()).contains(&error.line) && !error.problem.is_empty());
            return;
        }
    };
    let written = script.to_string();
    let again = Script::parse(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again.to_string(), written);
    let statements = |script: Script| script.statements.into_iter().map(|(_, one)| one).collect::<Vec<_>>();
    assert_eq!(statements(again), statements(script), "{written}");
}

/// Messages of P4Runtime: what is read is written and read again.
fn entry(data: &[u8]) {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    let schema_of_hardware = SCHEMA.get_or_init(|| {
        let program = allreduce::program(&Profile::hardware()).expect("a right profile");
        let info = netfold_p4_runtime::p4info(&program).expect("what was written is read");
        Schema::new(&info).expect("a right P4Info")
    });
    if let Ok(message) = v1::TableEntry::decode(data) {
        for decoded in [schema_of_hardware.decode(&message), schema_of_hardware.decode_key(&message)] {
            match decoded {
                Ok(entry) => {
                    if let Ok(written) = schema_of_hardware.encode(&entry) {
                        assert_eq!(schema_of_hardware.decode(&written).as_ref(), Ok(&entry));
                    }
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
    if let Ok(replica) = v1::Replica::decode(data)
        && let Ok(replica) = schema::decode_replica(&replica)
    {
        assert_eq!(schema::decode_replica(&schema::encode_replica(&replica)), Ok(replica));
    }
    if let Ok(info) = P4Info::decode(data)
        && let Err(error) = Schema::new(&info)
    {
        assert!(!error.to_string().is_empty());
    }
    for bits in [1, 7, 32, 64] {
        if let Ok(value) = bytestring::decode(data, bits) {
            assert_eq!(bytestring::decode(&bytestring::encode(value), bits), Ok(value));
        }
    }
}
