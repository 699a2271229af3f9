use super::*;
use netfold_p4::profile::SLOTS_SOFTWARE;

/// Sizes that are less than a chunk, not whole chunks, and more than a window.
const SIZES: [u64; 4] = [4, 2816, 10_004, 1 << 20];

fn rows(config: AllReduceConfig) -> Vec<AllReduceRow> {
    let mut bench = AllReduceBench::new(config).unwrap();
    SIZES.iter().map(|&bytes| bench.measure(bytes).unwrap()).collect()
}

fn short() -> AllReduceConfig {
    AllReduceConfig { workers: 3, iterations: Some(2), ..AllReduceConfig::default() }
}

#[test]
fn every_mode_is_right_over_rings() {
    for mode in [Mode::Bfp16, Mode::Bfp32, Mode::I32] {
        for row in rows(AllReduceConfig { mode, ..short() }) {
            assert_eq!(row.wrong, 0, "{row:?}");
            assert_eq!((row.count, row.iterations), (row.bytes / 4, 2));
            assert!(row.time_us > 0.0 && row.bound > 0.0, "{row:?}");
            assert!(row.bound_ratio > 0.0 && row.bound_ratio <= 1.0, "nothing exceeds its bound: {row:?}");
            assert!(row.time_us_min <= row.time_us && row.time_us <= row.time_us_max, "{row:?}");
        }
    }
}

#[test]
fn loss_costs_retransmissions_and_no_right_result() {
    let rows = rows(AllReduceConfig { transport: Transport::Udp, loss: 0.05, ..short() });
    assert!(rows.iter().all(|row| row.wrong == 0), "{rows:?}");
    assert!(rows.last().unwrap().retransmits > 0, "{rows:?}");
}

#[test]
fn other_reductions_and_payloads() {
    for op in [ReduceOp::Min, ReduceOp::Max] {
        for row in rows(AllReduceConfig { mode: Mode::I32, op, payload_bytes: 256, ..short() }) {
            assert_eq!((row.wrong, row.redop), (0, op.name()));
        }
    }
    for row in rows(AllReduceConfig { payload_bytes: 8192, slots: 16, workers: 1, ..short() }) {
        assert_eq!((row.wrong, row.busbw), (0, 0.0));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |config| AllReduceBench::new(config).map(|_| ()).unwrap_err().kind();
    assert_eq!(refused(AllReduceConfig { payload_bytes: 1000, ..short() }), "usage");
    assert_eq!(refused(AllReduceConfig { workers: 0, ..short() }), "usage");
    assert_eq!(refused(AllReduceConfig { workers: 33, ..short() }), "usage");
    assert_eq!(refused(AllReduceConfig { slots: 100, ..short() }), "usage");
    assert_eq!(refused(AllReduceConfig { slots: 2 * SLOTS_SOFTWARE, ..short() }), "usage");
    let mut bench = AllReduceBench::new(short()).unwrap();
    assert!(matches!(bench.measure(3), Err(BenchError::Bytes(3))));
    let mut bench = AllReduceBench::new(AllReduceConfig { op: ReduceOp::Product, ..short() }).unwrap();
    assert!(matches!(bench.measure(4096), Err(BenchError::Job { .. })), "no switch multiplies");
}

#[test]
fn bus_bandwidth_counts_what_a_ring_would_move() {
    assert_eq!(bus_factor(1), 0.0);
    assert_eq!(bus_factor(2), 1.0);
    assert_eq!(bus_factor(8), 1.75);
}
