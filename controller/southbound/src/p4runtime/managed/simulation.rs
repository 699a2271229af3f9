//! Managed switches in virtual time: the product's keepers, gRPC and P4Runtime server, over a simulated network.
//!
//! Each seed is one switch and two or three controllers, one of which leads at a time. Connections are held back and break, sometimes long
//! before the switch learns of it; the switch starts again with nothing; controllers are suspended and killed, and lose the leadership.
//! What holds:
//!
//! - When a switch is reported up, and while it is up and no call is under way, it holds what its controller desires, and nothing else.
//! - It is reported as fresh exactly when it has started again since the control plane last knew it.
//! - Once a controller has it, no controller of an earlier term gets it before it starts again.
//! - Calls that take something away do not fail while it is down.
//! - 70 seconds after the last disturbance it is up, and holds nothing of jobs that are over.

mod device;
mod network;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use netfold_controller::driver::HeldEntity;
use netfold_p4::allreduce::{Child, Node, controller_entry, job_entries, node_entries};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::profile::{Encapsulation, Profile};
use netfold_p4_runtime::state::Key;
use netfold_wire::{JobKeys, Kind, PacketKey, PortKeys};
use rand::rngs::{StdRng, Xoshiro256PlusPlus};
use rand::{RngExt, SeedableRng};
use tokio::runtime::Builder;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::call::{Call, Request};
use super::desired::Desired;
use super::keeper::{Environment, Keeper};
use super::{Attachment, CPU_PORT, ManagedConfig, Phase, Pipeline, Shared, SwitchEvent};
use crate::p4runtime::ELECTION_ID;
use device::{Device, Holding};
use network::{Network, SimulatedDialer};

const LANE_WORDS: u32 = 64;
const JOBS: u16 = 4;
const PEERS: u16 = 6;
const DISTURBED: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(5);

fn profile() -> Profile {
    Profile::software(LANE_WORDS)
}

fn peer(number: u16) -> SocketAddr {
    ([10, 0, 0, 1], 30_000 + number).into()
}

/// A job of the control plane, as its database has it.
#[derive(Debug, Clone)]
struct Job {
    number: u16,
    epoch: u32,
    peers: [SocketAddr; 2],
    authenticated: bool,
    /// By how much the instances of its group's replicas are moved.
    shift: u16,
}

impl Job {
    fn random(number: u16, rng: &mut Xoshiro256PlusPlus) -> Self {
        let first = rng.random_range(0..PEERS);
        let second = (first + rng.random_range(1..PEERS)) % PEERS;
        let peers = [peer(first), peer(second)];
        Self { number, epoch: rng.random(), peers, authenticated: rng.random(), shift: 0 }
    }

    fn ports(&self) -> [u16; 2] {
        [2 * self.number, 2 * self.number + 1]
    }

    fn keys(&self) -> Option<JobKeys> {
        let key = |byte| PacketKey([byte; 32]);
        let keys = PortKeys { receive: key(8), send: key(9) };
        self.authenticated.then_some(JobKeys { job: self.number, epoch: self.epoch, keys })
    }

    fn entries(&self) -> Vec<TableEntry> {
        let node = Node {
            job: self.number,
            epoch: self.epoch,
            key: 0xbeef,
            base: u32::from(self.number) * 8,
            slots: 8,
            children: 2,
            workers: 2,
            world: 2,
            group: self.number,
            parent: None,
            shift: None,
            bounded_loss: false,
            owners: true,
        };
        let mut entries = node_entries(&node);
        for (rank, port) in (0..).zip(self.ports()) {
            entries.extend(job_entries(&node, &Child { port, source: 0, rank, behind: None }));
        }
        entries
    }

    fn replicas(&self) -> Vec<Replica> {
        let replica = |port| Replica { port, instance: port + 1 + 64 * self.shift };
        self.ports().map(replica).to_vec()
    }

    fn additions(&self) -> Vec<Request> {
        let mut requests = Vec::new();
        for (port, peer) in self.ports().into_iter().zip(self.peers) {
            requests.push(Request::Bind { port, peer, udp_ports: 1 });
            requests.extend(self.keys().map(|keys| Request::Authenticate { port, keys }));
        }
        requests.extend([self.group(), Request::Insert(self.entries())]);
        requests
    }

