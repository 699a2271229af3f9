//! What survives: a controller, a switch and workers are killed without warning while two jobs of two tenants run.
//!
//! Everything is a process of the program under test on this machine: a software switch that is a P4Runtime device, a
//! controller with a database, and the workers of two jobs, which do all-reduces without end and check every element. One after the
//! other is killed by SIGKILL at random instants, from a printed seed, and started again:
//!
//! - the *controller*, while tenants are being added to its database: what was acknowledged must be there afterwards, no job may
//!   notice, and every worker must be back in its session;
//! - the *switch*: the jobs go on among their workers, and must be back on the switch, in a newer epoch;
//! - a *worker*: the rest of its job must be notified, may start again with one worker less, and the other job must not be disturbed.

mod jobs;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use netfold_io::vacant_address;
use netfold_testkit::process::Process;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use jobs::Job;
use netfold_measure::process::{self, Output};

/// Longest time for anything to be as it was before a kill.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two looks at the controller.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How often what is killed.
#[derive(Debug, Clone)]
pub struct SurviveConfig {
    /// The program under test.
    pub program: PathBuf,
    /// A folder for the topology and the database.
    pub folder: PathBuf,
    /// Kills of the controller, of the switch, and of workers.
    pub kills: [u32; 3],
    /// Workers of each job, 3 or more: it is restarted with one less after a loss, and one alone needs no switch.
    pub workers: u16,
    /// Tensor bytes of each all-reduce.
    pub bytes: u64,
    /// Seed of the instants, and of the choice of the victim.
    pub seed: u64,
}

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The controller.
    Controller,
    /// The switch.
    Switch,
    /// A worker of one of the jobs.
    Worker,
}

impl Victim {
    /// All, in the order in which they are killed.
    pub const ALL: [Self; 3] = [Self::Controller, Self::Switch, Self::Worker];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Switch => "switch",
            Self::Worker => "worker",
        }
    }
}

/// What came of killing one of them so often.
#[derive(Debug, Clone, PartialEq)]
pub struct SurviveRow {
    /// What was killed.
    pub victim: Victim,
    /// How often.
    pub kills: u32,
    /// Times from the kill until all was as it should be again.
    pub recovered: Vec<Duration>,
    /// All-reduces that ended meanwhile, those of one rank of each job counted.
    pub operations: u64,
    /// Wrong elements, over all ranks.
    pub wrong: u64,
    /// Jobs that ended although they need not have, with their workers' errors.
    pub failures: Vec<String>,
    /// Changes that were acknowledged and are not there any more, or epochs that went back.
    pub lost: u32,
}

/// Why the run cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SurviveError {
    /// No process can be started.
    #[error("cannot start the program under test")]
    Start {
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file or a port cannot be had.
    #[error("cannot prepare {what}")]
    Prepare {
        /// What.
        what: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Something is not as it should be after a long time.
    #[error("after {}, within {RECOVERY_TIMEOUT:?}: {what}", .after)]
    Stuck {
        /// After what.
        after: String,
        /// What is wrong, with the end of the processes' standard error.
        what: String,
    },
    /// The switch or the controller ended without being killed.
    #[error("after {after}: the {server} ended by itself: {state}")]
    Ended {
        /// After what.
        after: String,
        /// The switch or the controller.
        server: &'static str,
        /// Its error, and the end of its standard error.
        state: String,
    },
}

/// All that runs.
pub struct SurviveRig {
    config: SurviveConfig,
    rng: StdRng,
    addresses: Addresses,
    outputs: Receiver<Output>,
    sender: Sender<Output>,
    started: u64,
    switch: Option<Server>,
    controller: Option<Server>,
    jobs: [Job; 2],
    /// Tenants whose addition was acknowledged.
    acknowledged: BTreeSet<String>,
    added: u32,
    epoch_last: u64,
}

/// Where the switch and the controller listen.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    data: SocketAddr,
    p4runtime: SocketAddr,
    workers: SocketAddr,
    control: SocketAddr,
}

/// The switch or the controller.
#[derive(Debug)]
struct Server {
    who: u64,
    process: Process,
    /// It prints no more.
    ended: bool,
    /// The error with which it ended.
    error: Option<String>,
}

impl Server {
    fn record(&mut self, output: &Output) {
        match &output.line {
            _ if output.process != self.who => {}
            None => self.ended = true,
            Some(line) if line.get("event").and_then(Value::as_str) == Some("error") => {
                self.error = line.get("message").and_then(Value::as_str).map(str::to_owned);
            }
            Some(_) => {}
        }
    }

