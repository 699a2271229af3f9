//! Why no call reaches a controller's gRPC API, in terms of what the caller can change.

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use crate::error::CliError;
use netfold_control::PortProtocol;
use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// How long the probe waits for a connection, and for the first bytes.
const PROBE_TIMEOUT: Duration = Duration::from_millis(700);

/// How long a port that has not answered a call may take to send the first bytes of another connection.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(1000);

/// Of an address that accepts connections and does not answer.
pub(super) const SILENT: &str = "it accepts connections and sends nothing: check that a controller listens there, and that its process is not stopped";

/// What an HTTP/2 client sends first (RFC 9113, 3.4): the preface, and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Of an address that does not answer.
const UNANSWERED: &str = "no answer: check that the host runs, its address, and the firewalls between";

/// One sentence: what is wrong with the connection to `address`, given as HOST:PORT, and what to do.
pub(super) fn diagnose(address: &str, tls: bool, error: &(dyn Error + 'static)) -> String {
    if tls && let Some(fault) = find::<rustls::Error>(error).and_then(tls_fault) {
        return fault;
    }
    if find::<io::Error>(error).is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
        return UNANSWERED.into();
    }
    let first = match probe(address, PROBE_TIMEOUT) {
        Ok(first) => first,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return "no program listens there: start a controller with `netfold controller --dev`, or give its address with --controller"
                .into();
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return UNANSWERED.into(),
        Err(error) => {
            return format!("{error}: check the host's name, the network and the firewall");
        }
    };
    match PortProtocol::of(&first) {
        Some(PortProtocol::Control) => {
            "this is a control port for workers; give the controller's gRPC address, whose port is 20042 by default".into()
        }
        Some(PortProtocol::Http1) => {
            "this is a web server, such as the controller's status page; give the controller's gRPC address, whose port is 20042 by default"
                .into()
        }
        Some(PortProtocol::Tls) if !tls => {
            "it uses TLS: give the file of its certificate authority with --ca, or set NETFOLD_CA".into()
        }
        Some(PortProtocol::Http2) if tls => {
            "it does not use TLS: leave out --ca and NETFOLD_CA, or start the controller with --tls-cert and --tls-key".into()
        }
        // A server of TLS 1.3 rejects a client without a certificate after the handshake, and its alert may be lost.
        Some(PortProtocol::Tls) => format!(
            "it uses TLS and closed the connection ({}): if it requires client certificates, give one that its authority signed with --cert and --key",
            innermost(error)
        ),
        Some(PortProtocol::Http2) => innermost(error),
        _ => format!(
            "a program listens there that is not a controller's gRPC API, whose port is 20042 by default ({})",
            innermost(error)
        ),
    }
}

/// The error of a call that the server at `address` does not have. `release`: the server's, if it names one as a controller does.
pub(super) fn missing_call(address: &str, release: Option<&str>) -> CliError {
    let own = env!("CARGO_PKG_VERSION");
    let Some(release) = release else {
        let reason = "it is a gRPC server, but not a controller's API: give the controller's gRPC address, whose port is 20042 by default";
        return CliError::NoController { address: address.to_owned(), reason: reason.into() };
    };
    let older = if numbers(release) < numbers(own) { "the controller" } else { "this command" };
    let message = format!(
        "the controller at {address} is of version {release} and does not have this call of version {own}: upgrade {older}"
    );
    CliError::Refused { reason: "version".into(), message }
}

/// The numbers of a release, most significant first.
fn numbers(release: &str) -> Vec<u64> {
    release.split(['.', '-', '+']).map_while(|number| number.parse().ok()).collect()
}

