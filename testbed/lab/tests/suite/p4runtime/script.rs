//! The requests to both servers. The outcome of every step is text that does not depend on a server's wording.

use std::time::Duration;

use netfold_p4::allreduce::{self, controller_entry};
use netfold_p4::p4info::{counter_id, table_id};
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::{
    self, Atomicity, EntityKind, FieldMatchType, PipelineAction, PortKind, Replication, ResponseType,
    StreamRequest, StreamResponse, TableActionType, Ternary, UpdateType,
};
use netfold_p4_runtime::{p4info, v1::Update};
use netfold_wire::Kind;
use tonic::Status;

use super::rig::{Client, advance, answer, codes, entry, small, update};

const INSERT: UpdateType = UpdateType::Insert;
const MODIFY: UpdateType = UpdateType::Modify;
const DELETE: UpdateType = UpdateType::Delete;

/// What does not come within this time does not come.
const QUIET: Duration = Duration::from_millis(1500);

/// A server.
pub(crate) struct Target<'a> {
    pub(crate) connect: &'a dyn Fn() -> Client,
    pub(crate) config: Vec<u8>,
}

/// The steps' names and responses.
pub(crate) type Responses = Vec<(String, String)>;

pub(crate) fn run(target: &Target<'_>) -> Responses {
    let mut responses = Responses::new();
    let mut client = (target.connect)();
    before_a_pipeline(&mut client, &mut responses);
    let mut backup = (target.connect)();
    arbitration(target, &mut client, &mut backup, &mut responses);
    pipeline(target, &mut client, &mut backup, &mut responses);
    entries(&mut client, &mut responses);
    wrong_entries(&mut client, &mut responses);
    defaults(&mut client, &mut responses);
    batches(&mut client, &mut responses);
    groups(&mut client, &mut responses);
    cells(&mut client, &mut responses);
    packets(&mut client, &mut backup, &mut responses);
    again(target, &mut client, &mut responses);
    departure(client, &mut backup, &mut responses);
    wrong_pushes(target, &mut backup, &mut responses);
    responses
}

/// A call's outcome: its code, and those of its updates where there are any.
fn outcome<T>(done: Result<T, Status>) -> String {
    match done {
        Ok(_) => "OK".into(),
        Err(status) if status.code() == tonic::Code::Unknown && !status.details().is_empty() => {
            let codes: Vec<_> = codes(&status).into_iter().map(|code| code.as_str_name()).collect();
            format!("[{}]", codes.join(" "))
        }
        Err(status) => Code::try_from(status.code() as i32).unwrap().as_str_name().into(),
    }
}

/// What a Read found, in an order of our own, or its code.
fn found(read: Result<Vec<EntityKind>, Status>) -> String {
    match read {
        Ok(entities) => {
            let mut texts: Vec<String> = entities.iter().map(|entity| format!("{entity:?}")).collect();
            texts.sort();
            format!("{} entities {}", texts.len(), texts.join(" "))
        }
        Err(status) => outcome::<()>(Err(status)),
    }
}

/// A message of the stream.
fn received(message: Option<Result<StreamResponse, Status>>) -> String {
    match message {
        None => "silence".into(),
        Some(Err(status)) => format!("the end, {}", outcome::<()>(Err(status))),
        Some(Ok(StreamResponse::Arbitration(update))) => {
            let code = Code::try_from(update.status.map_or(0, |status| status.code)).unwrap();
            format!("{} {:?}", code.as_str_name(), update.election_id.map(u128::from))
        }
        Some(Ok(StreamResponse::Packet(packet))) => {
            format!("packet {:?} {:?}", answer(&packet.payload), packet.metadata)
        }
        Some(Ok(StreamResponse::Error(error))) => {
            format!("error {}", Code::try_from(error.canonical_code).unwrap().as_str_name())
        }
        Some(Ok(other)) => format!("{other:?}"),
    }
}

fn write(client: &mut Client, kind: UpdateType, entity: EntityKind) -> String {
    outcome(client.write(vec![update(kind, entity)]))
}

