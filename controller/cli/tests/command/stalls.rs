//! `netfold job explain` of a job one of whose workers is stopped, while it stalls and after its end.

use netfold_testkit::wait::poll_state;
use serde_json::{Value, json};

use crate::controller::{dev, one, wait_for};
use crate::documentation::keys;
use crate::process::{Process, netfold, number, run, text};

const PAGE: &str = include_str!("../../../../docs/controller.md");

const STOPPED: usize = 2;

fn explained(grpc: &str, job: &str) -> Value {
    let (code, lines) = run(&format!("job explain {job} --controller {grpc}"));
    assert_eq!((code, lines.len()), (Some(0), 1), "{lines:?}");
    lines.into_iter().next().unwrap()
}

/// The newest record of a job, once it is as wanted.
fn record(grpc: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    poll_state("a flight record of red/train", || {
        let explained = explained(grpc, "red/train");
        let record = explained["records"][0].clone();
        if record.is_object() && wanted(&record) { Ok(record) } else { Err(explained) }
    })
}

fn check(record: &Value) {
    let chunk = &record["chunks"][0];
    assert_eq!(chunk["missing"], json!([STOPPED]), "{record}");
    let conclusion = text(record, "conclusion");
    let start = format!("rank {STOPPED} has not contributed to chunk {}, and", number(chunk, "chunk"));
    assert!(conclusion.starts_with(&start), "{conclusion}");
    assert!(conclusion.contains("its process is stopped or its host is unreachable"), "{conclusion}");
    for rank in record["ranks"].as_array().unwrap() {
        let stopped = number(rank, "rank") == STOPPED as f64;
        assert_eq!(rank["report"].is_null(), stopped, "{record}");
        let waits = &rank["report"]["chunk"];
        assert!(stopped || waits == &chunk["chunk"], "all others wait for that chunk: {record}");
    }
}

#[test]
fn a_worker_that_is_stopped_is_named_with_the_chunk_that_it_holds_up() {
    let (mut controller, workers, grpc) = dev("");
    let rank = |rank: usize| {
        Process::start(&format!(
            "worker --controller {workers} --tenant red --job train --rank {rank} --world 4 --bytes 256KiB --iterations 1000000000"
        ))
    };
    let mut ranks: Vec<Process> = (0..4).map(rank).collect();
    wait_for(&grpc, "red/train", "running");
    ranks.iter_mut().for_each(|rank| drop(rank.event("all_reduce")));
    let before = explained(&grpc, "red/train");
    assert_eq!(before["records"], json!([]));
    ranks[STOPPED].signal("STOP");

    let named = |record: &Value| text(record, "conclusion").contains("has reported nothing for");
    let stalled = record(&grpc, |record| record["chunks"] != json!([]) && named(record));
    check(&stalled);
    let event = loop {
        let event = controller.event("controller_event");
        if event["kind"] == "job_stalled" {
            break event;
        }
    };
    assert!(text(&event, "message").contains("rank 2 has not contributed to chunk"), "{event}");

    // The worker is lost after its lease, and the job with it.
    let ended = record(&grpc, |record| record["ended"] != "");
    check(&ended);
    assert!(text(&ended, "ended").contains("sent no heartbeat for too long"), "{ended}");
    let shown = netfold(&format!("job explain red/train --controller {grpc}")).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    for part in ["  cause     rank 2 has not contributed", "\nrank 2 (lost): no report", "reported the stall"]
    {
        assert!(shown.contains(part), "no '{part}' in\n{shown}");
    }

    // The description of the job begins with the same.
    let described = one(&format!("job describe red/train --controller {grpc}"));
    let stall = &described["stalls"][0];
    for key in ["began_ms", "as_of_ms", "ended", "conclusion", "tree", "group"] {
        assert_eq!(stall[key], ended[key], "{described}");
    }
    let shown = netfold(&format!("job describe red/train --controller {grpc}")).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    for part in [
        "  stalled   tree 0, from ",
        "            rank 2 has not contributed",
        "netfold job explain red/train",
    ] {
        assert!(shown.contains(part), "no '{part}' in\n{shown}");
    }

    let mut names = std::collections::BTreeSet::new();
    [&before, &ended, stall].into_iter().for_each(|line| keys(line, &mut names));
    names.remove("event");
    let unknown: Vec<&String> = names.iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
    assert!(names.len() > 25 && unknown.is_empty(), "not in docs/controller.md: {unknown:?}");

    let job = ranks.iter_mut().enumerate().filter(|(rank, _)| *rank != STOPPED);
    job.for_each(|(_, rank)| assert!(!rank.wait().success()));
    ranks[STOPPED].signal("CONT");
    assert!(!ranks[STOPPED].wait().success());
    let (_, lines) = run(&format!("job forget red/train --controller {grpc}"));
    assert_eq!(text(&lines[0], "event"), "job_forgotten");
    let (code, lines) = run(&format!("job explain red/train --controller {grpc}"));
    assert_eq!((code, text(&lines[0], "kind")), (Some(1), "not_found"));
}

#[test]
fn a_switch_prints_which_rank_its_job_waits_for() {
    let (mut switch, control) = Process::switch("");
    let rank = |rank: usize| {
        Process::start(&format!(
            "worker --switch {control} --job train --rank {rank} --world 3 --bytes 256KiB --iterations 1000000000"
        ))
    };
    let mut ranks: Vec<Process> = (0..3).map(rank).collect();
    ranks.iter_mut().for_each(|rank| drop(rank.event("all_reduce")));
    ranks[STOPPED].signal("STOP");
    let stalled = switch.event("job_stalled");
    assert_eq!((text(&stalled, "job"), &stalled["ranks"]), ("train", &json!([STOPPED])), "{stalled}");
    let start = format!("rank {STOPPED} has not contributed to chunk {}, and", number(&stalled, "chunk"));
    assert!(text(&stalled, "text").starts_with(&start), "{stalled}");
    ranks[STOPPED].signal("CONT");
}
