//! The run itself: start, work, kill, wait, work, leave.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use netfold_controller::admission;
use netfold_controller::command::Command;
use netfold_controller::record::{MemoryStore, Quota, TenantRecord};
use netfold_controller::server::Control;
use netfold_controller::topology::Topology;
use netfold_controller::view::SnapshotScope;
use netfold_controller::view::{Snapshot, TreeView};
use netfold_controller::{JobEvent, Server, ServerHandle};
use netfold_southbound::managed_plane;
use tokio::runtime::Runtime;

use super::ledger::Ledger;
use super::network::{self, Fabric, LEAVES, SWITCHES, switch_name};
use super::process::{FabricEvent, Process, ProcessId};
use super::worker::{JOB, TENANT, WorkerEvent};
use super::{
    FabricConfig, FabricReport, Fault, Leaf, LeafSpineError, Progress, Slots, TREES, Times, TreePlacement,
    TreeReport,
};
use netfold_testkit::namespace;

/// Port on rank 0's host where the workers meet.
const MEETING_PORT: u16 = 20100;

/// All-reduces requested ahead of the slowest rank.
const AHEAD: u32 = 3;

/// Lanes of a packet in bytes, of the switches' pipeline.
const PAYLOAD_BYTES: u32 = 1408;

/// Builds the fabric, runs the job through the loss of a spine, and removes everything. `progress` is called from time to time.
///
/// # Errors
///
/// [`LeafSpineError`] when there is nothing to report: the fabric cannot be built, or a worker failed. Wrong results and trees that do
/// not come back are in the report.
pub fn run(
    config: &FabricConfig,
    mut progress: impl FnMut(Progress),
) -> Result<FabricReport, LeafSpineError> {
    if !rustix::process::geteuid().is_root() {
        return Err(LeafSpineError::NotRoot);
    }
    let mut run = FabricRun::start(config)?;
    progress(Progress::Starting);
    run.join()?;
    let leaf = |leaf| Leaf { name: switch_name(leaf), ranks: run.fabric.ranks_of(leaf) };
    progress(Progress::Running { leaves: (0..LEAVES).map(leaf).collect() });
    run.work(&mut progress, |ledger| ledger.done() >= config.operations)?;
    let before = run.snapshot()?;
    run.kill_spine()?;
    progress(Progress::Killed(run.victim_name()));
    let regained = run.work(&mut progress, |ledger| ledger.after() >= config.operations);
    let in_time = match regained {
        Ok(()) => true,
        Err(LeafSpineError::Timeout { .. }) => false,
        Err(error) => return Err(error),
    };
    let after = run.snapshot()?;
    run.leave()?;
    Ok(run.report(&before, &after, in_time))
}

/// A fabric with its processes. What is first goes first.
struct FabricRun<'a> {
    config: &'a FabricConfig,
    workers: Vec<Process>,
    server: Option<ServerHandle>,
    switches: Vec<Process>,
    fabric: Fabric,
    control: Control,
    runtime: Runtime,
    events: Receiver<FabricEvent>,
    sender: Sender<FabricEvent>,
    ledger: Ledger,
    /// All-reduces requested of the workers.
    requested: u32,
    /// Workers that have left.
    left: u16,
    lost_at: Option<Instant>,
    detected: Option<Instant>,
    placed: Option<Instant>,
}

