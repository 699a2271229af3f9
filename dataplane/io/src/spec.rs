//! Packet I/O as text: the argument of `--io`.
//!
//! ```text
//! udp                                   sockets
//! af-packet:eth0                        a packet socket
//! packet-ring:eth0,address=10.0.0.9     a packet socket with a ring, at an address of its own
//! af-xdp:eth0@2,gateway=10.0.0.1        an XDP socket on queue 2, peers beyond the network by a gateway
//! af-xdp:eth0@0-3                       XDP sockets on four queues, receiving from all
//! af-xdp:eth0                           the first queue for one thread, all of the interface's for several
//! dpdk:net_tap0,iface=nf0               a DPDK device, in programs that have DPDK
//! shm:gpu                               rings in memory shared with the switch `gpu` of this host
//! shm:gpu,uplink=af-xdp:eth0            the switch `gpu` itself, with an uplink for peers elsewhere
//! xdp-kernel:eth0+eth1                  no packet I/O: the kernel runs the switch's program on these interfaces
//! xdp-kernel:eth0,mode=generic          the same behind the driver
//! ```
//!
//! An interface may be followed by `address=IP`, `prefix=BITS` and `gateway=IP`. Without an address it is the local one that the program gets
//! by other means, if the interface has it, or else the interface's first; an interface without any gets the local one. The prefix is the
//! kernel's for the address, or 24 bits.

mod kernel;
mod opener;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::str::FromStr;

pub use self::kernel::{KernelMode, KernelSpec};
pub use self::opener::{OpenThreads, ThreadOpener};
use crate::ethernet::EthernetConfig;
use crate::{Cores, IoError, PacketIo};

/// Queues of an interface that one switch or worker may open.
const XDP_QUEUES_MAX: u32 = 64;

/// An interface by name, and how it is addressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceSpec {
    /// The interface.
    pub interface: String,
    /// Our own address, where it is not the program's local one.
    pub address: Option<Ipv4Addr>,
    /// Bits of the network.
    pub prefix_len: Option<u8>,
    /// The way to peers outside the network.
    pub gateway: Option<Ipv4Addr>,
}

/// A kind of packet I/O, and on what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IoSpec {
    /// UDP sockets.
    #[default]
    Udp,
    /// A packet socket, a frame a call.
    AfPacket(InterfaceSpec),
    /// A packet socket with a receive ring.
    PacketRing(InterfaceSpec),
    /// XDP sockets on queues that follow each other: the first, and how many. `None`: the first queue alone, or for several threads all that
    /// the interface has.
    AfXdp(InterfaceSpec, Option<(u32, u32)>),
    /// A DPDK device, in DPDK's words. This crate only knows the name.
    Dpdk(String),
    /// Rings in memory shared by processes of one host: a switch's name there, and what carries the packets of that switch to peers
    /// elsewhere. Workers have no uplink.
    Shm(String, Option<Box<IoSpec>>),
    /// The program of a switch in the kernel's driver path, whose packets reach no process.
    XdpKernel(KernelSpec),
}

/// Text that is no [`IoSpec`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no packet I/O: {problem}; expected udp, af-packet:IFACE, packet-ring:IFACE, af-xdp:IFACE[@QUEUE[-LAST]] (each with \
     [,address=IP][,prefix=BITS][,gateway=IP]), dpdk:DEVICE, shm:NAME (for a switch with [,uplink=IO]), or for a switch \
     xdp-kernel:IFACE[+IFACE..][,address=IP][,mode=native|generic]"
)]
pub struct IoSpecError {
    text: String,
    problem: &'static str,
}

impl FromStr for IoSpec {
    type Err = IoSpecError;

