//! A controller's process: the coordinator, the executor and what the hub does around them, on the world's clock, database and network.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use netfold_control::Numerics;
use netfold_controller::admission::{Config, Coordinator, Output, SessionId, SessionLoss};
use netfold_controller::command::Command;
use netfold_controller::driver::SwitchDriver;
use netfold_controller::executor::{Executor, SwitchTask, TaskQueue, TenantTask};
use netfold_controller::fleet::{Fleet, SwitchInfo, links};
use netfold_controller::message::{Lines, decode, encode};
use netfold_controller::policy::Sharing;
use netfold_controller::record::{Change, Quota, StoredRecords, TenantRecord, TokenHash};
use netfold_controller::switch_status::SwitchUp;
use netfold_controller::topology::Topology;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::coroutine::Step;
use super::database::{GIVE_UP, RENEWAL};
use super::device::unreachable_switch;
use super::keeper::{Answer, Call, Keeper, SimDriver, TaskThread, enter};
use super::world::{Event, World};

/// The tenants: of the jobs that must not fail, and the adversary.
pub(super) const TENANTS: [(&str, &str); 2] = [("blue", "blue's token"), ("mallory", "mallory's token")];

/// Tasks of the switches at once.
const TASKS_MAX: usize = 16;

/// How long a driver waits for a switch that does not answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of a keeper's checks, and of its attempts to connect.
const KEEPER_INTERVAL: Duration = Duration::from_millis(500);

/// Interval between a candidate's checks.
const CANDIDATE_INTERVAL: Duration = Duration::from_millis(200);

/// How long after it has stopped by itself a controller is started again.
const RESTART: Duration = Duration::from_millis(500);

/// What a controller's process receives.
#[derive(Debug)]
pub(super) enum Input {
    /// It is to contend for leadership.
    Contend,
    /// It is to renew its lease.
    Renew,
    /// The coordinator's timer, if it is the latest.
    Timer(u64),
    /// Bytes of a connection; `None`: its end.
    Bytes(u64, Option<Vec<u8>>),
    /// The answer to the call of a task.
    Answer(u64, Answer),
    /// It checks a switch.
    Check(usize),
}

/// What the database holds at first.
pub(super) fn stored(unlimited: bool) -> Vec<Change> {
    let tenant = |(name, token): (&str, &str)| {
        let quota = match name {
            "mallory" if unlimited => Quota { slots: 256, ..Quota::UNLIMITED },
            "mallory" => Quota { slots: 128, jobs: 4, workers: 8 },
            _ => Quota::UNLIMITED,
        };
        let token = Some(TokenHash::of(token));
        Change::Tenant(TenantRecord { name: name.into(), quota, weight: 1, priority: 0, token })
    };
    TENANTS.into_iter().map(tenant).collect()
}

/// How a controller is killed when it makes a change durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillAtChange {
    Before,
    After,
    /// The database's host loses power after so many syncs of its disk, at the latest right after the change, and the controller with it.
    PowerLost(u32),
}

/// A controller's host and process.
pub(super) struct Controller {
    pub(super) incarnation: u64,
    alive: bool,
    /// Until when its host does not answer at all.
    silent_until: Duration,
    pub(super) paused_until: Duration,
    /// It is killed when it next makes a change durable, and is back after a time.
    pub(super) kill_at_change: Option<(KillAtChange, Duration)>,
    /// The same at a call of a driver, before or after it.
    pub(super) kill_at_call: Option<(u32, bool, Duration)>,
    running: Option<Running>,
}

/// A leader.
struct Running {
    started: Duration,
    term: u64,
    renewed: Duration,
    coordinator: Coordinator,
    executor: Arc<Executor>,
    queue: TaskQueue,
    /// Tasks under way: their switches, and their threads.
    tasks: BTreeMap<u64, (u16, Vec<usize>, TaskThread)>,
    tasks_begun: u64,
    /// Tasks that wait for switches that others use.
    blocked: VecDeque<TenantTask>,
    /// The switches of each job that has a place.
    switches: BTreeMap<u16, Vec<usize>>,
    keepers: Vec<Keeper>,
    sessions: BTreeMap<u64, SessionId>,
    conns: BTreeMap<SessionId, u64>,
    lines: BTreeMap<u64, Lines>,
    /// The latest timer, and when it is due.
    timer: (u64, Duration),
    /// When it last did something.
    turn: Duration,
}

