use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

/// The ones' complement sum of RFC 1071 over big-endian 16-bit words, an odd byte padded with zero. The two forms of
/// zero are one: what else UDP sums up (addresses, ports) is never zero in total.
fn checksum(bytes: &[u8]) -> u16 {
    let (words, odd) = bytes.as_chunks::<2>();
    let sum: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    let sum = sum + odd.first().map_or(0, |byte| u64::from(*byte) << 8);
    (sum % 0xffff) as u16
}

/// Offers packets `0..count` (4 bytes each), `step` apart, and returns what comes out, with its time.
fn run(seed: u64, faults: Faults, count: u32, step: Duration) -> (Vec<(Duration, Vec<u8>)>, FaultCounters) {
    let mut line = FaultLine::new(seed, faults, 1 << 16);
    let mut out = Vec::new();
    let mut now = Duration::ZERO;
    for number in 0..count {
        while let Some(((), bytes)) = line.pop(now) {
            out.push((now, bytes.to_vec()));
        }
        let bytes = number.to_be_bytes();
        if line.offer(now, (), &bytes) == Offered::Passes {
            out.push((now, bytes.to_vec()));
        }
        now += step;
    }
    loop {
        while let Some(((), bytes)) = line.pop(now) {
            out.push((now, bytes.to_vec()));
        }
        match line.next_release() {
            Some(next) => now = now.max(next),
            None => break,
        }
    }
    assert_eq!(line.held(), 0);
    (out, line.counters())
}

fn numbers(out: &[(Duration, Vec<u8>)]) -> Vec<u32> {
    out.iter().map(|(_, bytes)| u32::from_be_bytes(bytes[..].try_into().unwrap())).collect()
}

#[test]
fn no_fault_passes_everything() {
    let (out, counters) = run(1, Faults::default(), 100, MS);
    assert_eq!(numbers(&out), (0..100).collect::<Vec<_>>());
    assert_eq!(counters, FaultCounters { offered: 100, ..FaultCounters::default() });
}

#[test]
fn rates_are_as_configured() {
    let (out, counters) = run(2, Faults { loss: 0.2, ..Faults::default() }, 20_000, MS);
    assert_eq!(out.len() as u64 + counters.lost, 20_000);
    assert!((3_700..4_300).contains(&counters.lost), "{counters:?}");
    let (out, counters) = run(2, Faults { duplicate: 0.1, ..Faults::default() }, 20_000, MS);
    assert_eq!(out.len() as u64, 20_000 + counters.duplicated);
    assert!((1_800..2_200).contains(&counters.duplicated), "{counters:?}");
    let all = Faults { loss: 1.0, ..Faults::default() };
    assert!(run(2, all, 50, MS).0.is_empty());
}

#[test]
fn reordering_is_bounded_by_distance_and_time() {
    let faults =
        Faults { reorder: 0.3, reorder_distance: 5, reorder_hold: 1_000_000 * MS, ..Faults::default() };
    let (out, counters) = run(3, faults, 5_000, MS);
    let order = numbers(&out);
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..5_000).collect::<Vec<_>>());
    assert_ne!(order, sorted);
    for (place, number) in order.iter().enumerate() {
        assert!(place.abs_diff(*number as usize) <= 10, "packet {number} came out as number {place}");
    }
    assert!(counters.reordered > 1_000);
    // Alone on the line, a packet leaves when its time is over.
    let faults = Faults { reorder: 1.0, reorder_hold: 7 * MS, ..Faults::default() };
    let (out, _) = run(3, faults, 1, MS);
    assert_eq!(out[0].0, 7 * MS);
}

#[test]
fn delay_lies_between_its_bounds() {
    let faults = Faults { delay_min: 2 * MS, delay_max: 5 * MS, ..Faults::default() };
    let mut line = FaultLine::new(4, faults, 4096);
    for number in 0..1000_u32 {
        assert_eq!(line.offer(Duration::ZERO, (), &number.to_be_bytes()), Offered::Taken);
    }
    assert!(line.pop(2 * MS - Duration::from_nanos(1)).is_none());
    let first = line.next_release().unwrap();
    assert!((2 * MS..3 * MS).contains(&first), "{first:?}");
    let mut count = 0;
    while line.pop(5 * MS).is_some() {
        count += 1;
    }
    assert_eq!((count, line.next_release()), (1000, None));
}

