use super::demand::{CHANGE_INTERVAL, DemandMeter, FALL_INTERVAL, Known, MEASURED_MIN};
use super::*;
use netfold_control::{CommunicationPattern, Iteration};

const SECOND: Duration = Duration::from_secs(1);
const RATE: u64 = 100_000_000;

const NOTHING: Known = Known { most: RATE, host_rate: RATE, pattern: None, traffic: None, declared: None };

/// 100 ms of computing, then bytes that need as long at the whole rate.
fn pattern() -> CommunicationPattern {
    CommunicationPattern {
        iterations: 20,
        period_us: 200_000,
        span_us: 100_000,
        busy_us: 100_000,
        compute_us: 100_000,
        bytes: 1_200_000,
        deviation: 0,
        age_us: 0,
    }
}

#[test]
fn measurements_count_before_declarations_and_these_before_assumptions() {
    let mut meter = DemandMeter::default();
    let assumed = meter.note(SECOND, &NOTHING);
    assert_eq!((assumed.bits_per_second, assumed.source), (RATE / 8, DemandSource::Assumed));
    let declared = Iteration { work: 1, compute_us: 300_000, send_after_us: 0, bytes: 1_200_000 };
    let declared = Known { declared: Some(declared), ..NOTHING };
    assert_eq!(meter.note(SECOND, &declared).bits_per_second, 24_000_000);
    // Traffic counts once it was measured for a while, even if it is none.
    let traffic = Known { traffic: Some(0), ..declared };
    assert_eq!(meter.note(SECOND, &traffic).source, DemandSource::Declared);
    let idle = meter.note(SECOND + MEASURED_MIN, &traffic);
    assert_eq!((idle.bits_per_second, idle.source), (RATE / 1024, DemandSource::Traffic));
    let known = meter.note(2 * MEASURED_MIN + SECOND, &Known { pattern: Some(pattern()), ..traffic });
    assert_eq!((known.bits_per_second, known.source), (48_000_000, DemandSource::Pattern));
    // What is missing for a while is still what was measured.
    assert_eq!(meter.note(3 * MEASURED_MIN, &declared), known);
}

#[test]
fn no_report_is_more_than_the_links_of_the_hosts() {
    let most = Known { most: RATE / 4, ..NOTHING };
    for known in [
        Known { traffic: Some(u64::MAX), ..most },
        Known { pattern: Some(CommunicationPattern { bytes: u64::MAX, compute_us: 0, ..pattern() }), ..most },
        Known { pattern: Some(CommunicationPattern { bytes: 0, compute_us: 0, ..pattern() }), ..most },
        Known { most: 0, host_rate: 0, ..NOTHING },
    ] {
        let mut meter = DemandMeter::default();
        for second in 0..30 {
            let demand = meter.note(second * SECOND, &known).bits_per_second;
            assert!(demand <= known.most, "{demand} {known:?}");
        }
    }
}

#[test]
fn a_demand_rises_in_steps_and_falls_late() {
    let mut meter = DemandMeter::default();
    let of = |percent: u64| Known {
        pattern: Some(CommunicationPattern { compute_us: 100_000 * (100 - percent) / percent, ..pattern() }),
        ..NOTHING
    };
    let note =
        |meter: &mut DemandMeter, now, percent| meter.note(now, &of(percent)).bits_per_second / 1_000_000;
    assert_eq!(note(&mut meter, SECOND, 20), 19);
    assert_eq!(note(&mut meter, 2 * SECOND, 40), 19, "not at once");
    assert_eq!(note(&mut meter, SECOND + CHANGE_INTERVAL, 40), 38);
    assert_eq!(note(&mut meter, 3 * CHANGE_INTERVAL, 42), 38, "not for little");
    // A pause of a minute is not seen, a longer one is.
    assert_eq!(note(&mut meter, 60 * SECOND, 5), 38);
    assert_eq!(note(&mut meter, 100 * SECOND, 40), 38);
    let mut now = 100 * SECOND;
    while now < 100 * SECOND + 2 * FALL_INTERVAL {
        now += 10 * SECOND;
        note(&mut meter, now, 5);
    }
    assert_eq!(note(&mut meter, now, 5), 4);
}

/// Two links of the same rate, and trees over the first one; trees demand this part of it, and lose a tenth of their time if `slowed`.
struct Fixture {
    rebalancer: Rebalancer<u8>,
    now: Duration,
    trees: BTreeMap<u8, Observed>,
}

impl Fixture {
    fn new(parts: &[f64]) -> Self {
        let tree = |(name, part): (usize, &f64)| {
            let bits_per_second = (part * RATE as f64) as u64;
            let observed = Observed {
                links: vec![0],
                demand: Demand { bits_per_second, source: DemandSource::Pattern },
                pace: Some(Pace { period: SECOND, lost: SECOND / 10 }),
                movable: true,
            };
            (name as u8, observed)
        };
        Self {
            rebalancer: Rebalancer::default(),
            now: Duration::ZERO,
            trees: parts.iter().enumerate().map(tree).collect(),
        }
    }

