//! A switch that is kept in the state that the control plane desires, despite lost connections, restarts and other clients.
//!
//! A thread of its own connects, bids to become primary, and compares what the switch holds with the desired state. Only
//! differences are written: if the switch is in its desired state, a pass writes nothing. It repeats the comparison from
//! time to time, and after everything whose outcome is not known: a call that failed half way, a connection that broke.
//!
//! # States
//!
//! - *Up*: we are primary, and the switch was in its desired state when it was last compared. Calls are carried out.
//! - *Down*: no connection, another controller is primary, or a comparison that could not be finished. Calls that ask for
//!   something fail at once with [`DriverError::Unreachable`]; nothing is noted for later. Calls that take something away succeed: it is
//!   not asked for any more, so the comparison that comes before *Up* removes it. A job that is over does not hold other switches' slots
//!   because one of its switches is unreachable. The connection is retried with exponential back-off.
//!
//! A switch is *fresh* when it has lost what its slots held since we last knew it: it had no pipeline or another one, so
//! that ours was pushed; it reports a restart; or none of the objects that we had installed is left. Whatever was asked
//! for before is forgotten then. Deleting it succeeds without a call to the switch.

mod call;
mod change;
mod desired;
mod keeper;
mod ports;
mod session;
#[cfg(test)]
mod simulation;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use netfold_p4::allreduce::{Address, id};
use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_p4::p4info::counter_id;
use netfold_p4::profile::{Encapsulation, Numerics, Profile};
use netfold_wire::{JobKeys, UDP_PORT};
use tokio::sync::{mpsc, oneshot};

use super::ELECTION_ID;
use super::control::ControlPort;
use super::error::P4RuntimeError;
use super::packets::{PacketControlPort, PacketLine};
use super::peers::Attachment;
use super::pipeline::Pipeline;
use super::slot_packets::{advance, read_slots, release};
use super::tls;
use call::{Call, CallResult, Reply, Request};
pub(crate) use desired::{Bound, Desired, port_error};
use keeper::{Environment, Keeper};
use netfold_controller::driver::{DriverError, HeldEntity, Limits, SlotState, SwitchDriver};
use netfold_controller::topology::Tls;

/// Port by which bmv2, Tofino and the software switch exchange packets with a controller by default.
pub const CPU_PORT: u16 = 510;

/// A switch to be managed, and how.
pub struct ManagedConfig {
    /// What to call the switch in messages to people.
    pub name: String,
    /// Where its P4Runtime server listens: `host:port` or `unix:path`.
    pub address: String,
    /// How the connection is secured; `None`: not at all. Files are read for each connection, and must be there when it starts.
    pub tls: Option<Tls>,
    /// Device number of the switch, above 0.
    pub device_id: u64,
    /// Election id, the upper half in the upper 64 bits: the controller with the greatest is primary. Where there is no primary for
    /// [`Self::outbid_after`] and a greater id was there before, that plus one is bid.
    pub election_id: u128,
    /// How long a switch has to be without a primary before a greater election id is outbid. Where controllers are elected, longer than one goes on that has
    /// lost its leadership and does not know yet: it must not take the switch from its successor. Zero where there is one controller.
    pub outbid_after: Duration,
    /// How the switch gets to its peers.
    pub attachment: Attachment,
    /// What the switch calls itself in the packets that it multicasts; matters where the pipeline sees outer headers.
    pub switch: Address,
    /// UDP port at which its peers reach it.
    pub udp_port: u16,
    /// Port of the switch where control packets come in; no peer may be there. A switch that describes itself overrules it.
    pub cpu_port: u16,
    /// A way for control packets through the CPU port; `None` sends them over P4Runtime's own stream.
    pub control: Option<Box<dyn ControlPort>>,
    /// Slots to use of those that the program has; `None` uses all.
    pub slots: Option<u32>,
    /// The start of the switch that [`SwitchEvent::Up`] named when the control plane last knew it; `None` when it never did.
    pub boot: Option<String>,
    /// How long to wait for a connection.
    pub connect_within: Duration,
    /// How long to wait for each request. Pushing a large pipeline takes seconds on some switches.
    pub call_within: Duration,
    /// Shortest and longest wait before a connection is tried again.
    pub retry: (Duration, Duration),
    /// Interval between signs of life that are asked for.
    pub check_every: Duration,
    /// Interval between comparisons of what the switch holds with what was asked for.
    pub resync_every: Duration,
}

