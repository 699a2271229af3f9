//! Why a controller cannot be reached by TLS.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a controller cannot be reached by TLS, and what to do. See [`Error::Tls`](crate::Error::Tls).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFault {
    /// The file of certificates cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The file holds no certificate that can stand for an authority.
    #[error("{} holds no certificate of an authority in PEM; give the one that the controller's is signed by", path.display())]
    NoAuthority {
        /// The file.
        path: PathBuf,
    },
    /// The controller's name is not valid.
    #[error("'{0}' is no name that a certificate can be for; give the controller's name or address")]
    Name(String),
    /// Another authority has signed the controller's certificate.
    #[error("its certificate is not signed by an authority in {}; give the right one, or check who answers there", path.display())]
    UnknownAuthority {
        /// The file.
        path: PathBuf,
    },
    /// The controller's certificate is of another name.
    #[error(
        "its certificate is for {} and not for {wanted}; connect to a name that it is for, or issue one for {wanted}",
        if presented.is_empty() { "no name".into() } else { presented.join(", ") }
    )]
    OtherName {
        /// The name in the address.
        wanted: String,
        /// The names in the certificate.
        presented: Vec<String>,
    },
    /// The controller's certificate is wrong in another way.
    #[error("its certificate cannot be accepted ({0})")]
    Certificate(rustls::Error),
    /// The port speaks in the clear.
    #[error(
        "it does not speak TLS; leave out the authority (controller_ca, NETFOLD_CA), or start the controller with --tls-cert and --tls-key"
    )]
    Plain,
    /// The port accepted the connection and sends nothing.
    #[error(
        "it takes the connection and does not go on with the handshake; check that a controller listens there"
    )]
    Silent,
    /// The port has ended the connection during the handshake.
    #[error("it has ended the connection during the handshake; check that a controller listens there")]
    Closed,
    /// The two sides have no version or cipher in common.
    #[error("the handshake failed ({0})")]
    Handshake(rustls::Error),
}

impl TlsFault {
    /// Whether it is about what this side was given, not about what answered.
    pub(crate) const fn is_argument(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::NoAuthority { .. } | Self::Name(_))
    }
}
