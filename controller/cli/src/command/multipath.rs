//! How many UDP ports workers send from: for switches and controllers.

use clap::Args;
use netfold_control::{Multipath, PATHS_MAX, PathPolicy};

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
}

impl MultipathArgs {
    /// With `default` ports where no number was given; `None`: one.
    pub(super) fn multipath(&self, default: u8) -> Option<Multipath> {
        let udp_ports = self.paths.unwrap_or(default);
        (udp_ports > 1).then_some(Multipath { udp_ports, policy: self.path_policy })
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
