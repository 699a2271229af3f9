//! Attaches a rank to a switch: over a control session, or with an admission that is given.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_control::{Admission, Band, CongestionAlgorithm, Join, RESUME_MS, Refusal};
use netfold_io::{Authenticated, IoError, OpenOptions, PacketIo, PortId};
use netfold_proto::WorkerConfig;
use netfold_wire::{LaneOps, TAG_LEN, header};

use crate::confidential::AgreedKey;
use crate::config::JobConfig;
use crate::error::Error;
use crate::path::SwitchAttachment;
use crate::session::{PathIo, Security, Session, bind_paths};
use crate::streams::Streams;

/// Shortest retransmission time-out over a transport that loses nothing.
const RTO_MIN_LOSSLESS: Duration = Duration::from_millis(200);

/// Bytes of the headers around a datagram, without options.
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;

/// Shortest and longest back-off between requests for a first admission.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Wraps a transport.
pub(crate) type Middleware = Box<dyn FnOnce(Box<dyn PacketIo>) -> Box<dyn PacketIo> + Send>;

pub(crate) fn wrap(io: Box<dyn PacketIo>, middleware: Option<Middleware>) -> Box<dyn PacketIo> {
    match middleware {
        Some(middleware) => middleware(io),
        None => io,
    }
}

/// The configuration of the worker behind an admission.
fn worker_config(
    job: &JobConfig,
    admission: Admission,
    (rank, world): (u16, u16),
    lossless: bool,
) -> WorkerConfig {
    let mut config = WorkerConfig::new(admission, rank, world);
    config.numerics = job.mode.numerics();
    if lossless {
        // Only a switch that drops what its output will not take loses packets here; a thread that waits for a
        // processor is no loss.
        config.rto_min = RTO_MIN_LOSSLESS;
        config.rto_initial = RTO_MIN_LOSSLESS;
    }
    if let Some(timeout) = job.resend_after {
        (config.rto_min, config.rto_initial) = (timeout, timeout.max(config.rto_initial));
        config.rto_max = config.rto_max.max(4 * config.rto_initial);
    }
    if let Some(timeout) = job.stall_timeout {
        config.stall_timeout = timeout;
        config.rto_max = config.rto_max.min(timeout);
        config.rto_initial = config.rto_initial.min(timeout);
        config.rto_min = config.rto_min.min(timeout);
    }
    config
}

/// All that is needed to join a job, and to rejoin it.
#[derive(Debug, Clone)]
pub(crate) struct Joiner {
    pub(crate) config: Arc<JobConfig>,
    /// Whom to trust, with TLS.
    pub(crate) security: Option<Security>,
    /// The request, without this side's UDP port.
    pub(crate) join: Join,
    /// Lane operations that a switch must have to be joined again: those with which the job began, on which its calls depend.
    pub(crate) lane_ops: LaneOps,
}

impl Joiner {
    /// Joins the job and waits until every rank has come, or `cancelled` returns true.
    ///
    /// # Errors
    ///
    /// [`Error::Connect`], [`Error::SilentPort`], [`Error::Tls`], [`Error::Refused`], [`Error::JoinTimeout`], [`Error::SwitchLost`],
    /// [`Error::PeerLost`], [`Error::Control`]; [`Error::Io`]; and an admission that no worker can run by.
    pub(crate) fn join(
        &self,
        cancelled: &dyn Fn() -> bool,
        middleware: Option<Middleware>,
    ) -> Result<Attachment, Error> {
        self.request_admission(cancelled)?.attachment(self, middleware)
    }

    /// The same, with retries for `retry_for` while the reason is transient: a switch that is not up yet, a previous run of the same job
    /// that is still being removed, or a controller in failover. A controller that is lost during the request may have stored that the job runs: then the
    /// next one keeps the job's place for members that never were admitted, and there are retries until that is over.
    ///
    /// # Errors
    ///
    /// Those of [`Joiner::join`].
    pub(crate) fn join_within(
        &self,
        retry_for: Duration,
        middleware: Option<Middleware>,
    ) -> Result<Attachment, Error> {
        let mut deadline = Instant::now() + retry_for;
        // A controller that is lost time and again is not waited for.
        let mut kept = (!retry_for.is_zero()).then_some(Duration::from_millis(RESUME_MS));
        let mut delay = BACKOFF.0;
        loop {
            match self.request_admission(&|| false) {
                Ok(admitted) => return admitted.attachment(self, middleware),
                Err(error) if self.is_transient(&error) => {
                    if matches!(error, Error::SwitchLost { .. })
                        && let Some(kept) = kept.take()
                    {
                        deadline = Instant::now() + retry_for + kept;
                    }
                    if Instant::now() + delay >= deadline {
                        return Err(error);
                    }
                    log::debug!("rank {}: not attached to a switch yet: {error}", self.join.rank);
                }
                Err(error) => return Err(error),
            }
            std::thread::sleep(delay);
            delay = (delay * 2).min(BACKOFF.1);
        }
    }

