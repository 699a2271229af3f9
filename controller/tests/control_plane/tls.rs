//! The control port behind TLS, over real sockets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::bench::join;
use crate::fake::Fake;
use netfold_control::{Refusal, SessionEvent, SessionRequest};
use netfold_controller::admission::Config;
use netfold_controller::{Server, ServerHandle};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(20);

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn acceptor(&self) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    fn root(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }
}

fn port(tls: Option<TlsAcceptor>) -> ServerHandle {
    let config = Config { lease: Duration::from_secs(60), ..Config::new(1000) };
    let fake = Fake::new(1024, 64, 16);
    let server = Server::bind(([127, 0, 0, 1], 0).into(), config, fake.boxed()).unwrap();
    match tls {
        Some(tls) => server.encrypted(tls),
        None => server,
    }
    .spawn()
    .unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A worker that trusts this authority.
fn secured(address: SocketAddr, authority: &Authority) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.root()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), connect(address))
}

fn say(stream: &mut impl Write, request: &SessionRequest) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(request).unwrap();
    line.push(b'\n');
    stream.write_all(&line)?;
    stream.flush()
}

/// The next event that is not a heartbeat.
fn receive(stream: impl Read) -> SessionEvent {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match serde_json::from_str(&line).unwrap() {
            SessionEvent::Alive {} => {}
            event => return event,
        }
    }
}

fn may_join(address: SocketAddr, authority: &Authority, job: &str, udp_port: u16) {
    let mut worker = secured(address, authority);
    say(&mut worker, &join(job, 0, 1, udp_port)).unwrap();
    assert!(matches!(receive(&mut worker), SessionEvent::Path(_)), "it is challenged when all are in");
}

#[test]
fn workers_that_trust_the_authority_are_admitted_and_others_disconnect() {
    let (authority, other) = (Authority::new(), Authority::new());
    let port = port(Some(authority.acceptor()));
    let address = port.local_addr();
    may_join(address, &authority, "a", 5000);
    let mut stranger = secured(address, &other);
    let refused = say(&mut stranger, &join("b", 0, 1, 5001)).unwrap_err();
    assert!(refused.to_string().contains("invalid peer certificate"), "{refused}");
    may_join(address, &authority, "c", 5002);
    port.shutdown().unwrap();
}

#[test]
fn plain_text_at_a_tls_port_is_refused_with_the_reason() {
    let authority = Authority::new();
    let port = port(Some(authority.acceptor()));
    let mut plain = connect(port.local_addr());
    say(&mut plain, &join("a", 0, 1, 5000)).unwrap();
    let SessionEvent::Refused { reason: Refusal::Protocol, message } = receive(&plain) else {
        panic!("not refused")
    };
    assert!(message.contains("speaks TLS") && message.contains("NETFOLD_CA"), "{message}");
    assert_eq!(plain.read(&mut [0]).unwrap(), 0, "no further data");
    may_join(port.local_addr(), &authority, "a", 5001);
}

#[test]
fn tls_at_a_plain_port_is_answered_at_once() {
    let port = port(None);
    let mut worker = secured(port.local_addr(), &Authority::new());
    let refused = say(&mut worker, &join("a", 0, 1, 5000)).unwrap_err();
    assert!(refused.to_string().contains("InvalidContentType"), "{refused}");
    // The answer is plain text, so that it is readable in a packet capture.
    let mut raw = connect(port.local_addr());
    raw.write_all(&[0x16, 3, 1]).unwrap();
    let SessionEvent::Refused { reason: Refusal::Protocol, message } = receive(&raw) else {
        panic!("not refused")
    };
    assert!(message.contains("does not speak TLS"), "{message}");
}

#[test]
fn stalled_handshakes_are_cut_off_and_delay_no_other_session() {
    let authority = Authority::new();
    let port = port(Some(authority.acceptor()));
    let address = port.local_addr();
    // More than there may be: some say nothing, some stop in the middle.
    let mut silent: Vec<TcpStream> = (0..300).map(|_| connect(address)).collect();
    for stream in silent.iter_mut().step_by(2) {
        // One that was cut off already has no need of it.
        let _ = stream.write_all(&[0x16, 3, 1, 2, 0, 1]);
    }
    may_join(address, &authority, "a", 5000);
    for stream in &mut silent {
        let ended = stream.read(&mut [0; 64]);
        let gone = |kind| matches!(kind, std::io::ErrorKind::ConnectionReset);
        assert!(
            matches!(&ended, Ok(0)) || ended.as_ref().is_err_and(|error| gone(error.kind())),
            "{ended:?}"
        );
    }
    may_join(address, &authority, "b", 5001);
    port.shutdown().unwrap();
}