    fn state(&self) -> String {
        let state = match (&self.error, self.ended) {
            (Some(error), _) => error.as_str(),
            (None, true) => "ended without an error",
            (None, false) => "runs",
        };
        format!("{state}; {}", self.process.stderr())
    }
}

impl SurviveRig {
    /// Starts all of it and waits until both jobs run.
    ///
    /// # Errors
    /// [`SurviveError`], with nothing left running.
    pub fn start(config: SurviveConfig) -> Result<Self, SurviveError> {
        let vacant =
            || vacant_address().map_err(|source| SurviveError::Prepare { what: "an address", source });
        let addresses =
            Addresses { data: vacant()?, p4runtime: vacant()?, workers: vacant()?, control: vacant()? };
        let (sender, outputs) = mpsc::channel();
        let jobs = [
            Job::new("red", "train", config.workers, config.bytes, vacant()?),
            Job::new("blue", "train", config.workers, config.bytes, vacant()?),
        ];
        let mut rig = Self {
            rng: StdRng::seed_from_u64(config.seed),
            addresses,
            outputs,
            sender,
            started: 0,
            switch: None,
            controller: None,
            jobs,
            acknowledged: BTreeSet::new(),
            added: 0,
            epoch_last: 0,
            config,
        };
        rig.prepare()?;
        rig.start_switch()?;
        rig.start_controller()?;
        for tenant in ["red", "blue"] {
            rig.wait("the start", |rig| {
                rig.add_tenant(tenant).then_some(()).ok_or("no tenant can be added".into())
            })?;
        }
        for job in 0..2 {
            rig.start_job(job)?;
        }
        rig.wait("the start", |rig| rig.all_run(0))?;
        Ok(rig)
    }

    fn prepare(&self) -> Result<(), SurviveError> {
        let prepare = |source| SurviveError::Prepare { what: "the topology file", source };
        std::fs::create_dir_all(&self.config.folder).map_err(prepare)?;
        let text = format!(
            "[[switch]]\nname = \"switch\"\np4runtime = \"{}\"\n\n[[host]]\nname = \"here\"\naddresses = \
             [\"127.0.0.0/8\"]\nswitch = \"switch\"\n",
            self.addresses.p4runtime
        );
        std::fs::write(self.config.folder.join("topology.toml"), text).map_err(prepare)
    }

    fn spawn(&mut self, arguments: &[String]) -> Result<(u64, Process), SurviveError> {
        self.started += 1;
        let who = self.started;
        let process = process::start(&self.config.program, arguments, who, self.sender.clone());
        Ok((who, process.map_err(|source| SurviveError::Start { source })?))
    }

    fn spawn_server(&mut self, arguments: &[String]) -> Result<Server, SurviveError> {
        let (who, process) = self.spawn(arguments)?;
        Ok(Server { who, process, ended: false, error: None })
    }

    fn start_switch(&mut self) -> Result<(), SurviveError> {
        let Addresses { data, p4runtime, .. } = self.addresses;
        let arguments = words(&[
            "switch",
            "--listen",
            &data.to_string(),
            "--p4runtime",
            &p4runtime.to_string(),
            "--exit-with-stdin",
        ]);
        self.switch = Some(self.spawn_server(&arguments)?);
        Ok(())
    }

    fn start_controller(&mut self) -> Result<(), SurviveError> {
        let Addresses { workers, control, .. } = self.addresses;
        let file = |name: &str| self.config.folder.join(name).display().to_string();
        let arguments = words(&[
            "controller",
            "--insecure",
            "--topology",
            &file("topology.toml"),
            "--state",
            &file("state.redb"),
            "--workers",
            &workers.to_string(),
            "--listen",
            &control.to_string(),
            "--http",
            "127.0.0.1:0",
            "--exit-with-stdin",
        ]);
        self.controller = Some(self.spawn_server(&arguments)?);
        Ok(())
    }

    fn start_job(&mut self, job: usize) -> Result<(), SurviveError> {
        let ranks = self.jobs[job].arguments(self.addresses.workers);
        self.jobs[job].clear();
        for arguments in ranks {
            let (who, process) = self.spawn(&arguments)?;
            self.jobs[job].add(who, process);
        }
        Ok(())
    }