impl Controller {
    pub(super) fn new() -> Self {
        Self {
            incarnation: 0,
            alive: false,
            silent_until: Duration::ZERO,
            paused_until: Duration::ZERO,
            kill_at_change: None,
            kill_at_call: None,
            running: None,
        }
    }

    /// Whether it accepts workers.
    pub(super) fn serves(&self) -> bool {
        self.alive && self.running.is_some()
    }

    pub(super) fn host_down(&self, now: Duration) -> bool {
        self.silent_until > now
    }

    /// Whether it holds nothing for any job.
    pub(super) fn is_unused(&self) -> bool {
        self.running.as_ref().is_none_or(|running| running.coordinator.is_unused())
    }
}

impl World {
    pub(super) fn start_controller(&mut self, index: usize) {
        let controller = &mut self.controllers[index];
        if controller.alive {
            return;
        }
        controller.alive = true;
        controller.incarnation += 1;
        let incarnation = controller.incarnation;
        self.note(|| format!("controller {index} starts"));
        self.at(self.now, Event::Controller(index, incarnation, Input::Contend));
    }

    /// Kills a controller's process.
    pub(super) fn kill_controller(&mut self, index: usize, silent: bool, back: Duration) {
        if !self.controllers[index].alive {
            return;
        }
        self.note(|| format!("controller {index} is killed"));
        let back = self.now + back;
        let controller = &mut self.controllers[index];
        controller.alive = false;
        if let Some(mut running) = controller.running.take() {
            running.tasks.values_mut().for_each(|(.., thread)| thread.kill());
        }
        if silent {
            controller.silent_until = back;
        }
        self.abandon(index, silent);
        self.at(back, Event::StartController(index));
    }

    /// A controller cannot go on as the leader: its process ends, and its supervisor starts it again.
    fn stop_controller(&mut self, index: usize, why: &str) {
        self.note(|| format!("controller {index} stops: {why}"));
        if let Some(running) = &self.controllers[index].running
            && self.database_cut(index).is_none()
        {
            let term = running.term;
            self.database.revoke(term);
        }
        self.kill_controller(index, false, RESTART);
    }

    pub(super) fn controller_input(&mut self, index: usize, incarnation: u64, input: Input) {
        let controller = &self.controllers[index];
        if !controller.alive || controller.incarnation != incarnation {
            return;
        }
        if controller.paused_until > self.now {
            return self.at(controller.paused_until, Event::Controller(index, incarnation, input));
        }
        match input {
            Input::Contend => return self.contend(index),
            Input::Renew => return self.renew(index),
            _ => {}
        }
        let Some(mut running) = self.controllers[index].running.take() else { return };
        let now = self.now - running.started;
        if self.now - running.turn > 2 * config(self.plan.sharing(), self.now).heartbeat {
            running.coordinator.note_pause(now);
        }
        running.turn = self.now;
        match input {
            Input::Timer(serial) if serial == running.timer.0 => {
                running.timer.1 = Duration::MAX;
                running.coordinator.handle_timeout(now);
            }
            Input::Bytes(conn, bytes) => self.read(&mut running, conn, bytes),
            Input::Answer(task, answer) => self.resume_task(index, &mut running, task, answer),
            Input::Check(switch) => self.check_switch(index, &mut running, switch),
            Input::Contend | Input::Renew | Input::Timer(_) => {}
        }
        self.controllers[index].running = Some(running);
        self.deliver(index);
    }

