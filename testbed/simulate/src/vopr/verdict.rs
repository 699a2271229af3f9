//! The invariants that are judged at the end.

use std::time::Duration;

use super::Summary;
use super::device::Device;
use super::plan::Reach;
use super::rank::Outcome;
use super::world::World;

/// How long after the last fault every rank has ended.
const CONVERGENCE: Duration = Duration::from_secs(150);

/// How long controllers and switches have to find each other again before a job is expected to be admitted.
const SETTLE: Duration = Duration::from_secs(15);

/// How long until nothing is left of jobs that are over.
const CLEANUP: Duration = Duration::from_secs(90);

/// How long no controller may serve for running jobs to survive it, with the time that workers need to find the new one.
const LEADERLESS_MAX: Duration = Duration::from_secs(40);

/// How long before the refusal of a worker a fault may have ended that is its cause.
const REFUSAL: Duration = Duration::from_secs(20);

impl World {
    /// Plays the plan to its end, and judges.
    ///
    /// # Panics
    ///
    /// When an invariant is broken.
    pub(super) fn judge(&mut self) -> Summary {
        let faults = self.plan.faults.iter().map(|(at, fault)| *at + fault.time()).max().unwrap_or_default();
        let ceased = faults.max(Duration::from_secs(25));
        self.play(ceased, |_| false);
        self.cease();
        let settled = ceased + SETTLE;
        self.play(ceased + CONVERGENCE, |world| {
            world.now >= settled && world.ranks.iter().all(|rank| rank.is_over())
        });
        let (finished, ended) = self.judge_jobs();
        self.probe();
        self.judge_cleanup();
        let controllers = self.controllers.iter();
        Summary {
            digest: self.digest(),
            events: self.events,
            datagrams: self.datagrams,
            elapsed: self.now,
            faults: self.plan.faults.len() as u64,
            finished,
            ended,
            stale_writes: self.devices.iter().map(|device| device.stale_writes).sum(),
            controller_starts: controllers.map(|controller| controller.incarnation).sum(),
            attacked: u64::from(self.slowed > 0.0),
            partial: self.partial,
            slowed: self.slowed,
            spilled: self.spilled(),
        }
    }

    /// Contributions that found no slot, since the last start of each switch.
    fn spilled(&self) -> u64 {
        let groups = |device: &Device| {
            (1..=device.limits().groups_max).map(|group| device.spilled(group)).sum::<u64>()
        };
        self.devices.iter().map(groups).sum()
    }

    /// How many jobs did everything, and how many a fault ended.
    fn judge_jobs(&self) -> (u64, u64) {
        let (mut finished, mut ended) = (0, 0);
        for job in 0..self.plan.jobs.len() {
            let ranks = || self.ranks.iter().filter(move |rank| rank.job == job);
            for rank in ranks() {
                let (number, outcome) = (rank.rank, &rank.outcome);
                match outcome {
                    None => panic!(
                        "rank {number} of job {job} has not ended {CONVERGENCE:?} after the last fault"
                    ),
                    Some(Outcome::Done) => {
                        assert!(rank.is_over(), "the session of rank {number} of job {job} does not end")
                    }
                    Some(Outcome::Failed(error, at)) => {
                        assert!(
                            self.can_end(job, *at),
                            "job {job} rank {number}: no fault explains: {error}"
                        );
                    }
                    Some(Outcome::NotAdmitted(failure, at)) => {
                        let explained = self.can_refuse(job, *at);
                        assert!(explained, "job {job} rank {number}: no fault explains: {failure:?}");
                    }
                    Some(Outcome::Killed) => {}
                }
            }
            if ranks().all(|rank| rank.succeeded()) {
                finished += 1;
            } else {
                ended += 1;
            }
        }
        (finished, ended)
    }

    /// **Real causes**: whether a fault can have ended a job by then. Groups end with their job.
    fn can_end(&self, job: usize, by: Duration) -> bool {
        let plan = &self.plan.jobs[job];
        if plan.of.is_some_and(|of| self.can_end(of, by)) {
            return true;
        }
        let admitted = self.ranks.iter().filter(|rank| rank.job == job).map(|rank| rank.admitted);
        // The job is set up once every rank knows that it is admitted.
        let running = admitted.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
        let has_left = self.ranks.iter().any(|rank| rank.job == job && rank.succeeded());
        let begun = self.begun.iter().filter(|(begin, ..)| *begin <= by);
        let explained = begun.clone().any(|(begin, end, fault)| match fault.reach() {
            Reach::Job(other) => other == job,
            Reach::Host(host) => plan.hosts.contains(&host),
            // A rank that has left does not help others to do without the switch.
            Reach::Unlinked => !plan.linked || has_left || running.is_none_or(|running| *begin <= running),
            Reach::Starting => running.is_none_or(|running| *begin <= running && *end + REFUSAL >= running),
        });
        explained || self.longest_without_leader(Duration::ZERO, by) > LEADERLESS_MAX
    }

    fn can_refuse(&self, job: usize, by: Duration) -> bool {
        let recent = self.begun.iter().any(|(begin, end, _)| *begin <= by && *end + REFUSAL >= by);
        recent || self.can_end(job, by)
    }

    /// **Convergence** and **durability**: nothing is left of any job, and all that was acknowledged is there.
    fn judge_cleanup(&mut self) {
        let end = self.now + CLEANUP;
        let clean = |world: &Self| {
            world.devices.iter().all(|device| device.held.is_empty())
                && world.database.records.places.is_empty()
                && world.controllers.iter().all(super::controller::Controller::is_unused)
        };
        self.play(end, clean);
        for device in &self.devices {
            let held = &device.held;
            assert!(
                held.is_empty(),
                "switch '{}' holds something of jobs that are over: {held:?}",
                device.name
            );
        }
        let places = &self.database.records.places;
        assert!(places.is_empty(), "places of jobs that are over are stored: {places:?}");
        assert!(clean(self), "the controller holds something of jobs that are over");
        assert!(self.leader().is_some(), "no controller leads");
        for name in &self.acknowledged {
            assert!(
                self.database.records.tenants.contains_key(name),
                "the tenant '{name}', which was acknowledged, is gone"
            );
        }
    }
}
