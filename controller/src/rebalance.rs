//! Traffic engineering of trees: which job is moved from its tree to another, so that the most loaded link becomes less loaded.
//!
//! The load of a link is the [demand] of the jobs over it, which is measured. New trees are chosen by it ([`crate::route`]), and
//! [`Rebalancer::decide`], which is called every heartbeat, selects at most one tree in [`INTERVAL`] that is to be given up for a better one. A job is
//! moved by [ending its attachment](crate::jobs::EndReason::Moved): its workers continue without the switch, join again, and are placed on the better tree.
//!
//! # Rules
//!
//! What is measured comes from tenants' hosts, and may be false. So a move has to be worth it for the job itself, and is not repeated often:
//!
//! - A job counts on a link for at most what its hosts' links carry, whatever it reports ([`demand`]).
//! - A job is moved only if its own workers measure that it communicates longer than alone, by [`SLOWED_MIN`] of an iteration, from a link of which at
//!   least [`UTILISATION_MIN`] is demanded, to a tree whose most loaded link would be less loaded than that by at least [`MARGIN`] of its rate.
//!   What other jobs report never suffices.
//! - In the whole fabric there is at most one move in [`INTERVAL`], twice as long after each move that did not help, up to [`INTERVAL_MAX`].
//! - After a move a job stays for [`BACKOFF_MIN`], and for twice as long after each further one, up to [`BACKOFF_MAX`]; an hour without a move halves that.
//! - A job may be moved [`MOVES_MAX`] times, and once more for every [`MOVE_REFILL`].
//! - A move that did not remove [`EFFECT_MIN`] of the time that the job lost, by its own measurement, counts as two, in both respects.
//!
//! A move lowers the highest load among the links that it changes. So while demands and jobs stay the same there are finitely many moves, and no state of
//! the fabric recurs: what is damped is the reaction to changes.

pub mod demand;

pub use demand::{Demand, DemandSource};

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Time from one move to the next, in the whole fabric.
pub const INTERVAL: Duration = Duration::from_secs(30);

/// The longest such time, after moves that did not help.
pub const INTERVAL_MAX: Duration = Duration::from_secs(960);

/// Fraction of an iteration by which a job's communication has to be longer than alone.
pub const SLOWED_MIN: f64 = 0.03;

/// The least demand of a link from which jobs are moved, as a fraction of its rate.
pub const UTILISATION_MIN: f64 = 0.5;

/// By how much less the most loaded link of the new tree has to be loaded, as a fraction of its rate.
pub const MARGIN: f64 = 0.1;

/// How long a job stays on its tree after its first move.
pub const BACKOFF_MIN: Duration = Duration::from_secs(60);

/// The longest such time; also the time without a move after which the next one is halved.
pub const BACKOFF_MAX: Duration = Duration::from_secs(3600);

/// Moves of a job that are possible at once, but for the back-off.
pub const MOVES_MAX: u32 = 8;

/// Time after which a job may be moved once more.
pub const MOVE_REFILL: Duration = Duration::from_secs(3 * 3600);

/// From a move to the judgement of its effect, so that what is measured is of the new tree alone.
pub const JUDGED_AFTER: Duration = Duration::from_secs(20);

/// The same in iterations of the job: hosts report medians over eight of them.
pub const JUDGED_ITERATIONS: u32 = 12;

/// How long a judgement waits for measurements.
const JUDGED_WITHIN: Duration = Duration::from_secs(120);

/// Fraction of the time that a job lost by which a move has to lessen it.
pub const EFFECT_MIN: f64 = 0.25;

/// How often trees are compared with others.
pub const SEARCH_INTERVAL: Duration = Duration::from_secs(5);

/// Trees for which another is searched at a time, those with the most loaded links first.
pub const CANDIDATES_MAX: usize = 16;

/// How long a tree that is gone is remembered: its job may be joining again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// How trees are placed where several are possible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlacementPolicy {
    /// By the number of trees over each link. Trees stay where they are.
    #[default]
    Static,
    /// By the measured demand of the jobs over each link. Trees are moved.
    Measured,
}

impl PlacementPolicy {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Static, Self::Measured];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Measured => "measured",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// What is known of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The links between its switches, by number.
    pub links: Vec<usize>,
    /// What it demands of each of them.
    pub demand: Demand,
    /// How long its communication takes and would take alone; `None` where its iterations are not known well enough.
    pub pace: Option<Pace>,
    /// Whether its workers can change the tree now: all are present, and can continue without a switch meanwhile.
    pub movable: bool,
}

