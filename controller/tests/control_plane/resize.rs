//! Resizable jobs: members that are lost, return and join, with connections that break and controllers that restart. The members' side is that
//! of the host library ([`Enrollment`]).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::bench::{Bench, FLOOR};
use crate::fake::Fake;
use netfold_control::{
    Enroll, EnrollRole, Join, Mode, Refusal, Resize, Resized, SessionEvent, SessionRequest,
};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::record::{JobName, JobState};
use netfold_proto::Instant;
use netfold_proto::enrollment::{Enrollment, EnrollmentAction, EnrollmentFailure, ResizeOutcome};
use netfold_wire::VERSION;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const SEEDS: u64 = 60;

fn lasting() -> Config {
    Config { tenants: false, jobs_kept: 10, ..Config::controller(FLOOR, 1_000_000) }
}

fn bench(config: Config) -> Bench {
    Bench::new(Fake::new(1024, 64, 16), config)
}

fn enroll(role: EnrollRole) -> Enroll {
    Enroll { version: VERSION, credentials: None, job: "train".into(), role }
}

fn first(rank: u16, world: u16) -> SessionRequest {
    SessionRequest::Enroll(enroll(EnrollRole::First { rank, world }))
}

fn shrink(generation: u32) -> SessionRequest {
    SessionRequest::Resize(Resize { generation, joining: 0, timeout_ms: 5000, meeting: None })
}

/// All ranks of the job enroll.
fn enrolled(bench: &mut Bench, world: u16) -> Vec<SessionId> {
    let enroll = |rank| {
        let id = bench.open().unwrap();
        bench.say(id, first(rank, world));
        id
    };
    (0..world).map(enroll).collect()
}

fn resized(bench: &Bench, id: SessionId) -> Option<Resized> {
    bench.received[&id].events.iter().rev().find_map(|event| match event {
        SessionEvent::Resized(resized) => Some(resized.clone()),
        _ => None,
    })
}

fn attach(bench: &mut Bench, generation: u32, (rank, world): (u16, u16), port: u16) -> SessionId {
    let id = bench.open().unwrap();
    let join = Join::new("train", (rank, world), Mode::Bfp16, 256, port + rank);
    bench.say(id, SessionRequest::Join(Join { generation, ..join }));
    id
}

