//! Getting a place at a switch again after one was lost: a thread that joins the same job, until it is let in.
//!
//! Nothing but time is lost when it fails: the ranks go on without a switch meanwhile. Attempts come at longer and longer intervals, at
//! most one in [`PAUSES`]`.1`, and end for good when the control port says that asking again is of no use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Advice, Error};
use crate::join::{Joiner, Uplink, spawn};
use crate::mailbox::Mailbox;
use crate::news::News;
use crate::report::ControlCounters;
use crate::session::{Line, Session};
use crate::tensors::Submission;

/// Shortest and longest pause between attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often a pause looks whether it is still wanted.
const TICK: Duration = Duration::from_millis(50);

/// A place at a switch whose session is attended to, and to which nothing was sent yet.
pub(crate) struct Fresh {
    pub(crate) uplink: Uplink,
    pub(crate) line: Option<Line>,
    pub(crate) news: News,
}

/// The thread's side of an engine, and the engine's of the thread.
pub(crate) struct Rejoin {
    joiner: Joiner,
    mailbox: Arc<Mailbox<Submission>>,
    counters: ControlCounters,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    fresh: Mutex<Option<Fresh>>,
    /// Nobody wants a place any more.
    over: AtomicBool,
}

impl Rejoin {
    /// Begins to ask.
    pub(crate) fn start(
        joiner: Joiner,
        mailbox: Arc<Mailbox<Submission>>,
        counters: ControlCounters,
    ) -> Result<Self, Error> {
        let rejoin = Self { joiner, mailbox, counters, shared: Arc::default() };
        rejoin.ask()?;
        Ok(rejoin)
    }

    /// What the place is known by on all ranks, if there is one.
    pub(crate) fn place(&self) -> Option<(u16, u32)> {
        let mut fresh = self.shared.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = fresh.as_ref().and_then(|fresh| fresh.news.verdict()) {
            log::info!("the new place at a switch is lost again: {verdict}");
            *fresh = None;
            drop(fresh);
            // Without a thread no more is asked for; the ranks go on as they do.
            let _ = self.ask();
            return None;
        }
        fresh.as_ref().map(|fresh| (fresh.uplink.admission.job, fresh.uplink.admission.epoch))
    }

    /// The place.
    pub(crate) fn take(&self) -> Option<Fresh> {
        self.shared.fresh.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn ask(&self) -> Result<(), Error> {
        let (joiner, mailbox, counters) =
            (self.joiner.clone(), Arc::clone(&self.mailbox), self.counters.clone());
        let shared = Arc::clone(&self.shared);
        let asking = move || {
            if let Some(fresh) = ask(&joiner, &mailbox, &counters, &shared) {
                *shared.fresh.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
                if shared.over.load(Ordering::Acquire) {
                    shared.withdraw();
                }
                mailbox.ring_bell();
            }
        };
        spawn("netfold-rejoin", asking).map(drop)
    }
}

impl Drop for Rejoin {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        self.shared.withdraw();
    }
}

impl Shared {
    /// Gives a place that nobody has taken up in peace.
    fn withdraw(&self) {
        let fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner).take();
        fresh.iter().flat_map(|fresh| &fresh.line).for_each(Line::leave);
    }
}

/// Asks until there is a place, or it is of no use.
fn ask(
    joiner: &Joiner,
    mailbox: &Arc<Mailbox<Submission>>,
    counters: &ControlCounters,
    shared: &Shared,
) -> Option<Fresh> {
    let given_up = || shared.over.load(Ordering::Acquire);
    let mut pause = PAUSES.0;
    while !given_up() {
        match joiner.join(&given_up, None) {
            Ok(mut uplink) => {
                let news = News::new(Arc::clone(mailbox));
                let session = uplink.session.take();
                let line = session.as_ref().map(Session::line);
                let (board, counters) = (news.clone(), counters.clone());
                if let Some(session) = session {
                    spawn("netfold-control", move || session.watch(&board, &counters)).ok()?;
                }
                return Some(Fresh { uplink, line, news });
            }
            Err(error) if error.advice() == Advice::Stop => {
                log::warn!("rank {}: no place at a switch any more: {error}", joiner.join.rank);
                return None;
            }
            Err(error) => log::debug!("rank {}: no place at a switch yet: {error}", joiner.join.rank),
        }
        let mut left = pause;
        while !left.is_zero() && !given_up() {
            std::thread::sleep(left.min(TICK));
            left = left.saturating_sub(TICK);
        }
        pause = (pause * 2).min(PAUSES.1);
    }
    None
}
