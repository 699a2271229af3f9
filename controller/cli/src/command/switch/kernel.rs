//! A switch whose program the kernel runs: its control port, in this process.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_controller::admission::Config;
use netfold_controller::{JobEvent, Plane, Server, ServerError, ServerHandle};
use netfold_embedded::epoch_floor;
use netfold_io::IoSpec;
use netfold_io::link::{InterfaceInfo, interfaces};
use netfold_io::spec::{KernelMode, KernelSpec};
use netfold_listener::ListenerCounters;
use netfold_p4::allreduce::{self, Address};
use netfold_p4::ir::Program;
use netfold_p4::p4info::counter_id;
use netfold_p4::profile::{Numerics, Profile};
use netfold_southbound::xdp::{Neighbours, SharedDatapath, XdpDriver};
use netfold_switch::{PipelineInfo, SwitchCounters};
use netfold_wire::{Dscp, Reason, UDP_PORT};
use netfold_xdp::{Datapath, Hook, XdpError, detach_pinned};

use super::{EngineChoice, PAYLOAD, SwitchCommand};
use crate::error::CliError;
use crate::output::Output;

/// Between two looks for the interfaces.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the workers of a pinned program go on when this process is killed.
const PINNED_GRACE: Duration = Duration::from_secs(30);

/// Configuration of a switch in the kernel.
pub(super) struct KernelConfig<'a> {
    pub(super) interfaces: &'a KernelSpec,
    /// Where the control port listens, if the address is not that of the loopback interface.
    pub(super) listen: SocketAddr,
    pub(super) payload: u32,
    pub(super) numerics: Numerics,
    pub(super) slots: Option<u32>,
    pub(super) join_timeout: Duration,
    pub(super) congestion: netfold_control::CongestionAlgorithm,
    pub(super) pin: Option<&'a Path>,
}

/// A program on interfaces, and its control port. Dropping it takes the program off them.
pub(super) struct KernelSwitch {
    /// Dropped before the program.
    server: Option<ServerHandle>,
    datapath: SharedDatapath,
    info: PipelineInfo,
    address: Ipv4Addr,
    /// Name and number of each, in the order of ports.
    interfaces: Vec<(String, u32)>,
    modes: Vec<KernelMode>,
    /// When the interfaces were last looked for.
    checked: Cell<Instant>,
    pinned: Option<PathBuf>,
}

fn refused(error: XdpError) -> CliError {
    CliError::Kernel(Box::new(error))
}

