//! Collectives of a running job, measured as `nccl-tests` does: every rank is a process that calls [`measure`].
//!
//! Each iteration lies between two barriers and takes as long as its slowest rank. Reported are the median over the iterations, and
//! the shortest and the longest. Results are checked on every rank. What went over the wire is what the kernel counted on the
//! interfaces of this rank's namespace meanwhile, headers, acknowledgements and resends included.

mod values;
mod wire;

use std::time::{Duration, Instant};

use netfold::{Call, Collective, Communicator, DType, Error, Extent, Mode, ReduceOp};
use serde::Serialize;

pub use wire::Wire;

use values::{Checker, fill};

/// What to measure, for one size.
#[derive(Debug, Clone)]
pub struct PerfConfig {
    /// What ranks do together.
    pub collective: Collective,
    /// Another collective of the same size that runs at the same time, in a class of its own.
    pub beside: Option<Collective>,
    /// Element type.
    pub dtype: DType,
    /// The reduction.
    pub op: ReduceOp,
    /// Timed iterations.
    pub iterations: u32,
    /// Iterations before them.
    pub warmup: u32,
    /// Whether results are checked.
    pub check: bool,
    /// Rate of the links in bits a second, if known: for the fraction of the line rate.
    pub line_rate: Option<f64>,
    /// Leave calls out whose input and output are apart.
    pub in_place_only: bool,
}

/// Figures of one way of calling.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Timing {
    /// Median over the iterations of the slowest rank's time, in microseconds.
    pub time_us: f64,
    /// Shortest iteration.
    pub time_us_min: f64,
    /// Longest iteration.
    pub time_us_max: f64,
    /// Size over time, 10^9 bytes a second.
    #[serde(rename = "algbw_GBps")]
    pub algbw: f64,
    /// `algbw` by nccl-tests' factor: what the links of a ring would carry.
    #[serde(rename = "busbw_GBps")]
    pub busbw: f64,
    /// Wrong elements on all ranks; `None` when not checked.
    pub wrong: Option<u64>,
    /// What crossed rank 0's links in the busier direction, 10^9 bytes a second of median time.
    #[serde(rename = "wire_GBps")]
    pub wire: f64,
    /// That, as a fraction of the line rate.
    pub line_share: Option<f64>,
    /// Packets that rank 0 retransmitted, over all iterations.
    pub retransmitted: u64,
    /// Packets that rank 0 sent, those among them.
    pub sent: u64,
    /// Every iteration's time in seconds, ascending.
    #[serde(skip)]
    pub times: Vec<f64>,
}

/// One line: a size, out of place and in place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PerfRow {
    /// The collective.
    pub collective: &'static str,
    /// Size in nccl-tests' sense: bytes of the larger of input and output.
    pub size: u64,
    /// Elements of the call.
    pub count: u64,
    /// Element type.
    #[serde(rename = "type")]
    pub dtype: &'static str,
    /// The reduction.
    pub redop: &'static str,
    /// The root, or -1.
    pub root: i32,
    /// Number of ranks.
    pub ranks: u16,
    /// Which way the data went.
    pub path: String,
    /// Input and output apart.
    pub out_of_place: Timing,
    /// Input and output the same.
    pub in_place: Timing,
}

/// Measures one size, together with the other ranks. `size` is in bytes and is rounded down to whole elements, and parts.
///
/// # Errors
///
/// Any error of the communicator.
pub fn measure(comm: &Communicator, config: &PerfConfig, size: u64) -> Result<PerfRow, Error> {
    let collectives = [Some(config.collective), config.beside];
    let mut parts: Vec<Part> = (0..)
        .zip(collectives.into_iter().flatten())
        .map(|(class, collective)| {
            Part::new(call_of(config, collective, size, comm.world_size()).in_class(class), comm)
        })
        .collect();
    let out_of_place =
        if config.in_place_only { Timing::default() } else { run(comm, config, &mut parts, false)? };
    let in_place = run(comm, config, &mut parts, true)?;
    let (call, world) = (parts[0].call, comm.world_size());
    let element = call.dtype.size();
    Ok(PerfRow {
        collective: call.collective.name(),
        size: (call.input_len(world).max(call.output_len(world)) * element) as u64,
        count: call.count as u64,
        dtype: call.dtype.name(),
        redop: if call.collective.reduces() { call.op.name() } else { "none" },
        root: call.collective.root().map_or(-1, i32::from),
        ranks: world,
        path: comm.path().to_string(),
        out_of_place,
        in_place,
    })
}

