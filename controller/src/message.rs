//! Lines of the control port: bytes to requests, events to bytes.

use netfold_control::{LINE_LEN_MAX, Refusal, SessionEvent, SessionRequest};
use serde_json::Value;

/// First byte that a TLS client sends; no line of JSON begins with it.
pub(crate) const TLS_HANDSHAKE: u8 = 0x16;

/// Why a worker is turned away: a reason for programs, a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// Machine-readable reason.
    pub reason: Refusal,
    /// What is wrong and what to do.
    pub message: String,
}

impl Refused {
    /// A refusal for `reason`.
    pub fn new(reason: Refusal, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// A message that was not understood or came out of order.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(Refusal::Protocol, message)
    }

    /// A worker of another protocol version.
    pub fn version(theirs: u64) -> Self {
        let ours = u64::from(netfold_wire::VERSION);
        let older = if theirs < ours { "the worker's host" } else { "the switch or controller" };
        let message = format!(
            "the worker uses protocol version {theirs} and this control port version {ours}: upgrade Netfold on {older}"
        );
        Self::new(Refusal::Version, message)
    }
}

impl From<Refused> for SessionEvent {
    fn from(refused: Refused) -> Self {
        Self::Refused { reason: refused.reason, message: refused.message }
    }
}

/// Reads one line, without its newline.
///
/// # Errors
/// [`Refused`] with [`Refusal::Protocol`] when the line is no request, or [`Refusal::Version`] when it is a join of
/// another protocol version, whatever else that version puts in it.
pub fn decode(line: &[u8]) -> Result<SessionRequest, Refused> {
    let error = match serde_json::from_slice(line) {
        Ok(request) => return Ok(request),
        Err(error) => error,
    };
    if let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(line)
        && object.get("type").and_then(Value::as_str) == Some("join")
        && let Some(version) = object.get("version").and_then(Value::as_u64)
        && version != u64::from(netfold_wire::VERSION)
    {
        return Err(Refused::version(version));
    }
    if is_http(line) {
        return Err(Refused::protocol(
            "this is a control port for workers, not a web or gRPC server: a controller's gRPC API has port 20042 by default, its status page \
             20043",
        ));
    }
    let error: String = error.to_string().chars().take(160).collect();
    Err(Refused::protocol(format!(
        "not a request of the control port ({error}): send one JSON object a line"
    )))
}

/// Whether it is the first line of an HTTP request: `METHOD TARGET HTTP/VERSION`. The preface of HTTP/2 is one, too.
fn is_http(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.windows(6).any(|words| words == b" HTTP/") && line.first().is_some_and(u8::is_ascii_uppercase)
}

/// Writes one event as a line, newline included.
pub fn encode(event: &SessionEvent) -> Vec<u8> {
    let mut line = serde_json::to_vec(event).expect("events hold nothing that JSON cannot say");
    line.push(b'\n');
    debug_assert!(line.len() <= LINE_LEN_MAX, "messages are single sentences");
    line
}

/// Cuts bytes that arrive in pieces into lines of at most [`LINE_LEN_MAX`] bytes, newline included.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Bytes before this hold no newline.
    searched: usize,
}

impl Lines {
    /// Adds bytes as they came from the network.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether [`next_line`](Self::next_line) has a line, or refuses what there is.
    pub fn has_line(&self) -> bool {
        self.bytes.first() == Some(&TLS_HANDSHAKE)
            || self.bytes.len() >= LINE_LEN_MAX
            || self.bytes[self.searched..].contains(&b'\n')
    }

    /// The next whole line without its newline, if there is one.
    ///
    /// # Errors
    /// [`Refused`] when the line is longer than [`LINE_LEN_MAX`], or the greeting of a TLS client, which is not waited for; the
    /// session must end.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, Refused> {
        if self.bytes.first() == Some(&TLS_HANDSHAKE) {
            return Err(Refused::protocol(
                "this port does not speak TLS: leave out the certificate (NETFOLD_CA)",
            ));
        }
        let found = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
        let len = found.map_or(self.bytes.len(), |at| self.searched + at + 1);
        if len > LINE_LEN_MAX || (found.is_none() && len == LINE_LEN_MAX) {
            return Err(Refused::protocol(format!(
                "a line of more than {LINE_LEN_MAX} bytes: send one JSON object a line"
            )));
        }
        if found.is_none() {
            self.searched = len;
            return Ok(None);
        }
        let rest = self.bytes.split_off(len);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.pop();
        self.searched = 0;
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn another_version_is_distinguished_from_garbage() {
        let reason = |text: &str| decode(text.as_bytes()).unwrap_err().reason;
        assert_eq!(reason(r#"{"type":"join","version":3,"tenant":"x"}"#), Refusal::Version);
        assert_eq!(reason(r#"{"type":"join","version":2,"tenant":"x"}"#), Refusal::Protocol);
        assert_eq!(reason(r#"{"type":"join","version":-1}"#), Refusal::Protocol);
        let older = Refused::version(0).message;
        assert!(
            older.contains("version 0") && older.contains("upgrade Netfold on the worker's host"),
            "{older}"
        );
        let newer = decode(br#"{"type":"join","version":3}"#).unwrap_err().message;
        assert!(newer.contains("version 3") && newer.contains("upgrade Netfold on the switch"), "{newer}");
        for http in ["GET / HTTP/1.1\r", "PRI * HTTP/2.0\r"] {
            assert!(decode(http.as_bytes()).unwrap_err().message.contains("20042"), "{http}");
        }
        assert_eq!(reason(""), Refusal::Protocol);
        assert_eq!(decode(br#"{"type":"alive"}"#), Ok(SessionRequest::ALIVE));
    }

    #[test]
    fn the_longest_line_passes_and_one_byte_more_does_not() {
        let mut lines = Lines::default();
        lines.push(&vec![b'x'; LINE_LEN_MAX - 1]);
        assert_eq!(lines.next_line(), Ok(None));
        lines.push(b"\n");
        assert_eq!(lines.next_line().unwrap().unwrap().len(), LINE_LEN_MAX - 1);
        lines.push(&vec![b'x'; LINE_LEN_MAX]);
        assert_eq!(lines.next_line().unwrap_err().reason, Refusal::Protocol);
    }

    #[test]
    fn a_tls_greeting_is_refused_at_its_first_byte() {
        let mut lines = Lines::default();
        lines.push(b"{}\n");
        lines.push(&[TLS_HANDSHAKE]);
        assert_eq!(lines.next_line().unwrap().unwrap(), b"{}");
        let refused = lines.next_line().unwrap_err();
        assert!(refused.message.contains("does not speak TLS"), "{refused}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Err(refused) = decode(&bytes) {
                prop_assert!(encode(&refused.into()).len() <= LINE_LEN_MAX);
            }
        }

        #[test]
        fn lines_do_not_depend_on_how_they_arrive(
            text in "[a-c\n]{0,200}",
            cuts in prop::collection::vec(1_usize..20, 1..40),
        ) {
            let mut lines = Lines::default();
            let mut got = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*cut));
                lines.push(now);
                while let Some(line) = lines.next_line().unwrap() {
                    got.push(String::from_utf8(line).unwrap());
                }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            let mut want: Vec<_> = text.split('\n').map(String::from).collect();
            want.pop();
            prop_assert_eq!(got, want);
        }
    }
}
