//! `netfold demo`.

use netfold_testkit::process::{signal, wait_until_ended};
use serde_json::Value;

use crate::process::{Process, netfold, number, run, text};

/// Names and process ids of the demo's children.
fn children(demo: &mut Process, count: usize) -> Vec<(String, u64)> {
    (0..count)
        .map(|_| {
            let started = demo.event("started");
            (text(&started, "name").to_owned(), number(&started, "pid") as u64)
        })
        .collect()
}

#[test]
fn the_last_line_reports_the_agreement() {
    for more in ["", "--loss 0.02 --mode bfp32"] {
        let (code, lines) = run(&format!("demo --workers 3 --epochs 2 {more}"));
        let summary = lines.last().unwrap();
        assert_eq!(text(summary, "event"), "summary");
        assert_eq!((summary["agrees"].as_bool(), code), (Some(true), Some(0)), "{summary}");
        assert_eq!(summary["identical"], Value::Bool(true), "{summary}");
        let difference = number(summary, "final_loss") - number(summary, "reference_loss");
        assert!(difference.abs() < 0.02 * number(summary, "reference_loss"), "{summary}");
        assert!(number(summary, "seconds") > 0.0);
        assert!(number(summary, "wire_bytes") > 0.0 && number(summary, "f32_bytes") > 0.0);
        if more.is_empty() {
            assert!(number(summary, "wire_bytes") < number(summary, "f32_bytes"), "{summary}");
        } else {
            assert!(number(summary, "retransmits") > 0.0, "{summary}");
        }
        let epochs = lines.iter().filter(|line| line["event"] == "epoch").count();
        assert_eq!(epochs, 3, "before, and after each of two");
    }
}

#[test]
fn shows_a_chart_and_draws_one() {
    let path = std::env::temp_dir().join(format!("netfold-demo-{}.svg", std::process::id()));
    let mut command = netfold("demo --workers 2 --epochs 2 --plot");
    let output = command.arg(&path).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let drawn = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("The two trainings agree") && shown.contains('●'), "{shown}");
    assert!(!shown.contains('\u{1b}'), "colours only on a terminal");
    assert_eq!(drawn.matches("<polyline").count(), 2);
}

#[test]
fn a_killed_worker_is_named_and_no_process_remains() {
    let mut demo = Process::start("demo --workers 3 --epochs 500");
    let children = children(&mut demo, 4);
    demo.event("epoch");
    let (name, pid) = &children[2];
    assert_eq!(name, "worker 1");
    signal(*pid, "KILL");
    let error = demo.event("error");
    assert_eq!(text(&error, "kind"), "child_died");
    assert!(text(&error, "message").contains("worker"), "{error}");
    assert_eq!(demo.wait().code(), Some(1));
    children.iter().for_each(|(_, pid)| wait_until_ended(*pid));
}

#[test]
fn children_end_with_the_demo_however_it_ends() {
    for (name, code) in [("INT", Some(130)), ("TERM", Some(130)), ("KILL", None)] {
        let mut demo = Process::start("demo --workers 2 --epochs 500");
        let children = children(&mut demo, 3);
        demo.event("epoch");
        demo.signal(name);
        assert_eq!(demo.wait().code(), code, "{name}");
        children.iter().for_each(|(_, pid)| wait_until_ended(*pid));
    }
}
