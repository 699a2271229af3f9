//! The Wireshark dissector decodes every packet of a capture as the Rust parser does.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use netfold_io::pcap::{PcapWriter, Resolution};
use netfold_testkit::directory::TemporaryDirectory;
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, Outer};
use netfold_wire::{Error, Flags, Kind, LaneOp, Packet, Reason, Repr, UDP_PORT, field, header};

use crate::process::{Process, run};

const DISSECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dataplane/wire/wireshark/netfold.lua");

/// What the dissector flags as malformed.
const PROBLEMS: [&str; 7] = ["truncated", "version", "kind", "op", "reason", "length", "unexpected_reason"];

/// The Ethernet frames of a capture in the machine's byte order.
fn frames(capture: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(capture).unwrap();
    let mut frames = Vec::new();
    let mut rest = &bytes[24..];
    while !rest.is_empty() {
        let len = u32::from_ne_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

/// A line for each frame with what tshark decodes: fields, flags, children, lanes and problems. `None` without tshark.
fn dissected(capture: &Path) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-X", &format!("lua_script:{DISSECTOR}"), "-r"]).arg(capture);
    command.args(["-T", "fields", "-E", "separator=|", "-E", "aggregator=,"]);
    let fields = field::TABLE.iter().map(|field| format!("netfold.{}", field.name));
    let flags = Flags::ALL.iter().map(|(_, name)| format!("netfold.flags.{name}"));
    let others = ["child", "lanes.words", "lanes.nonzero", "lanes.min", "lanes.max", "lane"];
    let others = others.iter().map(|name| format!("netfold.{name}"));
    let problems = PROBLEMS.iter().map(|name| format!("netfold.malformed.{name}"));
    for name in fields.chain(flags).chain(others).chain(problems) {
        command.args(["-e", &name]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: the dissector: tshark cannot be run ({error})");
            return None;
        }
    };
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    // Versions of tshark differ in what they print for a flag.
    Some(text.lines().map(|line| line.replace("True", "1").replace("False", "0")).collect())
}

/// The same line as the wire crate's parser has it.
fn parsed(frame: &[u8]) -> String {
    let (_, datagram) = Outer::parse(frame).unwrap();
    let mut line = String::new();
    let packet = match Packet::new_checked(datagram) {
        Ok(packet) => packet,
        Err(_) => return line_of_problems(field::TABLE.len() + Flags::ALL.len() + 6, &["truncated"]),
    };
    let values: [u32; 16] = [
        packet.version().into(),
        packet.kind().into(),
        packet.flags().0.into(),
        packet.op().into(),
        packet.class().into(),
        packet.reason().into(),
        packet.job().into(),
        packet.slot().into(),
        packet.set().into(),
        packet.epoch(),
        packet.key(),
        packet.chunk(),
        packet.bitmap(),
        packet.count().into(),
        packet.exp().into(),
        packet.exp_next().into(),
    ];
    for (field, value) in field::TABLE.iter().zip(values) {
        match field.name {
            "flags" => write!(line, "{value:#04x}|").unwrap(),
            "epoch" | "key" | "bitmap" => write!(line, "{value:#010x}|").unwrap(),
            _ => write!(line, "{value}|").unwrap(),
        }
    }
    for (flag, _) in Flags::ALL {
        write!(line, "{}|", u8::from(packet.flags().contains(*flag))).unwrap();
    }
    let children: Vec<u32> = (0..32).filter(|child| packet.bitmap() >> child & 1 == 1).collect();
    write!(line, "{}|", list(&children)).unwrap();
    line + &lanes(packet.payload()) + &line_of_problems(0, &problems(&packet))
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The summary of the lanes, and the first of them.
fn lanes(payload: &[u8]) -> String {
    if payload.is_empty() {
        return "|||||".to_owned();
    }
    let lanes: Vec<i32> =
        payload.chunks_exact(4).map(|lane| i32::from_be_bytes(lane.try_into().unwrap())).collect();
    let nonzero = lanes.iter().filter(|lane| **lane != 0).count();
    let ends: [&[i32]; 2] =
        [lanes.iter().min(), lanes.iter().max()].map(|end| end.map_or(&[][..], std::slice::from_ref));
    let [least, most] = ends.map(list);
    format!("{}|{nonzero}|{least}|{most}|{}|", lanes.len(), list(&lanes[..lanes.len().min(16)]))
}

/// What is wrong with a packet by the wire crate and the protocol's rules of length and reason.
fn problems(packet: &Packet<&[u8]>) -> Vec<&'static str> {
    let mut found = Vec::new();
    if matches!(Repr::parse(packet), Err(Error::Version(_))) {
        return vec!["version"];
    }
    found.extend(Kind::try_from(packet.kind()).is_err().then_some("kind"));
    found.extend(LaneOp::try_from(packet.op()).is_err().then_some("op"));
    found.extend(Reason::try_from(packet.reason()).is_err().then_some("reason"));
    let is_bare = packet.flags().contains(Flags::BARE);
    let lanes = packet.payload().len();
    let lengths_agree = if is_bare { lanes == 0 } else { lanes >= 64 && lanes.is_multiple_of(4) };
    found.extend((!lengths_agree).then_some("length"));
    let is_reject = packet.kind() == Kind::Reject as u8;
    found.extend((packet.reason() != 0 && !is_reject).then_some("unexpected_reason"));
    assert!(!found.is_empty() || Repr::parse(packet).is_ok());
    found
}

/// So many empty columns, and a 1 in those of these problems.
fn line_of_problems(empty: usize, found: &[&str]) -> String {
    let columns = PROBLEMS.map(|name| if found.contains(&name) { "1" } else { "" });
    "|".repeat(empty) + &columns.join("|")
}

fn assert_equal(lines: &[String], frames: &[Vec<u8>]) {
    assert_eq!(lines.len(), frames.len());
    for (number, (line, frame)) in lines.iter().zip(frames).enumerate() {
        assert_eq!(*line, parsed(frame), "packet {}", number + 1);
    }
}

/// A job's packets, captured by the switch that served it, at a port of the system's choice: those are found by their form.
#[test]
fn packets_of_a_job_are_decoded_as_by_the_parser() {
    let folder = TemporaryDirectory::new("dissector");
    let capture = folder.path().join("job.pcap");
    let (mut switch, control) = Process::switch(&format!("--payload 256 --pcap {}", capture.display()));
    for (mode, job) in [("i32", "integers"), ("bfp16", "halves")] {
        let worker = |rank| {
            format!(
                "worker --switch {control} --job {job} --rank {rank} --world 2 --mode {mode} --bytes 8KiB --iterations 1"
            )
        };
        let mut other = Process::start(&worker(1));
        let (code, lines) = run(&worker(0));
        assert_eq!(code, Some(0), "{lines:?}");
        assert!(other.wait().success());
    }
    switch.signal("TERM");
    assert!(switch.wait().success());
    let frames = frames(&capture);
    let kinds: Vec<u8> = frames.iter().map(|frame| Outer::parse(frame).unwrap().1[0] & 15).collect();
    for kind in [Kind::Data, Kind::Result] {
        assert!(kinds.iter().filter(|found| **found == kind as u8).count() > 100, "{kind}: {kinds:?}");
    }
    if let Some(lines) = dissected(&capture) {
        assert_equal(&lines, &frames);
    }
}

/// Every kind, operation, reason and flag, and what is malformed, as whole frames.
#[test]
fn every_value_and_malformed_packets_are_decoded_as_by_the_parser() {
    let folder = TemporaryDirectory::new("dissector");
    let capture = folder.path().join("values.pcap");
    let end = |last, port| Endpoint {
        mac: EthernetAddress([2, 0, 0, 0, 0, last]),
        ip: Ipv4Address::new(10, 0, 0, last),
        port,
    };
    let outer = Outer { source: end(1, 40_000), destination: end(2, UDP_PORT) };
    let file = std::fs::File::create(&capture).unwrap();
    let mut writer = PcapWriter::new(file, Resolution::Micro).unwrap();
    let mut frames = Vec::new();
    for datagram in datagrams() {
        let mut frame = vec![0; netfold_wire::frame::OUTER_LEN + datagram.len()];
        outer.emit(&datagram, 0, &mut frame).unwrap();
        frame.resize(frame.len().max(60), 0); // the padding of Ethernet
        writer.write(Duration::from_secs(1), &frame).unwrap();
        frames.push(frame);
    }
    writer.finish().unwrap();
    if let Some(lines) = dissected(&capture) {
        assert_equal(&lines, &frames);
    }
}

/// A datagram with these numbers of version, kind, operation and reason, these flags and so many bytes of lanes; its other fields and
/// lanes depend on `number`.
fn datagram(number: u32, [version, kind, op, reason]: [u8; 4], flags: u8, lane_bytes: usize) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9).rotate_left(7);
    let mut bytes: Vec<u8> =
        (0..header::LEN + lane_bytes).map(|at| (mixed >> (at % 4 * 8)) as u8 ^ at as u8).collect();
    let mut packet = Packet::new_checked(&mut bytes[..]).unwrap();
    packet.set_version(version);
    packet.set_kind_raw(kind);
    packet.set_op_raw(op);
    packet.set_reason_raw(reason);
    packet.set_flags(Flags(flags));
    bytes
}

