//! Schedules over jobs that run, by their measured communication patterns: delays of iterations, and the profiles by which jobs are ranked.

use super::{Coordinator, Named, SessionId, Stage};
use crate::jobs::{ActiveTree, JobEvent, TreePhase};
use crate::record::JobName;
use crate::schedule::interleave::{CONFIDENCE_MIN, Delay, Interleaver, Observed};
use crate::schedule::{Decision, Schedule};
use crate::traffic::TreePattern;
use crate::view::PatternView;
use netfold_control::{CommunicationPattern, Hold, Iteration, SessionEvent};
use std::collections::BTreeSet;
use std::time::Duration;

/// By what factor a declared iteration may differ from the measured one.
const CONTRADICTION: f64 = 1.25;

/// Confidence in a pattern that contradicts a declaration.
const CONTRADICTING_CONFIDENCE: f64 = 0.75;

/// Shortest time between two changes of the profile by which a job is ranked.
const RANKING_INTERVAL: Duration = Duration::from_secs(10);

/// The profile by which a job is ranked, as it was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ranked {
    pub(super) iteration: Iteration,
    since: Duration,
}

impl Coordinator {
    /// A member reports what it has measured of the job's iterations.
    pub(super) fn note_pattern(&mut self, id: SessionId, stage: Stage, pattern: CommunicationPattern) {
        let Stage::Active { job, rank } = stage else { return };
        if let Some(session) = self.sessions.get_mut(&id) {
            session.patterned = true;
        }
        let now = self.now;
        if let Some(active) = self.active.get_mut(&job)
            && active.members.contains_key(&rank)
        {
            active.patterns.report(now, rank, pattern);
        }
    }

    /// The trees of a job, not of its groups, that run.
    pub(super) fn running_trees(&self, name: &JobName) -> impl Iterator<Item = &ActiveTree> {
        self.trees_of(name, "").filter_map(|(_, named)| match named {
            Named::Active(job) => self.active.get(&job).filter(|active| active.phase == TreePhase::Running),
            Named::Forming(_) => None,
        })
    }

