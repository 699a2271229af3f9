//! A rank's engine on a thread of its own, with packet I/O and other ranks of the simulation.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use netfold::simulated::Mesh;
use netfold_io::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit};

use super::coroutine::{Coroutine, WakeFlag, Yielder};

/// Longest datagram of the simulated network.
pub(super) const DATAGRAM_LEN_MAX: usize = 1472;

/// What an engine waits for: at most so long.
pub(super) type Wait = Duration;

/// An engine's thread.
pub(super) type EngineThread = Coroutine<Wait, (), ()>;

/// The thread's side, which the engine's packet I/O and mesh share.
pub(super) type Pause = Arc<Mutex<Option<Yielder<Wait, (), ()>>>>;

/// Locks without regard to panics, which the simulation reports.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the simulation continues this thread; whether the process still runs.
fn pause(yielder: &Pause, timeout: Duration) -> bool {
    locked(yielder).as_ref().is_some_and(|yielder| yielder.suspend(timeout).is_some())
}

/// Datagrams of one socket, in both directions.
#[derive(Default)]
pub(super) struct Socket {
    pub(super) received: VecDeque<Vec<u8>>,
    pub(super) sent: Vec<Vec<u8>>,
}

/// Packet I/O of a rank whose only peer is a switch.
pub(super) struct SimIo {
    pub(super) socket: Arc<Mutex<Socket>>,
    pub(super) pause: Pause,
    pub(super) woken: Arc<WakeFlag>,
}

impl PacketIo for SimIo {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "simulated",
            datagram_len_max: DATAGRAM_LEN_MAX,
            burst_max: 32,
            batch_bytes: 32 * DATAGRAM_LEN_MAX,
            udp_ports_max: 1,
            lossless: false,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        let mut socket = locked(&self.socket);
        while let Some(datagram) = socket.received.front() {
            if !batch.push(PortId(0), datagram, 0) {
                break;
            }
            socket.received.pop_front();
        }
        Ok(batch.len())
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        let mut socket = locked(&self.socket);
        socket.sent.extend(packets.iter().filter_map(|packet| packet.bytes(memory)).map(<[u8]>::to_vec));
        Ok(packets.len())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        if self.woken.take() || !locked(&self.socket).received.is_empty() {
            return Ok(true);
        }
        if !pause(&self.pause, timeout) {
            return Err(IoError::Unsupported("packets of a process that was killed"));
        }
        Ok(self.woken.take())
    }

    fn waker(&self) -> Waker {
        self.woken.waker()
    }

    fn counters(&self) -> IoCounters {
        IoCounters::default()
    }

    fn bind_port(&mut self, _: PortId, _: SocketAddr) -> Result<(), IoError> {
        Ok(())
    }
}

/// What the ranks of a job exchange without the switch.
#[derive(Default)]
pub(super) struct MeshState {
    /// By round, what each rank has sent.
    rounds: BTreeMap<u64, Vec<Option<Vec<u8>>>>,
    /// The round of each rank's current or next call.
    next: Vec<u64>,
    /// Ranks whose process has ended.
    gone: Vec<bool>,
    /// Counts what ranks may wait for.
    pub(super) changes: u64,
}

impl MeshState {
    pub(super) fn new(world: u16) -> Self {
        let world = usize::from(world);
        Self { next: vec![0; world], gone: vec![false; world], ..Self::default() }
    }

    /// A rank's process has ended.
    pub(super) fn end(&mut self, rank: u16) {
        self.gone[usize::from(rank)] = true;
        self.changes += 1;
    }

    fn put(&mut self, rank: usize, mine: &[u8]) -> u64 {
        let round = self.next[rank];
        let world = self.next.len();
        self.rounds.entry(round).or_insert_with(|| vec![None; world])[rank] = Some(mine.to_vec());
        self.changes += 1;
        round
    }

    /// All ranks' bytes, or the first rank that is gone without having called.
    fn outcome(&self, round: u64) -> Option<Result<Vec<Vec<u8>>, u16>> {
        let row = self.rounds.get(&round)?;
        let missing = (0..row.len()).find(|rank| row[*rank].is_none() && self.gone[*rank]);
        match missing {
            Some(rank) => Some(Err(rank as u16)),
            None => row.iter().cloned().collect::<Option<Vec<_>>>().map(Ok),
        }
    }
}

/// The other ranks of a rank.
pub(super) struct SimMesh {
    pub(super) rank: u16,
    pub(super) state: Arc<Mutex<MeshState>>,
    pub(super) pause: Pause,
    pub(super) woken: Arc<WakeFlag>,
    pub(super) clock: Arc<std::sync::atomic::AtomicU64>,
}

impl SimMesh {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.load(std::sync::atomic::Ordering::Relaxed))
    }
}

impl Mesh for SimMesh {
    fn gather(&mut self, mine: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, u16> {
        let rank = usize::from(self.rank);
        let until = self.now() + timeout;
        let round = locked(&self.state).put(rank, mine);
        loop {
            let outcome = locked(&self.state).outcome(round);
            if let Some(outcome) = outcome {
                locked(&self.state).next[rank] += 1;
                return outcome;
            }
            let left = until.saturating_sub(self.now());
            if left.is_zero() || !pause(&self.pause, left) {
                let state = locked(&self.state);
                let row = state.rounds.get(&round);
                let missing = row.and_then(|row| row.iter().position(Option::is_none));
                return Err(missing.unwrap_or(0) as u16);
            }
        }
    }

    fn is_called(&self) -> bool {
        let state = locked(&self.state);
        let round = state.next[usize::from(self.rank)];
        let row = state.rounds.get(&round);
        row.is_some_and(|row| row[usize::from(self.rank)].is_none() && row.iter().any(Option::is_some))
    }

    fn sleep(&self, timeout: Duration) {
        if !self.woken.take() {
            pause(&self.pause, timeout);
            self.woken.take();
        }
    }
}
