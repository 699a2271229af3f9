//! Configuring, starting and stopping a switch.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use netfold_control::{CongestionAlgorithm, Multipath};
use netfold_controller::admission::Config;
use netfold_controller::equal_paths::EqualPaths;
use netfold_controller::{JobEvent, Limits, Plane, Server, ServerError, ServerHandle, SwitchDriver};
use netfold_io::{Cores, IoError, IoSpec, OpenOptions, PacketIo, ThreadOpener};
use netfold_listener::ListenerCounters;
use netfold_p4::profile::{JOBS_SOFTWARE, Numerics, Profile};
use netfold_switch::switch::GROUPS_MAX;
use netfold_switch::{Core, Handle, Pipeline, PipelineInfo, QueueConfig, SwitchCounters, numeric_pipeline};
use netfold_wire::{Dscp, TAG_LEN, header};

use crate::driver::{LocalDriver, PORTS_MAX};
use crate::error::EmbeddedError;
use crate::queue::{Middleware, Open, Program, Queue, QueueFactory};

/// Most queues of a switch.
pub const QUEUES_MAX: usize = 64;

/// Default payload of a packet in bytes; fits an MTU of 1500.
const PAYLOAD_DEFAULT: u32 = 1408;

/// How long a job waits for its workers after the first has joined.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

type EventCallback = Box<dyn FnMut(&JobEvent) + Send>;

/// Configuration of a switch. Created by [`EmbeddedSwitch::builder`].
pub struct Builder {
    listen: SocketAddr,
    payloads: Vec<u32>,
    numerics: Numerics,
    program: Option<Program>,
    slots: Option<u32>,
    queues: usize,
    cores: Cores,
    busy_poll: Duration,
    /// Whether there is a control port.
    controlled: bool,
    /// The ports' peers, without a control port.
    ports: Vec<(u16, SocketAddr)>,
    join_timeout: Duration,
    congestion: CongestionAlgorithm,
    multipath: Option<Multipath>,
    equal_paths: Option<EqualPaths>,
    dscp: Dscp,
    egress: Option<QueueConfig>,
    open: Open,
    middleware: Option<Middleware>,
    event_callback: Option<EventCallback>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("listen", &self.listen)
            .field("payloads", &self.payloads)
            .field("slots", &self.slots)
            .field("queues", &self.queues)
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Address of the data path (UDP) and of the control port (TCP). Default `127.0.0.1:0`; with port 0 both take any free
    /// one, the same number where that is to be had. Further [threads](Self::threads) have the UDP ports that follow, or any.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Payload of a packet in bytes, one of [`netfold_switch::PAYLOADS`]. Default 1408.
    #[must_use]
    pub fn payload(self, bytes: u32) -> Self {
        self.payloads(vec![bytes])
    }

    /// Several payloads, each with as many [threads](Self::threads). A job gets the longest that the paths of all its workers carry, as far as their
    /// hosts know, with so many slots that they hold about as many bytes as those that it asks for would in the shortest; a job of several trees gets
    /// the shortest.
    #[must_use]
    pub fn payloads(mut self, bytes: Vec<u32>) -> Self {
        self.payloads = bytes;
        self
    }

    /// How the pipeline adds lanes, which determines the modes that jobs can use. Numerics other than words need a payload of
    /// 1408 bytes. Default [`Numerics::Word`].
    #[must_use]
    pub fn numerics(mut self, numerics: Numerics) -> Self {
        self.numerics = numerics;
        self
    }

    /// Runs the datagram pipelines that `make` creates, instead of those generated for the payload. It is called on each queue's thread,
    /// one after the other.
    #[must_use]
    pub fn pipeline_by(
        mut self,
        mut make: impl FnMut() -> Result<Box<dyn Pipeline>, Box<dyn Error + Send + Sync>> + Send + 'static,
    ) -> Self {
        self.program = Some(Box::new(move |_| make().map_err(EmbeddedError::Pipeline)));
        self
    }

