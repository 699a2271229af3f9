//! A rank whose clock, packet I/O, session and other ranks are a simulation's: the communicator and the engine are those of any rank. For
//! Netfold's whole-system simulation, and no part of the library's interface.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use netfold_collectives::reduce;
use netfold_control::{Admission, Band, MemberCounters, StallReport};
use netfold_io::PacketIo;
use netfold_proto::Tolerance;
use netfold_proto::session::SessionFailure;
use netfold_wire::{DType, Mode, ReduceOp};

use crate::clock::Clock;
use crate::communicator::{Communicator, Parts};
use crate::confidential::{Members, agree};
use crate::config::JobConfig;
use crate::engine::{Engine, EngineContext, EngineTree};
use crate::error::Error;
use crate::group_key::GroupKey;
use crate::join::Attachment;
use crate::lower::{OpContext, SwitchOperation};
use crate::mailbox::Mailbox;
use crate::path::{Path, PathCell};
use crate::peers::Peers;
use crate::rejoin::{NewAttachment, Rejoin, StartRejoin};
use crate::report::ControlCounters;
use crate::route::Route;
use crate::session::{ControlConnection, EndMode, error_of};
use crate::session_events::SessionEvents;
use crate::shutdown::{ShutdownState, StopMode};
use crate::tree_set::{CurrentControl, TreeHandle, TreeSet};

/// The other ranks of a job, reached without the switch.
pub trait Mesh: Send {
    /// Every rank's bytes, by rank, when all ranks have called this.
    ///
    /// # Errors
    ///
    /// A rank that does not call within `timeout`, or whose process has ended.
    fn gather(&mut self, mine: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, u16>;
    /// Whether another rank waits for this one in [`Self::gather`].
    fn is_called(&self) -> bool;
    /// Sleeps until the waker of the rank's packet I/O fires, at most `timeout`.
    fn sleep(&self, timeout: Duration);
}

/// How long a rank waits for one that is reachable.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

struct MeshPeers(Box<dyn Mesh>);

impl MeshPeers {
    fn gathered(&mut self, mine: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let lost = |rank| Error::PeerLost { rank, message: "it cannot be reached".into() };
        self.0.gather(mine, timeout).map_err(lost)
    }
}

impl Peers for MeshPeers {
    fn all_gather(&mut self, mine: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        self.gathered(mine, timeout)
    }

    fn all_reduce(&mut self, op: ReduceOp, dtype: DType, bytes: &mut [u8]) -> Result<(), Error> {
        let all = self.gathered(bytes, STALL_TIMEOUT)?;
        let mut all = all.into_iter();
        bytes.copy_from_slice(&all.next().unwrap_or_default());
        for other in all {
            reduce::reduce(op, dtype, bytes, &other).map_err(|_| Error::EngineFailed)?;
        }
        Ok(())
    }

    fn broadcast(&mut self, bytes: &mut [u8], root: u16) -> Result<(), Error> {
        let all = self.gathered(bytes, STALL_TIMEOUT)?;
        bytes.copy_from_slice(all.get(usize::from(root)).ok_or(Error::EngineFailed)?);
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.gathered(&[], STALL_TIMEOUT).map(drop)
    }

    fn stall_timeout(&self) -> Duration {
        STALL_TIMEOUT
    }

    fn is_called(&self) -> bool {
        self.0.is_called()
    }

    fn sleep(&self, _: &Mailbox<SwitchOperation>, timeout: Duration) {
        self.0.sleep(timeout);
    }
}

/// What an attachment to a switch has received over its session.
#[derive(Clone)]
pub struct Events {
    events: SessionEvents,
    control: ControlConnection,
}

/// How a rank wants its session to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// With a leave request.
    Gracefully,
    /// Without one.
    Aborted,
}

impl Events {
    fn new(mailbox: &Arc<Mailbox<SwitchOperation>>) -> Self {
        Self { events: SessionEvents::new(Arc::clone(mailbox)), control: ControlConnection::unconnected() }
    }

    /// The attachment is lost; the control port is at an address.
    pub fn fail(&self, failure: SessionFailure, port: SocketAddr) {
        self.events.fail(error_of(failure, port));
    }

    /// A rank has left gracefully.
    pub fn note_leave(&self, rank: u16) {
        self.events.note_leave(rank);
    }

    /// The job has other classes of packets.
    pub fn note_band(&self, band: Band) {
        self.events.note_band(band);
    }