    fn contend(&mut self, index: usize) {
        let incarnation = self.controllers[index].incarnation;
        let cut = self.database_cut(index).is_some();
        match if cut { None } else { self.database.contend(self.now, index) } {
            Some((term, records)) => self.lead(index, term, records),
            None => {
                let at = self.now + CANDIDATE_INTERVAL;
                self.at(at, Event::Controller(index, incarnation, Input::Contend));
            }
        }
    }

    fn renew(&mut self, index: usize) {
        let Some(running) = &self.controllers[index].running else { return };
        let (term, renewed, incarnation) =
            (running.term, running.renewed, self.controllers[index].incarnation);
        if self.database_cut(index).is_none() {
            if !self.database.renew(self.now, term) {
                return self.stop_controller(index, "its lease has expired");
            }
            let now = self.now;
            self.controllers[index].running.iter_mut().for_each(|running| running.renewed = now);
        } else if self.now - renewed >= GIVE_UP {
            return self.stop_controller(index, "it cannot renew its lease");
        }
        self.at(self.now + RENEWAL, Event::Controller(index, incarnation, Input::Renew));
    }

    /// Becomes the leader.
    fn lead(&mut self, index: usize, term: u64, records: StoredRecords) {
        self.note(|| format!("controller {index} leads in term {term}"));
        let topology = Topology::from_toml(&self.plan.topology()).expect("the topology of a plan is valid");
        let info = |device: &super::device::Device| SwitchInfo {
            name: device.name.clone(),
            data: Some(device.address),
            ..SwitchInfo::own(device.limits(), Numerics::Word)
        };
        let infos: Vec<_> = self.devices.iter().map(info).collect();
        let error = self.plan.clock_error.mul_f64(self.rng.random());
        let config =
            config(self.plan.sharing(), self.now.saturating_sub(error) + error.mul_f64(self.rng.random()));
        let keys = StdRng::seed_from_u64(self.rng.random());
        let (linked, limits) = (links(&topology), infos.iter().map(|info| info.limits).collect::<Vec<_>>());
        let fleet =
            Fleet::new(infos, Box::new(topology), config.epoch_floor, keys).linked(linked).unreached();
        let coordinator = Coordinator::new(config, fleet, records);
        let known = coordinator.holdings().into_iter().zip(coordinator.boots());
        let keepers = known.map(|(held, boot)| Keeper::new(held, boot)).collect();
        let driver = |(switch, limits)| Box::new(SimDriver { switch, limits }) as Box<dyn SwitchDriver>;
        let executor = Executor::new(limits.into_iter().enumerate().map(driver).collect());
        self.controllers[index].running = Some(Running {
            started: self.now,
            term,
            renewed: self.now,
            coordinator,
            executor: Arc::new(executor),
            queue: TaskQueue::default(),
            tasks: BTreeMap::new(),
            tasks_begun: 0,
            blocked: VecDeque::new(),
            switches: BTreeMap::new(),
            keepers,
            sessions: BTreeMap::new(),
            conns: BTreeMap::new(),
            lines: BTreeMap::new(),
            timer: (0, Duration::MAX),
            turn: self.now,
        });
        let incarnation = self.controllers[index].incarnation;
        self.at(self.now + RENEWAL, Event::Controller(index, incarnation, Input::Renew));
        for switch in 0..self.devices.len() {
            let at = self.now + Duration::from_millis(2);
            self.at(at, Event::Controller(index, incarnation, Input::Check(switch)));
        }
        self.deliver(index);
    }