impl<'a> FabricRun<'a> {
    /// Namespaces, switches and the controller, to the point where it has all switches.
    fn start(config: &'a FabricConfig) -> Result<Self, LeafSpineError> {
        let fabric =
            Fabric::build(config.workers).map_err(|error| LeafSpineError::Network(Box::new(error)))?;
        let (sender, events) = mpsc::channel();
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
            events,
            sender,
            ledger,
            requested: 0,
            left: 0,
            lost_at: None,
            detected: None,
            placed: None,
        };
        let mut up = 0;
        run.wait_for("a controller in charge of all switches", |events| {
            up += usize::from(matches!(events, FabricEvent::Event(_, JobEvent::SwitchUp { .. })));
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
        let (mut joined, mut short) = (0, None);
        let workers = self.config.workers;
        self.wait_for("admission of all workers", |events| {
            if let FabricEvent::Output(ProcessId::Worker(rank), _, value) = events
                && let Ok(WorkerEvent::Joined { trees }) = serde_json::from_value(value.clone())
            {
                joined += 1;
                if trees != usize::from(TREES) {
                    short = Some((*rank, trees));
                }
            }
            joined == workers || short.is_some()
        })?;
        match short {
            None => Ok(()),
            Some((rank, trees)) => {
                Err(self.workers[usize::from(rank)]
                    .failed(&format!("has a place in {trees} of {TREES} trees")))
            }
        }
    }

    /// Lets the workers do all-reduces until it is `is_enough`.
    fn work(
        &mut self,
        progress: &mut impl FnMut(Progress),
        is_enough: impl Fn(&Ledger) -> bool,
    ) -> Result<(), LeafSpineError> {
        let mut deadline = Instant::now() + self.config.timeout;
        let mut after = self.ledger.after();
        while !is_enough(&self.ledger) {
            let until = self.ledger.done() + AHEAD;
            if until > self.requested {
                self.requested = until;
                self.send_line(&until.to_string());
            }
            let events = self.receive("all-reduces over all trees", deadline)?;
            self.take(&events)?;
            progress(Progress::Done(self.ledger.done()));
            // All-reduces over all trees are what is waited for: with fewer, the job goes on for ever.
            let now = self.ledger.after();
            if self.lost_at.is_none() || now > after {
                (after, deadline) = (now, Instant::now() + self.config.timeout);
            }
        }
        Ok(())
    }

    /// Kills the spine, in the midst of all-reduces.
    fn kill_spine(&mut self) -> Result<(), LeafSpineError> {
        let victim = self.victim();
        let lost_at = Instant::now();
        self.switches[victim].kill();
        if self.config.fault == Fault::Power {
            self.fabric.cut_off(victim).map_err(|error| LeafSpineError::Network(Box::new(error)))?;
        }
        self.lost_at = Some(lost_at);
        self.ledger.note_loss(lost_at);
        Ok(())
    }

    /// Ends the job: every worker completes the requested operations and leaves.
    fn leave(&mut self) -> Result<(), LeafSpineError> {
        self.send_line("leave");
        let deadline = Instant::now() + self.config.timeout;
        while self.left < self.config.workers {
            let events = self.receive("the workers' departure", deadline)?;
            self.take(&events)?;
        }
        if let Some(server) = self.server.take() {
            server.shutdown()?;
        }
        Ok(())
    }

    fn send_line(&mut self, line: &str) {
        self.workers.iter_mut().for_each(|worker| worker.send_line(line));
    }

    /// Processes events until `done` returns true.
    fn wait_for(
        &mut self,
        what: &str,
        mut done: impl FnMut(&FabricEvent) -> bool,
    ) -> Result<(), LeafSpineError> {
        let deadline = Instant::now() + self.config.timeout;
        loop {
            let events = self.receive(what, deadline)?;
            self.take(&events)?;
            if done(&events) {
                return Ok(());
            }
        }
    }

    fn receive(&self, what: &str, deadline: Instant) -> Result<FabricEvent, LeafSpineError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = || LeafSpineError::Timeout { what: what.into(), timeout: self.config.timeout };
        // The queue cannot end: this holds a sender of its own.
        self.events.recv_timeout(left).map_err(|_| timeout())
    }

    /// Applies an event. A process that ends early is an error.
    fn take(&mut self, events: &FabricEvent) -> Result<(), LeafSpineError> {
        match events {
            FabricEvent::Output(ProcessId::Worker(rank), at, value) => {
                match serde_json::from_value(value.clone()) {
                    Ok(WorkerEvent::Operation(operation)) => self.ledger.enter(*rank, *at, &operation),
                    Ok(WorkerEvent::Left { .. }) => self.left += 1,
                    Ok(WorkerEvent::Failed { message }) => {
                        return Err(self.workers[usize::from(*rank)].failed(&message));
                    }
                    Ok(WorkerEvent::Joined { .. }) | Err(_) => {}
                }
            }
            FabricEvent::Ended(ProcessId::Worker(rank)) if self.left < self.config.workers => {
                // Those that have left may end before the others.
                if self.workers[usize::from(*rank)].has_failed() {
                    return Err(self.workers[usize::from(*rank)].failed("ended early"));
                }
            }
            FabricEvent::Ended(ProcessId::Switch(switch))
                if self.lost_at.is_none() || *switch != self.victim() =>
            {
                return Err(self.switches[*switch].failed("ended early"));
            }
            FabricEvent::Event(at, event) if self.lost_at.is_some() => self.note(*at, event),
            FabricEvent::Output(..) | FabricEvent::Ended(_) | FabricEvent::Event(..) => {}
        }
        Ok(())
    }

