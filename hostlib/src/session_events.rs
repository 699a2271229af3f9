//! What a control session and its engine tell each other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netfold_control::{
    Band, CommunicationPattern, Hold, MemberCounters, PathReport, PortSet, RankEventKind, StallReport,
};

use crate::error::Error;
use crate::lower::SwitchOperation;
use crate::mailbox::Mailbox;

/// The board between a session's thread and an engine. A session has one of its own, so that what is said of an attachment to a switch
/// that is given up does not touch the next one.
#[derive(Debug, Clone)]
pub(crate) struct SessionEvents(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pending: Mutex<PendingEvents>,
    /// The engine's counters.
    counters: Mutex<MemberCounters>,
    /// The engine's report of a stall that the session's thread has not sent, and when it was made.
    stall: Mutex<Option<(Instant, StallReport)>>,
    /// The engine's newest pattern that the session's thread has not sent, and when it was made.
    pattern: Mutex<Option<(Instant, CommunicationPattern)>>,
    /// How the engine uses its paths, unless the session's thread has sent it.
    paths: Mutex<Option<PathReport>>,
    /// Notified of every event.
    engine: Arc<Mailbox<SwitchOperation>>,
}

#[derive(Debug, Default)]
struct PendingEvents {
    failure: Option<Error>,
    left: Option<u16>,
    /// Received, and not yet taken.
    band: Option<Band>,
    /// That the session broke or was resumed, the last change.
    session: Option<RankEventKind>,
    /// When the next iteration is to begin, and when that was received.
    hold: Option<(Instant, Hold)>,
    /// The UDP ports that are to be used, until the engine knows.
    ports: Option<PortSet>,
}

impl SessionEvents {
    pub(crate) fn new(engine: Arc<Mailbox<SwitchOperation>>) -> Self {
        Self(Arc::new(Shared {
            pending: Mutex::default(),
            counters: Mutex::default(),
            stall: Mutex::default(),
            pattern: Mutex::default(),
            paths: Mutex::default(),
            engine,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, PendingEvents> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The attachment to the switch is lost. The first error counts.
    pub(crate) fn fail(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
        self.0.engine.notify();
    }

    /// Records that a rank has left gracefully.
    pub(crate) fn note_leave(&self, rank: u16) {
        self.lock().left.get_or_insert(rank);
        self.0.engine.notify();
    }

    /// Records that the job uses other classes of packets.
    pub(crate) fn note_band(&self, band: Band) {
        self.lock().band = Some(band);
        self.0.engine.notify();
    }

    /// Records that the job's next iteration is to begin later.
    pub(crate) fn note_hold(&self, hold: Hold) {
        self.lock().hold = Some((Instant::now(), hold));
        self.0.engine.notify();
    }

    /// Takes the last order to begin an iteration later, and how long ago it was received.
    pub(crate) fn take_hold(&self) -> Option<(Duration, Hold)> {
        let (at, hold) = self.lock().hold.take()?;
        Some((at.elapsed(), hold))
    }

    /// Records which UDP ports are to be used.
    pub(crate) fn note_ports(&self, ports: PortSet) {
        self.lock().ports = Some(ports);
        self.0.engine.notify();
    }

    /// Takes the last order to use some UDP ports.
    pub(crate) fn take_ports(&self) -> Option<PortSet> {
        self.lock().ports.take()
    }

    /// Records that the session broke, or was resumed.
    pub(crate) fn note_session(&self, change: RankEventKind) {
        self.lock().session = Some(change);
        self.0.engine.notify();
    }

    /// Takes the classes of packets that were received last, and the last change of the session.
    pub(crate) fn take_changes(&self) -> (Option<Band>, Option<RankEventKind>) {
        let mut pending = self.lock();
        (pending.band.take(), pending.session.take())
    }

    /// Engine: has the session's thread send a report of a stall.
    pub(crate) fn post_stall(&self, report: StallReport) {
        *self.0.stall.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), report));
    }

    /// The report that is to be sent now, if there is one, and how long ago it was made.
    pub(crate) fn take_stall(&self) -> Option<(Duration, StallReport)> {
        let (at, report) = self.0.stall.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some((at.elapsed(), report))
    }

    /// Engine: has the session's thread send a pattern of the job's iterations.
    pub(crate) fn post_pattern(&self, pattern: CommunicationPattern) {
        *self.0.pattern.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), pattern));
    }

    /// The pattern that is to be sent now, if there is one, as of now.
    pub(crate) fn take_pattern(&self) -> Option<CommunicationPattern> {
        let (at, pattern) = self.0.pattern.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(pattern.delayed(crate::report::micros(at.elapsed())))
    }

    /// Engine: has the session's thread send how paths are used.
    pub(crate) fn post_paths(&self, report: PathReport) {
        *self.0.paths.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// The report of paths that is to be sent now, if there is one.
    pub(crate) fn take_paths(&self) -> Option<PathReport> {
        self.0.paths.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Engine: publishes its counters at this attachment.
    pub(crate) fn post_counters(&self, counters: MemberCounters) {
        *self.0.counters.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    /// The engine's counters, as it published them last.
    pub(crate) fn counters(&self) -> MemberCounters {
        *self.0.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the attachment is lost, if it is.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// The first rank that has left gracefully.
    pub(crate) fn left(&self) -> Option<u16> {
        self.lock().left
    }
}
