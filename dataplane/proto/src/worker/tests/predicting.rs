//! Operations whose exponents are predicted.

use super::*;

fn stats(rig: &Rig) -> (u64, u64) {
    let sum = |count: fn(&WorkerStats) -> u64| rig.workers.iter().map(|worker| count(worker.stats())).sum();
    (sum(|stats| stats.predicted), sum(|stats| stats.mispredicted))
}

#[test]
fn a_small_operation_takes_one_round_trip_where_all_predict_right() {
    let mut rig = Rig::new(1, 3, 64, u32::MAX - 5, Network::PERFECT).predicting(u64::MAX);
    let mut took = Vec::new();
    for _ in 0..4 {
        let start = rig.now;
        rig.submit(blocks(2));
        rig.run();
        took.push((rig.now - start).as_micros());
    }
    rig.assert_done(4);
    assert_eq!(took, [200, 100, 100, 100], "the first has nothing to predict from");
    assert_eq!(stats(&rig), (18, 6));
    for worker in &rig.workers {
        let (data, bare) = (32 + 4 * 64, 32);
        assert_eq!(worker.stats().sent_bytes, 4 * 3 * data + 2 * bare, "headers alone without a prediction");
        assert_eq!((worker.stats().retransmitted, worker.stats().ignored_total()), (0, 0));
    }
}

#[test]
fn a_wrong_prediction_costs_a_round_trip_and_changes_no_result() {
    let mut rig = Rig::new(1, 3, 64, 0, Network::PERFECT).predicting(1);
    for _ in 0..20 {
        let start = rig.now;
        rig.submit(blocks(3));
        rig.run();
        assert_eq!((rig.now - start).as_micros(), 200);
    }
    rig.assert_done(20);
    assert!(rig.workers[0].stats().non_finite > 0);
    let (predicted, mispredicted) = stats(&rig);
    assert!(predicted < mispredicted / 4, "{predicted} of {mispredicted}");
}

/// Ranks whose tensors have moved, one of which then predicts from another operation than the others.
#[test]
fn ranks_that_predict_from_different_operations_repeat_and_agree() {
    let mut rig = Rig::new(1, 3, 64, 0, Network::PERFECT).predicting(4);
    rig.tensors[1].keys = |op| op.0 % 3;
    for _ in 0..40 {
        rig.submit(blocks(2));
        rig.run();
    }
    rig.assert_done(40);
    let (predicted, mispredicted) = stats(&rig);
    assert!(predicted > 0 && mispredicted > predicted, "{predicted} and {mispredicted}");
    assert_eq!((predicted % 3, mispredicted % 3), (0, 0), "all ranks deliver, or none");
}

#[test]
fn loss_changes_no_result_of_predicted_operations() {
    let (mut predicted, mut mispredicted, mut early) = (0, 0, 0);
    for seed in 0..150 {
        let world = 1 + (seed % 5) as u16;
        let slots = 1 << (seed % 6);
        let first_chunk = [0, u32::MAX - 30, 1 << 31, u32::MAX][(seed / 6 % 4) as usize];
        let rig = Rig::new(seed, world, slots, first_chunk, ROUGH)
            .controlled(|rank| algorithm(seed as usize + rank));
        let mut rig = rig.predicting([1, 5, u64::MAX][(seed % 3) as usize]);
        if seed % 4 == 0 {
            rig.tensors[0].keys = |op| op.0 % 2;
        }
        for op in 0..30 {
            rig.submit(match op % 5 {
                0 => integers(1 + (seed % 20) as u32),
                1 => blocks(1 + (seed % 30) as u32),
                2 => OpSpec::BARRIER,
                _ => blocks(1 + op as u32 % 2 * 4),
            });
            if seed % 2 == 0 {
                rig.run();
            }
        }
        rig.run();
        rig.assert_done(30);
        let (right, wrong) = stats(&rig);
        (predicted, mispredicted) = (predicted + right, mispredicted + wrong);
        early += rig.workers.iter().map(|worker| worker.stats().ignored_for(Ignored::Early)).sum::<u64>();
    }
    println!("{predicted} predicted, {mispredicted} mispredicted, {early} early");
    assert!(predicted > 1000 && mispredicted > 1000 && early > 10);
}

