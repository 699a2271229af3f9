//! Encryption and client authentication.

use std::time::Duration;

use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// Time that a client has for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Certificates in PEM that authenticate the server and its clients.
#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    /// The server's certificate, followed by the intermediate ones.
    pub certificate: Vec<u8>,
    /// The certificate's private key.
    pub key: Vec<u8>,
    /// Roots of the clients' certificates. With them, a client without such a certificate is refused; without them, every
    /// client is accepted.
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
        let config = ServerTlsConfig::new().identity(identity).timeout(HANDSHAKE_TIMEOUT);
        match &self.client_ca {
            Some(roots) => config.client_ca_root(Certificate::from_pem(roots)),
            None => config,
        }
    }
}
