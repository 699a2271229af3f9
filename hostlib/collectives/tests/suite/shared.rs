//! Ranks of one host: threads and processes.

mod collectives;
mod failures;
mod hierarchy;
mod processes;
mod ranks;
mod room;