    fn group(&self) -> Request {
        Request::SetGroup(self.number, self.replicas())
    }

    fn removals(&self) -> Vec<Request> {
        let unbind = self.ports().map(Request::Unbind);
        [Request::Delete(self.entries()), Request::DeleteGroup(self.number)]
            .into_iter()
            .chain(unbind)
            .collect()
    }

    fn held(&self) -> Vec<HeldEntity> {
        let ports = self.ports().into_iter().zip(self.peers);
        let ports =
            ports.map(|(port, peer)| HeldEntity::Port { port, peer, udp_ports: 1, keys: self.keys() });
        let group = HeldEntity::Group { group: self.number, replicas: self.replicas() };
        ports.chain([group, HeldEntity::Entries(self.entries())]).collect()
    }
}

/// What a control plane desires, by its own ports.
#[derive(Debug, Clone, Default)]
struct Wanted {
    ports: BTreeMap<u16, (SocketAddr, Option<JobKeys>)>,
    entries: BTreeMap<Key, TableEntry>,
    groups: BTreeMap<u16, Vec<Replica>>,
}

impl Wanted {
    fn apply(&mut self, request: &Request) {
        match request.clone() {
            Request::Bind { port, peer, .. } => drop(self.ports.insert(port, (peer, None))),
            Request::Authenticate { port, keys } => {
                self.ports.entry(port).and_modify(|bound| bound.1 = Some(keys));
            }
            Request::Unbind(port) => drop(self.ports.remove(&port)),
            Request::Insert(entries) => {
                self.entries.extend(entries.into_iter().map(|entry| (Key::of(&entry), entry)));
            }
            Request::Delete(entries) => {
                entries.iter().for_each(|entry| drop(self.entries.remove(&Key::of(entry))));
            }
            Request::SetGroup(group, replicas) => drop(self.groups.insert(group, replicas)),
            Request::DeleteGroup(group) => drop(self.groups.remove(&group)),
            Request::Resync | Request::Counters(_) | Request::Cell(..) => {}
        }
    }

    /// What a switch holds that has all of it, where it has assigned these ports to peers.
    fn on(&self, ports: &BTreeMap<SocketAddr, u16>) -> Option<Holding> {
        let at = |port: u16| ports.get(&self.ports.get(&port)?.0).copied();
        let mut holding = Holding::default();
        for kind in [Kind::Advance, Kind::Probe] {
            holding.add(&controller_entry(CPU_PORT, kind));
        }
        for entry in self.entries.values() {
            let mut entry = entry.clone();
            if entry.table == netfold_p4::p4info::table_id(netfold_p4::allreduce::id::JOB) {
                let key = netfold_p4::allreduce::id::key::PORT;
                for field in entry.matches.iter_mut().filter(|field| field.field == key) {
                    field.value = at(field.value as u16)?.into();
                }
            }
            holding.add(&entry);
        }
        for (group, replicas) in &self.groups {
            let placed = replicas.iter().map(|replica| Some((at(replica.port)?, replica.instance)));
            holding.groups.insert(*group, placed.collect::<Option<_>>()?);
        }
        for (peer, keys) in self.ports.values() {
            holding.ports.insert(*peer, *ports.get(peer)?);
            holding.keys.extend(keys.iter().map(|keys| (*peer, keys.job, keys.epoch)));
        }
        Some(holding)
    }
}

/// A controller that leads, or does not know yet that it does not any more.
struct Plane {
    wanted: Wanted,
    /// The call that is under way.
    pending: Option<Request>,
    /// The start of the switch that it last knew.
    known: Option<String>,
    /// How often it has lost everything.
    losses: usize,
    shared: Arc<Shared>,
}

impl Plane {
    /// Whether a switch holds what is desired, with the call that is under way or without.
    fn agrees(&self, holding: &Holding) -> bool {
        let mut after = self.wanted.clone();
        self.pending.iter().for_each(|request| after.apply(request));
        [&self.wanted, &after].into_iter().any(|wanted| wanted.on(&holding.ports).as_ref() == Some(holding))
    }
}