/// Times of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// From the beginning of an iteration's communication to the next.
    pub period: Duration,
    /// Time by which its communication is longer than alone.
    pub lost: Duration,
}

impl Pace {
    fn is_slowed(&self) -> bool {
        self.lost.as_secs_f64() > SLOWED_MIN * self.period.as_secs_f64()
    }

    /// The part of its time that it loses, so that iterations of different length are comparable.
    fn share(&self) -> f64 {
        self.lost.as_secs_f64() / self.period.as_secs_f64().max(1e-6)
    }
}

/// What is decided of a tree.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// It stays: it is at one switch, and uses no link between switches.
    Local,
    /// It stays: its workers cannot change their tree.
    Fixed,
    /// It stays: its iterations are not known well enough.
    Unknown,
    /// It stays: it is as fast as alone, or its links have room.
    Content,
    /// It stays for now: it was moved a short time before, as was another.
    Damped,
    /// It stays: it was moved as often as the rules allow.
    Spent,
    /// It stays: no other tree has less loaded links, by [`MARGIN`].
    Best,
    /// It is moved.
    Moved {
        /// Demand of its most loaded link, as a fraction of the rate.
        from: f64,
        /// The same in the new tree.
        to: f64,
    },
    /// It stays where it was moved to, which made it faster.
    Improved,
    /// It stays where it was moved to, although that did not make it faster.
    Ineffective,
}

impl Decision {
    /// Whether it is an event, and not only shown with the job.
    const fn is_reported(self) -> bool {
        matches!(self, Self::Moved { .. } | Self::Improved | Self::Ineffective | Self::Spent | Self::Best)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("stays: it uses no link between switches"),
            Self::Fixed => {
                f.write_str("stays: its workers cannot continue without a switch, or some are away")
            }
            Self::Unknown => f.write_str("stays: its iterations are not known well enough yet"),
            Self::Content => {
                f.write_str("stays: it communicates no longer than alone, or its links have room")
            }
            Self::Damped => f.write_str("stays for now: it or another job was moved a short time before"),
            Self::Spent => f.write_str("stays: it was moved as often as the rules allow"),
            Self::Best => write!(
                f,
                "stays: no other tree has a most loaded link that is less loaded by {:.0} % of its rate",
                MARGIN * 100.0
            ),
            Self::Moved { from, to } => write!(
                f,
                "moved to another tree: its most loaded link is demanded to {:.0} % of the rate, in the new tree to {:.0} %",
                from * 100.0,
                to * 100.0
            ),
            Self::Improved => f.write_str("stays: the last move made it faster"),
            Self::Ineffective => {
                f.write_str("stays: the last move did not make it faster, and counts as two")
            }
        }
    }
}

/// A tree that is to be given up for another.
#[derive(Debug, Clone, PartialEq)]
pub struct Move<K> {
    /// Whose.
    pub tree: K,
    /// Demand of its most loaded link, as a fraction of the rate.
    pub from: f64,
    /// The same in the new tree.
    pub to: f64,
    /// The links of the new tree.
    pub links: Vec<usize>,
}

/// What is remembered of a tree.
#[derive(Debug, Clone)]
struct History {
    decision: Decision,
    /// The last one that was an event.
    reported: Option<Decision>,
    seen: Duration,
    /// It stays until then.
    stays_until: Duration,
    /// How long it stays after the next move.
    backoff: Duration,
    /// When that was last changed.
    backoff_at: Duration,
    /// Moves that it may still make, as of `counted`; a failed one may leave less than none.
    moves: i32,
    counted: Duration,
    trial: Option<Trial>,
}

/// A move whose effect is not known yet.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// The part of its time that the job lost before.
    lost: f64,
    judged_at: Duration,
}

impl History {
    fn new(now: Duration) -> Self {
        Self {
            decision: Decision::Unknown,
            reported: None,
            seen: now,
            stays_until: now + BACKOFF_MIN,
            backoff: BACKOFF_MIN,
            backoff_at: now,
            moves: MOVES_MAX.cast_signed(),
            counted: now,
            trial: None,
        }
    }

