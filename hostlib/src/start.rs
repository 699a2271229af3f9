//! Starts the threads that work on a job's attachments.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use netfold_io::cores;
use netfold_wire::LaneOps;

use crate::clock::Clock;
use crate::engine::{Engine, EngineContext, EngineTree, SharedEngine};
use crate::error::Error;
use crate::join::{Attachment, spawn};
use crate::mailbox::Mailbox;
use crate::path::PathCell;
use crate::peers::Peers;
use crate::rejoin::StartRejoin;
use crate::report::ControlCounters;
use crate::route::Route;
use crate::session::Session;
use crate::session_events::SessionEvents;
use crate::shutdown::ShutdownState;
use crate::tree_set::{CurrentControl, RunInline, TreeHandle, TreeSet};

impl Attachment {
    /// Starts the threads that work on it, as tree `index` of a tree set.
    pub(crate) fn start(
        self,
        index: u8,
        peers: Option<Box<dyn Peers>>,
        (route, counters): (&Route, &ControlCounters),
        (path, shutdown): (&PathCell, &ShutdownState),
        busy_poll: Duration,
    ) -> Result<TreeHandle, Error> {
        if self.begins_idle {
            path.set_idle(index);
        } else {
            path.set_attached(self.describe(index), self.control);
        }
        let grace = self.grace();
        let Self { io, streams, session, joiner, core, begins_idle, .. } = self;
        let mailbox = Mailbox::new(io.waker(), shutdown);
        let control = session.as_ref().map(Session::control);
        let (last, events) = (CurrentControl::default(), SessionEvents::new(Arc::clone(&mailbox)));
        last.set(control.clone(), grace);
        let (route, session_events) = (route.clone(), events.clone());
        let joiner = joiner.map(|joiner| Box::new(joiner) as Box<dyn StartRejoin>);
        let ties = EngineContext {
            mailbox: Arc::clone(&mailbox),
            control,
            events,
            peers,
            path: path.clone(),
            shutdown: shutdown.clone(),
            tree: EngineTree { index, route, joiner, grace, last: last.clone(), counters: counters.clone() },
            clock: Clock::system(),
            busy_poll,
            begins_idle,
        };
        let shared = Arc::new(SharedEngine::new(Arc::clone(&mailbox)));
        // A thread that was given a core keeps the engine there.
        let inline = core.is_none().then(|| inline(&shared));
        // Made by its own thread, which is on its core by then: memory lies where it was first written.
        let engine = spawn("netfold-engine", move || {
            if let Some(Err(error)) = core.map(cores::pin) {
                // It could when it was asked for; slower is no reason to end the job.
                log::warn!("tree {index}: {error}");
            }
            let engine = Engine::new(io, streams, ties);
            if core.is_some() { engine.run() } else { shared.run(engine) }
        })?;
        if let Some(session) = session {
            let counters = counters.clone();
            spawn("netfold-control", move || session.run(&session_events, &counters))?;
        }
        Ok(TreeHandle { mailbox, engine: Mutex::new(Some(engine)), inline, last, counters: counters.clone() })
    }
}

/// How blocking callers take an engine.
fn inline(shared: &Arc<SharedEngine>) -> RunInline {
    let shared = Arc::clone(shared);
    Box::new(move |operation| shared.run_inline(operation))
}

/// The lane operations that the switches of all trees have; none without a switch.
pub(crate) fn lane_ops(attachments: &[Attachment]) -> LaneOps {
    let each = attachments.iter().map(|attachment| attachment.admission.lane_ops);
    each.reduce(LaneOps::and).unwrap_or(LaneOps::NONE)
}

/// Starts the threads of all trees: all have peers, or none.
pub(crate) fn start_trees(
    attachments: Vec<Attachment>,
    peers: Vec<Box<dyn Peers>>,
    path: &PathCell,
    shutdown: &ShutdownState,
    busy_poll: Duration,
) -> Result<TreeSet, Error> {
    let (route, counters) = (Route::new(attachments.len()), ControlCounters::default());
    let lane_bytes = attachments.first().map_or(0, Attachment::lane_bytes);
    let mut peers = peers.into_iter();
    let start = |(index, attachment): (u8, Attachment)| {
        attachment.start(index, peers.next(), (&route, &counters), (path, shutdown), busy_poll)
    };
    let trees = (0..).zip(attachments).map(start).collect::<Result<Vec<_>, Error>>()?;
    Ok(TreeSet::new(trees, route, lane_bytes))
}
