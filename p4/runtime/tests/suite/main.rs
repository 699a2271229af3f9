//! Messages against the rules of P4Runtime: bytes, entries to messages and back, invalid entries.

use netfold_p4::allreduce::{self, Address, Child, Node, id};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::p4info::{action_id, counter_id, table_id};
use netfold_p4::profile::Profile;
use netfold_p4_runtime::config::{Match, MatchType, P4Info};
use netfold_p4_runtime::google::{Any, Code, Status};
use netfold_p4_runtime::schema::{decode_replica, encode_replica};
use netfold_p4_runtime::v1::{self, EntityKind, FieldMatchType, TableActionType};
use netfold_p4_runtime::{Schema, SchemaError, p4info};
use proptest::prelude::*;
use prost::Message;

fn info() -> P4Info {
    p4info(&allreduce::program(&Profile::hardware()).expect("a valid profile")).expect("a P4Info")
}

fn schema() -> Schema {
    Schema::new(&info()).expect("a valid P4Info")
}

fn node() -> Node {
    Node {
        job: 7,
        epoch: 1000,
        key: 0xdead_beef,
        base: 64,
        slots: 64,
        children: 4,
        workers: 4,
        world: 4,
        group: 9,
        parent: None,
        shift: None,
        bounded_loss: true,
        owners: true,
    }
}

fn entries() -> Vec<TableEntry> {
    let mut entries =
        allreduce::job_entries(&node(), &Child { port: 3, source: 0x0a00_0003, rank: 2, behind: None });
    entries.extend(allreduce::node_entries(&node()));
    let to = Address { mac: 0x0200_0000_0001, ip: 0x0a00_0001, port: 4000 };
    let from = Address { mac: 0x0200_0000_0002, ip: 0x0a00_0002, port: 20038 };
    entries.push(allreduce::child_entry(5, to, from));
    entries
}

