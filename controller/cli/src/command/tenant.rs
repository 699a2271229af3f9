//! `netfold tenant`: the tenants that share the switches.

use clap::{Args, Subcommand};
use netfold_server::api::v1;
use serde_json::{Value, json};

use super::remote::{ControllerOptions, Table, limit};
use crate::error::CliError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  netfold tenant list
  netfold tenant add red --slots 512 --weight 2     prints its token, once
  netfold tenant set red --slots 1024 --jobs 8      limits that are not given are removed
  netfold tenant rotate red                         a new token; running jobs continue
  netfold tenant remove red";

/// Show and change the tenants of a running controller.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TenantCommand {
    #[command(subcommand)]
    action: Action,
}

/// A tenant's limits.
#[derive(Debug, Clone, Copy, Args)]
struct Limits {
    /// Slots of all its jobs together; no limit if not given.
    #[arg(long)]
    slots: Option<u32>,
    /// Forming and running jobs; no limit if not given.
    #[arg(long)]
    jobs: Option<u32>,
    /// Workers of those jobs; no limit if not given.
    #[arg(long)]
    workers: Option<u32>,
}

impl From<Limits> for v1::Quota {
    fn from(limits: Limits) -> Self {
        Self { slots: limits.slots, jobs: limits.jobs, workers: limits.workers }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Action {
    /// List tenants with their limits and usage.
    #[command(after_help = EXAMPLES)]
    List {
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Add a tenant. Its token is printed only once.
    #[command(after_help = EXAMPLES)]
    Add {
        /// Its name.
        name: String,
        #[command(flatten)]
        limits: Limits,
        /// Its weight, relative to other tenants', when there are not enough slots for all.
        #[arg(long, default_value_t = 1)]
        weight: u32,
        /// Its priority, 0 to 255: if the controller shares slots by priority, its jobs displace those of tenants with a lower one.
        #[arg(long, default_value_t = 0)]
        priority: u8,
        /// Let any client that gives its name act for it.
        #[arg(long)]
        without_token: bool,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Change a tenant's limits, all three of them, or its weight, or its priority.
    #[command(after_help = EXAMPLES)]
    Set {
        /// Its name.
        name: String,
        #[command(flatten)]
        limits: Limits,
        /// Remove all limits.
        #[arg(long, conflicts_with_all = ["slots", "jobs", "workers"])]
        unlimited: bool,
        /// The new weight.
        #[arg(long)]
        weight: Option<u32>,
        /// The new priority, 0 to 255.
        #[arg(long)]
        priority: Option<u8>,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Remove a tenant without jobs.
    #[command(after_help = EXAMPLES)]
    Remove {
        /// Its name.
        name: String,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Replace a tenant's token.
    #[command(after_help = EXAMPLES)]
    Rotate {
        /// Its name.
        name: String,
        #[command(flatten)]
        options: ControllerOptions,
    },
}

impl TenantCommand {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        match self.action {
            Action::List { options } => list(output, &options),
            Action::Add { name, limits, weight, priority, without_token, options } => {
                let client = options.connect()?;
                let request = v1::AddTenantRequest {
                    name: name.clone(),
                    quota: Some(limits.into()),
                    weight,
                    priority: priority.into(),
                    without_token,
                };
                let added = client.wait(client.tenants().add(request))?;
                output.event(&json!({ "event": "tenant_added", "tenant": name, "token": added.token }))?;
                output.line(format_args!("tenant '{name}' added"))?;
                print_token(output, &added.token)
            }
            Action::Set { name, limits, unlimited, weight, priority, options } => {
                let given = limits.slots.is_some() || limits.jobs.is_some() || limits.workers.is_some();
                if !given && !unlimited && weight.is_none() && priority.is_none() {
                    return Err(CliError::Usage(
                        "nothing to change: give --slots, --jobs, --workers, --weight, --priority or --unlimited"
                            .into(),
                    ));
                }
                let client = options.connect()?;
                let quota = (given || unlimited).then(|| limits.into());
                let (weight, priority) = (weight.unwrap_or(0), priority.map(u32::from));
                let request = v1::SetTenantRequest { name, quota, weight, priority };
                let tenant = client.wait(client.tenants().set(request))?;
                output.event(&value(&tenant))?;
                output.line(format_args!("tenant '{}' changed", tenant.name))
            }
            Action::Remove { name, options } => {
                let client = options.connect()?;
                client.wait(client.tenants().remove(v1::RemoveTenantRequest { name: name.clone() }))?;
                output.event(&json!({ "event": "tenant_removed", "tenant": name }))?;
                output.line(format_args!("tenant '{name}' removed"))
            }
            Action::Rotate { name, options } => {
                let client = options.connect()?;
                let request = v1::RotateTokenRequest { name: name.clone() };
                let token = client.wait(client.tenants().rotate_token(request))?.token;
                output.event(&json!({ "event": "token", "tenant": name, "token": token }))?;
                print_token(output, &token)
            }
        }
    }
}

fn print_token(output: &Output, token: &str) -> Result<(), CliError> {
    if token.is_empty() {
        return output.line(format_args!("it has no token: any client that gives its name may act for it"));
    }
    output.line(format_args!("its token, which is not shown again: {token}"))
}

fn value(tenant: &v1::Tenant) -> Value {
    let quota = |quota: Option<v1::Quota>| {
        let quota = quota.unwrap_or_default();
        json!({ "slots": quota.slots, "jobs": quota.jobs, "workers": quota.workers })
    };
    json!({
        "event": "tenant", "tenant": tenant.name, "weight": tenant.weight, "priority": tenant.priority, "has_token": tenant.has_token,
        "quota": quota(tenant.quota), "used": quota(tenant.used),
    })
}

fn list(output: &Output, options: &ControllerOptions) -> Result<(), CliError> {
    let client = options.connect()?;
    let request = v1::ListTenantsRequest { tenant: options.tenant.clone() };
    let tenants = client.wait(client.tenants().list(request))?.tenants;
    let mut table = Table::new(&[
        "tenant",
        "#weight",
        "#priority",
        "token",
        "#slots",
        "#of",
        "#jobs",
        "#of",
        "#workers",
        "#of",
    ]);
    for tenant in &tenants {
        output.event(&value(tenant))?;
        let (quota, used) = (tenant.quota.unwrap_or_default(), tenant.used.unwrap_or_default());
        table.row([
            tenant.name.clone(),
            tenant.weight.to_string(),
            tenant.priority.to_string(),
            if tenant.has_token { "yes" } else { "no" }.to_owned(),
            limit(used.slots),
            limit(quota.slots),
            limit(used.jobs),
            limit(quota.jobs),
            limit(used.workers),
            limit(quota.workers),
        ]);
    }
    table.print(output, "no tenants")
}
