//! Every policy over a model of a fabric: paths with a rate and a queue each, and workers that send by them as fast as results allow.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

fn paths(udp_ports: u8, policy: PathPolicy) -> Paths {
    Paths::new(Multipath { udp_ports, policy }, 512, 7).unwrap()
}

fn at_us(us: u64) -> Instant {
    Instant::from_nanos(us * 1000)
}

/// Paths as queues: each takes so many microseconds for a packet.
struct Fabric {
    service_us: Vec<u64>,
    free_at_us: Vec<u64>,
    /// Longest queue, in microseconds; what finds it full is lost.
    queue_us: u64,
}

impl Fabric {
    fn new(service_us: Vec<u64>) -> Self {
        Self { free_at_us: vec![0; service_us.len()], service_us, queue_us: 200_000 }
    }

    /// When a packet comes out, unless it is lost. Short ones take no time of their own.
    fn pass(&mut self, now_us: u64, path: u8, short: bool) -> Option<u64> {
        let path = usize::from(path);
        let begins = self.free_at_us[path].max(now_us);
        if begins - now_us > self.queue_us {
            return None;
        }
        if !short {
            self.free_at_us[path] = begins + self.service_us[path];
        }
        Some(begins + self.service_us[path] + 100)
    }
}

/// Sends for a time with a window of slots, and returns the packets of each path in it. Probes' answers and results take the time that the
/// fabric says.
fn send(paths: &mut Paths, fabric: &mut Fabric, (from_ms, to_ms): (u64, u64), window: usize) -> Vec<u64> {
    let before: Vec<u64> = paths.stats().map(|path| path.sent).collect();
    let mut slots = vec![(from_ms * 1000, None::<u8>); window];
    let mut answers: Vec<(u64, u32)> = Vec::new();
    for now_us in (from_ms * 1000..to_ms * 1000).step_by(10) {
        let now = at_us(now_us);
        answers.retain(|&(at, tag)| at > now_us || !paths.on_answer(now, tag));
        for (slot, (done_at, path)) in (0..).zip(&mut slots) {
            if *done_at > now_us {
                continue;
            }
            if let Some(path) = path.take() {
                paths.on_result(now, slot, path, false);
            }
            let next = paths.next(now, slot);
            let out = fabric.pass(now_us, next, false);
            // What is lost is retransmitted after a timeout.
            (*done_at, *path) = (out.unwrap_or(now_us + 20_000), out.map(|_| next));
        }
        if let Some((path, tag)) = paths.poll_probe(now) {
            answers.extend(fabric.pass(now_us, path, true).map(|at| (at, tag)));
        }
    }
    paths.stats().zip(before).map(|(path, before)| path.sent - before).collect()
}

/// The most loaded path's packets over the mean.
fn imbalance(sent: &[u64]) -> f64 {
    let mean = sent.iter().sum::<u64>() as f64 / sent.len() as f64;
    *sent.iter().max().unwrap() as f64 / mean
}

#[test]
fn equal_paths_have_equal_shares() {
    for policy in [PathPolicy::Fixed, PathPolicy::Spray, PathPolicy::Weighted] {
        let mut paths = paths(16, policy);
        let sent = send(&mut paths, &mut Fabric::new(vec![50; 16]), (0, 2000), 64);
        assert!(imbalance(&sent) < 1.02, "{policy:?}: {sent:?}");
    }
    // These use again whatever has been acknowledged, so with few packets in flight they stay with the paths that they tried first.
    for policy in [PathPolicy::Reps, PathPolicy::Mixed] {
        let mut paths = paths(16, policy);
        let sent = send(&mut paths, &mut Fabric::new(vec![50; 16]), (0, 2000), 512);
        assert!(imbalance(&sent) < 2.5, "{policy:?}: {sent:?}");
    }
}

#[test]
fn a_slow_path_loses_its_share_and_has_it_again_when_it_recovers() {
    let mut paths = paths(16, PathPolicy::Weighted);
    let mut fabric = Fabric::new(vec![50; 16]);
    send(&mut paths, &mut fabric, (0, 500), 64);
    // A quarter of the paths carry a tenth from now on.
    fabric.service_us[4..8].fill(500);
    send(&mut paths, &mut fabric, (500, 1500), 64);
    let sent = send(&mut paths, &mut fabric, (1500, 2500), 64);
    let slow = sent[4..8].iter().sum::<u64>() as f64 / sent.iter().sum::<u64>() as f64;
    // A tenth of the rate of a quarter: 3.2 % of what all paths carry.
    assert!(slow < 0.05, "{slow}: {sent:?}");
    assert!(sent[4..8].iter().all(|sent| *sent > 0), "they are still tried");
    fabric.service_us[4..8].fill(50);
    send(&mut paths, &mut fabric, (2500, 5000), 64);
    let sent = send(&mut paths, &mut fabric, (5000, 6000), 64);
    assert!(imbalance(&sent) < 1.05, "{sent:?}");
}

