//! The committed P4 programs.

use anyhow::Result;

use crate::process::{self, cargo, heading};

/// Compare the committed P4 programs with what is printed now, or rewrite them
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail when a committed file differs
    #[arg(long)]
    check: bool,
}

/// Runs the snapshot tests of `netfold-p4`, which rewrite the files when told to.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    heading("P4 snapshots");
    let mut command = cargo(&["test", "--package", "netfold-p4", "--test", "snapshots"]);
    if !arguments.check {
        command.env("UPDATE_SNAPSHOTS", "1");
    }
    process::run(&mut command)
}
