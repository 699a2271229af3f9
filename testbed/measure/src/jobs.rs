//! Many jobs of one tenant at once, beside few: how many a controller admits, with how many slots, and what all of them together reach.
//!
//! Every worker is a process, as in a cluster. In each round a few jobs run alone and leave, and then many do the same number of all-reduces
//! between them: so both have all slots at the start, the machine is equally busy with other things, and the tail in which few jobs are left is as
//! long. The time is from the first all-reduce of any job to the last one; tensors are filled and every element of every result is checked in it.
//!
//! On one machine without links, processor time is what jobs share. On a star of shaped links it is the links and the slots.

mod worker;

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use netfold::Mode;
use netfold_io::vacant_address;
use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::process::Process;
use netfold_testkit::sample::Sample;
use serde::Serialize;

use crate::all_reduce::Controlled;
use crate::peers::{PeerError, TURN_TIMEOUT};
use crate::star::StarError;
use crate::star::controlled::Controlled as Middle;
use crate::star::network::{self, Star};

pub use worker::{JobWorker, take_part};

/// Longest time in which no worker prints anything: joining and leaving. Stuck operations end earlier, by the workers themselves.
const SILENCE: Duration = Duration::from_secs(300);

/// MTU of shaped links in bytes.
const MTU: u32 = 1500;

/// Where jobs run, and whom they join.
#[derive(Debug, Clone)]
pub enum JobsNetwork {
    /// On this machine, through a control port that exists; the job's name is the beginning of all names.
    Existing(Controlled),
    /// On a star: each rank of a job has a host in a namespace of its own, and all jobs share the hosts' links, the switch in the middle and its
    /// controller.
    Star {
        /// Rate of each link in each direction, bits a second.
        rate: f64,
    },
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct JobsConfig {
    /// The program under test, which has the command `bench jobs`.
    pub program: PathBuf,
    /// Where the jobs run, and whom they join.
    pub network: JobsNetwork,
    /// Jobs at once.
    pub jobs: u16,
    /// Jobs at once that they are compared with.
    pub beside: u16,
    /// Workers of each job, 2 or more.
    pub workers: u16,
    /// All-reduces of a round, over all jobs.
    pub operations: u32,
    /// Tensor bytes of a rank.
    pub bytes: u64,
    /// How tensors travel.
    pub mode: Mode,
    /// Slots that each job asks for.
    pub slots: u32,
    /// Rounds.
    pub rounds: u32,
}

/// What so many jobs reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobsRow {
    /// Jobs that were started at once.
    pub jobs: u16,
    /// Of them, those that were admitted to a switch; of several rounds the fewest.
    pub admitted: u16,
    /// Why others were not, if any: the first reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Workers of each.
    pub workers: u16,
    /// Fewest slots of a job.
    pub slots_min: u32,
    /// Most slots of a job.
    pub slots_max: u32,
    /// All-reduces of a round, over all jobs.
    pub operations: u64,
    /// Tensor bytes of a rank.
    pub bytes: u64,
    /// Wrong elements, over all rounds.
    pub wrong: u64,
    /// Tensor bytes of one rank, of all jobs together, in 10^6 bytes a second: median over the rounds.
    #[serde(rename = "MBps")]
    pub rate: f64,
    /// The lowest of them.
    #[serde(rename = "MBps_min")]
    pub rate_min: f64,
    /// The highest.
    #[serde(rename = "MBps_max")]
    pub rate_max: f64,
    /// Median of the rounds' ratios to the rate of the few jobs; none for these themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Rate of the links, bits a second, if they are shaped.
    #[serde(rename = "rate", skip_serializing_if = "Option::is_none")]
    pub link_rate: Option<f64>,
    /// Fraction of what these links allow that the median is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_share: Option<f64>,
}

/// Why jobs cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobsError {
    /// A worker's process cannot be started.
    #[error("cannot start {name}")]
    Start {
        /// The worker.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A worker's process ended too early.
    #[error("{name} ended unexpectedly ({status}){}", Said(.stderr))]
    Died {
        /// The worker.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote on standard error.
        stderr: String,
    },
    /// A worker has printed nothing for too long.
    #[error("{name} has neither finished nor failed for {} s", SILENCE.as_secs())]
    Silent {
        /// The worker.
        name: String,
    },
    /// No job was admitted.
    #[error("none of {jobs} jobs was admitted: {message}")]
    NoneAdmitted {
        /// Jobs that were started.
        jobs: u16,
        /// The refusal of one of them.
        reason: String,
        /// What it said.
        message: String,
    },
    /// The star cannot be built, or its controller does not run.
    #[error("cannot measure jobs on shaped links")]
    Star(#[from] StarError),
}

struct Said<'a>(&'a str);

