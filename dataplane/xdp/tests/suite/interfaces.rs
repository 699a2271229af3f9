//! Programs on interfaces: four children at pairs of virtual interfaces, in a network namespace.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use netfold_io::RxBatch;
use netfold_io::link::{AfPacket, Link};
use netfold_p4::allreduce::{self, Address, Behind, Child, Node};
use netfold_p4::entry::Replica;
use netfold_p4::profile::Profile;
use netfold_testkit::namespace;
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, UDP_PORT, header};
use netfold_xdp::{Datapath, Hook, PassAll, XdpError, detach_pinned};

use crate::{datapath, program};

const CHILDREN: u8 = 4;
const WORDS: u32 = 8;
const GROUP: u16 = 1;

fn profile() -> Profile {
    Profile { lane_words: WORDS, slots: 16, jobs: 2, ..Profile::hardware() }
}

fn child_address(number: u8) -> Endpoint {
    Endpoint {
        mac: EthernetAddress([2, 0, 0, 0, 0, number]),
        ip: Ipv4Address::new(10, 0, 0, number),
        port: 4000 + u16::from(number),
    }
}

fn switch_address() -> Endpoint {
    Endpoint { mac: EthernetAddress([2, 0, 0, 0, 1, 0]), ip: Ipv4Address::new(10, 0, 1, 0), port: UDP_PORT }
}

/// A pair of interfaces for each child: `w` the child's, `s` the switch's. Returns the numbers of the switch's.
fn interfaces() -> Vec<u32> {
    let number = |name: &str| {
        let text = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"));
        // The file system may be another namespace's.
        text.ok().and_then(|text| text.trim().parse().ok())
    };
    (0..u32::from(CHILDREN))
        .map(|child| {
            let index = 100 + child;
            namespace::command(&format!(
                "ip link add s{child} index {index} type veth peer name w{child} index {}",
                200 + child
            ))
            .expect("a pair of interfaces");
            for name in [format!("s{child}"), format!("w{child}")] {
                namespace::command(&format!("ip link set {name} up")).expect("it goes up");
            }
            assert!(number(&format!("s{child}")).is_none_or(|found: u32| found == index));
            index
        })
        .collect()
}

/// The children's interfaces, ready for what is redirected there.
fn take_all() -> Vec<PassAll> {
    (0..u32::from(CHILDREN))
        .map(|child| PassAll::attach(200 + child).expect("the interface takes it"))
        .collect()
}

/// The job of all children, distributed evenly to the interfaces.
fn configure(datapath: &mut Datapath, switch: &[u32]) {
    let node = Node {
        job: 1,
        epoch: 1,
        key: 7,
        base: 0,
        slots: 4,
        children: CHILDREN,
        workers: CHILDREN.into(),
        world: CHILDREN.into(),
        group: GROUP,
        parent: None,
        shift: None,
        bounded_loss: true,
        owners: true,
    };
    let address = |end: Endpoint| Address {
        mac: end.mac.0.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte)),
        ip: end.ip.to_bits(),
        port: end.port,
    };
    let mut replicas = Vec::new();
    for (port, interface) in (1..).zip(switch) {
        datapath.set_port(port, *interface).expect("the interface exists");
    }
    for rank in 0..CHILDREN {
        let port = interface_of(rank, switch.len()) as u16 + 1;
        let (instance, rank16) = (u16::from(rank) + 1, u16::from(rank));
        replicas.push(Replica { port, instance });
        let behind = Some(Behind { instance, first: rank16, last: rank16 });
        let child = Child { port, source: child_address(rank + 1).ip.to_bits(), rank, behind };
        for entry in allreduce::job_entries(&node, &child) {
            datapath.insert(&entry).expect("it fits");
        }
        let entry =
            allreduce::child_entry(instance, address(child_address(rank + 1)), address(switch_address()));
        datapath.insert(&entry).expect("it fits");
    }
    datapath.set_group(GROUP, &replicas).expect("every port has an interface");
}

/// Which of so many interfaces a child is at.
fn interface_of(rank: u8, interfaces: usize) -> usize {
    usize::from(rank) * interfaces / usize::from(CHILDREN)
}

