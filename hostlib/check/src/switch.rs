//! The way to a switch: a job of one rank, which joins as every member does, and then reduces full packets.
//!
//! A switch with no other rank to wait for replies to each packet with one. So what is sent and does not return is lost, however often
//! the library retransmits; and a reply with other values than were sent is wrong. The job asks for few slots and leaves at once.

mod tap;

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use netfold::{Builder, Communicator, Error, ReduceOp, Refusal};
use netfold_io::PacketIo as _;
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_wire::header;
use serde::Serialize;

use crate::finding::{Finding, Severity, percent};
use tap::PortCounts;

/// Slots of the job: the packets in flight.
pub const SLOTS: u32 = 32;

/// Longest time for the control port to accept a connection: one lost SYN is retransmitted after a second.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// Longest time for the admission, in which the control port waits up to 5 s for the proof that packets pass.
const JOIN_TIMEOUT: Duration = Duration::from_secs(8);

/// After so long without a reply to any packet, none is expected.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Bounds of what is reduced: bytes of a call, bytes of all, and time.
const CALL_BYTES: usize = 128 << 10;
const BYTES_MAX: usize = 4 << 20;
const TIME_MAX: Duration = Duration::from_secs(1);

/// In this time after the last call a reply arrives that is not lost.
const LAST_REPLY: Duration = Duration::from_millis(100);

/// A path loses packets beyond this fraction, if it loses so many at all.
const LOSS_MAX: f64 = 0.001;
const LOST_MIN: u64 = 3;

/// What to do about wrong results.
const WRONG_REMEDY: &str = "compare `netfold version` of this host, the controller and the switch; a link that corrupts packets shows in `ethtool -S IFACE`";

/// Bytes of IPv4 and UDP headers, and of IPv6 and UDP headers.
const OUTER: (usize, usize) = (28, 48);

/// What was measured towards a switch.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SwitchReport {
    /// The control port.
    pub address: String,
    /// Time in which it accepted a connection, microseconds.
    pub control_rtt_us: Option<f64>,
    /// Longest IP packet that the interface to it, or a router on the path, is known to carry, bytes.
    pub mtu: Option<usize>,
    /// The switch, where the control port admitted the job.
    pub switch: Option<SocketAddr>,
    /// Bytes of lanes of a packet.
    pub payload_bytes: Option<u32>,
    /// UDP ports that packets were sent from: several where the control port knows of several paths.
    pub ports: u8,
    /// Those of them at which replies arrived.
    pub ports_replied: u8,
    /// Shortest time from a packet to its reply, microseconds.
    pub rtt_us: Option<f64>,
    /// Packets sent.
    pub packets: u64,
    /// Packets that were sent and not replied to.
    pub lost: u64,
    /// Rate of packets with a window of [`SLOTS`], bits a second in each direction.
    pub rate: Option<f64>,
}

/// Checks the way to a switch. `builder` names the control port at `address`, and tenant and authority, as far as that was possible;
/// `payload_bytes` are the lanes of a job's packets. Takes at most some 20 s: a transient refusal is retried.
pub fn check(
    address: &str,
    builder: Result<Builder, Error>,
    payload_bytes: u32,
) -> (SwitchReport, Vec<Finding>) {
    let mut report = SwitchReport { address: address.to_owned(), ..SwitchReport::default() };
    let mut findings = Vec::new();
    if let Some((port, time)) = connect(address) {
        report.control_rtt_us = Some(time.as_secs_f64() * 1e6);
        report.mtu = mtu(port);
        findings.extend(judge_mtu(port, report.mtu, payload_bytes));
    }
    let name = format!("check-{}", std::process::id());
    let counts = PortCounts::default();
    let joined = builder.and_then(|builder| {
        let builder = builder.job(name).rank(0).world_size(1).slots(SLOTS).trees(1).shared_memory(false);
        let builder = builder.middleware({
            let counts = counts.clone();
            move |io| counts.tap(io)
        });
        builder.join_timeout(JOIN_TIMEOUT).stall_timeout(STALL_TIMEOUT).connect()
    });
    let comm = match joined {
        Ok(comm) => comm,
        Err(error) => {
            findings.push(refused(address, &error));
            return (report, findings);
        }
    };
    if let Some(place) = comm.attachments().first() {
        (report.switch, report.payload_bytes) = (place.switch, Some(place.payload_bytes));
    }
    match exercise(&comm, &counts, &mut report) {
        Ok(wrong) => findings.extend(judge(&report, wrong)),
        Err(error) => findings.push(unanswered(&report, &error)),
    }
    // A job that cannot be left any more has ended.
    let _ = comm.leave();
    (report, findings)
}

