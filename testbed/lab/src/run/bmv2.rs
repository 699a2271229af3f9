//! bmv2 switches whose packets go over gRPC: no privilege, no network interface.
//!
//! Each switch has a thread that takes what comes out of its ports: frames for a worker go to that worker's inbox, frames
//! for another switch into that switch. A worker's end wraps its datagrams in Ethernet, IPv4 and UDP.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netfold_controller::tree::TreePlan;
use netfold_controller::{Limits, SwitchDriver};
use netfold_io::fault::{FaultLine, Offered};
use netfold_io::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit, check_transmit};
use netfold_p4::allreduce::{self, Address};
use netfold_p4::profile::Profile;
use netfold_southbound::p4runtime::{Client, ClientConfig, DriverConfig, P4RuntimeDriver, PeerPort};
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use netfold_wire::{UDP_PORT, header};

use super::fabric::{Carrier, Counted, Fabric, Keeper, faulty};
use super::layout::{Placed, place};
use super::remote::SharedDriver;
use super::{RunConfig, RunError};
use crate::bmv2::{Bmv2, Bmv2Config, DataPlane, FrameControlPort, compile, missing_tool};

/// The port of every switch where the controller's packets go in and out: above those of children and parent.
pub(super) const CONTROL_PORT: u16 = 64;

/// UDP port of every worker, each at an address of its own.
const WORKER_PORT: u16 = 40_000;

/// Longest wait of a thread that moves frames, after which it looks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Datagrams that wait at a worker, at most.
const INBOX_MAX: usize = 4096;

/// Datagrams that a fault line holds, at most.
const HELD_MAX: usize = 1024;

/// Address of a worker: 10.1.x.y.
pub(super) fn worker_address(rank: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from_bits(0x0a01_0000 + rank as u32 + 1), WORKER_PORT)
}

/// Address of a worker's end: that in its group has the next UDP port.
pub(super) fn end_address(config: &RunConfig, end: usize) -> SocketAddrV4 {
    let world = config.shape.workers.len();
    SocketAddrV4::new(*worker_address(end % world).ip(), WORKER_PORT + (end / world) as u16)
}

/// Address of a switch: 10.2.x.y.
pub(super) fn switch_address(switch: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from_bits(0x0a02_0000 + switch as u32 + 1), UDP_PORT)
}

/// Address of the controller at a switch's own port for it: 10.3.x.y.
pub(super) fn controller_address(switch: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from_bits(0x0a03_0000 + switch as u32 + 1), UDP_PORT)
}

/// The Ethernet address that belongs to an IPv4 address: locally administered, the same bits.
pub(super) fn mac(ip: Ipv4Addr) -> u64 {
    0x0200_0000_0000 | u64::from(ip.to_bits())
}

fn endpoint(address: SocketAddrV4) -> Endpoint {
    let [.., a, b, c, d, e, f] = mac(*address.ip()).to_be_bytes();
    Endpoint {
        mac: EthernetAddress([a, b, c, d, e, f]),
        ip: Ipv4Address::from_bits(address.ip().to_bits()),
        port: address.port(),
    }
}

/// The program of the run's switches and what it offers.
pub(super) fn profile_and_limits(config: &RunConfig) -> (Profile, Limits) {
    let numerics = config.mode.numerics();
    let (lane_words, ops) = (config.payload_bytes / 4, numerics.lane_ops().to_vec());
    let priorities = if config.classes > 1 { QUEUES } else { 1 };
    let profile = Profile { lane_words, numerics, ops, priorities, ..Profile::hardware() }.for_bmv2();
    let limits = Limits::of(&profile, UDP_PORT);
    (profile, limits)
}

/// Egress queues of a port where operations have classes: all that bmv2 is started with.
const QUEUES: u32 = 8;

/// Plans the job and its groups with an address for everyone.
pub(super) fn placed(config: &RunConfig, limits: Limits) -> Result<Vec<Placed>, RunError> {
    let switches = (0..config.shape.above.len()).map(|at| Some(SocketAddr::V4(switch_address(at))));
    let ends = (0..config.leaves().len()).map(|end| Some(SocketAddr::V4(end_address(config, end))));
    place(config, limits, &switches.collect::<Vec<_>>(), &ends.collect::<Vec<_>>())
}

