//! Switches whose program the kernel runs, each in a network namespace, joined by pairs of virtual interfaces, with workers' sockets in namespaces of
//! their own. Needs root; everything made here goes with the run.
//!
//! Interface `pN` of a switch is its port N, `eth0` a worker's. Links between switches that have faults lead through a relay with the sockets of two more
//! namespaces, one for each direction of view: towards each switch it has the address of the other.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use netfold_controller::tree::TreePlan;
use netfold_controller::{DriverError, Limits, SwitchDriver};
use netfold_io::link::interfaces;
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{IoError, PacketIo, PortId, RxBatch, Transmit};
use netfold_p4::allreduce::{self, Address};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::p4info::counter_id;
use netfold_p4::profile::{Numerics, Profile};
use netfold_southbound::xdp::{SharedDatapath, XdpDriver};
use netfold_testkit::namespace::{CommandError, NamespaceSet, command};
use netfold_wire::frame::OUTER_LEN;
use netfold_wire::{UDP_PORT, header};
use netfold_xdp::{Datapath, Hook, PassAll, XdpError};

use super::bmv2::{both_ways, end_address, mac, peer_ports, placed, switch_address, worker_address};
use super::fabric::{Carrier, Counted, Fabric, Keeper, faulty};
use super::veth::{host, within};
use super::{RunConfig, RunError};

/// How long a relay sleeps at a time while nothing arrives from one side; the other side's packets wait that long.
const RELAY_INTERVAL: Duration = Duration::from_micros(100);

/// A driver whose calls take place in the network namespace of its interfaces.
#[derive(Clone)]
struct Placed {
    namespace: String,
    driver: Arc<Mutex<XdpDriver>>,
}

impl Placed {
    fn driver(&self) -> MutexGuard<'_, XdpDriver> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<R: Send>(
        &self,
        call: impl FnOnce(&mut XdpDriver) -> Result<R, DriverError> + Send,
    ) -> Result<R, DriverError> {
        let called = netfold_testkit::namespace::within(&self.namespace, || call(&mut self.driver()));
        called.map_err(|error| DriverError::Unreachable(Box::new(error)))?
    }
}

impl SwitchDriver for Placed {
    fn limits(&self) -> Limits {
        self.driver().limits()
    }
    fn numerics(&self) -> Numerics {
        self.driver().numerics()
    }
    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        self.call(|driver| driver.bind_port(port, peer))
    }
    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.call(|driver| driver.unbind_port(port))
    }
    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.call(|driver| driver.insert(entries))
    }
    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.call(|driver| driver.delete(entries))
    }
    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        self.call(|driver| driver.set_group(group, replicas))
    }
    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        self.call(|driver| driver.delete_group(group))
    }
    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        self.call(|driver| driver.advance(first_slot, slots, chunk))
    }
}

/// Programs on interfaces. Dropped in this order: relays, programs, namespaces.
struct Switches {
    _relays: Vec<Relay>,
    datapaths: Vec<SharedDatapath>,
    _ends: Vec<PassAll>,
    _namespaces: NamespaceSet,
}

impl Keeper for Switches {
    fn counted(&mut self, switch: usize) -> Result<Counted, RunError> {
        let datapath = self.datapaths[switch].lock();
        let read = |id| datapath.counters(counter_id(id));
        let (packets, answers) = (read(allreduce::id::PACKETS), read(allreduce::id::ANSWERS));
        Ok(Counted { packets, answers, queues: None, bytes: None })
    }
}