    /// The pattern of a running job with these trees, which are in the order of their names: that of its own trees or, where these have none, what its
    /// groups do together.
    fn pattern_of_job<'a>(&self, trees: &[&'a ActiveTree]) -> Option<(TreePattern, Vec<&'a ActiveTree>)> {
        let (own, of_groups): (Vec<&ActiveTree>, Vec<&ActiveTree>) =
            trees.iter().partition(|tree| tree.name.group.is_empty());
        if let Some(pattern) = self.pattern_of(own.iter().copied()) {
            return Some((pattern, own));
        }
        let groups = of_groups.chunk_by(|one, next| one.name.group == next.name.group);
        let groups = groups.filter_map(|group| Some((self.pattern_of(group.iter().copied())?, group)));
        let (patterns, groups): (Vec<TreePattern>, Vec<&[&ActiveTree]>) = groups.unzip();
        Some((TreePattern::together(&patterns)?, groups.concat()))
    }

    /// The running trees of a job and its groups, in the order of their names.
    fn running_trees_with_groups(&self, name: &JobName) -> Vec<&ActiveTree> {
        let trees = self.trees_with_groups(name).filter_map(|(_, named)| match named {
            Named::Active(job) => self.active.get(&job),
            Named::Forming(_) => None,
        });
        trees.filter(|active| active.phase == TreePhase::Running).collect()
    }

    /// The pattern of one group of a job or of its own trees: that of the first tree, with the bytes of all.
    pub(super) fn pattern_of<'a>(&self, trees: impl Iterator<Item = &'a ActiveTree>) -> Option<TreePattern> {
        let mut all = trees.filter_map(|tree| tree.patterns.combined(self.now));
        let mut first = all.next()?;
        for other in all {
            first.pattern.bytes = first.pattern.bytes.saturating_add(other.pattern.bytes);
        }
        Some(first)
    }

    /// The same, for people.
    pub(super) fn pattern_view(&self, name: &JobName) -> Option<PatternView> {
        let (TreePattern { pattern, members, .. }, _) =
            self.pattern_of_job(&self.running_trees_with_groups(name))?;
        let declared = self.running_trees(name).find_map(|tree| tree.spec.iteration);
        Some(PatternView {
            iterations: pattern.iterations,
            period_us: pattern.period_us,
            compute_us: pattern.compute_us,
            send_us: pattern.span_us,
            bytes: pattern.bytes,
            confidence: pattern.confidence(),
            members: u32::try_from(members).unwrap_or(u32::MAX),
            contradicts: declared.is_some_and(|declared| contradicts(&pattern, &declared)),
        })
    }

    /// What the schedule does about a job, and why.
    pub(super) fn schedule_of(&self, name: &JobName) -> Option<String> {
        let decision = match self.config.schedule {
            Schedule::Off => return None,
            Schedule::Crux => Decision::Paths(self.path_chooser.decision(name)?),
            Schedule::Cassini => Decision::Shift(self.interleaver.decision(name)?),
        };
        Some(decision.to_string())
    }

    /// What the job is ranked by: what is measured, or what is declared and not contradicted by that.
    pub(super) fn ranked_iteration(&self, active: &ActiveTree) -> Option<Iteration> {
        let declared = active.spec.iteration;
        if self.config.schedule == Schedule::Crux {
            return self.ranked.get(&active.name.name).map(|ranked| ranked.iteration).or(declared);
        }
        let declared = declared?;
        let pattern = active.patterns.combined(self.now).map(|combined| combined.pattern);
        pattern.is_none_or(|pattern| !contradicts(&pattern, &declared)).then_some(declared)
    }

    /// Applies the schedule to the newest patterns.
    pub(super) fn apply_schedule(&mut self) {
        match self.config.schedule {
            Schedule::Off => {}
            Schedule::Crux => {
                self.rank_by_patterns();
                self.choose_paths();
            }
            Schedule::Cassini => self.interleave(),
        }
    }

    /// Ranks jobs again where their patterns have changed.
    fn rank_by_patterns(&mut self) {
        let mut new = Vec::new();
        let mut unknown = self.ranked.len();
        for (name, trees) in self.running_jobs() {
            let Some(first) = trees.iter().find(|tree| tree.name.group.is_empty()) else { continue };
            let before = self.ranked.get(name);
            unknown -= usize::from(before.is_some());
            if before.is_some_and(|before| self.now.saturating_sub(before.since) < RANKING_INTERVAL) {
                continue;
            }
            let own = trees.iter().copied().filter(|tree| tree.name.group.is_empty());
            let pattern = self.pattern_of(own).map(|combined| combined.pattern);
            let measured = pattern
                .filter(|pattern| pattern.confidence() >= CONFIDENCE_MIN)
                .map(|pattern| measured_iteration(&pattern, first.spec.world));
            let is_new =
                |iteration: &Iteration| before.is_none_or(|before| differs(&before.iteration, iteration));
            if let Some(iteration) = measured.filter(is_new) {
                new.push((name.clone(), Ranked { iteration, since: self.now }));
            }
        }
        if unknown > 0 {
            let running: BTreeSet<JobName> =
                self.running_jobs().into_iter().map(|(name, _)| name.clone()).collect();
            self.ranked.retain(|name, _| running.contains(name));
        }
        if !new.is_empty() {
            self.ranked.extend(new);
            self.reband();
        }
    }

    /// Delays iterations so that jobs communicate in turns.
    fn interleave(&mut self) {
        // The names of jobs are borrowed from the rest.
        let mut interleaver = std::mem::take(&mut self.interleaver);
        let delays = self.decide(&mut interleaver);
        for delay in delays {
            let micros =
                |time: Duration| u64::try_from(time.saturating_sub(self.now).as_micros()).unwrap_or(u64::MAX);
            let hold = Hold { after_us: micros(delay.after), until_us: micros(delay.until) };
            self.send_hold(&delay.job, hold);
        }
        for (name, decision) in interleaver.changes() {
            self.log(JobEvent::Scheduled { name: name.clone(), decision: Decision::Shift(decision) });
        }
        self.interleaver = interleaver;
    }

    fn decide(&self, interleaver: &mut Interleaver<JobName>) -> Vec<Delay<JobName>> {
        let jobs = self.running_jobs();
        let (contenders, rates_bps) = self.contenders(&jobs);
        let mut observed = Vec::new();
        for ((name, trees), contender) in jobs.into_iter().zip(contenders) {
            let Some((TreePattern { pattern, begun, .. }, measured)) = self.pattern_of_job(&trees) else {
                continue;
            };
            let is_measured = |tree: &ActiveTree| measured.iter().any(|other| std::ptr::eq(*other, tree));
            let links = trees.iter().zip(contender.trees).filter(|(tree, _)| is_measured(tree));
            let mut links: Vec<usize> = links.flat_map(|(_, links)| links).collect();
            links.sort_unstable();
            links.dedup();
            // Each tree of a group, or of the job, carries a part.
            let group = measured.first().map(|tree| &tree.name.group);
            let trees = measured.iter().filter(|tree| Some(&tree.name.group) == group).count().max(1) as f64;
            let seen = Observed {
                period: Duration::from_micros(pattern.period_us),
                span: Duration::from_micros(pattern.span_us),
                busy: Duration::from_micros(pattern.busy_us),
                compute: Duration::from_micros(pattern.compute_us),
                bytes: pattern.bytes as f64 / trees,
                confidence: pattern.confidence(),
                begun,
                links,
            };
            observed.push((name, seen));
        }
        let rates: Vec<f64> = rates_bps.iter().map(|rate| (*rate).max(8) as f64 / 8.0).collect();
        interleaver.decide(self.now, &observed, &rates)
    }

    fn send_hold(&mut self, name: &JobName, hold: Hold) {
        let trees = self.running_trees_with_groups(name);
        let Some((_, measured)) = self.pattern_of_job(&trees) else { return };
        let members = measured.into_iter().flat_map(|tree| tree.members.values());
        for session in members.filter_map(|presence| presence.session()).collect::<Vec<_>>() {
            // A library that reports no patterns does not know the order.
            if self.sessions.get(&session).is_some_and(|session| session.patterned) {
                self.send(session, SessionEvent::Hold(hold));
            }
        }
    }
}

