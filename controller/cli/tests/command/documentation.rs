//! `docs/operations.md` documents everything that scripts may rely on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use netfold_testkit::directory::TemporaryDirectory;
use netfold_wire::Reason;
use serde_json::Value;

use crate::process::{netfold, run};

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
        "p4 estimate --target tofino1",
        "man",
        "completions bash",
        "version",
        "testbed experiment sharing",
        "testbed experiment --list",
        "testbed run --levels 2 --elements 1000 --iterations 1 --faults duplicate=0.2",
    ] {
        let (_, lines) = run(command);
        assert!(!lines.is_empty(), "{command}");
        for mut line in lines {
            // Its keys are the names of options.
            line.as_object_mut()
                .unwrap()
                .entry("parameters")
                .and_modify(|parameters| *parameters = Value::Null);
            names.insert(line["event"].as_str().unwrap().to_owned());
            keys(&line, &mut names);
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

/// All documentation pages, and the README.
fn pages() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut text = std::fs::read_to_string(docs.join("../README.md")).unwrap();
    let mut folders = vec![docs];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("md") => text.push_str(&std::fs::read_to_string(path).unwrap()),
                _ => {}
            }
        }
    }
    text
}

#[test]
fn every_command_is_documented() {
    let folder = TemporaryDirectory::new("commands");
    let output = netfold("man --output").arg(folder.path()).output().unwrap();
    assert!(output.status.success());
    let pages = pages();
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // netfold-bench-all-reduce.1: the documentation names `bench all-reduce`.
        let words = name.trim_end_matches(".1").trim_start_matches("netfold").trim_start_matches('-');
        let groups = ["bench", "controller", "job", "link", "p4", "switch", "tenant", "testbed"];
        let command = match words.split_once('-').filter(|(first, _)| groups.contains(first)) {
            Some((group, rest)) => format!("{group} {rest}"),
            None => words.to_owned(),
        };
        let named = |command: &str| {
            pages.contains(&format!("netfold {command}")) || pages.contains(&format!("`{command}`"))
        };
        if !command.is_empty() && !named(&command) && !named(&command.replace('-', " ")) {
            missing.push(command);
        }
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_environment_variable_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<PathBuf> =
        ["controller", "dataplane", "hostlib", "p4", "testbed/measure", "testbed/lab"]
            .iter()
            .map(|folder| root.join(folder))
            .collect();
    let mut names = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("target") && !path.ends_with("tests") {
                    folders.push(path);
                }
                continue;
            }
            let code = matches!(path.extension().and_then(|e| e.to_str()), Some("rs" | "py" | "c"));
            let text = if code { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
            names.extend(text.split('"').filter(|part| is_variable(part)).map(str::to_owned));
        }
    }
    assert!(names.len() > 25, "{names:?}");
    let pages = pages();
    let missing: Vec<_> = names.iter().filter(|name| !pages.contains(name.as_str())).collect();
    assert_eq!(missing, [""; 0]);
}

/// Whether a string literal is the name of one of Netfold's environment variables, but for those of tests.
fn is_variable(text: &str) -> bool {
    let rest = text.strip_prefix("NETFOLD_").filter(|rest| !rest.is_empty());
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        && !text.starts_with("NETFOLD_TEST")
        && text != "NETFOLD_LONG"
}