    /// The engine's report of a stall, if it is to be sent now. Its times are those of the simulation's clock when it was made.
    pub fn stall(&self) -> Option<StallReport> {
        self.events.take_stall().map(|(_, report)| report)
    }

    /// The engine's counters.
    pub fn counters(&self) -> MemberCounters {
        self.events.counters()
    }

    /// How the engine wants the session to end, if it does.
    pub fn leaving(&self) -> Option<Leaving> {
        self.control.end_mode().map(|end_mode| match end_mode {
            EndMode::Leave => Leaving::Gracefully,
            EndMode::Abort => Leaving::Aborted,
        })
    }
}

/// A rank that joins again: whether its engine wants that, and the new attachment.
#[derive(Clone, Default)]
pub struct Rejoining(Arc<Mutex<RejoinState>>);

#[derive(Default)]
struct RejoinState {
    wanted: bool,
    mailbox: Option<Arc<Mailbox<SwitchOperation>>>,
    new: Option<(NewAttachment, Events)>,
}

impl Rejoining {
    fn with<R>(&self, act: impl FnOnce(&mut RejoinState) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the engine wants to be attached, and is not.
    pub fn is_wanted(&self) -> bool {
        self.with(|state| state.wanted && state.new.is_none())
    }

    /// Hands over a new attachment.
    ///
    /// # Errors
    ///
    /// An admission that no worker can run by; or an engine that does not want one.
    pub fn offer(
        &self,
        io: Box<dyn PacketIo>,
        admission: Admission,
        place: (u16, u16),
        settings: &Settings,
    ) -> Result<Events, Error> {
        let attachment = Attachment::new(io, admission, place, &settings.config())?;
        self.with(|state| {
            let mailbox = state.mailbox.as_ref().filter(|_| state.wanted).ok_or(Error::Closed)?;
            let events = Events::new(mailbox);
            let (control, session) = (Some(events.control.clone()), events.events.clone());
            mailbox.notify();
            state.new = Some((NewAttachment { attachment, control, events: session }, events.clone()));
            Ok(events)
        })
    }
}

struct Joiner {
    rejoining: Rejoining,
    config: Arc<JobConfig>,
}

impl StartRejoin for Joiner {
    fn start(
        &self,
        mailbox: &Arc<Mailbox<SwitchOperation>>,
        _: &ControlCounters,
    ) -> Result<Box<dyn Rejoin>, Error> {
        self.rejoining.with(|state| {
            (state.wanted, state.mailbox) = (true, Some(Arc::clone(mailbox)));
        });
        Ok(Box::new(Wanted(self.rejoining.clone())))
    }

    fn config(&self) -> &Arc<JobConfig> {
        &self.config
    }
}

struct Wanted(Rejoining);

impl Rejoin for Wanted {
    fn id(&self) -> Option<(u16, u32)> {
        self.0.with(|state| {
            let (new, events) = state.new.as_ref()?;
            if new.events.failure().is_some() {
                events.control.abort();
                state.new = None;
                return None;
            }
            Some((new.attachment.admission.job, new.attachment.admission.epoch))
        })
    }

    fn take(&self) -> Option<NewAttachment> {
        self.0.with(|state| {
            let (new, _) = state.new.take()?;
            state.wanted = false;
            Some(new)
        })
    }

