//! One trial: three switches, a controller, and the ranks of one or two jobs.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use netfold_controller::bands::{Banding, Bands, Ranking};
use netfold_controller::record::{MemoryStore, Quota, TenantRecord};
use netfold_controller::topology::Topology;
use netfold_controller::{JobEvent, Server, ServerHandle, admission, command};
use netfold_io::fault::FaultConfig;
use netfold_measure::process;
use netfold_southbound::managed_plane;
use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::namespace;
use netfold_testkit::process::Process;
use serde_json::Value;

use super::network::{self, HOSTS, NAMES, Network, SWITCHES};
use super::{ClassesConfig, SKIPPED, Service, WEIGHTS};
use crate::rank::RankConfig;
use crate::trial::{self, EventDriven, TrialError};

/// The jobs, and their tenants: the first is the important one.
const JOBS: [&str; 2] = ["first", "second"];

/// Ranks of each job.
const RANKS: usize = HOSTS / JOBS.len();

/// Longest time for everything to start.
const START: Duration = Duration::from_secs(60);

/// Time for ranks to start and join, after which they begin at the same time.
const JOINING: Duration = Duration::from_secs(4);

/// What was seen of a job.
pub(super) struct Observation {
    pub(super) job: &'static str,
    /// Ends of its all-reduces since the measurement began.
    pub(super) ends: Vec<Duration>,
    pub(super) wrong: u64,
}

pub(super) enum TrialEvent {
    /// An event of the controller.
    Controller(JobEvent),
    /// A line of a switch, or a rank's; `None` at the end of its output.
    Switch(usize, Option<Value>),
    Rank {
        job: usize,
        rank: usize,
        line: Option<Value>,
    },
}

/// What is known of a job so far.
#[derive(Default)]
struct Progress {
    ends: Vec<Instant>,
    wrong: u64,
}

/// Processes are killed when this is dropped.
pub(super) struct Trial<'a> {
    config: &'a ClassesConfig,
    jobs: usize,
    ranks: Vec<Process>,
    _server: ServerHandle,
    switches: Vec<Process>,
    events: Receiver<TrialEvent>,
    progress: [Progress; 2],
    begun: Option<Instant>,
    /// Has the configuration of the queues.
    _folder: TemporaryDirectory,
}

