//! A call whose only peer sends arbitrary bytes.

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use crate::{CallKind, Collective, DType, ReduceOp};
use proptest::prelude::*;

use super::*;
use crate::Buffers;
use crate::mesh::abort::MeshAborter;
use crate::mesh::plan::Shape;

const COUNT: usize = 20_000;

fn call() -> CallSignature {
    CallSignature {
        kind: CallKind::Collective(Collective::AllReduce),
        dtype: DType::F32,
        op: ReduceOp::Sum,
        count: COUNT as u64,
    }
}

/// Rank 0 of two makes a call; the peer sends `bytes` and closes.
fn run_against(bytes: &[u8]) -> Result<(), MeshError> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    peer.write_all(bytes).unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    let mut links = vec![None, Some(Link::new(stream))];
    let shape = Shape { world: 2, rank: 0, count: COUNT, element: 4, in_place: true };
    let plan = MeshPlan::new(Collective::AllReduce, shape);
    let mut tensor = vec![0; 4 * COUNT];
    let mut scratch = vec![0; plan.scratch];
    let buffers = Buffers::InPlace(&mut tensor);
    let memory = Memory { buffers, input_at: 0, output_at: 0, scratch: &mut scratch };
    let flow = Flow::new(&mut links, (0, &[0, 1]), call(), &plan, memory);
    let limits = Limits { stall: Duration::from_secs(20), deadline: None };
    flow.run(limits, MeshAborter::new().unwrap().signal())
}

fn frame(kind: Kind, seq: u16, body: &[u8]) -> Vec<u8> {
    let head = Head { kind, seq, len: body.len() };
    [&head.to_bytes(), body].concat()
}

fn good_call() -> Vec<u8> {
    frame(Kind::Call, 1, &call().to_bytes())
}

#[test]
fn a_peer_that_follows_the_protocol_is_accepted() {
    // Both messages are half the tensor; one of them in two frames.
    let half = vec![0; 2 * COUNT];
    let (begin, end) = half.split_at(400);
    let frames = [begin, end, &half].map(|body| frame(Kind::Data, 1, body));
    run_against(&[good_call(), frames.concat()].concat()).unwrap();
}

#[test]
fn protocol_violations_are_reported() {
    let data = |len| frame(Kind::Data, 1, &vec![0; len]);
    for (what, bytes) in [
        ("no frame", vec![9; 8]),
        ("no call", frame(Kind::Call, 1, &[0xff; CallSignature::LEN])),
        ("no failure", frame(Kind::Failure, 1, &[0xff; FAILURE])),
        ("data before the call", data(4)),
        ("a frame of another operation", frame(Kind::Data, 7, &[0; 4])),
        ("the next operation before this one's end", frame(Kind::Data, 2, &[0; 4])),
        ("data of another length", [good_call(), data(2 * COUNT + 4)].concat()),
        ("data of another length", [good_call(), data(0)].concat()),
        ("a piece of an element", [good_call(), data(6)].concat()),
        ("more data than planned", [good_call(), data(2 * COUNT), data(2 * COUNT), data(4)].concat()),
    ] {
        match run_against(&bytes) {
            Err(MeshError::Protocol { rank: 1, what: reported }) => assert_eq!(reported, what),
            // The call was complete when the surplus arrived.
            Ok(()) => assert_eq!(what, "more data than planned"),
            other => panic!("{what}: {other:?}"),
        }
    }
    let other = CallSignature { count: 3, ..call() };
    let error = run_against(&frame(Kind::Call, 1, &other.to_bytes())).unwrap_err();
    assert!(matches!(error, MeshError::Mismatch { rank: 1, theirs, .. } if theirs == other), "{error}");
    assert!(matches!(run_against(&good_call()), Err(MeshError::PeerLost { rank: 1, why: Loss::Closed })));
}

/// Found by fuzzing: the error named the rank that the peer had named, which may not exist, or be this rank.
#[test]
fn a_failure_names_another_rank_of_the_mesh() {
    let failure = |failure: MeshFailure| run_against(&frame(Kind::Failure, 1, &failure.to_bytes()));
    let mismatch =
        MeshFailure::Mismatch { one: (1, call()), other: (2, CallSignature { count: 3, ..call() }) };
    for absent in [MeshFailure::Lost { rank: 2 }, MeshFailure::GaveUp { rank: 2 }, mismatch] {
        let error = failure(absent).unwrap_err();
        assert!(matches!(error, MeshError::Protocol { rank: 1, what: "no failure" }), "{error:?}");
    }
    for own in [MeshFailure::Lost { rank: 0 }, MeshFailure::GaveUp { rank: 0 }] {
        let error = failure(own).unwrap_err();
        assert!(matches!(error, MeshError::PeerLost { rank: 1, why: Loss::GaveUp }), "{error:?}");
    }
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let body = |max| proptest::collection::vec(any::<u8>(), 0..max);
    prop_oneof![
        Just(good_call()),
        body(64),
        (0u16..4, body(300)).prop_map(|(seq, body)| frame(Kind::Data, seq, &body)),
        (0usize..30_000).prop_map(|len| frame(Kind::Data, 1, &vec![0; len * 4])),
        (0u16..4, any::<[u8; CallSignature::LEN]>()).prop_map(|(seq, body)| frame(Kind::Call, seq, &body)),
        (0u16..4, 0u8..4).prop_map(|(seq, reason)| {
            let mut body = MeshFailure::Lost { rank: 0 }.to_bytes();
            body[0] = reason;
            frame(Kind::Failure, seq, &body)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn anything_else_ends_in_an_error(pieces in proptest::collection::vec(piece(), 0..6)) {
        // A call succeeds only with whole elements for both messages.
        if run_against(&pieces.concat()).is_ok() {
            prop_assert!(pieces.concat().len() >= 4 * COUNT);
        }
    }
}
