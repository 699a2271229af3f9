//! What every kind of switch gives a run: control of the switches, the workers' ends of the links, and counters.

use std::fmt;
use std::str::FromStr;

use netfold_controller::SwitchDriver;
use netfold_io::PacketIo;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_switch::QueuesCounters;

use super::layout::Placed;
use super::{RunConfig, RunError};

/// What carries the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// The best that the kind of switch and the machine allow.
    Auto,
    /// Rings in the memory of the process.
    Rings,
    /// UDP sockets on the loopback interface.
    Udp,
    /// Network namespaces joined by pairs of virtual interfaces; needs root.
    Veth,
    /// bmv2's packet server, over gRPC; needs no privilege.
    Grpc,
    /// Packet sockets in network namespaces, a frame a call; needs root, as do the next three.
    AfPacket,
    /// Packet sockets with a receive ring.
    PacketRing,
    /// XDP sockets.
    AfXdp,
    /// DPDK, on its devices over packet sockets; in programs that have DPDK.
    Dpdk,
    /// Rings in shared memory between a switch and the workers beside it, as on one host, and UDP sockets between switches.
    Shm,
    /// The program in the kernel's driver path, on pairs of virtual interfaces in network namespaces; needs root.
    XdpKernel,
}

impl Carrier {
    /// Every carrier.
    pub const ALL: &'static [Self] = &[
        Self::Auto,
        Self::Rings,
        Self::Udp,
        Self::Veth,
        Self::Grpc,
        Self::AfPacket,
        Self::PacketRing,
        Self::AfXdp,
        Self::Dpdk,
        Self::Shm,
        Self::XdpKernel,
    ];

    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Rings => "rings",
            Self::Udp => "udp",
            Self::Veth => "veth",
            Self::Grpc => "grpc",
            Self::AfPacket => "af-packet",
            Self::PacketRing => "packet-ring",
            Self::AfXdp => "af-xdp",
            Self::Dpdk => "dpdk:net_af_packet",
            Self::Shm => "shm",
            Self::XdpKernel => "xdp-kernel",
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Carrier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.iter().copied().find(|carrier| carrier.name() == text);
        let names = || Self::ALL.iter().map(|carrier| carrier.name()).collect::<Vec<_>>().join(", ");
        named.ok_or_else(|| format!("unknown carrier '{text}': expected one of {}", names()))
    }
}

/// What a switch has counted, by cell of its two counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets by [`netfold_wire::Reason`].
    pub packets: Vec<u64>,
    /// Results, results repeated, folds sent up, folds sent up again.
    pub answers: Vec<u64>,
    /// What its queues counted, if it has any.
    pub queues: Option<QueuesCounters>,
    /// Bytes of datagrams that it received and sent, where they are counted.
    pub bytes: Option<(u64, u64)>,
}

/// Keeps the switches running, until it is dropped.
pub(super) trait Keeper: Send {
    /// What a switch has counted so far.
    fn counted(&mut self, switch: usize) -> Result<Counted, RunError>;

    /// A switch that has stopped unasked, if that can be seen.
    fn gone(&mut self) -> Option<usize> {
        None
    }
}

/// Running switches that hold no job yet.
pub(super) struct Fabric {
    /// The job, then its groups.
    pub(super) placed: Vec<Placed>,
    pub(super) drivers: Vec<Box<dyn SwitchDriver>>,
    /// The workers' ends of the links, faults included: those of the job by rank, then those of groups.
    pub(super) workers: Vec<Box<dyn PacketIo>>,
    pub(super) keeper: Box<dyn Keeper>,
    /// What carries the packets; not [`Carrier::Auto`].
    pub(super) carrier: Carrier,
    /// Why that one, where there was a choice.
    pub(super) note: Option<String>,
}

/// Puts the run's faults on what one end receives. Every link has its faults at both ends' receivers, so each direction
/// meets them once.
pub(super) fn faulty(io: Box<dyn PacketIo>, config: &RunConfig, end: u64) -> Box<dyn PacketIo> {
    if config.faults.is_none() {
        return io;
    }
    let seed = config.seed ^ (end + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Box::new(Faulty::new(io, FaultConfig { seed, rx: config.faults, ..FaultConfig::default() }))
}
