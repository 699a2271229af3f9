//! One shift a job from one shift for each job and link.
//!
//! A link requires certain time offsets between its jobs; what matters is the difference between two of them. Jobs and links are the nodes of
//! a graph, with an edge for each job on a link. Where it has no loop, one job of each connected part may stay where it is, and all
//! others follow: from a job over a link to the next job. Source: CASSINI (NSDI 2024), section 4.2 as far as we know.

use std::collections::{BTreeMap, VecDeque};

/// A job is on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affinity {
    /// The job.
    pub job: usize,
    /// The link.
    pub link: usize,
    /// By how much the link requires it to be delayed, in microseconds.
    pub shift_us: u64,
}

/// Jobs and links go round in a circle, so there may be no shifts that suit all links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("jobs and links form a loop at job {job} and link {link}: place the jobs otherwise")]
pub struct Loop {
    /// A job of it.
    pub job: usize,
    /// A link of it.
    pub link: usize,
}

/// The shift of each job, in microseconds, less than its period; `periods_us` has all jobs' and no 0.
///
/// For two jobs of a link the difference of their shifts is what the link requires, up to whole periods of the two.
///
/// # Errors
///
/// [`Loop`] when the graph has one.
///
/// # Panics
///
/// When an edge names a job without a period, or a period is 0.
pub fn shifts(periods_us: &[u64], edges: &[Affinity]) -> Result<Vec<u64>, Loop> {
    let mut of_link: BTreeMap<usize, Vec<Affinity>> = BTreeMap::new();
    let mut of_job: Vec<Vec<Affinity>> = vec![Vec::new(); periods_us.len()];
    for edge in edges {
        of_link.entry(edge.link).or_default().push(*edge);
        of_job[edge.job].push(*edge);
    }
    let mut shifts: Vec<Option<u64>> = vec![None; periods_us.len()];
    // By which link each link or job was reached, so that it is not gone back by.
    let mut reached: BTreeMap<usize, usize> = BTreeMap::new();
    for root in 0..periods_us.len() {
        if shifts[root].is_some() {
            continue;
        }
        shifts[root] = Some(0);
        let mut queue = VecDeque::from([(root, None, 0)]);
        while let Some((job, by, shift)) = queue.pop_front() {
            for here in of_job[job].iter().filter(|here| by != Some(here.link)) {
                if reached.insert(here.link, job).is_some() {
                    return Err(Loop { job, link: here.link });
                }
                for there in of_link[&here.link].iter().filter(|there| **there != *here) {
                    if shifts[there.job].is_some() {
                        return Err(Loop { job: there.job, link: here.link });
                    }
                    let next = next_shift(shift, here.shift_us, there.shift_us, periods_us[there.job]);
                    shifts[there.job] = Some(next);
                    queue.push_back((there.job, Some(here.link), next));
                }
            }
        }
    }
    Ok(shifts.into_iter().flatten().collect())
}

/// The shift of a job from that of another on the same link: its own there, and what the other has come off its own.
fn next_shift(shift: u64, here: u64, there: u64, period: u64) -> u64 {
    let period = i128::from(period);
    // In the unshifted time of the link the other is `shift - here` late, so this one is to be, too.
    ((i128::from(shift) - i128::from(here) + i128::from(there)).rem_euclid(period)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn edge(job: usize, link: usize, shift_us: u64) -> Affinity {
        Affinity { job, link, shift_us }
    }

    #[test]
    fn shifts_follow_links_from_job_to_job() {
        // Link 0: job 1 is 30 later than job 0. Link 1: job 2 is 20 earlier than job 1. Job 3 is alone.
        let edges = [edge(0, 0, 10), edge(1, 0, 40), edge(1, 1, 20), edge(2, 1, 0)];
        assert_eq!(shifts(&[100, 100, 100, 50], &edges), Ok(vec![0, 30, 10, 0]));
        // Modulo the period of the job that is reached.
        assert_eq!(shifts(&[100, 25], &[edge(0, 0, 10), edge(1, 0, 5)]), Ok(vec![0, 20]));
        assert_eq!(shifts(&[], &[]), Ok(vec![]));
    }

    #[test]
    fn loops_are_refused() {
        let two_links = [edge(0, 0, 0), edge(1, 0, 5), edge(0, 1, 0), edge(1, 1, 5)];
        assert!(shifts(&[10, 10], &two_links).is_err());
        let triangle =
            [edge(0, 0, 0), edge(1, 0, 1), edge(1, 1, 0), edge(2, 1, 1), edge(2, 2, 0), edge(0, 2, 1)];
        assert!(shifts(&[10, 10, 10], &triangle).is_err());
        assert!(shifts(&[10, 10, 10], &triangle[..5]).is_ok());
        // The same job twice on a link.
        assert!(shifts(&[10, 10], &[edge(0, 0, 0), edge(0, 0, 1)]).is_err());
    }

    #[test]
    fn a_tree_of_any_shape_keeps_every_links_differences() {
        use rand::{RngExt, SeedableRng};
        for seed in 0..200 {
            let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
            let jobs = rng.random_range(1..12_usize);
            let mut edges = Vec::new();
            for job in 1..jobs {
                let other = rng.random_range(0..job);
                // On a link of that job's own with it, or one that is there.
                let links: Vec<usize> =
                    edges.iter().filter(|edge: &&Affinity| edge.job == other).map(|edge| edge.link).collect();
                match links.first().filter(|_| rng.random_bool(0.5)) {
                    Some(link) => edges.push(edge(job, *link, rng.random_range(0..60))),
                    None => {
                        edges.push(edge(other, job, rng.random_range(0..60)));
                        edges.push(edge(job, job, rng.random_range(0..60)));
                    }
                }
            }
            let shifts =
                shifts(&vec![60; jobs], &edges).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            for one in &edges {
                for other in edges.iter().filter(|other| other.link == one.link) {
                    let wanted = (other.shift_us + 60 - one.shift_us) % 60;
                    let got = (shifts[other.job] + 60 - shifts[one.job]) % 60;
                    assert_eq!(wanted, got, "seed {seed}, link {}", one.link);
                }
            }
        }
    }
}
