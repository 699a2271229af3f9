//! Hellos: which connections a listener keeps until it has them, and which it then accepts.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use nccl_net_netfold::fuzzing as nccl;
use netfold_collectives::mesh::{ExchangeError, Refusal, fuzzing as mesh};
use netfold_listener::{HelloQueue, Policy, Source, policy};

use crate::input::Input;

const STEPS_MAX: usize = 60;
const LISTENER: Policy = Policy { connections_max: 6, source_max: 3, ..policy::MESH };
const SOURCES: usize = 3;
const HELLO: usize = mesh::HELLO;
const JOB: &str = "fuzz";
const WORLD: u16 = 4;

pub(super) fn run(input: &mut Input<'_>) {
    match input.below(4) {
        0 => queue(input),
        1 => rendezvous(&rendezvous_hello(input)),
        2 => links(input),
        _ => handles(input),
    }
}

/// What a client has sent and the listener has not read; `None` at the end: it has closed.
#[derive(Clone, Default)]
struct Client {
    number: usize,
    unread: Rc<RefCell<VecDeque<Option<u8>>>>,
}

impl Read for Client {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut unread = self.unread.borrow_mut();
        let mut len = 0;
        while let (Some(place), Some(Some(byte))) = (buffer.get_mut(len), unread.front()) {
            *place = *byte;
            unread.pop_front();
            len += 1;
        }
        match unread.front() {
            _ if len > 0 => Ok(len),
            Some(None) => Ok(0),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// A client as the harness knows it.
struct Known {
    client: Client,
    source: u32,
    since: Duration,
    sent: Vec<u8>,
    closed: bool,
    /// Its connection was handed over, or was not kept.
    over: bool,
}

/// A listener with clients that send their hellos in pieces: what it hands over is the first bytes of a client, once, and all that
/// follows is left for the protocol behind.
fn queue(input: &mut Input<'_>) {
    let mut queue: HelloQueue<Client, HELLO> = HelloQueue::new(LISTENER);
    let (mut now, mut clients): (_, Vec<Known>) = (Duration::ZERO, Vec::new());
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        match input.below(6) {
            0 => connect(&mut queue, &mut clients, now, input),
            1 => queue.accept(now, || Err(io::Error::from_raw_os_error(24))),
            2 => now += LISTENER.first_message_timeout / 3,
            step => {
                let Some(at) = input.below(256).checked_rem(clients.len()) else { continue };
                let bytes =
                    if step == 3 { rendezvous_hello(input).to_vec() } else { input.bytes(40).to_vec() };
                clients[at].send(&bytes, step == 5 && bytes.is_empty());
            }
        }
        collect(&mut queue, &mut clients, now);
    }
}

fn connect(
    queue: &mut HelloQueue<Client, HELLO>,
    clients: &mut Vec<Known>,
    now: Duration,
    input: &mut Input<'_>,
) {
    let client = Client { number: clients.len(), ..Client::default() };
    let source = input.below(SOURCES) as u32;
    let mut known =
        Known { client: client.clone(), source, since: now, sent: Vec::new(), closed: false, over: false };
    known.send(input.some(120), false);
    let mut waiting = Some((client, Source::User(source)));
    queue.accept(now, || waiting.take().ok_or_else(|| io::ErrorKind::WouldBlock.into()));
    // Not accepted: the listener is left alone after a shortage.
    known.over = waiting.is_some();
    clients.push(known);
}

impl Known {
    fn send(&mut self, bytes: &[u8], close: bool) {
        if self.closed {
            return;
        }
        self.client.unread.borrow_mut().extend(bytes.iter().copied().map(Some));
        self.sent.extend_from_slice(bytes);
        if close {
            self.client.unread.borrow_mut().push_back(None);
            self.closed = true;
        }
    }
}

fn collect(queue: &mut HelloQueue<Client, HELLO>, clients: &mut [Known], now: Duration) {
    queue.accept(now, || Err(io::ErrorKind::WouldBlock.into()));
    while let Some((stream, hello)) = queue.next(now) {
        let known = &mut clients[stream.number];
        assert!(!known.over, "a connection is handed over once");
        known.over = true;
        assert_eq!(Some(&hello[..]), known.sent.get(..HELLO));
        let rest = known.client.unread.borrow().iter().flatten().copied().collect::<Vec<_>>();
        assert_eq!(rest, known.sent[HELLO..], "what follows is left");
        rendezvous(&hello);
    }
    let mut of_sources = [0; SOURCES];
    for stream in queue.streams() {
        let known = &clients[stream.number];
        assert!(!known.over && !known.closed && known.sent.len() < HELLO);
        assert!(now < known.since + LISTENER.first_message_timeout, "its time is over");
        of_sources[known.source as usize] += 1;
    }
    assert!(of_sources.iter().all(|count| *count <= LISTENER.source_max));
    let pending: usize = of_sources.iter().sum();
    assert!(pending <= LISTENER.connections_max);
    if pending > 0 {
        let deadline = queue.next_deadline().expect("a hello is waited for");
        assert!(deadline > now && deadline <= now + LISTENER.first_message_timeout);
    }
}

/// A hello of a rank, or nearly so.
fn rendezvous_hello(input: &mut Input<'_>) -> [u8; HELLO] {
    let rank = input.below(6) as u16;
    let world = if input.below(8) == 0 { 5 } else { WORLD };
    let client = mesh::rendezvous(JOB, rank.max(1), (0..world).map(|_| None).collect(), Duration::ZERO);
    let mut hello = mesh::hello(&client);
    hello[8..10].copy_from_slice(&rank.to_le_bytes());
    input.disturb(&mut hello);
    hello
}

/// Rank 0 accepts a hello when all of it fits, and what it answers is what the other rank understands.
fn rendezvous(hello: &[u8; HELLO]) {
    let streams = |world| (0..world).map(|_| None).collect();
    let first = mesh::rendezvous(JOB, 0, streams(WORLD), Duration::ZERO);
    let (accepted, answer) = mesh::answer(&first, hello);
    let number = |at: usize| u16::from_le_bytes([hello[at], hello[at + 1]]);
    let (rank, world, name) = (number(8), number(10), usize::from(hello[12]));
    let magic = b"nfrendz\x01";
    let is_named = hello.get(16..16 + name) == Some(JOB.as_bytes());
    let fits = hello[..8] == *magic && is_named && world == WORLD && (1..WORLD).contains(&rank);
    assert_eq!(accepted, fits.then_some(rank), "{hello:02x?}");
    let Some(answer) = answer else {
        assert!(hello[..7] != magic[..7] || (hello[7] == magic[7] && name > HELLO - 16));
        return;
    };
    let other = mesh::rendezvous(JOB, 1, streams(WORLD), Duration::ZERO);
    match mesh::check_welcome(&other, &answer) {
        Ok(()) => assert!(fits),
        // A rank of that version reads ours, and what follows has no meaning to it.
        Err(ExchangeError::NotRendezvous { .. }) => assert!(hello[7] != magic[7]),
        Err(ExchangeError::Refused { why, .. }) => assert!(match why {
            Refusal::OtherJob => !is_named,
            Refusal::OtherWorld { world: told } => told == WORLD && world != WORLD,
            Refusal::NoSuchRank => !(1..WORLD).contains(&rank),
            _ => false,
        }),
        Err(error) => panic!("{error}"),
    }
}

/// Introductions of ranks are written as they were read, and a link is accepted by both tokens and a higher rank alone.
fn links(input: &mut Input<'_>) {
    let mut introductions: Vec<Vec<u8>> = Vec::new();
    for rank in 0..WORLD as u8 {
        let mut bytes = vec![1];
        bytes.extend([rank; 16]);
        bytes.extend([7, 80]);
        let ip: IpAddr = Ipv4Addr::new(198, 18, 0, rank).into();
        match ip {
            IpAddr::V4(ip) if input.below(2) == 0 => {
                bytes.push(4);
                bytes.extend(ip.octets());
            }
            _ => {
                bytes.push(16);
                bytes.extend([rank; 16]);
            }
        }
        bytes.extend_from_slice(input.some(9));
        input.disturb(&mut bytes);
        if let Some(written) = mesh::introduction(&bytes) {
            assert_eq!(written, bytes);
            introductions.push(bytes);
        }
    }
    if introductions.len() < 2 {
        return;
    }
    let (to, from) = (input.below(introductions.len()), input.below(introductions.len() + 1));
    let token = |rank: usize| introductions.get(rank).map_or([9; 16].as_slice(), |bytes| &bytes[1..17]);
    let mut hello = Vec::from(*b"nfmesh \x01");
    hello.extend_from_slice(token(to));
    hello.extend_from_slice(token(from));
    hello.extend_from_slice(&(from as u64).to_le_bytes());
    let whole = hello.clone();
    input.disturb(&mut hello);
    let is_right = hello == whole && from > to && from < introductions.len();
    let hello: [u8; mesh::LINK_HELLO] = hello.try_into().expect("as long");
    let caller = mesh::link_caller(to as u16, &introductions, &hello);
    // A disturbed hello may be that of another rank with the same token.
    assert!(!is_right || caller == Some(from as u16));
    if let Some(caller) = caller.map(usize::from) {
        assert!(caller > to && hello[8..24] == *token(to) && hello[24..40] == *token(caller));
    }
}

/// A handle of NCCL's plugin is written as it was read, and its token is the only one that its listener accepts.
fn handles(input: &mut Input<'_>) {
    let mut handle = [0; nccl::HANDLE];
    handle[..8].copy_from_slice([b"nfnccl\x01p", b"nfnccl\x01c"][input.below(2)]);
    let token = input.bytes(16);
    handle[8..8 + token.len()].copy_from_slice(token);
    handle[24] = [4, 6][input.below(2)];
    let address = input.bytes(18);
    handle[26..26 + address.len()].copy_from_slice(address);
    input.disturb(&mut handle);
    if let Some(written) = nccl::handle(&handle) {
        let address = if handle[24] == 4 { 32 } else { 44 };
        assert_eq!((&written[..25], &written[26..address]), (&handle[..25], &handle[26..address]));
        assert_eq!(nccl::handle(&written), Some(written), "what was written is read");
    }
    let mut hello = [0; nccl::HELLO];
    hello[..8].copy_from_slice(b"nfhello\x01");
    hello[8..].copy_from_slice(&handle[8..24]);
    let right = hello;
    input.disturb(&mut hello);
    if let Some(accepted) = nccl::accepts(&handle, &hello) {
        assert!(handle[..8] == *b"nfnccl\x01p");
        assert_eq!(accepted, hello == right);
    }
}
