//! The ranks of the job, or of one of its groups, at their switches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use netfold::{AsyncHandle, Builder, Communicator, GroupKey, Mode, OpReport};
use netfold_controller::SwitchDriver;
use netfold_controller::tree::{InstallError, Installed, install};
use netfold_io::{IoError, PacketIo, vacant_address};
use netfold_wire::header;

use super::fabric::Fabric;
use super::late::Late;
use super::layout::{DriversOf, Layout, Placed};
use super::partial::PartialTensors;
use super::values::{Path, Tensors, Value};
use super::{Round, RunConfig, RunError, RunOutcome, SLOW_RESEND, SwitchKind, authenticated};

/// Connected ranks, and what the switches hold for them.
pub(super) struct Members {
    /// Its place in the fabric: 0 of the job.
    number: usize,
    layout: Layout,
    comms: Vec<Communicator>,
    installed: Installed,
    levels: usize,
    /// Bits by which sums come down shifted.
    shift: u8,
    /// The number of the round, which the end of a rank that is late reads.
    round: Arc<AtomicU64>,
}

/// Why a rank failed.
pub(super) enum Failure {
    Error { rank: u16, source: netfold::Error },
    Panic { rank: u16 },
}

/// What one rank has of the operations of a round.
#[derive(Default)]
struct RankRound {
    checked: u64,
    wrong: u64,
    elapsed: Duration,
    /// The results that are to be compared with those of other ranks, by class.
    results: Vec<(Vec<f32>, OpReport)>,
}

impl Members {
    /// Installs the job or a group, by its place in the fabric, at its switches and connects its ranks.
    pub(super) fn start(
        config: &RunConfig,
        fabric: &mut Fabric,
        ends: &mut [Option<Box<dyn PacketIo>>],
        number: usize,
    ) -> Result<Self, RunError> {
        let Placed { layout, plan } = &fabric.placed[number];
        let mut drivers = DriversOf { drivers: &mut fabric.drivers, layout };
        let installed = install(plan, &mut drivers).map_err(|error| {
            let switch = layout.switches.get(error.switch).copied().unwrap_or(error.switch);
            Box::new(InstallError { switch, ..error })
        })?;
        let round = Arc::<AtomicU64>::default();
        let late = layout.late_rank().filter(|_| config.tolerance.any());
        let world = layout.ends.len() as u16;
        let datagram_len = header::LEN + config.payload_bytes as usize;
        let mut builders = Vec::with_capacity(world.into());
        for (rank, end) in (0..world).zip(&layout.ends) {
            let io = ends[*end].take().ok_or(IoError::Unsupported("two ranks at one end"))?;
            let mut io = authenticated(io, plan, rank, datagram_len)?;
            if late == Some(rank.into()) {
                io = Box::new(Late::new(io, Arc::clone(&round)));
            }
            let mut admission = plan.admission(rank, installed.first_chunk(), netfold_wire::UDP_PORT);
            admission.congestion = config.congestion;
            builders.push(builder(config, rank, world).transport(io, admission));
        }
        let levels = plan.switch_plans().iter().map(|place| place.depth + 1).max().unwrap_or(1);
        let shift = plan.admission(0, 0, 0).shift;
        let comms = connect(builders, config.confidential)?;
        Ok(Self { number, layout: layout.clone(), comms, installed, levels, shift, round })
    }

    fn path(&self, config: &RunConfig) -> Path {
        let RunConfig { mode, payload_bytes, .. } = *config;
        Path { mode, lane_bytes: payload_bytes as usize, levels: self.levels, shift: self.shift }
    }

    /// One operation of all ranks in each class at once, on new tensors, every element checked.
    pub(super) fn round(&self, config: &RunConfig, number: u64) -> Result<Round, Failure> {
        self.round.store(number, Ordering::Release);
        match config.mode {
            _ if config.tolerance.any() => self.partial_round(config, number),
            Mode::I32 => self.exact_round::<i32>(config, number),
            _ => self.exact_round::<f32>(config, number),
        }
    }

