//! bmv2 switches in network namespaces, joined by pairs of virtual interfaces, with workers' sockets in namespaces of their
//! own. Needs root; everything made here goes with the run.
//!
//! A namespace for each switch and each worker; interface `pN` of a switch is its port N, `eth0` a worker's. Neighbours are
//! static, so nothing but the run's own packets is on the links.

use std::fmt;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use netfold_controller::SwitchDriver;
use netfold_controller::tree::TreePlan;
use netfold_io::fault::Faults;
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{IoError, PacketIo};
use netfold_southbound::p4runtime::UdpControlPort;
use netfold_wire::frame::OUTER_LEN;
use netfold_wire::header;

use super::bmv2::{
    CONTROL_PORT, both_ways, controller_address, drive, end_address, mac, placed, profile_and_limits,
    switch_address, worker_address,
};
use super::fabric::{Carrier, Counted, Fabric, Keeper};
use super::remote::SharedDriver;
use super::{RunConfig, RunError};
use crate::bmv2::{Bmv2, Bmv2Config, missing_tool};
use netfold_testkit::namespace::{CommandError, NamespaceSet, command};

impl From<CommandError> for RunError {
    fn from(error: CommandError) -> Self {
        Self::Network(Box::new(error))
    }
}

/// Runs a closure on a thread of its own within a network namespace.
pub(super) fn within<T: Send>(namespace: &str, make: impl FnOnce() -> T + Send) -> Result<T, RunError> {
    netfold_testkit::namespace::within(namespace, make).map_err(|error| RunError::Network(Box::new(error)))
}

/// Whether namespaces can be made here, and faults of these kinds on links between switches; else why not.
pub(super) fn unavailable(config: &RunConfig) -> Option<String> {
    let mut trial = NamespaceSet::new();
    if let Err(error) = trial.add('t', 0) {
        return Some(format!("no network namespaces here: {}", error.message));
    }
    if config.shape.above.len() == 1 || config.faults.is_none() {
        return None;
    }
    let netem = format!(
        "ip netns exec {} tc qdisc add dev lo root netem {}",
        trial.name('t', 0),
        Netem(config.faults)
    );
    let error = command(&netem).err()?;
    Some(format!("no faults between switches on interfaces here: {}", error.message))
}

/// Faults as arguments of `tc`'s netem.
struct Netem(Faults);

impl fmt::Display for Netem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Faults { loss, duplicate, corrupt, reorder, delay_min, delay_max, reorder_hold, .. } = self.0;
        let us = |time: Duration| time.as_micros();
        if reorder > 0.0 {
            // What is not held back is sent at once.
            write!(f, "delay {}us reorder {}% ", us(reorder_hold.max(delay_max)), 100.0 * (1.0 - reorder))?;
        } else if !delay_max.is_zero() {
            write!(f, "delay {}us {}us ", us((delay_min + delay_max) / 2), us((delay_max - delay_min) / 2))?;
        }
        write!(f, "loss {}% duplicate {}% corrupt {}%", 100.0 * loss, 100.0 * duplicate, 100.0 * corrupt)
    }
}

/// Running switches. Dropped in this order: processes, then namespaces.
struct Switches {
    drivers: Vec<SharedDriver>,
    processes: Vec<Bmv2>,
    _namespaces: NamespaceSet,
}

impl Keeper for Switches {
    fn counted(&mut self, switch: usize) -> Result<Counted, RunError> {
        if !self.processes[switch].is_running() {
            return Err(RunError::SwitchGone { switch });
        }
        self.drivers[switch].counted(switch)
    }

    fn gone(&mut self) -> Option<usize> {
        self.processes.iter_mut().position(|process| !process.is_running())
    }
}

