//! Elections and records in virtual time: the product's candidates and leaders, on a simulated etcd and network.
//!
//! Each seed is two or three controllers that are cut off, suspended and killed, while messages are late or lost and etcd is without a leader
//! of its own. What holds:
//!
//! - Terms increase.
//! - A leader whose key is in etcd does not give up because its key is gone.
//! - A leader that is neither suspended nor dead knows that it has lost the leadership before another controller is elected.
//! - A change that was acknowledged is there for the successors of its leader, until one of them changes it. What was not acknowledged is there
//!   as a whole record, or not at all. Nothing of an earlier leader is stored once its successor has read the records.
//! - The next epoch never decreases.
//! - After the last disturbance there is a leader that stores records within the lease and ten seconds.

mod cluster;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use netfold_controller::record::{Change, Quota, StoredRecords, TenantRecord};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Builder;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::election::{DEPOSED, ElectionResult, Leader, attempt, leader_key};
use super::records::Request;
use super::{EtcdConfig, EtcdError};
use cluster::{Cluster, SimulatedCalls};

const PREFIX: &str = "/netfold";
const TENANTS: usize = 4;
const DISTURBED: Duration = Duration::from_secs(60);

/// What one seed came to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Outcome {
    terms: usize,
    acknowledged: usize,
    refused: usize,
    disturbances: usize,
}

/// What is known of the records: what was acknowledged last, and what may have been stored since.
#[derive(Default)]
struct Referee {
    seed: u64,
    /// Weights of tenants.
    acknowledged: BTreeMap<usize, Option<u32>>,
    pending: BTreeMap<usize, Vec<u32>>,
    epoch: u32,
    term: i64,
    leaders: BTreeMap<usize, Arc<OnceLock<String>>>,
    outcome: Outcome,
}

impl Referee {
    fn elected(
        &mut self,
        controller: usize,
        term: i64,
        lost: &Arc<OnceLock<String>>,
        alive: impl Fn(usize) -> bool,
    ) {
        let seed = self.seed;
        assert!(term > self.term, "seed {seed}: term {term} follows {}", self.term);
        for (other, lost) in self.leaders.iter().filter(|(other, _)| **other != controller) {
            let unaware = alive(*other) && lost.get().is_none();
            assert!(!unaware, "seed {seed}: {other} still leads when {controller} is elected");
        }
        self.term = term;
        self.leaders.insert(controller, Arc::clone(lost));
        self.outcome.terms += 1;
    }

    /// Checks what a leader has read. Once it has read them for the first time, nothing but its own changes alters the records.
    fn read(&mut self, term: i64, is_first: bool, records: &StoredRecords) {
        let seed = self.seed;
        if term != self.term {
            return;
        }
        for tenant in 0..TENANTS {
            let found = records.tenants.get(&name(tenant)).map(|record| record.weight);
            let acknowledged = self.acknowledged.get(&tenant).copied().flatten();
            let pending = self.pending.get(&tenant).cloned().unwrap_or_default();
            let explained = found == acknowledged || found.is_some_and(|found| pending.contains(&found));
            assert!(
                explained,
                "seed {seed}: tenant {tenant} has {found:?}, not {acknowledged:?} or one of {pending:?}"
            );
            if is_first {
                self.acknowledged.insert(tenant, found);
                self.pending.remove(&tenant);
            }
        }
        assert!(
            records.epoch_next >= self.epoch,
            "seed {seed}: the next epoch went back to {}",
            records.epoch_next
        );
        self.epoch = records.epoch_next;
    }

    fn asked(&mut self, changes: &[(usize, u32)]) {
        for (tenant, weight) in changes {
            self.pending.entry(*tenant).or_default().push(*weight);
        }
    }

    fn answered(&mut self, term: i64, was_leader: bool, changes: &[(usize, u32)], epoch: u32, stored: bool) {
        let seed = self.seed;
        if !stored {
            self.outcome.refused += 1;
            return;
        }
        assert!(
            was_leader,
            "seed {seed}: a change of term {term} was stored though another leader had been elected"
        );
        self.outcome.acknowledged += 1;
        if term != self.term {
            // Its successor has read the records already, with this change among what was possible.
            return;
        }
        for (tenant, weight) in changes {
            self.acknowledged.insert(*tenant, Some(*weight));
            self.pending.remove(tenant);
        }
        self.epoch = self.epoch.max(epoch);
    }
}

