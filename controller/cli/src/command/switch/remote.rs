//! `netfold switch list`, `describe`, `drain` and `undrain`: the switches of a running controller; `detach`: a program that a switch has left in the kernel.

use std::path::PathBuf;

use clap::Subcommand;
use netfold_server::api::v1;

use super::super::remote::{ControllerOptions, Table, full_name, link_values, switch_value};
use crate::error::CliError;
use crate::output::{Output, Tone};
use crate::size::grouped;

const EXAMPLES: &str = "\
Examples:
  netfold switch list                    the switches of a running controller
  netfold switch describe leaf1          its slots by job, and its counters
  netfold switch drain leaf1 --evict     no further jobs there; running jobs move
  netfold switch undrain leaf1";

/// What to do with switches beside running one.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// List a controller's switches.
    #[command(after_help = EXAMPLES)]
    List {
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Show one of a controller's switches: slots by job, counters.
    #[command(after_help = EXAMPLES)]
    Describe {
        /// Its name.
        name: String,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Make a controller place no further jobs on a switch.
    #[command(after_help = EXAMPLES)]
    Drain {
        /// Its name.
        name: String,
        /// Also withdraw the running jobs from it.
        #[arg(long)]
        evict: bool,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Make a controller place jobs on a switch again.
    #[command(after_help = EXAMPLES)]
    Undrain {
        /// Its name.
        name: String,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Take a pinned program of a switch that was killed off its interfaces.
    Detach {
        /// The folder that was given to --pin.
        folder: PathBuf,
    },
}

impl Action {
    pub(super) fn run(self, output: &Output) -> Result<(), CliError> {
        match self {
            Self::List { options } => list(output, &options),
            Self::Describe { name, options } => {
                let client = options.connect()?;
                let request = v1::DescribeSwitchRequest { name, tenant: options.tenant };
                describe(output, &client.wait(client.switches().describe(request))?)
            }
            Self::Drain { name, evict, options } => drain(output, &options, name, true, evict),
            Self::Undrain { name, options } => drain(output, &options, name, false, false),
            Self::Detach { folder } => super::kernel::detach(&folder, output),
        }
    }
}

fn state(switch: &v1::Switch) -> &'static str {
    match (switch.up, switch.drained) {
        (false, _) => "down",
        (true, true) => "drained",
        (true, false) => "up",
    }
}

fn list(output: &Output, options: &ControllerOptions) -> Result<(), CliError> {
    let client = options.connect()?;
    let request = v1::ListSwitchesRequest { tenant: options.tenant.clone() };
    let listed = client.wait(client.switches().list(request))?;
    let mut table =
        Table::new(&["switch", "kind", "role", "state", "#slots", "#of", "#ports", "#of", "address", "~why"]);
    for switch in &listed.switches {
        output.event(&switch_value(switch))?;
        table.row([
            switch.name.clone(),
            switch.kind.clone(),
            switch.role.clone(),
            state(switch).to_owned(),
            switch.slots_used.to_string(),
            switch.slots.to_string(),
            switch.ports_used.to_string(),
            switch.ports.to_string(),
            switch.address.clone(),
            switch.down_reason.clone(),
        ]);
    }
    link_values(&listed.links, &listed.access).try_for_each(|link| output.event(&link))?;
    table.print(output, "no switches")
}

fn describe(output: &Output, switch: &v1::Switch) -> Result<(), CliError> {
    output.event(&switch_value(switch))?;
    let title = format!("switch '{}'", switch.name);
    output.line(format_args!("{}", output.paint(Tone::Strong, &title)))?;
    output.line(format_args!("  kind      {}, {}, at {}", switch.kind, switch.role, switch.address))?;
    output.line(format_args!("  state     {}", state(switch)))?;
    if !switch.down_reason.is_empty() {
        output.line(format_args!("  why       {}", switch.down_reason))?;
    }
    output.line(format_args!("  numerics  {}", switch.numerics))?;
    output.line(format_args!(
        "  slots     {} of {} held",
        grouped(u64::from(switch.slots_used)),
        grouped(u64::from(switch.slots))
    ))?;
    output.line(format_args!("  ports     {} of {} held", switch.ports_used, switch.ports))?;
    output.line(format_args!("  groups    {} of {} held\n", switch.groups_used, switch.groups))?;
    let mut ranges = Table::new(&["#first slot", "#slots", "job", "#tree"]);
    for range in &switch.ranges {
        let job =
            if range.job.is_some() { full_name(range.job.as_ref()) } else { "(another tenant's)".into() };
        ranges.row([range.first.to_string(), range.slots.to_string(), job, range.tree.to_string()]);
    }
    ranges.print(output, "no slots are held")?;
    let mut packets: Vec<_> = switch.packets.iter().filter(|(_, count)| **count > 0).collect();
    packets.sort();
    for (result, count) in packets {
        output.line(format_args!("  {result:<16}{:>12}", grouped(*count)))?;
    }
    Ok(())
}

fn drain(
    output: &Output,
    options: &ControllerOptions,
    name: String,
    drained: bool,
    evict: bool,
) -> Result<(), CliError> {
    let client = options.connect()?;
    let switch = client.wait(client.switches().drain(v1::DrainSwitchRequest { name, drained, evict }))?;
    output.event(&switch_value(&switch))?;
    let what = if drained { "takes no more jobs" } else { "takes jobs" };
    output.line(format_args!("switch '{}' {what}; jobs hold {} of its slots", switch.name, switch.slots_used))
}
