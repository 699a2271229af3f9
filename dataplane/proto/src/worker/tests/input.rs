//! Input that arrives while operations are under way: the rig's codec asserts that nothing is read before it is there.

use super::*;
use crate::worker::tests::rig::Arrivals;

fn arriving(rig: &mut Rig, step: impl Fn(u16) -> (u32, u64)) {
    for (rank, tensors) in (0..).zip(&mut rig.tensors) {
        let (chunks, micros) = step(rank);
        let period = Duration::from_micros(micros);
        let (now, begun) = (rig.now, std::collections::BTreeMap::new());
        tensors.arrivals = Some(Arrivals { chunks, period, now, begun });
    }
}

#[test]
fn input_that_arrives_late_changes_no_result_under_loss_and_congestion_control() {
    for seed in 0..120 {
        let world = 1 + (seed % 5) as u16;
        let slots = 1 << (seed % 6);
        let first_chunk = [0, u32::MAX - 30, 1 << 31][(seed / 6 % 3) as usize];
        let mut rig = Rig::new(seed, world, slots, first_chunk, ROUGH);
        if seed % 3 == 0 {
            rig = rig.predicting(3);
        }
        if seed % 2 == 0 {
            rig = rig.controlled(|_| algorithm(seed as usize / 2));
        }
        arriving(&mut rig, |rank| (1 + (seed as u32 + u32::from(rank)) % 9, 20 + 37 * u64::from(rank)));
        rig.submit_nine(seed);
        rig.run();
        rig.assert_done(9);
        for tensors in &rig.tensors {
            let mut verified = tensors.verified.clone();
            verified.sort_unstable();
            assert_eq!(verified, (0..9).map(OpId).collect::<Vec<_>>(), "each operation once");
        }
    }
}

/// A tensor of 400 chunks that takes 400 us to arrive, and 400 us to be sent.
#[test]
fn chunks_are_sent_as_they_arrive() {
    let run = |arrivals: Option<(u32, u64)>| {
        let shared = SharedLink { packet_us: 1, room: 1000, mark_from: 1000 };
        let mut rig =
            Rig::new(1, 1, 64, 0, Network { delay_us: 2, shared: Some(shared), ..Network::PERFECT });
        if let Some(step) = arrivals {
            arriving(&mut rig, |_| step);
        }
        rig.submit(blocks(400));
        rig.run();
        rig.assert_done(1);
        assert_eq!(rig.workers[0].stats().retransmitted, 0);
        (rig.now - Instant::ZERO).as_micros()
    };
    let (at_once, in_steps, whole) = (run(None), run(Some((25, 25))), run(Some((400, 400))));
    println!("{at_once} us at once, {in_steps} us in steps of 25, {whole} us behind all input");
    assert!(in_steps < at_once + 60, "{in_steps} us, without waiting {at_once} us");
    assert!(whole >= at_once + 400, "{whole} us");
}

#[test]
fn a_worker_says_that_it_awaits_input_and_an_abort_ends_that() {
    let mut worker = Worker::new(rig::config(8, 0, 0, 1)).unwrap();
    let mut tensors = Tensors::new(0, 1);
    let now = Instant::ZERO;
    let begun = std::collections::BTreeMap::new();
    tensors.arrivals = Some(Arrivals { chunks: 1, period: Duration::from_micros(10), now, begun });
    worker.submit(integers(20)).unwrap();
    let mut buffer = [0; header::LEN + 4 * rig::LANE_WORDS];
    // The descriptor depends on nothing.
    assert!(worker.poll_transmit(now, &mut buffer, &mut tensors).is_some());
    assert_eq!((worker.poll_transmit(now, &mut buffer, &mut tensors), worker.awaits_input()), (None, true));
    assert_eq!(worker.next_class(&mut tensors), None);
    tensors.arrivals.as_mut().unwrap().now = now + Duration::from_micros(20);
    assert_eq!(worker.next_class(&mut tensors), Some(0));
    let sent = std::iter::from_fn(|| worker.poll_transmit(now, &mut buffer, &mut tensors)).count();
    assert_eq!((sent, worker.awaits_input()), (2, true));
    worker.abort(AbortReason::PeerLost { rank: 0 });
    assert!(!worker.awaits_input());
    assert_eq!(worker.poll_transmit(now, &mut buffer, &mut tensors), None);
}
