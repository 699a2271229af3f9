//! `docs/operations.md` documents everything that scripts may rely on.

use std::collections::BTreeSet;

use netfold_wire::Reason;
use serde_json::Value;

use crate::process::run;

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// Every key of an event, those within objects and lists included.
pub(crate) fn keys(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            into.insert(key.clone());
            keys(value, into);
        }),
        Value::Array(list) => list.iter().for_each(|value| keys(value, into)),
        _ => {}
    }
}

fn undocumented(names: impl IntoIterator<Item = String>) -> Vec<String> {
    names.into_iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect()
}

#[test]
fn every_key_and_event_is_documented() {
    let mut names = BTreeSet::new();
    for command in [
        "demo --workers 1 --epochs 1",
        "switch --listen 127.0.0.1:0 --exit-with-stdin",
        "bench all-reduce --workers 1 --bytes 4KiB --iterations 1",
        "bench fold --rounds 1 --round-us 10",
        "bench quantize --bytes 64KiB --repetitions 1",
        "p4 emit --target v1model",
        "testbed experiment sharing",
        "testbed experiment --list",
        "testbed run --levels 2 --elements 1000 --iterations 1 --faults duplicate=0.2",
    ] {
        let (_, lines) = run(command);
        assert!(!lines.is_empty(), "{command}");
        for line in &lines {
            names.insert(line["event"].as_str().unwrap().to_owned());
            keys(line, &mut names);
        }
    }
    names.remove("event");
    assert!(names.len() > 60, "{names:?}");
    assert_eq!(undocumented(names), [""; 0]);
}

#[test]
fn every_reason_to_drop_a_packet_is_documented() {
    assert_eq!(undocumented(Reason::ALL.iter().map(|reason| reason.name().to_owned())), [""; 0]);
}
