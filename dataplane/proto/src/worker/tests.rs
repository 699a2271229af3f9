//! Scenarios: workers against a plain switch on a virtual clock.

mod closing;
mod hostile;
mod input;
mod predicting;
mod rig;

use std::time::Duration;

use netfold_control::CongestionAlgorithm;
use netfold_wire::{Flags, Kind, LaneOp, Mode, Numerics, Packet, Reason, Repr, header, serial};
use rig::{Network, Rig, SharedLink, Tensors, algorithm, blocks, integers, spec};

use crate::congestion::{Ack, CongestionControl, Round};
use crate::*;

const ROUGH: Network = Network { loss: 0.1, duplicate: 0.1, delay_us: 20, jitter_us: 400, shared: None };

#[test]
fn without_loss_every_position_is_sent_once() {
    let mut rig = Rig::new(1, 3, 8, 0, Network::PERFECT);
    rig.submit(integers(100));
    rig.submit(blocks(100));
    rig.submit(OpSpec::BARRIER);
    rig.run();
    rig.assert_done(3);
    for worker in &rig.workers {
        let stats = worker.stats();
        assert_eq!((stats.sent, stats.retransmitted, stats.results), (101 + 108 + 1, 0, 210));
        assert_eq!(stats.ignored_total(), 0);
        assert_eq!(stats.ops_done, 3);
        assert_eq!(stats.rtt_smoothed, Duration::from_micros(100));
        let data = 32 + 4 * 64;
        assert_eq!(stats.sent_bytes, 203 * data + 7 * 32);
        assert_eq!(stats.result_bytes, stats.sent_bytes);
        assert!(stats.sent_together > 0 && stats.results_together == stats.sent_together, "{stats:?}");
    }
    assert!(rig.workers[0].stats().non_finite > 0);
    // The pipe is full: 210 positions in windows of 8 take 27 round trips of 100 us.
    assert!(rig.now <= Instant::ZERO + Duration::from_micros(2700), "{:?}", rig.now);
}

#[test]
fn loss_duplication_and_reordering_change_no_result() {
    for seed in 0..60 {
        let world = 1 + (seed % 5) as u16;
        let slots = 1 << (seed % 6);
        let first_chunk = [0, u32::MAX - 30, 1 << 31, u32::MAX][(seed / 6 % 4) as usize];
        let mut rig = Rig::new(seed, world, slots, first_chunk, ROUGH);
        for op in 0..12 {
            rig.submit(match op % 4 {
                0 => integers(1 + (seed % 40) as u32),
                1 => blocks(1 + (seed % 70) as u32),
                2 => OpSpec::BARRIER,
                _ => spec(3, Mode::I32, DType::I32, if seed % 2 == 0 { LaneOp::Min } else { LaneOp::Max }),
            });
        }
        rig.run();
        rig.assert_done(12);
    }
}

/// With any windows, also different ones on each rank, every result is right and the job makes progress.
#[test]
fn congestion_control_changes_no_result() {
    for seed in 0..90 {
        let world = 1 + (seed % 5) as u16;
        let slots = 1 << (seed % 6);
        let rig = Rig::new(seed, world, slots, u32::MAX - 30, ROUGH);
        let which = |rank| if seed % 2 == 0 { seed as usize / 2 } else { seed as usize + rank };
        let mut rig = rig.controlled(|rank| algorithm(which(rank)));
        rig.submit_nine(seed);
        rig.run();
        rig.assert_done(9);
    }
}