/// What a job does in an iteration, as measured. Its work is the time in which its workers compute, in milliseconds: each has a processor of the same
/// kind, as far as a controller knows.
fn measured_iteration(pattern: &CommunicationPattern, world: u16) -> Iteration {
    let compute_us = pattern.compute_us.clamp(1, Iteration::COMPUTE_US_MAX);
    let work = (u128::from(compute_us) * u128::from(world) / 1000).clamp(1, u128::from(Iteration::MOST));
    Iteration {
        work: work as u64,
        compute_us,
        send_after_us: pattern.period_us.saturating_sub(pattern.span_us).min(compute_us),
        bytes: pattern.bytes.clamp(1, Iteration::MOST),
    }
}

/// Whether a reliable pattern is not that of a declared iteration.
fn contradicts(pattern: &CommunicationPattern, declared: &Iteration) -> bool {
    pattern.confidence() >= CONTRADICTING_CONFIDENCE
        && (is_far(pattern.compute_us, declared.compute_us) || is_far(pattern.bytes, declared.bytes))
}

fn differs(before: &Iteration, now: &Iteration) -> bool {
    is_far(before.compute_us, now.compute_us) || is_far(before.bytes, now.bytes)
}

fn is_far(a: u64, b: u64) -> bool {
    a.max(b) as f64 > CONTRADICTION * a.min(b).max(1) as f64
}
