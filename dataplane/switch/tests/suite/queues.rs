//! A running switch with queues in front of its ports, over rings in memory.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use netfold_io::{IoError, Loopback, Middleware, PacketIo, PortId, RxBatch, Transmit, loopback};
use netfold_p4::allreduce::{Child, Node, job_entries};
use netfold_p4::entry::Replica;
use netfold_switch::queue::{
    ClassConfig, Ecn, Framing, Pause, PortConfig, QueueConfig, QueueName, Queues, Rate,
};
use netfold_switch::{Handle, Switch, SwitchCounters, datagram_pipeline, ethernet_pipeline};
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};

const PAYLOAD: usize = 256;
const LEN: usize = header::LEN + PAYLOAD;
const SLOTS: u32 = 64;
const HANG_TIMEOUT: Duration = Duration::from_secs(30);

/// A switch with a job of two children, at ports 0 and 1, which are the spokes.
struct Rig {
    handle: Handle,
    thread: JoinHandle<Result<SwitchCounters, IoError>>,
    spokes: Vec<Loopback>,
    batch: RxBatch,
    /// Results received by each spoke.
    received: [Vec<Repr>; 2],
}

/// A hub that accepts every packet and passes it, with its port, to the test instead of the spoke. Its output is never full, and the
/// switch's timeout for outputs that are does not depend on when the test's thread runs.
struct Collected {
    hub: Loopback,
    sent: mpsc::Sender<(PortId, Vec<u8>)>,
}

impl Middleware for Collected {
    type Inner = Loopback;

    fn inner(&self) -> &Loopback {
        &self.hub
    }

    fn inner_mut(&mut self) -> &mut Loopback {
        &mut self.hub
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        for packet in packets {
            let _ = self.sent.send((packet.port, packet.bytes(memory).unwrap().to_vec()));
        }
        Ok(packets.len())
    }
}

impl Rig {
    fn new(config: &QueueConfig, ring_len: usize) -> Self {
        let (hub, spokes) = loopback::star(2, ring_len, LEN);
        Self::over(Box::new(hub), spokes, config)
    }

    fn over(hub: Box<dyn PacketIo>, spokes: Vec<Loopback>, config: &QueueConfig) -> Self {
        let pipeline = datagram_pipeline(PAYLOAD as u32).unwrap();
        let switch = Switch::new(pipeline, hub).with_queues(config).unwrap();
        let handle = switch.handle();
        let thread = thread::spawn(move || switch.run());
        let node = Node {
            job: 1,
            epoch: 1,
            key: 1,
            base: 0,
            slots: SLOTS,
            children: 2,
            workers: 2,
            world: 2,
            group: 1,
            parent: None,
            shift: None,
            bounded_loss: false,
            owners: true,
        };
        let set_up = move |core: &mut netfold_switch::Core| {
            core.advance(0, SLOTS, 0).unwrap();
            let replicas = [0, 1].map(|port| Replica { port, instance: port });
            core.set_group(1, &replicas).unwrap();
            for rank in 0..2 {
                let child = Child { port: u16::from(rank), source: 0, rank, behind: None };
                core.insert(&job_entries(&node, &child)).unwrap();
            }
        };
        handle.call(set_up).unwrap();
        let batch = spokes[0].capabilities().batch();
        Self { handle, thread, spokes, batch, received: Default::default() }
    }

    /// Whether the ring accepts the contribution of `rank`.
    fn offer(&mut self, rank: usize, chunk: u32) -> bool {
        let packet = Transmit { port: PortId(0), offset: 0, len: LEN as u32 };
        self.spokes[rank].transmit(&contribution(chunk), &[packet]).unwrap() == 1
    }

    /// Retries the contribution of `rank` until the ring accepts it, while `reads` receive.
    fn send(&mut self, rank: usize, chunk: u32, reads: &[usize]) {
        let begin = Instant::now();
        while !self.offer(rank, chunk) {
            assert!(begin.elapsed() < HANG_TIMEOUT, "the switch accepts no packet");
            reads.iter().for_each(|rank| self.receive(*rank));
            self.spokes[rank].wait(Duration::from_millis(1)).unwrap();
        }
    }

