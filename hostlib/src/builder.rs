//! Builds communicators.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_collectives::mesh::{Exchange, ExchangeError, TcpRendezvous};
use netfold_control::{Admission, Credentials, EnrollRole, Resized, TREES_MAX};
use netfold_cuda::Driver as CudaDriver;
use netfold_io::{Cores, IoError, IoSpec, OpenOptions, PacketIo, cores};
use netfold_proto::{IMPORTANCE_MAX, Tolerance};
use netfold_wire::{CLASSES_MAX, Mode};

use crate::arbiter::{Arbiter, Resizer};
use crate::attach::{Attacher, security};
use crate::build::{build, build_with};
use crate::communicator::Communicator;
use crate::config::{self, JobConfig, Opener};
use crate::error::Error;
use crate::group_key::GroupKey;
use crate::join::Middleware;
use crate::quantize::Rounding;
use crate::report::Stats;
use crate::resize::{PeerArbiter, generation_config, meet};
use crate::session::MembershipSession;

/// Collects what a [`Communicator`] needs. Made by [`Communicator::builder`].
pub struct Builder {
    config: JobConfig,
    rank: Option<u16>,
    world_size: Option<u16>,
    transport: Option<(Box<dyn PacketIo>, Admission)>,
    middleware: Option<Middleware>,
    exchange: Option<Box<dyn Exchange>>,
    rendezvous: Option<SocketAddr>,
    /// Whether it joins a job that runs.
    joins: bool,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("job", &self.config.job)
            .field("group", &self.config.group)
            .field("rank", &self.rank)
            .field("world_size", &self.world_size)
            .field("mode", &self.config.mode)
            .field("switch", &self.config.switch)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Slots that are asked for unless [`Self::slots`] says how many.
    pub const SLOTS_DEFAULT: u32 = config::SLOTS_DEFAULT;

    pub(crate) fn from_config(config: JobConfig) -> Self {
        Self {
            config,
            rank: None,
            world_size: None,
            transport: None,
            middleware: None,
            exchange: None,
            rendezvous: None,
            joins: false,
        }
    }

    /// Name of the job, 1 to 64 bytes, the same on all ranks. Not needed with [`Self::transport`].
    #[must_use]
    pub fn job(mut self, name: impl Into<String>) -> Self {
        self.config.job = Some(name.into());
        self
    }

