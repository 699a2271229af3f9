//! What the reports of all ranks mean, without any I/O.
//!
//! A bad host shows in the measurements with all others, a bad link in one. So of the pairs with a problem those of a host come first that has it with
//! more than half of the others (and with two at least); the rest are links.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netfold_wire::header;

use super::{RankReport, Trace};
use crate::finding::{Finding, Severity, bits, percent};

/// A pair loses packets beyond this fraction, if it loses so many at all.
const LOSS_MAX: f64 = 0.002;
const LOST_MIN: u32 = 3;

/// A pair is slow below this fraction of the median rate of all.
const RATE_MIN: f64 = 0.5;

/// Microseconds by which clocks may differ: beyond, the times of events on several hosts cannot be compared.
const OFFSET_MAX_US: f64 = 100_000.0;

/// Pairs whose hosts have the same first router, and each of which uses one path, before it is found that this router does not choose by ports. A
/// router that does makes of 6 ports one path with a probability of 1/32 or less.
const ONE_PATH_PAIRS_MIN: usize = 3;

/// A host or a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Rank(usize),
    Link(usize, usize),
}

/// The measurements between two ranks, from the lower one and from the higher one.
type Pair = (usize, usize);

/// Hosts and links to which pairs with a problem point.
fn blame(mut bad: BTreeSet<Pair>, world: usize) -> Vec<Place> {
    let mut places = Vec::new();
    let count =
        |bad: &BTreeSet<Pair>, rank: usize| bad.iter().filter(|(a, b)| *a == rank || *b == rank).count();
    loop {
        let worst = (0..world)
            .map(|rank| (count(&bad, rank), rank))
            .max_by_key(|(count, rank)| (*count, world - rank));
        match worst {
            Some((count, rank)) if count >= 2 && 2 * count > world - 1 => {
                places.push(Place::Rank(rank));
                bad.retain(|(a, b)| *a != rank && *b != rank);
            }
            _ => break,
        }
    }
    places.extend(bad.into_iter().map(|(a, b)| Place::Link(a, b)));
    places
}

/// The reports, and questions to them.
struct Reports<'a>(&'a [RankReport]);

impl<'a> Reports<'a> {
    fn world(&self) -> usize {
        self.0.len()
    }

    /// What `from` measured towards `to`.
    fn of(&self, from: usize, to: usize) -> &'a super::PairReport {
        &self.0[from].pairs[if to < from { to } else { to - 1 }]
    }

    /// The routers on the way from `from` to `to`.
    fn trace(&self, from: usize, to: usize) -> &'a Trace {
        &self.0[from].traces[if to < from { to } else { to - 1 }]
    }

    fn pairs(&self) -> impl Iterator<Item = Pair> + use<> {
        let world = self.world();
        (0..world).flat_map(move |a| (a + 1..world).map(move |b| (a, b)))
    }

    /// Pairs of which a direction has the problem.
    fn bad(&self, is_bad: impl Fn(&super::PairReport) -> bool) -> BTreeSet<Pair> {
        self.pairs().filter(|(a, b)| is_bad(self.of(*a, *b)) || is_bad(self.of(*b, *a))).collect()
    }

    fn name(&self, rank: usize) -> String {
        match self.0[rank].host.as_str() {
            "" => format!("rank {rank}"),
            host => format!("rank {rank} ({host})"),
        }
    }

    fn subject(&self, place: Place) -> String {
        match place {
            Place::Rank(rank) => self.name(rank),
            Place::Link(a, b) => format!("the link of {} and {}", self.name(a), self.name(b)),
        }
    }

    /// The directions of a place: of a link both, of a host those to and from all others.
    fn directions(&self, place: Place) -> Vec<Pair> {
        match place {
            Place::Link(a, b) => vec![(a, b), (b, a)],
            Place::Rank(rank) => {
                let others = (0..self.world()).filter(|other| *other != rank);
                others.flat_map(|other| [(rank, other), (other, rank)]).collect()
            }
        }
    }

    fn reached(&self, place: Place) -> Vec<&'a super::PairReport> {
        let all = self.directions(place).into_iter().map(|(from, to)| self.of(from, to));
        all.filter(|pair| pair.reached).collect()
    }
}