fn contribution(rank: u8, chunk: u32, owner: LaneOwner) -> Vec<u8> {
    let repr = Repr {
        kind: Kind::Data,
        flags: Flags::default(),
        op: LaneOp::Sum,
        class: 0,
        reason: Reason::None,
        job: 1,
        slot: 0,
        set: 0,
        epoch: 1,
        key: 7,
        chunk,
        bitmap: 1 << rank,
        count: 1,
        exp: 0,
        exp_next: rank,
        owner,
    };
    let mut datagram = vec![0; header::LEN + 4 * WORDS as usize];
    repr.emit(&mut Packet::new_unchecked(&mut datagram[..]));
    for (lane, bytes) in datagram[header::LEN..].chunks_exact_mut(4).enumerate() {
        bytes.copy_from_slice(&(u32::from(rank) * 100 + lane as u32).to_be_bytes());
    }
    let outer = Outer { source: child_address(rank + 1), destination: switch_address() };
    let mut frame = vec![0; OUTER_LEN + datagram.len()];
    outer.emit(&datagram, 0, &mut frame).expect("it fits");
    frame
}

fn send(link: &mut AfPacket, frame: &[u8]) {
    link.frame(frame.len()).expect("the queue is empty").copy_from_slice(frame);
    link.push();
    link.flush().expect("the interface is up");
}

/// The next frame at a link for a child; `None` after half a second.
fn next_for(link: &mut AfPacket, rank: u8, waiting: &mut Vec<Vec<u8>>) -> Option<Vec<u8>> {
    let to = child_address(rank + 1).mac.0;
    while !waiting.iter().any(|frame| frame[..6] == to) {
        waiting.push(next(link)?);
    }
    let at = waiting.iter().position(|frame| frame[..6] == to)?;
    Some(waiting.swap_remove(at))
}

/// The next frame of ours at a link; `None` after half a second.
fn next(link: &mut AfPacket) -> Option<Vec<u8>> {
    let mut batch = RxBatch::new(1, 1 << 16);
    for _ in 0..50 {
        link.receive(&mut batch).expect("the interface is up");
        let bytes = batch.packets().iter().map(|packet| batch.bytes(packet));
        let found = bytes.into_iter().find(|bytes| bytes.len() > OUTER_LEN && bytes[12..14] == [8, 0]);
        if let Some(found) = found {
            return Some(found.to_vec());
        }
        link.wait(Duration::from_millis(10)).expect("the interface is up");
    }
    None
}

/// Contributions of all children to two chunks, of which the second belongs to one of them: every copy has the right addresses and lanes.
fn all_reduce(links: &mut [AfPacket], chunk: u32) {
    for (chunk, owner) in [(chunk, LaneOwner::All), (chunk + 1, LaneOwner::Rank(2))] {
        let count = links.len();
        for rank in 0..CHILDREN {
            send(&mut links[interface_of(rank, count)], &contribution(rank, chunk, owner));
        }
        let mut waiting = vec![Vec::new(); count];
        for rank in 0..CHILDREN {
            let at = interface_of(rank, count);
            let frame = next_for(&mut links[at], rank, &mut waiting[at]);
            let frame = frame.unwrap_or_else(|| panic!("no RESULT of chunk {chunk} for child {rank}"));
            let (outer, datagram) = Outer::parse(&frame).expect("lengths and checksums are right");
            let addresses = Outer { source: switch_address(), destination: child_address(rank + 1) };
            assert_eq!(outer, addresses);
            let packet = Packet::new_checked(datagram).expect("a header");
            assert_eq!((packet.kind(), packet.chunk()), (Kind::Result as u8, chunk));
            let lanes = &datagram[header::LEN..];
            if owner == LaneOwner::All || rank == 2 {
                let words = lanes
                    .chunks_exact(4)
                    .map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)));
                assert!(
                    words.eq((0..WORDS).map(|lane| 600 + 4 * lane)),
                    "child {rank}, chunk {chunk}: {lanes:?}"
                );
            } else {
                assert!(lanes.is_empty(), "child {rank} does not own the lanes");
            }
        }
    }
}

fn links(count: usize) -> Vec<AfPacket> {
    (0..count).map(|child| AfPacket::open(&format!("w{child}")).expect("root opens packet sockets")).collect()
}