    /// Slots of each queue that jobs can use, a power of two. Default: all that the pipeline has, 8,192 if it is a generated one.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Queues, 1 to [`QUEUES_MAX`]: packet threads that share nothing, each with a pipeline, slots and a UDP port. Default 1. A tree of a
    /// job is at one queue, and the trees of a job are at different ones, so that a job with as many trees uses them all.
    #[must_use]
    pub fn threads(mut self, queues: usize) -> Self {
        self.queues = queues;
        self
    }

    /// Cores to pin the queues' threads to, one for each in turn; at most as many as there are queues. Default: not pinned. The memory
    /// of a pinned queue is on its core's NUMA node.
    #[must_use]
    pub fn cores(mut self, cores: Cores) -> Self {
        self.cores = cores;
        self
    }

    /// How long each thread polls for packets after the last one before it sleeps. Default zero. A thread that polls takes a core, and yields it to
    /// threads that wait for one.
    #[must_use]
    pub fn busy_poll(mut self, time: Duration) -> Self {
        self.busy_poll = time;
        self
    }

    /// Omits the control port: the switch admits no workers, its tables are empty, and the owner of [`EmbeddedSwitch::handle`] writes
    /// them. Packets from each peer arrive at its port. Such a switch has one queue.
    #[must_use]
    pub fn bare(mut self, ports: Vec<(u16, SocketAddr)>) -> Self {
        (self.controlled, self.ports) = (false, ports);
        self
    }

    /// How long a job waits for its workers after the first has joined. Default 30 s.
    #[must_use]
    pub fn join_timeout(mut self, timeout: Duration) -> Self {
        self.join_timeout = timeout;
        self
    }

    /// DSCP, by class, of results and of sums sent to a parent. Needs packet I/O with IP headers. Default [`Dscp::NONE`].
    #[must_use]
    pub fn dscp(mut self, dscp: Dscp) -> Self {
        self.dscp = dscp;
        self
    }

    /// The workers' congestion-control algorithm. Default [`CongestionAlgorithm::Dctcp`]: a window of all slots, less while packets
    /// are marked or lost.
    #[must_use]
    pub fn congestion(mut self, congestion: CongestionAlgorithm) -> Self {
        self.congestion = congestion;
        self
    }

    /// From how many UDP ports each worker sends, and how it chooses among them: for fabrics that spread flows over several paths by a hash of
    /// ports. Needs a data path of sockets; others have one port. Default `None`: one.
    #[must_use]
    pub fn multipath(mut self, multipath: Option<Multipath>) -> Self {
        self.multipath = multipath;
        self
    }

    /// The equal paths between workers and this switch, where their hash is known: workers with several UDP ports then use those that spread
    /// exactly. For switches that listen at one IPv4 address, that at which workers reach them.
    #[must_use]
    pub fn equal_paths(mut self, equal_paths: Option<EqualPaths>) -> Self {
        self.equal_paths = equal_paths;
        self
    }

    /// Adds egress queues to the ports: priorities, weights, marks, trimming, rates. Without them packets are sent at once, as far as the
    /// data path accepts them.
    #[must_use]
    pub fn queues(mut self, config: QueueConfig) -> Self {
        self.egress = Some(config);
        self
    }

    /// Packet I/O, by default UDP sockets. Others may have an address of their own, which workers receive on admission; the control
    /// port stays at [`listen`](Self::listen)'s. Several [threads](Self::threads) share an interface.
    #[must_use]
    pub fn io(self, spec: IoSpec) -> Self {
        self.io_from(ThreadOpener::new(vec![spec], netfold_io::open_threads))
    }

    /// As [`io`](Self::io), by an opener, which may have a spec for each queue.
    #[must_use]
    pub fn io_from(mut self, mut opener: ThreadOpener) -> Self {
        self.open = Box::new(move |index, openings, cores| opener.open(index, openings, cores));
        self
    }