/// Findings of all ranks' reports, which [`measure`](super::measure) has checked: each names a host or a link. `payload_bytes` are the lanes of a job's
/// packets.
pub fn judge(reports: &[RankReport], payload_bytes: u32) -> Vec<Finding> {
    let reports = Reports(reports);
    let mut findings = reachability(&reports);
    findings.extend(lengths(&reports, header::LEN as u32 + payload_bytes));
    findings.extend(ports(&reports));
    findings.extend(equal_paths(&reports));
    findings.extend(predictions(&reports));
    findings.extend(losses(&reports));
    findings.extend(rates(&reports));
    findings.extend(clocks(&reports));
    findings
}

fn reachability(reports: &Reports<'_>) -> Vec<Finding> {
    let places = blame(reports.bad(|pair| !pair.reached), reports.world());
    let finding = |place| {
        let silent: Vec<Pair> = reports
            .directions(place)
            .into_iter()
            .filter(|(from, to)| !reports.of(*from, *to).reached)
            .collect();
        let heard = silent.iter().filter(|(from, to)| reports.0[*to].heard.contains(&(*from as u16))).count();
        let measured = match heard {
            0 => "no packet arrives".to_owned(),
            _ if heard == silent.len() => "packets arrive, and replies do not return".to_owned(),
            _ => format!("of {} directions without a reply, packets arrive in {heard}", silent.len()),
        };
        Finding {
            severity: Severity::Error,
            check: "reachable",
            subject: reports.subject(place),
            measured,
            limit: "replies in both directions".into(),
            remedy: "open UDP between the hosts in both directions, and compare `ip route get ADDR` on both: replies leave by the address that \
                     was asked"
                .into(),
        }
    };
    places.into_iter().map(finding).collect()
}

fn lengths(reports: &Reports<'_>, need: u32) -> Vec<Finding> {
    let places = blame(reports.bad(|pair| pair.reached && pair.datagram < need), reports.world());
    let finding = |place| {
        let shortest = reports.reached(place).iter().map(|pair| pair.datagram).min().unwrap_or(0);
        Finding {
            severity: Severity::Error,
            check: "mtu",
            subject: reports.subject(place),
            measured: format!("datagrams of {shortest} bytes pass in one piece, and the next longer ones tried do not"),
            limit: format!("{need} bytes, a packet of a job"),
            remedy: "ip link set dev IFACE mtu 1500 or more, on the hosts and on every device between; or start the switch with --payload 256"
                .into(),
        }
    };
    places.into_iter().map(finding).collect()
}

fn ports(reports: &Reports<'_>) -> Vec<Finding> {
    let places = blame(reports.bad(|pair| pair.reached && pair.ports_replied < pair.ports), reports.world());
    let finding = |place| {
        let worst = reports.reached(place).into_iter().min_by_key(|pair| pair.ports_replied);
        let (replied, ports) = worst.map_or((0, 0), |pair| (pair.ports_replied, pair.ports));
        Finding {
            severity: Severity::Warning,
            check: "paths",
            subject: reports.subject(place),
            measured: format!("requests from {replied} of {ports} UDP ports are replied to"),
            limit: "all: a fabric chooses paths by ports, and each path carries packets".into(),
            remedy: "`traceroute -U --sport=PORT ADDR` from several ports shows where a path ends; drain that link (`netfold switch drain`)".into(),
        }
    };
    places.into_iter().map(finding).collect()
}