impl EventDriven for Trial<'_> {
    type Event = TrialEvent;

    fn events(&self) -> &Receiver<TrialEvent> {
        &self.events
    }

    fn note(&mut self, event: TrialEvent) -> Result<(), TrialError> {
        let (name, process) = match event {
            TrialEvent::Controller(_) | TrialEvent::Switch(_, Some(_)) => return Ok(()),
            TrialEvent::Switch(at, None) => (NAMES[at].to_owned(), &mut self.switches[at]),
            TrialEvent::Rank { job, rank, line: Some(line) } => {
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
        config: &'a ClassesConfig,
        network: &Network,
        service: Service,
    ) -> Result<Self, TrialError> {
        let (sender, events) = mpsc::channel();
        let folder = TemporaryDirectory::new("classes");
        let egress = folder.path().join("egress.toml");
        let written = std::fs::write(&egress, queues(config, service));
        written.map_err(|source| TrialError::Start { name: "the switches".into(), source })?;
        let start = |at| {
            let mut command = network.on_switch(&config.program);
            command.args(["--json", "switch", "--exit-with-stdin", "--egress"]).arg(&egress);
            command.arg("--listen").arg(network::data_address(at).to_string());
            command.arg("--p4runtime").arg(network::p4runtime_address(at).to_string());
            let sender = sender.clone();
            let on_line = move |line| sender.send(TrialEvent::Switch(at, line)).is_ok();
            let started = process::run(command.process_group(0), on_line);
            started.map_err(|source| TrialError::Start { name: NAMES[at].into(), source })
        };
        let switches = (0..SWITCHES).map(start).collect::<Result<Vec<_>, _>>()?;
        let server = start_controller(network, &sender)?;
        let control = server.control();
        let jobs = if service == Service::Alone { 1 } else { JOBS.len() };
        let mut trial = Self {
            config,
            jobs,
            ranks: Vec::new(),
            _server: server,
            switches,
            events,
            progress: Default::default(),
            begun: None,
            _folder: folder,
        };
        for _ in 0..SWITCHES {
            trial.wait(START, "controller in charge of all switches", |_, event| {
                matches!(event, TrialEvent::Controller(JobEvent::SwitchUp { .. }))
            })?;
        }
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| TrialError::Controller(error);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| failed(Box::new(error)))?;
        for (priority, name) in (0..).zip(JOBS.iter().rev()) {
            let tenant = TenantRecord {
                name: (*name).into(),
                quota: Quota::UNLIMITED,
                weight: 1,
                priority,
                token: None,
            };
            let added = runtime.block_on(control.execute(command::Command::AddTenant(tenant)));
            added.map_err(|error| failed(Box::new(error)))?;
        }
        let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + JOINING;
        for job in 0..jobs {
            (0..RANKS).try_for_each(|rank| trial.start_rank(network, (job, rank), begin, &sender))?;
        }
        Ok(trial)
    }

    /// Rank 0 of each job is at the first leaf, rank 1 at the second.
    fn start_rank(
        &mut self,
        network: &Network,
        (job, rank): (usize, usize),
        begin: Duration,
        sender: &Sender<TrialEvent>,
    ) -> Result<(), TrialError> {
        let config = RankConfig {
            switch: network::workers_address(),
            tenant: Some(JOBS[job].into()),
            job: JOBS[job].into(),
            rank: rank as u16,
            world: RANKS as u16,
            slots: self.config.slots,
            bytes: self.config.bytes,
            compute: Duration::ZERO,
            begin_unix_ms: u64::try_from(begin.as_millis()).unwrap_or(u64::MAX),
            rendezvous: None,
            faults: FaultConfig::default(),
        };
        let mut command = network.on_host(rank * RANKS + job, &self.config.program);
        let sender = sender.clone();
        let on_line = move |line| sender.send(TrialEvent::Rank { job, rank, line }).is_ok();
        self.ranks.push(trial::start_rank(&mut command, &config, on_line)?);
        Ok(())
    }

    /// Runs until the time of the measurement is over.
    pub(super) fn run(&mut self) -> Result<(), TrialError> {
        while self.begun.is_none() {
            self.wait(START, "all-reduce of the first job", |_, event| {
                matches!(event, TrialEvent::Rank { job: 0, .. })
            })?;
        }
        let end = self.begun.unwrap_or_else(Instant::now) + self.config.duration;
        while let Ok(event) = self.events.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.note(event)?;
        }
        Ok(())
    }

    fn note_iteration(&mut self, job: usize, rank: usize, line: &Value) {
        let progress = &mut self.progress[job];
        progress.wrong += line.get("wrong").and_then(Value::as_u64).unwrap_or(1);
        if rank == 0 {
            progress.ends.push(Instant::now());
        }
        if self.progress[0].ends.len() > SKIPPED {
            self.begun.get_or_insert_with(Instant::now);
        }
    }

    /// What was seen of each job that ran.
    pub(super) fn observations(mut self) -> Vec<Observation> {
        // The ranks first, so that nothing fails for want of the others.
        self.ranks.clear();
        let begun = self.begun.unwrap_or_else(Instant::now);
        let observation = |(job, progress): (&'static str, &Progress)| Observation {
            job,
            ends: progress.ends.iter().filter_map(|end| end.checked_duration_since(begun)).collect(),
            wrong: progress.wrong,
        };
        JOBS.into_iter().zip(&self.progress).take(self.jobs).map(observation).collect()
    }
}

/// The configuration of the queues of every switch: a queue for each half of the classes.
fn queues(config: &ClassesConfig, service: Service) -> String {
    let mut text = format!("[port]\nrate = {}\n", config.rate_bps);
    // The band of the more important job has the higher classes.
    for (number, job) in [1, 0].into_iter().enumerate() {
        let (priority, weight) = match service {
            Service::Weighted => (0, WEIGHTS[job]),
            Service::Alone | Service::Strict => (number, 1),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[[port.queue]]\npriority = {priority}\nweight = {weight}\nlimit = \"1MiB\"");
    }
    text
}

/// The controller, on threads in the switches' namespace; it finds the switches when they are there.
fn start_controller(network: &Network, events: &Sender<TrialEvent>) -> Result<ServerHandle, TrialError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| TrialError::Controller(error);
    let topology = Topology::from_toml(&network::topology()).map_err(|error| failed(error.into()))?;
    let plane = managed_plane(topology, Box::new(MemoryStore::default()));
    let plane = plane.map_err(|error| failed(error.into()))?;
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let banding = Banding {
        ranking: Ranking::Priority,
        bands: Bands::equal(2).unwrap_or_default(),
        ..Banding::default()
    };
    let settings = admission::Config { banding, ..admission::Config::controller(unix as u32, unix) };
    let events = events.clone();
    let on_event = move |event: &JobEvent| drop(events.send(TrialEvent::Controller(event.clone())));
    let serve = move || Server::over(network::workers_address(), settings, plane)?.on_event(on_event).spawn();
    let entered = namespace::within(&network.switches(), serve).map_err(|error| failed(error.into()))?;
    entered.map_err(|error| failed(error.into()))
}
