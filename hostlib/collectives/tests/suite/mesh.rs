//! Meshes of threads over loopback.

mod collectives;
mod faults;
mod group;
mod rendezvous;
