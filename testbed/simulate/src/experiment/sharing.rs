//! Jobs at one switch: its links and its slots.

use netfold_controller::policy::{Demand, JobId, Order, Policy, by_name};

use super::{Bars, ExperimentError, Groups, Plot, Report, Table};
use crate::flow::{HyperFlow, Job, Pool, jain, run as simulate};

/// Bytes a second of every link: 100 Gbit/s.
const RATE: f64 = 12.5e9;
const HOSTS: usize = 8;
const SLOTS: u32 = 1024;
const PAYLOAD_BYTES: f64 = 256.0;
const ROUND_TRIP_S: f64 = 20e-6;
const COMPUTE_S: f64 = 0.05;
const BYTES: f64 = 500e6;
const JITTER: f64 = 0.01;
const HORIZON_S: f64 = 60.0;

const POLICIES: [&str; 4] = ["static", "elastic", "priority", "spill"];
/// In place of a policy: as if every job had a switch's slots to itself.
const ENOUGH: &str = "enough for each";

/// Slots of jobs that come one after the other, each with a priority, once nothing is to be done any more; 0 for a job without.
fn slots(policy: &str, priorities: &[u8]) -> Vec<u32> {
    // The names are those of `policy::NAMES`.
    let Some(mut policy) = by_name(policy, SLOTS) else { return vec![0; priorities.len()] };
    let mut now_ms = 0;
    for (number, priority) in priorities.iter().enumerate() {
        now_ms += 1_000_000;
        let demand = Demand { priority: *priority, ..Demand::new(JobId(number as u64), SLOTS, 64) };
        // Who is refused does without.
        let _ = policy.ask(now_ms, demand);
        settle(&mut *policy, &mut now_ms);
    }
    let held = policy.holdings();
    let of = |number: usize| held.iter().find(|holding| holding.job == JobId(number as u64));
    (0..priorities.len())
        .map(|number| of(number).and_then(|it| it.range).map_or(0, |range| range.slots()))
        .collect()
}

/// Has every order carried out, and time pass, until there is none.
fn settle(policy: &mut dyn Policy, now_ms: &mut u64) {
    loop {
        *now_ms += 1_000_000;
        let orders = policy.poll(*now_ms);
        if orders.is_empty() {
            return;
        }
        for order in orders {
            if !matches!(order, Order::Start { .. }) {
                policy.done(*now_ms, order.job());
            }
        }
    }
}

/// A job with a worker at every host: through the switch with its slots, or from host to host without.
fn job(number: usize, slots: f64, skew_s: f64, class: u8) -> Job {
    let links: Vec<usize> = (0..2 * HOSTS).collect();
    let flow = if slots > 0.0 {
        let pool = Pool { slots, payload_bytes: PAYLOAD_BYTES, round_trip_s: ROUND_TRIP_S, skew_s };
        HyperFlow::tree(BYTES, &links, &[pool])
    } else {
        HyperFlow::ring(BYTES, HOSTS, &links)
    };
    let begins_s = 0.007 * number as f64;
    Job { begins_s, jitter: JITTER, class, ..Job::new(format!("{}", number + 1), COMPUTE_S, vec![flow]) }
}

/// Mean iteration of each job, in seconds.
fn iterations(jobs: &[Job], seed: u64) -> Vec<f64> {
    let outcome = simulate(&[RATE; 2 * HOSTS], jobs, HORIZON_S, seed);
    (0..jobs.len()).map(|job| outcome.iteration_s(job, 0.0, HORIZON_S).unwrap_or(f64::INFINITY)).collect()
}

fn joined(values: &[f64], show: impl Fn(f64) -> String) -> String {
    values.iter().map(|value| show(*value)).collect::<Vec<_>>().join(", ")
}

/// Jain's index of the jobs' speeds.
fn fairness(times: &[f64]) -> f64 {
    jain(&times.iter().map(|time| 1.0 / time).collect::<Vec<_>>())
}

fn equals(seed: u64) -> (Table, Groups) {
    let head = ["jobs", "slots by", "slots of each", "iteration of each, relative to alone", "Jain's index"];
    let mut table = Table::new("Equal jobs", &head);
    let alone = iterations(&[job(0, SLOTS.into(), 0.0, 0)], seed)[0];
    let mut groups = Vec::new();
    for count in [2, 4] {
        let mut bars = Vec::new();
        for policy in POLICIES.into_iter().chain([ENOUGH]) {
            let slots = if policy == ENOUGH { vec![SLOTS; count] } else { slots(policy, &vec![0; count]) };
            let jobs: Vec<Job> = slots
                .iter()
                .enumerate()
                .map(|(number, slots)| job(number, (*slots).into(), 0.0, 0))
                .collect();
            let times: Vec<f64> = iterations(&jobs, seed).iter().map(|time| time / alone).collect();
            let slots: Vec<f64> = slots.into_iter().map(f64::from).collect();
            table.rows.push(vec![
                count.to_string(),
                policy.into(),
                joined(&slots, |slots| if slots > 0.0 { format!("{slots:.0}") } else { "none".into() }),
                joined(&times, |time| format!("{time:.2}")),
                format!("{:.3}", fairness(&times)),
            ]);
            bars.push((policy.to_owned(), times.iter().sum::<f64>() / count as f64));
        }
        groups.push((format!("{count} jobs"), bars));
    }
    (table, groups)
}

/// Priority of links, of slots, of both, or of none, for the first of two jobs.
const IMPORTANT: [(&str, &str, u8); 4] = [
    ("nowhere", "elastic", 0),
    ("on links", "elastic", 1),
    ("for slots", "priority", 0),
    ("on links and for slots", "priority", 1),
];

