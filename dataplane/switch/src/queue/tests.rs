use std::collections::{HashMap, VecDeque};

use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::*;

const LEN_MAX: usize = header::LEN + 1408;

/// A packet with `lanes` bytes of lanes, identified by its chunk.
fn packet(kind: Kind, flags: Flags, class: u8, chunk: u32, lanes: usize) -> Vec<u8> {
    let repr = Repr {
        kind,
        flags,
        op: LaneOp::Sum,
        class,
        reason: Reason::None,
        job: 1,
        slot: 0,
        set: 0,
        epoch: 1,
        key: 1,
        chunk,
        bitmap: 1,
        count: 1,
        exp: 7,
        exp_next: 9,
        owner: LaneOwner::All,
    };
    let mut bytes = vec![0x5a; header::LEN + lanes];
    repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
    bytes
}

fn read(bytes: &[u8]) -> Repr {
    Repr::parse(&Packet::new_checked(bytes).unwrap()).unwrap()
}

fn queues(port: PortConfig) -> Queues {
    Queues::new(&QueueConfig { port, ..QueueConfig::default() }, LEN_MAX).unwrap()
}

fn class() -> ClassConfig {
    ClassConfig::default()
}

/// Dequeues all packets that may leave at `now`.
fn drain(queues: &mut Queues, now: Duration) -> Vec<(u16, Vec<u8>)> {
    let mut left = Vec::new();
    while let Some(departure) = queues.dequeue(now) {
        left.push((departure.port, queues.bytes(&departure).to_vec()));
        queues.release(departure);
    }
    left
}

#[test]
fn higher_priorities_precede_lower_ones_and_control_precedes_all() {
    let mut queues = queues(PortConfig::strict(8, &class()));
    let none = Flags::default();
    for class in [0, 15, 6, 2, 15, 0] {
        assert_eq!(queues.enqueue(3, &packet(Kind::Data, none, class, 0, 64)), EnqueueOutcome::Queued);
    }
    queues.enqueue(3, &packet(Kind::Stale, Flags::BARE, 0, 0, 0));
    queues.enqueue(3, b"other protocols have class 0");
    let left = drain(&mut queues, Duration::ZERO);
    let kinds: Vec<_> = left[..7].iter().map(|(_, bytes)| (read(bytes).kind, read(bytes).class)).collect();
    let data = [15, 15, 6, 2, 0, 0].map(|class| (Kind::Data, class));
    assert_eq!(kinds, [&[(Kind::Stale, 0)][..], &data].concat());
    assert_eq!(left[7].1, b"other protocols have class 0");
    assert_eq!(queues.ready_at(), None);
}

#[test]
fn only_droppable_data_with_lanes_is_trimmed_and_the_rest_is_dropped_at_the_tail() {
    let trimming = ClassConfig { trim_above: Some(2000), bytes_max: 4000, ..class() };
    let mut queues = queues(PortConfig { queues: vec![trimming], ..PortConfig::default() });
    let none = Flags::default();
    let droppable = Flags::DROPPABLE;
    assert_eq!(queues.enqueue(1, &packet(Kind::Data, droppable, 0, 0, 1408)), EnqueueOutcome::Queued);
    assert_eq!(queues.enqueue(1, &packet(Kind::Data, droppable, 0, 1, 1408)), EnqueueOutcome::Trimmed);
    assert_eq!(queues.enqueue(1, &packet(Kind::Data, none, 0, 2, 1408)), EnqueueOutcome::Queued);
    assert_eq!(queues.enqueue(1, &packet(Kind::Result, droppable, 0, 3, 1000)), EnqueueOutcome::Queued);
    for kept in [
        packet(Kind::Result, droppable, 0, 4, 1408),
        packet(Kind::Data, none, 0, 5, 1408),
        packet(Kind::Close, droppable, 0, 6, 1408),
    ] {
        assert_eq!(queues.enqueue(1, &kept), EnqueueOutcome::Dropped);
    }
    let bare = droppable.with(Flags::BARE);
    assert_eq!(queues.enqueue(1, &packet(Kind::Data, bare, 0, 7, 0)), EnqueueOutcome::Queued);
    assert_eq!(queues.enqueue(1, &packet(Kind::Data, droppable, 0, 8, 64)), EnqueueOutcome::Trimmed);
    let left = drain(&mut queues, Duration::ZERO);
    let chunks: Vec<_> = left.iter().map(|(_, bytes)| read(bytes).chunk).collect();
    assert_eq!(chunks, [1, 8, 0, 2, 3, 7], "headers overtake");
    let trimmed = read(&left[0].1);
    assert_eq!(left[0].1.len(), header::LEN);
    assert_eq!(trimmed.flags, droppable.with(Flags::TRIMMED).with(Flags::BARE));
    assert_eq!((trimmed.count, trimmed.bitmap, trimmed.exp, trimmed.exp_next), (0, 1, 7, 9));
    assert_eq!(left[2].1, packet(Kind::Data, droppable, 0, 0, 1408), "nothing else is touched");
    let counters = queues.counters();
    let (_, name, class) = counters.queues[0];
    assert_eq!((name, class.trimmed, class.dropped, class.sent), (QueueName::Class(0), 2, 3, 4));
    let (_, name, control) = counters.queues[1];
    assert_eq!((name, control.enqueued, control.sent_bytes), (QueueName::Control, 2, 2 * header::LEN as u64));
}

