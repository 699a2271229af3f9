//! The thread that keeps a switch as it is asked for: connects, elects, compares, repairs, and carries out calls.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use netfold_p4::allreduce::id;
use netfold_p4::p4info;
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::state::{Changes, Observed, group_entity, update};
use netfold_p4_runtime::v1::UpdateType;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::super::call::{Remote, RemoteAddress, chain, system_dialer};
use super::super::driver::{PeerPort, refused};
use super::super::error::P4RuntimeError;
use super::super::peers::{Attachment, PortError};
use super::super::pipeline::Pipeline;
use super::super::stream::{Arbitration, Stream};
use super::super::tls::Dial;
use super::call::{Call, CallResult, Reply, Request};
use super::desired::{Bound, Desired, port_error};
use super::ports::{self, Description};
use super::session::Session;
use super::{ManagedConfig, Phase, Repaired, Shared, SwitchEvent, limits};
use netfold_controller::driver::{DriverError, Limits};

/// Comparisons in a row, each of which finds what the one before has left, before the switch counts as broken.
const PASSES_MAX: usize = 4;

/// Parts of the time for which no controller must be in charge before a greater election id is outbid.
const VACANCY_STEPS: u32 = 20;

/// The listener that receives events.
pub(super) type Listener = Box<dyn FnMut(SwitchEvent) + Send>;

/// The state of a managed switch that its thread owns.
pub(super) struct Keeper {
    pub(super) config: ManagedConfig,
    pub(super) pipeline: Pipeline,
    pub(super) desired: Desired,
    pub(super) limits: Limits,
    pub(super) shared: Arc<Shared>,
    calls: mpsc::UnboundedReceiver<Call>,
    listener: Listener,
    backoff: Backoff,
    environment: Environment,
    /// The reason that was reported last.
    reported_down: Option<String>,
    /// The switch has lost what its slots held, and that is not reported yet.
    has_lost: bool,
    /// Groups whose last change failed. Some switches forget half of such a group and say that they have all of it.
    pub(super) doubtful: BTreeSet<u16>,
}

/// What the keeper does not decide by itself.
pub(super) struct Environment {
    /// How it connects.
    pub(super) dialer: Arc<dyn Dial>,
    /// By how much it varies its waits.
    pub(super) rng: StdRng,
}

impl Environment {
    /// The system's network and random numbers.
    pub(super) fn system(config: &ManagedConfig) -> Self {
        let dialer = system_dialer(&config.address, config.connect_within);
        Self { dialer, rng: StdRng::seed_from_u64(RandomState::new().build_hasher().finish()) }
    }
}

/// A change that was not made, or not surely. With a reason, the connection is of no more use.
pub(super) struct Failure {
    pub(super) error: DriverError,
    pub(super) lost: Option<String>,
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        Self { error, lost: None }
    }
}

impl From<P4RuntimeError> for Failure {
    /// Of a request of which nothing is to be taken back.
    fn from(error: P4RuntimeError) -> Self {
        let passed = matches!(
            error,
            P4RuntimeError::NoPipeline { .. } | P4RuntimeError::Refused { code: Code::PermissionDenied, .. }
        );
        let lost = (passed || error.is_ambiguous()).then(|| error.to_string());
        Self { error: refused(error), lost }
    }
}

/// Waits that grow, each a random part shorter so that switches that went together are not tried together.
struct Backoff {
    bounds: (Duration, Duration),
    next: Duration,
}

impl Backoff {
    fn new(bounds: (Duration, Duration)) -> Self {
        Self { bounds, next: bounds.0 }
    }

    fn reset(&mut self) {
        self.next = self.bounds.0;
    }

    fn wait(&mut self, rng: &mut StdRng) -> Duration {
        let wait = self.next.min(self.bounds.1);
        self.next = (wait * 2).min(self.bounds.1);
        wait / 2 + (wait / 2).mul_f64(rng.random())
    }
}

