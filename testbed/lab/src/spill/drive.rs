//! One trial: a switch, its aggregator, a controller, and the ranks of two jobs.

use std::os::unix::process::CommandExt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use netfold_controller::policy::Sharing;
use netfold_controller::record::{MemoryStore, Quota, TenantRecord};
use netfold_controller::server::Control;
use netfold_controller::topology::Topology;
use netfold_controller::view::{JobView, SnapshotScope};
use netfold_controller::{JobEvent, Server, ServerHandle, admission, command};
use netfold_io::fault::{FaultConfig, Faults};
use netfold_measure::process;
use netfold_southbound::managed_plane;
use netfold_testkit::namespace;
use netfold_testkit::process::Process;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::network::{self, HOSTS, Network, Node};
use super::{SKIPPED, SlotSharing, SpillConfig, Workload};
use crate::rank::RankConfig;
use crate::trial::{self, EventDriven, TrialError};

/// The tenant of both jobs.
const TENANT: &str = "red";

const JOBS: [&str; 2] = ["first", "second"];

/// Ranks of each job.
const RANKS: usize = HOSTS / JOBS.len();

/// Longest time for everything to start.
const START: Duration = Duration::from_secs(60);

/// Time for ranks to start and join, after which they begin at the same time.
const JOINING: Duration = Duration::from_secs(4);

/// Longest time for an iteration, also without the aggregator.
const ITERATION: Duration = Duration::from_secs(30);

/// What was seen of a job.
pub(super) struct Observation {
    pub(super) job: &'static str,
    pub(super) slots: u32,
    /// Since both jobs had begun.
    pub(super) iterations: Vec<Duration>,
    pub(super) spilled: Option<f64>,
    pub(super) wrong: u64,
}

pub(super) enum TrialEvent {
    /// An event of the controller.
    Controller(JobEvent),
    /// A line of a switch, or a rank's; `None` at the end of its output.
    Switch(Node, Option<Value>),
    Rank {
        job: usize,
        rank: usize,
        line: Option<Value>,
    },
}

/// What is known of a job so far.
#[derive(Default)]
struct Progress {
    iterations: Vec<Duration>,
    /// Iterations before both jobs had begun.
    before: Option<usize>,
    wrong: u64,
}

impl Progress {
    fn since_both(&self) -> &[Duration] {
        self.before.map_or(&[], |before| &self.iterations[before..])
    }
}

/// Processes are killed when this is dropped.
pub(super) struct Trial<'a> {
    config: &'a SpillConfig,
    sharing: SlotSharing,
    ranks: Vec<Process>,
    server: Option<ServerHandle>,
    switches: Vec<Process>,
    /// Whether the aggregator has been killed by the trial.
    killed: bool,
    control: Control,
    runtime: Runtime,
    events: Receiver<TrialEvent>,
    progress: [Progress; 2],
    /// What the controller says of the jobs while they have their places.
    views: Vec<JobView>,
}

impl EventDriven for Trial<'_> {
    type Event = TrialEvent;

    fn events(&self) -> &Receiver<TrialEvent> {
        &self.events
    }

    fn note(&mut self, event: TrialEvent) -> Result<(), TrialError> {
        let (name, process) = match event {
            TrialEvent::Switch(Node::Aggregator, None) if self.killed => return Ok(()),
            TrialEvent::Controller(_) | TrialEvent::Switch(_, Some(_)) => return Ok(()),
            TrialEvent::Switch(node, None) => {
                (format!("the {}", node.name()), &mut self.switches[usize::from(node == Node::Aggregator)])
            }
            TrialEvent::Rank { job, line: Some(line), rank } => {
                self.note_iteration(job, rank, &line);
                return Ok(());
            }
            TrialEvent::Rank { job, rank, line: None } => {
                (trial::rank_name(rank, JOBS[job]), &mut self.ranks[job * RANKS + rank])
            }
        };
        Err(trial::ended(name, process))
    }
}

