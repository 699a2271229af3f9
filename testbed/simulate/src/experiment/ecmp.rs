//! Elephants over equal paths.

use std::net::Ipv4Addr;

use netfold_controller::route::ecmp::{Hasher, Pair, Spreading, imbalance, ports};
use netfold_controller::route::even_split::EvenSplit;
use netfold_controller::schedule::crux::{Flow, Job as CruxJob, choose_paths};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{Bars, ExperimentError, Plot, Report, Table};
use crate::flow::{Demand, HyperFlow, rates};

/// Spines, each a path of its own.
const PATHS: usize = 16;
/// Bytes a second of every link: 100 Gbit/s.
const RATE: f64 = 12.5e9;
/// Bytes that each host sends.
const BYTES: f64 = 1e9;
const TRIALS: u64 = 500;

#[derive(Debug, Clone, Copy)]
enum Choice {
    Spread(Spreading),
    /// Whole flows as far as they come out even, the rest in parts.
    Even,
    /// By intensity, the least loaded path.
    Crux,
}

const CHOICES: [(&str, Choice); 6] = [
    ("ECMP, 1 flow a pair", Choice::Spread(Spreading::Hash)),
    ("ECMP, 4 flows a pair", Choice::Spread(Spreading::Flows(4))),
    ("ECMP, 16 flows a pair", Choice::Spread(Spreading::Flows(16))),
    ("spraying over 64 ports", Choice::Spread(Spreading::Spray)),
    ("Crux's choice", Choice::Crux),
    ("even split", Choice::Even),
];

/// Links: each host's, up from the leaf to each spine, down from each spine.
struct Fabric {
    hosts: usize,
}

impl Fabric {
    fn path(&self, host: usize, spine: usize) -> Vec<usize> {
        vec![host, self.hosts + spine, self.hosts + PATHS + spine, self.hosts + 2 * PATHS + host]
    }

    fn links(&self) -> usize {
        2 * (self.hosts + PATHS)
    }
}

/// The parts of each pair's bytes, with the path of each.
type Parts = Vec<Vec<(usize, f64)>>;

fn parts(choice: Choice, hosts: usize, rng: &mut Xoshiro256PlusPlus) -> Parts {
    match choice {
        Choice::Spread(spreading) => {
            let pair = |host: usize| Pair {
                source: Ipv4Addr::from_bits(0x0a00_0000 + host as u32),
                destination: Ipv4Addr::from_bits(0x0a01_0000 + host as u32),
                destination_port: 20038,
            };
            let pairs: Vec<Pair> = (0..hosts).map(pair).collect();
            let leaf = Hasher { paths: PATHS as u32, seed: rng.random() };
            let flows = ports(spreading, &pairs, &[leaf], &mut [vec![0.0; PATHS]], || rng.random());
            let part = |flows: &Vec<_>| 1.0 / flows.len() as f64;
            flows
                .iter()
                .map(|flows| flows.iter().map(|flow| (flow.path as usize, part(flows))).collect())
                .collect()
        }
        Choice::Even => {
            // There are paths, so there is a split.
            let Some(split) = EvenSplit::new(hosts as u32, PATHS as u32) else { return Vec::new() };
            let mut paths = split.paths(0, PATHS as u32).map(|path| path as usize);
            let count = |host: usize| if host < split.whole as usize { 1 } else { split.parts };
            (0..hosts)
                .map(|host| {
                    (0..count(host))
                        .filter_map(|_| Some((paths.next()?, 1.0 / f64::from(count(host)))))
                        .collect()
                })
                .collect()
        }
        Choice::Crux => {
            let fabric = Fabric { hosts };
            let job = |host: usize| CruxJob {
                work: rng.random_range(1.0..100.0),
                compute_us: 0,
                send_after_us: 0,
                flows: vec![Flow {
                    bytes: BYTES,
                    paths: (0..PATHS).map(|spine| fabric.path(host, spine)).collect(),
                }],
            };
            let jobs: Vec<CruxJob> = (0..hosts).map(job).collect();
            let chosen = choose_paths(&jobs, &vec![RATE; fabric.links()]);
            chosen.iter().map(|paths| vec![(paths[0], 1.0)]).collect()
        }
    }
}