/// The port of a switch of the job's plan at which a peer is, by its address: one above the plan's, because there is no port 0. A worker's second end is
/// at the same.
pub(super) fn peer_ports(
    plan: &TreePlan,
    switch: usize,
) -> impl Fn(SocketAddrV4) -> Option<PeerPort> + Send + 'static {
    let ip = |peer: Option<SocketAddr>| peer.map(|peer| peer.ip());
    let peers: Vec<_> =
        plan.switch_plans()[switch].ports.iter().map(|at| (ip(at.peer), at.port + 1)).collect();
    move |peer: SocketAddrV4| {
        let at = peers.iter().find(|(known, _)| *known == Some(IpAddr::V4(*peer.ip())))?;
        Some(PeerPort { port: at.1, mac: mac(*peer.ip()) })
    }
}

/// Starts a driver for a switch of the job's plan.
pub(super) fn drive(
    address: &str,
    switch: usize,
    plan: &TreePlan,
    config: &RunConfig,
    control: Box<dyn netfold_southbound::p4runtime::ControlPort>,
) -> Result<SharedDriver, RunError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| RunError::Bmv2 { switch, source };
    let (profile, _) = profile_and_limits(config);
    let program = allreduce::program(&profile)?;
    let compiled = compile(&program).map_err(|error| failed(error.into()))?;
    let own = switch_address(switch);
    let mut driver = DriverConfig::new(profile, CONTROL_PORT, Box::new(peer_ports(plan, switch)));
    driver.switch = Address { mac: mac(*own.ip()), ip: own.ip().to_bits(), port: own.port() };
    let client = Client::connect(address, ClientConfig::default()).map_err(|error| failed(error.into()))?;
    let driver = P4RuntimeDriver::start(client, &program, compiled.json.clone(), driver, control);
    Ok(SharedDriver::new(driver.map_err(|error| failed(error.into()))?))
}

/// What is at a port of a switch.
#[derive(Debug, Clone, Copy)]
enum End {
    Worker(usize),
    /// A switch, at its port.
    Switch(usize, u16),
}

/// Running switches. Dropped in this order: threads, connections, processes.
struct Switches {
    stop: Arc<AtomicBool>,
    movers: Vec<JoinHandle<()>>,
    drivers: Vec<SharedDriver>,
    inboxes: Vec<Arc<Inbox>>,
    /// Kept for their ends.
    _planes: Vec<Arc<DataPlane>>,
    processes: Vec<Bmv2>,
}

impl Keeper for Switches {
    fn counted(&mut self, switch: usize) -> Result<Counted, RunError> {
        self.drivers[switch].counted(switch)
    }

    fn gone(&mut self) -> Option<usize> {
        self.processes.iter_mut().position(|process| !process.is_running())
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for inbox in &self.inboxes {
            inbox.close();
        }
        for mover in self.movers.drain(..) {
            let _ = mover.join();
        }
    }
}