/// Ports that do not take the paths that the fabric's hash predicts.
fn predictions(reports: &Reports<'_>) -> Vec<Finding> {
    let elsewhere = |(from, to): Pair| reports.trace(from, to).ports_elsewhere > 0;
    let bad = reports.pairs().filter(|(a, b)| elsewhere((*a, *b)) || elsewhere((*b, *a))).collect();
    let finding = |place| {
        let directions = reports.directions(place).into_iter();
        let worst = directions.max_by_key(|(from, to)| reports.trace(*from, *to).ports_elsewhere);
        let measured = worst.map_or_else(String::new, |(from, to)| {
            let Trace { ports_predicted, ports_elsewhere, .. } = reports.trace(from, to);
            format!(
                "{ports_elsewhere} of {ports_predicted} UDP ports pass another router than most of the same predicted path, from rank {from} to rank {to}"
            )
        });
        Finding {
            severity: Severity::Warning,
            check: "path_hash",
            subject: reports.subject(place),
            measured,
            limit: "UDP ports of the same predicted path pass the same router: workers use ports that spread exactly by that hash".into(),
            remedy: "have all routers use the hash, seed and number of paths that --path-hash names: on Linux `sysctl net.ipv4.fib_multipath_hash_policy` is 1, `net.ipv4.fib_multipath_hash_seed` the seed, `ip route` lists the paths, and `ethtool -K IFACE rxhash off` where interfaces hash; or leave --path-hash and `ecmp` of the topology out"
                .into(),
        }
    };
    blame(bad, reports.world()).into_iter().map(finding).collect()
}

/// The first routers of a rank and of another.
type Ends = (IpAddr, IpAddr);

/// What is known of the paths from the hosts of a router.
#[derive(Debug, Default)]
struct Spread {
    /// Whether a pair of hosts takes several paths.
    by_ports: bool,
    /// Pairs that take one, by the second router on it.
    one_path: BTreeMap<Ends, BTreeMap<IpAddr, usize>>,
}

/// Routers that choose among equal paths by addresses only, as their own paths show: all UDP ports of each pair of hosts pass the same router, and
/// those of another pair between the same first routers a different one.
fn equal_paths(reports: &Reports<'_>) -> Option<Finding> {
    let first: Vec<Option<IpAddr>> = reports.0.iter().map(|report| first_router(&report.traces)).collect();
    let mut spreads: BTreeMap<IpAddr, Spread> = BTreeMap::new();
    for (a, b) in reports.pairs().flat_map(|(a, b)| [(a, b), (b, a)]) {
        let Some(ends) = first[a].zip(first[b]).filter(|(from, to)| from != to) else { continue };
        let trace = reports.trace(a, b);
        let spread = spreads.entry(ends.0).or_default();
        spread.by_ports |= trace.paths > 1;
        if let Some(router) = trace.only_router {
            *spread.one_path.entry(ends).or_default().entry(router).or_default() += 1;
        }
    }
    let mut routers = Vec::new();
    let (mut pairs, mut example) = (0, None);
    for (router, spread) in &spreads {
        let count: usize = spread.one_path.values().flat_map(BTreeMap::values).sum();
        let several = spread.one_path.iter().find(|(_, by_router)| by_router.len() > 1);
        if let Some((ends, by_router)) = several.filter(|_| !spread.by_ports && count >= ONE_PATH_PAIRS_MIN) {
            routers.push(router.to_string());
            pairs += count;
            example = example.or(Some((ends.1, by_router)));
        }
    }
    let (to, by_router) = example?;
    let others: Vec<String> = by_router.keys().map(IpAddr::to_string).collect();
    Some(Finding {
        severity: Severity::Warning,
        check: "equal_paths",
        subject: format!("paths behind the {} {}", if routers.len() == 1 { "router" } else { "routers" }, routers.join(", ")),
        measured: format!(
            "packets from all UDP ports take one path, in {pairs} of {pairs} pairs of hosts, though different pairs take different ones: behind {} to {to}, those by {}",
            routers[0],
            others.join(" and ")
        ),
        limit: "equal paths are chosen by ports, so that a worker can use several".into(),
        remedy: "have these routers hash addresses and ports: on Linux `sysctl -w net.ipv4.fib_multipath_hash_policy=1` (IPv6: net.ipv6.fib_multipath_hash_policy), on a \
                 switch ECMP by fields of the fourth layer"
            .into(),
    })
}

/// The first router of a rank, if it is the same towards all others.
fn first_router(traces: &[Trace]) -> Option<IpAddr> {
    let known: BTreeSet<IpAddr> = traces.iter().filter_map(|trace| trace.first_router).collect();
    known.first().filter(|_| known.len() == 1).copied()
}

