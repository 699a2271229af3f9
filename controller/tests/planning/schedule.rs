//! Scheduling over all jobs: the published examples, and small cases against the best there is.

use netfold_controller::schedule::cassini::{ANGLES, Circle, CircleError, Link, Phase, place};
use netfold_controller::schedule::crux::{Flow, Job, choose_paths, factor, factors, intensity, plan, send_s};
use netfold_controller::schedule::levels::{Edge, compress, cut_weight};
use netfold_controller::schedule::link::{Rhythm, strict};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const S: u64 = 1_000_000;

const fn rhythm(compute_s: u64, send_s: u64, send_after_s: u64) -> Rhythm {
    Rhythm { compute_us: compute_s * S, send_us: send_s * S, send_after_us: send_after_s * S }
}

/// Two jobs of 10 GPUs: 2 s of computing and 2 s of sending, 1 s and 1 s, nothing overlaps; 12 s.
#[test]
fn cruxs_first_example() {
    let (long, short) = (rhythm(2, 2, 2), rhythm(1, 1, 1));
    let busy = |jobs: [Rhythm; 2]| {
        let used = strict(&jobs, 12 * S);
        used.iter().map(|used| used.compute_us).sum::<u64>() as f64 / (2 * 12 * S) as f64
    };
    assert_eq!(busy([long, short]), 9.0 / 24.0, "the long one first: 37.5 % of the GPUs' time");
    assert_eq!(busy([short, long]), 10.0 / 24.0, "the short one first: 41.7 %");
    assert_eq!(factor(&short, &long, 12 * S), 1.5);
    // Per second of sending the two do the same work: it is the factor that puts the short one first.
    let job = |seconds: u64| Job {
        work: (10 * seconds) as f64,
        compute_us: seconds * S,
        send_after_us: seconds * S,
        flows: vec![Flow { bytes: seconds as f64, paths: vec![vec![0]] }],
    };
    let decided = plan(&[job(2), job(1)], &[1.0], 8, 1);
    assert_eq!((decided[0].intensity, decided[1].intensity), (10.0, 10.0));
    assert!(decided[1].priority > decided[0].priority, "{decided:?}");
    assert_eq!((decided[1].level, decided[0].level), (0, 1));
}

/// 2 GPUs with 4 s of computing and 1 s of sending, 12 GPUs with 2 s and 3 s; sending begins half-way through the computing.
#[test]
fn cruxs_second_example() {
    let (small, large) = (rhythm(4, 1, 2), rhythm(2, 3, 1));
    let idle_s = |jobs: [Rhythm; 2], which: usize| (12 * S - strict(&jobs, 12 * S)[which].compute_us) / S;
    assert_eq!(idle_s([small, large], 1), 7, "the twelve wait when they come second");
    assert_eq!(idle_s([large, small], 0), 6);
}

#[test]
fn factors_are_relative_to_the_job_with_the_most_to_send() {
    let jobs = [rhythm(1, 1, 1), rhythm(2, 2, 1), rhythm(100, 1, 100), rhythm(5, 0, 5)];
    let factors = factors(&jobs);
    assert_eq!(factors[1], 1.0, "{factors:?}");
    assert_eq!(factors[3], 1.0, "who sends nothing gains nothing");
    assert!(factors.iter().all(|factor| *factor > 0.0 && factor.is_finite()));
}

/// A job of so much work with equal flows over `paths`, each a link of its own.
fn spread(work: f64, flows: usize, bytes: f64, paths: usize) -> Job {
    let flow = Flow { bytes, paths: (0..paths).map(|path| vec![path]).collect() };
    Job { work, compute_us: S, send_after_us: S, flows: vec![flow; flows] }
}

#[test]
fn intense_jobs_choose_first_and_the_least_used_path() {
    // The intense one takes path 0, as it would alone; the other goes round it.
    let jobs = [spread(1.0, 1, 0.5, 2), spread(9.0, 1, 0.5, 2)];
    assert_eq!(choose_paths(&jobs, &[1.0, 1.0]), [[1], [0]]);
    // A path of four times the rate bears more.
    assert_eq!(choose_paths(&jobs, &[1.0, 4.0]), [[1], [1]]);
    let many = vec![spread(1.0, 3, 0.1, 4); 8];
    let paths = choose_paths(&many, &[1.0; 4]);
    let mut loads = [0; 4];
    paths.iter().flatten().for_each(|path| loads[*path] += 1);
    assert_eq!(loads, [6; 4]);
    assert_eq!(send_s(&many[0], &paths[0], &[0.5; 4]), 0.2);
    assert_eq!(intensity(&many[0], &[0, 0, 0], &[1.0; 4]), 1.0 / (3.0 * 0.1));
}

