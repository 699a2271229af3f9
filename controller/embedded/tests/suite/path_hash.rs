//! Paths by Linux's hash, compared with those that the running kernel chooses.

use netfold_controller::equal_paths::EqualPaths;
use netfold_testkit::namespace::{self, NamespaceSet, command, script};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// UDP ports of each flow that are compared.
const PORTS: u16 = 64;

/// A router with so many next hops to a network, of IPv4 or IPv6, and where a packet comes from.
struct Router {
    name: String,
    _names: NamespaceSet,
}

impl Router {
    /// With `hops` equal next hops to 10.77.0.0/16 and fd00:77::/64, each over an interface of its number.
    fn new(hops: u8, seed: u32) -> Self {
        let mut names = NamespaceSet::new();
        let name = names.add('r', 0).unwrap();
        command(&format!(
            "ip netns exec {name} sysctl -q -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 \
             net.ipv6.conf.default.accept_dad=0 net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
             net.ipv4.conf.all.rp_filter=0 net.ipv4.fib_multipath_hash_policy=1 net.ipv6.fib_multipath_hash_policy=1 \
             net.ipv4.fib_multipath_hash_seed={seed}"
        ))
        .unwrap();
        let (mut links, mut of_v4, mut of_v6) = (String::new(), String::new(), String::new());
        for hop in 0..=hops {
            let device = if hop == hops { "in0".to_owned() } else { format!("d{hop}") };
            links += &format!(
                "link add {device} type veth peer name p{hop}\nlink set p{hop} up\nlink set {device} up\n\
                 addr add 10.78.{hop}.1/24 dev {device}\naddr add fd00:78:{hop}::1/64 dev {device} nodad\n"
            );
            if hop < hops {
                of_v4 += &format!(" nexthop via 10.78.{hop}.2 dev {device}");
                of_v6 += &format!(" nexthop via fd00:78:{hop}::2 dev {device}");
            }
        }
        links += &format!("route add 10.77.0.0/16{of_v4}\n-6 route add fd00:77::/64{of_v6}\n");
        for line in links.lines() {
            command(&format!("ip -n {name} {line}")).unwrap();
        }
        Self { name, _names: names }
    }

    /// The next hops that the kernel chooses for packets from these ports.
    fn chosen(&self, from: IpAddr, to: SocketAddr, first: u16) -> Vec<u8> {
        let asked = (first..first + PORTS).map(|port| {
            let ends = format!("ipproto udp sport {port} dport {}", to.port());
            format!("route get {} from {from} iif in0 {ends}\n", to.ip())
        });
        let family = if from.is_ipv6() { "-6" } else { "-4" };
        let said =
            script(&format!("ip -n {} {family} -oneline -batch -", self.name), &asked.collect::<String>());
        let hop = |line: &str| line.split_once(" dev d").and_then(|(_, rest)| rest[..1].parse().ok());
        said.unwrap().lines().filter_map(hop).collect()
    }
}

#[test]
fn the_kernel_chooses_the_same_paths() {
    if !namespace::available() || !Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed").exists() {
        return;
    }
    for (seed, hops) in [(7, 4), (0xdead_beef, 3), (1, 9)] {
        let router = Router::new(hops, seed);
        let paths: EqualPaths = format!("linux,seed={seed},paths={hops}").parse().unwrap();
        for (from, to) in [
            ("10.78.9.7", "10.77.1.2:20038"),
            ("10.250.3.1", "10.77.200.9:20041"),
            ("fd00:50::1", "[fd00:77::1:2]:20038"),
            ("fe00:50::ffff", "[fd00:77::fffe]:20041"),
        ] {
            let (from, to): (IpAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let own =
                (20_000..20_000 + PORTS).map(|port| paths.path(SocketAddr::new(from, port), to).unwrap());
            assert_eq!(router.chosen(from, to, 20_000), own.collect::<Vec<_>>(), "{paths}: {from} to {to}");
        }
    }
}