fn call_of(config: &PerfConfig, collective: Collective, size: u64, world: u16) -> Call {
    let elements = size as usize / config.dtype.size().max(1);
    let parts = if is_parted(collective) { usize::from(world) } else { 1 };
    Call::new(collective, config.dtype, config.op, elements / parts)
}

/// Whether a rank's input or output has a part for each rank.
fn is_parted(collective: Collective) -> bool {
    let info = collective.info();
    [info.input, info.output].contains(&Extent::CountPerRank)
}

/// What nccl-tests multiplies algbw by.
pub fn bus_factor(collective: Collective, world: u16) -> f64 {
    let n = f64::from(world);
    match collective {
        Collective::AllReduce => 2.0 * (n - 1.0) / n,
        _ if is_parted(collective) => (n - 1.0) / n,
        _ => 1.0,
    }
}

/// One of the calls that are measured together.
struct Part {
    call: Call,
    memory: Memory,
    checker: Checker,
}

impl Part {
    fn new(call: Call, comm: &Communicator) -> Self {
        Self { call, memory: Memory::new(&call, comm), checker: Checker::new(&call, comm) }
    }
}

/// Buffers of all calls of one size.
struct Memory {
    input: Vec<u8>,
    output: Vec<u8>,
    rank: u16,
    world: u16,
}

impl Memory {
    fn new(call: &Call, comm: &Communicator) -> Self {
        let (rank, world) = (comm.rank(), comm.world_size());
        let bytes = |len: usize| vec![0u8; len * call.dtype.size()];
        let longer = call.input_len(world).max(call.output_len(world));
        Self { input: bytes(call.input_len(world)), output: bytes(longer), rank, world }
    }

    /// Fills the input, in place or apart, and returns where it and the output begin.
    fn prepare(&mut self, call: &Call, in_place: bool) -> (*const u8, *mut u8) {
        let own = usize::from(self.rank) * call.count * call.dtype.size();
        if !in_place {
            fill(call, &mut self.input, self.rank);
            return (self.input.as_ptr(), self.output.as_mut_ptr());
        }
        // Nothing else is touched: caches hold what the call works on, as they do for a trainer.
        let at = if call.collective == Collective::AllGather { own } else { 0 };
        fill(call, &mut self.output[at..at + self.input.len()], self.rank);
        let start = self.output.as_mut_ptr();
        match call.collective {
            Collective::AllGather => (start.wrapping_add(own), start),
            Collective::ReduceScatter => (start, start.wrapping_add(own)),
            _ => (start, start),
        }
    }

    /// The output after a call.
    fn result(&self, call: &Call, in_place: bool) -> &[u8] {
        let len = call.output_len(self.world) * call.dtype.size();
        let at = match call.collective {
            Collective::ReduceScatter if in_place => usize::from(self.rank) * len,
            _ => 0,
        };
        &self.output[at..at + len]
    }
}

