//! The run itself: start, work, kill, wait, work, leave.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use netfold_controller::admission;
use netfold_controller::command::Command;
use netfold_controller::record::{Quota, TenantRecord, Unkept};
use netfold_controller::server::Control;
use netfold_controller::topology::Topology;
use netfold_controller::view::SnapshotScope;
use netfold_controller::view::{Snapshot, TreeView};
use netfold_controller::{JobEvent, Server, ServerHandle};
use netfold_southbound::managed_plane;
use tokio::runtime::Runtime;

use super::ledger::Ledger;
use super::network::{self, Fabric, LEAVES, SWITCHES, switch_name};
use super::process::{News, Process, Who};
use super::worker::{JOB, Line, TENANT};
use super::{Config, Fault, Leaf, LeafSpineError, Place, Progress, Report, Slots, TREES, Times, TreeReport};
use netfold_testkit::namespace;

/// Port on rank 0's host where the workers meet.
const MEETING_PORT: u16 = 20100;

/// All-reduces that ranks may be ahead of the slowest in what they are told to do.
const AHEAD: u32 = 3;

/// Lanes of a packet in bytes, of the switches' pipeline.
const PAYLOAD_BYTES: u32 = 1408;

/// Builds the fabric, runs the job through the death of a spine, and removes everything. `progress` is called now and then.
///
/// # Errors
///
/// [`LeafSpineError`] when there is nothing to report: the fabric cannot be built, or a worker failed. Wrong results and trees that do
/// not come back are in the report.
pub fn run(config: &Config, mut progress: impl FnMut(Progress)) -> Result<Report, LeafSpineError> {
    if !rustix::process::geteuid().is_root() {
        return Err(LeafSpineError::NotRoot);
    }
    let mut run = Run::start(config)?;
    progress(Progress::Starting);
    run.join()?;
    let leaf = |leaf| Leaf { name: switch_name(leaf), ranks: run.fabric.ranks_of(leaf) };
    progress(Progress::Running { leaves: (0..LEAVES).map(leaf).collect() });
    run.work(&mut progress, |ledger| ledger.done() >= config.operations)?;
    let before = run.snapshot()?;
    run.strike()?;
    progress(Progress::Killed(run.victim_name()));
    let regained = run.work(&mut progress, |ledger| ledger.after() >= config.operations);
    let in_time = match regained {
        Ok(()) => true,
        Err(LeafSpineError::Patience { .. }) => false,
        Err(error) => return Err(error),
    };
    let after = run.snapshot()?;
    run.leave()?;
    Ok(run.report(&before, &after, in_time))
}

/// A fabric with its processes. What is first goes first.
struct Run<'a> {
    config: &'a Config,
    workers: Vec<Process>,
    server: Option<ServerHandle>,
    switches: Vec<Process>,
    fabric: Fabric,
    control: Control,
    runtime: Runtime,
    news: Receiver<News>,
    sender: Sender<News>,
    ledger: Ledger,
    /// All-reduces that the workers were told to do.
    told: u32,
    /// Workers that have left.
    left: u16,
    death: Option<Instant>,
    noticed: Option<Instant>,
    placed: Option<Instant>,
}

