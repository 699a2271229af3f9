//! What goes to the terminal: text for people, or one JSON object a line.

use std::error::Error;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::error::CliError;
use crate::settings::Settings;

/// Where results go. Events are printed with `--json` only, lines without it only; both on standard output.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    colour: bool,
    columns: Option<usize>,
    /// What is printed before the first result.
    settings: Mutex<Option<Settings>>,
}

/// Emphasis of a text on a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tone {
    /// A heading or a result.
    Strong,
    /// Success.
    Good,
    /// Failure.
    Bad,
}

#[derive(Serialize)]
struct ErrorEvent<'a> {
    event: &'static str,
    kind: &'a str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        // An empty NO_COLOR does not count (https://no-color.org).
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let columns = terminal.then(|| ratatui::crossterm::terminal::size().ok()).flatten();
        Self {
            json,
            colour: terminal && !json && !no_colour,
            columns: columns.map(|(columns, _)| columns.into()),
            settings: Mutex::new(None),
        }
    }

    /// Has these settings printed before the first result, so that a command that fails before it prints its error alone.
    pub(crate) fn precede_by(&self, settings: Settings) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings);
    }

    /// Prints the settings, if there are some that have not been printed.
    pub(crate) fn print_settings(&self) -> Result<(), CliError> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).take();
        match settings {
            Some(settings) if self.json => write_json(&settings),
            Some(settings) => write(settings.to_string().as_bytes()),
            None => Ok(()),
        }
    }

    /// Width of the terminal in characters; `None` if standard output is not a terminal.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Whether results are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints an event as one JSON object, with `--json` only.
    pub(crate) fn event(&self, event: &impl Serialize) -> Result<(), CliError> {
        if !self.json {
            return Ok(());
        }
        self.print_settings()?;
        write_json(event)
    }

    /// Prints a line for people, without `--json` only.
    pub(crate) fn line(&self, text: fmt::Arguments<'_>) -> Result<(), CliError> {
        if self.json {
            return Ok(());
        }
        self.print_settings()?;
        write(format!("{text}\n").as_bytes())
    }

    /// Emphasises a text if the terminal supports it.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Strong => 1,
            Tone::Good => 32,
            Tone::Bad => 31,
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A progress bar on standard error, if that is a terminal and `--json` was not given; otherwise it is hidden.
    pub(crate) fn bar(&self, length: u64, template: &str) -> ProgressBar {
        let visible = !self.json && io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::with_draw_target(Some(length), target).with_style(style.progress_chars("━╸─"))
    }

    /// Reports why the command failed. Errors of the output itself are ignored.
    pub(crate) fn error(&self, error: &CliError) {
        if error.silent() {
            return;
        }
        if self.json {
            let event = ErrorEvent {
                event: "error",
                kind: error.kind(),
                message: chain(error).join(": "),
                advice: error.advice(),
            };
            let _ = write_json(&event);
            return;
        }
        let mut text = format!("error: {error}\n");
        for cause in chain(error).iter().skip(1) {
            text += &format!("  cause: {cause}\n");
        }
        if let Some(advice) = error.advice() {
            text += &format!("  help: {advice}\n");
        }
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// An error and its sources, outermost first.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        texts.push(error.to_string());
        source = error.source();
    }
    texts
}

fn write_json(event: &impl Serialize) -> Result<(), CliError> {
    let mut line = serde_json::to_vec(event).expect("events are plain structs with string keys");
    line.push(b'\n');
    write(&line)
}

fn write(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(CliError::Output)
}
