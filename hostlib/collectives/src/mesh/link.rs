//! One end of a connection: the frame being sent, the bytes received.

use std::io::{self, IoSlice, Read};
use std::net::TcpStream;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::CallSignature;
use crate::mesh::frame::{FAILURE, HEAD, Head, Kind};
use crate::mesh::plan::Offset;

/// Bytes read at a time: reduced while they are in the second-level cache.
const STAGING: usize = 128 * 1024;
/// Heads of a call and of data, and the call.
const PREFIX_MAX: usize = HEAD + CallSignature::LEN + HEAD;

/// A data frame on its way out, with the call before it when it is the first.
#[derive(Debug)]
pub(crate) struct OutFrame {
    prefix: [u8; PREFIX_MAX],
    prefix_at: usize,
    pub(crate) body: Offset,
    pub(crate) len: usize,
    body_at: usize,
}

impl OutFrame {
    pub(crate) fn new(call: Option<CallSignature>, seq: u16, body: Offset, len: usize) -> Self {
        let mut prefix = [0; PREFIX_MAX];
        let data = Head { kind: Kind::Data, seq, len };
        prefix[HEAD + CallSignature::LEN..].copy_from_slice(&data.to_bytes());
        let mut prefix_at = HEAD + CallSignature::LEN;
        if let Some(call) = call {
            let head = Head { kind: Kind::Call, seq, len: CallSignature::LEN };
            prefix[..HEAD].copy_from_slice(&head.to_bytes());
            prefix[HEAD..HEAD + CallSignature::LEN].copy_from_slice(&call.to_bytes());
            prefix_at = 0;
        }
        Self { prefix, prefix_at, body, len, body_at: 0 }
    }
}

/// The connection to one peer.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    /// Operations begun on this link, modulo 2^16.
    pub(crate) seq: u16,
    /// Whether the peer takes part in the current operation.
    pub(crate) is_member: bool,
    pub(crate) call_sent: bool,
    pub(crate) call_seen: bool,
    /// Messages of the current operation, by index in the plan, and how many are done.
    pub(crate) sends: Vec<usize>,
    pub(crate) send_at: usize,
    pub(crate) arrivals: Vec<usize>,
    pub(crate) arrival_at: usize,
    pub(crate) frame: Option<OutFrame>,
    /// Bytes of the current data frame that have not been used yet.
    pub(crate) body_left: usize,
    staging: Vec<u8>,
    begin: usize,
    end: usize,
    /// The socket may have bytes; it may take bytes.
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The bytes received cannot be used yet: they belong to the next operation, or a gate is closed.
    pub(crate) stalled: bool,
    /// Nothing more will be received.
    pub(crate) closed: Option<io::ErrorKind>,
    /// All bytes handed to the system so far.
    pub(crate) bytes_out: u64,
}

/// The outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    Bytes(usize),
    Nothing,
    End,
}