    /// Seeds of the tensors of a round, by class; no two of the job's and its groups' are the same.
    fn seeds(&self, config: &RunConfig, number: u64) -> impl Iterator<Item = (u8, u64)> {
        let seed = config.seed ^ number << 32 ^ (self.number as u64) << 48;
        (0..config.classes).map(move |class| (class, seed ^ u64::from(class) << 24))
    }

    fn exact_round<T: Value>(&self, config: &RunConfig, number: u64) -> Result<Round, Failure> {
        let (path, world, collective) = (self.path(config), self.comms.len() as u16, config.collective);
        let elements = self.elements(config);
        let seeds = self.seeds(config, number);
        let tensors: Vec<(u8, Tensors<T>)> =
            seeds.map(|(class, seed)| (class, Tensors::random(seed, world, elements, &path))).collect();
        let ranks = self.on_every_rank(|comm| {
            let start = |(class, tensors): &(u8, Tensors<T>)| tensors.start(comm, collective, *class);
            let settled = settle(tensors.iter().map(start))?;
            let mut rank = RankRound { elapsed: settled.elapsed, ..RankRound::default() };
            for ((_, tensors), (result, _)) in tensors.iter().zip(settled.results) {
                let (checked, wrong) = tensors.check(comm, collective, &result);
                rank.checked += checked;
                rank.wrong += wrong;
            }
            Ok(rank)
        })?;
        Ok(self.sum(config, ranks))
    }

    fn partial_round(&self, config: &RunConfig, number: u64) -> Result<Round, Failure> {
        let (path, world, collective) = (self.path(config), self.comms.len() as u16, config.collective);
        let elements = self.elements(config);
        let seeds = self.seeds(config, number);
        let tensors: Vec<(u8, PartialTensors)> =
            seeds.map(|(class, seed)| (class, PartialTensors::random(seed, world, elements))).collect();
        let mut ranks = self.on_every_rank(|comm| {
            let start = |(class, tensors): &(u8, PartialTensors)| tensors.start(comm, collective, *class);
            let Settled { elapsed, results } = settle(tensors.iter().map(start))?;
            let checked = results.iter().map(|(result, _)| result.len() as u64).sum();
            Ok(RankRound { checked, elapsed, wrong: 0, results })
        })?;
        let mut wrong = 0;
        for (_, tensors) in tensors.iter().rev() {
            let outcomes: Vec<_> = ranks.iter_mut().filter_map(|rank| rank.results.pop()).collect();
            wrong += tensors.wrong(collective, &path, config.tolerance, &outcomes);
        }
        let mut round = self.sum(config, ranks);
        round.wrong += wrong;
        Ok(round)
    }

    /// Elements of a tensor: of parts, a multiple of the number of ranks.
    fn elements(&self, config: &RunConfig) -> usize {
        config.elements_of(self.comms.len())
    }

    fn sum(&self, config: &RunConfig, ranks: Vec<RankRound>) -> Round {
        let mut round = Round { operations: config.classes.into(), ..Round::default() };
        for rank in ranks {
            round.checked += rank.checked;
            round.wrong += rank.wrong;
            round.elapsed = round.elapsed.max(rank.elapsed);
        }
        round
    }

