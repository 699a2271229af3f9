//! The control session: joins a job at the switch's control port and watches over it.
//!
//! One TCP connection of JSON lines ([`netfold_wire::control`]). A small thread sends signs of life and reads the port's; it
//! tells the engine when a peer or the switch is gone. Closing the connection without a farewell tells the others
//! that this rank is lost.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use netfold_wire::control::{Admission, Event, HEARTBEAT_MS, LEASE_MS, LINE_LEN_MAX, Request};

use crate::error::Error;
use crate::mailbox::Mailbox;
use crate::tensors::Submission;

const HEARTBEAT: Duration = Duration::from_millis(HEARTBEAT_MS);
const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// Longest time for the connection to be made, for one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest time for one line to be sent: a port that does not read for so long is as good as gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the port's end of the farewell is waited for.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// The sending side of the session; any thread may use it.
#[derive(Debug, Clone)]
pub(crate) struct Line(Arc<LineState>);

#[derive(Debug)]
struct LineState {
    stream: Mutex<TcpStream>,
    /// This side has said farewell or hung up: the end of the connection is no news.
    closing: AtomicBool,
}

impl Line {
    fn send(&self, request: &Request) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.0.stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
    }

    /// Leaves the job in peace, unless the session is closed already.
    pub(crate) fn leave(&self) {
        if !self.0.closing.swap(true, Ordering::AcqRel) {
            // When it fails the connection is broken, and the port has noticed or will.
            let _ = self.send(&Request::Leave {});
            let _ = self.0.stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Write);
        }
    }

    /// Closes the connection without a farewell: the port tells the other ranks that this one is lost.
    pub(crate) fn hang_up(&self) {
        self.0.closing.store(true, Ordering::Release);
        let _ = self.0.stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
    }

    fn is_closing(&self) -> bool {
        self.0.closing.load(Ordering::Acquire)
    }
}

/// Events from the port, cut into lines.
#[derive(Debug)]
struct Events {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes of the buffer that hold data.
    filled: usize,
}

/// What reading brought.
enum Heard {
    Event(Event),
    /// Nothing within the time given.
    Silence,
    /// The connection ended.
    End,
}

impl Events {
    /// The next event, waiting for at most `timeout`.
    fn next(&mut self, timeout: Duration) -> Result<Heard, Error> {
        loop {
            if let Some(end) = self.buffer[..self.filled].iter().position(|&byte| byte == b'\n') {
                let event = serde_json::from_slice(&self.buffer[..end]);
                self.buffer.copy_within(end + 1..self.filled, 0);
                self.filled -= end + 1;
                return event.map(Heard::Event).map_err(|_| Error::Control { what: "an unknown event" });
            }
            if self.filled == self.buffer.len() {
                return Err(Error::Control { what: "a line without end" });
            }
            // A timeout of zero would mean none.
            if self.stream.set_read_timeout(Some(timeout.max(Duration::from_millis(1)))).is_err() {
                return Ok(Heard::End);
            }
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Ok(Heard::End),
                Ok(count) => self.filled += count,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(Heard::Silence),
                    ErrorKind::Interrupted => {}
                    _ => return Ok(Heard::End),
                },
            }
        }
    }
}

/// A connection to the control port.
#[derive(Debug)]
pub(crate) struct Session {
    events: Events,
    line: Line,
    peer: SocketAddr,
    local: SocketAddr,
}

impl Session {
    /// Connects to the first of `addresses` that answers.
    pub(crate) fn connect(addresses: &[SocketAddr]) -> Result<Self, Error> {
        let mut last = (String::new(), io::Error::from(ErrorKind::AddrNotAvailable));
        for address in addresses {
            match TcpStream::connect_timeout(address, CONNECT_TIMEOUT).and_then(Self::over) {
                Ok(session) => return Ok(session),
                Err(source) => last = (address.to_string(), source),
            }
        }
        Err(Error::Connect { address: last.0, source: Arc::new(last.1) })
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
        let sender = stream.try_clone()?;
        Ok(Self {
            events: Events { stream, buffer: vec![0; LINE_LEN_MAX], filled: 0 },
            line: Line(Arc::new(LineState { stream: Mutex::new(sender), closing: AtomicBool::new(false) })),
            peer,
            local,
        })
    }

