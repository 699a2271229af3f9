//! How a communicator comes about.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netfold_collectives::mesh::{Exchange, ExchangeError, TcpRendezvous};
use netfold_control::{Admission, Credentials, Join, Mode, TREES_MAX};
use netfold_io::{Choice, Cores, IoError, Opening, PacketIo, cores};
use netfold_proto::{ConfigError, Tolerance};
use netfold_wire::CLASSES_MAX;

use crate::assemble::{Settings, assemble};
use crate::coding::Coding;
use crate::communicator::{Communicator, Parts};
use crate::error::Error;
use crate::join::{Attachment, Joiner, Middleware, Opener, Tuning, wrap};
use crate::lower::OpContext;
use crate::path::{Network, Path, PathCell};
use crate::quantize::Rounding;
use crate::session::Security;
use crate::shutdown::ShutdownState;
use crate::split::InheritedConfig;
use crate::start::start_trees;

/// Longest job name in bytes, as the control port takes it.
const JOB_NAME_LEN_MAX: usize = 64;

/// How long a rank that lives may do nothing, where nothing is set.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a controller is asked for a first place that it refuses for what passes by itself.
const ADMISSION_RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Collects what a [`Communicator`] needs. Made by [`Communicator::builder`].
pub struct Builder {
    job: Option<String>,
    rank: Option<u16>,
    world_size: Option<u16>,
    mode: Mode,
    rounding: Rounding,
    tolerance: Tolerance,
    slots: u32,
    classes: u8,
    small: usize,
    switch: Vec<SocketAddr>,
    /// Whether that is a controller's.
    controlled: bool,
    /// The controller as it was named, and the authorities of its certificate.
    controller: Vec<(SocketAddr, String)>,
    controller_ca: Option<PathBuf>,
    credentials: Option<Credentials>,
    bind: Vec<IpAddr>,
    opener: Opener,
    trees: u8,
    cores: Cores,
    rejoin: Option<bool>,
    transport: Option<(Box<dyn PacketIo>, Admission)>,
    middleware: Option<Middleware>,
    join_timeout: Duration,
    stall_timeout: Option<Duration>,
    resend_after: Option<Duration>,
    exchange: Option<Box<dyn Exchange>>,
    rendezvous: Option<SocketAddr>,
    host: Option<String>,
    shared_memory: bool,
    fall_back: bool,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("job", &self.job)
            .field("rank", &self.rank)
            .field("world_size", &self.world_size)
            .field("mode", &self.mode)
            .field("switch", &self.switch)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Slots that are asked for unless [`Self::slots`] says how many.
    pub const SLOTS_DEFAULT: u32 = 256;

    pub(crate) fn new() -> Self {
        Self {
            job: None,
            rank: None,
            world_size: None,
            mode: Mode::Bfp32,
            rounding: Rounding::Nearest,
            tolerance: Tolerance::NONE,
            slots: Self::SLOTS_DEFAULT,
            classes: 1,
            small: 0,
            switch: Vec::new(),
            controlled: false,
            controller: Vec::new(),
            controller_ca: None,
            credentials: None,
            bind: Vec::new(),
            opener: Opener::of(Choice::Udp),
            trees: 1,
            cores: Cores::default(),
            rejoin: None,
            transport: None,
            middleware: None,
            join_timeout: Duration::from_secs(60),
            stall_timeout: None,
            resend_after: None,
            exchange: None,
            rendezvous: None,
            host: None,
            shared_memory: true,
            fall_back: true,
        }
    }

