//! How many UDP ports workers send from: for switches and controllers.

use clap::Args;
use netfold_control::{Multipath, PATHS_MAX, PathPolicy};
use netfold_controller::equal_paths::EqualPaths;

use crate::error::CliError;

/// Paths between workers and switches.
#[derive(Debug, Clone, Args)]
pub(super) struct MultipathArgs {
    /// UDP ports that each worker sends from, a power of two up to 64: several for fabrics that spread flows over equal paths by a hash of
    /// ports (ECMP). For data paths of sockets; others have one port.
    #[arg(long, value_name = "NUMBER", value_parser = udp_ports)]
    paths: Option<u8>,
    /// From which of its ports a worker sends a packet: weighted (in proportion to weights, which decrease while a port's path is slower than
    /// others, as probes show), fixed (each slot has one), spray (each packet the next), reps (one by which a packet has been
    /// acknowledged without a mark, else any) or mixed (the same, else one that has not failed of late).
    #[arg(long, value_name = "POLICY", default_value = "weighted", value_parser = policy)]
    path_policy: PathPolicy,
    /// The hash by which the fabric spreads flows over its equal paths, if it is known: linux,seed=SEED,paths=NUMBER (Linux routers with
    /// fib_multipath_hash_policy=1 and that fib_multipath_hash_seed) or crc32,paths=NUMBER (of source, destination, protocol and ports). Workers then
    /// use those of their ports that spread exactly.
    #[arg(long, value_name = "HASH,...")]
    path_hash: Option<EqualPaths>,
}

impl MultipathArgs {
    /// With `default` ports where no number was given; `None`: one.
    pub(super) fn multipath(&self, default: u8) -> Option<Multipath> {
        let known = self.path_hash.map_or(1, |paths| paths.udp_ports());
        let udp_ports = self.paths.unwrap_or(default.max(known));
        (udp_ports > 1).then_some(Multipath { udp_ports, policy: self.path_policy })
    }

    /// The equal paths of the fabric, where their hash is given.
    ///
    /// # Errors
    ///
    /// [`CliError::Usage`] where workers could not use them as the hash says.
    pub(super) fn equal_paths(&self) -> Result<Option<EqualPaths>, CliError> {
        let Some(paths) = self.path_hash else { return Ok(None) };
        if self.path_policy != PathPolicy::Weighted {
            return Err(CliError::Usage(format!(
                "--path-hash is for --path-policy weighted, not {}: leave out one of them",
                self.path_policy.name()
            )));
        }
        if let Some(ports) = self.paths.filter(|ports| *ports < paths.paths) {
            return Err(CliError::Usage(format!(
                "--paths {ports}: fewer UDP ports than the {} equal paths of --path-hash; leave it out for {}",
                paths.paths,
                paths.udp_ports()
            )));
        }
        Ok(Some(paths))
    }
}

fn udp_ports(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|number| Multipath::is_valid(*number));
    number.ok_or_else(|| format!("give a power of two from 1 to {PATHS_MAX}"))
}

/// A policy by its name.
pub(super) fn policy(name: &str) -> Result<PathPolicy, String> {
    let names: Vec<&str> = PathPolicy::ALL.iter().map(|policy| policy.name()).collect();
    PathPolicy::from_name(name).ok_or_else(|| format!("give one of {}", names.join(", ")))
}
