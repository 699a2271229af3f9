use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};

use netfold_control::{Multipath, PathPolicy};
use netfold_embedded::EmbeddedSwitch;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::{IoError, IoSpec, Middleware, PacketIo, Transmit};
use netfold_testkit::job::{CheckedSum, on_all_ranks};

use super::*;

fn builder(address: SocketAddr) -> Result<Builder, Error> {
    Communicator::builder().switch(address)
}

fn names(findings: &[Finding]) -> Vec<(&'static str, Severity)> {
    findings.iter().map(|finding| (finding.check, finding.severity)).collect()
}

/// What is found on the way to a switch on loopback whose workers have so many UDP ports; `wrap` puts faults around their packet I/O.
fn found<B: PacketIo + 'static>(
    udp_ports: u8,
    wrap: impl Fn(Box<dyn PacketIo>) -> B + Send + Sync + 'static,
) -> (SwitchReport, Vec<Finding>) {
    let multipath = Multipath { udp_ports, policy: PathPolicy::default() };
    let switch = EmbeddedSwitch::builder().multipath((udp_ports > 1).then_some(multipath)).start().unwrap();
    let address = switch.control();
    let built = builder(address).map(|builder| {
        builder.io_by(move |options| {
            Ok(Box::new(wrap(netfold_io::open(&IoSpec::Udp, options)?)) as Box<dyn PacketIo>)
        })
    });
    let outcome = check(&address.to_string(), built, 1408);
    switch.stop().unwrap();
    outcome
}

#[test]
fn nothing_is_found_on_a_healthy_way() {
    let (report, findings) = found(1, |io| io);
    assert_eq!(findings, []);
    assert_eq!(
        (report.payload_bytes, report.lost, report.ports, report.ports_replied),
        (Some(1408), 0, 1, 1)
    );
    // 4 MiB in 16 or 32 bits, or what a second is enough for.
    assert!(report.packets > 20 && report.rate.unwrap() > 0.0 && report.rtt_us.unwrap() > 0.0, "{report:?}");
    assert!(report.control_rtt_us.unwrap() > 0.0 && report.mtu.unwrap() > 1500, "{report:?}");
}

#[test]
fn packets_that_are_lost_are_counted() {
    let (report, findings) = found(1, |io| Faulty::new(io, FaultConfig::with_loss(7, 0.03)));
    assert_eq!(names(&findings), [("loss", Severity::Warning)], "{report:?}");
    let share = report.lost as f64 / report.packets as f64;
    assert!((0.02..0.12).contains(&share), "3 % are lost each way: {report:?}");
}

/// Passes a copy of each packet that is sent to a function, which may change it, and sends what it returns true for.
struct Altering<F>(Box<dyn PacketIo>, F);

impl<F: FnMut(&Transmit, &mut [u8]) -> bool + Send> Middleware for Altering<F> {
    type Inner = dyn PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.0
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        for packet in packets {
            let mut bytes = packet.bytes(memory).unwrap_or_default().to_vec();
            if (self.1)(packet, &mut bytes) {
                PacketIo::transmit(&mut *self.0, &bytes, &[Transmit { offset: 0, ..*packet }])?;
            }
        }
        Ok(packets.len())
    }
}

/// Sends only packets of which this is true.
fn only(
    io: Box<dyn PacketIo>,
    mut sent: impl FnMut(&Transmit) -> bool + Send,
) -> Altering<impl FnMut(&Transmit, &mut [u8]) -> bool + Send> {
    Altering(io, move |packet: &Transmit, _: &mut [u8]| sent(packet))
}

#[test]
fn a_path_that_drops_long_packets_silently_is_found() {
    let (_, findings) = found(1, |io| only(io, |packet| packet.len <= 1000));
    assert_eq!(names(&findings), [("payload", Severity::Error)], "{findings:?}");
}

#[test]
fn a_switch_whose_packets_do_not_arrive_is_found() {
    let (report, findings) = found(1, |io| only(io, |_| false));
    assert_eq!(names(&findings), [("udp", Severity::Error)], "{findings:?}");
    assert!(report.control_rtt_us.is_some() && report.switch.is_none(), "{report:?}");
}

#[test]
fn results_that_are_corrupted_are_found() {
    let corrupting = |io| {
        let mut long = 0;
        Altering(io, move |packet: &Transmit, bytes: &mut [u8]| {
            if packet.len > 1000 {
                long += 1;
                // From the twentieth on: what came before may describe the operation.
                bytes[packet.len as usize / 2] ^= u8::from(long >= 20) << 4;
            }
            true
        })
    };
    let (_, findings) = found(1, corrupting);
    assert!(names(&findings).contains(&("results", Severity::Error)), "{findings:?}");
}

#[test]
fn a_description_that_is_corrupted_is_a_wrong_result() {
    let error = Error::Mismatch { rank: Some(0), mine: "a".into(), theirs: Some("b".into()) };
    let finding = unanswered(&SwitchReport::default(), &error);
    assert_eq!((finding.check, finding.severity), ("results", Severity::Error), "{finding:?}");
}

