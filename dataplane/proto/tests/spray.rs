//! Entropy values: every policy on its own, and over paths of which some are slow or lose all packets.

use std::collections::{BTreeSet, VecDeque};

use netfold_proto::spray::{
    Bitmap, CACHE, EXPLORED, FROZEN_NS, Mixed, Oblivious, PacketOutcome, Reps, Spray, VALUES_MAX,
};

#[test]
fn every_round_has_every_value_once() {
    let mut walk = Oblivious::new(64, 3).unwrap();
    let rounds: Vec<Vec<u16>> = (0..20).map(|_| (0..64).map(|_| walk.next(0)).collect()).collect();
    for round in &rounds {
        assert_eq!(round.iter().copied().collect::<BTreeSet<u16>>().len(), 64);
        assert!(round.iter().all(|value| *value < 64));
    }
    let orders: BTreeSet<&Vec<u16>> = rounds.iter().collect();
    assert!(orders.len() > 10, "in another order each time");
    let again: Vec<u16> = {
        let mut walk = Oblivious::new(64, 3).unwrap();
        (0..64).map(|_| walk.next(0)).collect()
    };
    assert_eq!(again, rounds[0], "the same from the same seed");
    for count in [0, 3, VALUES_MAX + 1] {
        assert!(Oblivious::new(count, 0).is_err());
        assert!(
            Bitmap::new(count, 0).is_err() && Reps::new(count, 0).is_err() && Mixed::new(count, 0).is_err()
        );
    }
}

#[test]
fn penalties_decrease_each_time_a_value_is_skipped() {
    let mut spray = Bitmap::new(16, 1).unwrap();
    spray.record_outcome(0, 5, PacketOutcome::Trimmed);
    spray.record_outcome(0, 6, PacketOutcome::Marked);
    spray.record_outcome(0, 7, PacketOutcome::TimedOut);
    spray.record_outcome(0, 7, PacketOutcome::TimedOut);
    spray.record_outcome(0, 8, PacketOutcome::Clean);
    spray.record_outcome(0, 999, PacketOutcome::TimedOut);
    assert_eq!([5, 6, 7, 8].map(|value| spray.penalty(value)), [4, 1, 15, 0]);
    let mut given = [0; 16];
    // Fifteen rounds: without those skipped there are 16 less 1 each time for 7, and so on.
    for _ in 0..16 * 15 - 20 {
        given[usize::from(spray.next(0))] += 1;
    }
    assert_eq!((given[5], given[6], given[7]), (11, 14, 0));
    assert!(
        given.iter().enumerate().all(|(value, count)| (5..8).contains(&value) || *count == 15),
        "{given:?}"
    );
    assert_eq!(spray.penalty(7), 0);
    // When all are penalised, those with the least come first.
    (0..16).for_each(|value| {
        spray.record_outcome(
            0,
            value,
            if value == 3 { PacketOutcome::Marked } else { PacketOutcome::Trimmed },
        )
    });
    assert_eq!(spray.next(0), 3);
}

#[test]
fn what_came_through_is_used_again_once_and_the_oldest_first() {
    let mut spray = Reps::new(256, 9).unwrap();
    (10..13).for_each(|value| spray.record_outcome(0, value, PacketOutcome::Clean));
    spray.record_outcome(0, 99, PacketOutcome::Marked);
    assert_eq!([spray.next(0), spray.next(0), spray.next(0)], [10, 11, 12]);
    let explored: BTreeSet<u16> = (0..50).map(|_| spray.next(0)).collect();
    assert!(explored.len() > 30, "then random ones");
    (0..CACHE as u16 + 2).for_each(|value| spray.record_outcome(0, value, PacketOutcome::Clean));
    assert_eq!(spray.next(0), 2, "older ones were forgotten");
}

