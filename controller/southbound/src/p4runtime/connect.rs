//! From a switch in a topology to one that is managed.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use netfold_p4::allreduce::Address;
use netfold_p4::profile::Profile;

use super::driver::{DeviceFormat, PeerPort};
use super::error::P4RuntimeError;
use super::managed::{Managed, ManagedConfig, SwitchEvent};
use super::peers::{Attachment, PeerTable};
use super::pipeline::{Pipeline, PipelineError};
use super::tls::{self, TlsError};
use netfold_controller::driver::HeldEntity;
use netfold_controller::topology::{Kind, Mac, Prefix, Switch, SwitchId, Topology};

/// Why a switch of a topology cannot be managed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The switch has no P4Runtime server.
    #[error("switch {0} has no P4Runtime address in the topology: enter `p4runtime = \"host:port\"`")]
    NoAddress(String),
    /// This kind of switch is driven otherwise.
    #[error("switch {switch} is of kind {}, which is not driven over P4Runtime", kind.name())]
    Kind {
        /// The switch.
        switch: String,
        /// Its kind.
        kind: Kind,
    },
    /// The files that its `tls` names are of no use.
    #[error("switch {switch} cannot be reached over TLS")]
    Tls {
        /// The switch.
        switch: String,
        /// Why, and what to do.
        #[source]
        source: Box<TlsError>,
    },
    /// The compiled program cannot be read.
    #[error(
        "cannot read the compiled program of switch {switch}, {}: make it with \
         `netfold p4 emit --target v1model --profile {profile} -o p.p4; p4c-bm2-ss --std p4-16 p.p4 -o {}`",
        path.display(), path.display()
    )]
    DeviceConfig {
        /// The switch.
        switch: String,
        /// The file.
        path: PathBuf,
        /// Name of the program's profile.
        profile: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What the switch is to run makes no sense.
    #[error("what switch {switch} is to run cannot be made")]
    Pipeline {
        /// The switch.
        switch: String,
        /// Why.
        #[source]
        source: PipelineError,
    },
    /// The switch's management does not start.
    #[error(transparent)]
    Start(#[from] P4RuntimeError),
}

/// The configuration of a managed switch that follows from the topology; for [`Managed::start`], after the caller's own
/// changes.
///
/// Peers of switches with numbered ports are looked up by their IPv4 addresses: other switches first, and of several links
/// to the same switch the first of the file; then hosts, by the longest prefix.
///
/// # Errors
///
/// [`ConnectError`]. The switch itself is not asked for anything.
///
/// # Panics
///
/// When the number is of another topology.
pub fn configure(topology: &Topology, id: SwitchId) -> Result<(ManagedConfig, Pipeline), ConnectError> {
    let switch = topology.switch(id);
    let name = || switch.name.clone();
    let address = switch.p4runtime.clone().ok_or_else(|| ConnectError::NoAddress(name()))?;
    if switch.kind == Kind::Tofino {
        return Err(ConnectError::Kind { switch: name(), kind: switch.kind });
    }
    if let Some(wanted) = &switch.tls {
        let failed = |source| ConnectError::Tls { switch: name(), source: Box::new(source) };
        tls::check(wanted, &address).map_err(failed)?;
    }
    let pipeline = pipeline(switch, topology.program_profile(id))?;
    let attachment = match switch.kind {
        Kind::Software => Attachment::Attached,
        _ => Attachment::Known(Box::new(peer_table(topology, id))),
    };
    let mut config = ManagedConfig::new(name(), address, attachment);
    config.tls.clone_from(&switch.tls);
    config.device_id = switch.device_id;
    config.cpu_port = switch.cpu_port;
    config.slots = switch.slots;
    if let Some(data) = switch.data {
        config.udp_port = data.port();
        if let (IpAddr::V4(ip), Some(mac)) = (data.ip(), switch.ethernet_address()) {
            config.switch = Address { mac: mac.0, ip: ip.to_bits(), port: data.port() };
        }
    }
    Ok((config, pipeline))
}

/// Manages a switch of a topology, where `held` lists the objects that an earlier control plane installed and that are still desired; see
/// [`Managed::start`].
///
/// # Errors
///
/// [`ConnectError`]. Whether the switch is reachable is reported by events.
///
/// # Panics
///
/// When the number is of another topology.
pub fn connect(
    topology: &Topology,
    id: SwitchId,
    held: Vec<HeldEntity>,
    listener: impl FnMut(SwitchEvent) + Send + 'static,
) -> Result<Managed, ConnectError> {
    let (config, pipeline) = configure(topology, id)?;
    Ok(Managed::start(config, pipeline, held, listener)?)
}

fn pipeline(switch: &Switch, profile: Profile) -> Result<Pipeline, ConnectError> {
    let failed = |source| ConnectError::Pipeline { switch: switch.name.clone(), source };
    let Some(path) = &switch.device_config else { return Pipeline::software(profile).map_err(failed) };
    let compiled = std::fs::read(path).map_err(|source| ConnectError::DeviceConfig {
        switch: switch.name.clone(),
        path: path.clone(),
        profile: switch.profile.clone().unwrap_or_default(),
        source,
    })?;
    let format = if switch.kind == Kind::Bmv2 { DeviceFormat::Bmv2 } else { DeviceFormat::Opaque };
    Pipeline::new(profile, compiled, format).map_err(failed)
}

/// Who is at which port of a switch whose ports have numbers.
pub fn peer_table(topology: &Topology, id: SwitchId) -> PeerTable {
    let mut peers = PeerTable::new();
    let place =
        |port: Option<u16>, mac: Option<Mac>| Some(PeerPort { port: port?, mac: mac.map_or(0, |mac| mac.0) });
    let planes = topology.hosts().iter().flat_map(|host| &host.planes);
    for attachment in planes.filter(|plane| plane.switch == id) {
        let Some(at) = place(attachment.port, attachment.mac) else { continue };
        for prefix in &attachment.addresses {
            peers = peers.with(*prefix, at);
        }
    }
    // Of equal prefixes the last wins, and of several links to a switch it is to be the first.
    for (link, other) in topology.neighbours(id).iter().rev() {
        let (port, mac) = topology.hop(id, *link);
        let data = topology.switch(*other).data;
        let own = data.and_then(|data| Prefix::new(data.ip(), if data.is_ipv4() { 32 } else { 128 }));
        if let (Some(at), Some(own)) = (place(port, mac), own) {
            peers = peers.with(own, at);
        }
    }
    peers
}