impl Link {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            seq: 0,
            is_member: false,
            call_sent: false,
            call_seen: false,
            sends: Vec::new(),
            send_at: 0,
            arrivals: Vec::new(),
            arrival_at: 0,
            frame: None,
            body_left: 0,
            staging: vec![0; STAGING],
            begin: 0,
            end: 0,
            readable: false,
            writable: true,
            stalled: false,
            closed: None,
            bytes_out: 0,
        }
    }

    /// Forgets the last operation; received bytes stay.
    pub(crate) fn begin(&mut self, is_member: bool) {
        self.is_member = is_member;
        self.seq = self.seq.wrapping_add(u16::from(is_member));
        (self.call_sent, self.call_seen) = (false, false);
        (self.send_at, self.arrival_at, self.body_left) = (0, 0, 0);
        self.sends.clear();
        self.arrivals.clear();
        self.readable = true;
        self.stalled = false;
    }

    pub(crate) fn is_done(&self) -> bool {
        self.send_at == self.sends.len() && self.arrival_at == self.arrivals.len()
    }

    /// Bytes received and not used.
    pub(crate) fn staged(&self) -> &[u8] {
        &self.staging[self.begin..self.end]
    }

    /// Whether bytes were received that no operation has used.
    pub(crate) fn has_unread_bytes(&self) -> bool {
        self.begin < self.end || self.stream.peek(&mut [0]).is_ok_and(|len| len > 0)
    }

    /// Whether the other rank has closed the connection, or it is broken, and every byte that was received is used.
    pub(crate) fn is_lost(&self) -> bool {
        use std::io::ErrorKind::{Interrupted, WouldBlock};
        self.begin == self.end
            && match self.stream.peek(&mut [0]) {
                Ok(len) => len == 0,
                Err(error) => !matches!(error.kind(), WouldBlock | Interrupted),
            }
    }

    /// Drops used bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        self.begin += len;
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
    }

    /// The head of a frame, once it is complete.
    pub(crate) fn head(&self) -> Option<&[u8; HEAD]> {
        self.staged().first_chunk()
    }

    /// The body behind the head, once it is complete.
    pub(crate) fn body<const N: usize>(&self) -> Option<&[u8; N]> {
        self.staged().get(HEAD..)?.first_chunk()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.begin == 0 && self.end == self.staging.len()
    }

    /// Reads what the staging buffer has room for.
    pub(crate) fn fill(&mut self) -> ReadOutcome {
        if self.begin > 0 {
            self.staging.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let room = &mut self.staging[self.end..];
        if room.is_empty() || self.closed.is_some() {
            return ReadOutcome::Nothing;
        }
        let wanted = room.len();
        let result = (&self.stream).read(room);
        let outcome = self.classify(result, wanted);
        if let ReadOutcome::Bytes(len) = outcome {
            self.end += len;
        }
        outcome
    }

    /// Reads straight into the destination.
    pub(crate) fn read_into(&mut self, into: &mut [u8]) -> ReadOutcome {
        if self.closed.is_some() {
            return ReadOutcome::Nothing;
        }
        let result = (&self.stream).read(into);
        self.classify(result, into.len())
    }

    fn classify(&mut self, result: io::Result<usize>, wanted: usize) -> ReadOutcome {
        match result {
            Ok(0) => {
                self.closed = Some(io::ErrorKind::UnexpectedEof);
                self.readable = false;
                ReadOutcome::End
            }
            Ok(len) => {
                // A short read emptied the socket: waiting is cheaper than asking again.
                self.readable = len == wanted;
                ReadOutcome::Bytes(len)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                ReadOutcome::Nothing
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => ReadOutcome::Nothing,
            Err(error) => {
                self.closed = Some(error.kind());
                self.readable = false;
                ReadOutcome::End
            }
        }
    }

    /// Sends as much of the current frame, whose body is `bytes`, as the socket takes. `Ok(true)` when the frame is complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let Some(frame) = &mut self.frame else { return Ok(true) };
        loop {
            let prefix = &frame.prefix[frame.prefix_at..];
            let body = &bytes[frame.body_at..];
            if prefix.is_empty() && body.is_empty() {
                self.frame = None;
                return Ok(true);
            }
            let parts = [IoSlice::new(prefix), IoSlice::new(body)];
            // NOSIGNAL: the host process may be anything, and may not expect SIGPIPE.
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(&self.stream, &parts, &mut SendAncillaryBuffer::default(), flags) {
                Ok(len) => {
                    self.bytes_out += len as u64;
                    let of_prefix = len.min(prefix.len());
                    frame.prefix_at += of_prefix;
                    frame.body_at += len - of_prefix;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    self.writable = false;
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends bytes of a failure from `at` on; returns the new `at`, or `None` when the link is closed.
    pub(crate) fn push_failure(&self, bytes: &[u8; HEAD + FAILURE], at: usize) -> Option<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(&self.stream, &bytes[at..], flags) {
            Ok(len) => Some(at + len),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Some(at),
            Err(_) => None,
        }
    }
}
