//! The state machine and the executor on one bench, under a clock that the test turns.

use crate::fake::Fake;
use netfold_control::{Admission, Join, Mode, Numerics, PathToken, Refusal, SessionEvent, SessionRequest};
use netfold_controller::admission::{Config, Coordinator, Output, SessionId, SessionLoss};
use netfold_controller::executor::{Executor, TenantTask};
use netfold_controller::fleet::{Fleet, OneSwitch, SwitchInfo};
use netfold_controller::jobs::{EndReason, JobEvent};
use netfold_controller::message::Refused;
use netfold_controller::record::{Change, StoredRecords};
use netfold_wire::serial;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Everything that a session received.
#[derive(Debug, Default)]
pub(crate) struct ReceivedEvents {
    pub(crate) events: Vec<SessionEvent>,
    pub(crate) closed: bool,
}

impl ReceivedEvents {
    pub(crate) fn admission(&self) -> Option<&Admission> {
        self.events.iter().find_map(|event| match event {
            SessionEvent::Admitted(admission) => Some(admission),
            _ => None,
        })
    }

    /// Whether it was admitted, or has resumed.
    fn takes_part(&self) -> bool {
        self.admission().is_some() || self.events.contains(&SessionEvent::Resumed {})
    }

    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.events.iter().find_map(|event| match event {
            SessionEvent::Refused { reason, .. } => Some(*reason),
            _ => None,
        })
    }

    pub(crate) fn text(&self) -> &str {
        self.events
            .iter()
            .find_map(|event| match event {
                SessionEvent::Refused { message, .. }
                | SessionEvent::PeerLost { message, .. }
                | SessionEvent::SwitchLost { message } => Some(message.as_str()),
                _ => None,
            })
            .unwrap_or_default()
    }

    pub(crate) fn lost(&self) -> Option<u16> {
        self.events.iter().find_map(|event| match event {
            SessionEvent::PeerLost { rank, .. } => Some(*rank),
            _ => None,
        })
    }

    pub(crate) fn is_untouched(&self) -> bool {
        !self.closed
            && self.events.iter().all(|event| {
                matches!(
                    event,
                    SessionEvent::Alive {}
                        | SessionEvent::Path(_)
                        | SessionEvent::Paths { .. }
                        | SessionEvent::PeerLeft { .. }
                )
            })
    }
}

pub(crate) struct Bench {
    pub(crate) now: Duration,
    pub(crate) fake: Fake,
    fakes: Vec<Fake>,
    pub(crate) coordinator: Coordinator,
    executor: Executor,
    pub(crate) tasks: VecDeque<TenantTask>,
    pub(crate) received: BTreeMap<SessionId, ReceivedEvents>,
    /// Where the workers of sessions send from.
    endpoints: BTreeMap<SessionId, SocketAddr>,
    /// Whether workers validate their paths as soon as they are asked to, and the tokens that are to be sent.
    pub(crate) validates: bool,
    tokens: Vec<(SessionId, PathToken)>,
    pub(crate) log: Vec<JobEvent>,
    /// What is kept for a restart.
    pub(crate) kept: StoredRecords,
    /// First chunk of every range that was ever started, by job.
    running: BTreeMap<u16, (u32, u32, u32)>,
    epoch_last: u32,
}

/// Two leaves with a host each, below a spine; of one link the rate is given.
pub(crate) const LEAF_SPINE: &str = r#"
[[switch]]
name = "leaf1"
p4runtime = "10.9.0.1:9559"
role = "leaf"
[[switch]]
name = "leaf2"
p4runtime = "10.9.0.2:9559"
role = "leaf"
[[switch]]
name = "spine"
p4runtime = "10.9.0.3:9559"
role = "spine"
[[host]]
name = "left"
addresses = ["10.0.1.0/24"]
switch = "leaf1"
[[host]]
name = "right"
addresses = ["10.0.2.0/24"]
switch = "leaf2"
[[link]]
a = "leaf1"
b = "spine"
rate = "1G"
[[link]]
a = "leaf2"
b = "spine"
"#;