fn name(tenant: usize) -> String {
    format!("t{tenant}")
}

/// Until when each controller is suspended.
type Suspended = Arc<Mutex<Vec<Instant>>>;

/// A process that does not run while it is suspended.
struct Process<F> {
    run: Pin<Box<F>>,
    controller: usize,
    suspended: Suspended,
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
    cluster: Arc<Cluster>,
    referee: Arc<Mutex<Referee>>,
    suspended: Suspended,
    killed: Arc<Vec<Notify>>,
    lease: Duration,
    seed: u64,
}

impl World {
    fn config(&self, controller: usize) -> EtcdConfig {
        EtcdConfig {
            endpoints: Vec::new(),
            prefix: PREFIX.into(),
            name: format!("controller-{controller}"),
            lease: self.lease,
            tls: None,
        }
    }

    /// Whether a controller runs, and has had time to look at the clock since it was suspended.
    fn runs(&self, controller: usize) -> bool {
        Instant::now() > self.suspended.lock().unwrap()[controller] + Duration::from_millis(2)
    }

    /// A controller: a candidate, then a leader until it has lost the leadership, and so on.
    async fn control(self, controller: usize, start: u64) {
        let config = self.config(controller);
        let mut rng =
            Xoshiro256PlusPlus::seed_from_u64(self.seed ^ (controller as u64 + 1) << 32 ^ start << 40);
        let mut calls = SimulatedCalls::new(&self.cluster, controller);
        loop {
            let Ok(ElectionResult::Won(term)) = attempt(&mut calls, &config).await else { continue };
            let lost = Arc::default();
            let runs = |other| self.runs(other);
            if self.cluster.term(&leader_key(PREFIX)) == term.revision {
                self.referee.lock().unwrap().elected(controller, term.revision, &lost, runs);
            }
            let (requests, queue) = mpsc::unbounded_channel();
            let (stop, stopped) = oneshot::channel();
            let leader = Leader::new(calls.clone(), &config, term, Arc::clone(&lost));
            let work = async {
                self.work(&requests, term.revision, &lost, &mut rng).await;
                let deposed = lost.get().is_some_and(|why| why == DEPOSED);
                let leads = self.cluster.term(&leader_key(PREFIX)) == term.revision;
                assert!(
                    !(deposed && leads),
                    "seed {}: {controller} gives up though it is the leader",
                    self.seed
                );
                self.referee.lock().unwrap().leaders.remove(&controller);
                drop(stop);
            };
            tokio::join!(biased; leader.lead(queue, stopped), work);
        }
    }

    /// What a controller does as the leader, until it has lost the leadership or resigns.
    async fn work(
        &self,
        requests: &mpsc::UnboundedSender<Request>,
        term: i64,
        lost: &OnceLock<String>,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let mut loaded = false;
        while lost.get().is_none() {
            if !loaded || rng.random_bool(0.1) {
                let Ok(records) = ask(requests, Request::Load).await else { continue };
                self.referee.lock().unwrap().read(term, !loaded, &records);
                loaded = true;
            }
            if rng.random_bool(0.02) {
                return;
            }
            sleep(Duration::from_millis(rng.random_range(0..400))).await;
            let change = |tenant| rng.random::<bool>().then(|| (tenant, rng.random()));
            let changes: Vec<(usize, u32)> = (0..TENANTS).filter_map(change).collect();
            if changes.is_empty() {
                continue;
            }
            // A lower epoch than before is left out.
            let epoch = self.referee.lock().unwrap().epoch.saturating_add_signed(rng.random_range(-2..3));
            let record = |(tenant, weight): &(usize, u32)| {
                let (name, weight) = (name(*tenant), *weight);
                Change::Tenant(TenantRecord {
                    name,
                    quota: Quota::UNLIMITED,
                    weight,
                    priority: 0,
                    token: None,
                })
            };
            let all = changes.iter().map(record).chain([Change::EpochNext(epoch)]).collect();
            let was_leader = self.cluster.term(&leader_key(PREFIX)) == term;
            self.referee.lock().unwrap().asked(&changes);
            let stored = ask(requests, |reply| Request::Apply(all, reply)).await.is_ok();
            self.referee.lock().unwrap().answered(term, was_leader, &changes, epoch, stored);
        }
    }

