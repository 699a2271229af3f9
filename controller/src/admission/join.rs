//! Who may join what.

use super::{Coordinator, Named, SessionId, Stage};
use crate::jobs::{Forming, JobSpec};
use crate::message::Refused;
use crate::timers::Timer;
use netfold_wire::control::{Join, Numerics, Refusal, TREES_MAX};
use netfold_wire::{CHILDREN_MAX, CLASSES_MAX, VERSION};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Longest job name, in bytes.
const NAME_LEN_MAX: usize = 64;

/// What a request says by itself and beside the job's other members.
trait Asked {
    /// Whether the request can be met at all by a switch of `ports_max` ports that folds lanes like this.
    fn check(&self, ports_max: u16, numerics: Numerics) -> Result<(), Refused>;
    fn spec(&self) -> JobSpec;
    /// Whether the request agrees with the job's first member and takes a rank that is free.
    fn agrees(&self, job: &Forming) -> Result<(), Refused>;
}

impl Asked for Join {
    fn check(&self, ports_max: u16, numerics: Numerics) -> Result<(), Refused> {
        let refuse = |message: String| Err(Refused::new(Refusal::Argument, message));
        if self.version != VERSION {
            return Err(Refused::version(self.version));
        }
        if !(1..=NAME_LEN_MAX).contains(&self.job.len()) {
            return refuse(format!(
                "the job name has {} bytes: choose one of 1 to {NAME_LEN_MAX} bytes",
                self.job.len()
            ));
        }
        if self.job.chars().any(char::is_control) {
            return refuse("the job name holds control characters: choose a printable one".into());
        }
        let world_max = CHILDREN_MAX.min(usize::from(ports_max));
        if !(1..=world_max).contains(&usize::from(self.world)) {
            return refuse(format!("a world of {} workers: this switch takes 1 to {world_max}", self.world));
        }
        if self.rank >= self.world {
            return refuse(format!(
                "rank {} in a world of {}: ranks are 0 to {}",
                self.rank,
                self.world,
                self.world - 1
            ));
        }
        if !self.slots.is_power_of_two() {
            return refuse(format!("{} slots asked for: ask for a power of two", self.slots));
        }
        if !self.classes.is_power_of_two()
            || self.classes > CLASSES_MAX
            || u32::from(self.classes) > self.slots
        {
            return refuse(format!(
                "{} classes in {} slots: ask for a power of two of classes, at most {CLASSES_MAX}, and for a slot each",
                self.classes, self.slots
            ));
        }
        if !(1..=TREES_MAX).contains(&self.trees) || self.tree >= self.trees {
            return refuse(format!(
                "tree {} of {}: a job has 1 to {TREES_MAX} trees, numbered from 0",
                self.tree, self.trees
            ));
        }
        if self.udp_port == 0 {
            return refuse("UDP port 0: bind the worker's socket first and tell its port".into());
        }
        let needed = self.mode.numerics();
        if needed != numerics {
            return Err(Refused::new(
                Refusal::Numerics,
                format!(
                    "mode {} needs a switch of {needed} numerics and this one runs {numerics}: give mode {}, or start the \
                     switch with --numerics {needed}",
                    self.mode,
                    numerics.modes()
                ),
            ));
        }
        Ok(())
    }

    fn spec(&self) -> JobSpec {
        JobSpec { world: self.world, mode: self.mode, slots: self.slots, classes: self.classes }
    }

    fn agrees(&self, job: &Forming) -> Result<(), Refused> {
        let refuse = |reason, message: String| Err(Refused::new(reason, message));
        let (name, spec) = (&job.name, &job.spec);
        if self.world != spec.world {
            return refuse(
                Refusal::WorldMismatch,
                format!(
                    "job '{name}' has {} workers and this one says {}: give all the same world size",
                    spec.world, self.world
                ),
            );
        }
        if self.mode != spec.mode {
            return refuse(
                Refusal::ModeMismatch,
                format!(
                    "job '{name}' runs in mode {} and this worker says {}: give all the same mode",
                    spec.mode, self.mode
                ),
            );
        }
        if self.slots != spec.slots {
            return refuse(
                Refusal::Argument,
                format!(
                    "job '{name}' asks for {} slots and this worker for {}: give all the same number",
                    spec.slots, self.slots
                ),
            );
        }
        if self.classes != spec.classes {
            return refuse(
                Refusal::Argument,
                format!(
                    "job '{name}' has {} classes of operations and this worker {}: give all the same number",
                    spec.classes, self.classes
                ),
            );
        }
        if job.members.contains_key(&self.rank) {
            return refuse(
                Refusal::RankTaken,
                format!(
                    "another worker holds rank {} of job '{name}': give every worker its own rank",
                    self.rank
                ),
            );
        }
        Ok(())
    }
}

