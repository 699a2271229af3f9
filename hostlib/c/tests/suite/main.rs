//! The header; and programs as users write them: C programs against the installed library, and MPI programs under the shim. They are
//! compiled and run as users do, with time limits of their own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod c;
mod connect_errors;
mod header;
mod install;
mod mpi;
mod process;
mod vocabulary;
