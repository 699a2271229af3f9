//! How a worker and a switch of one host find each other: by a socket with an abstract name, over which the area of their rings goes.
//!
//! The worker sends its version; the switch replies with a port, the area (a memfd, sealed against cutting it short) and two
//! event descriptors, the switch's and the worker's. From then on the connection carries nothing: that it ends says that the other side
//! is gone, whatever ended it. Memory, descriptors and name go with their last user, so nothing stays behind.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::geteuid;

use super::ring::{self, End, Rings};
use super::{LOCAL_PORTS, NAME, Name};
use crate::IoError;
use crate::link::mapping::Mapping;

/// `netfold\0`, and the version of all that two processes must agree upon: these messages and the layout of the rings.
const MAGIC: u64 = u64::from_be_bytes(*b"netfold\0");
const VERSION: u32 = 1;

/// How long the other side may take for its part of the greeting, which it has ready.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) const HELLO_LEN: usize = 16;
const REPLY_LEN: usize = 32;

/// What a switch says to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandshakeOutcome {
    Welcome,
    /// It speaks another version.
    Version,
    /// There are as many workers as there can be.
    Full,
    /// It belongs to another user.
    User,
}

impl HandshakeOutcome {
    const ALL: [Self; 4] = [Self::Welcome, Self::Version, Self::Full, Self::User];
}

/// The reply to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    /// Its port at the switch, below [`LOCAL_PORTS`].
    pub(super) port: u16,
    pub(super) datagram_len_max: usize,
    /// Whether nothing is lost beyond the switch either.
    pub(super) lossless: bool,
}

/// A worker's end of a link that stands.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) rings: Rings,
    pub(super) terms: Terms,
    /// Written to wake the switch.
    pub(super) hub: OwnedFd,
    /// Written to wake this end.
    pub(super) own: OwnedFd,
    /// Ends with the switch.
    pub(super) line: UnixStream,
}

fn address(name: &Name) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("netfold/shm/{name}"))
}

pub(super) fn failed(name: &Name, problem: &'static str, source: impl Into<io::Error>) -> IoError {
    IoError::Link { link: NAME, interface: name.to_string(), problem, source: source.into() }
}

/// Takes the name for a switch.
pub(super) fn listen(name: &Name) -> Result<UnixListener, IoError> {
    let refuse = |source: io::Error| {
        let problem = match source.kind() {
            io::ErrorKind::AddrInUse => "another switch has this name; choose another, or end that one",
            _ => "its socket cannot be made",
        };
        failed(name, problem, source)
    };
    let listener = address(name).and_then(|at| UnixListener::bind_addr(&at)).map_err(refuse)?;
    listener.set_nonblocking(true).map_err(refuse)?;
    Ok(listener)
}

/// The user at the other end of a line.
pub(super) fn user(line: &UnixStream) -> io::Result<u32> {
    Ok(socket_peercred(line.as_fd())?.uid.as_raw())
}

/// Decides whether the sender of this hello is accepted if there is room; `None` for what is no hello. From here on the line blocks, for
/// a bounded time.
pub(super) fn check(hello: &[u8; HELLO_LEN], line: &UnixStream) -> io::Result<Option<HandshakeOutcome>> {
    line.set_nonblocking(false)?;
    line.set_write_timeout(Some(HANDSHAKE_TIMEOUT))?;
    let (magic, version) = hello.split_at(8);
    if magic != MAGIC.to_ne_bytes() {
        return Ok(None);
    }
    let (own, theirs) = (geteuid(), socket_peercred(line.as_fd())?.uid);
    Ok(Some(if version[..4] != VERSION.to_ne_bytes() {
        HandshakeOutcome::Version
    } else if own.is_root() || theirs.is_root() || own == theirs {
        HandshakeOutcome::Welcome
    } else {
        HandshakeOutcome::User
    }))
}

/// Says no.
pub(super) fn refuse(mut line: &UnixStream, outcome: HandshakeOutcome) -> io::Result<()> {
    line.write_all(&reply(outcome, 0, &Terms { port: 0, datagram_len_max: 0, lossless: false }))
}

