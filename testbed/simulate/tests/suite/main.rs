//! The simulator's tests: invariants over many seeds, faulty switches that must be found, and the committed experiments.

mod bounded;
mod broken_switch;
mod broken_tree;
mod experiments;
mod largest_tree;
mod loss;
mod predicting;
mod saturating;
mod slot_machine;
mod trees;
mod vopr;
