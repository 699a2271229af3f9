//! A job under test: its workers, what they print, and how the controller sees it.

use std::net::SocketAddr;

use netfold_testkit::process::Process;
use serde_json::Value;

use super::words;
use netfold_measure::process::Output;

/// All-reduces that a worker does: more than there is time for.
const ITERATIONS: u32 = 1_000_000_000;

/// A worker's process.
#[derive(Debug)]
struct Worker {
    who: u64,
    process: Process,
    /// It was killed on purpose.
    killed: bool,
    /// It prints no more.
    ended: bool,
    operations: u64,
    wrong: u64,
    /// What it reported when it ended.
    error: Option<String>,
}

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    tenant: &'static str,
    name: &'static str,
    world: u16,
    bytes: u64,
    meeting: SocketAddr,
    workers: Vec<Worker>,
    /// Of workers that have ended.
    operations: u64,
    wrong: u64,
}

impl Job {
    pub(super) fn new(
        tenant: &'static str,
        name: &'static str,
        world: u16,
        bytes: u64,
        meeting: SocketAddr,
    ) -> Self {
        Self { tenant, name, world, bytes, meeting, workers: Vec::new(), operations: 0, wrong: 0 }
    }

    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.tenant, self.name)
    }

    pub(super) fn world(&self) -> usize {
        self.workers.len()
    }

    pub(super) fn resize(&mut self, world: u16) {
        self.world = world.max(1);
    }

    /// The arguments of each rank's process.
    pub(super) fn arguments(&self, control: SocketAddr) -> Vec<Vec<String>> {
        let rank = |rank: u16| {
            words(&[
                "worker",
                "--controller",
                &control.to_string(),
                "--tenant",
                self.tenant,
                "--job",
                self.name,
                "--rank",
                &rank.to_string(),
                "--world",
                &self.world.to_string(),
                "--rendezvous",
                &self.meeting.to_string(),
                "--bytes",
                &self.bytes.to_string(),
                "--iterations",
                &ITERATIONS.to_string(),
                "--slots",
                "64",
                "--exit-with-stdin",
            ])
        };
        (0..self.world).map(rank).collect()
    }

    /// Does away with the workers, and keeps what they have done.
    pub(super) fn clear(&mut self) {
        self.gather();
        self.workers.clear();
    }

    pub(super) fn add(&mut self, who: u64, process: Process) {
        self.workers.push(Worker {
            who,
            process,
            killed: false,
            ended: false,
            operations: 0,
            wrong: 0,
            error: None,
        });
    }

    pub(super) fn kill(&mut self, rank: usize) {
        if let Some(worker) = self.workers.get_mut(rank) {
            worker.killed = true;
            worker.process.kill();
        }
    }

    pub(super) fn record(&mut self, output: &Output) {
        let Some(worker) = self.workers.iter_mut().find(|worker| worker.who == output.process) else {
            return;
        };
        let Some(line) = &output.line else {
            worker.ended = true;
            return;
        };
        match line.get("event").and_then(Value::as_str) {
            Some("all_reduce") => {
                worker.operations += 1;
                worker.wrong += line.get("wrong").and_then(Value::as_u64).unwrap_or(1);
            }
            Some("error") => {
                worker.error = line.get("message").and_then(Value::as_str).map(str::to_owned);
            }
            _ => {}
        }
    }

    fn gather(&mut self) {
        self.operations += self.workers.first().map_or(0, |worker| worker.operations);
        self.wrong += self.workers.iter().map(|worker| worker.wrong).sum::<u64>();
        self.workers.iter_mut().for_each(|worker| (worker.operations, worker.wrong) = (0, 0));
    }

    /// All-reduces done since the last call, and wrong elements.
    pub(super) fn forget(&mut self) -> (u64, u64) {
        self.gather();
        (std::mem::take(&mut self.operations), std::mem::take(&mut self.wrong))
    }

    /// Whether every worker has done something.
    pub(super) fn is_working(&self) -> bool {
        !self.workers.is_empty() && self.workers.iter().all(|worker| worker.operations > 0)
    }

    /// Whether all workers have ended, killed or not.
    pub(super) fn has_ended(&mut self) -> bool {
        self.workers.iter_mut().all(|worker| worker.ended && worker.process.has_ended())
    }

    /// Whether a worker has ended without being killed.
    pub(super) fn has_failed(&self) -> bool {
        self.workers.iter().any(|worker| worker.ended && !worker.killed)
    }

    /// Errors of workers that ended without being killed.
    pub(super) fn last_words(&self) -> Vec<String> {
        let ended = self.workers.iter().filter(|worker| worker.ended && !worker.killed);
        ended.map(|worker| worker.error.clone().unwrap_or_else(|| worker.process.stderr())).collect()
    }

    /// For each worker whether it runs, what it has done, and what it wrote on standard error.
    pub(super) fn states(&self) -> Vec<String> {
        let state = |(rank, worker): (usize, &Worker)| {
            let end = match (&worker.error, worker.ended) {
                (Some(error), _) => error.as_str(),
                (None, true) => "ended without an error",
                (None, false) => "runs",
            };
            let operations = worker.operations;
            let stderr = worker.process.stderr();
            format!("rank {rank} of {}: {end}, {operations} all-reduces; {stderr}", self.name())
        };
        self.workers.iter().enumerate().map(state).collect()
    }

    fn find<'a>(&self, live: &'a [Value]) -> Option<&'a Value> {
        let is = |job: &&Value| {
            job.get("tenant").and_then(Value::as_str) == Some(self.tenant)
                && job.get("job").and_then(Value::as_str) == Some(self.name)
        };
        live.iter().find(is)
    }

    /// Its epoch, if the controller reports that it runs.
    pub(super) fn epoch(&self, live: &[Value]) -> Option<u64> {
        self.find(live)?.get("epoch")?.as_u64()
    }

    /// Whether it runs at the switch, in an epoch of at least `epoch_min`, with all workers in their sessions.
    pub(super) fn runs(&self, live: &[Value], epoch_min: u64) -> Result<(), String> {
        let name = self.name();
        let job = self.find(live).ok_or(format!("the controller knows of no running job {name}"))?;
        let epoch = job.get("epoch").and_then(Value::as_u64).unwrap_or(0);
        if epoch < epoch_min {
            return Err(format!("job {name} is in epoch {epoch}, before {epoch_min}"));
        }
        let trees = job.get("trees").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let members = trees.iter().filter_map(|tree| tree.get("members")?.as_array()).flatten();
        let states = members.filter_map(|member| member.get("state")?.as_str());
        let here = states.filter(|state| *state == "here").count();
        let running = trees.iter().all(|tree| tree.get("phase").and_then(Value::as_str) == Some("running"));
        match running && here == usize::from(self.world) {
            true => Ok(()),
            false => Err(format!("of job {name} {here} of {} workers are in their sessions", self.world)),
        }
    }
}
