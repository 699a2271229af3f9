//! Encryption, and who may connect.

use std::time::Duration;

use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// Time that a client has for its part of the handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Certificates, in PEM, by which a server is known and knows its clients.
#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    /// The server's certificate, and behind it those between it and the root.
    pub certificate: Vec<u8>,
    /// The certificate's private key.
    pub key: Vec<u8>,
    /// Roots of the clients' certificates. With them a client without such a certificate is not let in; without them every
    /// client is.
    pub client_ca: Option<Vec<u8>>,
}

impl std::fmt::Debug for Tls {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("client_ca", &self.client_ca.is_some()).finish_non_exhaustive()
    }
}

impl Tls {
    pub(crate) fn config(&self) -> ServerTlsConfig {
        let identity = Identity::from_pem(&self.certificate, &self.key);
        let config = ServerTlsConfig::new().identity(identity).timeout(HANDSHAKE_WITHIN);
        match &self.client_ca {
            Some(roots) => config.client_ca_root(Certificate::from_pem(roots)),
            None => config,
        }
    }
}