/// Four ranks' packets go over one link with a short queue: with a fixed window the queue overflows all the time, with an algorithm it does not,
/// and the link is still used.
#[test]
fn congestion_control_keeps_a_shared_queue_short_and_its_link_busy() {
    const CHUNKS: u32 = 4000;
    let shared = SharedLink { packet_us: 10, room: 60, mark_from: 20 };
    let network = Network { shared: Some(shared), ..Network::PERFECT };
    let run = |congestion: CongestionAlgorithm| {
        let mut rig = Rig::new(1, 4, 64, 0, network).controlled(|_| congestion);
        rig.submit(integers(CHUNKS));
        rig.run();
        rig.assert_done(1);
        let ideal = Duration::from_micros(10 * 4 * u64::from(CHUNKS));
        let goodput = ideal.as_secs_f64() / (rig.now - Instant::ZERO).as_secs_f64();
        let retransmitted: u64 = rig.workers.iter().map(|worker| worker.stats().retransmitted).sum();
        let (name, share, dropped) = (congestion.name(), 100.0 * goodput, rig.dropped);
        println!("{name}: {share:.1} % of the link, {dropped} dropped, {retransmitted} retransmitted");
        (goodput, rig.dropped)
    };
    let (_, dropped) = run(CongestionAlgorithm::Fixed);
    for control in &CongestionAlgorithm::ALL[1..] {
        let (goodput, fewer) = run(*control);
        assert!(fewer * 5 < dropped, "{control:?}: {fewer} of {dropped}");
        assert!(goodput > 0.8, "{control:?}: {goodput}");
    }
}

/// A window that another rank's does not fit at all.
#[derive(Debug)]
struct Narrow(f64);

impl CongestionControl for Narrow {
    fn on_ack(&mut self, ack: &Ack) {
        // Up and down, unlike any real algorithm.
        self.0 = 1.0 + (ack.now.as_nanos() / 1000 % 7) as f64;
    }

    fn on_round(&mut self, _: &Round) {}

    fn on_loss(&mut self, _: Instant) {
        self.0 = 0.0;
    }

    fn scale_increase(&mut self, _: f64) {}

    fn window(&self) -> f64 {
        self.0
    }
}

#[test]
fn a_caller_supplied_algorithm_bounds_the_chunks_in_flight() {
    for seed in 0..30 {
        let mut rig = Rig::new(seed, 3, 32, 5, ROUGH);
        for (rank, worker) in rig.workers.iter_mut().enumerate() {
            let fresh = Worker::new(worker.config().clone()).unwrap();
            *worker = fresh.with_congestion_control(Box::new(Narrow(1.0 + rank as f64)));
        }
        rig.submit(blocks(90));
        rig.submit(integers(90));
        while rig.turn() {
            assert!(rig.workers.iter().all(|worker| worker.outstanding() <= 8), "more than any window was");
        }
        rig.assert_done(2);
    }
}

#[test]
fn marks_decrease_the_window_and_their_end_increases_it() {
    let mut config = rig::config(32, 0, 0, 1);
    config.admission.congestion = CongestionAlgorithm::Aimd;
    let mut worker = Worker::new(config).unwrap();
    let mut switch = rig::Switch::default();
    let mut tensors = Tensors::new(0, 1);
    let mut now = Instant::ZERO;
    worker.submit(integers(2000)).unwrap();
    let mut flight = |worker: &mut Worker, marked: bool| {
        let mut sent = Vec::new();
        let mut buffer = [0; header::LEN + 4 * rig::LANE_WORDS];
        while let Some(len) = worker.poll_transmit(now, &mut buffer, &mut tensors) {
            sent.push(buffer[..len].to_vec());
        }
        now += Duration::from_micros(100);
        for datagram in &sent {
            if let Some((_, result)) = switch.process(1, 0, datagram) {
                if marked {
                    worker.note_mark();
                }
                assert_eq!(worker.handle_packet(now, &result, &mut tensors), Handled::Result);
            }
        }
        sent.len() as u32
    };
    assert_eq!(flight(&mut worker, false), 32, "all slots at first");
    for _ in 0..3 {
        flight(&mut worker, true);
    }
    assert!(worker.stats().window <= 8, "{}", worker.stats().window);
    assert!(flight(&mut worker, false) <= 8);
    let congested = worker.stats().congested;
    assert!((32..70).contains(&congested), "{congested}");
    for _ in 0..30 {
        flight(&mut worker, false);
    }
    assert_eq!(flight(&mut worker, false), 32);
}

