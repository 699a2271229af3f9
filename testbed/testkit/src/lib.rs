//! What the tests of several packages, and the testbed's own programs, need. It depends on no other package of the workspace, so that
//! every one can use it.
//!
//! - [`allocation`]: counts the allocations of each thread.
//! - [`binary16`]: rounds to binary16 by plain arithmetic.
//! - [`captured`]: child processes that are run to their end, within a deadline.
//! - [`committed`]: compares generated files with the committed ones.
//! - [`directory`]: a directory that is removed when dropped.
//! - [`job`]: runs a collective operation on a thread per rank and verifies every element.
//! - [`namespace`]: network namespaces, with or without a name, and pairs of virtual interfaces.
//! - [`plot`]: bar and line charts as SVG.
//! - [`process`]: child processes that are killed when dropped.
//! - [`sample`]: order statistics of repeated measurements.
//! - [`transcript`]: runs the commands of a documentation page and compares their output.
//! - [`wait`]: polls a condition until a deadline.

pub mod allocation;
pub mod binary16;
pub mod captured;
pub mod committed;
pub mod directory;
pub mod job;
pub mod namespace;
pub mod plot;
pub mod process;
pub mod sample;
pub mod transcript;
pub mod wait;