impl Plane {
    /// What a switch holds, and should.
    fn difference(&self, holding: &Holding) -> String {
        let Some(wanted) = self.wanted.on(&holding.ports) else {
            return format!("{:?} of {:?}", holding.ports, self.wanted.ports);
        };
        let missing: Vec<_> = wanted.entries.difference(&holding.entries).collect();
        let others: Vec<_> = holding.entries.difference(&wanted.entries).collect();
        let rest = |of: &Holding| format!("{:?}, {:?}, {:?}", of.groups, of.ports, of.keys);
        format!(
            "without {missing:?}, with {others:?}; {}; wanted {}; under way {:?}",
            rest(holding),
            rest(&wanted),
            self.pending
        )
    }
}

/// What a seed came to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Outcome {
    ups: usize,
    fresh: usize,
    calls: usize,
    failed: usize,
    terms: usize,
}

#[derive(Default)]
struct Referee {
    seed: u64,
    jobs: BTreeMap<u16, Job>,
    /// The start of the switch that the database has.
    boot: Option<String>,
    term: u128,
    planes: BTreeMap<u128, Plane>,
    /// The latest term whose controller had the switch, and which start of it that was.
    held_by: (String, u128),
    outcome: Outcome,
    calm: bool,
}

impl Referee {
    fn up(&mut self, term: u128, fresh: bool, boot: &str, device: &Device) {
        let seed = self.seed;
        let Some(plane) = self.planes.get_mut(&term) else { return };
        let changed = plane.known.as_ref().is_some_and(|known| known != boot);
        if plane.known.is_some() {
            assert_eq!(fresh, changed, "seed {seed}: fresh, and started again, in term {term}");
        }
        plane.known = Some(boot.into());
        if fresh {
            plane.wanted = Wanted::default();
            plane.losses += 1;
        }
        if device.boot_id() == boot
            && let Some(holding) = device.holding()
        {
            assert!(plane.agrees(&holding), "seed {seed}: up in term {term}: {}", plane.difference(&holding));
            assert!(
                self.held_by.0 != boot || self.held_by.1 <= term,
                "seed {seed}: a controller of term {term} has the switch after one of term {}",
                self.held_by.1
            );
            self.held_by = (boot.into(), term);
        }
        if term == self.term {
            self.boot = Some(boot.into());
            if fresh {
                self.jobs.clear();
            }
        }
        self.outcome.ups += 1;
        self.outcome.fresh += usize::from(fresh);
    }

    /// Looks at the switch of the leader, if it is up.
    fn look(&self, device: &Device) {
        let Some(plane) = self.planes.get(&self.term) else { return };
        let (boot, seed) = (device.boot_id(), self.seed);
        if !matches!(*plane.shared.phase(), Phase::Up) || plane.known.as_ref() != Some(&boot) {
            return;
        }
        if let Some(holding) = device.holding() {
            assert!(
                plane.agrees(&holding),
                "seed {seed}: while up in term {}: {}",
                self.term,
                plane.difference(&holding)
            );
        }
    }
}

/// Who leads, until when.
struct Lease {
    controller: usize,
    term: u128,
    until: Instant,
}

/// When each controller goes on, or reaches the database again.
type Until = Arc<Mutex<Vec<Instant>>>;

/// A process that does not run while it is suspended.
struct Process<F> {
    run: Pin<Box<F>>,
    controller: usize,
    suspended: Until,
    timer: Pin<Box<Sleep>>,
}

impl<F: Future<Output = ()>> Future for Process<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let until = self.suspended.lock().unwrap()[self.controller];
        if Instant::now() < until {
            self.timer.as_mut().reset(until);
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        self.run.as_mut().poll(context)
    }
}

/// The parts of one seed.
#[derive(Clone)]
struct World {
    device: Arc<Device>,
    network: Arc<Network>,
    referee: Arc<Mutex<Referee>>,
    lease: Arc<Mutex<Lease>>,
    suspended: Until,
    /// From the database.
    cut: Until,
    killed: Arc<Vec<Notify>>,
    seed: u64,
}

