//! The cost of folding: the generated pipeline from received bytes to the packets to send, in cache.
//!
//! The time of a packet is a fixed cost plus its lanes. The fixed cost is measured on packets that have no lanes; the
//! lane part is the rest, and is compared with a plain loop of the same arithmetic over the same bytes.
//! Rounds of the three are timed in turn, so that all see the same machine, and medians are reported.

mod plain;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_io::{PortId, Received};
use netfold_p4::allreduce::{self, Child, Node, job_entries};
use netfold_p4::entry::EntryError;
use netfold_p4::interpret::InterpretError;
use netfold_p4::profile::{Encapsulation, Numerics, Profile, ProfileError};
use netfold_switch::{
    InterpretedPipeline, PAYLOADS, Pipeline, SimdLevel, Verdict, ethernet_pipeline, numeric_pipeline,
};
use netfold_testkit::sample::Sample;
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Reason, Repr, UDP_PORT, header};
use serde::Serialize;

use plain::Step;

/// Workers of the job with lanes: one packet in this many starts a slot, one completes it.
const WORKERS: u16 = 8;

/// Workers of the job without lanes. The first packet of a slot without lanes clears the slot, which is work on lanes;
/// with as many workers as a level can have, little of it is counted as fixed.
const WORKERS_BARE: u16 = 32;

/// Slots in use: few enough that slots and packets stay in the first-level cache at the middle payload.
const SLOTS: u32 = 2;

/// The payload for which numerics other than words have a fast path.
const PAYLOAD_CONVERTED: u32 = 1408;

/// One round of the interpreter for so many of the fast path.
const INTERPRETED_EVERY: usize = 20;

const KEY: u32 = 0x6b65_7921;
const EPOCH: u32 = 7;

/// What to measure.
#[derive(Debug, Clone)]
pub struct FoldBench {
    /// Rounds of each kind; the median is reported.
    pub rounds: usize,
    /// Time of one round.
    pub round: Duration,
    /// Build of the pipeline; the best that the processor has, where it lacks this one.
    pub simd: SimdLevel,
    /// Lane operation of the packets. Numerics that do not have it are left out.
    pub op: LaneOp,
}

impl Default for FoldBench {
    fn default() -> Self {
        Self { rounds: 401, round: Duration::from_micros(250), simd: SimdLevel::detect(), op: LaneOp::Sum }
    }
}

/// One measurement. Times are nanoseconds a packet, medians over the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct FoldRow {
    /// Lanes in bytes.
    pub payload_bytes: u32,
    /// Numerics of the program: `word` is that of the modes `i32`, `bfp32` and `bfp16` alike.
    pub mode: &'static str,
    /// Build of the pipeline and of the plain loop: `portable`, `avx2`, `avx512`.
    pub simd: &'static str,
    /// What the pipeline parses: `datagram`, or `ethernet` with the outer headers.
    pub encapsulation: &'static str,
    /// Lane operation; the plain loop adds, whatever it is.
    pub op: &'static str,
    /// Cost of a packet without lanes.
    pub fixed_ns: f64,
    /// Cost of a packet with lanes.
    pub total_ns: f64,
    /// `total_ns - fixed_ns`.
    pub lanes_ns: f64,
    /// A plain loop of the arithmetic of `mode` over the same bytes.
    pub plain_loop_ns: f64,
    /// `plain_loop_ns / lanes_ns`: 1 means that the pipeline folds as fast as the plain loop.
    pub lane_ratio: f64,
    /// Millions of full packets a second and core.
    pub mpps: f64,
    /// Millions of full packets a second and core that the interpreter runs of the same program.
    pub interpreted_mpps: f64,
    /// Smallest and largest `total_ns` of the middle half of the rounds.
    pub total_ns_quartiles: [f64; 2],
}

