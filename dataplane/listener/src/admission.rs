//! The machine: which connections are kept, and which are to be closed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::{Closure, ListenerCounters, Policy, Source};

/// Number of a connection within its listener; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// A connection that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the evicted connection is to be closed"]
pub struct Admitted {
    /// Its number.
    pub id: ConnectionId,
    /// The connection to close for it. It is not counted any more.
    pub evicted: Option<ConnectionId>,
}

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its first message is incomplete, and due at this time.
    Pending { deadline: Duration },
    /// It has sent a message, and so many requests are under way.
    Identified { requests: u32 },
}

#[derive(Debug)]
struct Connection {
    source: Source,
    stage: Stage,
    authenticated: bool,
    /// Since when it is idle.
    since: Duration,
}

impl Connection {
    /// Whether it may be closed for another one.
    fn is_evictable(&self) -> bool {
        !self.authenticated && !matches!(self.stage, Stage::Identified { requests: 1.. })
    }
}

/// The connections of one source.
#[derive(Debug, Default)]
struct SourceConnections {
    unauthenticated: usize,
    /// Those that may be evicted, the one that is idle for longest first.
    evictable: BTreeSet<(Duration, ConnectionId)>,
}

/// The order in which sources lose connections: the greatest is next. The number of its connections, then its connection that is idle for longest.
type Rank = (usize, Reverse<(Duration, ConnectionId)>, Source);

impl SourceConnections {
    /// Its rank; `None` if none of its connections may be evicted.
    fn rank(&self, source: Source) -> Option<Rank> {
        let oldest = self.evictable.first()?;
        Some((self.unauthenticated, Reverse(*oldest), source))
    }
}

/// Admission of a listener's connections.
///
/// A connection is *pending* until its first message is complete, and closed at a deadline if there is none; after that it is *idle* when no
/// request is under way. Pending and idle connections that are not *authenticated* are evicted, the oldest first: of a source that has as many
/// as it may have, when a new one comes from there; of the source with the most, when the listener has as many as it keeps; of several such
/// sources, the one whose connection is idle for longest. A new connection is refused only when no other can be evicted.
///
/// The caller passes the time since any fixed origin; time that goes backwards counts as standing still. Memory is bounded by
/// [`Policy::connections_max`].
#[derive(Debug)]
pub struct ConnectionAdmission {
    policy: Policy,
    counters: Arc<ListenerCounters>,
    now: Duration,
    next: u64,
    connections: BTreeMap<ConnectionId, Connection>,
    /// Sources with connections that are not authenticated.
    sources: BTreeMap<Source, SourceConnections>,
    /// The ranks of those that have one.
    ranks: BTreeSet<Rank>,
    /// The first one is due first.
    deadlines: BTreeSet<(Duration, ConnectionId)>,
}

impl ConnectionAdmission {
    /// A listener without connections.
    pub fn new(policy: Policy) -> Self {
        Self::counting(policy, Arc::new(ListenerCounters::new(policy)))
    }

    /// The same, with counters that exist already.
    pub(crate) fn counting(policy: Policy, counters: Arc<ListenerCounters>) -> Self {
        Self {
            policy,
            counters,
            now: Duration::ZERO,
            next: 0,
            connections: BTreeMap::new(),
            sources: BTreeMap::new(),
            ranks: BTreeSet::new(),
            deadlines: BTreeSet::new(),
        }
    }

    /// The listener's counters.
    pub fn counters(&self) -> Arc<ListenerCounters> {
        Arc::clone(&self.counters)
    }

    /// Decides on a connection that was accepted from `source`.
    ///
    /// # Errors
    /// [`Closure::SourceBusy`] or [`Closure::TotalBusy`]: close it.
    pub fn admit(&mut self, now: Duration, source: Source) -> Result<Admitted, Closure> {
        self.now = self.now.max(now);
        let evicted =
            self.make_room(source).inspect_err(|closure| self.counters.count(*closure, Some(source)))?;
        let id = ConnectionId(self.next);
        self.next += 1;
        let deadline = self.now + self.policy.first_message_timeout;
        let connection =
            Connection { source, stage: Stage::Pending { deadline }, authenticated: false, since: self.now };
        self.connections.insert(id, connection);
        self.link(id);
        self.counters.set_open(self.connections.len());
        Ok(Admitted { id, evicted })
    }

