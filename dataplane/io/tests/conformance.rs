//! One list of checks over all backends and middleware; prints the table of backend by check, and fails where one fails.
//!
//! `cargo test -p netfold-io --test conformance -- udp` runs what has `udp` in the backend's or the check's name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use netfold_io::ethernet::Ethernet;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{PacketIo, link, loopback};
use netfold_io_conformance::segment::{MTU, hub_config, spoke_config};
use netfold_io_conformance::{Backend, DATAGRAM_LEN_MAX, Rig, SPOKES, run};

/// Back ends side by side.
const THREADS: usize = 4;

fn main() -> ExitCode {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let table = run(&backends(), filter.as_deref(), THREADS);
    println!("{table}");
    println!("{} failed, {} skipped", table.failed(), table.skipped());
    if table.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn backends() -> Vec<Backend> {
    let rings = Backend::new("loopback", || Ok(rings()));
    let delayed = rings.behind("a delay of nothing to speak of", |io| {
        Box::new(Faulty::new(io, "rx.delay=1ns".parse::<FaultConfig>().expect("a fault config")))
    });
    let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let udp = |name, gso, gro, address| {
        Backend::new(name, move || udp(UdpConfig { gso, gro, ..UdpConfig::default() }, address))
    };
    let mut all = Vec::from(rings.with_middleware());
    all.push(delayed);
    all.extend(udp("udp", true, true, v4).with_middleware());
    all.extend([
        udp("udp without segmentation", false, true, v4),
        udp("udp without coalescing", true, false, v4),
        udp("udp, plain", false, false, v4),
        udp("udp over IPv6", true, true, Ipv6Addr::LOCALHOST.into()),
    ]);
    all.extend(Backend::new("ethernet in memory", || Ok(memory())).with_middleware());
    #[cfg(target_os = "linux")]
    all.extend(Backend::new("shm", || Ok(shared(false))).with_middleware());
    #[cfg(target_os = "linux")]
    all.push(Backend::new("shm with an uplink", || Ok(shared(true))));
    #[cfg(target_os = "linux")]
    all.extend(raw());
    all
}

/// Links on virtual interfaces.
#[cfg(target_os = "linux")]
fn raw() -> Vec<Backend> {
    use link::{AfPacket, PacketRing, RingVersion, Xdp, XdpConfig};
    use netfold_io_conformance::segment::{Segment, address};
    let xdp = |interface: &str| Xdp::open(interface, XdpConfig::new(address(interface)));
    let af_packet = Backend::new("af-packet", || Segment::new()?.rig(AfPacket::open));
    let ring = Backend::new("packet-ring", || Segment::new()?.rig(PacketRing::open));
    let blocks = Backend::new("packet-ring, version 3", || {
        Segment::new()?.rig(|interface| PacketRing::open_as(interface, RingVersion::Three))
    });
    let mixed = Backend::new("packet-ring with af-packet spokes", || {
        Segment::new()?.mixed(PacketRing::open, AfPacket::open)
    });
    let af_xdp = Backend::new("af-xdp", move || Segment::new()?.rig(xdp));
    let generic = Backend::new("af-xdp, generic", || {
        Segment::new()?.rig(|interface| {
            let config = XdpConfig { force_generic: true, ..XdpConfig::new(address(interface)) };
            Xdp::open(interface, config)
        })
    });
    let xdp_hub =
        Backend::new("af-xdp with packet-ring spokes", move || Segment::new()?.mixed(xdp, PacketRing::open));
    let mut all = Vec::from(af_packet.with_middleware());
    all.extend(ring.with_middleware());
    all.extend([blocks, mixed]);
    all.extend(af_xdp.with_middleware());
    all.extend([generic, xdp_hub]);
    all.extend(Backend::new("af-xdp, one of two threads", of_two_threads).with_middleware());
    all
}

/// A hub that shares an interface of two queues with another thread, which has one of them. Some of its datagrams arrive by that one.
#[cfg(target_os = "linux")]
fn of_two_threads() -> Result<Rig, String> {
    use netfold_io::link::PacketRing;
    use netfold_io::{Cores, OpenOptions, open_threads};
    use netfold_io_conformance::Beside;
    use netfold_io_conformance::segment::{HUB, Segment};
    Segment::with_queues(2)?.around(
        || {
            let at = hub_config().address;
            let opening = |port| OpenOptions {
                datagram_len_max: DATAGRAM_LEN_MAX,
                ..OpenOptions::at((*at.ip(), port).into())
            };
            let spec = format!("af-xdp:{HUB}").parse().expect("a spec");
            let both = [opening(at.port() + 1), opening(at.port())];
            let mut ends = open_threads(&spec, &both, &Cores::default())?;
            let hub = ends.pop().expect("two threads");
            Ok((hub, Beside::start(ends.pop().expect("two threads"))))
        },
        PacketRing::open,
    )
}

fn rings() -> Rig {
    let (hub, spokes) = loopback::star(SPOKES, 64, DATAGRAM_LEN_MAX);
    Rig::new(Box::new(hub), spokes.into_iter().map(|spoke| Box::new(spoke) as Box<_>).collect())
}

/// Rings in shared memory; where there is an uplink, the last spoke comes by it.
#[cfg(target_os = "linux")]
fn shared(uplink: bool) -> Rig {
    use netfold_io::shm::{Hub, Spoke};
    use std::sync::atomic::{AtomicU32, Ordering};
    static HUBS: AtomicU32 = AtomicU32::new(0);
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let name = format!("conformance-{}-{}", std::process::id(), HUBS.fetch_add(1, Ordering::Relaxed));
    let name = name.parse().expect("a name");
    let config = UdpConfig { datagram_len_max: DATAGRAM_LEN_MAX, ..UdpConfig::default() };
    let socket = uplink.then(|| UdpIo::bind(SocketAddr::new(here, 0), config).expect("binds"));
    let at = socket.as_ref().and_then(PacketIo::local_addr);
    let socket = socket.map(|io| Box::new(io) as Box<dyn PacketIo>);
    let hub =
        Hub::open(&name, SocketAddr::new(here, 0), DATAGRAM_LEN_MAX, socket).expect("a name of its own");
    let spokes = (0..SPOKES).map(|index| -> Box<dyn PacketIo> {
        match at.filter(|_| index == SPOKES - 1) {
            Some(at) => Box::new(UdpIo::connect(at, config).expect("connects")),
            None => Box::new(Spoke::attach(&name, here, DATAGRAM_LEN_MAX).expect("the hub is there")),
        }
    });
    let spokes = spokes.collect();
    Rig::bound(Box::new(hub), spokes)
}

fn udp(config: UdpConfig, address: IpAddr) -> Result<Rig, String> {
    let config = UdpConfig { datagram_len_max: DATAGRAM_LEN_MAX, ..config };
    let any = SocketAddr::new(address, 0);
    let hub = match UdpIo::bind(any, config) {
        Ok(hub) => hub,
        Err(error) if any.is_ipv6() => return Err(format!("no IPv6 loopback here ({error})")),
        Err(error) => panic!("{error}"),
    };
    let at = hub.local_addr().expect("sockets have one");
    let spokes =
        (0..SPOKES).map(|_| -> Box<dyn PacketIo> { Box::new(UdpIo::connect(at, config).expect("connects")) });
    let spokes = spokes.collect();
    Ok(Rig::bound(Box::new(hub), spokes))
}

fn memory() -> Rig {
    let mut stations = link::segment(1 + SPOKES, 1024, MTU + 14).into_iter();
    let mut next = || stations.next().expect("one for each end");
    let hub = Ethernet::bind(next(), hub_config()).expect("the hub's adapter");
    let at = hub.local_addr().expect("adapters have one");
    let spokes = (0..SPOKES).map(|index| -> Box<dyn PacketIo> {
        Box::new(Ethernet::connect(next(), at, spoke_config(index)).expect("a spoke's adapter"))
    });
    let spokes = spokes.collect();
    Rig::bound(Box::new(hub), spokes).settled()
}
