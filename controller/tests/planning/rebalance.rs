//! Traffic engineering of trees in a simulation: jobs come, go and report the truth, nothing, or anything, and the controller is restarted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use netfold_control::CommunicationPattern;
use netfold_controller::rebalance::demand::{DemandMeter, Known, MIN_SHARE};
use netfold_controller::rebalance::{
    BACKOFF_MIN, INTERVAL, MARGIN, MOVE_REFILL, MOVES_MAX, Observed, Pace, PlacementPolicy, Rebalancer,
    SLOWED_MIN, UTILISATION_MIN,
};
use netfold_controller::route::{ChosenTree, NetworkState, RouteRequest, SwitchState, choose};
use netfold_controller::topology::{Member, Topology};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::fabric::{leaf_spine, members};

const TICK: Duration = Duration::from_secs(2);

/// Bits a second of all links, also of hosts.
const RATE: u64 = 100_000_000_000;

/// What a job reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reports {
    Truth,
    Nothing,
    /// Anything, and something else every few seconds.
    Random,
    /// That it needs all of its links, and is slow.
    Most,
}

struct Job {
    members: Vec<Member>,
    tree: ChosenTree,
    compute_us: u64,
    bytes: u64,
    reports: Reports,
    claim: (u64, u64, u64),
    meter: DemandMeter,
    since: Duration,
    moves: Vec<Duration>,
}

impl Job {
    fn alone(&self) -> f64 {
        self.bytes as f64 * 8.0 / (RATE as f64 * 0.96)
    }

    /// The part of a link that it needs in truth.
    fn part(&self) -> f64 {
        self.bytes as f64 * 8.0 / RATE as f64 / (self.compute_us as f64 / 1e6 + self.alone())
    }

    fn links(&self) -> Vec<usize> {
        self.tree.edges.iter().map(|edge| edge.link.index()).collect()
    }
}

struct World {
    topology: Topology,
    policy: PlacementPolicy,
    jobs: BTreeMap<u32, Job>,
    born: u32,
    rebalancer: Rebalancer<u32>,
    now: Duration,
    rng: StdRng,
    /// When the controller was started, and the last move since then.
    started: Duration,
    last_move: Option<Duration>,
    /// States of the fabric since anything changed but by moves.
    states: BTreeSet<Vec<(u32, Vec<usize>)>>,
    demands: Vec<(u32, u64)>,
    moves: usize,
    /// Sum of the parts of their time that honest jobs lost, and how many.
    lost: (f64, usize),
}

impl World {
    fn new(topology: Topology, policy: PlacementPolicy, seed: u64) -> Self {
        Self {
            topology,
            policy,
            jobs: BTreeMap::new(),
            born: 0,
            rebalancer: Rebalancer::default(),
            now: Duration::from_secs(100),
            rng: StdRng::seed_from_u64(seed),
            started: Duration::from_secs(100),
            last_move: None,
            states: BTreeSet::new(),
            demands: Vec::new(),
            moves: 0,
            lost: (0.0, 0),
        }
    }

    /// A job at random hosts of several leaves.
    fn arrive(&mut self, reports: Reports) {
        let hosts = self.topology.hosts().len();
        let workers = self.rng.random_range(2..=4);
        let at: Vec<usize> = (0..workers).map(|_| self.rng.random_range(0..hosts)).collect();
        let (compute_us, bytes) =
            (self.rng.random_range(20_000..200_000), self.rng.random_range(50..1500) * 1_000_000);
        self.arrive_at(members(&self.topology, at), (compute_us, bytes), reports);
    }

    fn arrive_at(&mut self, members: Vec<Member>, (compute_us, bytes): (u64, u64), reports: Reports) {
        let meter = DemandMeter::default();
        let known = Known { most: RATE, host_rate: RATE, pattern: None, traffic: None, declared: None };
        let tree = self.place(&members, known.unmeasured().bits_per_second, None);
        let job = Job {
            members,
            tree,
            compute_us,
            bytes,
            reports,
            claim: (0, 0, 0),
            meter,
            since: self.now,
            moves: Vec::new(),
        };
        self.jobs.insert(self.born, job);
        self.born += 1;
    }

