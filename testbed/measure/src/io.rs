//! What packet I/O costs: the software switch on each back end, beside a plain forwarder on the same device in the same run.
//!
//! Eight workers with a window of chunks each send 1408-byte chunks; the switch folds them and sends every sum to all, the
//! forwarder sends every packet back. Either sends one packet for each it receives, so their packets a second compare. What is
//! measured has a thread and a core of its own, the eight workers have the other. Switch and forwarder take turns, each on a device
//! opened anew, and the median of the rounds' ratios is reported.
//!
//! With several queues all of that is there as often: packet threads that share nothing, each with a device and eight workers of its
//! own, on the cores that there are, and their packets are added up.

mod backend;
mod crowd;
mod frames;
mod hub;
mod kernel;
mod sockets;
#[cfg(feature = "dpdk")]
mod testpmd;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use netfold_io::{IoError, PacketIo};
use netfold_p4::entry::EntryError;
use netfold_switch::datagram_pipeline;
use netfold_switch::runtime::Pipeline;
use serde::Serialize;

use netfold_testkit::sample::Sample;

pub use backend::{Backend, all, named};

use backend::Reference;
use crowd::{Crowd, STALL_TIMEOUT, Workers};
use hub::{Hub, Snapshot, What};

/// Workers of the job.
pub const WORKERS: u16 = 8;
/// Bytes of a chunk's lanes.
pub const PAYLOAD_BYTES: u32 = 1408;

/// What is measured.
#[derive(Debug, Clone)]
pub struct IoConfig {
    /// Turns of each, switch and forwarder.
    pub rounds: u32,
    /// How long a turn is measured.
    pub turn: Duration,
    /// Chunks that each worker has under way, a power of two. As many as the slots that a job asks for, by default: with few,
    /// the switch waits for the last worker of each chunk, where a forwarder replies to the first.
    pub window: u32,
    /// Packet threads, at least 1.
    pub queues: usize,
    /// Whether the job's packets are authenticated; the forwarder's are not.
    pub authenticated: bool,
    /// The switch's pipeline for packets of so many bytes of lanes; `None` if there is none.
    pub pipeline: fn(u32) -> Option<Box<dyn Pipeline>>,
}

impl Default for IoConfig {
    fn default() -> Self {
        Self {
            rounds: 7,
            turn: Duration::from_millis(300),
            window: netfold::Builder::SLOTS_DEFAULT,
            queues: 1,
            authenticated: false,
            pipeline: datagram_pipeline,
        }
    }
}

