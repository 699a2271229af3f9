//! Virtual interfaces on a bridge: what raw backends are checked on.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use netfold_io::ethernet::{Ethernet, EthernetConfig};
use netfold_io::link::Link;
use netfold_io::{IoError, PacketIo};
use netfold_testkit::namespace::Namespace;
use netfold_testkit::wait::eventually;

use crate::{DATAGRAM_LEN_MAX, Interface, Rig, SPOKES};

/// The hub's interface.
pub const HUB: &str = "hub";

/// The MTU of every interface: the longest datagram and its IPv4 and UDP headers, and nothing more.
pub const MTU: usize = DATAGRAM_LEN_MAX + 28;

/// A namespace with a bridge, and an interface on it for the hub and each spoke: one end of a pair whose other end is the bridge's.
/// None has an address.
#[derive(Debug, Clone)]
pub struct Segment {
    namespace: Arc<Namespace>,
}

/// The name of a spoke's interface.
#[must_use]
pub fn spoke(index: usize) -> String {
    format!("spoke{index}")
}

/// The hub's own address: 198.18.0.1, of the network for benchmarks (RFC 2544), at Netfold's port.
#[must_use]
pub fn hub_config() -> EthernetConfig {
    config(1)
}

/// The own address of a spoke: 198.18.0.2 and on.
#[must_use]
pub fn spoke_config(index: usize) -> EthernetConfig {
    config(index + 2)
}

/// The address of the rig's end on an interface.
#[must_use]
pub fn address(interface: &str) -> SocketAddrV4 {
    let index = (0..SPOKES).find(|index| spoke(*index) == interface);
    index.map_or_else(hub_config, spoke_config).address
}

fn config(host: usize) -> EthernetConfig {
    let ip = Ipv4Addr::new(198, 18, 0, host as u8);
    EthernetConfig { datagram_len_max: DATAGRAM_LEN_MAX, ..EthernetConfig::at(ip) }
}

/// Opens the link of an interface; run within the segment's namespace.
pub type Open<L> = fn(&str) -> Result<L, IoError>;

impl Segment {
    /// A new segment, all links up.
    ///
    /// # Errors
    ///
    /// What this machine lacks: the right to make a namespace, `ip`, or bridges.
    pub fn new() -> Result<Self, String> {
        Self::with_queues(1)
    }

