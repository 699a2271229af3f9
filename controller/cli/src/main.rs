//! The `netfold` command. `docs/operations.md` describes what it prints.

use std::io::Write;
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
    show_warnings();
    let output = Output::new(cli.json);
    match cli.command.run(&output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Has what the library warns of on standard error; `RUST_LOG` says what else, as in `netfold=info`.
fn show_warnings() {
    let environment = env_logger::Env::default().default_filter_or("netfold=warn");
    env_logger::Builder::from_env(environment)
        .format(|out, record| {
            writeln!(out, "{}: {}", record.level().as_str().to_ascii_lowercase(), record.args())
        })
        .init();
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