    fn make_room(&mut self, source: Source) -> Result<Option<ConnectionId>, Closure> {
        if self.sources.get(&source).is_some_and(|entry| entry.unauthenticated >= self.policy.source_max) {
            return self.evict(source, Closure::SourceLimit).map(Some).ok_or(Closure::SourceBusy);
        }
        if self.connections.len() < self.policy.connections_max {
            return Ok(None);
        }
        self.evict_any(Closure::TotalLimit).map(Some).ok_or(Closure::TotalBusy)
    }

    /// Evicts one connection, if one can be, because the system has no resources for another. It is not counted any more.
    pub fn evict_for_shortage(&mut self) -> Option<ConnectionId> {
        self.counters.count(Closure::AcceptFailed, None);
        self.evict_any(Closure::Shortage)
    }

    /// Evicts the oldest idle connection of the source with the most connections among those that have one.
    fn evict_any(&mut self, closure: Closure) -> Option<ConnectionId> {
        let (.., source) = *self.ranks.last()?;
        self.evict(source, closure)
    }

    fn evict(&mut self, source: Source, closure: Closure) -> Option<ConnectionId> {
        let &(_, id) = self.sources.get(&source)?.evictable.first()?;
        self.counters.count(closure, Some(source));
        self.close(id);
        Some(id)
    }

    /// A request began, which is a complete message; it ends with [`request_ended`](Self::request_ended).
    pub fn request_began(&mut self, id: ConnectionId) {
        self.change(id, |connection| {
            let requests = match connection.stage {
                Stage::Pending { .. } => 0,
                Stage::Identified { requests } => requests,
            };
            connection.stage = Stage::Identified { requests: requests.saturating_add(1) };
        });
    }

    /// A request ended.
    pub fn request_ended(&mut self, now: Duration, id: ConnectionId) {
        self.now = self.now.max(now);
        let now = self.now;
        self.change(id, |connection| {
            if let Stage::Identified { requests } = &mut connection.stage {
                *requests = requests.saturating_sub(1);
                connection.since = now;
            }
        });
    }

    /// The client has proved who it is: its connection is never evicted.
    pub fn authenticated(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        if connection.authenticated {
            return;
        }
        self.unlink(id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.authenticated = true;
        }
        self.link(id);
    }

    /// A connection was closed, or is none of this admission's any more. Others are ignored.
    pub fn close(&mut self, id: ConnectionId) {
        self.unlink(id);
        self.connections.remove(&id);
        self.counters.set_open(self.connections.len());
    }

    /// A connection whose first message is overdue at `now`, to be closed. It is not counted any more. Call it until it returns `None`.
    pub fn expire(&mut self, now: Duration) -> Option<ConnectionId> {
        self.now = self.now.max(now);
        let &(deadline, id) = self.deadlines.first()?;
        if deadline > self.now {
            return None;
        }
        self.counters.count(Closure::Deadline, self.connections.get(&id).map(|connection| connection.source));
        self.close(id);
        Some(id)
    }

    /// When [`expire`](Self::expire) is next to be called. Only [`admit`](Self::admit) makes one where there was none.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Connections that are kept.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    fn change(&mut self, id: ConnectionId, change: impl FnOnce(&mut Connection)) {
        self.unlink(id);
        if let Some(connection) = self.connections.get_mut(&id) {
            change(connection);
        }
        self.link(id);
    }

    /// Removes a connection from the indices.
    fn unlink(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        if let Stage::Pending { deadline } = connection.stage {
            self.deadlines.remove(&(deadline, id));
        }
        if !connection.authenticated {
            let since = connection.since;
            self.change_source(connection.source, |entry| {
                entry.unauthenticated -= 1;
                entry.evictable.remove(&(since, id));
            });
        }
    }

    /// Enters a connection into the indices.
    fn link(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        if let Stage::Pending { deadline } = connection.stage {
            self.deadlines.insert((deadline, id));
        }
        if !connection.authenticated {
            let evictable = connection.is_evictable().then_some((connection.since, id));
            self.change_source(connection.source, |entry| {
                entry.unauthenticated += 1;
                entry.evictable.extend(evictable);
            });
        }
    }

    /// Changes the connections of a source, and its rank with them.
    fn change_source(&mut self, source: Source, change: impl FnOnce(&mut SourceConnections)) {
        let entry = self.sources.entry(source).or_default();
        let before = entry.rank(source);
        change(entry);
        let after = entry.rank(source);
        if entry.unauthenticated == 0 {
            self.sources.remove(&source);
        }
        if before != after {
            if let Some(before) = before {
                self.ranks.remove(&before);
            }
            self.ranks.extend(after);
        }
    }
}

#[cfg(test)]
mod tests;