impl KernelSwitch {
    /// Loads the program, puts it on the interfaces, and opens the control port.
    pub(super) fn start(
        config: &KernelConfig<'_>,
        on_event: impl FnMut(&JobEvent) + Send + 'static,
    ) -> Result<Self, CliError> {
        let (profile, program) = config.program()?;
        let ports = config.ports()?;
        let (address, mac) = config.address(&ports)?;
        let has_files = |folder: &&Path| folder.read_dir().is_ok_and(|mut files| files.next().is_some());
        if let Some(folder) = config.pin.filter(has_files) {
            return Err(CliError::Usage(format!(
                "--pin {0} has files already: `netfold switch detach {0}` takes a pinned program off its interfaces",
                folder.display()
            )));
        }
        let program = Arc::new(program);
        let info = PipelineInfo::of(&program);
        let mut datapath = Datapath::new(program).map_err(refused)?;
        let mut modes = Vec::with_capacity(ports.len());
        for (port, interface) in (1..).zip(&ports) {
            let mode = config.mode(&interface.name);
            let hook = if mode == KernelMode::Native { Hook::Driver } else { Hook::Generic };
            datapath.set_port(port, interface.index).map_err(refused)?;
            datapath.attach(interface.index, hook).map_err(refused)?;
            modes.push(mode);
        }
        let datapath = SharedDatapath::new(datapath);
        let own = Address {
            mac: mac.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte)),
            ip: address.to_bits(),
            port: UDP_PORT,
        };
        let interfaces: Vec<_> =
            ports.into_iter().map(|interface| (interface.name, interface.index)).collect();
        let places = interfaces.iter().map(|(name, _)| name.clone()).zip(1..).collect();
        let driver = XdpDriver::new(datapath.clone(), profile, own, Box::new(Neighbours::new(places)));
        let driver = driver.map_err(|error| CliError::Kernel(Box::new(error)))?;
        let mut switch = Self {
            server: None,
            datapath,
            info,
            address,
            interfaces,
            modes,
            checked: Cell::new(Instant::now()),
            pinned: None,
        };
        if let Some(folder) = config.pin {
            switch.datapath.lock().pin(folder).map_err(refused)?;
            switch.pinned = Some(folder.to_owned());
        }
        switch.server = Some(
            config.control_port(address, driver)?.on_event(on_event).spawn().map_err(CliError::Control)?,
        );
        Ok(switch)
    }

    /// Properties of the program.
    pub(super) fn info(&self) -> &PipelineInfo {
        &self.info
    }

    /// UDP address of the data path.
    pub(super) fn data(&self) -> SocketAddr {
        SocketAddr::from((self.address, UDP_PORT))
    }

    /// TCP address of the control port.
    pub(super) fn control(&self) -> SocketAddr {
        self.server.as_ref().map_or(self.data(), ServerHandle::local_addr)
    }

    /// Counters of the control port's connections that are no sessions yet.
    pub(super) fn listener(&self) -> Option<Arc<ListenerCounters>> {
        self.server.as_ref().map(|server| server.control().listener())
    }

    /// Whether the control port has ended, which means that it failed, or an interface was removed.
    pub(super) fn is_finished(&self) -> bool {
        let ended = self.server.as_ref().is_none_or(ServerHandle::is_finished);
        if ended || self.checked.get().elapsed() < CHECK_INTERVAL {
            return ended;
        }
        self.checked.set(Instant::now());
        self.removed().is_some()
    }

    /// An interface that was removed, and the program with it.
    fn removed(&self) -> Option<&str> {
        let known = interfaces();
        let is_there = |(_, index): &&(String, u32)| known.iter().any(|found| found.index == *index);
        self.interfaces.iter().find(|interface| !is_there(interface)).map(|(name, _)| name.as_str())
    }

    /// What the program has counted. Packets that it sends, and bytes, are not counted.
    pub(super) fn counters(&self) -> SwitchCounters {
        let datapath = self.datapath.lock();
        let packets = datapath.counters(counter_id(allreduce::id::PACKETS));
        let answers = datapath.counters(counter_id(allreduce::id::ANSWERS));
        let mut counters = SwitchCounters {
            packets: Reason::ALL.iter().map(|reason| reason.name()).zip(packets.iter().copied()).collect(),
            results: answers.first().copied().unwrap_or(0),
            repeated: answers.get(1).copied().unwrap_or(0),
            ..SwitchCounters::default()
        };
        counters.io.rx_packets = packets.iter().sum();
        counters
    }

    /// Prints on which interfaces it is, and how.
    pub(super) fn show_interfaces(&self, output: &Output) -> Result<(), CliError> {
        for (port, ((name, _), mode)) in (1..).zip(self.interfaces.iter().zip(&self.modes)) {
            let why = match mode {
                KernelMode::Native => "in the driver",
                KernelMode::Generic => "behind the driver (generic mode)",
            };
            output.line(format_args!("  port {port:<4} {name}, {why}"))?;
        }
        match &self.pinned {
            Some(folder) => output.line(format_args!("  pinned    {}", folder.display())),
            None => Ok(()),
        }
    }

    /// Ends all jobs, takes the program off the interfaces, and returns its counters.
    pub(super) fn stop(mut self) -> Result<SwitchCounters, CliError> {
        let served = self.server.take().map_or(Ok(()), ServerHandle::shutdown);
        let counters = self.counters();
        let removed =
            self.removed().map(|name| format!("interface '{name}' was removed, and the program with it"));
        if let Some(folder) = self.pinned.take() {
            detach_pinned(&folder).map_err(refused)?;
        }
        served.map_err(CliError::Control)?;
        removed.map_or(Ok(counters), |message| Err(CliError::Kernel(message.into())))
    }
}

