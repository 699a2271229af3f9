//! `netfold testbed`, where it is not built in.

use clap::Args;
use netfold_controller::plane::Plane;

use crate::error::CliError;
use crate::output::Output;

/// Simulations, experiments and network labs (in builds with the feature `testbed`).
#[derive(Debug, Args)]
pub(crate) struct Testbed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<String>,
}

impl Testbed {
    pub(crate) fn run(self, _output: &Output) -> Result<(), CliError> {
        let arguments = self.arguments.join(" ");
        let command = format!("cargo run --release --features testbed -- testbed {arguments}");
        Err(CliError::Usage(format!(
            "this netfold is built without its testbed; in a checkout, run `{}`",
            command.trim_end()
        )))
    }
}

/// Changes nothing: failpoints are in builds with the testbed only.
pub(crate) fn instrument(plane: Plane) -> Plane {
    plane
}
