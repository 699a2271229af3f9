//! The service `Ports`, and its effect on packets.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use netfold_p4::allreduce::controller_entry;
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::ports::{
    AttachRequest, DescribeRequest, DetachRequest, Job, JobKeys, ListRequest, Port,
};
use netfold_p4_runtime::v1::UpdateType;
use netfold_wire::Kind;

use crate::rig::{Client, Device, advance, answer, entry, small};

fn attach(client: &mut Client, peer: impl ToString) -> Result<u32, tonic::Code> {
    let (device_id, election_id, role) = (1, client.election_id.map(Into::into), client.role.clone());
    let answer = client.ports(AttachRequest {
        peer: peer.to_string(),
        device_id,
        role,
        election_id,
        keys: None,
        udp_ports: 0,
    });
    answer.map(|answer| answer.port).map_err(|status| status.code())
}

fn detach(client: &mut Client, peer: impl ToString) -> Result<(), tonic::Code> {
    let (device_id, election_id, role) = (1, client.election_id.map(Into::into), client.role.clone());
    let answer =
        client.ports(DetachRequest { peer: peer.to_string(), device_id, role, election_id, keys_of: None });
    answer.map(|_| ()).map_err(|status| status.code())
}

fn list(client: &mut Client) -> Vec<(u32, String, bool)> {
    let ports = client.ports(ListRequest {}).unwrap().ports;
    ports.into_iter().map(|port| (port.port, port.peer, port.fixed)).collect()
}

#[test]
fn a_peer_gets_one_port_the_lowest_that_is_free() {
    let fixed: SocketAddr = ([127, 0, 0, 9], 7).into();
    let device = Device::udp(&[(2, fixed)]);
    let mut client = Client::primary(device.address());
    assert_eq!(attach(&mut client, "127.0.0.1:40001"), Ok(1));
    assert_eq!(attach(&mut client, "127.0.0.1:40002"), Ok(3), "2 is taken");
    assert_eq!(attach(&mut client, "127.0.0.1:40001"), Ok(1));
    assert_eq!(attach(&mut client, "[::ffff:127.0.0.1]:40001"), Ok(1), "the same address, IPv4-mapped");
    assert_eq!(attach(&mut client, fixed), Ok(2));
    let all = [(1, "127.0.0.1:40001", false), (2, "127.0.0.9:7", true), (3, "127.0.0.1:40002", false)];
    assert_eq!(list(&mut client), all.map(|(port, peer, fixed)| (port, peer.to_owned(), fixed)));
    assert_eq!(detach(&mut client, "127.0.0.1:40001"), Ok(()));
    assert_eq!(detach(&mut client, "127.0.0.1:40001"), Ok(()), "repeated");
    assert_eq!(detach(&mut client, fixed), Err(tonic::Code::PermissionDenied));
    assert_eq!(attach(&mut client, "127.0.0.1:40003"), Ok(1));
    assert_eq!(list(&mut client).len(), 3);
}

/// A client that is not primary takes no port away from a running job, and exhausts none.
#[test]
fn only_the_primary_changes_ports() {
    let device = Device::udp(&[]);
    let mut primary = Client::connect(device.address());
    assert_eq!(primary.bid(5), (Code::Ok, Some(5)));
    let (first, second) = ("127.0.0.1:40001", "127.0.0.1:40002");
    assert_eq!(attach(&mut primary, first), Ok(1));
    let mut anonymous = Client::connect(device.address());
    let mut backup = Client::connect(device.address());
    assert_eq!(backup.bid(2).1, Some(5));
    for client in [&mut anonymous, &mut backup] {
        assert_eq!(attach(client, second), Err(tonic::Code::PermissionDenied));
        assert_eq!(detach(client, first), Err(tonic::Code::PermissionDenied));
        assert_eq!(list(client), [(1, first.to_owned(), false)], "reading is for all");
    }
    let request = DetachRequest { peer: first.to_owned(), device_id: 2, ..Default::default() };
    assert_eq!(primary.ports(request).unwrap_err().code(), tonic::Code::NotFound);
    // The earlier primary has lost its right.
    let mut next = Client::connect(device.address());
    assert_eq!(next.bid(7), (Code::Ok, Some(7)));
    assert_eq!(detach(&mut primary, first), Err(tonic::Code::PermissionDenied));
    assert_eq!(detach(&mut next, first), Ok(()));
}

