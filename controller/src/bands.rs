//! Which classes of packets each job has, so that some jobs go before others: an operator's policy, as functions of their arguments.
//!
//! The 16 classes of packets are cut into [`Bands`], the most important first. A job has one of them, by the [`Ranking`] of all jobs that
//! run: by the priority of its tenant, or by GPU intensity ([`crux`]). Its own classes stay in their order within it.

use crate::schedule::crux;
use netfold_control::Band;
use netfold_control::Iteration;
use netfold_wire::{CLASSES_MAX, Dscp};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Most jobs that are ranked by GPU intensity at once: the time that it takes grows with the square. Others have the last band.
pub const RANKED_MAX: usize = 256;

/// Seed of the random orders in which levels are searched: the same jobs have the same levels.
const SEED: u64 = 0x6372_7578;

/// The order of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ranking {
    /// Nothing: all jobs have all classes.
    #[default]
    Alike,
    /// The priority of the tenant: those of 0 have the last band, those of 1 the one before, and so on.
    Priority,
    /// GPU intensity, of jobs that are declared with an iteration of theirs; others have the last band.
    Crux,
}

impl Ranking {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Alike, Self::Priority, Self::Crux];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alike => "alike",
            Self::Priority => "priority",
            Self::Crux => "crux",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ranking| ranking.name() == name)
    }
}

/// The bands that jobs can have, 1 to 16, the most important first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bands(Vec<Band>);

/// Why classes are not cut like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BandsError {
    /// Not a number that 16 can be divided by, and no ranges.
    #[error("'{0}' says no bands: give 1, 2, 4, 8 or 16, or ranges of classes 0 to 15 as in 12-15,4-11,0-3")]
    Text(String),
    /// A band does not lie below the one before.
    #[error("band {band} is not below band {above}: give the most important first, none of them twice")]
    Order {
        /// The one that is not below.
        band: Band,
        /// The one that was given before.
        above: Band,
    },
}

impl Bands {
    /// So many bands of equal size; the number is a power of two, 16 at most.
    pub fn equal(bands: u8) -> Option<Self> {
        if !bands.is_power_of_two() || bands > CLASSES_MAX {
            return None;
        }
        let classes = CLASSES_MAX / bands;
        let all = (0..bands).rev().map(|band| Band::new(band * classes, classes).ok());
        all.collect::<Option<_>>().map(Self)
    }

    /// The most important first.
    pub fn all(&self) -> &[Band] {
        &self.0
    }
}

impl Default for Bands {
    fn default() -> Self {
        Self::equal(4).unwrap_or(Self(vec![Band::ALL]))
    }
}

impl FromStr for Bands {
    type Err = BandsError;
    fn from_str(text: &str) -> Result<Self, BandsError> {
        let wrong = || BandsError::Text(text.to_owned());
        if let Ok(number) = text.parse::<u8>() {
            return Self::equal(number).ok_or_else(wrong);
        }
        let mut all: Vec<Band> = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let [first, last] = [first, last].map(|class| class.trim().parse::<u8>().map_err(|_| wrong()));
            let (first, last) = (first?, last?);
            let classes = last.checked_sub(first).and_then(|more| more.checked_add(1)).ok_or_else(wrong)?;
            let band = Band::new(first, classes).map_err(|_| wrong())?;
            if let Some(above) = all.last().filter(|above| above.first() <= band.last()) {
                return Err(BandsError::Order { band, above: *above });
            }
            all.push(band);
        }
        Ok(Self(all))
    }
}

/// How classes are given to jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Banding {
    /// The order of jobs.
    pub ranking: Ranking,
    /// The bands that jobs are given.
    pub bands: Bands,
    /// The DSCP of each class in IP headers.
    pub dscp: Dscp,
    /// Bits a second of links that are not in the topology: those of hosts.
    pub link_bps: u64,
}

impl Default for Banding {
    /// All classes for every job, and no DSCP.
    fn default() -> Self {
        let link_bps = 100_000_000_000;
        Self { ranking: Ranking::Alike, bands: Bands::default(), dscp: Dscp::NONE, link_bps }
    }
}

/// A job that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    /// The priority of its tenant.
    pub priority: u8,
    /// What it does in an iteration, if that is known.
    pub iteration: Option<Iteration>,
    /// The links of each of its trees, by number.
    pub trees: Vec<Vec<usize>>,
}