impl<'a> Run<'a> {
    /// NamespaceSet, switches and the controller, to the point where it has all switches.
    fn start(config: &'a Config) -> Result<Self, LeafSpineError> {
        let fabric =
            Fabric::build(config.workers).map_err(|error| LeafSpineError::Network(Box::new(error)))?;
        let (sender, news) = mpsc::channel();
        let switches: Result<Vec<Process>, LeafSpineError> =
            (0..SWITCHES).map(|switch| start_switch(config, &fabric, switch, &sender)).collect();
        let switches = switches?;
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| LeafSpineError::Controller(Box::new(error)))?;
        let server = start_controller(&fabric, &sender)?;
        let ledger = Ledger::new(config.workers, TREES.into());
        let mut run = Self {
            config,
            workers: Vec::new(),
            control: server.control(),
            server: Some(server),
            switches,
            fabric,
            runtime,
            news,
            sender,
            ledger,
            told: 0,
            left: 0,
            death: None,
            noticed: None,
            placed: None,
        };
        let mut up = 0;
        run.wait_for("a controller in charge of all switches", |news| {
            up += usize::from(matches!(news, News::Event(_, JobEvent::SwitchUp { .. })));
            up == SWITCHES
        })?;
        Ok(run)
    }

    /// A tenant, and its workers, to the point where all are admitted to all trees.
    fn join(&mut self) -> Result<(), LeafSpineError> {
        let quota = Quota::UNLIMITED;
        let tenant = TenantRecord { name: TENANT.into(), quota, weight: 1, priority: 0, token: None };
        let added = self.runtime.block_on(self.control.execute(Command::AddTenant(tenant)));
        added.map_err(|error| LeafSpineError::Controller(Box::new(error)))?;
        for rank in 0..self.config.workers {
            let worker = start_worker(self.config, &self.fabric, rank, &self.sender)?;
            self.workers.push(worker);
        }
        let (mut joined, mut poor) = (0, None);
        let workers = self.config.workers;
        self.wait_for("admission of all workers", |news| {
            if let News::Said(Who::Worker(rank), _, value) = news
                && let Ok(Line::Joined { trees }) = serde_json::from_value(value.clone())
            {
                joined += 1;
                if trees != usize::from(TREES) {
                    poor = Some((*rank, trees));
                }
            }
            joined == workers || poor.is_some()
        })?;
        match poor {
            None => Ok(()),
            Some((rank, trees)) => {
                Err(self.workers[usize::from(rank)]
                    .failed(&format!("has a place in {trees} of {TREES} trees")))
            }
        }
    }

    /// Lets the workers do all-reduces until it is `enough`.
    fn work(
        &mut self,
        progress: &mut impl FnMut(Progress),
        enough: impl Fn(&Ledger) -> bool,
    ) -> Result<(), LeafSpineError> {
        let mut deadline = Instant::now() + self.config.patience;
        let mut after = self.ledger.after();
        while !enough(&self.ledger) {
            let until = self.ledger.done() + AHEAD;
            if until > self.told {
                self.told = until;
                self.tell(&until.to_string());
            }
            let news = self.hear("all-reduces over all trees", deadline)?;
            self.take(&news)?;
            progress(Progress::Done(self.ledger.done()));
            // All-reduces over all trees are what is waited for: with fewer, the job goes on for ever.
            let now = self.ledger.after();
            if self.death.is_none() || now > after {
                (after, deadline) = (now, Instant::now() + self.config.patience);
            }
        }
        Ok(())
    }

    /// Kills the spine, in the midst of all-reduces.
    fn strike(&mut self) -> Result<(), LeafSpineError> {
        let victim = self.victim();
        let death = Instant::now();
        self.switches[victim].kill();
        if self.config.fault == Fault::Power {
            self.fabric.cut_off(victim).map_err(|error| LeafSpineError::Network(Box::new(error)))?;
        }
        self.death = Some(death);
        self.ledger.note_death(death);
        Ok(())
    }

    /// Ends the job: every worker does what it was told, and leaves.
    fn leave(&mut self) -> Result<(), LeafSpineError> {
        self.tell("leave");
        let deadline = Instant::now() + self.config.patience;
        while self.left < self.config.workers {
            let news = self.hear("the workers' farewell", deadline)?;
            self.take(&news)?;
        }
        if let Some(server) = self.server.take() {
            server.shutdown()?;
        }
        Ok(())
    }

    fn tell(&mut self, line: &str) {
        self.workers.iter_mut().for_each(|worker| worker.tell(line));
    }

    /// Takes news until `done` says so.
    fn wait_for(&mut self, what: &str, mut done: impl FnMut(&News) -> bool) -> Result<(), LeafSpineError> {
        let deadline = Instant::now() + self.config.patience;
        loop {
            let news = self.hear(what, deadline)?;
            self.take(&news)?;
            if done(&news) {
                return Ok(());
            }
        }
    }

    fn hear(&self, what: &str, deadline: Instant) -> Result<News, LeafSpineError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let patience = || LeafSpineError::Patience { what: what.into(), patience: self.config.patience };
        // The queue cannot end: this holds a sender of its own.
        self.news.recv_timeout(left).map_err(|_| patience())
    }

    /// Enters what was heard. A process that ends before its time is an error.
    fn take(&mut self, news: &News) -> Result<(), LeafSpineError> {
        match news {
            News::Said(Who::Worker(rank), at, value) => match serde_json::from_value(value.clone()) {
                Ok(Line::Operation(operation)) => self.ledger.enter(*rank, *at, &operation),
                Ok(Line::Left { .. }) => self.left += 1,
                Ok(Line::Failed { message }) => return Err(self.workers[usize::from(*rank)].failed(&message)),
                Ok(Line::Joined { .. }) | Err(_) => {}
            },
            News::Ended(Who::Worker(rank)) if self.left < self.config.workers => {
                // Those that have left may end before the others.
                if self.workers[usize::from(*rank)].has_failed() {
                    return Err(self.workers[usize::from(*rank)].failed("ended early"));
                }
            }
            News::Ended(Who::Switch(switch)) if self.death.is_none() || *switch != self.victim() => {
                return Err(self.switches[*switch].failed("ended early"));
            }
            News::Event(at, event) if self.death.is_some() => self.note(*at, event),
            News::Said(..) | News::Ended(_) | News::Event(..) => {}
        }
        Ok(())
    }

    /// Notes when the controller knew of the death, and when it had another place for the job.
    fn note(&mut self, at: Instant, event: &JobEvent) {
        match event {
            JobEvent::SwitchDown { switch, .. } if *switch == self.victim_name() => {
                self.noticed.get_or_insert(at);
            }
            JobEvent::Started { placement, .. } if !placement.switches.contains(&self.victim()) => {
                self.placed.get_or_insert(at);
            }
            _ => {}
        }
    }

    fn snapshot(&self) -> Result<Snapshot, LeafSpineError> {
        let taken = self.runtime.block_on(self.control.snapshot(SnapshotScope::Live));
        taken.map_err(|error| LeafSpineError::Controller(Box::new(error)))
    }

    /// The spine that dies, among all switches.
    fn victim(&self) -> usize {
        LEAVES + usize::from(self.config.spine.max(1)) - 1
    }

    fn victim_name(&self) -> String {
        switch_name(self.victim())
    }

    fn report(&self, before: &Snapshot, after: &Snapshot, in_time: bool) -> Report {
        let since = |at: Option<Instant>| Some((at? - self.death?).as_secs_f64());
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let mut report = Report {
            killed: self.victim_name(),
            fault: self.config.fault,
            trees: (0..TREES)
                .map(|tree| TreeReport { tree, before: place(before, tree), after: place(after, tree) })
                .collect(),
            phases: self.ledger.phases(),
            times: Times {
                controller_s: since(self.noticed),
                went_on_s: seconds(self.ledger.went_on()),
                placed_s: since(self.placed),
                regained_s: seconds(self.ledger.regained()),
            },
            problems: Vec::new(),
        };
        report.problems = self.problems(&report, in_time);
        report
    }

    /// What is not as it must be.
    fn problems(&self, report: &Report, in_time: bool) -> Vec<String> {
        let mut problems = Vec::new();
        let roots = |place: fn(&TreeReport) -> &Option<Place>| -> Vec<Option<String>> {
            report.trees.iter().map(|tree| place(tree).as_ref().map(|place| place.root.clone())).collect()
        };
        let (before, after) = (roots(|tree| &tree.before), roots(|tree| &tree.after));
        let lost = before.iter().filter(|root| root.as_ref() == Some(&report.killed)).count();
        if lost != 1 {
            problems.push(format!("{lost} trees had {} at their top, not one", report.killed));
        }
        if !in_time {
            let patience = self.config.patience;
            problems.push(format!("the job was not over all of its trees again within {patience:?}"));
        }
        for (tree, root) in after.iter().enumerate() {
            match root {
                None => problems.push(format!("tree {tree} had no place at the end")),
                Some(root) if *root == report.killed => {
                    problems.push(format!("tree {tree} was still over {root}"))
                }
                Some(_) => {}
            }
        }
        if report.wrong() > 0 {
            problems.push(format!("{} elements are wrong", report.wrong()));
        }
        let told: u32 = report.phases.iter().map(|phase| phase.operations).sum();
        let checked: u64 = report.phases.iter().map(|phase| phase.checked).sum();
        let want = u64::from(self.told) * u64::from(self.config.workers) * self.config.elements as u64;
        if told != self.told || checked != want {
            problems.push(format!(
                "{told} all-reduces with {checked} elements were done and checked, not {} with {want}",
                self.told
            ));
        }
        problems
    }
}