/// Connects to the first address that accepts.
fn connect(address: &str) -> Option<(SocketAddr, Duration)> {
    let resolved = address.split(',').filter_map(|one| one.trim().to_socket_addrs().ok()).flatten();
    resolved.take(8).find_map(|port| {
        let start = Instant::now();
        TcpStream::connect_timeout(&port, CONNECT_TIMEOUT).ok().map(|_| (port, start.elapsed()))
    })
}

fn mtu(peer: SocketAddr) -> Option<usize> {
    UdpIo::connect(peer, UdpConfig::default()).ok()?.path_mtu(peer)
}

/// Compares the MTU with the packets of a job.
fn judge_mtu(peer: SocketAddr, mtu: Option<usize>, payload_bytes: u32) -> Option<Finding> {
    let outer = if peer.is_ipv4() { OUTER.0 } else { OUTER.1 };
    let need = outer + header::LEN + payload_bytes as usize;
    let mtu = mtu.filter(|mtu| *mtu < need)?;
    Some(Finding {
        severity: Severity::Error,
        check: "mtu",
        subject: format!("the path to {}", peer.ip()),
        measured: format!("its MTU is {mtu} bytes"),
        limit: format!("{need} bytes: packets with {payload_bytes} bytes of lanes"),
        remedy: format!(
            "ip link set dev {} mtu {} on this host, and as much on each device to {}; or start the switch with --payload 256",
            interface_to(peer).unwrap_or_else(|| "IFACE".into()),
            need.max(1500),
            peer.ip()
        ),
    })
}

/// The interface that leads to an address.
fn interface_to(peer: SocketAddr) -> Option<String> {
    let any: IpAddr = if peer.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(peer).ok()?;
    let IpAddr::V4(local) = socket.local_addr().ok()?.ip() else { return None };
    let all = netfold_io::link::interfaces().into_iter();
    all.filter(|found| found.ipv4.iter().any(|(ip, _)| *ip == local)).map(|found| found.name).next()
}

/// Reduces full packets within the bounds; the number of wrong elements.
fn exercise(comm: &Communicator, counts: &PortCounts, report: &mut SwitchReport) -> Result<u64, Error> {
    let elements = CALL_BYTES / 4;
    // Whole numbers of so few bits are exact in every mode.
    let expected: Vec<f32> = (0..elements).map(|at| (at % 64) as f32).collect();
    let (start, mut done, mut wrong) = (Instant::now(), 0, 0);
    while done < BYTES_MAX && start.elapsed() < TIME_MAX {
        let mut tensor = expected.clone();
        comm.all_reduce(&mut tensor, ReduceOp::Sum)?;
        wrong += tensor.iter().zip(&expected).filter(|(sum, one)| sum != one).count() as u64;
        done += CALL_BYTES;
    }
    let elapsed = start.elapsed();
    let bytes = comm.stats().worker.sent_bytes as f64;
    // Replies that are on their way count with the next call.
    thread::sleep(LAST_REPLY);
    comm.all_reduce(&mut [1.0_f32], ReduceOp::Sum)?;
    let total = counts.total();
    report.packets = total.sent;
    report.lost = total.sent.saturating_sub(total.received);
    (report.ports, report.ports_replied) = counts.replied();
    report.rtt_us = Some(comm.stats().worker.rtt_low.as_secs_f64() * 1e6).filter(|rtt| *rtt > 0.0);
    report.rate = Some(bytes * 8.0 / elapsed.as_secs_f64().max(1e-9));
    Ok(wrong)
}