    /// Bytes of a connection, which becomes a session with its first line.
    fn read(&mut self, running: &mut Running, conn: u64, bytes: Option<Vec<u8>>) {
        let now = self.now - running.started;
        let Some(bytes) = bytes else {
            running.lines.remove(&conn);
            if let Some(id) = running.sessions.remove(&conn) {
                running.conns.remove(&id);
                running.coordinator.close(now, id, SessionLoss::Closed);
            }
            return;
        };
        let lines = running.lines.entry(conn).or_default();
        lines.push(&bytes);
        loop {
            let line = match running.lines.get_mut(&conn).map(Lines::next_line) {
                Some(Ok(Some(line))) => Ok(line),
                Some(Err(refused)) => Err(refused),
                None | Some(Ok(None)) => return,
            };
            let id = match running.sessions.get(&conn) {
                Some(id) => *id,
                None => match running.coordinator.open(now, self.peer(conn)) {
                    Ok(id) => {
                        running.sessions.insert(conn, id);
                        running.conns.insert(id, conn);
                        id
                    }
                    Err(refused) => {
                        running.lines.remove(&conn);
                        self.send_to_client(conn, encode(&refused.into()));
                        return self.close_from_port(conn);
                    }
                },
            };
            match line.and_then(|line| decode(&line)) {
                Ok(request) => running.coordinator.request(now, id, request),
                Err(refused) => {
                    running.coordinator.refuse(id, refused);
                    return;
                }
            }
        }
    }

    /// Carries out what the coordinator says; changes are made durable first.
    fn deliver(&mut self, index: usize) {
        loop {
            let Some(running) = &mut self.controllers[index].running else { return };
            let (mut changes, mut outputs) = (Vec::new(), Vec::new());
            while let Some(output) = running.coordinator.poll_output() {
                match output {
                    Output::Persist(change) => changes.push(change),
                    other => outputs.push(other),
                }
            }
            if changes.is_empty() && outputs.is_empty() {
                break;
            }
            if !changes.is_empty() && !self.make_durable(index, &changes) {
                return;
            }
            let Some(mut running) = self.controllers[index].running.take() else { return };
            outputs.into_iter().for_each(|output| self.act(&mut running, output));
            self.controllers[index].running = Some(running);
        }
        let Some(mut running) = self.controllers[index].running.take() else { return };
        self.start_tasks(index, &mut running);
        self.arm(index, &mut running);
        self.controllers[index].running = Some(running);
    }

    fn act(&mut self, running: &mut Running, output: Output) {
        match output {
            Output::Persist(_) => {}
            Output::Send { session, event } => {
                if let Some(conn) = running.conns.get(&session).copied() {
                    self.send_to_client(conn, encode(&event));
                }
            }
            Output::Close { session } => {
                if let Some(conn) = running.conns.remove(&session) {
                    running.sessions.remove(&conn);
                    running.lines.remove(&conn);
                    self.close_from_port(conn);
                }
            }
            Output::Task(task) => running.queue.push(task),
            Output::Log(event) => self.note(|| format!("  {event:?}").chars().take(240).collect()),
        }
    }

    /// Whether changes were made durable and the controller goes on.
    fn make_durable(&mut self, index: usize, changes: &[Change]) -> bool {
        let Some(running) = &self.controllers[index].running else { return false };
        let term = running.term;
        let kill = self.controllers[index].kill_at_change.take();
        if let Some((KillAtChange::Before, back)) = kill {
            self.kill_controller(index, false, back);
            return false;
        }
        if let Some((KillAtChange::PowerLost(syncs), back)) = kill
            && self.database_cut(index).is_none()
        {
            let (until, torn) = (self.now + back, self.rng.random());
            let made = self.database.apply_without_power(changes, syncs, until, torn);
            self.note(|| {
                format!("the database loses power, its change is {}", if made { "made" } else { "torn" })
            });
            self.kill_controller(index, true, back);
            return false;
        }
        if self.database_cut(index).is_some() || !self.database.apply(self.now, term, changes) {
            self.stop_controller(index, "a change cannot be made durable");
            return false;
        }
        if let Some((KillAtChange::After, back)) = kill {
            self.kill_controller(index, false, back);
            return false;
        }
        true
    }

    /// Has the coordinator's next deadline kept.
    fn arm(&mut self, index: usize, running: &mut Running) {
        let Some(deadline) = running.coordinator.next_deadline() else { return };
        let at = (running.started + deadline).max(self.now);
        if at < running.timer.1 {
            running.timer = (running.timer.0 + 1, at);
            let incarnation = self.controllers[index].incarnation;
            self.at(at, Event::Controller(index, incarnation, Input::Timer(running.timer.0)));
        }
    }

