//! The service `Ports`: the peers at the ports of a switch whose links are UDP.
//!
//! The switch's data path is the only record, so responses agree with what packets meet. Ports that have a peer when the
//! server starts were given on the command line and cannot be detached.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::SystemTime;

use netfold_io::IoError;
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::ports::{
    AttachRequest, AttachResponse, DescribeRequest, DescribeResponse, DetachRequest, DetachResponse, Job,
    ListRequest, ListResponse, Port,
};
use netfold_switch::switch::PORTS_MAX;
use netfold_switch::{Core, Handle};
use netfold_wire::{JobKeys, PacketKey, PortKeys, header};

use crate::fault::Fault;

/// The ports of one switch.
pub(crate) struct Ports {
    handle: Handle,
    /// Ports that the switch was started with.
    fixed: BTreeSet<u16>,
    cpu_port: u16,
    boot_id: String,
}

impl Ports {
    pub(crate) fn new(handle: Handle, cpu_port: u16) -> Result<Self, Fault> {
        let fixed = handle.call(|core| bound(core).map(|(port, _)| port).collect::<BTreeSet<_>>());
        let fixed = fixed.map_err(|_| Fault::stopped())?;
        if fixed.contains(&cpu_port) {
            return Err(Fault::invalid(format!(
                "port {cpu_port} is reserved for the controller: no peer can have it"
            )));
        }
        Ok(Self { handle, fixed, cpu_port, boot_id: boot_id() })
    }

    fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Result<R, Fault> {
        self.handle.call(call).map_err(|_| Fault::stopped())
    }

    pub(crate) fn attach(&self, request: &AttachRequest) -> Result<AttachResponse, Fault> {
        let (peer, cpu_port) = (address(&request.peer)?, self.cpu_port);
        let keys = request.keys.as_ref().map(job_keys).transpose()?;
        let udp_ports = udp_ports(request.udp_ports, peer)?;
        let port = self.call(move |core| attach(core, (peer, udp_ports), cpu_port, keys.as_ref()))??;
        Ok(AttachResponse { port: port.into() })
    }

    pub(crate) fn detach(&self, request: &DetachRequest) -> Result<DetachResponse, Fault> {
        let (peer, fixed) = (address(&request.peer)?, self.fixed.clone());
        match request.keys_of.as_ref().map(job).transpose()? {
            Some((job, epoch)) => self.call(move |core| {
                port_of(core, peer).into_iter().for_each(|port| core.forget_keys(port, job, epoch));
            })?,
            None => self.call(move |core| detach(core, peer, &fixed))??,
        }
        Ok(DetachResponse {})
    }

    pub(crate) fn list(&self, _: &ListRequest) -> Result<ListResponse, Fault> {
        let keyed = |core: &Core, port| -> Vec<Job> {
            let job = |(job, epoch): (u16, u32)| Job { number: job.into(), epoch };
            core.authenticated(port).map(job).collect()
        };
        let held: Vec<_> =
            self.call(move |core| bound(core).map(|(port, peer)| (port, peer, keyed(core, port))).collect())?;
        let port = |(port, peer, authenticated): (u16, SocketAddr, Vec<Job>)| Port {
            port: port.into(),
            peer: peer.to_string(),
            fixed: self.fixed.contains(&port),
            authenticated,
        };
        Ok(ListResponse { ports: held.into_iter().map(port).collect() })
    }

    pub(crate) fn describe(&self, _: &DescribeRequest) -> Result<DescribeResponse, Fault> {
        let (local, len) = self.call(|core| (core.local_addr(), core.datagram_len_max()))?;
        let words = len.saturating_sub(header::LEN) / size_of::<u32>();
        Ok(DescribeResponse {
            data_address: local.map(|local| local.to_string()).unwrap_or_default(),
            lane_words_max: u32::try_from(words).unwrap_or(u32::MAX),
            ports_max: u32::from(PORTS_MAX),
            cpu_port: self.cpu_port.into(),
            boot_id: self.boot_id.clone(),
        })
    }
}

/// The ports that have a peer, by number.
fn bound(core: &Core) -> impl Iterator<Item = (u16, SocketAddr)> + '_ {
    (1..=PORTS_MAX).filter_map(|port| Some((port, core.peer(port)?)))
}

/// An address to which packets can be sent.
fn address(text: &str) -> Result<SocketAddr, Fault> {
    let shape = || {
        Fault::invalid(format!(
            "peer '{text}' is no address with a UDP port, as in 10.0.0.1:20038 or [fd00::1]:20038"
        ))
    };
    let peer: SocketAddr = text.parse().map_err(|_| shape())?;
    // An IPv4-mapped IPv6 address is the same peer.
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let broadcast = matches!(peer.ip(), std::net::IpAddr::V4(ip) if ip.is_broadcast());
    if peer.port() == 0 || peer.ip().is_unspecified() || peer.ip().is_multicast() || broadcast {
        return Err(Fault::invalid(format!("peer {peer} is not a unicast address and port")));
    }
    Ok(peer)
}

