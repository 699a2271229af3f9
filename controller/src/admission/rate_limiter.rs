//! Limits how often an address may present wrong credentials: tenants' tokens and members' resume tickets.
//!
//! Each source address has a bucket of [`BURST`] refusals that fills at one every [`REFILL`]. While it is empty, requests from there
//! without valid credentials are refused with the time after which to retry, and are not logged. A request with the right ones
//! is admitted all the same, so that one program's mistake does not affect another: tokens and tickets are too long to be guessed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Refusals in a row before an address is rate-limited: a host full of workers with the same mistake.
const BURST: u32 = 32;

/// Time until one more refusal is allowed.
const REFILL: Duration = Duration::from_secs(1);

/// Addresses that are remembered; beyond that, those whose buckets fill first are forgotten.
const SOURCES_MAX: usize = 4096;

/// How a refusal is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitVerdict {
    /// The refusal is reported as it is.
    Allowed,
    /// The first refusal above the limit, which is reported to observers. Another one may come after this time.
    Exceeded(Duration),
    /// Above the limit, and not reported. Another one may come after this time.
    Suppressed(Duration),
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
pub(super) struct CredentialRateLimiter {
    buckets: BTreeMap<IpAddr, Bucket>,
}

impl CredentialRateLimiter {
    /// A request from `peer` is refused at `now` for its credentials.
    pub(super) fn refused(&mut self, now: Duration, peer: IpAddr) -> LimitVerdict {
        let source = source(peer);
        if !self.buckets.contains_key(&source) {
            self.make_room(now);
        }
        let bucket = self.buckets.entry(source).or_insert(Bucket { full: now, empty: false });
        let full = bucket.full.max(now) + REFILL;
        let wait = (full - now).saturating_sub(REFILL * BURST);
        if wait.is_zero() {
            *bucket = Bucket { full, empty: false };
            return LimitVerdict::Allowed;
        }
        let before = std::mem::replace(&mut bucket.empty, true);
        if before { LimitVerdict::Suppressed(wait) } else { LimitVerdict::Exceeded(wait) }
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

/// The source that an address counts for: of IPv6 the 64-bit network, since its owner has all its addresses.
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
        let mut limiter = CredentialRateLimiter::default();
        let now = Duration::from_secs(100);
        for _ in 0..BURST {
            assert_eq!(limiter.refused(now, ip(1)), LimitVerdict::Allowed);
        }
        assert_eq!(limiter.refused(now, ip(1)), LimitVerdict::Exceeded(REFILL));
        assert_eq!(limiter.refused(now + REFILL / 2, ip(1)), LimitVerdict::Suppressed(REFILL / 2));
        assert_eq!(limiter.refused(now, ip(2)), LimitVerdict::Allowed, "another address");
        assert_eq!(limiter.refused(now + REFILL, ip(1)), LimitVerdict::Allowed, "one more by now");
        assert_eq!(limiter.refused(now + REFILL, ip(1)), LimitVerdict::Exceeded(REFILL));
        let later = now + REFILL * (BURST + 1);
        assert!((0..BURST).all(|_| limiter.refused(later, ip(1)) == LimitVerdict::Allowed));
    }

    #[test]
    fn networks_of_64_bits_are_one_source_and_mapped_addresses_their_own() {
        let mut limiter = CredentialRateLimiter::default();
        let now = Duration::ZERO;
        for number in 0..u128::from(BURST) {
            let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | number);
            assert_eq!(limiter.refused(now, address.into()), LimitVerdict::Allowed);
        }
        let more = Ipv6Addr::from_bits(0x2001_0db8 << 96 | 0xffff);
        assert!(matches!(limiter.refused(now, more.into()), LimitVerdict::Exceeded(_)));
        let other = Ipv6Addr::from_bits(0x2001_0db9 << 96);
        assert_eq!(limiter.refused(now, other.into()), LimitVerdict::Allowed);
        let mapped = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert_eq!(limiter.refused(now, mapped.into()), LimitVerdict::Allowed);
    }

    #[test]
    fn memory_is_bounded_and_the_worst_are_remembered() {
        let mut limiter = CredentialRateLimiter::default();
        let now = Duration::ZERO;
        while limiter.refused(now, ip(0)) == LimitVerdict::Allowed {}
        for number in 1..10 * SOURCES_MAX as u32 {
            limiter.refused(now, ip(number));
            assert!(limiter.buckets.len() <= SOURCES_MAX);
        }
        assert!(matches!(limiter.refused(now, ip(0)), LimitVerdict::Suppressed(_)));
    }
}
