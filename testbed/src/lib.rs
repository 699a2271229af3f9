//! Netfold's testbed: what shows and measures the system, built on all of its parts.
//!
//! - [`mod@bench`]: benchmarks, each with its bound measured in the same run.
//! - [`mod@bmv2`]: the reference P4 switch as a process, with its compiler and its packets.
//! - [`differential`]: random sequences of packets, by which two back ends are compared.
//! - [`experiment`]: scenarios with a seed whose tables and plots are committed.
//! - [`flow`]: jobs over a network as flows, without packets.
//! - [`leaf_spine`]: a fabric of switches in network namespaces, and a job that outlives one of them.
//! - [`model`]: every order of events at one slot, searched exhaustively.
//! - [`mod@racks`]: two racks on narrow links, in virtual time: what sums cost there that are exact, and that are not.
//! - [`ring`]: what hosts do without a switch, over TCP on a link that loses, in virtual time.
//! - [`mod@run`]: one job through a tree of real switches, every element checked.
//! - [`sim`]: workers and switch under a virtual clock and a seeded network, with every invariant asserted.
//! - [`stf`]: sequences as scripts that people write and the P4 compiler's own runner replays.
//! - [`survive`]: a controller, a switch and workers killed without warning while jobs run.
//! - [`train`]: data-parallel training of a small neural network on a published data set.

pub mod bench;
pub mod bmv2;
pub mod differential;
pub mod experiment;
pub mod flow;
pub mod leaf_spine;
pub mod model;
mod process;
pub mod racks;
pub mod ring;
pub mod run;
pub mod sim;
pub mod stf;
pub mod survive;
pub mod train;
