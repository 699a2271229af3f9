//! `netfold testbed paths`: workers with several UDP ports use all spines.

use netfold_testkit::namespace;

use crate::process::{Process, number, text};

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