impl std::fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

impl JobsError {
    /// A stable name for programs.
    pub fn kind(&self) -> &str {
        match self {
            Self::Start { .. } => "spawn",
            Self::Died { .. } => "child_died",
            Self::Silent { .. } => "silent",
            Self::NoneAdmitted { reason, .. } => reason,
            Self::Star(_) => "bench",
        }
    }
}

/// Measures `beside` jobs and `jobs` jobs, in turns. `progress` is called before each turn with the round and the number of jobs.
///
/// # Errors
///
/// [`JobsError`]; never for wrong results, which are counted, nor while at least one job is admitted. No process is left.
pub fn run(config: &JobsConfig, progress: impl FnMut(u32, u16)) -> Result<[JobsRow; 2], JobsError> {
    let rate = match &config.network {
        JobsNetwork::Existing(controlled) => {
            return rounds(&Place { config, controlled, star: None }, progress);
        }
        JobsNetwork::Star { rate } => *rate,
    };
    let folder = TemporaryDirectory::create("jobs")
        .map_err(|source| StarError::from(PeerError::File { path: std::env::temp_dir(), source }))?;
    let star = Star::build(folder, config.workers, Some(rate), MTU);
    let star = star.map_err(|error| StarError::Network(Box::new(error)))?;
    let deadline = Instant::now() + TURN_TIMEOUT;
    let middle = Middle::start(&star, &config.program.to_string_lossy(), "0", deadline)?;
    rounds(&Place { config, controlled: &middle.joining("jobs"), star: Some(&star) }, progress)
}

/// What is measured, and where its workers are started.
struct Place<'a> {
    config: &'a JobsConfig,
    controlled: &'a Controlled,
    /// Rank r of each job is at host r.
    star: Option<&'a Star>,
}

fn rounds(place: &Place<'_>, mut progress: impl FnMut(u32, u16)) -> Result<[JobsRow; 2], JobsError> {
    let config = place.config;
    let mut turns: [Vec<Turn>; 2] = Default::default();
    for round in 0..config.rounds {
        for (turns, jobs) in turns.iter_mut().zip([config.beside, config.jobs]) {
            progress(round, jobs);
            turns.push(turn(place, round, jobs)?);
        }
    }
    let ratios: Sample = turns[1].iter().zip(&turns[0]).map(|(many, few)| many.rate() / few.rate()).collect();
    let [few, many] = &turns;
    Ok([row(config, config.beside, few, None), row(config, config.jobs, many, Some(ratios.median()))])
}

fn row(config: &JobsConfig, jobs: u16, turns: &[Turn], ratio: Option<f64>) -> JobsRow {
    let rates: Sample = turns.iter().map(Turn::rate).collect();
    let slots = || turns.iter().flat_map(|turn| turn.slots.iter().copied());
    let link_rate = match config.network {
        JobsNetwork::Star { rate } => Some(rate),
        JobsNetwork::Existing(_) => None,
    };
    let operations = turns.first().map_or(0, |turn| turn.operations);
    let bound = link_rate.map(|rate| {
        let lane_bytes = config.mode.lanes().map_or(4, |lanes| lanes.element_bytes());
        let tensors = operations as f64 * config.bytes as f64;
        tensors / network::least_time(tensors * lane_bytes as f64 / 4.0, rate) / 1e6
    });
    JobsRow {
        jobs,
        admitted: turns.iter().map(|turn| turn.slots.len() as u16).min().unwrap_or(0),
        refused: turns.iter().find_map(|turn| turn.refusal.as_ref()).map(|refusal| refusal.reason.clone()),
        workers: config.workers,
        slots_min: slots().min().unwrap_or(0),
        slots_max: slots().max().unwrap_or(0),
        operations,
        bytes: config.bytes,
        wrong: turns.iter().map(|turn| turn.wrong).sum(),
        rate: rates.median(),
        rate_min: rates.min(),
        rate_max: rates.max(),
        ratio,
        link_rate,
        bound_share: bound.map(|bound| rates.median() / bound),
    }
}

