//! `netfold completions`, `man` and `version`: what the command says of itself.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use netfold_controller::topology::LANE_WORDS_DEFAULT;
use netfold_p4::allreduce;
use netfold_p4::profile::Profile;
use netfold_server::store::SCHEMA;
use serde::Serialize;

use super::Cli;
use crate::error::CliError;
use crate::output::Output;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  netfold completions bash > /etc/bash_completion.d/netfold
  netfold completions zsh > ~/.zfunc/_netfold
  netfold completions fish > ~/.config/fish/completions/netfold.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  netfold man | man -l -                         show the page of netfold
  netfold man bench all-reduce | man -l -        show the page of a command
  netfold man --output /usr/local/share/man/man1 write a page for every command
  netfold man --format markdown --output help    the same texts as Markdown";

const VERSION_EXAMPLES: &str = "\
Examples:
  netfold version
  netfold version --json                         versions of the program, the wire protocol and the database, and optional features";

/// Print a shell's completions for all commands and options.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

/// Print a manual page, or write those of all commands to a folder.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct Manual {
    /// The command whose page is printed, in words such as `bench all-reduce`; netfold itself if not given.
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    command: Vec<String>,
    /// Write a page for each command to this folder, which is created if it does not exist.
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Markup of the pages.
    #[arg(long, value_enum, default_value_t = Format::Roff)]
    format: Format,
}

/// Markup of manual pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For `man`.
    Roff,
    /// For other documentation: what `--help` prints, under a heading.
    Markdown,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Self::Roff => "1",
            Self::Markdown => "md",
        }
    }

    /// A command's page.
    fn page(self, command: clap::Command) -> Result<Vec<u8>, CliError> {
        match self {
            Self::Roff => page(command),
            Self::Markdown => Ok(markdown(command).into_bytes()),
        }
    }
}

/// Print the versions of the program, the wire protocol, the controller's database and the pipeline, and the features it was built with.
///
/// The pipeline of software switches is named by its digest. Compare these of two programs before an upgrade.
#[derive(Debug, Args)]
#[command(after_help = VERSION_EXAMPLES)]
pub(crate) struct Version {}

/// A generated text, with `--json`.
#[derive(Serialize)]
struct Text<'a> {
    event: &'static str,
    text: &'a str,
}

/// The versions, with `--json`.
#[derive(Serialize)]
struct Versions {
    event: &'static str,
    version: &'static str,
    /// Version in the header of every packet.
    protocol: u8,
    /// Schema of a controller's database.
    database: u64,
    /// Digest of the pipeline that a controller has software switches run.
    pipeline: String,
    /// Optional features of the build.
    features: Vec<&'static str>,
    /// Kernels of the host library on this processor.
    kernels: &'static str,
}

impl Completions {
    pub(crate) fn run(&self, output: &Output) -> Result<(), CliError> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "netfold", &mut text);
        print(output, "completions", &text)
    }
}

impl Manual {
    pub(crate) fn run(&self, output: &Output) -> Result<(), CliError> {
        let mut command = Cli::command();
        command.build();
        let Some(folder) = &self.output else {
            return print(output, "manual", &self.format.page(self.select(command)?)?);
        };
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| CliError::File { path, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let mut commands = vec![("netfold".to_owned(), command)];
        let mut written = 0;
        while let Some((name, command)) = commands.pop() {
            let inner =
                command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set());
            commands.extend(inner.map(|inner| (format!("{name}-{}", inner.get_name()), inner.clone())));
            let path = folder.join(format!("{name}.{}", self.format.extension()));
            fs::write(&path, self.format.page(command)?).map_err(failed(&path))?;
            written += 1;
        }
        output.event(
            &serde_json::json!({ "event": "manual", "file": folder.display().to_string(), "pages": written }),
        )?;
        output.line(format_args!("{written} manual pages in {}", folder.display()))
    }

    /// The command whose page is to be printed.
    fn select(&self, netfold: clap::Command) -> Result<clap::Command, CliError> {
        self.command.iter().try_fold(netfold, |command, word| {
            command.find_subcommand(word).cloned().ok_or_else(|| {
                let above = command.get_bin_name().unwrap_or("netfold");
                CliError::Usage(format!(
                    "there is no command '{above} {word}': {above} --help lists those that exist"
                ))
            })
        })
    }
}

impl Version {
    pub(crate) fn run(&self, output: &Output) -> Result<(), CliError> {
        let optional = [("dpdk", cfg!(feature = "dpdk")), ("testbed", cfg!(feature = "testbed"))];
        let profile = Profile::software(LANE_WORDS_DEFAULT);
        let pipeline = allreduce::program(&profile).expect("software switches run a program of this profile");
        let versions = Versions {
            event: "version",
            version: env!("CARGO_PKG_VERSION"),
            protocol: netfold_wire::VERSION,
            database: SCHEMA,
            pipeline: format!("{:016x}", pipeline.fingerprint()),
            features: optional.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect(),
            kernels: netfold::quantize::Kernel::detect().name(),
        };
        output.event(&versions)?;
        let features =
            if versions.features.is_empty() { "none".into() } else { versions.features.join(", ") };
        let Versions { version, protocol, database, pipeline, kernels, .. } = &versions;
        output.line(format_args!(
            "netfold {version}\n  wire protocol      version {protocol}\n  database           schema {database}\n  \
             pipeline           {pipeline}\n  optional features  {features}\n  kernels            {kernels}"
        ))
    }
}

/// A command's page in roff.
fn page(command: clap::Command) -> Result<Vec<u8>, CliError> {
    let mut text = Cursor::new(Vec::new());
    Man::new(command).section("1").source("Netfold").render(&mut text).map_err(CliError::Output)?;
    Ok(text.into_inner())
}

/// A command's help in Markdown.
fn markdown(mut command: clap::Command) -> String {
    let name = command.get_bin_name().unwrap_or("netfold").to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("# {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end())
}

fn print(output: &Output, event: &'static str, text: &[u8]) -> Result<(), CliError> {
    let text = String::from_utf8_lossy(text);
    output.event(&Text { event, text: &text })?;
    output.line(format_args!("{}", text.trim_end_matches('\n')))
}