    fn from_str(text: &str) -> Result<Self, IoSpecError> {
        let wrong = |problem| IoSpecError { text: text.to_owned(), problem };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "udp" if rest.is_empty() => Ok(Self::Udp),
            "udp" => Err(wrong("udp takes no interface")),
            "shm" => shm(rest).map_err(wrong),
            "dpdk" if rest.is_empty() => Err(wrong("name a device")),
            "dpdk" => Ok(Self::Dpdk(rest.to_owned())),
            "xdp-kernel" => kernel::parse(rest).map(Self::XdpKernel).map_err(wrong),
            "af-packet" => Ok(Self::AfPacket(raw(rest).map_err(wrong)?)),
            "packet-ring" => Ok(Self::PacketRing(raw(rest).map_err(wrong)?)),
            "af-xdp" => {
                let mut raw = raw(rest).map_err(wrong)?;
                let Some((interface, queue)) = raw.interface.rsplit_once('@') else {
                    return Ok(Self::AfXdp(raw, None));
                };
                let number = |text: &str| text.parse::<u32>().map_err(|_| wrong("the queue is no number"));
                let (first, last) = queue.split_once('-').unwrap_or((queue, queue));
                let (first, last) = (number(first)?, number(last)?);
                if last < first || last - first >= XDP_QUEUES_MAX {
                    return Err(wrong("queues go from the lower to the higher number, and are at most 64"));
                }
                if interface.is_empty() {
                    return Err(wrong("name an interface"));
                }
                raw.interface = interface.to_owned();
                Ok(Self::AfXdp(raw, Some((first, last - first + 1))))
            }
            _ => Err(wrong("there is no such kind")),
        }
    }
}

/// `NAME[,uplink=IO]`
fn shm(text: &str) -> Result<IoSpec, &'static str> {
    let (name, uplink) = match text.split_once(',') {
        Some((name, rest)) => (name, Some(rest.strip_prefix("uplink=").ok_or("there is no such setting")?)),
        None => (text, None),
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=64).contains(&name.len()) || !name.bytes().all(fits) {
        return Err("a switch's name on its host has 1 to 64 letters, digits, '-', '_' or '.'");
    }
    let uplink = match uplink.map(str::parse) {
        None => None,
        Some(Ok(IoSpec::Shm(..) | IoSpec::Dpdk(_) | IoSpec::XdpKernel(_))) => {
            return Err(
                "an uplink is udp, af-packet:IFACE, packet-ring:IFACE or af-xdp:IFACE[@QUEUE[-LAST]]",
            );
        }
        Some(Ok(spec)) => Some(Box::new(spec)),
        Some(Err(IoSpecError { problem, .. })) => return Err(problem),
    };
    Ok(IoSpec::Shm(name.to_owned(), uplink))
}

/// `IFACE[,KEY=VALUE]..`
fn raw(text: &str) -> Result<InterfaceSpec, &'static str> {
    let mut parts = text.split(',');
    let interface = parts.next().unwrap_or_default().to_owned();
    if interface.is_empty() {
        return Err("name an interface");
    }
    let mut raw = InterfaceSpec { interface, address: None, prefix_len: None, gateway: None };
    for part in parts {
        match part.split_once('=') {
            Some(("address", ip)) => {
                raw.address = Some(ip.parse().map_err(|_| "the address is no IPv4 address")?)
            }
            Some(("gateway", ip)) => {
                raw.gateway = Some(ip.parse().map_err(|_| "the gateway is no IPv4 address")?)
            }
            Some(("prefix", bits)) => {
                let bits = bits.parse().ok().filter(|bits| *bits <= 32);
                raw.prefix_len = Some(bits.ok_or("the prefix is no number up to 32")?);
            }
            _ => return Err("there is no such setting"),
        }
    }
    Ok(raw)
}

impl fmt::Display for InterfaceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(address) = self.address {
            write!(f, ",address={address}")?;
        }
        if let Some(bits) = self.prefix_len {
            write!(f, ",prefix={bits}")?;
        }
        if let Some(gateway) = self.gateway {
            write!(f, ",gateway={gateway}")?;
        }
        Ok(())
    }
}

impl fmt::Display for IoSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp => f.write_str("udp"),
            Self::AfPacket(raw) => write!(f, "af-packet:{}{raw}", raw.interface),
            Self::PacketRing(raw) => write!(f, "packet-ring:{}{raw}", raw.interface),
            Self::AfXdp(raw, None) => write!(f, "af-xdp:{}{raw}", raw.interface),
            Self::AfXdp(raw, Some((queue, 0 | 1))) => write!(f, "af-xdp:{}@{queue}{raw}", raw.interface),
            Self::AfXdp(raw, Some((first, count))) => {
                write!(f, "af-xdp:{}@{first}-{}{raw}", raw.interface, first.saturating_add(count - 1))
            }
            Self::Dpdk(device) => write!(f, "dpdk:{device}"),
            Self::Shm(name, None) => write!(f, "shm:{name}"),
            Self::Shm(name, Some(uplink)) => write!(f, "shm:{name},uplink={uplink}"),
            Self::XdpKernel(kernel) => write!(f, "xdp-kernel:{kernel}"),
        }
    }
}

