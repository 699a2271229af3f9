//! Tables, counters, registers and groups: written, read back, refused.

use netfold_p4::allreduce::{self, Child, Node, job_entries, node_entries};
use netfold_p4::entry::TableEntry;
use netfold_p4::ir::Program;
use netfold_p4::p4info::{counter_id, register_cells};
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::{self, Atomicity, Data, EntityKind, FieldMatchType, Replication, UpdateType};
use netfold_p4_runtime::{bytestring, schema};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Reason, Repr, header};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::rig::{Device, codes, entry, fast, small, update};

const INSERT: UpdateType = UpdateType::Insert;
const MODIFY: UpdateType = UpdateType::Modify;
const DELETE: UpdateType = UpdateType::Delete;

fn node() -> Node {
    Node {
        job: 3,
        epoch: 1,
        key: 9,
        base: 0,
        slots: 4,
        children: 2,
        workers: 2,
        world: 2,
        group: 1,
        parent: None,
        shift: None,
        bounded_loss: true,
        owners: false,
    }
}

fn entries() -> Vec<TableEntry> {
    let child = |port: u16| Child { port, source: 0, rank: port as u8, behind: None };
    let mut entries = node_entries(&node());
    entries.extend((0..2).flat_map(|port| job_entries(&node(), &child(port))));
    entries
}

fn table(program: &Program, at: usize) -> v1::TableEntry {
    match entry(program, &entries()[at]) {
        EntityKind::TableEntry(entry) => entry,
        _ => unreachable!(),
    }
}

fn group(id: u32, ports: &[u16]) -> EntityKind {
    let replica = |port: &u16| netfold_p4::entry::Replica { port: *port, instance: port + 1 };
    let replicas = ports.iter().map(replica).map(|replica| schema::encode_replica(&replica)).collect();
    let group = v1::MulticastGroupEntry { multicast_group_id: id, replicas, metadata: vec![7] };
    EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(group)),
    })
}

fn all() -> EntityKind {
    EntityKind::TableEntry(v1::TableEntry::default())
}

fn register(id: u32, index: Option<i64>, value: Option<u64>) -> EntityKind {
    let data = value.map(|value| v1::P4Data { data: Some(Data::Bitstring(bytestring::encode(value))) });
    EntityKind::RegisterEntry(v1::RegisterEntry {
        register_id: id,
        index: index.map(|index| v1::Index { index }),
        data,
    })
}

fn counter(index: Option<i64>, packets: Option<i64>) -> EntityKind {
    let data = packets.map(|packet_count| v1::CounterData { byte_count: 0, packet_count });
    let index = index.map(|index| v1::Index { index });
    EntityKind::CounterEntry(v1::CounterEntry { counter_id: counter_id(allreduce::id::PACKETS), index, data })
}

#[test]
fn entries_carry_traffic_and_are_read_back_as_written() {
    let mut device = Device::start();
    let mut client = device.ready();
    let written: Vec<_> = entries().iter().map(|e| entry(&small(), e)).collect();
    let updates = written.iter().map(|entity| update(INSERT, entity.clone())).collect();
    client.write(updates).unwrap();
    client.write(vec![update(INSERT, group(1, &[0, 1]))]).unwrap();
    let mut found = client.read(vec![all()]).unwrap();
    assert_eq!(found.len(), written.len());
    for entity in &written {
        let EntityKind::TableEntry(one) = entity else { unreachable!() };
        let same = |found: &EntityKind| {
            let EntityKind::TableEntry(found) = found else { return false };
            let mut fields = one.r#match.clone();
            fields.sort_by_key(|field| field.field_id);
            found.r#match == fields && found.priority == one.priority && found.action == one.action
        };
        let at = found.iter().position(same).unwrap();
        found.remove(at);
        let mut key = one.clone();
        key.action = None;
        assert_eq!(client.read(vec![EntityKind::TableEntry(key)]).unwrap().len(), 1);
    }
    assert_eq!(client.read(vec![group(0, &[])]).unwrap(), [group(1, &[0, 1])]);
    // Two workers' packets are summed, and both receive the sum.
    let lanes = 16 * 4;
    for worker in 0..2 {
        let repr = Repr {
            kind: Kind::Data,
            flags: Flags::default(),
            op: LaneOp::Sum,
            class: 0,
            reason: Reason::None,
            job: 3,
            slot: 1,
            set: 0,
            epoch: 1,
            key: 9,
            chunk: 1,
            bitmap: 0,
            count: 1,
            exp: 0,
            exp_next: 0,
            owner: LaneOwner::All,
        };
        let mut bytes = vec![0; header::LEN + lanes];
        repr.emit(&mut header::Packet::new_unchecked(&mut bytes[..]));
        bytes[header::LEN..].chunks_exact_mut(4).for_each(|lane| lane[3] = 20 + worker as u8);
        let answer = device.exchange(worker, &bytes);
        if worker == 1 {
            let answer = answer.expect("a result");
            assert!(answer[header::LEN..].chunks_exact(4).all(|lane| lane == [0, 0, 0, 41]));
        }
    }
    // The lanes' registers hold the sum, and the counters show two accepted packets.
    let cell = register_cells(&small()).into_iter().find(|cell| cell.bits == 32 && cell.cell == 5).unwrap();
    let found = client.read(vec![register(cell.id, None, None)]).unwrap();
    assert_eq!(found.len(), cell.size as usize);
    assert_eq!(found.iter().filter(|found| matches!(found, EntityKind::RegisterEntry(r) if r.data == Some(v1::P4Data { data: Some(Data::Bitstring(vec![41])) }))).count(), 1);
    assert_eq!(client.read(vec![counter(Some(0), None)]).unwrap(), [counter(Some(0), Some(2))]);
}

