//! An engine without its switch: the ranks do the operations of its tree among themselves until they are attached again.
//!
//! They have lost the switch, or have given its slots back because they were idle. In the first case they join again at once, and do operations among
//! themselves meanwhile; in the second case when the next operation is submitted, which waits for the switch.

use std::collections::VecDeque;
use std::time::Duration;

use crate::failover;
use crate::idle::IdleIo;

use netfold_control::RankEventKind;
use netfold_proto::{Instant, LivenessMonitor};

use super::{Engine, IDLE_WAIT, Segmentation, TxBurst};
use crate::confidential::{Members, agree};
use crate::error::Error;
use crate::lower::SwitchOperation;
use crate::mailbox::Command;
use crate::peers::{self, AGREEMENT_TIMEOUT, Peers, Proposal, RoundOutcome};
use crate::rejoin::{NewAttachment, Rejoin};
use crate::report::Stats;

/// How often the engine polls whether other ranks wait for this one, or the rank is attached again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How soon a rank without work takes part in a second round.
const ROUND_INTERVAL: Duration = Duration::from_millis(300);

/// How often an idle engine polls whether other ranks wait for this one: those that have an operation while this one has none.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// For how long the first operation after an idle time waits for the switch, where other ranks have no operation yet or the control port does not answer.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

/// The same once another rank proposes to do the operation among the ranks: longer than admissions of one job are apart.
const CALLED_TIMEOUT: Duration = Duration::from_millis(250);

/// Why an engine stops using its switch.
pub(super) enum Departure {
    /// It has lost the switch, or the job is over.
    Lost(Error),
    /// Another rank waits for an agreement: it has lost the switch, or was idle.
    Called,
    /// It has had no operation for the idle timeout.
    Idle,
}

impl Departure {
    /// Whether the ranks may continue without the switch.
    pub(super) fn allows_failover(&self) -> bool {
        match self {
            Self::Lost(error) => failover::allows_failover(error),
            Self::Called | Self::Idle => true,
        }
    }

    /// The error of operations, where the ranks cannot.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Lost(error) => error,
            // Not reached: only engines with peers are called or become idle.
            Self::Called | Self::Idle => Error::EngineFailed,
        }
    }
}

/// How long an engine may be without operations before it gives its slots back.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleTimer {
    timeout: Duration,
    since: Instant,
}

impl IdleTimer {
    pub(super) fn new(timeout: Duration, now: Instant) -> Self {
        Self { timeout, since: now }
    }

    /// Time until the timeout is over.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.timeout.saturating_sub(now - self.since)
    }

    /// Whether the timeout is over; `busy`: there are operations.
    fn is_over(&mut self, now: Instant, busy: bool) -> bool {
        if busy {
            self.since = now;
        }
        self.left(now).is_zero()
    }
}

/// What a rank has while it continues without the switch.
struct FailoverState {
    /// The ranks were idle: they join again when there is an operation.
    idle: bool,
    /// When the operation that waits for the switch is done without it.
    attach_until: Option<Instant>,
    rejoin: Option<Box<dyn Rejoin>>,
    /// The next operations, until all ranks execute them: those that had not begun when the switch was lost, or one.
    waiting: VecDeque<SwitchOperation>,
    /// When a rank without operations takes part in rounds again; `None` once a rank is lost.
    next_round: Option<Instant>,
}

impl FailoverState {
    fn new(waiting: VecDeque<SwitchOperation>, idle: bool, now: Instant) -> Self {
        Self { idle, attach_until: None, rejoin: None, waiting, next_round: Some(now) }
    }
}

impl Engine {
    /// Why to stop using the switch, if there is a reason.
    pub(super) fn departure(&mut self, now: Instant) -> Option<Departure> {
        let peers = self.peers.as_ref()?;
        if now - self.polled_at >= POLL_INTERVAL {
            self.polled_at = now;
            if peers.is_called() {
                return Some(Departure::Called);
            }
        }
        let busy =
            self.streams.len() > 0 || self.backlog || self.stop_when_idle || self.iterations.is_waiting();
        self.idle.as_mut()?.is_over(now, busy).then_some(Departure::Idle)
    }

    /// Works without the switch: until the ranks have one again, or the job is over.
    pub(super) fn fail_over(&mut self, peers: &mut dyn Peers, departure: Departure) -> Result<(), Error> {
        let lost = match &departure {
            Departure::Lost(cause) => Some(cause.to_string()),
            Departure::Called | Departure::Idle => None,
        };
        if let Some(cause) = &lost {
            self.note_loss(cause);
            if let Some(control) = &self.control
                && self.tree.grace.is_zero()
            {
                // Without a grace period the control port then notifies the other ranks.
                control.abort();
            }
        }
        self.mailbox.set_busy();
        let waiting = self.streams.reconcile(peers)?;
        let idle = peers::agree_on_max(u64::from(lost.is_some()), peers)? == 0;
        if !idle && lost.is_none() {
            self.note_loss("another rank continues without it");
        }
        self.continue_without_switch(peers, FailoverState::new(waiting, idle, self.clock.now()))
    }

