//! Shifts in time such that jobs on a link send in turns.
//!
//! What a job sends repeats with its iterations, so it is drawn on a circle whose perimeter is a multiple of all iterations on the link:
//! turning a job's circle is shifting the job in time. [`Link::best`] turns the circles of a link's jobs such that the least is
//! sent beyond its capacity, and scores how well that goes; [`place`] takes, of several placements of the same jobs, the one that
//! interleaves best, and one shift a job that suits all links.
//!
//! Source: CASSINI (NSDI 2024). The angle step is 5 degrees there as far as we know ([`ANGLES`]); it is an argument here. The paper leaves
//! the search to a solver of integer programs. Here it is exhaustive up to [`TURNS_MAX`] combinations, and beyond that one job after the
//! other is turned to where it is best until nothing improves, from several random beginnings.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::affinity::{Affinity, shifts};

/// Angles of a circle: 5 degrees each.
pub const ANGLES: usize = 72;
/// Combinations of turns that are all tried.
pub const TURNS_MAX: usize = 100_000;
/// Random beginnings of the search where there are more.
pub const BEGINNINGS: usize = 8;
/// The longest perimeter, in microseconds: a day. Periods with a longer common multiple do not interleave for long anyhow.
pub const PERIMETER_US_MAX: u64 = 86_400_000_000;

/// Sending at one rate from one moment of an iteration to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// Beginning, in microseconds from the beginning of the iteration.
    pub from_us: u64,
    /// End, not after the iteration's.
    pub to_us: u64,
    /// Bytes a second.
    pub rate: f64,
}

/// What a job sends over the links that it uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Circle {
    /// The length of an iteration, in microseconds, not 0.
    pub period_us: u64,
    /// When it sends, without overlaps.
    pub phases: Vec<Phase>,
}

/// Jobs that share a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Bytes a second, above 0.
    pub capacity: f64,
    /// Numbers of the jobs.
    pub jobs: Vec<usize>,
}

/// Jobs that cannot be drawn on a circle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CircleError {
    /// A period is 0, or a phase is outside of it.
    #[error("job {job}: the period is 0, or a phase does not lie within it")]
    Phase {
        /// The job.
        job: usize,
    },
    /// No common multiple within [`PERIMETER_US_MAX`].
    #[error(
        "the periods of jobs {jobs:?} have no common multiple within a day: round them to a coarser unit",
        jobs = .jobs.iter().flatten().collect::<Vec<_>>()
    )]
    Perimeter {
        /// The jobs, the first few.
        jobs: [Option<usize>; 4],
    },
    /// A link without capacity, or a number that is no job's.
    #[error("link {link}: it has no capacity, or names a job that there is not")]
    Link {
        /// Its place in the placement.
        link: usize,
    },
    /// No angles to look at.
    #[error("a circle has at least one angle")]
    Angles,
}

/// The best turns for one link.
#[derive(Debug, Clone, PartialEq)]
pub struct Turned {
    /// 1 where nothing is ever sent beyond the capacity; less by the mean excess, relative to the capacity. May be negative.
    pub score: f64,
    /// By how much each of the link's jobs is to be later, in microseconds, less than its period.
    pub shifts_us: Vec<u64>,
}

impl Link {
    /// How well the jobs interleave when each is later by its shift, in microseconds, in the order of [`Self::jobs`]: as [`Turned::score`].
    ///
    /// # Errors
    ///
    /// As [`Self::best`].
    pub fn score(&self, jobs: &[Circle], shifts_us: &[u64], angles: usize) -> Result<f64, CircleError> {
        let perimeter_us = self.perimeter_us(jobs)?;
        if angles == 0 {
            return Err(CircleError::Angles);
        }
        let demands = self.jobs.iter().map(|job| demand(&jobs[*job], perimeter_us, angles)).collect();
        let step = perimeter_us as f64 / angles as f64;
        let turned: Vec<usize> =
            shifts_us.iter().map(|shift_us| (*shift_us as f64 / step).round() as usize % angles).collect();
        let search = Search { capacity: self.capacity, demands, turns: Vec::new() };
        Ok(1.0 - search.excess(&turned) / (angles as f64 * self.capacity))
    }

