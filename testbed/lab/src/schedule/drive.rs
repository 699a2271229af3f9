//! One trial: a switch, a controller, and the ranks of one or two jobs.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use netfold_control::{Multipath, PathPolicy};
use netfold_controller::bands::{Banding, Bands, Ranking};
use netfold_controller::record::{MemoryStore, Quota, TenantRecord};
use netfold_controller::schedule::{Decision, Schedule, interleave, paths};
use netfold_controller::server::Control;
use netfold_controller::topology::Topology;
use netfold_controller::view::{JobView, PatternView, SnapshotScope};
use netfold_controller::{JobEvent, Server, ServerHandle, admission, command};
use netfold_io::fault::FaultConfig;
use netfold_measure::process;
use netfold_southbound::managed_plane;
use netfold_testkit::namespace;
use netfold_testkit::process::Process;
use netfold_wire::{CLASSES_MAX, Dscp};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::network::{self, IMPORTANT_DSCP, Link, Network, SHARED};
use super::{ALONE_ITERATIONS, Jobs, LEARNING_ITERATIONS, ScheduleConfig};
use crate::rank::RankConfig;
use crate::trial::{self, EventDriven, TrialError};

/// The tenant of both jobs.
const TENANT: &str = "red";

/// Longest time for everything to start.
const START: Duration = Duration::from_secs(60);

/// Time for ranks to start and join, after which they begin at the same time.
const JOINING: Duration = Duration::from_secs(4);

/// Longest time for an iteration.
const ITERATION: Duration = Duration::from_secs(30);

/// A job: its ranks are at the shared host and at others.
pub(super) struct JobPlan {
    pub(super) name: &'static str,
    hosts: &'static [usize],
    /// The same, where there are equal paths.
    hosts_with_paths: &'static [usize],
}

impl JobPlan {
    fn hosts(&self, link: Link) -> &'static [usize] {
        if link == Link::Paths { self.hosts_with_paths } else { self.hosts }
    }
}

/// Both jobs. The first has more ranks, so that it is the more important one.
pub(super) const JOBS: [JobPlan; 2] = [
    JobPlan { name: "first", hosts: &[SHARED, 1, 2], hosts_with_paths: &[SHARED, 1, 2] },
    JobPlan { name: "second", hosts: &[SHARED, 3], hosts_with_paths: &[4, 3] },
];

/// What was seen of a job.
pub(super) struct Observation {
    pub(super) job: &'static str,
    pub(super) workers: u16,
    /// Time of each iteration, and that of its all-reduce.
    pub(super) iterations: Vec<(Duration, Duration)>,
    /// How many of them are not measured.
    pub(super) skipped: usize,
    pub(super) wrong: u64,
    pub(super) delays: usize,
    pub(super) pattern: Option<PatternView>,
    pub(super) decision: Option<String>,
}

pub(super) enum TrialEvent {
    /// An event of the controller.
    Controller(JobEvent),
    /// A line of the switch, or a rank's; `None` at the end of its output.
    Switch(Option<Value>),
    Rank {
        job: usize,
        rank: u16,
        line: Option<Value>,
    },
}

/// What is known of a job so far.
#[derive(Default)]
struct Progress {
    iterations: Vec<(Duration, Duration)>,
    /// Iterations before both jobs had begun.
    before: Option<usize>,
    wrong: u64,
    delays: usize,
}

/// Processes are killed when this is dropped.
pub(super) struct Trial<'a> {
    config: &'a ScheduleConfig,
    link: Link,
    jobs: Vec<usize>,
    /// By job and rank.
    ranks: Vec<((usize, u16), Process)>,
    server: Option<ServerHandle>,
    switch: Process,
    control: Control,
    runtime: Runtime,
    events: Receiver<TrialEvent>,
    progress: [Progress; 2],
}

impl EventDriven for Trial<'_> {
    type Event = TrialEvent;

    fn events(&self) -> &Receiver<TrialEvent> {
        &self.events
    }

    fn note(&mut self, event: TrialEvent) -> Result<(), TrialError> {
        match event {
            TrialEvent::Controller(JobEvent::Scheduled {
                name,
                decision:
                    Decision::Shift(interleave::Decision::Delayed { .. })
                    | Decision::Paths(paths::Decision::Ordered { .. }),
            }) => {
                if let Some(job) = JOBS.iter().position(|job| job.name == name.job) {
                    self.progress[job].delays += 1;
                }
                Ok(())
            }
            TrialEvent::Controller(_) | TrialEvent::Switch(Some(_)) => Ok(()),
            TrialEvent::Switch(None) => Err(trial::ended("the switch".into(), &mut self.switch)),
            TrialEvent::Rank { job, rank, line: None } => {
                let name = trial::rank_name(rank.into(), JOBS[job].name);
                let of_rank = self.ranks.iter_mut().find(|(known, _)| *known == (job, rank));
                Err(match of_rank {
                    Some((_, process)) => trial::ended(name, process),
                    None => TrialError::Ended { name, stderr: String::new() },
                })
            }
            TrialEvent::Rank { job, rank, line: Some(line) } => {
                self.note_iteration(job, rank, &line);
                Ok(())
            }
        }
    }
}