macro_rules! step {
    ($responses:expr, $name:expr, $response:expr) => {{
        let response: String = $response;
        $responses.push((String::from($name), response));
    }};
}

fn any_entry(table_id: u32) -> EntityKind {
    EntityKind::TableEntry(v1::TableEntry { table_id, ..v1::TableEntry::default() })
}

fn admit(port: u16) -> v1::TableEntry {
    match entry(&small(), &controller_entry(port, Kind::Advance)) {
        EntityKind::TableEntry(entry) => entry,
        _ => unreachable!(),
    }
}

fn before_a_pipeline(client: &mut Client, responses: &mut Responses) {
    let version: Result<v1::CapabilitiesResponse, _> =
        client.unary("/p4.v1.P4Runtime/Capabilities", v1::CapabilitiesRequest {});
    step!(responses, "capabilities", version.unwrap().p4runtime_api_version);
    step!(responses, "another service", {
        let done: Result<v1::CapabilitiesResponse, _> =
            client.unary("/some.other.Service/Call", v1::CapabilitiesRequest {});
        outcome(done)
    });
    step!(responses, "write without a stream", write(client, INSERT, EntityKind::TableEntry(admit(1))));
    step!(responses, "read without a pipeline", found(client.read(vec![any_entry(0)])));
}

fn arbitration(target: &Target<'_>, client: &mut Client, backup: &mut Client, responses: &mut Responses) {
    client.offer(10);
    step!(responses, "first bid", received(client.receive_within(QUIET)));
    backup.offer(5);
    step!(responses, "lower bid", received(backup.receive_within(QUIET)));
    step!(responses, "the primary is not notified of a lower bid", received(client.receive_within(QUIET)));
    let mut third = (target.connect)();
    third.offer(10);
    step!(responses, "an id that is taken", received(third.receive_within(QUIET)));
    let mut third = (target.connect)();
    third.send_message(StreamRequest::Arbitration(v1::MasterArbitrationUpdate {
        device_id: 7,
        election_id: Some(1.into()),
        ..Default::default()
    }));
    step!(responses, "a bid for another device", received(third.receive_within(QUIET)));
    client.offer(10);
    step!(responses, "the same bid again", received(client.receive_within(QUIET)));
    step!(responses, "write without a pipeline", write(client, INSERT, EntityKind::TableEntry(admit(1))));
    step!(responses, "write of a backup", write(backup, INSERT, EntityKind::TableEntry(admit(1))));
    let mut request = client.request(Vec::new());
    request.device_id = 7;
    step!(responses, "write to another device", outcome(client.send(request)));
    let mut request = client.request(Vec::new());
    request.election_id = None;
    step!(responses, "write without an id", outcome(client.send(request)));
}

fn pipeline(target: &Target<'_>, client: &mut Client, backup: &mut Client, responses: &mut Responses) {
    let config = || v1::ForwardingPipelineConfig {
        p4info: Some(p4info(&small()).unwrap()),
        p4_device_config: target.config.clone(),
        cookie: Some(v1::Cookie { cookie: 77 }),
    };
    step!(
        responses,
        "push by a backup",
        outcome(backup.set(PipelineAction::VerifyAndCommit, Some(config())))
    );
    step!(responses, "verify", outcome(client.set(PipelineAction::Verify, Some(config()))));
    step!(responses, "push", outcome(client.set(PipelineAction::VerifyAndCommit, Some(config()))));
    for kind in [
        ResponseType::All,
        ResponseType::CookieOnly,
        ResponseType::P4infoAndCookie,
        ResponseType::DeviceConfigAndCookie,
    ] {
        let got = client.get(kind);
        let text = got.map(|got| {
            let same = got.p4info.as_ref().map(|info| *info == p4info(&small()).unwrap());
            let device = got.p4_device_config == target.config;
            let none = got.p4_device_config.is_empty();
            format!("p4info {same:?}, config {device}, none {none}, {:?}", got.cookie)
        });
        step!(responses, format!("get {kind:?}"), format!("{text:?}"));
    }
}