#[test]
fn a_fixed_delay_keeps_the_order() {
    let faults = Faults { delay_min: MS, delay_max: MS, ..Faults::default() };
    let mut line = FaultLine::new(4, faults, 4096);
    for number in 0..100_u32 {
        line.offer(Duration::ZERO, (), &number.to_be_bytes());
    }
    for number in 0..100_u32 {
        assert_eq!(line.pop(MS).unwrap().1, number.to_be_bytes());
    }
}

#[test]
fn corruption_that_the_checksum_shows_is_dropped() {
    let mut line = FaultLine::new(5, Faults { corrupt: 0.5, ..Faults::default() }, 16);
    let passed =
        (0..1000).filter(|_| line.offer(Duration::ZERO, (), b"data") == Offered::Passes).count() as u64;
    let counters = line.counters();
    assert_eq!((counters.corrupt, counters.dropped()), (1000 - passed, 1000 - passed));
    assert!((400..600).contains(&passed) && line.pop(MS).is_none());
}

#[test]
fn undetected_corruption_changes_two_bits_and_not_the_checksum() {
    let mut line = FaultLine::new(5, Faults { undetected: 1.0, ..Faults::default() }, 16);
    for len in [2, 3, 63, 64] {
        let original: Vec<u8> = (0..len).map(|index| (index * 37) as u8).collect();
        let before = line.counters().undetected;
        let mut changed = 0;
        for _ in 0..1000 {
            assert_eq!(line.offer(Duration::ZERO, (), &original), Offered::Taken);
            let ((), bytes) = line.pop(Duration::ZERO).expect("it is delivered");
            let flips: u32 = bytes.iter().zip(&original).map(|(one, other)| (one ^ other).count_ones()).sum();
            assert!(flips == 0 || flips == 2, "{flips}");
            assert_eq!(checksum(bytes), checksum(&original));
            changed += u64::from(flips == 2);
        }
        assert_eq!(line.counters().undetected - before, changed);
        // A single word has no second bit in its columns; of two bytes in a column, three bits of eight differ;
        // of many, the lowest bits are equal, for they are those of multiples of 74, and of 37 more.
        let expected = match len {
            2 => 0..1,
            3 => 150..350,
            _ => 800..950,
        };
        assert!(expected.contains(&changed), "{len} bytes: {changed}");
    }
    // Where there is nothing that could change, the datagram is delivered as it was.
    for bytes in [&[][..], &[0; 64]] {
        line.offer(Duration::ZERO, (), bytes);
        assert_eq!(line.pop(Duration::ZERO), Some(((), bytes)));
    }
}

#[test]
fn rfc_1071_example() {
    // RFC 1071, section 3: the sum of these bytes is ddf2.
    assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    assert_eq!(checksum(&[0x12]), 0x1200);
    assert_eq!(checksum(&[0xff, 0xff]), checksum(&[0, 0]));
}

#[test]
fn room_bounds_held_packets() {
    let faults = Faults { delay_min: MS, delay_max: MS, duplicate: 1.0, ..Faults::default() };
    let mut line = FaultLine::new(6, faults, 10);
    let mut offered = 0;
    while line.has_room() {
        line.offer(Duration::ZERO, (), b"x");
        offered += 1;
    }
    assert_eq!((offered, line.held()), (5, 10));
    assert!(line.pop(MS).is_some());
    assert!(!line.has_room());
    assert!(line.pop(MS).is_some());
    assert!(line.has_room());
}

proptest! {
    #[test]
    fn a_seed_repeats_a_run_and_counters_balance(
        seed: u64,
        loss in 0.0..0.5, duplicate in 0.0..0.5, reorder in 0.0..0.8, corrupt in 0.0..0.3, undetected in 0.0..0.3,
        distance in 1u32..40, delay in 0u64..20, step in 0u64..3,
    ) {
        let faults = Faults {
            loss, duplicate, reorder, corrupt, undetected,
            reorder_distance: distance,
            reorder_hold: 10 * MS,
            delay_min: Duration::ZERO,
            delay_max: delay as u32 * MS,
        };
        let (out, counters) = run(seed, faults, 300, step as u32 * MS);
        prop_assert_eq!(out.len() as u64, 300 + counters.duplicated - counters.dropped());
        let again = run(seed, faults, 300, step as u32 * MS);
        prop_assert_eq!((out, counters), again);
    }
}