/// Streams of one job at one switch, each with its own slots and chunk numbers: neither meets the other.
#[test]
fn streams_of_a_job_share_its_slots() {
    for seed in 0..20 {
        let (world, slots) = (1 + (seed % 4) as u16, 1 << (1 + seed % 5));
        let first_chunk = [0, u32::MAX - 9, 1 << 31][(seed % 3) as usize];
        let share = |index| SlotShare { first: index * slots / 2, count: slots / 2 };
        let rig = |index| Rig::sharing(seed, world, share(index), slots, first_chunk, ROUGH);
        let (mut one, mut other) = (rig(0), rig(1));
        for op in 0..6 {
            one.submit(if op % 2 == 0 { integers(20 + op) } else { blocks(30) });
            other.submit(if op % 3 == 0 { blocks(7) } else { integers(50) });
        }
        // They take turns at the same switch.
        let mut more = (true, true);
        while more.0 || more.1 {
            more.0 = one.turn();
            std::mem::swap(&mut one.switch, &mut other.switch);
            more.1 = other.turn();
            std::mem::swap(&mut one.switch, &mut other.switch);
        }
        one.assert_done(6);
        other.assert_done(6);
    }
}

#[test]
fn a_stream_behind_other_streams_is_not_stalled() {
    let mut worker = Worker::new(rig::config(4, 0, 0, 2)).unwrap();
    let mut tensors = Tensors::new(0, 2);
    worker.submit(integers(3)).unwrap();
    let mut buffer = [0; header::LEN + 4 * rig::LANE_WORDS];
    assert_eq!(worker.oldest_outstanding(), None);
    while worker.poll_transmit(Instant::ZERO, &mut buffer, &mut tensors).is_some() {}
    let oldest = worker.oldest_outstanding().map(|oldest| (oldest.chunk, oldest.sends));
    assert_eq!((oldest, worker.last_result(), worker.received_at()), (Some((0, 1)), None, None));
    let stall = worker.config().stall_timeout;
    worker.note_progress(Instant::ZERO + stall / 2);
    worker.handle_timeout(Instant::ZERO + stall);
    assert_eq!(worker.poll_event(), None);
    worker.note_progress(Instant::ZERO);
    worker.handle_timeout(Instant::ZERO + stall + stall / 2);
    assert!(matches!(worker.poll_event(), Some(WorkerEvent::Aborted(AbortReason::Stalled { .. }))));
}

#[test]
fn an_operation_completes_under_heavy_loss() {
    let mut rig = Rig::new(5, 8, 32, 12345, Network { loss: 0.2, duplicate: 0.2, jitter_us: 2000, ..ROUGH });
    rig.submit(blocks(300));
    rig.run();
    rig.assert_done(1);
    let stats = rig.workers[0].stats();
    assert!(stats.retransmitted_early > 0 && stats.retransmitted_timeout > 0);
}

#[test]
fn scattered_loss_is_detected_without_the_timer() {
    let network = Network { loss: 0.01, ..Network::PERFECT };
    let mut rig = Rig::new(3, 2, 16, 0, network);
    rig.submit(integers(5000));
    rig.run();
    rig.assert_done(1);
    let stats = rig.workers[0].stats();
    assert!(stats.retransmitted_early > 50, "{stats:?}");
    assert!(stats.retransmitted_timeout * 5 < stats.retransmitted_early, "{stats:?}");
    // Loss costs little: 5001 positions in windows of 16 take 31.3 ms without any.
    assert!(rig.now < Instant::ZERO + Duration::from_millis(50), "{:?}", rig.now);
}

#[test]
fn tiny_operations_pipeline() {
    // Each takes two positions, the second of which waits for the exponent in another slot.
    let mut rig = Rig::new(9, 3, 8, 5, ROUGH);
    for _ in 0..500 {
        rig.submit(blocks(1));
    }
    rig.run();
    rig.assert_done(500);
}

