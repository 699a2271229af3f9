//! `netfold bench jobs`: many jobs of one tenant at a controller that shares by default.

use std::collections::BTreeSet;

use netfold_testkit::namespace;
use netfold_testkit::process::{signal, wait_until_ended};
use netfold_testkit::wait::poll;
use serde_json::Value;

use crate::documentation::keys;
use crate::process::{Process, number, run, text};

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// A controller for development, and its workers' port.
fn dev(more: &str) -> (Process, String) {
    let any = "127.0.0.1:0";
    let mut controller =
        Process::start(&format!("controller --dev --workers {any} --listen {any} --http {any} {more}"));
    let controlling = controller.event("controlling");
    let workers = text(&controlling, "workers").to_owned();
    (controller, workers)
}

/// The processes that a process has started.
fn children(id: u32) -> Vec<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>()).collect()
}

#[test]
fn more_jobs_than_a_tenant_once_had_are_admitted_and_correct() {
    let (_controller, workers) = dev("");
    for more in ["", "--rendezvous"] {
        let (code, lines) = run(&format!(
            "bench jobs --controller {workers} --tenant red --jobs 6 --operations 12 --bytes 64KiB --rounds 1 {more}"
        ));
        assert_eq!(code, Some(0), "{lines:?}");
        let rows: Vec<&Value> = lines.iter().filter(|line| line["event"] == "jobs").collect();
        let admitted: Vec<_> =
            rows.iter().map(|row| [number(row, "jobs"), number(row, "admitted")]).collect();
        assert_eq!(admitted, [[2.0, 2.0], [6.0, 6.0]], "{lines:?}");
        for row in &rows {
            assert_eq!((number(row, "wrong"), number(row, "operations")), (0.0, 12.0), "{row}");
            assert_eq!((number(row, "slots_min"), number(row, "slots_max")), (256.0, 256.0), "{row}");
        }
        assert!(rows[0].get("ratio").is_none() && number(rows[1], "ratio") > 0.0, "{rows:?}");
        let mut names = BTreeSet::new();
        rows.iter().for_each(|row| keys(row, &mut names));
        names.remove("event");
        let unknown: Vec<_> = names.iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
        assert!(unknown.is_empty(), "not in docs/operations.md: {unknown:?}");
    }
}

#[test]
fn jobs_share_the_links_of_a_star() {
    if !namespace::available() {
        return;
    }
    let (code, lines) =
        run("bench jobs --shaped --jobs 5 --operations 10 --bytes 64KiB --rounds 1 --mode bfp32");
    assert_eq!(code, Some(0), "{lines:?}");
    let rows: Vec<&Value> = lines.iter().filter(|line| line["event"] == "jobs").collect();
    let admitted: Vec<_> = rows.iter().map(|row| [number(row, "jobs"), number(row, "admitted")]).collect();
    assert_eq!(admitted, [[2.0, 2.0], [5.0, 5.0]], "{lines:?}");
    for row in rows {
        assert_eq!((number(row, "wrong"), number(row, "rate")), (0.0, 2e8), "{row}");
        // 640 KiB at 200 Mbit/s, less the 80 KiB of a burst: more would have passed beside the links.
        let share = number(row, "bound_share");
        assert!(share > 0.0 && share < 1.0, "{row}");
    }
    let (code, lines) = run("bench jobs --shaped --controller 127.0.0.1:1");
    assert_eq!((code, text(lines.last().unwrap(), "kind")), (Some(2), "usage"), "{lines:?}");
}

#[test]
fn a_tenant_none_of_whose_jobs_is_admitted_gets_the_reason() {
    let (_controller, workers) = dev("");
    let (code, lines) =
        run(&format!("bench jobs --controller {workers} --tenant unknown --jobs 2 --rounds 1"));
    let error = lines.last().unwrap();
    assert_eq!((code, text(error, "kind")), (Some(1), "credentials"), "{lines:?}");
    assert!(text(error, "message").contains("none of 2 jobs"), "{error}");
    let (code, lines) = run("bench jobs --tenant red");
    assert_eq!((code, text(lines.last().unwrap(), "kind")), (Some(2), "usage"), "{lines:?}");
}

#[test]
fn a_worker_that_is_killed_is_named_and_no_process_is_left() {
    let (_controller, workers) = dev("");
    let begin = || {
        let bench = Process::start(&format!(
            "bench jobs --controller {workers} --tenant red --jobs 2 --operations 1000000000 --bytes 4KiB --rounds 1"
        ));
        let all = poll("four workers", || Some(children(bench.id())).filter(|all| all.len() == 4));
        (bench, all)
    };
    let (mut bench, all) = begin();
    signal(all[3], "KILL");
    let error = bench.event("error");
    assert_eq!(text(&error, "kind"), "child_died", "{error}");
    let message = text(&error, "message");
    assert!(message.starts_with("rank 1 of job 'jobs-") && message.contains("SIGKILL"), "{message}");
    assert_eq!(bench.wait().code(), Some(1));
    all.into_iter().for_each(wait_until_ended);

    for how in ["KILL", "TERM", "INT"] {
        let (mut bench, all) = begin();
        bench.signal(how);
        assert!(!bench.wait().success(), "{how}");
        all.into_iter().for_each(wait_until_ended);
    }
}
