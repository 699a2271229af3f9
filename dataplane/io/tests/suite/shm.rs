//! Rings between processes beside the conformance checks: who may attach, what is told to whom does not, ends that die, ends that write
//! nonsense, and what is left behind.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netfold_io::shm::{Hub, LOCAL_PORTS, Name, Spoke, WORKERS_MAX};
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{IoError, OpenOptions, PacketIo, PortId, RxBatch, Transmit, open};
use netfold_testkit::process::{is_running, signal};
use netfold_testkit::wait::{eventually, poll};

const HANG_TIMEOUT: Duration = Duration::from_secs(20);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Where hubs are for their control planes.
const AT: SocketAddr = SocketAddr::new(HERE, 0);
const LEN_MAX: usize = 1436;

fn name(of: &str) -> Name {
    format!("test-{}-{of}", std::process::id()).parse().unwrap()
}

fn hub(name: &Name) -> Hub {
    Hub::open(name, AT, LEN_MAX, None).unwrap()
}

fn attach(name: &Name) -> Spoke {
    Spoke::attach(name, HERE, LEN_MAX).unwrap()
}

fn to(port: u16, len: usize) -> Transmit {
    Transmit { port: PortId(port), offset: 0, len: len as u32 }
}

/// What stands in an error and its causes.
fn said(error: &IoError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {cause}")
}

/// Receives until a datagram has arrived, or the peer has closed.
fn next(io: &mut dyn PacketIo, batch: &mut RxBatch) -> Result<usize, IoError> {
    let begun = Instant::now();
    loop {
        let count = io.receive(batch)?;
        if count > 0 {
            return Ok(count);
        }
        io.wait(Duration::from_millis(100))?;
        assert!(begun.elapsed() < HANG_TIMEOUT, "nothing arrives");
    }
}

#[test]
fn silent_connections_delay_no_worker() {
    let name = name("silent");
    let mut hub = hub(&name);
    let at = std::os::unix::net::SocketAddr::from_abstract_name(format!("netfold/shm/{name}")).unwrap();
    // More than may be pending: one that took its time for each would delay the worker by minutes.
    let _held: Vec<UnixStream> = (0..200).map(|_| UnixStream::connect_addr(&at).unwrap()).collect();
    let _worker = attach(&name);
    poll("the worker is attached", || (hub.workers() == 1).then_some(()));
}

#[test]
fn errors_name_the_remedy() {
    let name = name("errors");
    let none = said(&Spoke::attach(&name, HERE, LEN_MAX).unwrap_err());
    assert!(
        none.contains("no such switch on this host") && none.contains("netfold switch --io shm:"),
        "{none}"
    );
    let mut first = hub(&name);
    let taken = said(&Hub::open(&name, AT, LEN_MAX, None).map(drop).unwrap_err());
    assert!(taken.contains("another switch has this name"), "{taken}");
    let mut workers: Vec<_> = (0..WORKERS_MAX).map(|_| attach(&name)).collect();
    let full = said(&Spoke::attach(&name, HERE, LEN_MAX).unwrap_err());
    assert!(full.contains("as many workers as it takes"), "{full}");
    // A port belongs to one worker, and a detached worker cannot be bound.
    let gone = workers.remove(0).local_addr().unwrap();
    let begun = Instant::now();
    while first.workers() == WORKERS_MAX {
        assert!(begun.elapsed() < HANG_TIMEOUT, "the hub does not notice that a worker is lost");
    }
    let error = first.bind_port(PortId(0), gone).unwrap_err();
    assert!(said(&error).contains("attached by that number"), "{error}");
    let at = workers[0].local_addr().unwrap();
    first.bind_port(PortId(3), at).unwrap();
    let bound = first.bind_port(PortId(4), at);
    assert!(matches!(bound, Err(IoError::PeerBound { port: PortId(3), .. })), "{bound:?}");
    let elsewhere = first.bind_port(PortId(5), SocketAddr::new(HERE, LOCAL_PORTS)).unwrap_err();
    assert!(said(&elsewhere).contains("has no uplink"), "{elsewhere}");
    // There is room again, under a number that was not used recently.
    let again = attach(&name).local_addr().unwrap();
    assert!(again != gone && again.port() < LOCAL_PORTS);
}

