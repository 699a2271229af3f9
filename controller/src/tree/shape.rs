//! Which switch and which worker hangs where.

use serde::{Deserialize, Serialize};

use netfold_wire::{CHILDREN_MAX, LEVELS_MAX, WORLD_MAX};

use super::TreeError;

/// The shape of a tree: switches by number, workers by rank. A switch may have workers and switches below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// For each switch the one above it; `None` at the root.
    pub above: Vec<Option<usize>>,
    /// For each worker its switch.
    pub workers: Vec<usize>,
}

impl Shape {
    /// A tree of `levels` levels in which every switch above the lowest has `fan_out` switches below it; the workers are
    /// dealt to the lowest switches as evenly as it goes, neighbours in rank to the same one. Switch 0 is the root, and
    /// each level is numbered on from the one above.
    ///
    /// # Errors
    ///
    /// [`TreeError::Levels`], [`TreeError::World`], or [`TreeError::Children`] when a switch would have too many
    /// children or none.
    pub fn regular(levels: usize, fan_out: usize, workers: u16) -> Result<Self, TreeError> {
        if !(1..=LEVELS_MAX).contains(&levels) {
            return Err(TreeError::Levels(levels));
        }
        if levels > 1 && !(1..=CHILDREN_MAX).contains(&fan_out) {
            return Err(TreeError::Children { switch: 0, children: fan_out });
        }
        let mut above = vec![None];
        let (mut first, mut width) = (0, 1);
        for _ in 1..levels {
            above.extend((0..width * fan_out).map(|index| Some(first + index / fan_out)));
            (first, width) = (first + width, width * fan_out);
        }
        let world = usize::from(workers);
        let shape = Self { above, workers: (0..world).map(|rank| first + rank * width / world).collect() };
        shape.depths()?;
        let mut children = vec![0; width];
        shape.workers.iter().for_each(|leaf| children[leaf - first] += 1);
        let odd = children.iter().position(|children| !(1..=CHILDREN_MAX).contains(children));
        if let Some(index) = odd {
            return Err(TreeError::Children { switch: first + index, children: children[index] });
        }
        Ok(shape)
    }

    /// The root's number, if there is exactly one.
    pub fn root(&self) -> Option<usize> {
        let mut roots = self.above.iter().enumerate().filter(|(_, above)| above.is_none());
        roots.next().map(|(root, _)| root).filter(|_| roots.next().is_none())
    }

    /// Each switch's steps from the root.
    ///
    /// # Errors
    ///
    /// [`TreeError`] when this is no tree, or one of too many levels or workers.
    pub fn depths(&self) -> Result<Vec<usize>, TreeError> {
        let switches = self.above.len();
        let (world, world_max) = (self.workers.len(), usize::from(WORLD_MAX));
        if world == 0 || world > world_max {
            return Err(TreeError::World(world));
        }
        let absent = |what, index, at| Err(TreeError::Absent { what, index, at });
        for (index, above) in self.above.iter().enumerate() {
            if let Some(at) = above.filter(|above| *above >= switches) {
                return absent("switch", index, at);
            }
        }
        if let Some((index, at)) = self.workers.iter().enumerate().find(|(_, leaf)| **leaf >= switches) {
            return absent("worker", index, *at);
        }
        let roots = self.above.iter().filter(|above| above.is_none()).count();
        let mut depths: Vec<Option<usize>> =
            self.above.iter().map(|above| above.is_none().then_some(0)).collect();
        // Each round settles one level.
        for _ in 1..switches {
            let before = depths.clone();
            for (depth, above) in depths.iter_mut().zip(&self.above) {
                *depth = depth.or_else(|| above.and_then(|above| before[above]).map(|depth| depth + 1));
            }
            if depths == before {
                break;
            }
        }
        let reached = if roots == 1 { depths.iter().flatten().count() } else { 0 };
        let depths: Option<Vec<usize>> = depths.into_iter().collect();
        let depths = depths.filter(|_| roots == 1).ok_or(TreeError::Root { roots, reached, switches })?;
        let levels = depths.iter().max().map_or(0, |deepest| deepest + 1);
        // Each may have an aggregator above it.
        if levels > 2 * LEVELS_MAX { Err(TreeError::Levels(levels)) } else { Ok(depths) }
    }

    /// What hangs at each switch: switches before workers, each in order. The place of a child is its bit in the switch's bitmaps.
    pub(crate) fn below(&self) -> Vec<Vec<ChildRef>> {
        let mut below = vec![Vec::new(); self.above.len()];
        for (switch, above) in self.above.iter().enumerate() {
            if let Some(above) = above {
                below[*above].push(ChildRef::Switch(switch));
            }
        }
        for (rank, leaf) in self.workers.iter().enumerate() {
            below[*leaf].push(ChildRef::Worker(rank));
        }
        below
    }
}

/// Something below a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildRef {
    Worker(usize),
    Switch(usize),
}

/// Bits by which a switch shifts the sum of so many contributions, so that it fits a lane again: ceil(log2(children)).
pub(super) fn shift_for(children: u16) -> u8 {
    children.next_power_of_two().trailing_zeros() as u8
}