/// Starts the switches of a run and the workers' sockets.
pub(super) fn start(config: &RunConfig) -> Result<Fabric, RunError> {
    let profile = Profile::kernel(config.payload_bytes / 4, config.mode.numerics());
    let limits = Limits::of(&profile, UDP_PORT);
    let program = Arc::new(allreduce::program(&profile)?);
    netfold_p4::xdp::lower(&program)
        .map_err(|error| RunError::Kernel { switch: 0, source: Box::new(error) })?;
    let placed = placed(config, limits)?;
    let plan = &placed[0].plan;
    let network = Network::build(config, plan)?;
    let mut datapaths = Vec::new();
    let mut drivers: Vec<Box<dyn SwitchDriver>> = Vec::new();
    for switch in 0..plan.switch_plans().len() {
        let namespace = network.namespaces.name('s', switch);
        let failed = |source: XdpError| RunError::Kernel { switch, source: Box::new(source) };
        let datapath = within(&namespace, || load(&program, plan, switch))?.map_err(failed)?;
        let datapath = SharedDatapath::new(datapath);
        let driver = drive(datapath.clone(), profile.clone(), plan, switch);
        let driver = driver.map_err(|error| RunError::Kernel { switch, source: Box::new(error) })?;
        drivers.push(Box::new(Placed { namespace, driver: Arc::new(Mutex::new(driver)) }));
        datapaths.push(datapath);
    }
    let mut workers: Vec<Box<dyn PacketIo>> = Vec::new();
    for (end, leaf) in config.leaves().into_iter().enumerate() {
        let (own, switch) = (end_address(config, end).into(), switch_address(leaf).into());
        let udp = UdpConfig { datagram_len_max: datagram_len(config), ..UdpConfig::default() };
        let open = move || -> Result<UdpIo, IoError> { UdpIo::connect_from(own, switch, udp) };
        let io = within(&network.namespaces.name('w', end % plan.workers().len()), open)??;
        workers.push(both_ways(Box::new(io), config, (plan.switch_plans().len() + end) as u64));
    }
    let Network { namespaces, ends, relays } = network;
    let keeper = Box::new(Switches { _relays: relays, datapaths, _ends: ends, _namespaces: namespaces });
    Ok(Fabric { placed, drivers, workers, keeper, carrier: Carrier::XdpKernel, note: None })
}

fn datagram_len(config: &RunConfig) -> usize {
    header::LEN + config.payload_bytes as usize
}

/// The program on all interfaces of a switch, in whose namespace this is called.
fn load(
    program: &Arc<netfold_p4::ir::Program>,
    plan: &TreePlan,
    switch: usize,
) -> Result<Datapath, XdpError> {
    let mut datapath = Datapath::new(Arc::clone(program))?;
    let known = interfaces();
    for at in &plan.switch_plans()[switch].ports {
        let (port, name) = (at.port + 1, format!("p{}", at.port + 1));
        let index = known.iter().find(|interface| interface.name == name).map_or(0, |found| found.index);
        datapath.set_port(port, index)?;
        datapath.attach(index, Hook::Driver)?;
    }
    Ok(datapath)
}

/// A driver of a switch of the job's plan.
fn drive(
    datapath: SharedDatapath,
    profile: Profile,
    plan: &TreePlan,
    switch: usize,
) -> Result<XdpDriver, DriverError> {
    let places = peer_ports(plan, switch);
    let own = switch_address(switch);
    let own = Address { mac: mac(*own.ip()), ip: own.ip().to_bits(), port: own.port() };
    XdpDriver::new(datapath, profile, own, Box::new(places))
}

/// Namespaces, and what is in them.
struct Network {
    namespaces: NamespaceSet,
    ends: Vec<PassAll>,
    relays: Vec<Relay>,
}

impl Network {
    fn build(config: &RunConfig, plan: &TreePlan) -> Result<Self, RunError> {
        let namespaces = NamespaceSet::new();
        let mut network = Self { namespaces, ends: Vec::new(), relays: Vec::new() };
        let mtu = (OUTER_LEN - 14 + datagram_len(config)).max(1500);
        for switch in 0..plan.switch_plans().len() {
            network.namespaces.add('s', switch)?;
        }
        for (rank, (leaf, port)) in plan.workers().iter().enumerate() {
            network.namespaces.add('w', rank)?;
            let name = network.namespaces.name('w', rank);
            network.attach(&name, worker_address(rank), (*leaf, port + 1), mtu)?;
        }
        for (switch, above) in config.shape.above.iter().enumerate() {
            let Some(above) = *above else { continue };
            let port_to = |at: usize, peer: usize| {
                let peer = Some(SocketAddr::V4(switch_address(peer)));
                let ports = &plan.switch_plans()[at].ports;
                ports.iter().find(|attachment| attachment.peer == peer).map_or(0, |at| at.port + 1)
            };
            let ends = [(switch, port_to(switch, above)), (above, port_to(above, switch))];
            if config.faults.is_none() {
                network.join(ends, mtu)?;
            } else {
                network.relay(config, ends, mtu)?;
            }
        }
        Ok(network)
    }