pub(crate) const FLOOR: u32 = 1000;

pub(crate) fn config() -> Config {
    Config::new(FLOOR)
}

pub(crate) fn join(name: &str, rank: u16, world: u16, udp_port: u16) -> SessionRequest {
    SessionRequest::Join(Join::new(name, (rank, world), Mode::Bfp16, 256, udp_port))
}

impl Bench {
    pub(crate) fn new(fake: Fake, config: Config) -> Self {
        let limits = fake.lock().limits;
        let (switch, keys) = (SwitchInfo::own(limits, Numerics::Word), StdRng::seed_from_u64(7));
        let fleet = Fleet::new(vec![switch], Box::new(OneSwitch), config.epoch_floor, keys);
        Self::over(vec![fake], config, fleet, StoredRecords::default())
    }

    /// Over switches of its own; the first is [`Bench::fake`].
    pub(crate) fn over(fakes: Vec<Fake>, config: Config, fleet: Fleet, kept: StoredRecords) -> Self {
        let drivers = fakes.iter().map(Fake::boxed).collect();
        let mut bench = Self {
            now: Duration::from_secs(5),
            epoch_last: kept.epoch_next.max(FLOOR) - 1,
            coordinator: Coordinator::new(config, fleet, kept.clone()),
            executor: Executor::new(drivers),
            fake: fakes[0].clone(),
            fakes,
            tasks: VecDeque::new(),
            received: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            validates: true,
            tokens: Vec::new(),
            log: Vec::new(),
            kept,
            running: BTreeMap::new(),
        };
        bench.collect();
        bench
    }

    /// The control plane is killed and starts again with what was kept; its driver removes what it finds undesired on the switch.
    pub(crate) fn restart(self, config: Config) -> Self {
        let limits = self.fake.lock().limits;
        let (switch, keys) = (SwitchInfo::own(limits, Numerics::Word), StdRng::seed_from_u64(8));
        let fleet = Fleet::new(vec![switch], Box::new(OneSwitch), config.epoch_floor, keys);
        self.restart_over(config, fleet)
    }

    /// The same over several switches.
    pub(crate) fn restart_over(self, config: Config, fleet: Fleet) -> Self {
        let Self { fakes, kept, running, .. } = self;
        let mut bench = Self::over(fakes, config, fleet, kept);
        bench.now = Duration::ZERO;
        bench.running = running;
        let holdings = bench.coordinator.holdings();
        bench.fakes.iter().zip(&holdings).for_each(|(fake, held)| fake.lock().keep_only(held));
        bench
    }

    pub(crate) fn open(&mut self) -> Result<SessionId, Refused> {
        self.open_from([127, 0, 0, 1].into())
    }

    pub(crate) fn open_from(&mut self, peer: IpAddr) -> Result<SessionId, Refused> {
        let id = self.coordinator.open(self.now, (peer, 40_000).into())?;
        self.received.insert(id, ReceivedEvents::default());
        self.endpoints.insert(id, (peer, 0).into());
        self.collect();
        Ok(id)
    }

    pub(crate) fn say(&mut self, id: SessionId, request: SessionRequest) {
        if let SessionRequest::Join(join) = &request
            && let Some(endpoint) = self.endpoints.get_mut(&id)
        {
            *endpoint = (join.address.unwrap_or(endpoint.ip()), join.udp_port).into();
        }
        self.coordinator.request(self.now, id, request);
        self.collect();
    }

    /// The token that a session's worker has from its switch.
    pub(crate) fn path_token(&self, id: SessionId) -> Option<PathToken> {
        self.fakes.iter().find_map(|fake| fake.lock().path_token(self.endpoints[&id]))
    }

    pub(crate) fn drop_session(&mut self, id: SessionId) {
        self.coordinator.close(self.now, id, SessionLoss::Closed);
        self.collect();
    }