#[test]
fn empty_tensors_send_only_descriptors() {
    let mut rig = Rig::new(1, 2, 4, 0, Network::PERFECT);
    rig.submit(blocks(0));
    rig.submit(integers(0));
    rig.run();
    rig.assert_done(2);
    assert_eq!(rig.workers[0].stats().sent, 2);
}

#[test]
fn operations_may_be_submitted_while_others_run() {
    let mut rig = Rig::new(11, 2, 8, 0, ROUGH);
    for op in 0..40 {
        // One rank is ahead of the other.
        rig.workers[op % 2].submit(blocks(op as u32)).unwrap();
        (0..op).for_each(|_| {
            rig.step();
        });
        rig.workers[1 - op % 2].submit(blocks(op as u32)).unwrap();
    }
    rig.run();
    rig.assert_done(40);
}

#[test]
fn slots_do_not_wait_for_each_other() {
    // Position 1 is never acknowledged; all others advance, one window after the other.
    let mut worker = Worker::new(rig::config(4, 0, 0, 1)).unwrap();
    let mut tensors = Tensors::new(0, 1);
    worker.submit(integers(399)).unwrap();
    let mut switch = rig::Switch::default();
    let mut buffer = [0; 288];
    let mut now = Instant::ZERO;
    for _ in 0..200 {
        now += Duration::from_micros(1);
        while let Some(len) = worker.poll_transmit(now, &mut buffer, &mut tensors) {
            if Packet::new_checked(&buffer[..len]).unwrap().chunk() != 1 {
                let (_, bytes) = switch.process(1, 0, &buffer[..len]).unwrap();
                worker.handle_packet(now, &bytes, &mut tensors);
            }
        }
    }
    assert_eq!(worker.stats().results, 300);
}

#[test]
fn a_retransmission_differs_only_in_its_flag() {
    let mut worker = Worker::new(rig::config(2, 0, 0, 2)).unwrap();
    let mut tensors = Tensors::new(0, 2);
    worker.submit(blocks(5)).unwrap();
    let mut first = [0; 288];
    let mut again = [0; 288];
    let len = worker.poll_transmit(Instant::ZERO, &mut first, &mut tensors).unwrap();
    let deadline = worker.next_deadline().unwrap();
    assert_eq!(deadline, Instant::ZERO + Duration::from_millis(20));
    worker.handle_timeout(Instant::ZERO + Duration::from_millis(19));
    assert_eq!(
        worker.poll_transmit(deadline, &mut again, &mut tensors),
        Some(header::LEN),
        "the bare position"
    );
    assert_eq!(worker.poll_transmit(deadline, &mut again, &mut tensors), None);
    worker.handle_timeout(deadline);
    assert_eq!(worker.poll_transmit(deadline, &mut again, &mut tensors), Some(len));
    let mut packet = Packet::new_checked(&mut again[..]).unwrap();
    assert_eq!(packet.flags(), Flags::RESEND);
    packet.set_flags(Flags::default());
    assert_eq!(first, again);
    assert_eq!(worker.next_deadline(), Some(deadline + Duration::from_millis(40)), "backed off");
    assert_eq!((worker.stats().retransmitted, worker.stats().retransmitted_timeout), (1, 1));
}

#[test]
fn packets_sent_at_one_time_count_as_together_unless_separated() {
    let mut worker = Worker::new(rig::config(8, 0, 0, 2)).unwrap();
    let mut tensors = Tensors::new(0, 2);
    worker.submit(integers(20)).unwrap();
    let mut send = |worker: &mut Worker, us| {
        let now = Instant::ZERO + Duration::from_micros(us);
        worker.poll_transmit(now, &mut [0; 288], &mut tensors).unwrap();
        worker.stats().sent_together
    };
    assert_eq!([0, 0, 0, 5, 5].map(|us| send(&mut worker, us)), [0, 1, 2, 2, 3]);
    worker.part();
    assert_eq!([5, 5].map(|us| send(&mut worker, us)), [3, 4]);
}