#[test]
fn children_at_interfaces_get_their_copies_from_the_driver() {
    namespace::alone(|| {
        let Some(mut datapath) = datapath(&program(&profile())) else { return };
        let switch = interfaces();
        let _taken = take_all();
        configure(&mut datapath, &switch);
        for interface in &switch {
            datapath.attach(*interface, Hook::Driver).expect("the driver runs it");
        }
        let taken = datapath.attach(switch[0], Hook::Driver).expect_err("it has a program");
        assert!(matches!(taken, XdpError::Attach { .. }) && taken.to_string().contains("xdp off"), "{taken}");
        let mut links = links(switch.len());
        all_reduce(&mut links, 10);
        // A repeated contribution is replied to on the interface that it came by.
        send(&mut links[1], &contribution(1, 11, LaneOwner::All));
        let frame = next(&mut links[1]).expect("a repeated RESULT");
        let (outer, _) = Outer::parse(&frame).expect("lengths and checksums are right");
        assert_eq!(outer, Outer { source: switch_address(), destination: child_address(2) });
        // Off the interfaces, the frames are the network stack's.
        drop(datapath);
        send(&mut links[0], &contribution(0, 20, LaneOwner::All));
        assert_eq!(next(&mut links[0]), None);
    });
}

#[test]
fn pinned_programs_outlive_their_process_until_they_are_detached() {
    namespace::alone(|| {
        let Some(mut datapath) = datapath(&program(&profile())) else { return };
        let folder = BpfFolder::mount();
        let switch = interfaces();
        let _taken = take_all();
        configure(&mut datapath, &switch);
        for interface in &switch {
            datapath.attach(*interface, Hook::Driver).expect("the driver runs it");
        }
        let outside = std::env::temp_dir().join(format!("netfold-unpinned-{}", std::process::id()));
        let refused = datapath.pin(&outside).expect_err("it is no BPF file system");
        fs::remove_dir(&outside).expect("the folder alone was made");
        assert!(matches!(refused, XdpError::Pin { .. }), "{refused}");
        let pins = folder.0.join("switch");
        datapath.pin(&pins).expect("a BPF file system");
        let mut links = links(switch.len());
        all_reduce(&mut links, 10);
        drop(datapath);
        all_reduce(&mut links, 20);
        assert_eq!(detach_pinned(&pins).expect("it is pinned"), usize::from(CHILDREN));
        send(&mut links[0], &contribution(0, 30, LaneOwner::All));
        send(&mut links[0], &contribution(0, 20, LaneOwner::All));
        assert_eq!(next(&mut links[0]), None);
        assert!(matches!(detach_pinned(&pins), Err(XdpError::Pin { .. })));
    });
}

/// A BPF file system of the test's own.
struct BpfFolder(PathBuf);

impl BpfFolder {
    fn mount() -> Self {
        let folder = std::env::temp_dir().join(format!("netfold-bpf-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        namespace::command(&format!("mount -t bpf bpf {}", folder.display())).expect("root mounts");
        Self(folder)
    }
}

impl Drop for BpfFolder {
    fn drop(&mut self) {
        let unmounted = namespace::command(&format!("umount -l {}", self.0.display()));
        if unmounted.is_ok() {
            let _ = fs::remove_dir(&self.0);
        }
    }
}

#[test]
fn children_get_their_copies_behind_a_driver_too() {
    namespace::alone(|| {
        let Some(mut datapath) = datapath(&program(&profile())) else { return };
        let switch = interfaces();
        configure(&mut datapath, &switch);
        for interface in &switch {
            datapath.attach(*interface, Hook::Generic).expect("the kernel runs it");
        }
        let mut links = links(switch.len());
        for round in 0..20 {
            all_reduce(&mut links, 10 + 2 * round);
        }
    });
}

/// As behind an Ethernet switch: a packet's copies leave by one interface, to one child each.
#[test]
fn children_share_an_interface() {
    for (hook, count) in [(Hook::Driver, 1), (Hook::Driver, 2), (Hook::Generic, 1), (Hook::Generic, 2)] {
        namespace::alone(|| {
            let Some(mut datapath) = datapath(&program(&profile())) else { return };
            let switch = &interfaces()[..count];
            let _taken = (hook == Hook::Driver).then(take_all);
            configure(&mut datapath, switch);
            for interface in switch {
                datapath.attach(*interface, hook).expect("the kernel runs it");
            }
            let mut links = links(count);
            for round in 0..20 {
                all_reduce(&mut links, 10 + 2 * round);
            }
        });
    }
}
