//! Groups of a job: `netfold bench groups`, and how the commands show and end them.

use std::fs;
use std::sync::Barrier;
use std::time::Duration;

use netfold::{Communicator, Network, ReduceOp};
use netfold_io::vacant_address;
use netfold_testkit::job::on_all_ranks;
use netfold_testkit::process::{signal, wait_until_ended};
use netfold_testkit::wait::poll;
use serde_json::Value;

use crate::controller::{dev, one, wait_for};
use crate::process::{Process, number, run, text};

const MANY: &str = "bench groups --groups 4000 --size 2 --processes 4 --bytes 4K";

#[test]
fn groups_are_split_used_and_left() {
    let (code, lines) = run("bench groups --groups 9 --size 2 --processes 4 --bytes 4K --slots 16");
    assert_eq!(code, Some(0), "{lines:?}");
    let row = lines.last().unwrap();
    assert_eq!(text(row, "event"), "groups");
    let counted = ["groups", "size", "processes", "at_switch", "wrong", "threads_left", "descriptors_left"];
    assert_eq!(counted.map(|key| number(row, key)), [9.0, 2.0, 4.0, 9.0, 0.0, 0.0, 0.0], "{row}");
    let measured = ["split_s", "split_ms_per_group", "memory_per_group", "threads_per_group"];
    assert!(measured.iter().all(|key| number(row, key) > 0.0), "{row}");
    assert!(number(row, "descriptors_per_group") > 0.0, "{row}");
    let (code, lines) = run("bench groups --size 8 --processes 4");
    assert_eq!(code, Some(2), "{lines:?}");
}

/// The processes that a process has started.
fn children(parent: u32) -> Vec<u64> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u64>() else { continue };
        // It may have ended meanwhile.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        if fields.split_whitespace().nth(1) == Some(&parent.to_string()) {
            found.push(id);
        }
    }
    found.sort_unstable();
    found
}

/// The benchmark with all of its processes.
fn many_groups() -> (Process, Vec<u64>) {
    let bench = Process::start(MANY);
    let ranks = poll("four ranks", || Some(children(bench.id())).filter(|ranks| ranks.len() == 4));
    (bench, ranks)
}

#[test]
fn a_rank_that_is_killed_is_named_and_the_others_end() {
    let (mut bench, ranks) = many_groups();
    signal(ranks[2], "KILL");
    let error = bench.event("error");
    assert_eq!(text(&error, "kind"), "child_died", "{error}");
    let message = text(&error, "message");
    assert!(message.contains("rank 2") && message.contains("signal: 9"), "{message}");
    assert_eq!(bench.wait().code(), Some(1));
    ranks.into_iter().for_each(wait_until_ended);
}

#[test]
fn no_signal_leaves_a_process() {
    for name in ["INT", "TERM", "KILL"] {
        let (mut bench, ranks) = many_groups();
        bench.signal(name);
        assert!(!bench.wait().success(), "{name}");
        ranks.into_iter().for_each(wait_until_ended);
    }
}

/// Ranks that are threads of this process, at a controller: two groups, which the controller lists under the job and ends with it, and a
/// third that the quota does not allow, where no job gives slots up.
#[test]
fn groups_are_described_and_ended_with_their_job() {
    let (_controller, workers, grpc) = dev("--sharing static");
    let at = vacant_address().unwrap();
    let barrier = Barrier::new(2);
    on_all_ranks(2, |rank| {
        let builder = Communicator::builder().job("train").rank(rank).world_size(2).slots(64);
        let builder = builder.shared_memory(false).rendezvous(at).unwrap();
        let builder = builder.controller(&workers).unwrap().tenant("red", "");
        let comm = builder.join_timeout(Duration::from_secs(120)).connect().unwrap();
        let groups = [5, 7].map(|color| comm.split(Some(color), 0).unwrap().unwrap().connect().unwrap());
        for group in &groups {
            assert!(matches!(group.path().network, Network::Switch { .. }), "{}", group.path());
            let mut sum = [f32::from(rank) + 1.0; 3000];
            group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            assert_eq!(sum, [3.0; 3000]);
        }
        barrier.wait();
        if rank == 0 {
            described(&grpc);
        }
        barrier.wait();
        let error = comm.split(Some(0), 0).unwrap_err();
        assert_eq!((error.kind(), error.ends_the_job()), ("refused", false), "{error}");
        let message = error.to_string();
        assert!(
            message.contains("192 of 192 slots") && message.contains("1 group needs 16 more"),
            "{message}"
        );
        assert!(message.contains("raised to 208 slots"), "{message}");
        let mut sum = [1.0f32; 8];
        comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
        assert_eq!(sum, [2.0; 8], "the job goes on");
        barrier.wait();
        if rank == 0 {
            one(&format!("job end red/train --message maintenance --controller {grpc}"));
        }
        for comm in groups.iter().chain([&comm]) {
            let error = poll("the end of the job", || comm.all_reduce(&mut [1.0f32; 8], ReduceOp::Sum).err());
            assert_eq!(error.kind(), "refused", "{error}");
            assert!(error.to_string().contains("maintenance"), "{error}");
        }
    });
    let ended = wait_for(&grpc, "red/train", "ended");
    assert_eq!((number(&ended, "slots_held"), &ended["groups"]), (0.0, &Value::Array(Vec::new())), "{ended}");
}

/// The job with its groups, as text and as JSON. Then the tenant's quota has no room for another.
fn described(grpc: &str) {
    let job = one(&format!("job describe red/train --controller {grpc}"));
    let groups = job["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| text(group, "group")).collect::<Vec<_>>(), ["1.5", "2.7"], "{job}");
    for group in groups {
        assert_eq!((text(group, "state"), number(&group["spec"], "workers")), ("running", 2.0), "{group}");
    }
    let of_groups: f64 = groups.iter().map(|group| number(group, "slots_held")).sum();
    let own = number(&job["trees"][0], "slots");
    assert_eq!(number(&job, "slots_held"), own + of_groups, "{job}");
    let tenants = run(&format!("tenant list --controller {grpc}")).1;
    let red = tenants.iter().find(|tenant| tenant["tenant"] == "red").unwrap();
    let used = ["slots", "jobs", "workers"].map(|what| number(&red["used"], what));
    assert_eq!(used, [own + of_groups, 1.0, 2.0], "{red}");
    let output =
        crate::process::netfold(&format!("job describe red/train --controller {grpc}")).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("groups: 2") && shown.contains("  2.7"), "{shown}");
    assert_eq!(own + of_groups, 192.0, "{job}");
    one(&format!("tenant set red --slots 192 --controller {grpc}"));
}
