//! Software switches as threads of this process, joined by rings or by UDP sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use netfold_controller::ticket::TicketKey;
use netfold_controller::{Limits, SwitchDriver};
use netfold_embedded::{LocalDriver, PORTS_MAX};
use netfold_io::shm::{Hub, Spoke};
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{IoError, PacketIo, loopback};
use netfold_p4::ir::Program;
use netfold_p4::profile::Profile;
use netfold_p4::{allreduce, p4info};
use netfold_switch::queue::{ClassConfig, PortConfig, QUEUES_MAX};
use netfold_switch::{
    Handle, InterpretedPipeline, Pipeline, QueueConfig, Switch, SwitchCounters, numeric_pipeline,
};
use netfold_wire::{LaneOps, TAG_LEN, header};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::fabric::{Carrier, Counted, Fabric, Keeper, faulty};
use super::layout::{Placed, place, ports};
use super::ports::OwnPorts;
use super::{Nic, RunConfig, RunError, SwitchKind, raw};
use netfold_testkit::namespace::NamespaceSet;

pub(super) type End = Box<dyn PacketIo>;

/// Switches on threads of their own, which stop when this is dropped.
struct Threads {
    all: Vec<(Handle, Option<Thread>)>,
    /// Where their packets go, if that goes with the run.
    _namespaces: Option<NamespaceSet>,
}

type Thread = JoinHandle<Result<SwitchCounters, IoError>>;

