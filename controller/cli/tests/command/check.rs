//! `netfold check`: on one host, towards a switch and between hosts.

use std::collections::BTreeSet;

use netfold_io::vacant_address;
use netfold_testkit::namespace::{self, NamespaceSet, command};
use serde_json::Value;

use crate::documentation::keys;
use crate::process::{Process, netfold_within, number, run, text};

const PAGE: &str = include_str!("../../../../docs/operations.md");
const CHECKS: &str = include_str!("../../../../docs/check.md");

/// Names of the findings that are not about this machine, whose limits and load are what they are.
fn found(lines: &[Value]) -> Vec<&str> {
    let findings = lines.iter().filter(|line| line["event"] == "finding");
    findings
        .filter(|finding| finding["subject"] != "this host")
        .map(|finding| text(finding, "check"))
        .collect()
}

/// Compares the exit code and the last lines with the findings, and all keys and names with the documentation.
fn consistent(code: Option<i32>, lines: &[Value]) {
    let findings = lines.iter().filter(|line| line["event"] == "finding").count();
    let summary = lines.iter().find(|line| line["event"] == "check").unwrap();
    assert_eq!(number(summary, "errors") + number(summary, "warnings"), findings as f64, "{lines:?}");
    assert_eq!(code, Some(i32::from(findings > 0)), "{lines:?}");
    let error = lines.iter().find(|line| line["event"] == "error").map(|error| text(error, "kind"));
    assert_eq!(error, (findings > 0).then_some("check"), "{lines:?}");
    let mut names = BTreeSet::new();
    lines.iter().for_each(|line| keys(line, &mut names));
    names.extend(lines.iter().map(|line| text(line, "event").to_owned()));
    names.retain(|name| !["event", "kind", "message"].contains(&name.as_str()));
    let unknown: Vec<_> = names.iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
    assert!(unknown.is_empty(), "not in docs/operations.md: {unknown:?}");
    for finding in lines.iter().filter(|line| line["event"] == "finding") {
        let (check, severity) = (text(finding, "check"), text(finding, "severity"));
        let rows = CHECKS.lines().filter(|row| row.starts_with("| `") && row.contains(&format!("`{check}`")));
        assert!(
            rows.into_iter().any(|row| row.ends_with(&format!("| {severity} |"))),
            "not in docs/check.md: {finding}"
        );
        assert!(
            ["measured", "limit", "remedy"].iter().all(|key| !text(finding, key).is_empty()),
            "{finding}"
        );
    }
}

#[test]
fn a_way_to_a_switch_on_which_all_is_well_has_no_finding() {
    let (_switch, control) = Process::switch("");
    let (code, lines) = run(&format!("check --switch {control}"));
    consistent(code, &lines);
    assert_eq!(found(&lines), [""; 0], "{lines:?}");
    let way = lines.iter().find(|line| line["event"] == "check_switch").unwrap();
    assert_eq!(
        (number(way, "payload_bytes"), number(way, "lost"), number(way, "ports_replied")),
        (1408.0, 0.0, 1.0),
        "{way}"
    );
    assert!(number(way, "packets") > 0.0 && number(way, "rate") > 0.0, "{way}");
}

#[test]
fn a_controller_is_asked_with_credentials() {
    let any = "127.0.0.1:0";
    let mut controller =
        Process::start(&format!("controller --dev --workers {any} --listen {any} --http {any}"));
    let controlling = controller.event("controlling");
    let workers = text(&controlling, "workers").to_owned();
    for (tenant, expected) in [("red", &[][..]), ("unknown", &["credentials"])] {
        let (code, lines) = run(&format!("check --controller {workers} --tenant {tenant}"));
        consistent(code, &lines);
        assert_eq!(found(&lines), expected, "{lines:?}");
    }
}

#[test]
fn a_switch_that_is_not_there_is_an_error() {
    let address = vacant_address().unwrap();
    let (code, lines) = run(&format!("check --switch {address}"));
    consistent(code, &lines);
    assert_eq!(found(&lines), ["control_port"], "{lines:?}");
}

#[test]
fn options_of_pairs_belong_together() {
    for arguments in [
        "check --pairs",
        "check --rank 0",
        "check --pairs --rank 2 --world 2 --rendezvous 127.0.0.1:1",
        "check --pairs --rank 0 --world 1 --rendezvous 127.0.0.1:1",
        "check --switch a:1 --controller b:1",
        "check --path-hash crc32,paths=4",
        "check --pairs --rank 0 --world 2 --rendezvous 127.0.0.1:1 --path-hash linux,paths=4",
        "check --pairs --rank 0 --world 2 --rendezvous 127.0.0.1:1 --path-hash crc32,paths=4 --topology x",
    ] {
        let (code, lines) = run(arguments);
        assert_eq!((code, text(lines.last().unwrap(), "kind")), (Some(2), "usage"), "{arguments}: {lines:?}");
    }
}

