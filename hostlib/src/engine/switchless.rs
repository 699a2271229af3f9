//! An engine that has lost its switch: the ranks do the operations of its tree among themselves until they are attached again.

use std::collections::VecDeque;
use std::time::Duration;

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

/// What a rank has while it continues without the switch.
struct FailoverState {
    rejoin: Option<Box<dyn Rejoin>>,
    /// The next operations, until all ranks execute them: those that had not begun when the switch was lost, or one.
    waiting: VecDeque<SwitchOperation>,
    /// When a rank without operations takes part in rounds again; `None` once a rank is lost.
    next_round: Option<Instant>,
}

impl Engine {
    /// Works without the switch, which was lost by `cause`: until the ranks have one again, or the job is over.
    pub(super) fn fail_over(&mut self, peers: &mut dyn Peers, cause: Error) -> Result<(), Error> {
        let rank = self.streams.config().rank;
        log::warn!("rank {rank}: continuing without the switch of tree {}: {cause}", self.tree.index);
        self.tree.counters.count_loss();
        self.flight.note(self.clock.now(), RankEventKind::SwitchLost, None);
        self.mailbox.set_busy();
        let may_be_away = !self.tree.grace.is_zero();
        if let Some(control) = &self.control
            && !may_be_away
        {
            // Without a grace period the control port then notifies the other ranks.
            control.abort();
        }
        self.path.set_lost(self.tree.index, cause.to_string());
        let waiting = self.streams.reconcile(peers)?;
        let mut state = FailoverState { rejoin: None, waiting, next_round: Some(self.clock.now()) };
        let outcome = self.recover(peers, &mut state);
        match outcome {
            Ok(new) => {
                self.resume_on(new);
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

    /// Starts to rejoin, and executes operations among the ranks until all are attached.
    fn recover(&mut self, peers: &mut dyn Peers, state: &mut FailoverState) -> Result<NewAttachment, Error> {
        // All ranks know of the loss now, so none waits for this one at the switch.
        self.control.take().iter().for_each(|control| control.leave());
        self.reroute(peers, true)?;
        if let Some(joiner) = &self.tree.joiner {
            state.rejoin = Some(joiner.start(&self.mailbox, &self.tree.counters)?);
        }
        self.run_without_switch(peers, state)
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
            let attachment = state.rejoin.as_ref().and_then(|rejoin| rejoin.id());
            if state.waiting.is_empty() {
                let now = self.clock.now();
                let may_take_part = state.next_round.is_some_and(|at| at <= now);
                if !may_take_part || attachment.is_none() && !peers.is_called() {
                    let timeout = if state.next_round.is_some() { POLL_INTERVAL } else { IDLE_WAIT };
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
                    self.reroute(peers, false)?;
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

    /// Continues at the new attachment.
    fn resume_on(&mut self, new: NewAttachment) {
        let NewAttachment { attachment, control, events } = new;
        let (worker, io) = (self.streams.stats(), self.io.counters());
        self.earlier.add(&Stats { worker, io, ..Stats::default() });
        self.path.set_attached(attachment.describe(self.tree.index), attachment.control);
        self.tree.counters.count_return();
        self.flight.reattached(self.clock.now());
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
        log::info!("rank {rank}: attached to a switch again in tree {tree}, as job {job} in epoch {epoch}");
    }
}