/// What a TLS error says about the options; `None` where the probe says more.
fn tls_fault(error: &rustls::Error) -> Option<String> {
    Some(match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => return None,
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "its certificate is not signed by the authority in --ca: give the authority that signed it, or check who answers there".into(),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!("its certificate is for another name ({error}): give a name that it is for in --controller"),
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::HandshakeFailure,
        ) => "it requires a client certificate: give one that its authority signed with --cert and --key".into(),
        rustls::Error::InvalidCertificate(_) => format!("its certificate cannot be accepted ({error})"),
        rustls::Error::NoApplicationProtocol => return None,
        _ => format!("the TLS handshake failed ({error})"),
    })
}

/// Whether a port accepts connections and sends nothing. An HTTP/2 server sends its settings at once (RFC 9113, 3.4), however long its calls
/// take; a TLS server sends an alert.
pub(super) fn is_silent(address: &str) -> bool {
    probe(address, SILENCE_TIMEOUT).is_ok_and(|first| first.is_empty())
}

/// The first bytes that a port sends to an HTTP/2 client; none if it sends nothing within `timeout`.
fn probe(address: &str, timeout: Duration) -> io::Result<Vec<u8>> {
    let mut failure = io::ErrorKind::NotFound.into();
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, PROBE_TIMEOUT) {
            Ok(stream) => return Ok(first_bytes(stream, timeout)),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn first_bytes(mut stream: TcpStream, timeout: Duration) -> Vec<u8> {
    let mut bytes = [0; PortProtocol::BYTES_NEEDED];
    let mut filled = 0;
    let until = Instant::now() + timeout;
    // A port that rejects the preface may close the connection behind its response.
    let _ = stream.write_all(PREFACE);
    while filled < bytes.len()
        && let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        && stream.set_read_timeout(Some(left)).is_ok()
        && let Ok(count @ 1..) = stream.read(&mut bytes[filled..])
    {
        filled += count;
    }
    bytes[..filled].to_vec()
}

/// The first error of type `T` among an error and its sources, also within I/O errors.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        let within = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(within) = within
            && let Some(found) = find::<T>(within)
        {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The last cause.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The diagnosis of a port that sends `response` to whatever connects.
    fn of_port(response: &'static [u8], tls: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(response).unwrap();
            let _ = stream.read(&mut [0; 64]);
        });
        let text = diagnose(&address, tls, &io::Error::other("h2 protocol error"));
        server.join().unwrap();
        text
    }

    #[test]
    fn the_first_bytes_of_a_port_tell_what_it_is() {
        assert!(of_port(b"{\"type\":\"refused\"}\n", false).contains("control port for workers"));
        assert!(of_port(b"HTTP/1.1 400 Bad Request\r\n\r\n", false).contains("web server"));
        assert!(of_port(&[21, 3, 3, 0, 2, 2, 70, 0, 0], false).contains("--ca"));
        assert!(of_port(&[0, 0, 0, 4, 0, 0, 0, 0, 0], true).contains("does not use TLS"));
        assert!(of_port(b"SSH-2.0-OpenSSH_9", false).contains("(h2 protocol error)"));
    }

    #[test]
    fn an_unused_port_and_an_unknown_host_are_distinguished() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let error = io::Error::other("transport error");
        assert!(diagnose(&free, false, &error).contains("no program listens"));
        assert!(diagnose("no-such-host.invalid:20042", false, &error).contains("check the host's name"));
    }

    #[test]
    fn a_call_that_is_missing_names_the_older_side() {
        let message = |release| missing_call("h:1", release).to_string();
        assert!(message(Some("0.0.9")).ends_with("upgrade the controller"));
        assert!(message(Some("10.0.0")).ends_with("upgrade this command"));
        assert!(message(None).contains("not a controller's API"));
    }

    #[test]
    fn tls_errors_name_the_option() {
        let wrapped = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        let of = |error| diagnose("127.0.0.1:1", true, &wrapped(error));
        let issuer = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert!(of(issuer).contains("authority in --ca"));
        assert!(
            of(rustls::Error::AlertReceived(AlertDescription::CertificateRequired))
                .contains("--cert and --key")
        );
    }
}