/// The port of a peer.
fn port_of(core: &Core, peer: SocketAddr) -> Option<u16> {
    let same = |theirs: SocketAddr| (theirs.ip().to_canonical(), theirs.port()) == (peer.ip(), peer.port());
    bound(core).find(|(_, theirs)| same(*theirs)).map(|(port, _)| port)
}

/// The number and the epoch of a job.
fn job(job: &Job) -> Result<(u16, u32), Fault> {
    let number = u16::try_from(job.number).ok().filter(|number| *number != 0);
    let number = number.ok_or_else(|| Fault::invalid(format!("there is no job number {}", job.number)))?;
    Ok((number, job.epoch))
}

fn job_keys(keys: &netfold_p4_runtime::ports::JobKeys) -> Result<JobKeys, Fault> {
    let named = keys.job.as_ref().ok_or_else(|| Fault::invalid("the keys are of no job"))?;
    let (job, epoch) = job(named)?;
    let key = |bytes: &[u8]| {
        let key = <[u8; 32]>::try_from(bytes).map(PacketKey);
        key.map_err(|_| Fault::invalid(format!("a key of {} bytes: it has 32", bytes.len())))
    };
    let keys = PortKeys { receive: key(&keys.receive)?, send: key(&keys.send)? };
    if keys.receive == keys.send {
        return Err(Fault::invalid(
            "one key for both directions: packets could be sent back to their sender",
        ));
    }
    Ok(JobKeys { job, epoch, keys })
}

/// The number of a peer's UDP ports.
fn udp_ports(number: u32, peer: SocketAddr) -> Result<u8, Fault> {
    let valid = u8::try_from(number).ok().filter(|number| *number <= netfold_wire::PATHS_MAX);
    let last = valid.and_then(|number| peer.port().checked_add(u16::from(number.max(1) - 1)));
    valid.filter(|_| last.is_some()).map(|number| number.max(1)).ok_or_else(|| {
        Fault::invalid(format!("{number} UDP ports from {peer} on: give up to {}", netfold_wire::PATHS_MAX))
    })
}

/// The port of a peer, on which the job then has these keys. A port that was made for this is removed when the keys are refused.
fn attach(
    core: &mut Core,
    (peer, udp_ports): (SocketAddr, u8),
    cpu_port: u16,
    keys: Option<&JobKeys>,
) -> Result<u16, Fault> {
    let (port, is_new) = match port_of(core, peer) {
        Some(port) => (port, false),
        None => (bind_free(core, peer, udp_ports, cpu_port)?, true),
    };
    if let Some(Err(error)) = keys.map(|keys| core.authenticate(port, keys)) {
        if is_new {
            let _ = core.unbind_port(port);
        }
        return Err(match error {
            IoError::Oversize { .. } => Fault::new(
                Code::FailedPrecondition,
                format!("the data path has no room for tags, so it authenticates no packets: {error}"),
            ),
            error => Fault::new(Code::ResourceExhausted, error.to_string()),
        });
    }
    Ok(port)
}

fn bind_free(core: &mut Core, peer: SocketAddr, udp_ports: u8, cpu_port: u16) -> Result<u16, Fault> {
    let free = (1..=PORTS_MAX).find(|port| *port != cpu_port && core.peer(*port).is_none());
    let full =
        || Fault::new(Code::ResourceExhausted, format!("all {PORTS_MAX} ports have a peer; detach one"));
    let port = free.ok_or_else(full)?;
    core.bind_ports(port, peer, udp_ports).map(|()| port).map_err(refused)
}

fn detach(core: &mut Core, peer: SocketAddr, fixed: &BTreeSet<u16>) -> Result<(), Fault> {
    match port_of(core, peer) {
        None => Ok(()),
        Some(port) if fixed.contains(&port) => {
            let text = format!(
                "port {port} was assigned to {peer} when the switch was started and cannot be detached"
            );
            Err(Fault::new(Code::PermissionDenied, text))
        }
        Some(port) => core.unbind_port(port).map_err(refused),
    }
}

fn refused(error: IoError) -> Fault {
    let code = match error {
        IoError::Unsupported(_) => Code::Unimplemented,
        IoError::Family { .. } | IoError::PeerBound { .. } => Code::InvalidArgument,
        _ => Code::Internal,
    };
    Fault::new(code, error.to_string())
}

/// 128 bits that differ for every start: the system's entropy, through the keys of two hashers, with time and process.
fn boot_id() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let half = || RandomState::new().hash_one((now, std::process::id()));
    format!("{:016x}{:016x}", half(), half())
}
