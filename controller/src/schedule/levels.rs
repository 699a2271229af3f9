//! Many priorities become few: which jobs may share a level at the least cost.
//!
//! Jobs that share no link may share a level for nothing. Two that share a link lose what the more important one would have gained by
//! going first. So jobs are the nodes of a graph, with an edge from the more to the less important job of each pair that shares a
//! link, and levels are chosen such that edges of the greatest weight lead from one level to a later one: the Max-K-Cut of an acyclic graph.
//!
//! Source: Crux (SIGCOMM 2024), section 5.2. Jobs are put in a random order that follows all edges; the best cut of that order into
//! consecutive levels is found exactly; the best of several orders is taken. The paper goes through the graph breadth first; here each
//! next job is drawn uniformly at random from those whose predecessors are all placed.

use rand::{Rng, RngExt};

/// Two jobs that share a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// The more important one.
    pub before: usize,
    /// The less important one.
    pub after: usize,
    /// What is lost when both have the same level, not negative.
    pub weight: f64,
}

/// A level for each of `jobs` jobs, from 0, which goes first, to `levels - 1`: no edge leads to an earlier level.
///
/// Takes `orders` random orders, each in time quadratic in the jobs. The same `rng` gives the same levels.
///
/// # Panics
///
/// When there is no level, or an edge names a job that there is not, or edges go round in a circle.
pub fn compress(jobs: usize, edges: &[Edge], levels: usize, orders: u32, rng: &mut impl Rng) -> Vec<usize> {
    assert!(levels > 0, "there is a level for everybody");
    let mut best = (f64::NEG_INFINITY, vec![0; jobs]);
    for _ in 0..orders.max(1) {
        let order = random_order(jobs, edges, rng);
        let mut found = vec![0; jobs];
        for (level, part) in cut(&order, edges, levels).into_iter().enumerate() {
            order[part].iter().for_each(|job| found[*job] = level);
        }
        let weight = cut_weight(edges, &found);
        if weight > best.0 {
            best = (weight, found);
        }
    }
    best.1
}

/// The weight of the edges that lead from one level to another.
///
/// # Panics
///
/// When an edge names a job without a level.
pub fn cut_weight(edges: &[Edge], levels: &[usize]) -> f64 {
    edges.iter().filter(|edge| levels[edge.before] != levels[edge.after]).map(|edge| edge.weight).sum()
}

/// A random order of jobs in which every edge leads onwards.
fn random_order(jobs: usize, edges: &[Edge], rng: &mut impl Rng) -> Vec<usize> {
    let mut waits_for = vec![0; jobs];
    let mut followers = vec![Vec::new(); jobs];
    for edge in edges {
        waits_for[edge.after] += 1;
        followers[edge.before].push(edge.after);
    }
    let mut ready: Vec<usize> = (0..jobs).filter(|job| waits_for[*job] == 0).collect();
    let mut order = Vec::with_capacity(jobs);
    while !ready.is_empty() {
        let job = ready.swap_remove(rng.random_range(0..ready.len()));
        order.push(job);
        for follower in &followers[job] {
            waits_for[*follower] -= 1;
            if waits_for[*follower] == 0 {
                ready.push(*follower);
            }
        }
    }
    assert_eq!(order.len(), jobs, "edges lead from the more to the less important, so there is no circle");
    order
}