    /// Turns the circles of its jobs, the first of which stays where it is, by whole steps of `angles` to a circle.
    ///
    /// What a job sends within a step counts with its mean. A step should be much shorter than any period.
    ///
    /// # Errors
    ///
    /// [`CircleError`] when a job cannot be drawn.
    pub fn best(&self, jobs: &[Circle], angles: usize, seed: u64) -> Result<Turned, CircleError> {
        let perimeter_us = self.perimeter_us(jobs)?;
        if angles == 0 {
            return Err(CircleError::Angles);
        }
        let demands: Vec<Vec<f64>> =
            self.jobs.iter().map(|job| demand(&jobs[*job], perimeter_us, angles)).collect();
        // A job looks the same again after its own period: turns beyond it are those before it.
        let turns = self.jobs.iter().enumerate().map(|(place, job)| {
            let steps =
                (jobs[*job].period_us as u128 * angles as u128).div_ceil(perimeter_us.into()) as usize;
            if place == 0 { 1 } else { steps.clamp(1, angles) }
        });
        let search = Search { capacity: self.capacity, demands, turns: turns.collect() };
        let (excess, turned) = search.run(&mut StdRng::seed_from_u64(seed));
        let shift = |(turn, job): (&usize, &usize)| {
            let shift_us = (*turn as u128 * u128::from(perimeter_us) / angles as u128) as u64;
            shift_us % jobs[*job].period_us
        };
        let shifts_us = turned.iter().zip(&self.jobs).map(shift).collect();
        Ok(Turned { score: 1.0 - excess / (angles as f64 * self.capacity), shifts_us })
    }

    fn perimeter_us(&self, jobs: &[Circle]) -> Result<u64, CircleError> {
        let mut perimeter = 1_u64;
        for job in &self.jobs {
            let circle = &jobs[*job];
            let within = |phase: &Phase| phase.from_us <= phase.to_us && phase.to_us <= circle.period_us;
            if circle.period_us == 0 || !circle.phases.iter().all(within) {
                return Err(CircleError::Phase { job: *job });
            }
            let multiple = (perimeter / gcd(perimeter, circle.period_us)).checked_mul(circle.period_us);
            perimeter = multiple.filter(|multiple| *multiple <= PERIMETER_US_MAX).ok_or_else(|| {
                CircleError::Perimeter { jobs: std::array::from_fn(|at| self.jobs.get(at).copied()) }
            })?;
        }
        Ok(perimeter)
    }
}

/// What a job sends on average in each step of the circle, in bytes a second.
fn demand(job: &Circle, perimeter_us: u64, angles: usize) -> Vec<f64> {
    let step = perimeter_us as f64 / angles as f64;
    let sent_until = |time: f64| {
        let (period, whole) = (job.period_us as f64, (time / job.period_us as f64).floor());
        let rest = time - whole * period;
        let part = |phase: &Phase| {
            let (from, to) = (phase.from_us as f64, phase.to_us as f64);
            phase.rate * (whole * (to - from) + (rest.min(to) - from).max(0.0))
        };
        job.phases.iter().map(part).sum::<f64>()
    };
    (0..angles).map(|at| (sent_until((at + 1) as f64 * step) - sent_until(at as f64 * step)) / step).collect()
}

/// Turns of all demands such that the least exceeds the capacity.
struct Search {
    capacity: f64,
    demands: Vec<Vec<f64>>,
    /// Turns to try of each.
    turns: Vec<usize>,
}

