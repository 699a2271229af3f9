//! `netfold controller backup` and `restore`: the records of a controller as a file.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use netfold_server::api::v1;
use netfold_server::backup::{self, Backup, BackupError};
use netfold_server::etcd;
use serde_json::json;
use tokio_stream::StreamExt as _;

use super::election::EtcdOptions;

use super::super::remote::{CALL_TIMEOUT, Client, ControllerOptions, ago};
use crate::error::CliError;
use crate::output::Output;
use crate::size::human;

const EXAMPLES: &str = "\
Examples:
  netfold controller backup state.backup                          the records of a running controller
  netfold controller restore state.backup --state state.redb      while no controller uses that database
  netfold controller restore state.backup --state state.redb --replace
  netfold controller restore state.backup --etcd http://10.0.0.5:2379,http://10.0.0.6:2379";

/// What to do with the records of a controller.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Copy the records of a running controller to a file, as of one moment; the controller continues.
    ///
    /// The file holds the keys of running jobs and hashes of tokens; only its owner may read it.
    #[command(after_help = EXAMPLES)]
    Backup {
        /// The file.
        file: PathBuf,
        /// Replace the file if it exists.
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Make a database of a backup, which is verified first; no controller may use the database.
    #[command(after_help = EXAMPLES)]
    Restore {
        /// The backup.
        file: PathBuf,
        /// The database; created if it does not exist.
        #[arg(long, value_name = "FILE", required_unless_present = "etcd")]
        state: Option<PathBuf>,
        /// Replace a database that has records, or that cannot be read.
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        etcd: EtcdOptions,
    },
}

impl Action {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        match self {
            Self::Backup { file, replace, options } => backup(output, &file, replace, &options),
            Self::Restore { file, state, replace, etcd } => {
                restore(output, &file, state.as_deref(), &etcd, replace)
            }
        }
    }
}

fn backup(output: &Output, file: &Path, replace: bool, options: &ControllerOptions) -> Result<(), CliError> {
    if !replace && file.exists() {
        return Err(CliError::Usage(format!(
            "{} exists: name another file, or give --replace",
            file.display()
        )));
    }
    let bytes = fetch(&options.connect()?)?;
    // What has not arrived complete must not replace an earlier backup.
    let taken = Backup::decode(&bytes).map_err(|source| unusable(file, source))?;
    backup::write(file, &bytes).map_err(|source| CliError::File { path: file.to_owned(), source })?;
    output.event(&value("backed_up", &taken, file))?;
    output.line(format_args!("{}: {}, {}", file.display(), contents(&taken), human(bytes.len() as u64)))
}

/// The bytes of a backup of a running controller.
fn fetch(client: &Client) -> Result<Vec<u8>, CliError> {
    let mut parts = client.wait(client.records().backup(v1::BackupRequest {}))?;
    let mut bytes = Vec::new();
    loop {
        match client.within(CALL_TIMEOUT, parts.next()) {
            Some(Some(Ok(part))) if bytes.len() + part.data.len() <= backup::LEN_MAX => {
                bytes.extend(part.data)
            }
            Some(Some(Ok(_))) => {
                return Err(CliError::Refused {
                    reason: "backup".into(),
                    message: BackupError::TooLong.to_string(),
                });
            }
            Some(Some(Err(status))) => return Err(client.refused(&status)),
            Some(None) => return Ok(bytes),
            None => return Err(client.no_answer()),
        }
    }
}

fn restore(
    output: &Output,
    file: &Path,
    state: Option<&Path>,
    etcd: &EtcdOptions,
    replace: bool,
) -> Result<(), CliError> {
    let taken = Backup::read(file).map_err(|source| unusable(file, source))?;
    let at = match state {
        Some(state) => {
            taken.restore(state, replace).map_err(CliError::Restore)?;
            state.display().to_string()
        }
        None => {
            let config = etcd.config("netfold controller restore");
            etcd::restore(&taken, config, replace).map_err(CliError::RestoreToEtcd)?;
            etcd.endpoints.join(",")
        }
    };
    let mut restored = value("restored", &taken, file);
    restored["state"] = at.as_str().into();
    output.event(&restored)?;
    output.line(format_args!("{at}: {}, as of {} ago", contents(&taken), ago(taken.taken_ms / 1000)))
}

fn unusable(file: &Path, source: BackupError) -> CliError {
    match source {
        BackupError::Read(source) => CliError::Read { path: file.to_owned(), source },
        source => CliError::Backup { path: file.to_owned(), source },
    }
}

fn value(event: &str, backup: &Backup, file: &Path) -> serde_json::Value {
    let records = &backup.records;
    json!({
        "event": event, "file": file.display().to_string(), "taken_ms": backup.taken_ms, "tenants": records.tenants.len(),
        "jobs": records.jobs.len(), "running": running(backup), "switches": records.switches.len(),
        "epoch_next": records.epoch_next,
    })
}

/// Jobs with slots.
fn running(backup: &Backup) -> usize {
    let names = backup.records.places.values().map(|place| &place.name);
    names.collect::<std::collections::BTreeSet<_>>().len()
}

fn contents(backup: &Backup) -> String {
    let counted = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}, {} ({} running)",
        counted(backup.records.tenants.len(), "tenant"),
        counted(backup.records.jobs.len(), "job"),
        running(backup)
    )
}