#[test]
fn p4info_describes_the_program() {
    let info = info();
    assert_eq!(info.pkg_info.as_ref().unwrap().arch, "v1model");
    let job = &info.tables[0];
    assert_eq!(job.preamble.as_ref().unwrap().id, table_id(id::JOB));
    assert_eq!(job.match_fields[0].r#match, Some(Match::MatchType(MatchType::Ternary as i32)));
    assert_eq!(job.match_fields[3].bitwidth, 32);
    assert_eq!(job.initial_default_action.as_ref().unwrap().action_id, action_id(id::DENY));
    assert!(!job.has_initial_entries);
    let admit =
        info.actions.iter().find(|a| a.preamble.as_ref().unwrap().id == action_id(id::ADMIT)).unwrap();
    assert_eq!(admit.params.iter().map(|p| p.bitwidth).collect::<Vec<_>>(), [32, 32, 32, 16, 16, 16, 16]);
    assert!(info.registers.len() > 60 && info.meters.is_empty());
    // No field was lost, independent of the order of fields.
    assert_eq!(
        info.encoded_len(),
        netfold_p4::p4info::binary(&allreduce::program(&Profile::hardware()).unwrap()).len()
    );
    let schema = schema();
    assert_eq!(schema.counter_size(counter_id(id::PACKETS)), Some(i64::from(Profile::reasons())));
    assert_eq!(schema.table_size(table_id(id::JOB)), Some(i64::from(Profile::hardware().job_table_size())));
    assert!(schema.name(table_id(id::JOB)).ends_with("job"));
}

#[test]
fn entries_survive_a_round_trip() {
    let schema = schema();
    for entry in entries() {
        let bytes = schema.encode(&entry).unwrap().encode_to_vec();
        let message = v1::TableEntry::decode(bytes.as_slice()).unwrap();
        assert_eq!(schema.decode(&message).unwrap(), entry);
        let key = schema.encode_key(&entry).unwrap();
        assert!(key.action.is_none());
        assert_eq!(schema.decode_key(&key).unwrap().matches, entry.matches);
    }
}

#[test]
fn bytes_are_those_of_the_published_field_numbers() {
    let schema = schema();
    let child = entries().pop().unwrap();
    let update = v1::Update {
        r#type: v1::UpdateType::Insert as i32,
        entity: Some(EntityKind::TableEntry(schema.encode(&child).unwrap()).into()),
    };
    let mut expected = vec![
        0x08, 1, // type INSERT
        0x12, 67, // entity
        0x12, 65, // its table entry
        0x08, 0x82, 0x80, 0x80, 0x10, // table 0x02000002
        0x12, 7, 0x08, 1, 0x12, 3, 0x0a, 1, 5, // match: field 1 exact 5
        0x1a, 49, 0x0a, 47, 0x08, 0x85, 0x80, 0x80, 0x08, // action 0x01000005
    ];
    let params: [(u8, &[u8]); 6] = [
        (1, &[2, 0, 0, 0, 0, 1]),
        (2, &[10, 0, 0, 1]),
        (3, &[0x0f, 0xa0]),
        (4, &[2, 0, 0, 0, 0, 2]),
        (5, &[10, 0, 0, 2]),
        (6, &[0x4e, 0x46]),
    ];
    let mut body = Vec::new();
    for (id, value) in params {
        body.extend([0x22, value.len() as u8 + 4, 0x10, id, 0x1a, value.len() as u8]);
        body.extend(value);
    }
    let action_len = body.len() as u8 + 5;
    let len = expected.len();
    expected[len - 8] = action_len + 2;
    expected[len - 6] = action_len;
    let entry_len = 5 + 9 + 2 + action_len + 2;
    expected[5] = entry_len;
    expected[3] = entry_len + 2;
    expected.extend(body);
    assert_eq!(update.encode_to_vec(), expected);
}

fn refused(change: impl FnOnce(&mut v1::TableEntry)) -> SchemaError {
    let schema = schema();
    let mut message = schema.encode(&entries()[0]).expect("a valid entry");
    change(&mut message);
    schema.decode(&message).expect_err("an invalid entry")
}

fn ternary(value: &[u8], mask: &[u8]) -> Option<FieldMatchType> {
    Some(FieldMatchType::Ternary(v1::Ternary { value: value.to_vec(), mask: mask.to_vec() }))
}

fn action(message: &mut v1::TableEntry) -> &mut v1::Action {
    match message.action.as_mut().and_then(|action| action.r#type.as_mut()) {
        Some(TableActionType::Action(action)) => action,
        _ => panic!("entries() names actions"),
    }
}

#[test]
fn invalid_keys_are_refused() {
    assert_eq!(refused(|m| m.table_id = 0x0200_0009).code(), Code::NotFound);
    assert_eq!(refused(|m| m.r#match[0].field_id = 99).code(), Code::NotFound);
    assert!(matches!(refused(|m| m.r#match.push(m.r#match[0].clone())), SchemaError::Repeated { .. }));
    assert_eq!(refused(|m| m.r#match[0].field_match_type = ternary(&[], &[1])).code(), Code::OutOfRange);
    assert_eq!(
        refused(|m| m.r#match[0].field_match_type = ternary(&[1, 0, 0], &[1])).code(),
        Code::OutOfRange
    );
    assert_eq!(
        refused(|m| m.r#match[0].field_match_type = ternary(&[2], &[1])).code(),
        Code::InvalidArgument
    );
    assert_eq!(
        refused(|m| m.r#match[0].field_match_type = ternary(&[0], &[0])).code(),
        Code::InvalidArgument
    );
    assert!(matches!(refused(|m| m.r#match[0].field_match_type = None), SchemaError::Mask { .. }));
    let exact = FieldMatchType::Exact(v1::Exact { value: vec![1] });
    assert!(matches!(refused(|m| m.r#match[0].field_match_type = Some(exact)), SchemaError::Mask { .. }));
    assert!(matches!(refused(|m| m.priority = 0), SchemaError::Priority { .. }));
    assert!(matches!(refused(|m| m.priority = -1), SchemaError::Priority { .. }));
    let schema = schema();
    let mut child = schema.encode(&entries().pop().unwrap()).unwrap();
    child.priority = 1;
    assert!(matches!(schema.decode(&child), Err(SchemaError::Priority { .. })));
    child.priority = 0;
    child.r#match.clear();
    assert!(matches!(schema.decode(&child), Err(SchemaError::Missing { .. })));
}

#[test]
fn invalid_actions_are_refused() {
    assert!(matches!(refused(|m| m.action = None), SchemaError::NoAction(_)));
    let rewrite = action_id(id::REWRITE);
    assert!(matches!(refused(|m| action(m).action_id = rewrite), SchemaError::Action { .. }));
    assert!(matches!(refused(|m| action(m).params.truncate(4)), SchemaError::Param { param: 5, .. }));
    assert!(matches!(refused(|m| action(m).params[1].param_id = 1), SchemaError::Param { param: 1, .. }));
    assert!(matches!(refused(|m| action(m).params[1].param_id = 0), SchemaError::Param { param: 0, .. }));
    assert!(matches!(refused(|m| action(m).params[1].param_id = u32::MAX), SchemaError::Param { .. }));
    assert_eq!(refused(|m| action(m).params[3].value = vec![1, 0, 0]).code(), Code::OutOfRange);
    assert_eq!(refused(|m| m.is_default_action = true).code(), Code::Unimplemented);
    assert_eq!(refused(|m| m.idle_timeout_ns = 5).code(), Code::Unimplemented);
}

#[test]
fn an_invalid_p4info_is_refused() {
    let broken = |change: fn(&mut P4Info)| {
        let mut info = info();
        change(&mut info);
        Schema::new(&info)
    };
    assert!(broken(|info| info.tables.push(info.tables[0].clone())).is_err());
    assert!(broken(|info| info.actions[0].preamble = None).is_err());
    assert!(broken(|info| info.actions[0].params[0].id = 7).is_err());
    assert!(broken(|info| info.tables[0].match_fields[0].bitwidth = -1).is_err());
}

#[test]
fn replicas_in_both_forms() {
    let replica = Replica { port: 300, instance: 12 };
    let message = encode_replica(&replica);
    assert_eq!(message.port_kind, Some(v1::PortKind::Port(vec![1, 44])));
    assert_eq!(decode_replica(&message), Ok(replica));
    let old = v1::Replica { port_kind: Some(v1::PortKind::EgressPort(300)), instance: 12 };
    assert_eq!(decode_replica(&old), Ok(replica));
    for port_kind in [None, Some(v1::PortKind::EgressPort(1 << 16)), Some(v1::PortKind::Port(vec![]))] {
        assert!(decode_replica(&v1::Replica { port_kind, instance: 1 }).is_err());
    }
    assert!(decode_replica(&v1::Replica { instance: 1 << 16, ..message }).is_err());
}

#[test]
fn errors_of_updates_are_packed_in_a_status() {
    let error = v1::Error { canonical_code: Code::AlreadyExists as i32, ..v1::Error::default() };
    let status =
        Status { code: Code::Unknown as i32, message: "1 of 2".into(), details: vec![Any::pack(&error)] };
    let back = Status::decode(status.encode_to_vec().as_slice()).unwrap();
    assert_eq!(back.details[0].unpack::<v1::Error>(), Some(Ok(error)));
    assert!(back.details[0].unpack::<v1::Entity>().is_none());
}

#[test]
fn election_ids_have_128_bits() {
    let wide = 0x0123_4567_89ab_cdef_0011_2233_4455_6677u128;
    assert_eq!(u128::from(v1::Uint128::from(wide)), wide);
    assert_eq!(v1::Uint128::from(1u128), v1::Uint128 { high: 0, low: 1 });
}

proptest! {
    /// Random bytes decode to a message or an error, and a message to an entry or an error.
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = v1::WriteRequest::decode(bytes.as_slice());
        let _ = v1::StreamMessageRequest::decode(bytes.as_slice());
        if let Ok(info) = P4Info::decode(bytes.as_slice()) {
            let _ = Schema::new(&info);
        }
        if let Ok(mut entry) = v1::TableEntry::decode(bytes.as_slice()) {
            entry.table_id = table_id(id::JOB);
            let _ = schema().decode(&entry);
        }
    }

    /// Encoding a decoded entry and decoding it again returns the same entry.
    #[test]
    fn decoded_entries_survive_a_round_trip(
        values in proptest::collection::vec((1u32..=7, any::<u64>(), any::<u64>(), 0usize..3), 0..7),
        priority in 1i32..,
    ) {
        let schema = schema();
        let pad = |value: u64, zeros: usize| {
            let mut bytes = vec![0; zeros];
            bytes.extend(netfold_p4_runtime::bytestring::encode(value));
            bytes
        };
        let mut message = schema.encode(&entries()[0]).unwrap();
        message.priority = priority;
        message.r#match = values.iter().map(|(field_id, value, mask, zeros)| {
            let bits = if *field_id == 2 { 4 } else { 15 };
            let mask = mask & ((1 << bits) - 1);
            v1::FieldMatch { field_id: *field_id, field_match_type: ternary(&pad(value & mask, *zeros), &pad(mask, *zeros)) }
        }).collect();
        if let Ok(entry) = schema.decode(&message) {
            let again = schema.encode(&entry).unwrap();
            prop_assert_eq!(schema.decode(&again).unwrap(), entry);
        }
    }
}
