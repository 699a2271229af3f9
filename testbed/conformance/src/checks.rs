//! The checks: what `PacketIo` promises, on a rig of their own. Sockets on the loopback interface lose
//! nothing as long as their buffers have room, so the checks keep less than that under way.

use std::thread;
use std::time::{Duration, Instant};

use netfold_io::{IoError, PacketIo, PortId, RxBatch, Transmit};

use crate::{DATAGRAM_LEN_MAX, Rig, SPOKES};

/// A check by its name.
pub(crate) type Check = (&'static str, fn(Rig));

macro_rules! list {
    ($($check:ident),* $(,)?) => { &[$((stringify!($check), $check as fn(Rig))),*] };
}

/// What every backend does.
pub(crate) const ALL: &[Check] = list![
    order_per_port_is_kept,
    interleaved_multicast_arrives_in_order,
    bursts_larger_than_the_batch,
    a_stream_of_bursts_arrives_whole,
    small_batches_lose_nothing,
    empty_datagrams_arrive,
    datagrams_of_mixed_lengths_arrive,
    largest_datagram_arrives,
    oversize_is_an_error_and_sends_nothing,
    packets_outside_memory_are_an_error,
    unbound_ports_swallow,
    waker_ends_wait,
    early_wake_is_not_lost,
    arrival_ends_wait,
    wait_times_out,
    traffic_both_ways_between_threads,
];

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().expect("test datagrams begin with a number"))
}

/// Long enough for any machine; only failing checks wait that long.
pub(crate) const HANG_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn packet(port: usize, offset: usize, len: usize) -> Transmit {
    Transmit { port: PortId(port as u16), offset: offset as u32, len: len as u32 }
}

/// Sends all; after each burst `relieve` makes room, by receiving at the other end.
fn send_all(io: &mut dyn PacketIo, memory: &[u8], packets: &[Transmit], mut relieve: impl FnMut()) {
    let mut taken = 0;
    let start = Instant::now();
    while taken < packets.len() {
        let more = io.transmit(memory, &packets[taken..]).expect("transmit");
        relieve();
        if more == 0 {
            io.wait(Duration::from_millis(1)).expect("wait"); // raw links ask for their neighbours first
        }
        taken += more;
        assert!(start.elapsed() < HANG_TIMEOUT, "only {taken} of {} were taken", packets.len());
    }
}

/// Appends what has arrived to `got`.
fn drain(io: &mut dyn PacketIo, batch: &mut RxBatch, got: &mut Vec<(u16, Vec<u8>)>) -> usize {
    let count = io.receive(batch).expect("receive");
    got.extend(batch.packets().iter().map(|packet| (packet.port.0, batch.bytes(packet).to_vec())));
    count
}

/// Receives until `count` datagrams are there.
fn collect(io: &mut dyn PacketIo, batch: &mut RxBatch, got: &mut Vec<(u16, Vec<u8>)>, count: usize) {
    while got.len() < count {
        if drain(io, batch, got) == 0 {
            assert!(io.wait(HANG_TIMEOUT).expect("wait"), "only {} of {count} datagrams arrived", got.len());
        }
    }
    assert_eq!(got.len(), count, "more than was sent");
}

/// `count` datagrams of `len` bytes, each beginning with its number.
fn numbered(count: u32, len: usize) -> Vec<u8> {
    let mut memory = vec![0; count as usize * len];
    for (number, datagram) in (0_u32..).zip(memory.chunks_exact_mut(len)) {
        datagram[..4].copy_from_slice(&number.to_be_bytes());
    }
    memory
}

