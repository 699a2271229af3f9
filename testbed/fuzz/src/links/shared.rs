//! The handshake of shared memory, and rings that the other side fills: a worker takes what a switch gives when all of it fits, and a
//! switch accepts the hello alone.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use netfold_io::shm::{DATAGRAM_LEN_MAX, LOCAL_PORTS, Spoke, fuzzing};
use netfold_io::{IoError, PacketIo, PortId, Transmit};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::input::Input;

const REPLY: usize = 32;
/// Bytes of both rings' control words, and of one's.
const CONTROL: usize = 1024;
const RING_CONTROL: usize = 512;
const RING_MIN: u32 = 1 << 16;
const RING_MAX: u32 = 1 << 22;

pub(super) fn run(input: &mut Input<'_>) {
    if input.below(4) == 0 { serve(input) } else { attach(input) }
}

fn hello(version: u32) -> [u8; fuzzing::HELLO] {
    let mut hello = [0; fuzzing::HELLO];
    hello[..8].copy_from_slice(&u64::from_be_bytes(*b"netfold\0").to_ne_bytes());
    hello[8..12].copy_from_slice(&version.to_ne_bytes());
    hello
}

/// A worker that says anything: it is accepted by magic and version alone, and what it then gets fits it.
fn serve(input: &mut Input<'_>) {
    let (line, theirs) = UnixStream::pair().expect("there are descriptors");
    let mut sent = hello(1);
    input.disturb(&mut sent);
    let len = 1 + input.below(256) * input.below(256) % DATAGRAM_LEN_MAX;
    let served = fuzzing::serve(&line, &sent, len).expect("a reply fits into a socket");
    let right = hello(1);
    let expected = (sent[..8] == right[..8]).then_some(sent[8..12] == right[8..12]);
    assert_eq!(served, expected);
    if served.is_none() {
        return;
    }
    match fuzzing::attach(theirs, len) {
        Ok(spoke) => assert!(served == Some(true) && spoke.capabilities().datagram_len_max == len),
        Err((problem, _)) => assert!(served == Some(false), "{problem}"),
    }
}

/// What a switch says and gives.
struct Offer {
    message: [u8; REPLY],
    ring: u32,
    datagram: u32,
    area: u64,
    sealed: bool,
    descriptors: usize,
}

impl Offer {
    fn new(input: &mut Input<'_>) -> Self {
        let ring = RING_MIN << input.below(8);
        let datagram = 1 + (input.word() & 0x7fff);
        let mut message = [0; REPLY];
        message[..8].copy_from_slice(&hello(1)[..8]);
        let lossless = input.below(2) as u32;
        for (at, word) in
            [1, 0, 5 * input.below(256) as u32, ring, datagram, lossless].into_iter().enumerate()
        {
            message[8 + 4 * at..12 + 4 * at].copy_from_slice(&word.to_ne_bytes());
        }
        if input.below(4) == 0 {
            input.disturb(&mut message);
        }
        let word =
            |at: usize| u32::from_ne_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
        let (ring, datagram) = (word(20), word(24));
        let whole = CONTROL as u64 + 2 * u64::from(ring.min(2 * RING_MAX));
        let area = if input.below(8) == 0 { whole.saturating_sub(input.word().into()) } else { whole };
        let descriptors = if input.below(8) == 0 { input.below(5) } else { 3 };
        Self { message, ring, datagram, area, sealed: input.below(8) > 0, descriptors }
    }

    /// Whether a worker is to take it.
    fn is_sound(&self) -> bool {
        let word = |at: usize| u32::from_ne_bytes(self.message[at..at + 4].try_into().expect("4 bytes"));
        self.message[..8] == hello(1)[..8]
            && (word(8), word(12)) == (1, 0)
            && (1..u32::from(LOCAL_PORTS)).contains(&word(16))
            && self.ring.is_power_of_two()
            && (RING_MIN..=RING_MAX).contains(&self.ring)
            && (1..=self.ring / 8).contains(&self.datagram)
            && (self.sealed && self.descriptors == 3)
            && self.area >= CONTROL as u64 + 2 * u64::from(self.ring)
    }