#[test]
fn trimmed_and_marked_frames_have_correct_outer_headers() {
    let end = |last| Endpoint {
        mac: EthernetAddress([2, 0, 0, 0, 0, last]),
        ip: Ipv4Address::new(10, 0, 0, last),
        port: netfold_wire::UDP_PORT,
    };
    let outer = Outer { source: end(1), destination: end(9) };
    let step =
        ClassConfig { trim_above: Some(3000), ecn: Some(Ecn { k_min: 0, k_max: 0, p_max: 1.0 }), ..class() };
    let port = PortConfig { queues: vec![step], ..PortConfig::default() };
    let config = QueueConfig { framing: Framing::Ethernet, port, ..QueueConfig::default() };
    let mut queues = Queues::new(&config, LEN_MAX + OUTER_LEN).unwrap();
    let frame = |ecn: u8, flags| {
        let mut frame = vec![0; OUTER_LEN + LEN_MAX];
        outer.emit(&packet(Kind::Data, flags, 0, 5, 1408), ecn, &mut frame).unwrap();
        frame
    };
    assert_eq!(queues.enqueue(0, &frame(2, Flags::DROPPABLE)), EnqueueOutcome::Marked);
    assert_eq!(
        queues.enqueue(0, &frame(0, Flags::DROPPABLE)),
        EnqueueOutcome::Queued,
        "its sender does not support ECN"
    );
    assert_eq!(queues.enqueue(0, &frame(2, Flags::DROPPABLE)), EnqueueOutcome::Trimmed);
    let left = drain(&mut queues, Duration::ZERO);
    let (parsed, datagram) = Outer::parse(&left[0].1).expect("its checksums are correct");
    assert_eq!((parsed, datagram.len(), left[0].1.len()), (outer, header::LEN, OUTER_LEN + header::LEN));
    assert!(read(datagram).flags.contains(Flags::TRIMMED.with(Flags::BARE)));
    assert_eq!(left[0].1[40..42], [0, 0], "no UDP checksum");
    let mut marked = frame(3, Flags::DROPPABLE);
    assert_eq!(left[1].1, marked);
    marked = frame(0, Flags::DROPPABLE);
    assert_eq!(left[2].1, marked);
}

#[test]
fn the_probability_of_marks_rises_with_the_queue() {
    let marks = port::Marks { k_min: 1000, k_max: 3000, p_max: 1 << 31 };
    let probabilities = [0, 1000, 2000, 3000, 3001].map(|bytes| marks.probability(bytes));
    assert_eq!(probabilities, [0, 0, 1 << 30, 1 << 31, 1 << 32]);
    for seed in 0..8 {
        let red = ClassConfig { ecn: Some(Ecn { k_min: 0, k_max: 1 << 20, p_max: 0.5 }), ..class() };
        let port = PortConfig { queues: vec![red], ..PortConfig::default() };
        let config = QueueConfig { port, seed, ..QueueConfig::default() };
        let mut queues = Queues::new(&config, LEN_MAX).unwrap();
        let mut expected = 0.0;
        for chunk in 0..700_u32 {
            queues.enqueue(0, &packet(Kind::Result, Flags::default(), 0, chunk, 1408));
            expected += 0.5 * f64::from(chunk + 1) * LEN_MAX as f64 / f64::from(1 << 20);
        }
        let marked = queues.counters().total().marked;
        let left = drain(&mut queues, Duration::ZERO);
        let flags = left.iter().filter(|(_, bytes)| read(bytes).flags.contains(Flags::CONGESTION));
        assert_eq!(flags.count() as u64, marked, "seed {seed}");
        // At most six standard deviations.
        assert!((marked as f64 - expected).abs() < 6.0 * (700.0_f64 / 4.0).sqrt(), "seed {seed}: {marked}");
    }
}

