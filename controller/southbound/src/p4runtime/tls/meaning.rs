//! What an error of a secured connection means for the switch's operator.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use super::{Secured, TlsError};

/// What is known of a connection that may fail.
#[derive(Debug, Clone)]
pub(super) struct Circumstances {
    name: ServerName<'static>,
    asked: Arc<AtomicBool>,
    trusted: String,
    has_certificate: bool,
}

impl Circumstances {
    pub(super) fn of(secured: &Secured) -> Self {
        Self {
            name: secured.name.clone(),
            asked: Arc::clone(&secured.asked),
            trusted: secured.trusted.clone(),
            has_certificate: secured.has_certificate,
        }
    }

    /// What an error during the handshake means.
    pub(super) fn of_handshake(&self, error: io::Error) -> TlsError {
        match rustls_error(&error) {
            Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => TlsError::Plain,
            Some(Error::InvalidCertificate(_)) | Some(Error::AlertReceived(_)) => {
                self.of_established(&error).unwrap_or_else(|| TlsError::Closed(Arc::new(error)))
            }
            Some(other) => TlsError::Handshake(other.clone()),
            None => TlsError::Closed(Arc::new(error)),
        }
    }

    /// What an error of a connection means whose handshake is over on this side; `None` when it is none of TLS. With
    /// TLS 1.3 a switch refuses a certificate only then.
    pub(super) fn of_established(&self, error: &io::Error) -> Option<TlsError> {
        match rustls_error(error)? {
            Error::InvalidCertificate(why) => Some(self.of_certificate(why)),
            Error::AlertReceived(alert) if self.is_about_us(*alert) => Some(if self.has_certificate {
                TlsError::CertificateRefused(Error::AlertReceived(*alert))
            } else {
                TlsError::CertificateWanted
            }),
            Error::AlertReceived(alert) => Some(TlsError::Handshake(Error::AlertReceived(*alert))),
            _ => None,
        }
    }

    /// The error, if any, when the switch has closed a connection without sending data: bmv2 does so without an alert when it
    /// requires a certificate.
    pub(super) fn of_silence(&self) -> Option<TlsError> {
        let wanted = self.asked.load(Ordering::Relaxed) && !self.has_certificate;
        wanted.then_some(TlsError::CertificateWanted)
    }

    /// Whether an alert is about the certificate that was shown, or was not. Older versions of TLS know but one for all that
    /// may be wrong.
    fn is_about_us(&self, alert: AlertDescription) -> bool {
        use AlertDescription as Alert;
        let asked = self.asked.load(Ordering::Relaxed);
        asked
            && matches!(
                alert,
                Alert::AccessDenied
                    | Alert::BadCertificate
                    | Alert::CertificateExpired
                    | Alert::CertificateRequired
                    | Alert::CertificateRevoked
                    | Alert::CertificateUnknown
                    | Alert::DecryptError
                    | Alert::HandshakeFailure
                    | Alert::NoCertificate
                    | Alert::UnknownCA
                    | Alert::UnsupportedCertificate
            )
    }

    fn of_certificate(&self, why: &CertificateError) -> TlsError {
        use CertificateError as Why;
        let error = || Error::InvalidCertificate(why.clone());
        match why {
            // Another authority of the same name, which a new key makes of it.
            Why::UnknownIssuer | Why::BadSignature => TlsError::UnknownAuthority(self.trusted.clone()),
            Why::NotValidForNameContext { presented, .. } => TlsError::OtherName {
                wanted: self.name.to_str().into_owned(),
                presented: presented.iter().map(|name| bare(name).to_owned()).collect(),
            },
            Why::Expired | Why::ExpiredContext { .. } | Why::NotValidYet | Why::NotValidYetContext { .. } => {
                TlsError::Expired(error())
            }
            _ => TlsError::Certificate(error()),
        }
    }
}

/// A name of a certificate without its kind, as in `DnsName("leaf1")`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

/// The rustls error inside an I/O error, if there is one.
fn rustls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}
