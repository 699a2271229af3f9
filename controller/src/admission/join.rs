//! Validation of join requests.

use super::rate_limiter::LimitVerdict;
use super::{Coordinator, Named, SessionId, Stage};
use crate::endpoints::overlapping;
use crate::fleet::{Fleet, cannot_authenticate};
use crate::jobs::{FormingTree, Owner, TreeName};
use crate::message::Refused;
use crate::record::{JobName, JobSpec};
use crate::timers::Timer;
use netfold_control::{Join, Multipath, PATHS_MAX, Refusal, SessionEvent, TREES_MAX};
use netfold_wire::{CLASSES_MAX, VERSION};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Longest job name, in bytes.
pub(super) const NAME_LEN_MAX: usize = 64;

/// The checks of a request that need no other state.
trait Asked {
    /// Whether the request can be met at all by these switches.
    fn check(&self, fleet: &Fleet) -> Result<(), Refused>;
    /// What all members must agree on.
    fn spec(&self) -> JobSpec;
}

impl Asked for Join {
    fn check(&self, fleet: &Fleet) -> Result<(), Refused> {
        let refuse = |message: String| Err(Refused::new(Refusal::Argument, message));
        if self.version != VERSION {
            return Err(Refused::version(self.version.into()));
        }
        check_name(&self.job)?;
        if !self.group.is_empty() {
            check_name(&self.group)?;
        }
        let world_max = fleet.world_max();
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
        check_udp_ports(self)?;
        check_numerics(self, fleet)
    }

    fn spec(&self) -> JobSpec {
        let Self { world, mode, slots, classes, trees, authenticated, .. } = *self;
        let udp_ports = self.udp_ports.max(1);
        JobSpec { world, mode, slots, classes, trees, authenticated, udp_ports, iteration: None }
    }
}

/// Whether a name can be a job's or a tenant's.
pub(super) fn check_name(name: &str) -> Result<(), Refused> {
    let refuse = |message: String| Err(Refused::new(Refusal::Argument, message));
    if !(1..=NAME_LEN_MAX).contains(&name.len()) {
        return refuse(format!("the name has {} bytes: choose one of 1 to {NAME_LEN_MAX} bytes", name.len()));
    }
    if name.chars().any(|character| character.is_control() || character == '/') {
        return refuse("the name holds control characters or a slash: choose a printable one without".into());
    }
    Ok(())
}

fn check_udp_ports(join: &Join) -> Result<(), Refused> {
    let Join { udp_port, udp_ports, .. } = *join;
    if udp_ports > 1 && !Multipath::is_valid(udp_ports) {
        let message = format!("{udp_ports} UDP ports: give a power of two up to {PATHS_MAX}");
        return Err(Refused::new(Refusal::Argument, message));
    }
    if udp_port.checked_add(u16::from(udp_ports.max(1) - 1)).is_none() {
        let message = format!("{udp_ports} UDP ports from {udp_port} on: the last one is 65535");
        return Err(Refused::new(Refusal::Argument, message));
    }
    Ok(())
}

fn check_numerics(join: &Join, fleet: &Fleet) -> Result<(), Refused> {
    let needed = join.mode.numerics();
    if fleet.folds(needed) {
        return Ok(());
    }
    let message = match fleet.numerics() {
        Some(numerics) => format!(
            "mode {} needs a switch of {needed} numerics and this one runs {numerics}: give mode {}, or start the \
             switch with --numerics {needed}",
            join.mode,
            numerics.modes()
        ),
        None => format!(
            "mode {} needs a switch of {needed} numerics and there is none: give another mode",
            join.mode
        ),
    };
    Err(Refused::new(Refusal::Numerics, message))
}

/// Whether a worker asks for what its job has.
fn agree(name: &TreeName, spec: &JobSpec, asked: &JobSpec) -> Result<(), Refused> {
    let name = name.subject();
    let refuse = |reason, message: String| Err(Refused::new(reason, message));
    if asked.world != spec.world {
        return refuse(
            Refusal::WorldMismatch,
            format!(
                "{name} has {} workers and this one says {}: give all the same world size",
                spec.world, asked.world
            ),
        );
    }
    if asked.mode != spec.mode {
        return refuse(
            Refusal::ModeMismatch,
            format!(
                "{name} runs in mode {} and this worker says {}: give all the same mode",
                spec.mode, asked.mode
            ),
        );
    }
    let differs =
        |what: String| refuse(Refusal::Argument, format!("{name} {what}: give all the same number"));
    if asked.slots != spec.slots {
        return differs(format!("asks for {} slots and this worker for {}", spec.slots, asked.slots));
    }
    if asked.classes != spec.classes {
        return differs(format!(
            "has {} classes of operations and this worker {}",
            spec.classes, asked.classes
        ));
    }
    if asked.trees != spec.trees {
        return differs(format!("has {} trees and this worker {}", spec.trees, asked.trees));
    }
    if asked.authenticated != spec.authenticated {
        let (has, has_not) = ("authenticated packets", "packets without tags");
        let (job, worker) = if spec.authenticated { (has, has_not) } else { (has_not, has) };
        let message =
            format!("{name} has {job} and this worker asks for {worker}: give all the same setting");
        return refuse(Refusal::Argument, message);
    }
    Ok(())
}

