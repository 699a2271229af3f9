//! Errors for unsupported messages and calls.

use netfold_p4_runtime::google::{Any, Code};
use netfold_p4_runtime::v1::{self, StreamRequest, StreamResponse};

use crate::rig::{Client, Device};

#[test]
fn unsupported_messages_are_answered_with_an_error() {
    let device = Device::start();
    let mut client = device.ready();
    let mut refused = |request, code: Code| {
        client.send_message(request);
        match client.receive().unwrap() {
            StreamResponse::Error(error) => {
                assert_eq!(error.canonical_code, code as i32);
                assert!(!error.message.is_empty() && error.details.is_some());
            }
            other => panic!("{other:?}"),
        }
    };
    refused(StreamRequest::DigestAck(v1::DigestListAck::default()), Code::Unimplemented);
    refused(StreamRequest::Other(Any::default()), Code::Unimplemented);
}

#[test]
fn other_services_are_unimplemented_and_capabilities_return_the_version() {
    let device = Device::start();
    let mut client = Client::connect(device.address());
    let answer: Result<v1::CapabilitiesResponse, _> =
        client.unary("/gnmi.gNMI/Capabilities", v1::CapabilitiesRequest {});
    assert_eq!(answer.unwrap_err().code(), tonic::Code::Unimplemented);
    let answer: v1::CapabilitiesResponse =
        client.unary("/p4.v1.P4Runtime/Capabilities", v1::CapabilitiesRequest {}).unwrap();
    assert_eq!(answer.p4runtime_api_version, "1.4.1");
}

#[test]
fn messages_and_batches_are_bounded() {
    let device = Device::start();
    let mut client = device.ready();
    let big = v1::PacketOut { payload: vec![0; 25 << 20], metadata: Vec::new() };
    let answer: Result<v1::WriteResponse, _> = client.unary("/p4.v1.P4Runtime/Write", big);
    assert_eq!(answer.unwrap_err().code(), tonic::Code::OutOfRange);
    let status = client.write(vec![v1::Update::default(); 4097]).unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    let status = client.write(vec![v1::Update::default(); 4096]).unwrap_err();
    assert_eq!(crate::rig::codes(&status), vec![Code::InvalidArgument; 4096]);
    // The server still responds.
    client.write(Vec::new()).unwrap();
}
