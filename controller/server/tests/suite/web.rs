//! The page's files, the metrics and the stream, over HTTP.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use netfold_controller::command::Command;
use netfold_listener::{Closure, policy};
use netfold_server::Reason;
use netfold_server::metrics::METRICS;

use crate::TIMEOUT;
use crate::plane::{ADMIN, HOST, Plane, READER, RED, Served, name};

const PAGE: &str = include_str!("../../../../docs/controller.md");

fn ask(address: SocketAddr, head: &str) -> BufReader<TcpStream> {
    ask_for(address, head, "localhost")
}

/// A request for a host.
fn ask_for(address: SocketAddr, head: &str, host: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "{head}\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    BufReader::new(stream)
}

pub(crate) fn answer(address: SocketAddr, head: &str) -> (String, String) {
    answer_for(address, head, "localhost")
}

fn answer_for(address: SocketAddr, head: &str, host: &str) -> (String, String) {
    let mut text = String::new();
    ask_for(address, head, host).read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    (head.to_owned(), body.to_owned())
}

/// Names of metrics and labels in a scrape.
fn samples(scrape: &str) -> BTreeSet<(String, Vec<String>)> {
    let lines = scrape.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
        let labels =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(labels, _)| labels);
        let labels =
            labels.split(',').filter_map(|label| label.split_once('=')).map(|(label, _)| label.to_owned());
        (name.to_owned(), labels.collect())
    };
    lines.map(sample).collect()
}

#[test]
fn a_scrape_has_the_documented_metrics_and_no_others() {
    let served = Served::open(Plane::populated());
    let address = served.front.http().unwrap();
    crate::run(async {
        let ended = Command::EndJob { name: name("red", "old"), message: "enough".into() };
        served.control.execute(ended).await.unwrap();
        served.control.execute(Command::ForgetJob(name("red", "old"))).await.unwrap();
    });
    // Another task counts the events.
    let deadline = Instant::now() + TIMEOUT;
    let scrape = loop {
        assert!(Instant::now() < deadline, "the event was not counted");
        let (head, body) = answer(address, "GET /metrics HTTP/1.1");
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("openmetrics-text"), "{head}");
        if body.contains("netfold_refusals_total") {
            break body;
        }
    };
    for line in [
        "netfold_switch_slots_used{switch=\"leaf1\"} 256",
        "netfold_switch_up{switch=\"leaf3\",kind=\"software\"} 0",
        "netfold_switch_packets_total{switch=\"leaf1\",result=\"duplicate\"} 321",
        "netfold_job_slots{tenant=\"red\",job=\"train\"} 384",
        "netfold_job_workers{tenant=\"red\",job=\"train\",state=\"here\"} 4",
        "netfold_job_goodput_bytes_per_second{tenant=\"red\",job=\"train\"} 1250000000",
        "netfold_job_packets_retransmitted_total{tenant=\"red\",job=\"train\"} 1000",
        "netfold_job_slowed{tenant=\"red\",job=\"train\",kind=\"late_start\",rank=\"2\"} 0.005",
        "netfold_link_bytes_per_second{a=\"leaf1\",b=\"spine2\"} 625000000",
        "netfold_link_drained{a=\"leaf1\",b=\"spine2\"} 0",
        "netfold_link_demand_bits_per_second{a=\"leaf1\",b=\"spine2\"} 40000000000",
        "netfold_link_demand_measured_bits_per_second{a=\"leaf1\",b=\"spine2\"} 30000000000",
        "netfold_link_rate_bits_per_second{a=\"leaf1\",b=\"spine2\"} 100000000000",
        "netfold_link_retransmission_ratio{a=\"leaf1\",b=\"spine2\"} 0.00025",
        "netfold_access_bytes_per_second{host=\"hosts1\",switch=\"leaf1\"} 2500000000",
        "netfold_tenant_slots_max{tenant=\"blue\"} 512",
        "netfold_refusals_total{reason=\"quota\"} 1",
        "netfold_jobs_ended_total{reason=\"stopped\"} 1",
        "netfold_sessions{} 8",
        "netfold_stall_reports_total{outcome=\"limited\"} 2",
    ] {
        assert!(scrape.lines().any(|shown| shown == line), "no '{line}' in\n{scrape}");
    }
    assert!(scrape.ends_with("# EOF\n"));
    let table: BTreeSet<(String, Vec<String>)> = METRICS
        .iter()
        .map(|(name, labels, _)| {
            ((*name).to_owned(), labels.iter().map(|label| (*label).to_owned()).collect())
        })
        .collect();
    assert_eq!(samples(&scrape), table);
}