/// How to open packet I/O: the local address, and the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// Our own address. Any address and port 0 where it does not matter.
    pub local: SocketAddr,
    /// The one peer, port 0; `None` where ports are bound later.
    pub peer: Option<SocketAddr>,
    /// Longest datagram in bytes; what carries it sets another limit.
    pub datagram_len_max: usize,
    /// Whether this is a switch's end, to which workers connect: relevant for rings in shared memory.
    pub hub: bool,
    /// UDP ports that it sends from, consecutive from the local one on: a worker's [paths](PacketIo::paths). 1 but for sockets.
    pub paths: u8,
    /// Whether it answers ARP and pings where the kernel does not: of several threads on one interface the first does.
    pub answers: bool,
}

impl OpenOptions {
    /// Opens at `local`, with ports to be bound later and datagrams as long as they come.
    #[must_use]
    pub fn at(local: SocketAddr) -> Self {
        Self { local, peer: None, datagram_len_max: usize::MAX, hub: false, paths: 1, answers: true }
    }

    /// The same for a switch's end.
    #[must_use]
    pub fn for_switch(self) -> Self {
        Self { hub: true, ..self }
    }
}

impl IoSpec {
    /// Whether several threads share one device, which is opened for all of them at once ([`open_threads`]). Of all others each thread opens one
    /// of its own.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::AfXdp(..) | Self::Dpdk(_))
    }
}

/// Opens a backend.
///
/// # Errors
///
/// [`IoError::NotIncluded`] for what this crate or this system does not have, and those of the backend: each says what to do.
pub fn open(spec: &IoSpec, options: &OpenOptions) -> Result<Box<dyn PacketIo>, IoError> {
    if let IoSpec::Dpdk(_) = spec {
        let remedy = "build it with DPDK (`--features dpdk`), or choose af-xdp, packet-ring or udp";
        return Err(IoError::NotIncluded { spec: spec.to_string(), remedy });
    }
    if let IoSpec::XdpKernel(_) = spec {
        let remedy = "it is for `netfold switch` alone, without other packet I/O; workers beside it use udp";
        return Err(IoError::NotIncluded { spec: spec.to_string(), remedy });
    }
    if options.paths > 1 && *spec != IoSpec::Udp {
        return Err(IoError::Unsupported("several UDP ports of a worker; sockets (--io udp) do"));
    }
    here::open(spec, options)
}

/// Opens one device for several threads, a backend for each: XDP sockets on one interface, where thread i has the datagrams to its own port
/// from all of the queues. The first replies to ARP and pings where the kernel does not. Where a spec is not
/// [shared](IoSpec::is_shared), or there is one thread, as [`open`].
///
/// # Errors
///
/// As [`open`]; [`IoError::Address`] when the threads are not at one IP address.
pub fn open_threads(
    spec: &IoSpec,
    threads: &[OpenOptions],
    cores: &Cores,
) -> Result<Vec<Box<dyn PacketIo>>, IoError> {
    match spec {
        #[cfg(target_os = "linux")]
        IoSpec::AfXdp(raw, queues) if threads.len() > 1 => here::xdp_threads(raw, *queues, threads, cores),
        _ => threads.iter().map(|options| open(spec, options)).collect(),
    }
}

