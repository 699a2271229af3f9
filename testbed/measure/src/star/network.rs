//! The star: a namespace for each host, and one in the middle with a bridge that joins their links.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::namespace::{CommandError, NamespaceSet, command, command_in};

/// Room for bursts in the shapers, in bytes: above the 64 KiB of one segmented send, which tbf would otherwise cut into packets
/// itself, at the cost of most of the processor.
const BURST: u32 = 80 << 10;

/// Room for packets that wait in the shapers, in bytes: more than a window.
const LIMIT: u32 = 4 << 20;

/// Seconds that a link of `rate` bits a second takes for so many bytes, less those that its shaper lets pass at once.
pub(crate) fn least_time(bytes: f64, rate: f64) -> f64 {
    (bytes - f64::from(BURST)).max(0.0) * 8.0 / rate
}

/// Hosts around a switch. Dropping it removes everything.
pub(crate) struct Star {
    names: NamespaceSet,
    hosts: u16,
    folder: TemporaryDirectory,
}

impl Star {
    /// Addresses of hosts and switch.
    pub(crate) const NETWORK: &str = "10.77.0.0/24";

    /// `hosts` hosts with links of `rate` bits a second in each direction, or as fast as they go, for IP packets of up to `mtu` bytes.
    pub(crate) fn build(
        folder: TemporaryDirectory,
        hosts: u16,
        rate: Option<f64>,
        mtu: u32,
    ) -> Result<Self, CommandError> {
        let mut names = NamespaceSet::new().with_directory(folder.path());
        names.add('s', 0)?;
        let switch = names.name('s', 0);
        command(&format!("ip -n {switch} link set lo up"))?;
        command(&format!("ip -n {switch} link add br0 type bridge"))?;
        command(&format!("ip -n {switch} addr add {}/24 dev br0", Self::address_of_switch()))?;
        command(&format!("ip -n {switch} link set br0 up"))?;
        for host in 0..hosts {
            names.add('h', usize::from(host))?;
            let name = names.name('h', usize::from(host));
            command(&format!(
                "ip link add eth0 mtu {mtu} netns {name} type veth peer name p{host} mtu {mtu} netns {switch}"
            ))?;
            command(&format!("ip -n {switch} link set p{host} master br0 up"))?;
            command(&format!("ip -n {name} link set lo up"))?;
            command(&format!("ip -n {name} addr add {}/24 dev eth0", Self::address_of(host)))?;
            command(&format!("ip -n {name} link set eth0 up"))?;
            if let Some(rate) = rate {
                for (namespace, device) in [(&name, "eth0".to_owned()), (&switch, format!("p{host}"))] {
                    command(&format!(
                        "ip netns exec {namespace} tc qdisc add dev {device} root tbf rate {rate:.0}bit burst {BURST} limit {LIMIT}"
                    ))?;
                }
            }
        }
        Ok(Self { names, hosts, folder })
    }

    /// For files of the programs there.
    pub(crate) fn folder(&self) -> &TemporaryDirectory {
        &self.folder
    }

    /// Number of hosts.
    pub(crate) fn hosts(&self) -> u16 {
        self.hosts
    }

    pub(crate) fn address_of(host: u16) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1 + host as u8))
    }

    pub(crate) fn address_of_switch() -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 77, 0, 254))
    }

    /// Where the switch listens.
    pub(crate) fn switch() -> SocketAddr {
        SocketAddr::new(Self::address_of_switch(), 20038)
    }

    /// The namespace of a host.
    pub(crate) fn host_name(&self, host: u16) -> String {
        self.names.name('h', usize::from(host))
    }

    /// A command in a host's namespace.
    pub(crate) fn on_host(&self, host: u16, program: &str) -> Command {
        command_in(&self.host_name(host), program)
    }

    /// A command in the switch's namespace.
    pub(crate) fn on_switch(&self, program: &str) -> Command {
        command_in(&self.names.name('s', 0), program)
    }
}
