//! `netfold group-key`: the secret of confidential jobs.

use std::path::PathBuf;

use clap::Args;
use netfold::GroupKey;
use serde::Serialize;

use crate::error::CliError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  netfold group-key job.key                      create a key; copy the file to every host of the job, over ssh for example
  netfold worker --confidential job.key --switch tor:20038 --rendezvous hosta:20040 --job test --rank 0 --world 2";

/// Create the group key of confidential jobs: a new file with 256 random bits, which its owner alone may read.
///
/// All ranks of a job need the same key. Switches and controllers must not have it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CreateGroupKey {
    /// The file to create. One that exists is not overwritten.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// A key was created.
#[derive(Debug, Serialize)]
struct Created {
    event: &'static str,
    file: String,
}

impl CreateGroupKey {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        GroupKey::generate().and_then(|key| key.create_file(&self.file)).map_err(CliError::GroupKey)?;
        let file = self.file.display().to_string();
        output.line(format_args!(
            "created the group key {file}; give every rank of a job a copy, and no switch or controller"
        ))?;
        output.event(&Created { event: "group_key", file })
    }
}
