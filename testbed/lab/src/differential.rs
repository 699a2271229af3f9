//! Two back ends, one sequence of packets, and every byte compared.
//!
//! A [`Sequence`] is generated from a seed: the table entries and multicast groups of one to four jobs (some at a root, some
//! below a parent), then packets as their members, parents, the controller and unknown senders might send them: contributions that
//! complete slots, repeated, stale, early, malformed, spoofed, cut, padded and mangled ones. It is plain data, so that
//! it can be played to any target. [`compare`] plays one to two pipelines of the software switch.

mod bmv2;
mod generate;
mod jobs;
mod play;
mod rate;
mod sequence;
#[cfg(target_os = "linux")]
mod xdp;

pub use bmv2::{Bmv2Rig, RigError};
pub use play::{Copy, Difference, Player, Tally, compare};
pub use rate::bmv2_rate;
pub use sequence::{Arrival, Group, Sequence, Settings};
#[cfg(target_os = "linux")]
pub use xdp::{XdpPipeline, XdpRigError};
