//! The state machine and the executor on one bench, under a clock that the test turns.

use crate::fake::Fake;
use netfold_controller::admission::{Config, Coordinator, Loss, Output, SessionId};
use netfold_controller::executor::{Executor, Task};
use netfold_controller::jobs::{EndReason, JobEvent};
use netfold_controller::message::Refused;
use netfold_wire::control::{Admission, Event, Join, Mode, Refusal, Request};
use netfold_wire::serial;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Everything a session was told.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) events: Vec<Event>,
    pub(crate) closed: bool,
}

impl Heard {
    pub(crate) fn admission(&self) -> Option<&Admission> {
        self.events.iter().find_map(|event| match event {
            Event::Admitted(admission) => Some(admission),
            _ => None,
        })
    }

    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.events.iter().find_map(|event| match event {
            Event::Refused { reason, .. } => Some(*reason),
            _ => None,
        })
    }

    pub(crate) fn text(&self) -> &str {
        self.events
            .iter()
            .find_map(|event| match event {
                Event::Refused { message, .. } | Event::PeerLost { message, .. } => Some(message.as_str()),
                _ => None,
            })
            .unwrap_or_default()
    }

    pub(crate) fn lost(&self) -> Option<u16> {
        self.events.iter().find_map(|event| match event {
            Event::PeerLost { rank, .. } => Some(*rank),
            _ => None,
        })
    }

    pub(crate) fn is_untouched(&self) -> bool {
        !self.closed
            && self.events.iter().all(|event| matches!(event, Event::Alive {} | Event::PeerLeft { .. }))
    }
}

pub(crate) struct Bench {
    pub(crate) now: Duration,
    pub(crate) fake: Fake,
    pub(crate) coordinator: Coordinator,
    executor: Executor,
    pub(crate) tasks: VecDeque<Task>,
    pub(crate) heard: BTreeMap<SessionId, Heard>,
    pub(crate) log: Vec<JobEvent>,
    /// First chunk of every range that was ever started, by job.
    running: BTreeMap<u16, (u32, u32, u32)>,
    epoch_last: u32,
}

pub(crate) const FLOOR: u32 = 1000;

pub(crate) fn config() -> Config {
    Config::new(FLOOR)
}

pub(crate) fn join(name: &str, rank: u16, world: u16, udp_port: u16) -> Request {
    Request::Join(Join::new(name, (rank, world), Mode::Bfp16, 256, udp_port))
}

impl Bench {
    pub(crate) fn new(fake: Fake, config: Config) -> Self {
        let limits = fake.lock().limits;
        Self {
            now: Duration::from_secs(5),
            coordinator: Coordinator::new(config, limits, StdRng::seed_from_u64(7)),
            executor: Executor::new(fake.boxed()),
            fake,
            tasks: VecDeque::new(),
            heard: BTreeMap::new(),
            log: Vec::new(),
            running: BTreeMap::new(),
            epoch_last: FLOOR - 1,
        }
    }

    pub(crate) fn open(&mut self) -> Result<SessionId, Refused> {
        let id = self.coordinator.open(self.now, ([127, 0, 0, 1], 40_000).into())?;
        self.heard.insert(id, Heard::default());
        self.collect();
        Ok(id)
    }

    pub(crate) fn say(&mut self, id: SessionId, request: Request) {
        self.coordinator.request(self.now, id, request);
        self.collect();
    }

    pub(crate) fn drop_session(&mut self, id: SessionId) {
        self.coordinator.close(id, Loss::Closed);
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

    pub(crate) fn shutdown(&mut self) {
        self.coordinator.shutdown();
        self.collect();
    }

    /// Ends everything and checks that nothing is left anywhere.
    pub(crate) fn finish(mut self) {
        self.fake.lock().failing = Box::new(|_| false);
        self.shutdown();
        self.run_tasks();
        assert!(self.coordinator.is_idle());
        self.pass(Duration::from_secs(60));
        self.run_tasks();
        assert!(self.coordinator.is_unused(), "the pool leaks");
        assert!(self.fake.lock().is_empty(), "the switch holds something still");
        assert!(self.heard.values().all(|heard| heard.closed));
        assert_eq!(self.coordinator.next_deadline(), None, "a timer outlives everything");
    }

    fn collect(&mut self) {
        while let Some(output) = self.coordinator.poll_output() {
            match output {
                Output::Send { session, event } => self.hear(session, event),
                Output::Close { session } => {
                    let heard = self.heard.get_mut(&session).expect("outputs name sessions that were opened");
                    assert!(!std::mem::replace(&mut heard.closed, true), "closed twice");
                }
                Output::Task(task) => self.tasks.push_back(task),
                Output::Log(event) => self.check_log(event),
            }
        }
    }

    fn hear(&mut self, session: SessionId, event: Event) {
        let heard = self.heard.get_mut(&session).expect("outputs name sessions that were opened");
        assert!(!heard.closed, "told something after it was closed");
        match &event {
            Event::Admitted(_) => {
                assert_eq!((heard.admission(), heard.refusal()), (None, None), "answered twice");
            }
            Event::PeerLost { .. } => assert!(heard.admission().is_some() && heard.lost().is_none()),
            Event::Refused { .. } => assert_eq!(heard.refusal(), None),
            Event::PeerLeft { .. } => assert!(heard.admission().is_some()),
            Event::Alive {} | Event::Resumed {} | Event::SwitchLost { .. } => {}
        }
        heard.events.push(event);
    }

    fn check_log(&mut self, event: JobEvent) {
        match &event {
            JobEvent::Started { placement, first_chunk, .. } => {
                assert!(placement.epoch > self.epoch_last, "an epoch is used again");
                self.epoch_last = placement.epoch;
                let (first, slots) = (placement.first_slot, placement.slots);
                let mut switch = self.fake.lock();
                for stored in switch.chunks[first as usize..(first + slots) as usize].iter().flatten() {
                    assert!(
                        serial::newer(*first_chunk, *stored),
                        "chunk {first_chunk} is not after {stored}"
                    );
                }
                let admitted = switch.admitted();
                let mine: Vec<_> = admitted.iter().filter(|entry| entry.job == placement.job).collect();
                assert_eq!(mine.len(), usize::from(placement.world), "every rank is admitted");
                assert!(mine.iter().all(|e| e.epoch == placement.epoch && e.key == placement.key));
                // The job's traffic: any number of chunks.
                let last = first_chunk.wrapping_add(placement.key);
                for (slot, stored) in
                    switch.chunks[first as usize..(first + slots) as usize].iter_mut().enumerate()
                {
                    *stored = [last.wrapping_add(slot as u32), last.wrapping_sub(slots - slot as u32)];
                }
                self.running.insert(placement.job, (first, slots, *first_chunk));
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
        ids.iter().copied().filter(|id| self.heard[id].closed).collect()
    }
}