impl ManagedConfig {
    /// Device 1 at `address`, with the intervals that suit a network of switches: signs of life every 5 seconds, comparisons
    /// every 30, attempts to connect between 100 milliseconds and 5 seconds apart.
    pub fn new(name: impl Into<String>, address: impl Into<String>, attachment: Attachment) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            tls: None,
            device_id: 1,
            election_id: ELECTION_ID,
            outbid_after: Duration::ZERO,
            attachment,
            switch: Address { mac: 0x0200_0000_00fe, ip: 0x0a00_00fe, port: UDP_PORT },
            udp_port: UDP_PORT,
            cpu_port: CPU_PORT,
            control: None,
            slots: None,
            boot: None,
            connect_within: Duration::from_secs(2),
            call_within: Duration::from_secs(10),
            retry: (Duration::from_millis(100), Duration::from_secs(5)),
            check_every: Duration::from_secs(5),
            resync_every: Duration::from_secs(30),
        }
    }
}

impl ManagedConfig {
    /// Whether the connection reveals nothing to the network: it is encrypted, or does not leave the host.
    fn is_private(&self) -> bool {
        let host = self.address.rsplit_once(':').map_or("", |(host, _)| host.trim_matches(['[', ']']));
        let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        self.tls.is_some() || local || self.address.starts_with("unix:")
    }

    /// What the switch has to share out with such a pipeline: known before it is reached.
    pub fn limits(&self, pipeline: &Pipeline) -> Limits {
        limits(pipeline.profile(), self)
    }
}

/// What a comparison found to differ and made right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Entries, groups and ports that were missing.
    pub inserted: usize,
    /// Entries, groups and ports of another controller.
    pub removed: usize,
    /// Entries and groups that were other than asked for.
    pub modified: usize,
}

impl Repaired {
    /// Whether nothing differed.
    pub const fn is_nothing(&self) -> bool {
        self.inserted == 0 && self.removed == 0 && self.modified == 0
    }
}

/// What happens to a managed switch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SwitchEvent {
    /// The switch is in its desired state, and takes calls as soon as the listener has received this event.
    Up {
        /// Whether it has lost what its slots held: every job that ran there is lost, and nothing that was asked for before
        /// is there.
        fresh: bool,
        /// What it has to share out.
        limits: Limits,
        /// How it folds lanes.
        numerics: Numerics,
        /// Which start of the switch this is, for [`ManagedConfig::boot`]; `None` when it does not report that.
        boot: Option<String>,
        /// Where its peers send to; `None` when it does not report that.
        data: Option<SocketAddr>,
    },
    /// It takes no calls.
    Down {
        /// Why, for people.
        reason: String,
    },
    /// A comparison found differences and removed them.
    Repaired(Repaired),
    /// What the pipeline has counted so far, in packets; read with every comparison.
    Counters {
        /// Packets by [`netfold_wire::Reason`], in the order of [`netfold_wire::Reason::ALL`].
        packets: Vec<u64>,
        /// Answers to workers, by the cells of the program's counter.
        answers: Vec<u64>,
    },
}

/// Requests that a handle has sent to its switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Comparisons of what the switch holds with what was asked for.
    pub passes: u64,
    /// Write requests.
    pub writes: u64,
    /// Updates in them.
    pub updates: u64,
    /// Pipelines pushed.
    pub pushes: u64,
}

#[derive(Debug, Default)]
struct Tally {
    passes: AtomicU64,
    writes: AtomicU64,
    updates: AtomicU64,
    pushes: AtomicU64,
}

/// The state of a switch, as handles see it.
#[derive(Debug, Clone)]
enum Phase {
    Up,
    Down(String),
}

/// What the keeper's thread and the handles share.
struct Shared {
    name: String,
    phase: Mutex<Phase>,
    line: Arc<PacketLine>,
    tally: Arc<Tally>,
    /// What was to be released while the switch was down, and has not lost what its slots held.
    unreleased: Mutex<Vec<Release>>,
}

/// Slots that best-effort jobs share, to be released of an epoch.
#[derive(Debug, Clone, Copy)]
struct Release {
    first_slot: u32,
    slots: u32,
    epoch: u32,
}

impl Shared {
    fn new(switch: &str) -> Self {
        Self {
            name: switch.to_owned(),
            phase: Mutex::new(Phase::Down("it is not connected yet".into())),
            line: Arc::default(),
            tally: Arc::default(),
            unreleased: Mutex::default(),
        }
    }

    fn unreleased(&self) -> MutexGuard<'_, Vec<Release>> {
        self.unreleased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreachable(&self, reason: String) -> DriverError {
        DriverError::Unreachable(Box::new(P4RuntimeError::Down { switch: self.name.clone(), reason }))
    }
}

/// Where control packets go in and out.
struct Controls {
    port: Box<dyn ControlPort>,
    /// Number of the last question to slots. Starts anywhere, so that answers to an earlier controller are not taken for ours.
    nonce: u32,
}

