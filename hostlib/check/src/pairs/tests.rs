use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::time::Duration;

use netfold::TcpRendezvous;
use netfold_controller::equal_paths::EqualPaths;
use netfold_testkit::namespace::{self, NamespaceSet, command};

use super::*;
use crate::finding::Finding;

const PAYLOAD: u32 = 1408;
const TIMEOUT: Duration = Duration::from_secs(60);

fn config() -> PairsConfig<'static> {
    PairsConfig { bind: None, payload_bytes: PAYLOAD, clock: Clock::default(), prediction: None }
}

/// What every rank finds, by what the ranks' clocks are ahead, in milliseconds.
fn on_loopback(ahead_ms: &[i64]) -> (Vec<RankReport>, Vec<Finding>) {
    let world = ahead_ms.len() as u16;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut listener = Some(listener);
    let measured: Vec<Vec<RankReport>> = std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..world)
            .map(|rank| {
                let mut exchange = match listener.take() {
                    Some(listener) => TcpRendezvous::host(listener, "check", world, TIMEOUT).unwrap(),
                    None => TcpRendezvous::new(address, "check", rank, world, TIMEOUT).unwrap(),
                };
                let clock = Clock { ahead_ns: ahead_ms[usize::from(rank)] * 1_000_000 };
                scope.spawn(move || measure(&mut exchange, &PairsConfig { clock, ..config() }).unwrap())
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    assert!(measured.iter().all(|reports| *reports == measured[0]), "all ranks have the same reports");
    let findings = judge(&measured[0], PAYLOAD);
    (measured.into_iter().next().unwrap(), findings)
}

/// Findings but those of the rate, which other processes of this machine change.
fn besides_rate(findings: &[Finding]) -> Vec<(&'static str, &str)> {
    let names = findings.iter().map(|finding| (finding.check, finding.subject.as_str()));
    names.filter(|(check, _)| *check != "rate").collect()
}

#[test]
fn nothing_is_found_on_healthy_links() {
    let (reports, findings) = on_loopback(&[0, 0, 0]);
    assert_eq!(besides_rate(&findings), []);
    for (rank, report) in reports.iter().enumerate() {
        assert_eq!(report.heard.len(), 2);
        for pair in &report.pairs {
            assert_ne!(usize::from(pair.peer), rank);
            assert!(pair.reached && pair.sent >= 400 && pair.rate > 0.0 && pair.rtt_us > 0.0, "{pair:?}");
            assert_eq!((pair.datagram, pair.ports_replied), (9216, 16), "{pair:?}");
            assert!(
                report.traces.iter().all(|trace| *trace == Trace::default()),
                "no router is between them"
            );
        }
    }
}

#[test]
fn clocks_that_differ_are_found() {
    let (reports, findings) = on_loopback(&[0, 700, 0]);
    assert_eq!(findings.iter().filter(|finding| finding.check == "clock_offset").count(), 1);
    let offset = findings.iter().find(|finding| finding.check == "clock_offset").unwrap();
    assert!(offset.subject.starts_with("rank 1"), "{findings:?}");
    let [ahead, behind] = [reports[0].pairs[0].offset_us, reports[1].pairs[0].offset_us];
    // By half of the round-trip time at most.
    assert!((ahead - 700_000.0).abs() <= reports[0].pairs[0].rtt_us, "{ahead}");
    assert!((behind + 700_000.0).abs() <= reports[1].pairs[0].rtt_us, "{behind}");
}

/// Hosts in namespaces, joined by a bridge: `prepare` is called with the names of the hosts and of the bridge's.
fn in_network(world: usize, prepare: impl FnOnce(&[String], &str)) -> Vec<Finding> {
    let mut names = NamespaceSet::new();
    let bridge = names.add('s', 0).unwrap();
    command(&format!("ip -n {bridge} link add br0 type bridge")).unwrap();
    command(&format!("ip -n {bridge} link set br0 up")).unwrap();
    let hosts: Vec<String> = (0..world).map(|host| names.add('h', host).unwrap()).collect();
    for (host, name) in hosts.iter().enumerate() {
        command(&format!("ip link add eth0 netns {name} type veth peer name p{host} netns {bridge}"))
            .unwrap();
        command(&format!("ip -n {bridge} link set p{host} master br0 up")).unwrap();
        command(&format!("ip -n {name} addr add 10.79.0.{}/24 dev eth0", host + 1)).unwrap();
        command(&format!("ip -n {name} link set eth0 up")).unwrap();
        command(&format!("ip -n {name} link set lo up")).unwrap();
    }
    prepare(&hosts, &bridge);
    measured_in(&hosts, "10.79.0.1:20051").1
}

/// What hosts in namespaces report and find, which meet at an address.
fn measured_in(hosts: &[String], address: &str) -> (Vec<RankReport>, Vec<Finding>) {
    predicted_in(hosts, address, None)
}

/// The same with a prediction of the paths of UDP ports.
fn predicted_in(
    hosts: &[String],
    address: &str,
    prediction: Option<Prediction<'_>>,
) -> (Vec<RankReport>, Vec<Finding>) {
    let (world, address): (_, SocketAddr) = (hosts.len(), address.parse().unwrap());
    let mut measured: Vec<Vec<RankReport>> = std::thread::scope(|scope| {
        let run = |rank: u16, name: &String| {
            let name = name.clone();
            scope.spawn(move || {
                namespace::within(&name, || {
                    let mut exchange =
                        TcpRendezvous::new(address, "check", rank, world as u16, TIMEOUT).unwrap();
                    measure(&mut exchange, &PairsConfig { prediction, ..config() }).unwrap()
                })
            })
        };
        let ranks: Vec<_> = hosts.iter().enumerate().map(|(rank, name)| run(rank as u16, name)).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect()
    });
    let findings = judge(&measured[0], PAYLOAD);
    (measured.swap_remove(0), findings)
}

fn shape(namespace: &str, device: &str, how: &str) {
    command(&format!("ip netns exec {namespace} tc qdisc add dev {device} root tbf {how}")).unwrap();
}

#[test]
fn a_slow_host_is_named() {
    if !namespace::available() {
        return;
    }
    // A hundredth of the others, whatever else the machine does; all packets in flight take 75 ms.
    let findings = in_network(4, |hosts, _| shape(&hosts[2], "eth0", "rate 5mbit burst 8kb limit 1mb"));
    let slow: Vec<_> = findings.iter().filter(|finding| finding.check == "rate").collect();
    assert!(slow.iter().any(|finding| finding.subject.starts_with("rank 2")), "{findings:?}");
    assert_eq!(besides_rate(&findings), [], "{findings:?}");
}

#[test]
fn a_host_that_loses_packets_is_named() {
    if !namespace::available() {
        return;
    }
    // A queue of few packets.
    let findings = in_network(4, |hosts, _| shape(&hosts[1], "eth0", "rate 50mbit burst 4kb limit 6kb"));
    let lossy: Vec<_> = findings.iter().filter(|finding| finding.check == "loss").collect();
    assert_eq!(lossy.len(), 1, "{findings:?}");
    assert!(lossy[0].subject.starts_with("rank 1"), "{findings:?}");
}

#[test]
fn a_device_that_drops_long_packets_is_found() {
    if !namespace::available() {
        return;
    }
    // A bridge drops silently what is longer than a port's MTU.
    let findings = in_network(3, |_, bridge| {
        command(&format!("ip -n {bridge} link set p0 mtu 1200")).unwrap();
    });
    let found = besides_rate(&findings);
    assert_eq!(found.len(), 1, "{findings:?}");
    assert!(found[0].0 == "mtu" && found[0].1.starts_with("rank 0"), "{findings:?}");
}

#[test]
fn hosts_that_do_not_reach_each_other_are_named() {
    if !namespace::available() {
        return;
    }
    // The exchange is by TCP to rank 0, so ranks 1 and 2 can lose each other only.
    let findings = in_network(3, |hosts, _| {
        command(&format!("ip -n {} route add blackhole 10.79.0.3/32", hosts[1])).unwrap();
    });
    let found = besides_rate(&findings);
    assert_eq!(found.len(), 1, "{findings:?}");
    assert_eq!(found[0].0, "reachable");
    assert!(found[0].1.contains("rank 1") && found[0].1.contains("rank 2"), "{findings:?}");
}

/// The path by the hash of Linux routers with a seed.
fn path(seed: u32, from: SocketAddr, to: SocketAddr) -> Option<u8> {
    EqualPaths::new("linux", Some(seed), 2, None).unwrap().path(from, to)
}

/// Two hosts at each of two leaves, under two spines, with leaves that choose by this policy and routers that send a host 6 ICMP errors and then one in so many
/// milliseconds. The reports of all and the findings.
fn under_spines(
    policy: u8,
    limit_ms: u32,
    prediction: Option<Prediction<'_>>,
) -> (Vec<RankReport>, Vec<Finding>) {
    let mut names = NamespaceSet::new();
    let forwarding = format!(
        "net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.fib_multipath_hash_policy={policy} net.ipv4.fib_multipath_hash_seed=7 net.ipv4.icmp_ratelimit={limit_ms}"
    );
    let spines: Vec<String> = (0..2).map(|spine| names.add('s', spine).unwrap()).collect();
    let leaves: Vec<String> = (0..2).map(|leaf| names.add('l', leaf).unwrap()).collect();
    let hosts: Vec<String> = (0..4).map(|host| names.add('h', host).unwrap()).collect();
    let run = |words: String| command(&words).unwrap();
    for router in spines.iter().chain(&leaves) {
        run(format!("ip netns exec {router} sysctl -q -w {forwarding}"));
        // Older kernels have one limit for all namespaces, which these cannot set.
        run(format!(
            "ip netns exec {router} sysctl -q -e -w net.ipv4.icmp_msgs_per_sec=100000 net.ipv4.icmp_msgs_burst=1000"
        ));
    }
    let link =
        |(below, lower): (&str, &str), (above, upper): (&str, &str), (device, port): (String, String)| {
            run(format!("ip link add {device} netns {below} type veth peer name {port} netns {above}"));
            for (name, device, address) in [(below, &device, lower), (above, &port, upper)] {
                run(format!("ip -n {name} addr add {address} dev {device}"));
                run(format!("ip -n {name} link set {device} up"));
            }
        };
    for (number, leaf) in leaves.iter().enumerate() {
        let (gateway, mut over) = (format!("10.79.{number}.254"), String::new());
        run(format!("ip -n {leaf} link add br0 type bridge"));
        run(format!("ip -n {leaf} addr add {gateway}/24 dev br0"));
        run(format!("ip -n {leaf} link set br0 up"));
        for at in 0..2 {
            let host = &hosts[2 * number + at];
            run(format!("ip link add eth0 netns {host} type veth peer name p{at} netns {leaf}"));
            run(format!("ip -n {leaf} link set p{at} master br0 up"));
            run(format!("ip -n {host} addr add 10.79.{number}.{}/24 dev eth0", at + 1));
            run(format!("ip -n {host} link set eth0 up"));
            run(format!("ip -n {host} route add default via {gateway}"));
        }
        for (at, spine) in spines.iter().enumerate() {
            let [lower, upper] = [1, 2].map(|end| format!("10.79.{}.{end}", 100 + 10 * number + at));
            let devices = (format!("up{at}"), format!("down{number}"));
            link((leaf, &format!("{lower}/24")), (spine, &format!("{upper}/24")), devices);
            run(format!("ip -n {spine} route add 10.79.{number}.0/24 via {lower}"));
            over += &format!(" nexthop via {upper}");
        }
        run(format!("ip -n {leaf} route add 10.79.{}.0/24{over}", 1 - number));
    }
    predicted_in(&hosts, "10.79.0.1:20051", prediction)
}

#[test]
fn paths_are_counted_by_the_routers_that_ports_pass() {
    let seed = std::path::Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed");
    if !namespace::available() || !seed.exists() {
        return;
    }
    for (policy, limit_ms, most) in [(0, 0, 1), (1, 0, 2), (1, 1000, 2)] {
        // The routers' seed is 7.
        let prediction = Some(Prediction(&|from, to| path(7, from, to)));
        let (reports, findings) = under_spines(policy, limit_ms, prediction);
        let mut traces = reports.iter().flat_map(|report| &report.traces);
        assert!(traces.all(|trace| trace.ports_elsewhere == 0), "{reports:?}");
        let mut paths: Vec<u8> = Vec::new();
        for (rank, report) in reports.iter().enumerate() {
            let crossed = report.pairs.iter().zip(&report.traces).filter_map(|(pair, trace)| {
                let crosses = rank / 2 != usize::from(pair.peer) / 2;
                assert!(crosses || *trace == Trace::default(), "no router is between them: {trace:?}");
                crosses.then_some(trace.paths)
            });
            paths.extend(crossed);
        }
        let some = paths.contains(&most);
        let all = paths.iter().all(|paths| *paths == most);
        // All routers report the first packets of a host; of later ones they do not, or some, where they send few errors.
        assert!(paths.len() == 8 && some && (all || limit_ms > 0), "policy {policy}: {reports:?}");
        let expected = [("equal_paths", "paths behind the routers 10.79.0.254, 10.79.1.254")];
        let expected = if policy == 0 { &expected[..] } else { &[] };
        assert_eq!(besides_rate(&findings), expected, "{findings:?}");
    }
}

/// The routers have another seed.
#[test]
fn ports_are_found_that_do_not_take_the_paths_of_the_hash() {
    let seed = std::path::Path::new("/proc/sys/net/ipv4/fib_multipath_hash_seed");
    if !namespace::available() || !seed.exists() {
        return;
    }
    let (reports, findings) = under_spines(1, 0, Some(Prediction(&|from, to| path(8, from, to))));
    let mut traces = reports.iter().flat_map(|report| &report.traces);
    assert!(traces.any(|trace| trace.ports_predicted == 16 && trace.ports_elsewhere > 0), "{reports:?}");
    let found = besides_rate(&findings);
    assert!(!found.is_empty() && found.iter().all(|(check, _)| *check == "path_hash"), "{findings:?}");
}

/// An exchange in which the other rank says what is given.
struct Scripted(Vec<Vec<u8>>);

impl Exchange for Scripted {
    fn rank(&self) -> u16 {
        0
    }

    fn world(&self) -> u16 {
        2
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        Ok(vec![mine.to_vec(), self.0.remove(0)])
    }

    fn local_ip(&self) -> Option<IpAddr> {
        Some(Ipv4Addr::LOCALHOST.into())
    }
}

#[test]
fn ranks_that_say_something_else_are_named() {
    let hello = format!("{{\"version\":3,\"cookie\":{:?},\"payload_bytes\":1408}}", [0; 16]);
    let other = hello.replace("1408", "256");
    // Where nothing replies.
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("\"{}\"", silent.local_addr().unwrap());
    let report = |pair: &str| format!("{{\"host\":\"h\",\"heard\":[],\"pairs\":[{pair}]}}");
    let pair = "{\"peer\":0,\"reached\":true,\"rtt_us\":1.0,\"offset_us\":0.0,\"datagram\":1,\"ports\":1,\"ports_replied\":1,\"sent\":1,\"lost\":0,\"rate\":1.0}";
    let [none, lost, peer, host, right] = [
        report(""),
        report(&pair.replace("\"lost\":0", "\"lost\":2")),
        report(&pair.replace("\"peer\":0", "\"peer\":1")),
        report(pair).replace("\"h\"", "\"\\u001b[2J\""),
        report(pair),
    ];
    let untraced = "[{\"paths\":0,\"ports_traced\":0,\"first_router\":null,\"only_router\":null,\"ports_predicted\":0,\"ports_elsewhere\":0}]";
    let false_trace = untraced.replace("\"paths\":0", "\"paths\":1");
    let scripts: [(&str, Vec<&str>); 9] = [
        ("greeting", vec!["garbage"]),
        ("greeting", vec![&other]),
        ("address", vec![&hello, "\"nowhere\""]),
        ("report", vec![&hello, &address, "0", "0", "1", &none, untraced]),
        ("report", vec![&hello, &address, "0", "0", "1", &lost, untraced]),
        ("report", vec![&hello, &address, "0", "0", "1", &peer, untraced]),
        ("report", vec![&hello, &address, "0", "0", "1", &host, untraced]),
        ("report", vec![&hello, &address, "0", "0", "1", &right, "[]"]),
        ("report", vec![&hello, &address, "0", "0", "1", &right, &false_trace]),
    ];
    for (expected, said) in scripts {
        let mut exchange = Scripted(said.iter().map(|text| text.as_bytes().to_vec()).collect());
        match measure(&mut exchange, &config()) {
            Err(PairsError::Peer { rank: 1, what }) => assert_eq!(what, expected),
            other => panic!("{said:?}: {other:?}"),
        }
    }
    let mut exchange = Scripted(
        [&hello, &address, "0", "0", "1", &right, untraced].map(|text| text.as_bytes().to_vec()).into(),
    );
    let reports = measure(&mut exchange, &config()).unwrap();
    assert!(!reports[0].pairs[0].reached, "nothing replied");
}

#[test]
fn garbage_is_not_replied_to() {
    let cookie = [9; 16];
    let responder = Responder::start(Ipv4Addr::LOCALHOST.into(), cookie, (0, 2), Clock::default()).unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = |rank, cookie: &Cookie| packet::Request { rank, number: 5 }.emit(cookie).to_vec();
    let wrong = [vec![], vec![0xff; 2000], request(1, &[8; 16]), request(2, &cookie)];
    for datagram in wrong {
        socket.send_to(&datagram, responder.address()).unwrap();
    }
    socket.send_to(&request(1, &cookie), responder.address()).unwrap();
    let mut memory = [0; 100];
    let len = socket.recv(&mut memory).unwrap();
    // The first reply is that of the last request.
    let reply = packet::Reply::parse(&memory[..len], &cookie).unwrap();
    assert_eq!((reply.rank, reply.number, responder.heard()), (0, 5, vec![1]));
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut memory).is_err());
}

#[test]
fn a_check_has_two_ranks_at_least() {
    let mut alone = TcpRendezvous::new(([127, 0, 0, 1], 0).into(), "check", 0, 1, TIMEOUT).unwrap();
    assert!(matches!(measure(&mut alone, &config()), Err(PairsError::World { world: 1 })));
}