    fn receive(&mut self, rank: usize) {
        self.spokes[rank].receive(&mut self.batch).unwrap();
        for packet in self.batch.packets() {
            self.received[rank].push(result(self.batch.bytes(packet)));
        }
    }

    /// Results that `rank` receives, as soon as there are `count`.
    fn results(&mut self, rank: usize, count: usize) -> Vec<Repr> {
        let begin = Instant::now();
        while self.received[rank].len() < count && begin.elapsed() < HANG_TIMEOUT {
            self.receive(rank);
            if self.received[rank].len() < count {
                self.spokes[rank].wait(Duration::from_millis(5)).unwrap();
            }
        }
        std::mem::take(&mut self.received[rank])
    }

    fn stop(self) -> SwitchCounters {
        self.handle.stop();
        self.thread.join().unwrap().unwrap()
    }
}

/// A contribution whose lanes are all 3.
fn contribution(chunk: u32) -> Vec<u8> {
    contribution_of_class(0, chunk)
}

fn contribution_of_class(class: u8, chunk: u32) -> Vec<u8> {
    let repr = Repr {
        kind: Kind::Data,
        flags: Flags::default(),
        op: LaneOp::Sum,
        class,
        reason: Reason::None,
        job: 1,
        slot: (chunk % SLOTS) as u16,
        set: (chunk / SLOTS % 2) as u8,
        epoch: 1,
        key: 1,
        chunk,
        bitmap: 0,
        count: 1,
        exp: 0,
        exp_next: 0,
        owner: LaneOwner::All,
    };
    let mut bytes = [0, 0, 0, 3].repeat(LEN / 4);
    repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
    bytes
}

/// The header of a result, whose lanes must all be the sum of two contributions.
fn result(bytes: &[u8]) -> Repr {
    assert!(bytes[header::LEN..].chunks(4).all(|lane| lane == [0, 0, 0, 6]));
    Repr::parse(&Packet::new_checked(bytes).unwrap()).unwrap()
}

fn slow(bits_per_second: u64, class: ClassConfig) -> PortConfig {
    let rate = Some(Rate { bits_per_second, burst_bytes: LEN as u32 });
    PortConfig { rate, queues: vec![class], ..PortConfig::default() }
}

#[test]
fn only_results_to_a_slow_port_are_marked() {
    let ecn = Some(Ecn { k_min: 4 * LEN as u32, k_max: 4 * LEN as u32, p_max: 1.0 });
    let class = ClassConfig { ecn, ..ClassConfig::default() };
    let config = QueueConfig {
        port: PortConfig { queues: vec![class.clone()], ..PortConfig::default() },
        // 5 ms per packet: far slower than any machine sends.
        ports: [(1, slow(8 * LEN as u64 * 200, class))].into(),
        ..QueueConfig::default()
    };
    let mut rig = Rig::new(&config, 256);
    for chunk in 1..=32 {
        rig.send(0, chunk, &[]);
        rig.send(1, chunk, &[]);
    }
    let at_slow = rig.results(1, 32);
    let at_fast = rig.results(0, 32);
    let chunks = |results: &[Repr]| results.iter().map(|repr| repr.chunk).collect::<Vec<_>>();
    assert_eq!((chunks(&at_slow), chunks(&at_fast)), ((1..=32).collect(), (1..=32).collect()));
    let marked = |results: &[Repr]| {
        results.iter().filter(|repr| repr.flags.contains(Flags::CONGESTION)).count() as u64
    };
    let counters = rig.stop();
    let queues = counters.queues.expect("the switch has queues");
    let of = |port| queues.queues.iter().find(|(at, ..)| *at == port).unwrap();
    let (_, name, slow) = of(1);
    assert_eq!((*name, slow.enqueued, slow.sent, slow.dropped), (QueueName::Class(0), 32, 32, 0));
    assert_eq!(slow.marked, marked(&at_slow));
    assert!(slow.marked > 0 && slow.held_bytes_max > 4 * LEN as u64, "{slow:?}");
    assert_eq!((of(0).2.marked, marked(&at_fast)), (0, 0));
    assert_eq!(counters.output_dropped, 0);
}

