//! Which UDP ports of an address workers have: each has consecutive ones, known by the first.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use netfold_control::PATHS_MAX;

/// Of those who hold UDP ports, by their first, one that holds a port from `first` on; `count` is how many each holds.
pub(crate) fn overlapping<V>(
    held: &BTreeMap<SocketAddr, V>,
    (first, udp_ports): (SocketAddr, u8),
    count: impl Fn(&V) -> u8,
) -> Option<SocketAddr> {
    let last = |first: u16, count: u8| first.saturating_add(u16::from(count.max(1) - 1));
    let at = |port| SocketAddr::new(first.ip(), port);
    // A worker has no more than so many.
    let below = at(first.port().saturating_sub(u16::from(PATHS_MAX) - 1));
    let mut candidates = held.range(below..=at(last(first.port(), udp_ports)));
    let overlaps = candidates.find(|(other, value)| last(other.port(), count(value)) >= first.port());
    overlaps.map(|(other, _)| *other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_overlap_from_the_first_to_the_last() {
        let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let held = BTreeMap::from([(at(100), 64), (at(200), 1), (SocketAddr::from(([10, 0, 0, 2], 300)), 1)]);
        let found = |port, count| overlapping(&held, (at(port), count), |count| *count);
        assert_eq!([found(163, 1), found(84, 17), found(100, 1)], [Some(at(100)); 3]);
        assert_eq!([found(164, 36), found(84, 16), found(201, 64), found(300, 1)], [None; 4]);
        assert_eq!([found(199, 2), found(200, 0)], [Some(at(200)); 2]);
        assert_eq!(found(65_535, 64), None);
    }
}
