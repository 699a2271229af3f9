//! The bound: the same packets through a plain forwarder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use netfold::Mode;
use netfold_io::forward::Forwarder;
use netfold_io::{IoError, PacketIo, PortId, RxBatch, Transmit};
use netfold_proto::PREDICTED_CHUNKS_MAX;
use netfold_wire::{Numerics, header};

use super::fabric::{End, star};
use super::{AllReduceConfig, BenchError};

/// Times that each size is measured; the shortest counts, since a bound is what is possible.
const ROUNDS: usize = 3;

/// Silence after which the packets in flight count as lost. (A receive buffer overflowed.)
const SILENCE: Duration = Duration::from_millis(20);

/// Time after which a client gives up.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Packets handed to the transport at once, at most.
const BURST_MAX: usize = 64;

/// A forwarder on a thread of its own, and its clients' ends.
pub(super) struct Bound {
    clients: Vec<Client>,
    shape: Shape,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<Result<(), IoError>>>,
}

/// How a tensor becomes packets, as the worker's protocol has it: a descriptor, look-ahead packets without lanes, data.
#[derive(Debug, Clone, Copy)]
struct Shape {
    datagram_len: usize,
    block: usize,
    window: usize,
    exponents: bool,
    /// Exponents of small tensors are predicted, and take no packets.
    predicted: bool,
}

struct Client {
    io: End,
    batch: RxBatch,
    memory: Vec<u8>,
}

impl Shape {
    /// Packets without lanes and packets with all lanes, of one rank.
    fn packets(self, count: usize) -> (usize, usize) {
        let data = count.div_ceil(self.block);
        let look_ahead = self.exponents && !(self.predicted && data <= PREDICTED_CHUNKS_MAX);
        let bare = if look_ahead { self.window.min(data).saturating_sub(1) } else { 0 };
        (bare, data + 1)
    }
}

impl Bound {
    pub(super) fn start(config: &AllReduceConfig) -> Result<Self, BenchError> {
        let (hub, spokes) = star(config)?;
        let stop = Arc::new(AtomicBool::new(false));
        let waker = hub.waker();
        let thread = {
            let stop = Arc::clone(&stop);
            thread::Builder::new()
                .name("netfold-forward".into())
                .spawn(move || Forwarder::new(hub).run(&stop))
                .map_err(|_| BenchError::SwitchGone)?
        };
        let datagram_len = header::LEN + config.payload_bytes as usize;
        let shape = Shape {
            datagram_len,
            block: config.payload_bytes as usize / 4 * config.mode.elements_per_word(),
            window: config.slots as usize,
            exponents: config.mode != Mode::I32,
            predicted: config.mode.numerics() == Numerics::Word,
        };
        let client = |io: End| Client { batch: io.capabilities().batch(), memory: vec![0; datagram_len], io };
        let clients = spokes.into_iter().map(client).collect();
        Ok(Self { clients, shape, stop, waker, thread: Some(thread) })
    }

    /// The shortest time in which all clients get the packets of a tensor of `count` elements back.
    pub(super) fn measure(&mut self, count: usize) -> Result<Duration, BenchError> {
        let shape = self.shape;
        let mut shortest = Duration::MAX;
        for _ in 0..ROUNDS {
            let times: Vec<Result<Duration, BenchError>> = thread::scope(|scope| {
                let echo = |client| scope.spawn(move || echo(client, shape, count));
                let running: Vec<_> = self.clients.iter_mut().map(echo).collect();
                let finish = |thread: thread::ScopedJoinHandle<'_, _>| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                running.into_iter().map(finish).collect()
            });
            let mut slowest = Duration::ZERO;
            for time in times {
                slowest = slowest.max(time?);
            }
            shortest = shortest.min(slowest);
        }
        Ok(shortest)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake_by_ref();
        if let Some(thread) = self.thread.take() {
            // What it failed of, the clients have noticed.
            let _ = thread.join();
        }
    }
}

/// Sends the packets of a tensor and waits for their return, never more than a window in flight.
fn echo(client: &mut Client, shape: Shape, count: usize) -> Result<Duration, BenchError> {
    let (bare, full) = shape.packets(count);
    let begun = Instant::now();
    let mut received_at = begun;
    let (mut sent, mut back) = (0, 0);
    let mut packets = Vec::with_capacity(BURST_MAX);
    while back < bare + full {
        packets.clear();
        let room = (shape.window - (sent - back)).min(bare + full - sent).min(BURST_MAX);
        packets.extend((sent..sent + room).map(|index| {
            let len = if (1..=bare).contains(&index) { header::LEN } else { shape.datagram_len };
            Transmit { port: PortId(0), offset: 0, len: len as u32 }
        }));
        let taken = if packets.is_empty() { 0 } else { client.io.transmit(&client.memory, &packets)? };
        sent += taken;
        let received = client.io.receive(&mut client.batch)?;
        // A packet given up as lost may still come.
        back = (back + received).min(sent);
        if received > 0 {
            received_at = Instant::now();
        } else if taken == 0 {
            client.io.wait(SILENCE)?;
            if received_at.elapsed() > SILENCE {
                back = sent;
                received_at = Instant::now();
            }
        }
        if begun.elapsed() > GIVE_UP {
            return Err(BenchError::Bound(GIVE_UP));
        }
    }
    Ok(begun.elapsed())
}
