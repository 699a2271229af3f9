//! Software switches and workers as threads of this process, each in a network namespace of its own, on the packet I/O of one's choice.
//! Needs root; everything made here goes with the run.
//!
//! Interface `eth0` of each namespace is linked with a bridge in one more, so that all reach each other; the kernel has the addresses.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use netfold_io::PacketIo;
use netfold_io::spec::{IoSpec, OpenOptions};
use netfold_wire::UDP_PORT;
use netfold_wire::frame::OUTER_LEN;

use super::fabric::Carrier;
use super::software::datagram_len_max;
use super::{RunConfig, RunError};
use netfold_testkit::namespace::{CommandError, NamespaceSet, command, within};

/// Namespaces with what is open in them.
pub(super) struct Network {
    pub(super) namespaces: NamespaceSet,
    pub(super) switches: Vec<Box<dyn PacketIo>>,
    pub(super) workers: Vec<Box<dyn PacketIo>>,
    pub(super) switch_addresses: Vec<Option<SocketAddr>>,
    pub(super) worker_addresses: Vec<Option<SocketAddr>>,
}

/// Makes the namespaces, and opens everybody's end.
pub(super) fn start(config: &RunConfig, carrier: Carrier) -> Result<Network, RunError> {
    let (switches, workers) = (config.shape.above.len(), config.shape.workers.len());
    let leaves = config.leaves();
    let datagram_len_max = datagram_len_max(config);
    let mtu = (OUTER_LEN - 14 + datagram_len_max).max(1500);
    let namespaces = build(switches, workers, mtu)?;
    let address = |place| SocketAddr::V4(SocketAddrV4::new(ip(place), UDP_PORT));
    // A worker's end in its group has the next UDP port.
    let own = |end: usize| {
        let ip = ip(Attachment::Worker(end % workers));
        SocketAddr::V4(SocketAddrV4::new(ip, UDP_PORT + (end / workers) as u16))
    };
    let open = |place: Attachment, number: usize, own: SocketAddr, peer: Option<SocketAddr>| {
        let choice = choice(carrier, (number, switches + leaves.len()), mtu)?;
        let hub = peer.is_none();
        let opening = OpenOptions { peer, datagram_len_max, hub, ..OpenOptions::at(own) };
        let name = place.namespace(&namespaces);
        let opened = within(&name, move || netfold_dpdk::open(&choice, &opening));
        let opened = opened.map_err(|error| RunError::Network(Box::new(error)))?;
        opened.map_err(|error| RunError::Io(error.into()))
    };
    let at = |switch| open(Attachment::Switch(switch), switch, address(Attachment::Switch(switch)), None);
    let towards = |(end, leaf): (usize, &usize)| {
        let switch = address(Attachment::Switch(*leaf));
        open(Attachment::Worker(end % workers), switches + end, own(end), Some(switch))
    };
    Ok(Network {
        switches: (0..switches).map(at).collect::<Result<_, _>>()?,
        workers: leaves.iter().enumerate().map(towards).collect::<Result<_, _>>()?,
        switch_addresses: (0..switches).map(|switch| Some(address(Attachment::Switch(switch)))).collect(),
        worker_addresses: (0..leaves.len()).map(|end| Some(own(end))).collect(),
        namespaces,
    })
}

/// Who has a namespace.
#[derive(Clone, Copy)]
enum Attachment {
    Switch(usize),
    Worker(usize),
}

impl Attachment {
    fn namespace(self, names: &NamespaceSet) -> String {
        match self {
            Self::Switch(switch) => names.name('s', switch),
            Self::Worker(rank) => names.name('w', rank),
        }
    }
}

/// 10.77.0.0/16: switches from 10.77.0.1 on, workers from 10.77.128.1 on.
fn ip(place: Attachment) -> Ipv4Addr {
    let host = match place {
        Attachment::Switch(switch) => switch as u32 + 1,
        Attachment::Worker(rank) => (128 << 8) + rank as u32 + 1,
    };
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 77, 0, 0).to_bits() | host)
}

/// The packet I/O on `eth0`; devices of DPDK have numbers in the process, and share its memory.
fn choice(carrier: Carrier, (number, devices): (usize, usize), mtu: usize) -> Result<IoSpec, RunError> {
    let words = match carrier {
        Carrier::AfPacket => "af-packet:eth0".to_owned(),
        Carrier::PacketRing => "packet-ring:eth0".to_owned(),
        Carrier::AfXdp => "af-xdp:eth0".to_owned(),
        _ => {
            // 4096 buffers a device, each with a frame and what DPDK wants around it.
            let memory_mb = (devices * (mtu + 6000)).div_ceil(256).max(256);
            format!("dpdk:net_af_packet{number},iface=eth0 prefix=16 mtu={mtu} -m {memory_mb}")
        }
    };
    words.parse().map_err(|error| RunError::Network(Box::new(error)))
}

fn build(switches: usize, workers: usize, mtu: usize) -> Result<NamespaceSet, CommandError> {
    let mut names = NamespaceSet::new();
    names.add('h', 0)?;
    let hub = names.name('h', 0);
    command(&format!("ip -n {hub} link add br0 type bridge"))?;
    command(&format!("ip -n {hub} link set br0 mtu {mtu} up"))?;
    let places = (0..switches).map(Attachment::Switch).chain((0..workers).map(Attachment::Worker));
    for (number, place) in places.enumerate() {
        match place {
            Attachment::Switch(switch) => names.add('s', switch)?,
            Attachment::Worker(rank) => names.add('w', rank)?,
        };
        let name = place.namespace(&names);
        command(&format!("ip link add eth0 netns {name} type veth peer name v{number} netns {hub}"))?;
        command(&format!("ip -n {hub} link set v{number} master br0 mtu {mtu} up"))?;
        command(&format!("ip -n {name} addr add {}/16 dev eth0", ip(place)))?;
        command(&format!("ip -n {name} link set eth0 mtu {mtu} up"))?;
    }
    Ok(names)
}
