//! A queue of the switch: a packet thread with its own pipeline, slots, tables, packet I/O and counters.
//!
//! Queues share nothing. A queue's thread allocates its memory after it is pinned: Linux then places the pages on the core's own
//! NUMA node (first-touch policy).

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use netfold_io::{Cores, IoError, OpenOptions, PacketIo, cores};
use netfold_switch::{Handle, Pipeline, PipelineInfo, QueueConfig, Switch, SwitchCounters};
use netfold_wire::{Dscp, TAG_LEN, header};

use crate::error::EmbeddedError;

pub(crate) type Program = Box<dyn FnMut(usize) -> Result<Box<dyn Pipeline>, EmbeddedError> + Send>;
pub(crate) type Open =
    Box<dyn FnMut(usize, &[OpenOptions], &Cores) -> Result<Box<dyn PacketIo>, IoError> + Send>;
pub(crate) type Middleware = Box<dyn FnMut(Box<dyn PacketIo>) -> io::Result<Box<dyn PacketIo>> + Send>;

/// Creates the queues, one after the other.
pub(crate) struct QueueFactory {
    /// Makes the pipeline of a queue.
    pub(crate) program: Program,
    /// Payload of each queue in bytes, for pipelines that are generated.
    pub(crate) payloads: Vec<u32>,
    pub(crate) open: Open,
    pub(crate) middleware: Option<Middleware>,
    /// Egress queues of each queue's ports, if configured.
    pub(crate) egress: Option<QueueConfig>,
    /// How long each thread polls for packets before it sleeps.
    pub(crate) busy_poll: Duration,
    /// Whether there is a control port.
    pub(crate) controlled: bool,
    /// Slots that the control port allocates; `None`: all.
    pub(crate) slots: Option<u32>,
    /// DSCP of packets by class.
    pub(crate) dscp: Dscp,
    /// Address at which each queue listens.
    pub(crate) listen: Vec<SocketAddr>,
    /// The cores to which they are pinned, in turn.
    pub(crate) cores: Cores,
}

/// A running queue.
pub(crate) struct Queue {
    pub(crate) handle: Handle,
    /// The data path's own address if it has one, otherwise the requested address.
    pub(crate) data: SocketAddr,
    pub(crate) info: PipelineInfo,
    pub(crate) core: Option<usize>,
    thread: Option<JoinHandle<Result<SwitchCounters, EmbeddedError>>>,
}

impl Queue {
    /// Starts queue `index`, and waits until it is ready.
    pub(crate) fn start(
        factory: &Arc<Mutex<QueueFactory>>,
        index: usize,
        core: Option<usize>,
    ) -> Result<Self, EmbeddedError> {
        let (ready, started) = mpsc::sync_channel(1);
        let factory = Arc::clone(factory);
        let run = move || {
            let made = core.map_or(Ok(()), cores::pin).map_err(EmbeddedError::Core);
            // The lock is not held while packets flow. After a panic in the factory the start fails in any case.
            let made = made.and_then(|()| factory.lock().unwrap_or_else(PoisonError::into_inner).make(index));
            drop(factory);
            let switch = match made {
                Ok((switch, data, info)) => {
                    // The starting thread waits for this.
                    let _ = ready.send(Ok((switch.handle(), data, info)));
                    switch
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return Ok(SwitchCounters::default());
                }
            };
            switch.run().map_err(EmbeddedError::Data)
        };
        let name = if index == 0 { "netfold-switch".into() } else { format!("netfold-sw-{index}") };
        let thread = std::thread::Builder::new().name(name).spawn(run).map_err(EmbeddedError::Thread)?;
        let (handle, data, info) = started.recv().map_err(|_| EmbeddedError::Panicked)??;
        Ok(Self { handle, data, info, core, thread: Some(thread) })
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the thread and returns its counters.
    pub(crate) fn join(&mut self) -> Result<SwitchCounters, EmbeddedError> {
        self.handle.stop();
        let Some(thread) = self.thread.take() else { return Err(EmbeddedError::Panicked) };
        thread.join().map_err(|_| EmbeddedError::Panicked)?
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // A caller that needs the result calls `join`.
            let _ = self.join();
        }
    }
}

impl QueueFactory {
    fn make(&mut self, index: usize) -> Result<(Switch, SocketAddr, PipelineInfo), EmbeddedError> {
        let pipeline = (self.program)(index)?;
        let info = pipeline.info().clone();
        if let Some(slots) = self.slots.filter(|_| self.controlled)
            && (!slots.is_power_of_two() || slots > info.entries / 2)
        {
            return Err(EmbeddedError::Slots { slots, max: info.entries / 2 });
        }
        // With room for the tags of authenticated jobs.
        let own = info.lane_words * 4;
        let mixed = self.payloads.iter().any(|payload| *payload != self.payloads[0]);
        let opening = |(queue, listen): (usize, &SocketAddr)| {
            let payload = if mixed { self.payloads[queue] } else { own };
            let datagram_len_max = header::LEN + payload as usize + TAG_LEN;
            OpenOptions { datagram_len_max, ..OpenOptions::at(*listen).for_switch() }
        };
        let openings: Vec<_> = self.listen.iter().enumerate().map(opening).collect();
        let mut io = (self.open)(index, &openings, &self.cores).map_err(EmbeddedError::Data)?;
        // Allows switches to mark results instead of dropping them; jobs without congestion control ignore marks.
        let _ = io.set_ecn_capable(true);
        if self.dscp != Dscp::NONE {
            io.set_dscp(&self.dscp).map_err(EmbeddedError::Data)?;
        }
        let data = io.local_addr().unwrap_or(self.listen[index]);
        let io = match &mut self.middleware {
            Some(wrap) => wrap(io).map_err(EmbeddedError::Middleware)?,
            None => io,
        };
        let switch = match self.controlled {
            false => Switch::bare(pipeline, io),
            true => Switch::try_new(pipeline, io).map_err(EmbeddedError::Program)?,
        };
        let switch = switch.with_busy_poll(self.busy_poll);
        let switch = match &self.egress {
            Some(config) => switch.with_queues(config).map_err(EmbeddedError::Queues)?,
            None => switch,
        };
        Ok((switch, data, info))
    }
}
