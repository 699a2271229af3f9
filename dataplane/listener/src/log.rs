//! Log lines about closed connections, at a limited rate.

use std::sync::Arc;
use std::time::Duration;

use crate::{Closure, ListenerCounters};

/// Makes at most one line for each listener and interval, however many connections it closed.
#[derive(Debug)]
pub struct ClosureLog {
    listeners: Vec<Reported>,
}

#[derive(Debug)]
struct Reported {
    counters: Arc<ListenerCounters>,
    seen: [u64; Closure::ALL.len()],
    /// Before this there is no line.
    next: Duration,
}

impl ClosureLog {
    /// Interval between two lines about one listener.
    pub const INTERVAL: Duration = Duration::from_secs(10);

    /// A log of these listeners.
    pub fn new(listeners: impl IntoIterator<Item = Arc<ListenerCounters>>) -> Self {
        let reported = |counters| Reported { counters, seen: Default::default(), next: Duration::ZERO };
        Self { listeners: listeners.into_iter().map(reported).collect() }
    }

    /// The lines that are due at `now`, any fixed origin. Call it regularly.
    pub fn poll(&mut self, now: Duration) -> Vec<String> {
        self.listeners.iter_mut().filter_map(|listener| listener.line(now)).collect()
    }
}

impl Reported {
    fn line(&mut self, now: Duration) -> Option<String> {
        if now < self.next {
            return None;
        }
        let mut parts = Vec::new();
        for closure in Closure::ALL {
            let count = self.counters.closed(closure);
            let more = count - self.seen[closure as usize];
            self.seen[closure as usize] = count;
            if more > 0 {
                parts.push(format!("{more} {}", closure.phrase()));
            }
        }
        if parts.is_empty() {
            return None;
        }
        self.next = now + Self::INTERVAL;
        let last = self.counters.last().map(|source| format!("; the last from {source}")).unwrap_or_default();
        Some(format!("{} connections: {}{last}", self.counters.policy().name, parts.join(", ")))
    }

    const INTERVAL: Duration = ClosureLog::INTERVAL;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, policy};

    #[test]
    fn ten_thousand_closed_connections_are_one_line_an_interval() {
        let counters = Arc::new(ListenerCounters::new(policy::GRPC));
        let mut log = ClosureLog::new([Arc::clone(&counters)]);
        let ms = Duration::from_millis;
        assert!(log.poll(ms(0)).is_empty());
        let mut lines = Vec::new();
        for index in 0..10_000 {
            counters.count(Closure::Deadline, Some(Source::User(7)));
            lines.extend(log.poll(ms(index)));
        }
        assert_eq!(
            lines,
            ["gRPC connections: 1 sent no complete first message in time; the last from user 7"]
        );
        counters.count(Closure::SourceLimit, None);
        assert_eq!(
            log.poll(ms(10_000)),
            [
                "gRPC connections: 9999 sent no complete first message in time, 1 idle ones gave way to newer ones of the same \
                 source; the last from user 7"
            ]
        );
        assert!(log.poll(ms(60_000)).is_empty());
    }
}
