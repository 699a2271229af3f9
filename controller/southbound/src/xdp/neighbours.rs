//! Where peers are, by the kernel's tables: `/proc/net/route` and `/proc/net/arp` of the calling thread's network namespace.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use crate::p4runtime::{PeerPort, PeerPorts};

/// How long a peer that the kernel does not know yet has to answer ARP.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Between two looks at the table.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The discard service (RFC 863), to which a datagram makes the kernel resolve an address.
const DISCARD: u16 = 9;

/// An entry that the kernel has resolved (`ATF_COM`).
const COMPLETE: u32 = 2;

/// A route that is up, and one by a gateway (`RTF_UP`, `RTF_GATEWAY`).
const UP: u32 = 1;
const GATEWAY: u32 = 2;

/// Peers of a switch in this host's kernel: the interface is that of the route to the peer, the Ethernet address the peer's own, or its
/// gateway's. An address that is not known yet is asked for.
#[derive(Debug, Clone)]
pub struct Neighbours {
    interfaces: Vec<(String, u16)>,
}

impl Neighbours {
    /// The switch's interfaces, and the port of each.
    pub fn new(interfaces: Vec<(String, u16)>) -> Self {
        Self { interfaces }
    }
}

impl PeerPorts for Neighbours {
    fn find(&self, peer: SocketAddrV4) -> Option<PeerPort> {
        let deadline = Instant::now() + ANSWER_TIME;
        let hop = next_hop(&read("route"), *peer.ip())?;
        let (_, port) = self.interfaces.iter().find(|(name, _)| *name == hop.interface)?;
        let mut asked = false;
        loop {
            if let Some(mac) = hardware_address(&read("arp"), &hop) {
                return Some(PeerPort { port: *port, mac });
            }
            if !asked {
                // Any packet has the address resolved; whether it arrives does not matter.
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
                let _ = socket.send_to(&[], (*peer.ip(), DISCARD));
                asked = true;
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Where packets to an address go first.
#[derive(Debug, PartialEq, Eq)]
struct NextHop {
    interface: String,
    address: Ipv4Addr,
}

/// A table; an empty one where it cannot be read.
fn read(table: &str) -> String {
    fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default()
}

/// The next hop to an address: by the route with the longest prefix, and of several that with the lowest metric.
fn next_hop(routes: &str, to: Ipv4Addr) -> Option<NextHop> {
    let routes = routes.lines().skip(1).filter_map(Route::parse);
    let best = routes
        .filter(|route| route.flags & UP != 0 && to.to_bits() & route.mask == route.destination)
        .max_by_key(|route| (route.mask, std::cmp::Reverse(route.metric)))?;
    let address = if best.flags & GATEWAY != 0 { Ipv4Addr::from_bits(best.gateway) } else { to };
    Some(NextHop { interface: best.interface, address })
}

struct Route {
    interface: String,
    destination: u32,
    gateway: u32,
    flags: u32,
    metric: u32,
    mask: u32,
}

impl Route {
    /// Interface, destination, gateway, flags, two counters, metric, mask. Addresses are hexadecimal words as they are in memory.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [interface, destination, gateway, flags, _, _, metric, mask, ..] = fields[..] else {
            return None;
        };
        let address =
            |text| u32::from_str_radix(text, 16).map(|word| u32::from_be_bytes(word.to_ne_bytes())).ok();
        Some(Self {
            interface: interface.to_owned(),
            destination: address(destination)?,
            gateway: address(gateway)?,
            flags: u32::from_str_radix(flags, 16).ok()?,
            metric: metric.parse().ok()?,
            mask: address(mask)?,
        })
    }
}

/// The Ethernet address of a next hop, in the low 48 bits: of a line with address, hardware type, flags, Ethernet address, mask and interface.
fn hardware_address(neighbours: &str, hop: &NextHop) -> Option<u64> {
    neighbours.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [ip, _, flags, mac, _, interface] = fields[..] else { return None };
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
        let found = ip.parse() == Ok(hop.address) && interface == hop.interface && flags & COMPLETE != 0;
        let bytes = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
        let bytes: Vec<u8> = bytes.collect::<Option<_>>().filter(|_| found)?;
        (bytes.len() == 6).then(|| bytes.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
eth1\t0000000A\t00000000\t0001\t0\t0\t50\t00FFFFFF\t0\t0\t0
eth2\t0700000A\t00000000\t0001\t0\t0\t900\tFFFFFFFF\t0\t0\t0
eth3\t0800000A\t00000000\t0000\t0\t0\t0\tFFFFFFFF\t0\t0\t0
nonsense
";

    const ARP: &str = "\
IP address       HW type     Flags       HW address            Mask     Device
10.0.0.7         0x1         0x2         02:00:00:00:00:07     *        eth2
10.0.0.7         0x1         0x2         02:00:00:00:00:99     *        eth0
10.0.0.8         0x1         0x0         00:00:00:00:00:00     *        eth1
10.0.0.1         0x1         0x6         02:00:00:00:00:01     *        eth0
nonsense
";

    fn find(to: [u8; 4]) -> (String, Option<u64>) {
        let hop = next_hop(ROUTES, to.into()).expect("there is a route to everywhere");
        let mac = hardware_address(ARP, &hop);
        (hop.interface, mac)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_longest_prefix_and_the_lowest_metric_win() {
        assert_eq!(find([10, 0, 0, 7]), ("eth2".into(), Some(0x0200_0000_0007)));
        // Its own route is down, and its address not resolved.
        assert_eq!(find([10, 0, 0, 8]), ("eth1".into(), None));
        // By the gateway.
        assert_eq!(find([192, 168, 1, 1]), ("eth0".into(), Some(0x0200_0000_0001)));
        assert_eq!(next_hop("", [10, 0, 0, 7].into()), None);
    }

    #[test]
    fn peers_at_other_interfaces_are_unknown() {
        let places = Neighbours::new(vec![("no-such-interface".into(), 1)]);
        assert_eq!(places.find("198.51.100.1:9".parse().expect("an address")).map(|at| at.port), None);
    }
}
