//! What is measured: the switch or the forwarder on a thread of its own, and what it has used so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netfold_io::forward::Forwarder;
use netfold_io::{Cores, IoCounters, IoError, PacketIo, PortId, Transmit, cores};
use netfold_p4::allreduce::{Child, Node, job_entries};
use netfold_p4::entry::Replica;
use netfold_switch::{Handle, Switch};
use rustix::time::{ClockId, clock_gettime};

use super::crowd::{EPOCH, JOB, KEY, STALL_TIMEOUT, Workers};
use super::{IoBenchError, IoConfig, PAYLOAD_BYTES, WORKERS};

/// How long the forwarder sleeps when nothing arrives, as the switch does.
const IDLE: Duration = Duration::from_millis(100);

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Switch,
    Forwarder,
}

impl What {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Forwarder => "forwarder",
        }
    }
}

/// A thread with a name that profilers show.
fn named(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .expect("a thread, as `std::thread::spawn` has one")
}

/// What the thread has used and moved so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot {
    pub(super) cpu: Duration,
    pub(super) io: IoCounters,
}

/// Makes the workers ports, and has both ends find each other: back ends below IP ask for Ethernet addresses first.
pub(super) fn meet(io: &mut dyn PacketIo, workers: &mut dyn Workers) -> Result<(), IoBenchError> {
    for (port, worker) in (1..).zip(workers.addresses()) {
        io.bind_port(PortId(port), worker)?;
    }
    let (mut batch, mut back, begun) = (io.capabilities().batch(), Vec::new(), Instant::now());
    // A packet of no job: the workers ignore it.
    let hello = Transmit { port: PortId(1), offset: 0, len: 1 };
    while io.transmit(&[0], &[hello])? == 0 {
        workers.receive(&mut back)?;
        back.clear();
        io.receive(&mut batch)?;
        io.wait(Duration::from_millis(1))?;
        if begun.elapsed() > STALL_TIMEOUT {
            return Err(IoBenchError::Silent("device"));
        }
    }
    Ok(())
}

/// The job of all workers, with as many slots as each has chunks under way.
pub(super) fn node(window: u32) -> Node {
    Node {
        job: JOB,
        epoch: EPOCH,
        key: KEY,
        base: 0,
        slots: window,
        children: WORKERS as u8,
        workers: WORKERS,
        world: WORKERS,
        group: JOB,
        parent: None,
        shift: None,
        bounded_loss: true,
        owners: true,
    }
}

/// The thread that is measured.
pub(super) struct Hub {
    what: What,
    control: Control,
    thread: JoinHandle<()>,
}

enum Control {
    Switch(Handle),
    Forwarder { requests: SyncSender<SyncSender<Snapshot>>, stop: Arc<AtomicBool>, waker: Waker },
}

impl Hub {
    pub(super) fn start(
        what: What,
        io: Box<dyn PacketIo>,
        config: &IoConfig,
        core: Option<usize>,
    ) -> Result<Self, IoBenchError> {
        match what {
            What::Switch => Self::switch(io, config, core),
            What::Forwarder => Ok(Self::forwarder(io, core)),
        }
    }

    fn switch(io: Box<dyn PacketIo>, config: &IoConfig, core: Option<usize>) -> Result<Self, IoBenchError> {
        let pipeline = (config.pipeline)(PAYLOAD_BYTES)
            .ok_or_else(|| IoBenchError::Absent(format!("no pipeline for {PAYLOAD_BYTES} bytes")))?;
        let switch = Switch::new(pipeline, io);
        let handle = switch.handle();
        let thread = named(What::Switch.name(), move || {
            pin(core);
            // What ends it early shows in the next snapshot.
            let _ = switch.run();
        });
        let (ended, workers) = (IoBenchError::Ended("switch"), WORKERS);
        let node = node(config.window);
        let admitted = handle.call(move |core| {
            for rank in 0..workers as u8 {
                core.insert(&job_entries(
                    &node,
                    &Child { port: u16::from(rank) + 1, source: 0, rank, behind: None },
                ))?;
            }
            let replicas: Vec<_> = (1..=workers).map(|port| Replica { port, instance: port }).collect();
            core.set_group(node.group, &replicas)
        });
        admitted.map_err(|_| ended)??;
        Ok(Self { what: What::Switch, control: Control::Switch(handle), thread })
    }

    fn forwarder(io: Box<dyn PacketIo>, core: Option<usize>) -> Self {
        let (requests, asked) = mpsc::sync_channel(1);
        let (stop, waker) = (Arc::new(AtomicBool::new(false)), io.waker());
        let stopped = Arc::clone(&stop);
        let thread = named(What::Forwarder.name(), move || {
            pin(core);
            let _ = forward(io, &stopped, &asked);
        });
        Self { what: What::Forwarder, control: Control::Forwarder { requests, stop, waker }, thread }
    }

    pub(super) fn snapshot(&self) -> Result<Snapshot, IoBenchError> {
        let ended = || IoBenchError::Ended(self.what.name());
        match &self.control {
            Control::Switch(handle) => handle
                .call(|core| Snapshot { cpu: thread_time(), io: core.counters().io })
                .map_err(|_| ended()),
            Control::Forwarder { requests, waker, .. } => {
                let (reply, response) = mpsc::sync_channel(1);
                requests.send(reply).map_err(|_| ended())?;
                waker.wake_by_ref();
                response.recv().map_err(|_| ended())
            }
        }
    }

    pub(super) fn stop(self) {
        match self.control {
            Control::Switch(handle) => handle.stop(),
            Control::Forwarder { stop, waker, .. } => {
                stop.store(true, Ordering::Release);
                waker.wake();
            }
        }
        // A panic there was printed, and the next turn meets it again.
        let _ = self.thread.join();
    }
}

/// The forwarder with the switch's habits: one look at its calls a burst, and a sleep when nothing arrives.
fn forward(
    io: Box<dyn PacketIo>,
    stop: &AtomicBool,
    asked: &Receiver<SyncSender<Snapshot>>,
) -> Result<(), IoError> {
    let mut forwarder = Forwarder::new(io);
    while !stop.load(Ordering::Acquire) {
        if let Ok(reply) = asked.try_recv() {
            // Who asked is waiting.
            let _ = reply.send(Snapshot { cpu: thread_time(), io: forwarder.io().counters() });
        }
        if forwarder.poll()? == 0 {
            forwarder.io_mut().wait(IDLE)?;
        }
    }
    Ok(())
}

/// What the calling thread has run so far.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The cores that the calling thread may use.
pub(super) fn cores() -> Cores {
    cores::allowed().unwrap_or_default()
}

/// Keeps the calling thread on a core.
pub(super) fn pin(core: Option<usize>) {
    // Without it the figures spread more, and are no less true.
    let _ = core.map(cores::pin);
}

/// Cycles a second, as the system states them; 0 where it does not.
pub(super) fn clock_hz() -> f64 {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("cpu MHz"));
    let mhz = line.and_then(|line| line.split(':').nth(1)).and_then(|mhz| mhz.trim().parse::<f64>().ok());
    mhz.unwrap_or(0.0) * 1e6
}
