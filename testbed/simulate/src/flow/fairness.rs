//! Who gets how much of which link.

/// A transfer that wants as much as it can have.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// Links by number, each with the part of the rate that it bears.
    pub links: &'a [(usize, f64)],
    /// Classes of lower numbers come first, altogether.
    pub class: u8,
    /// Share within the class relative to others', above 0.
    pub weight: f64,
    /// The most, in bytes a second; infinite where there is no limit.
    pub limit: f64,
}

/// A rate for each transfer, in bytes a second, such that none can have more without taking from one that has less for its weight, or from
/// one of an earlier class.
///
/// Within a class all rates rise together, in proportion to their weights, until a link is full or a limit is reached; a job that meets it stays
/// there, and the others go on. `capacities` are the links' bytes a second. A transfer without a link or a limit is infinitely fast.
///
/// # Panics
///
/// When a transfer uses a link that there is not.
pub fn rates(capacities: &[f64], demands: &[Demand<'_>]) -> Vec<f64> {
    let mut left = capacities.to_vec();
    let mut rates = vec![0.0; demands.len()];
    let mut classes: Vec<u8> = demands.iter().map(|demand| demand.class).collect();
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        let rising = (0..demands.len()).filter(|index| demands[*index].class == class).collect();
        fill(&mut left, demands, rising, &mut rates);
    }
    rates
}

/// What is left of a link, relative to its capacity, that counts as nothing: rounding.
const FULL: f64 = 1e-12;

fn fill(left: &mut [f64], demands: &[Demand<'_>], mut rising: Vec<usize>, rates: &mut [f64]) {
    let capacities = left.to_vec();
    while !rising.is_empty() {
        let mut load = vec![0.0; left.len()];
        for index in &rising {
            let demand = &demands[*index];
            demand.links.iter().for_each(|(link, part)| load[*link] += part * demand.weight);
        }
        let links = left.iter().zip(&load).filter(|(_, load)| **load > 0.0).map(|(left, load)| left / load);
        let limits =
            rising.iter().map(|index| (demands[*index].limit - rates[*index]) / demands[*index].weight);
        let rise = links.chain(limits).fold(f64::INFINITY, f64::min).max(0.0);
        for index in &rising {
            rates[*index] += rise * demands[*index].weight;
        }
        if rise.is_infinite() {
            return;
        }
        for (left, load) in left.iter_mut().zip(&load) {
            *left = (*left - rise * load).max(0.0);
        }
        let full = |link: usize, part: f64| part > 0.0 && left[link] <= capacities[link] * FULL;
        let before = rising.len();
        rising.retain(|index| {
            let demand = &demands[*index];
            let limited = rates[*index] >= demand.limit * (1.0 - FULL);
            !limited && !demand.links.iter().any(|(link, part)| full(*link, *part))
        });
        assert!(rising.len() < before, "what stopped the rise stops a transfer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    const fn demand(links: &[(usize, f64)]) -> Demand<'_> {
        Demand { links, class: 0, weight: 1.0, limit: f64::INFINITY }
    }

    #[test]
    fn textbook_cases() {
        // One transfer over both links, one on each: the narrow link is halved, the wide one gives the rest.
        let both = [(0, 1.0), (1, 1.0)];
        let found = rates(&[10.0, 30.0], &[demand(&both), demand(&both[..1]), demand(&both[1..])]);
        assert_eq!(found, [5.0, 5.0, 25.0]);
        // Weights, limits and classes.
        let one = [(0, 1.0)];
        let heavy = Demand { weight: 3.0, ..demand(&one) };
        assert_eq!(rates(&[8.0], &[demand(&one), heavy]), [2.0, 6.0]);
        assert_eq!(rates(&[8.0], &[demand(&one), Demand { limit: 3.0, ..heavy }]), [5.0, 3.0]);
        let other = Demand { class: 1, ..demand(&one) };
        assert_eq!(rates(&[8.0], &[other, Demand { limit: 3.0, ..demand(&one) }]), [5.0, 3.0]);
        assert_eq!(rates(&[8.0], &[other, demand(&one)]), [0.0, 8.0]);
        // A ring sends twice its rate over the link.
        assert_eq!(rates(&[9.0], &[demand(&[(0, 2.0)]), demand(&one)]), [3.0, 3.0]);
        assert_eq!(rates(&[], &[demand(&[])]), [f64::INFINITY]);
    }

    /// No link exceeds its capacity, and no job can have more without taking from one with less.
    #[test]
    fn rates_are_max_min_fair() {
        for seed in 0..300 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let capacities: Vec<f64> = (0..6).map(|_| rng.random_range(1.0..100.0)).collect();
            let uses: Vec<Vec<(usize, f64)>> = (0..rng.random_range(1..15))
                .map(|_| {
                    let mut links: Vec<usize> =
                        (0..rng.random_range(1..4)).map(|_| rng.random_range(0..6)).collect();
                    links.sort_unstable();
                    links.dedup();
                    links.into_iter().map(|link| (link, rng.random_range(0.5..2.0))).collect()
                })
                .collect();
            let demands: Vec<Demand<'_>> = uses
                .iter()
                .map(|links| Demand {
                    links,
                    class: rng.random_range(0..3),
                    weight: rng.random_range(0.5..4.0),
                    limit: if rng.random_bool(0.3) { rng.random_range(1.0..50.0) } else { f64::INFINITY },
                })
                .collect();
            let found = rates(&capacities, &demands);
            let load = |link: usize| -> f64 {
                let part = |(rate, demand): (&f64, &Demand<'_>)| {
                    demand
                        .links
                        .iter()
                        .filter(|(on, _)| *on == link)
                        .map(|(_, part)| part * rate)
                        .sum::<f64>()
                };
                found.iter().zip(&demands).map(part).sum()
            };
            assert!((0..6).all(|link| load(link) <= capacities[link] * (1.0 + 1e-9)), "seed {seed}");
            for (index, demand) in demands.iter().enumerate() {
                let mine = found[index] / demand.weight;
                let bottleneck = |link: usize| {
                    let full = load(link) >= capacities[link] * (1.0 - 1e-9);
                    let others = demands
                        .iter()
                        .enumerate()
                        .filter(|(_, it)| it.links.iter().any(|(on, _)| *on == link));
                    full && others.clone().all(|(other, it)| {
                        it.class < demand.class
                            || found[other] / it.weight <= mine * (1.0 + 1e-9)
                            || (it.class == demand.class && other == index)
                    })
                };
                let limited = found[index] >= demand.limit * (1.0 - 1e-9);
                assert!(
                    limited || demand.links.iter().any(|(link, _)| bottleneck(*link)),
                    "seed {seed}, {index}"
                );
            }
        }
    }
}
