//! Counters of a member, for those who watch a job. No decision about a job depends on them.

use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => {
        /// Counters of a member since its admission, which only grow.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
        pub struct MemberCounters {
            $($(#[$meta])* #[serde(default)] pub $name: u64),+
        }

        impl MemberCounters {
            /// Every counter of both, combined.
            fn with(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
                Self { $($name: combine(self.$name, other.$name)),+ }
            }

            /// Whether no counter is less than in `earlier`.
            fn has_grown(&self, earlier: &Self) -> bool {
                $(self.$name >= earlier.$name)&&+
            }
        }
    };
}

counters! {
    /// Bytes of tensors of which it has the results, as they are in its memory.
    tensor_bytes,
    /// Packets sent to the switch, retransmissions included.
    packets_sent,
    /// Bytes of these packets, headers of UDP and below not counted.
    bytes_sent,
    /// Those of them that were retransmissions.
    packets_retransmitted,
    /// Retransmissions because results of packets sent later came first: the packet or its result was lost, or another rank's packet.
    packets_overtaken,
    /// Results received, duplicates not counted.
    results_received,
    /// Results received of packets that were not lost: of these it is known how long the rank waited for the others.
    waits,
    /// Microseconds from the transmission of these packets to their results.
    wait_us,
    /// Operations whose first packet was not lost.
    starts,
    /// Microseconds from the transmission of the first packet of these operations to its result.
    start_wait_us,
    /// Microseconds for which threads of its process could run, and no processor was free for them.
    cpu_wait_us,
}

impl MemberCounters {
    /// Whether a member whose counters were `earlier` may have these now: none is less, and no part is greater than its whole.
    pub fn may_follow(&self, earlier: &Self) -> bool {
        self.has_grown(earlier)
            && self.packets_retransmitted <= self.packets_sent
            && self.packets_overtaken <= self.packets_retransmitted
            && self.waits <= self.results_received
            && self.starts <= self.waits
            && self.start_wait_us <= self.wait_us
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(
        tensor_bytes: u64,
        packets_sent: u64,
        packets_retransmitted: u64,
        results_received: u64,
    ) -> MemberCounters {
        MemberCounters {
            tensor_bytes,
            packets_sent,
            bytes_sent: packets_sent,
            packets_retransmitted,
            results_received,
            ..MemberCounters::default()
        }
    }

    #[test]
    fn counters_only_grow() {
        let earlier =
            MemberCounters { waits: 10, wait_us: 9, starts: 2, start_wait_us: 1, ..at(10, 20, 2, 18) };
        let next = |change: fn(&mut MemberCounters)| {
            let mut next = earlier;
            change(&mut next);
            next
        };
        assert!(earlier.may_follow(&earlier) && next(|now| now.cpu_wait_us = 7).may_follow(&earlier));
        assert!(at(11, 21, 2, 19).may_follow(&at(10, 20, 2, 18)));
        for wrong in [
            next(|now| now.tensor_bytes = 9),
            next(|now| now.packets_sent = 19),
            next(|now| now.bytes_sent = 19),
            next(|now| now.packets_retransmitted = 1),
            next(|now| now.results_received = 17),
            next(|now| now.packets_retransmitted = 21),
            next(|now| now.packets_overtaken = 3),
            next(|now| now.wait_us = 8),
            next(|now| now.waits = 19),
            next(|now| now.starts = 11),
            next(|now| now.start_wait_us = 10),
        ] {
            assert!(!wrong.may_follow(&earlier), "{wrong:?}");
        }
        let most = at(u64::MAX, u64::MAX, 0, u64::MAX);
        assert_eq!(most.plus(&at(10, 20, 2, 18)), at(u64::MAX, u64::MAX, 2, u64::MAX));
        assert_eq!(at(10, 20, 2, 18).since(&most), at(0, 0, 2, 0));
    }
}
