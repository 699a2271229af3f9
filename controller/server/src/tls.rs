//! Certificates and keys, for gRPC, for the page and for the workers' port.

use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// Timeout of a client's handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A server's certificate, and the authority of its clients' certificates. Contents of PEM files.
#[derive(Clone)]
pub struct Tls {
    /// The server's certificate chain, without the root.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
    /// Authority of the certificates that clients must present; `None`: none is required.
    pub client_ca: Option<Vec<u8>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("mutual", &self.client_ca.is_some()).finish_non_exhaustive()
    }
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {what}")]
pub struct TlsError {
    what: &'static str,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    what: &'static str,
) -> impl FnOnce(E) -> TlsError {
    move |source| TlsError { what, source: source.into() }
}

impl Tls {
    pub(crate) fn for_grpc(&self) -> ServerTlsConfig {
        let config = ServerTlsConfig::new()
            .identity(Identity::from_pem(&self.certificate, &self.key))
            .timeout(HANDSHAKE_TIMEOUT);
        match &self.client_ca {
            Some(authority) => config.client_ca_root(Certificate::from_pem(authority)),
            None => config,
        }
    }

    pub(crate) fn for_http(&self) -> Result<TlsAcceptor, TlsError> {
        self.acceptor(self.client_ca.as_deref(), &[b"http/1.1"])
    }

    /// Workers authenticate by a token, not by a certificate.
    pub(crate) fn for_workers(&self) -> Result<TlsAcceptor, TlsError> {
        self.acceptor(None, &[])
    }

    fn acceptor(&self, client_ca: Option<&[u8]>, protocols: &[&[u8]]) -> Result<TlsAcceptor, TlsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .map_err(failed("the certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(failed("the private key"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(failed("TLS"))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(authority) {
                    let certificate = certificate.map_err(failed("the clients' authority"))?;
                    roots.add(certificate).map_err(failed("the clients' authority"))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(failed("the clients' authority"))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config =
            builder.with_single_cert(chain, key).map_err(failed("the certificate or the key"))?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
