//! Configuration of queues.

use std::collections::BTreeMap;

/// Maximum queues of one port, without that of control packets.
pub const QUEUES_MAX: usize = 8;

/// Header classes: `class` has 4 bits.
pub const CLASSES: usize = netfold_wire::CLASSES_MAX as usize;

/// Ports that can have queues: numbers below this.
pub const PORTS_MAX: usize = 1 << 12;

/// Maximum memory for packets, in bytes: offsets in it have 32 bits.
const MEMORY_MAX: usize = 1 << 31;

/// Maximum burst of a port's rate, in bytes.
const BURST_MAX: u32 = 1 << 30;

/// What surrounds the Netfold header in queued packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// Nothing: the transport owns the outer headers. Marks are the header's flag `congestion`.
    #[default]
    Datagram,
    /// Ethernet, IPv4 without options and UDP. Marks are CE in the IPv4 header, if the sender supports ECN.
    Ethernet,
}

/// The queues of a switch.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueConfig {
    /// Outer headers of the packets.
    pub framing: Framing,
    /// Memory for packets of all ports, in bytes. A packet takes a cell of the longest packet's size, however short it is.
    pub memory_bytes: usize,
    /// Seed of the random marks.
    pub seed: u64,
    /// Every port that is not in [`Self::ports`].
    pub port: PortConfig,
    /// Ports that differ, by number.
    pub ports: BTreeMap<u16, PortConfig>,
    /// When the switch stops receiving packets; `None`: never.
    pub pause: Option<Pause>,
}

/// The queues of one port.
#[derive(Debug, Clone, PartialEq)]
pub struct PortConfig {
    /// Rate at which the port sends; `None`: as fast as it accepts packets.
    pub rate: Option<Rate>,
    /// The queue of each header class.
    pub queue_of: [u8; CLASSES],
    /// The queues, 1 to [`QUEUES_MAX`].
    pub queues: Vec<ClassConfig>,
    /// Maximum bytes in the queue of control packets, which precedes all others: trimmed packets, STALE, REJECT, PROBE and
    /// ADVANCE.
    pub control_bytes_max: u32,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Bits per second of packets as they are queued: outer headers that the transport adds do not count.
    pub bits_per_second: u64,
    /// Bytes that may leave at once after a pause; at least the longest packet.
    pub burst_bytes: u32,
}

impl Rate {
    /// A rate with a burst of 1 ms, but at least 16 KiB: a process cannot wake up more precisely.
    #[must_use]
    pub fn of(bits_per_second: u64) -> Self {
        let burst = (bits_per_second / 8000).clamp(16 << 10, u64::from(BURST_MAX));
        Self { bits_per_second, burst_bytes: burst as u32 }
    }
}

/// One queue of a port.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassConfig {
    /// Queues of higher priority are served first, strictly.
    pub priority: u8,
    /// Weight among queues of the same priority, 1 to 255.
    pub weight: u8,
    /// Maximum bytes in it; further packets are dropped.
    pub bytes_max: u32,
    /// Bytes above which droppable data is cut to its header; `None`: never.
    pub trim_above: Option<u32>,
    /// Marking; `None`: never.
    pub ecn: Option<Ecn>,
    /// When the senders of its classes are asked to pause: by the bytes in this queue. `None`: never. Classes of one
    /// [priority](netfold_wire::priority_of) must have the same queue then.
    pub pause: Option<Pause>,
}

impl Default for ClassConfig {
    fn default() -> Self {
        Self { priority: 0, weight: 1, bytes_max: 1 << 20, trim_above: None, ecn: None, pause: None }
    }
}

/// Marking by the bytes in a queue when a packet is enqueued: never up to `k_min`, with a probability that rises to `p_max` at
/// `k_max`, and always above (DCQCN, SIGCOMM 2015, section 3.1). Equal thresholds are DCTCP's step (RFC 8257).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ecn {
    /// Bytes up to which no packet is marked.
    pub k_min: u32,
    /// Bytes above which every packet is.
    pub k_max: u32,
    /// Probability of a mark at `k_max`, 0 to 1.
    pub p_max: f64,
}

/// When something is paused, and when it resumes. Of a switch: when it stops receiving packets, of all ports and classes together. Of a queue: when
/// senders are asked to pause the priorities of its classes (PFC). Memory and queues need headroom for what still arrives: a burst
/// with all its copies, and of senders at the other end of a link what they send in a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Bytes above which it pauses.
    pub above: usize,
    /// Bytes at or below which it resumes; not above `above`.
    pub resume_at: usize,
}

impl Default for PortConfig {
    /// One queue for all classes, without rate, marking or trimming.
    fn default() -> Self {
        Self {
            rate: None,
            queue_of: [0; CLASSES],
            queues: vec![ClassConfig::default()],
            control_bytes_max: 256 << 10,
        }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            framing: Framing::Datagram,
            memory_bytes: 16 << 20,
            seed: 1,
            port: PortConfig::default(),
            ports: BTreeMap::new(),
            pause: None,
        }
    }
}

