//! Network namespaces, bmv2 switches and the way between them.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use netfold_controller::tree::{Shape, Site, TreeJob, TreePlan};
use netfold_controller::{Limits, SwitchDriver};
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_p4::allreduce::{self, Address};
use netfold_p4::profile::Profile;
use netfold_p4::transit;
use netfold_southbound::p4runtime::{
    Client, ClientConfig, DriverConfig, P4RuntimeDriver, PeerPort, UdpControlPort,
};
use netfold_wire::{UDP_PORT, header};

use super::super::bmv2::{CONTROL_PORT, controller_address, mac, switch_address, worker_address};
use super::super::veth::{host, within};
use super::{CLASSES, PAYLOAD, RunError, TRIM_DEPTH, TrimConfig};
use crate::bmv2::{Bmv2, Bmv2Config, compile, missing_tool};
use netfold_testkit::namespace::{CommandError, NamespaceSet, command};

/// Number of the switch that folds; those of racks follow.
const FOLD: usize = 0;
/// Port of a rack's switch to the one that folds.
const UPLINK: u16 = 32;
/// Port of a rack's switch to the host that sends the load.
const LOAD: u16 = 33;
/// Where the load is sent to: a port without a listener, at the switch that folds.
const DISCARD: u16 = 9;
/// What an interface holds before it drops: far more than a socket's buffer, so that the sender waits instead.
const HELD_BYTES: u32 = 4 << 20;

/// Running switches, the job's plan, and namespaces. Dropped in this order: connections, processes, namespaces.
pub(super) struct Fabric {
    /// That of the switch that folds: the plan has no other.
    pub(super) drivers: Vec<Box<dyn SwitchDriver>>,
    pub(super) plan: TreePlan,
    _racks: Vec<P4RuntimeDriver>,
    _processes: Vec<Bmv2>,
    namespaces: NamespaceSet,
}

/// A rank's socket. Its port is Netfold's, so that switches on the way know a RESULT.
fn rank_address(rank: usize) -> SocketAddrV4 {
    SocketAddrV4::new(*worker_address(rank).ip(), UDP_PORT)
}

/// The host of a rack that sends the load: 10.4.0.x.
fn load_address(rack: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from_bits(0x0a04_0000 + rack as u32 + 1), 0)
}

impl Fabric {
    pub(super) fn start(config: &TrimConfig) -> Result<Self, RunError> {
        if let Some(tool) = missing_tool() {
            return Err(RunError::Tool(tool));
        }
        let profile = Profile {
            lane_words: PAYLOAD / 4,
            jobs: 4,
            priorities: 8,
            trim_depth: TRIM_DEPTH,
            transit: 64,
            ..Profile::hardware()
        };
        let plan = plan(config, &profile)?;
        let namespaces = build(config)?;
        let mut processes = Vec::new();
        let mut drivers = Vec::new();
        for switch in 0..=config.racks {
            let (process, driver) = start(config, switch, &profile, &namespaces)?;
            processes.push(process);
            drivers.push(driver);
        }
        let racks = drivers.split_off(1);
        let drivers = drivers.into_iter().map(|driver| Box::new(driver) as Box<dyn SwitchDriver>).collect();
        Ok(Self { drivers, plan, _racks: racks, _processes: processes, namespaces })
    }

    /// A rank's socket in its namespace.
    pub(super) fn worker(&self, rank: usize, payload: u32) -> Result<UdpIo, RunError> {
        let datagram_len_max = header::LEN + payload as usize;
        let udp = UdpConfig { gso: false, gro: false, datagram_len_max, ..UdpConfig::default() };
        let (own, switch) = (rank_address(rank).into(), switch_address(FOLD).into());
        Ok(within(&self.namespaces.name('w', rank), move || UdpIo::connect_from(own, switch, udp))??)
    }

    /// Runs a closure in the namespace of the switch that folds, with the name of the interface to a rack.
    pub(super) fn at_fold<T: Send>(
        &self,
        rack: usize,
        run: impl FnOnce(&str) -> T + Send,
    ) -> Result<T, RunError> {
        within(&self.namespaces.name('s', FOLD), move || run(&format!("p{}", rack + 1)))
    }

    /// The socket of a rack's other host.
    pub(super) fn load(&self, rack: usize) -> Result<std::net::UdpSocket, RunError> {
        let open = move || -> std::io::Result<_> {
            let socket = std::net::UdpSocket::bind(load_address(rack))?;
            socket.connect((*switch_address(FOLD).ip(), DISCARD))?;
            Ok(socket)
        };
        within(&self.namespaces.name('h', rack), open)?.map_err(|error| RunError::Network(Box::new(error)))
    }
}

/// The job at the switch that folds. Ranks of a rack come in by one port of it, and have one each in the plan.
fn plan(config: &TrimConfig, profile: &Profile) -> Result<TreePlan, RunError> {
    let limits = Limits { ports_max: CONTROL_PORT - 1, ..Limits::of(profile, UDP_PORT) };
    let address = Some(SocketAddr::V4(switch_address(FOLD)));
    let site = Site { limits, address, first_slot: 0, first_port: 0, first_group: 1, shared: None };
    let world = config.racks * config.ranks;
    let shape = Shape { above: vec![None], workers: vec![FOLD; world] };
    let ranks: Vec<_> = (0..world).map(|rank| Some(SocketAddr::V4(rank_address(rank)))).collect();
    let job = TreeJob {
        job: 1,
        epoch: 1,
        key: 0x7e57_bed1,
        slots: config.slots * u32::from(CLASSES),
        udp_ports: 1,
    };
    Ok(TreePlan::new(job, &shape, &[site], &ranks)?)
}

