//! Any sequence of packets through the generated pipelines, with one admitted job.
//!
//! Each packet goes through every build of both programs, datagrams and Ethernet frames. The builds of one program
//! must agree on every byte, the two programs on the Netfold part; a packet that is not counted as handled must leave every
//! slot alone.

use netfold_io::{PortId, Received};
use netfold_p4::allreduce::{Behind, Child, Node, controller_entry, id, job_entries, node_entries};
use netfold_p4::p4info;
use netfold_switch::{Pipeline, Send, SimdLevel, Verdict, datagram_pipeline, ethernet_pipeline};
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use netfold_wire::header::LEN;
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, UDP_PORT};

use crate::input::Input;

const PAYLOAD: u32 = 256;
const PACKETS_MAX: usize = 64;
const WORLD: u16 = 3;
const SLOTS: u32 = 2;
const BASE: u32 = 4;
const JOB: u16 = 7;
const EPOCH: u32 = 3;
const KEY: u32 = 0x5eed_c0de;
const GROUP: u16 = 9;
const FIRST_PORT: u16 = 10;
const CONTROLLER_PORT: u16 = 500;
/// Indices of the registers: the job's slots and two on either side.
const WATCHED: std::ops::Range<usize> = 2 * BASE as usize - 2..2 * (BASE + SLOTS) as usize + 2;

/// One program in both builds.
struct Pair {
    best: Box<dyn Pipeline>,
    others: Vec<Box<dyn Pipeline>>,
    packets: u64,
    /// Packets that were handled here and not shown to the other program.
    alone: u64,
}

/// Feeds packets that the data describes.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut datagrams = Pair::new(|| datagram_pipeline(PAYLOAD), false);
    let mut frames = Pair::new(|| ethernet_pipeline(PAYLOAD), true);
    for _ in 0..PACKETS_MAX {
        if input.is_empty() {
            break;
        }
        let port = match input.below(8) {
            known @ 0..=5 => FIRST_PORT + (known as u16) % (WORLD + 1),
            6 => CONTROLLER_PORT,
            _ => input.byte().into(),
        };
        match input.below(16) {
            0 => outside(&mut datagrams, &mut input, port),
            1 => datagrams.feed_alone(port, &mut input.bytes(LEN + PAYLOAD as usize).to_vec()),
            2 => mangled_frame(&mut frames, &mut input, port),
            _ => both(&mut datagrams, &mut frames, &mut input, port),
        }
    }
}

/// The same datagram, bare and in a frame, has the same verdict, if all packets before had.
fn both(datagrams: &mut Pair, frames: &mut Pair, input: &mut Input<'_>, port: u16) {
    let alike = datagrams.alone == 0 && frames.alone == 0;
    let mut datagram = datagram(input);
    let mut frame = framed(&datagram, port);
    let one = datagrams.feed(port, &mut datagram);
    let other = frames.feed(port, &mut frame);
    if !alike {
        return;
    }
    assert_eq!(one.send, other.send, "datagram and frame differ");
    if one.send != Send::Drop {
        let (one_len, other_len) = (one.len as usize, other.len as usize);
        assert_eq!(one_len + OUTER_LEN, other_len);
        assert_eq!(datagram[..one_len], frame[OUTER_LEN..other_len]);
        let (outer, _) = Outer::parse(&frame[..other_len]).expect("what is sent has outer headers that hold");
        assert!(
            !matches!(other.send, Send::Unicast(_)) || outer.destination == worker(port),
            "reply to another port"
        );
    }
}

/// A packet that claims to lie where no memory is.
fn outside(pair: &mut Pair, input: &mut Input<'_>, port: u16) {
    let packet = Received { port: PortId(port), offset: input.word(), len: input.word(), ecn: 0 };
    let mut memory = [0; 64];
    let inside = u64::from(packet.offset) + u64::from(packet.len) <= memory.len() as u64;
    if !inside {
        assert_eq!(pair.burst(packet, &mut memory), Verdict::DROP);
    }
}