impl World {
    fn referee(&self) -> MutexGuard<'_, Referee> {
        self.referee.lock().unwrap()
    }

    fn is_cut(&self, controller: usize) -> bool {
        Instant::now() < self.cut.lock().unwrap()[controller]
    }

    /// A controller: a candidate, then a leader, and so on.
    async fn control(self, controller: usize, start: u64) {
        let mix = (controller as u64 + 1) << 32 ^ start << 40;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ mix);
        loop {
            sleep(Duration::from_millis(rng.random_range(50..300))).await;
            let elected = {
                let mut lease = self.lease.lock().unwrap();
                let free = lease.until <= Instant::now() && !self.is_cut(controller);
                if free {
                    *lease = Lease {
                        controller,
                        term: lease.term + rng.random_range(1..20),
                        until: Instant::now() + LEASE,
                    };
                }
                free.then_some(lease.term)
            };
            if let Some(term) = elected {
                self.lead(controller, term, &mut rng).await;
            }
        }
    }

    async fn lead(&self, controller: usize, term: u128, rng: &mut Xoshiro256PlusPlus) {
        static PIPELINE: LazyLock<Pipeline> = LazyLock::new(|| Pipeline::software(profile()).unwrap());
        let shared = Arc::new(Shared::new("s1"));
        let (jobs, boot) = {
            let mut referee = self.referee();
            let mut wanted = Wanted::default();
            let jobs = referee.jobs.clone();
            jobs.values().flat_map(Job::additions).for_each(|request| wanted.apply(&request));
            let known = referee.boot.clone();
            let shared = Arc::clone(&shared);
            referee.planes.insert(term, Plane { wanted, pending: None, known, losses: 0, shared });
            referee.term = term;
            referee.outcome.terms += 1;
            (jobs, referee.boot.clone())
        };
        let config = ManagedConfig {
            election_id: ELECTION_ID + term,
            outbid_after: 2 * LEASE,
            boot,
            // A connection that reveals nothing: keys are sent over no other.
            ..ManagedConfig::new("s1", "localhost:9559", Attachment::Attached)
        };
        let dialer = Arc::new(SimulatedDialer { network: Arc::clone(&self.network), controller });
        let environment = Environment { dialer, rng: StdRng::seed_from_u64(rng.random()) };
        let from = (profile().encapsulation == Encapsulation::Ethernet).then_some(config.switch);
        let desired = Desired::new(from, config.cpu_port, jobs.values().flat_map(Job::held).collect());
        let (calls, receiver) = mpsc::unbounded_channel();
        let world = self.clone();
        let listener = Box::new(move |event| {
            if let SwitchEvent::Up { fresh, boot, .. } = event {
                world.referee().up(term, fresh, &boot.unwrap(), &world.device);
            }
        });
        let keeper = Keeper::new(
            config,
            environment,
            PIPELINE.clone(),
            desired,
            Arc::clone(&shared),
            receiver,
            listener,
        )
        .unwrap();
        tokio::select! {
            biased;
            () = keeper.run() => {}
            () = self.renew(controller, term) => {}
            () = self.manage(term, &calls, rng, jobs) => {}
        }
        self.referee().planes.remove(&term);
    }

    /// Returns when the leadership is lost.
    async fn renew(&self, controller: usize, term: u128) {
        let mut renewed = Instant::now();
        loop {
            sleep(LEASE / 4).await;
            if renewed.elapsed() >= LEASE * 3 / 4 {
                return;
            }
            if !self.is_cut(controller) {
                let mut lease = self.lease.lock().unwrap();
                if lease.term != term || lease.until <= Instant::now() {
                    return;
                }
                renewed = Instant::now();
                lease.until = renewed + LEASE;
            }
        }
    }

    /// Changes the records of jobs; false when another controller leads.
    fn record(&self, term: u128, change: impl FnOnce(&mut BTreeMap<u16, Job>)) -> bool {
        let mut referee = self.referee();
        let leads = referee.term == term;
        if leads {
            change(&mut referee.jobs);
        }
        leads
    }

    /// Admits jobs and ends them. Returns when the records show that another controller leads.
    async fn manage(
        &self,
        term: u128,
        calls: &mpsc::UnboundedSender<Call>,
        rng: &mut Xoshiro256PlusPlus,
        mut jobs: BTreeMap<u16, Job>,
    ) {
        let mut losses = 0;
        loop {
            sleep(Duration::from_millis(rng.random_range(1..800))).await;
            let number = rng.random_range(1..=JOBS);
            let (calm, lost) = {
                let referee = self.referee();
                (referee.calm, referee.planes[&term].losses)
            };
            if lost != losses {
                (losses, jobs) = (lost, BTreeMap::new());
            }
            let goes_on = match jobs.remove(&number) {
                None if calm => true,
                None => {
                    let job = Job::random(number, rng);
                    let recorded = self.record(term, |jobs| {
                        jobs.insert(number, job.clone());
                    });
                    if recorded && self.admit(term, calls, &job, losses).await {
                        jobs.insert(number, job);
                    }
                    recorded
                }
                Some(job) if rng.random_bool(0.3) => {
                    let mut job = Job { shift: 1 - job.shift, ..job };
                    if self.call(term, calls, job.group()).await.is_err() {
                        job.shift = 1 - job.shift;
                    }
                    jobs.insert(number, job.clone());
                    // What the switch has lost meanwhile is recorded no more.
                    self.record(term, |jobs| {
                        jobs.entry(number).and_modify(|recorded| *recorded = job);
                    })
                }
                Some(job) => self.end(term, calls, &job).await,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Whether a job is there afterwards.
    async fn admit(&self, term: u128, calls: &mpsc::UnboundedSender<Call>, job: &Job, losses: usize) -> bool {
        for request in job.additions() {
            let done = self.call(term, calls, request).await.is_ok();
            if !done || self.referee().planes[&term].losses != losses {
                self.end(term, calls, job).await;
                return false;
            }
        }
        true
    }

    /// Takes a job away; false when another controller leads.
    async fn end(&self, term: u128, calls: &mpsc::UnboundedSender<Call>, job: &Job) -> bool {
        for request in job.removals() {
            while self.call(term, calls, request.clone()).await.is_err() {
                sleep(Duration::from_millis(100)).await;
            }
        }
        self.record(term, |jobs| {
            jobs.remove(&job.number);
        })
    }

    /// A call of a driver.
    async fn call(
        &self,
        term: u128,
        calls: &mpsc::UnboundedSender<Call>,
        request: Request,
    ) -> Result<(), ()> {
        let (is_up, ups) = {
            let mut referee = self.referee();
            let ups = referee.outcome.ups;
            let plane = referee.planes.get_mut(&term).unwrap();
            let is_up = matches!(*plane.shared.phase(), Phase::Up);
            if !is_up && !request.takes_away() {
                return Err(());
            }
            plane.pending = Some(request.clone());
            (is_up, ups)
        };
        let (call, ticket) = Call::new(request.clone());
        calls.send(call).map_err(drop)?;
        let answer = loop {
            match ticket.poll().unwrap() {
                Some(answer) => break answer,
                None => sleep(Duration::from_millis(1)).await,
            }
        };
        let mut referee = self.referee();
        let plane = referee.planes.get_mut(&term).unwrap();
        plane.pending = None;
        match &answer {
            Ok(_) => plane.wanted.apply(&request),
            // Nothing but an addition is refused while it is down all along.
            Err(error) => {
                let stayed_down = !is_up && referee.outcome.ups == ups;
                assert!(!stayed_down, "seed {}: {request:?} failed while down: {}", self.seed, error.chain());
            }
        }
        referee.outcome.calls += 1;
        referee.outcome.failed += usize::from(answer.is_err());
        answer.map(drop).map_err(drop)
    }

    /// Disturbs all, and then no more.
    async fn disturb(&self, controllers: usize, mut rng: Xoshiro256PlusPlus) {
        let end = Instant::now() + DISTURBED;
        while Instant::now() < end {
            sleep(Duration::from_millis(rng.random_range(50..4000))).await;
            let controller = rng.random_range(0..controllers);
            let most = if rng.random_bool(0.5) { 500 } else { 10_000 };
            let time = Duration::from_millis(rng.random_range(1..most));
            let put_off = |until: &Until| {
                let until = &mut until.lock().unwrap()[controller];
                *until = (*until).max(Instant::now() + time);
            };
            match rng.random_range(0..9) {
                // A leader that was replaced goes on while its successor is not connected.
                8 => {
                    let leader = self.lease.lock().unwrap().controller;
                    let time = LEASE + LEASE.mul_f64(rng.random());
                    self.suspended.lock().unwrap()[leader] = Instant::now() + time;
                    sleep(time - Duration::from_millis(rng.random_range(0..20))).await;
                    let others = (0..controllers).filter(|other| *other != leader);
                    others.for_each(|other| {
                        self.network.break_off(Some(other), Duration::ZERO);
                        self.network.cut(other, Duration::from_secs(1));
                    });
                }
                0 => self.network.cut(controller, time),
                1 => (0..controllers).for_each(|controller| self.network.cut(controller, time)),
                2 => self.network.break_off(Some(controller), Duration::ZERO),
                3 => self.network.break_off(Some(controller), time),
                4 => {
                    self.device.halt();
                    self.network.break_off(None, Duration::ZERO);
                    sleep(time.min(Duration::from_secs(3))).await;
                    self.device.boot();
                }
                5 => put_off(&self.suspended),
                6 => put_off(&self.cut),
                _ => {
                    self.killed[controller].notify_one();
                    let late = if rng.random() { Duration::ZERO } else { time };
                    self.network.break_off(Some(controller), late);
                }
            }
        }
        self.referee().calm = true;
    }

    async fn converge(&self) {
        sleep(Duration::from_secs(70)).await;
        let referee = self.referee();
        let (seed, plane) = (self.seed, &referee.planes[&referee.term]);
        let down = match &*plane.shared.phase() {
            Phase::Up => None,
            Phase::Down(reason) => Some(reason.clone()),
        };
        assert_eq!(down, None, "seed {seed}: down though nothing is disturbed");
        let none = Wanted::default().on(&BTreeMap::new());
        assert_eq!(self.device.holding(), none, "seed {seed}: what is left of jobs that are over");
    }

    async fn look(&self) {
        loop {
            sleep(Duration::from_millis(101)).await;
            self.referee().look(&self.device);
        }
    }
}

fn play(seed: u64) -> Outcome {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let controllers = rng.random_range(2..4);
        let now = Instant::now();
        let until = || Arc::new(Mutex::new(vec![now; controllers]));
        let device = Device::start(rng.random());
        let latency = Duration::from_millis([1, 20, 200][rng.random_range(0..3)]);
        let world = World {
            network: Network::new(&device, controllers, rng.random(), latency),
            device,
            referee: Arc::new(Mutex::new(Referee { seed, ..Referee::default() })),
            lease: Arc::new(Mutex::new(Lease { controller: 0, term: 0, until: now })),
            suspended: until(),
            cut: until(),
            killed: Arc::new((0..controllers).map(|_| Notify::new()).collect()),
            seed,
        };
        let mut running = tokio::task::JoinSet::new();
        let local = tokio::task::LocalSet::new();
        for controller in 0..controllers {
            running.spawn_local_on(supervise(world.clone(), controller), &local);
        }
        let faults = async {
            world.disturb(controllers, rng).await;
            world.converge().await;
        };
        tokio::select! {
            biased;
            () = faults => {}
            () = world.look() => {}
            ended = local.run_until(running.join_next()) => ended.unwrap().unwrap(),
        }
        let referee = world.referee();
        referee.outcome.clone()
    })
}