#[test]
fn weights_are_accurate_within_a_packet_of_each_queue() {
    for seed in 0..40 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let weights: Vec<u8> = (0..rng.random_range(2..=8)).map(|_| rng.random_range(1..=255)).collect();
        let of = |weight: &u8| ClassConfig { weight: *weight, ..class() };
        let port = PortConfig {
            queue_of: std::array::from_fn(|class| (class % weights.len()) as u8),
            queues: weights.iter().map(of).collect(),
            ..PortConfig::default()
        };
        let config = QueueConfig { port, memory_bytes: 4 << 20, ..QueueConfig::default() };
        let mut queues = Queues::new(&config, LEN_MAX).unwrap();
        let mut sent = vec![0.0; weights.len()];
        let mut fill = |queues: &mut Queues, class: usize| {
            let lanes = rng.random_range(0..=1408);
            queues.enqueue(0, &packet(Kind::Data, Flags::default(), class as u8, 0, lanes));
        };
        // No queue is ever empty.
        (0..weights.len()).for_each(|class| (0..3).for_each(|_| fill(&mut queues, class)));
        for step in 0..3000 {
            let departure = queues.dequeue(Duration::ZERO).expect("a queue is not empty");
            let class = usize::from(read(queues.bytes(&departure)).class);
            sent[class] += f64::from(departure.len);
            queues.release(departure);
            fill(&mut queues, class);
            let share = |class: usize| sent[class] / f64::from(weights[class]);
            for (a, b) in (0..weights.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let packets = LEN_MAX as f64 * (1.0 / f64::from(weights[a]) + 1.0 / f64::from(weights[b]));
                // Quanta are rounded up to whole bytes: a drift of a byte a round.
                let drift = share(a).max(share(b)) / LEN_MAX as f64
                    * f64::from(*weights.iter().max().unwrap())
                    * (1.0 / f64::from(weights[a]) + 1.0 / f64::from(weights[b]));
                let apart = (share(a) - share(b)).abs();
                assert!(apart <= packets + drift, "seed {seed}, step {step}: {apart} of {packets}");
            }
        }
    }
}

#[test]
fn the_rate_and_its_burst_bound_the_output_from_both_sides() {
    for seed in 0..30 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rate = Rate {
            bits_per_second: rng.random_range(1_000_000..10_000_000_000),
            burst_bytes: rng.random_range(LEN_MAX as u32..50_000),
        };
        let mut queues = queues(PortConfig { rate: Some(rate), ..PortConfig::default() });
        let mut now = Duration::ZERO;
        let mut left: Vec<(Duration, u64)> = Vec::new();
        for _ in 0..400 {
            for _ in 0..rng.random_range(0..5) {
                let lanes = rng.random_range(0..=1408);
                queues.enqueue(9, &packet(Kind::Data, Flags::default(), 0, 0, lanes));
            }
            while let Some(departure) = queues.dequeue(now) {
                left.push((now, departure.len.into()));
                queues.release(departure);
            }
            // Either to the announced time, or to a random one.
            let ready = queues.ready_at();
            assert_ne!(ready, Some(Duration::ZERO), "seed {seed}: all that was ready has left");
            let step = Duration::from_nanos(rng.random_range(1..2_000_000));
            match ready {
                Some(at) if rng.random_bool(0.5) => {
                    assert!(queues.dequeue(at - Duration::from_nanos(1)).is_none(), "seed {seed}: too early");
                    now = at;
                    let departure = queues.dequeue(now).unwrap_or_else(|| panic!("seed {seed}: too late"));
                    left.push((now, departure.len.into()));
                    queues.release(departure);
                }
                _ => now += step,
            }
        }
        for from in (0..left.len()).step_by(7) {
            let mut bytes = 0;
            for (at, len) in &left[from..] {
                bytes += len;
                let time = (*at - left[from].0).as_nanos();
                let bound =
                    u128::from(rate.burst_bytes) * 8_000_000_000 + time * u128::from(rate.bits_per_second);
                assert!(u128::from(bytes) * 8_000_000_000 <= bound, "seed {seed}: {bytes} in {time} ns");
            }
        }
    }
}

