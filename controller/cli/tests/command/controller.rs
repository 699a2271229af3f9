//! `netfold controller --dev`, and the commands that call it.

use std::collections::BTreeSet;

use netfold_testkit::wait::poll_state;
use serde_json::Value;

use crate::documentation::keys;
use crate::process::{Process, netfold, number, run, text};

const PAGE: &str = include_str!("../../../../docs/controller.md");

/// A controller on free ports, and its addresses.
pub(crate) fn dev(more: &str) -> (Process, String, String) {
    let any = "127.0.0.1:0";
    let mut process =
        Process::start(&format!("controller --dev --workers {any} --listen {any} --http {any} {more}"));
    let controlling = process.event("controlling");
    assert_eq!(controlling["tenants"], serde_json::json!(["red", "blue"]));
    let (workers, grpc) = (text(&controlling, "workers").to_owned(), text(&controlling, "grpc").to_owned());
    (process, workers, grpc)
}

/// The one line that a command prints.
pub(crate) fn one(arguments: &str) -> Value {
    let (code, lines) = run(arguments);
    assert_eq!(code, Some(0), "{arguments}: {lines:?}");
    assert_eq!(lines.len(), 1, "{arguments}: {lines:?}");
    lines.into_iter().next().unwrap()
}

/// A command's output for people.
fn shown(arguments: &str) -> String {
    let output = netfold(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "wider than a page: {text}");
    text
}

/// A job in a state, waited for; a running one, until its switches are set up, when its record is stored.
pub(crate) fn wait_for(grpc: &str, job: &str, state: &str) -> Value {
    poll_state(format_args!("{job} in state {state}"), || {
        let (_, lines) = run(&format!("job describe {job} --controller {grpc}"));
        let line = lines.into_iter().next().unwrap();
        let set_up = state != "running" || line["trees"][0]["phase"] == "running";
        if line["state"] == state && set_up { Ok(line) } else { Err(line) }
    })
}

#[test]
fn jobs_tenants_and_switches_of_a_controller_are_shown_and_changed() {
    let (mut controller, _, grpc) = dev("");
    let at = format!("--controller {grpc}");
    let switch = one(&format!("switch describe switch {at}"));
    assert_eq!((text(&switch, "event"), &switch["up"]), ("switch", &Value::Bool(true)));
    assert_eq!(number(&switch, "slots"), 8192.0);

    let (_, tenants) = run(&format!("tenant list {at}"));
    assert_eq!(tenants.iter().map(|tenant| text(tenant, "tenant")).collect::<Vec<_>>(), ["blue", "red"]);
    assert_eq!(tenants[0]["quota"]["slots"], Value::Null, "tenants share all slots");
    let added = one(&format!("tenant add green --slots 64 --weight 2 {at}"));
    assert!(text(&added, "token").starts_with("nf_"));
    let rotated = one(&format!("tenant rotate green {at}"));
    assert_ne!(rotated["token"], added["token"]);
    assert_eq!(number(&one(&format!("tenant set green --weight 3 {at}")), "weight"), 3.0);
    assert_eq!(number(&one(&format!("tenant set green --priority 4 {at}")), "priority"), 4.0);
    one(&format!("tenant remove green {at}"));

    let declared = one(&format!("job declare red/later --world 4 --mode bfp32 {at}"));
    assert_eq!((text(&declared, "state"), &declared["declared"]), ("declared", &Value::Bool(true)));
    let listed = one(&format!("job list --tenant red --state declared {at}"));
    assert_eq!(text(&listed, "job"), "later");
    assert!(shown(&format!("job list {at}")).contains("red/later"));
    assert!(
        shown(&format!("job describe red/later {at}"))
            .contains("4 workers, bfp32, 256 slots a tree, 1 class, 1 tree\n")
    );
    one(&format!("job forget red/later {at}"));
    assert_eq!(shown(&format!("job list {at}")), "no jobs\n");

    assert_eq!(one(&format!("switch drain switch {at}"))["drained"], true);
    assert!(shown(&format!("switch list {at}")).contains("drained"));
    assert_eq!(one(&format!("switch undrain switch {at}"))["drained"], false);
    let frame = shown(&format!("top --once {at}"));
    for part in ["1 of 1 switches up", "switch", "slots by job", "jobs", "events"] {
        assert!(frame.contains(part), "no '{part}' in\n{frame}");
    }
    let changed = controller.event("controller_event");
    assert_eq!(text(&changed, "kind"), "tenant_changed");

    let mut names = BTreeSet::new();
    [&declared, &added, &tenants[0], &changed].into_iter().for_each(|line| keys(line, &mut names));
    // Keys of packets are reasons, which docs/operations.md documents.
    let mut described = switch;
    described.as_object_mut().unwrap().remove("packets");
    keys(&described, &mut names);
    names.insert("packets".into());
    names.remove("event");
    let unknown: Vec<&String> = names.iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
    assert!(names.len() > 30 && unknown.is_empty(), "not in docs/controller.md: {unknown:?}");
    controller.signal("TERM");
    assert!(controller.wait().success());
}