/// Judges what was measured in a job that has run.
fn judge(report: &SwitchReport, wrong: u64) -> Vec<Finding> {
    let subject = subject(report);
    let mut findings = Vec::new();
    if wrong > 0 {
        findings.push(Finding {
            severity: Severity::Error,
            check: "results",
            subject: subject.clone(),
            measured: format!("{wrong} elements of the results are wrong"),
            limit: "none".into(),
            remedy: WRONG_REMEDY.into(),
        });
    }
    if report.ports_replied < report.ports {
        findings.push(Finding {
            severity: Severity::Warning,
            check: "paths",
            subject: subject.clone(),
            measured: format!("replies arrive at {} of {} UDP ports", report.ports_replied, report.ports),
            limit: "all: the fabric chooses paths by ports, and each path carries packets".into(),
            remedy: "`traceroute -U --sport=PORT ADDR` from several ports shows where a path ends; drain the switch there (`netfold switch drain`)".into(),
        });
    }
    let share = report.lost as f64 / report.packets.max(1) as f64;
    if report.lost >= LOST_MIN && share > LOSS_MAX {
        findings.push(Finding {
            severity: Severity::Warning,
            check: "loss",
            subject,
            measured: format!("{} of {} packets were lost ({})", report.lost, report.packets, percent(share)),
            limit: percent(LOSS_MAX),
            remedy: "`ip -s link show` and `ethtool -S IFACE` count errors of this host's interface, `netfold top` what the switch drops; \
                     a cable or transceiver that corrupts packets shows as CRC errors"
                .into(),
        });
    }
    findings
}

fn subject(report: &SwitchReport) -> String {
    match report.switch {
        Some(switch) => format!("the path to the switch at {switch}"),
        None => format!("the path to the switch of {}", report.address),
    }
}

/// A job that was admitted and whose packets are not replied to.
fn unanswered(report: &SwitchReport, error: &Error) -> Finding {
    let payload = report.payload_bytes.unwrap_or_default();
    let (check, measured, remedy) = match error.kind() {
        "stalled" => (
            "payload",
            format!(
                "packets with {payload} bytes of lanes are not replied to within {STALL_TIMEOUT:?}, those without lanes are"
            ),
            "a device on the path drops long packets silently: raise its MTU, or start the switch with --payload 256",
        ),
        // There is one rank, which agrees with itself: what it received is not what it sent.
        "mismatch" => {
            ("results", format!("an operation's description was changed: {}", text(error)), WRONG_REMEDY)
        }
        _ => (
            "admission",
            text(error),
            "run the check again; `netfold job explain` has what the controller saw",
        ),
    };
    Finding {
        severity: Severity::Error,
        check,
        subject: subject(report),
        measured,
        limit: "a reply to each packet".into(),
        remedy: remedy.into(),
    }
}

/// A job that was not admitted.
fn refused(address: &str, error: &Error) -> Finding {
    let (check, limit, remedy) = match error {
        Error::Refused { reason: Refusal::Credentials, .. } => (
            "credentials",
            "a tenant of the controller, and its token",
            "give --tenant, and the token in NETFOLD_TOKEN; an administrator sees tenants by `netfold tenant list`",
        ),
        Error::Refused { reason: Refusal::Version | Refusal::Protocol, .. } | Error::Control { .. } => (
            "version",
            "the same protocol version",
            "compare `netfold version` on both hosts, and upgrade controllers and switches before workers",
        ),
        Error::Refused { reason: Refusal::Path, .. } => (
            "udp",
            "a reply of the switch within 5 s",
            "open UDP between this host and the switch in both directions (the switch's port is in the first line of `netfold switch`), or give \
             the address of the right interface with --bind",
        ),
        Error::Refused { .. } | Error::Quota { .. } => (
            "admission",
            "a job of one rank is admitted",
            "`netfold tenant list` and `netfold top` show quotas, and who has the slots",
        ),
        Error::Mtu { .. } | Error::Datagram { .. } => (
            "mtu",
            "packets of the job fit the path",
            "ip link set dev IFACE mtu 1500 or more, or start the switch with --payload 256",
        ),
        Error::Tls { .. } => (
            "control_port",
            "TLS on both sides or on none",
            "give the authority of the controller's certificate with --ca or NETFOLD_CA, or leave it out",
        ),
        Error::JoinTimeout { .. } => {
            ("admission", "an admission within 8 s", "`netfold top` shows whether the switch is up")
        }
        Error::Io(_) => ("packet_access", "packet I/O that opens", "see the cause; --io selects another one"),
        _ => (
            "control_port",
            "a control port that answers",
            "start the switch or the controller, correct the address (20041 at a controller, 20038 at a switch), or open the TCP port",
        ),
    };
    let subject = format!("the control port at {address}");
    let severity = Severity::Error;
    Finding { severity, check, subject, measured: text(error), limit: limit.into(), remedy: remedy.into() }
}

/// An error with its causes.
fn text(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