#[test]
fn more_important_jobs_have_no_later_level() {
    for seed in 0..300 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (count, links, levels) = (rng.random_range(1..20), 6, rng.random_range(1..9));
        let jobs: Vec<Job> = (0..count)
            .map(|_| {
                let path = |rng: &mut StdRng| (0..2).map(|_| rng.random_range(0..links)).collect();
                let flow = |rng: &mut StdRng| Flow {
                    bytes: rng.random_range(0.01..1.0),
                    paths: (0..3).map(|_| path(rng)).collect(),
                };
                Job {
                    work: rng.random_range(0.1..100.0),
                    compute_us: rng.random_range(1_000..2 * S),
                    send_after_us: rng.random_range(0..S),
                    flows: (0..rng.random_range(1..3)).map(|_| flow(&mut rng)).collect(),
                }
            })
            .collect();
        let decided = plan(&jobs, &vec![1.0; links], levels, seed);
        let uses = |job: usize| -> Vec<usize> {
            let paths = jobs[job].flows.iter().zip(&decided[job].paths);
            paths.flat_map(|(flow, path)| flow.paths[*path].clone()).collect()
        };
        for one in 0..count {
            assert!(decided[one].level < levels, "seed {seed}");
            for other in 0..count {
                let shared = uses(one).iter().any(|link| uses(other).contains(link));
                if shared && decided[one].priority > decided[other].priority {
                    assert!(decided[one].level <= decided[other].level, "seed {seed}: {one} and {other}");
                }
            }
        }
        assert_eq!(decided, plan(&jobs, &vec![1.0; links], levels, seed), "the same again");
    }
}

/// The paper has 97.1 % of the optimum on 1500 small cases for this part.
#[test]
fn levels_are_nearly_the_best_there_are() {
    const CASES: u64 = 400;
    let (mut sum, mut worst) = (0.0, 1.0_f64);
    for seed in 0..CASES {
        let mut rng = StdRng::seed_from_u64(seed);
        let (jobs, levels) = (rng.random_range(3..9_usize), rng.random_range(2..4_usize));
        let mut edges = Vec::new();
        for before in 0..jobs {
            let weight = rng.random_range(0.1..10.0);
            let later = (before + 1..jobs).filter(|_| rng.random_bool(0.5));
            edges.extend(later.map(|after| Edge { before, after, weight }));
        }
        let found = compress(jobs, &edges, levels, 10, &mut rng);
        assert!(edges.iter().all(|edge| found[edge.before] <= found[edge.after]), "seed {seed}");
        let all = (0..levels.pow(jobs as u32)).map(|number| {
            (0..jobs).map(|job| number / levels.pow(job as u32) % levels).collect::<Vec<usize>>()
        });
        let valid = all.filter(|levels| edges.iter().all(|edge| levels[edge.before] <= levels[edge.after]));
        let best = valid.map(|levels| cut_weight(&edges, &levels)).fold(0.0, f64::max);
        let ratio = if best > 0.0 { cut_weight(&edges, &found) / best } else { 1.0 };
        assert!(ratio < 1.0 + 1e-9, "seed {seed}: better than the best");
        sum += ratio;
        worst = worst.min(ratio);
    }
    let mean = sum / CASES as f64;
    println!(
        "{CASES} cases (seeds from 0): {:.2} % of the optimum on average, {:.2} % at worst",
        100.0 * mean,
        100.0 * worst
    );
    assert!(mean > 0.99, "{mean}");
    assert!(worst > 0.9, "{worst}");
}

/// A job that sends at full rate from one moment to another.
fn circle(period_us: u64, from_us: u64, to_us: u64) -> Circle {
    Circle { period_us, phases: vec![Phase { from_us, to_us, rate: 1.0 }] }
}

fn all_on_one(jobs: &[Circle]) -> Link {
    Link { capacity: 1.0, jobs: (0..jobs.len()).collect() }
}

#[test]
fn two_halves_interleave_perfectly_and_three_cannot() {
    let halves = vec![circle(100, 0, 50); 3];
    let two = all_on_one(&halves[..2]).best(&halves, ANGLES, 0).unwrap();
    assert!((two.score - 1.0).abs() < 1e-9, "{two:?}");
    assert_eq!(two.shifts_us, [0, 50]);
    // Three send 1.5 times what there is: at best half a circle has 1 too much.
    let three = all_on_one(&halves).best(&halves, ANGLES, 0).unwrap();
    assert!((three.score - 0.5).abs() < 1e-9, "{three:?}");
    // Two thirds each: a third of the circle is sent twice.
    let thirds = vec![circle(90, 0, 60); 2];
    let link = all_on_one(&thirds);
    assert!((link.best(&thirds, ANGLES, 0).unwrap().score - 2.0 / 3.0).abs() < 1e-9);
    assert!((Link { capacity: 2.0, ..link }.best(&thirds, ANGLES, 0).unwrap().score - 1.0).abs() < 1e-9);
}

