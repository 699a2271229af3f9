//! An authority, and a controller's certificate signed by it.

use netfold_testkit::directory::TemporaryDirectory;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// The file of an authority, and what a controller at 127.0.0.1 and `localhost` needs. PEM.
pub(crate) struct Certificates {
    directory: TemporaryDirectory,
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

const AUTHORITY: &str = "authority.pem";

impl Certificates {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, new_key()).expect("an authority");
        let directory = TemporaryDirectory::new("connect-errors");
        directory.write(AUTHORITY, issuer.pem());
        let key = new_key();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).expect("names of a certificate");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem().into_bytes();
        Self { directory, certificate, key: key.serialize_pem().into_bytes() }
    }

    /// The path of the authority's file.
    pub(crate) fn authority(&self) -> String {
        self.directory.file(AUTHORITY)
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the system has random numbers")
}