    /// What time gives back.
    fn refill(&mut self, now: Duration) {
        let most = MOVES_MAX.cast_signed();
        while self.moves < most && now.saturating_sub(self.counted) >= MOVE_REFILL {
            self.moves += 1;
            self.counted += MOVE_REFILL;
        }
        if self.moves == most {
            self.counted = now;
        }
        while self.backoff > BACKOFF_MIN && now.saturating_sub(self.backoff_at) >= BACKOFF_MAX {
            self.backoff = (self.backoff / 2).max(BACKOFF_MIN);
            self.backoff_at += BACKOFF_MAX;
        }
    }

    /// Counts a move, or one that did not help.
    fn count(&mut self, now: Duration) {
        self.moves -= 1;
        self.stays_until = self.stays_until.max(now + self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        self.backoff_at = now;
    }
}

/// The state machine that decides; `K` names trees.
#[derive(Debug)]
pub struct Rebalancer<K> {
    histories: BTreeMap<K, History>,
    /// No tree is moved before.
    next_move: Duration,
    /// Trees are not compared before.
    next_search: Duration,
    /// From a move to the next.
    interval: Duration,
}

impl<K> Default for Rebalancer<K> {
    fn default() -> Self {
        Self {
            histories: BTreeMap::new(),
            next_move: Duration::ZERO,
            next_search: Duration::ZERO,
            interval: INTERVAL,
        }
    }
}

/// A tree that another may be better for.
struct Candidate<'a, K> {
    tree: &'a K,
    observed: &'a Observed,
    /// Demand of its most loaded link, as a fraction of the rate.
    from: f64,
}

impl<K: Ord + Clone> Rebalancer<K> {
    /// The last decision about a tree.
    pub fn decision(&self, tree: &K) -> Option<Decision> {
        Some(self.histories.get(tree)?.decision)
    }