/// The configuration of [`Ethernet`](crate::ethernet::Ethernet) that a spec amounts to, for a link that is opened elsewhere.
///
/// `found`: the IPv4 addresses that the interface has in the kernel, each with the bits of its network.
///
/// # Errors
///
/// [`IoError::Address`] when there is no IPv4 address to take.
pub fn ethernet_config(
    raw: &InterfaceSpec,
    options: &OpenOptions,
    found: &[(Ipv4Addr, u8)],
) -> Result<EthernetConfig, IoError> {
    let local = match options.local.ip() {
        IpAddr::V4(ip) if !ip.is_unspecified() && !ip.is_loopback() => Some(ip),
        _ => None,
    };
    let network = |ip| found.iter().find(|(own, _)| *own == ip).map(|(_, bits)| *bits);
    let on_it = local.filter(|ip| network(*ip).is_some());
    let first = found.first().map(|(ip, _)| *ip);
    let ip = raw.address.or(on_it).or(first).or(local).ok_or(IoError::Address {
        address: options.local,
        problem: "the interface has no IPv4 address; name one by address=IP",
    })?;
    let config = EthernetConfig::new(SocketAddrV4::new(ip, options.local.port()));
    Ok(EthernetConfig {
        prefix_len: raw.prefix_len.or(network(ip)).unwrap_or(config.prefix_len),
        gateway: raw.gateway,
        datagram_len_max: options.datagram_len_max,
        answers: options.answers,
        ..config
    })
}

#[cfg(target_os = "linux")]
mod here {
    use std::net::SocketAddr;

    use super::{InterfaceSpec, IoSpec, OpenOptions, XDP_QUEUES_MAX, ethernet_config};
    use crate::ethernet::{Claim, Ethernet};
    use crate::link::{AfPacket, Link, PacketRing, Xdp, XdpConfig, XdpQueues, ipv4_of};
    use crate::shm::{Hub, Spoke};
    use crate::udp::{DATAGRAM_LEN_MAX, UdpConfig, UdpIo, UdpPaths};
    use crate::{Cores, IoError, PacketIo};

    pub(super) fn open(spec: &IoSpec, options: &OpenOptions) -> Result<Box<dyn PacketIo>, IoError> {
        match spec {
            IoSpec::AfPacket(raw) => over("af-packet", raw, options, |_| AfPacket::open(&raw.interface)),
            IoSpec::PacketRing(raw) => {
                over("packet-ring", raw, options, |_| PacketRing::open(&raw.interface))
            }
            IoSpec::AfXdp(raw, queues) => over("af-xdp", raw, options, |claim| {
                let (queue, count) = queues.unwrap_or((0, 1));
                let config = XdpConfig { queue, ..XdpConfig::new(claim.address()) };
                XdpQueues::open(&raw.interface, config, count)
            }),
            IoSpec::Shm(name, uplink) => shm(name, uplink.as_deref(), options),
            _ => udp(options),
        }
    }

    /// Claims all addresses, because the XDP program needs all ports, and then opens the interface.
    pub(super) fn xdp_threads(
        raw: &InterfaceSpec,
        queues: Option<(u32, u32)>,
        threads: &[OpenOptions],
        cores: &Cores,
    ) -> Result<Vec<Box<dyn PacketIo>>, IoError> {
        let found = ipv4_of("af-xdp", &raw.interface)?;
        let mut ends = Vec::with_capacity(threads.len());
        for options in threads {
            let config = ethernet_config(raw, options, &found)?;
            ends.push((config, Claim::new(config.address)?, options.peer));
        }
        let ports: Vec<u16> = ends.iter().map(|(_, claim, _)| claim.address().port()).collect();
        let Some((first, _, _)) = ends.first() else { return Ok(Vec::new()) };
        let at_one_address = ends.iter().all(|(config, _, _)| config.address.ip() == first.address.ip());
        if !at_one_address {
            let problem = "packet threads that share an interface have one address";
            return Err(IoError::Address { address: SocketAddr::V4(first.address), problem });
        }
        let (queue, count) = match queues {
            Some(queues) => queues,
            None => (0, Xdp::queues_of(&raw.interface)?),
        };
        if count > XDP_QUEUES_MAX {
            return Err(IoError::Unsupported(
                "more than 64 queues: lower the interface's by `ethtool -L`, or name some",
            ));
        }
        let config = XdpConfig { queue, ..XdpConfig::new(first.address) };
        let links = XdpQueues::open_threads(&raw.interface, config, count, &ports, cores)?;
        let ends = links.into_iter().zip(ends).map(|(link, (config, claim, peer))| {
            Ok(Box::new(Ethernet::claimed(link, peer, config, claim)?) as Box<dyn PacketIo>)
        });
        ends.collect()
    }