impl<'a> Trial<'a> {
    /// Starts everything; returns when the ranks are started.
    pub(super) fn start(
        config: &'a SpillConfig,
        network: &Network,
        sharing: SlotSharing,
        workload: Workload,
    ) -> Result<Self, TrialError> {
        let (sender, events) = mpsc::channel();
        let switches = Node::ALL.map(|node| start_switch(config, network, node, &sender));
        let switches = switches.into_iter().collect::<Result<Vec<Process>, TrialError>>()?;
        let server = start_controller(config, network, sharing, &sender)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| TrialError::Controller(Box::new(error)))?;
        let mut trial = Self {
            config,
            sharing,
            ranks: Vec::new(),
            control: server.control(),
            server: Some(server),
            switches,
            killed: false,
            runtime,
            events,
            progress: Default::default(),
            views: Vec::new(),
        };
        for _ in Node::ALL {
            trial.wait(START, "controller in charge of both switches", |_, event| {
                matches!(event, TrialEvent::Controller(JobEvent::SwitchUp { .. }))
            })?;
        }
        let quota = Quota::UNLIMITED;
        let tenant = TenantRecord { name: TENANT.into(), quota, weight: 1, priority: 0, token: None };
        let added = trial.runtime.block_on(trial.control.execute(command::Command::AddTenant(tenant)));
        added.map_err(|error| TrialError::Controller(Box::new(error)))?;
        let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + JOINING;
        let compute = if workload == Workload::Computing { config.compute } else { Duration::ZERO };
        for job in 0..JOBS.len() {
            for rank in 0..RANKS {
                let begin = begin + compute * job as u32;
                trial.start_rank(network, (job, rank), (begin, compute), &sender)?;
            }
        }
        Ok(trial)
    }

    fn start_rank(
        &mut self,
        network: &Network,
        (job, rank): (usize, usize),
        (begin, compute): (Duration, Duration),
        sender: &Sender<TrialEvent>,
    ) -> Result<(), TrialError> {
        let slots = self.config.slots;
        let delay = self.config.delay;
        let delayed = Faults { delay_min: delay, delay_max: delay, ..Faults::default() };
        let config = RankConfig {
            switch: network::workers_address(),
            tenant: Some(TENANT.into()),
            job: JOBS[job].into(),
            rank: rank as u16,
            world: RANKS as u16,
            slots: if self.sharing == SlotSharing::Static { slots / 2 } else { slots },
            bytes: self.config.bytes,
            compute,
            begin_unix_ms: u64::try_from(begin.as_millis()).unwrap_or(u64::MAX),
            rendezvous: Some(network::rendezvous(job * RANKS)),
            faults: FaultConfig { rx: delayed, tx: delayed, ..FaultConfig::default() },
        };
        let mut command = network.on_host(job * RANKS + rank, &self.config.program);
        let sender = sender.clone();
        let on_line = move |line| sender.send(TrialEvent::Rank { job, rank, line }).is_ok();
        self.ranks.push(trial::start_rank(&mut command, &config, on_line)?);
        Ok(())
    }

    /// Runs until all iterations are measured. Where the aggregator is to be killed, that is after half of them.
    pub(super) fn run(&mut self) -> Result<(), TrialError> {
        let all = SKIPPED + self.config.iterations as usize;
        let kills = self.sharing == SlotSharing::AggregatorKilled;
        self.run_to(if kills { all / 2 } else { all })?;
        // What is spilled is counted every two seconds, while a job has its place.
        self.views = self.view()?;
        if kills {
            self.killed = true;
            self.switches[1].kill();
            // As many again as before, so that each job has some without the aggregator, however far ahead it was.
            let ahead = self.progress.iter().map(|progress| progress.since_both().len()).max();
            self.run_to(ahead.unwrap_or(0) + all - all / 2)?;
        }
        Ok(())
    }

    fn run_to(&mut self, iterations: usize) -> Result<(), TrialError> {
        let mut longest = START;
        while self.progress.iter().any(|progress| progress.since_both().len() < iterations) {
            self.wait(longest, "iteration of a job", |_, event| matches!(event, TrialEvent::Rank { .. }))?;
            longest = ITERATION;
        }
        Ok(())
    }

    fn note_iteration(&mut self, job: usize, rank: usize, line: &Value) {
        let number = |key: &str| line.get(key).and_then(Value::as_u64);
        let progress = &mut self.progress[job];
        progress.wrong += number("wrong").unwrap_or(1);
        if rank > 0 {
            return;
        }
        progress.iterations.push(Duration::from_micros(number("iteration_us").unwrap_or(0)));
        if self.progress.iter().all(|progress| !progress.iterations.is_empty()) {
            for progress in &mut self.progress {
                progress.before.get_or_insert(progress.iterations.len());
            }
        }
    }

    /// What was seen of each job.
    pub(super) fn observations(mut self) -> Result<Vec<Observation>, TrialError> {
        // The ranks first, so that nothing fails for want of the others.
        self.ranks.clear();
        drop(self.server.take());
        let observation = |(job, progress): (&'static str, &Progress)| {
            let view = self.views.iter().find(|view| view.name.job == job);
            let tree = view.and_then(|view| view.trees.first());
            let sent = view.and_then(|view| view.traffic).map_or(0, |traffic| traffic.totals.packets_sent);
            Observation {
                job,
                slots: tree.and_then(|tree| tree.slots).unwrap_or(0),
                iterations: progress.since_both().to_vec(),
                spilled: tree
                    .and_then(|tree| tree.spilled)
                    .map(|spilled| spilled as f64 / sent.max(1) as f64),
                wrong: progress.wrong,
            }
        };
        Ok(JOBS.into_iter().zip(&self.progress).map(observation).collect())
    }

    fn view(&self) -> Result<Vec<JobView>, TrialError> {
        let taken = self.runtime.block_on(self.control.snapshot(SnapshotScope::Live));
        Ok(taken.map_err(|error| TrialError::Controller(Box::new(error)))?.jobs)
    }
}

