//! `netfold switch --p4runtime`.

use netfold_p4::{allreduce, profile::Profile};
use netfold_p4_runtime::v1::{self, EntityKind, UpdateType};
use netfold_p4_runtime::{Schema, p4info};
use netfold_southbound::p4runtime::{Client, ClientConfig};
use netfold_wire::Kind;

use crate::process::{Process, number, run, text};

#[test]
fn starts_without_a_pipeline_and_receives_one() {
    let mut switch = Process::start(
        "switch --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0 --device-id 3 --cpu-port 400 --port 7=127.0.0.1:40007",
    );
    let listening = switch.event("listening");
    assert_eq!(text(&listening, "engine"), "none");
    assert!(listening["control"].is_null(), "{listening}");
    let config = ClientConfig { device_id: 3, ..ClientConfig::default() };
    let client = Client::connect(text(&listening, "p4runtime"), config).unwrap();
    assert!(client.pipeline().unwrap().is_none());
    let program = allreduce::program(&Profile::software(352)).unwrap();
    client.set_pipeline(p4info(&program).unwrap(), program.to_json().into_bytes()).unwrap();
    let schema = Schema::new(&p4info(&program).unwrap()).unwrap();
    let entry = schema.encode(&allreduce::controller_entry(400, Kind::Advance)).unwrap();
    let entity = Some(EntityKind::TableEntry(entry).into());
    client.write(vec![v1::Update { r#type: UpdateType::Insert as i32, entity }]).unwrap();
    let all = EntityKind::TableEntry(v1::TableEntry::default());
    assert_eq!(client.read(vec![all]).unwrap().len(), 1);
    switch.signal("INT");
    let counters = switch.event("counters");
    assert_eq!((counters["final"] == true, number(&counters, "controller_dropped")), (true, 0.0));
    assert!(switch.wait().success());
}

#[test]
fn the_initial_pipeline_is_announced() {
    let mut switch = Process::start("switch --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0 --payload 256");
    let listening = switch.event("listening");
    assert_eq!((text(&listening, "engine"), number(&listening, "payload_bytes")), ("generated", 256.0));
    let client = Client::connect(text(&listening, "p4runtime"), ClientConfig::default()).unwrap();
    assert!(client.pipeline().unwrap().is_some());
}

#[test]
fn invalid_options_are_errors_with_advice() {
    for (wrong, advice) in [
        ("--p4runtime nowhere", "127.0.0.1:9559"),
        ("--p4runtime 0.0.0.0:0", "--insecure"),
        ("--p4runtime 127.0.0.1:0 --port 510=127.0.0.1:1", "--cpu-port"),
        ("--p4runtime 127.0.0.1:0 --port 4096=127.0.0.1:1", "1 to 4095"),
        ("--p4runtime 127.0.0.1:0 --tls-cert here.pem", "--tls-key"),
        ("--port 1=127.0.0.1:1", "--p4runtime"),
    ] {
        let (code, lines) = run(&format!("switch --listen 127.0.0.1:0 {wrong}"));
        let error = lines.last().unwrap();
        assert_eq!((code, text(error, "kind")), (Some(2), "usage"), "{wrong}: {error}");
        assert!(error.to_string().contains(advice), "{wrong}: {error}");
    }
    let (_, lines) =
        run("switch --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0 --tls-cert /nowhere/a --tls-key /nowhere/b");
    let error = lines.last().unwrap();
    assert!(text(error, "kind") == "file" && error.to_string().contains("/nowhere/a"), "{error}");
    let (_, lines) = run(&format!(
        "switch --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0 --tls-cert {0} --tls-key {0}",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")
    ));
    let error = lines.last().unwrap();
    assert!(error.to_string().contains("PEM"), "{error}");
}