/// What the important job loses, and what the other has, in mean iterations relative to alone.
fn important(policy: &str, class: u8, seed: u64) -> (f64, f64) {
    let alone = iterations(&[job(0, SLOTS.into(), 0.0, 0)], seed)[0];
    let slots = slots(policy, &[1, 0]);
    let jobs = [job(0, slots[0].into(), 0.0, 0), job(1, slots[1].into(), 0.0, class)];
    let times = iterations(&jobs, seed);
    (times[0] / alone - 1.0, times[1] / alone)
}

fn priorities(seed: u64) -> (Table, Vec<(String, f64)>) {
    let head = [
        "important",
        "slots by",
        "the important job's iterations are longer by",
        "the other's, relative to alone",
    ];
    let mut table = Table::new("A job of low priority comes to an important one", &head);
    let mut bars = Vec::new();
    for (name, policy, class) in IMPORTANT {
        let (loss, other) = important(policy, class, seed);
        table.rows.push(vec![
            name.into(),
            policy.into(),
            format!("{:.1} %", 100.0 * loss),
            format!("{other:.2}"),
        ]);
        bars.push((name.to_owned(), 100.0 * loss));
    }
    (table, bars)
}

fn late(seed: u64) -> Table {
    let head = [
        "skew of the second job",
        "512 slots each",
        "Jain's index",
        "slots by how long they are held",
        "Jain's index",
    ];
    let mut table = Table::new("Two jobs, of which one has a straggler", &head);
    for skew_us in [0.0, 10.0, 20.0, 60.0] {
        let skew_s = skew_us * 1e-6;
        let held = (ROUND_TRIP_S + skew_s) / (2.0 * ROUND_TRIP_S + skew_s);
        let mut row = vec![format!("{skew_us:.0} us")];
        for share in [0.5, held] {
            let all = f64::from(SLOTS);
            let times =
                iterations(&[job(0, (1.0 - share) * all, 0.0, 0), job(1, share * all, skew_s, 0)], seed);
            row.push(joined(&times, |time| format!("{:.1} ms", time * 1e3)));
            row.push(format!("{:.3}", fairness(&times)));
        }
        table.rows.push(row);
    }
    table
}

/// Shares, priorities and skew.
#[expect(clippy::unnecessary_wraps, reason = "the type of every experiment")]
pub(super) fn run(seed: u64) -> Result<Report, ExperimentError> {
    let (equals, groups) = equals(seed);
    let (priorities, bars) = priorities(seed);
    Ok(Report {
        title: "Jobs at one switch".into(),
        setting: vec![
            format!(
                "{HOSTS} hosts at one switch by links of 100 Gbit/s; every job has a worker at each of them. An iteration is {:.0} ms of computing, which \
                 vary by {:.0} % at random, and an all-reduce of {:.0} MB. The switch has {SLOTS} slots of {PAYLOAD_BYTES:.0} bytes, and a round \
                 trip to it takes {:.0} us: just enough for one job at the rate of the links. Jobs want all slots, and can do with 64.",
                COMPUTE_S * 1e3,
                100.0 * JITTER,
                BYTES / 1e6,
                ROUND_TRIP_S * 1e6
            ),
            "Slots are those that the controller's own policies give jobs that come one after the other. A job without slots sends from host to host, by \
             a ring, over the same links. Rates are max-min fair; there are no queues and no losses, so this shows what shares come to, and not how well \
             congestion control finds them."
                .into(),
        ],
        tables: vec![equals, priorities, late(seed)],
        reading: vec![
            "Links are shared evenly, so speeds are equal nearly everywhere; what differs is how fast everybody is. Under `static`, `priority` and \
             `spill` who comes first keeps all slots; the others send nearly twice the bytes over the same links, and the first waits for them there. Under \
             `elastic` all go through the switch, but a job with half of the slots is at half of the rate also while the other computes: the last \
             lines show what that costs."
                .into(),
            "An important job needs both. With the links alone it keeps half of the slots and so half of the rate; with the slots alone the other's \
             ring takes its half of the links."
                .into(),
            "A straggler holds its job's slots for longer, so equal slots are not equal rates; slots in proportion to how long they are held are."
                .into(),
        ],
        plots: vec![
            Plot::Bars(Bars { title: "Mean iteration relative to alone, by slot policy".into(), groups }),
            Plot::Bars(Bars {
                title: "By how much an important job's iterations are longer, in percent, by where it is important".into(),
                groups: vec![(String::new(), bars)],
            }),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_and_important_jobs_lose_little() {
        for count in [2, 4] {
            let slots = slots("elastic", &vec![0; count]);
            assert_eq!(slots, vec![SLOTS / count as u32; count]);
            let jobs: Vec<Job> = slots
                .iter()
                .enumerate()
                .map(|(number, slots)| job(number, (*slots).into(), 0.0, 0))
                .collect();
            assert!(fairness(&iterations(&jobs, 3)) > 0.999);
        }
        for seed in 0..5 {
            let loss = |(_, policy, class): (&str, &str, u8)| important(policy, class, seed).0;
            assert!(loss(IMPORTANT[3]) <= 0.05, "seed {seed}: {}", loss(IMPORTANT[3]));
            assert!(loss(IMPORTANT[0]) > 0.05, "seed {seed}: it would lose otherwise");
        }
        assert_eq!(
            slots("priority", &[0, 0, 1]),
            [0, 0, SLOTS],
            "the first is displaced, the second refused"
        );
    }
}
