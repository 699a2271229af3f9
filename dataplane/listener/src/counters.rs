//! What a listener has closed, by reason, for metrics and log lines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Policy, Source};

/// Why a listener closed a connection, or accepted none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closure {
    /// It sent no complete first message in time.
    Deadline,
    /// It was idle, and its source had as many connections as it may have when a new one came from there.
    SourceLimit,
    /// It was idle and of the source with the most connections, and the listener had as many as it keeps when a new one came.
    TotalLimit,
    /// It was new, and all its source's connections were in use.
    SourceBusy,
    /// It was new, and all the listener's connections were in use or authenticated.
    TotalBusy,
    /// It was idle when the system had no descriptor or memory for another one.
    Shortage,
    /// None was accepted: the system had no descriptor or memory, and is tried again.
    AcceptFailed,
}

impl Closure {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::Deadline,
        Self::SourceLimit,
        Self::TotalLimit,
        Self::SourceBusy,
        Self::TotalBusy,
        Self::Shortage,
        Self::AcceptFailed,
    ];

    /// Its name, a label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::SourceLimit => "source_limit",
            Self::TotalLimit => "total_limit",
            Self::SourceBusy => "source_busy",
            Self::TotalBusy => "total_busy",
            Self::Shortage => "shortage",
            Self::AcceptFailed => "accept_failed",
        }
    }

    /// What happened, after a number.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Deadline => "sent no complete first message in time",
            Self::SourceLimit => "idle ones gave way to newer ones of the same source",
            Self::TotalLimit => "idle ones gave way to newer ones",
            Self::SourceBusy => "were refused, as all that their source may have are in use",
            Self::TotalBusy => "were refused, as all are in use",
            Self::Shortage => "idle ones gave way when the system had no descriptors or memory",
            Self::AcceptFailed => {
                "times none could be accepted for lack of descriptors or memory: raise LimitNOFILE or `ulimit -n`"
            }
        }
    }
}

/// Counters of one listener since its start. Any thread may read them.
#[derive(Debug)]
pub struct ListenerCounters {
    policy: Policy,
    open: AtomicU64,
    closed: [AtomicU64; Closure::ALL.len()],
    last: Mutex<Option<Source>>,
}

impl ListenerCounters {
    /// Of a listener that has accepted nothing.
    pub fn new(policy: Policy) -> Self {
        Self { policy, open: AtomicU64::new(0), closed: Default::default(), last: Mutex::default() }
    }

    /// The listener's policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections that were closed for this reason.
    pub fn closed(&self, closure: Closure) -> u64 {
        self.closed[closure as usize].load(Ordering::Relaxed)
    }

    /// The source of the connection that was closed last.
    pub fn last(&self) -> Option<Source> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, closure: Closure, source: Option<Source>) {
        self.closed[closure as usize].fetch_add(1, Ordering::Relaxed);
        if source.is_some() {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = source;
        }
    }

    pub(crate) fn set_open(&self, open: usize) {
        self.open.store(open as u64, Ordering::Relaxed);
    }
}
