//! Eight workers' load from one thread, at the least cost: what each worker has under way is a number for each slot.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netfold_io::IoError;
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Reason, Repr};

use super::{IoBenchError, WORKERS};

pub(super) const JOB: u16 = 1;
pub(super) const EPOCH: u32 = 7;
pub(super) const KEY: u32 = 0x6b65_7921;

/// How long nothing comes back before everything under way is retransmitted.
pub(super) const RESEND: Duration = Duration::from_millis(100);
/// How long nothing comes back before that is an error.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Chunks of a worker that are sent in a run at first.
const RUN: usize = 32;

/// A packet that came back: whose it is, and its chunk.
pub(super) type Back = (u16, u32);

/// Eight workers and their way to the switch.
pub(super) trait Workers: Send {
    /// Where each of them is.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// Puts what has come back into `back`, which is empty.
    fn receive(&mut self, back: &mut Vec<Back>) -> Result<(), IoError>;

    /// Queues a worker's chunk; false where there is no room before the next `flush`.
    fn send(&mut self, worker: u16, chunk: u32) -> Result<bool, IoError>;

    /// Has what is queued sent.
    fn flush(&mut self) -> Result<(), IoError>;

    /// Sleeps until something comes back or the time is over.
    fn wait(&mut self, timeout: Duration) -> Result<(), IoError>;
}

/// What each worker has under way: when the sum of a chunk comes back, the next one of its slot goes out.
pub(super) struct Crowd {
    workers: Box<dyn Workers>,
    window: u32,
    /// The chunk that is under way, by worker and slot.
    under_way: Vec<u32>,
    back: Vec<Back>,
    retransmitted: u64,
    returned: u64,
    started: bool,
}

impl Crowd {
    pub(super) fn new(workers: Box<dyn Workers>, window: u32) -> Self {
        // A switch that has seen nothing holds chunk 0, so the first are later.
        let under_way = (0..u32::from(WORKERS)).flat_map(|_| 2 * window..3 * window).collect();
        Self {
            workers,
            window,
            under_way,
            back: Vec::with_capacity(4096),
            retransmitted: 0,
            returned: 0,
            started: false,
        }
    }

    /// Packets that came back, to whom they were for.
    pub(super) fn returned(&self) -> u64 {
        self.returned
    }

    pub(super) fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Keeps all slots busy for a time.
    pub(super) fn drive(&mut self, time: Duration) -> Result<(), IoBenchError> {
        let begun = Instant::now();
        if !std::mem::replace(&mut self.started, true) {
            self.send_all()?;
        }
        let (mut received_at, mut retransmitted) = (begun, begun);
        loop {
            // Before anything is received: what is not acknowledged is no longer under way.
            let now = Instant::now();
            if now - begun >= time {
                return Ok(());
            }
            self.back.clear();
            self.workers.receive(&mut self.back)?;
            if self.back.is_empty() {
                if now - received_at > STALL_TIMEOUT {
                    return Err(IoBenchError::Silent("device"));
                }
                if now - received_at.max(retransmitted) > RESEND {
                    self.retransmitted += self.under_way.len() as u64;
                    retransmitted = now;
                    self.send_all()?;
                }
                self.workers.wait(Duration::from_millis(1))?;
                continue;
            }
            received_at = now;
            self.reply()?;
        }
    }

    /// Sends the chunks that are due after what came back.
    fn reply(&mut self) -> Result<(), IoBenchError> {
        for at in 0..self.back.len() {
            let (worker, chunk) = self.back[at];
            let slot = (u32::from(worker) * self.window + chunk % self.window) as usize;
            let Some(under_way) = self.under_way.get_mut(slot).filter(|under_way| **under_way == chunk)
            else {
                continue; // what was retransmitted came back twice
            };
            self.returned += 1;
            *under_way = chunk.wrapping_add(self.window);
            let next = *under_way;
            self.send(worker, next)?;
        }
        Ok(self.workers.flush()?)
    }

    /// In runs of each worker in turn: workers that send at the same time are received in turn.
    fn send_all(&mut self) -> Result<(), IoBenchError> {
        for run in (0..self.window).step_by(RUN) {
            for worker in 0..WORKERS {
                for place in run..self.window.min(run + RUN as u32) {
                    let slot = u32::from(worker) * self.window + place;
                    self.send(worker, self.under_way[slot as usize])?;
                }
            }
            self.workers.flush()?;
        }
        Ok(())
    }

    fn send(&mut self, worker: u16, chunk: u32) -> Result<(), IoBenchError> {
        let mut full_since = None;
        while !self.workers.send(worker, chunk)? {
            self.workers.flush()?;
            if full_since.get_or_insert_with(Instant::now).elapsed() > RESEND {
                break; // lost, and retransmitted later
            }
        }
        Ok(())
    }
}

/// A worker's header of a chunk.
pub(super) fn repr(chunk: u32, window: u32) -> Repr {
    Repr {
        kind: Kind::Data,
        flags: Flags::default(),
        op: LaneOp::Sum,
        class: 0,
        reason: Reason::None,
        job: JOB,
        slot: (chunk % window) as u16,
        set: (chunk / window % 2) as u8,
        epoch: EPOCH,
        key: KEY,
        chunk,
        bitmap: 0,
        count: 1,
        exp: 0,
        exp_next: 0,
        owner: LaneOwner::All,
    }
}
