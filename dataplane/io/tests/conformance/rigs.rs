//! What the checks run over: a hub and some spokes of every kind.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::pcap::{Captured, Resolution};
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{PacketIo, PortId, loopback};

pub(crate) const SPOKES: usize = 3;
/// Small enough for every transport, not a multiple of anything.
pub(crate) const DATAGRAM_LEN_MAX: usize = 1501;

/// A hub that has spoke i as port i, and the spokes, which have the hub as port 0.
pub(crate) struct Rig {
    pub(crate) hub: Box<dyn PacketIo>,
    pub(crate) spokes: Vec<Box<dyn PacketIo>>,
}

/// A rig's name and how to make it.
type Entry = (&'static str, fn() -> Rig);

pub(crate) const ALL: &[Entry] = &[
    ("loopback", loopback),
    ("loopback behind fault middleware without faults", || {
        map(loopback(), |io| Box::new(Faulty::new(io, FaultConfig::default())))
    }),
    ("loopback behind a delay of nothing to speak of", || {
        map(loopback(), |io| Box::new(Faulty::new(io, "rx.delay=1ns".parse().expect("a fault config"))))
    }),
    ("loopback behind a capture", || map(loopback(), captured)),
    ("udp", || udp(UdpConfig::default(), Ipv4Addr::LOCALHOST.into())),
    ("udp without segmentation", || {
        udp(UdpConfig { gso: false, ..UdpConfig::default() }, Ipv4Addr::LOCALHOST.into())
    }),
    ("udp without coalescing", || {
        udp(UdpConfig { gro: false, ..UdpConfig::default() }, Ipv4Addr::LOCALHOST.into())
    }),
    ("udp, plain", || {
        udp(UdpConfig { gso: false, gro: false, ..UdpConfig::default() }, Ipv4Addr::LOCALHOST.into())
    }),
    ("udp over IPv6", || udp(UdpConfig::default(), Ipv6Addr::LOCALHOST.into())),
    ("udp behind fault middleware and a capture", || {
        let rig = udp(UdpConfig::default(), Ipv4Addr::LOCALHOST.into());
        map(rig, |io| captured(Box::new(Faulty::new(io, FaultConfig::default()))))
    }),
];

fn loopback() -> Rig {
    let (hub, spokes) = loopback::star(SPOKES, 64, DATAGRAM_LEN_MAX);
    Rig { hub: Box::new(hub), spokes: spokes.into_iter().map(|spoke| Box::new(spoke) as Box<_>).collect() }
}

fn udp(config: UdpConfig, address: std::net::IpAddr) -> Rig {
    let config = UdpConfig { datagram_len_max: DATAGRAM_LEN_MAX, ..config };
    let any = SocketAddr::new(address, 0);
    let mut hub = match UdpIo::bind(any, config) {
        Ok(hub) => hub,
        Err(error) if any.is_ipv6() => {
            println!("skipped: this machine has no IPv6 loopback ({error}); loopback rings instead");
            return loopback();
        }
        Err(error) => panic!("{error}"),
    };
    let spokes = (0..SPOKES).map(|index| {
        let spoke = UdpIo::connect(hub.local_addr().expect("sockets have one"), config).expect("connects");
        let from = spoke.local_addr().expect("sockets have one");
        hub.bind_port(PortId(index as u16), from).expect("binds");
        Box::new(spoke) as Box<dyn PacketIo>
    });
    let spokes = spokes.collect();
    Rig { hub: Box::new(hub), spokes }
}

fn captured(io: Box<dyn PacketIo>) -> Box<dyn PacketIo> {
    Box::new(Captured::new(io, std::io::sink(), Resolution::Nano).expect("a sink takes everything"))
}

fn map(rig: Rig, wrap: impl Fn(Box<dyn PacketIo>) -> Box<dyn PacketIo>) -> Rig {
    Rig { hub: wrap(rig.hub), spokes: rig.spokes.into_iter().map(wrap).collect() }
}
