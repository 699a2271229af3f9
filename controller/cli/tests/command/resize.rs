//! Workers that continue without a lost one and admit another, at a switch and at a controller.

use netfold_io::vacant_address;
use serde_json::Value;

use crate::process::{Process, number, run, text};

/// Three workers, of which one is killed; then one joins. `at` says where they join, `describe` what is known of the job there.
fn shrink_and_grow(at: &str, more: &str, describe: &dyn Fn() -> Option<Value>) {
    let rank = |rank: u16| {
        Process::start(&format!(
            "worker {at} --job train --rank {rank} --world 3 --mode i32 --bytes 64KiB --on-loss shrink --grow-after 20 \
             --iterations 10000000 --timeout 60 {more}"
        ))
    };
    let mut workers: Vec<Process> = (0..3).map(rank).collect();
    workers.iter_mut().for_each(|worker| drop(worker.event("all_reduce")));
    let mut killed = workers.remove(1);
    killed.kill();
    for (rank, worker) in (0u16..).zip(&mut workers) {
        let resized = worker.event_after("resized", right);
        assert_eq!(number(&resized, "generation"), 2.0, "{resized}");
        assert_eq!(
            (number(&resized, "rank"), number(&resized, "workers")),
            (f64::from(rank), 2.0),
            "{resized}"
        );
        assert_eq!(resized["lost"], serde_json::json!([1]), "{resized}");
    }
    if let Some(job) = describe() {
        let seen = &job["membership"];
        assert_eq!((number(seen, "generation"), number(seen, "workers")), (2.0, 2.0), "{job}");
    }
    let joining =
        format!("worker {at} --job train --join --mode i32 --bytes 64KiB --iterations 10000000 --timeout 60");
    let mut joined = Process::start(&joining);
    assert_eq!(number(&joined.event("joined"), "rank"), 2.0);
    for worker in &mut workers {
        let resized = worker.event_after("resized", right);
        assert_eq!((number(&resized, "generation"), number(&resized, "workers")), (3.0, 3.0), "{resized}");
    }
    workers.push(joined);
    for worker in &mut workers {
        for _ in 0..20 {
            right(&worker.event("all_reduce"));
        }
    }
}

/// No line reports a wrong sum or an error.
fn right(line: &Value) {
    let wrong = line["event"] == "all_reduce" && number(line, "wrong") != 0.0;
    assert!(!wrong && line["event"] != "error", "{line}");
}

#[test]
fn workers_at_a_switch_continue_without_a_killed_one_and_admit_another() {
    let (_switch, control) = Process::switch("");
    shrink_and_grow(&format!("--switch {control}"), "", &|| None);
}

/// The controller lists one job throughout, and its generation. One worker is suspended for so long that the others continue without it: it finds out.
#[test]
fn workers_at_a_controller_continue_under_the_name_of_their_job() {
    let any = "127.0.0.1:0";
    let mut controller =
        Process::start(&format!("controller --dev --workers {any} --listen {any} --http {any}"));
    let controlling = controller.event("controlling");
    let (workers, grpc) = (text(&controlling, "workers"), text(&controlling, "grpc"));
    let at = format!("--controller {workers} --tenant red");
    let describe = || {
        let (_, lines) = run(&format!("job list --controller {grpc}"));
        let jobs = lines.iter().filter(|line| line["event"] == "job").count();
        assert_eq!(jobs, 1, "{lines:?}");
        let (_, lines) = run(&format!("job describe red/train --controller {grpc}"));
        lines.into_iter().next()
    };
    let rendezvous = vacant_address().unwrap();
    shrink_and_grow(&at, &format!("--rendezvous {rendezvous}"), &describe);

    let rank = |rank: u16| {
        Process::start(&format!(
            "worker {at} --job paused --rank {rank} --world 3 --mode i32 --bytes 4KiB --on-loss shrink --iterations 10000000"
        ))
    };
    let mut running: Vec<Process> = (0..3).map(rank).collect();
    running.iter_mut().for_each(|worker| drop(worker.event("all_reduce")));
    running[2].signal("STOP");
    for worker in &mut running[..2] {
        assert_eq!(worker.event_after("resized", right)["lost"], serde_json::json!([2]));
        right(&worker.event("all_reduce"));
    }
    running[2].signal("CONT");
    let error = running[2].event("error");
    assert_eq!(text(&error, "kind"), "excluded", "{error}");
    assert!(!running[2].wait().success());
    right(&running[0].event("all_reduce"));
}