fn reply(outcome: HandshakeOutcome, bytes: usize, terms: &Terms) -> [u8; REPLY_LEN] {
    let mut message = [0; REPLY_LEN];
    let words = [
        VERSION,
        HandshakeOutcome::ALL.iter().position(|other| *other == outcome).unwrap_or_default() as u32,
        terms.port.into(),
        bytes as u32,
        terms.datagram_len_max as u32,
        terms.lossless.into(),
    ];
    message[..8].copy_from_slice(&MAGIC.to_ne_bytes());
    for (place, word) in message[8..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    message
}

/// Prepares the resources of an accepted worker, before the reply.
pub(super) struct Invitation {
    memory: OwnedFd,
    message: [u8; REPLY_LEN],
}

/// Makes an area, and keeps the switch's end of it.
pub(super) fn invite(terms: &Terms) -> io::Result<(Rings, Invitation)> {
    let bytes = ring::bytes_for(terms.datagram_len_max);
    let memory = memfd_create("netfold-shm", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let len = ring::area_len(bytes);
    ftruncate(&memory, len as u64)?;
    // A peer that truncates the area would make our reads fault (SIGBUS).
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let area = Mapping::of(memory.as_fd(), len, 0)?;
    let rings = Rings::new(area, End::Hub, bytes, terms.datagram_len_max)
        .ok_or_else(|| io::Error::other("no rings for datagrams of this length"))?;
    Ok((rings, Invitation { memory, message: reply(HandshakeOutcome::Welcome, bytes, terms) }))
}

impl Invitation {
    /// Gives the area to the worker, with the event descriptors of the switch and its own.
    pub(super) fn send(&self, line: &UnixStream, [hub, spoke]: [BorrowedFd<'_>; 2]) -> io::Result<()> {
        let descriptors = [self.memory.as_fd(), hub, spoke];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let sent = retry_on_intr(|| {
            sendmsg(line, &[IoSlice::new(&self.message)], &mut control, SendFlags::NOSIGNAL)
        })?;
        if sent == REPLY_LEN { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// Attaches to the switch of this name.
pub(super) fn attach(name: &Name) -> Result<Attached, IoError> {
    let absent = |source: io::Error| {
        let problem = match source.kind() {
            io::ErrorKind::ConnectionRefused => {
                "there is no such switch on this host, or it is in another network namespace; start it first, as in \
                 `netfold switch --io shm:NAME`"
            }
            _ => "its socket cannot be reached",
        };
        failed(name, problem, source)
    };
    let line = address(name).and_then(|at| UnixStream::connect_addr(&at)).map_err(absent)?;
    attach_over(line).map_err(|Refused { problem, source }| failed(name, problem, source))
}

/// The worker's part of the handshake.
pub(super) fn attach_over(line: UnixStream) -> Result<Attached, Refused> {
    greet(&line)?;
    let (rings, terms, hub, own) = accept(&line)?;
    Ok(Attached { rings, terms, hub, own, line })
}

/// Why a worker does not attach.
pub(super) struct Refused {
    pub(super) problem: &'static str,
    pub(super) source: io::Error,
}

impl<E: Into<io::Error>> From<E> for Refused {
    fn from(source: E) -> Self {
        let source = source.into();
        let problem = match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not reply",
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                "it ended while it was asked"
            }
            _ => "the memory that it gave cannot be used",
        };
        Self { problem, source }
    }
}

fn greet(mut line: &UnixStream) -> Result<(), Refused> {
    line.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    line.set_write_timeout(Some(HANDSHAKE_TIMEOUT))?;
    let mut hello = [0; HELLO_LEN];
    hello[..8].copy_from_slice(&MAGIC.to_ne_bytes());
    hello[8..12].copy_from_slice(&VERSION.to_ne_bytes());
    Ok(line.write_all(&hello)?)
}

type Accepted = (Rings, Terms, OwnedFd, OwnedFd);

fn accept(line: &UnixStream) -> Result<Accepted, Refused> {
    let mut message = [0; REPLY_LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    // A stopped or frozen process interrupts calls on sockets with a timeout, without a signal handler (signal(7)).
    let received =
        retry_on_intr(|| recvmsg(line, &mut [IoSliceMut::new(&mut message)], &mut control, flags))?.bytes;
    if received == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let mut descriptors = Vec::with_capacity(3);
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    if received < REPLY_LEN || message[..8] != MAGIC.to_ne_bytes() {
        let source = io::ErrorKind::InvalidData.into();
        return Err(Refused { problem: "something else has this name", source });
    }
    let words: Vec<u32> = message[8..].chunks_exact(4).map(word).collect();
    let spoken = HandshakeOutcome::ALL.get(words[1] as usize).copied().filter(|_| words[0] == VERSION);
    judge(spoken.unwrap_or(HandshakeOutcome::Version), line)?;
    let (bytes, datagram_len_max) = (words[3] as usize, words[4] as usize);
    let port = u16::try_from(words[2]).unwrap_or(LOCAL_PORTS);
    let invalid = || Refused::from(io::Error::from(io::ErrorKind::InvalidData));
    let [memory, hub, own] = <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| invalid())?;
    if !(1..LOCAL_PORTS).contains(&port) || bytes > ring::BYTES_MAX {
        return Err(invalid());
    }
    let len = ring::area_len(bytes);
    if !fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK) || fstat(&memory)?.st_size < len as _ {
        return Err(invalid());
    }
    let rings = Rings::new(Mapping::of(memory.as_fd(), len, 0)?, End::Spoke, bytes, datagram_len_max);
    let terms = Terms { port, datagram_len_max, lossless: words[5] != 0 };
    Ok((rings.ok_or_else(invalid)?, terms, hub, own))
}

/// Checks the switch's reply, and the owner of the switch.
fn judge(outcome: HandshakeOutcome, line: &UnixStream) -> Result<(), Refused> {
    let (own, theirs) = (geteuid(), socket_peercred(line)?.uid);
    let trusted = own.is_root() || theirs.is_root() || own == theirs;
    let problem = match outcome {
        HandshakeOutcome::Welcome if trusted => return Ok(()),
        HandshakeOutcome::Welcome | HandshakeOutcome::User => {
            "the switch belongs to another user; run both as the same, or the switch as root"
        }
        HandshakeOutcome::Full => "it has as many workers as it takes; end others, or start a further switch",
        HandshakeOutcome::Version => "the switch is of another version; run both from the same",
    };
    Err(Refused { problem, source: io::ErrorKind::PermissionDenied.into() })
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