/// Last, since bmv2 takes a push without a config for a new pipeline, and takes no other after a broken one.
fn wrong_pushes(target: &Target<'_>, client: &mut Client, responses: &mut Responses) {
    let config = || v1::ForwardingPipelineConfig {
        p4info: Some(p4info(&small()).unwrap()),
        p4_device_config: target.config.clone(),
        cookie: Some(v1::Cookie { cookie: 77 }),
    };
    step!(
        responses,
        "push without an action",
        outcome(client.set(PipelineAction::Unspecified, Some(config())))
    );
    step!(responses, "push without a config", outcome(client.set(PipelineAction::VerifyAndCommit, None)));
    step!(responses, "commit of nothing", outcome(client.set(PipelineAction::Commit, None)));
    let broken = v1::ForwardingPipelineConfig { p4_device_config: b"{".to_vec(), ..config() };
    step!(
        responses,
        "push of a broken config",
        outcome(client.set(PipelineAction::VerifyAndCommit, Some(broken)))
    );
}

fn entries(client: &mut Client, responses: &mut Responses) {
    let one = || EntityKind::TableEntry(admit(1));
    step!(responses, "insert", write(client, INSERT, one()));
    step!(responses, "insert again", write(client, INSERT, one()));
    step!(responses, "insert with another priority", {
        write(client, INSERT, EntityKind::TableEntry(v1::TableEntry { priority: 71, ..admit(1) }))
    });
    step!(responses, "insert with metadata", {
        write(client, INSERT, EntityKind::TableEntry(v1::TableEntry { metadata: vec![1, 2], ..admit(2) }))
    });
    step!(responses, "read all", found(client.read(vec![any_entry(0)])));
    step!(responses, "read the table", found(client.read(vec![any_entry(table_id(1))])));
    let key = || v1::TableEntry { action: None, ..admit(1) };
    step!(responses, "read one", found(client.read(vec![EntityKind::TableEntry(key())])));
    step!(responses, "read none", {
        found(client.read(vec![EntityKind::TableEntry(v1::TableEntry { priority: 5, ..key() })]))
    });
    step!(responses, "read of a table that is not there", found(client.read(vec![any_entry(0x0200_0077)])));
    step!(responses, "read with a priority", {
        let pattern = v1::TableEntry { table_id: table_id(1), priority: 71, ..v1::TableEntry::default() };
        found(client.read(vec![EntityKind::TableEntry(pattern)]))
    });
    step!(responses, "modify", write(client, MODIFY, one()));
    step!(responses, "modify what is not there", write(client, MODIFY, EntityKind::TableEntry(admit(9))));
    step!(responses, "modify without an action", write(client, MODIFY, EntityKind::TableEntry(key())));
    step!(responses, "delete by the key", write(client, DELETE, EntityKind::TableEntry(key())));
    step!(responses, "delete again", write(client, DELETE, EntityKind::TableEntry(key())));
    step!(responses, "read what is left", found(client.read(vec![any_entry(0)])));
    step!(responses, "empty pattern", {
        let request =
            v1::ReadRequest { device_id: 1, entities: vec![v1::Entity::default()], ..Default::default() };
        outcome(client.unary::<_, v1::ReadResponse>("/p4.v1.P4Runtime/Read", request))
    });
}

/// An entry whose first field and action have been changed.
fn changed(change: impl FnOnce(&mut v1::TableEntry)) -> EntityKind {
    let mut entry = admit(3);
    change(&mut entry);
    EntityKind::TableEntry(entry)
}

fn ternary(value: &[u8], mask: &[u8]) -> Option<FieldMatchType> {
    Some(FieldMatchType::Ternary(Ternary { value: value.to_vec(), mask: mask.to_vec() }))
}