    /// Works without a switch from the beginning, until there is an operation for it.
    pub(super) fn begin_idle(&mut self, peers: &mut dyn Peers) -> Result<(), Error> {
        self.continue_without_switch(peers, FailoverState::new(VecDeque::new(), true, self.clock.now()))
    }

    fn note_loss(&mut self, cause: &str) {
        let rank = self.streams.config().rank;
        log::warn!("rank {rank}: continuing without the switch of tree {}: {cause}", self.tree.index);
        self.tree.counters.count_loss();
        self.flight.note(self.clock.now(), RankEventKind::SwitchLost, None);
        self.path.set_lost(self.tree.index, cause.to_owned());
    }

    fn continue_without_switch(
        &mut self,
        peers: &mut dyn Peers,
        mut state: FailoverState,
    ) -> Result<(), Error> {
        let outcome = self.recover(peers, &mut state);
        match outcome {
            Ok(new) => {
                self.resume_on(new, state.idle);
                // What was next is the first operation there.
                state.waiting.into_iter().for_each(|operation| self.submit(operation));
                Ok(())
            }
            Err(error) => {
                for operation in state.waiting {
                    operation.fail(error.clone());
                }
                Err(error)
            }
        }
    }

    /// Executes operations among the ranks until all are attached again: at once, or once they have an operation.
    fn recover(&mut self, peers: &mut dyn Peers, state: &mut FailoverState) -> Result<NewAttachment, Error> {
        // All ranks know of the loss now, so none waits for this one at the switch.
        self.control.take().iter().for_each(|control| control.leave());
        if state.idle {
            let rank = self.streams.config().rank;
            log::debug!("rank {rank}: idle, without slots of the switch of tree {}", self.tree.index);
            self.path.set_idle(self.tree.index);
            self.earlier.add(&Stats { io: self.io.counters(), ..Stats::default() });
            self.io = Box::new(IdleIo);
            self.mailbox.set_waker(self.io.waker());
        } else {
            self.reroute(peers, true)?;
            self.start_rejoin(state)?;
        }
        self.run_without_switch(peers, state)
    }

    fn start_rejoin(&mut self, state: &mut FailoverState) -> Result<(), Error> {
        if let Some(joiner) = &self.tree.joiner {
            state.rejoin = Some(joiner.start(&self.mailbox, &self.tree.counters)?);
        }
        Ok(())
    }

    /// Whether the operation that comes next waits for the switch: all ranks that were idle join again for it. What comes of that is shown in the
    /// path.
    fn awaits_switch(&mut self, peers: &dyn Peers, state: &mut FailoverState) -> Result<bool, Error> {
        // After the loss of a rank there is nothing to wait for.
        if !state.idle || state.waiting.is_empty() || state.next_round.is_none() {
            return Ok(false);
        }
        let now = self.clock.now();
        if state.rejoin.is_none() {
            self.start_rejoin(state)?;
            state.attach_until = Some(now + ATTACH_TIMEOUT);
        }
        let Some(rejoin) = &state.rejoin else { return Ok(false) };
        if rejoin.id().is_some() {
            return Ok(false);
        }
        let Some(until) = &mut state.attach_until else { return Ok(false) };
        if peers.is_called() {
            *until = (*until).min(now + CALLED_TIMEOUT);
        }
        let refusal = rejoin.refusal();
        let lost = peers.has_lost_rank();
        if refusal.is_none() && !lost && now < *until {
            return Ok(true);
        }
        state.attach_until = None;
        if lost {
            return Ok(false);
        }
        let reason = refusal.unwrap_or_else(|| "not all ranks are attached to it yet".to_owned());
        log::info!("rank {}: continuing without the switch: {reason}", self.streams.config().rank);
        self.path.set_lost(self.tree.index, reason);
        Ok(false)
    }