    /// Records when the controller detected the loss, and when it had placed the job elsewhere.
    fn note(&mut self, at: Instant, event: &JobEvent) {
        match event {
            JobEvent::SwitchDown { switch, .. } if *switch == self.victim_name() => {
                self.detected.get_or_insert(at);
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

    /// The index of the spine to kill, among all switches.
    fn victim(&self) -> usize {
        LEAVES + usize::from(self.config.spine.max(1)) - 1
    }

    fn victim_name(&self) -> String {
        switch_name(self.victim())
    }

    fn report(&self, before: &Snapshot, after: &Snapshot, in_time: bool) -> FabricReport {
        let since = |at: Option<Instant>| Some((at? - self.lost_at?).as_secs_f64());
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let mut report = FabricReport {
            killed: self.victim_name(),
            fault: self.config.fault,
            trees: (0..TREES)
                .map(|tree| TreeReport { tree, before: place(before, tree), after: place(after, tree) })
                .collect(),
            phases: self.ledger.phases(),
            times: Times {
                controller_s: since(self.detected),
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
    fn problems(&self, report: &FabricReport, in_time: bool) -> Vec<String> {
        let mut problems = Vec::new();
        let roots = |place: fn(&TreeReport) -> &Option<TreePlacement>| -> Vec<Option<String>> {
            report.trees.iter().map(|tree| place(tree).as_ref().map(|place| place.root.clone())).collect()
        };
        let (before, after) = (roots(|tree| &tree.before), roots(|tree| &tree.after));
        let lost = before.iter().filter(|root| root.as_ref() == Some(&report.killed)).count();
        if lost != 1 {
            problems.push(format!("{lost} trees had {} at their top, not one", report.killed));
        }
        if !in_time {
            let timeout = self.config.timeout;
            problems.push(format!("the job was not over all of its trees again within {timeout:?}"));
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
        let requested: u32 = report.phases.iter().map(|phase| phase.operations).sum();
        let checked: u64 = report.phases.iter().map(|phase| phase.checked).sum();
        let want = u64::from(self.requested) * u64::from(self.config.workers) * self.config.elements as u64;
        if requested != self.requested || checked != want {
            problems.push(format!(
                "{requested} all-reduces with {checked} elements were done and checked, not {} with {want}",
                self.requested
            ));
        }
        problems
    }
}

/// Where a tree of the job is, according to the controller.
fn place(snapshot: &Snapshot, tree: u8) -> Option<TreePlacement> {
    let job = snapshot.jobs.iter().find(|job| job.name.tenant == TENANT && job.name.job == JOB)?;
    let view: &TreeView = job.trees.iter().find(|view| view.tree == tree)?;
    let mut places: Vec<_> = view.places.iter().collect();
    places.sort_by_key(|place| place.parent.is_some());
    let switches = places.iter().map(|place| Slots {
        switch: place.switch.clone(),
        first: place.first_slot,
        slots: place.slots,
    });
    Some(TreePlacement {
        root: places.first()?.switch.clone(),
        switches: switches.collect(),
        epoch: view.epoch?,
    })
}

/// A switch, to the point where it listens.
fn start_switch(
    config: &FabricConfig,
    fabric: &Fabric,
    switch: usize,
    events: &Sender<FabricEvent>,
) -> Result<Process, LeafSpineError> {
    let mut command = fabric.on_switch(switch, &config.program);
    // The management network has the controller alone.
    command.args(["--json", "switch", "--exit-with-stdin", "--insecure", "--listen"]);
    command.arg(network::data_address(switch).to_string());
    command.arg("--p4runtime").arg(network::p4runtime_address(switch).to_string());
    Process::start(ProcessId::Switch(switch), switch_name(switch), &mut command, events)
}

/// The controller, on threads in its namespace; it finds the switches when they are there.
fn start_controller(fabric: &Fabric, events: &Sender<FabricEvent>) -> Result<ServerHandle, LeafSpineError> {
    let topology = Topology::from_toml(&fabric.topology())?;
    let plane = managed_plane(topology, Box::new(MemoryStore::default()));
    let plane = plane.map_err(|error| LeafSpineError::Controller(Box::new(error)))?;
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let settings = admission::Config::controller(unix as u32, unix);
    let events = events.clone();
    let send_line = move |event: &JobEvent| {
        let _ = events.send(FabricEvent::Event(Instant::now(), event.clone()));
    };
    let serve =
        move || Server::over(network::controller_address(), settings, plane)?.on_event(send_line).spawn();
    let entered = namespace::within(&fabric.controller(), serve);
    Ok(entered.map_err(|error| LeafSpineError::Network(Box::new(error)))??)
}

fn start_worker(
    config: &FabricConfig,
    fabric: &Fabric,
    rank: u16,
    events: &Sender<FabricEvent>,
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
        ("--stall", config.timeout.as_secs().max(1).to_string()),
    ] {
        command.arg(option).arg(value);
    }
    Process::start(ProcessId::Worker(rank), format!("rank {rank}"), &mut command, events)
}
