//! Software switches that begin empty and are given everything over P4Runtime, as bmv2 is; packets go by UDP.
//!
//! Ports are the data path's own matter: they are bound to peers before any control plane comes, as
//! `netfold switch --p4runtime --port` does.

use std::net::{SocketAddr, SocketAddrV4};
use std::thread::JoinHandle;

use netfold_controller::{Limits, SwitchDriver};
use netfold_io::{IoError, PacketIo};
use netfold_p4::allreduce;
use netfold_p4::profile::Profile;
use netfold_southbound::p4runtime::{
    Client, ClientConfig, DeviceFormat, DriverConfig, P4RuntimeDriver, PeerPort, UdpControlPort,
};
use netfold_switch::{EmptyPipeline, Handle, Switch, SwitchCounters};
use netfold_switch_p4runtime::{Server, ServerConfig};

use super::fabric::{Carrier, Counted, Fabric, Keeper, faulty};
use super::layout::{Neighbour, place, ports};
use super::remote::SharedDriver;
use super::software::{LOCAL, clients, queues, sockets};
use super::{RunConfig, RunError};

/// The controller's port: above those of a switch with 32 children, a parent, and a second end of each child.
const CONTROL_PORT: u16 = 128;

type Thread = JoinHandle<Result<SwitchCounters, IoError>>;

/// A switch with its server. Dropped in this order: server, then packets.
struct Running {
    server: Option<Server>,
    handle: Handle,
    thread: Option<Thread>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.server.take());
        self.handle.stop();
        // A panic has been reported on standard error, and the workers saw the switch go.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Drivers first, so that their streams end before the servers.
struct Switches {
    drivers: Vec<SharedDriver>,
    running: Vec<Running>,
}

impl Keeper for Switches {
    fn counted(&mut self, switch: usize) -> Result<Counted, RunError> {
        let queues = self.running[switch].handle.call(|core| core.counters().queues);
        let queues = queues.map_err(|_| RunError::SwitchGone { switch })?;
        Ok(Counted { queues, ..self.drivers[switch].counted(switch)? })
    }

    fn gone(&mut self) -> Option<usize> {
        let ended = |running: &Running| running.thread.as_ref().is_none_or(JoinHandle::is_finished);
        self.running.iter().position(ended)
    }
}

/// Starts the switches of a run, gives them their program, and makes the workers' ends.
pub(super) fn start(config: &RunConfig) -> Result<Fabric, RunError> {
    let profile = Profile::software_with(config.payload_bytes / 4, config.mode.numerics());
    let (ios, addresses) = sockets(config)?;
    let limits = Limits::of(&profile, 0);
    let (workers, own) = clients(config, &addresses)?;
    let placed = place(config, limits, &addresses, &own)?;
    let ports = ports(&placed, addresses.len());
    let mut switches = Switches { drivers: Vec::new(), running: Vec::new() };
    for (index, (io, ports)) in ios.into_iter().zip(ports).enumerate() {
        let address = addresses[index].ok_or(IoError::Unsupported("asking for its address"))?;
        let peer = |neighbour: Neighbour| match neighbour {
            Neighbour::Switch(switch) => addresses[switch],
            Neighbour::End(end) => own[end],
        };
        let peers = (1..).zip(ports.neighbours).filter_map(|(port, at)| Some((port, peer(at)?)));
        let (running, shared) = one(config, peers.collect(), index, address, &profile, io)?;
        switches.running.push(running);
        switches.drivers.push(shared);
    }
    let workers = (addresses.len() as u64..).zip(workers).map(|(end, io)| faulty(io, config, end)).collect();
    let drivers = switches.drivers.iter().map(|driver| Box::new(driver.clone()) as Box<dyn SwitchDriver>);
    let drivers = drivers.collect();
    Ok(Fabric { placed, drivers, workers, keeper: Box::new(switches), carrier: Carrier::Udp, note: None })
}

/// One switch, empty, with these peers at its ports, and the driver that gives it the program.
fn one(
    config: &RunConfig,
    peers: Vec<(u16, SocketAddr)>,
    index: usize,
    address: SocketAddr,
    profile: &Profile,
    io: Box<dyn PacketIo>,
) -> Result<(Running, SharedDriver), RunError> {
    let failed =
        |source: Box<dyn std::error::Error + Send + Sync>| RunError::Remote { switch: index, source };
    let empty = Box::new(EmptyPipeline::new(profile.lane_words));
    let mut switch = Switch::bare(empty, faulty(io, config, index as u64));
    if let Some(queues) = queues(config, None) {
        switch = switch.with_queues(&queues).map_err(RunError::Queues)?;
    }
    let handle = switch.handle();
    let thread = std::thread::Builder::new().name(format!("switch-{index}")).spawn(move || switch.run());
    let thread = Some(thread.map_err(RunError::Thread)?);
    let mut running = Running { server: None, handle: handle.clone(), thread };
    let control = UdpControlPort::connect(LOCAL, address).map_err(|error| failed(error.into()))?;
    let own = control.local_addr().map_err(|error| failed(error.into()))?;
    let mut ports = peers.clone();
    ports.push((CONTROL_PORT, own));
    handle
        .call(move |core| ports.into_iter().try_for_each(|(port, peer)| core.bind_port(port, peer)))
        .map_err(|_| RunError::SwitchGone { switch: index })??;
    let server =
        Server::start(LOCAL, ServerConfig::default(), handle).map_err(|error| failed(error.into()))?;
    let at = server.local_addr().to_string();
    running.server = Some(server);
    let neighbours = move |peer: SocketAddrV4| {
        let (port, _) = peers.iter().find(|(_, known)| *known == SocketAddr::V4(peer))?;
        Some(PeerPort { port: *port, mac: 0 })
    };
    let mut driver = DriverConfig::new(profile.clone(), CONTROL_PORT, Box::new(neighbours));
    driver.device_format = DeviceFormat::Opaque;
    let program = allreduce::program(profile)?;
    let client = Client::connect(&at, ClientConfig::default()).map_err(|error| failed(error.into()))?;
    let pushed = program.to_json().into_bytes();
    let driver = P4RuntimeDriver::start(client, &program, pushed, driver, Box::new(control));
    Ok((running, SharedDriver::new(driver.map_err(|error| failed(error.into()))?)))
}