    fn shm(name: &str, uplink: Option<&IoSpec>, options: &OpenOptions) -> Result<Box<dyn PacketIo>, IoError> {
        let (own, longest) = (options.local, options.datagram_len_max);
        let name = name.parse().map_err(|_| IoError::Unsupported("such a name of a switch"))?;
        if !options.hub {
            return match uplink {
                Some(_) => Err(IoError::Unsupported("an uplink for a worker: it is its switch's")),
                None => Ok(Box::new(Spoke::attach(&name, own.ip(), longest)?)),
            };
        }
        let uplink = uplink.map(|spec| open(spec, options)).transpose()?;
        Ok(Box::new(Hub::open(&name, own, longest, uplink)?))
    }

    fn udp(options: &OpenOptions) -> Result<Box<dyn PacketIo>, IoError> {
        let datagram_len_max = options.datagram_len_max.min(DATAGRAM_LEN_MAX);
        let config = UdpConfig { datagram_len_max, ..UdpConfig::default() };
        let io = match options.peer {
            None if options.paths > 1 => {
                return Ok(Box::new(UdpPaths::bind(options.local, options.paths, config)?));
            }
            Some(peer) => UdpIo::connect_from(options.local, peer, config)?,
            None => UdpIo::bind(options.local, config)?,
        };
        Ok(Box::new(io))
    }

    /// Claims the address, because the link may want to know the port, and then opens the link.
    fn over<L: Link + 'static>(
        kind: &'static str,
        raw: &InterfaceSpec,
        options: &OpenOptions,
        link: impl FnOnce(&Claim) -> Result<L, IoError>,
    ) -> Result<Box<dyn PacketIo>, IoError> {
        let config = ethernet_config(raw, options, &ipv4_of(kind, &raw.interface)?)?;
        let claim = Claim::new(config.address)?;
        let peer: Option<SocketAddr> = options.peer;
        Ok(Box::new(Ethernet::claimed(link(&claim)?, peer, config, claim)?))
    }
}

#[cfg(not(target_os = "linux"))]
mod here {
    use super::{IoSpec, OpenOptions};
    use crate::{IoError, PacketIo};

