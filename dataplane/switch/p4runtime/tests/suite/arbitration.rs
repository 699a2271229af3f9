//! Arbitration between controllers.

use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::{self, StreamRequest};

use crate::rig::{Client, Device};

#[test]
fn a_higher_id_demotes_the_primary_and_only_the_primary_writes() {
    let device = Device::start();
    let mut first = device.ready();
    let mut second = Client::connect(device.address());
    assert_eq!(second.bid(1 << 70 | 5), (Code::Ok, Some(1 << 70 | 5)));
    assert_eq!(first.arbitration(), (Code::AlreadyExists, Some(1 << 70 | 5)));
    assert_eq!(first.write(Vec::new()).unwrap_err().code(), tonic::Code::PermissionDenied);
    second.write(Vec::new()).unwrap();
    second.election_id = Some(9);
    assert_eq!(second.write(Vec::new()).unwrap_err().code(), tonic::Code::PermissionDenied);
    second.election_id = None;
    assert_eq!(second.write(Vec::new()).unwrap_err().code(), tonic::Code::PermissionDenied);
}

#[test]
fn mastership_ends_with_the_stream_and_is_not_inherited() {
    let device = Device::start();
    let mut first = device.ready();
    let mut backup = Client::connect(device.address());
    assert_eq!(backup.bid(0), (Code::AlreadyExists, Some(1)));
    first.stream = None;
    assert_eq!(backup.arbitration(), (Code::NotFound, Some(1)));
    assert_eq!(first.write(Vec::new()).unwrap_err().code(), tonic::Code::PermissionDenied);
    assert_eq!(backup.write(Vec::new()).unwrap_err().code(), tonic::Code::PermissionDenied);
    assert_eq!(backup.bid(1), (Code::Ok, Some(1)));
    backup.write(Vec::new()).unwrap();
}

#[test]
fn an_election_id_in_use_ends_the_stream() {
    let device = Device::start();
    let _first = device.ready();
    let mut second = Client::connect(device.address());
    second.offer(1);
    let status = second.receive().unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert_eq!(status.message(), "Election id already exists", "clients recognise this text");
}

#[test]
fn roles_have_a_primary_each() {
    let device = Device::start();
    let _all = device.ready();
    let mut other = Client::connect(device.address());
    other.role = "reader".into();
    other.election_id = Some(1);
    assert_eq!(other.write(Vec::new()).unwrap_err().code(), tonic::Code::NotFound);
    assert_eq!(other.bid(1), (Code::Ok, Some(1)));
    other.write(Vec::new()).unwrap();
}

#[test]
fn requests_for_another_device_are_refused() {
    let device = Device::start();
    let mut client = device.ready();
    let mut request = client.request(Vec::new());
    request.device_id = 2;
    assert_eq!(client.send(request).unwrap_err().code(), tonic::Code::NotFound);
    let mut client = Client::connect(device.address());
    client.send_message(StreamRequest::Arbitration(v1::MasterArbitrationUpdate {
        device_id: 0,
        ..Default::default()
    }));
    assert_eq!(client.receive().unwrap_err().code(), tonic::Code::NotFound);
}

#[test]
fn streams_are_bounded() {
    let device = Device::start();
    let mut held = Vec::new();
    for id in 0..32 {
        let mut client = Client::connect(device.address());
        assert_eq!(client.bid(id).0, Code::Ok);
        held.push(client);
    }
    let mut late = Client::connect(device.address());
    late.offer(99);
    assert_eq!(late.receive().unwrap_err().code(), tonic::Code::ResourceExhausted);
}