    fn refusal(&self) -> Option<String> {
        None
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.with(|state| {
            state.wanted = false;
            if let Some((_, events)) = state.new.take() {
                events.control.leave();
            }
        });
    }
}

/// A rank: its communicator, and what its session passes on.
pub struct Rank {
    /// The communicator; its engine is run by the simulation.
    pub communicator: Communicator,
    /// Those of the first attachment.
    pub events: Events,
    /// How it joins again, where it has other ranks to continue with.
    pub rejoining: Rejoining,
    shutdown: ShutdownState,
}

/// Runs an engine until its job is over; for a thread of its own.
pub type EngineRun = Box<dyn FnOnce() + Send>;

/// What a rank begins with.
pub struct Start {
    /// The packet I/O to the switch, at port 0.
    pub io: Box<dyn PacketIo>,
    /// What it was admitted with.
    pub admission: Admission,
    /// Its number, and the number of ranks.
    pub place: (u16, u16),
    /// What all ranks of the job have set.
    pub settings: Settings,
    /// Nanoseconds of the simulation's clock.
    pub clock: Arc<AtomicU64>,
    /// The other ranks, for failover. A confidential job has them.
    pub mesh: Option<Box<dyn Mesh>>,
}

/// What all ranks of a job have set.
#[derive(Clone)]
pub struct Settings {
    /// The mode.
    pub mode: Mode,
    /// The group key of a confidential job.
    pub group_key: Option<GroupKey>,
    /// How many contributions may be left out of sums.
    pub tolerance: Tolerance,
    /// After how long without an operation the ranks give their slots back, if they do.
    pub idle_timeout: Option<Duration>,
}

impl Settings {
    fn config(&self) -> Arc<JobConfig> {
        let Self { mode, group_key, tolerance, idle_timeout } = self.clone();
        Arc::new(JobConfig { mode, group_key, tolerance, idle_timeout, ..JobConfig::default() })
    }
}

/// Agrees with the other ranks on the key of a first attachment, where the job is confidential.
fn mask(
    attachment: &mut Attachment,
    group_key: Option<&GroupKey>,
    peers: Option<&mut (dyn Peers + '_)>,
    (index, count): (u16, u16),
) -> Result<(), Error> {
    let (Some(group), Some(peers)) = (group_key, peers) else { return Ok(()) };
    let gather = |mine: &[u8]| peers.all_gather(mine, STALL_TIMEOUT);
    let agreed = agree(group, Members { job: "", index, count }, gather)?;
    attachment.mask(&agreed, 0);
    Ok(())
}

impl Rank {
    /// The rank, and its engine, for a thread.
    ///
    /// # Errors
    ///
    /// An admission that no worker can run by.
    pub fn start(start: Start) -> Result<(Self, EngineRun), Error> {
        let Start { io, admission, place, settings, clock, mesh } = start;
        let config = settings.config();
        let mut attachment = Attachment::new(io, admission, place, &config)?;
        let (shutdown, counters, route) =
            (ShutdownState::default(), ControlCounters::default(), Route::new(1));
        let mailbox = Mailbox::new(attachment.io.waker(), &shutdown);
        let (events, rejoining) = (Events::new(&mailbox), Rejoining::default());
        let path = PathCell::new(Path::through_switch(place.1, 1));
        path.set_attached(attachment.describe(0), None);
        let joiner = Joiner { rejoining: rejoining.clone(), config: Arc::clone(&config) };
        let joiner = mesh.is_some().then(|| Box::new(joiner) as Box<dyn StartRejoin>);
        let (lane_bytes, grace) = (attachment.lane_bytes(), attachment.grace());
        let lane_ops = attachment.admission.lane_ops;
        let mut context = EngineContext {
            mailbox: Arc::clone(&mailbox),
            control: Some(events.control.clone()),
            events: events.events.clone(),
            peers: mesh.map(|mesh| Box::new(MeshPeers(mesh)) as Box<dyn Peers>),
            path: path.clone(),
            shutdown: shutdown.clone(),
            tree: EngineTree {
                index: 0,
                route: route.clone(),
                joiner,
                grace,
                last: CurrentControl::default(),
                counters: counters.clone(),
            },
            clock: Clock::simulated(clock),
            busy_poll: Duration::ZERO,
            begins_idle: false,
        };
        let ended = (Arc::clone(&mailbox), shutdown.clone(), events.control.clone());
        let engine = Box::new(move || {
            let peers = context.peers.as_deref_mut();
            if let Err(error) = mask(&mut attachment, settings.group_key.as_ref(), peers, place) {
                let (mailbox, shutdown, control) = ended;
                mailbox.end(shutdown.fail(error));
                return control.abort();
            }
            let Attachment { io, streams, .. } = attachment;
            Engine::new(io, streams, context).run();
        });
        let handle = TreeHandle {
            mailbox,
            engine: Mutex::new(None),
            inline: None,
            last: CurrentControl::default(),
            counters,
        };
        let parts = Parts {
            context: OpContext {
                rank: place.0,
                world: place.1,
                lane_bytes,
                block_bytes: lane_bytes,
                lane_ops,
                small: 0,
                config,
            },
            network: Some(TreeSet::new(vec![handle], route, lane_bytes)),
            host: None,
            path,
            shutdown: shutdown.clone(),
            place: None,
        };
        let communicator = Communicator::new(parts);
        Ok((Self { communicator, events, rejoining, shutdown }, engine))
    }

    /// Has the engine end when nothing is pending.
    pub fn stop_when_idle(&self) {
        self.shutdown.request(StopMode::WhenIdle);
    }
}