    /// With the settings of a communicator, for a part of its ranks.
    pub(crate) fn from_inherited(inherited: &InheritedConfig, job: String) -> Self {
        let InheritedConfig {
            mode,
            slots,
            classes,
            shared_memory,
            fall_back,
            join_timeout,
            stall_timeout,
            ..
        } = *inherited;
        let (switch, host) = (inherited.switch.clone(), inherited.host.clone());
        Self {
            credentials: inherited.credentials.clone(),
            bind: inherited.bind.clone(),
            opener: inherited.opener.clone(),
            controlled: inherited.controlled,
            controller: inherited.controller.clone(),
            controller_ca: inherited.controller_ca.clone(),
            trees: inherited.trees,
            cores: inherited.cores.clone(),
            rejoin: inherited.rejoin,
            job: Some(job),
            mode,
            rounding: inherited.rounding,
            tolerance: inherited.tolerance,
            slots,
            classes,
            small: inherited.small,
            switch,
            host,
            shared_memory,
            fall_back,
            join_timeout,
            stall_timeout,
            ..Self::new()
        }
    }

    /// What groups inherit.
    pub(crate) fn inherited(&self, ip: Option<IpAddr>) -> InheritedConfig {
        InheritedConfig {
            job: self.job.clone().unwrap_or_else(|| "netfold".into()),
            mode: self.mode,
            rounding: self.rounding,
            tolerance: self.tolerance,
            slots: self.slots,
            classes: self.classes,
            small: self.small,
            switch: self.switch.clone(),
            credentials: self.credentials.clone(),
            bind: self.bind.clone(),
            opener: self.opener.clone(),
            controlled: self.controlled,
            controller: self.controller.clone(),
            controller_ca: self.controller_ca.clone(),
            trees: self.trees,
            cores: self.cores.clone(),
            rejoin: self.rejoin,
            host: self.host.clone(),
            shared_memory: self.shared_memory,
            fall_back: self.fall_back,
            join_timeout: self.join_timeout,
            stall_timeout: self.stall_timeout,
            ip,
        }
    }

    /// Name of the job, 1 to 64 bytes, the same on all ranks. Not needed with [`Self::transport`].
    #[must_use]
    pub fn job(mut self, name: impl Into<String>) -> Self {
        self.job = Some(name.into());
        self
    }

    /// This worker's rank, below the world size; each rank once.
    #[must_use]
    pub fn rank(mut self, rank: u16) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Number of workers, the same on all ranks: 1 to 32 at one switch, up to 32,768 at a tree of switches, and up to
    /// 128 in mode bfp16.
    #[must_use]
    pub fn world_size(mut self, workers: u16) -> Self {
        self.world_size = Some(workers);
        self
    }

    /// How floating-point tensors travel, the same on all ranks. Default [`Mode::Bfp32`]. Integers travel as they are in
    /// every mode.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How floating-point numbers are rounded to what travels, in modes of block floating point: default
    /// [`Rounding::Nearest`]. Sums that hosts fold are not affected: they are not quantised. Every rank rounds for itself, so
    /// ranks may differ.
    #[must_use]
    pub fn rounding(mut self, rounding: Rounding) -> Self {
        self.rounding = rounding;
        self
    }

    /// How many of each rank's shares may be left out of sums of floats, all-reduce and reduce-scatter, that go through a switch; the
    /// same on all ranks. Default none: every share is in every sum.
    ///
    /// Where a queue on the way is long, packets may then be cut down to their headers rather than delay the rest, those of small
    /// blocks first. A result says how many shares are in it, so all ranks make the same of it: with
    /// [`Tolerance::rescale`] it is multiplied by their number over that of the shares that came. What was left out of this rank's own
    /// is in the residual of [`all_reduce_with_feedback`](crate::Communicator::all_reduce_with_feedback). [`OpReport`](crate::OpReport)
    /// counts both. A switch without bounded loss, and hosts among themselves, leave nothing out.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Slots of the switch to ask for, a power of two: the chunks in flight, of each [class](Self::classes). The switch may grant fewer.
    /// Default [`Self::SLOTS_DEFAULT`].
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// All-reduces of at most so many bytes are done by the hosts among themselves where they are linked (by a
    /// [rendezvous](Self::rendezvous) or an [exchange](Self::exchange)), though a switch could: a small tensor of floats takes two round
    /// trips through it, and a software switch wakes four threads; 4096 is a good bound there. The same on all ranks. Default 0:
    /// everything that the switch can do is left to it. Where one is set, ranks that give lengths on both sides of it wait in
    /// different places, and learn of it by the [stall time-out](Self::stall_timeout) alone.
    #[must_use]
    pub fn small(mut self, bytes: usize) -> Self {
        self.small = bytes;
        self
    }

