//! What is generated and committed: the P4 programs, and the Rust code of gRPC interfaces.

use anyhow::Result;

use crate::process::{self, cargo, heading};

/// Compare the committed P4 programs and protocol code with what is generated now, or rewrite them
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail when a committed file differs
    #[arg(long)]
    check: bool,
}

/// Runs the tests that compare the files, and rewrite them if asked to.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    heading("protocol code");
    // First, because nothing else builds while an interface and its code differ. This test depends on neither.
    process::run(&mut test("xtask", "", arguments))?;
    heading("P4 snapshots");
    let filter =
        if arguments.check { "snapshots::" } else { "snapshots::printed_programs_equal_the_committed_ones" };
    process::run(&mut test("netfold-p4", filter, arguments))
}

fn test(package: &str, filter: &str, arguments: &Arguments) -> std::process::Command {
    let mut command = cargo(&["test", "--package", package, "--test", "suite", filter]);
    if !arguments.check {
        command.env("UPDATE_SNAPSHOTS", "1");
    }
    command
}