#[test]
fn a_paused_switch_loses_nothing_and_its_senders_wait() {
    const RING_LEN: usize = 4;
    let port = slow(8 * LEN as u64 * 2000, ClassConfig::default());
    // A burst of full rings has 8 results. One leaves each port at once, and 6 are above the limit.
    let pause = Some(Pause { above: 4 * LEN, resume_at: 2 * LEN });
    // Memory for the packets held when it pauses and for all copies of one more burst.
    let config = QueueConfig { port, pause, memory_bytes: 64 * LEN, ..QueueConfig::default() };
    let (hub, spokes) = loopback::star(2, RING_LEN, LEN);
    let (sent, results) = mpsc::channel();
    let mut rig = Rig::over(Box::new(Collected { hub, sent }), spokes, &config);

    // The switch receives nothing until the rings to it are full.
    let (entered, is_stopped) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let handle = rig.handle.clone();
    let stopped = thread::spawn(move || {
        let call = move |_: &mut netfold_switch::Core| {
            entered.send(()).unwrap();
            resumed.recv().unwrap_err();
        };
        handle.call(call).unwrap();
    });
    is_stopped.recv().unwrap();
    let rounds = 150;
    for chunk in 1..=RING_LEN as u32 {
        assert_eq!((rig.offer(0, chunk), rig.offer(1, chunk)), (true, true), "chunk {chunk}");
    }
    assert_eq!([0, 1].map(|rank| rig.offer(rank, RING_LEN as u32 + 1)), [false; 2]);
    drop(resume);
    stopped.join().unwrap();
    for chunk in RING_LEN as u32 + 1..=rounds {
        rig.send(0, chunk, &[]);
        rig.send(1, chunk, &[]);
    }

    let mut chunks = [const { Vec::new() }; 2];
    for _ in 0..2 * rounds {
        let (PortId(port), bytes) = results.recv_timeout(HANG_TIMEOUT).unwrap();
        chunks[usize::from(port)].push(result(&bytes).chunk);
    }
    let all: Vec<u32> = (1..=rounds).collect();
    assert_eq!(chunks, [all.clone(), all]);
    let counted = rig.stop();
    let queues = counted.queues.unwrap();
    assert!(queues.pauses > 0);
    assert_eq!((queues.total().dropped, counted.output_dropped), (0, 0));
    assert!(queues.total().held_bytes_max <= 2 * 64 * LEN as u64);
}

#[test]
fn an_output_without_reader_does_not_stop_the_switch() {
    let class = ClassConfig { bytes_max: 8 * LEN as u32, ..ClassConfig::default() };
    let port = PortConfig { queues: vec![class], ..PortConfig::default() };
    let mut rig = Rig::new(&QueueConfig { port, ..QueueConfig::default() }, 4);
    // Rank 1 never receives; its ring and its queue fill up, and further packets are dropped.
    for chunk in 1..=60 {
        rig.send(0, chunk, &[0]);
        rig.send(1, chunk, &[0]);
        assert_eq!(rig.results(0, 1).len(), 1, "chunk {chunk}");
    }
    let counted = rig.stop();
    let total = counted.queues.unwrap().total();
    assert_eq!(counted.output_dropped, total.flushed);
    assert!(total.dropped + total.flushed > 20, "{total:?}");
}

#[test]
fn queues_can_be_set_while_running_and_an_invalid_configuration_changes_nothing() {
    let mut rig = Rig::new(&QueueConfig::default(), 64);
    let bad = QueueConfig { memory_bytes: 1, ..QueueConfig::default() };
    assert!(rig.handle.call(move |core| core.set_queues(&bad)).unwrap().is_err());
    rig.send(0, 1, &[]);
    rig.send(1, 1, &[]);
    assert_eq!(rig.results(0, 1).len(), 1);
    assert_eq!(rig.handle.call(|core| core.counters()).unwrap().queues.unwrap().total().sent, 2);
    rig.handle.call(|core| core.set_queues(&QueueConfig::default())).unwrap().unwrap();
    assert_eq!(rig.stop().queues.unwrap().queues, vec![]);
}

