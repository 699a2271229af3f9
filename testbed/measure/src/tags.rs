//! What the tags of authenticated packets cost for each packet, in the middleware that switches and workers use.
//!
//! The same bursts go through packet I/O that copies them in memory, with and without the middleware in front of it, in alternating order.
//! `send` adds a tag to each packet, which is copied for that; `multicast` does so once for the eight copies that a switch of eight workers sends;
//! `receive` verifies a tag and removes it.

use std::hint::black_box;
use std::task::Waker;
use std::time::{Duration, Instant};

use netfold_io::{Authenticated, Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit};
use netfold_testkit::sample::Sample;
use netfold_wire::{
    Flags, JobKeys, Kind, LaneOp, LaneOwner, PacketKey, PortKeys, Reason, Repr, TAG_LEN, header,
};
use serde::Serialize;

const JOB: u16 = 1;
const EPOCH: u32 = 1;
/// Different packets of a burst.
const BURST: usize = 32;
/// Receivers of a multicast packet.
const COPIES: u16 = 8;

/// What is done with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Sent to one peer.
    Send,
    /// Sent to eight.
    Multicast,
    /// Received.
    Receive,
}

impl Step {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Multicast => "multicast",
            Self::Receive => "receive",
        }
    }
}

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct TagsConfig {
    /// Bytes of lanes in a packet, a multiple of 4 up to 65,468.
    pub payload_bytes: usize,
    /// Bursts of 32 packets in a repetition; 0 counts as 1.
    pub bursts: usize,
    /// Timed pairs of with and without; 0 counts as 1.
    pub repetitions: usize,
}

impl Default for TagsConfig {
    /// 256 bursts of packets of 1408 bytes, 15 pairs.
    fn default() -> Self {
        Self { payload_bytes: 1408, bursts: 256, repetitions: 15 }
    }
}

/// One line of the benchmark.
#[derive(Debug, Clone, Serialize)]
pub struct TagsRow {
    /// What is done.
    pub step: Step,
    /// Nanoseconds for each packet with the middleware less those without: median of the pairs. A packet in eight copies counts once.
    pub ns_per_packet: f64,
    /// Least of the pairs.
    pub ns_min: f64,
    /// Greatest of the pairs.
    pub ns_max: f64,
    /// Nanoseconds for each packet without the middleware, median: the bound.
    pub plain_ns_per_packet: f64,
    /// Bytes of header and lanes per nanosecond, by `ns_per_packet`.
    pub gbps: f64,
    /// Bytes of lanes in a packet.
    pub payload_bytes: usize,
    /// Timed pairs.
    pub repetitions: usize,
}

/// Measures the three steps: three rows.
pub fn run(config: &TagsConfig) -> Vec<TagsRow> {
    let payload = (config.payload_bytes / 4).clamp(1, 16_367) * 4;
    [Step::Send, Step::Multicast, Step::Receive].map(|step| measure(step, payload, config)).into()
}

fn keys(send: u8, receive: u8) -> JobKeys {
    let keys = PortKeys { send: PacketKey([send; 32]), receive: PacketKey([receive; 32]) };
    JobKeys { job: JOB, epoch: EPOCH, keys }
}

/// The packets of a burst, one after the other.
fn burst(payload: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..BURST * (header::LEN + payload)).map(|at| at as u8).collect();
    for (chunk, packet) in (0..).zip(bytes.chunks_mut(header::LEN + payload)) {
        let repr = Repr {
            kind: Kind::Data,
            flags: Flags::default(),
            op: LaneOp::Sum,
            class: 0,
            reason: Reason::None,
            job: JOB,
            slot: 0,
            set: 0,
            epoch: EPOCH,
            key: 0,
            chunk,
            bitmap: 0,
            count: 0,
            exp: 0,
            exp_next: 0,
            owner: LaneOwner::All,
        };
        repr.emit(&mut header::Packet::new_unchecked(packet));
    }
    bytes
}

/// Packet I/O in memory: copies what is sent to one buffer, and delivers what is in another, again and again.
struct Memory {
    len_max: usize,
    arriving: Vec<u8>,
    stride: usize,
    sent: Vec<u8>,
}

impl Memory {
    /// Delivers packets of `stride` bytes each.
    fn new(arriving: Vec<u8>, stride: usize, len_max: usize) -> Self {
        Self { len_max, arriving, stride, sent: Vec::new() }
    }
}

