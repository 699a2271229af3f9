//! `netfold testbed schedule`: two jobs that share a link, from what is measured of them.

use netfold_testkit::namespace;
use netfold_testkit::process::wait_until_ended;
use netfold_testkit::wait::eventually;

use crate::process::{Process, children, namespaces, number, text};

#[test]
fn two_jobs_that_share_a_link_are_measured_and_scheduled() {
    if !namespace::available() {
        return;
    }
    let mut run = Process::start(
        "testbed schedule --schedules cassini,crux --rate 50M --compute 40 --iterations 10 --plot /dev/null",
    );
    for schedule in ["off", "cassini", "crux"] {
        let names: &[&str] = match schedule {
            "cassini" => &["first", "second"],
            "off" => &["first", "second"],
            _ => &["first", "second", "first", "second"],
        };
        for name in names {
            let row = run.event("schedule");
            assert_eq!((text(&row, "schedule"), text(&row, "job")), (schedule, *name), "{row}");
            assert_eq!(number(&row, "wrong"), 0.0, "{row}");
            assert!(number(&row, "iterations") >= 10.0 && number(&row, "mean_ms") >= 40.0, "{row}");
            // What the controller knows is what the ranks have measured themselves.
            let pattern = &row["pattern"];
            assert!(number(pattern, "compute_us") >= 30_000.0 && number(pattern, "members") >= 2.0, "{row}");
            assert!(number(pattern, "bytes") > 200_000.0, "{row}");
            assert_eq!(row["decision"].is_string(), schedule == "cassini", "{row}");
        }
    }
    // Whether the bounds hold in so short a time is for a quiet machine.
    assert!(run.wait().code().is_some());
}

#[test]
fn two_jobs_over_equal_paths_are_ordered_to_use_one_each() {
    // Kernels before Linux 6.11 take no seed.
    let seed = std::path::Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed");
    if !namespace::available() || !seed.exists() {
        return;
    }
    // Iterations for several times as long as from one choice of paths to the next.
    let mut run = Process::start("testbed schedule --paths --rate 50M --compute 40 --iterations 60");
    for (schedule, name) in [
        ("off", "first"),
        ("off", "second"),
        ("off", "first"),
        ("off", "second"),
        ("crux", "first"),
        ("crux", "second"),
    ] {
        let row = run.event("schedule");
        assert_eq!((text(&row, "schedule"), text(&row, "job")), (schedule, name), "{row}");
        assert_eq!(number(&row, "wrong"), 0.0, "{row}");
        assert_eq!(row["decision"].is_string(), schedule == "crux", "{row}");
    }
    // Whether the bounds hold in so short a time is for a quiet machine.
    assert!(run.wait().code().is_some());
}

#[test]
fn an_interrupted_or_killed_run_leaves_no_namespaces_or_processes() {
    if !namespace::available() {
        return;
    }
    for (signal, code) in [("INT", Some(130)), ("KILL", None)] {
        let mut run =
            Process::start("testbed schedule --schedules off --rate 50M --compute 40 --iterations 10000");
        let id = run.id();
        // The switch, three ranks, and the guard of the namespaces.
        eventually("a job", || children(id).len() == 5);
        let children = children(id);
        assert_eq!(namespaces(id).len(), 5, "the switch and four hosts");
        run.signal(signal);
        assert_eq!(run.wait().code(), code, "{signal}");
        children.iter().for_each(|process| wait_until_ended(u64::from(*process)));
        eventually("no namespaces", || namespaces(id).is_empty());
    }
}
