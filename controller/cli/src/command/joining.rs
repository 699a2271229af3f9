//! Joining a controller's job: options and output shared by `worker` and `bench all-reduce`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use netfold::{Builder, Path, SwitchAttachment};
use netfold_measure::all_reduce::Controlled;

use crate::error::CliError;
use crate::event::{Event, Place};
use crate::output::Output;

/// Options for joining a controller's job.
#[derive(Debug, Args)]
pub(crate) struct JoinOptions {
    /// A controller's workers' port, HOST:PORT; the controller chooses the switch.
    #[arg(long, value_name = "ADDR")]
    pub(crate) controller: Option<String>,
    /// Authority of the controller's certificate (PEM): use TLS. The variable NETFOLD_CA if not given.
    #[arg(long, value_name = "FILE", requires = "controller")]
    ca: Option<PathBuf>,
    /// The job's tenant; the variable NETFOLD_TENANT if not given.
    #[arg(long, value_name = "NAME", requires = "controller")]
    tenant: Option<String>,
    /// The tenant's token; the variable NETFOLD_TOKEN if not given, which other users of this machine cannot see.
    #[arg(long, requires = "controller", hide_env_values = true)]
    token: Option<String>,
    /// Number of trees, 1 by default: of switches, or at different queues of one.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) trees: Option<u8>,
    /// Source addresses of packets, one for each worker in turn; with several trees IP+IP, one for each tree in turn.
    #[arg(long, value_name = "IP", requires = "controller", value_delimiter = ',', value_parser = addresses)]
    bind: Vec<Addresses>,
}

/// The addresses of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses(Vec<IpAddr>);

fn addresses(text: &str) -> Result<Addresses, String> {
    let parsed = text.split('+').map(|ip| ip.trim().parse());
    let parsed = parsed.collect::<Result<Vec<IpAddr>, _>>();
    parsed.map(Addresses).map_err(|_| format!("'{text}' is not an IP address, or several joined by '+'"))
}

impl JoinOptions {
    /// Tenant and token, if a tenant is named.
    fn tenancy(&self) -> Option<(String, String)> {
        let from = |given: &Option<String>, variable| given.clone().or_else(|| std::env::var(variable).ok());
        let tenant = from(&self.tenant, "NETFOLD_TENANT")?;
        Some((tenant, from(&self.token, "NETFOLD_TOKEN").unwrap_or_default()))
    }

    fn authority(&self) -> Option<PathBuf> {
        let set = || std::env::var_os("NETFOLD_CA").filter(|file| !file.is_empty());
        self.ca.clone().or_else(|| set().map(PathBuf::from))
    }

    /// How the workers of a benchmark join a job of this name, if they join a controller's.
    pub(crate) fn controlled(&self, job: &str, rendezvous: bool) -> Option<Controlled> {
        let controller = self.controller.clone()?;
        let bind = self.bind.iter().map(|addresses| addresses.0.clone()).collect();
        let (tenant, trees, job) = (self.tenancy(), self.trees.unwrap_or(1), job.to_owned());
        Some(Controlled { controller, ca: self.authority(), tenant, job, trees, bind, rendezvous })
    }

    /// Gives the options to a process that takes them, too; the token so that other users of this machine do not see it.
    pub(crate) fn pass_on(&self, command: &mut Command) {
        let Some(controller) = &self.controller else { return };
        command.args(["--controller", controller]);
        if let Some(file) = &self.ca {
            command.arg("--ca").arg(file);
        }
        if let Some(tenant) = &self.tenant {
            command.args(["--tenant", tenant]);
        }
        if let Some(token) = &self.token {
            command.env("NETFOLD_TOKEN", token);
        }
        if let Some(trees) = self.trees {
            command.args(["--trees", &trees.to_string()]);
        }
        for Addresses(addresses) in &self.bind {
            let joined: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
            command.args(["--bind", &joined.join("+")]);
        }
    }

    /// Applies the options to the builder of one worker, with all addresses.
    ///
    /// # Errors
    ///
    /// When the controller's address cannot be resolved.
    pub(crate) fn apply(&self, builder: Builder) -> Result<Builder, netfold::Error> {
        self.apply_with(builder, &self.bind)
    }

    /// The same for one of several workers, with the addresses that are its turn.
    ///
    /// # Errors
    ///
    /// When the controller's address cannot be resolved.
    pub(crate) fn apply_to_rank(&self, builder: Builder, rank: u16) -> Result<Builder, netfold::Error> {
        let own = self.bind.iter().cycle().nth(usize::from(rank));
        self.apply_with(builder, own.map(std::slice::from_ref).unwrap_or_default())
    }

    fn apply_with(&self, builder: Builder, bind: &[Addresses]) -> Result<Builder, netfold::Error> {
        let builder = builder.trees(self.trees.unwrap_or(1));
        let Some(controller) = &self.controller else { return Ok(builder) };
        let mut builder = builder.controller(controller.as_str())?;
        if let Some(file) = self.authority() {
            builder = builder.controller_ca(file);
        }
        if let Some((tenant, token)) = self.tenancy() {
            builder = builder.tenant(tenant, token);
        }
        if !bind.is_empty() {
            builder = builder.bind(bind.iter().flat_map(|addresses| addresses.0.iter().copied()));
        }
        Ok(builder)
    }
}

/// Prints a job's switches and the path of its data.
pub(crate) fn show(
    output: &Output,
    job: &str,
    attachments: &[SwitchAttachment],
    path: Option<&Path>,
) -> Result<(), CliError> {
    for place in attachments {
        let switch = place.switch.map(|switch| switch.to_string()).unwrap_or_default();
        output.line(format_args!(
            "job '{job}', tree {}: switch {switch}, {} slots, packets of {} bytes of lanes (job number {}, epoch {})",
            place.tree, place.slots, place.payload_bytes, place.job, place.epoch
        ))?;
        output.event(&Event::Place(Place {
            job: job.to_owned(),
            tree: place.tree,
            switch,
            slots: place.slots,
            payload_bytes: place.payload_bytes,
            number: place.job,
            epoch: place.epoch,
        }))?;
    }
    match path {
        Some(path) if attachments.is_empty() => output.line(format_args!("job '{job}': {path}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_trees_are_joined_by_a_plus() {
        assert_eq!(addresses("10.0.0.1"), Ok(Addresses(vec![[10, 0, 0, 1].into()])));
        assert_eq!(addresses("10.0.0.1+10.0.1.1").map(|addresses| addresses.0.len()), Ok(2));
        assert!(addresses("10.0.0.1+").is_err() && addresses("tor").is_err());
    }
}