#[test]
fn periods_may_differ() {
    // One sends in 0-20 of 60, the other in 0-10 of 30: twice a circle, and the first fits between.
    let jobs = [circle(60, 0, 20), circle(30, 0, 10)];
    let turned = all_on_one(&jobs).best(&jobs, ANGLES, 0).unwrap();
    assert!((turned.score - 1.0).abs() < 1e-9 && (20..=20).contains(&turned.shifts_us[1]), "{turned:?}");
    // 20-30 and 50-60 are taken: where the second sends three times, it meets the first.
    let jobs = [circle(60, 0, 40), circle(20, 0, 10)];
    assert!(all_on_one(&jobs).best(&jobs, ANGLES, 0).unwrap().score < 1.0);
    let error = |jobs: &[Circle]| all_on_one(jobs).best(jobs, ANGLES, 0).unwrap_err();
    assert_eq!(error(&[circle(0, 0, 0)]), CircleError::Phase { job: 0 });
    assert_eq!(error(&[circle(9, 0, 9), circle(9, 5, 10)]), CircleError::Phase { job: 1 });
    let primes = [circle(999_983, 0, 1), circle(999_979, 0, 1)];
    assert!(matches!(error(&primes), CircleError::Perimeter { .. }));
    assert_eq!(all_on_one(&jobs).best(&jobs, 0, 0), Err(CircleError::Angles));
}

/// Every shift tried by itself, in time instead of angles.
#[test]
fn turns_are_the_best_there_are() {
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let periods = [12, 24, 36, 72];
        let jobs: Vec<Circle> = (0..rng.random_range(2..4))
            .map(|_| {
                let period_us = periods[rng.random_range(0..4)];
                let from_us = rng.random_range(0..period_us);
                let to_us = rng.random_range(from_us..=period_us);
                Circle { period_us, phases: vec![Phase { from_us, to_us, rate: rng.random_range(0.3..1.2) }] }
            })
            .collect();
        let excess = |shifts: &[u64]| -> f64 {
            let sent = |time: u64| -> f64 {
                let each = jobs.iter().zip(shifts).map(|(job, shift)| {
                    let (at, phase) = ((time + job.period_us - shift) % job.period_us, &job.phases[0]);
                    if (phase.from_us..phase.to_us).contains(&at) { phase.rate } else { 0.0 }
                });
                each.sum()
            };
            (0..72).map(|time| (sent(time) - 1.0).max(0.0)).sum::<f64>() / 72.0
        };
        let third = jobs.get(2).map_or(1, |job| job.period_us);
        let mut least = f64::MAX;
        for second in 0..jobs[1].period_us {
            for third in 0..third {
                least = least.min(excess(&[0, second, third][..jobs.len()]));
            }
        }
        // The perimeter is 72 or a divisor of it, so a step is a whole number of microseconds, or a fraction.
        let turned = all_on_one(&jobs).best(&jobs, ANGLES, seed).unwrap();
        assert!(turned.score > 1.0 - least - 1e-9, "seed {seed}: {} below {}", turned.score, 1.0 - least);
        let achieved = 1.0 - excess(&turned.shifts_us);
        assert!(achieved > turned.score - 0.05, "seed {seed}: {achieved} is not {}", turned.score);
    }
}

/// Six jobs are too many to try everything; what fits is found all the same.
#[test]
fn many_jobs_interleave() {
    let jobs = vec![circle(120, 0, 20); 6];
    let turned = all_on_one(&jobs).best(&jobs, ANGLES, 3).unwrap();
    assert!(turned.score > 0.95, "{turned:?}");
}

#[test]
fn the_placement_that_interleaves_best_is_taken() {
    let jobs = [circle(100, 0, 50), circle(100, 0, 50), circle(100, 0, 80)];
    let shared = |jobs: &[usize]| Link { capacity: 1.0, jobs: jobs.to_vec() };
    let loops = vec![shared(&[0, 1]), shared(&[1, 0])];
    let bad = vec![shared(&[0, 2])];
    let good = vec![shared(&[1, 0])];
    let placed = place(&jobs, &[loops.clone(), bad, good], ANGLES, 0).unwrap().unwrap();
    assert_eq!(placed.candidate, 2);
    assert!((placed.score - 1.0).abs() < 1e-9);
    assert_eq!(placed.shifts_us, [0, 50, 0]);
    assert_eq!(place(&jobs, &[loops], ANGLES, 0), Ok(None));
    assert_eq!(place(&jobs, &[vec![]], ANGLES, 0).unwrap().unwrap().score, 1.0);
    assert_eq!(place(&jobs, &[vec![shared(&[3])]], ANGLES, 0), Err(CircleError::Link { link: 0 }));
}