fn is_lossy(pair: &super::PairReport) -> bool {
    pair.lost >= LOST_MIN && f64::from(pair.lost) > LOSS_MAX * f64::from(pair.sent)
}

fn losses(reports: &Reports<'_>) -> Vec<Finding> {
    let places = blame(reports.bad(is_lossy), reports.world());
    let finding = |place| {
        let of = reports.reached(place);
        let (sent, lost) = of.iter().fold((0_u64, 0_u64), |(sent, lost), pair| {
            (sent + u64::from(pair.sent), lost + u64::from(pair.lost))
        });
        Finding {
            severity: Severity::Warning,
            check: "loss",
            subject: reports.subject(place),
            measured: format!("{lost} of {sent} packets were lost ({})", percent(lost as f64 / sent.max(1) as f64)),
            limit: percent(LOSS_MAX),
            remedy: "`ip -s link show` and `ethtool -S IFACE` on the hosts, and the counters of the switch ports between: CRC errors mean a cable or \
                     transceiver, drops a queue or a receive ring that is too short (`ethtool -G IFACE rx N`)"
                .into(),
        }
    };
    places.into_iter().map(finding).collect()
}

fn rates(reports: &Reports<'_>) -> Vec<Finding> {
    let mut all: Vec<f64> = reports
        .pairs()
        .flat_map(|(a, b)| [reports.of(a, b), reports.of(b, a)])
        .filter(|pair| pair.reached)
        .map(|pair| pair.rate)
        .collect();
    all.sort_by(f64::total_cmp);
    let median = all.get(all.len() / 2).copied().unwrap_or(0.0);
    let slow = |pair: &super::PairReport| pair.reached && pair.rate < median * RATE_MIN;
    let finding = |place| {
        let of_directions = reports.directions(place).into_iter();
        let reached = of_directions.filter(|(from, to)| reports.of(*from, *to).reached);
        let rate = |(from, to): &Pair| reports.of(*from, *to).rate;
        let slowest = reached.min_by(|one, other| rate(one).total_cmp(&rate(other)));
        let measured = slowest.map_or_else(String::new, |(from, to)| {
            format!("{} from rank {from} to rank {to}", bits(rate(&(from, to))))
        });
        Finding {
            severity: Severity::Warning,
            check: "rate",
            subject: reports.subject(place),
            measured,
            limit: format!("{}, half of the median of all pairs", bits(median * RATE_MIN)),
            remedy: "`ethtool IFACE` shows the negotiated speed; compare it, the processors' load and `netfold check` on the hosts".into(),
        }
    };
    blame(reports.bad(slow), reports.world()).into_iter().map(finding).collect()
}