fn datagrams() -> Vec<Vec<u8>> {
    let (bare, data) = (Flags::BARE.0, Kind::Data as u8);
    let mut forms = Vec::new();
    for value in 0..16 {
        forms.push(([value, data, 0, 0], 0, 64));
        forms.push(([1, value, 0, 0], 0, 64));
        forms.push(([1, data, value, 0], 0, 256));
    }
    for reason in 0..=20 {
        forms.push(([1, Kind::Reject as u8, 0, reason], bare, 0));
        forms.push(([1, data, 0, reason], 0, 64));
    }
    for flag in 0..8 {
        let flags = 1 << flag;
        forms.push(([1, Kind::Result as u8, 1, 0], flags, if flags == bare { 0 } else { 1408 }));
    }
    for lane_bytes in [0, 1, 4, 60, 64, 65, 8192] {
        forms.push(([1, data, 2, 0], 0, lane_bytes));
        forms.push(([1, data, 2, 0], bare, lane_bytes));
    }
    let mut datagrams: Vec<_> = (0..)
        .zip(forms)
        .map(|(number, (codes, flags, lane_bytes))| datagram(number, codes, flags, lane_bytes))
        .collect();
    datagrams.extend([1, 4, 27].map(|len| vec![0x11; len]));
    datagrams
}