impl KernelConfig<'_> {
    fn program(&self) -> Result<(Profile, Program), CliError> {
        let mut profile = Profile::kernel(self.payload / 4, self.numerics);
        let max = profile.slots;
        if let Some(slots) = self.slots {
            if !slots.is_power_of_two() || slots > max {
                return Err(CliError::Usage(format!(
                    "--slots {slots} does not fit: a power of two up to {max}"
                )));
            }
            profile.slots = slots;
        }
        let program = allreduce::program(&profile).map_err(|error| CliError::Profile(error.to_string()))?;
        Ok((profile, program))
    }

    /// The interfaces, in the order of their ports.
    fn ports(&self) -> Result<Vec<InterfaceInfo>, CliError> {
        let known = interfaces();
        let find = |name: &String| {
            let found = known.iter().find(|interface| interface.name == *name);
            found.cloned().ok_or_else(|| {
                CliError::Usage(format!(
                    "--io: there is no interface '{name}'; `ip link` lists those that there are"
                ))
            })
        };
        self.interfaces.interfaces.iter().map(find).collect()
    }

    /// The switch's IPv4 and Ethernet address.
    fn address(&self, ports: &[InterfaceInfo]) -> Result<(Ipv4Addr, [u8; 6]), CliError> {
        let usage = |message: String| CliError::Usage(message);
        let of_listen = match self.listen.ip() {
            IpAddr::V4(ip) if !ip.is_unspecified() && !ip.is_loopback() => Some(ip),
            _ => None,
        };
        let first = ports.iter().flat_map(|interface| &interface.ipv4).map(|(ip, _)| *ip).next();
        let address = self.interfaces.address.or(of_listen).or(first).ok_or_else(|| {
            usage("--io: none of the interfaces has an IPv4 address: give one (`ip addr add`), or name one by ,address=IP".into())
        })?;
        let has = |interface: &&InterfaceInfo| interface.ipv4.iter().any(|(ip, _)| *ip == address);
        let at = ports.iter().find(has).or(ports.first());
        let mac = at.and_then(|interface| interface.mac.filter(|mac| *mac != [0; 6]));
        let mac = mac.ok_or_else(|| {
            usage(format!("--io: '{}' is no Ethernet interface", at.map_or("", |interface| &interface.name)))
        })?;
        Ok((address, mac))
    }

    /// Where the program runs. Drivers of devices mostly run it; virtual interfaces send redirected frames only if their other end is prepared
    /// for them, and drop them silently otherwise.
    fn mode(&self, interface: &str) -> KernelMode {
        let is_device = || Path::new("/sys/class/net").join(interface).join("device").exists();
        self.interfaces
            .mode
            .unwrap_or_else(|| if is_device() { KernelMode::Native } else { KernelMode::Generic })
    }

    fn control_port(&self, address: Ipv4Addr, driver: XdpDriver) -> Result<Server, CliError> {
        let ip = if self.listen.ip().is_loopback() { IpAddr::V4(address) } else { self.listen.ip() };
        let mut config = Config::new(epoch_floor());
        config.join_timeout = self.join_timeout;
        config.congestion = self.congestion;
        if self.pin.is_some() {
            (config.grace, config.away) = (PINNED_GRACE, PINNED_GRACE);
        }
        let mut plane = Plane::own(Box::new(driver));
        plane.switches.iter_mut().for_each(|switch| switch.data = Some((address, UDP_PORT).into()));
        Server::over(SocketAddr::new(ip, self.listen.port()), config, plane).map_err(|error| match error {
            ServerError::Bind { address, source } => CliError::listen(address, source),
            error => CliError::Control(error),
        })
    }
}

impl SwitchCommand {
    /// The configuration, if the kernel is to run the program.
    pub(super) fn kernel(&self) -> Result<Option<KernelConfig<'_>>, CliError> {
        let Some(interfaces) = self.io.iter().find_map(|io| match io {
            IoSpec::XdpKernel(interfaces) => Some(interfaces),
            _ => None,
        }) else {
            return match &self.pin {
                Some(_) => Err(CliError::Usage("--pin is for --io xdp-kernel:IFACE".into())),
                None => Ok(None),
            };
        };
        let inapplicable = [
            (self.io.len() > 1, "--io a second time: name several interfaces with + between them"),
            (self.threads != 1, "--threads"),
            (self.cores.is_some(), "--cores"),
            (self.busy_poll > 0, "--busy-poll"),
            (self.payload.len() > 1, "several payloads"),
            (self.program.is_some(), "--program"),
            (self.engine != EngineChoice::Auto, "--engine"),
            (self.p4.address.is_some(), "--p4runtime"),
            (self.egress.is_given(), "--egress, --port-rate and other queues"),
            (self.pcap.is_some(), "--pcap"),
            (!self.faults().rx.is_none() || !self.faults().tx.is_none(), "--loss or --faults"),
            (self.dscp != Dscp::NONE, "--dscp"),
        ];
        if let Some((_, option)) = inapplicable.iter().find(|(given, _)| *given) {
            return Err(CliError::Usage(format!(
                "--io xdp-kernel takes no {option}: packets do not pass through this process"
            )));
        }
        Ok(Some(KernelConfig {
            interfaces,
            listen: self.listen,
            payload: self.payload.first().copied().unwrap_or(PAYLOAD),
            numerics: self.numerics.unwrap_or(Numerics::Word),
            slots: self.slots,
            join_timeout: Duration::from_secs(self.join_timeout),
            congestion: self.congestion,
            pin: self.pin.as_deref(),
        }))
    }
}

/// Takes a pinned program off its interfaces.
pub(super) fn detach(folder: &Path, output: &Output) -> Result<(), CliError> {
    let interfaces = detach_pinned(folder).map_err(refused)?;
    let s = if interfaces == 1 { "" } else { "s" };
    output.line(format_args!("the program is off {interfaces} interface{s}"))
}