    /// The tree that a new or moved job gets.
    fn place(&self, members: &[Member], own: u64, without: Option<u32>) -> ChosenTree {
        let loads = match self.policy {
            PlacementPolicy::Measured => self.link_demands(without),
            PlacementPolicy::Static => {
                let mut loads = vec![0; self.topology.links().len()];
                for (name, job) in &self.jobs {
                    job.links().iter().filter(|_| Some(*name) != without).for_each(|link| loads[*link] += 1);
                }
                loads
            }
        };
        let load = if self.policy == PlacementPolicy::Measured { own } else { 1 };
        place(&self.topology, members, &loads, load)
    }

    fn link_demands(&self, without: Option<u32>) -> Vec<u64> {
        let mut demands = vec![0; self.topology.links().len()];
        for (name, job) in self.jobs.iter().filter(|(name, _)| Some(**name) != without) {
            let known = Known { most: RATE, host_rate: RATE, pattern: None, traffic: None, declared: None };
            let demand = job.meter.demand().unwrap_or(known.unmeasured()).bits_per_second;
            assert!((RATE / MIN_SHARE..=RATE).contains(&demand), "job {name} counts for {demand}");
            job.links().iter().for_each(|link| demands[*link] += demand);
        }
        demands
    }

    /// The part of its time that a job loses, because others use its links, and the most loaded of its links.
    fn lost(&self, name: u32) -> (f64, f64) {
        let job = &self.jobs[&name];
        let of_link = |link: usize| {
            let others =
                self.jobs.iter().filter(|(other, job)| **other != name && job.links().contains(&link));
            others.map(|(_, job)| job.part()).sum::<f64>()
        };
        let others = job.links().into_iter().map(of_link).fold(0.0, f64::max);
        (
            job.alone() * others / (job.compute_us as f64 / 1e6 + job.alone() * (1.0 + others)),
            others + job.part(),
        )
    }

    fn report(&mut self, name: u32) -> Option<CommunicationPattern> {
        let (lost, _) = self.lost(name);
        let noise = self.rng.random_range(0.98..1.02);
        let changes = self.rng.random_range(0..4) == 0;
        let random = (
            self.rng.random_range(1..1_000_000),
            self.rng.random_range(1..1 << 34),
            self.rng.random_range(1..2_000_000_u64),
        );
        let job = self.jobs.get_mut(&name)?;
        let alone_us = job.alone() * 1e6;
        let truth = {
            let compute = job.compute_us as f64 * noise;
            // lost = extra / (compute + alone + extra)
            let extra = lost / (1.0 - lost) * (job.compute_us as f64 + alone_us);
            (compute as u64, job.bytes, (alone_us + extra) as u64)
        };
        let (compute_us, bytes, busy_us) = match job.reports {
            Reports::Truth => truth,
            Reports::Nothing => return None,
            Reports::Most => (1_000, 12_000_000_000, 2_000_000),
            Reports::Random => {
                if changes || job.claim.1 == 0 {
                    job.claim = random;
                }
                job.claim
            }
        };
        Some(CommunicationPattern {
            iterations: 20,
            period_us: compute_us + busy_us,
            span_us: busy_us,
            busy_us,
            compute_us,
            bytes,
            deviation: 0,
            age_us: 0,
        })
    }

    fn restart(&mut self) {
        self.rebalancer = Rebalancer::default();
        self.jobs.values_mut().for_each(|job| job.meter = DemandMeter::default());
        (self.started, self.last_move) = (self.now, None);
        self.states.clear();
    }