fn order_per_port_is_kept(mut rig: Rig) {
    let memory = numbered(200, 100);
    let packets: Vec<_> = (0..200).map(|index| packet(0, index * 100, 100)).collect();
    let mut batch = rig.hub.capabilities().batch();
    let mut got = Vec::new();
    for spoke in &mut rig.spokes {
        send_all(&mut **spoke, &memory, &packets, || {
            drain(&mut *rig.hub, &mut batch, &mut got);
        });
    }
    collect(&mut *rig.hub, &mut batch, &mut got, 200 * SPOKES);
    for port in 0..SPOKES {
        let of_port: Vec<u32> = got
            .iter()
            .filter(|(from, _)| usize::from(*from) == port)
            .map(|(_, bytes)| number(bytes))
            .collect();
        assert_eq!(of_port, (0..200).collect::<Vec<_>>(), "port {port}");
    }
}

fn interleaved_multicast_arrives_in_order(mut rig: Rig) {
    let memory = numbered(100, 300);
    let packets: Vec<_> =
        (0..100 * SPOKES).map(|index| packet(index % SPOKES, index / SPOKES * 300, 300)).collect();
    let mut batch = rig.spokes[0].capabilities().batch();
    let mut got = vec![Vec::new(); SPOKES];
    send_all(&mut *rig.hub, &memory, &packets, || {
        for (spoke, got) in rig.spokes.iter_mut().zip(&mut got) {
            drain(&mut **spoke, &mut batch, got);
        }
    });
    for (spoke, got) in rig.spokes.iter_mut().zip(&mut got) {
        collect(&mut **spoke, &mut batch, got, 100);
        for (index, (port, bytes)) in got.iter().enumerate() {
            assert_eq!((*port, &bytes[..]), (0, &memory[index * 300..][..300]));
        }
    }
}

fn bursts_larger_than_the_batch(mut rig: Rig) {
    let memory = numbered(150, 1000);
    let packets: Vec<_> = (0..150).map(|index| packet(0, index * 1000, 1000)).collect();
    let mut batch = RxBatch::new(7, 70_000);
    let mut got = Vec::new();
    send_all(&mut *rig.spokes[1], &memory, &packets, || {
        drain(&mut *rig.hub, &mut batch, &mut got);
    });
    collect(&mut *rig.hub, &mut batch, &mut got, 150);
    assert!(got.iter().enumerate().all(|(index, (port, bytes))| *port == 1 && number(bytes) == index as u32));
}

fn a_stream_of_bursts_arrives_whole(mut rig: Rig) {
    const BURST: usize = 100;
    let memory = numbered(BURST as u32, 1200);
    let packets: Vec<_> = (0..BURST).map(|index| packet(0, index * 1200, 1200)).collect();
    let mut batch = rig.hub.capabilities().batch();
    for round in 0..40 {
        let mut got = Vec::new();
        send_all(&mut *rig.spokes[round % SPOKES], &memory, &packets, || {
            drain(&mut *rig.hub, &mut batch, &mut got);
        });
        collect(&mut *rig.hub, &mut batch, &mut got, BURST);
        for (index, (port, bytes)) in got.iter().enumerate() {
            assert_eq!((usize::from(*port), &bytes[..]), (round % SPOKES, &memory[index * 1200..][..1200]));
        }
    }
}

fn small_batches_lose_nothing(mut rig: Rig) {
    let memory = numbered(50, 900);
    let packets: Vec<_> = (0..50).map(|index| packet(0, index * 900, 900)).collect();
    let mut batch = RxBatch::new(100, DATAGRAM_LEN_MAX);
    let mut got = Vec::new();
    send_all(&mut *rig.spokes[0], &memory, &packets, || {
        drain(&mut *rig.hub, &mut batch, &mut got);
    });
    collect(&mut *rig.hub, &mut batch, &mut got, 50);
    assert!(got.iter().enumerate().all(|(index, (_, bytes))| number(bytes) == index as u32));
}

fn empty_datagrams_arrive(mut rig: Rig) {
    let packets = [packet(0, 0, 0), packet(0, 0, 4), packet(0, 4, 0), packet(0, 2, 0)];
    let mut batch = rig.hub.capabilities().batch();
    let mut got = Vec::new();
    send_all(&mut *rig.spokes[0], &[7; 4], &packets, || {});
    collect(&mut *rig.hub, &mut batch, &mut got, 4);
    let lens: Vec<usize> = got.iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lens, [0, 4, 0, 0]);
}

