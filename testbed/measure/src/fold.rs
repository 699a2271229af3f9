//! The cost of folding: the generated pipeline from received bytes to the packets to send, in cache.
//!
//! The time of a packet is a fixed cost plus its lanes. The fixed cost is measured on packets that have no lanes; the
//! lane part is the rest, and is compared with a plain loop over the same bytes that loads, swaps, adds and stores.
//! Rounds of the three are timed in turn, so that all see the same machine, and medians are reported.

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
    /// Lane operation; the plain loop adds words, whatever it is.
    pub op: &'static str,
    /// Cost of a packet without lanes.
    pub fixed_ns: f64,
    /// Cost of a packet with lanes.
    pub total_ns: f64,
    /// `total_ns - fixed_ns`.
    pub lanes_ns: f64,
    /// The plain loop over the same bytes.
    pub plain_loop_ns: f64,
    /// `plain_loop_ns / lanes_ns`: 1 means that the pipeline adds as fast as the plain loop.
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
        let node = node(job, world, numerics);
        for rank in 0..world as u8 {
            for entry in
                job_entries(&node, &Child { port: u16::from(rank) + 1, source: 0, rank, behind: None })
            {
                pipeline.insert(&entry)?;
                interpreted.insert(&entry)?;
            }
        }
    }
    let ethernet = encapsulation == "ethernet";
    let mut full = Packets::new(ethernet, payload as usize, (1, bench.op), WORKERS);
    let mut bare = Packets::new(ethernet, 0, (2, bench.op), WORKERS_BARE);
    let mut plain = Plain::new(payload as usize, bench.simd);
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

/// The bound: the same bytes, loaded, swapped, added to the slot and stored, and nothing else.
struct Plain {
    packets: Vec<Vec<u8>>,
    slots: Vec<Vec<u32>>,
    fold: fn(&mut [u32], &[u8]),
}

impl Plain {
    fn new(payload: usize, simd: SimdLevel) -> Self {
        let count = SLOTS as usize * usize::from(WORKERS);
        let slots = vec![vec![0; payload / 4]; SLOTS as usize];
        Self { packets: vec![vec![1; payload]; count], slots, fold: plain_fold(simd) }
    }

    fn round(&mut self, round: Duration, clock: f64) -> f64 {
        let mut spent = Duration::ZERO;
        let mut bursts = 0u32;
        while spent < round {
            let start = Instant::now();
            for (i, packet) in self.packets.iter().enumerate() {
                (self.fold)(black_box(&mut self.slots[i / usize::from(WORKERS)]), black_box(packet));
            }
            spent += start.elapsed();
            bursts += 1;
        }
        (spent.as_nanos() as f64 / f64::from(bursts) - clock) / self.packets.len() as f64
    }
}

#[inline(always)]
fn fold_body(slot: &mut [u32], packet: &[u8]) {
    let (lanes, _) = packet.as_chunks::<4>();
    for (cell, lane) in slot.iter_mut().zip(lanes) {
        *cell = cell.wrapping_add(u32::from_be_bytes(*lane));
    }
}

/// The loop in the instruction set that the pipeline uses.
fn plain_fold(simd: SimdLevel) -> fn(&mut [u32], &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn avx2(slot: &mut [u32], packet: &[u8]) {
            fold_body(slot, packet);
        }
        #[target_feature(enable = "avx512f,avx512bw")]
        fn avx512(slot: &mut [u32], packet: &[u8]) {
            fold_body(slot, packet);
        }
        #[expect(unsafe_code, reason = "the plain loop gets the instruction set that the pipeline uses")]
        match simd.min(SimdLevel::detect()) {
            // SAFETY: detect() found AVX-512 F and BW on this processor.
            SimdLevel::Avx512 => return |slot, packet| unsafe { avx512(slot, packet) },
            // SAFETY: detect() found AVX2 on this processor.
            SimdLevel::Avx2 => return |slot, packet| unsafe { avx2(slot, packet) },
            SimdLevel::Portable => {}
        }
    }
    let _ = simd;
    fold_body
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
}
