//! The `netfold` command. `docs/operations.md` describes what it prints.

use std::process::ExitCode;

use clap::Parser;

mod command;
mod error;
mod event;
mod lifetime;
mod output;
mod size;

use command::Cli;
use error::CliError;
use output::Output;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let output = Output::new(cli.json);
    match cli.command.run(&output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Answers arguments that were not understood, and requests for help and version. Whether `--json` was among them is not
/// known from a parse that failed, so the words are looked at.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        let text = error.render().to_string();
        let error = CliError::Usage(text.trim_start_matches("error: ").trim_end().to_owned());
        Output::new(true).error(&error);
        return ExitCode::from(error.exit_code());
    }
    // Nothing is left to be done when help cannot be printed.
    let _ = error.print();
    ExitCode::from(error.exit_code() as u8)
}
