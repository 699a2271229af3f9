//! `netfold testbed classes`: two jobs at queues that distinguish their classes.

use netfold_testkit::namespace;

use crate::process::{Process, namespaces, number, text};

#[test]
fn two_jobs_in_classes_of_their_own_are_measured_at_strict_and_weighted_queues() {
    if !namespace::available() {
        return;
    }
    let mut run = Process::start("testbed classes --rate 50M --bytes 64KiB --seconds 1 --plot /dev/null");
    let id = run.id();
    for (service, jobs) in
        [("alone", &["first"][..]), ("strict", &["first", "second"]), ("weighted", &["first", "second"])]
    {
        for job in jobs {
            let row = run.event("classes");
            assert_eq!((text(&row, "service"), text(&row, "job")), (service, *job), "{row}");
            assert_eq!(number(&row, "wrong"), 0.0, "{row}");
            assert_eq!(row["ratio"].is_null(), service == "alone" || *job == "second", "{row}");
            assert!(*job == "second" || number(&row, "iterations") >= 2.0, "{row}");
        }
    }
    // Whether the bounds hold in so short a time is for a quiet machine.
    assert!(run.wait().code().is_some());
    assert!(namespaces(id).is_empty());
}