fn mangled_frame(pair: &mut Pair, input: &mut Input<'_>, port: u16) {
    let datagram = datagram(input);
    let mut frame = framed(&datagram, port);
    input.disturb(&mut frame[..OUTER_LEN]);
    let len = frame.len().saturating_sub(input.below(4));
    frame.truncate(len);
    pair.feed_alone(port, &mut frame);
}

/// A datagram near one that the job's members would send.
fn datagram(input: &mut Input<'_>) -> Vec<u8> {
    let kind = [Kind::Data, Kind::Data, Kind::Data, Kind::Advance, Kind::Probe, Kind::Close][input.below(6)];
    let ours = kind == Kind::Data || kind == Kind::Close;
    let chunk = u32::from(input.byte()).wrapping_sub(4).wrapping_add(u32::from(input.below(4) == 3) << 31);
    let bare = input.below(4) == 0;
    let cut = bare && input.below(2) == 0;
    let mut repr = Repr {
        kind,
        flags: match (bare, cut) {
            (false, _) => Flags::default(),
            (true, false) => Flags::BARE,
            (true, true) => Flags::BARE.with(Flags::TRIMMED).with(Flags::DROPPABLE),
        },
        op: LaneOp::ALL[input.below(LaneOp::ALL.len())],
        class: 0,
        reason: Reason::None,
        job: if ours { JOB } else { 0 },
        slot: (chunk % SLOTS) as u16 + if ours { 0 } else { BASE as u16 },
        set: (chunk / SLOTS % 2) as u8,
        epoch: EPOCH,
        key: KEY,
        chunk,
        bitmap: 1,
        count: u16::from(!cut),
        exp: input.byte(),
        exp_next: input.byte(),
        owner: LaneOwner::from_wire(u16::from(input.byte() & 3)),
    };
    match input.below(16) {
        0 => repr.key ^= 1 << input.below(32),
        1 => repr.epoch = repr.epoch.wrapping_sub(1),
        2 => repr.slot = (input.word() & 0x7fff) as u16,
        3 => repr.job = input.word() as u16,
        _ => {}
    }
    let mut bytes = vec![0; if bare { LEN } else { LEN + PAYLOAD as usize }];
    let seed = input.word();
    for (at, byte) in bytes.iter_mut().enumerate().skip(LEN) {
        *byte = (seed.rotate_left(at as u32 * 5) ^ at as u32) as u8;
    }
    repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
    if input.below(4) == 0 {
        input.disturb(&mut bytes);
    }
    if input.below(16) == 0 {
        bytes.truncate(input.below(256));
    }
    bytes
}

fn worker(port: u16) -> Endpoint {
    let [high, low] = port.to_be_bytes();
    Endpoint {
        mac: EthernetAddress([2, 0, 0, 0, high, low]),
        ip: Ipv4Address::new(10, 0, high, low),
        port: 4000,
    }
}

fn framed(datagram: &[u8], port: u16) -> Vec<u8> {
    let switch = Endpoint {
        mac: EthernetAddress([2, 0, 0, 1, 0, 0]),
        ip: Ipv4Address::new(10, 1, 0, 0),
        port: UDP_PORT,
    };
    let mut frame = vec![0; OUTER_LEN + datagram.len()];
    let outer = Outer { source: worker(port), destination: switch };
    outer.emit(datagram, 0, &mut frame).expect("the frame is as long as it must be");
    frame
}

