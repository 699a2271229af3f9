//! `netfold testbed run` with process groups, classes and slots that CLOSE completes, on every kind of switch.

use serde_json::Value;

use crate::process::{netfold, number, run, text};

/// Runs it; the last line of a run without a wrong element.
fn correct_run(options: &str) -> Value {
    let (code, lines) = run(&format!("testbed run {options}"));
    let last = lines.last().unwrap().clone();
    assert_eq!(code, Some(0), "{options}: {last}");
    assert_eq!((text(&last, "event"), number(&last, "wrong")), ("testbed_run", 0.0), "{options}: {last}");
    assert_eq!(number(&last, "group_wrong"), 0.0, "{options}: {last}");
    last
}

/// All at once, on such switches, with so many workers in two groups.
fn everything(switches: &str, workers: f64) -> Value {
    let options = format!(
        "{switches} --workers {workers} --groups 2 --all-classes --tolerance 0.5 --payload 256 --elements 3000 --iterations 1"
    );
    let summary = correct_run(&options);
    assert_eq!((number(&summary, "operations"), number(&summary, "group_operations")), (16.0, 32.0));
    let elements = 16.0 * workers * 3000.0;
    let checked = ["checked", "group_checked"].map(|key| number(&summary, key));
    assert_eq!(checked, [elements, elements], "{options}");
    let counted = ["closed", "partial", "left_out"].map(|key| number(&summary, key));
    assert!(counted[0] > 0.0 && counted[0] <= counted[1] && counted[1] <= counted[2], "{options}: {summary}");
    summary
}

#[test]
fn groups_classes_and_closed_slots_on_every_kind_of_switch() {
    for (switches, workers) in [
        ("--switch software --io rings", 6.0),
        ("--switch software --io udp --levels 2", 8.0),
        ("--switch software --io shm --loss 0.005", 4.0),
        ("--switch interpreter --mode bfp32", 4.0),
        ("--switch p4runtime --levels 2", 8.0),
    ] {
        let summary = everything(switches, workers);
        for switch in summary["switches"].as_array().unwrap() {
            assert_eq!(number(switch, "queues"), 8.0, "{switches}: {summary}");
        }
    }
}

#[test]
fn owners_groups_classes_and_closed_slots_go_together() {
    let options = "--collective reduce_scatter --workers 4 --groups 2 --all-classes --tolerance 0.5 --payload 256 --elements 3000 --iterations 2";
    let summary = correct_run(options);
    assert_eq!(number(&summary, "checked"), 2.0 * 16.0 * 3000.0, "each rank has a part: {summary}");
    assert_eq!(number(&summary, "checked"), number(&summary, "group_checked") / 2.0, "{summary}");
    assert!(number(&summary, "closed") > 0.0, "{summary}");
}

#[test]
fn groups_have_trees_and_keys_of_their_own() {
    for options in [
        // Groups of three, three and two; the third has no member at some switches.
        "--levels 3 --workers 8 --groups 3 --mode i32 --loss 0.01 --io udp",
        "--levels 2 --workers 4 --groups 4 --mode half",
        "--levels 2 --workers 6 --groups 2 --authenticated --loss 0.01",
        "--levels 2 --workers 6 --groups 2 --authenticated --io udp --collective all_gather",
        "--workers 4 --groups 2 --confidential --collective reduce --uplink-rate 100M --all-classes",
    ] {
        let summary = correct_run(&format!("{options} --elements 4800 --iterations 1"));
        assert!(number(&summary, "group_checked") > 0.0, "{options}: {summary}");
        assert_eq!(number(&summary, "closed"), 0.0, "{options}: exact");
    }
}

#[test]
fn what_a_switch_or_a_run_cannot_do_is_refused_with_what_to_choose() {
    for (options, word) in [
        ("--workers 4 --groups 5", "choose at most 4 with --groups"),
        ("--groups 2 --io af-xdp", "choose af-packet or packet-ring"),
        ("--tolerance 0.1 --io xdp-kernel", "choose --io rings, udp or shm"),
        ("--all-classes --io xdp-kernel", "choose --io rings, udp or shm"),
        ("--tolerance 0", "above 0"),
        ("--tolerance 0.1 --collective broadcast", "choose --collective all_reduce or reduce_scatter"),
        ("--tolerance 0.1 --mode i32", "choose --mode bfp16 or bfp32"),
        ("--tolerance 0.1 --confidential", "leave --confidential out"),
        ("--tolerance 0.1 --workers 17", "choose at most 16 --workers"),
        ("--tolerance 0.1 --workers 2 --levels 2", "choose more --workers"),
        ("--tolerance 0.1 --workers 4 --levels 2 --groups 2", "no switch has two workers of group 0"),
        ("--tolerance 0.001", "choose a larger --tolerance or more --bytes"),
        ("--groups 2 --slots 4096", "slots 8192..8192+4096 of switch 0"),
    ] {
        let (code, lines) = run(&format!("testbed run {options}"));
        let said = lines.last().map(Value::to_string).unwrap_or_default();
        assert_eq!(code, Some(2), "{options}: {said}");
        assert!(said.contains(word), "{options}: {said}");
        assert!(lines.iter().all(|line| line["event"] != "topology"), "{options}: before anything starts");
    }
}

#[test]
fn groups_and_closed_slots_are_printed() {
    let options =
        "testbed run --workers 4 --groups 2 --tolerance 0.5 --payload 256 --elements 900 --iterations 2";
    let output = netfold(options).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("2 groups: 0 wrong of ") && said.contains(" checked in 4 operations, "), "{said}");
    assert!(said.contains(" slots closed, "), "{said}");
}

#[test]
fn bmv2_switches_have_groups_classes_and_closed_slots() {
    if let Some(tool) = netfold_lab::bmv2::missing_tool() {
        println!("skipped: {tool} is not on PATH (see p4.org)");
        return;
    }
    everything("--switch bmv2 --io grpc", 4.0);
    // Interfaces if this machine permits them, else what needs no privilege.
    everything("--switch bmv2 --levels 2 --mode bfp32", 8.0);
}
