//! Programs that others write: C programs against the installed library, and MPI programs under the shim. All of them are
//! compiled and run as their users would, with time limits of their own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod c;
mod install;
mod mpi;
mod process;
