//! Jobs that share a link, by who decides when they send.

use netfold_controller::schedule::cassini::{Circle, Link, Phase, place};
use netfold_controller::schedule::crux::{Flow, Job as CruxJob, plan};
use netfold_proto::congestion::Aggressiveness;

use super::{Bars, ExperimentError, Groups, Lines, Plot, Report, Series, Table};
use crate::flow::{FlowOutcome, HyperFlow, Job, Pace, run as simulate};
use netfold_testkit::sample::Sample;

/// Bytes a second of the link.
const RATE: f64 = 12.5e9;
const HORIZON_S: f64 = 120.0;
/// From here on iterations are counted: jobs that settle have by then.
const SETTLED_S: f64 = 60.0;
/// By how much each job begins later than the one before at first.
const LATER_S: f64 = 0.002;
const JITTER: f64 = 0.01;
/// By how much CASSINI's periods are longer than iterations alone, at least: jitter must fit in.
const SLACK: f64 = 1.03;
const TOLERANCE: f64 = 0.05;

/// Angles of a circle: a step of 1.3 ms at most.
const STEPS: usize = 288;

/// Milliseconds of computing and of sending alone.
type Rhythm = (u64, u64);

struct Case {
    name: &'static str,
    rhythms: &'static [Rhythm],
    /// Periods that CASSINI plans with: longer by [`SLACK`].
    periods_ms: &'static [u64],
}

const CASES: [Case; 5] = [
    Case { name: "two that fit", rhythms: &[(200, 150), (200, 150)], periods_ms: &[361, 361] },
    Case {
        name: "three that fit",
        rhythms: &[(240, 100), (240, 100), (240, 100)],
        periods_ms: &[351, 351, 351],
    },
    Case { name: "two, one twice as long", rhythms: &[(120, 60), (260, 100)], periods_ms: &[186, 372] },
    Case { name: "two that nearly fit", rhythms: &[(100, 120), (100, 120)], periods_ms: &[227, 227] },
    Case {
        name: "three that cannot",
        rhythms: &[(100, 100), (100, 100), (100, 100)],
        periods_ms: &[206, 206, 206],
    },
];

const POLICIES: [&str; 4] = ["none", "CASSINI", "MLTCP", "Crux"];

/// The jobs of a case, each a little later than the one before.
fn jobs(case: &Case, policy: &str, seed: u64) -> Result<Vec<Job>, ExperimentError> {
    let job = |(index, (compute, send)): (usize, &Rhythm)| {
        let bytes = RATE * *send as f64 / 1e3;
        let flows = vec![HyperFlow::path(bytes, &[0])];
        let begins_s = index as f64 * LATER_S;
        let name = format!("{}", index + 1);
        Job { begins_s, jitter: JITTER, ..Job::new(name, *compute as f64 / 1e3, flows) }
    };
    let mut jobs: Vec<Job> = case.rhythms.iter().enumerate().map(job).collect();
    match policy {
        "CASSINI" => shift(case, &mut jobs, seed)?,
        "MLTCP" => jobs.iter_mut().for_each(|job| job.favour = Some(Aggressiveness::DEFAULT)),
        "Crux" => {
            let flow = |send: u64| Flow { bytes: RATE * send as f64 / 1e3, paths: vec![vec![0]] };
            let crux = |(compute, send): &Rhythm| CruxJob {
                // The same number of GPUs each.
                work: *compute as f64,
                compute_us: compute * 1_000,
                send_after_us: compute * 1_000,
                flows: vec![flow(*send)],
            };
            let decided = plan(&case.rhythms.iter().map(crux).collect::<Vec<_>>(), &[RATE], 8, seed);
            // There are at most eight levels.
            jobs.iter_mut().zip(decided).for_each(|(job, decided)| job.class = decided.level as u8);
        }
        _ => {}
    }
    Ok(jobs)
}

/// Gives jobs the pace that CASSINI finds.
fn shift(case: &Case, jobs: &mut [Job], seed: u64) -> Result<(), ExperimentError> {
    let circle = |((compute, send), period_ms): (&Rhythm, &u64)| Circle {
        period_us: period_ms * 1_000,
        phases: vec![Phase { from_us: compute * 1_000, to_us: (compute + send) * 1_000, rate: RATE }],
    };
    let circles: Vec<Circle> = case.rhythms.iter().zip(case.periods_ms).map(circle).collect();
    let link = Link { capacity: RATE, jobs: (0..circles.len()).collect() };
    let placed = place(&circles, &[vec![link]], STEPS, seed)
        .map_err(|source| ExperimentError::Scenario { scenario: case.name, source: Box::new(source) })?;
    // One link has no loop, so there is a placement.
    let shifts_us = placed.map(|placed| placed.shifts_us).unwrap_or_default();
    for ((job, circle), shift_us) in jobs.iter_mut().zip(&circles).zip(shifts_us) {
        let (period_s, shift_s) = (circle.period_us as f64 / 1e6, shift_us as f64 / 1e6);
        job.pace = Some(Pace { period_s, shift_s, tolerance: TOLERANCE });
    }
    Ok(())
}