/// A refusal, as the controller gave it.
#[derive(Debug, Clone)]
struct Refusal {
    reason: String,
    message: String,
}

/// What the jobs of one turn did.
struct Turn {
    /// Slots of each job that was admitted.
    slots: Vec<u32>,
    refusal: Option<Refusal>,
    operations: u64,
    bytes: u64,
    time: Duration,
    wrong: u64,
}

impl Turn {
    fn rate(&self) -> f64 {
        self.operations as f64 * self.bytes as f64 / self.time.as_secs_f64().max(1e-9) / 1e6
    }
}

/// The workers of a turn, killed when this is dropped.
struct Workers {
    workers: Vec<RunningWorker>,
    printed: Receiver<(usize, Option<String>)>,
}

struct RunningWorker {
    process: Process,
    job: usize,
    name: String,
}

fn turn(place: &Place<'_>, round: u32, jobs: u16) -> Result<Turn, JobsError> {
    let config = place.config;
    let mut workers = Workers::start(place, round, jobs)?;
    let (slots, refusal) = workers.joined(jobs)?;
    let admitted = slots.iter().flatten().count() as u32;
    if admitted == 0 {
        let Refusal { reason, message } = refusal.unwrap_or_else(|| Refusal {
            reason: "no_switch".into(),
            message: "no worker has a place at a switch".into(),
        });
        return Err(JobsError::NoneAdmitted { jobs, reason, message });
    }
    let each = config.operations.div_ceil(admitted).max(1);
    let begun = Instant::now();
    let running: Vec<usize> =
        (0..workers.workers.len()).filter(|at| slots[workers.workers[*at].job].is_some()).collect();
    for at in &running {
        workers.workers[*at].process.write_line(&format!("run {each}"));
    }
    let wrong = workers.gather(&running, |line| line.strip_prefix("done ")?.parse::<u64>().ok())?;
    let time = begun.elapsed();
    for at in &running {
        workers.workers[*at].process.write_line("leave");
    }
    workers.ended(&running)?;
    Ok(Turn {
        slots: slots.into_iter().flatten().collect(),
        refusal,
        operations: u64::from(each) * u64::from(admitted),
        bytes: config.bytes,
        time,
        wrong: wrong.into_iter().sum(),
    })
}

impl Workers {
    fn start(place: &Place<'_>, round: u32, jobs: u16) -> Result<Self, JobsError> {
        let Place { config, controlled, .. } = place;
        let (sender, printed) = mpsc::channel();
        let mut all = Self { workers: Vec::new(), printed };
        for job in 0..jobs {
            let name = format!("{}-{jobs}.{round}.{job}", controlled.job);
            let mut meeting = None;
            if controlled.rendezvous {
                let failed = |source| JobsError::Start { name: format!("job '{name}'"), source };
                meeting = Some(vacant_address().map_err(failed)?.to_string());
            }
            for rank in 0..config.workers {
                let mut command = command(place, &name, rank);
                command.args(meeting.iter().flat_map(|meeting| ["--meeting", meeting]));
                let name = format!("rank {rank} of job '{name}'");
                let process = start(&mut command, all.workers.len(), &sender);
                let process = process.map_err(|source| JobsError::Start { name: name.clone(), source })?;
                all.workers.push(RunningWorker { process, job: job.into(), name });
            }
        }
        Ok(all)
    }

    /// The slots of each job, `None` if it was not admitted, and a refusal.
    fn joined(&mut self, jobs: u16) -> Result<(Vec<Option<u32>>, Option<Refusal>), JobsError> {
        let all: Vec<usize> = (0..self.workers.len()).collect();
        let answers = self.gather(&all, |line| {
            if let Some(slots) = line.strip_prefix("joined ") {
                return slots.parse::<u32>().ok().map(Ok);
            }
            let (reason, message) = line.strip_prefix("refused ")?.split_once(' ')?;
            Some(Err(Refusal { reason: reason.into(), message: message.into() }))
        })?;
        let mut slots = vec![None; usize::from(jobs)];
        let mut refusal = None;
        for (worker, answer) in self.workers.iter().zip(answers) {
            match answer {
                Ok(held) => slots[worker.job] = Some(held).filter(|held| *held > 0),
                Err(refused) => refusal = refusal.or(Some(refused)),
            }
        }
        Ok((slots, refusal))
    }