/// Members may have joined before and after a change of the configuration.
fn agree_udp_ports(name: &TreeName, spec: &JobSpec, asked: &JobSpec) -> Result<(), Refused> {
    if asked.udp_ports == spec.udp_ports {
        return Ok(());
    }
    let message = format!(
        "workers of {} send from {} UDP ports and this one from {}: run the same release of the library on all",
        name.subject(),
        spec.udp_ports,
        asked.udp_ports
    );
    Err(Refused::new(Refusal::Argument, message))
}

/// Whether a worker can be a member of a job that forms.
fn agree_to_form(name: &TreeName, job: &FormingTree, join: &Join) -> Result<(), Refused> {
    agree(name, &job.spec, &join.spec())?;
    agree_udp_ports(name, &job.spec, &join.spec())?;
    agree_generation(name, job.generation, join.generation)?;
    check_rank(job, join.rank)
}

/// A control port without the job's membership, after a restart, has only what the workers say.
fn agree_generation(name: &TreeName, has: u32, asked: u32) -> Result<(), Refused> {
    if has == asked {
        return Ok(());
    }
    let message = format!("{} forms at generation {has}, and this worker is at {asked}", name.subject());
    Err(Refused::new(Refusal::Excluded, message))
}

impl Coordinator {
    /// Handles the join of a session that has not joined yet.
    pub(super) fn join(&mut self, now: Duration, id: SessionId, join: Join) {
        match self.try_join(now, id, join) {
            Ok(None) => {}
            Ok(Some(formation)) => {
                if self.forming[&formation].is_complete() {
                    self.place(now, formation);
                }
            }
            Err(refused) if refused.reason == Refusal::Credentials => {
                self.limit_credentials(now, id, refused, "joins without a tenant's token");
            }
            Err(refused) => self.refuse(id, refused),
        }
    }

    /// Refuses a request without valid credentials; those that come too fast from one address without an event. `what` names such requests.
    pub(super) fn limit_credentials(&mut self, now: Duration, id: SessionId, refused: Refused, what: &str) {
        let Some(peer) = self.sessions.get(&id).map(|session| session.peer.ip()) else { return };
        let busy = |wait: Duration| {
            let message = format!(
                "too many {what} from {}: check the credentials, and come again in {} s",
                peer.to_canonical(),
                wait.as_secs().max(1)
            );
            Refused::new(Refusal::Busy, message)
        };
        match self.credential_limiter.refused(now, peer) {
            LimitVerdict::Allowed => self.refuse(id, refused),
            LimitVerdict::Exceeded(wait) => self.refuse(id, busy(wait)),
            LimitVerdict::Suppressed(wait) => self.reject(id, busy(wait)),
        }
    }

    /// Returns the number of the formation that the session now belongs to; `None` if the worker is to join again with several UDP ports.
    fn try_join(&mut self, now: Duration, id: SessionId, join: Join) -> Result<Option<u64>, Refused> {
        join.check(&self.fleet)?;
        self.check_authentication(id, &join)?;
        let tenant = self.tenant_of(join.credentials.as_ref())?;
        let multipath = self.config.multipath.filter(|_| self.fleet.has_multipath());
        if join.udp_ports == 0
            && let Some(Multipath { udp_ports, .. }) = multipath
        {
            self.send(id, SessionEvent::Paths { udp_ports });
            return Ok(None);
        }
        let each = multipath.map_or(1, |multipath| multipath.udp_ports);
        if join.udp_ports > 1 && join.udp_ports != each {
            let message = format!(
                "{} UDP ports, where each worker has {each}: join with 0 and then with the number in the reply",
                join.udp_ports
            );
            return Err(Refused::new(Refusal::Argument, message));
        }
        let address = join.address.unwrap_or_else(|| self.sessions[&id].peer.ip()).to_canonical();
        let endpoint = SocketAddr::new(address, join.udp_port);
        let job = JobName { tenant, job: join.job.clone() };
        self.check_generation(&job, join.generation)?;
        let name = TreeName { name: job, group: join.group.clone(), tree: join.tree };
        self.replace_abandoned(&name);
        self.yield_endpoint(id, endpoint);
        let named = self.names.get(&name).copied();
        match named {
            Some(Named::Active(_)) => {
                let message =
                    format!("{} is running already: wait for its end or choose another name", name.subject());
                return Err(Refused::new(Refusal::JobRunning, message));
            }
            Some(Named::Forming(formation)) => {
                let job = &self.forming[&formation];
                agree_to_form(&name, job, &join)?;
            }
            None => self.check_new(&name, &join.spec())?,
        }
        let owner = self.owner_of(&name, id);
        if let Some(taken) = self.taken_endpoint(endpoint, join.udp_ports) {
            let message = format!("another worker sends from {taken}: give every worker its own UDP port");
            return Err(Refused::new(Refusal::Argument, message));
        }
        let own = match named {
            Some(Named::Forming(formation)) => Some(formation),
            _ => None,
        };
        self.make_room_to_form(&owner, own)?;

        // No refusal after this point.
        let formation = match named {
            Some(Named::Forming(formation)) => formation,
            _ => {
                let iteration = self.declared(&name.name).and_then(|spec| spec.iteration);
                let spec = JobSpec { iteration, ..join.spec() };
                self.new_formation(now, name, owner, (spec, join.generation))
            }
        };
        let session = self.sessions.get_mut(&id).expect("the session that joins is open");
        session.endpoint = Some(endpoint);
        session.udp_ports = join.udp_ports.max(1);
        session.datagram_max = join.datagram_max;
        session.stage = Stage::Forming { formation, rank: join.rank };
        self.endpoints.insert(endpoint, id);
        let job = self.forming.get_mut(&formation).expect("found or made above");
        job.members.insert(join.rank, id);
        job.movable &= join.movable;
        Ok(Some(formation))
    }