impl<'a> Trial<'a> {
    /// Starts everything; returns when the ranks are started.
    pub(super) fn start(
        config: &'a ScheduleConfig,
        network: &Network,
        (schedule, link): (Schedule, Link),
        jobs: Jobs,
    ) -> Result<Self, TrialError> {
        let (sender, events) = mpsc::channel();
        let classes = std::array::from_fn::<u8, { CLASSES_MAX as usize }, _>(important_above);
        let dscp = Dscp::new(&classes).unwrap_or(Dscp::NONE);
        let switch = start_switch(config, network, link, &sender)?;
        let server = start_controller(config, network, (schedule, link), dscp, &sender)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| TrialError::Controller(Box::new(error)))?;
        let jobs = match jobs {
            Jobs::First => vec![0],
            Jobs::Second => vec![1],
            Jobs::Both => vec![0, 1],
        };
        let control = server.control();
        let progress = Default::default();
        let server = Some(server);
        let mut trial = Self {
            config,
            link,
            jobs,
            ranks: Vec::new(),
            server,
            switch,
            control,
            runtime,
            events,
            progress,
        };
        trial.wait(START, "controller in charge of the switch", |_, event| {
            matches!(event, TrialEvent::Controller(JobEvent::SwitchUp { .. }))
        })?;
        let quota = Quota::UNLIMITED;
        let tenant = TenantRecord { name: TENANT.into(), quota, weight: 1, priority: 0, token: None };
        let added = trial.runtime.block_on(trial.control.execute(command::Command::AddTenant(tenant)));
        added.map_err(|error| TrialError::Controller(Box::new(error)))?;
        let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + JOINING;
        for job in trial.jobs.clone() {
            let begin = begin + config.offset * job as u32;
            for rank in 0..JOBS[job].hosts(link).len() {
                trial.start_rank(network, (job, rank as u16), begin, &sender)?;
            }
        }
        Ok(trial)
    }

    fn start_rank(
        &mut self,
        network: &Network,
        (job, rank): (usize, u16),
        begin: Duration,
        sender: &Sender<TrialEvent>,
    ) -> Result<(), TrialError> {
        let plan = &JOBS[job];
        let hosts = plan.hosts(self.link);
        let config = RankConfig {
            switch: network::workers_address(),
            tenant: Some(TENANT.into()),
            job: plan.name.into(),
            rank,
            world: hosts.len() as u16,
            slots: self.config.slots,
            bytes: self.config.bytes,
            compute: self.config.compute,
            begin_unix_ms: u64::try_from(begin.as_millis()).unwrap_or(u64::MAX),
            rendezvous: None,
            faults: FaultConfig::default(),
        };
        let mut command = network.on_host(hosts[usize::from(rank)], &self.config.program);
        let sender = sender.clone();
        let on_line = move |line| sender.send(TrialEvent::Rank { job, rank, line }).is_ok();
        self.ranks.push(((job, rank), trial::start_rank(&mut command, &config, on_line)?));
        Ok(())
    }

    /// Runs until all iterations are measured.
    pub(super) fn run(&mut self) -> Result<(), TrialError> {
        let wanted = self.skipped() + self.measured();
        let mut longest = START;
        while !self.is_measured(wanted) {
            self.wait(longest, "iteration of a job", |_, event| matches!(event, TrialEvent::Rank { .. }))?;
            longest = ITERATION;
        }
        Ok(())
    }

    /// Iterations that are left out once all jobs have begun.
    fn skipped(&self) -> usize {
        if self.jobs.len() > 1 { LEARNING_ITERATIONS as usize } else { ALONE_ITERATIONS.0 as usize }
    }

    /// Iterations that are measured then.
    fn measured(&self) -> usize {
        let iterations = self.config.iterations;
        (if self.jobs.len() > 1 { iterations } else { iterations.min(ALONE_ITERATIONS.1) }) as usize
    }

    fn is_measured(&self, wanted: usize) -> bool {
        self.jobs.iter().all(|job| {
            let progress = &self.progress[*job];
            progress.before.is_some_and(|before| progress.iterations.len() >= before + wanted)
        })
    }

    fn note_iteration(&mut self, job: usize, rank: u16, line: &Value) {
        let number = |key: &str| line.get(key).and_then(Value::as_u64);
        let progress = &mut self.progress[job];
        progress.wrong += number("wrong").unwrap_or(1);
        if rank > 0 {
            return;
        }
        let time = |key| Duration::from_micros(number(key).unwrap_or(0));
        progress.iterations.push((time("iteration_us"), time("reduce_us")));
        if self.jobs.iter().all(|job| !self.progress[*job].iterations.is_empty()) {
            for job in &self.jobs {
                let progress = &mut self.progress[*job];
                progress.before.get_or_insert(progress.iterations.len());
            }
        }
    }

    /// What was seen of each job.
    pub(super) fn observations(mut self) -> Result<Vec<Observation>, TrialError> {
        let (views, skipped) = (self.views()?, self.skipped());
        // The ranks first, so that nothing fails for want of the others.
        self.ranks.clear();
        drop(self.server.take());
        let mut all = Vec::new();
        for job in self.jobs.clone() {
            let plan = &JOBS[job];
            let view = views.iter().find(|view| view.name.job == plan.name);
            let progress = std::mem::take(&mut self.progress[job]);
            all.push(Observation {
                job: plan.name,
                workers: plan.hosts(self.link).len() as u16,
                skipped: progress.before.unwrap_or(0) + skipped,
                iterations: progress.iterations,
                wrong: progress.wrong,
                delays: progress.delays,
                pattern: view.and_then(|view| view.pattern),
                decision: view.and_then(|view| view.schedule.clone()),
            });
        }
        Ok(all)
    }

    fn views(&self) -> Result<Vec<JobView>, TrialError> {
        let taken = self.runtime.block_on(self.control.snapshot(SnapshotScope::Live));
        Ok(taken.map_err(|error| TrialError::Controller(Box::new(error)))?.jobs)
    }
}