impl Banding {
    /// The band of each job; `None` for all of them where jobs are not ranked. `rates_bps` are the links'.
    ///
    /// The same jobs in the same order have the same bands.
    pub fn of(&self, jobs: &[Contender], rates_bps: &[u64]) -> Vec<Option<Band>> {
        let all = self.bands.all();
        let last = all.len().saturating_sub(1);
        let banded = |level: usize| all.get(level.min(last)).map(|band| band.marked(self.dscp));
        match self.ranking {
            Ranking::Alike => {
                let alike = Some(Band::ALL.marked(self.dscp)).filter(|_| self.dscp != Dscp::NONE);
                vec![alike; jobs.len()]
            }
            Ranking::Priority => {
                let level = |job: &Contender| last.saturating_sub(usize::from(job.priority));
                jobs.iter().map(|job| banded(level(job))).collect()
            }
            Ranking::Crux => by_intensity(jobs, rates_bps, all.len()).into_iter().map(banded).collect(),
        }
    }
}

/// The level of each job, from 0, of which there are so many at least 1; the last for those that are not ranked.
fn by_intensity(jobs: &[Contender], rates_bps: &[u64], levels: usize) -> Vec<usize> {
    let mut found = vec![levels.saturating_sub(1); jobs.len()];
    let known = jobs.iter().enumerate().filter(|(_, job)| job.iteration.is_some()).take(RANKED_MAX);
    let (places, known): (Vec<usize>, Vec<&Contender>) = known.unzip();
    let (trees, rates_bps) = essential(&known, rates_bps);
    let profiles: Vec<crux::Job> =
        known.iter().zip(&trees).filter_map(|(job, trees)| Some(profile(job.iteration?, trees))).collect();
    let rates: Vec<f64> = rates_bps.iter().map(|rate| (*rate).max(8) as f64 / 8.0).collect();
    let decided = crux::plan(&profiles, &rates, levels.max(1), SEED);
    places.into_iter().zip(decided).for_each(|(at, decision)| found[at] = decision.level);
    found
}

/// The relevant links of each job's trees, renumbered, with their rates: those that several jobs use, and the slowest of each
/// tree. A large job has thousands of links that no other job uses.
fn essential(jobs: &[&Contender], rates_bps: &[u64]) -> (Vec<Vec<Vec<usize>>>, Vec<u64>) {
    let rate = |link: usize| rates_bps.get(link).copied().unwrap_or(u64::MAX);
    let mut users: Vec<(usize, bool)> = vec![(usize::MAX, false); rates_bps.len()];
    for (at, job) in jobs.iter().enumerate() {
        for link in job.trees.iter().flatten() {
            if let Some((user, shared)) = users.get_mut(*link) {
                *shared |= *user != usize::MAX && *user != at;
                *user = at;
            }
        }
    }
    let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
    let mut kept_bps = Vec::new();
    let mut number = |link: usize| {
        *numbers.entry(link).or_insert_with(|| {
            kept_bps.push(rate(link));
            kept_bps.len() - 1
        })
    };
    let mut keep = |links: &Vec<usize>| {
        let slowest = links.iter().copied().min_by_key(|link| rate(*link));
        let counts =
            |link: &usize| Some(*link) == slowest || users.get(*link).is_some_and(|(_, shared)| *shared);
        links.iter().copied().filter(counts).map(&mut number).collect()
    };
    let trees = jobs.iter().map(|job| job.trees.iter().map(&mut keep).collect()).collect();
    (trees, kept_bps)
}