/// Ends the thread with the last handle.
struct LaneOwner {
    shared: Arc<Shared>,
    calls: mpsc::UnboundedSender<Call>,
    controls: Mutex<Controls>,
    limits: Limits,
    numerics: Numerics,
    call_timeout: Duration,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for LaneOwner {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A listener that holds the last handle drops it on the thread itself.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// A handle on a managed switch; all clones are the same switch. Dropping the last one ends the connection and leaves the switch
/// as it is.
///
/// Calls fail at once while the switch is down, unless they remove something. Otherwise they take as long as the switch does, up to
/// [`ManagedConfig::call_within`] for each request.
#[derive(Clone)]
pub struct Managed(Arc<LaneOwner>);

impl Managed {
    /// Starts to manage a switch, where `held` lists the objects that an earlier control plane installed and that are still desired.
    /// Returns at once; a thread of this switch's own passes events to the listener, which must not wait for its switch.
    ///
    /// # Errors
    ///
    /// [`P4RuntimeError`] when the configuration makes no sense, a file that it names is of no use, `held` names peers that are
    /// nowhere, or the system refuses a thread. Whether the switch is reachable is reported by events.
    pub fn start(
        mut config: ManagedConfig,
        pipeline: Pipeline,
        held: Vec<HeldEntity>,
        listener: impl FnMut(SwitchEvent) + Send + 'static,
    ) -> Result<Self, P4RuntimeError> {
        let switch = config.name.clone();
        if config.cpu_port == 0 {
            let what = "the CPU port is 0, which P4Runtime does not have: use another".into();
            return Err(P4RuntimeError::Config { switch, what });
        }
        if let Some(wanted) = &config.tls {
            let (name, address) = (switch.clone(), config.address.clone());
            tls::check(wanted, &config.address).map_err(|source| P4RuntimeError::Tls {
                switch: name,
                address,
                source: Box::new(source),
            })?;
        }
        let profile = pipeline.profile();
        let limits = limits(profile, &config);
        let numerics = profile.numerics;
        let shared = Arc::new(Shared::new(&switch));
        let stream = || PacketControlPort::new(Arc::clone(&shared.line), profile.encapsulation);
        let call_timeout = config.call_within * 2;
        let port = config.control.take().unwrap_or_else(|| Box::new(stream()));
        let nonce = RandomState::new().build_hasher().finish() as u32;
        let from = (profile.encapsulation == Encapsulation::Ethernet).then_some(config.switch);
        let desired = Desired::new(from, config.cpu_port, held);
        let (calls, receiver) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let failed = |source| P4RuntimeError::Thread { switch: switch.clone(), source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let environment = Environment::system(&config);
        let keeper = Keeper::new(
            config,
            environment,
            pipeline,
            desired,
            Arc::clone(&shared),
            receiver,
            Box::new(listener),
        )?;
        let thread = std::thread::Builder::new()
            .name(format!("switch {switch}"))
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = keeper.run() => {}
                        // What is on its way is cut off, as by a crash, which the next controller makes good.
                        _ = stopped => {}
                    }
                });
            })
            .map_err(failed)?;
        let controls = Mutex::new(Controls { port, nonce });
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Self(Arc::new(LaneOwner {
            shared,
            calls,
            controls,
            limits,
            numerics,
            call_timeout,
            stop,
            thread,
        })))
    }

    /// What the switch is called in messages.
    pub fn name(&self) -> &str {
        &self.0.shared.name
    }

    /// `None` when the switch is up, else why it is down.
    pub fn down(&self) -> Option<String> {
        match &*self.0.shared.phase() {
            Phase::Up => None,
            Phase::Down(reason) => Some(reason.clone()),
        }
    }

    /// Compares what the switch holds with what was asked for, now.
    ///
    /// # Errors
    ///
    /// [`DriverError`], as for every call.
    pub fn resync(&self) -> Result<Repaired, DriverError> {
        match self.call(Request::Resync)? {
            Reply::Repaired(repaired) => Ok(repaired),
            _ => Ok(Repaired::default()),
        }
    }

    /// What a counter has counted, in packets, by cell.
    ///
    /// # Errors
    ///
    /// [`DriverError`], also when the program has no such counter.
    pub fn counters(&self, counter_id: u32) -> Result<Vec<u64>, DriverError> {
        match self.call(Request::Counters(counter_id))? {
            Reply::Counters(counted) => Ok(counted),
            _ => Ok(Vec::new()),
        }
    }

    /// What was sent to the switch so far.
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Tally { passes, writes, updates, pushes } = &*self.0.shared.tally;
        Counts { passes: read(passes), writes: read(writes), updates: read(updates), pushes: read(pushes) }
    }

    fn up(&self) -> Result<(), DriverError> {
        match &*self.0.shared.phase() {
            Phase::Up => Ok(()),
            Phase::Down(reason) => Err(self.0.shared.unreachable(reason.clone())),
        }
    }

    fn call(&self, request: Request) -> CallResult {
        if !request.takes_away() {
            self.up()?;
        }
        let gone = |reason: &str| self.0.shared.unreachable(reason.into());
        let (call, ticket) = Call::new(request);
        self.0.calls.send(call).map_err(|_| gone("its thread has ended"))?;
        ticket.wait(self.0.call_timeout).unwrap_or_else(|| Err(gone("it is busy, or its thread has ended")))
    }
}