    fn decide(&mut self, is_quiet: bool) -> Option<Move<u8>> {
        let mut demands = [0, 0];
        for tree in self.trees.values() {
            tree.links.iter().for_each(|link| demands[*link] += tree.demand.bits_per_second);
        }
        self.rebalancer.decide(self.now, &self.trees, (&demands, &[RATE; 2]), is_quiet, |_, demands| {
            Some(vec![usize::from(demands[1] < demands[0])])
        })
    }

    /// The moves of so long, with their times; those that are moved are faster then if `helps`.
    fn run(&mut self, time: Duration, helps: bool) -> Vec<(u64, u8)> {
        let end = self.now + time;
        let mut moves = Vec::new();
        while self.now < end {
            self.now += SECOND;
            if let Some(chosen) = self.decide(true) {
                moves.push((self.now.as_secs(), chosen.tree));
                let tree = self.trees.get_mut(&chosen.tree).unwrap();
                tree.links = chosen.links;
                if helps {
                    tree.pace = Some(Pace { period: SECOND, lost: Duration::ZERO });
                }
            }
        }
        moves
    }
}

#[test]
fn the_move_that_helps_most_is_chosen() {
    let mut fixture = Fixture::new(&[0.2, 0.5, 0.3]);
    let moves = fixture.run(Duration::from_secs(600), true);
    assert_eq!(moves.len(), 1, "{moves:?}");
    assert_eq!((fixture.trees[&1].links[0], moves[0].1), (1, 1));
    assert!(moves[0].0 >= BACKOFF_MIN.as_secs());
    assert_eq!(fixture.rebalancer.decision(&1), Some(Decision::Improved));
}

#[test]
fn trees_stay_without_a_reason_of_their_own() {
    let stays = |change: fn(&mut Observed), decision: Decision| {
        let mut fixture = Fixture::new(&[0.5, 0.4]);
        fixture.trees.values_mut().for_each(change);
        assert_eq!(fixture.run(Duration::from_secs(600), true), [], "{decision:?}");
        assert_eq!(fixture.rebalancer.decision(&0), Some(decision));
        assert!(!decision.to_string().is_empty());
    };
    stays(|tree| tree.pace = None, Decision::Unknown);
    stays(|tree| tree.movable = false, Decision::Fixed);
    stays(|tree| tree.links.clear(), Decision::Local);
    stays(|tree| tree.pace = Some(Pace { period: SECOND, lost: SECOND / 50 }), Decision::Content);
    // The links have room.
    stays(|tree| tree.demand.bits_per_second /= 2, Decision::Content);
    // Nothing is moved before others are back.
    let mut fixture = Fixture::new(&[0.5, 0.4]);
    fixture.now = Duration::from_secs(600);
    assert_eq!(fixture.decide(false), None);
    for _ in 0..2 {
        fixture.now += BACKOFF_MIN * 2 / 3;
        assert_eq!(fixture.decide(false), None);
    }
    assert_eq!(fixture.rebalancer.decision(&0), Some(Decision::Damped));
    fixture.now += SEARCH_INTERVAL;
    assert!(fixture.decide(true).is_some());
}

#[test]
fn moves_that_do_not_help_become_rare() {
    let mut fixture = Fixture::new(&[0.6, 0.6]);
    let mut moves = Vec::new();
    for _ in 0..48 {
        moves.extend(fixture.run(Duration::from_secs(1800), false));
        // Both are at the same link again, as after other jobs have changed.
        fixture.trees.values_mut().for_each(|tree| tree.links = vec![0]);
    }
    // A day: each failed move counts twice.
    let of = |name: u8| moves.iter().filter(|(_, tree)| *tree == name).count();
    assert!(of(0).max(of(1)) <= (MOVES_MAX as usize + 8) / 2 + 1, "{moves:?}");
    let gaps: Vec<u64> = moves.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(gaps.iter().all(|gap| *gap >= INTERVAL.as_secs()), "{gaps:?}");
    assert!(gaps.last() > gaps.first(), "{gaps:?}");
}

#[test]
fn a_job_stays_twice_as_long_after_each_move() {
    let mut fixture = Fixture::new(&[0.6, 0.4]);
    fixture.trees.get_mut(&1).unwrap().movable = false;
    let mut moves = Vec::new();
    // It becomes faster by each move, and is slow again a minute later.
    while moves.len() < MOVES_MAX as usize {
        let moved = fixture.run(BACKOFF_MIN, true);
        moves.extend(moved.into_iter().map(|(at, _)| at));
        let tree = fixture.trees.get_mut(&0).unwrap();
        if fixture.rebalancer.decision(&0) == Some(Decision::Improved) {
            (tree.links, tree.pace) = (vec![0], Some(Pace { period: SECOND, lost: SECOND / 10 }));
        }
        assert!(fixture.now < 12 * BACKOFF_MAX, "{moves:?}");
    }
    let mut least = BACKOFF_MIN;
    for pair in moves.windows(2) {
        let gap = Duration::from_secs(pair[1] - pair[0]);
        assert!(gap >= least && gap < least + 3 * BACKOFF_MIN, "{gap:?} instead of {least:?}: {moves:?}");
        least = (2 * least).min(BACKOFF_MAX);
    }
}

#[test]
fn policies_have_names() {
    for policy in PlacementPolicy::ALL {
        assert_eq!(PlacementPolicy::from_name(policy.name()), Some(policy));
    }
    assert_eq!(PlacementPolicy::from_name("fastest"), None);
}