/// Where a tree of the job is, according to the controller.
fn place(snapshot: &Snapshot, tree: u8) -> Option<Place> {
    let job = snapshot.jobs.iter().find(|job| job.name.tenant == TENANT && job.name.job == JOB)?;
    let view: &TreeView = job.trees.iter().find(|view| view.tree == tree)?;
    let mut places: Vec<_> = view.places.iter().collect();
    places.sort_by_key(|place| place.parent.is_some());
    let switches = places.iter().map(|place| Slots {
        switch: place.switch.clone(),
        first: place.first_slot,
        slots: place.slots,
    });
    Some(Place { root: places.first()?.switch.clone(), switches: switches.collect(), epoch: view.epoch? })
}

/// A switch, to the point where it listens.
fn start_switch(
    config: &Config,
    fabric: &Fabric,
    switch: usize,
    news: &Sender<News>,
) -> Result<Process, LeafSpineError> {
    let mut command = fabric.on_switch(switch, &config.program);
    // The management network holds nobody but the controller.
    command.args(["--json", "switch", "--exit-with-stdin", "--insecure", "--listen"]);
    command.arg(network::data_address(switch).to_string());
    command.arg("--p4runtime").arg(network::p4runtime_address(switch).to_string());
    Process::start(Who::Switch(switch), switch_name(switch), &mut command, news)
}