    /// As [`io`](Self::io), for the caller's own packet I/O: `open` receives the address and the length of packets. It is called on each
    /// queue's thread, in the order of queues.
    #[must_use]
    pub fn io_by(
        mut self,
        mut open: impl FnMut(&OpenOptions) -> Result<Box<dyn PacketIo>, IoError> + Send + 'static,
    ) -> Self {
        let absent = IoError::Unsupported;
        self.open = Box::new(move |index, openings, _| {
            open(openings.get(index).ok_or(absent("a queue without options"))?)
        });
        self
    }

    /// Wraps each queue's data path, in order, before anything is sent, for example in fault injection or a capture.
    #[must_use]
    pub fn middleware(
        mut self,
        wrap: impl FnMut(Box<dyn PacketIo>) -> io::Result<Box<dyn PacketIo>> + Send + 'static,
    ) -> Self {
        self.middleware = Some(Box::new(wrap));
        self
    }

    /// Calls `event_callback` for every event of jobs, on the control port's thread: it must not block.
    #[must_use]
    pub fn on_event(mut self, event_callback: impl FnMut(&JobEvent) + Send + 'static) -> Self {
        self.event_callback = Some(Box::new(event_callback));
        self
    }

    /// Opens all ports and starts the threads.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError`], with nothing left running.
    pub fn start(mut self) -> Result<EmbeddedSwitch, EmbeddedError> {
        if self.program.is_some() {
            // Of the length that the program has.
            self.payloads.truncate(1);
        }
        self.check()?;
        let factory = Arc::new(Mutex::new(self.factory()));
        let mut queues = Vec::with_capacity(self.queue_count());
        for index in 0..self.queue_count() {
            queues.push(Queue::start(&factory, index, self.cores.of(index))?);
        }
        drop(factory);
        for (port, peer) in std::mem::take(&mut self.ports) {
            let bind = move |core: &mut Core| core.bind_port(port, peer);
            queues[0].handle.call(bind).map_err(|_| EmbeddedError::Panicked)?.map_err(EmbeddedError::Data)?;
        }
        let server = if self.controlled { Some(self.control(&queues)?) } else { None };
        let server = server.map(|server| match self.event_callback.take() {
            Some(event_callback) => server.on_event(event_callback),
            None => server,
        });
        let server = server.map(Server::spawn).transpose().map_err(EmbeddedError::Control)?;
        Ok(EmbeddedSwitch { queues, server, controlled: self.controlled })
    }