#[test]
fn metrics_and_reasons_are_documented() {
    for (name, labels, _) in METRICS {
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{name}`")));
        let row = row.unwrap_or_else(|| panic!("docs/controller.md has no row for {name}"));
        assert!(labels.iter().all(|label| row.contains(&format!("`{label}`"))), "{row}");
    }
    for reason in Reason::ALL {
        assert!(
            PAGE.contains(&format!("| `{}`", reason.name())),
            "docs/controller.md has no row for {reason:?}"
        );
    }
}

#[test]
fn the_page_is_complete_and_loads_nothing_from_other_servers() {
    let served = Served::open(Plane::populated());
    let address = served.front.http().unwrap();
    for (path, media_type) in [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")]
    {
        let (head, body) = answer(address, &format!("GET {path} HTTP/1.1"));
        let head = head.to_lowercase();
        assert!(head.starts_with("http/1.1 200") && head.contains(media_type), "{head}");
        assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
        assert!(!body.replace("http://www.w3.org/2000/svg", "").contains("//www"), "{path}");
        assert!(!body.contains("https:"), "{path}");
    }
    let (_, body) = answer(address, "GET /snapshot HTTP/1.1");
    let snapshot: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(snapshot["switches"][2]["name"], "leaf1");
    assert!(answer(address, "GET /elsewhere HTTP/1.1").0.starts_with("HTTP/1.1 404"));
    assert!(answer(address, "POST / HTTP/1.1").0.starts_with("HTTP/1.1 405"));
    assert!(answer(address, "GET /../../etc/passwd HTTP/1.1").0.starts_with("HTTP/1.1 404"));
}

#[test]
fn pages_and_metrics_require_a_token_if_grpc_does() {
    let served = Served::closed(Plane::populated());
    let address = served.front.http().unwrap();
    for path in ["/", "/metrics", "/snapshot", "/events", "/elsewhere"] {
        let (head, body) = answer(address, &format!("GET {path} HTTP/1.1"));
        assert!(head.starts_with("HTTP/1.1 401") && head.contains("Basic"), "{head}");
        assert!(!body.contains("leaf1"));
        let (head, _) = answer(address, &format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {RED}"));
        assert!(head.starts_with("HTTP/1.1 401"), "a tenant's token does not show everything: {head}");
    }
    for token in [ADMIN, READER] {
        let (head, _) = answer(address, &format!("GET /metrics HTTP/1.1\r\nAuthorization: Bearer {token}"));
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }
}

#[test]
fn requests_for_other_hosts_are_refused() {
    let served = Served::open(Plane::populated());
    let address = served.front.http().unwrap();
    for own in ["localhost", "127.0.0.1", HOST, &format!("{HOST}:{}", address.port()), "[::1]:80"] {
        let (head, _) = answer_for(address, "GET /snapshot HTTP/1.1", own);
        assert!(head.starts_with("HTTP/1.1 200"), "{own}: {head}");
    }
    // The page of another server, whose name resolves to this address.
    for path in ["/", "/page.js", "/metrics", "/snapshot", "/events", "/elsewhere"] {
        let (head, body) = answer_for(address, &format!("GET {path} HTTP/1.1"), "attacker.example:80");
        assert!(head.starts_with("HTTP/1.1 421"), "{path}: {head}");
        assert!(body.contains("--page-host attacker.example\n") && !body.contains("leaf1"), "{body}");
    }
    let (head, _) = answer_for(address, "POST / HTTP/1.1", "attacker.example");
    assert!(head.starts_with("HTTP/1.1 421"), "{head}");
    // The target in absolute form comes before the header.
    let (head, _) = answer_for(address, "GET http://attacker.example/snapshot HTTP/1.1", "localhost");
    assert!(head.starts_with("HTTP/1.1 421"), "{head}");
    // Probes are answered under any name, without the names of switches.
    let (head, body) = answer_for(address, "GET /readyz HTTP/1.1", "attacker.example");
    assert!(head.starts_with("HTTP/1.1 200") && !body.contains("leaf"), "{head} {body}");
}

/// Sends a request on a connection that stays open, and reads the response; returns its first line.
fn ask_on(stream: &TcpStream, token: &str) -> String {
    let request =
        format!("GET /page.css HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    (&*stream).write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line: &String| !line.trim().is_empty()) {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the connection is closed");
        lines.push(line.to_lowercase());
    }
    let len = lines.iter().find_map(|line| line.strip_prefix("content-length:")).unwrap();
    reader.read_exact(&mut vec![0; len.trim().parse().unwrap()]).unwrap();
    lines.swap_remove(0)
}

#[test]
fn an_authenticated_connection_is_not_closed_for_silent_ones() {
    let served = Served::closed(Plane::populated());
    let address = served.front.http().unwrap();
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    };
    let (anonymous, reader) = (connect(), connect());
    assert!(ask_on(&anonymous, "wrong").starts_with("http/1.1 401"));
    assert!(ask_on(&reader, READER).starts_with("http/1.1 200"));
    let _silent: Vec<TcpStream> = (0..policy::PAGE.source_max).map(|_| connect()).collect();
    // The oldest idle one gives way.
    assert!(matches!((&anonymous).read(&mut [0]), Ok(0) | Err(_)));
    assert!(ask_on(&reader, READER).starts_with("http/1.1 200"));
    let page = &served.front.listeners()[1];
    assert!(page.closed(Closure::SourceLimit) > 0 && page.closed(Closure::SourceBusy) == 0);
}

#[test]
fn the_stream_sends_earlier_events_snapshots_and_new_events() {
    let served = Served::open(Plane::populated());
    let address = served.front.http().unwrap();
    let end = |message: &str| {
        let command = Command::EndJob { name: name("red", "train"), message: message.into() };
        let control = served.control.clone();
        crate::run(async move { control.execute(command).await.unwrap() });
    };
    end("before");
    // Another task records the event; wait for it.
    let counted = "netfold_events_total{kind=\"job_ended\"} 1";
    let deadline = Instant::now() + TIMEOUT;
    while !answer(address, "GET /metrics HTTP/1.1").1.contains(counted) {
        assert!(Instant::now() < deadline, "the event was not counted");
    }
    let mut lines = ask(address, "GET /events HTTP/1.1").lines().map(Result::unwrap);
    let mut next = |kind: &str| loop {
        let line = lines.next().expect("the stream continues");
        if line == format!("event: {kind}") {
            let data = lines.next().unwrap();
            break serde_json::from_str::<serde_json::Value>(data.strip_prefix("data: ").unwrap()).unwrap();
        }
    };
    assert_eq!(next("controller_event")["message"], "before");
    while next("snapshot")["switches"][2]["name"] != "leaf1" {}
    end("after");
    assert_eq!(next("controller_event")["message"], "after");
}
