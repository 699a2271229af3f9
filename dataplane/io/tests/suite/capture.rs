//! Captures are files that other tools read.

use std::io::{self, Write};
use std::process::Command;

use netfold_io::pcap::{Captured, Resolution};
use netfold_io::{PacketIo, PortId, RxBatch, Transmit, loopback};
use netfold_wire::frame::Outer;

struct Record {
    seconds: u32,
    fraction: u32,
    frame: Vec<u8>,
}

/// Reads a capture of this machine's byte order.
fn parse(bytes: &[u8], magic: u32) -> Vec<Record> {
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    assert_eq!(word(0), magic);
    assert_eq!(
        (bytes[4..6].to_vec(), bytes[6..8].to_vec()),
        (2_u16.to_ne_bytes().into(), 4_u16.to_ne_bytes().into())
    );
    assert_eq!(word(20), 1, "Ethernet");
    let mut records = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let len = word(at + 8) as usize;
        assert_eq!(word(at + 12) as usize, len, "nothing was cut");
        let frame = bytes[at + 16..at + 16 + len].to_vec();
        records.push(Record { seconds: word(at), fraction: word(at + 4), frame });
        at += 16 + len;
    }
    records
}

fn transmit(io: &mut impl PacketIo, memory: &[u8], packets: &[(u16, u32, u32)]) {
    let packets: Vec<_> =
        packets.iter().map(|&(port, offset, len)| Transmit { port: PortId(port), offset, len }).collect();
    assert_eq!(io.transmit(memory, &packets).expect("transmit"), packets.len());
}

#[test]
fn both_directions_are_captured_with_headers() {
    for (resolution, magic, limit) in
        [(Resolution::Micro, 0xa1b2_c3d4, 1_000_000), (Resolution::Nano, 0xa1b2_3c4d, 1_000_000_000)]
    {
        let (hub, mut spokes) = loopback::star(2, 8, 100);
        let mut hub = Captured::new(hub, Vec::new(), resolution).unwrap();
        transmit(&mut hub, b"down and more", &[(0, 0, 4), (1, 0, 13)]);
        transmit(&mut spokes[1], b"up", &[(0, 0, 2)]);
        assert_eq!(hub.receive(&mut RxBatch::new(8, 800)).unwrap(), 1);
        let (_, bytes) = hub.finish().unwrap();
        let records = parse(&bytes, magic);
        let parsed: Vec<_> = records.iter().map(|record| Outer::parse(&record.frame).unwrap()).collect();
        assert_eq!(
            parsed.iter().map(|(_, datagram)| *datagram).collect::<Vec<_>>(),
            [&b"down"[..], b"down and more", b"up"]
        );
        assert!(parsed.iter().all(|(outer, _)| outer.is_netfold()));
        assert_eq!(parsed[2].0, parsed[1].0.reversed(), "the way up is the way down, reversed");
        assert_ne!(parsed[0].0.destination, parsed[1].0.destination);
        assert!(records.iter().all(|record| record.seconds > 1_700_000_000 && record.fraction < limit));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn real_addresses_are_captured_and_wireshark_reads_the_file() {
    use netfold_io::udp::{UdpConfig, UdpIo};
    let directory = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = directory.join(format!("capture-{}.pcap", std::process::id()));
    let config = UdpConfig::default();
    let mut hub = UdpIo::bind("127.0.0.1:0".parse().unwrap(), config).unwrap();
    let (at, spoke) = (hub.local_addr().unwrap(), UdpIo::connect(hub.local_addr().unwrap(), config).unwrap());
    let from = spoke.local_addr().unwrap();
    hub.bind_port(PortId(0), from).unwrap();
    let mut spoke = Captured::create(spoke, &path, Resolution::Micro).unwrap();
    transmit(&mut spoke, &[0; 40], &[(0, 0, 40), (0, 0, 28)]);
    spoke.finish().unwrap();

    let records = parse(&std::fs::read(&path).unwrap(), 0xa1b2_c3d4);
    assert_eq!(records.len(), 2);
    let (outer, datagram) = Outer::parse(&records[0].frame).unwrap();
    assert_eq!((outer.source.port, outer.destination.port), (from.port(), at.port()));
    assert_eq!(outer.destination.ip.octets(), [127, 0, 0, 1]);
    assert_eq!(datagram, [0; 40]);

    let arguments = ["-r", path.to_str().unwrap(), "-T", "fields", "-e", "udp.length"];
    match Command::new("tshark").args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(
                String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>(),
                ["48", "36"]
            );
        }
        Err(error) => println!("skipped: tshark cannot be run ({error})"),
    }
    match Command::new("capinfos").args(["-c", "-M", path.to_str().unwrap()]).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(String::from_utf8_lossy(&output.stdout).contains('2'));
        }
        Err(error) => println!("skipped: capinfos cannot be run ({error})"),
    }
    std::fs::remove_file(&path).unwrap();
}

/// Takes so many bytes and then fails.
#[derive(Debug)]
struct Disk {
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_only_the_capture() {
    let (hub, mut spokes) = loopback::star(1, 8, 100);
    let mut hub = Captured::new(hub, Disk { room: 24 + 16 + 42 + 4 + 10 }, Resolution::Micro).unwrap();
    transmit(&mut hub, b"1234", &[(0, 0, 4), (0, 0, 4), (0, 0, 4)]);
    assert_eq!(spokes[0].receive(&mut RxBatch::new(8, 800)).unwrap(), 3, "packets go on");
    assert_eq!(hub.counters().capture_failed, 2);
    assert_eq!(hub.take_error().unwrap().kind(), io::ErrorKind::StorageFull);
    assert!(hub.take_error().is_none(), "returned once");
    assert!(Captured::new(loopback::star(1, 2, 10).0, Disk { room: 3 }, Resolution::Micro).is_err());
}