/// A port with all features: three priorities, two queues that share one, marks, thresholds, a rate.
fn mixed(rng: &mut Xoshiro256PlusPlus) -> PortConfig {
    let queues = rng.random_range(1..=8_u8);
    let class = |rng: &mut Xoshiro256PlusPlus| ClassConfig {
        priority: rng.random_range(0..3),
        weight: rng.random_range(1..=9),
        bytes_max: rng.random_range(0..20_000),
        trim_above: rng.random_bool(0.5).then(|| rng.random_range(0..20_000)),
        ecn: rng.random_bool(0.5).then_some(Ecn { k_min: 1000, k_max: 8000, p_max: 0.3 }),
        pause: None,
    };
    PortConfig {
        rate: rng.random_bool(0.7).then_some(Rate { bits_per_second: 50_000_000, burst_bytes: 3000 }),
        queue_of: std::array::from_fn(|_| rng.random_range(0..queues)),
        queues: (0..queues).map(|_| class(rng)).collect(),
        control_bytes_max: rng.random_range(0..300),
    }
}

fn any_queues(rng: &mut Xoshiro256PlusPlus, seed: u64) -> Queues {
    let config = QueueConfig {
        port: mixed(rng),
        ports: (0..rng.random_range(0..4)).map(|port| (port, mixed(rng))).collect(),
        memory_bytes: rng.random_range(1..40) * LEN_MAX,
        pause: rng.random_bool(0.5).then_some(Pause { above: LEN_MAX, resume_at: 100 }),
        seed,
        ..QueueConfig::default()
    };
    Queues::new(&config, LEN_MAX).unwrap()
}

/// A packet: its port, its class (99 for control packets), whether it may be trimmed, and its bytes.
fn any_packet(rng: &mut Xoshiro256PlusPlus, chunk: u32) -> (u16, u8, bool, Vec<u8>) {
    let (port, class) = (rng.random_range(0..5), rng.random_range(0..16));
    let kinds = [Kind::Data, Kind::Data, Kind::Data, Kind::Result, Kind::Stale];
    let kind = kinds[rng.random_range(0..kinds.len())];
    let bare = kind == Kind::Stale || rng.random_bool(0.1);
    let mut flags = if bare { Flags::BARE } else { Flags::default() };
    if rng.random_bool(0.5) {
        flags = flags.with(Flags::DROPPABLE);
    }
    let bytes = packet(kind, flags, class, chunk, if bare { 0 } else { rng.random_range(1..=1408) });
    let may_be_trimmed = kind == Kind::Data && !bare && flags.contains(Flags::DROPPABLE);
    (port, if kind == Kind::Stale { 99 } else { class }, may_be_trimmed, bytes)
}

/// Dequeues some packets and puts some of them back; returns those that leave.
fn some_leave(queues: &mut Queues, rng: &mut Xoshiro256PlusPlus, now: Duration) -> Vec<Departure> {
    let mut leaving = Vec::new();
    while leaving.len() < rng.random_range(0..4)
        && let Some(departure) = queues.dequeue(now)
    {
        leaving.push(departure);
    }
    let stay = leaving.split_off(rng.random_range(0..=leaving.len()));
    for departure in stay.into_iter().rev() {
        queues.put_back(departure, now + Duration::from_micros(rng.random_range(0..300)));
    }
    leaving
}

