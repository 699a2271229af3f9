//! The `netfold` command. `docs/operations.md` describes what it prints.

use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use serde_json::json;

mod command;
mod connections;
mod error;
mod event;
mod exit;
mod lifetime;
mod output;
mod service;
mod settings;
mod size;

use command::{Cli, LogFormat};
use error::CliError;
use exit::Exit;
use output::Output;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let filter = match (cli.quiet, cli.verbose) {
        (true, _) => "netfold=error",
        (false, 0) => "netfold=warn",
        (false, 1) => "netfold=info",
        (false, _) => "netfold=debug",
    };
    start_log(filter, cli.log_format);
    let output = Output::new(cli.json);
    match cli.command.run(&output) {
        Ok(()) => Exit::Success.into(),
        Err(error) => {
            output.error(&error);
            error.exit().into()
        }
    }
}

/// Prints the libraries' log on standard error; `RUST_LOG` has precedence over the filter.
fn start_log(filter: &str, format: LogFormat) {
    let environment = env_logger::Env::default().default_filter_or(filter);
    env_logger::Builder::from_env(environment)
        .format(move |out, record| {
            let level = record.level().as_str().to_ascii_lowercase();
            match format {
                LogFormat::Text => writeln!(out, "{level}: {}", record.args()),
                LogFormat::Json => {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    let entry = json!({
                        "event": "log", "at_ms": now.as_millis() as u64, "level": level, "target": record.target(),
                        "message": record.args().to_string(),
                    });
                    writeln!(out, "{entry}")
                }
            }
        })
        .init();
}

/// Handles invalid arguments, and requests for help and version. A failed parse does not tell whether `--json` was given, so the
/// arguments are searched for it.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        let text = error.render().to_string();
        let error = CliError::Usage(text.trim_start_matches("error: ").trim_end().to_owned());
        Output::new(true).error(&error);
        return error.exit().into();
    }
    // There is nothing to do if help cannot be printed.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Success.into() }
}