    /// Starts tasks whose switches no other uses: a driver takes one call at a time.
    fn start_tasks(&mut self, index: usize, running: &mut Running) {
        while let Some(task) = running.queue.pop(TASKS_MAX) {
            running.blocked.push_back(task);
        }
        let mut left = VecDeque::new();
        while let Some(task) = running.blocked.pop_front() {
            if let SwitchTask::Prepare { placement, .. } | SwitchTask::Adopt { placement, .. } = &task.task {
                running.switches.insert(placement.job().job, placement.switches.clone());
            }
            let job = task.job();
            let switches = running.switches.get(&job).cloned().unwrap_or_default();
            let waiting = left.iter().map(TenantTask::job).filter_map(|job| running.switches.get(&job));
            let used = running.tasks.values().map(|(_, used, _)| used).chain(waiting);
            let busy = used.flatten().any(|switch| switches.contains(switch));
            if busy {
                left.push_back(task);
                continue;
            }
            let executor = Arc::clone(&running.executor);
            let thread = TaskThread::start(move |yielder| {
                enter(yielder);
                executor.run(task)
            });
            running.tasks_begun += 1;
            let number = running.tasks_begun;
            running.tasks.insert(number, (job, switches, thread));
            self.resume_task_later(index, number);
        }
        running.blocked = left;
    }

    fn resume_task_later(&mut self, index: usize, task: u64) {
        let incarnation = self.controllers[index].incarnation;
        self.at(self.now, Event::Controller(index, incarnation, Input::Answer(task, Ok(0))));
    }

    /// Continues a task's thread until its next call.
    fn resume_task(&mut self, index: usize, running: &mut Running, number: u64, answer: Answer) {
        let Some((job, _, thread)) = running.tasks.get_mut(&number) else { return };
        let job = *job;
        match thread.resume(answer) {
            Step::Yielded((switch, call)) => {
                let at = self.now + Duration::from_micros(self.rng.random_range(100..2_000));
                let incarnation = self.controllers[index].incarnation;
                self.at(at, Event::Call(index, incarnation, number, switch, call));
            }
            Step::Completed(outcome) => {
                running.tasks.remove(&number);
                let outcome = outcome.unwrap_or_else(|| panic!("a task of job {job} panicked"));
                running.queue.finish(job);
                running.coordinator.handle_outcome(self.now - running.started, outcome);
            }
        }
    }

    /// A call arrives at a switch.
    pub(super) fn call_arrives(
        &mut self,
        (index, incarnation): (usize, u64),
        task: u64,
        switch: usize,
        call: &Call,
    ) {
        let controller = &mut self.controllers[index];
        if !controller.alive || controller.incarnation != incarnation {
            return;
        }
        let kill = match &mut controller.kill_at_call {
            Some((calls, after, back)) => {
                *calls = calls.saturating_sub(1);
                (*calls == 0).then_some((*after, *back))
            }
            None => None,
        };
        if kill.is_some() {
            controller.kill_at_call = None;
        }
        if let Some((false, back)) = kill {
            self.note(|| format!("killed before {}", name(call)));
            return self.kill_controller(index, false, back);
        }
        let reached = self.reaches(index, switch);
        let Some(running) = &mut self.controllers[index].running else { return };
        let (keeper, term) = (&mut running.keepers[switch], running.term);
        let same = keeper.boot == Some(self.devices[switch].boot.to_string());
        let (answer, after) = if !keeper.up {
            (keeper.answer_while_down(call), Duration::ZERO)
        } else if !reached || !same {
            keeper.up = false;
            (Err(unreachable_switch("it does not answer")), CALL_TIMEOUT)
        } else {
            let device = &mut self.devices[switch];
            (keeper.carry_out(device, term, call), Duration::from_micros(200))
        };
        let shown = answer.as_ref().map_or_else(|error| error.to_string(), ToString::to_string);
        self.note(|| format!("  controller {index}: {} at switch {switch}: {shown}", name(call)));
        if let Some((true, back)) = kill {
            self.note(|| "killed after it".into());
            return self.kill_controller(index, false, back);
        }
        self.at(self.now + after, Event::Controller(index, incarnation, Input::Answer(task, answer)));
    }

