//! Netfold's simulators and model checks, in virtual time.
//!
//! - [`disk`]: a disk that tears writes when it loses power.
//! - [`experiment`]: scenarios with a seed whose tables and plots are committed.
//! - [`flow`]: jobs over a network as flows, without packets.
//! - [`model`]: every order of events at one slot, searched exhaustively.
//! - [`mod@racks`]: two racks on narrow links: what exact and bounded-loss sums cost there.
//! - [`ring`]: what hosts do without a switch, over TCP on a lossy link.
//! - [`shared_slots`]: two jobs that share slots of a switch, or have half of them each.
//! - [`sim`]: workers and switch under a virtual clock and a seeded network, with every invariant asserted.
//! - [`vopr`]: the whole system, with controllers, sessions, failures of processes and an adversarial tenant.

pub mod disk;
pub mod experiment;
pub mod flow;
pub mod model;
pub mod racks;
pub mod ring;
pub mod shared_slots;
pub mod sim;
pub mod vopr;