#[test]
fn after_a_timeout_only_what_came_through_is_used() {
    let mut spray = Reps::new(256, 9).unwrap();
    spray.record_outcome(0, 1, PacketOutcome::TimedOut);
    assert!(spray.is_frozen(1));
    assert!((0..256).contains(&spray.next(1)), "nothing came through yet: something must be tried");
    let mut spray = Reps::new(256, 9).unwrap();
    for value in [40, 41, 42] {
        spray.record_outcome(0, value, PacketOutcome::Clean);
        assert_eq!(spray.next(0), value);
    }
    spray.record_outcome(5, 7, PacketOutcome::TimedOut);
    spray.record_outcome(6, 50, PacketOutcome::Clean);
    let frozen: Vec<u16> = (0..6).map(|_| spray.next(10)).collect();
    assert_eq!(frozen, [40, 41, 42, 40, 41, 42], "in turn, used or not; nothing is learnt meanwhile");
    let over = 5 + FROZEN_NS;
    assert!(spray.is_frozen(over - 1) && !spray.is_frozen(over));
    spray.record_outcome(over, 77, PacketOutcome::Clean);
    let explored: BTreeSet<u16> = (0..EXPLORED).map(|_| spray.next(over)).collect();
    assert!(explored.len() > 10, "all is forgotten, and random ones are tried");
    assert_eq!(spray.next(over), 77);
}

/// So many packets over 16 paths, of which some lose all packets and some mark; a packet's outcome is known 16 packets later.
/// Returns the part of packets on dead and on slow paths, of the second half.
fn shares(spray: &mut dyn Spray, dead: u16, slow: u16) -> (f64, f64) {
    const PACKETS: usize = 20_000;
    let mut waiting: VecDeque<(u16, PacketOutcome)> = VecDeque::new();
    let (mut lost, mut marked) = (0, 0);
    for packet in 0..PACKETS {
        let now_ns = packet as u64 * 1_000;
        let value = spray.next(now_ns);
        // A fixed scattering of values over paths.
        let path = (value.wrapping_mul(0x9e37) >> 7) % 16;
        let outcome = match path {
            path if path < dead => PacketOutcome::TimedOut,
            path if path < dead + slow => PacketOutcome::Marked,
            _ => PacketOutcome::Clean,
        };
        if packet >= PACKETS / 2 {
            lost += usize::from(outcome == PacketOutcome::TimedOut);
            marked += usize::from(outcome == PacketOutcome::Marked);
        }
        waiting.push_back((value, outcome));
        if waiting.len() > 16
            && let Some((value, outcome)) = waiting.pop_front()
        {
            spray.record_outcome(now_ns, value, outcome);
        }
    }
    (lost as f64 / (PACKETS / 2) as f64, marked as f64 / (PACKETS / 2) as f64)
}

#[test]
fn what_is_learnt_keeps_packets_off_bad_paths() {
    println!("| policy | packets on 2 dead of 16 paths | on 4 slow of 16 |");
    println!("|---|---|---|");
    let mut all = Vec::new();
    for name in ["oblivious", "bitmap", "reps", "mixed"] {
        let new = || -> Box<dyn Spray> {
            match name {
                "oblivious" => Box::new(Oblivious::new(128, 7).unwrap()),
                "bitmap" => Box::new(Bitmap::new(128, 7).unwrap()),
                "reps" => Box::new(Reps::new(128, 7).unwrap()),
                _ => Box::new(Mixed::new(128, 7).unwrap()),
            }
        };
        let (dead, slow) = (shares(&mut *new(), 2, 0).0, shares(&mut *new(), 0, 4).1);
        println!("| {name} | {:.2} % | {:.2} % |", 100.0 * dead, 100.0 * slow);
        all.push((dead, slow));
    }
    let [oblivious, bitmap, reps, mixed] = all[..] else { panic!("four policies") };
    assert!((oblivious.0 - 2.0 / 16.0).abs() < 0.03 && (oblivious.1 - 4.0 / 16.0).abs() < 0.03);
    assert!(bitmap.0 < oblivious.0 / 8.0, "a time-out costs fifteen turns");
    assert!(bitmap.1 < 0.7 * oblivious.1, "a mark one");
    assert!(reps.0 < oblivious.0 / 20.0 && reps.1 < oblivious.1 / 20.0, "what came through comes through");
    assert!(mixed.0 < bitmap.0 + 1e-9 && mixed.1 < bitmap.1, "the better of both");
}