/// Why the benchmark could not run.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// No pipeline was generated for a payload.
    #[error("no pipeline was generated for payloads of {0} bytes")]
    Payload(u32),
    /// The pipeline refused the job.
    #[error("the pipeline refused the benchmark's job")]
    Admission(#[from] EntryError),
    /// The interpreter does not take the program.
    #[error("the interpreter does not take the program")]
    Interpreter(#[from] InterpretError),
    /// No program is made for a payload.
    #[error("no program is made for this payload")]
    Profile(#[from] ProfileError),
    /// The pipeline did not fold what it was given.
    #[error("{expected} results were expected and {found} came")]
    Results {
        /// Chunks completed by the packets sent.
        expected: usize,
        /// RESULTs seen.
        found: usize,
    },
}

/// Measures every payload and encapsulation. `progress` is called with each row as it is done.
///
/// # Errors
///
/// When a pipeline does not behave; never for slowness.
pub fn run(bench: &FoldBench, mut progress: impl FnMut(&FoldRow)) -> Result<Vec<FoldRow>, FoldError> {
    let mut rows = Vec::new();
    let mut add = |payload, encapsulation, numerics| -> Result<(), FoldError> {
        let row = measure(bench, payload, encapsulation, numerics)?;
        progress(&row);
        rows.push(row);
        Ok(())
    };
    for payload in PAYLOADS {
        for encapsulation in ["datagram", "ethernet"] {
            add(payload, encapsulation, Numerics::Word)?;
        }
    }
    for numerics in Numerics::ALL {
        if *numerics == Numerics::Word || !numerics.lane_ops().contains(&bench.op) {
            continue;
        }
        add(PAYLOAD_CONVERTED, "datagram", *numerics)?;
    }
    Ok(rows)
}

fn measure(
    bench: &FoldBench,
    payload: u32,
    encapsulation: &'static str,
    numerics: Numerics,
) -> Result<FoldRow, FoldError> {
    let made = match encapsulation {
        "datagram" => numeric_pipeline(payload, numerics),
        _ => ethernet_pipeline(payload),
    };
    let mut pipeline = made.ok_or(FoldError::Payload(payload))?;
    pipeline.set_simd(bench.simd);
    let mut interpreted = interpreted(payload, encapsulation, numerics)?;
    for (job, world) in [(1, WORKERS), (2, WORKERS_BARE)] {
        admit(&mut *pipeline, job, world, numerics)?;
        admit(&mut interpreted, job, world, numerics)?;
    }
    let ethernet = encapsulation == "ethernet";
    let mut full = Packets::new(ethernet, payload as usize, (1, bench.op), WORKERS);
    let mut bare = Packets::new(ethernet, 0, (2, bench.op), WORKERS_BARE);
    let mut plain = Plain::new(payload as usize, numerics, bench.simd);
    let clock = clock_ns();
    let (mut fixed, mut total, mut loops) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        fixed.push(bare.round(&mut *pipeline, bench.round, clock)?);
        total.push(full.round(&mut *pipeline, bench.round, clock)?);
        loops.push(plain.round(bench.round, clock));
    }
    let interpreted_ns: Sample = (0..bench.rounds.div_ceil(INTERPRETED_EVERY))
        .map(|_| full.round(&mut interpreted, bench.round, clock))
        .collect::<Result<_, _>>()?;
    let lanes: Vec<f64> = total.iter().zip(&fixed).map(|(total, fixed)| total - fixed).collect();
    let ratios: Sample = loops.iter().zip(&lanes).map(|(plain, lanes)| plain / lanes).collect();
    let [fixed, total, lanes, loops] =
        [fixed, total, lanes, loops].map(|values| values.into_iter().collect::<Sample>());
    Ok(FoldRow {
        payload_bytes: payload,
        mode: numerics.name(),
        simd: bench.simd.name(),
        encapsulation,
        op: bench.op.name(),
        fixed_ns: fixed.median(),
        total_ns: total.median(),
        lanes_ns: lanes.median(),
        plain_loop_ns: loops.median(),
        lane_ratio: ratios.median(),
        mpps: 1000.0 / total.median(),
        interpreted_mpps: 1000.0 / interpreted_ns.median(),
        total_ns_quartiles: [total.percentile(25), total.percentile(75)],
    })
}

/// Writes the table entries of a job.
fn admit(pipeline: &mut dyn Pipeline, job: u16, world: u16, numerics: Numerics) -> Result<(), EntryError> {
    let node = node(job, world, numerics);
    for rank in 0..world as u8 {
        let child = Child { port: u16::from(rank) + 1, source: 0, rank, behind: None };
        for entry in job_entries(&node, &child) {
            pipeline.insert(&entry)?;
        }
    }
    Ok(())
}

/// The same program, run by the interpreter.
fn interpreted(
    payload: u32,
    encapsulation: &str,
    numerics: Numerics,
) -> Result<InterpretedPipeline, FoldError> {
    let datagram = Profile::software_with(payload / 4, numerics);
    let profile = match encapsulation {
        "ethernet" => {
            Profile { encapsulation: Encapsulation::Ethernet, ecn_depth: 16, trim_depth: 24, ..datagram }
        }
        _ => datagram,
    };
    Ok(InterpretedPipeline::new(Arc::new(allreduce::program(&profile)?))?)
}

/// What reading the clock twice costs, in nanoseconds: taken off every timed burst.
fn clock_ns() -> f64 {
    let pairs: Sample = (0..1001).map(|_| Instant::now().elapsed().as_nanos() as f64).collect();
    pairs.median()
}

fn node(job: u16, world: u16, numerics: Numerics) -> Node {
    Node {
        job,
        epoch: EPOCH,
        key: KEY,
        base: u32::from(job) * SLOTS,
        slots: SLOTS,
        children: world as u8,
        workers: world,
        world,
        group: job,
        parent: None,
        shift: (numerics == Numerics::Wide).then(|| world.next_power_of_two().trailing_zeros() as u8),
        bounded_loss: true,
        owners: true,
    }
}

/// One packet of every worker for every slot, written anew before each burst.
struct Packets {
    memory: Vec<u8>,
    fresh: Vec<Vec<u8>>,
    received: Vec<Received>,
    verdicts: Vec<Verdict>,
    chunk: u32,
}

impl Packets {
    fn new(ethernet: bool, payload: usize, (job, op): (u16, LaneOp), world: u16) -> Self {
        let outer_len = if ethernet { OUTER_LEN } else { 0 };
        let stride = (outer_len + header::LEN + payload).next_multiple_of(64);
        let count = SLOTS as usize * usize::from(world);
        let mut packets = Self {
            memory: vec![0; stride * count],
            fresh: Vec::with_capacity(count),
            received: Vec::with_capacity(count),
            verdicts: Vec::with_capacity(count),
            chunk: 1,
        };
        for slot in 0..SLOTS as u16 {
            for rank in 0..world {
                let mut datagram = vec![1u8; header::LEN + payload];
                repr((job, op), slot, payload == 0)
                    .emit(&mut header::Packet::new_unchecked(&mut datagram[..]));
                let mut bytes = vec![0; outer_len + datagram.len()];
                if ethernet {
                    let len = outer(rank).emit(&datagram, 0, &mut bytes).expect("the buffer was made for it");
                    debug_assert_eq!(len, bytes.len());
                } else {
                    bytes.copy_from_slice(&datagram);
                }
                let at = packets.received.len() * stride;
                packets.memory[at..at + bytes.len()].copy_from_slice(&bytes);
                let (offset, len) = (at as u32, bytes.len() as u32);
                packets.received.push(Received { port: PortId(rank + 1), offset, len, ecn: 0 });
                bytes.truncate(outer_len + header::LEN);
                packets.fresh.push(bytes);
            }
        }
        packets
    }

    /// Rewrites the headers with the next chunk of each slot.
    fn prepare(&mut self, switch_chunk: u32) {
        for (received, fresh) in self.received.iter().zip(&self.fresh) {
            let at = received.offset as usize;
            let headers = &mut self.memory[at..at + fresh.len()];
            headers.copy_from_slice(fresh);
            let datagram = &mut headers[fresh.len() - header::LEN..];
            header::Packet::new_unchecked(datagram).set_chunk(switch_chunk);
        }
    }

    /// Nanoseconds a packet, over at least `round` spent in the pipeline.
    fn round(&mut self, pipeline: &mut dyn Pipeline, round: Duration, clock: f64) -> Result<f64, FoldError> {
        let mut spent = Duration::ZERO;
        let mut bursts = 0u32;
        while spent < round {
            // Both kinds of packets share the slots, so the numbers come from one sequence.
            self.chunk = next_chunk();
            self.prepare(self.chunk);
            self.verdicts.clear();
            let start = Instant::now();
            pipeline.burst(black_box(&self.received), black_box(&mut self.memory), &mut self.verdicts);
            spent += start.elapsed();
            bursts += 1;
            let found = self.verdicts.iter().filter(|verdict| **verdict != Verdict::DROP).count();
            if found != SLOTS as usize {
                return Err(FoldError::Results { expected: SLOTS as usize, found });
            }
        }
        Ok((spent.as_nanos() as f64 / f64::from(bursts) - clock) / self.received.len() as f64)
    }
}

fn next_chunk() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static CHUNK: AtomicU32 = AtomicU32::new(0);
    CHUNK.fetch_add(1, Ordering::Relaxed) + 1
}