fn datagrams_of_mixed_lengths_arrive(mut rig: Rig) {
    let memory: Vec<u8> = (0..DATAGRAM_LEN_MAX).map(|index| (index * 7) as u8).collect();
    let lens = [1436, 1436, 1436, 28, 28, 500, 1436, 1, 2, 3, 0, 1436, 1436, 1435, 1501, 28];
    let packets: Vec<_> = lens.iter().map(|len| packet(2, DATAGRAM_LEN_MAX - len, *len)).collect();
    let mut batch = rig.spokes[2].capabilities().batch();
    let mut got = Vec::new();
    send_all(&mut *rig.hub, &memory, &packets, || {});
    collect(&mut *rig.spokes[2], &mut batch, &mut got, lens.len());
    for (len, (_, bytes)) in lens.iter().zip(&got) {
        assert_eq!(bytes[..], memory[DATAGRAM_LEN_MAX - len..]);
    }
}

fn largest_datagram_arrives(mut rig: Rig) {
    let memory: Vec<u8> = (0..DATAGRAM_LEN_MAX * 2).map(|index| (index / 3) as u8).collect();
    let packets = [packet(0, 0, DATAGRAM_LEN_MAX), packet(0, DATAGRAM_LEN_MAX, DATAGRAM_LEN_MAX)];
    let mut batch = rig.hub.capabilities().batch();
    let mut got = Vec::new();
    send_all(&mut *rig.spokes[0], &memory, &packets, || {});
    collect(&mut *rig.hub, &mut batch, &mut got, 2);
    assert_eq!(got[0].1, memory[..DATAGRAM_LEN_MAX]);
    assert_eq!(got[1].1, memory[DATAGRAM_LEN_MAX..]);
}

fn oversize_is_an_error_and_sends_nothing(mut rig: Rig) {
    let max = rig.hub.capabilities().datagram_len_max;
    assert_eq!(max, DATAGRAM_LEN_MAX);
    let memory = vec![0; max + 1];
    let before = rig.hub.counters().tx_packets;
    let result = rig.hub.transmit(&memory, &[packet(0, 0, 5), packet(1, 0, max + 1)]);
    let Err(IoError::Oversize { port: PortId(1), len, max: limit }) = result else { panic!("{result:?}") };
    assert_eq!((len, limit), (max + 1, max));
    assert_eq!(rig.hub.counters().tx_packets, before);
    assert_eq!(rig.spokes[0].receive(&mut RxBatch::new(4, 9000)).expect("receive"), 0);
}

fn packets_outside_memory_are_an_error(mut rig: Rig) {
    let result = rig.spokes[0].transmit(&[0; 10], &[packet(0, 8, 3)]);
    assert!(matches!(result, Err(IoError::Range { offset: 8, len: 3, memory: 10 })), "{result:?}");
}

fn unbound_ports_swallow(mut rig: Rig) {
    let before = rig.hub.counters();
    let packets = [packet(9, 0, 4), packet(0, 0, 4), packet(usize::from(u16::MAX), 0, 4)];
    send_all(&mut *rig.hub, &[1; 4], &packets, || {});
    let mut got = Vec::new();
    collect(&mut *rig.spokes[0], &mut RxBatch::new(4, 9000), &mut got, 1);
    let counters = rig.hub.counters();
    let sent = (counters.tx_packets - before.tx_packets, counters.tx_bytes - before.tx_bytes);
    assert_eq!((counters.unbound_port - before.unbound_port, sent), (2, (1, 4)));
}

/// Whether waiting runs into its timeout. A few wake-ups without cause are allowed: links receive more than datagrams.
fn is_quiet(io: &mut dyn PacketIo, timeout: Duration) -> bool {
    let mut batch = RxBatch::new(64, 1 << 17);
    (0..8).any(|_| {
        let woken = io.wait(timeout).expect("wait");
        assert_eq!(io.receive(&mut batch).expect("receive"), 0, "nothing was sent");
        !woken
    })
}

