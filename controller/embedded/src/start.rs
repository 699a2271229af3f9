//! How the switch comes up and goes down.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use netfold_controller::admission::Config;
use netfold_controller::{JobEvent, Limits, Plane, Server, ServerError, ServerHandle};
use netfold_io::{Choice, IoError, Opening, PacketIo};
use netfold_p4::entry::EntryError;
use netfold_p4::profile::{Numerics, Profile, SLOTS_DEFAULT};
use netfold_switch::queue::QueueConfigError;
use netfold_switch::switch::GROUPS_MAX;
use netfold_switch::{
    Core, Handle, PAYLOADS, Pipeline, PipelineInfo, QueueConfig, Switch, SwitchCounters, numeric_pipeline,
};
use netfold_wire::control::Congestion;
use netfold_wire::header;

use crate::driver::{LocalDriver, PORTS_MAX};

/// Payload of a packet unless told otherwise, in bytes: fits an MTU of 1500.
const PAYLOAD_DEFAULT: u32 = 1408;

/// How long a job waits for its workers, from the first.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

type Hook = Box<dyn FnMut(&JobEvent) + Send>;
type Open = Box<dyn FnOnce(&Opening) -> Result<Box<dyn PacketIo>, IoError> + Send>;
type Middleware = Box<dyn FnOnce(Box<dyn PacketIo>) -> io::Result<Box<dyn PacketIo>> + Send>;

