//! What clippy cannot check: the shape of the tree, dependency arrows, and documentation against code.

mod arrows;
mod cycles;
mod generated;
mod protocol;
mod shape;
mod source;
mod wireshark;
mod words;

use anyhow::{Result, bail};

use crate::process::heading;

/// Check what clippy cannot: sizes, names, dependency arrows, documentation against code
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rewrite the generated parts of the documentation instead of comparing them
    #[arg(long)]
    fix: bool,
}

/// Finds problems, one line each.
type Check = fn() -> Result<Vec<String>>;

/// Every check with its name.
pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("file and function lengths", shape::lengths),
    ("module names", shape::names),
    ("orphan files", shape::orphans),
    ("safety comments", shape::safety),
    ("banned words", words::check),
    ("terms of the glossary", words::glossary),
    ("dependency arrows", arrows::check),
    ("module cycles", cycles::check),
    ("links", crate::links::check),
    ("index of the documentation", crate::summary::check),
    ("protocol page", protocol::check),
    ("Wireshark dissector", wireshark::check),
];

/// Runs every check, also after one has failed.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.fix {
        protocol::TABLE.fix()?;
        wireshark::DEFINITIONS.fix()?;
    }
    let failed = CHECKS
        .iter()
        .filter(|(name, check)| run_check(name, *check).inspect_err(|error| println!("{error:#}")).is_err());
    match failed.count() {
        0 => Ok(()),
        count => bail!("{count} of {} checks failed", CHECKS.len()),
    }
}

/// Runs one check and shows what it found.
pub(crate) fn run_check(name: &str, check: Check) -> Result<()> {
    heading(&format!("tidy: {name}"));
    let problems = check()?;
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        count => bail!("tidy: {name}: {count} problems"),
    }
}
