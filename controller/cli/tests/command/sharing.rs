//! A controller that shares slots by demand: jobs shrink and grow while they run, and every element is correct.

use std::net::SocketAddr;

use netfold_io::vacant_address;
use netfold_testkit::wait::poll_state;
use serde_json::Value;

use crate::process::{Process, number, run, text};

#[test]
fn slots_follow_demand() {
    let any = "127.0.0.1:0";
    let mut controller = Process::start(&format!(
        "controller --dev --sharing elastic --settle 1 --workers {any} --listen {any} --http {any}"
    ));
    let controlling = controller.event("controlling");
    let (workers, grpc) = (text(&controlling, "workers"), text(&controlling, "grpc"));
    let (_, lines) = run(&format!("switch describe switch --controller {grpc}"));
    let all = number(&lines[0], "slots");
    // Two ranks that do all-reduces until they are killed.
    let job = |tenant: &str, job: &str, rendezvous: SocketAddr| -> Vec<Process> {
        let rank = |rank| {
            Process::start(&format!(
                "worker --controller {workers} --tenant {tenant} --job {job} --rank {rank} --world 2 --rendezvous {rendezvous} \
                 --mode i32 --bytes 64KiB --slots {all} --iterations 1000000000"
            ))
        };
        (0..2).map(rank).collect()
    };
    let describe = |job: &str| -> Value {
        let (_, lines) = run(&format!("job describe {job} --controller {grpc}"));
        lines.into_iter().next().unwrap_or_default()
    };
    let wait_for = |job: &str, slots: f64| {
        poll_state(format_args!("{job} with {slots} slots"), || {
            let described = describe(job);
            let held = described["state"] == "running" && number(&described, "slots_held") == slots;
            let there = held && described["trees"][0]["phase"] == "running";
            if there { Ok(()) } else { Err(described) }
        });
    };
    let mut red = job("red", "one", vacant_address().unwrap());
    wait_for("red/one", all);
    let mut blue = job("blue", "two", vacant_address().unwrap());
    wait_for("blue/two", all / 2.0);
    wait_for("red/one", all / 2.0);
    finish(&mut blue);
    wait_for("red/one", all);
    finish(&mut red);

    controller.signal("TERM");
    let mut left = None;
    let mut gaps = Vec::new();
    for line in controller.rest().into_iter().filter(|line| line["job"] == "red/one") {
        match text(&line, "kind") {
            "job_moved" => left = Some(number(&line, "at_ms")),
            "job_started" => gaps.extend(left.take().map(|at: f64| number(&line, "at_ms") - at)),
            _ => {}
        }
    }
    println!("moved {} times, without a switch for {gaps:?} ms", gaps.len());
    assert!(gaps.len() >= 2, "it shrank and grew: {gaps:?}");
}

/// Kills a job's workers after one more all-reduce each, and checks all that they have done.
fn finish(workers: &mut [Process]) {
    for worker in workers.iter_mut() {
        let next = worker.event("all_reduce");
        assert_eq!(number(&next, "wrong"), 0.0, "{next}");
    }
    workers.iter_mut().for_each(Process::kill);
    for line in workers.iter_mut().flat_map(Process::rest) {
        // The second to be killed may see that the first is lost.
        let wrong = line["event"] == "all_reduce" && number(&line, "wrong") != 0.0;
        assert!(!wrong, "{line}");
    }
}
