//! What the ranks say of their all-reduces, put together.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use netfold_testkit::sample::Sample;

use super::worker::Operation;

/// All-reduces of one part of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Phase {
    /// How many, each done on all ranks.
    pub operations: u32,
    /// Elements that were checked, over all ranks.
    pub checked: u64,
    /// Those of them that were wrong.
    pub wrong: u64,
    /// Median of their times, each the slowest rank's; 0 if there was none.
    pub median_s: f64,
    /// Longest of their times.
    pub longest_s: f64,
}

/// One all-reduce, as far as ranks have reported it.
#[derive(Debug, Clone)]
struct Entry {
    ranks: u16,
    last: Instant,
    seconds: f64,
    checked: u64,
    wrong: u64,
    /// Fewest trees that a rank had when it began.
    trees: usize,
}

/// All of them, by number.
pub(super) struct Ledger {
    world: u16,
    trees: usize,
    entries: BTreeMap<u32, Entry>,
    /// All-reduces that each rank has done.
    done: Vec<u32>,
    lost_at: Option<Loss>,
}

/// The moment of the fault.
#[derive(Debug, Clone, Copy)]
struct Loss {
    at: Instant,
    /// All-reduces that no rank had done have numbers above this.
    done: u32,
}

impl Ledger {
    /// Of `world` ranks and a job on `trees` trees.
    pub(super) fn new(world: u16, trees: usize) -> Self {
        Self { world, trees, entries: BTreeMap::new(), done: vec![0; world.into()], lost_at: None }
    }

    /// A rank has done an all-reduce.
    pub(super) fn enter(&mut self, rank: u16, at: Instant, operation: &Operation) {
        self.done[usize::from(rank)] = operation.number;
        let entry = self.entries.entry(operation.number).or_insert(Entry {
            ranks: 0,
            last: at,
            seconds: 0.0,
            checked: 0,
            wrong: 0,
            trees: usize::MAX,
        });
        entry.ranks += 1;
        entry.last = at;
        entry.seconds = entry.seconds.max(operation.seconds);
        entry.checked += operation.elements;
        entry.wrong += operation.wrong;
        entry.trees = entry.trees.min(operation.trees);
    }

    /// The spine is killed now.
    pub(super) fn note_loss(&mut self, at: Instant) {
        self.lost_at = Some(Loss { at, done: self.done.iter().copied().max().unwrap_or(0) });
    }

    /// All-reduces that all ranks have done.
    pub(super) fn done(&self) -> u32 {
        self.done.iter().copied().min().unwrap_or(0)
    }

    /// When, after the loss, the first all-reduce that no rank had done before was done on all.
    pub(super) fn went_on(&self) -> Option<Duration> {
        let lost_at = self.lost_at?;
        self.whole().find(|(number, _)| *number > lost_at.done).map(|(_, entry)| entry.last - lost_at.at)
    }

    /// When, after the loss, the first all-reduce that began with all trees again was done on all ranks.
    pub(super) fn regained(&self) -> Option<Duration> {
        let lost_at = self.lost_at?;
        self.entries.get(&self.first_after()?).map(|entry| entry.last - lost_at.at)
    }

    /// All-reduces that were done with all trees again.
    pub(super) fn after(&self) -> u32 {
        self.first_after()
            .map_or(0, |first| self.whole().filter(|(number, _)| *number >= first).count() as u32)
    }

    /// All-reduces before the loss, from then on, and with all trees again.
    pub(super) fn phases(&self) -> [Phase; 3] {
        let first_after = self.first_after();
        let mut parts: [Vec<&Entry>; 3] = Default::default();
        for (number, entry) in self.whole() {
            let phase = match self.lost_at {
                None => 0,
                Some(lost_at) if entry.last <= lost_at.at => 0,
                Some(_) if first_after.is_none_or(|first| number < first) => 1,
                Some(_) => 2,
            };
            parts[phase].push(entry);
        }
        parts.map(|entries| phase(&entries))
    }

    /// Those that all ranks have done.
    fn whole(&self) -> impl Iterator<Item = (u32, &Entry)> {
        let entries = self.entries.iter().map(|(number, entry)| (*number, entry));
        entries.filter(|(_, entry)| entry.ranks == self.world)
    }

    /// The first all-reduce with all trees again: one behind some with fewer. An all-reduce that was under way when the spine was lost had
    /// all trees when it began.
    fn first_after(&self) -> Option<u32> {
        let lost_at = self.lost_at?;
        let behind = self.whole().skip_while(|(number, _)| *number <= lost_at.done);
        let mut behind = behind.skip_while(|(_, entry)| entry.trees >= self.trees);
        behind.find(|(_, entry)| entry.trees >= self.trees).map(|(number, _)| number)
    }
}

fn phase(entries: &[&Entry]) -> Phase {
    let seconds: Sample = entries.iter().map(|entry| entry.seconds).collect();
    Phase {
        operations: entries.len() as u32,
        checked: entries.iter().map(|entry| entry.checked).sum(),
        wrong: entries.iter().map(|entry| entry.wrong).sum(),
        median_s: seconds.median(),
        longest_s: seconds.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(number: u32, trees: usize, wrong: u64) -> Operation {
        Operation { number, seconds: f64::from(number), elements: 10, wrong, trees }
    }

    #[test]
    fn operations_fall_into_three_phases() {
        let begun = Instant::now();
        let at = |second: u64| begun + Duration::from_secs(second);
        let mut ledger = Ledger::new(2, 2);
        for rank in [0, 1] {
            ledger.enter(rank, at(1), &operation(1, 2, 0));
        }
        ledger.enter(0, at(2), &operation(2, 2, 0));
        assert_eq!((ledger.done(), ledger.went_on(), ledger.regained()), (1, None, None));
        ledger.note_loss(at(3));
        // The other rank's result was on its way; the next was under way, with both trees still.
        ledger.enter(1, at(4), &operation(2, 2, 0));
        assert_eq!(ledger.went_on(), None);
        for (number, trees, second) in [(3, [2, 2], 9), (4, [1, 2], 10), (5, [1, 1], 11), (6, [2, 1], 12)] {
            for rank in [0, 1] {
                ledger.enter(
                    rank,
                    at(second),
                    &operation(number, trees[usize::from(rank)], u64::from(number == 4)),
                );
            }
        }
        assert_eq!((ledger.went_on(), ledger.regained()), (Some(Duration::from_secs(6)), None));
        assert_eq!(ledger.after(), 0);
        for rank in [0, 1] {
            ledger.enter(rank, at(13), &operation(7, 2, 0));
        }
        ledger.enter(0, at(14), &operation(8, 2, 5));
        assert_eq!((ledger.regained(), ledger.after()), (Some(Duration::from_secs(10)), 1));
        let [before, during, after] = ledger.phases();
        assert_eq!((before.operations, before.checked, before.wrong), (1, 20, 0));
        assert_eq!((during.operations, during.wrong, during.longest_s), (5, 2, 6.0));
        assert_eq!((after.operations, after.checked, after.median_s), (1, 20, 7.0));
    }
}
