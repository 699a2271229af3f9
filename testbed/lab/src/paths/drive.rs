//! A job in the fabric: processes, and what they print.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use netfold_control::Multipath;
use netfold_controller::equal_paths::EqualPaths;
use netfold_measure::process::{self, Output};
use netfold_testkit::process::Process;

use super::network::Fabric;
use super::{PathsConfig, PathsError};

/// The process number of the switch; workers have their ranks.
const SWITCH: u64 = u64::MAX;

/// Longest time for all workers to have done an all-reduce.
const START: Duration = Duration::from_secs(60);

/// A switch and its workers, killed when this is dropped.
pub(super) struct Job {
    processes: Vec<Process>,
    outputs: Receiver<Output>,
    /// All-reduces that each rank has done.
    done: Vec<u64>,
    wrong: u64,
}

impl Job {
    /// Starts both; returns when every worker has done an all-reduce.
    pub(super) fn start(
        config: &PathsConfig,
        fabric: &Fabric,
        (multipath, equal_paths): (Option<Multipath>, Option<EqualPaths>),
    ) -> Result<Self, PathsError> {
        let (sender, outputs) = mpsc::channel();
        let mut job = Self { processes: Vec::new(), outputs, done: vec![0; config.workers.into()], wrong: 0 };
        let address = Fabric::switch_address().to_string();
        let mut command = fabric.on_switch(&config.program);
        command.args(["--json", "switch", "--exit-with-stdin", "--listen", &address]);
        if let Some(Multipath { udp_ports, policy }) = multipath {
            command.args(["--paths", &udp_ports.to_string(), "--path-policy", policy.name()]);
        }
        if let Some(paths) = equal_paths {
            command.args(["--path-hash", &paths.to_string()]);
        }
        job.spawn("the switch", command, SWITCH, &sender)?;
        job.read_until(START, "a switch that listens", |job, output| {
            job.note(output, &mut |process, event| process == SWITCH && event == "listening")
        })?;
        for rank in 0..config.workers {
            let mut command = fabric.on_host(rank, &config.program);
            command.args(["--json", "worker", "--exit-with-stdin", "--job", "paths", "--mode", "i32"]);
            command.args(["--switch", &address, "--rank", &rank.to_string()]);
            command.args(["--world", &config.workers.to_string(), "--slots", &config.slots.to_string()]);
            command.args(["--bytes", &config.bytes.to_string(), "--iterations", &u32::MAX.to_string()]);
            job.spawn(&format!("worker {rank}"), command, rank.into(), &sender)?;
        }
        drop(sender);
        job.read_until(START, "an all-reduce on every worker", |job, output| {
            job.note(output, &mut |_, _| false)?;
            Ok(job.done.iter().all(|done| *done > 0))
        })?;
        Ok(job)
    }

    fn spawn(
        &mut self,
        name: &str,
        mut command: Command,
        number: u64,
        sender: &Sender<Output>,
    ) -> Result<(), PathsError> {
        let sender = sender.clone();
        // Ctrl-C is for this process, which ends the others.
        command.process_group(0);
        let on_line = move |line| sender.send(Output { process: number, line }).is_ok();
        let started = process::run(&mut command, on_line);
        self.processes.push(started.map_err(|source| PathsError::Start { name: name.to_owned(), source })?);
        Ok(())
    }

    /// Takes one line of a process into account; whether it is the one that `wanted` wants.
    fn note(
        &mut self,
        output: Output,
        wanted: &mut dyn FnMut(u64, &str) -> bool,
    ) -> Result<bool, PathsError> {
        let Output { process, line } = output;
        let index = usize::try_from(process).ok().filter(|rank| *rank < self.done.len());
        let Some(line) = line else {
            let name = index.map_or_else(|| "the switch".into(), |rank| format!("worker {rank}"));
            let place = index.map_or(0, |rank| rank + 1);
            let process = &mut self.processes[place];
            let status = process.join().map_or_else(|error| error.to_string(), |status| status.to_string());
            let stderr = process.stderr().trim().to_owned();
            return Err(PathsError::Ended { name, status, stderr });
        };
        let event = line["event"].as_str().unwrap_or_default();
        if let ("all_reduce", Some(rank)) = (event, index) {
            self.done[rank] += 1;
            self.wrong += line["wrong"].as_u64().unwrap_or(1);
        }
        Ok(wanted(process, event))
    }

    fn read_until(
        &mut self,
        longest: Duration,
        what: &'static str,
        mut done: impl FnMut(&mut Self, Output) -> Result<bool, PathsError>,
    ) -> Result<(), PathsError> {
        let end = Instant::now() + longest;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.outputs.recv_timeout(left) {
                Ok(output) => {
                    if done(self, output)? {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(PathsError::Timeout { what, longest });
                }
            }
        }
    }

    /// Lets it run for a time.
    pub(super) fn run_for(&mut self, time: Duration) -> Result<(), PathsError> {
        let end = Instant::now() + time;
        while let Ok(output) = self.outputs.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.note(output, &mut |_, _| false)?;
        }
        Ok(())
    }

    /// All-reduces that all ranks have done.
    pub(super) fn operations(&self) -> u64 {
        self.done.iter().copied().min().unwrap_or(0)
    }

    /// Wrong elements, over all ranks.
    pub(super) fn wrong(&self) -> u64 {
        self.wrong
    }
}