/// Seconds in which each pair has sent everything.
fn times(choice: Choice, parts: &Parts) -> Vec<f64> {
    let fabric = Fabric { hosts: parts.len() };
    let sprayed = matches!(choice, Choice::Spread(Spreading::Spray));
    let mut flows: Vec<(usize, HyperFlow)> = Vec::new();
    for (host, parts) in parts.iter().enumerate() {
        let on = |(spine, part): &(usize, f64)| (fabric.path(host, *spine), *part);
        if sprayed {
            // Packets go round all paths, so a pair has one rate.
            let parts: Vec<_> = parts.iter().map(on).collect();
            flows.push((host, HyperFlow::tied(BYTES, &parts)));
        } else {
            flows.extend(parts.iter().map(|part| (host, HyperFlow::path(BYTES * part.1, &on(part).0))));
        }
    }
    let capacities = vec![RATE; fabric.links()];
    let mut left: Vec<f64> = flows.iter().map(|(_, flow)| flow.bytes).collect();
    let mut times = vec![0.0; parts.len()];
    let mut now = 0.0;
    loop {
        let active: Vec<usize> = (0..flows.len()).filter(|index| left[*index] > BYTES * 1e-9).collect();
        if active.is_empty() {
            return times;
        }
        let demand = |index: &usize| Demand {
            links: &flows[*index].1.links,
            class: 0,
            weight: 1.0,
            limit: f64::INFINITY,
        };
        let demands: Vec<Demand<'_>> = active.iter().map(demand).collect();
        let rates = rates(&capacities, &demands);
        let step =
            active.iter().zip(&rates).map(|(index, rate)| left[*index] / rate).fold(f64::MAX, f64::min);
        now += step;
        for (index, rate) in active.iter().zip(&rates) {
            left[*index] -= rate * step;
            times[flows[*index].0] = now;
        }
    }
}

struct Row {
    name: &'static str,
    imbalance: f64,
    slowest: f64,
    worst: f64,
    mean: f64,
}

fn measured(name: &'static str, choice: Choice, hosts: usize, seed: u64) -> Row {
    // As long as all paths together need, or a host's own link.
    let ideal = BYTES / RATE * (hosts as f64 / PATHS as f64).max(1.0);
    let mut row = Row { name, imbalance: 0.0, slowest: 0.0, worst: 0.0, mean: 0.0 };
    for trial in 0..TRIALS {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(TRIALS).wrapping_add(trial));
        let parts = parts(choice, hosts, &mut rng);
        let mut loads = vec![0.0; PATHS];
        parts.iter().flatten().for_each(|(path, part)| loads[*path] += part);
        let times = times(choice, &parts);
        let slowest = times.iter().copied().fold(0.0, f64::max) / ideal;
        row.imbalance += imbalance(&loads) / TRIALS as f64;
        row.slowest += slowest / TRIALS as f64;
        row.worst = row.worst.max(slowest);
        row.mean += times.iter().sum::<f64>() / (ideal * hosts as f64 * TRIALS as f64);
    }
    row
}

/// Every choice, with as many hosts as there are paths and with half as many again.
pub(super) fn run(seed: u64) -> Result<Report, ExperimentError> {
    let (mut tables, mut groups) = (Vec::new(), Vec::new());
    for hosts in [PATHS, PATHS * 3 / 2] {
        let title = format!("{hosts} pairs over {PATHS} paths");
        let head =
            ["paths by", "most loaded path / mean", "slowest pair", "slowest pair, worst trial", "mean pair"];
        let mut table = Table::new(&title, &head);
        let rows: Vec<Row> =
            CHOICES.iter().map(|(name, choice)| measured(name, *choice, hosts, seed)).collect();
        for row in &rows {
            let numbers =
                [row.imbalance, row.slowest, row.worst, row.mean].map(|number| format!("{number:.3}"));
            table.rows.push([vec![row.name.to_owned()], numbers.to_vec()].concat());
        }
        groups.push((title, rows.iter().map(|row| (row.name.to_owned(), row.slowest)).collect()));
        tables.push(table);
    }
    Ok(Report {
        title: "Elephants over equal paths".into(),
        setting: vec![
            format!(
                "Two leaves, {PATHS} spines, links of 100 Gbit/s. Every host of one leaf sends 1 GB to a host of its own at the other leaf, all at \
                 once; rates are max-min fair. Times are relative to what all paths together need at best, means over {TRIALS} trials, each with \
                 its own hash. A pair is done when all of its flows are; a synchronous job waits for the slowest pair."
            ),
            "Many flows a pair have equal parts of its bytes. Spraying has one rate for a pair, which its most loaded path bounds. The even \
             split is Ethereal's, over all flows of a leaf as one batch. Crux chooses for jobs of one flow each, by random work. The first \
             four need not know the hash; the last two choose paths outright."
                .into(),
        ],
        tables,
        reading: vec![
            "With as many pairs as paths, choosing outright costs nothing, while hashing leaves paths empty and others with several elephants. With half \
             as many again, whole flows cannot come out even, however they are chosen: only splitting does. The first column reproduces the \
             imbalance of [ECMP](../topology.md#source-ports)."
                .into(),
        ],
        plots: vec![Plot::Bars(Bars { title: "Time of the slowest pair, relative to the minimum".into(), groups })],
    })
}