impl Pair {
    fn new(build: impl Fn() -> Option<Box<dyn Pipeline>>, sees_source: bool) -> Self {
        let node = Node {
            job: JOB,
            epoch: EPOCH,
            key: KEY,
            base: BASE,
            slots: SLOTS,
            children: WORLD as u8,
            workers: WORLD,
            world: WORLD,
            group: GROUP,
            parent: None,
            shift: None,
            bounded_loss: true,
            owners: true,
        };
        let mut entries = node_entries(&node);
        entries.extend([Kind::Advance, Kind::Probe].map(|kind| controller_entry(CONTROLLER_PORT, kind)));
        for rank in 0..WORLD {
            let port = FIRST_PORT + rank;
            let source = if sees_source { worker(port).ip.to_bits() } else { 0 };
            let behind = Some(Behind { instance: port + 1, first: rank, last: rank });
            entries.extend(job_entries(&node, &Child { port, source, rank: rank as u8, behind }));
        }
        let make = || {
            let mut pipeline = build().expect("there is a pipeline of that size");
            for entry in &entries {
                pipeline.insert(entry).expect("the entries fit an empty table");
            }
            pipeline
        };
        let others = SimdLevel::available().filter(|level| *level < SimdLevel::detect());
        let others = others.map(|level| {
            let mut other = make();
            other.set_simd(level);
            other
        });
        Self { best: make(), others: others.collect(), packets: 0, alone: 0 }
    }

    /// Runs one packet through both builds and checks what holds for any packet.
    fn feed(&mut self, port: u16, packet: &mut Vec<u8>) -> Verdict {
        let received = Received { port: PortId(port), offset: 0, len: packet.len() as u32, ecn: 0 };
        // Room for lanes that were cut off.
        packet.resize(packet.len() + PAYLOAD as usize, 0);
        let before = (self.handled(), self.slots());
        let header = packet[..packet.len().min(LEN)].to_vec();
        let verdict = self.burst(received, packet);
        // The controller alone may name a slot that the switch has not; that packet is dropped where it would touch it.
        if !(port == CONTROLLER_PORT && verdict == Verdict::DROP) {
            self.packets += 1;
        } else {
            self.packets = self.packets.max(self.counted());
        }
        let counted = self.counted();
        assert_eq!(
            counted, self.packets,
            "every packet is counted once: {header:02x?} from {port}: {verdict:?}"
        );
        if self.handled() == before.0 {
            assert_eq!(self.slots(), before.1, "a packet that was not handled changed a slot");
        }
        assert!(verdict.len as usize <= packet.len());
        match verdict.send {
            Send::Drop => assert_eq!(verdict.len, 0),
            Send::Unicast(to) => assert_eq!(to, port, "replies go back"),
            Send::Multicast(group) => {
                assert_eq!(group, GROUP);
                assert!(
                    (FIRST_PORT..FIRST_PORT + WORLD).contains(&port),
                    "an unknown sender completed a slot"
                );
            }
        }
        verdict
    }

    /// Runs one packet that the other program does not see.
    fn feed_alone(&mut self, port: u16, packet: &mut Vec<u8>) {
        let before = self.handled();
        self.feed(port, packet);
        self.alone += self.handled() - before;
    }

    fn burst(&mut self, packet: Received, memory: &mut [u8]) -> Verdict {
        let received = memory.to_vec();
        let mut verdicts = Vec::new();
        self.best.burst(&[packet], memory, &mut verdicts);
        for other in &mut self.others {
            let (mut copy, mut decided) = (received.clone(), Vec::new());
            other.burst(&[packet], &mut copy, &mut decided);
            assert_eq!(verdicts, decided, "two builds decide differently");
            assert_eq!(memory, copy, "two builds write differently");
        }
        assert_eq!(verdicts.len(), 1, "one verdict a packet");
        verdicts[0]
    }

    fn counters(&self) -> &[u64] {
        self.best.counters(p4info::counter_id(id::PACKETS))
    }

    fn counted(&self) -> u64 {
        self.counters().iter().sum()
    }

    /// Packets that were counted as folded or acknowledged.
    fn handled(&self) -> u64 {
        self.counters().first().copied().unwrap_or(0)
    }

    fn slots(&self) -> Vec<u32> {
        let mut state = Vec::new();
        for register in ["claim", "version", "exponent", "sum"] {
            for index in WATCHED {
                assert!(self.best.read_register(register, index, &mut state), "no register {register}");
            }
        }
        state
    }
}
