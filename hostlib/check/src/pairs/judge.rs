//! What the reports of all ranks mean, without any I/O.
//!
//! A bad host shows in the measurements with all others, a bad link in one. So of the pairs with a problem those of a host come first that has it with
//! more than half of the others (and with two at least); the rest are links.

use std::collections::BTreeSet;

use netfold_wire::header;

use super::RankReport;
use crate::finding::{Finding, Severity, bits, percent};

/// A pair loses packets beyond this fraction, if it loses so many at all.
const LOSS_MAX: f64 = 0.002;
const LOST_MIN: u32 = 3;

/// A pair is slow below this fraction of the median rate of all.
const RATE_MIN: f64 = 0.5;

/// Microseconds by which clocks may differ: beyond, the times of events on several hosts cannot be compared.
const OFFSET_MAX_US: f64 = 100_000.0;

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