impl Coordinator {
    /// Handles the join of a session that has not joined yet.
    pub(super) fn join(&mut self, now: Duration, id: SessionId, join: Join) {
        match self.try_join(now, id, join) {
            Ok(formation) => {
                if self.forming[&formation].is_complete() {
                    self.place(now, formation);
                }
            }
            Err(refused) => self.refuse(id, refused),
        }
    }

    /// Returns the number of the formation that the session now belongs to.
    fn try_join(&mut self, now: Duration, id: SessionId, join: Join) -> Result<u64, Refused> {
        join.check(self.pool.limits().ports_max, self.config.numerics)?;
        let address = self.sessions[&id].peer.ip().to_canonical();
        let endpoint = SocketAddr::new(address, join.udp_port);
        let named = self.names.get(&join.job).copied();
        match named {
            Some(Named::Active(_)) => {
                let message =
                    format!("job '{}' is running already: wait for its end or choose another name", join.job);
                return Err(Refused::new(Refusal::JobRunning, message));
            }
            Some(Named::Forming(formation)) => join.agrees(&self.forming[&formation])?,
            None => self.check_jobs()?,
        }
        if self.endpoints.contains(&endpoint) {
            let message = format!("another worker sends from {endpoint}: give every worker its own UDP port");
            return Err(Refused::new(Refusal::Argument, message));
        }
        let pending: usize = self.forming.values().map(|job| job.members.len()).sum();
        if pending >= self.config.pending_joins_max {
            let message = format!("{pending} workers wait for their peers already: try again later");
            return Err(Refused::new(Refusal::Busy, message));
        }

        // Nothing is refused from here on.
        let formation = match named {
            Some(Named::Forming(formation)) => formation,
            _ => self.new_formation(now, &join),
        };
        let session = self.sessions.get_mut(&id).expect("the session that joins is open");
        session.endpoint = Some(endpoint);
        session.stage = Stage::Forming { formation, rank: join.rank };
        self.endpoints.insert(endpoint);
        let job = self.forming.get_mut(&formation).expect("found or made above");
        job.members.insert(join.rank, id);
        Ok(formation)
    }

    fn check_jobs(&self) -> Result<(), Refused> {
        let jobs = self.forming.len() + self.active.values().filter(|job| !job.is_over()).count();
        if jobs >= self.config.jobs_max {
            let message = format!("{jobs} jobs run or form already: wait for one to end");
            return Err(Refused::new(Refusal::Busy, message));
        }
        Ok(())
    }

    fn new_formation(&mut self, now: Duration, join: &Join) -> u64 {
        let formation = self.formations;
        self.formations += 1;
        let deadline = now + self.config.join_timeout;
        self.timers.arm(deadline, Timer::Forming(formation));
        self.names.insert(join.job.clone(), Named::Forming(formation));
        let job = Forming {
            name: join.job.clone(),
            spec: join.spec(),
            members: BTreeMap::new(),
            deadline,
            short: None,
        };
        self.forming.insert(formation, job);
        formation
    }

    /// A worker that waits has gone: its rank is free again, and the last one closes the door.
    pub(super) fn leave_formation(&mut self, formation: u64, rank: u16) {
        let Some(job) = self.forming.get_mut(&formation) else { return };
        job.members.remove(&rank);
        job.short = None;
        if job.members.is_empty() {
            self.end_formation(formation);
        }
    }

    /// Forgets a formation; its members are the caller's.
    pub(super) fn end_formation(&mut self, formation: u64) -> Option<Forming> {
        let job = self.forming.remove(&formation)?;
        self.timers.disarm(job.deadline, Timer::Forming(formation));
        self.names.remove(&job.name);
        Some(job)
    }
}
