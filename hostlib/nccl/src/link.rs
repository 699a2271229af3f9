//! One connection, one way: messages with tags over TCP.
//!
//! A message is 16 bytes (magic 4, tag 4, length 8, little-endian) and its data. It goes to the first posted receive of its tag;
//! while there is none it stays in the socket, and so does all behind it, so nothing is ever buffered here. Testing and
//! posting requests do the work; there is no thread.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::abi::Handle;
use crate::memory::Region;
use crate::registry::{Id, Slots};
use crate::result::{Code, Failure, Result};

/// Requests in flight on a connection, as NCCL may have.
const REQUESTS_MAX: u8 = 32;
/// Bytes moved before a call returns, so that one connection does not keep NCCL's thread from the others.
const TURN_BYTES: usize = 4 << 20;
const HEAD: usize = 16;
const MAGIC: [u8; 4] = *b"nfm\x01";

/// The direction of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Out,
    In,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    id: Id,
    way: Direction,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stream: TcpStream,
    failure: Option<Failure>,
    slots: Slots<Message>,
    /// Slots in the order of posting, without finished ones.
    queue: VecDeque<u8>,
    head: [u8; HEAD],
    head_len: usize,
    /// The slot for the data of the incoming message, and its length.
    target: Option<(u8, usize)>,
}

#[derive(Debug)]
struct Message {
    /// `None` once it is done.
    region: Option<Region>,
    tag: i32,
    /// Bytes of head and data sent; bytes of data received.
    moved: usize,
}

impl Link {
    /// Over a non-blocking stream to an authenticated peer.
    pub(crate) fn new(id: Id, way: Direction, stream: TcpStream) -> Self {
        let state = State {
            stream,
            failure: None,
            slots: Slots::new(REQUESTS_MAX),
            queue: VecDeque::with_capacity(usize::from(REQUESTS_MAX)),
            head: [0; HEAD],
            head_len: 0,
            target: None,
        };
        Self { id, way, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a message; `None` when too many are in flight already.
    pub(crate) fn post(&self, way: Direction, region: Region, tag: i32) -> Result<Option<Handle>> {
        if way != self.way {
            return Err(Failure::usage("this connection goes the other way"));
        }
        let mut state = self.lock();
        state.check()?;
        let Some((slot, turn)) = state.slots.put(Message { region: Some(region), tag, moved: 0 }) else {
            state.advance(self.way);
            return Ok(None);
        };
        state.queue.push_back(slot);
        state.advance(self.way);
        Ok(Some(self.id.request(slot, turn)))
    }

    /// The bytes of a request that is done; `None` while it is in flight.
    pub(crate) fn test(&self, slot: u8, turn: u16) -> Result<Option<usize>> {
        let mut state = self.lock();
        let is_pending = state.slots.get(slot, turn)?.region.is_some();
        if is_pending {
            state.advance(self.way);
        }
        let message = state.slots.get(slot, turn)?;
        if message.region.is_some() {
            state.check()?;
            return Ok(None);
        }
        let moved = message.moved;
        state.slots.free(slot);
        Ok(Some(moved))
    }

    /// Ends the connection; requests in flight are forgotten, and their memory is not used any more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.failure.get_or_insert(Failure::usage("this connection is closed"));
        state.queue.clear();
        state.target = None;
        state.slots = Slots::new(0);
        // What has been sent still arrives.
        let _ = state.stream.shutdown(std::net::Shutdown::Write);
    }
}

/// The outcome of a system call.
enum Step {
    Moved(usize),
    Later,
}

impl State {
    fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Transfers what can be transferred now. Failures are kept.
    fn advance(&mut self, way: Direction) {
        let mut left = TURN_BYTES;
        while self.failure.is_none() && !self.queue.is_empty() && left > 0 {
            let step = match way {
                Direction::Out => self.send_some(left),
                Direction::In => self.receive_some(left),
            };
            match step {
                Ok(Step::Moved(bytes)) => left = left.saturating_sub(bytes.max(1)),
                Ok(Step::Later) => return,
                Err(failure) => self.failure = Some(failure),
            }
        }
    }

