//! The back ends that are measured: how each is opened, with eight workers at the other end.

use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU32, Ordering};

use netfold_io::ethernet::{Ethernet, EthernetConfig};
use netfold_io::link::Link;
use netfold_io::link::{AfPacket, PacketRing, Xdp, XdpConfig};
use netfold_io::shm::{Hub, Spoke};
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{Cores, IoError, PacketIo};
use netfold_wire::UDP_PORT;

use super::WORKERS;
use super::crowd::Workers;
use super::frames::{Frames, WORKERS_MAC, worker_address};
use super::sockets::{DATAGRAM_LEN, Sockets, TAGGED_LEN};
use super::{IoBenchError, IoConfig};
use netfold_testkit::namespace::{CommandError, NamespaceSet, command, within};

/// The switch's address on a pair of interfaces, of the network for benchmarks (RFC 2544).
pub(super) const HUB_IP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(super) const HUB: &str = "hub";
pub(super) const CROWD: &str = "crowd";
/// Their Ethernet addresses, configured so that no ARP is needed.
pub(super) const HUB_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CROWD_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A device with both of its ends open.
pub(super) struct Opened {
    pub(super) io: Box<dyn PacketIo>,
    pub(super) workers: Box<dyn Workers>,
    /// What lives as long as they do.
    pub(super) keep: Box<dyn Any>,
}

/// Opens both ends; the number is the workers' window.
type Open = fn(u32) -> Result<Opened, IoBenchError>;

/// Another program's forwarder on the same device, with the workers' end.
pub(super) struct Reference {
    pub(super) workers: Box<dyn Workers>,
    /// An error once the forwarder has ended. What is captured lives as long as the device.
    pub(super) check: Box<dyn FnMut() -> Result<(), IoBenchError> + Send>,
}

/// Starts it; the two cores are for what else it does, and for forwarding.
type Refer = fn(u32, [usize; 2]) -> Result<Reference, IoBenchError>;

/// A way for packets to reach the switch.
pub struct Backend {
    name: &'static str,
    copies: u32,
    /// `None`: the kernel processes the packets.
    open: Option<Open>,
    /// The same with workers whose packets are authenticated, where each has packet I/O of its own.
    open_authenticated: Option<Open>,
    /// DPDK's forwarder on it, for devices of DPDK.
    testpmd: Option<Refer>,
}

/// Every back end, with how often it has a byte copied, in and out. Sockets: once each way, by the kernel. Links: into the link's memory
/// and out of it, each way, by the kernel and by us. DPDK's packet socket: once more on the way in, and not by the kernel on the way
/// out. None by a program in the kernel that sends a packet back, one for each copy but the last by multicast. Rings in shared memory, and two DPDK ports that hand buffers to each other: by us alone, once each way.
const BACKENDS: &[Backend] = &[
    Backend {
        name: "udp",
        copies: 2,
        open: Some(|window| loopback(window, DATAGRAM_LEN, boxed)),
        open_authenticated: Some(|window| loopback(window, TAGGED_LEN, tagged)),
        testpmd: None,
    },
    Backend {
        name: "shm",
        copies: 2,
        open: Some(|window| shared(window, DATAGRAM_LEN, boxed)),
        open_authenticated: Some(|window| shared(window, TAGGED_LEN, tagged)),
        testpmd: None,
    },
    Backend { name: "udp-veth", copies: 2, open: Some(kernel), ..PLAIN },
    Backend { name: "af-packet", copies: 4, open: Some(|window| raw(window, AfPacket::open)), ..PLAIN },
    Backend { name: "packet-ring", copies: 4, open: Some(|window| raw(window, PacketRing::open)), ..PLAIN },
    Backend { name: "af-xdp", copies: 4, open: Some(|window| raw(window, xdp)), ..PLAIN },
    Backend { name: "xdp-kernel", copies: 1, open: None, ..PLAIN },
    #[cfg(feature = "dpdk")]
    Backend {
        name: "dpdk:net_af_packet",
        copies: 5,
        open: Some(|window| raw(window, dpdk::packet_socket)),
        testpmd: Some(dpdk::testpmd),
        ..PLAIN
    },
    #[cfg(feature = "dpdk")]
    Backend {
        name: "dpdk:net_ring",
        copies: 2,
        open: Some(dpdk::rings),
        testpmd: Some(dpdk::no_testpmd),
        ..PLAIN
    },
];

/// What most back ends have.
const PLAIN: Backend =
    Backend { name: "", copies: 0, open: Some(kernel), open_authenticated: None, testpmd: None };

/// All back ends that this program has.
#[must_use]
pub fn all() -> &'static [Backend] {
    BACKENDS
}

