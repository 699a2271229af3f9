use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::time::Duration;

use netfold::TcpRendezvous;
use netfold_testkit::namespace::{self, NamespaceSet, command};

use super::*;
use crate::finding::Finding;

const PAYLOAD: u32 = 1408;
const TIMEOUT: Duration = Duration::from_secs(60);

fn config() -> PairsConfig {
    PairsConfig { bind: None, payload_bytes: PAYLOAD, clock: Clock::default() }
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
    let address: SocketAddr = "10.79.0.1:20051".parse().unwrap();
    let measured: Vec<Vec<RankReport>> = std::thread::scope(|scope| {
        let run = |rank: u16, name: &String| {
            let name = name.clone();
            scope.spawn(move || {
                namespace::within(&name, || {
                    let mut exchange =
                        TcpRendezvous::new(address, "check", rank, world as u16, TIMEOUT).unwrap();
                    measure(&mut exchange, &config()).unwrap()
                })
            })
        };
        let ranks: Vec<_> = hosts.iter().enumerate().map(|(rank, name)| run(rank as u16, name)).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect()
    });
    judge(&measured[0], PAYLOAD)
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
    let hello = format!("{{\"version\":1,\"cookie\":{:?},\"payload_bytes\":1408}}", [0; 16]);
    let other = hello.replace("1408", "256");
    // Where nothing replies.
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("\"{}\"", silent.local_addr().unwrap());
    let report = |pair: &str| format!("{{\"host\":\"h\",\"heard\":[],\"pairs\":[{pair}]}}");
    let pair = "{\"peer\":0,\"reached\":true,\"rtt_us\":1.0,\"offset_us\":0.0,\"datagram\":1,\"ports\":1,\"ports_replied\":1,\"sent\":1,\"lost\":0,\"rate\":1.0}";
    let [none, lost, peer, host] = [
        report(""),
        report(&pair.replace("\"lost\":0", "\"lost\":2")),
        report(&pair.replace("\"peer\":0", "\"peer\":1")),
        report(pair).replace("\"h\"", "\"\\u001b[2J\""),
    ];
    let scripts: [(&str, Vec<&str>); 7] = [
        ("greeting", vec!["garbage"]),
        ("greeting", vec![&other]),
        ("address", vec![&hello, "\"nowhere\""]),
        ("report", vec![&hello, &address, "0", "0", "1", &none]),
        ("report", vec![&hello, &address, "0", "0", "1", &lost]),
        ("report", vec![&hello, &address, "0", "0", "1", &peer]),
        ("report", vec![&hello, &address, "0", "0", "1", &host]),
    ];
    for (expected, said) in scripts {
        let mut exchange = Scripted(said.iter().map(|text| text.as_bytes().to_vec()).collect());
        match measure(&mut exchange, &config()) {
            Err(PairsError::Peer { rank: 1, what }) => assert_eq!(what, expected),
            other => panic!("{said:?}: {other:?}"),
        }
    }
    let mut exchange = Scripted(
        [&hello, &address, "0", "0", "1", &report(pair)].map(|text| text.as_bytes().to_vec()).into(),
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
