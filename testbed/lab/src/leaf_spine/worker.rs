//! A worker of the fabric's job: a process in its host's namespace, which does the requested all-reduces.
//!
//! It reads lines: a number is the number of all-reduces to do in all, `leave` ends the job after them. As every worker reads the same
//! numbers, all do the same number of all-reduces, and the job needs no end that is known beforehand. When standard input ends
//! without `leave`, so does the process.

use std::io::{self, BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use netfold::{Communicator, Mode, ReduceOp};
use serde::{Deserialize, Serialize};

use netfold_measure::all_reduce::{Number, Pattern, Reduction};

/// Name of the tenant, which has no token, and of its job.
pub(super) const TENANT: &str = "lab";
pub(super) const JOB: &str = "fabric";

/// Exit code when standard input ends.
const EXIT_STDIN_CLOSED: i32 = 130;

/// How a worker takes part.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The controller's port for workers.
    pub controller: SocketAddr,
    /// Where the workers meet, on rank 0's host.
    pub rendezvous: SocketAddr,
    /// The address that this worker sends packets from.
    pub bind: IpAddr,
    /// Its rank.
    pub rank: u16,
    /// Number of workers.
    pub world: u16,
    /// Trees that the job is laid over.
    pub trees: u8,
    /// How tensors travel.
    pub mode: Mode,
    /// Elements of each tensor, of 4 bytes.
    pub elements: usize,
    /// Slots to ask for in each tree.
    pub slots: u32,
    /// Lanes of a packet in bytes.
    pub payload_bytes: u32,
    /// Seed of the tensors.
    pub seed: u64,
    /// How long an operation may take.
    pub stall: Duration,
}

/// What a worker prints, one a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum WorkerEvent {
    /// It is admitted.
    Joined { trees: usize },
    /// An all-reduce is done and checked.
    Operation(Operation),
    /// It has left gracefully.
    Left { rejoined: u64 },
    /// It cannot go on.
    Failed { message: String },
}

/// An all-reduce of one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Operation {
    /// From 1.
    pub(super) number: u32,
    /// Seconds from the call to its return.
    pub(super) seconds: f64,
    /// Elements that were checked.
    pub(super) elements: u64,
    /// Those that are wrong.
    pub(super) wrong: u64,
    /// Trees that had a place at switches when it began.
    pub(super) trees: usize,
}

enum WorkerCommand {
    Until(u32),
    Leave,
}

/// Takes part until the command to leave. Every event is printed, failures too.
///
/// # Errors
///
/// What the communicator failed with.
pub fn work(config: &WorkerConfig) -> Result<(), netfold::Error> {
    let commands = listen();
    let outcome = match config.mode {
        Mode::I32 => work_of::<i32>(config, &commands),
        _ => work_of::<f32>(config, &commands),
    };
    if let Err(error) = &outcome {
        let mut message = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        print(&WorkerEvent::Failed { message });
    }
    outcome
}

fn join(config: &WorkerConfig) -> Result<Communicator, netfold::Error> {
    Communicator::builder()
        .job(JOB)
        .tenant(TENANT, "")
        .rank(config.rank)
        .world_size(config.world)
        .mode(config.mode)
        .slots(config.slots)
        .trees(config.trees)
        .controller(config.controller)?
        .rendezvous(config.rendezvous)?
        .bind([config.bind])
        .host(format!("rank{}", config.rank))
        .stall_timeout(config.stall)
        .connect()
}

fn work_of<T: Number>(
    config: &WorkerConfig,
    commands: &Receiver<WorkerCommand>,
) -> Result<(), netfold::Error> {
    let communicator = join(config)?;
    print(&WorkerEvent::Joined { trees: communicator.attachments().len() });
    let (world, payload_bytes) = (config.world, config.payload_bytes);
    let (mode, op) = (config.mode, ReduceOp::Sum);
    let reduction = Reduction { workers: world, mode, op, payload_bytes, by_hosts: true };
    let mut tensor = vec![T::default(); config.elements];
    let mut number = 0;
    // Standard input has ended when there are no commands: the process ends then.
    while let Ok(WorkerCommand::Until(until)) = commands.recv() {
        while number < until {
            number += 1;
            // Other tensors every time: what is left of an earlier one is no sum of these.
            let pattern = Pattern::new(config.seed.wrapping_add(number.into()), world);
            T::fill(&pattern, config.rank, &mut tensor);
            let trees = communicator.attachments().len();
            let begun = Instant::now();
            let report = communicator.all_reduce(&mut tensor, op)?;
            let seconds = begun.elapsed().as_secs_f64();
            let wrong = T::wrong(&pattern, &reduction, &tensor);
            print(&WorkerEvent::Operation(Operation {
                number,
                seconds,
                elements: report.elements,
                wrong,
                trees,
            }));
        }
    }
    let rejoined = communicator.stats().control.rejoined;
    communicator.leave()?;
    print(&WorkerEvent::Left { rejoined });
    Ok(())
}

/// Reads orders as long as standard input lasts; with it, the process ends.
fn listen() -> Receiver<WorkerCommand> {
    let (sender, commands) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let command = match line.trim() {
                "leave" => WorkerCommand::Leave,
                number => match number.parse() {
                    Ok(number) => WorkerCommand::Until(number),
                    Err(_) => continue,
                },
            };
            let _ = sender.send(command);
        }
        std::process::exit(EXIT_STDIN_CLOSED);
    });
    commands
}

fn print(line: &WorkerEvent) {
    let mut text = serde_json::to_string(line).expect("lines are plain structs with string keys");
    text.push('\n');
    let mut out = io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(EXIT_STDIN_CLOSED);
    }
}
