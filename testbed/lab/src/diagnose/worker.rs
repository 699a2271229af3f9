//! A rank of an observed job: a process that computes, reduces and checks until its standard input ends.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use netfold::{Communicator, Error, Mode, ReduceOp};
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_measure::all_reduce::{Number, Pattern, Reduction};

use super::SLOTS;

/// How a rank takes part.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerConfig {
    /// The switch's control port.
    pub switch: SocketAddr,
    /// Name of the job.
    pub job: String,
    /// Its rank.
    pub rank: u16,
    /// Number of ranks.
    pub world: u16,
    /// Bytes of each tensor.
    pub bytes: u64,
    /// How long it computes before each all-reduce.
    pub compute: Duration,
    /// Faults of its packet I/O.
    pub faults: FaultConfig,
}

impl WorkerConfig {
    /// The command line, without the program.
    pub(super) fn arguments(&self) -> Vec<String> {
        let options = [
            ("--switch", self.switch.to_string()),
            ("--job", self.job.clone()),
            ("--rank", self.rank.to_string()),
            ("--world", self.world.to_string()),
            ("--bytes", self.bytes.to_string()),
            ("--compute-us", self.compute.as_micros().to_string()),
            ("--faults", self.faults.to_string()),
        ];
        let words = ["--json", "testbed", "diagnose-worker"].map(str::to_owned).into_iter();
        words.chain(options.into_iter().flat_map(|(option, value)| [option.to_owned(), value])).collect()
    }
}

/// Why a rank ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The communicator's error.
    #[error(transparent)]
    Job(#[from] Error),
    /// Its output is closed.
    #[error("cannot print")]
    Output(#[from] io::Error),
}

/// Takes part until the process ends, and prints a line of JSON for each all-reduce: `{"wrong":0}`.
///
/// # Errors
///
/// [`WorkerError`].
pub fn work(config: &WorkerConfig) -> Result<(), WorkerError> {
    let faults = config.faults;
    let builder = Communicator::builder()
        .switch(config.switch)?
        .job(config.job.as_str())
        .rank(config.rank)
        .world_size(config.world)
        .mode(Mode::I32)
        .slots(SLOTS / 4)
        .middleware(move |io| Box::new(Faulty::new(io, faults)));
    let communicator = builder.connect()?;
    let (workers, mode, op) = (config.world, Mode::I32, ReduceOp::Sum);
    // Sums of integers do not depend on the payload.
    let reduction =
        Reduction { workers, mode, op, payload_bytes: netfold_switch::PAYLOADS[0], by_hosts: false };
    let mut tensor = vec![0_i32; usize::try_from(config.bytes / 4).unwrap_or(usize::MAX)];
    for seed in 0.. {
        let pattern = Pattern::new(seed, config.world);
        i32::fill(&pattern, config.rank, &mut tensor);
        thread::sleep(config.compute);
        communicator.all_reduce(&mut tensor, op)?;
        let wrong = i32::wrong(&pattern, &reduction, &tensor);
        writeln!(io::stdout().lock(), "{{\"wrong\":{wrong}}}")?;
    }
    Ok(())
}