    /// Kills as often as the configuration says, and reports the effects. `progress` is called after each kill.
    ///
    /// # Errors
    /// [`SurviveError::Stuck`] when something does not recover at all.
    pub fn kill(
        &mut self,
        victim: Victim,
        mut progress: impl FnMut(u32),
    ) -> Result<SurviveRow, SurviveError> {
        let kills = self.config.kills[victim as usize];
        let mut row = SurviveRow {
            victim,
            kills,
            recovered: Vec::new(),
            operations: 0,
            wrong: 0,
            failures: Vec::new(),
            lost: 0,
        };
        self.listen();
        for job in &mut self.jobs {
            job.forget();
        }
        for number in 1..=kills {
            let pause = Duration::from_micros(self.rng.random_range(0..400_000));
            let recovered = match victim {
                Victim::Controller => self.kill_controller(pause, &mut row)?,
                Victim::Switch => self.kill_switch(pause)?,
                Victim::Worker => self.kill_worker(pause, number, &mut row)?,
            };
            row.recovered.push(recovered);
            self.judge(&mut row)?;
            progress(number);
        }
        for job in &mut self.jobs {
            let (operations, wrong) = job.forget();
            row.operations += operations;
            row.wrong += wrong;
        }
        Ok(row)
    }

    fn kill_controller(&mut self, pause: Duration, row: &mut SurviveRow) -> Result<Duration, SurviveError> {
        let before: Vec<u64> = self.epochs();
        let until = Instant::now() + pause;
        // The database is being written to when the controller is killed.
        let mut pending: Vec<std::process::Child> = Vec::new();
        while Instant::now() < until || pending.is_empty() {
            self.added += 1;
            let name = format!("t{}", self.added);
            let spawned = self.command(&["tenant", "add", &name]).spawn();
            pending.push(spawned.map_err(|source| SurviveError::Start { source })?);
            if pending.len() == 3 {
                let mut oldest = pending.remove(0);
                if oldest.wait().is_ok_and(|status| status.success()) {
                    self.acknowledged.insert(format!("t{}", self.added - 2));
                }
            }
        }
        if let Some(controller) = &mut self.controller {
            controller.process.kill();
        }
        let killed = Instant::now();
        let first = self.added + 1 - pending.len() as u32;
        for (name, mut child) in (first..).zip(pending) {
            if child.wait().is_ok_and(|status| status.success()) {
                self.acknowledged.insert(format!("t{name}"));
            }
        }
        self.start_controller()?;
        self.wait("the controller was killed", |rig| rig.have_recovered(0))?;
        let recovered = killed.elapsed();
        let there = self.tenants();
        row.lost += self.acknowledged.iter().filter(|name| !there.contains(*name)).count() as u32;
        if self.epochs() != before {
            row.failures.push(format!("jobs changed their epochs from {before:?} to {:?}", self.epochs()));
        }
        Ok(recovered)
    }

    fn kill_switch(&mut self, pause: Duration) -> Result<Duration, SurviveError> {
        self.pass(pause);
        let newest = self.epochs().into_iter().max().unwrap_or(0);
        if let Some(switch) = &mut self.switch {
            switch.process.kill();
        }
        let killed = Instant::now();
        let away = Duration::from_millis(self.rng.random_range(0..500));
        self.pass(away);
        self.start_switch()?;
        self.wait("the switch was killed", |rig| rig.have_recovered(newest + 1))?;
        Ok(killed.elapsed())
    }

    fn kill_worker(
        &mut self,
        pause: Duration,
        number: u32,
        row: &mut SurviveRow,
    ) -> Result<Duration, SurviveError> {
        self.pass(pause);
        let job = self.rng.random_range(0..2);
        let rank = self.rng.random_range(0..self.jobs[job].world());
        let newest = self.epochs().into_iter().max().unwrap_or(0);
        self.jobs[job].kill(rank);
        let killed = Instant::now();
        self.wait("a worker was killed", |rig| {
            rig.jobs[job].has_ended().then_some(()).ok_or("the rest of its job goes on".into())
        })?;
        let errors = self.jobs[job].last_words();
        if let Some(other) = errors.iter().find(|words| !words.contains(&format!("rank {rank}"))) {
            row.failures.push(format!("rank {rank} was killed, and another rank reported: {other}"));
        }
        // With one worker less every other time, and with all again.
        self.jobs[job].resize(self.config.workers - (number % 2) as u16);
        self.start_job(job)?;
        self.wait("the job was started again", |rig| match rig.jobs[job].is_working() {
            true => rig.have_recovered(0),
            false => Err("it does nothing yet".into()),
        })?;
        if self.jobs[job].epoch(&self.live()).is_none_or(|epoch| epoch <= newest) {
            row.lost += 1;
        }
        Ok(killed.elapsed())
    }

