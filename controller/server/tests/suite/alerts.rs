//! Alerts and dashboard: they use metrics, labels and values that exist, and each alert has a runbook and a test of its own.

use std::collections::BTreeSet;
use std::process::Command;

use netfold_server::metrics::METRICS;
use netfold_testkit::process::present;
use netfold_wire::Reason;

const PAGE: &str = include_str!("../../../../docs/controller.md");
const DASHBOARD: &str = include_str!("../../../../docs/grafana/netfold.json");
const ALERTS: &str = include_str!("../../../../docs/prometheus/alerts.yml");
const ALERT_TESTS: &str = include_str!("../../../../docs/prometheus/alerts.test.yml");
const RUNBOOKS: &str = include_str!("../../../../docs/alerts.md");

/// Labels that Prometheus adds.
const ADDED: &[&str] = &["instance"];

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Label, operator and value.
type Matcher<'a> = (&'a str, &'a str, String);

/// Each metric in a text with the label matchers behind it.
fn uses(text: &str) -> Vec<(&str, Vec<Matcher<'_>>)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("netfold_") {
        let rest = &text[at..];
        let (name, rest) = rest.split_at(rest.find(|letter| !is_name(letter)).unwrap_or(rest.len()));
        let within =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(within, _)| within);
        let matchers = within.split(',').filter(|matcher| !matcher.is_empty()).map(|matcher| {
            let (label, rest) = matcher.split_at(matcher.find(|letter| !is_name(letter)).unwrap());
            let operator = rest.split('"').next().unwrap();
            (label, operator, rest.trim_start_matches(operator).trim_matches('"').to_owned())
        });
        found.push((name, matchers.collect()));
    }
    found
}

/// The labels of a metric.
fn labels(metric: &str) -> &'static [&'static str] {
    let known = METRICS.iter().find(|(name, ..)| *name == metric);
    known.unwrap_or_else(|| panic!("{metric} is not a metric of the controller")).1
}

/// Whether a label can have a value, as far as the documentation lists the values.
fn is_value(metric: &str, label: &str, value: &str) -> bool {
    match label {
        "result" => Reason::ALL.iter().any(|reason| reason.name() == value),
        "kind" if metric == "netfold_events_total" => {
            let events = PAGE.split("## Events").nth(1).unwrap().split("\n## ").next().unwrap();
            events.contains(&format!("`{value}`"))
        }
        "reason" | "state" if metric != "netfold_refusals_total" => {
            let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{metric}`"))).unwrap();
            row.contains(&format!("`{value}`"))
        }
        _ => true,
    }
}

fn check(what: &str, text: &str) -> usize {
    let uses = uses(text);
    for (metric, matchers) in &uses {
        for (label, _, value) in matchers {
            let known = labels(metric).contains(label) || ADDED.contains(label);
            assert!(known, "{what}: {metric} has no label {label}");
            for value in value.split('|') {
                assert!(is_value(metric, label, value), "{what}: {metric}: {label} is never {value}");
            }
        }
        labels(metric);
    }
    uses.len()
}

/// The names behind a key, in a list of YAML.
fn named<'a>(text: &'a str, key: &str) -> BTreeSet<&'a str> {
    let names = text.lines().filter_map(|line| line.split_once(key)).map(|(_, rest)| rest);
    names.map(|rest| rest.trim().split(',').next().unwrap()).collect()
}

#[test]
fn alerts_and_dashboard_use_existing_metrics_labels_and_values() {
    assert!(check("alerts.yml", ALERTS) >= 20);
    assert!(check("alerts.test.yml", ALERT_TESTS) >= 20);
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    let used = targets.map(|target| {
        let query = target["expr"].as_str().unwrap();
        let count = check("netfold.json", query);
        let legend = target["legendFormat"].as_str().unwrap();
        for label in legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap()) {
            let known = uses(query).iter().all(|(metric, _)| labels(metric).contains(&label));
            assert!(known, "the legend of {query} has {label}");
        }
        count
    });
    assert!(used.sum::<usize>() >= 10);
}

#[test]
fn each_alert_has_a_runbook_and_a_test() {
    let alerts = named(ALERTS, "- alert:");
    assert!(alerts.len() > 10, "{alerts:?}");
    assert_eq!(named(RUNBOOKS, "### "), alerts, "the sections of docs/alerts.md");
    assert_eq!(named(ALERT_TESTS, "alertname:"), alerts, "the alerts that alerts.test.yml tests");
    let anchors: BTreeSet<String> =
        alerts.iter().map(|alert| format!("docs/alerts.md#{}", alert.to_lowercase())).collect();
    assert_eq!(named(ALERTS, "runbook:"), anchors.iter().map(String::as_str).collect());
    // Each fires in its test: the others there say when it does not.
    let fired = ALERT_TESTS.split("alertname: ").skip(1).filter(|test| {
        test.split_once('\n').is_some_and(|(_, rest)| rest.trim_start().starts_with("exp_alerts:\n"))
    });
    let fired: BTreeSet<&str> = fired.map(|test| test.lines().next().unwrap()).collect();
    assert_eq!(fired, alerts);
}

#[test]
fn prometheus_accepts_the_alerts_and_they_fire() {
    if !present("promtool", "the alerts are not checked") {
        return;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/prometheus");
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]] {
        let output = Command::new("promtool").args(arguments).current_dir(folder).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "promtool {arguments:?}: {}", String::from_utf8_lossy(&text));
    }
}