    /// Whether a failure is expected to pass within seconds.
    pub(crate) fn is_transient(&self, error: &Error) -> bool {
        match error {
            Error::Refused { reason, .. } => {
                use Refusal::{Busy, JobRunning, RankTaken, Unavailable};
                matches!(reason, Unavailable | Busy | JobRunning | RankTaken)
            }
            // The controller was lost during the request.
            Error::SwitchLost { .. } => true,
            // Another of several controllers is about to become the leader.
            Error::Connect { .. } => self.config.switch.len() > 1,
            _ => false,
        }
    }

    fn request_admission(&self, cancelled: &dyn Fn() -> bool) -> Result<Admitted, Error> {
        let mut session = Session::connect(&self.config.switch, self.security.as_ref())?;
        let from = match self.join.address {
            Some(address) => SocketAddr::new(address, 0),
            None => SocketAddr::new(session.local().ip(), 0),
        };
        // Any free port: it must be known before the peer is.
        let open = |paths| -> Result<_, Error> {
            let io =
                Authenticated::new(self.config.opener.open(&OpenOptions { paths, ..OpenOptions::at(from) })?);
            let first = io.local_addr().unwrap_or(from).port();
            Ok((io, first))
        };
        let (mut io, _) = open(1)?;
        let own = io.local_addr().unwrap_or(from);
        // Packet I/O may have another address than the session.
        let elsewhere = Some(own.ip()).filter(|ip| *ip != from.ip() && !ip.is_unspecified());
        let address = elsewhere.or(self.join.address);
        let datagram_max = datagram_max(&io, session.peer());
        // Where there are several paths, the control port says so.
        let udp_ports = u8::from(io.capabilities().udp_ports_max == 1);
        let join = Join { udp_port: own.port(), udp_ports, address, datagram_max, ..self.join.clone() };
        let path = PathIo::new(&mut io, &open);
        let admission = session.join(join, path, self.config.join_timeout, cancelled)?;
        Ok(Admitted { session, io, admission })
    }
}

/// What an admission comes with.
struct Admitted {
    session: Session,
    io: Authenticated<Box<dyn PacketIo>>,
    admission: Admission,
}

impl Admitted {
    fn attachment(self, joiner: &Joiner, middleware: Option<Middleware>) -> Result<Attachment, Error> {
        let Self { session, mut io, admission } = self;
        let switch = SocketAddr::new(admission.switch.unwrap_or(session.peer().ip()), admission.udp_port);
        // Best effort: without it queues drop where they could mark.
        let _ = io.set_ecn_capable(admission.congestion != CongestionAlgorithm::Fixed);
        if let Some(band) = &admission.band {
            apply_dscp(&mut io, band);
        }
        let authenticated = io.authenticated(PortId(0)).next().is_some();
        if !authenticated {
            bind_paths(&mut io, switch)?;
        }
        check_datagram(&io, switch, &admission, if authenticated { TAG_LEN } else { 0 })?;
        // The caller's middleware is on the side of the network, where packets have their tags.
        let io: Box<dyn PacketIo> = match io.map(|io| wrap(io, middleware)).into_inner() {
            Ok(plain) => plain,
            Err(authenticated) => Box::new(authenticated),
        };
        let place = (joiner.join.rank, joiner.join.world);
        Attachment::new(io, admission, place, &joiner.config).map(|attachment| Attachment {
            control: Some(session.peer()),
            session: Some(session),
            switch: Some(switch),
            ..attachment
        })
    }
}

/// Longest datagram that reaches the host of the control port in one piece, as far as this host knows.
fn datagram_max(io: &dyn PacketIo, control: SocketAddr) -> u32 {
    let max = io.capabilities().datagram_len_max;
    let of_path = io.path_mtu(control).map_or(max, |mtu| mtu.saturating_sub(outer_len(control)));
    u32::try_from(max.min(of_path)).unwrap_or(u32::MAX)
}