/// An invalid configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueConfigError {
    /// A number out of range.
    #[error("{name} is {value}; it must be {allowed}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The permitted range.
        allowed: String,
    },
    /// A probability out of range.
    #[error("p_max must be between 0 and 1")]
    Probability,
    /// Classes of one priority have several queues, of which one asks for pauses.
    #[error(
        "classes {first} and {second} have one priority, which queue {queue} pauses: they must use the same queue"
    )]
    Priority {
        /// The first of the classes.
        first: usize,
        /// The second.
        second: usize,
        /// The queue.
        queue: u8,
    },
    /// Queues ask for pauses, and the packet I/O has no way to ask.
    #[error(
        "a queue pauses its classes, which {0} cannot ask for: links of Ethernet frames and rings in memory can"
    )]
    PauseUnsupported(&'static str),
    /// A class has no queue.
    #[error("class {class} uses queue {queue}; the number of queues is {queues}")]
    Class {
        /// The header's class.
        class: usize,
        /// The queue it is sent to.
        queue: u8,
        /// Queues of the port.
        queues: usize,
    },
    /// An error in the configuration of a port.
    #[error("port {0}")]
    Port(u16, #[source] Box<QueueConfigError>),
}

fn within(name: &'static str, value: u64, min: u64, max: u64) -> Result<(), QueueConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(QueueConfigError::Range { name, value, allowed: format!("{min} to {max}") })
}

impl QueueConfig {
    /// Validates every number for packets of at most `packet_len_max` bytes.
    ///
    /// # Errors
    ///
    /// [`QueueConfigError`] for the first number that is out of range.
    pub fn check(&self, packet_len_max: usize) -> Result<(), QueueConfigError> {
        let min = (packet_len_max as u64).max(1);
        within("memory_bytes", self.memory_bytes as u64, min, MEMORY_MAX as u64)?;
        self.port.check(packet_len_max)?;
        for (port, config) in &self.ports {
            let checked = within("port", u64::from(*port), 0, PORTS_MAX as u64 - 1);
            checked
                .and_then(|()| config.check(packet_len_max))
                .map_err(|error| QueueConfigError::Port(*port, Box::new(error)))?;
        }
        if let Some(pause) = self.pause {
            within("pause.above", pause.above as u64, 1, self.memory_bytes as u64)?;
            within("pause.resume_at", pause.resume_at as u64, 0, pause.above as u64)?;
        }
        Ok(())
    }
}

impl QueueConfig {
    /// Whether any queue of any port asks senders to pause.
    pub(crate) fn pauses_classes(&self) -> bool {
        self.port.pauses() || self.ports.values().any(PortConfig::pauses)
    }
}

impl PortConfig {
    /// A slow port: one queue of up to 1 MiB, marked above what leaves in a burst ([`Rate::of`]).
    #[must_use]
    pub fn slow(bits_per_second: u64) -> Self {
        let rate = Rate::of(bits_per_second);
        let ecn = Some(Ecn { k_min: rate.burst_bytes, k_max: rate.burst_bytes, p_max: 1.0 });
        let class = ClassConfig { ecn, ..ClassConfig::default() };
        Self { rate: Some(rate), queues: vec![class], ..Self::default() }
    }

    /// A port whose queues differ only in priority: class `c` uses queue `c` times `queues` / 16, and higher numbers are served
    /// first.
    #[must_use]
    pub fn strict(queues: u8, class: &ClassConfig) -> Self {
        let queues = queues.clamp(1, QUEUES_MAX as u8);
        Self {
            queue_of: std::array::from_fn(|c| (c * usize::from(queues) / CLASSES) as u8),
            queues: (0..queues).map(|priority| ClassConfig { priority, ..class.clone() }).collect(),
            ..Self::default()
        }
    }

    /// Whether any queue asks senders to pause.
    fn pauses(&self) -> bool {
        self.queues.iter().any(|queue| queue.pause.is_some())
    }

    fn check(&self, packet_len_max: usize) -> Result<(), QueueConfigError> {
        within("queues", self.queues.len() as u64, 1, QUEUES_MAX as u64)?;
        for (class, queue) in self.queue_of.iter().copied().enumerate() {
            if usize::from(queue) >= self.queues.len() {
                return Err(QueueConfigError::Class { class, queue, queues: self.queues.len() });
            }
        }
        if let Some(rate) = self.rate {
            within("rate.bits_per_second", rate.bits_per_second, 1, 1 << 42)?;
            let burst = u64::from(rate.burst_bytes);
            within("rate.burst_bytes", burst, packet_len_max as u64, u64::from(BURST_MAX))?;
        }
        self.check_priorities()?;
        self.queues.iter().try_for_each(ClassConfig::check)
    }
}

impl PortConfig {
    /// Checks that a pause of a queue's classes does not pause those of another.
    fn check_priorities(&self) -> Result<(), QueueConfigError> {
        for first in 0..CLASSES {
            let priority = netfold_wire::priority_of(first as u8);
            for second in first + 1..CLASSES {
                let queues = [self.queue_of[first], self.queue_of[second]];
                let pausing =
                    queues.into_iter().find(|queue| self.queues[usize::from(*queue)].pause.is_some());
                if let Some(queue) = pausing
                    && queues[0] != queues[1]
                    && netfold_wire::priority_of(second as u8) == priority
                {
                    return Err(QueueConfigError::Priority { first, second, queue });
                }
            }
        }
        Ok(())
    }
}

impl ClassConfig {
    fn check(&self) -> Result<(), QueueConfigError> {
        within("weight", u64::from(self.weight), 1, 255)?;
        if let Some(ecn) = self.ecn {
            within("ecn.k_min", u64::from(ecn.k_min), 0, u64::from(ecn.k_max))?;
            if !(0.0..=1.0).contains(&ecn.p_max) {
                return Err(QueueConfigError::Probability);
            }
        }
        if let Some(pause) = self.pause {
            within("pause_above", pause.above as u64, 1, u64::from(self.bytes_max))?;
            within("resume_at", pause.resume_at as u64, 0, pause.above as u64)?;
        }
        Ok(())
    }
}