/// Namespaces, and pairs of interfaces between them; what leaves a rack for the switch that folds is held to the link's rate.
fn build(config: &TrimConfig) -> Result<NamespaceSet, CommandError> {
    let mut names = NamespaceSet::new();
    for switch in 0..=config.racks {
        names.add('s', switch)?;
        let name = names.name('s', switch);
        command(&format!("ip link add ctl netns {name} type veth peer name p{CONTROL_PORT} netns {name}"))?;
        host(&name, "ctl", controller_address(switch), switch_address(switch), MTU)?;
        command(&format!("ip -n {name} link set p{CONTROL_PORT} up"))?;
    }
    let fold = names.name('s', FOLD);
    let attach = |names: &mut NamespaceSet, rack: usize, kind, number, own: SocketAddrV4, port: u16| {
        names.add(kind, number)?;
        let (end, switch) = (names.name(kind, number), names.name('s', rack + 1));
        command(&format!("ip link add eth0 netns {end} type veth peer name p{port} netns {switch}"))?;
        host(&end, "eth0", own, switch_address(FOLD), MTU)?;
        command(&format!("ip -n {switch} link set p{port} up"))
    };
    for rack in 0..config.racks {
        for index in 0..config.ranks {
            let rank = rack * config.ranks + index;
            attach(&mut names, rack, 'w', rank, rank_address(rank), index as u16 + 1)?;
        }
        attach(&mut names, rack, 'h', rack, load_address(rack), LOAD)?;
        let (name, at_fold) = (names.name('s', rack + 1), rack + 1);
        command(&format!("ip link add p{UPLINK} netns {name} type veth peer name p{at_fold} netns {fold}"))?;
        command(&format!("ip -n {name} link set p{UPLINK} up"))?;
        command(&format!("ip -n {fold} link set p{at_fold} up"))?;
        let rate = config.rate;
        command(&format!(
            "ip netns exec {name} tc qdisc add dev p{UPLINK} root tbf rate {rate}bit burst 4kb limit {HELD_BYTES}"
        ))?;
    }
    Ok(names)
}

const MTU: usize = 1500;

/// Starts a switch and gives it the program, and, in a rack, the addresses to forward to.
fn start(
    config: &TrimConfig,
    switch: usize,
    profile: &Profile,
    namespaces: &NamespaceSet,
) -> Result<(Bmv2, P4RuntimeDriver), RunError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| RunError::Bmv2 { switch, source };
    let ports: Vec<u16> = match switch {
        FOLD => (1..=config.racks as u16).chain([CONTROL_PORT]).collect(),
        _ => (1..=config.ranks as u16).chain([UPLINK, LOAD, CONTROL_PORT]).collect(),
    };
    let interfaces = ports.iter().map(|port| (*port, format!("p{port}"))).collect();
    let namespace = namespaces.name('s', switch);
    let process = Bmv2Config { interfaces, namespace: Some(namespace.clone()), ..Bmv2Config::default() };
    let process = Bmv2::start(process).map_err(|error| failed(error.into()))?;
    let program = allreduce::program(profile)?;
    let compiled = compile(&program).map_err(|error| failed(error.into()))?;
    let ranks = config.ranks;
    let neighbours = move |peer: SocketAddrV4| {
        let rank = (0..RANKS_EVER).find(|rank| rank_address(*rank) == peer)?;
        Some(PeerPort { port: (rank / ranks) as u16 + 1, mac: mac(*peer.ip()) })
    };
    let own = switch_address(switch);
    let mut driver = DriverConfig::new(profile.clone(), CONTROL_PORT, Box::new(neighbours));
    driver.switch = Address { mac: mac(*own.ip()), ip: own.ip().to_bits(), port: own.port() };
    let local = SocketAddr::V4(SocketAddrV4::new(*controller_address(switch).ip(), 0));
    let control = within(&namespace, || UdpControlPort::connect(local, SocketAddr::V4(own)))?;
    let control = Box::new(control.map_err(|error| RunError::Network(Box::new(error)))?);
    let client = Client::connect(process.p4runtime(), ClientConfig::default());
    let client = client.map_err(|error| failed(error.into()))?;
    let driver = P4RuntimeDriver::start(client, &program, compiled.json.clone(), driver, control);
    let mut driver = driver.map_err(|error| failed(error.into()))?;
    if let Some(rack) = switch.checked_sub(1) {
        let up = transit::entry(switch_address(FOLD).ip().to_bits(), UPLINK);
        let down = (0..ranks)
            .map(|index| transit::entry(rank_address(rack * ranks + index).ip().to_bits(), index as u16 + 1));
        let entries: Vec<_> = down.chain([up]).collect();
        driver.insert(&entries).map_err(|error| failed(error.into()))?;
    }
    Ok((process, driver))
}

const RANKS_EVER: usize = super::RACKS_MAX * super::RANKS_MAX;