    /// Opens a session and asks to join.
    pub(crate) fn join(&mut self, name: &str, rank: u16, world: u16, udp_port: u16) -> SessionId {
        let id = self.open().expect("there is room for a session");
        self.say(id, join(name, rank, world, udp_port));
        id
    }

    /// All ranks of a job, at ports `udp_port..`; the switch's work is not done yet.
    pub(crate) fn join_all(&mut self, name: &str, world: u16, udp_port: u16) -> Vec<SessionId> {
        (0..world).map(|rank| self.join(name, rank, world, udp_port + rank)).collect()
    }

    /// The same, and the switch's work is done.
    pub(crate) fn start(&mut self, name: &str, world: u16, udp_port: u16) -> Vec<SessionId> {
        let members = self.join_all(name, world, udp_port);
        self.run_tasks();
        members
    }

    pub(crate) fn run_task(&mut self) -> bool {
        let Some(task) = self.tasks.pop_front() else { return false };
        let outcome = self.executor.run(task);
        self.coordinator.handle_outcome(self.now, outcome);
        self.collect();
        true
    }

    pub(crate) fn run_tasks(&mut self) {
        while self.run_task() {}
    }

    /// Lets time pass, deadline by deadline.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.coordinator.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.coordinator.handle_timeout(self.now);
            self.collect();
        }
        self.now = end;
    }

    /// Does something to the control plane, and what it asks for.
    pub(crate) fn act<R>(&mut self, act: impl FnOnce(&mut Coordinator, Duration) -> R) -> R {
        let result = act(&mut self.coordinator, self.now);
        self.collect();
        result
    }

    pub(crate) fn shutdown(&mut self) {
        self.coordinator.shutdown();
        self.collect();
    }

    /// The same over several switches, some of which may be down.
    pub(crate) fn finish_all(mut self) {
        let up = |switch| (switch, netfold_controller::switch_status::SwitchUp::default());
        for (switch, how) in (0..self.fakes.len()).map(up) {
            self.coordinator.switch_up(self.now, switch, how);
        }
        self.collect();
        self.finish();
    }

    /// Ends everything and checks that nothing is left anywhere.
    pub(crate) fn finish(mut self) {
        self.fakes.iter().for_each(|fake| fake.lock().failing = Box::new(|_| false));
        // Jobs outlive a control plane that is to come back; these do not.
        for id in self.received.keys().copied().collect::<Vec<_>>() {
            if !self.received[&id].closed {
                self.coordinator.close(self.now, id, SessionLoss::Silent);
            }
        }
        self.collect();
        self.pass(Duration::from_secs(20));
        self.shutdown();
        self.run_tasks();
        assert!(self.coordinator.is_idle());
        self.pass(Duration::from_secs(60));
        self.run_tasks();
        assert!(self.coordinator.is_unused(), "the pool leaks");
        assert!(self.fakes.iter().all(|fake| fake.lock().is_empty()), "a switch holds something still");
        assert!(self.kept.places.is_empty(), "places are kept of jobs that are over");
        assert!(self.received.values().all(|received| received.closed));
        assert_eq!(self.coordinator.next_deadline(), None, "a timer outlives everything");
    }

    fn collect(&mut self) {
        self.collect_outputs();
        while let Some((session, token)) = self.tokens.pop() {
            self.coordinator.request(self.now, session, SessionRequest::Path { token });
            self.collect_outputs();
        }
    }

    fn collect_outputs(&mut self) {
        while let Some(output) = self.coordinator.poll_output() {
            match output {
                Output::Send { session, event } => self.receive(session, event),
                Output::Close { session } => {
                    let received =
                        self.received.get_mut(&session).expect("outputs name sessions that were opened");
                    assert!(!std::mem::replace(&mut received.closed, true), "closed twice");
                }
                Output::Task(task) => self.tasks.push_back(task),
                Output::Persist(change) => self.keep(change),
                Output::Log(event) => self.check_log(event),
            }
        }
    }

    /// What is kept is what it says, and numbers do not go back.
    fn keep(&mut self, change: Change) {
        if let Change::EpochNext(epoch) = &change {
            assert!(*epoch >= self.kept.epoch_next, "epochs go back");
        }
        self.kept.apply(change);
    }

    fn receive(&mut self, session: SessionId, event: SessionEvent) {
        let received = self.received.get_mut(&session).expect("outputs name sessions that were opened");
        assert!(!received.closed, "an event after the session was closed");
        match &event {
            SessionEvent::Admitted(_) => {
                assert_eq!((received.admission(), received.refusal()), (None, None), "answered twice");
            }
            SessionEvent::PeerLost { .. } => assert!(received.takes_part() && received.lost().is_none()),
            SessionEvent::Refused { .. } => assert_eq!(received.refusal(), None),
            SessionEvent::PeerLeft { .. }
            | SessionEvent::Band(_)
            | SessionEvent::Hold(_)
            | SessionEvent::UsePorts { .. } => {
                assert!(received.takes_part());
            }
            SessionEvent::Path(_) | SessionEvent::Paths { .. } => {
                assert!(received.is_untouched(), "challenged after the answer");
            }
            SessionEvent::Alive {}
            | SessionEvent::Quota {}
            | SessionEvent::Enrolled(_)
            | SessionEvent::Resized(_)
            | SessionEvent::NotResized(_)
            | SessionEvent::Resumed {}
            | SessionEvent::SwitchLost { .. } => {}
        }
        let challenged = matches!(event, SessionEvent::Path(_));
        received.events.push(event);
        if challenged && self.validates {
            let token = self.path_token(session).expect("a member that is challenged has an entry");
            self.tokens.push((session, token));
        }
    }

    fn check_log(&mut self, event: JobEvent) {
        match &event {
            JobEvent::Started { placement, first_chunk, .. } => {
                let granted = *placement.job();
                assert!(granted.epoch > self.epoch_last, "an epoch is used again");
                self.epoch_last = granted.epoch;
                let (first, slots) = (placement.sites[0].first_slot, granted.slots);
                let mut switch = self.fakes[placement.switches[0]].lock();
                for stored in switch.chunks[first as usize..(first + slots) as usize].iter().flatten() {
                    assert!(
                        serial::newer(*first_chunk, *stored),
                        "chunk {first_chunk} is not after {stored}"
                    );
                }
                let admitted = switch.admitted();
                let mine: Vec<_> = admitted.iter().filter(|entry| entry.job == granted.job).collect();
                let children = placement.plan.switch_plans()[0].children.len();
                assert_eq!(mine.len(), children, "every child is admitted");
                assert!(mine.iter().all(|e| e.epoch == granted.epoch && e.key == granted.key));
                // The job's traffic: any number of chunks.
                let last = first_chunk.wrapping_add(granted.key);
                for (slot, stored) in
                    switch.chunks[first as usize..(first + slots) as usize].iter_mut().enumerate()
                {
                    *stored = [last.wrapping_add(slot as u32), last.wrapping_sub(slots - slot as u32)];
                }
                self.running.insert(granted.job, (first, slots, *first_chunk));
            }
            JobEvent::Ended { job, .. } => {
                assert!(self.running.remove(job).is_some(), "ended without a start")
            }
            _ => {}
        }
        self.log.push(event);
    }

    pub(crate) fn ends(&self) -> Vec<&EndReason> {
        self.log
            .iter()
            .filter_map(|event| match event {
                JobEvent::Ended { reason, .. } => Some(reason),
                _ => None,
            })
            .collect()
    }

    /// Those of the sessions that were closed.
    pub(crate) fn closed(&self, ids: &[SessionId]) -> BTreeSet<SessionId> {
        ids.iter().copied().filter(|id| self.received[id].closed).collect()
    }
}