#[test]
fn specs_open_either_end() {
    let words = format!("shm:{}", name("words"));
    let at = |address: &str| OpenOptions {
        datagram_len_max: LEN_MAX,
        ..OpenOptions::at(address.parse().unwrap())
    };
    let mut hub =
        open(&format!("{words},uplink=udp").parse().unwrap(), &at("127.0.0.1:0").for_switch()).unwrap();
    let worker = open(&words.parse().unwrap(), &at("127.0.0.7:0")).unwrap();
    let local = worker.local_addr().unwrap();
    assert!(local.ip() == IpAddr::from([127, 0, 0, 7]) && (1..LOCAL_PORTS).contains(&local.port()));
    assert!(hub.local_addr().unwrap().port() >= LOCAL_PORTS, "the uplink's");
    assert!(!worker.capabilities().lossless, "the uplink loses packets");
    hub.bind_port(PortId(0), local).unwrap();
    hub.bind_port(PortId(1), "127.0.0.1:2049".parse().unwrap()).unwrap();
    let peers = [0, 1].map(|port| hub.peer(PortId(port)).map(|at| at.port()));
    assert_eq!(peers, [Some(local.port()), Some(2049)]);
    let uplink = open(&format!("{words},uplink=udp").parse().unwrap(), &at("127.0.0.1:0"));
    assert!(matches!(uplink.map(drop), Err(IoError::Unsupported(_))));
}

/// A hub with one worker beside it and one by UDP moves from either to the other.
#[test]
fn an_uplink_wakes_the_switch_and_is_woken() {
    let name = name("uplink");
    let config = UdpConfig { datagram_len_max: LEN_MAX, ..UdpConfig::default() };
    let socket = UdpIo::bind(SocketAddr::new(HERE, 0), config).unwrap();
    let at = socket.local_addr().unwrap();
    let mut far = UdpIo::connect(at, config).unwrap();
    let mut hub = Hub::open(&name, AT, LEN_MAX, Some(Box::new(socket))).unwrap();
    let mut near = attach(&name);
    hub.bind_port(PortId(0), near.local_addr().unwrap()).unwrap();
    hub.bind_port(PortId(1), far.local_addr().unwrap()).unwrap();
    let waker = hub.waker();
    let forwarding = std::thread::spawn(move || {
        let (mut batch, mut sleeps) = (hub.capabilities().batch(), 0);
        let mut moved = 0;
        while moved < 2000 {
            if hub.receive(&mut batch).unwrap() == 0 {
                sleeps += 1;
                assert!(hub.wait(HANG_TIMEOUT).unwrap(), "the hub was not woken");
                continue;
            }
            let others: Vec<_> =
                batch.packets().iter().map(|packet| packet.to(PortId(1 - packet.port.0))).collect();
            moved += others.len();
            assert_eq!(hub.transmit(batch.memory(), &others).unwrap(), others.len());
        }
        (hub.counters(), sleeps)
    });
    let mut batch = RxBatch::new(64, 1 << 17);
    for round in 0..1000_u32 {
        let bytes = round.to_ne_bytes();
        let (from, other): (&mut dyn PacketIo, &mut dyn PacketIo) = (&mut near, &mut far);
        assert_eq!(from.transmit(&bytes, &[to(0, 4)]).unwrap(), 1);
        assert_eq!(next(other, &mut batch).unwrap(), 1);
        assert_eq!(batch.bytes(&batch.packets()[0]), bytes);
        assert_eq!(other.transmit(&bytes, &[to(0, 4)]).unwrap(), 1);
        assert_eq!(next(from, &mut batch).unwrap(), 1);
    }
    let (counters, sleeps) = forwarding.join().unwrap();
    waker.wake();
    assert_eq!((counters.rx_packets, counters.tx_packets), (2000, 2000), "{counters:?}");
    assert!(sleeps > 0, "it slept at times, and was woken from both sides");
}