#[test]
fn the_program_trims_the_same_frames_as_queues_do_and_to_the_same_bytes() {
    /// Depth from which the generated program trims.
    const DEEP: u32 = 24;
    let end = |last| Endpoint {
        mac: EthernetAddress([2, 0, 0, 0, 0, last]),
        ip: Ipv4Address::new(10, 0, 0, last),
        port: netfold_wire::UDP_PORT,
    };
    let outer = Outer { source: end(1), destination: end(9) };
    let class = ClassConfig { trim_above: Some(0), ..ClassConfig::default() };
    let port = PortConfig { queues: vec![class], ..PortConfig::default() };
    let config = QueueConfig { framing: Framing::Ethernet, port, ..QueueConfig::default() };
    let mut queues = Queues::new(&config, OUTER_LEN + LEN).unwrap();
    let mut pipeline = ethernet_pipeline(PAYLOAD as u32).unwrap();
    let mut trimmed = 0;
    for (kind, flags) in Kind::ALL.iter().flat_map(|kind| (0..=255).map(move |flags| (*kind, Flags(flags)))) {
        let mut datagram = contribution(7);
        let mut packet = Packet::new_unchecked(&mut datagram[..]);
        packet.set_kind_raw(kind as u8);
        packet.set_flags(flags);
        if flags.contains(Flags::BARE) {
            datagram.truncate(header::LEN);
        }
        let mut frame = vec![0; OUTER_LEN + datagram.len()];
        outer.emit(&datagram, 0, &mut frame).unwrap();
        queues.enqueue(0, &frame);
        let departure = queues.dequeue(Duration::ZERO).unwrap();
        let by_queues = queues.bytes(&departure).to_vec();
        queues.release(departure);
        let mut by_program = frame.clone();
        let len = pipeline.egress(0, DEEP, &mut by_program);
        assert_eq!(by_program[..len], by_queues, "{kind:?} {flags:?}");
        trimmed += usize::from(len < frame.len());
        let len = pipeline.egress(0, DEEP - 1, &mut frame.clone());
        assert_eq!(len, frame.len(), "below the depth");
    }
    assert_eq!(trimmed, 64, "DATA, droppable, not bare");
}

#[test]
fn a_full_queue_has_senders_pause_its_classes_and_others_continue() {
    let pause = Some(Pause { above: 8 * LEN, resume_at: 2 * LEN });
    let low = ClassConfig { bytes_max: 40 * LEN as u32, pause, ..ClassConfig::default() };
    let high = ClassConfig { priority: 1, ..ClassConfig::default() };
    // 5 ms per packet.
    let port = PortConfig {
        queue_of: std::array::from_fn(|class| u8::from(class >= 8)),
        queues: vec![low, high],
        ..slow(8 * LEN as u64 * 200, ClassConfig::default())
    };
    let mut rig = Rig::new(&QueueConfig { port, ..QueueConfig::default() }, 256);
    let (begin, mut sent) = (Instant::now(), 0);
    let paused = loop {
        let paused = rig.spokes[0].paused();
        if paused.holds(0) {
            break paused;
        }
        assert!(begin.elapsed() < HANG_TIMEOUT, "no sender is asked to pause");
        if sent < 30 {
            sent += 1;
            [0, 1].into_iter().for_each(|rank| rig.send(rank, sent, &[]));
        } else {
            rig.spokes[0].wait(Duration::from_millis(1)).unwrap();
        }
    };
    assert_eq!(paused.priorities, 0b1111, "classes 0 to 7");
    assert!(!paused.holds(8) && !paused.holds(15));
    let others = 32..40;
    for chunk in others.clone() {
        for spoke in &mut rig.spokes {
            let packet = Transmit { port: PortId(0), offset: 0, len: LEN as u32 };
            assert_eq!(spoke.transmit(&contribution_of_class(15, chunk), &[packet]).unwrap(), 1);
        }
    }
    let results = rig.results(0, sent as usize + others.len());
    let of = |class| results.iter().filter(|repr| repr.class == class).count();
    assert_eq!((of(0), of(15)), (sent as usize, others.len()));
    while rig.spokes[0].paused().priorities != 0 {
        assert!(begin.elapsed() < HANG_TIMEOUT, "it does not resume");
        rig.spokes[0].wait(Duration::from_millis(1)).unwrap();
    }
    rig.results(1, sent as usize + others.len());
    let queues = rig.stop().queues.expect("the switch has queues");
    assert_eq!((queues.total().dropped, queues.total().flushed, queues.pauses), (0, 0, 0));
    assert!(queues.total().pauses >= 2, "of both ports");
}
