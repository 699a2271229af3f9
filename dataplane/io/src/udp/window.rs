//! Turning a burst into messages: packets are grouped by destination, and runs of equal length become one message
//! that the kernel cuts into datagrams (GSO).

use crate::{PortId, Transmit};

/// Most packets that are grouped at once.
pub(super) const PACKETS_MAX: usize = 512;
/// Most bytes that are grouped at once, and so the most that must be kept when the socket is full.
pub(super) const BYTES_MAX: usize = 1 << 20;
/// Most datagrams in a run: `UDP_MAX_SEGMENTS` of the kernels that have the fewest.
pub(super) const SEGMENTS_MAX: usize = 64;
/// Most bytes in a run: what an IPv6 packet carries behind its header and UDP's.
pub(super) const RUN_BYTES_MAX: usize = 65_535 - 40 - 8;

/// No next packet.
const END: u16 = u16::MAX;

/// One message: `count` packets of [`Window::pieces`] from `first`, all for `port` and with the same `mark`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) port: PortId,
    pub(super) first: u16,
    pub(super) count: u16,
    /// Length of every datagram but the last, which may be shorter; 0 when there is only one datagram.
    pub(super) segment: u16,
    /// The marks in its IP headers, where they are passed with each message.
    pub(super) mark: u8,
}

/// The packets of one destination, as a list through `next`.
#[derive(Debug)]
struct Chain {
    port: PortId,
    first: u16,
    last: u16,
}

/// The grouping of one burst. Allocates when made and when a port number beyond all before shows up.
#[derive(Debug)]
pub(super) struct Window {
    /// The burst's packets, grouped by port; within a port in the order given.
    pieces: Vec<Transmit>,
    runs: Vec<Run>,
    chains: Vec<Chain>,
    next: Vec<u16>,
    /// Index into `chains` by port number; `END` when the port has none.
    chain_of: Vec<u16>,
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            pieces: Vec::with_capacity(PACKETS_MAX),
            runs: Vec::with_capacity(PACKETS_MAX),
            chains: Vec::with_capacity(PACKETS_MAX),
            next: Vec::with_capacity(PACKETS_MAX),
            chain_of: Vec::new(),
        }
    }

    pub(super) fn pieces(&self) -> &[Transmit] {
        &self.pieces
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Groups as many of `packets` as one window takes, at least one if there is any, and returns how many. Runs are
    /// made of datagrams up to `segment_max` bytes long (0: no runs) of which `mark` says the same.
    pub(super) fn group(
        &mut self,
        packets: &[Transmit],
        segment_max: usize,
        mark: impl Fn(&Transmit) -> u8,
    ) -> usize {
        let count = self.chain(packets);
        self.pieces.clear();
        self.runs.clear();
        for chain in &self.chains {
            self.chain_of[usize::from(chain.port.0)] = END;
            let mut at = chain.first;
            while at != END {
                self.pieces.push(packets[usize::from(at)]);
                at = self.next[usize::from(at)];
            }
        }
        self.cut(0, segment_max, mark);
        count
    }

    /// Cuts the messages from the one at `run` on anew, with a smaller `segment_max`: the kernel refused longer ones.
    pub(super) fn regroup(&mut self, run: usize, segment_max: usize, mark: impl Fn(&Transmit) -> u8) {
        let from = self.runs.get(run).map_or(self.pieces.len(), |run| usize::from(run.first));
        self.runs.truncate(run);
        self.cut(from, segment_max, mark);
    }

    /// Links packets of the same port and returns how many packets were looked at.
    fn chain(&mut self, packets: &[Transmit]) -> usize {
        self.chains.clear();
        self.next.clear();
        let mut bytes = 0;
        for (index, packet) in packets.iter().take(PACKETS_MAX).enumerate() {
            bytes += packet.len as usize;
            if bytes > BYTES_MAX && index > 0 {
                break;
            }
            let index = index as u16; // PACKETS_MAX is below END
            self.next.push(END);
            let port = usize::from(packet.port.0);
            if port >= self.chain_of.len() {
                self.chain_of.resize(port + 1, END);
            }
            if let Some(chain) = self.chains.get_mut(usize::from(self.chain_of[port])) {
                self.next[usize::from(chain.last)] = index;
                chain.last = index;
            } else {
                self.chain_of[port] = self.chains.len() as u16;
                self.chains.push(Chain { port: packet.port, first: index, last: index });
            }
        }
        self.next.len()
    }

    fn cut(&mut self, from: usize, segment_max: usize, mark: impl Fn(&Transmit) -> u8) {
        let mut first = from;
        while let Some(head) = self.pieces.get(first) {
            let count = run_len(&self.pieces[first..], segment_max, &mark);
            let (first_piece, mark) = (first as u16, mark(head));
            let segment = if count > 1 { head.len as u16 } else { 0 };
            self.runs.push(Run { port: head.port, first: first_piece, count: count as u16, segment, mark });
            first += count;
        }
    }
}