/// The back end of a name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Backend> {
    BACKENDS.iter().find(|backend| backend.name == name)
}

impl Backend {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn copies_per_byte(&self) -> u32 {
        self.copies
    }

    /// DPDK's forwarder on the same device; `None` where it is none of DPDK's.
    pub(super) fn testpmd(
        &self,
        config: &IoConfig,
        cores: &Cores,
    ) -> Option<Result<Reference, IoBenchError>> {
        let start = self.testpmd?;
        let none = |why: &str| Some(Err(IoBenchError::Absent(why.into())));
        match (cores.of(0), cores.of(1)) {
            _ if config.queues > 1 => none("it is measured beside one packet thread"),
            (Some(first), Some(second)) if first != second => Some(start(config.window, [first, second])),
            _ => none("it takes two cores"),
        }
    }

    /// How a device is opened; `None` where the kernel processes the packets.
    pub(super) fn opening(&self) -> Option<impl Fn(&IoConfig) -> Result<Opened, IoBenchError>> {
        let (plain, authenticated) = (self.open?, self.open_authenticated);
        Some(move |config: &IoConfig| {
            let open = if config.authenticated { authenticated } else { Some(plain) };
            let absent = || IoBenchError::Absent("authenticated packets are measured on udp and shm".into());
            open.ok_or_else(absent)?(config.window)
        })
    }
}

/// How workers' sockets become workers.
type Wrap<I> = fn(Sockets<I>) -> Result<Box<dyn Workers>, IoError>;

fn boxed<I: PacketIo + 'static>(workers: Sockets<I>) -> Result<Box<dyn Workers>, IoError> {
    Ok(Box::new(workers))
}

fn tagged<I: PacketIo + 'static>(workers: Sockets<I>) -> Result<Box<dyn Workers>, IoError> {
    Ok(Box::new(workers.authenticated()?))
}

pub(super) fn absent(error: &dyn std::error::Error) -> IoBenchError {
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    IoBenchError::Absent(format!("{error}{cause}"))
}

/// Sockets on the loopback interface, one for each worker.
fn loopback(window: u32, len: usize, wrap: Wrap<UdpIo>) -> Result<Opened, IoBenchError> {
    let config = UdpConfig { datagram_len_max: len, ..UdpConfig::default() };
    let hub = UdpIo::bind((Ipv4Addr::LOCALHOST, 0).into(), config)?;
    let at = hub.local_addr().ok_or(IoError::Unsupported("an address"))?;
    let workers = wrap(Sockets::connect(at, window, len)?)?;
    Ok(Opened { io: Box::new(hub), workers, keep: Box::new(()) })
}

/// Rings in memory that is mapped for each worker anew, as if it were another process.
fn shared(window: u32, len: usize, wrap: Wrap<Spoke>) -> Result<Opened, IoBenchError> {
    static HUBS: AtomicU32 = AtomicU32::new(0);
    let name = format!("bench-{}-{}", std::process::id(), HUBS.fetch_add(1, Ordering::Relaxed));
    let name = name.parse().map_err(|_| IoError::Unsupported("such a name"))?;
    let hub = Hub::open(&name, (Ipv4Addr::LOCALHOST, 0).into(), len, None)?;
    let workers = wrap(Sockets::attach(&name, window, len)?)?;
    Ok(Opened { io: Box::new(hub), workers, keep: Box::new(()) })
}

/// A pair of virtual interfaces in a namespace of their own.
pub(super) fn pair() -> Result<(NamespaceSet, String), IoBenchError> {
    let make = || -> Result<(NamespaceSet, String), CommandError> {
        let mut namespaces = NamespaceSet::new();
        namespaces.add('h', 0)?;
        let name = namespaces.name('h', 0);
        command(&format!(
            "ip -n {name} link add {HUB} address {} type veth peer name {CROWD} address {}",
            colons(HUB_MAC),
            colons(CROWD_MAC)
        ))?;
        for interface in [HUB, CROWD] {
            // Whole frames are sent and received by hand here, so the kernel may neither segment nor coalesce them.
            command(&format!("ip -n {name} link set {interface} gso_max_segs 1 up"))?;
        }
        Ok((namespaces, name))
    };
    make().map_err(|error| IoBenchError::Absent(format!("no pair of interfaces here: {error}")))
}