    fn tick(&mut self) {
        self.now += TICK;
        let names: Vec<u32> = self.jobs.keys().copied().collect();
        let mut observed = BTreeMap::new();
        for name in names {
            let pattern = self.report(name);
            let known = Known { most: RATE, host_rate: RATE, pattern, traffic: None, declared: None };
            let now = self.now;
            let job = self.jobs.get_mut(&name).unwrap();
            let demand = job.meter.note(now, &known);
            let pace = pattern.zip(known.lost(RATE));
            let pace =
                pace.map(|(pattern, lost)| Pace { period: Duration::from_micros(pattern.period_us), lost });
            let links = job.links();
            // The same jobs, whether the others misreport or not.
            if !name.is_multiple_of(4) {
                let (lost, _) = self.lost(name);
                self.lost = (self.lost.0 + lost, self.lost.1 + 1);
            }
            observed.insert(name, Observed { links, demand, pace, movable: true });
        }
        if self.policy == PlacementPolicy::Static {
            return;
        }
        self.note_changes(&observed);
        let demands = self.link_demands(None);
        let rates = vec![RATE; demands.len()];
        let (topology, jobs) = (&self.topology, &self.jobs);
        let chosen = self.rebalancer.decide(self.now, &observed, (&demands, &rates), true, |name, loads| {
            let own = observed[name].demand.bits_per_second;
            let tree = place(topology, &jobs[name].members, loads, own);
            Some(tree.edges.iter().map(|edge| edge.link.index()).collect())
        });
        if let Some(chosen) = chosen {
            assert!(chosen.to + MARGIN <= chosen.from, "{chosen:?}");
            self.carry_out(chosen.tree, &chosen.links);
        }
    }

    /// States are compared only while jobs and demands are the same.
    fn note_changes(&mut self, observed: &BTreeMap<u32, Observed>) {
        let demands: Vec<(u32, u64)> =
            observed.iter().map(|(name, seen)| (*name, seen.demand.bits_per_second)).collect();
        if demands != self.demands {
            self.demands = demands;
            self.states = BTreeSet::from([self.state()]);
        }
    }

    fn state(&self) -> Vec<(u32, Vec<usize>)> {
        self.jobs.iter().map(|(name, job)| (*name, job.links())).collect()
    }

    fn carry_out(&mut self, name: u32, links: &[usize]) {
        let (lost, _) = self.lost(name);
        let (now, started) = (self.now, self.started);
        if let Some(last) = self.last_move.replace(now) {
            assert!(now - last >= INTERVAL, "two moves within {:?}", now - last);
        }
        let own = self.jobs[&name].meter.demand().unwrap().bits_per_second;
        let tree = self.place(&self.jobs[&name].members, own, Some(name));
        let job = self.jobs.get_mut(&name).unwrap();
        if job.reports == Reports::Truth {
            assert!(lost > SLOWED_MIN * 0.8, "job {name} is moved although it loses {lost} only");
        }
        job.tree = tree;
        assert_eq!(job.links(), links, "a job that joins again finds the tree that it was moved to");
        job.moves.push(now);
        let recent: Vec<Duration> = job.moves.iter().copied().filter(|at| *at >= started).collect();
        let begin = started.max(job.since);
        assert!(now - begin >= BACKOFF_MIN, "a new job is moved");
        if let [.., before, last] = recent[..] {
            assert!(last - before >= BACKOFF_MIN, "job {name} was moved at {before:?} and {last:?}");
        }
        let in_an_hour = recent.iter().filter(|at| now - **at <= Duration::from_secs(3600)).count();
        assert!(in_an_hour <= 6, "{in_an_hour} moves of job {name} within an hour");
        let most = MOVES_MAX as usize + ((now - begin).as_secs() / MOVE_REFILL.as_secs()) as usize;
        assert!(recent.len() <= most, "{} moves of job {name}", recent.len());
        self.moves += 1;
        let state = self.state();
        assert!(self.states.insert(state), "a state of the fabric recurs although nothing has changed");
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.tick();
        }
    }

    /// The part of the most loaded link that jobs need in truth.
    fn most_loaded(&self) -> f64 {
        let all = self.jobs.keys().map(|name| self.lost(*name).1);
        all.fold(0.0, f64::max)
    }

    /// The part of their time that honest jobs lose.
    fn mean_lost(&self) -> f64 {
        self.lost.0 / self.lost.1.max(1) as f64
    }
}