/// The controller, on threads in its namespace; it finds the switches when they are there.
fn start_controller(fabric: &Fabric, news: &Sender<News>) -> Result<ServerHandle, LeafSpineError> {
    let topology = Topology::from_toml(&fabric.topology())?;
    let plane = managed_plane(topology, Box::new(Unkept::default()));
    let plane = plane.map_err(|error| LeafSpineError::Controller(Box::new(error)))?;
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let settings = admission::Config::controller(unix as u32, unix);
    let news = news.clone();
    let tell = move |event: &JobEvent| {
        let _ = news.send(News::Event(Instant::now(), event.clone()));
    };
    let serve = move || Server::over(network::controller_address(), settings, plane)?.on_event(tell).spawn();
    let entered = namespace::within(&fabric.controller(), serve);
    Ok(entered.map_err(|error| LeafSpineError::Network(Box::new(error)))??)
}

fn start_worker(
    config: &Config,
    fabric: &Fabric,
    rank: u16,
    news: &Sender<News>,
) -> Result<Process, LeafSpineError> {
    let meeting = SocketAddr::new(fabric.host_address(0), MEETING_PORT);
    let mut command = fabric.on_host(rank, &config.program);
    command.args(["testbed", "leaf-spine-worker"]);
    for (option, value) in [
        ("--controller", network::controller_address().to_string()),
        ("--rendezvous", meeting.to_string()),
        ("--bind", fabric.host_address(rank).to_string()),
        ("--rank", rank.to_string()),
        ("--world", config.workers.to_string()),
        ("--trees", TREES.to_string()),
        ("--mode", config.mode.to_string()),
        ("--elements", config.elements.to_string()),
        ("--slots", config.slots.to_string()),
        ("--payload", PAYLOAD_BYTES.to_string()),
        ("--seed", config.seed.to_string()),
        ("--stall", config.patience.as_secs().max(1).to_string()),
    ] {
        command.arg(option).arg(value);
    }
    Process::start(Who::Worker(rank), format!("rank {rank}"), &mut command, news)
}