    /// Runs a closure for every rank at once.
    fn on_every_rank(
        &self,
        run: impl Fn(&Communicator) -> Result<RankRound, netfold::Error> + Sync,
    ) -> Result<Vec<RankRound>, Failure> {
        let run = &run;
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let ranks: Vec<_> = self.comms.iter().map(|comm| scope.spawn(move || run(comm))).collect();
            ranks.into_iter().map(|rank| rank.join()).collect()
        });
        let settled = outcomes.into_iter().enumerate().map(|(rank, outcome)| {
            let rank = self.rank(rank);
            let outcome = outcome.map_err(|_| Failure::Panic { rank })?;
            outcome.map_err(|source| Failure::Error { rank, source })
        });
        settled.collect()
    }

    /// The rank in the job of a rank here.
    fn rank(&self, rank: usize) -> u16 {
        self.layout.ranks().nth(rank).unwrap_or_default() as u16
    }

    /// Takes the job or the group away from the switches, and lets the ranks leave.
    pub(super) fn finish(
        mut self,
        drivers: &mut [Box<dyn SwitchDriver>],
        outcome: &mut RunOutcome,
    ) -> Result<(), RunError> {
        let mut of = DriversOf { drivers, layout: &self.layout };
        self.installed.withdraw(&mut of).map_err(RunError::Withdraw)?;
        for (index, comm) in std::mem::take(&mut self.comms).into_iter().enumerate() {
            let rank = self.rank(index);
            let stats = comm.stats().worker;
            outcome.sent += stats.sent;
            outcome.retransmitted += stats.retransmitted;
            outcome.results += stats.results;
            outcome.saturated += stats.saturated;
            outcome.left_out += stats.left_out;
            // All ranks receive the same results.
            if index == 0 {
                outcome.closed += stats.closed;
                outcome.partial += stats.partial;
            }
            comm.leave().map_err(|source| RunError::Worker { rank, source })?;
        }
        Ok(())
    }
}

/// The results of a rank's operations.
struct Settled<T> {
    elapsed: Duration,
    results: Vec<(Vec<T>, OpReport)>,
}

/// Starts all operations, then waits for them.
fn settle<T: Value>(
    operations: impl Iterator<Item = Result<AsyncHandle<T>, netfold::Error>>,
) -> Result<Settled<T>, netfold::Error> {
    let begun = Instant::now();
    let handles: Vec<AsyncHandle<T>> = operations.collect::<Result<_, _>>()?;
    let results: Vec<(Vec<T>, OpReport)> =
        handles.into_iter().map(AsyncHandle::wait).collect::<Result<_, _>>()?;
    let longest = results.iter().map(|(_, report)| report.elapsed).max().unwrap_or_default();
    // Where there is one operation, without the time of the thread that waits.
    let elapsed = if results.len() == 1 { begun.elapsed().min(longest) } else { begun.elapsed() };
    Ok(Settled { elapsed, results })
}

fn builder(config: &RunConfig, rank: u16, world: u16) -> Builder {
    let builder = Communicator::builder()
        .rank(rank)
        .world_size(world)
        .mode(config.mode)
        .slots(config.slots)
        .classes(config.classes)
        .tolerance(config.tolerance)
        .stall_timeout(config.stall_timeout);
    if config.nic.is_some() || !matches!(config.switch, SwitchKind::Software | SwitchKind::P4Runtime) {
        return builder.resend_after(SLOW_RESEND);
    }
    builder
}

/// Connects the workers, by rank. Those of a confidential job meet on this machine, to agree on their keys.
fn connect(builders: Vec<Builder>, confidential: bool) -> Result<Vec<Communicator>, RunError> {
    let failed = |rank| move |source| RunError::Worker { rank, source };
    let ranked = (0..).zip(builders);
    if !confidential {
        return ranked.map(|(rank, builder)| builder.connect().map_err(failed(rank))).collect();
    }
    let key = GroupKey::generate().map_err(|error| failed(0)(error.into()))?;
    let at = vacant_address().map_err(RunError::Meeting)?;
    std::thread::scope(|scope| {
        let connect = |(rank, builder): (u16, Builder)| {
            let builder = builder.job("run").confidential(key.clone()).shared_memory(false).fall_back(false);
            let builder = builder.rendezvous(at).map_err(failed(rank));
            scope.spawn(move || builder?.connect().map_err(failed(rank)))
        };
        let connecting: Vec<_> = ranked.map(connect).collect();
        let joined = connecting.into_iter().map(|one| one.join());
        joined.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}