impl Keeper {
    pub(super) fn new(
        config: ManagedConfig,
        environment: Environment,
        pipeline: Pipeline,
        desired: Desired,
        shared: Arc<Shared>,
        calls: mpsc::UnboundedReceiver<Call>,
        listener: Listener,
    ) -> Result<Self, P4RuntimeError> {
        let mut keeper = Self {
            limits: limits(&pipeline.profile, &config),
            backoff: Backoff::new(config.retry),
            environment,
            config,
            pipeline,
            desired,
            shared,
            calls,
            listener,
            reported_down: None,
            has_lost: false,
            doubtful: BTreeSet::new(),
        };
        let bound: Vec<(u16, SocketAddr)> =
            keeper.desired.ports.iter().map(|(port, bound)| (*port, bound.peer)).collect();
        let held = |error: DriverError| P4RuntimeError::Config {
            switch: keeper.shared.name.clone(),
            what: format!("what is said to be there already cannot be: {}", error.chain()),
        };
        for (port, peer) in bound {
            let at = keeper.known(port, peer).map_err(held)?;
            if let Some(bound) = keeper.desired.ports.get_mut(&port) {
                bound.at = at;
            }
        }
        keeper.desired.check().map_err(held)?;
        Ok(keeper)
    }

    /// Where a peer is, as far as that is known without asking the switch.
    pub(super) fn known(&self, port: u16, peer: SocketAddr) -> Result<Option<PeerPort>, DriverError> {
        if port >= self.limits.ports_max {
            return Err(port_error(port, PortError::Number));
        }
        let Attachment::Known(places) = &self.config.attachment else { return Ok(None) };
        let SocketAddr::V4(peer) = peer else {
            return Err(port_error(port, PortError::NotIpv4(peer)));
        };
        let at = places.find(peer).ok_or_else(|| port_error(port, PortError::Unknown(peer)))?;
        if at.port == 0 || at.port == self.desired.cpu_port {
            return Err(port_error(port, PortError::Reserved(at.port)));
        }
        Ok(Some(at))
    }