    /// Checks a switch, connects to it, and reports what has changed.
    fn check_switch(&mut self, index: usize, running: &mut Running, switch: usize) {
        let now = self.now - running.started;
        let incarnation = self.controllers[index].incarnation;
        let at = self.now + KEEPER_INTERVAL;
        self.at(at, Event::Controller(index, incarnation, Input::Check(switch)));
        let reached = self.reaches(index, switch);
        let (keeper, device) = (&mut running.keepers[switch], &mut self.devices[switch]);
        let boot = Some(device.boot.to_string());
        let reason = if !reached {
            Some("it does not answer")
        } else if !device.arbitrate(running.term) {
            Some("another controller is primary")
        } else if keeper.up && keeper.boot != boot {
            Some("the connection broke")
        } else {
            None
        };
        match reason {
            Some(reason) => {
                keeper.up = false;
                if keeper.reported.as_deref() != Some(reason) {
                    keeper.reported = Some(reason.into());
                    running.coordinator.switch_down(now, switch, reason.into());
                }
            }
            None if !keeper.up => match keeper.take_over(device) {
                Ok(fresh) => {
                    keeper.up = true;
                    keeper.reported = None;
                    let up = SwitchUp { fresh, data: Some(device.address), boot };
                    running.coordinator.switch_up(now, switch, up);
                }
                Err(error) => {
                    panic!(
                        "controller {index} cannot bring switch {switch} into its state: {}",
                        error.chain()
                    )
                }
            },
            None => {}
        }
    }

    /// An operator adds a tenant, and is told when that is done.
    pub(super) fn operate(&mut self) {
        let leader = (0..self.controllers.len()).find(|index| {
            self.controllers[*index].serves() && self.controllers[*index].paused_until <= self.now
        });
        let Some(index) = leader else { return };
        let name = format!("tenant{}", self.commands);
        self.commands += 1;
        let Some(running) = &mut self.controllers[index].running else { return };
        let record =
            TenantRecord { name: name.clone(), quota: Quota::UNLIMITED, weight: 1, priority: 0, token: None };
        let done = running.coordinator.execute(self.now - running.started, Command::AddTenant(record));
        let incarnation = self.controllers[index].incarnation;
        self.deliver(index);
        let lives = self.controllers[index].alive && self.controllers[index].incarnation == incarnation;
        if done.is_ok() && lives {
            self.acknowledged.push(name);
        }
    }
}

fn name(call: &Call) -> String {
    match call {
        Call::Bind(port, peer) => format!("bind {port} to {peer}"),
        Call::Authenticate(port, _) => format!("authenticate {port}"),
        Call::Unbind(port) => format!("unbind {port}"),
        Call::Insert(entries) => format!("insert {}", entries.len()),
        Call::Delete(entries) => format!("delete {}", entries.len()),
        Call::SetGroup(group, replicas) => format!("group {group} of {}", replicas.len()),
        Call::DeleteGroup(group) => format!("delete group {group}"),
        Call::Advance(first, slots, chunk) => format!("advance {first}+{slots} to {chunk}"),
        Call::Release(first, slots, epoch) => format!("release {first}+{slots} of epoch {epoch}"),
        Call::Spilled(group) => format!("count what was spilled to group {group}"),
    }
}

/// The configuration of a controller that starts at a time.
fn config(sharing: Sharing, now: Duration) -> Config {
    Config {
        sharing,
        encrypted: true,
        // Few enough for the adversary to reach.
        jobs_max: 12,
        pending_joins_max: 24,
        ..Config::controller(1, 1_700_000_000 + now.as_secs())
    }
}