#[test]
fn inserts_modifies_and_deletes_follow_the_specification() {
    let device = Device::start();
    let mut client = device.ready();
    let one = |at| EntityKind::TableEntry(table(&small(), at));
    assert_eq!(client.one(MODIFY, one(0)), Code::NotFound);
    assert_eq!(client.one(DELETE, one(0)), Code::NotFound);
    assert_eq!(client.one(INSERT, one(0)), Code::Ok);
    assert_eq!(client.one(INSERT, one(0)), Code::AlreadyExists);
    let mut changed = table(&small(), 0);
    changed.metadata = vec![1, 2];
    assert_eq!(client.one(MODIFY, EntityKind::TableEntry(changed.clone())), Code::Ok);
    assert_eq!(client.read(vec![all()]).unwrap(), [EntityKind::TableEntry(changed.clone())]);
    changed.action = None;
    assert_eq!(client.one(MODIFY, EntityKind::TableEntry(changed.clone())), Code::Ok);
    assert_eq!(client.one(INSERT, EntityKind::TableEntry(changed.clone())), Code::InvalidArgument);
    assert_eq!(client.one(DELETE, EntityKind::TableEntry(changed)), Code::Ok);
    assert_eq!(client.read(vec![all()]).unwrap(), []);
    assert_eq!(client.one(MODIFY, group(1, &[1])), Code::NotFound);
    assert_eq!(client.one(INSERT, group(1, &[1])), Code::Ok);
    assert_eq!(client.one(INSERT, group(1, &[1])), Code::AlreadyExists);
    assert_eq!(client.one(INSERT, group(2, &[1, 1])), Code::InvalidArgument);
    assert_eq!(client.one(INSERT, group(0, &[1])), Code::InvalidArgument);
    assert_eq!(client.one(INSERT, group(70_000, &[1])), Code::OutOfRange);
    assert_eq!(client.one(INSERT, group(2, &(0..65).collect::<Vec<_>>())), Code::ResourceExhausted);
    assert_eq!(client.one(MODIFY, group(1, &[2, 3])), Code::Ok);
    assert_eq!(client.read(vec![group(1, &[])]).unwrap(), [group(1, &[2, 3])]);
    assert_eq!(codes(&client.read(vec![group(9, &[])]).unwrap_err()), [Code::NotFound]);
    assert_eq!(client.one(DELETE, group(1, &[])), Code::Ok);
}