#[test]
fn strangers_and_other_versions_are_refused() {
    let name = name("strangers");
    let mut hub = hub(&name);
    let at = std::os::unix::net::SocketAddr::from_abstract_name(format!("netfold/shm/{name}")).unwrap();
    // Nonsense, too little, nothing at all, another version.
    for hello in [&b"GET / HTTP/1.1\r\n"[..], b"net", b""] {
        let mut line = UnixStream::connect_addr(&at).unwrap();
        line.write_all(hello).unwrap();
        line.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(line.read(&mut [0; 64]).unwrap_or(0), 0);
    }
    let mut hello = u64::from_be_bytes(*b"netfold\0").to_ne_bytes().to_vec();
    hello.extend(99_u32.to_ne_bytes());
    hello.extend([0; 4]);
    let mut line = UnixStream::connect_addr(&at).unwrap();
    line.write_all(&hello).unwrap();
    let mut answer = [0; 32];
    line.read_exact(&mut answer).unwrap();
    assert_eq!(answer[12..16], 1_u32.to_ne_bytes(), "the version is named as the reason");
    // A worker that sends more is disconnected; the others stay.
    let stays = attach(&name);
    assert_eq!(hub.workers(), 1);
    drop(stays);
    drop(hub);

    // A switch of another version, one that says nothing, and one that is something else.
    let answer = |words: &[u32]| {
        let mut answer = u64::from_be_bytes(*b"netfold\0").to_ne_bytes().to_vec();
        words.iter().for_each(|word| answer.extend(word.to_ne_bytes()));
        answer
    };
    for (reply, expected) in [
        (answer(&[7, 0, 1, 0, 0, 0]), "of another version"),
        (answer(&[1, 0, 1, 65_536, 1436, 0]), "memory that it gave"),
        (answer(&[1, 0, 2000, u32::MAX, u32::MAX, 0]), "memory that it gave"),
        (b"HTTP/1.1 400 Bad Request\r\nContent".to_vec()[..32].to_vec(), "something else has this name"),
        (Vec::new(), "ended while it was asked"),
    ] {
        let listener = UnixListener::bind_addr(&at).unwrap();
        let serving = std::thread::spawn(move || {
            let (mut line, _) = listener.accept().unwrap();
            line.read_exact(&mut [0; 16]).unwrap();
            line.write_all(&reply).unwrap();
        });
        let error = said(&Spoke::attach(&name, HERE, LEN_MAX).unwrap_err());
        assert!(error.contains(expected), "{error}");
        serving.join().unwrap();
    }
}

/// The environment variable that makes this binary another process: its role and the switch's name.
const OTHER: &str = "NETFOLD_TEST_SHM";

/// Starts this test's other process.
fn other(test: &str, role: &str, name: &Name) -> Child {
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "--nocapture", test]).env(OTHER, format!("{role} {name}"));
    other.stdout(Stdio::piped()).spawn().unwrap()
}

/// The role and the name, in the other process.
fn role() -> Option<(String, Name)> {
    let text = std::env::var(OTHER).ok()?;
    let (role, name) = text.split_once(' ')?;
    Some((role.to_owned(), name.parse().unwrap()))
}

/// Waits for a word of the other process.
fn await_word(child: &mut Child, word: &str) {
    let (mut said, mut byte) = (String::new(), [0; 1]);
    let stdout = child.stdout.as_mut().unwrap();
    while !said.contains(word) {
        assert!(stdout.read(&mut byte).unwrap() > 0, "it ended: {said}");
        said.push(char::from(byte[0]));
    }
}