impl Search {
    /// The least excess, summed over angles, and the first turns that have it.
    fn run(&self, rng: &mut StdRng) -> (f64, Vec<usize>) {
        let zero = vec![0; self.turns.len()];
        let ways = self.turns.iter().try_fold(1_usize, |ways, turns| ways.checked_mul(*turns));
        if let Some(ways) = ways.filter(|ways| *ways <= TURNS_MAX) {
            return (0..ways).map(|way| self.way(way)).fold((self.excess(&zero), zero), better);
        }
        let begin = |at: usize, rng: &mut StdRng| {
            self.turns.iter().map(|turns| if at == 0 { 0 } else { rng.random_range(0..*turns) }).collect()
        };
        let descents = (0..BEGINNINGS).map(|at| self.descend(begin(at, rng)));
        descents.fold((self.excess(&zero), zero), better)
    }

    fn way(&self, mut way: usize) -> (f64, Vec<usize>) {
        let turn = |turns: &usize| {
            let turn = way % turns;
            way /= turns;
            turn
        };
        let turned: Vec<usize> = self.turns.iter().map(turn).collect();
        (self.excess(&turned), turned)
    }

    /// Turns one after the other to where it is best, until a whole round improves nothing.
    fn descend(&self, mut turned: Vec<usize>) -> (f64, Vec<usize>) {
        let mut excess = self.excess(&turned);
        loop {
            let before = excess;
            for place in 1..turned.len() {
                for turn in 0..self.turns[place] {
                    let tried = std::mem::replace(&mut turned[place], turn);
                    let found = self.excess(&turned);
                    if found < excess {
                        excess = found;
                    } else {
                        turned[place] = tried;
                    }
                }
            }
            // What is gained must be more than rounding, so this ends.
            if excess >= before - 1e-9 * self.capacity {
                return (excess, turned);
            }
        }
    }

    fn excess(&self, turned: &[usize]) -> f64 {
        let angles = self.demands.first().map_or(0, Vec::len);
        let at = |angle: usize| {
            let part =
                |(demand, turn): (&Vec<f64>, &usize)| demand[(angle + angles - turn % angles) % angles];
            (self.demands.iter().zip(turned).map(part).sum::<f64>() - self.capacity).max(0.0)
        };
        (0..angles).map(at).sum()
    }
}

fn better(one: (f64, Vec<usize>), other: (f64, Vec<usize>)) -> (f64, Vec<usize>) {
    if other.0 < one.0 { other } else { one }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The placement to take.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Which of the candidates.
    pub candidate: usize,
    /// The mean score of its links; 1 where no jobs share a link.
    pub score: f64,
    /// By how much each job is to begin later, in microseconds.
    pub shifts_us: Vec<u64>,
}

/// Of several placements of the same jobs, each the links that are shared in it, the one whose links score best on average; of
/// equals the first. Those whose links and jobs form a loop are left out, since no shifts suit all their links; `None` when all do.
///
/// # Errors
///
/// [`CircleError`] when a job or a link cannot be drawn.
pub fn place(
    jobs: &[Circle],
    candidates: &[Vec<Link>],
    angles: usize,
    seed: u64,
) -> Result<Option<Placed>, CircleError> {
    let periods_us: Vec<u64> = jobs.iter().map(|job| job.period_us).collect();
    let mut best: Option<Placed> = None;
    for (candidate, links) in candidates.iter().enumerate() {
        let mut edges = Vec::new();
        let mut scores = Vec::new();
        for (number, link) in links.iter().enumerate() {
            if link.capacity.is_nan()
                || link.capacity <= 0.0
                || link.jobs.iter().any(|job| *job >= jobs.len())
            {
                return Err(CircleError::Link { link: number });
            }
            let turned = link.best(jobs, angles, seed)?;
            let all = link.jobs.iter().zip(&turned.shifts_us);
            edges.extend(all.map(|(job, shift_us)| Affinity {
                job: *job,
                link: number,
                shift_us: *shift_us,
            }));
            scores.push(turned.score);
        }
        let Ok(shifts_us) = shifts(&periods_us, &edges) else { continue };
        let score = if scores.is_empty() { 1.0 } else { scores.iter().sum::<f64>() / scores.len() as f64 };
        if best.as_ref().is_none_or(|best| score > best.score) {
            best = Some(Placed { candidate, score, shifts_us });
        }
    }
    Ok(best)
}