#[test]
fn different_operations_are_named() {
    let mut rig = Rig::new(1, 4, 8, 0, ROUGH);
    rig.submit(integers(20));
    rig.run();
    for (rank, worker) in rig.workers.iter_mut().enumerate() {
        worker.submit(if rank == 2 { integers(40) } else { integers(41) }).unwrap();
        // These lie at different positions on rank 2, and must not be the ones to be named.
        worker.submit(OpSpec::BARRIER).unwrap();
        worker.submit(blocks(3)).unwrap();
    }
    rig.run();
    for (rank, events) in rig.events.iter().enumerate() {
        let (mine, theirs, named) = match rank {
            2 => (integers(40).descriptor, integers(41).descriptor, 0),
            _ => (integers(41).descriptor, integers(40).descriptor, 2),
        };
        let reason = AbortReason::Mismatch { rank: Some(named), mine, theirs: Some(theirs) };
        assert_eq!(events, &[WorkerEvent::OpDone(OpId(0)), WorkerEvent::Aborted(reason)], "rank {rank}");
        assert!(reason.to_string().contains("i32"), "{reason}");
        assert_eq!(rig.workers[rank].submit(OpSpec::BARRIER), Err(SubmitError::Aborted(reason)));
        assert_eq!(rig.workers[rank].next_deadline(), None);
    }
}

/// The one proposes an exponent beside its descriptor, the others do not. (Without loss: the tensors of these tests check exponents that ranks
/// agree on only if they submit the same.)
#[test]
fn an_operation_with_exponents_against_one_without_is_named() {
    for odd in 0..4 {
        let mut rig = Rig::new(1, 4, 8, 0, Network::PERFECT);
        for (rank, worker) in rig.workers.iter_mut().enumerate() {
            worker.submit(if rank == odd { blocks(20) } else { integers(20) }).unwrap();
        }
        rig.run();
        for (rank, events) in rig.events.iter().enumerate() {
            let other = usize::from(odd == 0);
            let named = if rank == odd { other } else { odd } as u16;
            let [WorkerEvent::Aborted(AbortReason::Mismatch { rank: Some(found), theirs: Some(_), .. })] =
                &events[..]
            else {
                panic!("rank {rank}: {events:?}")
            };
            assert_eq!(*found, named, "rank {rank}");
        }
    }
}

#[test]
fn an_unreachable_switch_ends_in_a_stall() {
    let mut rig = Rig::new(1, 2, 4, 0, Network { loss: 1.0, ..Network::PERFECT });
    rig.submit(integers(10));
    rig.run();
    let Some(WorkerEvent::Aborted(reason)) = rig.events[0].first() else { panic!("{:?}", rig.events) };
    let AbortReason::Stalled { silent, outstanding: 4, last_received: None } = *reason else {
        panic!("{reason:?}")
    };
    assert!(silent >= Duration::from_secs(60) && silent < Duration::from_secs(61));
    // 20 ms doubled up to 200 ms: about 300 resends of 4 chunks in a minute.
    let retransmitted = rig.workers[0].stats().retransmitted;
    assert!((1100..1300).contains(&retransmitted), "{retransmitted}");
}

#[test]
fn a_lost_peer_ends_in_a_stall_or_by_notification() {
    let mut rig = Rig::new(1, 3, 4, 0, Network::PERFECT);
    rig.submit(integers(1000));
    (0..50).for_each(|_| {
        rig.step();
    });
    rig.dead.push(1);
    rig.workers[2].abort(AbortReason::PeerLost { rank: 1 });
    rig.workers[2].abort(AbortReason::Closed);
    rig.run();
    assert!(matches!(
        rig.events[0][..],
        [WorkerEvent::Aborted(AbortReason::Stalled { last_received: Some(_), .. })]
    ));
    assert_eq!(rig.events[2], [WorkerEvent::Aborted(AbortReason::PeerLost { rank: 1 })]);
}