/// A worker that is stopped and continued while it waits for the switch's reply, as by a debugger or with a container that is paused, waits on.
#[test]
fn a_worker_that_was_stopped_waits_on_for_the_reply() {
    if let Some((_, name)) = role() {
        println!("refused: {}.", said(&Spoke::attach(&name, HERE, LEN_MAX).unwrap_err()));
        return;
    }
    let name = name("stopped");
    let at = std::os::unix::net::SocketAddr::from_abstract_name(format!("netfold/shm/{name}")).unwrap();
    let listener = UnixListener::bind_addr(&at).unwrap();
    let mut child = other("shm::a_worker_that_was_stopped_waits_on_for_the_reply", "worker", &name);
    let (mut line, _) = listener.accept().unwrap();
    line.read_exact(&mut [0; 16]).unwrap();
    let id = child.id();
    let await_state = |wanted: char| {
        eventually(format_args!("all threads of the worker in state {wanted}"), || {
            assert!(is_running(id.into()), "the worker has given up");
            thread_states(id).iter().all(|state| *state == wanted)
        });
    };
    for _ in 0..5 {
        await_state('S');
        signal(id.into(), "STOP");
        await_state('T');
        signal(id.into(), "CONT");
    }
    drop(line);
    await_word(&mut child, "it ended while it was asked");
    child.wait().unwrap();
}

/// The states of a process's threads, as in proc(5).
fn thread_states(id: u32) -> Vec<char> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
    let state = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        stat.rsplit(')').next()?.trim_start().chars().next()
    };
    threads.filter_map(state).collect()
}

/// Echoes datagrams until the other side has closed.
fn echo(io: &mut dyn PacketIo) {
    let mut batch = io.capabilities().batch();
    loop {
        let count = match io.receive(&mut batch) {
            Ok(count) => count,
            Err(IoError::PeerClosed) => return,
            Err(error) => panic!("{error}"),
        };
        let echo: Vec<_> = batch.packets().iter().map(|packet| packet.to(packet.port)).collect();
        let mut taken = 0;
        while taken < count {
            match io.transmit(batch.memory(), &echo[taken..]) {
                Ok(more) => taken += more,
                Err(IoError::PeerClosed) => return,
                Err(error) => panic!("{error}"),
            }
            if taken < count {
                io.wait(HANG_TIMEOUT).unwrap();
            }
        }
        if count == 0 {
            io.wait(Duration::from_secs(1)).unwrap();
        }
    }
}

/// Datagrams of all lengths go through two processes, in order and whole, many at a time and one at a time.
#[test]
fn two_processes_move_datagrams() {
    if let Some((_, name)) = role() {
        let mut spoke = attach(&name);
        println!("port {}.", spoke.local_addr().unwrap().port());
        return echo(&mut spoke);
    }
    let name = name("echo");
    let mut hub = hub(&name);
    let mut child = other("shm::two_processes_move_datagrams", "echo", &name);
    await_word(&mut child, "port 1.");
    hub.bind_port(PortId(9), SocketAddr::new(HERE, 1)).unwrap();
    let memory: Vec<u8> = (0..4 * LEN_MAX).map(|index| (index * 7 % 251) as u8).collect();
    let (mut sent, mut back, mut batch) = (0_usize, 0_usize, hub.capabilities().batch());
    let packet = |number: usize| {
        let len = number * 31 % (LEN_MAX + 1);
        Transmit { port: PortId(9), offset: (number % LEN_MAX) as u32, len: len as u32 }
    };
    const COUNT: usize = 300_000;
    while back < COUNT {
        // Windows from one to more than a ring holds.
        let window = 1 << (back / 10_000 % 12);
        let until = COUNT.min(back + window).min(sent + 300);
        if sent < until {
            let burst: Vec<_> = (sent..until).map(packet).collect();
            sent += hub.transmit(&memory, &burst).unwrap();
        }
        if hub.receive(&mut batch).unwrap() == 0 {
            assert!(hub.wait(HANG_TIMEOUT).unwrap(), "{back} of {sent} came back");
        }
        for got in batch.packets() {
            assert_eq!(got.port, PortId(9));
            assert!(batch.bytes(got) == packet(back).bytes(&memory).unwrap(), "datagram {back}");
            back += 1;
        }
    }
    assert_eq!(hub.counters().malformed, 0);
    drop(hub);
    assert!(child.wait().unwrap().success());
}