    /// Executes operations among the ranks until all are attached again.
    fn run_without_switch(
        &mut self,
        peers: &mut dyn Peers,
        state: &mut FailoverState,
    ) -> Result<NewAttachment, Error> {
        loop {
            let _ = self.mailbox.take_notification();
            let room = usize::from(state.waiting.is_empty());
            let command = self.mailbox.collect(room, &mut self.inbox, None);
            state.waiting.extend(self.inbox.pop());
            match command {
                Command::End(error) => return Err(error),
                Command::StopWhenIdle if state.waiting.is_empty() => return Err(Error::Closed),
                Command::Work | Command::StopWhenIdle => {}
            }
            if self.awaits_switch(peers, state)? {
                peers.sleep(&self.mailbox, POLL_INTERVAL);
                continue;
            }
            let attachment = state.rejoin.as_ref().and_then(|rejoin| rejoin.id());
            if state.waiting.is_empty() {
                let now = self.clock.now();
                let may_take_part = state.next_round.is_some_and(|at| at <= now);
                if !may_take_part || attachment.is_none() && !peers.is_called() {
                    let timeout = match state.next_round {
                        None => IDLE_WAIT,
                        Some(_) if state.idle && state.rejoin.is_none() => IDLE_POLL_INTERVAL,
                        Some(_) => POLL_INTERVAL,
                    };
                    peers.sleep(&self.mailbox, timeout);
                    continue;
                }
            }
            let op = state.waiting.front().map(|operation| operation.request.spec.descriptor);
            if op.is_some() {
                self.mailbox.set_busy();
            }
            match peers::negotiate(&Proposal { op, attachment }, peers) {
                Ok(RoundOutcome::Rejoin) => {
                    let new = state.rejoin.as_ref().and_then(|rejoin| rejoin.take());
                    if !state.idle {
                        self.reroute(peers, false)?;
                    }
                    let mut new = new.ok_or(Error::EngineFailed)?;
                    self.mask(&mut new, peers)?;
                    return Ok(new);
                }
                Ok(RoundOutcome::Execute) => {
                    if let Some(operation) = state.waiting.pop_front() {
                        self.streams.execute(peers, operation)?;
                    }
                }
                Ok(RoundOutcome::Retry) => state.next_round = Some(self.clock.now() + ROUND_INTERVAL),
                Err(error) if op.is_some() => return Err(error),
                // No operation is affected yet: the lost rank may have finished.
                Err(_) => (state.next_round, state.rejoin) = (None, None),
            }
        }
    }

    /// Agrees with all ranks from which operation on this tree is excluded, or included again.
    fn reroute(&mut self, peers: &mut dyn Peers, excluded: bool) -> Result<(), Error> {
        if self.tree.route.is_single() {
            return Ok(());
        }
        let frozen = self.tree.route.freeze();
        let from = peers::agree_on_max(frozen.next(), peers)?;
        frozen.set(usize::from(self.tree.index), excluded, from);
        Ok(())
    }

    /// Agrees on the key of a new attachment, where the job is confidential.
    fn mask(&self, new: &mut NewAttachment, peers: &mut dyn Peers) -> Result<(), Error> {
        let config = self.tree.joiner.as_ref().map(|joiner| joiner.config());
        let Some((config, group)) = config.and_then(|config| Some((config, config.group_key.as_ref()?)))
        else {
            return Ok(());
        };
        let job = config.job.as_deref().unwrap_or_default();
        let (index, count) = (self.streams.config().rank, self.streams.config().world);
        let gather = |mine: &[u8]| peers.all_gather(mine, AGREEMENT_TIMEOUT);
        let agreed = agree(group, Members { job, index, count }, gather)?;
        new.attachment.mask(&agreed, self.tree.index);
        Ok(())
    }

    /// Continues at the new attachment, after the loss of one or an idle time.
    fn resume_on(&mut self, new: NewAttachment, idle: bool) {
        let NewAttachment { attachment, control, events } = new;
        let (worker, io) = (self.streams.stats(), self.io.counters());
        self.earlier.add(&Stats { worker, io, ..Stats::default() });
        self.path.set_attached(attachment.describe(self.tree.index), attachment.control);
        if !idle {
            self.tree.counters.count_return();
        }
        let now = self.clock.now();
        self.flight.reattached(now);
        self.iterations.interrupt();
        if let Some(timer) = &mut self.idle {
            *timer = IdleTimer::new(timer.timeout, now);
        }
        self.tree.grace = attachment.grace();
        self.tree.last.set(control.clone(), self.tree.grace);
        let mut streams = attachment.streams;
        streams.continue_from(&self.streams);
        streams.retain_results();
        (self.io, self.streams) = (attachment.io, streams);
        let capabilities = self.io.capabilities();
        let config = self.streams.config();
        self.rx = capabilities.batch();
        self.tx = TxBurst::new(super::burst(&capabilities), config.datagram_len_max());
        self.liveness = control.is_some().then(LivenessMonitor::new);
        self.segmentation = Segmentation::new();
        self.mailbox.set_waker(self.io.waker());
        (self.control, self.events) = (control, events);
        (self.departed, self.busy_turns, self.backlog) = (None, 0, true);
        let (rank, job, epoch) = (config.rank, config.admission.job, config.admission.epoch);
        let tree = self.tree.index;
        let level = if idle { log::Level::Debug } else { log::Level::Info };
        log::log!(level, "rank {rank}: attached to a switch in tree {tree}, as job {job} in epoch {epoch}");
    }
}