fn repr((job, op): (u16, LaneOp), slot: u16, bare: bool) -> Repr {
    Repr {
        kind: Kind::Data,
        flags: if bare { Flags::BARE } else { Flags::default() },
        op,
        class: 0,
        reason: Reason::None,
        job,
        slot,
        set: 0,
        epoch: EPOCH,
        key: KEY,
        chunk: 0,
        bitmap: 0,
        count: 1,
        exp: 0,
        exp_next: 100,
        owner: LaneOwner::All,
    }
}

fn outer(rank: u16) -> Outer {
    let end = |host: u8, port| Endpoint {
        mac: EthernetAddress([2, 0, 0, 0, 0, host]),
        ip: Ipv4Address::new(10, 0, 0, host),
        port,
    };
    Outer { source: end(rank as u8 + 1, 4000), destination: end(200, UDP_PORT) }
}

/// The bound: the plain loop over the packets of the same chunks.
struct Plain {
    packets: Vec<Vec<u8>>,
    slots: Vec<plain::Slot>,
    fold: plain::Fold,
}

impl Plain {
    fn new(payload: usize, numerics: Numerics, simd: SimdLevel) -> Self {
        let count = SLOTS as usize * usize::from(WORKERS);
        Self {
            packets: vec![vec![1; payload]; count],
            slots: vec![plain::Slot::new(payload); SLOTS as usize],
            fold: plain::fold(numerics, simd),
        }
    }