#[test]
fn throughput_is_that_of_the_paths_that_are_left() {
    let carried = |policy| {
        let mut paths = paths(16, policy);
        let mut fabric = Fabric::new(vec![50; 16]);
        fabric.service_us[0] = 5000;
        send(&mut paths, &mut fabric, (0, 1000), 32);
        send(&mut paths, &mut fabric, (1000, 2000), 32).iter().sum::<u64>()
    };
    let (weighted, spray) = (carried(PathPolicy::Weighted), carried(PathPolicy::Spray));
    // The windows wait for the slow path, whatever else is free.
    assert!(weighted > 20 * spray, "{weighted} {spray}");
}

/// The rule against oscillation: while nothing changes, a path has in any second half to twice the packets that it has on average, give or take a
/// two-hundredth of the packets of all.
#[test]
fn shares_do_not_swing_while_nothing_changes() {
    for case in 0..20 {
        let mut rng = StdRng::seed_from_u64(case);
        let mut paths = paths(8, PathPolicy::Weighted);
        let service_us: Vec<u64> = (0..8).map(|_| rng.random_range(40..400)).collect();
        let mut fabric = Fabric::new(service_us.clone());
        send(&mut paths, &mut fabric, (0, 3000), 64);
        let seconds: Vec<Vec<u64>> =
            (3..9).map(|s| send(&mut paths, &mut fabric, (s * 1000, (s + 1) * 1000), 64)).collect();
        for path in 0..8 {
            let mean = seconds.iter().map(|sent| sent[path]).sum::<u64>() as f64 / seconds.len() as f64;
            for sent in &seconds {
                let some = sent.iter().sum::<u64>() as f64 / 200.0;
                let (least, most) = (mean / 2.0 - some, mean * 2.0 + some);
                let found = sent[path] as f64;
                assert!(
                    found >= least && found <= most,
                    "case {case}, path {path}: {found} of {mean}: {seconds:?} {service_us:?}"
                );
            }
        }
    }
}

#[test]
fn answers_that_are_late_or_foreign_change_no_weight() {
    let mut paths = paths(4, PathPolicy::Weighted);
    assert_eq!(paths.poll_probe(at_us(100_000)), Some((0, TAG | 1)));
    assert!(!paths.on_answer(at_us(100_100), 1), "another kind of packet");
    assert!(!paths.on_answer(at_us(100_100), TAG | 4 << 16 | 1), "no such path");
    assert!(paths.on_answer(at_us(100_100), TAG | 2), "a probe that was never sent");
    assert!(paths.stats().all(|path| path.round_trip.is_none() && path.weight == WEIGHT_MAX));
    assert!(paths.on_answer(at_us(100_300), TAG | 1));
    assert_eq!(paths.stats().next().unwrap().round_trip, Some(Duration::from_micros(300)));
}

#[test]
fn after_a_pause_nothing_is_late() {
    let mut paths = paths(2, PathPolicy::Weighted);
    let mut fabric = Fabric::new(vec![50; 2]);
    send(&mut paths, &mut fabric, (0, 1000), 8);
    let late: u64 = paths.stats().map(|path| path.late).sum();
    // The probes of the last interval are never answered: the worker had nothing to do and received nothing.
    send(&mut paths, &mut fabric, (60_000, 61_000), 8);
    assert_eq!(paths.stats().map(|path| path.late).sum::<u64>(), late);
    assert!(paths.stats().all(|path| path.weight == WEIGHT_MAX));
}

#[test]
fn ports_that_are_no_power_of_two_are_refused() {
    for udp_ports in [0, 3, 65, 128, 255] {
        assert!(Paths::new(Multipath { udp_ports, policy: PathPolicy::Weighted }, 8, 0).is_err());
    }
    let mut one = paths(1, PathPolicy::Weighted);
    assert_eq!((0..100).map(|slot| one.next(at_us(0), slot)).max(), Some(0));
    assert_eq!(one.next(at_us(0), u16::MAX), 0, "no such slot");
    one.on_result(at_us(1), u16::MAX, 200, true);
}