/// Iteration times of all jobs once settled, relative to those alone: the mean, and the longest of a hundred.
fn relative(case: &Case, outcome: &FlowOutcome) -> (f64, f64) {
    let mut all = Vec::new();
    for (iterations, (compute, send)) in outcome.iterations.iter().zip(case.rhythms) {
        let alone_s = (compute + send) as f64 / 1e3;
        let ends: Vec<f64> =
            iterations.iter().map(|one| one.ends_s).filter(|end| *end >= SETTLED_S).collect();
        all.extend(ends.windows(2).map(|ends| (ends[1] - ends[0]) / alone_s));
    }
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    (mean, all.into_iter().collect::<Sample>().percentile(99))
}

/// Time of each iteration of the first job, by its number.
fn curve(outcome: &FlowOutcome) -> Vec<(f64, f64)> {
    let ends = outcome.iterations[0].windows(2).take(30).enumerate();
    ends.map(|(number, two)| ((number + 2) as f64, (two[1].ends_s - two[0].ends_s) * 1e3)).collect()
}

/// Every case under every policy.
pub(super) fn run(seed: u64) -> Result<Report, ExperimentError> {
    let head = ["jobs (computing + sending, ms)", "link asked for", "none", "CASSINI", "MLTCP", "Crux"];
    let mut means = Table::new("Mean iteration, relative to alone", &head);
    let mut tails = Table::new("The longest of a hundred, relative to alone", &head);
    let (mut groups, mut series) = (Vec::new(), Vec::new());
    for case in &CASES {
        let asked: f64 =
            case.rhythms.iter().map(|(compute, send)| *send as f64 / (compute + send) as f64).sum::<f64>()
                * 100.0;
        let rhythms: Vec<String> =
            case.rhythms.iter().map(|(compute, send)| format!("{compute} + {send}")).collect();
        let label = vec![format!("{}: {}", case.name, rhythms.join(", ")), format!("{asked:.0} %")];
        let (mut mean, mut tail, mut bars) = (label.clone(), label, Vec::new());
        for policy in POLICIES {
            let outcome = simulate(&[RATE], &jobs(case, policy, seed)?, HORIZON_S, seed);
            let (mean_of, tail_of) = relative(case, &outcome);
            mean.push(format!("{mean_of:.3}"));
            tail.push(format!("{tail_of:.3}"));
            bars.push((policy.to_owned(), mean_of));
            if case.name == CASES[0].name {
                series.push((policy.to_owned(), curve(&outcome)));
            }
        }
        means.rows.push(mean);
        tails.rows.push(tail);
        groups.push((case.name.to_owned(), bars));
    }
    Ok(report(vec![means, tails], groups, series))
}

fn report(tables: Vec<Table>, groups: Groups, series: Series) -> Report {
    Report {
        title: "Jobs that share a link, by who decides when they send".into(),
        setting: vec![
            format!(
                "One link of 100 Gbit/s; jobs compute, then send, and begin again, each {:.0} ms after the one before at first; computing varies by \
                 {:.0} % at random. {HORIZON_S:.0} s are simulated and iterations of the last {:.0} s counted, from end to end.",
                LATER_S * 1e3,
                100.0 * JITTER,
                HORIZON_S - SETTLED_S
            ),
            format!(
                "*None*: all who send share the link evenly. *CASSINI*: jobs begin at the moments that `schedule::cassini` finds, with periods \
                 {:.0} % longer than alone, so that variation does not add up; who is later than {:.0} % of a period waits for the next moment. *MLTCP*: \
                 shares in proportion to 1.75 *r* + 0.25, where *r* is the part of an iteration's bytes that is sent. *Crux*: strict priorities as \
                 `schedule::crux` finds them.",
                100.0 * (SLACK - 1.0),
                100.0 * TOLERANCE
            ),
        ],
        tables,
        reading: vec![
            "Where jobs fit, all three come close to what each has alone: CASSINI from the first iteration on, at the price of its slack; MLTCP and Crux \
             after some, because a job that is ahead stays ahead. Where they do not fit, the link is full whatever is done; CASSINI's moments are then missed, and \
             jobs wait for the next ones on a link that is idle meanwhile: its score predicts it (0.5 for the last case), and it should not be used there. Crux gives \
             the important job all and lets the last one wait: the mean hides that, the longest of a hundred does not."
                .into(),
        ],
        plots: vec![
            Plot::Bars(Bars { title: "Mean iteration, relative to alone".into(), groups }),
            Plot::Lines(Lines {
                title: "Two that fit: iterations of the first job".into(),
                x: "iteration".into(),
                y: "ms".into(),
                series,
            }),
        ],
    }
}