    /// Disturbs network, cluster and controllers, and then no more.
    async fn disturb(&self, controllers: usize, mut rng: Xoshiro256PlusPlus) {
        let end = Instant::now() + DISTURBED;
        let delays = [10, 500, 3000][rng.random_range(0..3)];
        self.cluster.disturb(rng.random_range(0.0..0.1), Duration::from_millis(delays));
        while Instant::now() < end {
            sleep(Duration::from_millis(rng.random_range(100..8000))).await;
            let controller = rng.random_range(0..controllers);
            let time = Duration::from_millis(rng.random_range(10..10_000));
            self.referee.lock().unwrap().outcome.disturbances += 1;
            match rng.random_range(0..5) {
                0 => self.cluster.cut(controller, time),
                1 => self.cluster.go_down(time),
                2 => self.cluster.fill_up(time),
                3 => {
                    let until = &mut self.suspended.lock().unwrap()[controller];
                    *until = (*until).max(Instant::now() + time);
                }
                _ => self.killed[controller].notify_one(),
            }
        }
        self.cluster.disturb(0.0, Duration::from_millis(10));
    }

    /// The last disturbance ends 10 seconds after the last one began; then there must be a leader that stores.
    async fn converge(&self) {
        sleep(Duration::from_secs(10)).await;
        let stored = || self.referee.lock().unwrap().outcome.acknowledged;
        sleep(self.lease.max(Duration::from_secs(2)) + Duration::from_secs(10)).await;
        let before = stored();
        sleep(Duration::from_secs(5)).await;
        assert!(stored() > before, "seed {}: nothing is stored though nothing is disturbed", self.seed);
    }
}

/// Asks the leader's task, as the store does.
async fn ask<R>(
    requests: &mpsc::UnboundedSender<Request>,
    request: impl FnOnce(std::sync::mpsc::Sender<Result<R, EtcdError>>) -> Request,
) -> Result<R, EtcdError> {
    let (reply, answer) = std::sync::mpsc::channel();
    let gone = || EtcdError::LeadershipLost("its task has ended".into());
    requests.send(request(reply)).map_err(|_| gone())?;
    loop {
        match answer.try_recv() {
            Ok(answer) => return answer,
            Err(std::sync::mpsc::TryRecvError::Empty) => sleep(Duration::from_millis(20)).await,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return Err(gone()),
        }
    }
}

fn play(seed: u64) -> Outcome {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let controllers = rng.random_range(2..4);
        let now = Instant::now();
        let world = World {
            cluster: Cluster::new(rng.random()),
            referee: Arc::new(Mutex::new(Referee { seed, ..Referee::default() })),
            suspended: Arc::new(Mutex::new(vec![now; controllers])),
            killed: Arc::new((0..controllers).map(|_| Notify::new()).collect()),
            lease: Duration::from_millis(rng.random_range(2000..10_000)),
            seed,
        };
        let running = run_controllers(&world, controllers);
        let faults = async {
            world.disturb(controllers, rng).await;
            world.converge().await;
        };
        tokio::select! {
            biased;
            () = faults => {}
            () = running => {}
        }
        world.referee.lock().unwrap().outcome.clone()
    })
}

/// All controllers, each started again when it was killed.
async fn run_controllers(world: &World, controllers: usize) {
    let mut all = tokio::task::JoinSet::new();
    let local = tokio::task::LocalSet::new();
    for controller in 0..controllers {
        let world = world.clone();
        let supervised = async move {
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
                world.referee.lock().unwrap().leaders.remove(&controller);
                sleep(Duration::from_millis(300)).await;
            }
        };
        all.spawn_local_on(supervised, &local);
    }
    local
        .run_until(async {
            while let Some(ended) = all.join_next().await {
                ended.unwrap()
            }
        })
        .await;
}

#[test]
fn records_and_leaders_agree_under_faults() {
    let first = std::env::var("SIM_FIRST").ok().map_or(0, |text| text.parse().unwrap());
    let outcomes: Vec<Outcome> = (first..first + 300).map(play).collect();
    let sum = |of: fn(&Outcome) -> usize| outcomes.iter().map(of).sum::<usize>();
    let (terms, stored, refused) = (sum(|o| o.terms), sum(|o| o.acknowledged), sum(|o| o.refused));
    println!(
        "{terms} terms, {stored} changes stored, {refused} refused, {} disturbances",
        sum(|o| o.disturbances)
    );
    assert!(terms > 3 * outcomes.len() && refused > 0, "the seeds must bring changes of the leader");
}

#[test]
fn equal_seeds_give_equal_elections() {
    assert_eq!(play(7), play(7));
}
