//! The tree set of a job: an engine for each tree, and the distribution of operations among them.
//!
//! A large tensor goes over all trees at once, in contiguous parts that begin with whole chunks, so that the same elements share an
//! exponent as over one tree, and results are the same. Each part is an operation of its tree. Smaller operations go over one tree,
//! the next one each time. The number of an operation determines its trees ([`crate::route`]), so all ranks distribute alike.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netfold_proto::{Descriptor, OpSpec, Sharing};

use crate::coding;
use crate::error::Error;
use crate::lower::{Lowered, SwitchOperation};
use crate::mailbox::Mailbox;
use crate::operation::Operation;
use crate::report::{ControlCounters, Stats};
use crate::route::Route;
use crate::session::ControlConnection;
use crate::shutdown::StopMode;

/// How long a reachable control port may take to answer a leave request.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Fewest chunks of a part: half a default window.
const PART_CHUNKS: u64 = 128;

/// The control connection to leave at the end; rejoining replaces it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentControl(Arc<Mutex<Option<(ControlConnection, Duration)>>>);

impl CurrentControl {
    /// Sets the connection, and the grace period of its session.
    pub(crate) fn set(&self, control: Option<ControlConnection>, grace: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = control.map(|control| (control, grace));
    }

    fn get(&self) -> Option<(ControlConnection, Duration)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Executes an operation on the calling thread; returns it where the engine is not free.
pub(crate) type RunInline = Box<dyn Fn(SwitchOperation) -> Option<SwitchOperation> + Send + Sync>;

/// The threads behind one tree.
pub(crate) struct TreeHandle {
    pub(crate) mailbox: Arc<Mailbox<SwitchOperation>>,
    pub(crate) engine: Mutex<Option<JoinHandle<()>>>,
    /// Where blocking callers may take the engine.
    pub(crate) inline: Option<RunInline>,
    pub(crate) last: CurrentControl,
    pub(crate) counters: ControlCounters,
}

impl TreeHandle {
    /// Waits for the engine, and leaves.
    fn finish(&self) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the engine has been reported as EngineFailed.
        let _ = engine.map(JoinHandle::join);
        self.last.get().iter().for_each(|(control, _)| control.leave());
    }

    /// Waits for the end of the session, where `mode` allows it also for its grace period: a controller that is unreachable receives the
    /// leave request later.
    fn wait_for_leave(&self, mode: StopMode) {
        if let Some((control, grace)) = self.last.get() {
            let timeout = if mode == StopMode::WhenIdle { LEAVE_TIMEOUT + grace } else { LEAVE_TIMEOUT };
            control.wait_until_finished(Instant::now() + timeout);
        }
    }
}

/// All trees of a communicator.
pub(crate) struct TreeSet {
    trees: Vec<TreeHandle>,
    route: Route,
    /// Held from numbering an operation to its submission to the trees' mailboxes.
    order: Mutex<()>,
    lane_bytes: usize,
}

impl TreeSet {
    /// At least one tree. Operations are cut for packets of `lane_bytes` bytes of lanes.
    pub(crate) fn new(trees: Vec<TreeHandle>, route: Route, lane_bytes: usize) -> Self {
        Self { trees, route, order: Mutex::default(), lane_bytes }
    }

    /// Executes an operation on this thread, which blocks until it is over, where there is one tree and its engine is idle; otherwise starts it.
    pub(crate) fn run_or_submit(&self, operation: SwitchOperation) {
        let returned = match &self.trees[..] {
            [TreeHandle { inline: Some(run), .. }] => run(operation),
            _ => Some(operation),
        };
        if let Some(operation) = returned {
            self.submit(operation);
        }
    }

    /// Starts an operation.
    pub(crate) fn submit(&self, operation: SwitchOperation) {
        if let [tree] = &self.trees[..] {
            return tree.mailbox.submit(operation);
        }
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let Lowered { spec, coding } = operation.request;
        let routed = self.route.assign();
        let cut = coding::cut(&spec.descriptor, coding, self.lane_bytes);
        let parts =
            cut.map(|cut| parts(spec.descriptor.elements, cut, routed.trees.len())).unwrap_or_default();
        if parts.len() < 2 {
            let turn = (routed.number % routed.trees.len() as u64) as usize;
            let tree = &self.trees[routed.trees[turn]];
            return tree.mailbox.submit(operation);
        }
        let Operation { buffer, submitted, .. } = operation;
        let units = coding::units(spec.descriptor.dtype) as usize;
        let lens: Vec<usize> = parts.iter().map(|elements| *elements as usize * units).collect();
        let mut sharing = spec.sharing;
        for ((elements, buffer), tree) in parts.iter().zip(buffer.divide(&lens)).zip(&routed.trees) {
            let descriptor = Descriptor { elements: *elements, ..spec.descriptor };
            let mut request = Lowered { spec: OpSpec { descriptor, sharing, ..spec }, coding };
            request.cut_for(self.lane_bytes);
            self.trees[*tree].mailbox.submit(Operation { request, buffer, submitted });
            if let Sharing::FromEach(parts) | Sharing::ToEach(parts) = &mut sharing {
                parts.first += *elements * units as u64;
            }
        }
    }

    /// Counters of all trees, and the round trips of the first.
    pub(crate) fn stats(&self) -> Stats {
        let mut all = self.trees.iter().map(|tree| tree.mailbox.stats());
        let mut sum = all.next().unwrap_or_default();
        all.for_each(|more| sum.add(&more));
        // All trees share these counters.
        sum.control = self.trees.first().map(|tree| tree.counters.get()).unwrap_or_default();
        sum
    }

    /// The error that ended an engine, if one has ended.
    pub(crate) fn ended(&self) -> Option<Error> {
        self.trees.iter().find_map(|tree| tree.mailbox.ended())
    }

    /// Whether any engine may be waiting for other ranks.
    pub(crate) fn is_busy(&self) -> bool {
        self.trees.iter().any(|tree| tree.mailbox.is_busy())
    }

    /// Waits for the engines and leaves.
    pub(crate) fn close(&self, mode: StopMode) {
        self.trees.iter().for_each(TreeHandle::finish);
        self.trees.iter().for_each(|tree| tree.wait_for_leave(mode));
    }
}

/// Elements of each part of a tensor, which begin at multiples of `cut`: as many parts as there are trees, as equal as can be, or none.
fn parts(elements: u64, cut: u64, trees: usize) -> Vec<u64> {
    let (chunks, trees) = (elements.div_ceil(cut), trees as u64);
    if trees < 2 || chunks < trees * PART_CHUNKS {
        return Vec::new();
    }
    let bound = |tree: u64| (chunks * tree / trees * cut).min(elements);
    (0..trees).map(|tree| bound(tree + 1) - bound(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_chunks_but_for_the_last() {
        assert_eq!(parts(352 * 256, 352, 2), [352 * 128; 2]);
        assert_eq!(parts(352 * 257 + 1, 352, 2), [352 * 129, 352 * 128 + 1]);
        let three = parts(1_000_001, 704, 3);
        assert_eq!(three.iter().sum::<u64>(), 1_000_001);
        assert!(three[..2].iter().all(|part| part % 704 == 0));
        assert_eq!(parts(352 * 255, 352, 2), [0u64; 0], "too small");
        assert_eq!(parts(1_000_000, 352, 1), [0u64; 0]);
    }
}
