//! Authentication, authorisation and misbehaving clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use netfold_controller::record::TokenHash;
use netfold_server::access::Access;
use netfold_server::api::v1;
use netfold_server::api::v1::jobs_client::JobsClient;
use netfold_server::api::v1::switches_client::SwitchesClient;
use netfold_server::api::v1::tenants_client::TenantsClient;
use netfold_server::{REQUEST_LEN_MAX, Tls};
use tokio_stream::StreamExt as _;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request};

use crate::calls::{channel, name, reason};
use crate::plane::{ADMIN, BLUE, Plane, READER, RED, Served};
use crate::{TIMEOUT, run};

/// A request with a token.
pub(crate) fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !token.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

const WRONG: &str = "nf_0000000000000000000000000000000000000000000";

#[test]
fn each_token_permits_its_own_calls() {
    let served = Served::closed(Plane::populated());
    run(async {
        let channel = channel(&served).await;
        let mut jobs = JobsClient::new(channel.clone());
        let describe = || v1::DescribeJobRequest { name: name("red", "train") };
        let explain = || v1::ExplainJobRequest { name: name("red", "train") };
        for token in [ADMIN, READER, RED] {
            jobs.describe(with(token, describe())).await.unwrap();
            jobs.explain(with(token, explain())).await.unwrap();
        }
        for (token, code, why) in [
            ("", Code::Unauthenticated, "TOKEN_MISSING"),
            (WRONG, Code::PermissionDenied, "TOKEN_REFUSED"),
            (BLUE, Code::PermissionDenied, "TOKEN_REFUSED"),
        ] {
            let refused = jobs.describe(with(token, describe())).await.unwrap_err();
            assert_eq!((refused.code(), reason(&refused).as_str()), (code, why));
            let refused = jobs.explain(with(token, explain())).await.unwrap_err();
            assert_eq!((refused.code(), reason(&refused).as_str()), (code, why));
        }
        // A missing tenant is indistinguishable from another's.
        let absent = v1::DescribeJobRequest { name: name("absent", "x") };
        let refused = jobs.describe(with(RED, absent)).await.unwrap_err();
        assert_eq!(reason(&refused), "TOKEN_REFUSED");

        let end = || v1::EndJobRequest { name: name("red", "train"), message: String::new() };
        for (token, why) in [("", "TOKEN_MISSING"), (READER, "READ_ONLY"), (BLUE, "TOKEN_REFUSED")] {
            let refused = jobs.end(with(token, end())).await.unwrap_err();
            assert_eq!(reason(&refused), why);
            let spec = Some(v1::JobSpec { world: 2, mode: 1, ..Default::default() });
            let declare = v1::DeclareJobRequest { name: name("red", "new"), spec };
            assert_eq!(reason(&jobs.declare(with(token, declare)).await.unwrap_err()), why);
            let forget = v1::ForgetJobRequest { name: name("red", "old") };
            assert_eq!(reason(&jobs.forget(with(token, forget)).await.unwrap_err()), why);
        }
        jobs.end(with(RED, end())).await.unwrap();

        let list = |tenant: Option<&str>| v1::ListJobsRequest {
            tenant: tenant.map(str::to_owned),
            ..Default::default()
        };
        assert_eq!(jobs.list(with(READER, list(None))).await.unwrap().into_inner().total, 3);
        assert_eq!(jobs.list(with(RED, list(Some("red")))).await.unwrap().into_inner().total, 2);
        assert_eq!(reason(&jobs.list(with(RED, list(None))).await.unwrap_err()), "TENANT_NEEDED");
        assert_eq!(reason(&jobs.list(with(RED, list(Some("blue")))).await.unwrap_err()), "TOKEN_REFUSED");
    });
}

#[test]
fn only_administrators_change_tenants_and_switches() {
    let served = Served::closed(Plane::populated());
    run(async {
        let channel = channel(&served).await;
        let mut tenants = TenantsClient::new(channel.clone());
        let mut switches = SwitchesClient::new(channel.clone());
        for (token, why) in
            [("", "TOKEN_MISSING"), (READER, "READ_ONLY"), (RED, "ADMIN_ONLY"), (WRONG, "ADMIN_ONLY")]
        {
            let add = v1::AddTenantRequest { name: "green".into(), ..Default::default() };
            assert_eq!(reason(&tenants.add(with(token, add)).await.unwrap_err()), why);
            let set = v1::SetTenantRequest { name: "red".into(), quota: None, weight: 9, priority: None };
            assert_eq!(reason(&tenants.set(with(token, set)).await.unwrap_err()), why);
            let rotate = v1::RotateTokenRequest { name: "red".into() };
            assert_eq!(reason(&tenants.rotate_token(with(token, rotate)).await.unwrap_err()), why);
            let remove = v1::RemoveTenantRequest { name: "red".into() };
            assert_eq!(reason(&tenants.remove(with(token, remove)).await.unwrap_err()), why);
            let drain = v1::DrainSwitchRequest { name: "leaf1".into(), drained: true, evict: true };
            assert_eq!(reason(&switches.drain(with(token, drain)).await.unwrap_err()), why);
            let drain =
                v1::DrainLinkRequest { a: "leaf1".into(), b: "spine1".into(), drained: true, evict: true };
            assert_eq!(reason(&switches.drain_link(with(token, drain)).await.unwrap_err()), why);
        }
        // A new token is valid at once, and the old one no longer.
        let rotate = v1::RotateTokenRequest { name: "red".into() };
        let token = tenants.rotate_token(with(ADMIN, rotate)).await.unwrap().into_inner().token;
        let mut jobs = JobsClient::new(channel);
        let describe = || v1::DescribeJobRequest { name: name("red", "train") };
        jobs.describe(with(&token, describe())).await.unwrap();
        assert_eq!(reason(&jobs.describe(with(RED, describe())).await.unwrap_err()), "TOKEN_REFUSED");
    });
}

