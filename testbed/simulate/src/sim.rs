//! Discrete-event simulation: real workers ([`netfold_proto`]) and a switch, on a virtual clock and a network that
//! loses, repeats, reorders, delays and damages packets. Everything follows from one seed.
//!
//! [`Scenario::from_seed`] generates a job (ranks, slots, chunk size, tensors, operations), a network and faults;
//! [`run`](run::run) plays it against a [`SimSwitch`] and panics when an invariant of the protocol is broken:
//!
//! - **Exactly once.** Every lane of every result equals the fold of all ranks' inputs in exact arithmetic, and lane `r`
//!   of each chunk counts the contributions of rank `r`.
//! - **Same bytes.** All results of a chunk, first or repeated, to any rank, from any switch, hold the same lanes; so do all
//!   folds of it that one switch sends up.
//! - **Safe reuse.** No packet reaches the switch that would replace a result which a live rank has not taken.
//! - **Progress.** All operations finish; when a rank crashes, every other finishes or gives up with a typed reason in
//!   bounded time.
//! - **Isolation.** Forged, foreign, stale and damaged packets leave the state of every slot as it was, and change
//!   nothing at a worker.
//!
//! [`Scenario::tree_from_seed`] generates a tree of two or three levels, in which the links between switches misbehave like any
//! others, and [`run_tree`] plays it: the same invariants, at every switch.
//!
//! Switches: [`ReferenceSwitch`], written to be read; [`PipelineSwitch`], the pipeline that the software
//! switch runs, generated or interpreted; [`Lockstep`], both at once, byte for byte.

mod intruder;
mod network;
mod pipeline;
mod referee;
mod reference;
mod run;
mod scenario;
mod seeds;
mod switch;
mod tensors;

pub use network::{Delivery, Faults};
pub use pipeline::PipelineSwitch;
pub use reference::ReferenceSwitch;
pub use run::{Report, run, run_tree};
pub use scenario::{Crash, Outage, Scenario, Straggler};
pub use seeds::play_all;
pub use switch::{JobSetup, Lockstep, SimSwitch};
pub use tensors::OpPlan;
