//! Transfers that have one rate over many links.

/// A transfer: so many bytes at one rate, of which each of its links bears a part.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperFlow {
    /// Bytes of each worker's tensor, or of a plain transfer.
    pub bytes: f64,
    /// Links by number, each with the bytes that it bears for each of these.
    pub links: Vec<(usize, f64)>,
    /// The most bytes a second, by what is not a link.
    pub limit: f64,
}

/// A job's slots at a switch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pool {
    /// Slots that the job has there.
    pub slots: f64,
    /// Bytes of a packet's lanes.
    pub payload_bytes: f64,
    /// From a worker to the switch and back, in seconds.
    pub round_trip_s: f64,
    /// By how much the slowest worker's packet is later than the first's, in seconds.
    pub skew_s: f64,
}

impl Pool {
    /// Bytes a second that the slots allow: each holds a packet for a round trip and the skew.
    pub fn rate(&self) -> f64 {
        self.slots * self.payload_bytes / (self.round_trip_s + self.skew_s)
    }

    /// Slots with which a link of so many bytes a second is full.
    pub fn slots_for(&self, rate: f64) -> f64 {
        rate * (self.round_trip_s + self.skew_s) / self.payload_bytes
    }
}

impl HyperFlow {
    /// From one host to another, over each of these links.
    pub fn path(bytes: f64, links: &[usize]) -> Self {
        Self { bytes, links: links.iter().map(|link| (*link, 1.0)).collect(), limit: f64::INFINITY }
    }

    /// Over several paths at once, an equal part of every packet's worth on each: what spraying does.
    pub fn sprayed(bytes: f64, paths: &[Vec<usize>]) -> Self {
        let part = 1.0 / paths.len() as f64;
        let parts: Vec<(Vec<usize>, f64)> = paths.iter().map(|path| (path.clone(), part)).collect();
        Self::tied(bytes, &parts)
    }

    /// An all-reduce by an aggregation tree: all links up and down bear every byte, and every switch's slots are a limit.
    pub fn tree(bytes: f64, links: &[usize], pools: &[Pool]) -> Self {
        let limit = pools.iter().map(Pool::rate).fold(f64::INFINITY, f64::min);
        Self { limit, ..Self::path(bytes, links) }
    }

    /// An all-reduce by a ring of so many workers: each of these links bears 2 (n - 1) / n of the bytes.
    pub fn ring(bytes: f64, workers: usize, links: &[usize]) -> Self {
        let part = 2.0 * (workers as f64 - 1.0) / workers as f64;
        Self::tied(bytes, &[(links.to_vec(), part)])
    }

    /// Any sets of links whose rates are in a fixed ratio: each set, with its part for each byte. A tree that folds a part of the chunks,
    /// with the rest sent to a parameter server, is such a transfer.
    pub fn tied(bytes: f64, parts: &[(Vec<usize>, f64)]) -> Self {
        let mut links: Vec<(usize, f64)> = Vec::new();
        for (set, part) in parts {
            for link in set {
                match links.iter_mut().find(|(known, _)| known == link) {
                    Some((_, sum)) => *sum += part,
                    None => links.push((*link, *part)),
                }
            }
        }
        Self { bytes, links, limit: f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_as_published() {
        // (Gbit/s, round trip in us, payload) and the slots that fill it: SwitchML has 512 and 128 for the first two.
        for (gigabits, round_trip_us, payload_bytes, slots) in
            [(100.0, 10.0, 256.0, 488.0), (10.0, 20.0, 256.0, 98.0), (400.0, 22.0, 1024.0, 1074.0)]
        {
            let pool = Pool { slots: 1.0, payload_bytes, round_trip_s: round_trip_us * 1e-6, skew_s: 0.0 };
            let rate = gigabits * 1e9 / 8.0;
            assert_eq!(pool.slots_for(rate).round(), slots);
            // Linear up to there, flat after it.
            for times in [0.25, 0.5, 1.0, 2.0] {
                let pool = Pool { slots: times * pool.slots_for(rate), ..pool };
                let flow = HyperFlow::tree(1.0, &[0, 1], &[pool]);
                let demand =
                    super::super::Demand { links: &flow.links, class: 0, weight: 1.0, limit: flow.limit };
                let got = super::super::rates(&[rate, rate], &[demand])[0];
                assert!((got / rate - f64::min(times, 1.0)).abs() < 1e-9, "{times}: {got}");
            }
        }
    }

    #[test]
    fn links_bear_what_the_collective_sends() {
        assert_eq!(HyperFlow::ring(1.0, 16, &[0]).links, [(0, 1.875)]);
        assert_eq!(HyperFlow::sprayed(1.0, &[vec![0, 1], vec![0, 2]]).links, [(0, 1.0), (1, 0.5), (2, 0.5)]);
        // 60 % folded in the rack of 4, the rest as 4 transfers up.
        assert_eq!(HyperFlow::tied(1.0, &[(vec![3], 0.6), (vec![3], 0.4 * 4.0)]).links, [(3, 2.2)]);
        let pool = Pool { slots: 2.0, payload_bytes: 8.0, round_trip_s: 1.0, skew_s: 1.0 };
        assert_eq!(HyperFlow::tree(1.0, &[5], &[Pool { slots: 9.0, ..pool }, pool]).limit, 8.0);
    }
}
