//! The examples of the documentation, and rustdoc's lints.
//!
//! `cargo doc` has every crate checked first, third-party ones too, although tests have them built. `cargo test --doc` calls rustdoc for each library with what
//! is built for tests. To check the documentation without another build, this program stands in for rustdoc there: it has the real one make the
//! documentation of the library, with warnings denied, while it runs the examples.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::lint;
use crate::packages;
use crate::process::{self, cargo};

/// Names the rustdoc that this program stands in for.
const RUSTDOC: &str = "NETFOLD_XTASK_RUSTDOC";

/// What to do beside running the examples.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Arguments {
    /// Have clippy and rustdoc check what is built, with warnings denied
    #[arg(long)]
    pub(crate) lint: bool,
}

/// Runs the examples of all libraries.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    let mut command = cargo(&["test", "--doc", "--no-fail-fast"]);
    command.args(packages::workspace());
    if arguments.lint {
        let rustdoc = lint::of_toolchain("rustdoc").context("the toolchain has no rustdoc")?;
        let this = std::env::current_exe().context("this program has no path")?;
        command.envs(lint::as_clippy()?).env("RUSTDOC", this).env(RUSTDOC, rustdoc);
    }
    process::run(&mut command)
}

/// What cargo expects of rustdoc, if it calls this program as such.
pub(crate) fn stand_in() -> Option<ExitCode> {
    let rustdoc = std::env::var_os(RUSTDOC)?;
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let run = || -> Result<bool> {
        let lints =
            documentation(&arguments).map(|of| Command::new(&rustdoc).args(of).spawn()).transpose()?;
        let examples = Command::new(&rustdoc).args(&arguments).status()?;
        let documented = lints.map(|mut running| running.wait()).transpose()?;
        Ok(examples.success() && documented.is_none_or(|status| status.success()))
    };
    Some(match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {}: {problem:#}", rustdoc.display());
            ExitCode::FAILURE
        }
    })
}

/// rustdoc's arguments that make the documentation of the crate whose examples these run; `None` if they run none.
fn documentation(examples: &[OsString]) -> Option<Vec<OsString>> {
    /// Options of examples, each with a value.
    const WITH_VALUE: [&str; 4] =
        ["--test-args", "--test-run-directory", "--test-runtool", "--test-runtool-arg"];
    let is = |argument: &OsStr, option: &str| argument == option;
    examples.iter().find(|argument| is(argument, "--test"))?;
    let name = examples.iter().position(|argument| is(argument, "--crate-name"))?;
    let name = examples.get(name + 1)?.to_str()?;
    let own = format!("{name}=");
    let mut kept = Vec::new();
    let mut rest = examples.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if WITH_VALUE.contains(&&*text) {
            rest.next();
        } else if is(argument, "--extern") {
            // The crate itself is one of those that its examples use.
            let of = rest.next()?;
            if !of.to_string_lossy().starts_with(&own) {
                kept.extend([argument.clone(), of.clone()]);
            }
        } else if !is(argument, "--test")
            && !WITH_VALUE
                .iter()
                .any(|option| text.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
        {
            kept.push(argument.clone());
        }
    }
    kept.extend(["-D", "warnings", "-o"].map(OsString::from));
    // Libraries are documented apart, since they are by several processes, and no page is read.
    kept.push(folder().join(name).into());
    Some(kept)
}

fn folder() -> PathBuf {
    crate::metadata::target_folder().unwrap_or_else(|_| std::env::temp_dir()).join("linted-doc")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_documentation_is_made_with_what_examples_use_but_the_crate_itself() {
        let examples = words(
            "--edition=2024 --crate-name netfold_wire --test src/lib.rs --test-run-directory /a --extern bytes=/t/libbytes.rlib \
             --extern netfold_wire=/t/libnetfold_wire.rlib -L dependency=/t --test-args --quiet --error-format human",
        );
        let lints = documentation(&examples).unwrap();
        let (out, lints) = lints.split_last().unwrap();
        assert_eq!(
            lints,
            words(
                "--edition=2024 --crate-name netfold_wire src/lib.rs --extern bytes=/t/libbytes.rlib -L dependency=/t \
                 --error-format human -D warnings -o"
            )
        );
        assert!(out.to_string_lossy().ends_with("linted-doc/netfold_wire"), "{out:?}");
    }

    #[test]
    fn what_runs_no_examples_is_left_to_rustdoc() {
        assert_eq!(documentation(&words("-vV")), None);
        assert_eq!(documentation(&words("--crate-name a src/lib.rs")), None);
    }
}