#[test]
fn missing_objects_and_controllers_are_errors() {
    let (_controller, _, grpc) = dev("");
    for (wrong, kind) in [
        ("job describe red/absent", "not_found"),
        ("job end red/absent", "not_found"),
        ("job declare red/x --world 2 --slots 100", "invalid"),
        ("tenant add red", "exists"),
        ("tenant remove absent", "not_found"),
        ("switch describe absent", "not_found"),
    ] {
        let (code, lines) = run(&format!("{wrong} --controller {grpc}"));
        let error = lines.last().unwrap();
        assert_eq!((code, text(error, "kind")), (Some(1), kind), "{wrong}: {error}");
    }
    let (code, lines) = run("job list --controller 127.0.0.1:1");
    let error = lines.last().unwrap();
    assert_eq!((code, text(error, "kind")), (Some(1), "no_controller"));
    assert!(text(error, "message").contains("127.0.0.1:1"), "{error}");
    assert!(text(error, "message").contains("netfold controller --dev"), "{error}");
}

#[test]
fn insecure_settings_need_an_option() {
    for (wrong, option) in [
        ("controller --dev --http 0.0.0.0:0", "--insecure"),
        ("controller --topology x --state y", "--insecure"),
        ("controller", "netfold controller --dev"),
        ("controller --topology x", "--state"),
        ("controller --dev --tls-cert x", "--tls-key"),
        ("tenant set red", "--slots"),
        ("job list --state dancing", "running"),
    ] {
        let (code, lines) = run(wrong);
        let error = lines.last().unwrap();
        assert_eq!((code, text(error, "kind")), (Some(2), "usage"), "{wrong}: {error}");
        assert!(text(error, "message").contains(option), "{wrong}: {error}");
    }
    let (_, lines) = run("controller --topology /nowhere.toml --state /nowhere.redb --insecure");
    assert_eq!(text(lines.last().unwrap(), "kind"), "file");
}

#[test]
fn two_tenants_run_jobs_at_once_and_a_third_job_is_refused() {
    let (_controller, workers, grpc) = dev("--sharing static");
    let bench = |tenant: &str, job: &str| {
        Process::start(&format!(
            "bench all-reduce --controller {workers} --tenant {tenant} --job {job} --workers 2 --bytes 256KiB \
             --slots 4096 --warmup 1 --iterations 1000000"
        ))
    };
    let (mut red, mut blue) = (bench("red", "one"), bench("blue", "two"));
    for job in ["red/one", "blue/two"] {
        let described = wait_for(&grpc, job, "running");
        assert_eq!(number(&described, "slots_held"), 4096.0, "{described}");
        assert_eq!(described["trees"][0]["members"].as_array().unwrap().len(), 2);
        poll_state(format_args!("traffic of {job}"), || traffic(&grpc, job));
    }
    let at = format!("--controller {grpc}");
    let listed = shown(&format!("job list {at}"));
    assert_eq!(listed.matches("B/s").count(), 2, "the goodput of both jobs: {listed}");
    let frame = shown(&format!("top --once {at}"));
    assert_eq!(frame.matches("B/s").count(), 3, "the goodput of both jobs, the traffic of the link: {frame}");
    assert!(frame.contains("any - switch") && frame.contains("4 workers"), "{frame}");
    access_link(&at);
    assert!(shown(&format!("job describe red/one {at}")).contains("B/s for each worker"));
    let mut third = bench("red", "three");
    let refused = third.event("error");
    assert!(["quota", "slots"].contains(&text(&refused, "kind")), "{refused}");
    assert!(!third.wait().success());
    // Both run until they are ended, so that the third finds them.
    for (job, bench) in [("red/one", &mut red), ("blue/two", &mut blue)] {
        one(&format!("job end {job} --controller {grpc}"));
        assert!(!bench.wait().success(), "{job} was ended");
    }
    let ended = wait_for(&grpc, "red/one", "ended");
    assert_eq!(number(&ended, "slots_held"), 0.0, "{ended}");
}

