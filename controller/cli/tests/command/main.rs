//! Runs the built `netfold` binary: its output, its exit, and the end of the processes that it starts.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod addresses;
mod arguments;
mod backup;
mod bands;
mod bench;
mod connect_errors;
mod connections;
mod controller;
mod demo;
mod documentation;
mod failpoints;
mod groups;
mod jobs;
mod leaf_spine;
mod many_jobs;
mod nic;
mod observer;
mod p4;
mod p4runtime;
mod package;
mod packaging;
mod partition;
mod process;
mod raw;
mod shared_switch;
mod sharing;
mod standby;
mod star;
mod statements;
mod switch;
mod testbed;
mod tls;
mod tutorials;
mod upgrade;
mod wireshark;
