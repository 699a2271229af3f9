//! What the kernel counted on this namespace's interfaces.

use std::fs;

/// Bytes received and sent on all interfaces but loopback, or on loopback where nothing else carries anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wire {
    links: (u64, u64),
    loopback: (u64, u64),
}

impl Wire {
    /// The counters as they are now; zero where there are none.
    pub fn now() -> Self {
        Self::read(&fs::read_to_string("/proc/net/dev").unwrap_or_default())
    }

    fn read(text: &str) -> Self {
        let mut wire = Self::default();
        for line in text.lines() {
            let Some((name, counters)) = line.split_once(':') else { continue };
            let numbers: Vec<u64> =
                counters.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let (Some(received), Some(sent)) = (numbers.first(), numbers.get(8)) else { continue };
            let sum = if name.trim() == "lo" { &mut wire.loopback } else { &mut wire.links };
            sum.0 += received;
            sum.1 += sent;
        }
        wire
    }

    /// Bytes in the busier direction since `before`.
    pub fn since(&self, before: &Self) -> u64 {
        let busier = |now: (u64, u64), then: (u64, u64)| {
            now.0.saturating_sub(then.0).max(now.1.saturating_sub(then.1))
        };
        let links = busier(self.links, before.links);
        if links > 0 { links } else { busier(self.loopback, before.loopback) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let table = |eth: u64, lo: u64| {
            format!(
                "Inter-|   Receive                                                |  Transmit\n \
                 face |bytes    packets errs drop fifo frame compressed multicast|bytes packets\n\
                 lo: {lo} 1 0 0 0 0 0 0 {lo} 1 0 0 0 0 0 0\n  eth0: {eth} 5 0 0 0 0 0 0 {} 7 0 0 0 0 0 0\n",
                2 * eth
            )
        };
        let (before, after) = (Wire::read(&table(100, 50)), Wire::read(&table(140, 60)));
        assert_eq!(after.since(&before), 80, "what left on eth0");
        assert_eq!(Wire::read(&table(100, 60)).since(&before), 10, "loopback, as nothing else moved");
        assert_eq!(Wire::read("nonsense"), Wire::default());
    }
}