    fn send_some(&mut self, most: usize) -> Result<Step> {
        let Some(message) = self.queue.front().and_then(|slot| self.slots.at(*slot)) else {
            return Ok(Step::Later);
        };
        let Some(region) = &message.region else { return Ok(Step::Later) };
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&MAGIC);
        head[4..8].copy_from_slice(&message.tag.to_le_bytes());
        head[8..].copy_from_slice(&(region.len() as u64).to_le_bytes());
        let data = region.rest(message.moved.saturating_sub(HEAD));
        let parts =
            [IoSlice::new(&head[message.moved.min(HEAD)..]), IoSlice::new(&data[..data.len().min(most)])];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = match sendmsg(&self.stream, &parts, &mut SendAncillaryBuffer::default(), flags) {
            Ok(sent) => sent,
            Err(Errno::AGAIN) => return Ok(Step::Later),
            Err(Errno::INTR) => return Ok(Step::Moved(0)),
            Err(error) => return Err(lost(error)),
        };
        message.moved += sent;
        if message.moved == HEAD + region.len() {
            message.moved = region.len();
            message.region = None;
            self.queue.pop_front();
        }
        Ok(Step::Moved(sent))
    }

    fn receive_some(&mut self, most: usize) -> Result<Step> {
        if self.head_len < HEAD {
            let read = read(&mut self.stream, &mut self.head[self.head_len..])?;
            let Some(bytes) = read else { return Ok(Step::Later) };
            self.head_len += bytes;
            return Ok(Step::Moved(bytes));
        }
        let Some((slot, len)) = self.target else { return self.find_target() };
        let Some(message) = self.slots.at(slot) else { return Ok(Step::Later) };
        let at = message.moved;
        let mut bytes = 0;
        if at < len {
            let Some(region) = &mut message.region else { return Ok(Step::Later) };
            let window = region.window(at, len.min(at.saturating_add(most)));
            let Some(read) = read(&mut self.stream, window)? else { return Ok(Step::Later) };
            bytes = read;
            message.moved += bytes;
        }
        if message.moved == len {
            message.region = None;
            self.queue.retain(|queued| *queued != slot);
            (self.target, self.head_len) = (None, 0);
        }
        Ok(Step::Moved(bytes))
    }

    /// Finds the receive for the message whose head is complete.
    fn find_target(&mut self) -> Result<Step> {
        let word = |at: usize| [self.head[at], self.head[at + 1], self.head[at + 2], self.head[at + 3]];
        if word(0) != MAGIC {
            return Err(Failure::new(Code::Internal, "the other end sent an invalid message"));
        }
        let tag = i32::from_le_bytes(word(4));
        let len = u64::from(u32::from_le_bytes(word(8))) | u64::from(u32::from_le_bytes(word(12))) << 32;
        for index in 0..self.queue.len() {
            let slot = self.queue[index];
            let Some(message) = self.slots.at(slot) else { continue };
            if message.tag != tag {
                continue;
            }
            let room = message.region.as_ref().map_or(0, Region::len);
            if len > room as u64 {
                return Err(Failure::usage(format!(
                    "a message of {len} bytes arrived for a receive of {room}"
                )));
            }
            self.target = Some((slot, len as usize));
            return Ok(Step::Moved(0));
        }
        Ok(Step::Later)
    }
}

/// `None` when there is nothing to read now.
fn read(stream: &mut TcpStream, into: &mut [u8]) -> Result<Option<usize>> {
    match stream.read(into) {
        Ok(0) => Err(Failure::remote("the other end has closed the connection")),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(None),
            io::ErrorKind::Interrupted => Ok(Some(0)),
            _ => Err(lost(error)),
        },
    }
}

fn lost(error: impl std::fmt::Display) -> Failure {
    Failure::remote(format!("the connection to the other end is lost: {error}"))
}