/// Starts the switches of a run and the workers' ends.
pub(super) fn start(config: &RunConfig, note: Option<String>) -> Result<Fabric, RunError> {
    if let Some(tool) = missing_tool() {
        return Err(RunError::Tool(tool));
    }
    let (_, limits) = profile_and_limits(config);
    let placed = placed(config, limits)?;
    let plan = &placed[0].plan;
    let mut processes = Vec::new();
    let mut planes = Vec::new();
    let mut drivers = Vec::new();
    for switch in 0..plan.switch_plans().len() {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| RunError::Bmv2 { switch, source };
        let process = Bmv2::start(Bmv2Config::default()).map_err(|error| failed(error.into()))?;
        let plane = Arc::new(DataPlane::connect(&process).map_err(|error| failed(error.into()))?);
        let control = Box::new(FrameControlPort::new(plane.port(CONTROL_PORT)));
        drivers.push(drive(process.p4runtime(), switch, plan, config, control)?);
        processes.push(process);
        planes.push(plane);
    }
    let inboxes: Vec<Arc<Inbox>> = config.leaves().iter().map(|_| Arc::default()).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let mut switches = Switches {
        stop: Arc::clone(&stop),
        movers: Vec::new(),
        drivers: drivers.clone(),
        inboxes: inboxes.clone(),
        _planes: planes.clone(),
        processes,
    };
    for switch in 0..planes.len() {
        let mover = Mover {
            switch,
            ends: ends(plan, switch),
            world: plan.workers().len(),
            planes: planes.clone(),
            inboxes: inboxes.clone(),
            stop: Arc::clone(&stop),
            line: FaultLine::new(config.seed ^ (switch as u64) << 32, config.faults, HELD_MAX),
            begun: Instant::now(),
        };
        let thread = std::thread::Builder::new().name(format!("bmv2-{switch}")).spawn(move || mover.run());
        switches.movers.push(thread.map_err(RunError::Thread)?);
    }
    let io = |(end, inbox): (usize, Arc<Inbox>)| {
        let (leaf, port) = plan.workers()[end % plan.workers().len()];
        let outer =
            Outer { source: endpoint(end_address(config, end)), destination: endpoint(switch_address(leaf)) };
        let io = FrameIo {
            plane: Arc::clone(&planes[leaf]),
            port: port + 1,
            outer,
            inbox,
            datagram_len_max: header::LEN + config.payload_bytes as usize,
            frame: Vec::new(),
            counters: IoCounters::default(),
        };
        both_ways(Box::new(io), config, (planes.len() + end) as u64)
    };
    let workers = inboxes.into_iter().enumerate().map(io).collect();
    let drivers = drivers.into_iter().map(|driver| Box::new(driver) as Box<dyn SwitchDriver>).collect();
    Ok(Fabric { placed, drivers, workers, keeper: Box::new(switches), carrier: Carrier::Grpc, note })
}

/// A worker's end with the run's faults on what it sends and on what it receives: the switch's end cannot have any.
pub(super) fn both_ways(io: Box<dyn PacketIo>, config: &RunConfig, end: u64) -> Box<dyn PacketIo> {
    if config.faults.is_none() {
        return io;
    }
    let faults = netfold_io::fault::FaultConfig { tx: config.faults, ..Default::default() };
    let seed = config.seed ^ end.wrapping_mul(0xd134_2543_de82_ef95);
    let sending = netfold_io::fault::Faulty::new(io, netfold_io::fault::FaultConfig { seed, ..faults });
    faulty(Box::new(sending), config, end)
}

/// What is at each port of a switch of the plan, the plan's first port first.
fn ends(plan: &TreePlan, switch: usize) -> Vec<End> {
    let at = |peer: Option<SocketAddr>| {
        let worker =
            (0..plan.workers().len()).find(|rank| peer == Some(SocketAddr::V4(worker_address(*rank))));
        if let Some(rank) = worker {
            return Some(End::Worker(rank));
        }
        let own = Some(SocketAddr::V4(switch_address(switch)));
        let other = (0..plan.switch_plans().len())
            .find(|other| peer == Some(SocketAddr::V4(switch_address(*other))))?;
        let back = plan.switch_plans()[other].ports.iter().find(|attachment| attachment.peer == own)?;
        Some(End::Switch(other, back.port + 1))
    };
    plan.switch_plans()[switch].ports.iter().filter_map(|attachment| at(attachment.peer)).collect()
}

/// Takes the frames that come out of one switch to where they go.
struct Mover {
    switch: usize,
    ends: Vec<End>,
    /// Workers of the job: after their inboxes come those of their ends in groups.
    world: usize,
    planes: Vec<Arc<DataPlane>>,
    inboxes: Vec<Arc<Inbox>>,
    stop: Arc<AtomicBool>,
    /// Faults of the links to other switches, in this direction.
    line: FaultLine<(usize, u16)>,
    begun: Instant,
}

