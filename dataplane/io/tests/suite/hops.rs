//! Sockets that learn where their datagrams end, between hosts in namespaces.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use netfold_io::udp::{HopReport, HopSocket};
use netfold_testkit::namespace::{self, NamespaceSet, command};

/// Bound on the time of what arrives at once.
const TIMEOUT: Duration = Duration::from_secs(60);

fn poll<T>(mut call: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(done) = call() {
            return done;
        }
        assert!(Instant::now() < deadline, "nothing arrives");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two hosts with a router between them.
fn routed() -> (NamespaceSet, [String; 3]) {
    let mut names = NamespaceSet::new();
    let [a, router, b] = ['a', 'r', 'b'].map(|kind| names.add(kind, 0).unwrap());
    for name in [&a, &router, &b] {
        command(&format!(
            "ip netns exec {name} sysctl -q -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 \
             net.ipv6.conf.default.accept_dad=0 net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
        ))
        .unwrap();
    }
    for (at, host) in [(1, &a), (2, &b)] {
        command(&format!("ip link add eth0 netns {host} type veth peer name eth{at} netns {router}"))
            .unwrap();
        for line in [
            format!("-n {host} addr add 10.75.{at}.1/24 dev eth0"),
            format!("-n {host} addr add fd00:75:{at}::1/64 dev eth0 nodad"),
            format!("-n {router} addr add 10.75.{at}.254/24 dev eth{at}"),
            format!("-n {router} addr add fd00:75:{at}::fe/64 dev eth{at} nodad"),
            format!("-n {host} link set eth0 up"),
            format!("-n {router} link set eth{at} up"),
            format!("-n {host} route add default via 10.75.{at}.254"),
            format!("-n {host} -6 route add default via fd00:75:{at}::fe"),
        ] {
            command(&format!("ip {line}")).unwrap();
        }
    }
    (names, [a, router, b])
}

#[test]
fn a_router_reports_what_ends_at_it() {
    if !namespace::available() {
        return;
    }
    let (_names, [a, _, b]) = routed();
    for (from, router, to) in [
        ("10.75.1.1", "10.75.1.254", "10.75.2.1:7001"),
        ("fd00:75:1::1", "fd00:75:1::fe", "[fd00:75:2::1]:7001"),
    ] {
        let (from, router): (IpAddr, IpAddr) = (from.parse().unwrap(), router.parse().unwrap());
        let to: SocketAddr = to.parse().unwrap();
        let peer = namespace::within(&b, || UdpSocket::bind(to).unwrap()).unwrap();
        let socket = namespace::within(&a, || HopSocket::bind(from).unwrap()).unwrap();
        let mut memory = [0; 64];
        assert_eq!(socket.report(&mut memory).unwrap(), None);
        assert_eq!(socket.receive(&mut memory).unwrap(), None);
        // Twice: the error of the first is said by a call of the socket, which must not take it for its own.
        for text in [&b"first"[..], b"second one"] {
            socket.send(text, to, 1).unwrap();
            let report = poll(|| socket.report(&mut memory).unwrap());
            assert_eq!(report, HopReport { router, quoted: text.len() });
            assert_eq!(&memory[..report.quoted], text);
        }
        socket.send(b"arrives", to, 2).unwrap();
        peer.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (len, sender) = peer.recv_from(&mut memory).unwrap();
        assert_eq!((&memory[..len], sender.ip()), (&b"arrives"[..], from), "those before have not arrived");
        peer.send_to(b"reply", sender).unwrap();
        let (len, sender) = poll(|| socket.receive(&mut memory).unwrap());
        assert_eq!((&memory[..len], sender), (&b"reply"[..], to));
    }
}