/// Figures of one back end: medians over the rounds, of the switch unless they say otherwise. A packet is one received, with the one
/// that is sent for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IoRow {
    /// The back end.
    pub io: String,
    /// Packet threads.
    pub queues: usize,
    /// Whether the job's packets were authenticated.
    pub authenticated: bool,
    /// Cores that this process may use: those of packet threads and workers alike.
    pub cores: usize,
    /// Millions of packets a second, over all queues.
    pub mpps: f64,
    /// Cycles a packet of the threads that run the switch, at the rate that `/proc/cpuinfo` states; waiting without sleep counts.
    pub cycles_per_packet: f64,
    /// System calls a packet that the back end counts, sleeps included.
    pub syscalls_per_packet: f64,
    /// Median of the rounds' ratios of packets a second, switch to forwarder.
    pub ratio_to_forwarder: f64,
    /// Least and greatest of the rounds' ratios.
    pub ratio_min: f64,
    /// As above.
    pub ratio_max: f64,
    /// Millions of packets a second of the forwarder.
    pub forwarder_mpps: f64,
    /// Cycles a packet of the forwarder's thread.
    pub forwarder_cycles_per_packet: f64,
    /// How often a byte is copied on its way in and out again, the kernel's copies included: from how the back end is built.
    pub copies_per_byte: u32,
    /// Share of the time that the switch's threads ran, on average: near 1, they are what limits the rate, or they wait without sleep.
    pub busy: f64,
    /// The same of the forwarder's: where it is less than the switch's, the workers limit the forwarder, and the packets a second say how
    /// near the switch comes to the machine, the cycles how near to the forwarder.
    pub forwarder_busy: f64,
    /// Packets that were retransmitted after a timeout, in all rounds, of both.
    pub retransmitted: u64,
    /// Millions of packets a second of `dpdk-testpmd` on the same device, on devices of DPDK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub testpmd_mpps: Option<f64>,
    /// Median of the rounds' ratios of packets a second, switch to `dpdk-testpmd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_testpmd: Option<f64>,
    /// Why `dpdk-testpmd` does not stand beside a device of DPDK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub testpmd_absent: Option<String>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoBenchError {
    /// The machine lacks what the back end needs. The others can be measured.
    #[error("{0}")]
    Absent(String),
    /// The back end broke.
    #[error("packet I/O failed")]
    Io(#[from] IoError),
    /// The switch refused the benchmark's job.
    #[error("the switch refused the benchmark's job")]
    Admission(#[from] EntryError),
    /// The thread that was measured ended.
    #[error("the {0} ended early")]
    Ended(&'static str),
    /// Nothing came back.
    #[error("nothing came back from the {0}")]
    Silent(&'static str),
}

/// One turn.
struct Turn {
    mpps: f64,
    cycles: f64,
    calls: f64,
    busy: f64,
    retransmitted: u64,
}

/// Measures one back end; `on_round` is called after each round.
///
/// # Errors
///
/// [`IoBenchError`].
pub fn run(
    config: &IoConfig,
    backend: &Backend,
    mut on_round: impl FnMut(u32),
) -> Result<IoRow, IoBenchError> {
    let (mut switch, mut forwarder) = (Vec::new(), Vec::new());
    let (mut testpmd, mut testpmd_absent) = (Vec::new(), None);
    for round in 0..config.rounds {
        // Who is first changes, so that neither always meets a cold machine.
        let order =
            if round % 2 == 0 { [What::Switch, What::Forwarder] } else { [What::Forwarder, What::Switch] };
        for what in order {
            // A forwarder sends packets back as they came: without tags it is the bound.
            let authenticated = config.authenticated && what == What::Switch;
            let turn = turn(&IoConfig { authenticated, ..config.clone() }, backend, what)?;
            if what == What::Switch { &mut switch } else { &mut forwarder }.push(turn);
        }
        match backend.testpmd(config, &hub::cores()).filter(|_| testpmd_absent.is_none()) {
            None => {}
            Some(reference) => match reference.and_then(|reference| referred(config, reference)) {
                Ok(mpps) => testpmd.push(mpps),
                Err(IoBenchError::Absent(why)) => testpmd_absent = Some(why),
                Err(error) => return Err(error),
            },
        }
        on_round(round + 1);
    }
    let ratios: Sample =
        switch.iter().zip(&forwarder).map(|(switch, plain)| switch.mpps / plain.mpps).collect();
    let to_testpmd: Sample = switch.iter().zip(&testpmd).map(|(switch, mpps)| switch.mpps / mpps).collect();
    let measured = testpmd_absent.is_none() && !testpmd.is_empty();
    let of = |turns: &[Turn], figure: fn(&Turn) -> f64| turns.iter().map(figure).collect::<Sample>().median();
    Ok(IoRow {
        io: backend.name().to_owned(),
        queues: config.queues,
        authenticated: config.authenticated,
        cores: hub::cores().len(),
        mpps: of(&switch, |turn| turn.mpps),
        cycles_per_packet: of(&switch, |turn| turn.cycles),
        syscalls_per_packet: of(&switch, |turn| turn.calls),
        ratio_to_forwarder: ratios.median(),
        ratio_min: ratios.min(),
        ratio_max: ratios.max(),
        forwarder_mpps: of(&forwarder, |turn| turn.mpps),
        forwarder_cycles_per_packet: of(&forwarder, |turn| turn.cycles),
        copies_per_byte: backend.copies_per_byte(),
        busy: of(&switch, |turn| turn.busy),
        forwarder_busy: of(&forwarder, |turn| turn.busy),
        retransmitted: switch.iter().chain(&forwarder).map(|turn| turn.retransmitted).sum(),
        testpmd_mpps: measured.then(|| testpmd.iter().copied().collect::<Sample>().median()),
        ratio_to_testpmd: measured.then(|| to_testpmd.median()),
        testpmd_absent,
    })
}

/// A turn of another program's forwarder, counted by the workers: millions of packets a second.
fn referred(config: &IoConfig, mut reference: Reference) -> Result<f64, IoBenchError> {
    let core = hub::cores().of(0);
    std::thread::scope(|scope| {
        let turn = scope.spawn(move || {
            hub::pin(core);
            let mut crowd = Crowd::new(reference.workers, config.window);
            let begun = Instant::now();
            // It starts meanwhile: long enough to retransmit what was lost.
            while crowd.returned() == 0 {
                (reference.check)()?;
                crowd.drive(3 * crowd::RESEND)?;
                if begun.elapsed() > 2 * STALL_TIMEOUT {
                    return Err(IoBenchError::Silent("testpmd"));
                }
            }
            crowd.drive(config.turn / 4)?;
            let (before, begun) = (crowd.returned(), Instant::now());
            crowd.drive(config.turn)?;
            Ok((crowd.returned() - before) as f64 / begun.elapsed().as_secs_f64() / 1e6)
        });
        turn.join().unwrap_or(Err(IoBenchError::Ended("workers' thread")))
    })
}

/// What a queue did in a turn.
struct QueueResult {
    packets: u64,
    cpu: Duration,
    calls: u64,
    took: Duration,
    retransmitted: u64,
}

/// A turn of all queues at the same time.
fn turn(config: &IoConfig, backend: &Backend, what: What) -> Result<Turn, IoBenchError> {
    let Some(open) = backend.opening() else { return kernel::turn(config, what) };
    // Devices are opened before any is driven.
    let (mut devices, mut keep) = (Vec::new(), Vec::new());
    for _ in 0..config.queues.max(1) {
        let opened = open(config)?;
        devices.push((opened.io, opened.workers));
        keep.push(opened.keep);
    }
    let start = Barrier::new(devices.len());
    let queues: Vec<Result<QueueResult, IoBenchError>> = std::thread::scope(|scope| {
        let start = &start;
        // On threads of their own, so that the caller's stays where it was.
        let drive = |(queue, device)| scope.spawn(move || drive((config, what), queue, device, start));
        let threads: Vec<_> = devices.into_iter().enumerate().map(drive).collect();
        let ended = |_| Err(IoBenchError::Ended("workers' thread"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
    });
    drop(keep);
    let queues = queues.into_iter().collect::<Result<Vec<_>, _>>()?;
    let packets = queues.iter().map(|queue| queue.packets).sum::<u64>() as f64;
    let cpu = queues.iter().map(|queue| queue.cpu.as_secs_f64()).sum::<f64>();
    let busy_fraction = |queue: &QueueResult| queue.cpu.as_secs_f64() / queue.took.as_secs_f64();
    Ok(Turn {
        mpps: queues.iter().map(|queue| queue.packets as f64 / queue.took.as_secs_f64() / 1e6).sum(),
        cycles: cpu * hub::clock_hz() / packets,
        calls: queues.iter().map(|queue| queue.calls).sum::<u64>() as f64 / packets,
        busy: queues.iter().map(busy_fraction).sum::<f64>() / queues.len() as f64,
        retransmitted: queues.iter().map(|queue| queue.retransmitted).sum(),
    })
}

/// Has eight workers drive the device, and measures once they are under way. Queues take pairs of cores in turn: one for the workers, one
/// for the one that is measured.
fn drive(
    (config, what): (&IoConfig, What),
    queue: usize,
    (mut io, mut workers): (Box<dyn PacketIo>, Box<dyn Workers>),
    start: &Barrier,
) -> Result<QueueResult, IoBenchError> {
    let cores = hub::cores();
    let core = |index: usize| cores.of(index).filter(|_| cores.len() > 1);
    let hub = hub::meet(&mut *io, &mut *workers)
        .and_then(|()| if config.authenticated { Ok(sockets::authenticate(io)?) } else { Ok(io) })
        .and_then(|io| Hub::start(what, io, config, core(2 * queue + 1)));
    hub::pin(core(2 * queue));
    // All come here, or those that do would wait for ever.
    start.wait();
    let hub = hub?;
    let mut crowd = Crowd::new(workers, config.window);
    crowd.drive(config.turn / 4)?;
    let (before, begun) = (hub.snapshot()?, Instant::now());
    crowd.drive(config.turn)?;
    let took = begun.elapsed();
    let after = hub.snapshot()?;
    hub.stop();
    let packets = after.io.rx_packets - before.io.rx_packets;
    if packets == 0 {
        return Err(IoBenchError::Silent(what.name()));
    }
    let calls = |snapshot: &Snapshot| snapshot.io.rx_calls + snapshot.io.tx_calls + snapshot.io.sleeps;
    let (cpu, calls) = (after.cpu - before.cpu, calls(&after) - calls(&before));
    Ok(QueueResult { packets, cpu, calls, took, retransmitted: crowd.retransmitted() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_back_end_is_measured_or_reports_what_is_absent() {
        let config =
            IoConfig { rounds: 1, turn: Duration::from_millis(60), window: 8, ..IoConfig::default() };
        for backend in all() {
            let row = match run(&config, backend, |_| ()) {
                Ok(row) => row,
                Err(IoBenchError::Absent(why)) => {
                    println!("skipped: {}: {why}", backend.name());
                    continue;
                }
                Err(error) => panic!("{}: {error:?}", backend.name()),
            };
            assert!(row.mpps > 0.0 && row.forwarder_mpps > 0.0 && row.ratio_to_forwarder > 0.0, "{row:?}");
            assert!(row.syscalls_per_packet < 20.0 && row.busy > 0.0, "{row:?}");
        }
        assert!(named("udp").is_some() && named("nonsense").is_none());
    }

    #[test]
    fn several_queues_are_driven_at_once() {
        let config = IoConfig {
            rounds: 1,
            turn: Duration::from_millis(60),
            window: 8,
            queues: 3,
            ..IoConfig::default()
        };
        let row = run(&config, named("udp").unwrap(), |_| ()).unwrap();
        assert!(row.mpps > 0.0 && row.forwarder_mpps > 0.0 && row.queues == 3, "{row:?}");
    }

    #[test]
    fn authenticated_packets_are_measured_where_workers_have_sockets() {
        let config = IoConfig {
            rounds: 1,
            turn: Duration::from_millis(60),
            window: 8,
            authenticated: true,
            ..IoConfig::default()
        };
        for name in ["udp", "shm"] {
            let row = run(&config, named(name).unwrap(), |_| ()).unwrap();
            assert!(row.mpps > 0.0 && row.forwarder_mpps > 0.0 && row.authenticated, "{row:?}");
        }
        let absent = run(&config, named("packet-ring").unwrap(), |_| ());
        assert!(matches!(absent, Err(IoBenchError::Absent(why)) if why.contains("udp and shm")));
    }
}
