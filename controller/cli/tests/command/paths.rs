//! `netfold testbed paths`: workers with several UDP ports use all spines.

use netfold_testkit::namespace;
use netfold_testkit::process::wait_until_ended;
use netfold_testkit::wait::eventually;

use crate::process::{Process, children, namespaces, number, text};

#[test]
fn workers_with_several_ports_use_all_spines() {
    if !namespace::available() {
        return;
    }
    let mut fabric =
        Process::start("testbed paths --workers 3 --spines 2 --policies weighted --seconds 1 --bytes 64KiB");
    let single = fabric.event("paths_balance");
    assert_eq!(
        (number(&single, "udp_ports"), &single["policy"]),
        (1.0, &serde_json::Value::Null),
        "{single}"
    );
    let several = fabric.event("paths_balance");
    assert_eq!((number(&several, "udp_ports"), text(&several, "policy")), (16.0, "weighted"), "{several}");
    for row in [&single, &several] {
        assert!(number(row, "operations") > 0.0 && number(row, "wrong") == 0.0, "{row}");
    }
    let bytes = several["spine_bytes"].as_array().unwrap();
    assert!(bytes.len() == 2 && bytes.iter().all(|bytes| bytes.as_u64() > Some(0)), "{several}");
    let slow = fabric.event("paths_slow_spine");
    assert_eq!(number(&slow, "wrong"), 0.0, "{slow}");
    for share in ["share_before", "share_after"] {
        assert!((0.0..=1.0).contains(&number(&slow, share)), "{slow}");
    }
    // Whether the bounds hold in so short a time is for a quiet machine.
    assert!(fabric.wait().code().is_some());
}

#[test]
fn an_interrupted_or_killed_run_leaves_no_namespaces_or_processes() {
    if !namespace::available() {
        return;
    }
    for (signal, code) in [("INT", Some(130)), ("KILL", None)] {
        let mut fabric =
            Process::start("testbed paths --workers 2 --spines 2 --policies weighted --seconds 3600");
        let id = fabric.id();
        // The switch, two workers, and the guard of the namespaces.
        eventually("a job", || children(id).len() == 4);
        let children = children(id);
        assert_eq!(namespaces(id).len(), 8, "two spines, three leaves, three hosts");
        fabric.signal(signal);
        assert_eq!(fabric.wait().code(), code, "{signal}");
        children.iter().for_each(|process| wait_until_ended(u64::from(*process)));
        eventually("no namespaces", || namespaces(id).is_empty());
    }
}