    fn check(&self) -> Result<(), EmbeddedError> {
        let (queues, cores, first) = (self.queue_count(), self.cores.len(), self.listen.port());
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(EmbeddedError::Threads { queues });
        }
        if !self.controlled && queues > 1 {
            return Err(EmbeddedError::Bare { queues });
        }
        if cores > queues {
            return Err(EmbeddedError::Cores { cores, queues });
        }
        if usize::from(first) + queues - 1 > usize::from(u16::MAX) {
            return Err(EmbeddedError::Ports { first, queues });
        }
        Ok(())
    }

    /// Threads of all payloads.
    fn queue_count(&self) -> usize {
        self.queues.saturating_mul(self.payloads.len())
    }

    fn factory(&mut self) -> QueueFactory {
        let (numerics, per_payload) = (self.numerics, self.queues);
        let payloads = self.payloads.clone();
        let generated: Program = Box::new(move |index| {
            let payload = payloads[index / per_payload];
            numeric_pipeline(payload, numerics).ok_or(EmbeddedError::Payload(payload))
        });
        QueueFactory {
            payloads: self.payloads.iter().flat_map(|payload| vec![*payload; self.queues]).collect(),
            program: self.program.take().unwrap_or(generated),
            open: std::mem::replace(&mut self.open, over_udp()),
            middleware: self.middleware.take(),
            egress: self.egress.take(),
            busy_poll: self.busy_poll,
            controlled: self.controlled,
            slots: self.slots,
            dscp: self.dscp,
            listen: (0..self.queue_count())
                .map(|index| SocketAddr::new(self.listen.ip(), port_of(self.listen.port(), index)))
                .collect(),
            cores: self.cores.clone(),
        }
    }

    /// Binds the control port to the data path's port number; if port 0 was requested and the number is in use, to any free one.
    fn control(&self, queues: &[Queue]) -> Result<Server, EmbeddedError> {
        let data = queues.first().map_or(self.listen, |queue| queue.data);
        // The data path may have an address of its own, at which the kernel has no ports.
        let separate = data.ip() != self.listen.ip();
        if self.equal_paths.is_some() && data.ip().is_unspecified() {
            return Err(EmbeddedError::EqualPaths { address: data.ip() });
        }
        let control = if separate { SocketAddr::new(self.listen.ip(), data.port()) } else { data };
        let bind = |address| {
            let mut config = Config::new(epoch_floor());
            config.join_timeout = self.join_timeout;
            config.congestion = self.congestion;
            config.multipath = self.multipath;
            config.equal_paths = self.equal_paths;
            config.own_address = Some(data.ip()).filter(|ip| !ip.is_unspecified());
            // Each queue has tables of its own.
            config.jobs_max = JOBS_SOFTWARE as usize * queues.len();
            let mut plane = Plane::queues(queues.iter().map(|queue| self.driver(queue)).collect());
            for (switch, queue) in plane.switches.iter_mut().zip(queues).filter(|_| separate) {
                switch.data = Some(queue.data);
            }
            Server::over(address, config, plane)
        };
        let server = match bind(control) {
            Err(ServerError::Bind { .. }) if self.listen.port() == 0 => {
                bind(SocketAddr::new(control.ip(), 0))
            }
            other => other,
        };
        server.map_err(EmbeddedError::Control)
    }

    fn driver(&self, queue: &Queue) -> Box<dyn SwitchDriver> {
        // A switch that has stopped has no jobs.
        let longest = queue.handle.call(|core| core.datagram_len_max()).unwrap_or(0);
        let multipath = queue.handle.call(|core| core.udp_ports_max()).unwrap_or(1) > 1;
        let limits = Limits {
            slots: self.slots.unwrap_or(queue.info.entries / 2),
            lane_words: queue.info.lane_words,
            ports_max: PORTS_MAX,
            groups_max: GROUPS_MAX as u16,
            entries: Profile::software(queue.info.lane_words).entries(),
            udp_port: queue.data.port(),
            sees_source: false,
            bounded_loss: queue.info.bounded_loss,
            owners: queue.info.owners,
            lane_ops: queue.info.lane_ops,
            multipath,
            authenticates: longest >= header::LEN + queue.info.lane_words as usize * 4 + TAG_LEN,
        };
        Box::new(LocalDriver::new(queue.handle.clone(), limits, queue.info.numerics))
    }
}

/// The UDP port of a queue: 0 if port 0 was requested.
fn port_of(first: u16, index: usize) -> u16 {
    if first == 0 { 0 } else { first.saturating_add(u16::try_from(index).unwrap_or(u16::MAX)) }
}

fn over_udp() -> Open {
    let mut opener = ThreadOpener::new(Vec::new(), netfold_io::open_threads);
    Box::new(move |index, openings, cores| opener.open(index, openings, cores))
}

/// A running switch. Dropping it ends its jobs and stops it.
pub struct EmbeddedSwitch {
    /// Dropped before the queues.
    server: Option<ServerHandle>,
    /// At least one.
    queues: Vec<Queue>,
    /// Whether there is a control port.
    controlled: bool,
}

/// A packet thread of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueAddress {
    /// Its address (UDP).
    pub data: SocketAddr,
    /// Payload of its packets in bytes.
    pub payload: u32,
    /// The core to which it is pinned.
    pub core: Option<usize>,
}

impl std::fmt::Debug for EmbeddedSwitch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedSwitch")
            .field("control", &self.control())
            .field("data", &self.data())
            .field("queues", &self.queues.len())
            .finish_non_exhaustive()
    }
}

