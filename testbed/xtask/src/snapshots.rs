//! The committed P4 programs.

use anyhow::Result;

use crate::process::{self, cargo, heading};

/// Compare the committed P4 programs and digests with what is printed now, or rewrite them
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail when a committed file differs
    #[arg(long)]
    check: bool,
}

/// Runs the snapshot tests of `netfold-p4`, which rewrite the files if asked to.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    heading("P4 snapshots");
    let mut command = cargo(&["test", "--package", "netfold-p4", "--test", "suite"]);
    if arguments.check {
        command.arg("snapshots::");
    } else {
        command.arg("snapshots::printed_programs_equal_the_committed_ones").env("UPDATE_SNAPSHOTS", "1");
    }
    process::run(&mut command)
}