/// The cut of an order into so many consecutive parts, some perhaps empty, that loses the least.
///
/// The loss of a part is the weight of the edges within it. It grows faster the longer a part is (the quadrangle inequality), so
/// where the last of `k` parts of a prefix begins lies between where it begins for one part less and for the next longer prefix
/// (Knuth, "Optimum binary search trees", 1971): together quadratic steps.
fn cut(order: &[usize], edges: &[Edge], levels: usize) -> Vec<std::ops::Range<usize>> {
    let jobs = order.len();
    let within = within(order, edges);
    let mut loss: Vec<f64> = (0..=jobs).map(|end| within[0][end]).collect();
    let mut begins = vec![vec![0; jobs + 1]];
    for part in 1..levels.min(jobs.max(1)) {
        let mut less = loss.clone();
        let mut begin = vec![0; jobs + 1];
        for end in (1..=jobs).rev() {
            let to = if end == jobs { jobs } else { begin[end + 1] };
            let candidates = begins[part - 1][end]..=to.min(end);
            let cost = |from: usize| loss[from] + within[from][end];
            let best = candidates.min_by(|one, other| cost(*one).total_cmp(&cost(*other)));
            begin[end] = best.unwrap_or(end);
            less[end] = cost(begin[end]);
        }
        loss = less;
        begins.push(begin);
    }
    let mut parts = Vec::with_capacity(begins.len());
    let mut end = jobs;
    for begin in begins.iter().rev() {
        parts.push(begin[end]..end);
        end = begin[end];
    }
    parts.reverse();
    parts
}

/// `[from][to]`: the weight of edges between jobs of places `from..to` of the order.
fn within(order: &[usize], edges: &[Edge]) -> Vec<Vec<f64>> {
    let jobs = order.len();
    let mut place = vec![0; jobs];
    order.iter().enumerate().for_each(|(at, job)| place[*job] = at);
    let mut between = vec![vec![0.0; jobs]; jobs];
    for edge in edges {
        between[place[edge.before]][place[edge.after]] += edge.weight;
    }
    let mut within = vec![vec![0.0; jobs + 1]; jobs + 1];
    for from in (0..jobs).rev() {
        let mut leaving = 0.0;
        for to in from + 1..=jobs {
            leaving += between[from][to - 1];
            within[from][to] = within[from + 1][to] + leaving;
        }
    }
    within
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    /// Random jobs: the job with the lower number is more important.
    fn drawn(jobs: usize, rng: &mut StdRng) -> Vec<Edge> {
        let pairs = (0..jobs).flat_map(|before| (before + 1..jobs).map(move |after| (before, after)));
        let pairs: Vec<_> = pairs.filter(|_| rng.random_bool(0.5)).collect();
        let weight = |before: usize| (jobs - before) as f64 + 0.25;
        pairs.into_iter().map(|(before, after)| Edge { before, after, weight: weight(before) }).collect()
    }

    #[test]
    fn the_cut_of_an_order_is_the_best_there_is() {
        for seed in 0..200 {
            let mut rng = StdRng::seed_from_u64(seed);
            let jobs = rng.random_range(0..9);
            let edges = drawn(jobs, &mut rng);
            let order = random_order(jobs, &edges, &mut rng);
            for levels in 1..5 {
                let parts = cut(&order, &edges, levels);
                let within = within(&order, &edges);
                let lost: f64 = parts.iter().map(|part| within[part.start][part.end]).sum();
                // All ways to choose where parts end, by counting.
                let ways = (jobs + 1).pow(levels as u32 - 1);
                let loss = |mut way: usize| {
                    let mut ends: Vec<usize> = (1..levels)
                        .map(|_| {
                            let end = way % (jobs + 1);
                            way /= jobs + 1;
                            end
                        })
                        .chain([0, jobs])
                        .collect();
                    ends.sort_unstable();
                    ends.windows(2).map(|ends| within[ends[0]][ends[1]]).sum::<f64>()
                };
                let least = (0..ways).map(loss).fold(f64::MAX, f64::min);
                assert!((lost - least).abs() < 1e-9, "seed {seed}, {levels} levels: {lost} for {least}");
            }
        }
    }

    #[test]
    fn orders_follow_all_edges_and_differ() {
        let mut rng = StdRng::seed_from_u64(1);
        let edges = [Edge { before: 4, after: 0, weight: 1.0 }, Edge { before: 0, after: 2, weight: 1.0 }];
        let orders: std::collections::BTreeSet<Vec<usize>> =
            (0..200).map(|_| random_order(5, &edges, &mut rng)).collect();
        assert!(orders.len() > 10, "of the 20 that there are: {}", orders.len());
        for order in orders {
            let at = |job: usize| order.iter().position(|other| *other == job).unwrap();
            assert!(at(4) < at(0) && at(0) < at(2), "{order:?}");
        }
    }
}