/// Starts the switches of a run and the workers' sockets.
pub(super) fn start(config: &RunConfig) -> Result<Fabric, RunError> {
    if let Some(tool) = missing_tool() {
        return Err(RunError::Tool(tool));
    }
    let (_, limits) = profile_and_limits(config);
    let placed = placed(config, limits)?;
    let plan = &placed[0].plan;
    let namespaces = build(config, plan)?;
    let mut processes = Vec::new();
    let mut drivers: Vec<SharedDriver> = Vec::new();
    for (switch, place) in plan.switch_plans().iter().enumerate() {
        let ports = place.ports.iter().map(|at| at.port + 1).chain([CONTROL_PORT]);
        let interfaces = ports.map(|port| (port, format!("p{port}"))).collect();
        let namespace = namespaces.name('s', switch);
        let start = Bmv2Config { interfaces, namespace: Some(namespace.clone()), ..Bmv2Config::default() };
        let process = Bmv2::start(start).map_err(|error| RunError::Bmv2 { switch, source: error.into() })?;
        let local = SocketAddr::V4(SocketAddrV4::new(*controller_address(switch).ip(), 0));
        let towards = SocketAddr::V4(switch_address(switch));
        let control = within(&namespace, || UdpControlPort::connect(local, towards))?;
        let control = Box::new(control.map_err(|error| RunError::Network(Box::new(error)))?);
        drivers.push(drive(process.p4runtime(), switch, plan, config, control)?);
        processes.push(process);
    }
    let mut workers: Vec<Box<dyn PacketIo>> = Vec::new();
    for (end, leaf) in config.leaves().into_iter().enumerate() {
        let (own, switch) = (end_address(config, end).into(), switch_address(leaf).into());
        // A pair of interfaces hands runs of datagrams over uncut, and bmv2 would take one for a packet.
        let datagram_len_max = header::LEN + config.payload_bytes as usize;
        let udp = UdpConfig { gso: false, gro: false, datagram_len_max, ..UdpConfig::default() };
        let open = move || -> Result<UdpIo, IoError> { UdpIo::connect_from(own, switch, udp) };
        let io = within(&namespaces.name('w', end % plan.workers().len()), open)??;
        workers.push(both_ways(Box::new(io), config, (plan.switch_plans().len() + end) as u64));
    }
    let controls = drivers.iter().map(|driver| Box::new(driver.clone()) as Box<dyn SwitchDriver>).collect();
    let keeper = Box::new(Switches { drivers, processes, _namespaces: namespaces });
    Ok(Fabric { placed, drivers: controls, workers, keeper, carrier: Carrier::Veth, note: None })
}

/// Makes the namespaces and everything between them.
fn build(config: &RunConfig, plan: &TreePlan) -> Result<NamespaceSet, CommandError> {
    let mut names = NamespaceSet::new();
    let mtu = OUTER_LEN - 14 + header::LEN + config.payload_bytes as usize;
    let mtu = mtu.max(1500);
    for switch in 0..plan.switch_plans().len() {
        names.add('s', switch)?;
        let name = names.name('s', switch);
        command(&format!("ip link add ctl netns {name} type veth peer name p{CONTROL_PORT} netns {name}"))?;
        host(&name, "ctl", controller_address(switch), switch_address(switch), mtu)?;
        command(&format!("ip -n {name} link set p{CONTROL_PORT} up mtu {mtu}"))?;
    }
    for (rank, (leaf, port)) in plan.workers().iter().enumerate() {
        names.add('w', rank)?;
        let (worker, switch) = (names.name('w', rank), names.name('s', *leaf));
        let port = port + 1;
        command(&format!("ip link add eth0 netns {worker} type veth peer name p{port} netns {switch}"))?;
        host(&worker, "eth0", worker_address(rank), switch_address(*leaf), mtu)?;
        command(&format!("ip -n {switch} link set p{port} up mtu {mtu}"))?;
    }
    for (switch, above) in config.shape.above.iter().enumerate() {
        let Some(above) = *above else { continue };
        let port_to = |at: usize, peer: usize| {
            let peer = Some(SocketAddr::V4(switch_address(peer)));
            plan.switch_plans()[at]
                .ports
                .iter()
                .find(|attachment| attachment.peer == peer)
                .map_or(0, |at| at.port + 1)
        };
        let ends = [
            (names.name('s', switch), port_to(switch, above)),
            (names.name('s', above), port_to(above, switch)),
        ];
        let [(a, at_a), (b, at_b)] = &ends;
        command(&format!("ip link add p{at_a} netns {a} type veth peer name p{at_b} netns {b}"))?;
        for (name, port) in &ends {
            command(&format!("ip -n {name} link set p{port} up mtu {mtu}"))?;
            if !config.faults.is_none() {
                let faults = Netem(config.faults);
                command(&format!("ip netns exec {name} tc qdisc add dev p{port} root netem {faults}"))?;
            }
        }
    }
    Ok(names)
}

/// Gives an interface its addresses and the way to a switch.
pub(super) fn host(
    name: &str,
    interface: &str,
    own: SocketAddrV4,
    switch: SocketAddrV4,
    mtu: usize,
) -> Result<(), CommandError> {
    let (ip, to) = (own.ip(), switch.ip());
    let (own_mac, to_mac) = (colons(mac(*ip)), colons(mac(*to)));
    command(&format!("ip -n {name} link set {interface} address {own_mac} mtu {mtu} up"))?;
    command(&format!("ip -n {name} addr add {ip}/32 dev {interface}"))?;
    command(&format!("ip -n {name} route add {to}/32 dev {interface} src {ip}"))?;
    command(&format!("ip -n {name} neigh add {to} lladdr {to_mac} dev {interface} nud permanent")).map(drop)
}

/// An Ethernet address as `ip` writes it.
fn colons(mac: u64) -> String {
    let bytes: Vec<_> = mac.to_be_bytes()[2..].iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}
