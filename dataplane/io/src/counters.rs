//! Counters that every backend keeps.

/// What a backend has done since it was opened. Fields that a backend has no use for stay 0; middleware adds its own
/// to those of the backend it wraps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoCounters {
    /// Datagrams handed to the caller.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Datagrams taken from the caller and passed on.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Datagrams dropped because their source is not bound to a port.
    pub unknown_source: u64,
    /// Datagrams dropped because they are longer than `datagram_len_max` or the batch's whole memory.
    pub truncated: u64,
    /// Datagrams taken from the caller for a port without a peer, and dropped.
    pub unbound_port: u64,
    /// Datagrams dropped because of their headers: a wrong checksum or length, a fragment, IP options. Where the kernel reads
    /// headers, it drops such datagrams itself and they are not counted here.
    pub malformed: u64,
    /// Datagrams taken from the caller for a peer whose Ethernet address was not resolved, and dropped.
    pub unresolved: u64,
    /// Datagrams taken from the caller that the system then failed to send (no route, filtered, no buffers).
    pub tx_failed: u64,
    /// Datagrams or frames that arrived and were dropped below us, because a socket's buffer or a ring was full (or a checksum wrong). Kept by
    /// the system, for which datagrams that it has coalesced may be one; 0 where it does not say.
    pub rx_dropped: u64,
    /// Datagrams that arrived by a queue of another thread, where several threads share an interface ([`link::XdpQueues`](crate::link)) or a device
    /// of DPDK.
    pub rx_crossed: u64,
    /// "Connection refused" reports: no socket listens at the peer's address at the moment.
    pub refused: u64,
    /// Calls of `transmit` that took fewer packets than offered.
    pub backpressure: u64,
    /// System calls made to receive.
    pub rx_calls: u64,
    /// System calls made to send.
    pub tx_calls: u64,
    /// Times that `wait` went to sleep.
    pub sleeps: u64,
    /// GSO packets: runs of datagrams that the kernel was asked to segment.
    pub gso_runs: u64,
    /// Received super-buffers that held more than one datagram (GRO).
    pub gro_runs: u64,
    /// Packets that could not be written to a capture. The capture ends at the first.
    pub capture_failed: u64,
    /// Packets that fault injection dropped (lost, or corrupted in a way that the checksum shows).
    pub fault_dropped: u64,
    /// MAC control frames received that are no valid requests to pause priorities, and had no effect.
    pub pause_ignored: u64,
    /// Datagrams dropped because they had no tag, or not the right one, on a port that has keys ([`Authenticated`](crate::Authenticated)).
    pub unauthenticated: u64,
}

impl IoCounters {
    /// Adds what another backend has counted, such as another queue of the same switch.
    pub fn add(&mut self, other: &Self) {
        // Named one by one, so that a new counter cannot be forgotten.
        let Self {
            rx_packets,
            rx_bytes,
            tx_packets,
            tx_bytes,
            unknown_source,
            truncated,
            unbound_port,
            malformed,
            unresolved,
            tx_failed,
            rx_dropped,
            rx_crossed,
            refused,
            backpressure,
            rx_calls,
            tx_calls,
            sleeps,
            gso_runs,
            gro_runs,
            capture_failed,
            fault_dropped,
            pause_ignored,
            unauthenticated,
        } = self;
        *rx_packets += other.rx_packets;
        *rx_bytes += other.rx_bytes;
        *tx_packets += other.tx_packets;
        *tx_bytes += other.tx_bytes;
        *unknown_source += other.unknown_source;
        *truncated += other.truncated;
        *unbound_port += other.unbound_port;
        *malformed += other.malformed;
        *unresolved += other.unresolved;
        *tx_failed += other.tx_failed;
        *rx_dropped += other.rx_dropped;
        *rx_crossed += other.rx_crossed;
        *refused += other.refused;
        *backpressure += other.backpressure;
        *rx_calls += other.rx_calls;
        *tx_calls += other.tx_calls;
        *sleeps += other.sleeps;
        *gso_runs += other.gso_runs;
        *gro_runs += other.gro_runs;
        *capture_failed += other.capture_failed;
        *fault_dropped += other.fault_dropped;
        *pause_ignored += other.pause_ignored;
        *unauthenticated += other.unauthenticated;
    }
}
