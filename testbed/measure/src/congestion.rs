//! What a congestion-control algorithm costs where nothing is congested: all-reduces under each algorithm beside those under `fixed`, whose windows are
//! the slots.
//!
//! Each algorithm has a switch and workers of its own, threads of this process, which do nothing during others' turns. In each round every algorithm has
//! a turn, `fixed` among them, and begins one later than in the round before; the ratio of two turns of the same round is what counts, for a machine
//! that others use changes more from round to round than within one. Every element is checked, as [`all_reduce`](super::all_reduce) has it.

use netfold::Mode;
use netfold_control::CongestionAlgorithm;
use serde::Serialize;

use netfold_testkit::sample::Sample;

use super::all_reduce::{AllReduceBench, AllReduceConfig as Job, BenchError, Transport};

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct CongestionConfig {
    /// Number of workers, 1 to 32.
    pub workers: u16,
    /// What carries the packets.
    pub transport: Transport,
    /// Slots of each job, a power of two.
    pub slots: u32,
    /// Laws to compare with [`CongestionAlgorithm::Fixed`].
    pub algorithms: Vec<CongestionAlgorithm>,
    /// Turns of each algorithm.
    pub rounds: u32,
    /// All-reduces of a turn, of which the median counts; by the amount of data if not given.
    pub iterations: Option<u32>,
}

/// One algorithm at one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CongestionRow {
    /// The algorithm.
    pub algorithm: &'static str,
    /// What carried the packets.
    pub transport: &'static str,
    /// Tensor bytes of one rank.
    pub bytes: u64,
    /// Turns.
    pub rounds: u32,
    /// Median over the turns of the median time of an all-reduce, in microseconds.
    pub time_us: f64,
    /// Median of the rounds' ratios of that time to the one under `fixed`.
    pub ratio_to_fixed: f64,
    /// Least of these ratios.
    pub ratio_min: f64,
    /// Greatest of these ratios.
    pub ratio_max: f64,
    /// Share of the plain forwarder's rate, median over the turns.
    pub bound_ratio: f64,
    /// Elements outside their bound.
    pub wrong: u64,
    /// Packets retransmitted.
    pub retransmits: u64,
}

/// An algorithm with its switch and workers, and the results of its turns.
struct Side {
    algorithm: CongestionAlgorithm,
    bench: AllReduceBench,
    times_us: Vec<f64>,
    bounds: Vec<f64>,
    wrong: u64,
    retransmits: u64,
}

impl Side {
    fn start(config: &CongestionConfig, algorithm: CongestionAlgorithm) -> Result<Self, BenchError> {
        let job = Job {
            workers: config.workers,
            mode: Mode::Bfp16,
            transport: config.transport,
            slots: config.slots,
            congestion: algorithm,
            iterations: config.iterations,
            ..Job::default()
        };
        let bench = AllReduceBench::new(job)?;
        Ok(Self { algorithm, bench, times_us: Vec::new(), bounds: Vec::new(), wrong: 0, retransmits: 0 })
    }

    fn turn(&mut self, bytes: u64) -> Result<(), BenchError> {
        let row = self.bench.measure(bytes)?;
        self.times_us.push(row.time_us);
        self.bounds.push(row.bound_ratio);
        self.wrong += row.wrong;
        self.retransmits += row.retransmits;
        Ok(())
    }

    fn row(&self, config: &CongestionConfig, bytes: u64, fixed: &[f64]) -> CongestionRow {
        let ratios: Sample = self.times_us.iter().zip(fixed).map(|(own, fixed)| own / fixed).collect();
        let median = |values: &[f64]| values.iter().copied().collect::<Sample>().median();
        CongestionRow {
            algorithm: self.algorithm.name(),
            transport: config.transport.name(),
            bytes,
            rounds: config.rounds,
            time_us: median(&self.times_us),
            ratio_to_fixed: ratios.median(),
            ratio_min: ratios.min(),
            ratio_max: ratios.max(),
            bound_ratio: median(&self.bounds),
            wrong: self.wrong,
            retransmits: self.retransmits,
        }
    }
}

/// Measures tensors of `bytes` bytes a rank; `on_round` is called after each round. The first row is that of `fixed` itself.
///
/// # Errors
///
/// [`BenchError`], as of [`AllReduceBench`]; never for wrong results, which are counted.
pub fn run(
    config: &CongestionConfig,
    bytes: u64,
    mut on_round: impl FnMut(u32),
) -> Result<Vec<CongestionRow>, BenchError> {
    let others =
        config.algorithms.iter().copied().filter(|algorithm| *algorithm != CongestionAlgorithm::Fixed);
    let algorithms = std::iter::once(CongestionAlgorithm::Fixed).chain(others);
    let mut sides =
        algorithms.map(|algorithm| Side::start(config, algorithm)).collect::<Result<Vec<_>, _>>()?;
    for round in 0..config.rounds {
        for turn in 0..sides.len() {
            let at = (turn + round as usize) % sides.len();
            sides[at].turn(bytes)?;
        }
        on_round(round + 1);
    }
    let fixed = sides[0].times_us.clone();
    Ok(sides.iter().map(|side| side.row(config, bytes, &fixed)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_a_row_beside_fixed() {
        let config = CongestionConfig {
            workers: 2,
            transport: Transport::Loopback,
            slots: 64,
            algorithms: vec![
                CongestionAlgorithm::Dctcp,
                CongestionAlgorithm::Fixed,
                CongestionAlgorithm::Swift,
            ],
            rounds: 3,
            iterations: Some(2),
        };
        let mut rounds = 0;
        let rows = run(&config, 100_000, |round| rounds = round).unwrap();
        let algorithms: Vec<_> = rows.iter().map(|row| row.algorithm).collect();
        assert_eq!((algorithms, rounds), (vec!["fixed", "dctcp", "swift"], 3));
        assert_eq!((rows[0].ratio_min, rows[0].ratio_max), (1.0, 1.0), "of itself");
        for row in &rows {
            assert!(row.time_us > 0.0 && row.bound_ratio > 0.0 && row.wrong == 0, "{row:?}");
            assert!(row.ratio_min <= row.ratio_to_fixed && row.ratio_to_fixed <= row.ratio_max, "{row:?}");
        }
    }
}
