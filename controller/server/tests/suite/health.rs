//! Probes: what is live and ready, and what names the part that is not.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver};

use netfold_controller::Server;
use netfold_controller::admission::Config;
use netfold_controller::command::Command;
use netfold_controller::record::{Change, MemoryStore, RecordReader, Store, StoreError, TokenHash};
use netfold_controller::server::Control;
use netfold_controller::topology::Topology;
use netfold_server::access::Access;
use netfold_server::etcd::CandidateStatus;
use netfold_server::{Frontend, FrontendConfig, StandbyServer};
use netfold_testkit::wait::poll_state;
use serde_json::Value;

use crate::plane::{ADMIN, Plane, READER, Served};
use crate::store::tenant;
use crate::web::answer;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A probe's status and checks.
fn probe(address: SocketAddr, path: &str, token: &str) -> (u16, Value) {
    let header = if token.is_empty() { String::new() } else { format!("\r\nAuthorization: Bearer {token}") };
    let (head, body) = answer(address, &format!("GET {path} HTTP/1.1{header}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let health: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!(health["ok"], status == 200, "{health}");
    (status, health)
}

/// Names of the checks that failed.
fn failed(health: &Value) -> Vec<&str> {
    let checks = health["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["ok"] == false).map(|check| check["check"].as_str().unwrap()).collect()
}

/// Waits until exactly these checks of the readiness probe fail.
fn wait_for(address: SocketAddr, unready: &[&str]) -> Value {
    poll_state(format_args!("unready: {unready:?}"), || {
        let (status, health) = probe(address, "/readyz", "");
        let done = failed(&health) == unready && (status == 200) == unready.is_empty();
        if done { Ok(health) } else { Err(health) }
    })
}

fn config(access: Access) -> FrontendConfig {
    FrontendConfig { grpc: LOOPBACK, http: Some(LOOPBACK), page_hosts: Vec::new(), access, tls: None }
}

#[test]
fn a_controller_with_a_reachable_switch_is_ready() {
    let served = Served::open(Plane::populated());
    let address = served.front.http().unwrap();
    let ready = wait_for(address, &[]);
    assert_eq!(ready["role"], "leader");
    let message = ready["checks"][2]["message"].as_str().unwrap();
    assert_eq!(message, "4 of 5 reachable: leaf3 (the connection was refused)");
    poll_state("live", || match probe(address, "/healthz", "") {
        (200, _) => Ok(()),
        other => Err(other),
    });
    let (head, _) = answer(address, "POST /readyz HTTP/1.1");
    assert!(head.starts_with("HTTP/1.1 405"), "{head}");
}

#[test]
fn probes_need_no_token_and_name_switches_only_with_one() {
    let served = Served::closed(Plane::populated());
    let address = served.front.http().unwrap();
    let anonymous = wait_for(address, &[]).to_string();
    assert!(anonymous.contains("4 of 5 reachable") && !anonymous.contains("leaf3"), "{anonymous}");
    for token in [ADMIN, READER] {
        let named = poll_state("an answer", || match probe(address, "/readyz", token) {
            (200, health) => Ok(health.to_string()),
            other => Err(other),
        });
        assert!(named.contains("leaf3"), "{named}");
    }
}

/// A database in which each change waits for a permit.
struct SlowStore {
    records: MemoryStore,
    permits: Receiver<()>,
}

impl Store for SlowStore {
    fn reader(&mut self) -> Result<RecordReader, StoreError> {
        self.records.reader()
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let _ = self.permits.recv();
        self.records.apply(changes)
    }
}

#[test]
fn readiness_names_the_switches_the_database_and_the_control_plane() {
    let (permits, receiver) = mpsc::sync_channel(0);
    let store = SlowStore { records: MemoryStore::default(), permits: receiver };
    // Port 1 is never listened on.
    let topology = Topology::single("tor", Some("127.0.0.1:1".into())).unwrap();
    let plane = netfold_southbound::managed_plane(topology, Box::new(store)).unwrap();
    let server = Server::over(LOOPBACK, Config::controller(1, 1), plane).unwrap();
    let control = server.control();
    let front = Frontend::start(config(Access::Open), control.clone()).unwrap();
    let address = front.http().unwrap();
    // Not started yet.
    wait_for(address, &["control_plane"]);
    let server = server.spawn().unwrap();
    let health = wait_for(address, &["switches"]);
    assert!(
        health["checks"][2]["message"].as_str().unwrap().starts_with("0 of 1 reachable: tor ("),
        "{health}"
    );

    let adding = std::thread::spawn(move || {
        crate::run(async { control.execute(Command::AddTenant(tenant(1))).await.unwrap() });
    });
    wait_for(address, &["database"]);
    let (status, live) = probe(address, "/healthz", "");
    assert_eq!(
        (status, &live["checks"][0]["message"]),
        (200, &Value::from("waits for its database")),
        "{live}"
    );
    permits.send(()).unwrap();
    adding.join().unwrap();
    wait_for(address, &["switches"]);

    // What the end changes need not be stored.
    drop(permits);
    server.shutdown().unwrap();
    wait_for(address, &["control_plane"]);
    assert_eq!(probe(address, "/healthz", "").0, 503);
}

#[test]
fn a_control_plane_that_does_not_answer_is_not_live() {
    let (control, _answering) = Control::of(Plane::populated());
    let front = Frontend::start(config(Access::Open), control).unwrap();
    let (status, health) = probe(front.http().unwrap(), "/healthz", "");
    assert_eq!((status, failed(&health)), (503, vec!["control_plane"]), "{health}");
}

#[test]
fn a_standby_is_ready_if_etcd_responds_and_names_the_leader() {
    let access = Access::Tokens { admins: vec![TokenHash::of(ADMIN)], readers: Vec::new() };
    let standby = StandbyServer::start(&config(access)).unwrap().unwrap();
    let address = standby.address();
    assert_eq!(probe(address, "/healthz", "").0, 200);
    wait_for(address, &["database"]);
    standby.set_status(&CandidateStatus::Etcd("etcd at 10.0.0.5 failed".into()));
    let health = wait_for(address, &["database"]).to_string();
    assert!(!health.contains("10.0.0.5"), "{health}");
    standby.set_status(&CandidateStatus::Leader("one".into()));
    let health = wait_for(address, &[]);
    assert_eq!(health["role"], "standby");
    assert!(!health.to_string().contains("controller one"), "{health}");
    let (_, health) = probe(address, "/readyz", ADMIN);
    assert!(health.to_string().contains("controller one is the leader"), "{health}");

    let authorization = format!("Authorization: Bearer {ADMIN}");
    let (head, scrape) = answer(address, &format!("GET /metrics HTTP/1.1\r\n{authorization}"));
    assert!(head.starts_with("HTTP/1.1 200") && scrape.contains("\nnetfold_leader{} 0\n"), "{head}{scrape}");
    let (head, page) = answer(address, &format!("GET / HTTP/1.1\r\n{authorization}"));
    assert!(
        head.starts_with("HTTP/1.1 503") && page.contains("controller one is the leader"),
        "{head}{page}"
    );
    for path in ["/", "/metrics"] {
        let (head, _) = answer(address, &format!("GET {path} HTTP/1.1"));
        assert!(head.starts_with("HTTP/1.1 401"), "{head}");
    }
    drop(standby);
    std::net::TcpListener::bind(address).expect("the address is free for the leader's page");
}