#[test]
fn invalid_bytestrings_are_refused_and_any_length_that_fits_is_accepted() {
    let device = Device::start();
    let mut client = device.ready();
    let good = table(&small(), 0);
    let mut with = |change: &dyn Fn(&mut v1::TableEntry)| {
        let mut entry = good.clone();
        change(&mut entry);
        client.one(INSERT, EntityKind::TableEntry(entry))
    };
    fn ternary(entry: &mut v1::TableEntry) -> &mut v1::Ternary {
        match entry.r#match[0].field_match_type.as_mut().unwrap() {
            FieldMatchType::Ternary(ternary) => ternary,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(with(&|e| ternary(e).value.clear()), Code::OutOfRange);
    assert_eq!(with(&|e| ternary(e).value = vec![1; 9]), Code::OutOfRange);
    assert_eq!(with(&|e| ternary(e).mask = vec![0]), Code::InvalidArgument);
    assert_eq!(with(&|e| ternary(e).mask = vec![1, 0, 0, 0, 0]), Code::OutOfRange);
    assert_eq!(with(&|e| e.priority = 0), Code::InvalidArgument);
    assert_eq!(with(&|e| e.priority = -1), Code::InvalidArgument);
    assert_eq!(with(&|e| e.table_id = 1), Code::NotFound);
    assert_eq!(with(&|e| e.is_const = true), Code::InvalidArgument);
    assert_eq!(with(&|e| e.idle_timeout_ns = 1), Code::Unimplemented);
    assert_eq!(with(&|e| e.metadata = vec![0; 1025]), Code::InvalidArgument);
    assert_eq!(with(&|e| e.counter_data = Some(v1::CounterData::default())), Code::InvalidArgument);
    assert_eq!(with(&|e| e.r#match.push(e.r#match[0].clone())), Code::InvalidArgument);
    let lpm = FieldMatchType::Lpm(v1::Lpm { value: vec![0], prefix_len: 1 });
    assert_eq!(with(&|e| e.r#match[0].field_match_type = Some(lpm.clone())), Code::InvalidArgument);
    let range = FieldMatchType::Range(v1::Range { low: vec![0], high: vec![1] });
    assert_eq!(with(&|e| e.r#match[0].field_match_type = Some(range.clone())), Code::InvalidArgument);
    // A longer form is accepted and read back in the shortest form.
    assert_eq!(with(&|e| ternary(e).value.insert(0, 0)), Code::Ok);
    assert_eq!(client.read(vec![all()]).unwrap(), [EntityKind::TableEntry(good)]);
}

#[test]
fn partial_failures_name_each_update_and_atomicity_is_respected() {
    let device = Device::start();
    let mut client = device.ready();
    let cell = register_cells(&small())[0].clone();
    let batch = vec![
        update(INSERT, EntityKind::TableEntry(table(&small(), 0))),
        update(MODIFY, register(cell.id, Some(1), Some(1))),
        update(MODIFY, counter(None, Some(5))),
        update(INSERT, group(1, &[1])),
        update(INSERT, EntityKind::TableEntry(table(&small(), 0))),
        update(INSERT, EntityKind::TableEntry(table(&small(), 1))),
    ];
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let mut request = client.request(batch.clone());
        request.atomicity = atomicity as i32;
        let status = client.send(request).unwrap_err();
        let mut expected = vec![Code::Aborted; 6];
        expected[4] = Code::AlreadyExists;
        assert_eq!(codes(&status), expected);
        assert_eq!(client.read(vec![all(), group(0, &[])]).unwrap(), []);
        assert_eq!(
            client.read(vec![register(cell.id, Some(1), None)]).unwrap(),
            [register(cell.id, Some(1), Some(0))]
        );
        assert_eq!(client.read(vec![counter(Some(1), None)]).unwrap(), [counter(Some(1), Some(0))]);
    }
    let status = client.write(batch).unwrap_err();
    let mut expected = vec![Code::Ok; 6];
    expected[4] = Code::AlreadyExists;
    assert_eq!(codes(&status), expected);
    assert_eq!(client.read(vec![all()]).unwrap().len(), 2);
    assert_eq!(client.read(vec![counter(Some(1), None)]).unwrap(), [counter(Some(1), Some(5))]);
    let mut request = client.request(Vec::new());
    request.atomicity = 9;
    assert_eq!(client.send(request).unwrap_err().code(), tonic::Code::InvalidArgument);
}

#[test]
fn registers_are_written_and_read_on_both_engines() {
    for program in [small(), fast()] {
        let device = Device::start();
        let mut client = device.ready();
        client.push(&program).unwrap();
        for cell in register_cells(&program).into_iter().step_by(37) {
            let all = u64::from(u32::MAX >> (32 - cell.bits));
            assert_eq!(client.one(MODIFY, register(cell.id, None, Some(all))), Code::Ok);
            assert_eq!(client.one(MODIFY, register(cell.id, Some(1), Some(1))), Code::Ok);
            assert_eq!(client.one(MODIFY, register(cell.id, Some(1), Some(all + 1))), Code::OutOfRange);
            assert_eq!(client.one(MODIFY, register(cell.id, Some(-1), Some(1))), Code::InvalidArgument);
            let beyond = i64::from(cell.size);
            assert_eq!(client.one(MODIFY, register(cell.id, Some(beyond), Some(1))), Code::OutOfRange);
            assert_eq!(client.one(INSERT, register(cell.id, Some(1), Some(1))), Code::InvalidArgument);
            assert_eq!(client.one(MODIFY, register(cell.id, Some(1), None)), Code::InvalidArgument);
            let found = client.read(vec![register(cell.id, None, None)]).unwrap();
            assert_eq!(found.len(), cell.size as usize);
            let expected = |at| register(cell.id, Some(at), Some(if at == 1 { 1 } else { all }));
            assert!((0..).zip(&found).all(|(at, found)| *found == expected(at)));
        }
        assert_eq!(client.one(MODIFY, register(1, None, Some(1))), Code::NotFound);
    }
}

#[test]
fn entities_that_no_program_has_are_empty_as_a_whole_and_unimplemented_singly() {
    let device = Device::start();
    let mut client = device.ready();
    let clone = |session_id| {
        let session = v1::CloneSessionEntry { session_id, ..Default::default() };
        EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
            r#type: Some(Replication::CloneSessionEntry(session)),
        })
    };
    let meter = |meter_id| EntityKind::MeterEntry(v1::MeterEntry { meter_id, ..Default::default() });
    let digest = |digest_id| EntityKind::DigestEntry(v1::DigestEntry { digest_id, config: None });
    let member = |action_profile_id| {
        EntityKind::ActionProfileMember(v1::ActionProfileMember { action_profile_id, ..Default::default() })
    };
    assert_eq!(client.read(vec![clone(0), meter(0), digest(0), member(0)]).unwrap(), []);
    for one in [clone(1), meter(1), digest(1), member(1)] {
        assert_eq!(codes(&client.read(vec![one.clone()]).unwrap_err()), [Code::Unimplemented]);
        assert_eq!(client.one(INSERT, one), Code::Unimplemented);
    }
    let job = table(&small(), 0).table_id;
    let entry = Some(v1::TableEntry { table_id: job, ..Default::default() });
    let direct = EntityKind::DirectCounterEntry(v1::DirectCounterEntry { table_entry: entry, data: None });
    assert_eq!(client.one(MODIFY, direct.clone()), Code::InvalidArgument);
    assert_eq!(codes(&client.read(vec![all(), direct]).unwrap_err()), [Code::Ok, Code::InvalidArgument]);
    // The default entry can be read, but not written.
    let mut pattern = v1::TableEntry { is_default_action: true, ..Default::default() };
    assert_eq!(client.read(vec![EntityKind::TableEntry(pattern.clone())]).unwrap().len(), 1);
    pattern.table_id = job;
    assert_eq!(client.one(MODIFY, EntityKind::TableEntry(pattern.clone())), Code::PermissionDenied);
    assert_eq!(client.one(INSERT, EntityKind::TableEntry(pattern)), Code::InvalidArgument);
}

/// Requests with random bytes changed: the server responds to each and continues.
#[test]
fn the_server_responds_to_mutated_requests() {
    use prost::Message;
    let device = Device::start();
    let mut client = device.ready();
    let mut batch: Vec<_> =
        (0..4).map(|at| update(INSERT, EntityKind::TableEntry(table(&small(), at)))).collect();
    batch.push(update(MODIFY, register(register_cells(&small())[0].id, None, Some(3))));
    batch.push(update(INSERT, group(1, &[0, 1])));
    let seed = 20_2611;
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let bytes = client.request(batch).encode_to_vec();
    for _ in 0..1500 {
        let mut bytes = bytes.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        if let Ok(request) = v1::WriteRequest::decode(bytes.as_slice()) {
            let _ = client.send(request);
        }
    }
    client.read(vec![all(), group(0, &[])]).unwrap();
}