/// A controller, which is started again when it was killed.
async fn supervise(world: World, controller: usize) {
    for start in 0.. {
        let process = Process {
            run: Box::pin(world.clone().control(controller, start)),
            controller,
            suspended: Arc::clone(&world.suspended),
            timer: Box::pin(sleep_until(Instant::now())),
        };
        tokio::select! {
            biased;
            () = world.killed[controller].notified() => {}
            () = process => {}
        }
        sleep(Duration::from_millis(300)).await;
    }
}

#[test]
fn a_switch_is_as_its_controller_desires_under_faults() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let (first, seeds) = (number("SIM_FIRST").unwrap_or(0), number("SIM_SEEDS").unwrap_or(30));
    let outcomes: Vec<Outcome> = (first..first + seeds).map(play).collect();
    let sum = |of: fn(&Outcome) -> usize| outcomes.iter().map(of).sum::<usize>();
    let (ups, fresh, terms) = (sum(|o| o.ups), sum(|o| o.fresh), sum(|o| o.terms));
    println!(
        "{terms} terms, up {ups} times and fresh {fresh}, {} calls, {} failed",
        sum(|o| o.calls),
        sum(|o| o.failed)
    );
    assert!(ups > 3 * outcomes.len() && fresh > 0 && sum(|o| o.failed) > 0, "the seeds must bring faults");
}

#[test]
fn equal_seeds_give_equal_histories() {
    assert_eq!(play(7), play(7));
}