    /// Whether [`Self::decide`] does anything now.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.next_search
    }

    /// Decisions that are events, since this was called last: those that differ from the last such one of the same tree.
    pub fn news(&mut self) -> Vec<(K, Decision)> {
        let mut news = Vec::new();
        for (tree, history) in &mut self.histories {
            let decision = Some(history.decision).filter(|decision| decision.is_reported());
            if decision.is_some() && decision != history.reported {
                history.reported = decision;
                news.push((tree.clone(), history.decision));
            }
        }
        news
    }

    /// Decides about all trees that run, of links with these demands and rates in bits a second. `alternative` is the tree that would be chosen for one of
    /// them if links had these demands, as its links. `None` if there is none. While `is_quiet` is false, no tree is moved.
    ///
    /// The move that is returned is to be carried out.
    pub fn decide(
        &mut self,
        now: Duration,
        trees: &BTreeMap<K, Observed>,
        (demands, rates): (&[u64], &[u64]),
        is_quiet: bool,
        mut alternative: impl FnMut(&K, &[u64]) -> Option<Vec<usize>>,
    ) -> Option<Move<K>> {
        if !self.is_due(now) {
            return None;
        }
        self.next_search = now + SEARCH_INTERVAL;
        self.remember(now, trees);
        let may_move = is_quiet && now >= self.next_move;
        let mut candidates = self.candidates(now, trees, (demands, rates), may_move);
        // The most loaded links first, of these the greatest demand.
        candidates.sort_by(|one, other| {
            let demand = |candidate: &Candidate<'_, K>| candidate.observed.demand.bits_per_second;
            other.from.total_cmp(&one.from).then(demand(other).cmp(&demand(one)))
        });
        let mut best: Option<(Move<K>, f64)> = None;
        for Candidate { tree, observed, from } in candidates.into_iter().take(CANDIDATES_MAX) {
            // A link that is less loaded is relieved when no more loaded one can be.
            if best.as_ref().is_some_and(|(best, _)| from < best.from) {
                break;
            }
            let without = without(demands, observed);
            let links = alternative(tree, &without);
            let to = links.as_ref().map(|links| {
                let own = observed.demand.bits_per_second;
                highest(links, |link| utilisation(&without, rates, link, own))
            });
            match links.zip(to).filter(|(_, to)| *to + MARGIN <= from) {
                Some((links, to)) => {
                    // What is left at the old links counts as well as what the new ones have then.
                    let after =
                        highest(&observed.links, |link| utilisation(&without, rates, link, 0)).max(to);
                    if best.as_ref().is_none_or(|(_, least)| after < *least) {
                        best = Some((Move { tree: tree.clone(), from, to, links }, after));
                    }
                }
                None => self.set_decision(tree, Decision::Best),
            }
        }
        let (chosen, _) = best?;
        self.carry_out(now, &chosen, trees.get(&chosen.tree)?.pace?);
        Some(chosen)
    }

    /// Brings what is remembered up to date, and judges moves.
    fn remember(&mut self, now: Duration, trees: &BTreeMap<K, Observed>) {
        self.histories.retain(|_, history| now.saturating_sub(history.seen) < REMEMBERED);
        for (tree, observed) in trees {
            let history = self.histories.entry(tree.clone()).or_insert_with(|| History::new(now));
            history.seen = now;
            history.refill(now);
            match history.judge(now, observed) {
                Some(Decision::Ineffective) => {
                    self.interval = (self.interval * 2).min(INTERVAL_MAX);
                    self.next_move = self.next_move.max(now + self.interval);
                }
                Some(_) => self.interval = (self.interval / 2).max(INTERVAL),
                None => {}
            }
        }
    }

    /// The trees for which another may be better; notes why the others stay.
    fn candidates<'a>(
        &mut self,
        now: Duration,
        trees: &'a BTreeMap<K, Observed>,
        (demands, rates): (&[u64], &[u64]),
        may_move: bool,
    ) -> Vec<Candidate<'a, K>> {
        let mut candidates = Vec::new();
        for (tree, observed) in trees {
            let Some(history) = self.histories.get_mut(tree) else { continue };
            let from = highest(&observed.links, |link| utilisation(demands, rates, link, 0));
            let stays = match observed.pace {
                _ if observed.links.is_empty() => Some(Decision::Local),
                _ if !observed.movable => Some(Decision::Fixed),
                None => Some(Decision::Unknown),
                Some(pace) if !pace.is_slowed() || from < UTILISATION_MIN => Some(Decision::Content),
                _ if history.moves <= 0 => Some(Decision::Spent),
                _ if now < history.stays_until || history.trial.is_some() || !may_move => {
                    Some(Decision::Damped)
                }
                Some(_) => None,
            };
            match stays {
                // The result of a move remains shown until it may be moved again.
                Some(_) if history.trial.is_some() => {}
                Some(Decision::Content) if history.decision == Decision::Improved => {}
                Some(Decision::Damped)
                    if matches!(
                        history.decision,
                        Decision::Improved | Decision::Ineffective | Decision::Best
                    ) => {}
                Some(decision) => history.decision = decision,
                None => candidates.push(Candidate { tree, observed, from }),
            }
        }
        candidates
    }

    fn set_decision(&mut self, tree: &K, decision: Decision) {
        if let Some(history) = self.histories.get_mut(tree) {
            history.decision = decision;
        }
    }

    fn carry_out(&mut self, now: Duration, chosen: &Move<K>, pace: Pace) {
        self.next_move = now + self.interval;
        if let Some(history) = self.histories.get_mut(&chosen.tree) {
            history.count(now);
            history.decision = Decision::Moved { from: chosen.from, to: chosen.to };
            let judged_at = now + JUDGED_AFTER.max(pace.period * JUDGED_ITERATIONS);
            history.trial = Some(Trial { lost: pace.share(), judged_at });
        }
    }
}

impl History {
    /// Judges the last move, when its effect can be seen.
    fn judge(&mut self, now: Duration, observed: &Observed) -> Option<Decision> {
        let trial = self.trial.filter(|trial| now >= trial.judged_at)?;
        let improved = match observed.pace {
            Some(pace) => pace.share() <= trial.lost * (1.0 - EFFECT_MIN),
            None if now < trial.judged_at + JUDGED_WITHIN => return None,
            None => false,
        };
        self.trial = None;
        self.decision = if improved { Decision::Improved } else { Decision::Ineffective };
        if !improved {
            self.count(now);
        }
        Some(self.decision)
    }
}

/// The demands of links without a tree.
fn without(demands: &[u64], tree: &Observed) -> Vec<u64> {
    let mut demands = demands.to_vec();
    for link in &tree.links {
        if let Some(demand) = demands.get_mut(*link) {
            *demand = demand.saturating_sub(tree.demand.bits_per_second);
        }
    }
    demands
}

/// The demand of a link, with more on it, as a fraction of its rate.
fn utilisation(demands: &[u64], rates: &[u64], link: usize, more: u64) -> f64 {
    let demand = demands.get(link).copied().unwrap_or(0).saturating_add(more);
    demand as f64 / rates.get(link).copied().unwrap_or(u64::MAX).max(1) as f64
}

fn highest(links: &[usize], utilisation: impl Fn(usize) -> f64) -> f64 {
    links.iter().map(|link| utilisation(*link)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