    /// What each of these workers prints next that `pick` knows, in their order.
    fn gather<T>(&mut self, of: &[usize], pick: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, JobsError> {
        let mut picked: Vec<Option<T>> = of.iter().map(|_| None).collect();
        while let Some(missing) = picked.iter().position(Option::is_none) {
            let (worker, line) = self.next(of[missing])?;
            let place = of.iter().position(|known| *known == worker);
            match (line, place) {
                (Some(line), Some(at)) => picked[at] = pick(&line).or(picked[at].take()),
                (Some(_), None) => {}
                // Those that were refused end by themselves, and well.
                (None, place) => {
                    let awaited = place.is_some_and(|at| picked[at].is_none());
                    if awaited || !self.has_ended_well(worker) {
                        return Err(self.died(worker));
                    }
                }
            }
        }
        Ok(picked.into_iter().flatten().collect())
    }

    /// Waits until these workers have ended well.
    fn ended(&mut self, of: &[usize]) -> Result<(), JobsError> {
        let mut left = of.to_vec();
        while let Some(first) = left.first() {
            let (worker, line) = self.next(*first)?;
            if line.is_none() {
                left.retain(|other| *other != worker);
                if !self.has_ended_well(worker) {
                    return Err(self.died(worker));
                }
            }
        }
        Ok(())
    }

    /// Of a worker whose output has ended.
    fn has_ended_well(&mut self, worker: usize) -> bool {
        self.workers[worker].process.join().is_ok_and(|status| status.success())
    }

    fn next(&self, awaited: usize) -> Result<(usize, Option<String>), JobsError> {
        self.printed.recv_timeout(SILENCE).map_err(|error| {
            debug_assert_eq!(error, RecvTimeoutError::Timeout, "each worker's end was received before");
            JobsError::Silent { name: self.workers[awaited].name.clone() }
        })
    }

    fn died(&mut self, worker: usize) -> JobsError {
        let RunningWorker { process, name, .. } = &mut self.workers[worker];
        match process.join() {
            Ok(status) => JobsError::Died { name: name.clone(), status, stderr: process.stderr() },
            Err(source) => JobsError::Start { name: name.clone(), source },
        }
    }
}

fn start(
    command: &mut Command,
    index: usize,
    printed: &Sender<(usize, Option<String>)>,
) -> io::Result<Process> {
    let printed = printed.clone();
    Process::start(command, move |line| printed.send((index, line)).is_ok())
}

/// The command of a worker. Its tenant's token is in the environment, where other users cannot see it.
fn command(place: &Place<'_>, job: &str, rank: u16) -> Command {
    let config = place.config;
    let Controlled { controller, ca, tenant, trees, bind, .. } = place.controlled;
    let mut command = match place.star {
        Some(star) => star.on_host(rank, &config.program.to_string_lossy()),
        None => Command::new(&config.program),
    };
    command.args(["bench", "jobs", "--controller", controller, "--trees", &trees.to_string()]);
    command.args(["--job", job, "--rank", &rank.to_string(), "--workers", &config.workers.to_string()]);
    command.args(["--bytes", &config.bytes.to_string(), "--mode", config.mode.name()]);
    command.args(["--slots", &config.slots.to_string()]);
    let joined = |addresses: &Vec<std::net::IpAddr>| {
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
    };
    if !bind.is_empty() {
        command.args(["--bind", &bind.iter().map(joined).collect::<Vec<_>>().join(",")]);
    }
    if let Some(file) = ca {
        command.env("NETFOLD_CA", file);
    }
    if let Some((tenant, token)) = tenant {
        command.env("NETFOLD_TENANT", tenant).env("NETFOLD_TOKEN", token);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controlled() -> Controlled {
        Controlled {
            controller: "127.0.0.1:1".into(),
            ca: None,
            tenant: Some(("red".into(), "secret".into())),
            job: "jobs".into(),
            trees: 1,
            bind: vec![vec![[127, 0, 0, 1].into()]],
            rendezvous: false,
        }
    }

    fn config(network: JobsNetwork) -> JobsConfig {
        JobsConfig {
            program: "sh".into(),
            network,
            jobs: 4,
            beside: 2,
            workers: 2,
            operations: 10,
            bytes: 4096,
            mode: Mode::Bfp16,
            slots: 256,
            rounds: 1,
        }
    }

    /// Workers that are shell scripts.
    fn workers(scripts: &[&str]) -> Workers {
        let (sender, printed) = mpsc::channel();
        let worker = |(at, script): (usize, &&str)| {
            let process = start(Command::new("sh").args(["-c", script]), at, &sender).unwrap();
            RunningWorker { process, job: at / 2, name: format!("rank {} of job '{}'", at % 2, at / 2) }
        };
        Workers { workers: scripts.iter().enumerate().map(worker).collect(), printed }
    }

    #[test]
    fn answers_are_sorted_by_job() {
        let mut all = workers(&[
            "echo joined 128; cat",
            "echo joined 128; cat",
            "echo refused quota of red is used up; cat",
            "echo refused quota of red is used up; cat",
            "echo joined 0; cat",
            "echo joined 0; cat",
        ]);
        let (slots, refusal) = all.joined(3).unwrap();
        assert_eq!(slots, [Some(128), None, None], "a job without a switch has no slots");
        let Refusal { reason, message } = refusal.unwrap();
        assert_eq!((reason.as_str(), message.as_str()), ("quota", "of red is used up"));
        all.workers[1].process.write_line("done 7");
        assert_eq!(all.gather(&[1], |line| line.strip_prefix("done ")?.parse::<u64>().ok()).unwrap(), [7]);
        all.workers[0].process.close_stdin();
        all.ended(&[0]).unwrap();
    }

    #[test]
    fn a_worker_that_dies_is_named() {
        let mut all = workers(&["echo joined 16; cat", "echo why >&2; kill -9 $$"]);
        let error = all.joined(1).err().unwrap();
        assert_eq!(error.kind(), "child_died");
        assert!(error.to_string().starts_with("rank 1 of job '0' ended unexpectedly (signal: 9"), "{error}");
    }

    #[test]
    fn rates_and_ratios_are_medians_of_rounds() {
        let turn = |slots: &[u32], seconds: u64| Turn {
            slots: slots.to_vec(),
            refusal: None,
            operations: 10,
            bytes: 1_000_000,
            time: Duration::from_secs(seconds),
            wrong: 1,
        };
        let turns = [turn(&[256, 128], 1), turn(&[64], 2), turn(&[256, 16], 5)];
        let row = row(&config(JobsNetwork::Existing(controlled())), 2, &turns, Some(0.9));
        assert_eq!((row.admitted, row.slots_min, row.slots_max, row.wrong), (1, 16, 256, 3));
        assert_eq!((row.rate, row.rate_min, row.rate_max, row.ratio), (5.0, 2.0, 10.0, Some(0.9)));
        assert_eq!((row.link_rate, row.bound_share), (None, None));
    }

    #[test]
    fn the_bound_of_shaped_links_is_of_the_lanes() {
        // 10 tensors of 4 KiB in 16 bits are 20 KiB, which a shaper lets pass at once; of 1 MiB they are 5 MiB, 206 ms at 200 Mbit/s.
        let turn = Turn {
            slots: vec![256],
            refusal: None,
            operations: 10,
            bytes: 1 << 20,
            time: Duration::from_millis(413),
            wrong: 0,
        };
        let mut config = JobsConfig { bytes: 1 << 20, ..config(JobsNetwork::Star { rate: 2e8 }) };
        let share =
            |config: &JobsConfig| row(config, 1, std::slice::from_ref(&turn), None).bound_share.unwrap();
        assert!((share(&config) - 0.5).abs() < 0.001, "{}", share(&config));
        config.mode = Mode::Bfp32;
        assert!((share(&config) - 1.0).abs() < 0.02, "{}", share(&config));
    }

    #[test]
    fn tokens_are_not_arguments() {
        let (controlled, config) = (controlled(), config(JobsNetwork::Existing(controlled())));
        let command = command(&Place { config: &config, controlled: &controlled, star: None }, "jobs-1", 1);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert!(words.iter().all(|word| !word.contains("secret")), "{words:?}");
        assert!(
            command
                .get_envs()
                .any(|(name, value)| name == "NETFOLD_TOKEN" && value == Some("secret".as_ref()))
        );
    }
}
