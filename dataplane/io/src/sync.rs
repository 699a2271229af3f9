//! What exchanges between threads are made of: std's types or, in a build with `--cfg loom`, those of [loom](https://docs.rs/loom), by which a test
//! explores every order of accesses that the memory model allows.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex};