    /// Makes this a group of the [job](Self::job): some of its workers, who number themselves by [`rank`](Self::rank) and
    /// [`world_size`](Self::world_size) within the group. `name` has 1 to 64 bytes without a slash, the same on all ranks of the group, and is
    /// unique in the job. A controller lists a group under its job and ends it with its job; a tenant's quota counts a group's slots, but no job
    /// and no workers of it as long as the job has as many. [`split`](crate::Communicator::split) names groups by itself.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.config.group = Some(name.into());
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
        self.config.mode = mode;
        self
    }

    /// How floating-point numbers are rounded to what travels, in modes of block floating point: default
    /// [`Rounding::Nearest`]. Sums that hosts reduce are not affected: they are not quantised. Every rank rounds for itself, so
    /// ranks may differ.
    #[must_use]
    pub fn rounding(mut self, rounding: Rounding) -> Self {
        self.config.rounding = rounding;
        self
    }

    /// How many of each rank's contributions may be left out of sums of floats, all-reduce and reduce-scatter, through a switch; the
    /// same on all ranks. Default none: every contribution is in every sum.
    ///
    /// Congested queues may then trim packets to their headers, those of small blocks first. A result contains the number of
    /// contributions in it, so all ranks treat it alike: with [`Tolerance::rescale`] it is multiplied by the world size over that number.
    /// What was left out of this rank's own contributions is in the residual of [`all_reduce_with_feedback`](crate::Communicator::all_reduce_with_feedback). [`OpReport`](crate::OpReport)
    /// counts both. A switch without bounded loss, and hosts among themselves, leave nothing out.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.config.tolerance = tolerance;
        self
    }

    /// Has the packets between workers and switches authenticated: each has a tag of 64 bits under a key that the control port gives each worker
    /// and switch for the job. A packet that was changed or forged on the way is dropped and counted
    /// ([`Stats::io`](crate::Stats::io)), as if it were lost. The same on all ranks. Refused ([`Refusal::Authentication`]) by switches
    /// that do not authenticate packets (P4 targets), and where the control session would carry the keys in clear text: without TLS, except
    /// on the loopback interface. What ranks send each other without a switch is not authenticated. Default: not.
    ///
    /// [`Refusal::Authentication`]: netfold_control::Refusal::Authentication
    #[must_use]
    pub fn authenticated(mut self, authenticated: bool) -> Self {
        self.config.authenticated = authenticated;
        self
    }

    /// Makes the job confidential: switches, and observers of the network, see masked lanes only. Each rank adds keystreams under `key`,
    /// which all ranks must hold, and removes their sum from results, so results are the same, bit for bit; ranks encrypt what they send each
    /// other. Shared memory within a host is in clear. What remains visible: which ranks take part, the number, times and types of operations,
    /// their sizes, and the block exponents of floats. Integrity is not protected.
    ///
    /// Needs a [`rendezvous`](Self::rendezvous) or an [`exchange`](Self::exchange), over which ranks agree on a fresh key at each attachment;
    /// [`Mode::I32`], [`Mode::Bfp32`] or [`Mode::Bfp16`]; and no [tolerance](Self::tolerance). All but sums of words is left to the
    /// hosts. Default: not confidential.
    #[must_use]
    pub fn confidential(mut self, key: GroupKey) -> Self {
        self.config.group_key = Some(key);
        self
    }

    /// Slots of the switch to ask for, a power of two: the chunks in flight, of each [class](Self::classes). The switch may grant fewer.
    /// Default [`Self::SLOTS_DEFAULT`].
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.config.slots = slots;
        self
    }

    /// All-reduces of at most so many bytes are executed by the hosts among themselves where they are linked (by a
    /// [rendezvous](Self::rendezvous) or an [exchange](Self::exchange)), though a switch could: a small tensor of floats takes one
    /// round trip through it, or two where its exponents have changed; try 4096. The same on all ranks. Default 0:
    /// everything that the switch can do is left to it. Where one is set, ranks that give lengths on both sides of it wait for
    /// each other until the [stall timeout](Self::stall_timeout).
    #[must_use]
    pub fn small(mut self, bytes: usize) -> Self {
        self.config.small = bytes;
        self
    }

    /// Classes of operations, a power of two, 1 to 16, the same on all ranks. Default 1. Through a switch every class is a stream of its
    /// own with its own slots, and of all that could be sent, chunks of the highest class go first: an operation of a higher class
    /// overtakes those of lower ones in the middle, whatever was submitted first (see [`Call::in_class`](crate::Call::in_class)). All
    /// ranks must submit the same operations in the same order all the same. Within one host, and in rings, operations go in order of
    /// submission.
    #[must_use]
    pub fn classes(mut self, classes: u8) -> Self {
        self.config.classes = classes;
        self
    }

    /// Importance classes, 1 to 8: default 1. Chunks of floats are sent in as many classes of packets as this says, within those of the
    /// operation's own [class](Self::classes): the larger the numbers of a block, compared with recent blocks, the higher the class. So, at
    /// queues that distinguish classes, larger gradients leave a congested queue first, and where queues of lower classes trim earlier,
    /// smaller ones are [trimmed](Self::tolerance) first. Sums are the same. Other numbers, and chunks among hosts, have one class.
    ///
    /// Useful numbers are those of the queues that switches have for the job's classes of packets: where the controller gives the job a band
    /// of fewer, adjacent importance classes share one. Should be the same on all ranks; a rank with another number only sends its packets in
    /// other classes.
    #[must_use]
    pub fn importance(mut self, classes: u8) -> Self {
        self.config.importance = classes;
        self
    }

    /// Address of the switch's control port, `HOST:PORT` or a [`SocketAddr`]. Names are resolved now.
    ///
    /// # Errors
    ///
    /// [`Error::Address`] when it cannot be resolved.
    pub fn switch(mut self, address: impl ToSocketAddrs + ToString) -> Result<Self, Error> {
        self.config.switch = resolve(&address)?;
        Ok(self)
    }

    /// Address of the workers' port of a controller, which places jobs on its switches and supplies the address for packets, instead of a
    /// [`switch`](Self::switch)'s own: `HOST:PORT` or a [`SocketAddr`]; of several controllers of which one is the leader all, separated by
    /// commas. Names are resolved now. Most controllers want to know the
    /// [tenant](Self::tenant). They may give jobs a grace period, during which the controller may be unreachable: packets continue
    /// meanwhile, and sessions are resumed ([`ControlStats`](crate::ControlStats) counts).
    ///
    /// Transient refusals (a switch that is not up yet, the slots of the same job's previous run, a controller in failover) are
    /// retried for 10 seconds or the [join timeout](Self::join_timeout), whichever is shorter. What a controller refuses then is
    /// [`Error::Refused`] with a reason for programs; with a [`rendezvous`](Self::rendezvous) the
    /// hosts do without it, unless they must not [fall back](Self::fall_back).
    ///
    /// # Errors
    ///
    /// [`Error::Address`] when it cannot be resolved.
    pub fn controller(mut self, address: impl ToString) -> Result<Self, Error> {
        self.config.controller.clear();
        for one in address.to_string().split(',').map(str::trim) {
            let name = one.rsplit_once(':').map_or(one, |(host, _)| host).trim_matches(['[', ']']);
            self.config
                .controller
                .extend(resolve(&one)?.into_iter().map(|address| (address, name.to_owned())));
        }
        self.config.switch = self.config.controller.iter().map(|(address, _)| *address).collect();
        self.config.controlled = true;
        Ok(self)
    }

    /// Uses TLS to the [controller](Self::controller), whose certificate must be signed by an authority in this file (PEM) and be for
    /// the host in the controller's address. Has no effect on a [`switch`](Self::switch)'s own control port, which has no TLS.
    /// The file is read for each connection.
    ///
    /// A port that does not speak TLS, or shows another certificate, is [`Error::Tls`]; nothing is sent to it.
    #[must_use]
    pub fn controller_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.config.controller_ca = Some(file.into());
        self
    }

    /// The tenant whose job it is, and its token, as the controller's administrator gave them. A switch's own control port takes no
    /// notice of them.
    #[must_use]
    pub fn tenant(mut self, name: impl Into<String>, token: impl Into<String>) -> Self {
        self.config.credentials = Some(Credentials { tenant: name.into(), token: token.into() });
        self
    }

    /// Local address to send packets from, where it is not the one through which the control port is reached: on hosts with a network
    /// of their own for tensors. With several [trees](Self::trees), one for each tree in turn. The controller receives it.
    #[must_use]
    pub fn bind(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.config.bind = addresses.into_iter().collect();
        self
    }

    /// The packet I/O to switches: UDP sockets by default. With others, an interface belongs to this rank while it is attached
    /// (XDP: a queue of it), and with several [trees](Self::trees) each is opened in turn.
    #[must_use]
    pub fn io(mut self, choice: IoSpec) -> Self {
        self.config.opener = Opener::of(choice);
        self
    }

    /// As [`io`](Self::io), for packet I/O that the library does not know: `open` is called for every attachment to a switch, with the local
    /// address to open at, and no peer yet.
    #[must_use]
    pub fn io_by(
        mut self,
        open: impl Fn(&OpenOptions) -> Result<Box<dyn PacketIo>, IoError> + Send + Sync + 'static,
    ) -> Self {
        self.config.opener = Opener::new(open);
        self
    }

    /// Trees of switches for the job, 1 to 8, the same on all ranks. Default 1. Each has slots, an engine and a socket of its
    /// own; a large tensor goes over all of them, in contiguous parts, and a smaller one over one of them. The controller chooses the
    /// trees, over different switches where it can; a switch of several queues takes each tree to another one. When one is lost and there is a [`rendezvous`](Self::rendezvous), ranks finish its
    /// part among themselves and go on with the others. Results are the same; operations over different trees may overtake each
    /// other.
    #[must_use]
    pub fn trees(mut self, trees: u8) -> Self {
        self.config.trees = trees;
        self
    }

    /// Cores to keep engines' threads on, one for each [tree](Self::trees) in turn; ranks may differ. Default: wherever the system has
    /// them run. An engine's memory is first written, and so lies, where its core is; tensors lie where the caller wrote them.
    #[must_use]
    pub fn cores(mut self, cores: Cores) -> Self {
        self.config.cores = cores;
        self
    }

    /// Whether ranks that have lost their switch, and continue without, rejoin in the background under the same job name, and use a
    /// switch again when all of them are attached. Default yes with a [`controller`](Self::controller) and for [groups](Self::group), no with a
    /// [`switch`](Self::switch) of one's own; needs a [`rendezvous`](Self::rendezvous), and no [`middleware`](Self::middleware). Attempts
    /// are at most 5 s apart, and end when a refusal is permanent.
    #[must_use]
    pub fn rejoin(mut self, on: bool) -> Self {
        self.config.rejoin = Some(on);
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
        self.config.join_timeout = timeout;
        self
    }

    /// How long an operation may make no progress before the job is given up. Must exceed the longest time by which
    /// ranks may be apart (a rank that computes while the others wait for it). Default 60 s. The loss of a rank or a switch
    /// is detected within 5 s whatever is set here.
    #[must_use]
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.config.stall_timeout = Some(timeout);
        self
    }

    /// Shortest retransmission timeout, instead of 5 ms: for switches that take longer
    /// than that, such as software models of hardware. Losses that later results show are detected without it.
    #[must_use]
    pub fn resend_after(mut self, timeout: Duration) -> Self {
        self.config.resend_after = Some(timeout);
        self
    }

    /// How long a thread that waits for results polls for packets before it sleeps. Default zero: it sleeps at once, and being woken takes some
    /// ten microseconds. Polling takes a core while results are awaited; between polls the thread yields it to others that wait for it, which are
    /// slowed all the same. May differ between ranks.
    #[must_use]
    pub fn busy_poll(mut self, time: Duration) -> Self {
        self.config.busy_poll = time;
        self
    }

    /// After how long without an operation the ranks give the slots of their switch back. The next operation requests slots again, and waits for them: until
    /// all ranks have submitted it, at most for 10 s. Where they are not granted, the ranks do operations among themselves, as after the loss of a switch, and go on
    /// requesting them. Default 10 s for [groups](Self::group), which also request no slots before their first operation if they are
    /// [split](crate::Communicator::split) from ranks at a switch; never for jobs. [`Duration::MAX`] is never. Needs what [`rejoin`](Self::rejoin) needs, and one tree. May differ between
    /// ranks: the shortest counts.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.config.idle_timeout = Some(timeout);
        self
    }

    /// CUDA's driver for [`Communicator::submit_cuda`](crate::Communicator::submit_cuda). The default is the system's, `libcuda.so.1` or the library that the
    /// variable `NETFOLD_CUDA_LIBRARY` names, which is loaded when it is first needed.
    #[must_use]
    pub fn cuda_driver(mut self, driver: CudaDriver) -> Self {
        self.config.cuda = Some(driver);
        self
    }

    /// Whether CUDA devices quantise: sums and averages of floats in [their memory](crate::Communicator::submit_cuda) then cross the bus as lanes, in mode
    /// `bfp16` with half of the bytes of `f32`, and the host adds integers. The same on all ranks. Default no: the host quantises.
    ///
    /// An all-reduce becomes an operation for the exponents of its blocks and one or more for the lanes, so it takes one more round of the network, and a
    /// device needs 72 MiB of memory for each communicator, 8 MiB before the first long call. Results have the same bits as those of the host's quantiser
    /// where each rank exchanges packets with one tree of switches itself. Needs [`Mode::Bfp16`] or [`Mode::Bfp32`], no [tolerance](Self::tolerance), and
    /// devices of compute capability 7.0 or later. Tensors of 16 bits an element are quantised by the host in [`Mode::Bfp32`]; so are all other collectives.
    #[must_use]
    pub fn device_quantization(mut self, on: bool) -> Self {
        self.config.device_quantization = on;
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
        self.config.host = Some(name.into());
        self
    }

    /// Whether ranks that share a host fold in shared memory first, so that a host sends one stream. Default yes; needs a
    /// [`rendezvous`](Self::rendezvous).
    #[must_use]
    pub fn shared_memory(mut self, on: bool) -> Self {
        self.config.shared_memory = on;
        self
    }

    /// Whether the hosts do by themselves what a switch refuses or cannot go on with. Default yes; needs a
    /// [`rendezvous`](Self::rendezvous). Without, it is an error.
    #[must_use]
    pub fn fall_back(mut self, on: bool) -> Self {
        self.config.fall_back = on;
        self
    }

    /// Whether the job shrinks and grows in place ([`Communicator::shrink`], [`Communicator::grow`]): the same on all ranks. Each then has a membership
    /// session at the control port, a [`switch`](Self::switch)'s own or a [`controller`](Self::controller), which decides who is in each generation of the
    /// job. Without one, the ranks, which are then linked, decide by a quorum: more than half of them, or half with rank 0. Not for groups, and not with a [`transport`](Self::transport) or [`middleware`](Self::middleware). Default no.
    #[must_use]
    pub fn resizable(mut self, on: bool) -> Self {
        self.config.resizable = on;
        self
    }

    /// Makes this a process that joins a [resizable](Self::resizable) job of this name that runs, when its ranks [grow](Communicator::grow) by it.
    /// It has no [rank](Self::rank) and no [world size](Self::world_size) to set, and needs no [`rendezvous`](Self::rendezvous) at a control port; without
    /// one the rendezvous is the address of any member ([`Communicator::membership_address`]; at first, the job's own rendezvous).
    /// [`connect`](Self::connect) waits until it has a rank, at most for the [join timeout](Self::join_timeout).
    #[must_use]
    pub fn join_running(mut self) -> Self {
        (self.joins, self.config.resizable) = (true, true);
        self
    }

    /// Joins the job, waits for all ranks and starts the engine.
    ///
    /// # Errors
    ///
    /// Arguments: [`Error::Missing`], [`Error::JobName`], [`Error::GroupName`], [`Error::Config`], [`Error::Precision`], [`Error::Rounding`], [`Error::Classes`], [`Error::Importance`], [`Error::Confidential`], [`Error::Core`], [`Error::DeviceQuantization`].
    /// Other ranks: [`Error::Differs`], [`Error::GroupKeyDiffers`]. The way to the switch:
    /// [`Error::Connect`], [`Error::Tls`], [`Error::Refused`], [`Error::JoinTimeout`], [`Error::SwitchLost`], [`Error::PeerLost`], [`Error::Control`].
    /// The machine: [`Error::Io`], [`Error::Mtu`], [`Error::Datagram`], [`Error::Thread`].
    pub fn connect(mut self) -> Result<Communicator, Error> {
        self.config.check_group()?;
        self.config.check_rounding()?;
        if !self.config.classes.is_power_of_two() || self.config.classes > CLASSES_MAX {
            return Err(Error::Classes { classes: self.config.classes });
        }
        if self.config.importance == 0 || self.config.importance > IMPORTANCE_MAX {
            return Err(Error::Importance { classes: self.config.importance });
        }
        self.config.check_slots()?;
        self.config.check_device_quantization()?;
        self.config.check_confidential(self.exchange.is_some() || self.rendezvous.is_some())?;
        if self.config.trees == 0
            || self.config.trees > TREES_MAX
            || self.config.trees > 1 && self.takes_one_transport()
        {
            return Err(Error::Trees { trees: self.config.trees });
        }
        // Before other ranks depend on this one.
        let checked =
            self.config.cores.iter().take(usize::from(self.config.trees)).try_for_each(cores::check);
        checked.map_err(|error| Error::Core(Arc::new(error)))?;
        self.check_resizable()?;
        if self.joins {
            return join_running(self.config, self.rendezvous);
        }
        let exchange = self.take_exchange()?;
        let place = match &exchange {
            Some(exchange) => (exchange.rank(), exchange.world()),
            None => self.rank_and_world()?,
        };
        if !self.config.resizable {
            return build_with(self.attacher(), place, exchange);
        }
        let linked = exchange.is_some();
        let (rank, world) = place;
        let config = Arc::new(JobConfig { generation: 1, ..self.config });
        let mut arbiter: Option<Box<dyn Arbiter>> = None;
        if !config.switch.is_empty() {
            let role = EnrollRole::First { rank, world };
            let session = MembershipSession::enroll(&config, security(&config), role, config.join_timeout)?;
            arbiter = Some(Box::new(session));
        }
        let mut built = build(Arc::clone(&config), place, exchange)?;
        let arbiter = match arbiter {
            Some(arbiter) => arbiter,
            None => Box::new(PeerArbiter::introduce(&built, self.rendezvous)?),
        };
        built.resizer = Some(Resizer { arbiter, config, linked, former: Stats::default() });
        Ok(built)
    }

    /// Checks what a resizable job cannot have.
    fn check_resizable(&self) -> Result<(), Error> {
        let refuse = |reason| Err(Error::Resizable { reason });
        if !self.config.resizable {
            return Ok(());
        }
        if self.takes_one_transport() {
            return refuse(
                "opens its packet I/O anew in each generation: give io or io_by in place of a transport or middleware",
            );
        }
        if self.config.group.is_some() {
            return refuse("is a whole job: split groups from it in each generation");
        }
        if self.config.job.is_none() {
            return Err(Error::Missing("job"));
        }
        if self.config.switch.is_empty() && self.exchange.is_none() && self.rendezvous.is_none() {
            return refuse(
                "needs a switch's control port or a controller, or links between its ranks by a rendezvous or an exchange, to decide who its members are",
            );
        }
        Ok(())
    }

    fn attacher(self) -> Attacher {
        let Self { config, transport, middleware, .. } = self;
        Attacher { config: Arc::new(config), transport, middleware }
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
        let Some(address) = self.rendezvous else { return Ok(None) };
        let rank = self.rank.ok_or(Error::Missing("rank"))?;
        let world = self.world_size.ok_or(Error::Missing("world_size"))?;
        let job = self.config.job.as_deref().ok_or(Error::Missing("job"))?;
        let exchange =
            TcpRendezvous::new(address, job, rank, world, self.config.join_timeout).map_err(failed)?;
        Ok(Some(Box::new(exchange)))
    }

    /// Rank and world size, checked.
    fn rank_and_world(&self) -> Result<(u16, u16), Error> {
        let rank = self.rank.ok_or(Error::Missing("rank"))?;
        let world = self.world_size.ok_or(Error::Missing("world_size"))?;
        self.config.check_rank(rank, world)?;
        Ok((rank, world))
    }
}