#[test]
fn stale_and_reject_end_the_job() {
    let answer = |kind, reason, edit: fn(&mut Repr)| {
        let mut worker = Worker::new(rig::config(2, 0, 0, 2)).unwrap();
        let mut tensors = Tensors::new(0, 2);
        worker.submit(integers(5)).unwrap();
        let mut bytes = [0; 288];
        worker.poll_transmit(Instant::ZERO, &mut bytes, &mut tensors).unwrap();
        let mut repr = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()).unwrap();
        (repr.kind, repr.reason) = (kind, reason);
        edit(&mut repr);
        repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        let handled = worker.handle_packet(Instant::ZERO, &bytes[..header::LEN], &mut tensors);
        (handled, worker.poll_event(), worker.poll_event())
    };
    let aborted = |reason| (Handled::Aborted, Some(WorkerEvent::Aborted(reason)), None);
    let ignored = |cause| (Handled::Ignored(cause), None, None);
    assert_eq!(answer(Kind::Stale, Reason::Stale, |_| {}), aborted(AbortReason::Stale { chunk: 0 }));
    assert_eq!(
        answer(Kind::Reject, Reason::JobEnded, |_| {}),
        aborted(AbortReason::Rejected(Reason::JobEnded))
    );
    assert_eq!(answer(Kind::Reject, Reason::None, |_| {}), ignored(Ignored::Shape));
    assert_eq!(answer(Kind::Reject, Reason::Path, |_| {}), ignored(Ignored::Late));
    assert_eq!(answer(Kind::Reject, Reason::Epoch, |repr| repr.epoch += 1), ignored(Ignored::Epoch));
    assert_eq!(answer(Kind::Reject, Reason::Key, |repr| repr.key += 1), ignored(Ignored::Key));
    assert_eq!(answer(Kind::Reject, Reason::Slot, |repr| repr.job += 1), ignored(Ignored::Job));
    assert_eq!(
        answer(Kind::Stale, Reason::Stale, |repr| (repr.chunk, repr.slot) = (1, 1)),
        ignored(Ignored::Unsent)
    );
    assert_eq!(
        answer(Kind::Stale, Reason::Stale, |repr| (repr.chunk, repr.set) = (u32::MAX - 1, 1)),
        ignored(Ignored::Late)
    );
    assert_eq!(answer(Kind::Data, Reason::None, |_| {}), ignored(Ignored::Kind));
}

#[test]
fn probes_are_stale_at_any_length_of_the_stream() {
    for first_chunk in [0, 1 << 31, u32::MAX] {
        for start in [0, 1 << 29, 1 << 30, (1 << 31) - 2, 3 << 29, 3 << 30, (1 << 32) - 2, 1 << 40] {
            let mut worker = Worker::starting_at(start, rig::config(4, first_chunk, 0, 2)).unwrap();
            let mut tensors = Tensors::new(0, 2);
            let mut bytes = [0; 288];
            assert_eq!(worker.write_liveness_probe(0, &mut bytes), None, "nothing is awaited");
            worker.submit(integers(5)).unwrap();
            worker.poll_transmit(Instant::ZERO, &mut bytes, &mut tensors).unwrap();
            let sent = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()).unwrap();
            assert_eq!(sent.chunk, first_chunk.wrapping_add(start as u32));
            assert_eq!(worker.write_liveness_probe(9, &mut bytes), Some(bytes.len()));
            let probe = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()).unwrap();
            assert_eq!(
                (probe.kind, probe.slot, probe.set, probe.class),
                (Kind::Data, sent.slot, sent.set, 9)
            );
            for held in [0, 1, 4, 8, (1 << 30) + 5].map(|behind| sent.chunk.wrapping_sub(behind)) {
                assert!(
                    serial::newer(held, probe.chunk),
                    "{first_chunk} {start}: {held:#x} {:#x}",
                    probe.chunk
                );
            }
            let stale = Repr { kind: Kind::Stale, reason: Reason::Stale, ..probe };
            stale.emit(&mut Packet::new_unchecked(&mut bytes[..]));
            let handled = worker.handle_packet(Instant::ZERO, &bytes[..header::LEN], &mut tensors);
            assert_eq!(handled, Handled::Ignored(Ignored::Late));
        }
    }
}