impl Managed {
    fn release_now(&self, Release { first_slot, slots, epoch }: Release) -> Result<(), DriverError> {
        let mut controls = self.0.controls.lock().unwrap_or_else(PoisonError::into_inner);
        controls.nonce = controls.nonce.wrapping_add(1);
        let nonce = controls.nonce;
        release(controls.port.as_mut(), nonce, (first_slot, slots), epoch)
    }

    /// Releases what was to be released while the switch was down.
    fn release_left(&self) -> Result<(), DriverError> {
        loop {
            let Some(next) = self.0.shared.unreleased().last().copied() else { return Ok(()) };
            self.up()?;
            self.release_now(next)?;
            self.0.shared.unreleased().retain(|left| left.epoch != next.epoch);
        }
    }
}

fn limits(profile: &Profile, config: &ManagedConfig) -> Limits {
    Limits {
        slots: config.slots.map_or(profile.slots, |slots| slots.min(profile.slots)),
        multipath: matches!(config.attachment, Attachment::Attached),
        authenticates: matches!(config.attachment, Attachment::Attached) && config.is_private(),
        ..Limits::of(profile, config.udp_port)
    }
}

impl SwitchDriver for Managed {
    fn limits(&self) -> Limits {
        self.0.limits
    }

    fn numerics(&self) -> Numerics {
        self.0.numerics
    }

    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        self.bind_ports(port, peer, 1)
    }

    fn bind_ports(&mut self, port: u16, peer: SocketAddr, udp_ports: u8) -> Result<(), DriverError> {
        self.call(Request::Bind { port, peer, udp_ports }).map(drop)
    }

    fn authenticate(&mut self, port: u16, keys: &JobKeys) -> Result<(), DriverError> {
        self.call(Request::Authenticate { port, keys: keys.clone() }).map(drop)
    }

    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.call(Request::Unbind(port)).map(drop)
    }

    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.release_left()?;
        self.call(Request::Insert(entries.to_vec())).map(drop)
    }

    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.call(Request::Delete(entries.to_vec())).map(drop)
    }

    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        if group == 0 || group > self.0.limits.groups_max {
            return Err(EntryError::Group(group).into());
        }
        self.call(Request::SetGroup(group, replicas.to_vec())).map(drop)
    }

    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        self.call(Request::DeleteGroup(group)).map(drop)
    }

    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.0.limits.slots && slots > 0);
        end.ok_or(EntryError::Param(0))?;
        self.up()?;
        let mut controls = self.0.controls.lock().unwrap_or_else(PoisonError::into_inner);
        controls.nonce = controls.nonce.wrapping_add(1);
        let nonce = controls.nonce;
        advance(controls.port.as_mut(), nonce, first_slot, slots, chunk)
    }

    fn release(&mut self, first_slot: u32, slots: u32, epoch: u32) -> Result<(), DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.0.limits.slots);
        end.ok_or(EntryError::Param(0))?;
        let release = Release { first_slot, slots, epoch };
        if self.up().is_ok() {
            return self.release_now(release);
        }
        self.0.shared.unreleased().push(release);
        Ok(())
    }

    fn spilled(&mut self, group: u16) -> Result<u64, DriverError> {
        match self.call(Request::Cell(counter_id(id::SPILLED), group))? {
            Reply::Counters(counted) => Ok(counted.into_iter().sum()),
            _ => Ok(0),
        }
    }

    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        let end = first_slot.checked_add(slots).filter(|end| *end <= self.0.limits.slots);
        end.ok_or(EntryError::Param(0))?;
        self.up()?;
        let mut controls = self.0.controls.lock().unwrap_or_else(PoisonError::into_inner);
        controls.nonce = controls.nonce.wrapping_add(1);
        let nonce = controls.nonce;
        read_slots(controls.port.as_mut(), nonce, first_slot, slots)
    }
}