impl EmbeddedSwitch {
    /// The configuration of a switch, with all defaults.
    pub fn builder() -> Builder {
        Builder {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            payloads: vec![PAYLOAD_DEFAULT],
            numerics: Numerics::Word,
            program: None,
            slots: None,
            queues: 1,
            cores: Cores::default(),
            busy_poll: Duration::ZERO,
            controlled: true,
            ports: Vec::new(),
            join_timeout: JOIN_TIMEOUT,
            congestion: CongestionAlgorithm::Dctcp,
            multipath: None,
            equal_paths: None,
            dscp: Dscp::NONE,
            egress: None,
            open: over_udp(),
            middleware: None,
            event_callback: None,
        }
    }

    /// A handle of the first queue's thread. With a control port, only that may change the switch; see [`Builder::bare`].
    pub fn handle(&self) -> Handle {
        self.first().handle.clone()
    }

    /// Memory of slots and their bookkeeping in bytes, of all threads.
    pub fn state_bytes(&self) -> u64 {
        let of = |queue: &Queue| (queue.info.lane_bytes + queue.info.bookkeeping_bytes) as u64;
        self.queues.iter().map(of).sum()
    }

    /// Address of the control port (TCP), at which workers join; that of the data path if there is none.
    pub fn control(&self) -> SocketAddr {
        self.server.as_ref().map_or(self.data(), ServerHandle::local_addr)
    }

    /// Counters of the control port's connections that are no sessions yet; `None` if there is no control port.
    pub fn listener(&self) -> Option<Arc<ListenerCounters>> {
        self.server.as_ref().map(|server| server.control().listener())
    }

    /// Address of the data path (UDP); of the first queue if there are several.
    pub fn data(&self) -> SocketAddr {
        self.first().data
    }

    /// Address and core of each queue.
    pub fn queues(&self) -> impl Iterator<Item = QueueAddress> + '_ {
        self.queues.iter().map(|queue| QueueAddress {
            data: queue.data,
            payload: queue.info.lane_words * 4,
            core: queue.core,
        })
    }

    /// Properties of each queue's pipeline.
    pub fn info(&self) -> &PipelineInfo {
        &self.first().info
    }

    /// The counters of all queues together; `None` if one has ended.
    pub fn counters(&self) -> Option<SwitchCounters> {
        self.queue_counters().map(|queues| queues.into_iter().sum())
    }

    /// The same, queue by queue.
    pub fn queue_counters(&self) -> Option<Vec<SwitchCounters>> {
        self.queues.iter().map(|queue| queue.handle.call(|core| core.counters()).ok()).collect()
    }

    /// Whether a packet thread or the control port has ended; without a call of [`stop`](Self::stop) this means that it failed.
    pub fn is_finished(&self) -> bool {
        self.queues.iter().any(Queue::is_finished)
            || self.controlled && self.server.as_ref().is_none_or(ServerHandle::is_finished)
    }

    /// Ends all jobs, stops the switch, and returns its counters.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError`] if a part of it had failed before: the first of several.
    pub fn stop(self) -> Result<SwitchCounters, EmbeddedError> {
        self.stop_queues().map(|queues| queues.into_iter().sum())
    }

    /// The same, queue by queue.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    pub fn stop_queues(mut self) -> Result<Vec<SwitchCounters>, EmbeddedError> {
        let served = self.server.take().map_or(Ok(()), ServerHandle::shutdown);
        let ended: Vec<_> = self.queues.iter_mut().map(Queue::join).collect();
        let counted = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
        served.map_err(EmbeddedError::Control)?;
        Ok(counted)
    }

    fn first(&self) -> &Queue {
        &self.queues[0]
    }
}

/// The first epoch of a switch's jobs: the Unix time, so that epochs are greater than those of an earlier switch at this address.
pub fn epoch_floor() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs().try_into().unwrap_or(u32::MAX)
}
