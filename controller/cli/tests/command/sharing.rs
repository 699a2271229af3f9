//! A controller that shares slots by demand: jobs shrink and grow while they run, and every element is correct.

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
    let bench = |tenant: &str, job: &str, iterations: u32| {
        Process::start(&format!(
            "bench all-reduce --controller {workers} --tenant {tenant} --job {job} --workers 2 --rendezvous --mode i32 \
             --bytes 64KiB --slots {all} --warmup 0 --iterations {iterations}"
        ))
    };
    let describe = |job: &str| -> Value {
        let (_, lines) = run(&format!("job describe {job} --controller {grpc}"));
        lines.into_iter().next().unwrap_or_default()
    };
    let wait_for = |job: &str, slots: f64| {
        poll_state(format_args!("{job} with {slots} slots"), || {
            let described = describe(job);
            let there = described["state"] == "running" && number(&described, "slots_held") == slots;
            if there { Ok(()) } else { Err(described) }
        });
    };
    let mut red = bench("red", "one", 12_000);
    wait_for("red/one", all);
    let mut blue = bench("blue", "two", 1_000);
    wait_for("blue/two", all / 2.0);
    wait_for("red/one", all / 2.0);
    let row = blue.event("all_reduce");
    assert_eq!(number(&row, "wrong"), 0.0, "{row}");
    assert!(blue.wait().success());
    wait_for("red/one", all);
    let row = red.event("all_reduce");
    assert_eq!(number(&row, "wrong"), 0.0, "{row}");
    assert!(red.wait().success());

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
