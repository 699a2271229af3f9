//! The search that models have in common: every state that is reached from the first ones, and whether each of them can still lead to an end.

use std::collections::HashMap;
use std::hash::Hash;

use super::{Broken, Explored};

/// Every state that is reached.
pub(super) struct Reached<S> {
    states: Vec<S>,
    /// From which state to which other one an event leads that happens in the end, by their places in `states`.
    certain: Vec<(u32, u32)>,
    events: usize,
}

/// Searches breadth first. `events` are possible in a state, `play` is what follows from one, and `happens` says whether it does in the end, as
/// long as a worker lacks a result.
pub(super) fn search<S: Copy + Eq + Hash, E: Copy>(
    starts: &[S],
    events: impl Fn(&S) -> Result<Vec<E>, Broken>,
    play: impl Fn(&S, E) -> Result<S, Broken>,
    happens: impl Fn(&S, E) -> bool,
) -> Result<Reached<S>, Broken> {
    let mut known: HashMap<S, u32> = starts.iter().copied().zip(0..).collect();
    let mut reached = Reached { states: starts.to_vec(), certain: Vec::new(), events: 0 };
    let mut at = 0;
    while at < reached.states.len() {
        let state = reached.states[at];
        for event in events(&state)? {
            let next = play(&state, event)?;
            reached.events += 1;
            let to = *known.entry(next).or_insert_with(|| {
                reached.states.push(next);
                reached.states.len() as u32 - 1
            });
            let edge = (at as u32, to);
            if to != edge.0 && reached.certain.last() != Some(&edge) && happens(&state, event) {
                reached.certain.push(edge);
            }
        }
        at += 1;
    }
    Ok(reached)
}

impl<S> Reached<S> {
    /// How many there are.
    pub(super) fn explored(&self) -> Explored {
        Explored { states: self.states.len(), events: self.events }
    }

    /// Walks back from the states in which all have finished: what is not reached can never finish.
    pub(super) fn find_deadlock(&self, finished: impl Fn(&S) -> bool) -> Result<(), Broken> {
        let mut backward = vec![Vec::new(); self.states.len()];
        for (from, to) in &self.certain {
            backward[*to as usize].push(*from);
        }
        let mut live: Vec<bool> = self.states.iter().map(finished).collect();
        let mut open: Vec<usize> = (0..live.len()).filter(|at| live[*at]).collect();
        while let Some(at) = open.pop() {
            for from in &backward[at] {
                if !std::mem::replace(&mut live[*from as usize], true) {
                    open.push(*from as usize);
                }
            }
        }
        if live.iter().all(|live| *live) { Ok(()) } else { Err(Broken::Deadlock) }
    }
}