/// The hash is that of a topology, too; one without a hash, or no file, is an error before anything is measured.
#[test]
fn the_hash_of_paths_is_in_a_topology() {
    let folder = std::env::temp_dir().join(format!("netfold-check-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("fabric.toml");
    let check = |hash: &str| format!("check --pairs --rank 0 --world 2 --rendezvous 192.0.2.1 {hash}");
    let last = |hash: &str| {
        let (code, mut lines) = run(&check(hash));
        assert!(code != Some(0) && lines.len() == 1, "{hash}: {lines:?}");
        lines.remove(0)
    };
    let topology = format!("--topology {}", file.display());
    assert_eq!(text(&last(&topology), "kind"), "file");
    let switch = "\n[[switch]]\nname = \"tor\"\np4runtime = \"127.0.0.1:1\"\nkind = \"software\"\n";
    std::fs::write(&file, format!("ecmp = true\n{switch}")).unwrap();
    let said = last(&topology);
    assert!(text(&said, "message").contains("names no hash of equal paths"), "{said}");
    std::fs::write(&file, format!("ecmp = {{ hash = \"md5\", paths = 4 }}\n{switch}")).unwrap();
    assert_eq!(text(&last(&topology), "kind"), "topology");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn hosts_check_each_other() {
    let meeting = vacant_address().unwrap();
    let check = |rank| format!("check --pairs --rank {rank} --world 2 --rendezvous {meeting}");
    let mut other = Process::start(&check(1));
    let (code, lines) = run(&check(0));
    consistent(code, &lines);
    // Rates are those that other processes leave.
    let besides: Vec<_> = found(&lines).into_iter().filter(|check| *check != "rate").collect();
    assert_eq!(besides, [""; 0], "{lines:?}");
    let pairs = |lines: &[Value]| {
        lines.iter().filter(|line| line["event"] == "check_pair").cloned().collect::<Vec<_>>()
    };
    let places: Vec<_> =
        pairs(&lines).iter().map(|pair| [number(pair, "rank"), number(pair, "peer")]).collect();
    assert_eq!(places, [[0.0, 1.0], [1.0, 0.0]]);
    other.wait();
    assert_eq!(pairs(&other.rest()), pairs(&lines), "all print the same");
}

/// A host in a namespace, with a switch on the other end of its link; what it finds when `prepare` has changed the host.
fn from_host(prepare: &[&str]) -> Vec<Value> {
    let mut names = NamespaceSet::new();
    let (host, tor) = (names.add('h', 0).unwrap(), names.add('s', 0).unwrap());
    command(&format!("ip link add eth0 netns {host} type veth peer name eth0 netns {tor}")).unwrap();
    for (name, address) in [(&host, "10.78.0.1/24"), (&tor, "10.78.0.2/24")] {
        command(&format!("ip -n {name} addr add {address} dev eth0")).unwrap();
        command(&format!("ip -n {name} link set eth0 up")).unwrap();
    }
    let mut switch = Process::spawn(netfold_within(&tor, "switch --listen 10.78.0.2:20038"));
    switch.event("listening");
    for words in prepare {
        command(&format!("ip -n {host} {words}")).unwrap();
    }
    let mut check = Process::spawn(netfold_within(&host, "check --switch 10.78.0.2:20038"));
    let code = check.wait().code();
    let lines = check.rest();
    consistent(code, &lines);
    lines
}

#[test]
fn a_link_is_judged_in_a_namespace() {
    if !namespace::available() {
        return;
    }
    let lines = from_host(&[]);
    assert_eq!(found(&lines), [""; 0], "{lines:?}");
    // A packet of 1408 bytes of lanes needs 1468.
    let lines = from_host(&["link set eth0 mtu 1467"]);
    let mtu = lines.iter().find(|line| line["check"] == "mtu").unwrap();
    assert!(text(mtu, "remedy").starts_with("ip link set dev eth0 mtu 1500"), "{mtu}");
    assert!(text(mtu, "limit").starts_with("1468 bytes"), "{mtu}");
}

#[test]
fn udp_that_does_not_pass_is_told_from_a_port_that_is_not_reached() {
    if !namespace::available() {
        return;
    }
    let lines = from_host(&["rule add ipproto udp blackhole"]);
    assert_eq!(found(&lines), ["udp"], "{lines:?}");
}