    /// The memory, which was sent together with the message.
    fn send(&self, line: &UnixStream) -> File {
        let memory = memfd_create("netfold-fuzz", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
        let memory = memory.expect("there are descriptors");
        ftruncate(&memory, self.area).expect("it is short");
        if self.sealed {
            fcntl_add_seals(&memory, SealFlags::SHRINK).expect("it may be sealed");
        }
        let event =
            || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("there are descriptors");
        let events: [OwnedFd; 3] = std::array::from_fn(|_| event());
        let all: Vec<BorrowedFd<'_>> =
            [memory.as_fd()].into_iter().chain(events.iter().map(AsFd::as_fd)).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if self.descriptors > 0 {
            control.push(SendAncillaryMessage::ScmRights(&all[..self.descriptors]));
        }
        sendmsg(line, &[IoSlice::new(&self.message)], &mut control, SendFlags::NOSIGNAL).expect("it fits");
        File::from(memory)
    }
}

/// A switch that says anything and gives any memory.
fn attach(input: &mut Input<'_>) {
    let (line, mut theirs) = UnixStream::pair().expect("there are descriptors");
    let offer = Offer::new(input);
    let memory = offer.send(&theirs);
    let wanted = 1 + (input.word() & 0x7fff) as usize;
    let attached = fuzzing::attach(line, wanted);
    let mut said = [0; fuzzing::HELLO];
    theirs.read_exact(&mut said).expect("a worker says its hello first");
    assert_eq!(said, hello(1));
    assert_eq!(attached.is_ok(), offer.is_sound(), "{:02x?}: {:?}", offer.message, attached.err());
    let Ok(mut spoke) = attached else { return };
    let longest = spoke.capabilities().datagram_len_max;
    assert_eq!(longest, wanted.min(DATAGRAM_LEN_MAX).min(offer.datagram as usize));
    receive(input, &mut spoke, &memory, &offer);
    send(input, &mut spoke, &memory, &offer);
    // The line says nothing but that the switch is there.
    let _ = theirs.write_all(input.bytes(1));
    drop(theirs);
}

/// Fills the worker's ring, and has it read: it gets the datagrams that are there, and nothing once one is impossible.
fn receive(input: &mut Input<'_>, spoke: &mut Spoke, memory: &File, offer: &Offer) {
    let (mut ring, mut datagrams, mut is_broken) = (Vec::new(), Vec::new(), false);
    for _ in 0..input.below(6) {
        let bytes = input.some(40);
        let len = if input.below(8) == 0 { input.word() } else { bytes.len() as u32 };
        ring.extend_from_slice(&len.to_ne_bytes());
        ring.extend_from_slice(bytes);
        ring.resize(ring.len().next_multiple_of(8), 0);
    }
    let written = match input.below(16) {
        0 => input.word(),
        1 => 8 * input.below(256) as u32,
        _ => ring.len() as u32,
    };
    let data = CONTROL as u64 + u64::from(offer.ring);
    memory.write_all_at(&ring, data).expect("it is within the memory");
    memory.write_all_at(&written.to_ne_bytes(), RING_CONTROL as u64).expect("it is within the memory");
    let mut at = 0;
    while at < written as usize {
        let prefix: [u8; 4] = std::array::from_fn(|byte| ring.get(at + byte).copied().unwrap_or(0));
        let len = u32::from_ne_bytes(prefix) as usize;
        let left = written as usize - at;
        is_broken = written > offer.ring
            || left % 8 > 0
            || len > offer.datagram as usize
            || (4 + len).next_multiple_of(8) > left;
        if is_broken {
            break;
        }
        let byte = |index: usize| ring.get(at + 4 + index).copied().unwrap_or(0);
        datagrams.push((0..len).map(byte).collect::<Vec<_>>());
        at += (4 + len).next_multiple_of(8);
    }
    let mut batch = spoke.capabilities().batch();
    let mut got: Vec<Vec<u8>> = Vec::new();
    let ended = loop {
        match spoke.receive(&mut batch) {
            Ok(0) => break false,
            Ok(_) => got.extend(batch.packets().iter().map(|packet| batch.bytes(packet).to_vec())),
            Err(IoError::PeerClosed) => break true,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(ended, is_broken, "{written} of {}", ring.len());
    // Those that are longer than this end takes may be left out.
    let mut got = got.into_iter().peekable();
    for datagram in datagrams {
        let is_there = got.next_if_eq(&datagram).is_some();
        assert!(is_there || is_broken || datagram.len() > spoke.capabilities().datagram_len_max);
    }
    assert_eq!(got.next(), None, "it gets nothing that was not sent");
}

/// Has the worker send while the switch says anything of what it has read.
fn send(input: &mut Input<'_>, spoke: &mut Spoke, memory: &File, offer: &Offer) {
    let bytes = input.bytes(spoke.capabilities().datagram_len_max.min(64));
    let read = if input.below(4) == 0 { input.word() } else { 0 };
    memory.write_all_at(&read.to_ne_bytes(), 128).expect("it is within the memory");
    let packet = Transmit { port: PortId(0), offset: 0, len: bytes.len() as u32 };
    if let Ok(1) = spoke.transmit(bytes, &[packet]) {
        let mut there = vec![0; bytes.len()];
        memory.read_exact_at(&mut there, CONTROL as u64 + 4).expect("it is within the memory");
        assert_eq!(there, bytes);
        assert!(bytes.len() <= offer.datagram as usize);
    }
}
