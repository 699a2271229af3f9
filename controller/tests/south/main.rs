//! Managed switches: a software switch with its P4Runtime server, clients that get in the way, and connections that break.

mod election;
mod proxy;
mod recovery;
mod rig;
mod steady;
