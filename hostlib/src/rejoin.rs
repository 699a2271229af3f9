//! Attaches a rank to a switch again after the attachment was lost: a thread joins the same job until it is admitted.
//!
//! The ranks continue without a switch meanwhile. Attempts back off to one in [`BACKOFF`]`.1`, and end when the control port refuses for
//! a permanent reason.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::config::JobConfig;
use crate::error::{Advice, Error};
use crate::join::{Attachment, Joiner, spawn};
use crate::lower::SwitchOperation;
use crate::mailbox::Mailbox;
use crate::report::ControlCounters;
use crate::session::{ControlConnection, Session};
use crate::session_events::SessionEvents;

/// Shortest and longest pause between attempts.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often a waiting thread checks whether it is cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An attachment whose session has a thread, and to which no packet was sent yet.
pub(crate) struct NewAttachment {
    pub(crate) attachment: Attachment,
    pub(crate) control: Option<ControlConnection>,
    pub(crate) events: SessionEvents,
}

/// A rank that joins again.
pub(crate) trait Rejoin: Send {
    /// What identifies the new attachment on all ranks, if there is one: number and epoch of the job.
    fn id(&self) -> Option<(u16, u32)>;
    /// Takes the new attachment.
    fn take(&self) -> Option<NewAttachment>;
    /// Why there is none for now, where the last attempt was refused for a reason that is not expected to pass within seconds.
    fn refusal(&self) -> Option<String>;
}

/// How a rank attaches to a switch again.
pub(crate) trait StartRejoin: Send {
    /// Begins to join. Dropping what is returned ends that, and leaves an attachment that was not taken.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    fn start(
        &self,
        mailbox: &Arc<Mailbox<SwitchOperation>>,
        counters: &ControlCounters,
    ) -> Result<Box<dyn Rejoin>, Error>;
    /// The configuration of the job.
    fn config(&self) -> &Arc<JobConfig>;
}

impl StartRejoin for Joiner {
    fn start(
        &self,
        mailbox: &Arc<Mailbox<SwitchOperation>>,
        counters: &ControlCounters,
    ) -> Result<Box<dyn Rejoin>, Error> {
        let (joiner, mailbox, counters) = (self.clone(), Arc::clone(mailbox), counters.clone());
        let rejoin = RejoinThread { joiner, mailbox, counters, state: Arc::default() };
        rejoin.start_thread()?;
        Ok(Box::new(rejoin))
    }

    fn config(&self) -> &Arc<JobConfig> {
        &self.config
    }
}

/// What an engine and its rejoin thread share.
struct RejoinThread {
    joiner: Joiner,
    mailbox: Arc<Mailbox<SwitchOperation>>,
    counters: ControlCounters,
    state: Arc<RejoinState>,
}

#[derive(Default)]
struct RejoinState {
    new: Mutex<Option<NewAttachment>>,
    refusal: Mutex<Option<String>>,
    /// The engine no longer wants an attachment.
    finished: AtomicBool,
}

impl Rejoin for RejoinThread {
    fn id(&self) -> Option<(u16, u32)> {
        let mut new = self.state.new.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = new.as_ref().and_then(|new| new.events.failure()) {
            log::info!("the new attachment to a switch is lost again: {error}");
            *new = None;
            drop(new);
            // If no thread can be started, the ranks continue without a switch.
            let _ = self.start_thread();
            return None;
        }
        new.as_ref().map(|new| (new.attachment.admission.job, new.attachment.admission.epoch))
    }

    fn take(&self) -> Option<NewAttachment> {
        self.state.new.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn refusal(&self) -> Option<String> {
        self.state.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RejoinThread {
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

impl Drop for RejoinThread {
    fn drop(&mut self) {
        self.state.finished.store(true, Ordering::Release);
        self.state.withdraw();
    }
}

impl RejoinState {
    /// Leaves an attachment that was not taken.
    fn withdraw(&self) {
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner).take();
        new.iter().flat_map(|new| &new.control).for_each(ControlConnection::leave);
    }
}

/// Joins until the rank is admitted, or refused for a permanent reason.
fn join_until_admitted(
    joiner: &Joiner,
    mailbox: &Arc<Mailbox<SwitchOperation>>,
    counters: &ControlCounters,
    state: &RejoinState,
) -> Option<NewAttachment> {
    let cancelled = || state.finished.load(Ordering::Acquire);
    let mut delay = BACKOFF.0;
    while !cancelled() {
        let joined = joiner.join(&cancelled, None);
        if let Err(error) = &joined
            && !joiner.is_transient(error)
        {
            *state.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            mailbox.notify();
        }
        match joined {
            Ok(attachment) if !joiner.lane_ops.within(attachment.admission.lane_ops) => {
                let (rank, found) = (joiner.join.rank, attachment.admission.lane_ops);
                log::warn!(
                    "rank {rank}: the new switch has the lane operations {found}, and the job began with {}: it is not used",
                    joiner.lane_ops
                );
                attachment.detach();
            }
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
                log::warn!("rank {}: cannot rejoin a switch: {error}", joiner.join.rank);
                return None;
            }
            Err(error) => log::debug!("rank {}: not attached to a switch yet: {error}", joiner.join.rank),
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