/// The descriptors' result is lost: what came before it is requested at once, without a timer.
#[test]
fn results_before_their_descriptors_are_requested_again() {
    let mut switch = rig::Switch::default();
    let mut tensors = Tensors::new(0, 1);
    let config = WorkerConfig { predict: true, ..rig::config(8, 0, 0, 1) };
    let mut worker = Worker::new(config).unwrap();
    let mut buffer = [0; header::LEN + 4 * rig::LANE_WORDS];
    worker.submit(blocks(2)).unwrap();
    let now = Instant::ZERO;
    let mut exchange = |worker: &mut Worker, tensors: &mut Tensors| {
        let mut results = Vec::new();
        while let Some(len) = worker.poll_transmit(now, &mut buffer, tensors) {
            results.extend(switch.process(1, 0, &buffer[..len]).map(|(_, bytes)| bytes));
        }
        results
    };
    let results = exchange(&mut worker, &mut tensors);
    assert_eq!(results.len(), 3);
    for early in &results[1..] {
        assert_eq!(worker.handle_packet(now, early, &mut tensors), Handled::Ignored(Ignored::Early));
    }
    assert!(exchange(&mut worker, &mut tensors).is_empty());
    assert_eq!(worker.handle_packet(now, &results[0], &mut tensors), Handled::Result);
    let again = exchange(&mut worker, &mut tensors);
    assert_eq!(again.len(), 2, "both at once");
    assert_eq!((worker.stats().retransmitted, worker.stats().retransmitted_early), (2, 2));
    for result in &again {
        assert_eq!(worker.handle_packet(now, result, &mut tensors), Handled::Result);
    }
    for repeated in exchange(&mut worker, &mut tensors) {
        assert_eq!(worker.handle_packet(now, &repeated, &mut tensors), Handled::Result);
    }
    assert_eq!(worker.poll_event(), Some(WorkerEvent::OpDone(OpId(0))));
}

/// Positions that an operation takes: one for the descriptor and one for each chunk where exponents are predicted.
#[test]
fn what_all_ranks_know_decides_what_is_predicted() {
    let positions = |config: WorkerConfig, spec: OpSpec| {
        let mut worker = Worker::new(config).unwrap();
        let op = worker.submit(spec).unwrap();
        worker.missing(op).unwrap().1
    };
    let config = |world: u16| WorkerConfig { predict: true, ..rig::config(64, 0, 0, world) };
    assert_eq!(positions(config(4), blocks(8)), 9);
    assert_eq!(positions(config(4), blocks(9)), 18, "too many chunks");
    assert_eq!(positions(WorkerConfig { predict: false, ..config(4) }, blocks(8)), 16);
    assert_eq!(positions(config(4), integers(8)), 9);
    let saturating = WorkerConfig { numerics: Numerics::Saturating, ..config(4) };
    assert_eq!(positions(saturating, blocks(8)), 16);
    let mut tolerant = blocks(8);
    tolerant.descriptor.tolerance = Tolerance::fraction(0.1).unwrap();
    assert_eq!(positions(config(4), tolerant), 16);
    // 64 words: 28 ranks' descriptors leave room for 4 chunks' sums, and 32 ranks' for none.
    assert_eq!((positions(config(28), blocks(4)), positions(config(28), blocks(5))), (5, 10));
    assert_eq!(positions(config(32), blocks(1)), 2);
    assert_eq!((positions(config(31), blocks(1)), positions(config(31), blocks(2))), (2, 4));
}

#[test]
fn other_operations_are_named_before_a_result_is_delivered() {
    let mut rig = Rig::new(1, 3, 64, 0, Network::PERFECT).predicting(u64::MAX);
    for (rank, (worker, elements)) in rig.workers.iter_mut().zip([189, 189, 188]).enumerate() {
        let mut spec = blocks(3);
        spec.descriptor.elements = elements;
        assert_eq!(worker.submit(spec), Ok(OpId(0)), "rank {rank}");
    }
    rig.run();
    for (events, tensors) in rig.events.iter().zip(&rig.tensors) {
        assert!(
            matches!(events[..], [WorkerEvent::Aborted(AbortReason::Mismatch { .. })])
                && tensors.done.is_empty(),
            "{events:?}"
        );
    }
}
