//! The tree set of a job: an engine for each tree, and the distribution of operations among them.
//!
//! A large tensor goes over all trees at once, in contiguous parts that begin with whole chunks, so that the same elements share an
//! exponent as over one tree, and results are the same. Each part is an operation of its tree. Smaller operations go over one tree
//! each. The number of an operation determines its trees ([`crate::route`]), and their shares follow from rates that the ranks have exchanged
//! ([`crate::shares`]), so all ranks distribute alike.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netfold_proto::{Descriptor, OpSpec, Sharing};
use netfold_wire::{Collective, DType, ReduceOp};

use crate::call::Call;
use crate::coding;
use crate::error::Error;
use crate::lower::{self, Lowered, OpContext, SwitchOperation};
use crate::mailbox::Mailbox;
use crate::operation::Operation;
use crate::report::{ControlCounters, Stats};
use crate::route::Route;
use crate::session::ControlConnection;
use crate::shares::{self, RateExchange, TreeShares};
use crate::shutdown::StopMode;

/// How long a reachable control port may take to answer a leave request.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Fewest chunks of an even part: half a default window.
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
    /// Locked from numbering an operation to its submission to the trees' mailboxes.
    shares: Mutex<TreeShares>,
    lane_bytes: usize,
}

impl TreeSet {
    /// At least one tree. Operations are cut for packets of `lane_bytes` bytes of lanes.
    pub(crate) fn new(trees: Vec<TreeHandle>, route: Route, lane_bytes: usize) -> Self {
        let shares = Mutex::new(TreeShares::new(trees.len()));
        Self { trees, route, shares, lane_bytes }
    }

    fn lock_shares(&self) -> MutexGuard<'_, TreeShares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the shares of several trees follow from their rates.
    pub(crate) fn share_by_rate(&self, context: &OpContext) {
        if self.trees.len() < 2 {
            return;
        }
        let len = shares::report_len(self.trees.len());
        let call = Call::new(Collective::AllGather, DType::U8, ReduceOp::Sum, len);
        // The highest class, since later operations may wait for it. It is short enough for every switch.
        if let Ok(request) = lower::lower(&call.in_class(context.config.classes - 1), context) {
            let exchange = RateExchange { request, rank: context.rank, world: context.world };
            self.lock_shares().set_exchange(exchange);
        }
    }

    /// The part of each tree in operations, of 1.
    pub(crate) fn fractions(&self) -> Vec<f64> {
        self.lock_shares().fractions()
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
        let mut shares = self.lock_shares();
        shares.use_trees(&self.route.assign());
        let Lowered { spec, coding } = operation.request;
        let trees = shares.trees().len() as u64;
        let cut = coding::cut(&spec.descriptor, coding, self.lane_bytes);
        match cut.filter(|cut| spec.descriptor.elements.div_ceil(*cut) >= trees * PART_CHUNKS) {
            Some(cut) if trees > 1 => self.divide(operation, cut, &mut shares),
            _ => self.trees[shares.take_turn()].mailbox.submit(operation),
        }
        if let Some(exchange) = shares.take_exchange() {
            self.trees[shares.take_turn()].mailbox.submit(exchange);
        }
    }

    /// Submits a part of an operation to each tree. Parts begin at multiples of `cut` elements.
    fn divide(&self, operation: SwitchOperation, cut: u64, shares: &mut TreeShares) {
        let Lowered { spec, coding } = operation.request;
        let Operation { buffer, submitted, .. } = operation;
        let parts = parts(spec.descriptor.elements, cut, &shares.next_weights());
        let (dtype, units) = (spec.descriptor.dtype, coding::units(spec.descriptor.dtype));
        let lens: Vec<usize> = parts.iter().map(|elements| (*elements * units) as usize).collect();
        let whole = buffer.completion();
        let buffers = buffer.divide(&lens);
        let bytes = |elements: &u64| elements * dtype.size() as u64;
        let measured = shares.trees().to_vec().into_iter().zip(&buffers).zip(parts.iter().map(bytes));
        shares.measure(submitted, &whole, measured.map(|((tree, buffer), bytes)| (tree, buffer, bytes)));
        let mut sharing = spec.sharing;
        for ((elements, buffer), tree) in parts.iter().zip(buffers).zip(shares.trees()) {
            let descriptor = Descriptor { elements: *elements, ..spec.descriptor };
            let mut request = Lowered { spec: OpSpec { descriptor, sharing, ..spec }, coding };
            request.cut_for(self.lane_bytes);
            self.trees[*tree].mailbox.submit(Operation { request, buffer, submitted });
            if let Sharing::FromEach(parts) | Sharing::ToEach(parts) = &mut sharing {
                parts.first += *elements * units;
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

/// Elements of each part of a tensor, which begin at multiples of `cut`: a part for each weight, in proportion to it.
fn parts(elements: u64, cut: u64, weights: &[u32]) -> Vec<u64> {
    let chunks = u128::from(elements.div_ceil(cut));
    let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let (mut weight_before, mut begin) = (0, 0);
    let part = |weight: &u32| {
        weight_before += u128::from(*weight);
        let end = (chunks * weight_before / total.max(1)) as u64 * cut;
        let elements = end.min(elements) - begin;
        begin += elements;
        elements
    };
    weights.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_chunks_but_for_the_last() {
        assert_eq!(parts(352 * 256, 352, &[7, 7]), [352 * 128; 2]);
        assert_eq!(parts(352 * 257 + 1, 352, &[1, 1]), [352 * 129, 352 * 128 + 1]);
        let three = parts(1_000_001, 704, &[1, 1, 1]);
        assert_eq!(three.iter().sum::<u64>(), 1_000_001);
        assert!(three[..2].iter().all(|part| part % 704 == 0));
        assert_eq!(parts(352 * 400, 352, &[3, 1]), [352 * 300, 352 * 100]);
        assert_eq!(parts(u64::MAX / 2, 1, &[u32::MAX; 8]).iter().sum::<u64>(), u64::MAX / 2);
    }
}