#[test]
fn a_tenant_sees_only_its_own() {
    let served = Served::closed(Plane::populated());
    run(async {
        let channel = channel(&served).await;
        let mut switches = SwitchesClient::new(channel.clone());
        let request = v1::DescribeSwitchRequest { name: "leaf1".into(), tenant: Some("red".into()) };
        let leaf = switches.describe(with(RED, request)).await.unwrap().into_inner();
        let shown: Vec<_> = leaf.ranges.iter().map(|range| range.job.clone()).collect();
        assert_eq!(shown, [name("red", "train"), None]);
        assert!(leaf.packets.is_empty());
        let request = v1::ListSwitchesRequest { tenant: Some("red".into()) };
        let listed = switches.list(with(RED, request)).await.unwrap().into_inner();
        assert!(listed.links.len() == 6 && listed.links.iter().all(|link| link.traffic.is_none()));
        assert!(listed.access.is_empty(), "hosts of other tenants");
        assert!(listed.links.iter().all(|link| (link.demand, link.demand_measured) == (0, 0)));
        let jobs = listed.links.iter().flat_map(|link| &link.jobs);
        assert!(jobs.clone().count() == 6 && jobs.clone().all(|over| over.job == name("red", "train")));

        let mut tenants = TenantsClient::new(channel.clone());
        let own = v1::ListTenantsRequest { tenant: Some("red".into()) };
        assert_eq!(tenants.list(with(RED, own)).await.unwrap().into_inner().tenants.len(), 1);
        assert_eq!(
            reason(&tenants.list(with(RED, v1::ListTenantsRequest::default())).await.unwrap_err()),
            "TENANT_NEEDED"
        );

        let mut jobs = JobsClient::new(channel);
        let watch = v1::WatchRequest { tenant: Some("red".into()), job: String::new() };
        let mut watched = jobs.watch(with(RED, watch)).await.unwrap().into_inner();
        for (tenant, job) in [("blue", "tune"), ("red", "train")] {
            let end = v1::EndJobRequest { name: name(tenant, job), message: "over".into() };
            jobs.end(with(ADMIN, end)).await.unwrap();
        }
        let drain = v1::DrainSwitchRequest { name: "leaf1".into(), drained: true, evict: false };
        switches.drain(with(ADMIN, drain)).await.unwrap();
        let first = watched.next().await.unwrap().unwrap().event.unwrap();
        assert_eq!(first.job, name("red", "train"), "not the other tenant's earlier event");
    });
}

#[test]
fn an_oversized_message_is_refused_and_the_connection_continues() {
    let served = Served::closed(Plane::populated());
    run(async {
        let mut jobs = JobsClient::new(channel(&served).await);
        let message = "x".repeat(REQUEST_LEN_MAX + 1);
        let refused = jobs
            .end(with(ADMIN, v1::EndJobRequest { name: name("red", "train"), message }))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
        jobs.describe(with(ADMIN, v1::DescribeJobRequest { name: name("red", "train") })).await.unwrap();
    });
}

#[test]
fn silent_and_invalid_clients_are_disconnected_and_do_not_block_others() {
    let served = Served::closed(Plane::populated());
    let silent: Vec<TcpStream> = (0..32).map(|_| TcpStream::connect(served.front.grpc()).unwrap()).collect();
    let mut invalid = TcpStream::connect(served.front.grpc()).unwrap();
    invalid.write_all(&[b'x'; 4096]).unwrap();
    invalid.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut answer = Vec::new();
    // Closed or reset: both are accepted.
    let _ = invalid.read_to_end(&mut answer);
    run(async {
        let mut jobs = JobsClient::new(channel(&served).await);
        jobs.describe(with(ADMIN, v1::DescribeJobRequest { name: name("red", "train") })).await.unwrap();
    });
    let begun = Instant::now();
    for mut stream in silent {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap_or_else(|error| panic!("{error} after {:?}", begun.elapsed()));
    }
}

