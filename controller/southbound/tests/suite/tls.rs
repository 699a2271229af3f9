//! Switches behind TLS: which controllers are accepted, and the error of every refusal.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netfold_controller::SwitchDriver;
use netfold_controller::topology::{SwitchId, Tls, Topology};
use netfold_southbound::p4runtime::{
    Client, ClientConfig, ConnectError, Managed, ManagedConfig, P4RuntimeError, configure,
};
use netfold_switch_p4runtime as device;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

use crate::rig::{Device, Watched, config, peer, pipeline};

/// An authority and the folder of its files.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = std::env::temp_dir().join(format!("netfold-south-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let authority = Self { issuer, folder };
        authority.write("ca.pem", &authority.issuer.pem());
        authority
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.folder.join(file);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// A certificate for `localhost`, and its key.
    fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        change(&mut params);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A switch with a certificate of this authority.
    fn switch(&self, clients: Option<&Authority>) -> Device {
        self.switch_with(clients, |_| {})
    }

    fn switch_with(
        &self,
        clients: Option<&Authority>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Device {
        let (certificate, key) = self.issue(change);
        let client_ca = clients.map(|clients| clients.issuer.pem().into_bytes());
        let tls = device::Tls { certificate: certificate.into(), key: key.into(), client_ca };
        Device::encrypted(tls)
    }

    /// Trusts this authority and no other.
    fn trusted(&self) -> Tls {
        Tls { ca: Some(self.ca()), server_name: Some("localhost".into()), ..Tls::default() }
    }

    /// The same, with a certificate of another authority.
    fn known_by(&self, clients: &Authority) -> Tls {
        let (certificate, key) = clients.issue(|_| {});
        Tls {
            certificate: Some(clients.write("controller.pem", &certificate)),
            key: Some(clients.write("controller.key", &key)),
            ..self.trusted()
        }
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn managed(address: SocketAddr, tls: Option<Tls>) -> ManagedConfig {
    ManagedConfig { tls, ..config(address) }
}

fn works(device: &Device, tls: Tls) {
    let mut watched = Watched::start(managed(device.address(), Some(tls)), Vec::new());
    watched.up();
    watched.switch.bind_port(1, peer(1)).unwrap();
}

#[test]
fn a_switch_is_kept_over_tls_and_over_mutual_tls() {
    let (authority, clients) = (Authority::new("good"), Authority::new("good-clients"));
    let device = authority.switch(None);
    works(&device, authority.trusted());
    // A certificate that the server does not request does no harm.
    works(&device, authority.known_by(&clients));
    works(&authority.switch(Some(&clients)), authority.known_by(&clients));
    let by_address = authority.switch_with(None, |params| {
        params.subject_alt_names.push(rcgen::SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()));
    });
    works(&by_address, Tls { server_name: None, ..authority.trusted() });
}

/// Why a switch is down, which it must be.
fn reason(address: SocketAddr, tls: Option<Tls>) -> String {
    let config = ManagedConfig { connect_within: Duration::from_millis(500), ..managed(address, tls) };
    Watched::start(config, Vec::new()).wait_down()
}

#[test]
fn every_refusal_has_a_reason_and_a_remedy() {
    let authority = Authority::new("doors");
    let (clients, other) = (Authority::new("doors-clients"), Authority::new("doors-other"));
    let elsewhere = Tls { server_name: Some("elsewhere".into()), ..authority.trusted() };
    let (open, mutual) = (authority.switch(None), authority.switch(Some(&clients)));
    let plain = Device::start();
    let expired = authority.switch_with(None, |params| params.not_after = date_time_ymd(2001, 1, 1));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (at, tls, said) in [
        (open.address(), Some(other.trusted()), "not of an authority in"),
        (open.address(), Some(elsewhere), "is for localhost and not for elsewhere: enter the right one"),
        (open.address(), None, "speaks TLS: enter a `tls`"),
        (mutual.address(), Some(authority.trusted()), "asks for a certificate of the controller"),
        (mutual.address(), Some(authority.known_by(&other)), "refuses the controller's certificate"),
        (mutual.address(), None, "speaks TLS: enter a `tls`"),
        (plain.address(), Some(authority.trusted()), "does not speak TLS: start it with certificates"),
        (expired.address(), Some(authority.trusted()), "has expired"),
        (silent.local_addr().unwrap(), Some(authority.trusted()), "does not go on with the handshake"),
    ] {
        let reason = reason(at, tls);
        assert!(reason.contains("TLS with switch s1 at 127.0.0.1:"), "{reason}");
        assert!(reason.contains(said), "{said} is not in: {reason}");
    }
    // None of that has hurt.
    works(&open, authority.trusted());
    works(&mutual, authority.known_by(&clients));
}

/// Of 30 refusals, which come when the handshake is over on the controller's side, none looks like a broken connection.
#[test]
fn a_required_certificate_is_always_reported() {
    let (authority, clients) = (Authority::new("always"), Authority::new("always-clients"));
    let mutual = authority.switch(Some(&clients));
    for _ in 0..30 {
        let reason = reason(mutual.address(), Some(authority.trusted()));
        assert!(reason.contains("asks for a certificate"), "{reason}");
    }
}

#[test]
fn files_that_are_no_use_are_an_error_at_the_start() {
    let authority = Authority::new("files");
    let (certificate, key) = authority.issue(|_| {});
    let (_, other_key) = authority.issue(|_| {});
    let (certificate, key) = (authority.write("c.pem", &certificate), authority.write("c.key", &key));
    let other_key = authority.write("other.key", &other_key);
    let none = authority.write("none.pem", "nothing of the kind\n");
    let broken =
        authority.write("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let gone = authority.folder.join("gone.pem");
    let pair =
        |c: &Path, k: &Path| Tls { certificate: Some(c.into()), key: Some(k.into()), ..authority.trusted() };
    let ca = |path: &Path| Tls { ca: Some(path.into()), ..authority.trusted() };
    for (tls, said) in [
        (ca(&gone), "cannot read"),
        (ca(&none), "none.pem holds no certificate in PEM"),
        (ca(&broken), "broken.pem cannot be used as the certificate of an authority"),
        (pair(&certificate, &gone), "cannot read"),
        (pair(&certificate, &none), "none.pem holds no private key in PEM"),
        (pair(&none, &key), "none.pem holds no certificate in PEM"),
        (pair(&certificate, &other_key), "do not belong together"),
        (Tls { certificate: Some(certificate.clone()), ..authority.trusted() }, "name both files or none"),
        (Tls { key: Some(key.clone()), ..authority.trusted() }, "name both files or none"),
        (Tls { server_name: Some("no name".into()), ..authority.trusted() }, "is no name for a certificate"),
    ] {
        let config = managed(([127, 0, 0, 1], 1).into(), Some(tls.clone()));
        let Err(P4RuntimeError::Tls { source, .. }) = Managed::start(config, pipeline(), Vec::new(), drop)
        else {
            panic!("{said}")
        };
        assert!(source.to_string().contains(said), "{said} is not in: {source}");
        let client = ClientConfig { tls: Some(tls), ..ClientConfig::default() };
        assert!(matches!(Client::connect("127.0.0.1:1", client), Err(P4RuntimeError::Tls { .. })));
    }
    works(&authority.switch(Some(&authority)), pair(&certificate, &key));
}

#[test]
fn a_topology_names_files_relative_to_its_folder() {
    let authority = Authority::new("topology");
    let device = authority.switch(None);
    let text = format!(
        "[[switch]]\nname = \"s1\"\np4runtime = \"localhost:{}\"\ntls = {{ ca = \"ca.pem\" }}\n",
        device.address().port()
    );
    let topology = Topology::from_toml(&text).unwrap().relative_to(&authority.folder);
    let (config, _) = configure(&topology, SwitchId(0)).unwrap();
    Watched::start(config, Vec::new()).up();
    let lost = Topology::from_toml(&text.replace("ca.pem", "gone.pem")).unwrap();
    let Err(ConnectError::Tls { switch, source }) =
        configure(&lost.relative_to(&authority.folder), SwitchId(0))
    else {
        panic!("a file that is not there")
    };
    assert!(switch == "s1" && source.to_string().contains("gone.pem"), "{source}");
}

#[test]
fn files_are_read_again_for_each_connection() {
    let (authority, other) = (Authority::new("renewed"), Authority::new("renewed-other"));
    let device = authority.switch(None);
    let tls = other.trusted();
    let watched = Watched::start(managed(device.address(), Some(tls)), Vec::new());
    let reason = watched.wait_down();
    assert!(reason.contains("not of an authority"), "{reason}");
    std::fs::remove_file(other.ca()).unwrap();
    let reason = watched.wait_down();
    assert!(reason.contains("cannot read"), "{reason}");
    std::fs::copy(authority.ca(), other.ca()).unwrap();
    watched.up();
}

#[test]
fn a_blocking_client_connects_so_too() {
    let (authority, clients) = (Authority::new("client"), Authority::new("client-clients"));
    let device = authority.switch(Some(&clients));
    let at = device.address().to_string();
    let connect = |tls: Option<Tls>| Client::connect(&at, ClientConfig { tls, ..ClientConfig::default() });
    let client = connect(Some(authority.known_by(&clients))).unwrap();
    assert!(client.pipeline().unwrap().is_none());
    drop(client);
    for tls in [None, Some(authority.trusted()), Some(clients.trusted())] {
        let refused = connect(tls).map(drop).unwrap_err();
        assert!(matches!(refused, P4RuntimeError::Tls { .. }), "{refused:?}");
    }
}