impl PacketIo for Memory {
    fn capabilities(&self) -> Capabilities {
        let burst_max = BURST * usize::from(COPIES);
        let batch_bytes = BURST * self.len_max;
        Capabilities {
            name: "memory",
            datagram_len_max: self.len_max,
            burst_max,
            batch_bytes,
            udp_ports_max: 1,
            lossless: true,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        let arriving = self.arriving.chunks_exact(self.stride);
        Ok(arriving.take_while(|packet| batch.push(PortId(0), packet, 0)).count())
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        self.sent.clear();
        packets.iter().filter_map(|packet| packet.bytes(memory)).for_each(|bytes| self.sent.extend(bytes));
        Ok(packets.len())
    }

    fn wait(&mut self, _: Duration) -> Result<bool, IoError> {
        Ok(true)
    }

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }

    fn counters(&self) -> IoCounters {
        IoCounters::default()
    }
}

/// What is sent in a burst: each packet to so many receivers.
fn transmits(len: usize, receivers: u16) -> Vec<Transmit> {
    let to_all = |packet: usize| {
        (0..receivers).map(move |port| Transmit {
            port: PortId(port),
            offset: (packet * len) as u32,
            len: len as u32,
        })
    };
    (0..BURST).flat_map(to_all).collect()
}

/// Packet I/O in memory on whose ports the job has keys.
fn authenticated(memory: Memory, keys: &JobKeys, len: usize) -> Authenticated<Memory> {
    let mut io = Authenticated::new(memory);
    for port in 0..COPIES {
        io.authenticate(PortId(port), keys, len).expect("the memory has room for tags");
    }
    io
}

/// The packets of a burst with their tags.
fn with_tags(memory: &[u8], len: usize) -> Vec<u8> {
    let mut sender = authenticated(Memory::new(Vec::new(), len, len + TAG_LEN), &keys(1, 2), len);
    PacketIo::transmit(&mut sender, memory, &transmits(len, 1)).expect("memory takes everything");
    let mut tagged = Vec::new();
    sender.map(|memory| {
        tagged.clone_from(&memory.sent);
        memory
    });
    tagged
}

fn measure(step: Step, payload: usize, config: &TagsConfig) -> TagsRow {
    let (len, memory) = (header::LEN + payload, burst(payload));
    let max = len + TAG_LEN;
    let mut plain = Memory::new(memory.clone(), len, max);
    let arriving = with_tags(&memory, len);
    let mut tagged = authenticated(Memory::new(arriving, max, max), &keys(2, 1), len);
    let packets = transmits(len, if step == Step::Multicast { COPIES } else { 1 });
    let mut bench = Bench { step, memory, packets, batch: plain.capabilities().batch() };
    let bursts = config.bursts.max(1);
    // Untimed: faults the pages in.
    bench.time(&mut plain, 1);
    bench.time(&mut tagged, 1);
    let pairs: Vec<(f64, f64)> = (0..config.repetitions.max(1))
        .map(|at| {
            if at % 2 == 0 {
                let tagged = bench.time(&mut tagged, bursts);
                (bench.time(&mut plain, bursts), tagged)
            } else {
                (bench.time(&mut plain, bursts), bench.time(&mut tagged, bursts))
            }
        })
        .collect();
    let added: Sample = pairs.iter().map(|(plain, tagged)| tagged - plain).collect();
    let bound: Sample = pairs.iter().map(|(plain, _)| *plain).collect();
    TagsRow {
        step,
        ns_per_packet: added.median(),
        ns_min: added.min(),
        ns_max: added.max(),
        plain_ns_per_packet: bound.median(),
        gbps: len as f64 / added.median(),
        payload_bytes: payload,
        repetitions: pairs.len(),
    }
}

struct Bench {
    step: Step,
    memory: Vec<u8>,
    packets: Vec<Transmit>,
    batch: RxBatch,
}

impl Bench {
    /// Nanoseconds for each packet of a burst.
    ///
    /// # Panics
    ///
    /// When a packet was dropped: the benchmark would measure something else.
    fn time(&mut self, io: &mut impl PacketIo, bursts: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..bursts {
            if self.step == Step::Receive {
                let received = io.receive(&mut self.batch).expect("memory never fails");
                assert_eq!(received, BURST, "a tag was wrong");
                black_box(&mut self.batch);
            } else {
                let mut rest = &self.packets[..];
                while !rest.is_empty() {
                    rest = &rest[io.transmit(black_box(&self.memory), rest).expect("memory never fails")..];
                }
            }
        }
        start.elapsed().as_nanos() as f64 / (bursts * BURST) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_steps_are_measured() {
        let rows = run(&TagsConfig { payload_bytes: 256, bursts: 4, repetitions: 3 });
        let steps: Vec<Step> = rows.iter().map(|row| row.step).collect();
        assert_eq!(steps, [Step::Send, Step::Multicast, Step::Receive]);
        for row in rows {
            assert!(row.ns_min <= row.ns_per_packet && row.ns_per_packet <= row.ns_max, "{row:?}");
            assert!(row.plain_ns_per_packet > 0.0 && row.payload_bytes == 256, "{row:?}");
        }
    }
}