#[test]
fn a_watcher_that_does_not_read_is_disconnected_and_does_not_block_others() {
    let served = Served::closed(Plane::populated());
    run(async {
        let narrow = Endpoint::from_shared(served.grpc()).unwrap().initial_stream_window_size(65_535);
        let mut slow = JobsClient::new(narrow.connect().await.unwrap());
        let mut watched = slow.watch(with(READER, v1::WatchRequest::default())).await.unwrap().into_inner();
        let mut jobs = JobsClient::new(channel(&served).await);
        // More than all queues and windows on the path hold.
        for number in 0..4_000 {
            let message = format!("{number} {}", "x".repeat(200));
            jobs.end(with(ADMIN, v1::EndJobRequest { name: name("red", "train"), message })).await.unwrap();
        }
        let mut received = 0;
        let end = loop {
            match watched.next().await {
                Some(Ok(_)) => received += 1,
                Some(Err(status)) => break status,
                None => panic!("ended without a reason after {received}"),
            }
        };
        assert_eq!((end.code(), reason(&end).as_str()), (Code::DataLoss, "FELL_BEHIND"), "after {received}");
    });
}

/// A certificate authority.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: rcgen::Issuer::new(params, key), certificate }
    }

    /// A certificate and its key.
    fn signs(&self, name: &str) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

fn tls(served: &Served, authority: &Authority, own: Option<(String, String)>) -> Endpoint {
    let mut config = ClientTlsConfig::new()
        .domain_name("localhost")
        .ca_certificate(Certificate::from_pem(&authority.certificate));
    if let Some((certificate, key)) = own {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    let address = format!("https://{}", served.front.grpc());
    Endpoint::from_shared(address)
        .unwrap()
        .tls_config(config)
        .unwrap()
        .connect_timeout(Duration::from_secs(20))
}

async fn calls(endpoint: Endpoint) -> Result<(), Box<dyn std::error::Error>> {
    let channel = endpoint.connect().await?;
    let request = v1::DescribeJobRequest { name: name("red", "train") };
    JobsClient::new(channel).describe(with(ADMIN, request)).await?;
    Ok(())
}

#[test]
fn tls_and_mutual_tls_accept_known_peers_only() {
    let (ours, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let access = || Access::Tokens { admins: vec![TokenHash::of(ADMIN)], readers: Vec::new() };
    let (certificate, key) = ours.signs("localhost");
    let server = |client_ca: Option<&Authority>| Tls {
        certificate: certificate.clone().into(),
        key: key.clone().into(),
        client_ca: client_ca.map(|authority| authority.certificate.clone().into()),
    };
    let one_way = Served::start(Plane::populated(), access(), Some(server(None)));
    let mutual = Served::start(Plane::populated(), access(), Some(server(Some(&clients))));
    run(async {
        calls(tls(&one_way, &ours, None)).await.unwrap();
        calls(tls(&mutual, &ours, Some(clients.signs("worker")))).await.unwrap();
        calls(tls(&one_way, &others, None)).await.expect_err("a server of an unknown authority");
        calls(tls(&mutual, &ours, None)).await.expect_err("a client without a certificate");
        calls(tls(&mutual, &ours, Some(others.signs("worker"))))
            .await
            .expect_err("a certificate of an unknown authority");
        for served in [&one_way, &mutual] {
            let plain = Endpoint::from_shared(served.grpc()).unwrap();
            calls(plain).await.expect_err("plain text at a TLS port");
            // The port continues to serve.
            calls(tls(served, &ours, Some(clients.signs("worker")))).await.unwrap();
        }
    });
    let mut plain = TcpStream::connect(one_way.front.http().unwrap()).unwrap();
    plain.set_read_timeout(Some(TIMEOUT)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "the page came in plain text");
}

#[test]
fn invalid_certificates_are_errors_at_the_start() {
    let config = |tls| netfold_server::FrontendConfig {
        grpc: ([127, 0, 0, 1], 0).into(),
        http: None,
        page_hosts: Vec::new(),
        access: Access::Open,
        tls: Some(tls),
    };
    let ours = Authority::new();
    let ((certificate, key), (_, other)) = (ours.signs("localhost"), ours.signs("localhost"));
    let served = Served::open(Plane::populated());
    for (certificate, key) in
        [(certificate.as_str(), "no key"), ("no certificate", key.as_str()), (&certificate, &other)]
    {
        let tls = Tls { certificate: certificate.into(), key: key.into(), client_ca: None };
        let refused = netfold_server::Frontend::start(config(tls), served.control.clone());
        assert!(refused.is_err(), "{certificate} {key}");
    }
}
