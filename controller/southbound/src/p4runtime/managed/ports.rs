//! A switch that assigns a port to every peer that the controller announces to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::ports::{
    self, AttachRequest, DescribeRequest, DescribeResponse, DetachRequest, ListRequest,
};
use netfold_wire::{JobKeys, PortKeys};

use super::super::call::Remote;
use super::super::driver::PeerPort;
use super::super::error::P4RuntimeError;
use super::session::Session;

/// A switch's description of itself; empty if it has no such service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) boot: Option<String>,
    pub(super) cpu_port: Option<u16>,
    pub(super) data: Option<SocketAddr>,
}

impl Description {
    /// Requests it. `address` is where the switch was reached; it replaces the address that the switch listens at when that is
    /// the unspecified one.
    pub(super) async fn of(remote: &Remote, address: &str) -> Result<Self, P4RuntimeError> {
        match remote.ports(DescribeRequest {}).await {
            Ok(described) => Ok(Self::new(described, address)),
            Err(P4RuntimeError::Refused { code: Code::Unimplemented, .. }) => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    fn new(described: DescribeResponse, address: &str) -> Self {
        let reached = address.parse::<SocketAddr>().ok().map(|reached| reached.ip());
        let data = described.data_address.parse::<SocketAddr>().ok();
        let data = data.map(|data| match reached {
            Some(ip) if data.ip().is_unspecified() => SocketAddr::new(ip, data.port()),
            _ => data,
        });
        let boot = Some(described.boot_id).filter(|boot| !boot.is_empty());
        let cpu_port = u16::try_from(described.cpu_port).ok().filter(|port| *port != 0);
        Self { boot, cpu_port, data: data.filter(|data| !data.ip().is_unspecified()) }
    }
}

/// Makes a port of a peer with so many UDP ports, where a job's packets are authenticated, if there are keys.
pub(super) async fn attach(
    session: &Session,
    (peer, udp_ports): (SocketAddr, u8),
    keys: Option<&JobKeys>,
) -> Result<PeerPort, P4RuntimeError> {
    let Session { remote, stream, .. } = session;
    let (device_id, election_id) = (remote.device_id, Some(stream.election_id().into()));
    let keys = keys.map(|JobKeys { job, epoch, keys: PortKeys { receive, send } }| ports::JobKeys {
        job: Some(ports::Job { number: (*job).into(), epoch: *epoch }),
        receive: receive.0.to_vec(),
        send: send.0.to_vec(),
    });
    let request = AttachRequest {
        peer: peer.to_string(),
        udp_ports: udp_ports.into(),
        device_id,
        election_id,
        keys,
        ..Default::default()
    };
    let answer = remote.ports(request).await?;
    let port = u16::try_from(answer.port).ok().filter(|port| *port != 0);
    let port = port.ok_or_else(|| remote.malformed_port())?;
    Ok(PeerPort { port, mac: 0 })
}

/// Takes a peer's port away, or the keys of a job there, by number and epoch.
pub(super) async fn detach(
    session: &Session,
    peer: SocketAddr,
    keys_of: Option<(u16, u32)>,
) -> Result<(), P4RuntimeError> {
    let Session { remote, stream, .. } = session;
    let (device_id, election_id) = (remote.device_id, Some(stream.election_id().into()));
    let keys_of = keys_of.map(|(number, epoch)| ports::Job { number: number.into(), epoch });
    let request =
        DetachRequest { peer: peer.to_string(), device_id, election_id, keys_of, ..Default::default() };
    remote.ports(request).await.map(drop)
}

/// A port of the switch.
pub(super) struct SwitchPort {
    pub(super) at: PeerPort,
    /// It cannot be taken away.
    pub(super) fixed: bool,
    /// Number and epoch of the jobs that have keys there.
    pub(super) authenticated: BTreeSet<(u16, u32)>,
}

/// The switch's ports, by peer.
pub(super) async fn list(remote: &Remote) -> Result<BTreeMap<SocketAddr, SwitchPort>, P4RuntimeError> {
    let answer = remote.ports(ListRequest {}).await?;
    let port = |port: ports::Port| {
        let at = PeerPort { port: u16::try_from(port.port).ok()?, mac: 0 };
        let job = |job: &ports::Job| Some((u16::try_from(job.number).ok()?, job.epoch));
        let authenticated = port.authenticated.iter().filter_map(job).collect();
        Some((port.peer.parse().ok()?, SwitchPort { at, fixed: port.fixed, authenticated }))
    };
    Ok(answer.ports.into_iter().filter_map(port).collect())
}
