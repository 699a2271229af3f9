//! The switch as a P4Runtime device: its options.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use netfold_p4::ir::Program;
use netfold_switch::Handle;
use netfold_switch::switch::PORTS_MAX;
use netfold_switch_p4runtime::{CPU_PORT, DEVICE_ID, Engine, Server, ServerConfig, ServerError, Tls};

use crate::error::CliError;

#[derive(Debug, Args)]
pub(super) struct P4RuntimeOptions {
    /// Serve P4Runtime at this address in place of the control port. The switch starts without a pipeline and receives one
    /// by P4Runtime, unless --payload, --numerics or --program select the initial one.
    #[arg(id = "p4runtime", long = "p4runtime", value_name = "ADDR", value_parser = address, conflicts_with_all = ["slots", "join_timeout", "paths"])]
    pub(super) address: Option<SocketAddr>,
    /// Device number for P4Runtime.
    #[arg(long, value_name = "NUMBER", requires = "p4runtime", default_value_t = DEVICE_ID, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) device_id: u64,
    /// Port of the packets to and from the P4Runtime controller; it cannot be used for a peer.
    #[arg(long, value_name = "NUMBER", requires = "p4runtime", default_value_t = CPU_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    cpu_port: u16,
    /// A port and its peer's UDP address, as in 1=10.0.0.1:20038; may be given several times. Packets from other addresses are dropped.
    #[arg(long = "port", value_name = "N=ADDR", requires = "p4runtime", value_parser = port)]
    pub(super) ports: Vec<(u16, SocketAddr)>,
    /// The P4Runtime server's certificate chain without the root, PEM.
    #[arg(long, value_name = "FILE", requires_all = ["p4runtime", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authority of controllers' certificates, PEM: clients without such a certificate are refused.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Let every client that reaches the P4Runtime server control the switch. Not needed on loopback addresses.
    #[arg(long, requires = "p4runtime")]
    insecure: bool,
}

/// An address to serve at.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an address with a port, as in 127.0.0.1:9559 or 0.0.0.0:9559".into())
}

/// A port and its peer.
fn port(text: &str) -> Result<(u16, SocketAddr), String> {
    let (number, peer) =
        text.split_once('=').ok_or("expected a port and an address, as in 1=10.0.0.1:20038")?;
    let number: u16 = number.parse().map_err(|_| format!("'{number}' is not a port number"))?;
    if !(1..=PORTS_MAX).contains(&number) {
        return Err(format!("port {number} is out of range: ports are 1 to {PORTS_MAX}"));
    }
    let peer = peer.parse().map_err(|_| format!("'{peer}' is not an address with a UDP port"))?;
    Ok((number, peer))
}

impl P4RuntimeOptions {
    /// Refuses unauthenticated access that was not requested, before anything starts.
    pub(super) fn check(&self) -> Result<(), CliError> {
        if let Some((port, _)) = self.ports.iter().find(|(port, _)| *port == self.cpu_port) {
            return Err(CliError::Usage(format!("--port {port} is the controller's port; see --cpu-port")));
        }
        match self.address {
            Some(address)
                if !address.ip().is_loopback() && self.tls_client_ca.is_none() && !self.insecure =>
            {
                Err(CliError::Usage(format!(
                    "--p4runtime {address} would let every client that reaches it control the switch: give --tls-cert, --tls-key \
                     and --tls-client-ca, or --insecure"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Starts the server, if one is wanted.
    pub(super) fn serve(
        &self,
        program: Option<Program>,
        engine: Engine,
        handle: Handle,
    ) -> Result<Option<Server>, CliError> {
        let Some(address) = self.address else { return Ok(None) };
        let tls = self.tls()?;
        let config =
            ServerConfig { device_id: self.device_id, program, cpu_port: self.cpu_port, engine, tls };
        let failed = |error| match error {
            ServerError::Bind { address, source } => CliError::listen(address, source),
            ServerError::Tls(_) => CliError::Usage(
                "--tls-cert, --tls-key and --tls-client-ca: not PEM, or the key is another certificate's"
                    .into(),
            ),
            error => CliError::P4Runtime(error),
        };
        Server::start(address, config, handle).map(Some).map_err(failed)
    }

    fn tls(&self) -> Result<Option<Tls>, CliError> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let read =
            |path: &Path| fs::read(path).map_err(|source| CliError::Read { path: path.to_owned(), source });
        let client_ca = self.tls_client_ca.as_deref().map(read).transpose()?;
        Ok(Some(Tls { certificate: read(certificate)?, key: read(key)?, client_ca }))
    }

    /// Description of how clients are authenticated.
    pub(super) fn security(&self) -> &'static str {
        match (&self.tls_cert, &self.tls_client_ca) {
            (Some(_), Some(_)) => "TLS, clients authenticated by certificate",
            (Some(_), None) => "TLS, clients not authenticated",
            (None, _) => "unencrypted, clients not authenticated",
        }
    }
}