    pub(super) fn open(spec: &IoSpec, _: &OpenOptions) -> Result<Box<dyn PacketIo>, IoError> {
        let remedy = "run it on Linux";
        Err(IoError::NotIncluded { spec: spec.to_string(), remedy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(interface: &str) -> InterfaceSpec {
        InterfaceSpec { interface: interface.into(), address: None, prefix_len: None, gateway: None }
    }

    #[test]
    fn specs_are_parsed_and_printed() {
        let all = InterfaceSpec {
            address: Some(Ipv4Addr::new(10, 0, 0, 9)),
            prefix_len: Some(16),
            gateway: Some(Ipv4Addr::new(10, 0, 0, 1)),
            ..raw("eth0")
        };
        for (text, spec) in [
            ("udp", IoSpec::Udp),
            ("af-packet:eth0", IoSpec::AfPacket(raw("eth0"))),
            ("packet-ring:eth0,address=10.0.0.9,prefix=16,gateway=10.0.0.1", IoSpec::PacketRing(all.clone())),
            ("af-xdp:eth0", IoSpec::AfXdp(raw("eth0"), None)),
            ("af-xdp:eth0@2", IoSpec::AfXdp(raw("eth0"), Some((2, 1)))),
            ("af-xdp:eth0@0-3", IoSpec::AfXdp(raw("eth0"), Some((0, 4)))),
            (
                "af-xdp:eth0@3,address=10.0.0.9,prefix=16,gateway=10.0.0.1",
                IoSpec::AfXdp(all.clone(), Some((3, 1))),
            ),
            ("shm:gpu-0", IoSpec::Shm("gpu-0".into(), None)),
            ("shm:gpu,uplink=udp", IoSpec::Shm("gpu".into(), Some(Box::new(IoSpec::Udp)))),
            (
                "shm:gpu,uplink=af-xdp:eth0@3,address=10.0.0.9,prefix=16,gateway=10.0.0.1",
                IoSpec::Shm("gpu".into(), Some(Box::new(IoSpec::AfXdp(all, Some((3, 1)))))),
            ),
            ("dpdk:net_tap0,iface=nf0 --no-huge", IoSpec::Dpdk("net_tap0,iface=nf0 --no-huge".into())),
        ] {
            assert_eq!(text.parse(), Ok(spec.clone()), "{text}");
            assert_eq!(spec.to_string(), text);
        }
        for text in [
            "",
            "tcp",
            "udp:eth0",
            "af-packet",
            "af-packet:",
            "af-xdp:@1",
            "af-xdp:eth0@x",
            "af-xdp:eth0@3-2",
            "af-xdp:eth0@0-64",
            "af-xdp:eth0@1-",
            "dpdk:",
            "dpdk",
            "packet-ring:eth0,prefix=33",
            "shm",
            "shm:",
            "shm:a/b",
            "shm:a,mtu=1",
            "shm:a,uplink=",
            "shm:a,uplink=shm:b",
            "shm:a,uplink=dpdk:net_tap0",
            "shm:a,uplink=xdp-kernel:eth0",
            "packet-ring:eth0,mtu=1",
            "packet-ring:eth0,gateway=::1",
        ] {
            assert!(text.parse::<IoSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_address_is_selected() {
        let (first, second) = (Ipv4Addr::new(10, 1, 0, 5), Ipv4Addr::new(10, 2, 0, 5));
        let own = [(first, 16), (second, 28)];
        let of = |local: &str, own: &[(Ipv4Addr, u8)], raw: &InterfaceSpec| {
            let options = OpenOptions::at(SocketAddr::new(local.parse().unwrap(), 7));
            ethernet_config(raw, &options, own).map(|config| (*config.address.ip(), config.prefix_len))
        };
        let plain = raw("eth0");
        assert_eq!(of("0.0.0.0", &own, &plain).unwrap(), (first, 16));
        assert_eq!(of("127.0.0.1", &own, &plain).unwrap(), (first, 16));
        assert_eq!(of("10.2.0.5", &own, &plain).unwrap(), (second, 28));
        assert_eq!(of("10.3.0.5", &own, &plain).unwrap(), (first, 16), "another interface's");
        assert_eq!(of("10.3.0.5", &[], &plain).unwrap(), (Ipv4Addr::new(10, 3, 0, 5), 24));
        let named = InterfaceSpec { address: Some(Ipv4Addr::new(10, 9, 0, 1)), ..plain.clone() };
        assert_eq!(of("10.2.0.5", &own, &named).unwrap(), (Ipv4Addr::new(10, 9, 0, 1), 24));
        assert!(matches!(of("::1", &[], &plain), Err(IoError::Address { .. })));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn available_and_unavailable_io_is_opened_or_refused() {
        let options =
            OpenOptions { datagram_len_max: 1436, ..OpenOptions::at("127.0.0.1:0".parse().unwrap()) };
        let elsewhere = OpenOptions::at("198.18.0.1:0".parse().unwrap());
        let io = open(&IoSpec::Udp, &options).unwrap();
        assert_eq!((io.capabilities().name, io.capabilities().datagram_len_max), ("udp", 1436));
        let absent = open(&IoSpec::Dpdk("net_null0".into()), &options);
        assert!(matches!(absent.map(drop), Err(IoError::NotIncluded { .. })));
        let switch_only = open(&"xdp-kernel:lo".parse().unwrap(), &options);
        assert!(matches!(switch_only.map(drop), Err(IoError::NotIncluded { .. })));
        for at in [&options, &elsewhere] {
            for text in ["af-packet:no-such-if", "packet-ring:no-such-if", "af-xdp:no-such-if"] {
                let opened = open(&text.parse().unwrap(), at);
                assert!(matches!(opened.map(drop), Err(IoError::Link { .. })), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_spec_or_an_error(text in "(udp|af-xdp|dpdk|af-packet|xdp-kernel|shm:a,uplink=)?[:@+,=a-z0-9.]{0,20}") {
            if let Ok(spec) = text.parse::<IoSpec>() {
                prop_assert_eq!(spec.to_string().parse(), Ok(spec));
            }
        }
    }
}
