//! What carries the packets, and a switch on it that holds one job.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::thread::JoinHandle;

use netfold::Admission;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{IoError, PacketIo, PortId, loopback};
use netfold_p4::allreduce::{Child, Node, job_entries, node_entries};
use netfold_p4::entry::Replica;
use netfold_switch::{Handle, Switch, SwitchCounters, datagram_pipeline};
use netfold_wire::header;

use super::{AllReduceConfig, BenchError};

/// The benchmark's job, the only one on this switch.
const JOB: u16 = 1;
const EPOCH: u32 = 1;
const KEY: u32 = 0x6265_6e63;
const GROUP: u16 = 1;

/// Datagrams that fit a ring of the loopback transport. Enough to keep both sides busy, few enough to stay in the cache.
const RING_LEN: usize = 512;

/// What carries the packets between workers and switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Rings in the memory of the process.
    Loopback,
    /// UDP sockets on the loopback interface.
    Udp,
}

impl Transport {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Udp => "udp",
        }
    }
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Loopback, Self::Udp]
            .into_iter()
            .find(|transport| transport.name() == text)
            .ok_or_else(|| format!("unknown transport '{text}': expected loopback or udp"))
    }
}

/// One end of a transport.
pub(super) type End = Box<dyn PacketIo>;

/// The middle of a star and its arms: the middle sees arm i as port i.
pub(super) fn star(config: &AllReduceConfig) -> Result<(End, Vec<End>), IoError> {
    let datagram_len_max = header::LEN + config.payload_bytes as usize;
    let workers = usize::from(config.workers);
    match config.transport {
        Transport::Loopback => {
            let (hub, spokes) = loopback::star(workers, RING_LEN, datagram_len_max);
            Ok((Box::new(hub), spokes.into_iter().map(|spoke| Box::new(spoke) as End).collect()))
        }
        Transport::Udp => {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let udp = UdpConfig { datagram_len_max, ..UdpConfig::default() };
            let mut hub = UdpIo::bind(any, udp)?;
            let address = hub.local_addr().ok_or(IoError::Unsupported("asking for its address"))?;
            let mut spokes: Vec<End> = Vec::with_capacity(workers);
            for port in 0..config.workers {
                let spoke = UdpIo::connect_from(any, address, udp)?;
                let peer = spoke.local_addr().ok_or(IoError::Unsupported("asking for its address"))?;
                hub.bind_port(PortId(port), peer)?;
                spokes.push(Box::new(spoke));
            }
            Ok((Box::new(hub), spokes))
        }
    }
}

/// A switch on a thread of its own that has admitted one job. Stops when dropped.
pub(super) struct LocalSwitch {
    handle: Handle,
    thread: Option<JoinHandle<Result<SwitchCounters, IoError>>>,
    admission: Admission,
}

impl LocalSwitch {
    /// Starts a switch and returns the workers' ends of its transport, by rank.
    pub(super) fn start(config: &AllReduceConfig) -> Result<(Self, Vec<End>), BenchError> {
        let pipeline =
            datagram_pipeline(config.payload_bytes).ok_or(BenchError::Payload(config.payload_bytes))?;
        let (hub, spokes) = star(config)?;
        let hub: End = if config.loss > 0.0 {
            Box::new(Faulty::new(hub, FaultConfig::with_loss(config.seed, config.loss)))
        } else {
            hub
        };
        let switch = Switch::new(pipeline, hub);
        let handle = switch.handle();
        let thread = std::thread::Builder::new()
            .name("netfold-switch".into())
            .spawn(move || switch.run())
            .map_err(|_| BenchError::SwitchGone)?;
        let mut running = Self {
            handle,
            thread: Some(thread),
            admission: Admission {
                congestion: config.congestion,
                ..Admission::new(
                    (JOB, EPOCH, KEY),
                    config.slots,
                    config.payload_bytes / 4,
                    u32::MAX >> (u32::BITS - u32::from(config.workers)),
                )
            },
        };
        running.admission.first_chunk = running.admit(config)?;
        Ok((running, spokes))
    }

    /// The workers' admissions.
    pub(super) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Moves the slots on, admits the job and returns its first chunk number.
    fn admit(&self, config: &AllReduceConfig) -> Result<u32, BenchError> {
        let (slots, world) = (config.slots, config.workers);
        let node = Node {
            job: JOB,
            epoch: EPOCH,
            key: KEY,
            base: 0,
            slots,
            children: world as u8,
            workers: world,
            world,
            group: GROUP,
            parent: None,
            shift: None,
            bounded_loss: true,
            owners: true,
        };
        let mut entries = node_entries(&node);
        for rank in 0..world {
            entries
                .extend(job_entries(&node, &Child { port: rank, source: 0, rank: rank as u8, behind: None }));
        }
        let replicas: Vec<Replica> = (0..world).map(|port| Replica { port, instance: port + 1 }).collect();
        let first = self
            .handle
            .call(move |core| {
                let newest = core.advance(0, slots, 1)?;
                core.set_group(GROUP, &replicas)?;
                core.insert(&entries)?;
                Ok(newest.wrapping_add(1))
            })
            .map_err(|_| BenchError::SwitchGone)?;
        first.map_err(BenchError::Admission)
    }
}

impl Drop for LocalSwitch {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported on standard error, and the workers saw the switch go.
            let _ = thread.join();
        }
    }
}