    /// An endpoint of another worker among these UDP ports.
    fn taken_endpoint(&self, first: SocketAddr, udp_ports: u8) -> Option<SocketAddr> {
        overlapping(&self.endpoints, (first, udp_ports), |id| self.sessions[id].udp_ports)
    }

    /// Whether a worker that asks for authenticated packets can be sent keys.
    fn check_authentication(&self, id: SessionId, join: &Join) -> Result<(), Refused> {
        let refuse = |message: String| Err(Refused::new(Refusal::Authentication, message));
        if !join.authenticated {
            return Ok(());
        }
        if !self.fleet.authenticates() {
            return refuse(cannot_authenticate("the switch"));
        }
        if !self.config.encrypted && !self.sessions[&id].peer.ip().to_canonical().is_loopback() {
            return refuse(
                "authenticated packets need keys, which this session would carry in clear text: start the controller with a certificate \
                 (--tls-cert and --tls-key) and give the workers its authority"
                    .into(),
            );
        }
        Ok(())
    }

    /// Whether a tree of a job may begin to form.
    fn check_new(&self, name: &TreeName, spec: &JobSpec) -> Result<(), Refused> {
        let mut sibling = None;
        for (other, named) in self.trees_of(&name.name, &name.group) {
            sibling = match named {
                Named::Forming(formation) => Some(self.forming[&formation].spec),
                Named::Active(job) => Some(self.active[&job].spec),
            };
            debug_assert_ne!(other.tree, name.tree, "a tree that is there does not begin");
        }
        let declared = || self.declared(&name.name).filter(|_| name.group.is_empty());
        if let Some(agreed) = sibling.or_else(declared) {
            agree(name, &agreed, spec)?;
        }
        if sibling.is_none() {
            self.check_quota(&name.name, spec.world)?;
        }
        Ok(())
    }

    /// How a job was declared.
    fn declared(&self, name: &JobName) -> Option<JobSpec> {
        self.jobs.get(name).filter(|job| job.declared).map(|job| job.spec)
    }

    fn new_formation(
        &mut self,
        now: Duration,
        name: TreeName,
        owner: Owner,
        (spec, generation): (JobSpec, u32),
    ) -> u64 {
        let formation = self.formations;
        self.formations += 1;
        let deadline = now + self.config.join_timeout;
        self.timers.arm(deadline, Timer::Forming(formation));
        self.names.insert(name.clone(), Named::Forming(formation));
        let job = FormingTree {
            name,
            owner,
            spec,
            generation,
            members: BTreeMap::new(),
            deadline,
            movable: true,
            short: None,
        };
        self.forming.insert(formation, job);
        formation
    }

    /// A waiting worker has left: its rank is free again; when the last one leaves, the formation is removed.
    pub(super) fn leave_formation(&mut self, formation: u64, rank: u16) {
        let Some(job) = self.forming.get_mut(&formation) else { return };
        job.members.remove(&rank);
        job.short = None;
        if job.members.is_empty() {
            self.end_formation(formation);
        }
    }

    /// Forgets a formation; its members are the caller's.
    pub(super) fn end_formation(&mut self, formation: u64) -> Option<FormingTree> {
        let job = self.forming.remove(&formation)?;
        self.timers.disarm(job.deadline, Timer::Forming(formation));
        self.names.remove(&job.name);
        Some(job)
    }
}

fn check_rank(job: &FormingTree, rank: u16) -> Result<(), Refused> {
    if job.members.contains_key(&rank) {
        let message = format!(
            "another worker holds rank {rank} of {}: give every worker its own rank",
            job.name.subject()
        );
        return Err(Refused::new(Refusal::RankTaken, message));
    }
    Ok(())
}