/// Ports 0 to 3 are those of one spine, and so on.
fn spines(sent: &[u64]) -> Vec<u64> {
    sent.chunks(4).map(|ports| ports.iter().sum()).collect()
}

#[test]
fn ordered_ports_have_equal_shares_and_others_none() {
    let mut paths = paths(16, PathPolicy::Weighted);
    let mut fabric = Fabric::new(vec![50; 16]);
    send(&mut paths, &mut fabric, (0, 300), 64);
    let ordered = PortSet(0b0001_0010_0100_1000);
    paths.use_ports(at_us(300_000), ordered);
    assert_eq!(paths.report().ordered, Some(ordered));
    let sent = send(&mut paths, &mut fabric, (300, 2000), 64);
    for (port, sent) in (0..).zip(&sent) {
        assert_eq!(*sent > 0, ordered.contains(port), "port {port}");
    }
    assert!(imbalance(&spines(&sent)) < 1.005, "{sent:?}");
    // What is no set of its ports changes nothing; the order is replaced by another.
    for wrong in [PortSet(0), PortSet(1 << 16), PortSet(u64::MAX)] {
        paths.use_ports(at_us(2_000_000), wrong);
        assert_eq!(paths.report().ordered, Some(ordered));
    }
    paths.use_ports(at_us(2_000_000), PortSet::first(16));
    let sent = send(&mut paths, &mut fabric, (2000, 3000), 64);
    assert!(imbalance(&sent) < 1.02, "{sent:?}");
}

#[test]
fn an_order_is_suspended_while_its_paths_are_dead_or_slow() {
    // A packet of a dead path is lost; a slow one carries a hundredth.
    for (service_us, queue_us) in [(50, 0), (5000, 200_000)] {
        let mut paths = paths(16, PathPolicy::Weighted);
        let mut fabric = Fabric::new(vec![50; 16]);
        paths.use_ports(at_us(0), PortSet(0xf));
        let sent = spines(&send(&mut paths, &mut fabric, (0, 1000), 64));
        assert_eq!(sent[1..], [0, 0, 0]);
        fabric.service_us[..4].fill(service_us);
        if queue_us == 0 {
            fabric.free_at_us[..4].fill(u64::MAX / 2);
        }
        send(&mut paths, &mut fabric, (1000, 1800), 64);
        assert!(paths.is_order_suspended());
        let sent = spines(&send(&mut paths, &mut fabric, (1800, 2800), 64));
        let left = sent[0] as f64 / sent.iter().sum::<u64>() as f64;
        assert!(left < 0.05 && sent[1..].iter().all(|sent| *sent > 1000), "{sent:?}");
        // It is in force again once they recover.
        fabric.service_us[..4].fill(50);
        fabric.free_at_us[..4].fill(0);
        send(&mut paths, &mut fabric, (2800, 5500), 64);
        assert!(!paths.is_order_suspended());
        let sent = spines(&send(&mut paths, &mut fabric, (5500, 6500), 64));
        assert_eq!(sent[1..], [0, 0, 0]);
    }
}

#[test]
fn a_slow_path_of_several_ordered_ones_loses_its_share() {
    let mut paths = paths(16, PathPolicy::Weighted);
    let mut fabric = Fabric::new(vec![50; 16]);
    paths.use_ports(at_us(0), PortSet(0x1111));
    fabric.service_us[4] = 5000;
    send(&mut paths, &mut fabric, (0, 1500), 64);
    let sent = spines(&send(&mut paths, &mut fabric, (1500, 2500), 64));
    assert!(sent[1] * 20 < sent[0] && !paths.is_order_suspended(), "{sent:?}");
}

#[test]
fn policies_without_weights_take_no_orders() {
    for policy in [PathPolicy::Fixed, PathPolicy::Spray, PathPolicy::Reps, PathPolicy::Mixed] {
        let mut paths = paths(4, policy);
        paths.use_ports(at_us(0), PortSet(1));
        assert_eq!(paths.report().ordered, None);
        let used: std::collections::BTreeSet<u8> = (0..400).map(|slot| paths.next(at_us(1), slot)).collect();
        assert!(used.len() > 1, "{policy:?}");
    }
}
