//! Paths and priorities by GPU intensity.
//!
//! The GPU intensity of a job is the work of an iteration over the time that it sends in it: a second of the network given to a job of
//! high intensity keeps more GPUs busy. [`choose_paths`] lets jobs of high intensity choose first, [`factors`] corrects intensity by
//! what priority is worth to a job whose sending overlaps with its computing, and [`plan`] does it all, down to a few levels.
//!
//! Source: Crux (SIGCOMM 2024), sections 4 and 5. The paper measures a job's rhythm by running it at the highest priority for a while;
//! here it is an argument.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::levels::{Edge, compress};
use super::link::{Rhythm, strict};

/// Random orders tried for each compression to levels (Crux, section 5.2).
pub const ORDERS: u32 = 10;
/// Iterations of the slower job over which two jobs are compared.
pub const ITERATIONS_COMPARED: u64 = 50;
/// Iterations of the faster job at which a comparison ends all the same: the paper has no jobs that differ so much, and whatever
/// jobs say of themselves is answered in bounded time.
pub const ITERATIONS_MAX: u64 = 5_000;
/// Bounds of a correction factor. The paper names none; without one a job that gains nothing at all would be infinitely unimportant.
pub const FACTOR_MAX: f64 = 16.0;

/// Bytes that go by one of several equal paths.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// In each iteration.
    pub bytes: f64,
    /// The paths that it may take, each the links on it, by number; not empty.
    pub paths: Vec<Vec<usize>>,
}

/// A job as the scheduler sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Work of an iteration, in any unit that all jobs share: GPUs times seconds, or floating point operations.
    pub work: f64,
    /// Computing of an iteration, in microseconds.
    pub compute_us: u64,
    /// Into the computing, when there is something to send.
    pub send_after_us: u64,
    /// What it sends in an iteration.
    pub flows: Vec<Flow>,
}

/// The path that each flow of a job takes: its place among the flow's paths.
pub type Paths = Vec<usize>;

/// Seconds that a job sends in an iteration when it is alone: what its most used link takes.
///
/// `rates` are the links' bytes a second, above 0.
///
/// # Panics
///
/// When there are fewer paths than flows, or a link has no rate.
pub fn send_s(job: &Job, paths: &[usize], rates: &[f64]) -> f64 {
    let mut bytes = vec![0.0; rates.len()];
    add(job, paths, &mut bytes, 1.0);
    bytes.iter().zip(rates).map(|(bytes, rate)| bytes / rate).fold(0.0, f64::max)
}

/// Work for each second of sending; infinite for a job that sends nothing.
///
/// # Panics
///
/// As [`send_s`].
pub fn intensity(job: &Job, paths: &[usize], rates: &[f64]) -> f64 {
    job.work / send_s(job, paths, rates)
}

/// Paths for all jobs: in the order of falling intensity, every flow takes the path whose most used link is used least so far.
///
/// The load of a link is what jobs send over it in a second, relative to its rate, where each job has iterations of the length that it
/// has alone. Intensity is that of the job alone, whose flows spread over their paths by the same rule. Of equals the first is taken.
///
/// # Panics
///
/// When a flow has no path, or a link has no rate.
pub fn choose_paths(jobs: &[Job], rates: &[f64]) -> Vec<Paths> {
    let alone: Vec<Paths> = jobs.iter().map(|job| choose(job, rates, &mut vec![0.0; rates.len()])).collect();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let intensity = |job: usize| intensity(&jobs[job], &alone[job], rates);
    order.sort_by(|one, other| intensity(*other).total_cmp(&intensity(*one)));
    let mut loads = vec![0.0; rates.len()];
    let mut all = alone.clone();
    for job in order {
        all[job] = choose(&jobs[job], rates, &mut loads);
    }
    all
}

/// Paths for one job, whose load is added to that of the links.
pub(super) fn choose(job: &Job, rates: &[f64], loads: &mut [f64]) -> Paths {
    // Alone, over the first paths: what is shared out among paths is not known before they are chosen.
    let first = vec![0; job.flows.len()];
    let period_s = (job.compute_us as f64 / 1e6).max(send_s(job, &first, rates)).max(f64::MIN_POSITIVE);
    let mut chosen = Vec::with_capacity(job.flows.len());
    for flow in &job.flows {
        let load_of = |path: &Vec<usize>| {
            path.iter().map(|link| loads[*link] + flow.bytes / period_s / rates[*link]).fold(0.0, f64::max)
        };
        let loads_of: Vec<f64> = flow.paths.iter().map(load_of).collect();
        let least = (0..loads_of.len()).min_by(|one, other| loads_of[*one].total_cmp(&loads_of[*other]));
        let path = least.expect("a flow has a path");
        flow.paths[path].iter().for_each(|link| loads[*link] += flow.bytes / period_s / rates[*link]);
        chosen.push(path);
    }
    chosen
}

fn add(job: &Job, paths: &[usize], to: &mut [f64], scale: f64) {
    for (flow, path) in job.flows.iter().zip(paths) {
        flow.paths[*path].iter().for_each(|link| to[*link] += flow.bytes * scale);
    }
}