/// Starts a switch. Ctrl-C is for this process, which ends the others.
fn start_switch(
    config: &SpillConfig,
    network: &Network,
    node: Node,
    events: &Sender<TrialEvent>,
) -> Result<Process, TrialError> {
    let mut command = network.on_switch(node, &config.program);
    command.args(["--json", "switch", "--exit-with-stdin", "--insecure"]);
    command.arg("--listen").arg(node.data().to_string());
    command.arg("--p4runtime").arg(node.p4runtime().to_string());
    let events = events.clone();
    let on_line = move |line| events.send(TrialEvent::Switch(node, line)).is_ok();
    let started = process::run(command.process_group(0), on_line);
    started.map_err(|source| TrialError::Start { name: format!("the {}", node.name()), source })
}

/// The controller, on threads in the switch's namespace; it finds the switches when they are there.
fn start_controller(
    config: &SpillConfig,
    network: &Network,
    sharing: SlotSharing,
    events: &Sender<TrialEvent>,
) -> Result<ServerHandle, TrialError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| TrialError::Controller(error);
    let topology =
        Topology::from_toml(&network::topology(config.slots)).map_err(|error| failed(error.into()))?;
    let plane = managed_plane(topology, Box::new(MemoryStore::default()));
    let plane = plane.map_err(|error| failed(error.into()))?;
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let sharing = match sharing {
        SlotSharing::Static => Sharing::Static,
        SlotSharing::BestEffort | SlotSharing::AggregatorKilled => Sharing::BestEffort,
    };
    let settings = admission::Config { sharing, ..admission::Config::controller(unix as u32, unix) };
    let events = events.clone();
    let on_event = move |event: &JobEvent| drop(events.send(TrialEvent::Controller(event.clone())));
    let serve = move || Server::over(network::workers_address(), settings, plane)?.on_event(on_event).spawn();
    let entered = namespace::within(&network.switch(), serve).map_err(|error| failed(error.into()))?;
    entered.map_err(|error| failed(error.into()))
}