fn keys_of(job: u32, receive: Vec<u8>, send: Vec<u8>) -> JobKeys {
    JobKeys { job: Some(Job { number: job, epoch: 9 }), receive, send }
}

fn attach_with(client: &mut Client, peer: &str, keys: JobKeys) -> Result<u32, tonic::Code> {
    let (device_id, election_id, role) = (1, client.election_id.map(Into::into), client.role.clone());
    let request =
        AttachRequest { peer: peer.to_owned(), device_id, role, election_id, keys: Some(keys), udp_ports: 0 };
    client.ports(request).map(|answer| answer.port).map_err(|status| status.code())
}

fn authenticated(client: &mut Client) -> Vec<(u32, Vec<u32>)> {
    let ports = client.ports(ListRequest {}).unwrap().ports;
    let jobs = |port: &Port| port.authenticated.iter().map(|job| job.number).collect();
    ports.iter().map(|port| (port.port, jobs(port))).collect()
}

/// A port of several jobs, of which some are authenticated: keys come and go by job.
#[test]
fn jobs_have_keys_on_a_port() {
    let device = Device::udp(&[]);
    let mut client = device.ready();
    let before = list(&mut client).len();
    let peer = "127.0.0.1:40001";
    let port = attach(&mut client, peer).unwrap();
    assert_eq!(attach_with(&mut client, peer, keys_of(5, vec![1; 32], vec![2; 32])), Ok(port));
    assert_eq!(attach_with(&mut client, peer, keys_of(6, vec![3; 32], vec![4; 32])), Ok(port));
    assert_eq!(attach_with(&mut client, peer, keys_of(6, vec![3; 32], vec![4; 32])), Ok(port), "again");
    let keyed = |client: &mut Client| authenticated(client).into_iter().find(|(at, _)| *at == port);
    assert_eq!(keyed(&mut client), Some((port, vec![5, 6])));
    assert_eq!(attach(&mut client, peer), Ok(port), "without keys: nothing changes");
    let (device_id, election_id, role) = (1, client.election_id.map(Into::into), client.role.clone());
    let keys_of_5 = Some(Job { number: 5, epoch: 9 });
    let request = DetachRequest { peer: peer.to_owned(), device_id, role, election_id, keys_of: keys_of_5 };
    for _ in 0..2 {
        client.ports(request.clone()).unwrap();
        assert_eq!(keyed(&mut client), Some((port, vec![6])));
    }
    assert_eq!(detach(&mut client, peer), Ok(()));
    assert_eq!(attach(&mut client, peer), Ok(port));
    assert_eq!(keyed(&mut client), Some((port, vec![])), "keys go with the port");
    assert_eq!(list(&mut client).len(), before + 1);
}

#[test]
fn invalid_keys_are_refused_and_bind_no_port() {
    let device = Device::udp(&[]);
    let mut client = device.ready();
    let before = list(&mut client);
    let peer = "127.0.0.1:40001";
    let invalid = [
        keys_of(5, vec![1; 31], vec![2; 32]),
        keys_of(5, vec![1; 32], vec![]),
        keys_of(5, vec![1; 32], vec![1; 32]),
        keys_of(0, vec![1; 32], vec![2; 32]),
        keys_of(1 << 16, vec![1; 32], vec![2; 32]),
        JobKeys { job: None, receive: vec![1; 32], send: vec![2; 32] },
    ];
    for keys in invalid {
        assert_eq!(attach_with(&mut client, peer, keys), Err(tonic::Code::InvalidArgument));
    }
    assert_eq!(list(&mut client), before);
    // A switch whose datagrams are no longer than its packets without tags.
    let device = Device::udp(&[]);
    let mut client = Client::primary(device.address());
    let valid = keys_of(5, vec![1; 32], vec![2; 32]);
    assert_eq!(attach_with(&mut client, peer, valid), Err(tonic::Code::FailedPrecondition));
    assert!(list(&mut client).is_empty());
}

