//! Getting a place at a switch again after one was lost: a thread that joins the same job, until it is let in.
//!
//! Nothing but time is lost when it fails: the ranks go on without a switch meanwhile. Attempts come at longer and longer intervals, at
//! most one in [`BACKOFF`]`.1`, and end for good when the control port says that run again is of no use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Advice, Error};
use crate::join::{Attachment, Joiner, spawn};
use crate::mailbox::Mailbox;
use crate::report::ControlCounters;
use crate::session::{ControlConnection, Session};
use crate::session_events::SessionEvents;
use crate::tensors::Submission;

/// Shortest and longest pause between attempts.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often a pause looks whether it is still wanted.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A place at a switch whose session is attended to, and to which nothing was sent yet.
pub(crate) struct NewAttachment {
    pub(crate) attachment: Attachment,
    pub(crate) control: Option<ControlConnection>,
    pub(crate) events: SessionEvents,
}

/// The thread's side of an engine, and the engine's of the thread.
pub(crate) struct Rejoin {
    joiner: Joiner,
    mailbox: Arc<Mailbox<Submission>>,
    counters: ControlCounters,
    state: Arc<RejoinState>,
}

#[derive(Default)]
struct RejoinState {
    new: Mutex<Option<NewAttachment>>,
    /// Nobody wants a place any more.
    finished: AtomicBool,
}

impl Rejoin {
    /// Begins to ask.
    pub(crate) fn start(
        joiner: Joiner,
        mailbox: Arc<Mailbox<Submission>>,
        counters: ControlCounters,
    ) -> Result<Self, Error> {
        let rejoin = Self { joiner, mailbox, counters, state: Arc::default() };
        rejoin.start_thread()?;
        Ok(rejoin)
    }

    /// What the place is known by on all ranks, if there is one.
    pub(crate) fn id(&self) -> Option<(u16, u32)> {
        let mut new = self.state.new.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reconciled) = new.as_ref().and_then(|new| new.events.failure()) {
            log::info!("the new place at a switch is lost again: {reconciled}");
            *new = None;
            drop(new);
            // Without a thread no more is asked for; the ranks go on as they do.
            let _ = self.start_thread();
            return None;
        }
        new.as_ref().map(|new| (new.attachment.admission.job, new.attachment.admission.epoch))
    }

    /// The place.
    pub(crate) fn take(&self) -> Option<NewAttachment> {
        self.state.new.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn start_thread(&self) -> Result<(), Error> {
        let (joiner, mailbox, counters) =
            (self.joiner.clone(), Arc::clone(&self.mailbox), self.counters.clone());
        let state = Arc::clone(&self.state);
        let run = move || {
            if let Some(new) = join_until_admitted(&joiner, &mailbox, &counters, &state) {
                *state.new.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
                if state.finished.load(Ordering::Acquire) {
                    state.withdraw();
                }
                mailbox.notify();
            }
        };
        spawn("netfold-rejoin", run).map(drop)
    }
}

impl Drop for Rejoin {
    fn drop(&mut self) {
        self.state.finished.store(true, Ordering::Release);
        self.state.withdraw();
    }
}

impl RejoinState {
    /// Gives a place that nobody has taken up in peace.
    fn withdraw(&self) {
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner).take();
        new.iter().flat_map(|new| &new.control).for_each(ControlConnection::leave);
    }
}

/// Asks until there is a place, or it is of no use.
fn join_until_admitted(
    joiner: &Joiner,
    mailbox: &Arc<Mailbox<Submission>>,
    counters: &ControlCounters,
    state: &RejoinState,
) -> Option<NewAttachment> {
    let cancelled = || state.finished.load(Ordering::Acquire);
    let mut delay = BACKOFF.0;
    while !cancelled() {
        match joiner.join(&cancelled, None) {
            Ok(mut attachment) => {
                let events = SessionEvents::new(Arc::clone(mailbox));
                let session = attachment.session.take();
                let control = session.as_ref().map(Session::control);
                let (session_events, counters) = (events.clone(), counters.clone());
                if let Some(session) = session {
                    spawn("netfold-control", move || session.run(&session_events, &counters)).ok()?;
                }
                return Some(NewAttachment { attachment, control, events });
            }
            Err(error) if error.advice() == Advice::Stop => {
                log::warn!("rank {}: no place at a switch any more: {error}", joiner.join.rank);
                return None;
            }
            Err(error) => log::debug!("rank {}: no place at a switch yet: {error}", joiner.join.rank),
        }
        let mut left = delay;
        while !left.is_zero() && !cancelled() {
            std::thread::sleep(left.min(POLL_INTERVAL));
            left = left.saturating_sub(POLL_INTERVAL);
        }
        delay = (delay * 2).min(BACKOFF.1);
    }
    None
}
