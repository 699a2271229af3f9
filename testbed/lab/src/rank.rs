//! A rank of a job under test: a process that computes (it sleeps), reduces and checks every element, until its standard input ends.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use netfold::{Communicator, Error, Mode, ReduceOp};
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_measure::all_reduce::{Number, Pattern, Reduction};

/// How a rank takes part.
#[derive(Debug, Clone, PartialEq)]
pub struct RankConfig {
    /// The control port.
    pub switch: SocketAddr,
    /// The tenant; none where there are no tenants.
    pub tenant: Option<String>,
    /// Name of the job.
    pub job: String,
    /// Its rank.
    pub rank: u16,
    /// Number of ranks.
    pub world: u16,
    /// Slots to ask for.
    pub slots: u32,
    /// Bytes of each tensor.
    pub bytes: u64,
    /// How long it computes before each all-reduce.
    pub compute: Duration,
    /// When it begins its first iteration, if it has joined by then: milliseconds of Unix time.
    pub begin_unix_ms: u64,
    /// Where its job's ranks meet, so that they go on without a switch; none where they are not to.
    pub rendezvous: Option<SocketAddr>,
    /// Faults of its packet I/O.
    pub faults: FaultConfig,
}

impl RankConfig {
    /// The command line, without the program.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let tenant = self.tenant.iter().map(|tenant| ("--tenant", tenant.clone()));
        let options = [
            ("--switch", self.switch.to_string()),
            ("--job", self.job.clone()),
            ("--rank", self.rank.to_string()),
            ("--world", self.world.to_string()),
            ("--slots", self.slots.to_string()),
            ("--bytes", self.bytes.to_string()),
            ("--compute-us", self.compute.as_micros().to_string()),
            ("--begin-unix-ms", self.begin_unix_ms.to_string()),
            ("--faults", self.faults.to_string()),
        ];
        let words = ["--json", "testbed", "rank"].map(str::to_owned).into_iter();
        let rendezvous = self.rendezvous.iter().map(|address| ("--rendezvous", address.to_string()));
        let options = options.into_iter().chain(tenant).chain(rendezvous);
        words.chain(options.flat_map(|(option, value)| [option.to_owned(), value])).collect()
    }
}

/// Why a rank ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RankError {
    /// The communicator's error.
    #[error(transparent)]
    Job(#[from] Error),
    /// Its output is closed.
    #[error("cannot print")]
    Output(#[from] io::Error),
}

/// Takes part until the process ends, and prints a line of JSON for each all-reduce: `{"wrong":0,"iteration_us":100,"reduce_us":40}`, where the second is
/// the time since the all-reduce before ended.
///
/// # Errors
///
/// [`RankError`].
pub fn work(config: &RankConfig) -> Result<(), RankError> {
    let faults = config.faults;
    let mut builder = Communicator::builder()
        .switch(config.switch)?
        .job(config.job.as_str())
        .rank(config.rank)
        .world_size(config.world)
        .mode(Mode::I32)
        .slots(config.slots)
        .middleware(move |io| Box::new(Faulty::new(io, faults)));
    if let Some(tenant) = &config.tenant {
        builder = builder.tenant(tenant.as_str(), "");
    }
    if let Some(address) = config.rendezvous {
        builder = builder.rendezvous(address)?;
    }
    let communicator = builder.connect()?;
    let (workers, mode, op) = (config.world, Mode::I32, ReduceOp::Sum);
    // Sums of integers do not depend on the payload.
    let reduction =
        Reduction { workers, mode, op, payload_bytes: netfold_switch::PAYLOADS[0], by_hosts: false };
    let mut tensor = vec![0_i32; usize::try_from(config.bytes / 4).unwrap_or(usize::MAX)];
    let begin = UNIX_EPOCH + Duration::from_millis(config.begin_unix_ms);
    thread::sleep(begin.duration_since(SystemTime::now()).unwrap_or_default());
    let mut ended = Instant::now();
    for seed in 0.. {
        let pattern = Pattern::new(seed, config.world);
        i32::fill(&pattern, config.rank, &mut tensor);
        thread::sleep(config.compute.saturating_sub(ended.elapsed()));
        let begun = Instant::now();
        communicator.all_reduce(&mut tensor, op)?;
        let now = Instant::now();
        let (iteration, reduce) = ((now - ended).as_micros(), (now - begun).as_micros());
        ended = now;
        let wrong = i32::wrong(&pattern, &reduction, &tensor);
        writeln!(
            io::stdout().lock(),
            "{{\"wrong\":{wrong},\"iteration_us\":{iteration},\"reduce_us\":{reduce}}}"
        )?;
    }
    Ok(())
}