impl Mover {
    fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) {
            let now = self.begun.elapsed();
            while let Some(((switch, port), frame)) = self.line.pop(now) {
                if self.planes[switch].send(port, frame).is_err() {
                    return;
                }
            }
            let wait = self
                .line
                .next_release()
                .map_or(POLL_INTERVAL, |at| at.saturating_sub(now).min(POLL_INTERVAL));
            match self.planes[self.switch].receive(wait) {
                Ok(Some((port, frame))) if !self.deliver(port, &frame) => return,
                Ok(_) => {}
                // The switch has ended; its workers find that nothing comes any more.
                Err(_) => return,
            }
        }
    }

    /// False when the other side has closed.
    fn deliver(&mut self, port: u16, frame: &[u8]) -> bool {
        let end = port.checked_sub(1).and_then(|index| self.ends.get(usize::from(index)).copied());
        match end {
            Some(End::Worker(rank)) => {
                let to = Outer::parse(frame).map_or(WORKER_PORT, |(outer, _)| outer.destination.port);
                let end = rank + self.world * usize::from(to.saturating_sub(WORKER_PORT));
                if let Some(inbox) = self.inboxes.get(end) {
                    inbox.push(frame);
                }
            }
            Some(End::Switch(switch, port)) => {
                let tag = (switch, port);
                if self.line.offer(self.begun.elapsed(), tag, frame) == Offered::Passes {
                    return self.planes[switch].send(port, frame).is_ok();
                }
            }
            None => {}
        }
        true
    }
}

/// Frames on their way to a worker.
#[derive(Debug, Default)]
struct Inbox {
    state: Mutex<InboxState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct InboxState {
    frames: VecDeque<Vec<u8>>,
    woken: bool,
    closed: bool,
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, frame: &[u8]) {
        let mut state = self.state();
        if state.frames.len() < INBOX_MAX {
            state.frames.push_back(frame.to_vec());
        }
        self.changed.notify_all();
    }

    fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

impl Wake for Inbox {
    fn wake(self: Arc<Self>) {
        self.state().woken = true;
        self.changed.notify_all();
    }
}

/// A worker's end: datagrams in frames through one port of a switch.
struct FrameIo {
    plane: Arc<DataPlane>,
    port: u16,
    /// Of what the worker sends.
    outer: Outer,
    inbox: Arc<Inbox>,
    datagram_len_max: usize,
    frame: Vec<u8>,
    counters: IoCounters,
}

impl PacketIo for FrameIo {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "bmv2-grpc",
            datagram_len_max: self.datagram_len_max,
            burst_max: 32,
            batch_bytes: 32 * self.datagram_len_max,
            udp_ports_max: 1,
            lossless: false,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        let mut state = self.inbox.state();
        while batch.packets_left() > 0 {
            let Some(frame) = state.frames.pop_front() else { break };
            match Outer::parse(&frame) {
                Ok((outer, datagram)) if outer == self.outer.reversed() => {
                    if batch.push(PortId(0), datagram, 0) {
                        self.counters.rx_packets += 1;
                        self.counters.rx_bytes += datagram.len() as u64;
                    } else if batch.is_empty() {
                        self.counters.truncated += 1;
                    } else {
                        state.frames.push_front(frame);
                        break;
                    }
                }
                _ => self.counters.unknown_source += 1,
            }
        }
        if batch.is_empty() && state.closed { Err(IoError::PeerClosed) } else { Ok(batch.len()) }
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        check_transmit(memory, packets, self.datagram_len_max)?;
        self.frame.resize(OUTER_LEN + self.datagram_len_max, 0);
        for packet in packets {
            let Some(datagram) = packet.bytes(memory) else { continue };
            let Ok(len) = self.outer.emit(datagram, 0, &mut self.frame) else { continue };
            self.plane.send(self.port, &self.frame[..len]).map_err(|_| IoError::PeerClosed)?;
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += datagram.len() as u64;
        }
        Ok(packets.len())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        let state = self.inbox.state();
        let quiet = |state: &mut InboxState| state.frames.is_empty() && !state.woken && !state.closed;
        let waited = self.inbox.changed.wait_timeout_while(state, timeout, quiet);
        let (mut state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        state.woken = false;
        Ok(!result.timed_out())
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.inbox))
    }

    fn counters(&self) -> IoCounters {
        self.counters
    }
}
