//! Packets of the primary into the pipeline, and of the pipeline to the primary.

use std::time::{Duration, Instant};

use netfold_p4::allreduce::controller_entry;
use netfold_p4::ir::Program;
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::{
    PacketMetadata, PacketOut, StreamError, StreamRequest, StreamResponse, UpdateType,
};
use netfold_wire::Kind;

use crate::rig::{Client, Device, TIMEOUT, advance, answer, entry, fast, small};

fn send(client: &mut Client, payload: Vec<u8>) {
    client.send_message(StreamRequest::Packet(PacketOut { payload, metadata: Vec::new() }));
}

fn receive_packet(client: &mut Client) -> Vec<u8> {
    match client.receive().unwrap() {
        StreamResponse::Packet(packet) => {
            assert!(packet.metadata.is_empty());
            packet.payload
        }
        other => panic!("{other:?}"),
    }
}

fn receive_error(client: &mut Client) -> StreamError {
    match client.receive().unwrap() {
        StreamResponse::Error(error) => error,
        other => panic!("{other:?}"),
    }
}

/// Lets the pipeline answer the controller's ADVANCE packets.
fn admit(client: &mut Client, program: &Program) {
    let update = entry(program, &controller_entry(510, Kind::Advance));
    assert_eq!(client.one(UpdateType::Insert, update), Code::Ok);
}

#[test]
fn the_controllers_own_packets_are_answered() {
    for program in [small(), fast()] {
        let device = Device::start();
        let mut client = Client::primary(device.address());
        client.push(&program).unwrap();
        let counted = || {
            let counted = device.server.as_ref().unwrap().packets();
            (counted.packets_out, counted.packets_in, counted.packets_in_dropped)
        };
        // A packet is counted after it was processed, possibly after its reply was received.
        let await_counts = |expected| {
            let deadline = Instant::now() + TIMEOUT;
            while counted() != expected {
                assert!(Instant::now() < deadline, "{:?}", counted());
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        send(&mut client, advance(2, 70, 1));
        // The stream of packets and the writes of entries have no order between them.
        await_counts((1, 0, 0));
        admit(&mut client, &program);
        send(&mut client, advance(2, 60, 2));
        assert_eq!(
            answer(&receive_packet(&mut client)),
            (60, 2),
            "the first was not admitted: it changed nothing"
        );
        send(&mut client, advance(2, 40, 3));
        assert_eq!(answer(&receive_packet(&mut client)), (60, 3), "the stored chunk is newer");
        await_counts((3, 2, 0));
    }
}

#[test]
fn many_packets_keep_their_order_and_are_all_answered() {
    let device = Device::start();
    let mut client = Client::primary(device.address());
    client.push(&fast()).unwrap();
    admit(&mut client, &fast());
    let started = Instant::now();
    let window = 64;
    for nonce in 0..2048 + window {
        if nonce < 2048 {
            send(&mut client, advance(nonce as u16 % 1024, nonce, nonce));
        }
        if nonce >= window {
            assert_eq!(answer(&receive_packet(&mut client)), (nonce - window, nonce - window));
        }
    }
    println!("2048 packets out and in: {:?}", started.elapsed());
}

#[test]
fn packets_that_cannot_be_sent_are_reported() {
    let device = Device::start();
    let mut client = Client::primary(device.address());
    send(&mut client, vec![1]);
    assert_eq!(receive_error(&mut client).canonical_code, Code::FailedPrecondition as i32, "no pipeline");
    client.push(&small()).unwrap();
    let metadata = vec![PacketMetadata { metadata_id: 1, value: vec![1] }];
    client.send_message(StreamRequest::Packet(PacketOut { payload: vec![1, 2], metadata }));
    let error = receive_error(&mut client);
    assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
    assert!(format!("{:?}", error.details).contains("[1, 2]"), "the error contains the packet");
    for len in [1441, 20_000_000] {
        send(&mut client, vec![0; len]);
        let error = receive_error(&mut client);
        assert_eq!(error.canonical_code, Code::InvalidArgument as i32, "{}", error.message);
    }
    // A packet that the pipeline drops is no error, however short.
    for len in [0, 1, 31, 32, 1440] {
        send(&mut client, vec![0; len]);
    }
    let mut backup = Client::connect(device.address());
    backup.offer(0);
    assert_eq!(backup.arbitration().0, Code::AlreadyExists);
    send(&mut backup, vec![1]);
    assert_eq!(receive_error(&mut backup).canonical_code, Code::PermissionDenied as i32);
    admit(&mut client, &small());
    send(&mut client, advance(0, 1, 9));
    assert_eq!(answer(&receive_packet(&mut client)), (1, 9), "no other packet came before");
}

#[test]
fn packets_go_to_the_current_primary_and_are_dropped_without_one() {
    let mut device = Device::start();
    let program = small();
    let mut client = device.ready();
    admit(&mut client, &program);
    let count = |device: &Device| device.server.as_ref().unwrap().packets();
    let mut higher = Client::connect(device.address());
    assert_eq!(higher.bid(5).0, Code::Ok);
    assert_eq!(client.arbitration().0, Code::AlreadyExists);
    send(&mut higher, advance(1, 3, 4));
    assert_eq!(answer(&receive_packet(&mut higher)), (3, 4));
    drop(higher);
    assert_eq!(client.arbitration().0, Code::NotFound, "there is no primary");
    let mut packet = advance(1, 9, 9);
    device.handle.call(move |core| core.packet_out(&mut packet)).unwrap().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while count(&device).packets_in_dropped < 1 {
        assert!(Instant::now() < deadline, "the packet is not counted");
        std::thread::yield_now();
    }
    assert_eq!(device.exchange(0, &advance(1, 9, 9)), None, "port 0 is not admitted");
}

#[test]
fn a_flood_is_dropped_and_does_not_end_the_stream() {
    let device = Device::start();
    let mut client = Client::primary(device.address());
    client.push(&fast()).unwrap();
    admit(&mut client, &fast());
    // The stream is not read meanwhile. HTTP's windows (2 MiB) and the server's queues buffer packets; the rest is dropped.
    let flood = 200_000;
    device
        .handle
        .call(move |core| (0..flood).for_each(|nonce| core.packet_out(&mut advance(0, 1, nonce)).unwrap()))
        .unwrap();
    let counted = || device.server.as_ref().unwrap().packets();
    let all = || counted().packets_in + counted().packets_in_dropped == u64::from(flood);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !all() {
        assert!(Instant::now() < deadline, "{:?}", counted());
        std::thread::yield_now();
    }
    assert!(counted().packets_in_dropped > 0, "{:?}", counted());
    // There is still room for a notification, and the stream continues after it.
    client.offer(2);
    let packets = (0..counted().packets_in).filter(|_| !receive_packet(&mut client).is_empty()).count();
    println!("{packets} of {flood} packets waited");
    assert_eq!(client.arbitration(), (Code::Ok, Some(2)));
    send(&mut client, advance(0, 2, flood));
    assert_eq!(answer(&receive_packet(&mut client)), (2, flood));
}