    fn round(&mut self, round: Duration, clock: f64) -> f64 {
        let workers = usize::from(WORKERS);
        let mut spent = Duration::ZERO;
        let mut bursts = 0u32;
        while spent < round {
            let start = Instant::now();
            for (i, packet) in self.packets.iter_mut().enumerate() {
                let step = match i % workers {
                    0 => Step::First,
                    rank if rank + 1 < workers => Step::Next,
                    _ => Step::Last,
                };
                black_box((self.fold)(black_box(&mut self.slots[i / workers]), black_box(packet), step));
            }
            spent += start.elapsed();
            bursts += 1;
        }
        (spent.as_nanos() as f64 / f64::from(bursts) - clock) / self.packets.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_yields_every_row() {
        for simd in SimdLevel::available() {
            let bench = FoldBench { rounds: 1, round: Duration::from_micros(50), simd, op: LaneOp::Sum };
            let rows = run(&bench, |_| ()).unwrap();
            assert_eq!(rows.len(), PAYLOADS.len() * 2 + Numerics::ALL.len() - 1);
            assert!(rows.iter().all(|row| row.total_ns > 0.0 && row.mpps > 0.0 && row.simd == simd.name()));
        }
    }

    /// Lanes of any bits: the plain loops compute what the pipelines do, so that their times are those of the same arithmetic.
    #[test]
    fn plain_loops_give_the_bits_of_the_pipelines() {
        let mut state = 0x9e37_79b9u32;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        for numerics in Numerics::ALL {
            for simd in SimdLevel::available() {
                let mut pipeline = numeric_pipeline(PAYLOAD_CONVERTED, *numerics).unwrap();
                pipeline.set_simd(simd);
                admit(&mut *pipeline, 1, WORKERS, *numerics).unwrap();
                let payload = PAYLOAD_CONVERTED as usize;
                let mut packets = Packets::new(false, payload, (1, LaneOp::Sum), WORKERS);
                let mut plain = Plain::new(payload, *numerics, simd);
                for round in 0..100 {
                    packets.prepare(next_chunk());
                    // Every other round has numbers of one size, which add up without loss or infinities.
                    let mask = if round % 2 == 0 { 0x0fff_87ff } else { u32::MAX };
                    for (packet, received) in plain.packets.iter_mut().zip(&packets.received) {
                        packet.chunks_mut(4).for_each(|word| {
                            word.copy_from_slice(&(random() & mask).to_be_bytes());
                        });
                        let at = received.offset as usize + header::LEN;
                        packets.memory[at..at + payload].copy_from_slice(packet);
                    }
                    packets.verdicts.clear();
                    pipeline.burst(&packets.received, &mut packets.memory, &mut packets.verdicts);
                    let workers = usize::from(WORKERS);
                    for (i, packet) in plain.packets.iter_mut().enumerate() {
                        let last = i % workers + 1 == workers;
                        let step = match i % workers {
                            0 => Step::First,
                            _ if last => Step::Last,
                            _ => Step::Next,
                        };
                        let saturated = (plain.fold)(&mut plain.slots[i / workers], packet, step);
                        if last {
                            let at = packets.received[i].offset as usize;
                            let out = &packets.memory[at..at + header::LEN + payload];
                            let out = header::Packet::new_unchecked(out);
                            let context = format!("{} {} round {round}", numerics.name(), simd.name());
                            assert_eq!(out.payload(), &packet[..], "{context}");
                            assert_eq!(out.flags().contains(Flags::SATURATED), saturated, "{context}");
                        }
                    }
                }
            }
        }
    }
}