/// Bytes of the headers around a datagram to this address.
fn outer_len(peer: SocketAddr) -> usize {
    UDP_HEADER + if peer.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER }
}

/// Checks that a packet of the job, with a tag of this length, fits the packet I/O and the path MTU to the switch.
fn check_datagram(
    io: &dyn PacketIo,
    switch: SocketAddr,
    admission: &Admission,
    tag: usize,
) -> Result<(), Error> {
    let datagram = header::LEN + admission.lane_words as usize * 4 + tag;
    let max = io.capabilities().datagram_len_max;
    if datagram > max {
        return Err(Error::Datagram { need: datagram, max });
    }
    let need = outer_len(switch) + datagram;
    match io.path_mtu(switch) {
        Some(mtu) if mtu < need => Err(Error::Mtu { switch, need, mtu }),
        _ => Ok(()),
    }
}

/// An attachment to a switch, before any packet was sent.
pub(crate) struct Attachment {
    pub(crate) io: Box<dyn PacketIo>,
    pub(crate) streams: Streams,
    pub(crate) session: Option<Session>,
    pub(crate) admission: Admission,
    /// The control port, if there is one.
    pub(crate) control: Option<SocketAddr>,
    /// Where packets go, if they leave the process.
    pub(crate) switch: Option<SocketAddr>,
    /// What to rejoin with when the attachment is lost.
    pub(crate) joiner: Option<Joiner>,
    /// Where the engine's thread is kept.
    pub(crate) core: Option<usize>,
    /// There is no attachment yet: the engine requests one for its first operation.
    pub(crate) begins_idle: bool,
}

impl Attachment {
    /// An attachment with a given transport and admission.
    pub(crate) fn new(
        io: Box<dyn PacketIo>,
        admission: Admission,
        (rank, world): (u16, u16),
        job: &JobConfig,
    ) -> Result<Self, Error> {
        let config = worker_config(job, admission.clone(), (rank, world), io.capabilities().lossless);
        let need = config.datagram_len_max();
        let confidential = job.group_key.is_some();
        if confidential && config.admission.shift > 0 {
            return Err(Error::Confidential {
                reason: "cannot use switches that shift sums, because the masks would not cancel: use switches of plain words",
            });
        }
        let streams = Streams::new(&config, (job.classes, job.importance), confidential)?;
        let max = io.capabilities().datagram_len_max;
        if need > max {
            return Err(Error::Datagram { need, max });
        }
        Ok(Self {
            io,
            streams,
            session: None,
            admission,
            control: None,
            switch: None,
            joiner: None,
            core: None,
            begins_idle: false,
        })
    }

    /// Masks everything that is sent, under a key that was agreed on for this attachment to the switches of tree `tree`.
    pub(crate) fn mask(&mut self, agreed: &AgreedKey, tree: u8) {
        self.streams.mask(&agreed.key(&format!("tree {tree}")));
    }

    /// Bytes of a packet's lanes.
    pub(crate) fn lane_bytes(&self) -> usize {
        self.admission.lane_words as usize * 4
    }

    /// The grace period of the control session.
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_millis(self.admission.grace_ms.into())
    }

    /// Describes the attachment to callers.
    pub(crate) fn describe(&self, tree: u8) -> SwitchAttachment {
        let Admission { job, epoch, slots, lane_words, .. } = self.admission;
        SwitchAttachment { tree, switch: self.switch, job, epoch, slots, payload_bytes: lane_words * 4 }
    }

    /// Leaves the switch gracefully.
    pub(crate) fn detach(self) {
        self.session.iter().for_each(|session| session.control().leave());
    }
}

/// Sets the DSCP of a job's packets by their class, for equipment that sees IP headers only. Best effort: without it packets use the
/// queues of jobs that have no band.
pub(crate) fn apply_dscp(io: &mut dyn PacketIo, band: &Band) {
    match io.set_dscp(band.dscp()) {
        Ok(()) => {}
        // Rings in memory have no IP header.
        Err(IoError::Unsupported(_)) => {}
        Err(error) => log::warn!("packets have no DSCP: {error}"),
    }
}

/// Starts a named thread.
pub(crate) fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<std::thread::JoinHandle<()>, Error> {
    std::thread::Builder::new().name(name.into()).spawn(run).map_err(|source| Error::Thread(Arc::new(source)))
}
