//! Which of a job's trees an operation uses: the same on every rank, whatever events each has received by then.
//!
//! Operations are numbered as they are submitted, alike on all ranks. A tree is excluded, and included again, from a number on which all
//! ranks agree: each sends its next number, blocking callers until all have answered, and the largest counts.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The trees of a communicator.
#[derive(Debug, Clone)]
pub(crate) struct Route(Arc<SharedRoute>);

#[derive(Debug)]
struct SharedRoute {
    state: Mutex<RouteState>,
    thawed: Condvar,
}

#[derive(Debug)]
struct RouteState {
    /// Number of the next operation.
    next: u64,
    /// Trees that are agreeing on a number.
    frozen: u32,
    /// By tree.
    trees: Vec<TreeRoute>,
}

#[derive(Debug, Clone, Default)]
struct TreeRoute {
    excluded: bool,
    /// Changes of the exclusion, with the numbers from which they hold, in order.
    changes: Vec<(u64, bool)>,
}

impl Route {
    pub(crate) fn new(trees: usize) -> Self {
        let state = RouteState { next: 0, frozen: 0, trees: vec![TreeRoute::default(); trees] };
        Self(Arc::new(SharedRoute { state: Mutex::new(state), thawed: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, RouteState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is anything to choose.
    pub(crate) fn is_single(&self) -> bool {
        self.lock().trees.len() < 2
    }

    /// Numbers an operation; the trees that it may use. Where all trees are excluded they all count: their ranks continue without switches.
    pub(crate) fn assign(&self) -> Vec<usize> {
        let state = self.lock();
        let waited = self.0.thawed.wait_while(state, |state| state.frozen > 0);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let number = state.next;
        state.next += 1;
        for tree in &mut state.trees {
            while let Some((from, excluded)) = tree.changes.first().copied()
                && from <= number
            {
                tree.excluded = excluded;
                tree.changes.remove(0);
            }
        }
        let all = 0..state.trees.len();
        let mut trees: Vec<usize> = all.clone().filter(|tree| !state.trees[*tree].excluded).collect();
        if trees.is_empty() {
            trees = all.collect();
        }
        trees
    }

    /// Blocks new operations until the guard is dropped.
    pub(crate) fn freeze(&self) -> Frozen<'_> {
        let mut state = self.lock();
        state.frozen += 1;
        Frozen { route: self, next: state.next }
    }
}

/// No operation is numbered while this exists.
pub(crate) struct Frozen<'a> {
    route: &'a Route,
    next: u64,
}

impl Frozen<'_> {
    /// Number of the next operation on this rank.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// A tree is excluded, or not, from this number on: the largest of all ranks' next ones.
    pub(crate) fn set(&self, tree: usize, excluded: bool, from: u64) {
        if let Some(tree) = self.route.lock().trees.get_mut(tree) {
            tree.changes.push((from, excluded));
        }
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let mut state = self.route.lock();
        state.frozen -= 1;
        if state.frozen == 0 {
            self.route.0.thawed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_left_out_from_the_number_agreed_on() {
        let route = Route::new(3);
        assert_eq!(route.assign(), [0, 1, 2]);
        let frozen = route.freeze();
        assert_eq!(frozen.next(), 1);
        frozen.set(1, true, 3);
        drop(frozen);
        assert_eq!((route.assign(), route.assign()), (vec![0, 1, 2], vec![0, 1, 2]));
        assert_eq!(route.assign(), [0, 2], "number 3");
        route.freeze().set(0, true, 4);
        route.freeze().set(2, true, 5);
        assert_eq!(route.assign(), [2]);
        assert_eq!(route.assign(), [0, 1, 2], "without switches");
        route.freeze().set(1, false, 7);
        assert_eq!((route.assign(), route.assign()), (vec![0, 1, 2], vec![1]));
    }

    /// Another rank may have been ahead twice before this one catches up.
    #[test]
    fn changes_may_wait_for_their_numbers() {
        let route = Route::new(2);
        route.freeze().set(1, true, 1);
        route.freeze().set(1, false, 2);
        assert_eq!((route.assign(), route.assign(), route.assign()), (vec![0, 1], vec![0], vec![0, 1]));
    }

    #[test]
    fn callers_wait_while_numbers_are_agreed_on() {
        let route = Route::new(2);
        let (first, second) = (route.freeze(), route.freeze());
        let caller = {
            let route = route.clone();
            std::thread::spawn(move || route.assign())
        };
        drop(first);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!caller.is_finished());
        second.set(0, true, 0);
        drop(second);
        assert_eq!(caller.join().expect("trees"), [1]);
    }
}
