//! Who shows wrong tokens too often.
//!
//! Each source address has a bucket of [`BURST`] refusals that fills at one every [`REFILL`]. While it is empty, joins from there
//! without good credentials are told to come later, and nobody else hears of them. Whoever shows a tenant's own token is let in
//! all the same, so that one program's mistake is not another's: tokens are too long to be found by trying.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Refusals in a row before an address is slowed down: a host full of workers with the same mistake.
const BURST: u32 = 32;

/// Time for one more.
const REFILL: Duration = Duration::from_secs(1);

/// Addresses that are remembered; of more, those are forgotten whose buckets fill first.
const SOURCES_MAX: usize = 4096;

/// What becomes of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blamed {
    /// It is told as it is.
    Told,
    /// It is the first of too many, which those who watch should know. Another one may come after so long.
    Begun(Duration),
    /// Too many: nobody need know. Another one may come after so long.
    Slowed(Duration),
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// When it will be full.
    full: Duration,
    /// Whether it was empty at the last refusal.
    empty: bool,
}

/// The buckets of all addresses that are not full.
#[derive(Debug, Default)]
pub(super) struct Blame {
    buckets: BTreeMap<IpAddr, Bucket>,
}

impl Blame {
    /// A join from `peer` is refused at `now` for its credentials.
    pub(super) fn refused(&mut self, now: Duration, peer: IpAddr) -> Blamed {
        let source = source(peer);
        if !self.buckets.contains_key(&source) {
            self.make_room(now);
        }
        let bucket = self.buckets.entry(source).or_insert(Bucket { full: now, empty: false });
        let full = bucket.full.max(now) + REFILL;
        let wait = (full - now).saturating_sub(REFILL * BURST);
        if wait.is_zero() {
            *bucket = Bucket { full, empty: false };
            return Blamed::Told;
        }
        let before = std::mem::replace(&mut bucket.empty, true);
        if before { Blamed::Slowed(wait) } else { Blamed::Begun(wait) }
    }

    fn make_room(&mut self, now: Duration) {
        if self.buckets.len() < SOURCES_MAX {
            return;
        }
        self.buckets.retain(|_, bucket| bucket.full > now);
        while self.buckets.len() >= SOURCES_MAX
            && let Some(first) = self.buckets.iter().min_by_key(|(_, bucket)| bucket.full).map(|(ip, _)| *ip)
        {
            self.buckets.remove(&first);
        }
    }
}

/// Who is behind an address: of IPv6, whoever has the network of 64 bits, and with it all its addresses.
fn source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let mut blame = Blame::default();
        let now = Duration::from_secs(100);
        for _ in 0..BURST {
            assert_eq!(blame.refused(now, ip(1)), Blamed::Told);
        }
        assert_eq!(blame.refused(now, ip(1)), Blamed::Begun(REFILL));
        assert_eq!(blame.refused(now + REFILL / 2, ip(1)), Blamed::Slowed(REFILL / 2));
        assert_eq!(blame.refused(now, ip(2)), Blamed::Told, "another address");
        assert_eq!(blame.refused(now + REFILL, ip(1)), Blamed::Told, "one more by now");
        assert_eq!(blame.refused(now + REFILL, ip(1)), Blamed::Begun(REFILL));
        let later = now + REFILL * (BURST + 1);
        assert!((0..BURST).all(|_| blame.refused(later, ip(1)) == Blamed::Told));
    }

    #[test]
    fn networks_of_64_bits_are_one_source_and_mapped_addresses_their_own() {
        let mut blame = Blame::default();
        let now = Duration::ZERO;
        for number in 0..u128::from(BURST) {
            let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | number);
            assert_eq!(blame.refused(now, address.into()), Blamed::Told);
        }
        let more = Ipv6Addr::from_bits(0x2001_0db8 << 96 | 0xffff);
        assert!(matches!(blame.refused(now, more.into()), Blamed::Begun(_)));
        let other = Ipv6Addr::from_bits(0x2001_0db9 << 96);
        assert_eq!(blame.refused(now, other.into()), Blamed::Told);
        let mapped = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert_eq!(blame.refused(now, mapped.into()), Blamed::Told);
    }

    #[test]
    fn memory_is_bounded_and_the_worst_are_remembered() {
        let mut blame = Blame::default();
        let now = Duration::ZERO;
        while blame.refused(now, ip(0)) == Blamed::Told {}
        for number in 1..10 * SOURCES_MAX as u32 {
            blame.refused(now, ip(number));
            assert!(blame.buckets.len() <= SOURCES_MAX);
        }
        assert!(matches!(blame.refused(now, ip(0)), Blamed::Slowed(_)));
    }
}