/// A job as the scheduler sees it: every link of a tree carries what a worker sends there, since switches sum it.
fn profile(iteration: Iteration, trees: &[Vec<usize>]) -> crux::Job {
    let Iteration { work, compute_us, send_after_us, bytes } = iteration;
    let share = bytes as f64 / trees.len().max(1) as f64;
    let flow = |links: &Vec<usize>| crux::Flow { bytes: share, paths: vec![links.clone()] };
    let flows = trees.iter().filter(|links| !links.is_empty()).map(flow).collect();
    crux::Job { work: work as f64, compute_us, send_after_us, flows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(bands: &str) -> String {
        match bands.parse::<Bands>() {
            Ok(bands) => bands.all().iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn bands_are_a_number_or_ranges() {
        assert_eq!(text("1"), "0-15");
        assert_eq!(text("4"), "12-15 8-11 4-7 0-3");
        assert_eq!(text("16").split(' ').count(), 16);
        assert_eq!(text("12-15,4-11, 0-3"), "12-15 4-11 0-3");
        assert_eq!(text("15,0-7"), "15 0-7");
        for wrong in ["", "0", "3", "32", "x", "4-", "7-4,1", "0-16", "12-15,", "-1", "1-2-3", "0-255"] {
            assert!(text(wrong).contains("says no bands"), "{wrong}: {}", text(wrong));
        }
        for wrong in ["0-3,4-7", "8-15,4-8", "3,3"] {
            assert!(text(wrong).contains("is not below"), "{wrong}: {}", text(wrong));
        }
    }

    fn job(priority: u8, iteration: Option<(u64, u64, u64)>, links: &[usize]) -> Contender {
        let iteration = iteration.map(|(work, compute_us, bytes)| Iteration {
            work,
            compute_us,
            send_after_us: compute_us,
            bytes,
        });
        Contender { priority, iteration, trees: vec![links.to_vec()] }
    }

    fn firsts(banding: &Banding, jobs: &[Contender]) -> Vec<Option<u8>> {
        banding.of(jobs, &[8_000_000_000; 4]).iter().map(|band| band.map(|band| band.first())).collect()
    }

    fn anything() -> impl Strategy<Value = Contender> {
        let number =
            || (0_u32..54, any::<u64>()).prop_map(|(bits, number)| 1 + (number >> (64 - bits).min(63)));
        let iteration = (number(), number(), number(), number()).prop_map(|(work, compute, after, bytes)| {
            let compute_us = compute.min(Iteration::COMPUTE_US_MAX);
            Iteration {
                work: work.min(Iteration::MOST),
                compute_us,
                send_after_us: after.min(compute_us),
                bytes: bytes.min(Iteration::MOST),
            }
        });
        let trees = prop::collection::vec(prop::collection::vec(0_usize..6, 0..4), 0..3);
        (any::<u8>(), prop::option::weighted(0.9, iteration), trees)
            .prop_map(|(priority, iteration, trees)| Contender { priority, iteration, trees })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_jobs_declare_each_has_a_band(
            jobs in prop::collection::vec(anything(), 0..6),
            rates_bps in prop::collection::vec(any::<u64>(), 6),
            bands in prop::sample::select(vec!["1", "4", "16", "15,3-7"]),
        ) {
            prop_assert!(jobs.iter().filter_map(|job| job.iteration).all(|iteration| iteration.fault().is_none()));
            let banding = Banding { ranking: Ranking::Crux, bands: bands.parse().unwrap(), ..Banding::default() };
            let given = banding.of(&jobs, &rates_bps);
            prop_assert_eq!(given.len(), jobs.len());
            for (job, band) in jobs.iter().zip(&given) {
                let place = banding.bands.all().iter().position(|all| Some(*all) == *band);
                prop_assert!(place.is_some_and(|at| job.iteration.is_some() || at + 1 == banding.bands.all().len()));
            }
            prop_assert_eq!(banding.of(&jobs, &rates_bps), given, "the same again");
        }
    }

    #[test]
    fn priorities_count_from_the_last_band() {
        let banding = Banding { ranking: Ranking::Priority, ..Banding::default() };
        let jobs = [0, 1, 3, 200].map(|priority| job(priority, None, &[0]));
        assert_eq!(firsts(&banding, &jobs), [Some(0), Some(4), Some(12), Some(12)]);
        assert_eq!(firsts(&Banding::default(), &jobs), [None; 4]);
        let dscp = Dscp::new(&[8; 16]).unwrap();
        let marked = Banding { dscp, ..Banding::default() };
        assert_eq!(marked.of(&jobs[..1], &[]), [Some(Band::ALL.marked(dscp))]);
    }

    #[test]
    fn jobs_with_higher_intensity_have_higher_priority() {
        let banding = Banding { ranking: Ranking::Crux, ..Banding::default() };
        // A second of a link that carries 1 GB a second.
        let (small, large) = (Some((10, 1_000_000, 1 << 30)), Some((80, 1_000_000, 1 << 30)));
        let bands = firsts(&banding, &[job(0, small, &[0, 1]), job(0, large, &[1, 2]), job(9, None, &[1])]);
        assert!(bands[1] > bands[0], "{bands:?}");
        assert_eq!(bands[2], Some(0), "who says nothing of itself");
        assert_eq!(firsts(&banding, &[]), []);
        let many: Vec<Contender> =
            (0..RANKED_MAX as u64 + 3).map(|at| job(0, Some((1 + at, 1_000_000, 1 << 20)), &[])).collect();
        assert_eq!(firsts(&banding, &many)[RANKED_MAX..], [Some(0); 3], "time is bounded");
    }
}
