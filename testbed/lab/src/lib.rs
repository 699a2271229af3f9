//! Netfold's laboratory: real switches and workers on one machine.
//!
//! - [`mod@bmv2`]: the reference P4 switch as a process, with its compiler and its packets.
//! - [`classes`]: two jobs in classes of their own, at queues that distinguish them.
//! - [`diagnose`]: whether it is found what slows a job down.
//! - [`differential`]: random sequences of packets, by which two back ends are compared.
//! - [`failpoint`]: a controller that is killed at a chosen step of a change.
//! - [`leaf_spine`]: a fabric of switches in network namespaces, and a job that survives the loss of one of them.
//! - [`paths`]: a fabric whose leaves spread flows over several spines, and how evenly workers use these.
//! - [`mod@run`]: one job through a tree of real switches, every element checked.
//! - [`rank`]: a rank of a job under test, as a process.
//! - [`schedule`]: two jobs that share a link, and whether a schedule keeps them apart.
//! - [`spill`]: two jobs that share the slots of a switch, below an aggregator.
//! - [`stf`]: sequences as scripts that people write and the P4 compiler's own runner replays.
//! - [`survive`]: a controller, a switch and workers killed without warning while jobs run.
//! - [`trial`]: why a trial of [`classes`], [`schedule`] or [`spill`] has no result.

pub mod bmv2;
pub mod classes;
pub mod diagnose;
pub mod differential;
pub mod failpoint;
pub mod leaf_spine;
pub mod paths;
pub mod rank;
pub mod run;
pub mod schedule;
mod shaper;
pub mod spill;
pub mod stf;
pub mod survive;
pub mod trial;