fn place(topology: &Topology, members: &[Member], loads: &[u64], load: u64) -> ChosenTree {
    let mut network = NetworkState::idle(topology, SwitchState::idle(1 << 20, 64));
    network.links.iter_mut().zip(loads).for_each(|(link, load)| link.load = *load);
    choose(topology, &network, &RouteRequest { load, ..RouteRequest::new(members, 16) })
        .expect("there is a tree")
}

/// Jobs come and go for hours; of those that misreport, `lies` says how.
fn churn(seed: u64, policy: PlacementPolicy, lies: Option<&[Reports]>, restarts: bool) -> World {
    let mut world = World::new(leaf_spine(4, 3, 4, 1), policy, seed);
    // What is random of churn does not depend on what is reported.
    let mut churn = StdRng::seed_from_u64(seed ^ 0x6368_7572);
    for _ in 0..3600 {
        if world.jobs.len() < 4 || churn.random_range(0..150) == 0 && world.jobs.len() < 12 {
            let kind = churn.random_range(0..3_usize);
            let reports = lies
                .filter(|_| world.born.is_multiple_of(4))
                .map_or(Reports::Truth, |lies| lies[kind % lies.len()]);
            world.rng = StdRng::seed_from_u64(seed << 32 | u64::from(world.born));
            world.arrive(reports);
        }
        if churn.random_range(0..200) == 0 {
            let at = churn.random_range(0..world.jobs.len());
            let name = world.jobs.keys().nth(at).copied().unwrap();
            world.jobs.remove(&name);
        }
        if churn.random_range(0..1000) == 0 && restarts {
            world.restart();
        }
        world.tick();
    }
    world
}

#[test]
fn rules_hold_while_jobs_come_and_go_and_report_anything() {
    let seeds = 4_u64;
    let lies = [Reports::Random, Reports::Nothing, Reports::Most];
    let mut sums = [0.0; 3];
    for seed in 0..seeds {
        println!("seed {seed}");
        let measured = churn(seed, PlacementPolicy::Measured, None, true);
        let lied_to = churn(seed, PlacementPolicy::Measured, Some(&lies), true);
        let fixed = churn(seed, PlacementPolicy::Static, None, true);
        println!("  {} moves, {} with lies", measured.moves, lied_to.moves);
        for (sum, world) in sums.iter_mut().zip([&measured, &lied_to, &fixed]) {
            *sum += world.mean_lost() / seeds as f64;
        }
    }
    let [measured, lied_to, fixed] = sums;
    println!(
        "honest jobs lose {measured:.3} of their time, {lied_to:.3} among false reports, {fixed:.3} by number"
    );
    assert!(measured < fixed);
    // A quarter of the jobs misreport.
    assert!(lied_to < measured + 0.05, "{lied_to} among false reports, {measured} without");
}

/// Jobs between two leaves below so many spines, of which each takes one link of both leaves: the least that the most loaded link can carry.
fn optimum(parts: &[f64], spines: usize) -> f64 {
    let assignments = spines.pow(parts.len() as u32);
    let highest = |assignment: usize| {
        let mut loads = vec![0.0; spines];
        let mut digits = assignment;
        for part in parts {
            loads[digits % spines] += part;
            digits /= spines;
        }
        loads.into_iter().fold(0.0, f64::max)
    };
    (0..assignments).map(highest).fold(f64::INFINITY, f64::min)
}