#[test]
fn paths_are_counted_by_the_ports_that_choose_them() {
    let (report, findings) = found(8, |io| io);
    assert_eq!((report.ports, report.ports_replied), (8, 8), "{report:?}");
    assert_eq!(findings, []);
    let (report, findings) = found(8, |io| only(io, |packet| packet.port.0 != 5));
    assert_eq!((report.ports, report.ports_replied), (8, 7), "{report:?}");
    assert_eq!(names(&findings)[0], ("paths", Severity::Warning), "{findings:?}");
}

#[test]
fn a_job_that_runs_is_not_disturbed() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let address = switch.control();
    let findings = std::sync::OnceLock::new();
    on_all_ranks(2, |rank| {
        let builder = builder(address).unwrap().job("running").rank(rank).world_size(2).shared_memory(false);
        let comm = builder.connect().unwrap();
        let places = comm.attachments();
        for operation in 0..6 {
            if (rank, operation) == (0, 2) {
                // While rank 1 waits in the middle of an operation.
                let (_, found) = check(&address.to_string(), super::tests::builder(address), 1408);
                findings.set(found).unwrap();
            }
            let job = CheckedSum { world: 2, elements: 100_000, operation };
            let mut tensor = job.contribution(rank);
            comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
            job.verify(rank, &tensor);
        }
        assert_eq!(comm.attachments(), places, "the same slots and epoch");
        comm.leave().unwrap();
    });
    assert_eq!(findings.get().unwrap(), &[]);
    switch.stop().unwrap();
}

#[test]
fn loss_is_a_finding_beyond_a_limit() {
    let judged = |packets, lost| judge(&SwitchReport { packets, lost, ..SwitchReport::default() }, 0).len();
    assert_eq!([judged(1000, 2), judged(100_000, 100), judged(2000, 3)], [0, 0, 1]);
    let paths = SwitchReport { ports: 16, ports_replied: 15, ..SwitchReport::default() };
    assert_eq!(names(&judge(&paths, 0)), [("paths", Severity::Warning)]);
    let wrong = judge(&SwitchReport::default(), 1);
    assert_eq!(names(&wrong), [("results", Severity::Error)]);
}

#[test]
fn an_mtu_is_compared_with_packets_of_the_payload() {
    let (v4, v6) = ("192.0.2.1:1".parse().unwrap(), "[2001:db8::1]:1".parse().unwrap());
    let needed = |peer, payload| (1..10_000).find(|mtu| judge_mtu(peer, Some(*mtu), payload).is_none());
    assert_eq!(needed(v4, 1408), Some(1408 + header::LEN + 28));
    assert_eq!(needed(v6, 1408), Some(1408 + header::LEN + 48));
    assert_eq!(judge_mtu(v4, None, 1408), None);
}

#[test]
fn a_port_without_a_listener_is_found() {
    let address = netfold_io::vacant_address().unwrap();
    let (report, findings) = check(&address.to_string(), builder(address), 1408);
    assert_eq!(names(&findings), [("control_port", Severity::Error)], "{findings:?}");
    assert_eq!(report.control_rtt_us, None);
}

/// A port that sends these bytes to each client, again and again until it has gone, and reads what it sends.
fn port(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut to, mut from) = (&client, &client);
                while !bytes.is_empty() && to.write_all(bytes).is_ok() {}
                while from.read(&mut [0; 256]).is_ok_and(|len| len > 0) {}
            });
        }
    });
    address
}

#[test]
fn ports_that_are_silent_or_send_garbage_are_found() {
    for bytes in [
        &b""[..],
        &[0xff; 4096],
        &[b'{'; 4096],
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"{\"type\":\"other\"}\n",
    ] {
        let address = port(bytes);
        let (_, findings) = check(&address.to_string(), builder(address), 1408);
        let names: Vec<_> = findings.iter().map(|finding| finding.check).collect();
        assert!(names == ["control_port"] || names == ["version"], "{findings:?}");
    }
}

#[test]
fn a_name_that_is_not_resolved_is_found() {
    let builder = Communicator::builder().switch("no address");
    let (_, findings) = check("no address", builder, 1408);
    assert_eq!(names(&findings), [("control_port", Severity::Error)], "{findings:?}");
}

#[test]
fn every_refusal_has_a_remedy() {
    let refusal =
        |reason| Error::Refused { address: ([127, 0, 0, 1], 1).into(), reason, message: "no".into() };
    let check = |error: &Error| refused("a:1", error).check;
    assert_eq!(check(&refusal(Refusal::Credentials)), "credentials");
    assert_eq!(check(&refusal(Refusal::Version)), "version");
    assert_eq!(check(&refusal(Refusal::Path)), "udp");
    assert_eq!(check(&refusal(Refusal::Slots)), "admission");
    assert_eq!(check(&Error::JoinTimeout { waited: JOIN_TIMEOUT }), "admission");
}