#[test]
fn the_queue_is_bounded() {
    let mut config = rig::config(2, 0, 0, 1);
    config.ops_max = 2;
    let mut worker = Worker::new(config).unwrap();
    assert_eq!(worker.submit(OpSpec::BARRIER), Ok(OpId(0)));
    assert_eq!(worker.submit(OpSpec::BARRIER), Ok(OpId(1)));
    assert_eq!(worker.submit(OpSpec::BARRIER), Err(SubmitError::QueueFull { ops_max: 2 }));
    let mut wide = integers(1);
    wide.data_chunks = DATA_CHUNKS_MAX + 1;
    let mut worker = Worker::new(rig::config(2, 0, 0, 1)).unwrap();
    assert_eq!(worker.submit(wide), Err(OpSpecError::Chunks(DATA_CHUNKS_MAX + 1).into()));
    assert_eq!(worker.pending(), 0);
}

#[test]
fn the_largest_operation_is_accepted() {
    let mut worker = Worker::new(rig::config(1 << 15, u32::MAX, 0, 1)).unwrap();
    worker.submit(blocks(DATA_CHUNKS_MAX)).unwrap();
    worker.submit(blocks(DATA_CHUNKS_MAX)).unwrap();
    assert_eq!(worker.pending(), 2);
}

#[test]
fn damaged_configurations_are_refused() {
    let with = |edit: fn(&mut WorkerConfig)| {
        let mut config = rig::config(4, 0, 1, 2);
        edit(&mut config);
        Worker::new(config).err()
    };
    assert_eq!(with(|_| {}), None);
    assert_eq!(with(|c| c.world = 0), Some(WorkerConfigError::World(0)));
    assert_eq!(with(|c| c.world = 32769), Some(WorkerConfigError::World(32769)));
    assert_eq!(with(|c| c.rank = 2), Some(WorkerConfigError::Rank { rank: 2, world: 2 }));
    fn share(first: u32, count: u32) -> SlotShare {
        SlotShare { first, count }
    }
    assert_eq!(with(|c| c.share = share(0, 0)), Some(WorkerConfigError::Share(share(0, 0))));
    assert_eq!(with(|c| c.share = share(0, 3)), Some(WorkerConfigError::Share(share(0, 3))));
    assert_eq!(with(|c| c.share = share(1, 4)), Some(WorkerConfigError::Share(share(1, 4))));
    assert_eq!(with(|c| c.share = share(u32::MAX, 1)), Some(WorkerConfigError::Share(share(u32::MAX, 1))));
    assert_eq!(with(|c| c.share = share(3, 1)), None);
    assert_eq!(with(|c| c.admission.slots = 0), Some(WorkerConfigError::Slots(0)));
    assert_eq!(with(|c| c.admission.slots = 6), Some(WorkerConfigError::Slots(6)));
    assert_eq!(with(|c| c.admission.slots = 1 << 16), Some(WorkerConfigError::Slots(1 << 16)));
    assert_eq!(with(|c| c.admission.lane_words = 15), Some(WorkerConfigError::LaneWords(15)));
    assert_eq!(with(|c| c.admission.lane_words = u32::MAX), Some(WorkerConfigError::LaneWords(u32::MAX)));
    assert_eq!(with(|c| c.admission.bitmap = 0), Some(WorkerConfigError::Bitmap));
    assert_eq!(with(|c| c.rto_min = Duration::ZERO), Some(WorkerConfigError::Timers));
    assert_eq!(with(|c| c.rto_max = Duration::ZERO), Some(WorkerConfigError::Timers));
    assert_eq!(with(|c| c.ops_max = 0), Some(WorkerConfigError::OpsMax));
}
