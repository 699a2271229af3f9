//! Which protocol a port uses, from the first bytes that it sends: for error messages when an address is not a control port's.

use std::fmt;

/// The protocol of a port that a client has connected to by mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PortProtocol {
    /// Lines of JSON, the first message [`SessionEvent`](crate::SessionEvent): a control port for workers.
    Control,
    /// HTTP/2 (RFC 9113): a gRPC server, such as a controller's API or a P4Runtime server.
    Http2,
    /// HTTP/1: a web server, such as a controller's status page.
    Http1,
    /// TLS (RFC 8446), where the client sent plain text.
    Tls,
}

impl PortProtocol {
    /// Bytes of the start of a connection that [`of`](Self::of) needs at most.
    pub const BYTES_NEEDED: usize = 9;

    /// The protocol whose server sends these bytes first; `None` when it is none of these, or cannot be known yet.
    ///
    /// A control port sends an object, `{`. An HTTP/2 server begins with a SETTINGS frame on stream 0 (RFC 9113, 3.4 and 4.1): 24 bits of
    /// length, type 4. An HTTP/1 response begins with `HTTP/`; a server that takes the line of JSON for a
    /// request of HTTP/0.9, which has no status line, answers with the document alone, `<`. A TLS server answers plain text with an alert record: type 21, version 3.x.
    pub fn of(first: &[u8]) -> Option<Self> {
        match first {
            [b'{', ..] => Some(Self::Control),
            [21, 3, ..] => Some(Self::Tls),
            [b'H', b'T', b'T', b'P', b'/', ..] | [b'<', ..] => Some(Self::Http1),
            [0, _, _, 4, _, 0, 0, 0, 0, ..] => Some(Self::Http2),
            _ => None,
        }
    }
}

impl fmt::Display for PortProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "the control protocol of workers",
            Self::Http2 => "HTTP/2 (gRPC)",
            Self::Http1 => "HTTP/1",
            Self::Tls => "TLS",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_name_the_protocol() {
        let of = PortProtocol::of;
        assert_eq!(of(b"{\"type\":\"refused\""), Some(PortProtocol::Control));
        assert_eq!(of(&[0, 0, 24, 4, 0, 0, 0, 0, 0, 0, 2]), Some(PortProtocol::Http2));
        assert_eq!(of(b"HTTP/1.1 400 Bad Request\r\n"), Some(PortProtocol::Http1));
        assert_eq!(of(b"<!DOCTYPE HTML>"), Some(PortProtocol::Http1));
        assert_eq!(of(&[21, 3, 3, 0, 2, 2, 70]), Some(PortProtocol::Tls));
        for unknown in [&b""[..], &[0, 0, 24, 4], b"SSH-2.0-OpenSSH", b"\xff\xff"] {
            assert_eq!(of(unknown), None, "{unknown:?}");
        }
    }
}
