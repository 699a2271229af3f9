//! Counters of a member, for those who watch a job. No decision about a job depends on them.

use serde::{Deserialize, Serialize};

/// Counters of a member since its admission, which only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct MemberCounters {
    /// Bytes of tensors of which it has the results, as they are in its memory.
    #[serde(default)]
    pub tensor_bytes: u64,
    /// Packets sent to the switch, retransmissions included.
    #[serde(default)]
    pub packets_sent: u64,
    /// Bytes of these packets, headers of UDP and below not counted.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Those of them that were retransmissions.
    #[serde(default)]
    pub packets_retransmitted: u64,
    /// Results received, duplicates not counted.
    #[serde(default)]
    pub results_received: u64,
}

impl MemberCounters {
    /// Whether a member whose counters were `earlier` may have these now: none is less, and no more packets were retransmitted than sent.
    pub fn may_follow(&self, earlier: &Self) -> bool {
        self.tensor_bytes >= earlier.tensor_bytes
            && self.packets_sent >= earlier.packets_sent
            && self.bytes_sent >= earlier.bytes_sent
            && self.packets_retransmitted >= earlier.packets_retransmitted
            && self.results_received >= earlier.results_received
            && self.packets_retransmitted <= self.packets_sent
    }

    /// The sum of both; a counter that would overflow stays at its greatest value.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What was counted since `earlier`; 0 for a counter that is less.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            tensor_bytes: combine(self.tensor_bytes, other.tensor_bytes),
            packets_sent: combine(self.packets_sent, other.packets_sent),
            bytes_sent: combine(self.bytes_sent, other.bytes_sent),
            packets_retransmitted: combine(self.packets_retransmitted, other.packets_retransmitted),
            results_received: combine(self.results_received, other.results_received),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_only_grow() {
        let at = |tensor_bytes, packets_sent, packets_retransmitted, results_received| MemberCounters {
            tensor_bytes,
            packets_sent,
            bytes_sent: packets_sent,
            packets_retransmitted,
            results_received,
        };
        let earlier = at(10, 20, 2, 18);
        assert!(earlier.may_follow(&earlier) && at(11, 21, 2, 19).may_follow(&earlier));
        for wrong in [
            at(9, 20, 2, 18),
            at(10, 19, 2, 18),
            MemberCounters { bytes_sent: 19, ..earlier },
            at(10, 20, 1, 18),
            at(10, 20, 2, 17),
            at(10, 20, 21, 18),
        ] {
            assert!(!wrong.may_follow(&earlier), "{wrong:?}");
        }
        let most = at(u64::MAX, u64::MAX, 0, u64::MAX);
        assert_eq!(most.plus(&earlier), at(u64::MAX, u64::MAX, 2, u64::MAX));
        assert_eq!(earlier.since(&most), at(0, 0, 2, 0));
    }
}