#[test]
fn packets_leave_in_order_or_are_held_or_counted_as_dropped() {
    for seed in 0..60 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut queues = any_queues(&mut rng, seed);
        let mut now = Duration::ZERO;
        let [mut in_, mut out, mut dropped, mut trimmed, mut marked, mut flushed] = [0_u64; 6];
        // Expected packets by port and class, and the trimmed ones.
        let mut waiting: HashMap<(u16, u8, bool), VecDeque<Vec<u8>>> = HashMap::new();
        for chunk in 0..2000 {
            let (port, class, may_be_trimmed, bytes) = any_packet(&mut rng, chunk);
            let outcome = queues.enqueue(port, &bytes);
            in_ += 1;
            if outcome == EnqueueOutcome::Dropped {
                dropped += 1;
            } else {
                let cut = outcome == EnqueueOutcome::Trimmed;
                assert!(may_be_trimmed || !cut, "seed {seed}");
                trimmed += u64::from(cut);
                marked += u64::from(outcome == EnqueueOutcome::Marked);
                waiting.entry((port, class, cut)).or_default().push_back(bytes);
            }
            now += Duration::from_nanos(rng.random_range(0..400_000));
            for departure in some_leave(&mut queues, &mut rng, now) {
                check(&queues, &departure, &mut waiting, seed);
                out += 1;
                queues.release(departure);
            }
            if rng.random_bool(0.002) {
                let port = rng.random_range(0..5);
                let of_it = waiting.iter_mut().filter(|((at, ..), _)| *at == port);
                let held: usize = of_it.map(|(_, packets)| packets.drain(..).count()).sum();
                assert_eq!(queues.flush(port), held as u64, "seed {seed}");
                flushed += held as u64;
            }
            let held: usize = waiting.values().map(VecDeque::len).sum();
            assert_eq!(in_, out + dropped + flushed + held as u64, "seed {seed}");
        }
        while let Some(at) = queues.ready_at() {
            now = now.max(at);
            while let Some(departure) = queues.dequeue(now) {
                check(&queues, &departure, &mut waiting, seed);
                out += 1;
                queues.release(departure);
            }
        }
        assert_eq!(in_, out + dropped + flushed, "seed {seed}");
        assert!(waiting.values().all(VecDeque::is_empty) && !queues.is_paused(), "seed {seed}");
        let total = queues.counters().total();
        assert_eq!((total.enqueued - flushed, total.sent, total.dropped), (out, out, dropped), "seed {seed}");
        assert_eq!((total.trimmed, total.marked), (trimmed, marked), "seed {seed}");
        assert_eq!((total.held_bytes, queues.held_bytes()), (0, 0), "seed {seed}");
        assert_eq!((total.flushed, flushed > 0 || total.enqueued_bytes == total.sent_bytes), (flushed, true));
        for (_, name, queue) in queues.counters().queues {
            let trims = matches!(name, QueueName::Class(_)) || queue.trimmed == 0;
            assert!(trims && queue.held_bytes_max <= 20_000, "seed {seed}: {name} {queue:?}");
        }
    }
}

/// Checks that the packet is the oldest of its port and class and that only permitted fields differ.
fn check(
    queues: &Queues,
    departure: &Departure,
    waiting: &mut HashMap<(u16, u8, bool), VecDeque<Vec<u8>>>,
    seed: u64,
) {
    let bytes = queues.bytes(departure);
    let repr = read(bytes);
    let cut = repr.flags.contains(Flags::TRIMMED);
    let class = if repr.kind == Kind::Stale { 99 } else { repr.class };
    let sent = waiting.get_mut(&(departure.port, class, cut)).and_then(VecDeque::pop_front);
    let sent = sent.unwrap_or_else(|| panic!("seed {seed}: {repr:?} was not expected at {}", departure.port));
    let before = read(&sent);
    let may = if cut { Flags::TRIMMED.with(Flags::BARE) } else { Flags::CONGESTION };
    let wanted = Repr {
        flags: before.flags.with(Flags(repr.flags.0 & may.0)),
        count: if cut { 0 } else { before.count },
        ..before
    };
    assert_eq!(repr, wanted, "seed {seed}");
    let lanes = if cut { &[][..] } else { &sent[header::LEN..] };
    assert_eq!(&bytes[header::LEN..], lanes, "seed {seed}");
}

#[test]
fn pausing_has_two_thresholds() {
    let pause = Some(Pause { above: 3000, resume_at: 1500 });
    let mut queues = Queues::new(&QueueConfig { pause, ..QueueConfig::default() }, LEN_MAX).unwrap();
    let data = packet(Kind::Data, Flags::default(), 0, 0, 1408);
    let mut paused = Vec::new();
    for _ in 0..3 {
        queues.enqueue(0, &data);
        paused.push(queues.is_paused());
    }
    for _ in 0..3 {
        let departure = queues.dequeue(Duration::ZERO).unwrap();
        queues.release(departure);
        paused.push(queues.is_paused());
    }
    assert_eq!(paused, [false, false, true, true, false, false]);
    assert_eq!(queues.counters().pauses, 1);
}