fn clocks(reports: &Reports<'_>) -> Vec<Finding> {
    let offset =
        |pair: &super::PairReport| pair.reached && pair.offset_us.abs() - pair.rtt_us / 2.0 > OFFSET_MAX_US;
    let finding = |place| {
        let worst = reports.reached(place).into_iter().map(|pair| pair.offset_us.abs()).fold(0.0, f64::max);
        Finding {
            severity: Severity::Warning,
            check: "clock_offset",
            subject: reports.subject(place),
            measured: format!("clocks differ by {:.1} ms", worst / 1e3),
            limit: format!("{:.0} ms", OFFSET_MAX_US / 1e3),
            remedy:
                "systemctl enable --now chronyd (or systemd-timesyncd); `chronyc tracking` shows the offset"
                    .into(),
        }
    };
    blame(reports.bad(offset), reports.world()).into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::PairReport;

    const PAYLOAD: u32 = 1408;

    /// Reports of a healthy network.
    fn healthy(world: u16) -> Vec<RankReport> {
        let pair = |peer| PairReport {
            peer,
            reached: true,
            rtt_us: 50.0,
            offset_us: 900.0,
            datagram: 1472,
            ports: 16,
            ports_replied: 16,
            sent: 3000,
            lost: 1,
            rate: 1e9,
        };
        let report = |rank| RankReport {
            host: String::new(),
            pairs: (0..world).filter(|peer| *peer != rank).map(pair).collect(),
            heard: (0..world).filter(|peer| *peer != rank).collect(),
            traces: vec![Trace::default(); usize::from(world) - 1],
        };
        (0..world).map(report).collect()
    }

    /// Changes what `from` measured towards `to`.
    fn change(reports: &mut [RankReport], (from, to): (u16, u16), how: impl FnOnce(&mut PairReport)) {
        how(reports[usize::from(from)].pairs.iter_mut().find(|pair| pair.peer == to).unwrap());
    }

    fn found(reports: &[RankReport]) -> Vec<(&'static str, String)> {
        judge(reports, PAYLOAD).into_iter().map(|finding| (finding.check, finding.subject)).collect()
    }

    #[test]
    fn nothing_is_found_in_a_healthy_network() {
        for world in 2..6 {
            let mut reports = healthy(world);
            assert_eq!(found(&reports), []);
            // Within each limit.
            change(&mut reports, (0, 1), |pair| {
                pair.rate = 0.6e9;
                pair.lost = 6;
                pair.offset_us = -100_020.0;
                pair.datagram = PAYLOAD + header::LEN as u32;
            });
            assert_eq!(found(&reports), []);
        }
    }

    #[test]
    fn each_problem_of_a_link_names_it() {
        type Change = fn(&mut PairReport);
        let cases: [(&str, Change); 6] = [
            ("reachable", |pair| *pair = PairReport { peer: pair.peer, ports: 16, ..PairReport::default() }),
            ("mtu", |pair| pair.datagram = PAYLOAD),
            ("paths", |pair| pair.ports_replied = 15),
            ("loss", |pair| pair.lost = 7),
            ("rate", |pair| pair.rate = 0.49e9),
            ("clock_offset", |pair| pair.offset_us = -100_026.0),
        ];
        for (check, how) in cases {
            for (from, to) in [(1, 2), (2, 1)] {
                let mut reports = healthy(4);
                change(&mut reports, (from, to), how);
                assert_eq!(found(&reports), [(check, "the link of rank 1 and rank 2".to_owned())]);
            }
            // All links of a host.
            let mut reports = healthy(4);
            (0..4).filter(|rank| *rank != 2).for_each(|rank| change(&mut reports, (rank, 2), how));
            assert_eq!(found(&reports), [(check, "rank 2".to_owned())]);
        }
    }

    /// Hosts at two routers, half of them at each, and what the routers of the first half make of packets to the second.
    fn at_two_routers(world: u16, trace: impl Fn(u16, u16) -> Trace) -> Vec<RankReport> {
        let mut reports = healthy(world);
        let router = |rank: u16| IpAddr::from([10, 0, u8::from(2 * rank >= world), 254]);
        for (rank, report) in (0..world).zip(&mut reports) {
            let peers = (0..world).filter(|peer| *peer != rank);
            let known = |peer| match (2 * rank < world, 2 * peer < world) {
                (true, false) => Trace { first_router: Some(router(rank)), ..trace(rank, peer) },
                (false, true) => {
                    Trace { paths: 1, ports_traced: 1, first_router: Some(router(rank)), ..Trace::default() }
                }
                _ => Trace::default(),
            };
            report.traces = peers.map(known).collect();
        }
        reports
    }

    fn by(spine: u16) -> Trace {
        let only_router = Some(IpAddr::from([10, 1, 0, spine as u8]));
        Trace { paths: 1, ports_traced: 6, only_router, ..Trace::default() }
    }

    #[test]
    fn one_path_for_all_ports_is_found_where_others_take_another() {
        let found = |trace: fn(u16, u16) -> Trace| {
            let findings = judge(&at_two_routers(4, trace), PAYLOAD);
            findings
                .into_iter()
                .map(|finding| (finding.check, finding.subject, finding.measured))
                .collect::<Vec<_>>()
        };
        let one = found(|from, to| by((from + to) % 2));
        assert_eq!(one.len(), 1, "{one:?}");
        assert_eq!((one[0].0, one[0].1.as_str()), ("equal_paths", "paths behind the router 10.0.0.254"));
        assert!(
            one[0].2.contains("4 of 4 pairs") && one[0].2.ends_with("those by 10.1.0.0 and 10.1.0.1"),
            "{one:?}"
        );
        // One path, as far as can be seen: perhaps there is no other.
        assert_eq!(found(|_, _| by(0)), []);
        // A pair with several.
        let several = Trace { paths: 2, ports_traced: 16, ..Trace::default() };
        assert_eq!(
            found(|from, to| if (from, to) == (0, 2) {
                Trace { paths: 2, ports_traced: 16, ..Trace::default() }
            } else {
                by((from + to) % 2)
            }),
            []
        );
        assert!(several.is_plausible());
        // Too few are known.
        assert_eq!(found(|from, to| if from == 0 { Trace::default() } else { by(to % 2) }), []);
    }

    #[test]
    fn ports_that_take_other_paths_than_predicted_are_found() {
        let trace = |ports_elsewhere| Trace {
            paths: 2,
            ports_traced: 16,
            ports_predicted: 15,
            ports_elsewhere,
            ..Trace::default()
        };
        let found = |trace: &dyn Fn(u16, u16) -> Trace| {
            let findings = judge(&at_two_routers(4, trace), PAYLOAD).into_iter();
            findings.map(|finding| (finding.check, finding.subject, finding.measured)).collect::<Vec<_>>()
        };
        assert_eq!(found(&|_, _| trace(0)), []);
        let one = found(&|from, to| trace(if (from, to) == (1, 2) { 6 } else { 0 }));
        assert_eq!(one.len(), 1, "{one:?}");
        assert_eq!((one[0].0, one[0].1.as_str()), ("path_hash", "the link of rank 1 and rank 2"));
        assert!(
            one[0].2.starts_with("6 of 15 UDP ports") && one[0].2.ends_with("from rank 1 to rank 2"),
            "{one:?}"
        );
        // Both pairs of each host, of which the first is named.
        let all = found(&|from, _| trace(4 + from as u8));
        assert_eq!(all.iter().map(|(check, ..)| *check).collect::<Vec<_>>(), ["path_hash"; 2], "{all:?}");
    }

    #[test]
    fn the_slowest_direction_is_named() {
        let mut reports = healthy(3);
        change(&mut reports, (1, 2), |pair| pair.rate = 0.4e9);
        change(&mut reports, (2, 1), |pair| pair.rate = 0.3e9);
        assert_eq!(judge(&reports, PAYLOAD)[0].measured, "300.0 Mbit/s from rank 2 to rank 1");
    }

    #[test]
    fn a_way_back_that_is_broken_is_told_from_a_way_there() {
        let mut reports = healthy(3);
        let silent = |pair: &mut PairReport| *pair = PairReport { peer: pair.peer, ..PairReport::default() };
        change(&mut reports, (0, 1), silent);
        let measured = |reports: &[RankReport]| judge(reports, PAYLOAD)[0].measured.clone();
        assert_eq!(measured(&reports), "packets arrive, and replies do not return");
        reports[1].heard.retain(|rank| *rank != 0);
        assert_eq!(measured(&reports), "no packet arrives");
        change(&mut reports, (1, 0), silent);
        assert_eq!(measured(&reports), "of 2 directions without a reply, packets arrive in 1");
    }

    #[test]
    fn a_host_and_a_link_are_told_apart() {
        let bad = |pairs: &[Pair]| pairs.iter().copied().collect::<BTreeSet<Pair>>();
        use Place::{Link, Rank};
        assert_eq!(blame(bad(&[(0, 1)]), 2), [Link(0, 1)]);
        assert_eq!(blame(bad(&[(0, 1), (0, 2)]), 3), [Rank(0)]);
        assert_eq!(blame(bad(&[(0, 1), (0, 2)]), 5), [Link(0, 1), Link(0, 2)], "half of the others only");
        assert_eq!(blame(bad(&[(0, 3), (1, 3), (2, 3), (0, 1)]), 4), [Rank(3), Link(0, 1)]);
        assert_eq!(blame(bad(&[]), 4), []);
    }
}