impl Keeper for Threads {
    fn counted(&mut self, switch: usize) -> Result<Counted, RunError> {
        let counted = self.all[switch].0.call(|core| {
            let SwitchCounters { queues, io, .. } = core.counters();
            let mut read = |id| core.pipeline().counters(p4info::counter_id(id)).to_vec();
            let (packets, answers) = (read(allreduce::id::PACKETS), read(allreduce::id::ANSWERS));
            Counted { packets, answers, queues, bytes: Some((io.rx_bytes, io.tx_bytes)) }
        });
        counted.map_err(|_| RunError::SwitchGone { switch })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for (handle, thread) in &mut self.all {
            handle.stop();
            // A panic has been reported on standard error, and the workers saw the switch go.
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}

/// Starts the switches of a run and the workers' ends of their links.
pub(super) fn start(config: &RunConfig, carrier: Carrier) -> Result<Fabric, RunError> {
    let switches = config.shape.above.len();
    let mut pipelines = Vec::with_capacity(switches);
    for switch in 0..switches {
        let is_lowest = config.shape.workers.contains(&switch);
        pipelines.push(match config.nic {
            Some(Nic::Swx) if is_lowest => netfold_switch_swx::pipeline(&program(config)?)?,
            _ => pipeline(config)?,
        });
    }
    let limits = Limits {
        slots: pipelines.first().map_or(0, |pipeline| pipeline.info().entries / 2),
        lane_words: config.payload_bytes / 4,
        ports_max: PORTS_MAX,
        groups_max: netfold_switch::switch::GROUPS_MAX as u16,
        entries: u32::MAX,
        udp_port: 0,
        sees_source: false,
        bounded_loss: pipelines.iter().all(|pipeline| pipeline.info().bounded_loss),
        owners: pipelines.iter().all(|pipeline| pipeline.info().owners),
        lane_ops: pipelines.iter().fold(LaneOps::ALL, |all, pipeline| all.and(pipeline.info().lane_ops)),
        multipath: false,
        authenticates: config.authenticated,
    };
    let Ends { namespaces, mut ios, addresses, mut workers, own } = ends(config, carrier)?;
    let mut placed = place(config, limits, &addresses, &own)?;
    if config.authenticated {
        for (number, placed) in (0..).zip(&mut placed) {
            let secret = TicketKey::generate(&mut StdRng::seed_from_u64(config.seed.wrapping_add(number)));
            placed.plan = placed.plan.clone().authenticated(&placed.layout.shape, &secret);
        }
    }
    let ports = ports(&placed, switches);
    if carrier == Carrier::Rings {
        (ios, workers) = rings(config, &placed);
    }
    let mut threads = Threads { all: Vec::new(), _namespaces: namespaces };
    let mut drivers: Vec<Box<dyn SwitchDriver>> = Vec::with_capacity(switches);
    for (index, ((pipeline, io), ports)) in pipelines.into_iter().zip(ios).zip(ports).enumerate() {
        let mut switch = Switch::new(pipeline, faulty(io, config, index as u64));
        let parent = placed[0].plan.switch_plans()[index].node.parent.map(|parent| parent.port);
        if let Some(queues) = queues(config, parent) {
            switch = switch.with_queues(&queues).map_err(RunError::Queues)?;
        }
        let handle = switch.handle();
        let driver = LocalDriver::new(handle.clone(), limits, config.mode.numerics());
        drivers.push(Box::new(OwnPorts::new(driver, ports.own)));
        let thread = std::thread::Builder::new().name(format!("switch-{index}")).spawn(move || switch.run());
        threads.all.push((handle, Some(thread.map_err(RunError::Thread)?)));
    }
    let workers = (switches as u64..).zip(workers).map(|(index, io)| faulty(io, config, index)).collect();
    Ok(Fabric { placed, drivers, workers, keeper: Box::new(threads), carrier, note: None })
}

/// The queues of a switch, if it has any: one for every two classes, and those of a slow uplink.
pub(super) fn queues(config: &RunConfig, parent: Option<u16>) -> Option<QueueConfig> {
    let uplink = config.uplink.clone().zip(parent);
    if config.classes == 1 && uplink.is_none() {
        return None;
    }
    let port = match config.classes {
        1 => PortConfig::default(),
        _ => PortConfig::strict(QUEUES_MAX as u8, &ClassConfig::default()),
    };
    let ports = uplink.map(|(uplink, port)| (port, uplink)).into_iter().collect();
    Some(QueueConfig { port, ports, seed: config.seed, ..QueueConfig::default() })
}

/// What packets go through; of rings nothing yet, because they follow the plan.
struct Ends {
    namespaces: Option<NamespaceSet>,
    ios: Vec<End>,
    addresses: Vec<Option<SocketAddr>>,
    workers: Vec<End>,
    own: Vec<Option<SocketAddr>>,
}

fn ends(config: &RunConfig, carrier: Carrier) -> Result<Ends, RunError> {
    match carrier {
        Carrier::Rings => Ok(Ends {
            namespaces: None,
            ios: Vec::new(),
            addresses: vec![None; config.shape.above.len()],
            workers: Vec::new(),
            own: vec![None; config.leaves().len()],
        }),
        Carrier::Shm => {
            let ((ios, addresses), (workers, own)) = shared(config)?;
            Ok(Ends { namespaces: None, ios, addresses, workers, own })
        }
        Carrier::Udp => {
            let (ios, addresses) = sockets(config)?;
            let (workers, own) = clients(config, &addresses)?;
            Ok(Ends { namespaces: None, ios, addresses, workers, own })
        }
        _ => {
            let raw::Network { namespaces, switches, workers, switch_addresses, worker_addresses } =
                raw::start(config, carrier)?;
            let (addresses, own) = (switch_addresses, worker_addresses);
            Ok(Ends { namespaces: Some(namespaces), ios: switches, addresses, workers, own })
        }
    }
}

fn pipeline(config: &RunConfig) -> Result<Box<dyn Pipeline>, RunError> {
    let numerics = config.mode.numerics();
    if config.switch == SwitchKind::Software {
        return numeric_pipeline(config.payload_bytes, numerics)
            .ok_or(RunError::Payload { payload: config.payload_bytes, numerics });
    }
    Ok(Box::new(InterpretedPipeline::new(Arc::new(program(config)?))?))
}

fn program(config: &RunConfig) -> Result<Program, RunError> {
    let profile = Profile::software_with(config.payload_bytes / 4, config.mode.numerics());
    Ok(allreduce::program(&profile)?)
}

/// Length of a packet, with a tag.
pub(super) fn datagram_len_max(config: &RunConfig) -> usize {
    header::LEN + config.payload_bytes as usize + TAG_LEN
}

/// Nodes of a mesh of rings: switches, then workers' ends. A switch's links are its own ports in order.
fn rings(config: &RunConfig, placed: &[Placed]) -> (Vec<End>, Vec<End>) {
    let (switches, ends) = (config.shape.above.len(), config.leaves().len());
    let mut edges = Vec::new();
    for (number, Placed { layout, plan }) in placed.iter().enumerate() {
        // From the leaves up, a switch has all its children before its parent.
        for &local in plan.order().iter().rev() {
            let below = |above: &Option<usize>| *above == Some(local);
            let switch = layout.switches[local];
            // Groups use the links of the job between switches.
            if number == 0 {
                let children = (0..switches).filter(|child| below(&layout.shape.above[*child]));
                edges.extend(children.map(|child| (switch, child)));
            }
            let ranks = layout.ends.iter().zip(&layout.shape.workers).filter(|(_, leaf)| **leaf == local);
            edges.extend(ranks.map(|(end, _)| (switch, switches + end)));
        }
    }
    // A window and its acks, and as much again for retransmissions, so that no thread waits on a full ring.
    let ring_len = 4 * config.slots as usize * usize::from(config.classes);
    let mut nodes = loopback::mesh(switches + ends, &edges, ring_len, datagram_len_max(config)).into_iter();
    let mut take = |count| nodes.by_ref().take(count).map(|node| Box::new(node) as End).collect();
    (take(switches), take(ends))
}

/// One socket for each switch, and its address.
pub(super) fn sockets(config: &RunConfig) -> Result<(Vec<End>, Vec<Option<SocketAddr>>), RunError> {
    let udp = UdpConfig { datagram_len_max: datagram_len_max(config), ..UdpConfig::default() };
    let (mut ios, mut addresses): (Vec<End>, _) = (Vec::new(), Vec::new());
    for _ in &config.shape.above {
        let io = UdpIo::bind(LOCAL, udp)?;
        addresses.push(io.local_addr());
        ios.push(Box::new(io));
    }
    Ok((ios, addresses))
}

/// Ends, and their addresses.
type Addressed = (Vec<End>, Vec<Option<SocketAddr>>);

/// Hosts: each switch has a socket to others, where there are others, and rings to the workers beside it.
fn shared(config: &RunConfig) -> Result<(Addressed, Addressed), RunError> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = format!("testbed-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let longest = datagram_len_max(config);
    let name =
        |switch: usize| format!("{run}-{switch}").parse().map_err(|_| IoError::Unsupported("such a name"));
    let (sockets, addresses) = sockets(config)?;
    let alone = config.shape.above.len() == 1;
    let hub = |(switch, socket): (usize, End)| -> Result<End, RunError> {
        Ok(Box::new(Hub::open(&name(switch)?, LOCAL, longest, (!alone).then_some(socket))?))
    };
    let ios = sockets.into_iter().enumerate().map(hub).collect::<Result<Vec<_>, _>>()?;
    let (mut workers, mut own): Addressed = (Vec::new(), Vec::new());
    for leaf in config.leaves() {
        let io = Spoke::attach(&name(leaf)?, LOCAL.ip(), longest)?;
        own.push(io.local_addr());
        workers.push(Box::new(io));
    }
    Ok(((ios, addresses), (workers, own)))
}

/// One socket for each worker's end, towards its switch, and its address.
pub(super) fn clients(
    config: &RunConfig,
    switches: &[Option<SocketAddr>],
) -> Result<(Vec<End>, Vec<Option<SocketAddr>>), RunError> {
    let udp = UdpConfig { datagram_len_max: datagram_len_max(config), ..UdpConfig::default() };
    let (mut ios, mut addresses): (Vec<End>, _) = (Vec::new(), Vec::new());
    for leaf in config.leaves() {
        let switch = switches[leaf].ok_or(IoError::Unsupported("asking for its address"))?;
        let io = UdpIo::connect_from(LOCAL, switch, udp)?;
        addresses.push(io.local_addr());
        ios.push(Box::new(io));
    }
    Ok((ios, addresses))
}

/// Any port of the loopback interface.
pub(super) const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