#[test]
fn a_queue_pauses_the_priorities_of_its_classes_alone() {
    let queue = ClassConfig { pause: Some(Pause { above: 3000, resume_at: 1500 }), ..class() };
    let port = PortConfig::strict(4, &queue);
    let mut queues = queues(port);
    let data = |class| packet(Kind::Data, Flags::default(), class, 0, 1408);
    let mut paused = Vec::new();
    // Queue 1 has classes 4 to 7, which are priorities 2 and 3; queue 3 has classes 12 to 15.
    for (port, class) in [(0, 4), (0, 7), (0, 5), (0, 0), (9, 6), (9, 6), (9, 6), (0, 15)] {
        queues.enqueue(port, &data(class));
        paused.push(queues.paused_priorities());
    }
    assert_eq!(paused, [0, 0, 0b1100, 0b1100, 0b1100, 0b1100, 0b1100, 0b1100]);
    assert_eq!(queues.flush(9), 3);
    assert_eq!(queues.paused_priorities(), 0b1100, "the other port's queue still holds too much");
    let mut order = Vec::new();
    let mut last = None;
    while let Some(departure) = queues.dequeue(Duration::ZERO) {
        order.push((read(queues.bytes(&departure)).class, queues.paused_priorities()));
        last.replace(departure).into_iter().for_each(|departure| queues.release(departure));
    }
    assert_eq!(order, [(15, 0b1100), (4, 0b1100), (7, 0), (5, 0), (0, 0)]);
    let pauses = |port| queues.counters().port(port).map(|counters| counters.pauses);
    assert_eq!((pauses(0), pauses(9)), (Some(1), Some(1)));
    // What did not leave counts again.
    for class in [8, 8] {
        queues.enqueue(0, &data(class));
    }
    queues.release(last.expect("packets left"));
    let first = queues.dequeue(Duration::ZERO).expect("two packets");
    queues.enqueue(0, &data(8));
    assert_eq!(queues.paused_priorities(), 0);
    queues.put_back(first, Duration::ZERO);
    assert_eq!(queues.paused_priorities(), 0b11_0000);
}

/// Two classes for one port, one of which is offered more than the port sends. Its sender obeys a pause some time after it is asked; the
/// other's is never asked.
#[test]
fn a_paused_class_loses_nothing_and_the_other_has_what_it_is_offered() {
    const PACKET_NS: u64 = 115_200;
    for seed in 0..20 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let delay = Duration::from_nanos(rng.random_range(1..4 * PACKET_NS));
        let gaps =
            [rng.random_range(PACKET_NS / 4..PACKET_NS), rng.random_range(PACKET_NS * 3 / 2..PACKET_NS * 4)];
        let run = |obeys: bool| {
            let pause = Some(Pause { above: 6 * LEN_MAX, resume_at: 4 * LEN_MAX });
            // Above the threshold there is room for what arrives before a pause takes effect.
            let headroom = delay.as_nanos() as u64 / gaps[0] + 2;
            let low = ClassConfig { bytes_max: (6 + headroom as u32) * LEN_MAX as u32, pause, ..class() };
            let high = ClassConfig { priority: 1, ..class() };
            let port = PortConfig {
                rate: Some(Rate { bits_per_second: 100_000_000, burst_bytes: LEN_MAX as u32 }),
                queue_of: std::array::from_fn(|class| u8::from(class >= 8)),
                queues: vec![low, high],
                ..PortConfig::default()
            };
            let mut queues = queues(port);
            let (mut asked, mut next, mut sent) =
                (VecDeque::from([(Duration::ZERO, 0)]), [Duration::ZERO; 2], [0_u64; 2]);
            let end = Duration::from_nanos(400 * PACKET_NS);
            let mut now = Duration::ZERO;
            while now < end {
                while asked.len() > 1 && asked[1].0 + delay <= now {
                    asked.pop_front();
                }
                for (index, class) in [0, 8].into_iter().enumerate() {
                    let held = obeys && asked[0].1 >> netfold_wire::priority_of(class) & 1 == 1;
                    if next[index] <= now && !held {
                        queues.enqueue(0, &packet(Kind::Data, Flags::default(), class, 0, 1408));
                        next[index] = now + Duration::from_nanos(gaps[index]);
                    }
                }
                for (_, bytes) in drain(&mut queues, now) {
                    sent[usize::from(read(&bytes).class >= 8)] += 1;
                }
                if asked.back().is_some_and(|(_, mask)| *mask != queues.paused_priorities()) {
                    asked.push_back((now, queues.paused_priorities()));
                }
                now += Duration::from_nanos(PACKET_NS / 64);
            }
            (sent, queues.counters())
        };
        let (sent, counters) = run(true);
        let total = counters.total();
        assert_eq!(total.dropped, 0, "seed {seed}: nothing is dropped");
        assert!(total.pauses > 2, "seed {seed}: it is paused again and again");
        let (.., high) = counters.queues[1];
        assert!(
            high.held_bytes_max <= 2 * LEN_MAX as u64 && high.sent + 1 >= high.enqueued,
            "seed {seed}: {high:?}"
        );
        assert!(sent[0] + sent[1] >= 390, "seed {seed}: the port is never idle: {sent:?}");
        assert!(run(false).1.total().dropped > 0, "seed {seed}: without pauses it would lose packets");
    }
}