/// Joins a resizable job that runs.
fn join_running(config: JobConfig, member: Option<SocketAddr>) -> Result<Communicator, Error> {
    let (arbiter, resized) = enter(&config, member)?;
    let config = generation_config(&config, &resized);
    let linked = resized.meeting.is_some();
    let exchange = meet(&config, &resized, None)?;
    let mut built = build(Arc::clone(&config), (resized.rank, resized.world), exchange)?;
    built.resizer = Some(Resizer { arbiter, config, linked, former: Stats::default() });
    Ok(built)
}

/// Waits until this process is in a generation of its job.
fn enter(config: &JobConfig, member: Option<SocketAddr>) -> Result<(Box<dyn Arbiter>, Resized), Error> {
    if config.switch.is_empty() {
        let job = config.job.as_deref().ok_or(Error::Missing("job"))?;
        let member = member.ok_or(Error::Missing("rendezvous"))?;
        let (arbiter, resized) = PeerArbiter::enter(job, member, config.join_timeout)?;
        return Ok((Box::new(arbiter), resized));
    }
    let deadline = Instant::now() + config.join_timeout;
    let session =
        MembershipSession::enroll(config, security(config), EnrollRole::New {}, config.join_timeout)?;
    let resized = session.await_outcome(deadline.saturating_duration_since(Instant::now()))?;
    Ok((Box::new(session), resized))
}

impl Communicator {
    /// Starts to describe a communicator.
    pub fn builder() -> Builder {
        Builder::from_config(JobConfig::default())
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
