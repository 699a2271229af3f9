//! Several controllers of one cluster: options, and waiting for the leadership.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use netfold_server::etcd::{Candidate, CandidateStatus, EtcdConfig, EtcdError, EtcdTls, Leadership};
use netfold_server::{FrontendConfig, StandbyServer};
use serde_json::json;

use crate::error::CliError;
use crate::lifetime::Stop;
use crate::output::Output;
use crate::service;

/// etcd's options, for several controllers.
#[derive(Debug, Args)]
pub(super) struct EtcdOptions {
    /// Store the records in etcd instead of a file: of several controllers with the same etcd, one is the leader, and a standby takes over
    /// if it fails. etcd's members, separated by commas.
    #[arg(id = "etcd", long = "etcd", value_name = "URL", value_delimiter = ',', conflicts_with = "state")]
    pub(super) endpoints: Vec<String>,
    /// Prefix of all keys in etcd, the same for all controllers of a cluster.
    #[arg(long, value_name = "PREFIX", default_value = "/netfold", requires = "etcd", value_parser = prefix)]
    etcd_prefix: String,
    /// Seconds after which a controller that does not renew its lease is no longer the leader.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "etcd", value_parser = clap::value_parser!(u64).range(2..=3600))]
    etcd_lease: u64,
    /// Authority of etcd's certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_ca: Option<PathBuf>,
    /// Client certificate for etcd (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["etcd_key", "etcd_ca"])]
    etcd_cert: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
}

fn prefix(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    if trimmed.is_empty() || !trimmed.starts_with('/') {
        return Err("give a path that begins with a slash, such as /netfold".into());
    }
    Ok(trimmed.to_owned())
}

impl EtcdOptions {
    pub(super) fn is_wanted(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// etcd's addresses, and this candidate's name.
    pub(super) fn config(&self, name: &str) -> EtcdConfig {
        let identity = self.etcd_cert.clone().zip(self.etcd_key.clone());
        EtcdConfig {
            endpoints: self.endpoints.clone(),
            prefix: self.etcd_prefix.clone(),
            name: name.to_owned(),
            lease: Duration::from_secs(self.etcd_lease),
            tls: self.etcd_ca.clone().map(|ca| EtcdTls { ca, identity }),
        }
    }

    /// Waits until this controller is the leader, under this name; `None` if a stop is requested before. Probes are answered meanwhile.
    pub(super) fn wait(
        &self,
        name: &str,
        front: &FrontendConfig,
        output: &Output,
        stop: &Stop,
    ) -> Result<Option<Leadership>, CliError> {
        let candidate = Candidate::new(self.config(name)).map_err(failed)?;
        let server = StandbyServer::start(front).map_err(|error| super::failed(error.into()))?;
        let mut printed = Ok(());
        let leadership = candidate.wait(|status, changed| {
            if changed {
                printed = print_status(output, status);
                if let Some(server) = &server {
                    server.set_status(status);
                }
                service::notify("READY=1\nSTATUS=standby");
            }
            printed.is_ok() && !stop.requested()
        });
        printed?;
        leadership.map_err(failed)
    }
}

fn print_status(output: &Output, status: &CandidateStatus) -> Result<(), CliError> {
    let (leader, problem) = match status {
        CandidateStatus::Leader(name) => (name.as_str(), ""),
        CandidateStatus::Etcd(problem) => ("", problem.as_str()),
    };
    output.event(&json!({ "event": "standby", "leader": leader, "message": problem }))?;
    match status {
        // Briefly, between two leaders.
        CandidateStatus::Leader(name) if name.is_empty() => Ok(()),
        CandidateStatus::Leader(name) => {
            output.line(format_args!("standby: controller {name} is the leader"))
        }
        CandidateStatus::Etcd(problem) => output.line(format_args!(
            "waiting: {problem}; check that it runs and listens there. The call is retried until it succeeds"
        )),
    }
}

fn failed(error: EtcdError) -> CliError {
    match error {
        EtcdError::Endpoint(_) | EtcdError::Read { .. } | EtcdError::Lease(_) | EtcdError::Tls(_) => {
            CliError::Usage(error.to_string())
        }
        other => CliError::Controller(Box::new(other)),
    }
}