fn run(
    comm: &Communicator,
    config: &PerfConfig,
    parts: &mut [Part],
    in_place: bool,
) -> Result<Timing, Error> {
    let counted = comm.stats().worker;
    let (mut times, mut wrong) = (Vec::new(), 0);
    let mut wire = 0;
    for iteration in 0..config.warmup + config.iterations {
        let calls: Vec<_> =
            parts.iter_mut().map(|part| (part.call, part.memory.prepare(&part.call, in_place))).collect();
        // Counted outside of what is timed, barriers included: ranks that still read counters would hold up the others.
        let before = Wire::now();
        // The first barrier waits for the rank that prepared longest, perhaps asleep; all ranks leave the second at once.
        comm.barrier()?;
        comm.barrier()?;
        let started = Instant::now();
        perform(comm, &calls)?;
        let took = started.elapsed();
        // A rank that checks or prepares takes the processor from ranks beside it that are not done.
        comm.barrier()?;
        if iteration >= config.warmup {
            times.push(took);
            wire += Wire::now().since(&before);
        }
        if config.check {
            let results = parts.iter().map(|part| (part, part.memory.result(&part.call, in_place)));
            wrong += results.map(|(part, result)| part.checker.wrong(&part.call, result)).sum::<u64>();
        }
    }
    let slowest = slowest(comm, &times)?;
    let wrong = total(comm, wrong)?;
    let median = slowest[slowest.len() / 2];
    let Part { call, memory, .. } = &parts[0];
    let size = call.input_len(memory.world).max(call.output_len(memory.world)) * call.dtype.size();
    let algbw = size as f64 / median.as_secs_f64().max(1e-9) / 1e9;
    let wire = wire as f64 / f64::from(config.iterations) / median.as_secs_f64().max(1e-9) / 1e9;
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    Ok(Timing {
        time_us: us(median),
        time_us_min: us(slowest[0]),
        time_us_max: us(slowest[slowest.len() - 1]),
        algbw,
        busbw: algbw * bus_factor(call.collective, memory.world),
        wrong: config.check.then_some(wrong),
        wire,
        line_share: config.line_rate.map(|rate| wire * 8e9 / rate),
        retransmitted: comm.stats().worker.retransmitted - counted.retransmitted,
        sent: comm.stats().worker.sent - counted.sent,
        times: slowest.iter().map(Duration::as_secs_f64).collect(),
    })
}

#[expect(unsafe_code, reason = "passes buffers that this function's callers own and wait for")]
fn perform(comm: &Communicator, calls: &[(Call, (*const u8, *mut u8))]) -> Result<(), Error> {
    if let [(call, (send, recv))] = calls {
        // SAFETY: the pointers come from `Memory::prepare`, whose buffers are long enough for the call, are in place in the
        // sense of `submit` or apart, and are borrowed until the work is done.
        return unsafe { comm.run(call, *send, *recv) }.map(drop);
    }
    // SAFETY: as above; each call has buffers of its own, which outlive the communicator's work: all calls are waited for.
    let submitted: Vec<_> =
        calls.iter().map(|(call, (send, recv))| unsafe { comm.submit(call, *send, *recv) }).collect();
    let outcomes: Vec<_> = submitted.into_iter().map(|work| work.and_then(|work| work.wait())).collect();
    outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
}

/// Of each iteration the slowest rank's time, in ascending order; the same on all ranks.
fn slowest(comm: &Communicator, times: &[Duration]) -> Result<Vec<Duration>, Error> {
    let mut slowest = Vec::with_capacity(times.len());
    for time in times {
        let mut all = vec![0i32];
        // Microseconds of up to half an hour fit, and every path folds this type and operation.
        all[0] = i32::try_from(time.as_nanos() / 100).unwrap_or(i32::MAX);
        comm.all_reduce(&mut all, ReduceOp::Max)?;
        slowest.push(Duration::from_nanos(all[0].unsigned_abs().into()) * 100);
    }
    slowest.sort();
    Ok(if slowest.is_empty() { vec![Duration::ZERO] } else { slowest })
}

fn total(comm: &Communicator, wrong: u64) -> Result<u64, Error> {
    let mut all =
        vec![i32::try_from(wrong).unwrap_or(i32::MAX / i32::from(comm.world_size().min(1024) as i16))];
    comm.all_reduce(&mut all, ReduceOp::Sum)?;
    Ok(all[0].unsigned_abs().into())
}

/// Whether a sum of floats is quantised on this path.
fn quantised(comm: &Communicator, call: &Call) -> bool {
    let floats = matches!(call.dtype, DType::F32 | DType::F16 | DType::Bf16);
    comm.path().name() == "switch" && comm.mode() != Mode::I32 && call.collective.reduces() && floats
}