    /// Connects a host to a port of a switch.
    fn attach(
        &mut self,
        name: &str,
        own: SocketAddrV4,
        (switch, port): (usize, u16),
        mtu: usize,
    ) -> Result<(), RunError> {
        let at = self.namespaces.name('s', switch);
        command(&format!("ip link add eth0 netns {name} type veth peer name p{port} netns {at}"))?;
        host(name, "eth0", own, switch_address(switch), mtu)?;
        command(&format!("ip -n {at} link set p{port} up mtu {mtu}"))?;
        let pass = || {
            let found = interfaces().into_iter().find(|interface| interface.name == "eth0");
            PassAll::attach(found.map_or(0, |interface| interface.index))
        };
        let end = within(name, pass)?;
        self.ends.push(end.map_err(|error| RunError::Kernel { switch, source: Box::new(error) })?);
        Ok(())
    }

    /// Connects two ports of switches.
    fn join(&self, ends: [(usize, u16); 2], mtu: usize) -> Result<(), CommandError> {
        let [(a, at_a), (b, at_b)] = ends.map(|(switch, port)| (self.namespaces.name('s', switch), port));
        command(&format!("ip link add p{at_a} netns {a} type veth peer name p{at_b} netns {b}"))?;
        for (name, port) in [(a, at_a), (b, at_b)] {
            command(&format!("ip -n {name} link set p{port} up mtu {mtu}"))?;
        }
        Ok(())
    }

    /// Connects two ports of switches by a relay with the run's faults.
    fn relay(&mut self, config: &RunConfig, ends: [(usize, u16); 2], mtu: usize) -> Result<(), RunError> {
        let first = 2 * self.relays.len();
        let mut sides = Vec::with_capacity(2);
        for (side, (at, other)) in [(ends[0], ends[1]), (ends[1], ends[0])].into_iter().enumerate() {
            let name = self.namespaces.add('x', first + side)?;
            let (own, peer) = (switch_address(other.0), switch_address(at.0));
            self.attach(&name, own, at, mtu)?;
            let udp =
                UdpConfig { gro: false, datagram_len_max: datagram_len(config), ..UdpConfig::default() };
            let io = within(&name, move || UdpIo::connect_from(own.into(), peer.into(), udp))??;
            sides.push(faulty(Box::new(io), config, 1 << 32 | (first + side) as u64));
        }
        self.relays.push(Relay::start(sides).map_err(RunError::Thread)?);
        Ok(())
    }
}

/// A thread that sends what arrives at one of two sockets from the other.
struct Relay {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), IoError>>>,
}

impl Relay {
    fn start(mut sides: Vec<Box<dyn PacketIo>>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let relay = move || {
            let mut batch = sides[0].capabilities().batch();
            while !stopping.load(Ordering::Acquire) {
                let mut moved = 0;
                for from in 0..2 {
                    moved += pass(&mut sides, from, &mut batch)?;
                }
                if moved == 0 {
                    sides[0].wait(RELAY_INTERVAL)?;
                }
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("relay".into()).spawn(relay)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// Passes a burst on. What the other socket does not take is lost, as on a link.
fn pass(sides: &mut [Box<dyn PacketIo>], from: usize, batch: &mut RxBatch) -> Result<usize, IoError> {
    let count = sides[from].receive(batch)?;
    let packets: Vec<Transmit> = batch.packets().iter().map(|packet| packet.to(PortId(0))).collect();
    sides[1 - from].transmit(batch.memory(), &packets)?;
    Ok(count)
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // What went wrong shows as a worker without progress.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
