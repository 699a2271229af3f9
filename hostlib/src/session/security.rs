//! TLS to a controller: whom to trust, and the cause of a failed handshake.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::tls_fault::TlsFault;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, InvalidMessage, RootCertStore};

/// Longest file of certificates that is read, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Whom to trust to be the controller. The file is read for each connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Security {
    ca: PathBuf,
    /// What the certificate at each address must be for.
    names: Vec<(SocketAddr, String)>,
}

impl Security {
    /// With the authorities of a file (PEM), for controllers at these addresses, of these names.
    pub(crate) fn new(ca: &Path, names: &[(SocketAddr, String)]) -> Self {
        Self { ca: ca.to_owned(), names: names.to_vec() }
    }

    fn name(&self, address: &SocketAddr) -> String {
        let named = self.names.iter().find(|(named, _)| named == address);
        named.map_or_else(|| address.ip().to_string(), |(_, name)| name.clone())
    }

    /// This side of a handshake with the controller at an address.
    pub(crate) fn begin(&self, address: &SocketAddr) -> Result<ClientConnection, TlsFault> {
        let wanted = self.name(address);
        let name = ServerName::try_from(wanted.clone()).map_err(|_| TlsFault::Name(wanted))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsFault::Handshake)?
            .with_root_certificates(self.roots()?)
            .with_no_client_auth();
        ClientConnection::new(Arc::new(config), name).map_err(TlsFault::Handshake)
    }

    fn roots(&self) -> Result<RootCertStore, TlsFault> {
        let text = read(&self.ca)
            .map_err(|source| TlsFault::Read { path: self.ca.clone(), source: Arc::new(source) })?;
        let found: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.unwrap_or_default());
        if roots.is_empty() { Err(TlsFault::NoAuthority { path: self.ca.clone() }) } else { Ok(roots) }
    }

    /// The cause of a failed handshake.
    pub(super) fn meaning(&self, address: &SocketAddr, error: rustls::Error) -> TlsFault {
        match error {
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsFault::Plain,
            // A bad signature is that of another authority of the same name, which a new key makes of it.
            rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => TlsFault::UnknownAuthority { path: self.ca.clone() },
            rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                presented, ..
            }) => {
                let presented = presented.iter().map(|name| bare(name).to_owned()).collect();
                TlsFault::OtherName { wanted: self.name(address), presented }
            }
            error @ rustls::Error::InvalidCertificate(_) => TlsFault::Certificate(error),
            error => TlsFault::Handshake(error),
        }
    }
}

/// A name of a certificate without its kind, as in `DnsName("leaf1")`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_LEN_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