/// A job whose workers have all reported traffic, with documented keys.
fn traffic(grpc: &str, job: &str) -> Result<(), Value> {
    let line = one(&format!("job describe {job} --controller {grpc}"));
    let members = line["trees"][0]["members"].as_array().unwrap();
    let sent = |member: &Value| member["counters"]["packets_sent"].as_f64().is_some_and(|sent| sent > 0.0);
    let moving = line["traffic"]["goodput"].as_f64().is_some_and(|goodput| goodput > 0.0);
    if !moving || !members.iter().all(sent) {
        return Err(line);
    }
    let totals = &line["traffic"]["totals"];
    assert!(number(totals, "tensor_bytes") > 0.0 && number(totals, "results_received") > 0.0, "{line}");
    assert!(number(totals, "packets_retransmitted") <= number(totals, "packets_sent"), "{line}");
    assert!((0.0..=1.0).contains(&number(&line["traffic"], "retransmission_ratio")), "{line}");
    let mut names = BTreeSet::new();
    [&line["traffic"], &members[0]].into_iter().for_each(|value| keys(value, &mut names));
    let unknown: Vec<&String> = names.iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
    assert!(names.len() > 10 && unknown.is_empty(), "not in docs/controller.md: {unknown:?}");
    Ok(())
}

/// The link of the only host, over which four workers send, has documented keys.
fn access_link(at: &str) {
    let (_, lines) = run(&format!("switch list {at}"));
    let link = lines.iter().find(|line| line["event"] == "access_link").unwrap();
    assert_eq!((text(link, "host"), text(link, "switch"), number(link, "workers")), ("any", "switch", 4.0));
    let traffic = &link["traffic"];
    assert!(number(traffic, "bytes_per_second") > number(traffic, "packets_per_second"), "{link}");
    assert!((0.0..=1.0).contains(&number(traffic, "retransmission_ratio")), "{link}");
    let mut names = BTreeSet::new();
    keys(link, &mut names);
    names.remove("event");
    let unknown: Vec<&String> = names.iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
    assert!(names.len() >= 7 && unknown.is_empty(), "not in docs/controller.md: {unknown:?}");
}

#[test]
fn declared_jobs_are_read_after_a_kill() {
    let state = std::env::temp_dir().join(format!("netfold-state-{}.redb", std::process::id()));
    let kept = format!("--state {}", state.display());
    let (mut controller, _, grpc) = dev(&kept);
    one(&format!("job declare blue/kept --world 4 --controller {grpc}"));
    controller.signal("KILL");
    controller.wait();
    let (_controller, _, grpc) = dev(&kept);
    let described = one(&format!("job describe blue/kept --controller {grpc}"));
    assert_eq!(number(&described["spec"], "workers"), 4.0);
    let _ = std::fs::remove_file(state);
}

#[test]
fn the_jobs_of_an_unknown_tenant_are_an_error_and_not_an_empty_list() {
    let (_controller, _workers, grpc) = dev("");
    let (code, lines) = run(&format!("job list --controller {grpc} --tenant read"));
    let error = lines.last().unwrap();
    assert_eq!((code, text(error, "event")), (Some(1), "error"), "{error}");
    assert!(text(error, "message").contains("there is no tenant 'read'"), "{error}");
    let (code, _) = run(&format!("job list --controller {grpc} --tenant red"));
    assert_eq!(code, Some(0));
}
