//! An engine without its switch: it does among the ranks what goes over its tree, until they have another place.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Engine, IDLE_WAIT, Segmentation, Silence, TxBurst};
use crate::carry_on::{self, Card, Peers, Round};
use crate::error::Error;
use crate::mailbox::Command;
use crate::rejoin::{Fresh, Rejoin};
use crate::report::Stats;
use crate::tensors::Submission;

/// How often it is looked whether other ranks call, or a place was found.
const LOOK: Duration = Duration::from_millis(50);

/// How soon a rank without work takes part in a second round.
const ROUND_INTERVAL: Duration = Duration::from_millis(300);

/// What a rank has while it does without the switch.
struct Stay {
    rejoin: Option<Rejoin>,
    /// The next operations, until all ranks do them: those that had not begun when the switch was lost, or one.
    waiting: VecDeque<Submission>,
    /// When a rank without work takes part in rounds again; `None` when it no longer does: a rank has gone.
    next_round: Option<Instant>,
}

impl Engine {
    /// Works without the switch, which was lost by `cause`: until the ranks have one again, or the job is over.
    pub(super) fn without_the_switch(&mut self, peers: &mut dyn Peers, cause: Error) -> Result<(), Error> {
        let rank = self.streams.config().rank;
        log::warn!("rank {rank}: going on without the switch of tree {}: {cause}", self.tree.index);
        self.tree.counters.count_loss();
        self.mailbox.set_busy();
        let may_be_away = !self.tree.grace.is_zero();
        if let Some(line) = &self.line
            && !may_be_away
        {
            // At a control port that allows no absence this tells the others.
            line.hang_up();
        }
        self.board.lose(self.tree.index, cause.to_string());
        let waiting = self.streams.settle(peers)?;
        let mut stay = Stay { rejoin: None, waiting, next_round: Some(Instant::now()) };
        let outcome = self.find_back(peers, &mut stay);
        match outcome {
            Ok(fresh) => {
                self.adopt(fresh);
                // What was next is the first at the new place.
                stay.waiting.into_iter().for_each(|submission| self.streams.submit(submission));
                Ok(())
            }
            Err(error) => {
                for submission in stay.waiting {
                    submission.parcel.finish(Err(error.clone()));
                }
                Err(error)
            }
        }
    }

    /// Asks for another place, and does operations among the ranks until all have one.
    fn find_back(&mut self, peers: &mut dyn Peers, stay: &mut Stay) -> Result<Fresh, Error> {
        // Now all ranks know, and nobody waits for this one there.
        self.line.take().iter().for_each(|line| line.leave());
        self.reroute(peers, true)?;
        if let Some(joiner) = self.tree.joiner.clone() {
            let counters = self.tree.counters.clone();
            stay.rejoin = Some(Rejoin::start(joiner, Arc::clone(&self.mailbox), counters)?);
        }
        self.stay(peers, stay)
    }

    /// Does operations among the ranks until all have a place again.
    fn stay(&mut self, peers: &mut dyn Peers, stay: &mut Stay) -> Result<Fresh, Error> {
        loop {
            let _ = self.mailbox.has_news();
            let room = usize::from(stay.waiting.is_empty());
            let command = self.mailbox.collect(room, &mut self.inbox, None);
            stay.waiting.extend(self.inbox.pop());
            match command {
                Command::End(error) => return Err(error),
                Command::StopWhenIdle if stay.waiting.is_empty() => return Err(Error::Closed),
                Command::Work | Command::StopWhenIdle => {}
            }
            let place = stay.rejoin.as_ref().and_then(Rejoin::place);
            if stay.waiting.is_empty() {
                let now = Instant::now();
                let may_take_part = stay.next_round.is_some_and(|at| at <= now);
                if !may_take_part || place.is_none() && !peers.are_calling() {
                    self.mailbox.wait(if stay.next_round.is_some() { LOOK } else { IDLE_WAIT });
                    continue;
                }
            }
            let op = stay.waiting.front().map(|submission| submission.spec.descriptor);
            if op.is_some() {
                self.mailbox.set_busy();
            }
            match carry_on::round(&Card { op, place }, peers) {
                Ok(Round::Return) => {
                    let fresh = stay.rejoin.as_ref().and_then(Rejoin::take);
                    self.reroute(peers, false)?;
                    return fresh.ok_or(Error::EngineFailed);
                }
                Ok(Round::Do) => {
                    if let Some(submission) = stay.waiting.pop_front() {
                        self.streams.do_whole(peers, submission)?;
                    }
                }
                Ok(Round::Again) => stay.next_round = Some(Instant::now() + ROUND_INTERVAL),
                Err(error) if op.is_some() => return Err(error),
                // Nothing is lost yet: the rank that has gone may have finished.
                Err(_) => (stay.next_round, stay.rejoin) = (None, None),
            }
        }
    }

    /// Agrees with all ranks from which operation on this tree is left out, or taken in again.
    fn reroute(&mut self, peers: &mut dyn Peers, left_out: bool) -> Result<(), Error> {
        if self.tree.route.is_single() {
            return Ok(());
        }
        let frozen = self.tree.route.freeze();
        let from = carry_on::largest(frozen.next(), peers)?;
        frozen.set(usize::from(self.tree.index), left_out, from);
        Ok(())
    }

    /// Goes on at a new place.
    fn adopt(&mut self, fresh: Fresh) {
        let Fresh { uplink, line, news } = fresh;
        let (worker, io) = (self.streams.stats(), self.io.counters());
        self.earlier.add(&Stats { worker, io, ..Stats::default() });
        self.board.gain(uplink.place(self.tree.index), uplink.control);
        self.tree.counters.count_return();
        self.tree.grace = uplink.grace();
        self.tree.last.set(line.clone(), self.tree.grace);
        let mut streams = uplink.streams;
        streams.continue_from(&self.streams);
        streams.keep_tails();
        (self.io, self.streams) = (uplink.io, streams);
        let capabilities = self.io.capabilities();
        let config = self.streams.config();
        self.rx = capabilities.batch();
        self.tx = TxBurst::new(super::burst(&capabilities), config.datagram_len_max());
        self.silence = Silence::new(line.is_some().then_some(&config.admission));
        self.segmentation = Segmentation::new();
        self.mailbox.set_waker(self.io.waker());
        (self.line, self.news) = (line, news);
        (self.departed, self.unread, self.backlog) = (None, 0, true);
        let (rank, job, epoch) = (config.rank, config.admission.job, config.admission.epoch);
        let tree = self.tree.index;
        log::info!("rank {rank}: back at a switch in tree {tree}, as job {job} in epoch {epoch}");
    }
}