    /// The same, where the hub's interface has several queues to receive by.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_queues(queues: usize) -> Result<Self, String> {
        let segment = Self::empty()?;
        let mut script = format!("link add segment type bridge\nlink set segment up mtu {MTU}\n");
        for (index, name) in (0..SPOKES).map(spoke).chain([HUB.to_owned()]).enumerate() {
            let several = format!("numrxqueues {queues} numtxqueues {queues}");
            let queues = if name == HUB { &several[..] } else { "" };
            script += &format!(
                "link add {name} {queues} mtu {MTU} type veth peer name port{index} {queues} mtu {MTU}\n\
                 link set port{index} master segment up\n\
                 link set {name} up\n"
            );
        }
        segment.namespace.script("ip -batch -", &script).map_err(|error| error.to_string())?;
        segment.wait_until_active();
        Ok(segment)
    }

    /// The hub's interface and the first spoke's, which are the two ends of one pair.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn pair(mtu: usize) -> Result<Self, String> {
        Self::pair_with_queues(mtu, 1)
    }

    /// The same with several queues: what one end sends by a queue the other receives by the queue of that number.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn pair_with_queues(mtu: usize, queues: usize) -> Result<Self, String> {
        let segment = Self::empty()?;
        let spoke = spoke(0);
        let each = format!("mtu {mtu} numrxqueues {queues} numtxqueues {queues}");
        let script = format!(
            "link add {HUB} {each} type veth peer name {spoke} {each}\nlink set {HUB} up\nlink set {spoke} up\n"
        );
        segment.namespace.script("ip -batch -", &script).map_err(|error| error.to_string())?;
        segment.wait_until_active();
        Ok(segment)
    }

    /// Waits until all interfaces send. When the second end of a pair comes up, the kernel activates the queues of the first on a work
    /// queue (`linkwatch_do_dev` of net/core/link_watch.c), and drops what is sent before; the state UP is set in the same step.
    fn wait_until_active(&self) {
        let is_active = |line: &str| line.contains("state UP") || line.contains("LOOPBACK");
        eventually("the interfaces of the segment are up", || {
            self.namespace.command("ip -o link show").is_ok_and(|links| links.lines().all(is_active))
        });
    }

    /// A namespace that has no interface yet.
    fn empty() -> Result<Self, String> {
        let absent = |error| format!("no network namespaces here ({error})");
        let namespace = Namespace::new().map_err(absent)?;
        namespace
            .command("sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
            .map_err(|error| error.to_string())?;
        Ok(Self { namespace: Arc::new(namespace) })
    }

    /// The namespace, to do more in it.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// A rig over links that `open` opens by interface.
    ///
    /// # Errors
    ///
    /// Why a link cannot be opened: what the machine lacks.
    ///
    /// # Panics
    ///
    /// When the adapter over a link that is open cannot be made.
    pub fn rig<L: Link + 'static>(self, open: Open<L>) -> Result<Rig, String> {
        self.mixed(open, open)
    }

    /// As [`rig`](Self::rig), with other links for the spokes than for the hub.
    ///
    /// # Errors
    ///
    /// As [`rig`](Self::rig).
    ///
    /// # Panics
    ///
    /// As [`rig`](Self::rig).
    pub fn mixed<H: Link + 'static, S: Link + 'static>(
        self,
        hub: Open<H>,
        spokes: Open<S>,
    ) -> Result<Rig, String> {
        self.around(
            move || {
                let link = hub(HUB)?;
                Ok((Box::new(Ethernet::bind(link, hub_config()).expect("the hub's adapter")) as _, ()))
            },
            spokes,
        )
    }

    /// A rig around a hub at [`hub_config`]'s address that `hub` opens, with resources that exist as long.
    ///
    /// # Errors
    ///
    /// As [`rig`](Self::rig).
    ///
    /// # Panics
    ///
    /// As [`rig`](Self::rig).
    pub fn around<S: Link + 'static, K: Send + 'static>(
        self,
        hub: impl FnOnce() -> Result<(Box<dyn PacketIo>, K), IoError> + Send + 'static,
        spokes: Open<S>,
    ) -> Result<Rig, String> {
        let made = self.namespace.run(move || -> Result<_, String> {
            let (hub, keep) = hub().map_err(|error| reason(&error))?;
            let at: SocketAddrV4 = hub_config().address;
            let mut made: Vec<Box<dyn PacketIo>> = Vec::new();
            for index in 0..SPOKES {
                let link = spokes(&spoke(index)).map_err(|error| reason(&error))?;
                let spoke = Ethernet::connect(link, SocketAddr::V4(at), spoke_config(index));
                made.push(Box::new(spoke.expect("a spoke's adapter")));
            }
            Ok((hub, made, keep))
        });
        let (hub, spokes, keep) = made?;
        let mut rig = Rig::bound(hub, spokes).settled();
        rig.interface = Some(Arc::new(self.clone()));
        rig.keep = Box::new((keep, self));
        Ok(rig)
    }

    fn set(&self, words: &str) {
        self.namespace.command(words).expect("the interface is there");
    }
}

/// An error and what caused it, on one line.
fn reason(error: &IoError) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl Interface for Segment {
    fn down(&self) {
        self.set(&format!("ip link set {HUB} down"));
    }

    fn up(&self) {
        self.set(&format!("ip link set {HUB} up"));
    }

    fn remove(&self) {
        self.set(&format!("ip link del {HUB}"));
    }
}