    /// Classes of operations, a power of two, 1 to 16, the same on all ranks. Default 1. Through a switch every class is a stream of its
    /// own with its own slots, and of all that could be sent, chunks of the highest class go first: an operation of a higher class
    /// overtakes those of lower ones in the middle, whatever was submitted first (see [`Call::in_class`](crate::Call::in_class)). All
    /// ranks must submit the same operations in the same order all the same. Within one host, and in rings, operations go in order of
    /// submission.
    #[must_use]
    pub fn classes(mut self, classes: u8) -> Self {
        self.classes = classes;
        self
    }

    /// Address of the switch's control port, `HOST:PORT` or a [`SocketAddr`]. Names are resolved now.
    ///
    /// # Errors
    ///
    /// [`Error::Address`] when it cannot be resolved.
    pub fn switch(mut self, address: impl ToSocketAddrs + ToString) -> Result<Self, Error> {
        self.switch = resolve(&address)?;
        Ok(self)
    }

    /// Address of the workers' port of a controller, which lays jobs over its switches and says where packets go, instead of a
    /// [`switch`](Self::switch)'s own: `HOST:PORT` or a [`SocketAddr`]; of several controllers of which one is in charge all, separated by
    /// commas. Names are resolved now. Most controllers want to know the
    /// [tenant](Self::tenant). They may give jobs a grace time, for which the controller itself may be away: packets go on
    /// meanwhile, and sessions are resumed ([`ControlStats`](crate::ControlStats) counts).
    ///
    /// What passes by itself, a switch that is not up yet, the slots of the same job's last run or a controller that another takes
    /// over from, is asked for again, for 10
    /// seconds or the [join timeout](Self::join_timeout), whichever is shorter. What a controller refuses then is
    /// [`Error::Refused`] with a reason for programs; with a [`rendezvous`](Self::rendezvous) the
    /// hosts do without it, unless they must not [fall back](Self::fall_back).
    ///
    /// # Errors
    ///
    /// [`Error::Address`] when it cannot be resolved.
    pub fn controller(mut self, address: impl ToString) -> Result<Self, Error> {
        self.controller.clear();
        for one in address.to_string().split(',').map(str::trim) {
            let name = one.rsplit_once(':').map_or(one, |(host, _)| host).trim_matches(['[', ']']);
            self.controller.extend(resolve(&one)?.into_iter().map(|address| (address, name.to_owned())));
        }
        self.switch = self.controller.iter().map(|(address, _)| *address).collect();
        self.controlled = true;
        Ok(self)
    }