fn waker_ends_wait(mut rig: Rig) {
    let waker = rig.hub.waker();
    let woken = thread::scope(|scope| {
        let waiting = scope.spawn(|| rig.hub.wait(HANG_TIMEOUT).expect("wait"));
        waker.wake_by_ref();
        waiting.join().expect("no panic")
    });
    assert!(woken, "wait ran into its timeout");
    // A wake-up is used up by one wait, or two when it met a sleeper half-way.
    assert!(is_quiet(&mut *rig.hub, Duration::ZERO), "the wake-up stays");
}

fn early_wake_is_not_lost(mut rig: Rig) {
    rig.spokes[0].waker().wake();
    assert!(rig.spokes[0].wait(HANG_TIMEOUT).expect("wait"));
    assert!(is_quiet(&mut *rig.spokes[0], Duration::ZERO), "used up");
}

fn arrival_ends_wait(rig: Rig) {
    let Rig { mut hub, mut spokes, .. } = rig;
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let mut got = Vec::new();
            collect(&mut *hub, &mut RxBatch::new(4, 9000), &mut got, 1);
        });
        send_all(&mut *spokes[0], b"1234", &[packet(0, 0, 4)], || {});
        waiting.join().expect("the datagram arrives");
    });
}

fn wait_times_out(mut rig: Rig) {
    let start = Instant::now();
    assert!(is_quiet(&mut *rig.hub, Duration::from_millis(20)));
    assert!(start.elapsed() >= Duration::from_millis(19), "returned early");
    assert!(is_quiet(&mut *rig.hub, Duration::ZERO));
}

fn traffic_both_ways_between_threads(rig: Rig) {
    const COUNT: u32 = 3000;
    const WINDOW: u32 = 64;
    let Rig { mut hub, mut spokes, .. } = rig;
    thread::scope(|scope| {
        let waker = hub.waker();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let mut batch = hub.capabilities().batch();
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                let count = match hub.receive(&mut batch) {
                    Ok(count) => count,
                    Err(IoError::PeerClosed) => break,
                    Err(error) => panic!("{error}"),
                };
                let echo: Vec<_> = batch.packets().iter().map(|packet| packet.to(packet.port)).collect();
                let mut taken = 0;
                while taken < count {
                    taken += hub.transmit(batch.memory(), &echo[taken..]).expect("transmit");
                    if taken < count {
                        hub.wait(HANG_TIMEOUT).expect("wait");
                    }
                }
                if count == 0 {
                    hub.wait(HANG_TIMEOUT).expect("wait");
                }
            }
        });
        let workers: Vec<_> =
            spokes.drain(..).map(|spoke| scope.spawn(move || echo_client(spoke, COUNT, WINDOW))).collect();
        for worker in workers {
            worker.join().expect("every datagram comes back, in order");
        }
        drop(stop);
        waker.wake();
    });
}

/// Sends `count` datagrams, at most `window` of them under way, and checks that they come back in order.
fn echo_client(mut spoke: Box<dyn PacketIo>, count: u32, window: u32) {
    let mut batch = spoke.capabilities().batch();
    let (mut sent, mut back) = (0, 0);
    while back < count {
        while sent < count && sent - back < window {
            let mut datagram = [0; 700];
            datagram[..4].copy_from_slice(&sent.to_be_bytes());
            let taken = spoke.transmit(&datagram, &[packet(0, 0, 700)]).expect("transmit");
            if taken == 0 {
                break;
            }
            sent += 1;
        }
        if spoke.receive(&mut batch).expect("receive") == 0 {
            assert!(spoke.wait(HANG_TIMEOUT).expect("wait"), "{back} of {sent} came back");
        }
        for packet in batch.packets() {
            assert_eq!(number(batch.bytes(packet)), back);
            back += 1;
        }
    }
}