fn colons(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The workers on their interface, by the quickest way to it.
pub(super) fn crowd(window: u32) -> Result<Box<dyn Workers>, IoError> {
    let link = PacketRing::open(CROWD)?;
    Ok(Box::new(Frames::new(link, SocketAddrV4::new(HUB_IP, UDP_PORT), HUB_MAC, window)?))
}

/// Calls `open` in the namespace and puts both ends together.
fn on_a_pair(
    window: u32,
    prepare: impl FnOnce(&str) -> Result<(), CommandError>,
    open: impl FnOnce() -> Result<Box<dyn PacketIo>, IoBenchError> + Send,
) -> Result<Opened, IoBenchError> {
    let (namespaces, name) = pair()?;
    prepare(&name).map_err(|error| absent(&error))?;
    let both =
        || -> Result<_, IoBenchError> { Ok((open()?, crowd(window).map_err(|error| absent(&error))?)) };
    let (io, workers) = within(&name, both).map_err(|error| absent(&error))??;
    Ok(Opened { io, workers, keep: Box::new(namespaces) })
}

/// A socket of the kernel's on the interface.
fn kernel(window: u32) -> Result<Opened, IoBenchError> {
    let prepare = |name: &str| {
        command(&format!("ip -n {name} addr add {HUB_IP}/24 dev {HUB}"))?;
        (0..WORKERS).try_for_each(|worker| {
            let (ip, mac) = (worker_address(worker).ip().to_owned(), colons(WORKERS_MAC));
            command(&format!("ip -n {name} neigh add {ip} lladdr {mac} dev {HUB} nud permanent")).map(drop)
        })
    };
    on_a_pair(window, prepare, || {
        let config = UdpConfig { datagram_len_max: DATAGRAM_LEN, ..UdpConfig::default() };
        Ok(Box::new(UdpIo::bind(SocketAddr::from((HUB_IP, UDP_PORT)), config)?))
    })
}

/// A link on the interface.
fn raw<L: Link + 'static>(window: u32, open: fn(&str) -> Result<L, IoError>) -> Result<Opened, IoBenchError> {
    on_a_pair(
        window,
        |_| Ok(()),
        move || {
            let link = open(HUB).map_err(|error| absent(&error))?;
            Ok(Box::new(Ethernet::bind(link, EthernetConfig::at(HUB_IP))?))
        },
    )
}

fn xdp(interface: &str) -> Result<Xdp, IoError> {
    Xdp::open(interface, XdpConfig::new(SocketAddrV4::new(HUB_IP, UDP_PORT)))
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use super::super::testpmd::{RINGS, Testpmd};
    use netfold_dpdk::{Device, Dpdk, DpdkError, Eal, Options, Port, PortConfig, Spec};

    use super::*;

    fn options() -> Options {
        Options { memory_mb: 512, ..Options::default() }
    }

    pub(super) fn packet_socket(interface: &str) -> Result<Dpdk, IoError> {
        let open = || -> Result<Dpdk, DpdkError> {
            let spec: Spec = format!("net_af_packet,iface={interface},{RINGS}").parse()?;
            Ok(Dpdk::open(&Spec { options: options(), ..spec })?.remove(0))
        };
        open().map_err(|error| IoError::Os { call: "dpdk", source: std::io::Error::other(error) })
    }

    /// DPDK's forwarder on the pair's one end.
    pub(super) fn testpmd(window: u32, cores: [usize; 2]) -> Result<Reference, IoBenchError> {
        let (namespaces, name) = pair()?;
        let workers = within(&name, || crowd(window)).map_err(|error| absent(&error))?;
        let workers = workers.map_err(|error| absent(&error))?;
        let mut testpmd = Testpmd::start(&name, HUB, &options(), cores)?;
        let check = Box::new(move || {
            let _namespaces = &namespaces;
            testpmd.check()
        });
        Ok(Reference { workers, check })
    }

    pub(super) fn no_testpmd(_: u32, _: [usize; 2]) -> Result<Reference, IoBenchError> {
        Err(IoBenchError::Absent("both ends of a ring are in one process".into()))
    }

    /// Two ports back to back.
    pub(super) fn rings(window: u32) -> Result<Opened, IoBenchError> {
        let open = || -> Result<(Dpdk, Dpdk), DpdkError> {
            let (hub, crowd) = netfold_dpdk::rings(&Eal::start(&options(), false)?, 1023)?;
            let start = |device: Device| {
                let (_, mut queues) = Port::start(device, &PortConfig::default())?;
                Dpdk::new(queues.remove(0))
            };
            Ok((start(hub)?, start(crowd)?))
        };
        let (hub, crowd) = open().map_err(|error| absent(&error))?;
        let mac = hub.properties().mac;
        let io = Box::new(Ethernet::bind(hub, EthernetConfig::at(HUB_IP))?);
        let workers = Frames::new(crowd, SocketAddrV4::new(HUB_IP, UDP_PORT), mac, window)?;
        Ok(Opened { io, workers: Box::new(workers), keep: Box::new(()) })
    }
}