#[test]
fn a_job_continues_without_a_lost_rank_under_its_name_and_admits_a_new_one() {
    let mut bench = bench(Config { jobs_kept: 10, ..Config::new(FLOOR) });
    let members = enrolled(&mut bench, 3);
    let attached: Vec<_> = (0..3).map(|rank| attach(&mut bench, 1, (rank, 3), 5000)).collect();
    bench.run_tasks();
    let epoch = bench.received[&attached[0]].admission().unwrap().epoch;
    bench.drop_session(members[1]);
    bench.drop_session(attached[1]);
    assert_eq!(bench.received[&attached[0]].lost(), Some(1));
    assert!(
        bench.received[&attached[0]].text().contains("shrink"),
        "{}",
        bench.received[&attached[0]].text()
    );
    for id in [members[0], members[2]] {
        assert_eq!(resized(&bench, id), None);
        bench.say(id, shrink(1));
    }
    let numbers: Vec<_> = [members[0], members[2]].map(|id| resized(&bench, id).unwrap()).into();
    assert_eq!(numbers.iter().map(|number| number.rank).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((numbers[0].generation, numbers[0].world, &numbers[0].lost[..]), (2, 2, &[1][..]));
    // A rank of the former generation cannot join, whatever it says of its rank.
    let late = attach(&mut bench, 1, (1, 2), 5100);
    assert_eq!(bench.received[&late].refusal(), Some(Refusal::Excluded));
    let again: Vec<_> = (0..2).map(|rank| attach(&mut bench, 2, (rank, 2), 5200)).collect();
    bench.run_tasks();
    assert!(bench.received[&again[0]].admission().unwrap().epoch > epoch);
    let name = JobName { tenant: String::new(), job: "train".into() };
    let view = bench.coordinator.view_job(&name).unwrap();
    assert_eq!((view.state, view.spec.world), (JobState::Running, 2));
    assert_eq!(view.membership.map(|seen| (seen.generation, seen.world, seen.present)), Some((2, 2, 2)));
    // A process that joins.
    let joining = bench.open().unwrap();
    bench.say(joining, SessionRequest::Enroll(enroll(EnrollRole::New {})));
    for id in [members[0], members[2]] {
        bench.say(
            id,
            SessionRequest::Resize(Resize { generation: 2, joining: 1, timeout_ms: 5000, meeting: None }),
        );
    }
    let number = resized(&bench, joining).unwrap();
    assert_eq!((number.generation, number.rank, number.world, number.survivors), (3, 2, 3, 2));
    assert!(again.iter().all(|id| bench.received[id].closed), "the former attachments have ended");
    bench.run_tasks();
    let third: Vec<_> = (0..3).map(|rank| attach(&mut bench, 3, (rank, 3), 5300)).collect();
    bench.run_tasks();
    assert!(third.iter().all(|id| bench.received[id].admission().is_some()));
    bench.finish();
}

/// One member's requests evict no other, end no attachment, and change no other job.
#[test]
fn requests_of_one_member_change_nothing_for_others() {
    let mut bench = bench(Config::new(FLOOR));
    let other = bench.start("other", 2, 6000);
    let members = enrolled(&mut bench, 3);
    let attached: Vec<_> = (0..3).map(|rank| attach(&mut bench, 1, (rank, 3), 5000)).collect();
    bench.run_tasks();
    bench.say(members[0], shrink(1));
    // Of another generation: no reply.
    bench.say(members[1], shrink(7));
    for _ in 0..12 {
        bench.pass(SECOND / 2);
        for id in members.iter().chain(&attached).chain(&other) {
            bench.say(*id, SessionRequest::ALIVE);
        }
    }
    let events = &bench.received[&members[0]].events;
    let refused = events.iter().find_map(|event| match event {
        SessionEvent::NotResized(refused) => Some(refused.missing.clone()),
        _ => None,
    });
    assert_eq!(refused, Some(vec![1, 2]));
    assert!(bench.closed(&members).is_empty() && bench.closed(&attached).is_empty());
    assert!(bench.closed(&other).is_empty());
    // No role, a second role, and wrong arguments.
    let stranger = bench.open().unwrap();
    bench.say(stranger, shrink(1));
    assert_eq!(bench.received[&stranger].refusal(), Some(Refusal::Protocol));
    let twice = bench.open().unwrap();
    bench.say(twice, first(1, 3));
    assert_eq!(bench.received[&twice].refusal(), Some(Refusal::RankTaken));
    let absent = bench.open().unwrap();
    let unknown = Enroll { job: "absent".into(), ..enroll(EnrollRole::New {}) };
    bench.say(absent, SessionRequest::Enroll(unknown));
    assert_eq!(bench.received[&absent].refusal(), Some(Refusal::Unknown));
    bench.finish();
}

/// A process, and its connection to the control port.
struct Process {
    machine: Enrollment,
    session: Option<SessionId>,
    /// Events of the session that it has received.
    read: usize,
    /// Requests under way.
    sent: VecDeque<SessionRequest>,
    dead: bool,
    paused_until: Duration,
    /// What it was last told.
    place: Option<Resized>,
    /// Whether it has asked for another generation, and has no reply.
    asking: bool,
    refusals: usize,
}

struct World {
    bench: Bench,
    processes: Vec<Process>,
    now: Duration,
    rng: StdRng,
    /// By generation: world and the process of each rank.
    generations: BTreeMap<u32, (u16, BTreeMap<u16, usize>)>,
    /// Members that each generation leaves out, as its members were told.
    lost: BTreeMap<u32, Vec<u16>>,
}

impl World {
    fn new(seed: u64, world: u16) -> Self {
        let mut this = Self {
            bench: bench(lasting()),
            processes: Vec::new(),
            now: Duration::ZERO,
            rng: StdRng::seed_from_u64(seed),
            generations: BTreeMap::new(),
            lost: BTreeMap::new(),
        };
        for rank in 0..world {
            this.spawn(EnrollRole::First { rank, world });
            this.generations.entry(1).or_default().1.insert(rank, rank.into());
        }
        this
    }

    fn instant(&self) -> Instant {
        Instant::ZERO + self.now
    }

    fn spawn(&mut self, role: EnrollRole) {
        let machine = Enrollment::new(self.instant(), enroll(role), 3600 * SECOND);
        let sent = VecDeque::new();
        let (paused_until, place) = (Duration::ZERO, None);
        self.processes.push(Process {
            machine,
            session: None,
            read: 0,
            sent,
            dead: false,
            paused_until,
            place,
            asking: false,
            refusals: 0,
        });
    }

    fn runs(&self, at: usize) -> bool {
        !self.processes[at].dead && self.processes[at].paused_until <= self.now
    }

    fn cut(&mut self, at: usize) {
        if let Some(id) = self.processes[at].session.take()
            && !self.bench.received[&id].closed
        {
            // What was sent may have arrived before, or not.
            while let Some(request) = self.processes[at].sent.pop_front().filter(|_| self.rng.random()) {
                self.bench.say(id, request);
            }
            if !self.bench.received[&id].closed {
                self.bench.drop_session(id);
            }
        }
        self.processes[at].sent.clear();
    }

    fn turn(&mut self, at: usize) {
        if !self.runs(at) {
            return;
        }
        let now = self.instant();
        if self.processes[at].machine.deadline() <= now {
            self.processes[at].machine.handle_idle(now);
        }
        while let Some(action) = self.processes[at].machine.poll_action() {
            match action {
                EnrollmentAction::Connect => {
                    self.cut(at);
                    let session = self.bench.open().ok().filter(|_| self.rng.random_range(0..8) > 0);
                    let process = &mut self.processes[at];
                    (process.session, process.read) = (session, 0);
                    match session {
                        Some(_) => process.machine.handle_connected(now),
                        None => process.machine.handle_close(now),
                    }
                }
                EnrollmentAction::Disconnect => self.cut(at),
                EnrollmentAction::Send(request) => self.processes[at].sent.push_back(request),
            }
        }
        let Some(id) = self.processes[at].session else { return };
        if self.rng.random_range(0..3) > 0
            && !self.bench.received[&id].closed
            && let Some(request) = self.processes[at].sent.pop_front()
        {
            self.bench.say(id, request);
        }
        if self.rng.random_range(0..3) > 0 {
            let received = &self.bench.received[&id];
            let process = &mut self.processes[at];
            match received.events.get(process.read) {
                Some(event) => {
                    process.read += 1;
                    process.machine.handle_event(now, event.clone());
                }
                None if received.closed => {
                    process.session = None;
                    process.machine.handle_close(now);
                }
                None => {}
            }
        }
        self.outcome(at);
    }

    fn outcome(&mut self, at: usize) {
        let process = &mut self.processes[at];
        match process.machine.take_outcome() {
            None => {}
            Some(ResizeOutcome::NotResized(_)) => {
                process.asking = false;
                process.refusals += 1;
            }
            Some(ResizeOutcome::Resized(resized)) => {
                process.asking = false;
                let (world, ranks) = self.generations.entry(resized.generation).or_default();
                assert!(*world == 0 || *world == resized.world, "two memberships of one generation");
                *world = resized.world;
                let before = ranks.insert(resized.rank, at);
                assert!(before.is_none_or(|other| other == at), "two processes have one rank");
                let lost = self.lost.entry(resized.generation).or_insert_with(|| resized.lost.clone());
                assert_eq!(*lost, resized.lost, "two memberships of one generation");
                if let Some(former) =
                    process.place.as_ref().filter(|former| former.generation + 1 == resized.generation)
                {
                    let before = resized.lost.iter().filter(|lost| **lost < former.rank).count() as u16;
                    assert_eq!(resized.rank, former.rank - before, "survivors keep their order");
                    assert!(!resized.lost.contains(&former.rank));
                }
                process.place = Some(resized);
            }
        }
    }

    fn ask(&mut self, at: usize, joining: u16) {
        let now = self.instant();
        let process = &mut self.processes[at];
        if !process.asking && process.machine.generation() > 0 {
            process.asking = true;
            process.machine.resize(now, Resize { generation: 0, joining, timeout_ms: 4000, meeting: None });
        }
    }

    fn fault(&mut self) {
        let at = self.rng.random_range(0..self.processes.len());
        match self.rng.random_range(0..20) {
            0..6 => self.cut(at),
            6..8 => {
                self.cut(at);
                self.processes[at].dead = true;
            }
            8..11 => self.processes[at].paused_until = self.now + self.rng.random_range(1..8) * SECOND,
            11 => self.restart(),
            12 if self.processes.len() < 9 => self.spawn(EnrollRole::New {}),
            _ => {
                let joining = u16::from(self.rng.random_range(0..3) == 0);
                (0..self.processes.len()).for_each(|at| {
                    if self.runs(at) && self.rng.random_range(0..10) > 0 {
                        self.ask(at, joining);
                    }
                });
            }
        }
    }

    fn restart(&mut self) {
        let unused = Bench::new(Fake::new(1024, 64, 16), lasting());
        self.bench = std::mem::replace(&mut self.bench, unused).restart(lasting());
        for process in &mut self.processes {
            if process.session.take().is_some() {
                process.sent.clear();
                process.machine.handle_close(Instant::ZERO + self.now);
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.bench.pass(time);
        self.bench.run_tasks();
    }

    /// Without faults, all that are alive and not excluded come to one generation.
    fn settle(&mut self) {
        for _ in 0..4000 {
            self.pass(SECOND / 50);
            for at in 0..self.processes.len() {
                self.turn(at);
                if self.runs(at) && self.processes[at].machine.generation() > 0 {
                    self.ask(at, 0);
                }
            }
        }
        let newest = *self.generations.keys().last().unwrap();
        for (at, process) in self.processes.iter().enumerate().filter(|(_, process)| !process.dead) {
            match process.machine.failure() {
                // It waits to join, and the members do not ask for it.
                None if process.machine.generation() == 0 => {}
                None => assert!(newest - process.machine.generation() <= 1, "process {at} is behind"),
                Some(EnrollmentFailure::Refused { reason: Refusal::Excluded, .. }) => {}
                Some(EnrollmentFailure::Refused { reason: Refusal::Unknown | Refusal::Protocol, .. }) => {}
                other => panic!("process {at}: {other:?}"),
            }
        }
        let alive =
            self.processes.iter().filter(|process| !process.dead && process.machine.failure().is_none());
        let members = alive.filter(|process| process.machine.generation() > 0).count();
        assert!(members == 0 || newest > 1, "those that remain have no next generation");
    }
}

/// Deaths, pauses, connections that break and restarts of the controller at any moment: no generation has two memberships, and those that remain
/// continue.
#[test]
fn no_generation_has_two_memberships_for_any_seed() {
    let mut reached = BTreeSet::new();
    let first = std::env::var("SIM_FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    for seed in first..first + SEEDS {
        println!("SIM_FIRST={seed}");
        let mut world = World::new(seed, 5);
        for step in 0..600 {
            world.pass(SECOND / 50);
            (0..world.processes.len()).for_each(|at| world.turn(at));
            if step > 60 && world.rng.random_range(0..12) == 0 {
                world.fault();
            }
        }
        world.settle();
        reached.insert(*world.generations.keys().last().unwrap());
    }
    assert!(reached.last().is_some_and(|most| *most >= 4), "the simulation resizes: {reached:?}");
}