#[test]
fn small_fabrics_come_close_to_the_optimum() {
    let mut ratios = Vec::new();
    let mut fixed = Vec::new();
    for seed in 0..60 {
        let spines = 2 + seed as u16 % 2;
        let mut rng = StdRng::seed_from_u64(seed);
        let jobs: Vec<(u64, u64)> = (0..rng.random_range(3..=7))
            .map(|_| (rng.random_range(20_000..200_000), rng.random_range(50..1500) * 1_000_000))
            .collect();
        for policy in PlacementPolicy::ALL {
            let mut world = World::new(leaf_spine(2, spines, 8, 1), policy, seed);
            // All at once, before anything is measured.
            for (index, job) in jobs.iter().enumerate() {
                let at = [index, 8 + index];
                world.arrive_at(members(&world.topology, at), *job, Reports::Truth);
            }
            world.run(Duration::from_secs(7200));
            let parts: Vec<f64> = world.jobs.values().map(Job::part).collect();
            let (best, found) = (optimum(&parts, spines.into()), world.most_loaded());
            if policy == PlacementPolicy::Static {
                fixed.push(found / best);
                continue;
            }
            ratios.push(found / best);
            // A state from which no single move leads to less has at most this ratio (Finn and Horowitz, 1979); moves that gain less than the margin are
            // left out, as are links that have room.
            let bound = (2.0 - 2.0 / f64::from(spines + 1)) * best + MARGIN;
            assert!(
                found <= bound.max(UTILISATION_MIN),
                "seed {seed}: {found:.3}, {best:.3} is possible, {} moves",
                world.moves
            );
        }
    }
    let mean = |ratios: &[f64]| ratios.iter().sum::<f64>() / ratios.len() as f64;
    let worst = |ratios: &[f64]| ratios.iter().copied().fold(0.0, f64::max);
    println!("most loaded link / optimum: mean {:.3}, worst {:.3}", mean(&ratios), worst(&ratios));
    println!("placed by number: mean {:.3}, worst {:.3}", mean(&fixed), worst(&fixed));
    assert!(mean(&ratios) < 1.1 && mean(&ratios) < mean(&fixed));
}

#[test]
fn two_heavy_jobs_are_separated_and_stay() {
    let mut world = World::new(leaf_spine(2, 2, 4, 1), PlacementPolicy::Measured, 1);
    // Placed by number: two heavy jobs over the same spine, two light ones over the other.
    for (index, bytes) in [(0, 1_000_000_000), (1, 10_000_000), (2, 1_000_000_000), (3, 10_000_000)] {
        let at = members(&world.topology, [index, 4 + index]);
        world.arrive_at(at, (100_000, bytes), Reports::Truth);
    }
    let spine = |world: &World, name: u32| world.jobs[&name].tree.root();
    assert_eq!(spine(&world, 0), spine(&world, 2));
    world.run(Duration::from_secs(600));
    assert_ne!(spine(&world, 0), spine(&world, 2));
    assert_eq!(world.moves, 1, "one move is enough");
    world.run(Duration::from_secs(7200));
    assert_eq!(world.moves, 1, "and nothing oscillates");
}

#[test]
fn a_job_that_reports_anything_moves_no_other_job_that_is_fast() {
    for reports in [Reports::Most, Reports::Random, Reports::Nothing] {
        let mut world = World::new(leaf_spine(2, 2, 4, 1), PlacementPolicy::Measured, 2);
        for index in 0..4 {
            let at = members(&world.topology, [index, 4 + index]);
            // Honest jobs need a hundredth of a link each.
            let who = if index == 0 { reports } else { Reports::Truth };
            world.arrive_at(at, (100_000, 12_000_000), who);
        }
        world.run(Duration::from_secs(3600));
        let honest = world.jobs.values().filter(|job| job.reports == Reports::Truth);
        assert!(honest.map(|job| job.moves.len()).sum::<usize>() == 0, "{reports:?}");
    }
}
