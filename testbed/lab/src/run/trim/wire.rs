//! What is on the links to the switch that folds: a host's load, and an observer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netfold_io::RxBatch;
use netfold_io::link::{AfPacket, Link};
use netfold_wire::frame::{OUTER_LEN, Outer};
use netfold_wire::{Flags, Kind, Packet, serial};

use super::RunError;
use super::fabric::Fabric;

/// What came by the links to the switch that folds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObservedPackets {
    /// DATA packets with lanes.
    pub whole: u64,
    /// Of those, such as could have been trimmed.
    pub spared: u64,
    /// DATA packets that were trimmed.
    pub trimmed: u64,
    /// DATA packets of the upper half of the classes.
    pub above: u64,
    /// Frames that are not Netfold's: the load.
    pub load: u64,
}

impl ObservedPackets {
    fn add(&mut self, other: Self) {
        self.whole += other.whole;
        self.spared += other.spared;
        self.trimmed += other.trimmed;
        self.above += other.above;
        self.load += other.load;
    }

    /// Counts a frame. Packets of chunks before `first_chunk` are those of an earlier job, which were still in a queue.
    fn frame(&mut self, frame: &mut [u8], first_chunk: u32) {
        // Hosts leave the UDP checksum to an interface that a pair of virtual ones does not have; without it there is none to check.
        if let Some(checksum) = frame.get_mut(UDP_CHECKSUM) {
            checksum.fill(0);
        }
        let Ok((outer, datagram)) = Outer::parse(frame) else { return };
        let Some(packet) =
            Packet::new_checked(datagram).ok().filter(|_| outer.destination.port == netfold_wire::UDP_PORT)
        else {
            self.load += 1;
            return;
        };
        if packet.kind() != Kind::Data as u8 || serial::newer(first_chunk, packet.chunk()) {
            return;
        }
        self.above += u64::from(packet.class() >= netfold_wire::CLASSES_MAX / 2);
        let flags = packet.flags();
        if flags.contains(Flags::TRIMMED) {
            self.trimmed += 1;
        } else if !flags.contains(Flags::BARE) {
            self.whole += 1;
            self.spared += u64::from(flags.contains(Flags::DROPPABLE));
        }
    }
}

/// Where a frame has it.
const UDP_CHECKSUM: std::ops::Range<usize> = 40..42;

/// Longest wait of a thread, after which it looks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Threads that watch the links.
pub(super) struct Observer {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<ObservedPackets>>,
}

impl Observer {
    /// Observes a job from its first chunk on.
    pub(super) fn start(fabric: &Fabric, racks: usize, first_chunk: u32) -> Result<Self, RunError> {
        let stop = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        for rack in 0..racks {
            let mut link = fabric.at_fold(rack, AfPacket::open)??;
            let stop = Arc::clone(&stop);
            let watch = move || {
                let longest = link.properties().frame_len_max;
                let (mut batch, mut seen) = (RxBatch::new(64, 64 * longest), ObservedPackets::default());
                while !stop.load(Ordering::Acquire) {
                    match link.receive(&mut batch) {
                        Ok(0) => drop(link.wait(POLL_INTERVAL)),
                        Ok(_) => {
                            for packet in batch.packets().to_vec() {
                                seen.frame(batch.bytes_mut(&packet), first_chunk);
                            }
                        }
                        Err(_) => break,
                    }
                }
                seen
            };
            threads.push(
                std::thread::Builder::new()
                    .name(format!("observer-{rack}"))
                    .spawn(watch)
                    .map_err(RunError::Thread)?,
            );
        }
        Ok(Self { stop, threads })
    }

    /// What all of them have seen.
    pub(super) fn finish(mut self) -> ObservedPackets {
        self.stop.store(true, Ordering::Release);
        let mut sum = ObservedPackets::default();
        self.threads.drain(..).filter_map(|thread| thread.join().ok()).for_each(|seen| sum.add(seen));
        sum
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// Bytes of a datagram of the load: about those of a chunk.
const LOAD_BYTES: usize = 280;

/// Interval between two bursts of the load.
const TICK: Duration = Duration::from_millis(2);

/// Hosts that send without end, until this is dropped.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Has every rack's other host send so many bits a second.
    pub(super) fn start(fabric: &Fabric, racks: usize, rate: f64) -> Result<Self, RunError> {
        let mut load = Self { stop: Arc::default(), threads: Vec::new() };
        let frames = rate / (8 * (OUTER_LEN + LOAD_BYTES)) as f64;
        for rack in 0..if rate > 0.0 { racks } else { 0 } {
            let socket = fabric.load(rack)?;
            let stop = Arc::clone(&load.stop);
            let send = move || {
                let (begun, bytes, mut sent) = (Instant::now(), [0x55; LOAD_BYTES], 0.0);
                while !stop.load(Ordering::Acquire) {
                    while sent < begun.elapsed().as_secs_f64() * frames {
                        // Background load without a receiver: packets that the system does not take may be lost.
                        let _ = socket.send(&bytes);
                        sent += 1.0;
                    }
                    std::thread::sleep(TICK);
                }
            };
            load.threads.push(
                std::thread::Builder::new()
                    .name(format!("load-{rack}"))
                    .spawn(send)
                    .map_err(RunError::Thread)?,
            );
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