/// The code point of a class: the upper half is important.
fn important_above(class: usize) -> u8 {
    if class >= usize::from(CLASSES_MAX) / 2 { IMPORTANT_DSCP } else { 0 }
}

/// Starts a command. Ctrl-C is for this process, which ends the others.
fn run(
    command: &mut Command,
    on_line: impl FnMut(Option<Value>) -> bool + Send + 'static,
) -> std::io::Result<Process> {
    process::run(command.process_group(0), on_line)
}

fn start_switch(
    config: &ScheduleConfig,
    network: &Network,
    link: Link,
    events: &Sender<TrialEvent>,
) -> Result<Process, TrialError> {
    let mut command = network.on_switch(&config.program);
    command.args(["--json", "switch", "--exit-with-stdin"]);
    command.arg("--listen").arg(network::data_address().to_string());
    command.arg("--p4runtime").arg(network::p4runtime_address().to_string());
    if link == Link::Classes {
        command.arg("--dscp").arg(format!("0,{IMPORTANT_DSCP}"));
    }
    let events = events.clone();
    let started = run(&mut command, move |line| events.send(TrialEvent::Switch(line)).is_ok());
    started.map_err(|source| TrialError::Start { name: "the switch".into(), source })
}

/// The controller, on threads in the switch's namespace; it finds the switch when it is there.
fn start_controller(
    config: &ScheduleConfig,
    network: &Network,
    (schedule, link): (Schedule, Link),
    dscp: Dscp,
    events: &Sender<TrialEvent>,
) -> Result<ServerHandle, TrialError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| TrialError::Controller(error);
    let topology = Topology::from_toml(&network::topology(link)).map_err(|error| failed(error.into()))?;
    let (equal_paths, direct) = (topology.equal_paths(), topology.direct().to_vec());
    let plane = managed_plane(topology, Box::new(MemoryStore::default()));
    let plane = plane.map_err(|error| failed(error.into()))?;
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let banding = match link {
        Link::Classes => Banding {
            ranking: Ranking::Crux,
            bands: Bands::equal(2).unwrap_or_default(),
            dscp,
            link_bps: config.rate_bps as u64,
        },
        Link::Plain | Link::Paths => Banding { link_bps: config.rate_bps as u64, ..Banding::default() },
    };
    let settings = admission::Config {
        schedule,
        banding,
        multipath: equal_paths
            .map(|paths| Multipath { udp_ports: paths.udp_ports(), policy: PathPolicy::Weighted }),
        equal_paths,
        direct,
        congestion: config.congestion,
        ..admission::Config::controller(unix as u32, unix)
    };
    let events = events.clone();
    let on_event = move |event: &JobEvent| drop(events.send(TrialEvent::Controller(event.clone())));
    let serve = move || Server::over(network::workers_address(), settings, plane)?.on_event(on_event).spawn();
    let entered = namespace::within(&network.switch(), serve).map_err(|error| failed(error.into()))?;
    entered.map_err(|error| failed(error.into()))
}
