//! Netfold's network plugin for NCCL, `libnccl-net-netfold.so`: CollNet over an aggregating switch, and the point-to-point network
//! over TCP without which NCCL accepts no plugin.
//!
//! NCCL finds the tables `ncclNetPlugin_vN` and `ncclCollNetPlugin_vN` in the library, for N = 6, 8, 11 and 12. They are thin:
//! every function normalises its version's arguments and goes to one implementation. How to use it, and what was tested, is in
//! `docs/nccl.md`.
//!
//! - `abi`: the tables and structures as memory; `entry`, `net` and `collnet`: the functions in the tables.
//! - `handshake` and `link`: point to point. No thread; the calls themselves move bytes.
//! - `group`: CollNet, by a [`netfold::Communicator`]; `window`: parts of ranks in requests; `settings`: the environment.
//! - `registry`: opaque pointers are numbers, so a stale one is an error and not a crash.

mod abi;
mod collnet;
mod entry;
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod guard;
mod handle;
mod handshake;
mod interfaces;
mod link;
mod logging;
mod memory;
mod net;
mod properties;
mod registry;
mod result;
mod settings;
mod window;

/// The name for `NCCL_NET`.
const NAME: &core::ffi::CStr = c"netfold";