#[test]
fn invalid_peers_are_refused() {
    let device = Device::udp(&[]);
    let mut client = Client::primary(device.address());
    let long = "1".repeat(1 << 20);
    for peer in ["", "nowhere", "127.0.0.1", "localhost:1", "127.0.0.1:0", "0.0.0.0:1", "224.0.0.1:1", &long]
    {
        assert_eq!(attach(&mut client, peer), Err(tonic::Code::InvalidArgument), "{peer:.20}");
        assert_eq!(detach(&mut client, peer), Err(tonic::Code::InvalidArgument), "{peer:.20}");
    }
    assert_eq!(attach(&mut client, "[fd00::1]:1"), Err(tonic::Code::InvalidArgument), "an IPv4 socket");
    assert!(list(&mut client).is_empty());
    // Rings have no addresses.
    let device = Device::start();
    let mut client = Client::primary(device.address());
    assert_eq!(attach(&mut client, "127.0.0.1:40001"), Err(tonic::Code::Unimplemented));
    assert_eq!(client.ports(DescribeRequest {}).unwrap().data_address, "");
}

#[test]
fn port_numbers_are_bounded_and_the_cpu_port_is_reserved() {
    let device = Device::udp(&[]);
    let mut client = Client::primary(device.address());
    let ports: Vec<u32> =
        (1..4095).map(|peer| attach(&mut client, format!("127.0.0.1:{}", 30_000 + peer)).unwrap()).collect();
    assert_eq!(ports, (1..=4095).filter(|port| *port != 510).collect::<Vec<_>>());
    assert_eq!(attach(&mut client, "127.0.0.1:29999"), Err(tonic::Code::ResourceExhausted));
    assert_eq!(attach(&mut client, "127.0.0.1:30001"), Ok(1), "an attached peer keeps its port");
}

#[test]
fn describe_returns_the_address_and_a_boot_id() {
    let device = Device::udp(&[]);
    let described = Client::connect(device.address()).ports(DescribeRequest {}).unwrap();
    assert_eq!((described.lane_words_max, described.ports_max, described.cpu_port), (352, 4095, 510));
    let data: SocketAddr = described.data_address.parse().unwrap();
    assert!(data.ip().is_loopback() && data.port() > 0);
    let again = Client::connect(device.address()).ports(DescribeRequest {}).unwrap();
    assert_eq!(again, described);
    let other = Client::connect(Device::udp(&[]).address()).ports(DescribeRequest {}).unwrap();
    assert_ne!(other.boot_id, described.boot_id);
}

#[test]
fn packets_arrive_at_the_port_of_their_sender() {
    let device = Device::udp(&[]);
    let mut client = device.ready();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let data = client.ports(DescribeRequest {}).unwrap().data_address;
    peer.connect(&data).unwrap();
    let mut buffer = [0; 256];
    let mut exchange = |chunk, tries: u32| {
        // A busy machine may drop a datagram.
        (0..tries).find_map(|_| {
            peer.send(&advance(1, chunk, 5)).unwrap();
            peer.recv(&mut buffer).ok().map(|len| answer(&buffer[..len]))
        })
    };
    assert_eq!(exchange(7, 1), None, "not attached");
    let port = attach(&mut client, peer.local_addr().unwrap()).unwrap();
    let admit = controller_entry(port as u16, Kind::Advance);
    assert_eq!(client.one(UpdateType::Insert, entry(&small(), &admit)), Code::Ok);
    assert_eq!(exchange(8, 20), Some((8, 5)));
    detach(&mut client, peer.local_addr().unwrap()).unwrap();
    while peer.recv(&mut [0; 256]).is_ok() {}
    assert_eq!(exchange(9, 1), None, "detached");
}
