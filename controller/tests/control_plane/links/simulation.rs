//! Random histories of a fabric: jobs come, go and report anything, links are drained, the controller is restarted.

use super::{HEARTBEAT, RATE, Rig, SECOND, fleet, lasting, pattern};
use crate::bench::FLOOR;
use netfold_control::{Admission, CommunicationPattern, Refusal, Resume, SessionRequest};
use netfold_controller::admission::DRAINED_AT_ONCE;
use netfold_controller::jobs::{EndReason, JobEvent};
use netfold_controller::rebalance::demand::MIN_SHARE;
use netfold_controller::rebalance::{INTERVAL, PlacementPolicy};
use netfold_controller::record::JobName;
use netfold_controller::view::SnapshotScope;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const JOBS_MAX: usize = 10;

/// A tree, by its job and epoch.
type TreeAt = (String, u32);

struct Simulation {
    rig: Rig,
    rng: StdRng,
    born: u32,
    /// The last admissions of jobs.
    admitted: BTreeMap<String, [Admission; 2]>,
    /// Drained links, with the trees that were on them at the time.
    drained: Vec<((String, String), BTreeSet<TreeAt>)>,
    /// Events that were checked, and the last move for demand.
    checked: usize,
    last_move: Option<Duration>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let rig = Rig::new(PlacementPolicy::Measured);
        let rng = StdRng::seed_from_u64(seed);
        Self {
            rig,
            rng,
            born: 0,
            admitted: BTreeMap::new(),
            drained: Vec::new(),
            checked: 0,
            last_move: None,
        }
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..8 if self.rig.pairs.len() < JOBS_MAX => {
                let movable = self.rng.random_range(0..5) > 0;
                let name = format!("job{}", self.born);
                self.born += 1;
                self.start(&name, movable);
            }
            8..12 if !self.rig.pairs.is_empty() => self.leave(),
            12..15 => self.drain(),
            15 => self.restart(),
            _ => {
                self.report();
                self.rig.pass(HEARTBEAT);
            }
        }
        self.check();
    }

    fn start(&mut self, name: &str, movable: bool) {
        let port = 5000 + self.born as u16 % 2000;
        let members = self.rig.ask(name, port, movable);
        self.rig.bench.run_tasks();
        self.rig.pairs.push(super::Pair { name: name.into(), port, movable, members, bytes: 0 });
    }

    fn leave(&mut self) {
        let at = self.rng.random_range(0..self.rig.pairs.len());
        for id in self.rig.pairs.remove(at).members {
            if !self.rig.bench.received[&id].closed {
                self.rig.bench.say(id, SessionRequest::Leave {});
            }
        }
        self.rig.bench.run_tasks();
    }

    /// What workers report: the truth, anything, or nothing.
    fn report(&mut self) {
        for at in 0..self.rig.pairs.len() {
            let percent = 5 + 10 * (at as u64 % 5);
            match self.rng.random_range(0..4) {
                0 | 1 => self.rig.report(at, pattern(percent, true)),
                2 => {
                    let wrong = CommunicationPattern {
                        bytes: self.rng.random_range(1..1 << 40),
                        compute_us: self.rng.random_range(1..1_000_000),
                        ..pattern(percent, false)
                    };
                    self.rig.report(at, wrong);
                }
                _ => {}
            }
            if self.rng.random_range(0..3) == 0 {
                self.rig.pairs[at].bytes += self.rng.random_range(0..1 << 32);
            }
        }
    }

    fn drain(&mut self) {
        let links = [("leaf1", "spine1"), ("leaf1", "spine2"), ("leaf2", "spine1"), ("leaf2", "spine2")];
        let (leaf, spine) = links[self.rng.random_range(0..links.len())];
        let key = (leaf.to_owned(), spine.to_owned());
        if let Some(at) = self.drained.iter().position(|(link, _)| *link == key) {
            self.drained.remove(at);
            return self.rig.drain(leaf, spine, false, false).unwrap();
        }
        let before = self.trees_over(&key);
        self.rig.drain(leaf, spine, true, false).unwrap();
        self.drained.push((key, before));
    }

    fn trees_over(&self, (leaf, spine): &(String, String)) -> BTreeSet<TreeAt> {
        let epoch = |name: &JobName| {
            let job = self.rig.bench.coordinator.view_job(name).expect("it is at a link");
            job.trees[0].epoch.unwrap_or(0)
        };
        self.rig.link(leaf, spine).jobs.iter().map(|job| (job.job.job.clone(), epoch(&job.job))).collect()
    }

    /// The controller is killed; workers resume their sessions, or join again.
    fn restart(&mut self) {
        self.rig.bench.run_tasks();
        let pairs = std::mem::take(&mut self.rig.pairs);
        for pair in &pairs {
            let admissions = pair.members.map(|id| self.rig.bench.received[&id].admission().cloned());
            if let [Some(first), Some(second)] = admissions {
                self.admitted.insert(pair.name.clone(), [first, second]);
            }
        }
        let runs: Vec<bool> = pairs.iter().map(|pair| self.runs(pair)).collect();
        let rig = std::mem::replace(&mut self.rig, Rig::new(PlacementPolicy::Measured));
        let fleet = fleet(&rig.fakes, FLOOR.into());
        let bench = rig.bench.restart_over(lasting(PlacementPolicy::Measured), fleet);
        self.rig = Rig { bench, fakes: rig.fakes, pairs: Vec::new() };
        (self.checked, self.last_move) = (0, None);
        self.rig.bench.run_tasks();
        for (mut pair, runs) in pairs.into_iter().zip(runs) {
            let admitted = self.admitted.get(&pair.name).cloned().filter(|_| runs);
            pair.members = match admitted {
                Some([first, second]) => [(0, first), (1, second)].map(|(rank, admission)| {
                    let id = self.rig.bench.open().unwrap();
                    let ticket = admission.ticket.expect("sessions can be resumed");
                    let (version, job, epoch) = (netfold_wire::VERSION, admission.job, admission.epoch);
                    let resume = Resume { version, job, epoch, rank, ticket };
                    self.rig.bench.say(id, SessionRequest::Resume(resume));
                    id
                }),
                None => self.rig.ask(&pair.name, pair.port, pair.movable),
            };
            self.rig.pairs.push(pair);
        }
        self.rig.bench.run_tasks();
    }

    /// Whether both workers of a job have a session of a tree that runs.
    fn runs(&self, pair: &super::Pair) -> bool {
        let name = JobName { tenant: String::new(), job: pair.name.clone() };
        let job = self.rig.bench.coordinator.view_job(&name);
        let running = job.is_some_and(|job| job.trees.iter().any(|tree| tree.phase == "running"));
        running && pair.members.iter().all(|id| !self.rig.bench.received[id].closed)
    }

    fn check(&mut self) {
        let snapshot = self.rig.bench.coordinator.snapshot(SnapshotScope::Live);
        for link in &snapshot.links {
            assert!(link.jobs.len() <= JOBS_MAX, "{link:?}");
            let sum: u64 = link.jobs.iter().map(|job| job.demand).sum();
            assert_eq!(link.demand, sum, "a link's demand is the sum over its jobs: {link:?}");
            assert!(link.jobs.iter().all(|job| (RATE / MIN_SHARE..=RATE).contains(&job.demand)), "{link:?}");
            assert!(link.demand_measured <= link.demand);
        }
        for (link, before) in &self.drained {
            assert!(self.rig.link(&link.0, &link.1).drained);
            let new: Vec<_> = self.trees_over(link).difference(before).cloned().collect();
            assert!(new.is_empty(), "{new:?} use link {link:?}, which was drained before they began");
        }
        for received in self.rig.bench.received.values() {
            let may_be_refused = received.text().contains("some links are drained");
            let fine =
                received.refusal().is_none_or(|reason| reason == Refusal::Unavailable && may_be_refused);
            assert!(fine, "{}", received.text());
        }
        self.check_moves();
    }

    fn check_moves(&mut self) {
        let log: Vec<JobEvent> = self.rig.bench.log[self.checked..].to_vec();
        self.checked = self.rig.bench.log.len();
        let mut at_once = 0;
        for event in &log {
            match event {
                JobEvent::Ended { reason: EndReason::Moved { message }, .. }
                    if message.contains("is drained") =>
                {
                    at_once += 1;
                }
                JobEvent::Ended { reason: EndReason::Moved { .. }, .. } => {
                    let now = self.rig.bench.now;
                    if let Some(last) = self.last_move.replace(now) {
                        assert!(
                            now.saturating_sub(last) + HEARTBEAT >= INTERVAL,
                            "moved at {last:?} and {now:?}"
                        );
                    }
                }
                JobEvent::Ended { reason: EndReason::Finished, .. } => {}
                JobEvent::Ended { reason, .. } => panic!("a job ended: {reason}"),
                JobEvent::Started { .. } => at_once = 0,
                _ => {}
            }
            assert!(at_once <= DRAINED_AT_ONCE, "{log:?}");
        }
    }
}

#[test]
fn every_history_keeps_the_rules() {
    let mut moves = [0, 0];
    for seed in 0..8 {
        println!("seed {seed}");
        let mut simulation = Simulation::new(seed);
        for _ in 0..600 {
            simulation.step();
            let log = &simulation.rig.bench.log;
            let moved = log
                .iter()
                .filter(|event| matches!(event, JobEvent::Ended { reason: EndReason::Moved { .. }, .. }));
            moves[0] = moves[0].max(moved.count());
        }
        // Drained links become free, or name who stays.
        simulation.rig.pass(20 * SECOND);
        for ((leaf, spine), _) in &simulation.drained {
            let link = simulation.rig.link(leaf, spine);
            assert!(link.jobs.iter().all(|job| job.stays.is_some()), "{link:?}");
            moves[1] += 1;
        }
        simulation.rig.bench.finish_all();
    }
    println!("up to {} moves in a history, {} links drained at the end", moves[0], moves[1]);
    assert!(moves[0] > 5 && moves[1] > 5, "{moves:?}");
}