/// A worker that is killed leaves its port without a peer, and the hub, the other workers and the port's next peer go on.
#[test]
fn a_killed_worker_is_detected_and_can_be_replaced() {
    if let Some((_, name)) = role() {
        let mut spoke = attach(&name);
        println!("here.");
        return echo(&mut spoke);
    }
    let name = name("worker");
    let mut hub = hub(&name);
    let mut stays = attach(&name);
    hub.bind_port(PortId(0), stays.local_addr().unwrap()).unwrap();
    for number in 2..4 {
        let mut child = other("shm::a_killed_worker_is_detected_and_can_be_replaced", "echo", &name);
        await_word(&mut child, "here.");
        hub.bind_port(PortId(1), SocketAddr::new(HERE, number)).unwrap();
        let mut batch = RxBatch::new(64, 1 << 17);
        assert_eq!(hub.transmit(b"word", &[to(1, 4)]).unwrap(), 1);
        assert_eq!(next(&mut hub, &mut batch).unwrap(), 1);
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        let begun = Instant::now();
        while hub.workers() > 1 {
            hub.wait(Duration::from_millis(50)).unwrap();
            assert!(begun.elapsed() < HANG_TIMEOUT, "the loss is not noticed");
        }
        // What goes to it is swallowed, as to any port without a peer, and the others have theirs.
        let before = hub.counters().unbound_port;
        assert_eq!(hub.transmit(b"word", &[to(1, 4), to(0, 4)]).unwrap(), 2);
        assert_eq!(hub.counters().unbound_port, before + 1);
        assert_eq!(next(&mut stays, &mut batch).unwrap(), 1);
        hub.unbind_port(PortId(1)).unwrap();
    }
}

/// Workers detect that a switch was killed, and its name is free at once; nothing else of it is left.
#[test]
fn a_killed_switch_is_detected_and_can_be_replaced() {
    if let Some((_, name)) = role() {
        let mut hub = hub(&name);
        println!("here.");
        let mut batch = hub.capabilities().batch();
        loop {
            hub.receive(&mut batch).unwrap();
            hub.wait(HANG_TIMEOUT).unwrap();
        }
    }
    let name = name("switch");
    let files = || {
        std::fs::read_dir("/dev/shm").map(|entries| {
            entries
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().contains("netfold-shm"))
                .count()
        })
    };
    for _ in 0..3 {
        let mut child = other("shm::a_killed_switch_is_detected_and_can_be_replaced", "hub", &name);
        await_word(&mut child, "here.");
        let mut worker = attach(&name);
        assert_eq!(worker.transmit(b"word", &[to(0, 4)]).unwrap(), 1);
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        let gone = next(&mut worker, &mut RxBatch::new(4, 9000));
        assert!(matches!(gone, Err(IoError::PeerClosed)), "{gone:?}");
        assert!(matches!(worker.transmit(b"word", &[to(0, 4)]), Err(IoError::PeerClosed)));
    }
    if let Ok(left) = files() {
        assert_eq!(left, 0, "files are left");
    }
}

/// A switch or worker that ends regularly has the same effect as a killed one: the name is free, and the other end detects it.
#[test]
fn a_dropped_switch_frees_its_name() {
    let name = name("ends");
    for _ in 0..3 {
        // A process that another test starts meanwhile has all descriptors of this one until it executes its program.
        let mut hub = poll("the name is free", || Hub::open(&name, AT, LEN_MAX, None).ok());
        let mut worker = attach(&name);
        hub.bind_port(PortId(0), worker.local_addr().unwrap()).unwrap();
        assert_eq!(hub.transmit(b"last", &[to(0, 4)]).unwrap(), 1);
        drop(hub);
        // What it had sent is received first.
        let mut batch = RxBatch::new(4, 9000);
        assert_eq!(next(&mut worker, &mut batch).unwrap(), 1);
        assert!(matches!(next(&mut worker, &mut batch), Err(IoError::PeerClosed)));
    }
}