    /// Has the [controller](Self::controller) be talked to by TLS, and its certificate be signed by an authority in this file (PEM)
    /// and be for the host in the controller's address. Sets nothing for a [`switch`](Self::switch) of one's own, which has no TLS.
    /// The file is read for each connection.
    ///
    /// A port that does not speak TLS, or shows another certificate, is [`Error::Tls`]; nothing is said to it.
    #[must_use]
    pub fn controller_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.controller_ca = Some(file.into());
        self
    }

    /// The tenant whose job it is, and its token, as the controller's administrator gave them. A switch's own control port takes no
    /// notice of them.
    #[must_use]
    pub fn tenant(mut self, name: impl Into<String>, token: impl Into<String>) -> Self {
        self.credentials = Some(Credentials { tenant: name.into(), token: token.into() });
        self
    }

    /// Local address to send packets from, where it is not the one through which the control port is reached: on hosts with a network
    /// of their own for tensors. With several [trees](Self::trees), one for each tree in turn. The controller is told.
    #[must_use]
    pub fn bind(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.bind = addresses.into_iter().collect();
        self
    }

    /// What carries packets to switches: UDP sockets unless told otherwise. On others, an interface belongs to this rank for as long as it
    /// has a place (XDP: a queue of it), and with several [trees](Self::trees) each is opened in turn.
    #[must_use]
    pub fn io(mut self, choice: Choice) -> Self {
        self.opener = Opener::of(choice);
        self
    }

    /// As [`io`](Self::io), for packet I/O that the library does not know: `open` is called for every place at a switch, with the local
    /// address to open at, and no peer yet.
    #[must_use]
    pub fn io_by(
        mut self,
        open: impl Fn(&Opening) -> Result<Box<dyn PacketIo>, IoError> + Send + Sync + 'static,
    ) -> Self {
        self.opener = Opener::new(open);
        self
    }

    /// Trees of switches to lay the job over, 1 to 8, the same on all ranks. Default 1. Each has slots, an engine and a socket of its
    /// own; a large tensor goes over all of them, in contiguous parts, and a smaller one over one of them. The controller chooses the
    /// trees, over different switches where it can; a switch of several queues takes each tree to another one. When one is lost and there is a [`rendezvous`](Self::rendezvous), ranks finish its
    /// part among themselves and go on with the others. Results are the same; operations over different trees may overtake each
    /// other.
    #[must_use]
    pub fn trees(mut self, trees: u8) -> Self {
        self.trees = trees;
        self
    }

    /// Cores to keep engines' threads on, one for each [tree](Self::trees) in turn; ranks may differ. Default: wherever the system has
    /// them run. An engine's memory is first written, and so lies, where its core is; tensors lie where the caller wrote them.
    #[must_use]
    pub fn cores(mut self, cores: Cores) -> Self {
        self.cores = cores;
        self
    }

    /// Whether ranks that have lost their switch, and go on without, join again in the background, under the same job name, and go back to
    /// a switch when all of them have a place. Default yes with a [`controller`](Self::controller), no with a
    /// [`switch`](Self::switch) of one's own; needs a [`rendezvous`](Self::rendezvous), and no [`middleware`](Self::middleware). Attempts
    /// are at most 5 s apart, and end for good when asking again is of no use.
    #[must_use]
    pub fn rejoin(mut self, on: bool) -> Self {
        self.rejoin = Some(on);
        self
    }

    /// Uses this transport and admission instead of a switch's control port: for switches in the same process. There
    /// is no control session then, so the loss of a peer shows only as a stall.
    #[must_use]
    pub fn transport(mut self, io: Box<dyn PacketIo>, admission: Admission) -> Self {
        self.transport = Some((io, admission));
        self
    }

    /// Wraps the transport, for example in fault injection or a capture, before anything is sent.
    #[must_use]
    pub fn middleware(
        mut self,
        wrap: impl FnOnce(Box<dyn PacketIo>) -> Box<dyn PacketIo> + Send + 'static,
    ) -> Self {
        self.middleware = Some(Box::new(wrap));
        self
    }

    /// How long to wait for the other ranks to join. Default 60 s; the switch may give up earlier.
    #[must_use]
    pub fn join_timeout(mut self, timeout: Duration) -> Self {
        self.join_timeout = timeout;
        self
    }

    /// How long an operation may make no progress before the job is given up. Must exceed the longest time by which
    /// ranks may be apart (a rank that computes while the others wait for it). Default 60 s. Ranks and switches that
    /// die are noticed within 5 s whatever is set here.
    #[must_use]
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall_timeout = Some(timeout);
        self
    }

    /// Shortest time without an answer after which a packet is sent again, instead of 5 ms: for switches that take longer
    /// than that, such as software models of hardware. Losses that later answers show are found without it.
    #[must_use]
    pub fn resend_after(mut self, timeout: Duration) -> Self {
        self.resend_after = Some(timeout);
        self
    }

    /// How the ranks find each other: rank 0 listens at this address, the others connect. With it (or an
    /// [`exchange`](Self::exchange)) ranks of one host fold in shared memory, a switch is optional, everything a switch cannot
    /// do is done by the hosts, and the loss of a switch is survived. Names are resolved now.
    ///
    /// # Errors
    ///
    /// [`Error::Address`] when it cannot be resolved.
    pub fn rendezvous(mut self, address: impl ToSocketAddrs + ToString) -> Result<Self, Error> {
        let unresolved = |source| Error::Address { address: address.to_string(), source: Arc::new(source) };
        let mut addresses = address.to_socket_addrs().map_err(unresolved)?;
        let first = addresses.next();
        self.rendezvous =
            Some(first.ok_or_else(|| unresolved(std::io::Error::from(std::io::ErrorKind::NotFound)))?);
        Ok(self)
    }

    /// How the ranks find each other, over something that they have in common already: a store, MPI, files. As
    /// [`rendezvous`](Self::rendezvous) otherwise. Rank and world size need not be set then.
    #[must_use]
    pub fn exchange(mut self, exchange: Box<dyn Exchange>) -> Self {
        self.exchange = Some(exchange);
        self
    }

    /// Names this rank's host, where the system's identity does not say who shares memory: ranks that give the same name
    /// are taken to be on one host. The variable `NETFOLD_HOST_ID` does the same.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.host = Some(name.into());
        self
    }

    /// Whether ranks that share a host fold in shared memory first, so that a host sends one stream. Default yes; needs a
    /// [`rendezvous`](Self::rendezvous).
    #[must_use]
    pub fn shared_memory(mut self, on: bool) -> Self {
        self.shared_memory = on;
        self
    }

    /// Whether the hosts do by themselves what a switch refuses or cannot go on with. Default yes; needs a
    /// [`rendezvous`](Self::rendezvous). Without, it is an error.
    #[must_use]
    pub fn fall_back(mut self, on: bool) -> Self {
        self.fall_back = on;
        self
    }

    /// Joins the job, waits for all ranks and starts the engine.
    ///
    /// # Errors
    ///
    /// Arguments: [`Error::Missing`], [`Error::JobName`], [`Error::Config`], [`Error::Precision`], [`Error::Rounding`], [`Error::Core`]. The way to the switch:
    /// [`Error::Connect`], [`Error::Tls`], [`Error::Refused`], [`Error::JoinTimeout`], [`Error::SwitchLost`], [`Error::PeerLost`], [`Error::Control`].
    /// The machine: [`Error::Io`], [`Error::Mtu`], [`Error::Datagram`], [`Error::Thread`].
    pub fn connect(mut self) -> Result<Communicator, Error> {
        self.check_rounding()?;
        if !self.classes.is_power_of_two() || self.classes > CLASSES_MAX {
            return Err(Error::Classes { classes: self.classes });
        }
        if self.trees == 0 || self.trees > TREES_MAX || self.trees > 1 && self.takes_one_transport() {
            return Err(Error::Trees { trees: self.trees });
        }
        // Before anybody counts on this rank.
        let checked = self.cores.iter().take(usize::from(self.trees)).try_for_each(cores::check);
        checked.map_err(|error| Error::Core(Arc::new(error)))?;
        if let Some(mut exchange) = self.take_exchange()? {
            let settings = self.settings();
            return assemble(self, &mut *exchange, settings);
        }
        let (rank, world) = self.rank_and_world()?;
        let network = Network::Switch { address: None };
        let path =
            PathCell::new(Path { hosts: world, shared: 1, network, trees: self.trees, lost: Vec::new() });
        let shutdown = ShutdownState::default();
        let inherited = self.inherited(None);
        let attachments = self.attachments((rank, world), false)?;
        let Self { rounding, tolerance, classes, mode, .. } = self;
        let lane_bytes = attachments.first().map_or(0, Attachment::lane_bytes);
        let context = OpContext { rank, world, mode, lane_bytes, rounding, tolerance, classes, small: 0 };
        let network = start_trees(attachments, Vec::new(), &path, &shutdown)?;
        Ok(Communicator::new(Parts {
            context,
            network: Some(network),
            host: None,
            path,
            shutdown,
            inherited,
        }))
    }

    /// Whether there is a transport, or something to wrap one in, for one tree alone.
    fn takes_one_transport(&self) -> bool {
        self.transport.is_some() || self.middleware.is_some()
    }

    /// The exchange among the ranks, if there is to be one.
    fn take_exchange(&mut self) -> Result<Option<Box<dyn Exchange>>, Error> {
        let failed = |error| Error::Exchange(Arc::new(error));
        if let Some(exchange) = self.exchange.take() {
            for (set, said) in [(self.rank, exchange.rank()), (self.world_size, exchange.world())] {
                if set.is_some_and(|set| set != said) {
                    return Err(failed(ExchangeError::Rank {
                        rank: exchange.rank(),
                        world: exchange.world(),
                    }));
                }
            }
            return Ok(Some(exchange));
        }
        let Some(address) = self.rendezvous.take() else { return Ok(None) };
        let rank = self.rank.ok_or(Error::Missing("rank"))?;
        let world = self.world_size.ok_or(Error::Missing("world_size"))?;
        let job = self.job.as_deref().ok_or(Error::Missing("job"))?;
        let exchange = TcpRendezvous::new(address, job, rank, world, self.join_timeout).map_err(failed)?;
        Ok(Some(Box::new(exchange)))
    }

    fn settings(&self) -> Settings {
        Settings {
            mode: self.mode,
            rounding: self.rounding,
            tolerance: self.tolerance,
            classes: self.classes,
            trees: self.trees,
            small: self.small,
            host: self.host.clone(),
            shared_memory: self.shared_memory,
            fall_back: self.fall_back,
            switch: !self.switch.is_empty() || self.transport.is_some(),
            join_timeout: self.join_timeout,
            stall_timeout: self.stall_timeout.unwrap_or(STALL_TIMEOUT),
        }
    }

    /// Waits for admission at most so long.
    pub(crate) fn cap_join_timeout(&mut self, most: Duration) {
        self.join_timeout = self.join_timeout.min(most);
    }

    /// Joins the job as rank `rank` of `world` in all trees at once, or takes the transport that was given. What was had is given up
    /// when one cannot be. `linked`: the ranks can do without a place for a while.
    pub(crate) fn attachments(
        &mut self,
        (rank, world): (u16, u16),
        linked: bool,
    ) -> Result<Vec<Attachment>, Error> {
        self.check_rank(rank, world)?;
        let mut middleware = self.middleware.take();
        if let Some((io, admission)) = self.transport.take() {
            let io = wrap(io, middleware);
            let attachment = Attachment::new(io, admission, (rank, world), &self.tuning())?;
            return Ok(vec![Attachment { core: self.cores.of(0), ..attachment }]);
        }
        let rejoins = self.rejoin.unwrap_or(self.controlled) && middleware.is_none();
        let retry_for =
            if self.controlled { self.join_timeout.min(ADMISSION_RETRY_TIMEOUT) } else { Duration::ZERO };
        let movable = linked && rejoins;
        let joiners = (0..self.trees).map(|tree| self.joiner((rank, world), tree, movable));
        let joiners = joiners.collect::<Result<Vec<_>, Error>>()?;
        let join = |joiner: Joiner, middleware: Option<Middleware>| {
            let mut attachment = joiner.join_within(retry_for, middleware)?;
            attachment.joiner = rejoins.then_some(joiner);
            Ok(attachment)
        };
        let outcomes: Vec<Result<Attachment, Error>> = std::thread::scope(|scope| {
            let joining: Vec<_> = joiners
                .into_iter()
                .map(|joiner| {
                    let middleware = middleware.take();
                    scope.spawn(move || join(joiner, middleware))
                })
                .collect();
            let joined = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or(Err(Error::EngineFailed))
            };
            joining.into_iter().map(joined).collect()
        });
        let (attachments, mut errors): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        let attachments = attachments.into_iter().flatten().collect::<Vec<_>>();
        if errors.is_empty() {
            let placed = (0..)
                .zip(attachments)
                .map(|(tree, attachment)| Attachment { core: self.cores.of(tree), ..attachment });
            return Ok(placed.collect());
        }
        attachments.into_iter().for_each(Attachment::detach);
        // What one tree was refused for says more than that another came to nothing.
        let refused = errors.iter().position(|outcome| matches!(outcome, Err(Error::Refused { .. })));
        errors.swap_remove(refused.unwrap_or(0)).map(|attachment| vec![attachment])
    }

    fn tuning(&self) -> Tuning {
        Tuning {
            mode: self.mode,
            classes: self.classes,
            stall_timeout: self.stall_timeout,
            resend_after: self.resend_after,
        }
    }

    /// What rank `rank` of `world` joins a tree with.
    fn joiner(&self, (rank, world): (u16, u16), tree: u8, movable: bool) -> Result<Joiner, Error> {
        let job = self.job.clone().ok_or(Error::Missing("job"))?;
        if job.is_empty() || job.len() > JOB_NAME_LEN_MAX {
            return Err(Error::JobName { len: job.len() });
        }
        if self.switch.is_empty() {
            return Err(Error::Missing("switch"));
        }
        let join = Join::new(job, (rank, world), self.mode, self.all_slots(), 0);
        let join = Join {
            credentials: self.credentials.clone(),
            classes: self.classes,
            address: self.bind.iter().cycle().nth(usize::from(tree)).copied(),
            tree,
            trees: self.trees,
            movable,
            ..join
        };
        let security = self.controller_ca.as_ref().filter(|_| self.controlled);
        let security = security.map(|file| Security::new(file, &self.controller));
        let addresses = self.switch.clone();
        let opener = self.opener.clone();
        Ok(Joiner { addresses, security, join, timeout: self.join_timeout, tuning: self.tuning(), opener })
    }

    /// Rank and world size, checked.
    fn rank_and_world(&self) -> Result<(u16, u16), Error> {
        let rank = self.rank.ok_or(Error::Missing("rank"))?;
        let world = self.world_size.ok_or(Error::Missing("world_size"))?;
        self.check_rank(rank, world)?;
        Ok((rank, world))
    }

    fn check_rounding(&self) -> Result<(), Error> {
        match (Coding::of(self.mode), self.rounding) {
            (_, Rounding::Nearest) => Ok(()),
            (Coding::Blocks(lanes, _), _) if lanes.has_mantissas() => Ok(()),
            _ => Err(Error::Rounding { mode: self.mode }),
        }
    }

    fn check_rank(&self, rank: u16, world: u16) -> Result<(), Error> {
        if world == 0 || world > netfold_wire::WORLD_MAX {
            return Err(ConfigError::World(world).into());
        }
        if let Coding::Blocks(lanes, _) = Coding::of(self.mode)
            && world > lanes.world_max()
        {
            return Err(Error::Precision { mode: self.mode, world, max: lanes.world_max() });
        }
        if rank >= world {
            return Err(ConfigError::Rank { rank, world }.into());
        }
        if !self.slots.is_power_of_two() || self.all_slots() > netfold_proto::SLOTS_MAX {
            return Err(ConfigError::Slots(self.slots).into());
        }
        Ok(())
    }

    /// Slots of all classes.
    fn all_slots(&self) -> u32 {
        self.slots.saturating_mul(u32::from(self.classes))
    }
}

impl Communicator {
    /// Starts to describe a communicator.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

/// The addresses of a name.
fn resolve(address: &(impl ToSocketAddrs + ToString)) -> Result<Vec<SocketAddr>, Error> {
    let unresolved = |source| Error::Address { address: address.to_string(), source: Arc::new(source) };
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(unresolved)?.collect();
    if addresses.is_empty() {
        return Err(unresolved(std::io::Error::from(std::io::ErrorKind::NotFound)));
    }
    Ok(addresses)
}