    /// Records workers that ended without being killed, and restarts their jobs.
    fn judge(&mut self, row: &mut SurviveRow) -> Result<(), SurviveError> {
        self.listen();
        let failed: Vec<usize> = (0..2).filter(|job| self.jobs[*job].has_failed()).collect();
        for job in &failed {
            let words = self.jobs[*job].last_words().join("; ");
            row.failures.push(format!("job {}: {words}", self.jobs[*job].name()));
            self.start_job(*job)?;
        }
        if !failed.is_empty() {
            self.wait("a job had failed", |rig| rig.all_run(0))?;
        }
        let epoch = self.epochs().into_iter().max().unwrap_or(0);
        if epoch < self.epoch_last {
            row.lost += 1;
        }
        self.epoch_last = self.epoch_last.max(epoch);
        Ok(())
    }

    /// Whether both jobs run at the switch, in epochs of at least `epoch_min`, with all their workers in their sessions. There is
    /// nothing to wait for once a worker has failed, either: [`judge`](Self::judge) reports that.
    fn have_recovered(&mut self, epoch_min: u64) -> Result<(), String> {
        match self.jobs.iter().any(Job::has_failed) {
            true => Ok(()),
            false => self.all_run(epoch_min),
        }
    }

    /// Whether both jobs run at the switch, in epochs of at least `epoch_min`, with all their workers in their sessions.
    fn all_run(&mut self, epoch_min: u64) -> Result<(), String> {
        let live = self.live();
        for job in &self.jobs {
            job.runs(&live, epoch_min)?;
        }
        Ok(())
    }

    fn epochs(&self) -> Vec<u64> {
        let live = self.live();
        self.jobs.iter().filter_map(|job| job.epoch(&live)).collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.config.program);
        command.arg("--json").args(arguments).args(["--controller", &self.addresses.control.to_string()]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
        command
    }

    fn ask(&self, arguments: &[&str]) -> Vec<Value> {
        let Ok(output) = self.command(arguments).output() else { return Vec::new() };
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The jobs that run, as the controller sees them; none, if it does not respond.
    fn live(&self) -> Vec<Value> {
        let names = self.jobs.iter().map(Job::name);
        let described = names.flat_map(|name| self.ask(&["job", "describe", &name]));
        described.filter(|job| job.get("state").and_then(Value::as_str) == Some("running")).collect()
    }

    fn tenants(&self) -> BTreeSet<String> {
        let all = self.ask(&["tenant", "list"]);
        all.iter().filter_map(|tenant| Some(tenant.get("tenant")?.as_str()?.to_owned())).collect()
    }

    fn add_tenant(&mut self, name: &str) -> bool {
        let added = self.command(&["tenant", "add", name, "--without-token"]).output();
        added.is_ok_and(|output| output.status.success()) || self.tenants().contains(name)
    }

    /// Lets time pass, and listens.
    fn pass(&mut self, time: Duration) {
        std::thread::sleep(time);
        self.listen();
    }

    fn listen(&mut self) {
        while let Ok(output) = self.outputs.try_recv() {
            self.jobs.iter_mut().for_each(|job| job.record(&output));
            self.switch.iter_mut().chain(&mut self.controller).for_each(|server| server.record(&output));
        }
    }

    fn servers(&self) -> impl Iterator<Item = (&'static str, &Server)> {
        let switch = self.switch.iter().map(|server| ("switch", server));
        switch.chain(self.controller.iter().map(|server| ("controller", server)))
    }

    /// Waits until something is as it should be.
    fn wait(
        &mut self,
        after: &str,
        mut right: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), SurviveError> {
        let begun = Instant::now();
        loop {
            self.listen();
            let Err(what) = right(self) else { return Ok(()) };
            if let Some((server, ended)) = self.servers().find(|(_, server)| server.ended) {
                return Err(SurviveError::Ended { after: after.into(), server, state: ended.state() });
            }
            if begun.elapsed() > RECOVERY_TIMEOUT {
                let servers = self.servers().map(|(name, server)| format!("{name}: {}", server.state()));
                let servers: Vec<String> = servers.collect();
                let states: Vec<String> = self.jobs.iter().flat_map(Job::states).collect();
                let what = format!("{what}\n{}\n{}", servers.join("\n"), states.join("\n"));
                return Err(SurviveError::Stuck { after: after.into(), what });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
