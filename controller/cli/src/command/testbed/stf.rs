//! `netfold testbed stf`: scripts of packets and expectations, written and executed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use netfold_lab::differential::{Sequence, Settings};
use netfold_lab::stf::{self, Script};
use netfold_p4::allreduce;
use netfold_p4::ir::Program;
use netfold_p4::profile::{self, Profile};
use netfold_switch::{Engine, InterpretedPipeline, Pipeline, pipeline_for};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{Output, Tone};
use crate::size::grouped;

const EXAMPLES: &str = "\
Examples:
  netfold testbed stf write --profile hardware --seed 7 -o seven.stf
                                         a random sequence, with the interpreter's outputs as expectations
  netfold testbed stf run seven.stf --profile hardware
                                         execute a script; exit code 1 if an expectation is not met";

/// Write and execute STF scripts: packets in, packets expected, table entries, counters.
///
/// It is the format of the P4 compiler's own tests, whose runner replays the same scripts on bmv2.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stf {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Execute a script on the interpreter or on the fast path.
    Run(Run),
    /// Write a random sequence of packets as a script.
    Write(Write),
}

#[derive(Debug, Args)]
struct Run {
    /// The script.
    file: PathBuf,
    /// The profile of `netfold p4 list` whose program executes it.
    #[arg(long, value_name = "NAME", default_value = "hardware", value_parser = profile_name)]
    profile: Profile,
    /// Use the generated code, if there is any for exactly that program.
    #[arg(long)]
    fast: bool,
}

#[derive(Debug, Args)]
struct Write {
    /// The profile of `netfold p4 list` that the sequence is for.
    #[arg(long, value_name = "NAME", default_value = "hardware", value_parser = profile_name)]
    profile: Profile,
    /// Seed of the sequence.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Packets, in addition to those that prepare the slots.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    packets: u32,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The results of a script, with `--json`.
#[derive(Serialize)]
struct Executed<'a> {
    event: &'static str,
    engine: &'static str,
    packets: u64,
    met: u64,
    failures: Vec<Failed<'a>>,
}

#[derive(Serialize)]
struct Failed<'a> {
    line: usize,
    what: &'a str,
}

/// A written script, with `--json`.
#[derive(Serialize)]
struct Written {
    event: &'static str,
    statements: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

fn profile_name(name: &str) -> Result<Profile, String> {
    profile::by_name(name).ok_or_else(|| {
        let names: Vec<_> = profile::named().iter().map(|named| named.name).collect();
        format!("there is no profile of that name: choose one of {}", names.join(", "))
    })
}

fn program(profile: &Profile) -> Result<Program, CliError> {
    allreduce::program(profile).map_err(|error| CliError::Profile(error.to_string()))
}

fn interpreter(program: &Program) -> Result<Box<dyn Pipeline>, CliError> {
    let pipeline = InterpretedPipeline::new(Arc::new(program.clone()));
    Ok(Box::new(pipeline.map_err(|error| CliError::Profile(error.to_string()))?))
}

impl Stf {
    pub(crate) fn run(&self, output: &Output) -> Result<(), CliError> {
        match &self.what {
            What::Run(run) => run.run(output),
            What::Write(write) => write.run(output),
        }
    }
}

impl Run {
    fn run(&self, output: &Output) -> Result<(), CliError> {
        let script = read(&self.file)?;
        let program = program(&self.profile)?;
        let (pipeline, engine) = if self.fast {
            pipeline_for(&program).map_err(|error| CliError::Profile(error.to_string()))?
        } else {
            (interpreter(&program)?, Engine::Interpreter)
        };
        let name = match engine {
            Engine::Generated => "fast path",
            Engine::Interpreter => "interpreter",
        };
        let outcome =
            stf::run(&script, &program, pipeline).map_err(|error| self.broken(&error.to_string()))?;
        let failures = outcome.failures.iter();
        output.event(&Executed {
            event: "stf",
            engine: name,
            packets: outcome.packets,
            met: outcome.met,
            failures: failures.map(|failure| Failed { line: failure.line, what: &failure.what }).collect(),
        })?;
        for (line, text) in &outcome.shown {
            output.line(format_args!("line {line}: {text}"))?;
        }
        for failure in &outcome.failures {
            output.line(format_args!("{}: {failure}", output.paint(Tone::Bad, "failed")))?;
        }
        output.line(format_args!(
            "{} packets through the {name}, {} expectations met, {} failed",
            grouped(outcome.packets),
            grouped(outcome.met),
            grouped(outcome.failures.len() as u64)
        ))?;
        match outcome.failures.len() {
            0 => Ok(()),
            failed => Err(CliError::Unmet { failed }),
        }
    }

    fn broken(&self, problem: &str) -> CliError {
        CliError::Usage(format!("{}: {problem}", self.file.display()))
    }
}

fn read(path: &Path) -> Result<Script, CliError> {
    let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
        ErrorKind::InvalidData => CliError::Usage(format!(
            "{} is not text: a script is UTF-8, one command per line; see 'netfold testbed stf write'",
            path.display()
        )),
        _ => CliError::Read { path: path.to_path_buf(), source },
    })?;
    Script::parse(&text).map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))
}

impl Write {
    fn run(&self, output: &Output) -> Result<(), CliError> {
        let program = program(&self.profile)?;
        let settings = Settings::any_target(self.packets as usize);
        let sequence = Sequence::from_seed(self.seed, &self.profile, &settings);
        let script = stf::from_sequence(&program, &sequence, interpreter(&program)?).map_err(|problem| {
            CliError::Profile(format!("the sequence does not fit the profile: {problem}"))
        })?;
        let text = script.to_string();
        if let Some(path) = &self.output {
            std::fs::write(path, &text).map_err(|source| CliError::File { path: path.clone(), source })?;
        }
        let file = self.output.as_ref().map(|path| path.display().to_string());
        output.event(&Written {
            event: "stf_written",
            statements: script.statements.len(),
            text: file.is_none().then(|| text.clone()),
            file: file.clone(),
        })?;
        if file.is_some() { Ok(()) } else { output.line(format_args!("{}", text.trim_end())) }
    }
}