    /// Runs until the last handle is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let connecting = connect(&self.config, &self.environment.dialer, &self.shared);
            let Some(connected) =
                meanwhile(&mut self.calls, &mut self.desired, &self.shared, connecting).await
            else {
                return;
            };
            let reason = match connected {
                Ok(mut session) => {
                    self.shared.line.open(session.stream.requests());
                    let reason = self.attend(&mut session).await;
                    self.shared.line.close();
                    reason
                }
                Err(error) => chain(&error),
            };
            self.down(reason);
            let pause = sleep(self.backoff.wait(&mut self.environment.rng));
            if meanwhile(&mut self.calls, &mut self.desired, &self.shared, pause).await.is_none() {
                return;
            }
        }
    }

    /// Goes along with the elections of one stream. Returns why the connection is of no more use.
    async fn attend(&mut self, session: &mut Session) -> String {
        loop {
            match session.stream.arbitration() {
                Arbitration::Primary => {
                    if let Err(reason) = self.serve(session).await {
                        return reason;
                    }
                }
                Arbitration::Backup { highest } => {
                    let switch = self.shared.name.clone();
                    let ours = session.stream.election_id();
                    self.down(P4RuntimeError::NotPrimary { switch, ours, highest }.to_string());
                    let changed = session.stream.changed();
                    if meanwhile(&mut self.calls, &mut self.desired, &self.shared, changed).await.is_none() {
                        return String::new();
                    }
                }
                Arbitration::Vacant { highest } => {
                    self.down("no controller is in charge".into());
                    match self.stays_vacant(session).await {
                        None => return String::new(),
                        Some(false) => continue,
                        Some(true) => {}
                    }
                    let bid = session.stream.election_id().max(highest.saturating_add(1));
                    if let Err(error) = session.stream.bid_again(&session.remote, bid).await {
                        return chain(&error);
                    }
                }
                Arbitration::Ended { message, .. } => return format!("the stream has ended: {message}"),
                Arbitration::Unknown => session.stream.changed().await,
            }
        }
    }

    /// Whether no controller takes charge of the switch for [`ManagedConfig::outbid_after`]. `None` when the last handle is dropped.
    async fn stays_vacant(&mut self, session: &mut Session) -> Option<bool> {
        let step = self.config.outbid_after / VACANCY_STEPS;
        if step.is_zero() {
            return Some(true);
        }
        let vacant = async {
            tokio::select! {
                biased;
                () = session.stream.changed() => false,
                // A process that is suspended meanwhile has waited for one step.
                () = async { for _ in 0..VACANCY_STEPS { sleep(step).await } } => true,
            }
        };
        meanwhile(&mut self.calls, &mut self.desired, &self.shared, vacant).await
    }

    /// Serves a switch that we are in charge of, as long as we are. Returns why the connection is of no more use, if it is
    /// not.
    async fn serve(&mut self, session: &mut Session) -> Result<(), String> {
        if !self.take_over(session).await.map_err(|failure| describe(&failure))? {
            return Ok(());
        }
        self.backoff.reset();
        let ticks = |every| {
            let mut ticks = interval_at(Instant::now() + every, every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        let (mut checks, mut resyncs) = (ticks(self.config.check_every), ticks(self.config.resync_every));
        loop {
            tokio::select! {
                biased;
                () = session.stream.changed() => {
                    if session.stream.arbitration() != Arbitration::Primary {
                        return Ok(());
                    }
                }
                call = self.calls.recv() => {
                    // Dropping the last handle stops this thread.
                    let Some(call) = call else { return Err("its last handle was dropped".into()) };
                    self.answer(session, call).await?;
                }
                _ = resyncs.tick() => {
                    self.resync(session).await.map_err(|failure| describe(&failure))?;
                    self.tell_counters(session).await.map_err(|error| chain(&error))?;
                }
                _ = checks.tick() => match session.is_alive(self.pipeline.cookie).await {
                    Ok(true) => {}
                    Ok(false) => return Err("it does not run our pipeline any more".into()),
                    Err(error) => return Err(chain(&error)),
                },
            }
        }
    }

    /// Brings the switch into its desired state, and reports the result; false when another controller is in charge meanwhile.
    async fn take_over(&mut self, session: &Session) -> Result<bool, Failure> {
        let described = match self.config.attachment {
            Attachment::Attached => Description::of(&session.remote, &self.config.address).await?,
            Attachment::Known(_) => Description::default(),
        };
        if let Some(cpu_port) = described.cpu_port {
            self.desired.cpu_port = cpu_port;
        }
        let pushed = session.load(&self.pipeline).await?;
        let observed = session.observe(&self.pipeline).await;
        let observed = observed.map_err(|error| if pushed { misfit(error) } else { error })?;
        let rebooted = self.config.boot.is_some() && self.config.boot != described.boot;
        let emptied = !self.desired.entries.is_empty() && observed.is_empty();
        // After the first attempt nothing shows the loss any more: it is remembered until it is reported.
        let fresh = self.has_lost || pushed || rebooted || emptied;
        self.has_lost = fresh;
        if fresh {
            self.desired.forget();
            self.doubtful.clear();
            self.shared.unreleased().clear();
        }
        self.config.boot.clone_from(&described.boot);
        let repaired = self.reconcile(session, Some(observed)).await?;
        if !session.stream.is_primary() {
            return Ok(false);
        }
        let (limits, numerics) = (self.limits, self.pipeline.profile.numerics);
        self.reported_down = None;
        let up = SwitchEvent::Up { fresh, limits, numerics, boot: described.boot, data: described.data };
        (self.listener)(up);
        self.has_lost = false;
        if !fresh && !repaired.is_nothing() {
            (self.listener)(SwitchEvent::Repaired(repaired));
        }
        *self.shared.phase() = Phase::Up;
        Ok(true)
    }

    fn down(&mut self, reason: String) {
        *self.shared.phase() = Phase::Down(reason.clone());
        if self.reported_down.as_ref() != Some(&reason) {
            self.reported_down = Some(reason.clone());
            (self.listener)(SwitchEvent::Down { reason });
        }
    }

    async fn resync(&mut self, session: &Session) -> Result<Repaired, Failure> {
        let repaired = self.reconcile(session, None).await?;
        if !repaired.is_nothing() {
            (self.listener)(SwitchEvent::Repaired(repaired));
        }
        Ok(repaired)
    }

    async fn tell_counters(&mut self, session: &Session) -> Result<(), P4RuntimeError> {
        let packets = session.counters(p4info::counter_id(id::PACKETS)).await?;
        let answers = session.counters(p4info::counter_id(id::ANSWERS)).await?;
        (self.listener)(SwitchEvent::Counters { packets, answers });
        Ok(())
    }

    /// Compares what the switch holds, or was seen to hold, with what it should, and writes the differences; again, when some
    /// were refused.
    pub(super) async fn reconcile(
        &mut self,
        session: &Session,
        mut seen: Option<Observed>,
    ) -> Result<Repaired, Failure> {
        let mut repaired = self.reconcile_ports(session).await?;
        let wanted = self.desired.state()?;
        let broken = |source| P4RuntimeError::Schema { switch: session.remote.switch.clone(), source };
        let mut last = None;
        for _ in 0..PASSES_MAX {
            session.tally.passes.fetch_add(1, Relaxed);
            let observed = match seen.take().filter(|_| self.doubtful.is_empty()) {
                Some(seen) => seen,
                None => {
                    let delete = |group: &u16| update(UpdateType::Delete, group_entity(*group, &[]));
                    let doubtful = self.doubtful.iter().map(delete).collect();
                    session.write(vec![doubtful], Some(&self.pipeline)).await?;
                    self.doubtful.clear();
                    session.observe(&self.pipeline).await?
                }
            };
            let changes = Changes::between(&self.pipeline.schema, observed, &wanted).map_err(broken)?;
            let Changes { inserted, removed, modified, .. } = changes;
            let groups = changes.groups.clone();
            match session.write(changes.steps, Some(&self.pipeline)).await {
                Ok(()) => {
                    repaired.inserted += inserted;
                    repaired.removed += removed;
                    repaired.modified += modified;
                    return Ok(repaired);
                }
                // Another controller has written meanwhile, or there was no room until others' entries were removed.
                Err(error @ P4RuntimeError::Write { .. }) => {
                    self.doubtful.extend(groups);
                    last = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        match last {
            Some(error) => {
                let lost = Some(chain(&error));
                Err(Failure { error: refused(error), lost })
            }
            None => Ok(repaired),
        }
    }

    /// Has the switch's ports be those of the peers that are bound.
    async fn reconcile_ports(&mut self, session: &Session) -> Result<Repaired, Failure> {
        let mut repaired = Repaired::default();
        if matches!(self.config.attachment, Attachment::Known(_)) {
            return Ok(repaired);
        }
        let there = ports::list(&session.remote).await?;
        let wanted: BTreeSet<SocketAddr> = self.desired.ports.values().map(|bound| bound.peer).collect();
        for (peer, _) in there.iter().filter(|(peer, held)| !held.fixed && !wanted.contains(peer)) {
            ports::detach(session, *peer, None).await?;
            repaired.removed += 1;
        }
        let wanted: BTreeSet<_> = self.desired.ports.values().filter_map(Bound::keyed).collect();
        for (peer, held) in &there {
            for (job, epoch) in &held.authenticated {
                if !wanted.contains(&(*peer, *job, *epoch)) {
                    ports::detach(session, *peer, Some((*job, *epoch))).await?;
                    repaired.removed += 1;
                }
            }
        }
        for bound in self.desired.ports.values_mut() {
            let held = there.get(&bound.peer);
            let has_keys = bound.keys.as_ref().is_none_or(|keys| {
                held.is_some_and(|held| held.authenticated.contains(&(keys.job, keys.epoch)))
            });
            bound.at = match held {
                Some(held) if has_keys => Some(held.at),
                _ => {
                    repaired.inserted += 1;
                    Some(ports::attach(session, (bound.peer, bound.udp_ports), bound.keys.as_ref()).await?)
                }
            };
        }
        Ok(repaired)
    }

    /// Carries out a call. An error is why the connection is of no more use.
    async fn answer(&mut self, session: &Session, call: Call) -> Result<(), String> {
        let Some((request, reply)) = call.take() else { return Ok(()) };
        let (answer, lost) = match self.carry_out(session, request).await {
            Ok(reply) => (Ok(reply), None),
            Err(Failure { error, lost }) => (Err(error), lost),
        };
        if let Some(reason) = &lost {
            // The caller's next call must not be carried out on a switch whose contents are unknown.
            *self.shared.phase() = Phase::Down(reason.clone());
        }
        // The caller waits, unless it was killed.
        let _ = reply.send(answer);
        lost.map_or(Ok(()), Err)
    }

    async fn carry_out(&mut self, session: &Session, request: Request) -> Result<Reply, Failure> {
        match request {
            Request::Bind { port, peer, udp_ports } => self.bind(session, port, (peer, udp_ports)).await?,
            Request::Authenticate { port, keys } => self.authenticate(session, port, keys).await?,
            Request::Unbind(port) => self.unbind(session, port).await?,
            Request::Insert(entries) => self.insert(session, entries).await?,
            Request::Delete(entries) => self.delete(session, entries).await?,
            Request::SetGroup(group, replicas) => self.set_group(session, group, replicas).await?,
            Request::DeleteGroup(group) => self.delete_group(session, group).await?,
            Request::Resync => return self.resync(session).await.map(Reply::Repaired),
            Request::Cell(counter, cell) => {
                return Ok(Reply::Counters(vec![session.cell(counter, cell).await?]));
            }
            Request::Counters(counter) => return Ok(Reply::Counters(session.counters(counter).await?)),
        }
        Ok(Reply::Done)
    }
}

pub(super) fn describe(failure: &Failure) -> String {
    failure.lost.clone().unwrap_or_else(|| failure.error.chain())
}

/// The error for a switch that takes a pipeline and then has none of its tables. bmv2 does that with any JSON object.
fn misfit(error: P4RuntimeError) -> P4RuntimeError {
    match error {
        P4RuntimeError::Refused { switch, code, message, .. } => {
            let message = format!("the device configuration is not that of the program: {message}");
            P4RuntimeError::Pipeline { switch, code, message }
        }
        error => error,
    }
}

/// Connects and bids.
async fn connect(
    config: &ManagedConfig,
    dialer: &Arc<dyn Dial>,
    shared: &Shared,
) -> Result<Session, P4RuntimeError> {
    let address = RemoteAddress {
        switch: shared.name.clone(),
        device_id: config.device_id,
        address: &config.address,
        tls: config.tls.as_ref(),
        dialer: Arc::clone(dialer),
        connect_within: config.connect_within,
        within: config.call_within,
    };
    let remote = Remote::connect_once(address).await?;
    let stream = Stream::enter(&remote, config.election_id, Arc::clone(&shared.line)).await?;
    Ok(Session { remote, stream, tally: Arc::clone(&shared.tally) })
}

/// Waits for a future while calls are refused, except removals. `None` when the last handle is dropped.
async fn meanwhile<T>(
    calls: &mut mpsc::UnboundedReceiver<Call>,
    desired: &mut Desired,
    shared: &Shared,
    something: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(something);
    loop {
        tokio::select! {
            biased;
            done = &mut something => return Some(done),
            call = calls.recv() => {
                let Some((request, reply)) = call?.take() else { continue };
                let _ = reply.send(while_down(desired, shared, &request));
            }
        }
    }
}

/// The answer to a call while the switch is down.
fn while_down(desired: &mut Desired, shared: &Shared, request: &Request) -> CallResult {
    match request {
        Request::Unbind(port) => drop(desired.ports.remove(port)),
        Request::Delete(entries) => desired.drop_entries(entries),
        Request::DeleteGroup(group) => drop(desired.groups.remove(group)),
        _ => {
            let reason = match &*shared.phase() {
                Phase::Down(reason) => reason.clone(),
                Phase::Up => "it is being connected".into(),
            };
            return Err(shared.unreachable(reason));
        }
    }
    Ok(Reply::Done)
}