#[test]
fn errors_name_the_parameter_out_of_range() {
    let refused = |change: fn(&mut QueueConfig)| {
        let mut config = QueueConfig::default();
        change(&mut config);
        Queues::new(&config, LEN_MAX).map(drop).unwrap_err().to_string()
    };
    assert_eq!(refused(|c| c.memory_bytes = 10), "memory_bytes is 10; it must be 1440 to 2147483648");
    assert_eq!(refused(|c| c.port.queues.clear()), "queues is 0; it must be 1 to 8");
    assert_eq!(refused(|c| c.port.queues[0].weight = 0), "weight is 0; it must be 1 to 255");
    assert_eq!(refused(|c| c.port.queue_of[3] = 1), "class 3 uses queue 1; the number of queues is 1");
    let slow = |c: &mut QueueConfig| c.port.rate = Some(Rate { bits_per_second: 9, burst_bytes: 100 });
    assert_eq!(refused(slow), "rate.burst_bytes is 100; it must be 1440 to 1073741824");
    let chance = |c: &mut QueueConfig| c.port.queues[0].ecn = Some(Ecn { k_min: 1, k_max: 2, p_max: 1.1 });
    assert_eq!(refused(chance), "p_max must be between 0 and 1");
    let order = |c: &mut QueueConfig| c.port.queues[0].ecn = Some(Ecn { k_min: 3, k_max: 2, p_max: 1.0 });
    assert_eq!(refused(order), "ecn.k_min is 3; it must be 0 to 2");
    assert_eq!(
        refused(|c| c.pause = Some(Pause { above: 5, resume_at: 6 })),
        "pause.resume_at is 6; it must be 0 to 5"
    );
    let pause = |c: &mut QueueConfig, above| c.port.queues[0].pause = Some(Pause { above, resume_at: 9 });
    let refused_pause = |above| {
        let mut config = QueueConfig::default();
        pause(&mut config, above);
        Queues::new(&config, LEN_MAX).map(drop).unwrap_err().to_string()
    };
    assert_eq!(refused_pause(0), "pause_above is 0; it must be 1 to 1048576");
    assert_eq!(refused_pause(8), "resume_at is 9; it must be 0 to 8");
    let shared = |c: &mut QueueConfig| {
        let queue = ClassConfig { pause: Some(Pause { above: 9, resume_at: 9 }), ..class() };
        c.port = PortConfig { queues: vec![class(), queue], ..PortConfig::default() };
        c.port.queue_of[7] = 1;
    };
    assert_eq!(
        refused(shared),
        "classes 6 and 7 have one priority, which queue 1 pauses: they must use the same queue"
    );
    let beyond = refused(|c| drop(c.ports.insert(PORTS_MAX as u16, PortConfig::default())));
    assert_eq!(beyond, format!("port {PORTS_MAX}"));
    let mut queues = queues(PortConfig::default());
    assert_eq!(queues.enqueue(PORTS_MAX as u16, b"x"), EnqueueOutcome::Dropped);
    assert_eq!(queues.enqueue(0, &[0; LEN_MAX + 1]), EnqueueOutcome::Dropped);
    assert_eq!(queues.counters().refused, 2);
}
