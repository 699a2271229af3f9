//! TLS and client certificates.

use netfold_io::loopback;
use netfold_p4_runtime::v1;
use netfold_switch::{EmptyPipeline, Switch};
use netfold_switch_p4runtime::{Server, ServerConfig, ServerError, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::rig::{Client, Device};

/// A certificate authority for the test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn root(&self) -> Certificate {
        Certificate::from_pem(self.0.pem())
    }

    /// A certificate for this machine, and its key.
    fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    fn server(&self, clients: Option<&Authority>) -> Device {
        let (certificate, key) = self.issue();
        let client_ca = clients.map(|clients| clients.0.pem().into_bytes());
        Device::encrypted(Tls { certificate: certificate.into(), key: key.into(), client_ca })
    }
}

/// Whether a client with these certificates gets a response.
fn responds(device: &Device, tls: ClientTlsConfig) -> bool {
    let endpoint = Endpoint::from_shared(format!("https://localhost:{}", device.address().port())).unwrap();
    let Ok(mut client) = Client::try_connect(endpoint.tls_config(tls).unwrap()) else { return false };
    let answer: Result<v1::CapabilitiesResponse, _> =
        client.unary("/p4.v1.P4Runtime/Capabilities", v1::CapabilitiesRequest {});
    answer.is_ok()
}

fn trusting(authority: &Authority) -> ClientTlsConfig {
    ClientTlsConfig::new().ca_certificate(authority.root()).domain_name("localhost")
}

#[test]
fn a_client_authenticates_the_server_by_its_certificate() {
    let (authority, other) = (Authority::new(), Authority::new());
    let device = authority.server(None);
    assert!(responds(&device, trusting(&authority)));
    assert!(!responds(&device, trusting(&other)), "another root");
    assert!(!responds(&device, trusting(&authority).domain_name("elsewhere")), "another name");
    let plain = Endpoint::from_shared(format!("http://{}", device.address())).unwrap();
    let plain = Client::try_connect(plain);
    let response = plain.map(|mut client| client.ports(netfold_p4_runtime::ports::ListRequest {}));
    assert!(!matches!(response, Ok(Ok(_))), "unencrypted");
    assert!(responds(&device, trusting(&authority)), "the server still responds");
}

#[test]
fn the_server_authenticates_its_clients_by_their_certificates() {
    let (authority, clients, other) = (Authority::new(), Authority::new(), Authority::new());
    let device = authority.server(Some(&clients));
    let with = |from: &Authority| {
        let (certificate, key) = from.issue();
        trusting(&authority).identity(Identity::from_pem(certificate, key))
    };
    assert!(responds(&device, with(&clients)));
    assert!(!responds(&device, trusting(&authority)), "no certificate");
    assert!(!responds(&device, with(&other)), "another root");
    assert!(!responds(&device, with(&authority)), "the server's root is not the clients'");
    assert!(responds(&device, with(&clients)), "the server still responds");
}

#[test]
fn invalid_certificates_are_an_error_at_the_start() {
    let (io, _workers) = loopback::star(1, 64, 1440);
    let switch = Switch::bare(Box::new(EmptyPipeline::new(352)), Box::new(io));
    let handle = switch.handle();
    let thread = std::thread::spawn(move || switch.run());
    let (certificate, key) = Authority::new().issue();
    let (_, other_key) = Authority::new().issue();
    for (certificate, key) in
        [("", key.as_str()), (&certificate, ""), (&certificate, "no PEM"), (&certificate, &other_key)]
    {
        let tls = Some(Tls { certificate: certificate.into(), key: key.into(), client_ca: None });
        let config = ServerConfig { tls, ..ServerConfig::default() };
        let started = Server::start(([127, 0, 0, 1], 0).into(), config, handle.clone());
        assert!(matches!(started, Err(ServerError::Tls(_))), "{started:?}");
    }
    handle.stop();
    thread.join().unwrap().unwrap();
}