/// Why a switch does not come up, or did not stay up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// There is no pipeline for packets of this size.
    #[error(
        "there is no pipeline for a payload of {0} bytes: choose one of {PAYLOADS:?}, or 1408 for other numerics than words"
    )]
    Payload(u32),
    /// The pipeline has not as many slots.
    #[error("{slots} slots do not fit: choose a power of two up to {max}")]
    Slots {
        /// Slots asked for.
        slots: u32,
        /// Slots of the pipeline.
        max: u32,
    },
    /// The program is not one that workers can use.
    #[error("the switch cannot run this program")]
    Program(#[source] EntryError),
    /// The data path cannot be opened, or failed.
    #[error("the switch's data path failed")]
    Data(#[source] IoError),
    /// The control port cannot be opened, or failed.
    #[error("the switch's control port failed")]
    Control(#[source] ServerError),
    /// The queues of the ports cannot be so.
    #[error("the switch cannot have such queues")]
    Queues(#[source] QueueConfigError),
    /// The data path's middleware cannot work.
    #[error("the middleware of the switch's data path failed")]
    Middleware(#[source] io::Error),
    /// The system refused a thread.
    #[error("cannot start the switch's thread; check the process's limits")]
    Thread(#[source] io::Error),
    /// The packet thread panicked: a bug.
    #[error("the switch's thread failed; its panic message is on standard error; please report it")]
    Panicked,
}

/// Says what switch is wanted. Made by [`EmbeddedSwitch::builder`].
pub struct Builder {
    listen: SocketAddr,
    payload: u32,
    numerics: Numerics,
    pipeline: Option<Box<dyn Pipeline>>,
    slots: u32,
    /// Whether there is a control port; if not, the ports' peers.
    bare: Option<Vec<(u16, SocketAddr)>>,
    join_timeout: Duration,
    congestion: Congestion,
    queues: Option<QueueConfig>,
    open: Open,
    middleware: Option<Middleware>,
    hook: Option<Hook>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("listen", &self.listen)
            .field("payload", &self.payload)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Address of the data path (UDP) and of the control port (TCP). Default `127.0.0.1:0`; with port 0 both take any free
    /// one, the same number where that is to be had.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Payload of a packet in bytes, one of [`PAYLOADS`]. Default 1408.
    #[must_use]
    pub fn payload(mut self, bytes: u32) -> Self {
        self.payload = bytes;
        self
    }

    /// How the pipeline folds lanes, which decides the modes that jobs can have. Others than words come with a payload of
    /// 1408 bytes. Default [`Numerics::Word`].
    #[must_use]
    pub fn numerics(mut self, numerics: Numerics) -> Self {
        self.numerics = numerics;
        self
    }

    /// Runs this pipeline, of datagrams, instead of the one that was generated for the payload.
    #[must_use]
    pub fn pipeline(mut self, pipeline: Box<dyn Pipeline>) -> Self {
        self.pipeline = Some(pipeline);
        self
    }

    /// Slots to share out among jobs, a power of two. Default 1024.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Leaves the control port out: the switch admits nobody, its tables are empty, and whoever holds
    /// [`EmbeddedSwitch::handle`] writes them. Packets from each of the peers come in on its port.
    #[must_use]
    pub fn bare(mut self, ports: Vec<(u16, SocketAddr)>) -> Self {
        self.bare = Some(ports);
        self
    }

    /// How long a job waits for its workers, from the first. Default 30 s.
    #[must_use]
    pub fn join_timeout(mut self, timeout: Duration) -> Self {
        self.join_timeout = timeout;
        self
    }

    /// By what workers decide how much to have in flight. Default [`Congestion::Fixed`]: as much as they have slots.
    #[must_use]
    pub fn congestion(mut self, congestion: Congestion) -> Self {
        self.congestion = congestion;
        self
    }

    /// Puts queues in front of the ports: priorities, shares, marks, trimming, rates. Without them what the switch sends leaves at
    /// once, as far as the data path takes it.
    #[must_use]
    pub fn queues(mut self, config: QueueConfig) -> Self {
        self.queues = Some(config);
        self
    }

    /// What carries packets: UDP sockets unless told otherwise. Others may have an address of their own, which workers are told; the control
    /// port stays at [`listen`](Self::listen)'s.
    #[must_use]
    pub fn io(self, choice: Choice) -> Self {
        self.io_by(move |opening| netfold_io::open(&choice, opening))
    }

    /// As [`io`](Self::io), for packet I/O that the library does not know: `open` is told where to listen, and how long packets are.
    #[must_use]
    pub fn io_by(
        mut self,
        open: impl FnOnce(&Opening) -> Result<Box<dyn PacketIo>, IoError> + Send + 'static,
    ) -> Self {
        self.open = Box::new(open);
        self
    }

    /// Wraps the data path, for example in fault injection or a capture, before anything is sent.
    #[must_use]
    pub fn middleware(
        mut self,
        wrap: impl FnOnce(Box<dyn PacketIo>) -> io::Result<Box<dyn PacketIo>> + Send + 'static,
    ) -> Self {
        self.middleware = Some(Box::new(wrap));
        self
    }

    /// Has `hook` called for every event of jobs, on the control port's thread: it must not block.
    #[must_use]
    pub fn on_event(mut self, hook: impl FnMut(&JobEvent) + Send + 'static) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Opens both ports and starts the threads.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError`], with nothing left running.
    pub fn start(mut self) -> Result<EmbeddedSwitch, EmbeddedError> {
        let pipeline = match self.pipeline.take() {
            Some(pipeline) => pipeline,
            None => {
                numeric_pipeline(self.payload, self.numerics).ok_or(EmbeddedError::Payload(self.payload))?
            }
        };
        let info = pipeline.info().clone();
        if self.bare.is_none() && !self.slots.is_power_of_two()
            || self.bare.is_none() && self.slots > info.entries / 2
        {
            return Err(EmbeddedError::Slots { slots: self.slots, max: info.entries / 2 });
        }
        let opening = Opening {
            datagram_len_max: header::LEN + info.lane_words as usize * 4,
            ..Opening::at(self.listen)
        };
        let open = std::mem::replace(&mut self.open, over_udp());
        let mut io = open(&opening).map_err(EmbeddedError::Data)?;
        // Results may be marked in place of being dropped; jobs without congestion control take no notice.
        let _ = io.set_ecn_capable(true);
        let data = io.local_addr().unwrap_or(self.listen);
        let io = match self.middleware.take() {
            Some(wrap) => wrap(io).map_err(EmbeddedError::Middleware)?,
            None => io,
        };
        let switch = match &self.bare {
            Some(_) => Switch::bare(pipeline, io),
            None => Switch::try_new(pipeline, io).map_err(EmbeddedError::Program)?,
        };
        let switch = match &self.queues {
            Some(config) => switch.with_queues(config).map_err(EmbeddedError::Queues)?,
            None => switch,
        };
        let handle = switch.handle();
        let server = match &self.bare {
            Some(_) => None,
            None => Some(self.control(data, &handle, &info)?),
        };
        let server = server.map(|server| match self.hook.take() {
            Some(hook) => server.on_event(hook),
            None => server,
        });
        let thread = std::thread::Builder::new()
            .name("netfold-switch".into())
            .spawn(move || switch.run())
            .map_err(EmbeddedError::Thread)?;
        let controlled = self.bare.is_none();
        let mut embedded =
            EmbeddedSwitch { handle, thread: Some(thread), server: None, controlled, data, info };
        // Dropped, and the packet thread with it, if a port cannot be bound or the control port does not start.
        let ports = self.bare.take().unwrap_or_default();
        let bind =
            move |core: &mut Core| ports.into_iter().try_for_each(|(port, peer)| core.bind_port(port, peer));
        embedded.handle.call(bind).map_err(|_| EmbeddedError::Panicked)?.map_err(EmbeddedError::Data)?;
        if let Some(server) = server {
            embedded.server = Some(server.spawn().map_err(EmbeddedError::Control)?);
        }
        Ok(embedded)
    }

    /// Binds the control port: the data path's number, or any where any was asked for and that one is taken.
    fn control(
        &self,
        data: SocketAddr,
        handle: &Handle,
        info: &PipelineInfo,
    ) -> Result<Server, EmbeddedError> {
        let limits = Limits {
            slots: self.slots,
            lane_words: info.lane_words,
            ports_max: PORTS_MAX,
            groups_max: GROUPS_MAX as u16,
            udp_port: data.port(),
            sees_source: false,
            bounded_loss: info.bounded_loss,
        };
        // Packets may go to an address of their own, at which the kernel has no ports.
        let apart = data.ip() != self.listen.ip();
        let control = if apart { SocketAddr::new(self.listen.ip(), data.port()) } else { data };
        let bind = |address| {
            let mut config = Config::new(epoch_floor());
            config.join_timeout = self.join_timeout;
            config.congestion = self.congestion;
            config.jobs_max = Profile::software(info.lane_words).jobs as usize;
            let mut plane = Plane::own(Box::new(LocalDriver::new(handle.clone(), limits, info.numerics)));
            for switch in plane.switches.iter_mut().filter(|_| apart) {
                switch.data = Some(data);
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
}

fn over_udp() -> Open {
    Box::new(|opening| netfold_io::open(&Choice::Udp, opening))
}

/// A switch that runs. Dropping it ends its jobs and stops it.
pub struct EmbeddedSwitch {
    handle: Handle,
    thread: Option<JoinHandle<Result<SwitchCounters, IoError>>>,
    server: Option<ServerHandle>,
    /// Whether there is a control port.
    controlled: bool,
    data: SocketAddr,
    info: PipelineInfo,
}

impl std::fmt::Debug for EmbeddedSwitch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedSwitch")
            .field("control", &self.control())
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}

impl EmbeddedSwitch {
    /// Starts to describe a switch.
    pub fn builder() -> Builder {
        Builder {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            payload: PAYLOAD_DEFAULT,
            numerics: Numerics::Word,
            pipeline: None,
            slots: SLOTS_DEFAULT,
            bare: None,
            join_timeout: JOIN_TIMEOUT,
            congestion: Congestion::Fixed,
            queues: None,
            open: over_udp(),
            middleware: None,
            hook: None,
        }
    }

    /// Control of the packets' thread. With a control port, that alone may change the switch; see [`Builder::bare`].
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Address of the control port (TCP), at which workers join; that of the data path where there is none.
    pub fn control(&self) -> SocketAddr {
        self.server.as_ref().map_or(self.data, ServerHandle::local_addr)
    }

    /// Address of the data path (UDP).
    pub fn data(&self) -> SocketAddr {
        self.data
    }

    /// What the pipeline holds.
    pub fn info(&self) -> &PipelineInfo {
        &self.info
    }

    /// What was counted up to now; `None` when the switch is gone.
    pub fn counters(&self) -> Option<SwitchCounters> {
        self.handle.call(|core| core.counters()).ok()
    }

    /// Whether the packet thread or the control port has ended, which unasked means that it failed.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
            || self.controlled && self.server.as_ref().is_none_or(ServerHandle::is_finished)
    }

    /// Ends all jobs, then the switch, and returns what it has counted.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError`] when a part of it had failed before.
    pub fn stop(mut self) -> Result<SwitchCounters, EmbeddedError> {
        let served = self.server.take().map_or(Ok(()), ServerHandle::shutdown);
        let counters = self.join()?;
        served.map_err(EmbeddedError::Control)?;
        Ok(counters)
    }

    fn join(&mut self) -> Result<SwitchCounters, EmbeddedError> {
        self.handle.stop();
        let Some(thread) = self.thread.take() else { return Err(EmbeddedError::Panicked) };
        thread.join().map_err(|_| EmbeddedError::Panicked)?.map_err(EmbeddedError::Data)
    }
}

impl Drop for EmbeddedSwitch {
    fn drop(&mut self) {
        if self.thread.is_some() {
            drop(self.server.take());
            // Whoever wants to know calls `stop`.
            let _ = self.join();
        }
    }
}

/// Epochs begin at the Unix time, so that they are above those of an earlier switch at this address.
fn epoch_floor() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs().try_into().unwrap_or(u32::MAX)
}