    /// The control port's address; packets go to another port there.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// This side's address; packets must come from another port there.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn line(&self) -> Line {
        self.line.clone()
    }

    /// Asks to take part in a job and waits until every rank has come.
    pub(crate) fn join(&mut self, request: &Request, timeout: Duration) -> Result<Admission, Error> {
        // When it fails, what the port said before it closed explains it.
        let _ = self.line.send(request);
        let start = Instant::now();
        loop {
            let waited = start.elapsed();
            if waited >= timeout {
                return Err(Error::JoinTimeout { waited: timeout });
            }
            match self.events.next((timeout - waited).min(HEARTBEAT))? {
                Heard::Event(Event::Admitted(admission)) => return Ok(admission),
                Heard::Event(Event::Refused { reason, message }) => {
                    return Err(Error::Refused { reason, message });
                }
                Heard::Event(Event::PeerLost { rank, message }) => {
                    return Err(Error::PeerLost { rank, message });
                }
                Heard::Event(Event::SwitchLost { .. }) => {
                    return Err(Error::SwitchLost { what: "its controller gave it up before admission" });
                }
                Heard::Event(Event::Alive {} | Event::Resumed {} | Event::PeerLeft { .. })
                | Heard::Silence => {}
                Heard::End => {
                    return Err(Error::SwitchLost { what: "the control connection closed before admission" });
                }
            }
        }
    }

    /// Keeps the session alive and tells the engine what happens, until either side closes it.
    pub(crate) fn watch(mut self, mailbox: &Mailbox<Submission>) {
        let mut heard = Instant::now();
        let mut beat = Instant::now();
        let mut broken = false;
        let verdict = loop {
            if self.line.is_closing() {
                return self.farewell();
            }
            if !broken && beat.elapsed() >= HEARTBEAT {
                beat = Instant::now();
                // What the port said last is still read: it may explain the break.
                broken = self.line.send(&Request::Alive {}).is_err();
            }
            match self.events.next(HEARTBEAT.saturating_sub(beat.elapsed())) {
                Ok(Heard::Event(event)) => {
                    heard = Instant::now();
                    if let Event::PeerLeft { rank } = event {
                        mailbox.note_departure(rank);
                    } else if let Some(verdict) = verdict_of(event) {
                        break verdict;
                    }
                }
                // Judged only when there was nothing to read, so that a process that was stopped does not mistake its
                // own absence for the port's.
                Ok(Heard::Silence) if heard.elapsed() >= LEASE => {
                    break Error::SwitchLost { what: "its control port gave no sign of life" };
                }
                Ok(Heard::Silence) if broken => {
                    break Error::SwitchLost { what: "the control connection broke" };
                }
                Ok(Heard::Silence) => {}
                Ok(Heard::End) if self.line.is_closing() => return,
                Ok(Heard::End) => break Error::SwitchLost { what: "the control connection closed" },
                Err(error) => break error,
            }
        };
        mailbox.condemn(verdict);
        self.line.hang_up();
    }

    /// Waits for the port to close its side too: closing with unread bytes could destroy the farewell on its way.
    fn farewell(mut self) {
        let start = Instant::now();
        while let Some(left) = FAREWELL_TIMEOUT.checked_sub(start.elapsed()) {
            match self.events.next(left) {
                Ok(Heard::Event(_)) => {}
                Ok(Heard::Silence | Heard::End) | Err(_) => return,
            }
        }
    }
}

/// The end of the job, if the event is one.
fn verdict_of(event: Event) -> Option<Error> {
    match event {
        Event::Alive {} | Event::Admitted(_) | Event::Resumed {} | Event::PeerLeft { .. } => None,
        Event::PeerLost { rank, message } => Some(Error::PeerLost { rank, message }),
        Event::Refused { reason, message } => Some(Error::Refused { reason, message }),
        Event::SwitchLost { .. } => Some(Error::SwitchLost { what: "its controller has given it up" }),
    }
}
