//! TLS to switches: the certificates' files, and what it means when a switch and the controller do not agree.
//!
//! Files are read again for each connection, so that a certificate that was renewed on disk is used from the next one on.

mod connector;
mod meaning;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, SignatureScheme};

#[cfg(test)]
pub(super) use connector::{Bytes, Dialing};
pub(super) use connector::{Connector, Dial, Fault, SystemDialer};
use netfold_controller::topology::Tls;

/// Longest file of certificates that is read, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// What gRPC is called in a handshake.
const ALPN: &[u8] = b"h2";

/// Why a connection to a switch is not secured as asked for, and what to do.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: check the path, which is relative to the topology file's folder", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// A file is not what it should be.
    #[error("{} holds no {what} in PEM, a text with a line -----BEGIN ...-----: give the file that does", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// A certificate of a file cannot stand for an authority.
    #[error("{} cannot be used as the certificate of an authority", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: rustls::Error,
    },
    /// No file names an authority, and the system trusts none.
    #[error("this system trusts no authorities: name the certificate of the switch's authority as `ca`")]
    NoAuthorities,
    /// A certificate without its key, or the other way about.
    #[error("`certificate` and `key` go together: name both files or none")]
    Half,
    /// The certificate and the key are of no use together.
    #[error("{} and {} do not belong together: give a certificate and its own private key", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong with them.
        #[source]
        source: rustls::Error,
    },
    /// What the switch is called is no name.
    #[error("'{0}' is no name for a certificate: enter as `server_name` the name that the switch's is for")]
    ServerName(String),
    /// The switch's certificate is of an authority that is not trusted.
    #[error(
        "the switch's certificate is not of an authority in {0}: name that of the authority which signed it as `ca`"
    )]
    UnknownAuthority(String),
    /// The switch's certificate is of another name.
    #[error(
        "the switch's certificate is for {} and not for {wanted}: enter the right one as `server_name`",
        if presented.is_empty() { "no name".into() } else { presented.join(", ") }
    )]
    OtherName {
        /// The name that was expected.
        wanted: String,
        /// The names in the certificate.
        presented: Vec<String>,
    },
    /// The switch's certificate is not valid today.
    #[error(
        "the switch's certificate has expired, or is not valid yet: renew it, or set this machine's clock"
    )]
    Expired(#[source] rustls::Error),
    /// The switch's certificate is wrong in another way.
    #[error("the switch's certificate cannot be accepted: give the switch another")]
    Certificate(#[source] rustls::Error),
    /// The switch requests the controller's certificate.
    #[error("the switch asks for a certificate of the controller: enter one as `certificate`, and its `key`")]
    CertificateWanted,
    /// The switch does not like the controller's certificate.
    #[error(
        "the switch refuses the controller's certificate: have it signed by the authority that the switch trusts"
    )]
    CertificateRefused(#[source] rustls::Error),
    /// The switch speaks in the clear.
    #[error("the switch does not speak TLS: start it with certificates, or leave out its `tls`")]
    Plain,
    /// The switch uses TLS and the controller plain text.
    #[error("the switch speaks TLS: enter a `tls` with the `ca` of its certificate")]
    Encrypted,
    /// The switch accepted the connection and sends nothing.
    #[error(
        "the switch has taken the connection and does not go on with the handshake: check that it is not stuck"
    )]
    Unfinished,
    /// The connection broke during the handshake.
    #[error("the switch has ended the connection during the handshake: its log says why")]
    Closed(#[source] Arc<io::Error>),
    /// Switch and controller have nothing in common.
    #[error("the handshake with the switch failed: check what versions of TLS it speaks")]
    Handshake(#[source] rustls::Error),
}

/// What a connection needs: made of files, and used once.
#[derive(Debug)]
struct Secured {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// Set when the switch requests a certificate.
    asked: Arc<AtomicBool>,
    /// Who is trusted, for people.
    trusted: String,
    has_certificate: bool,
}

/// Whether connections to `address` can be secured so, as far as the files tell.
pub(super) fn check(tls: &Tls, address: &str) -> Result<(), TlsError> {
    load(tls, address).map(drop)
}

fn load(tls: &Tls, address: &str) -> Result<Secured, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let name = server_name(tls, address)?;
    let (roots, trusted) = roots(tls)?;
    let own = own(tls, &provider)?;
    let has_certificate = own.is_some();
    let asked = Arc::new(AtomicBool::new(false));
    let presented = Presented { own, asked: Arc::clone(&asked) };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Handshake)?
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(presented));
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Secured { config: Arc::new(config), name, asked, trusted, has_certificate })
}

fn server_name(tls: &Tls, address: &str) -> Result<ServerName<'static>, TlsError> {
    let host = || match address.rsplit_once(':') {
        Some((host, _)) if !address.starts_with("unix:") => host.trim_matches(['[', ']']),
        _ => address,
    };
    let name = tls.server_name.as_deref().unwrap_or_else(host);
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::ServerName(name.to_owned()))
}

/// The trusted certificate authorities, and their name for error messages.
fn roots(tls: &Tls) -> Result<(RootCertStore, String), TlsError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = &tls.ca else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return match roots.is_empty() {
            true => Err(TlsError::NoAuthorities),
            false => Ok((roots, "this system's list, as no `ca` is named".into())),
        };
    };
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|source| TlsError::Authority { path: path.clone(), source })?;
    }
    Ok((roots, path.display().to_string()))
}

fn own(tls: &Tls, provider: &CryptoProvider) -> Result<Option<Arc<CertifiedKey>>, TlsError> {
    let (certificate, key) = match (&tls.certificate, &tls.key) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        _ => return Err(TlsError::Half),
    };
    let chain = certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|_| TlsError::Pem { path: key.clone(), what: "private key" })?;
    let pair = CertifiedKey::from_der(chain, private, provider).map_err(|source| TlsError::Pair {
        certificate: certificate.clone(),
        key: key.clone(),
        source,
    })?;
    Ok(Some(Arc::new(pair)))
}

/// The certificates of a file that has some.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let none = || TlsError::Pem { path: path.to_owned(), what: "certificate" };
    let text = read(path)?;
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(none)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    use io::Read as _;
    let failed = |source| TlsError::Read { path: path.to_owned(), source: Arc::new(source) };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_LEN_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Shows the controller's certificate, if it has one, and notes that the switch has asked for it.
#[derive(Debug)]
struct Presented {
    own: Option<Arc<CertifiedKey>>,
    asked: Arc<AtomicBool>,
}

impl ResolvesClientCert for Presented {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Relaxed);
        self.own.clone()
    }

    fn has_certs(&self) -> bool {
        self.own.is_some()
    }
}