/// What priority is worth to each job relative to the job with the most to send in a second, which has 1.
///
/// Each job meets that one on a link of its own, once ahead of it and once behind it; the factor is the time of sending that it gains by
/// being ahead, over what the other gains. Where neither gains it is 1. Within `1 / FACTOR_MAX` and [`FACTOR_MAX`].
///
/// The horizon is [`ITERATIONS_COMPARED`] iterations of the slower one, [`ITERATIONS_MAX`] of the faster one at most;
/// see [`factor`] for one of the caller's.
pub fn factors(rhythms: &[Rhythm]) -> Vec<f64> {
    let busy = |rhythm: &Rhythm| rhythm.send_us as f64 / period_us(rhythm).max(1) as f64;
    let most =
        (0..rhythms.len()).max_by(|one, other| busy(&rhythms[*one]).total_cmp(&busy(&rhythms[*other])));
    let Some(reference) = most else { return Vec::new() };
    let one = |(job, rhythm): (usize, &Rhythm)| {
        let periods = [rhythm, &rhythms[reference]].map(|rhythm| period_us(rhythm).max(1));
        let (faster, slower) = (periods[0].min(periods[1]), periods[0].max(periods[1]));
        let horizon_us = (ITERATIONS_COMPARED * slower).min(ITERATIONS_MAX.saturating_mul(faster));
        if job == reference { 1.0 } else { factor(rhythm, &rhythms[reference], horizon_us) }
    };
    rhythms.iter().enumerate().map(one).collect()
}

/// The correction factor of a job against a reference, over so many microseconds.
pub fn factor(job: &Rhythm, reference: &Rhythm, horizon_us: u64) -> f64 {
    let ahead = strict(&[*job, *reference], horizon_us);
    let behind = strict(&[*reference, *job], horizon_us);
    // Being ahead may cost a little at the very end of the horizon.
    let gains = ahead[0].send_us.saturating_sub(behind[1].send_us) as f64;
    let costs = behind[0].send_us.saturating_sub(ahead[1].send_us) as f64;
    if gains == 0.0 && costs == 0.0 { 1.0 } else { (gains / costs).clamp(1.0 / FACTOR_MAX, FACTOR_MAX) }
}

fn period_us(rhythm: &Rhythm) -> u64 {
    rhythm.compute_us.max(rhythm.send_after_us.min(rhythm.compute_us) + rhythm.send_us)
}

/// What Crux decides for a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The path of each of its flows.
    pub paths: Paths,
    /// Its intensity on these paths.
    pub intensity: f64,
    /// Its intensity, corrected: the higher, the more important.
    pub priority: f64,
    /// Its level, from 0, which goes first.
    pub level: usize,
}

/// Paths, priorities, and levels of which there are at most `levels`, for all jobs. To be called again whenever a job starts or ends.
///
/// # Panics
///
/// When there is no level, a flow has no path, or a link has no rate.
pub fn plan(jobs: &[Job], rates: &[f64], levels: usize, seed: u64) -> Vec<Decision> {
    let paths = choose_paths(jobs, rates);
    let intensities: Vec<f64> =
        jobs.iter().zip(&paths).map(|(job, paths)| intensity(job, paths, rates)).collect();
    let rhythm = |(job, paths): (&Job, &Paths)| {
        let send_us = (send_s(job, paths, rates) * 1e6).round() as u64;
        Rhythm { compute_us: job.compute_us, send_us, send_after_us: job.send_after_us }
    };
    let rhythms: Vec<Rhythm> = jobs.iter().zip(&paths).map(rhythm).collect();
    let priorities: Vec<f64> =
        factors(&rhythms).iter().zip(&intensities).map(|(factor, intensity)| factor * intensity).collect();
    let edges = contention(jobs, &paths, rates.len(), &priorities, &intensities);
    let level = compress(jobs.len(), &edges, levels, ORDERS, &mut StdRng::seed_from_u64(seed));
    let decided = |(job, paths): (usize, Paths)| Decision {
        paths,
        intensity: intensities[job],
        priority: priorities[job],
        level: level[job],
    };
    paths.into_iter().enumerate().map(decided).collect()
}

/// An edge for each pair of jobs with a link in common, as heavy as the intensity of the more important one.
fn contention(
    jobs: &[Job],
    paths: &[Paths],
    links: usize,
    priorities: &[f64],
    intensities: &[f64],
) -> Vec<Edge> {
    let used: Vec<Vec<f64>> = jobs
        .iter()
        .zip(paths)
        .map(|(job, paths)| {
            let mut used = vec![0.0; links];
            add(job, paths, &mut used, 1.0);
            used
        })
        .collect();
    let shared = |one: usize, other: usize| (0..links).any(|link| used[one][link] * used[other][link] > 0.0);
    let pairs = (0..jobs.len()).flat_map(|one| (one + 1..jobs.len()).map(move |other| (one, other)));
    pairs
        .filter(|(one, other)| shared(*one, *other))
        .map(|(one, other)| {
            let (before, after) =
                if priorities[other] > priorities[one] { (other, one) } else { (one, other) };
            Edge { before, after, weight: intensities[before] }
        })
        .collect()
}