/// How many of the packets, counted from the first, one message may hold.
fn run_len(packets: &[Transmit], segment_max: usize, mark: impl Fn(&Transmit) -> u8) -> usize {
    let head = packets[0];
    let segment = head.len as usize;
    if segment == 0 || segment > segment_max {
        return 1;
    }
    let most = (RUN_BYTES_MAX / segment).clamp(1, SEGMENTS_MAX);
    let said = mark(&head);
    let mut count = 1;
    for packet in packets.iter().take(most).skip(1) {
        if packet.port != head.port || packet.len > head.len || packet.len == 0 || mark(packet) != said {
            break;
        }
        count += 1;
        if packet.len < head.len {
            break; // a shorter one ends the run
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(port: u16, offset: u32, len: u32) -> Transmit {
        Transmit { port: PortId(port), offset, len }
    }

    const fn unmarked(_: &Transmit) -> u8 {
        0
    }

    fn shape(window: &Window) -> Vec<(u16, u16, u16)> {
        window.runs().iter().map(|run| (run.port.0, run.count, run.segment)).collect()
    }

    #[test]
    fn multicast_becomes_one_gso_packet_per_destination() {
        let packets: Vec<_> = (0..40).map(|i| packet(i % 4, i as u32 / 4 * 100, 100)).collect();
        let mut window = Window::new();
        assert_eq!(window.group(&packets, 1500, unmarked), 40);
        assert_eq!(shape(&window), [(0, 10, 100), (1, 10, 100), (2, 10, 100), (3, 10, 100)]);
        window.regroup(2, 0, unmarked);
        assert_eq!(shape(&window)[..3], [(0, 10, 100), (1, 10, 100), (2, 1, 0)]);
        assert_eq!(window.runs().len(), 2 + 20);
    }

    #[test]
    fn a_shorter_packet_ends_a_run_and_a_longer_or_empty_one_begins_another() {
        let packets = [9, 9, 5, 5, 9, 0, 0, 4, 4].map(|len| packet(1, 0, len));
        let mut window = Window::new();
        window.group(&packets, 1500, unmarked);
        assert_eq!(shape(&window), [(1, 3, 9), (1, 1, 0), (1, 1, 0), (1, 1, 0), (1, 1, 0), (1, 2, 4)]);
        window.group(&packets, 4, unmarked);
        assert_eq!(
            window.runs().iter().filter(|run| run.segment > 0).count(),
            1,
            "only the 4s are short enough"
        );
    }

    #[test]
    fn runs_are_bounded_in_segments_and_bytes() {
        let mut window = Window::new();
        window.group(&[packet(0, 0, 10); 130], 65_000, unmarked);
        assert_eq!(shape(&window), [(0, 64, 10), (0, 64, 10), (0, 2, 10)]);
        window.group(&[packet(0, 0, 9_000); 9], 65_000, unmarked);
        assert_eq!(shape(&window), [(0, 7, 9_000), (0, 2, 9_000)]);
        assert_eq!(window.group(&[packet(0, 0, 65_000); 40], 65_000, unmarked), 16, "bounded in bytes");
        assert_eq!(window.group(&[packet(0, 0, 1); 600], 65_000, unmarked), PACKETS_MAX);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_order_per_port_is_kept(
            spec in proptest::collection::vec((0u16..5, 0u32..4), 1..300),
            segment_max in 0usize..5,
        ) {
            let packets: Vec<_> =
                spec.iter().enumerate().map(|(i, &(port, len))| packet(port, i as u32, len)).collect();
            let mut window = Window::new();
            prop_assert_eq!(window.group(&packets, segment_max, unmarked), packets.len());
            let mut seen = 0;
            for run in window.runs() {
                prop_assert_eq!(usize::from(run.first), seen);
                seen += usize::from(run.count);
                let pieces = &window.pieces()[usize::from(run.first)..seen];
                prop_assert!(pieces.iter().all(|piece| piece.port == run.port));
                if run.segment > 0 {
                    let (last, rest) = pieces.split_last().unwrap();
                    prop_assert!(rest.iter().all(|piece| piece.len == u32::from(run.segment)));
                    prop_assert!(last.len > 0 && last.len <= u32::from(run.segment));
                }
            }
            prop_assert_eq!(seen, packets.len());
            for port in 0..5 {
                let of = |list: &[Transmit]| -> Vec<u32> {
                    list.iter().filter(|packet| packet.port.0 == port).map(|packet| packet.offset).collect()
                };
                prop_assert_eq!(of(window.pieces()), of(&packets));
            }
        }
    }
}
