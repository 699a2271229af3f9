//! `netfold testbed leaf-spine`: a job on two trees survives the loss of a spine.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;

use netfold_testkit::namespace;
use netfold_testkit::process::wait_until_ended;

use crate::process::{Process, children, namespaces, netfold, number, text};

#[test]
fn a_job_on_two_trees_survives_the_loss_of_a_spine() {
    if !namespace::available() {
        return;
    }
    // The two trees fill the leaves: the lost one can be placed again only because a lost switch keeps no slots at others.
    let mut fabric =
        Process::start("testbed leaf-spine --workers 4 --bytes 384KiB --slots 512 --operations 3");
    let built = fabric.event("fabric");
    assert_eq!(built["leaves"][1]["ranks"], serde_json::json!([2, 3]), "{built}");
    let report = fabric.event("leaf_spine");
    assert_eq!(fabric.wait().code(), Some(0), "{report}");
    assert_eq!((&report["right"], number(&report, "wrong")), (&true.into(), 0.0), "{report}");
    let root = |tree: usize, when: &str| text(&report["trees"][tree][when], "root").to_owned();
    assert_eq!(text(&report, "killed"), "spine1");
    let mut before = [root(0, "before"), root(1, "before")];
    before.sort();
    assert_eq!(before, ["spine1", "spine2"]);
    assert_eq!([root(0, "after"), root(1, "after")], ["spine2", "spine2"]);
    let phases = report["phases"].as_array().unwrap();
    let operations = |phase: usize| number(&phases[phase], "operations");
    assert!(operations(0) >= 3.0 && operations(1) >= 1.0 && operations(2) >= 3.0, "{report}");
    for phase in phases {
        let checked = number(phase, "operations") * 4.0 * (384 << 10) as f64 / 4.0;
        assert_eq!(number(phase, "checked"), checked, "every element of every worker");
    }
    let times = &report["times"];
    assert!(number(times, "regained_s") >= number(times, "placed_s"), "{report}");
    assert_eq!(namespaces(fabric.id()), [""; 0]);
}

#[test]
fn an_interrupted_fabric_leaves_no_namespaces_or_processes() {
    if !namespace::available() {
        return;
    }
    let mut fabric = Process::start("testbed leaf-spine --workers 2 --operations 1000000");
    fabric.event("fabric");
    assert_eq!(namespaces(fabric.id()).len(), 7, "four switches, two hosts, a controller");
    let children = children(fabric.id());
    assert_eq!(children.len(), 7, "four switches, two workers, the guard of the namespaces");
    fabric.signal("INT");
    assert_eq!(fabric.wait().code(), Some(130));
    assert_eq!(namespaces(fabric.id()), [""; 0]);
    // Its processes end with it.
    children.iter().for_each(|process| wait_until_ended(u64::from(*process)));
}

#[test]
fn other_users_get_an_error() {
    let mut command = netfold("testbed leaf-spine --operations 1");
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        // An unprivileged user.
        command.uid(65_534).gid(65_534);
    }
    let Ok(output) = command.output() else {
        println!("skipped: the command cannot be run by another user");
        return;
    };
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("needs root: run the command with sudo"), "{said}");
}
