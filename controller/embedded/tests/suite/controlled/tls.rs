//! Workers that connect to their controller by TLS.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold::{Builder, Communicator, Error, ReduceOp, TlsFault};
use netfold_embedded::EmbeddedSwitch;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::test_controller::TestController;
use super::{builder, job, tensor, wrong};
use crate::TIMEOUT;

const GRACE: Duration = Duration::from_secs(20);

/// An authority with its file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = std::env::temp_dir().join(format!("netfold-workers-{}-{name}.pem", std::process::id()));
        std::fs::write(&file, issuer.pem()).unwrap();
        Self { issuer, file }
    }

    /// A server with a certificate for a name.
    fn acceptor(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// A TLS proxy at an address of its own. Ends with the process.
fn tls_proxy(acceptor: TlsAcceptor, inner: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (outer, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut outer) = acceptor.accept(outer).await else { return };
                    let Ok(mut inner) = TcpStream::connect(inner).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
                });
            }
        });
    });
    address
}

#[test]
fn a_job_continues_over_tls_connections_that_break() {
    let authority = Authority::new("job");
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, Some("sesame"));
    let address = tls_proxy(authority.acceptor("127.0.0.1"), controller.address());
    let build = |builder: Builder| builder.tenant("acme", "sesame").controller_ca(&authority.file);
    job(2, address, build, |comm| {
        for step in 0..60 {
            let mut sum = tensor(comm.rank(), step, 5000);
            comm.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            assert_eq!(wrong(&sum, 2, step), 0);
            if comm.rank() == 0 && step % 10 == 5 {
                let before = controller.resumed();
                controller.cut(step);
                let deadline = Instant::now() + TIMEOUT;
                while controller.resumed() == before {
                    assert!(Instant::now() < deadline, "no session was resumed");
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
        comm.leave().unwrap();
    });
    assert!(controller.resumed() >= 6);
}

/// The error of joining there.
fn refused(builder: Builder) -> Error {
    builder.connect().map(|comm| comm.path()).unwrap_err()
}

fn fault(error: Error) -> TlsFault {
    let Error::Tls { fault, address } = error else { panic!("{error}") };
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    *fault
}

#[test]
fn every_tls_failure_is_an_error_that_names_the_reason() {
    let (authority, other) = (Authority::new("doors"), Authority::new("doors-other"));
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    let plain = switch.control();
    let good = tls_proxy(authority.acceptor("127.0.0.1"), controller.address());
    let named = tls_proxy(authority.acceptor("controller.test"), controller.address());
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = |address: SocketAddr| builder(address, 0, 1);

    let wrong = fault(refused(at(good).controller_ca(&other.file)));
    assert!(matches!(wrong, TlsFault::UnknownAuthority { .. }), "{wrong}");
    let wrong = fault(refused(at(named).controller_ca(&authority.file)));
    assert!(wrong.to_string().contains("is for controller.test and not for 127.0.0.1"), "{wrong}");
    // A switch's control port has no TLS.
    let wrong = fault(refused(at(plain).controller_ca(&authority.file)));
    assert!(matches!(wrong, TlsFault::Plain), "{wrong}");
    let wrong = fault(refused(at(silent.local_addr().unwrap()).controller_ca(&authority.file)));
    assert!(matches!(wrong, TlsFault::Silent), "{wrong}");

    let gone = refused(at(good).controller_ca("/nowhere/ca.pem"));
    assert!(gone.kind() == "argument" && gone.to_string().contains("/nowhere/ca.pem"), "{gone}");
    let none = refused(at(good).controller_ca(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")));
    assert!(none.kind() == "argument" && none.to_string().contains("PEM"), "{none}");

    let alone = at(good).controller_ca(&authority.file).connect().unwrap();
    alone.leave().unwrap();
    // With a switch, the authority is not used.
    let own = Communicator::builder().job("own").rank(0).world_size(1).controller_ca("/nowhere/ca.pem");
    own.switch(plain).unwrap().connect().unwrap().leave().unwrap();
}