fn wrong_entries(client: &mut Client, responses: &mut Responses) {
    type Change = fn(&mut v1::TableEntry);
    let changes: [(&str, Change); 19] = [
        ("long bytes that fit", |e| {
            e.r#match[0].field_match_type = ternary(&[0, 0, 0, 3], &[0, 0, 0xff, 0xff])
        }),
        ("a value too large", |e| e.r#match[0].field_match_type = ternary(&[1, 0, 0], &[0xff, 0xff])),
        ("no bytes", |e| e.r#match[0].field_match_type = ternary(&[], &[0xff, 0xff])),
        ("bits outside the mask", |e| e.r#match[0].field_match_type = ternary(&[3], &[0xf0])),
        ("a mask of zero", |e| e.r#match[0].field_match_type = ternary(&[0], &[0])),
        ("a field twice", |e| e.r#match.push(e.r#match[0].clone())),
        ("a field that is not there", |e| e.r#match[0].field_id = 77),
        ("a field of another kind", |e| {
            e.r#match[0].field_match_type = Some(FieldMatchType::Exact(v1::Exact { value: vec![3] }));
        }),
        ("a field without a match", |e| e.r#match[0].field_match_type = None),
        ("no priority", |e| e.priority = 0),
        ("a priority below 0", |e| e.priority = -1),
        ("no action", |e| e.action = None),
        ("an action that is not there", |e| action(e).action_id = 0x0100_0077),
        ("an argument too large", |e| action(e).params[0].value = vec![1, 0, 0, 0, 0]),
        ("no argument", |e| action(e).params.clear()),
        ("an argument twice", |e| {
            let param = action(e).params[0].clone();
            action(e).params.push(param);
        }),
        ("another argument", |e| action(e).params[0].param_id = 9),
        ("another table", |e| e.table_id = 0x0200_0077),
        ("a member of a profile", |e| {
            e.action = Some(v1::TableAction { r#type: Some(TableActionType::ActionProfileMemberId(1)) });
        }),
    ];
    for (name, change) in changes {
        step!(responses, format!("insert with {name}"), write(client, INSERT, changed(change)));
    }
    step!(responses, "what the wrong entries left", found(client.read(vec![any_entry(0)])));
    step!(responses, "delete the long one", write(client, DELETE, changed(|_| {})));
    step!(responses, "an update without an entity", {
        outcome(client.write(vec![Update { r#type: INSERT as i32, entity: None }]))
    });
    step!(responses, "an update without a type", {
        outcome(
            client.write(vec![Update { r#type: 0, entity: Some(EntityKind::TableEntry(admit(3)).into()) }]),
        )
    });
}

fn action(entry: &mut v1::TableEntry) -> &mut v1::Action {
    match entry.action.as_mut().and_then(|action| action.r#type.as_mut()) {
        Some(TableActionType::Action(action)) => action,
        _ => unreachable!(),
    }
}

fn defaults(client: &mut Client, responses: &mut Responses) {
    let default =
        || v1::TableEntry { table_id: table_id(1), is_default_action: true, ..v1::TableEntry::default() };
    step!(responses, "read the default entry", found(client.read(vec![EntityKind::TableEntry(default())])));
    step!(responses, "insert a default entry", {
        write(client, INSERT, EntityKind::TableEntry(v1::TableEntry { action: admit(1).action, ..default() }))
    });
    step!(responses, "modify a constant default entry", {
        write(client, MODIFY, EntityKind::TableEntry(v1::TableEntry { action: admit(1).action, ..default() }))
    });
    step!(responses, "delete a default entry", write(client, DELETE, EntityKind::TableEntry(default())));
}

fn batches(client: &mut Client, responses: &mut Responses) {
    let put = |kind, port| update(kind, EntityKind::TableEntry(admit(port)));
    step!(responses, "batch with failures", {
        outcome(client.write(vec![put(INSERT, 20), put(INSERT, 20), put(DELETE, 21), put(INSERT, 22)]))
    });
    step!(responses, "an empty batch", outcome(client.write(Vec::new())));
    step!(responses, "what the batch left", found(client.read(vec![any_entry(0)])));
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let mut request = client.request(vec![put(INSERT, 30), put(DELETE, 31)]);
        request.atomicity = atomicity as i32;
        step!(responses, format!("batch, {atomicity:?}"), outcome(client.send(request)));
    }
    step!(responses, "the table is full", {
        let many = (40..60).map(|port| put(INSERT, port)).collect();
        outcome(client.write(many))
    });
    step!(responses, "delete all", {
        let all = client.read(vec![any_entry(0)]).unwrap();
        outcome(client.write(all.into_iter().map(|entity| update(DELETE, entity)).collect()))
    });
}

fn group(id: u32, replicas: &[(u32, u32)]) -> EntityKind {
    let replica = |&(port, instance): &(u32, u32)| v1::Replica {
        port_kind: Some(PortKind::EgressPort(port)),
        instance,
    };
    replication(Replication::MulticastGroupEntry(v1::MulticastGroupEntry {
        multicast_group_id: id,
        replicas: replicas.iter().map(replica).collect(),
        ..Default::default()
    }))
}

fn replication(kind: Replication) -> EntityKind {
    EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(kind) })
}

fn groups(client: &mut Client, responses: &mut Responses) {
    step!(responses, "insert a group", write(client, INSERT, group(5, &[(1, 1), (2, 1)])));
    step!(responses, "insert a group again", write(client, INSERT, group(5, &[(1, 1)])));
    step!(responses, "read groups", found(client.read(vec![group(0, &[])])));
    step!(responses, "modify a group", write(client, MODIFY, group(5, &[(2, 1), (3, 2)])));
    step!(responses, "read one group", found(client.read(vec![group(5, &[])])));
    step!(responses, "read no group", found(client.read(vec![group(6, &[])])));
    step!(responses, "modify no group", write(client, MODIFY, group(6, &[(1, 1)])));
    step!(responses, "insert group 0", write(client, INSERT, group(0, &[(1, 1)])));
    step!(responses, "a replica twice", write(client, INSERT, group(7, &[(1, 1), (1, 1)])));
    step!(responses, "port 0 by its number", write(client, INSERT, group(8, &[(0, 1)])));
    step!(responses, "port by its bytes", {
        let replica = v1::Replica { port_kind: Some(PortKind::Port(vec![0, 4])), instance: 1 };
        write(
            client,
            INSERT,
            replication(Replication::MulticastGroupEntry(v1::MulticastGroupEntry {
                multicast_group_id: 9,
                replicas: vec![replica],
                ..Default::default()
            })),
        )
    });
    step!(responses, "read it back", found(client.read(vec![group(9, &[])])));
    step!(responses, "a group's metadata", {
        let entry =
            v1::MulticastGroupEntry { multicast_group_id: 10, metadata: vec![1], ..Default::default() };
        let done = write(client, INSERT, replication(Replication::MulticastGroupEntry(entry)));
        format!("{done}, {}", found(client.read(vec![group(10, &[])])))
    });
    for id in [5, 7, 8, 9, 10, 5] {
        step!(responses, format!("delete group {id}"), write(client, DELETE, group(id, &[])));
    }
    let session = |id| {
        replication(Replication::CloneSessionEntry(v1::CloneSessionEntry {
            session_id: id,
            ..Default::default()
        }))
    };
    step!(responses, "insert a clone session", write(client, INSERT, session(1)));
    step!(responses, "read clone sessions", found(client.read(vec![session(0)])));
}

fn counter(id: u32, index: Option<i64>, packets: Option<i64>) -> EntityKind {
    let data = packets.map(|packet_count| v1::CounterData { byte_count: 0, packet_count });
    EntityKind::CounterEntry(v1::CounterEntry {
        counter_id: id,
        index: index.map(|index| v1::Index { index }),
        data,
    })
}

fn cells(client: &mut Client, responses: &mut Responses) {
    let id = counter_id(allreduce::id::ANSWERS);
    step!(responses, "write a cell", write(client, MODIFY, counter(id, Some(1), Some(9))));
    step!(responses, "read a cell", found(client.read(vec![counter(id, Some(1), None)])));
    step!(responses, "read all cells of a counter", found(client.read(vec![counter(id, None, None)])));
    step!(responses, "write all cells", write(client, MODIFY, counter(id, None, Some(3))));
    step!(responses, "insert a cell", write(client, INSERT, counter(id, Some(1), Some(9))));
    step!(responses, "delete a cell", write(client, DELETE, counter(id, Some(1), Some(9))));
    step!(responses, "a cell behind the end", write(client, MODIFY, counter(id, Some(2), Some(9))));
    step!(responses, "a cell before the start", write(client, MODIFY, counter(id, Some(-1), Some(9))));
    step!(responses, "read a cell behind the end", found(client.read(vec![counter(id, Some(2), None)])));
    step!(
        responses,
        "a counter that is not there",
        write(client, MODIFY, counter(0x1200_0077, Some(0), Some(1)))
    );
    let register = |data: Option<u8>| {
        EntityKind::RegisterEntry(v1::RegisterEntry {
            register_id: 369_098_754,
            index: Some(v1::Index { index: 1 }),
            data: data.map(|byte| v1::P4Data { data: Some(v1::Data::Bitstring(vec![byte])) }),
        })
    };
    step!(responses, "write a register", write(client, MODIFY, register(Some(3))));
    step!(responses, "read a register", found(client.read(vec![register(None)])));
    step!(
        responses,
        "read meters",
        found(client.read(vec![EntityKind::MeterEntry(v1::MeterEntry::default())]))
    );
    step!(
        responses,
        "read digests",
        found(client.read(vec![EntityKind::DigestEntry(v1::DigestEntry::default())]))
    );
    step!(responses, "read value sets", {
        found(client.read(vec![EntityKind::ValueSetEntry(v1::ValueSetEntry::default())]))
    });
}

fn packets(client: &mut Client, backup: &mut Client, responses: &mut Responses) {
    let send = |client: &mut Client, packet: v1::PacketOut| {
        client.send_message(StreamRequest::Packet(packet));
        received(client.receive_within(QUIET))
    };
    let out = |chunk| v1::PacketOut { payload: advance(0, chunk, 7), metadata: Vec::new() };
    step!(responses, "a packet that nothing admits", send(client, out(3)));
    step!(responses, "admit the controller", write(client, INSERT, EntityKind::TableEntry(admit(510))));
    step!(responses, "a packet out and in", send(client, out(9)));
    step!(responses, "a packet out and in again", send(client, out(4)));
    step!(responses, "a packet of a backup", send(backup, out(5)));
    step!(responses, "a packet with metadata", {
        let metadata = vec![v1::PacketMetadata { metadata_id: 1, value: vec![1] }];
        send(client, v1::PacketOut { metadata, ..out(6) })
    });
    step!(responses, "an empty packet", send(client, v1::PacketOut::default()));
    step!(responses, "an acknowledgement of no digest", {
        client
            .send_message(StreamRequest::DigestAck(v1::DigestListAck { digest_id: 0x1700_0001, list_id: 1 }));
        received(client.receive_within(QUIET))
    });
}

fn again(target: &Target<'_>, client: &mut Client, responses: &mut Responses) {
    let config = v1::ForwardingPipelineConfig {
        p4info: Some(p4info(&small()).unwrap()),
        p4_device_config: target.config.clone(),
        cookie: None,
    };
    step!(responses, "push again", outcome(client.set(PipelineAction::VerifyAndCommit, Some(config))));
    step!(responses, "entries after it", found(client.read(vec![any_entry(0)])));
    step!(
        responses,
        "the cookie after it",
        format!("{:?}", client.get(ResponseType::CookieOnly).map(|c| c.cookie))
    );
}

fn departure(client: Client, backup: &mut Client, responses: &mut Responses) {
    drop(client);
    step!(responses, "the primary leaves", received(backup.receive_within(QUIET)));
    step!(responses, "the backup writes", write(backup, INSERT, EntityKind::TableEntry(admit(1))));
    backup.offer(11);
    step!(responses, "a higher bid", received(backup.receive_within(QUIET)));
    step!(responses, "its write", write(backup, DELETE, EntityKind::TableEntry(admit(1))));
}
