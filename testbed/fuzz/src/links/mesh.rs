//! Collectives of a rank whose peers send any bytes: a call succeeds only by the frames that the protocol has, with the result that
//! follows from them, and otherwise fails for good and says so to every peer.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use netfold_collectives::mesh::{Loss, Mesh, MeshConfig, MeshError, fuzzing};
use netfold_collectives::reduce::{finish, reduce, supports};
use netfold_collectives::{Buffers, CallKind, CallSignature, Collective, DType, ReduceOp};

use super::{received, repeated, stream};
use crate::input::Input;

const CALLS_MAX: usize = 3;
const PIECES_MAX: usize = 24;
/// Bytes that a peer sends, which a socket's buffer takes.
const SENT_MAX: usize = 48 << 10;
const ELEMENTS_MAX: usize = 40;
/// A head, and the body of a failure.
const HEAD: usize = 8;
const FAILURE: usize = 8 + 2 * CallSignature::LEN;
/// Kinds of frames.
const CALL: u8 = 1;
const DATA: u8 = 2;
const FAILED: u8 = 3;

/// A collective, and what this rank contributes.
struct Call {
    signature: CallSignature,
    collective: Collective,
    input: Vec<u8>,
}

impl Call {
    fn new(input: &mut Input<'_>, world: usize) -> Self {
        let collective = Collective::ALL[input.below(Collective::ALL.len())];
        let collective = collective.with_root(input.below(world) as u16);
        let (mut dtype, mut op) = (DType::ALL[input.below(DType::ALL.len())], ReduceOp::Sum);
        if collective.reduces() {
            op = ReduceOp::ALL[input.below(ReduceOp::ALL.len())];
        }
        if dtype == DType::None || !supports(op, dtype) {
            (dtype, op) = (DType::I32, ReduceOp::Sum);
        }
        let mut count = 1 + input.below(ELEMENTS_MAX);
        if collective == Collective::Barrier {
            (dtype, count) = (DType::None, 0);
        }
        let parts = if is_divided(collective) { world } else { 1 };
        let signature =
            CallSignature { kind: CallKind::Collective(collective), dtype, op, count: count as u64 };
        Self { signature, collective, input: repeated(input, parts * count * dtype.size()) }
    }

    /// Bytes of the tensor, or of a rank's part of it.
    fn part(&self) -> usize {
        self.signature.count as usize * self.signature.dtype.size()
    }

    /// Bytes that the peer of a mesh of two sends, and how many empty messages before them.
    fn from_peer(&self, rank: u16) -> (usize, usize) {
        match self.collective {
            Collective::Barrier => (0, 1),
            Collective::Broadcast { root } => (if root == rank { 0 } else { self.part() }, 1),
            Collective::Reduce { root } => (if root == rank { self.part() } else { 0 }, 1),
            _ => (self.part(), 0),
        }
    }

    fn run(&self, mesh: &mut Mesh) -> Result<Vec<u8>, MeshError> {
        let world = usize::from(mesh.world());
        let parts =
            if matches!(self.collective, Collective::AllGather | Collective::AllToAll) { world } else { 1 };
        let mut output = vec![0; parts * self.part()];
        let buffers = Buffers::Split { input: &self.input, output: &mut output };
        mesh.run(self.collective, self.signature.dtype, self.signature.op, buffers).map(|()| output)
    }

    /// The result in a mesh of two whose other rank sends `theirs`; `None` where this rank has none.
    fn expected(&self, rank: u16, theirs: &[u8]) -> Option<Vec<u8>> {
        let (mine, part) = (usize::from(rank), self.part());
        let own = &self.input[if is_divided(self.collective) { mine * part } else { 0 }..][..part];
        let folded = |mut sum: Vec<u8>| {
            let CallSignature { op, dtype, .. } = self.signature;
            reduce(op, dtype, &mut sum, theirs).expect("a supported reduction");
            finish(op, dtype, &mut sum, 2).expect("a supported reduction");
            sum
        };
        match self.collective {
            Collective::AllReduce | Collective::ReduceScatter => Some(folded(own.to_vec())),
            Collective::Reduce { root } => (root == rank).then(|| folded(own.to_vec())),
            Collective::Broadcast { root } if root == rank => Some(own.to_vec()),
            Collective::Broadcast { .. } => Some(theirs.to_vec()),
            Collective::AllGather | Collective::AllToAll => {
                Some(if mine == 0 { [own, theirs].concat() } else { [theirs, own].concat() })
            }
            Collective::Barrier => Some(Vec::new()),
        }
    }
}

/// Whether each rank gives a part to each rank.
fn is_divided(collective: Collective) -> bool {
    matches!(collective, Collective::ReduceScatter | Collective::AllToAll)
}

fn frame(kind: u8, seq: usize, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind, 0];
    frame.extend_from_slice(&(seq as u16).to_le_bytes());
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(body);
    frame
}

/// What a peer sends: pieces of the protocol in any order, and other bytes.
fn script(input: &mut Input<'_>, calls: &[Call], rank: u16) -> Vec<u8> {
    let (mut sent, mut at) = (Vec::new(), 0);
    for _ in 0..PIECES_MAX {
        if input.is_empty() || sent.len() > SENT_MAX {
            break;
        }
        let call = &calls[at.min(calls.len() - 1)];
        let mut signature = call.signature.to_bytes();
        let mut piece = match input.below(8) {
            0 => input.bytes(24).to_vec(),
            1 => {
                input.disturb(&mut signature);
                frame(CALL, at + 1, &signature)
            }
            2 => {
                let len = input.below(256) * call.signature.dtype.size().max(1);
                frame(DATA, at + 1, &repeated(input, len))
            }
            3 => {
                let mut body = [0; FAILURE];
                body[0] = input.byte();
                body[2..6].copy_from_slice(&[input.byte(), 0, input.byte(), 0]);
                body[8..24].copy_from_slice(&signature);
                input.disturb(&mut signature);
                body[24..].copy_from_slice(&signature);
                frame(FAILED, at + 1, &body)
            }
            4 => {
                at += 1;
                continue;
            }
            _ => {
                let (len, empty) = call.from_peer(rank);
                let mut piece = frame(CALL, at + 1, &signature);
                (0..empty).for_each(|_| piece.extend(frame(DATA, at + 1, &[])));
                if len > 0 {
                    piece.extend(frame(DATA, at + 1, &repeated(input, len)));
                }
                at += 1;
                piece
            }
        };
        if input.below(4) == 3 {
            input.disturb(&mut piece);
        }
        sent.extend(piece);
    }
    sent
}

/// The first frame: kind, number of the operation, body.
fn split_frame(bytes: &[u8]) -> Option<(u8, usize, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let [kind, 0, low, high, len @ ..] = *head else { return None };
    let (body, rest) = rest.split_at_checked(u32::from_le_bytes(len) as usize)?;
    Some((kind, usize::from(u16::from_le_bytes([low, high])), body, rest))
}

/// The data that a peer sends in an operation, of which `len` bytes are expected behind `empty` empty messages; `None` when what it
/// sends is anything else.
fn payload(bytes: &mut &[u8], seq: usize, call: &Call, (len, empty): (usize, usize)) -> Option<Vec<u8>> {
    let (mut data, mut empties, mut called) = (Vec::new(), 0, false);
    while !called || data.len() < len || empties < empty {
        let (kind, of, body, rest) = split_frame(bytes)?;
        match kind {
            CALL if of == seq && body == call.signature.to_bytes() => called = true,
            DATA if of == seq && called && body.is_empty() => empties += 1,
            DATA if of == seq && called => data.extend_from_slice(body),
            _ => return None,
        }
        *bytes = rest;
    }
    // The same call once more changes nothing.
    while let Some((CALL, of, body, rest)) = split_frame(bytes)
        && of == seq
        && body == call.signature.to_bytes()
    {
        *bytes = rest;
    }
    (data.len() == len && empties == empty).then_some(data)
}

/// What this rank has sent: frames of its calls, and at last a failure if one failed.
fn check_sent(sent: &[u8], calls: &[Call], failed: bool) {
    let (mut rest, mut last) = (sent, 0);
    while !rest.is_empty() {
        let (kind, seq, body, after) = split_frame(rest).expect("whole frames are sent");
        match kind {
            CALL => assert_eq!(body, calls[seq - 1].signature.to_bytes()),
            DATA => assert!(seq <= calls.len()),
            _ => assert!(kind == FAILED && body.len() == FAILURE && after.is_empty(), "{sent:02x?}"),
        }
        (rest, last) = (after, kind);
    }
    assert_eq!(last == FAILED, failed, "a peer is told of a failure: {sent:02x?}");
}

pub(super) fn run(input: &mut Input<'_>) {
    let world = 2 + input.below(2);
    let rank = input.below(world) as u16;
    let calls: Vec<Call> = (0..1 + input.below(CALLS_MAX)).map(|_| Call::new(input, world)).collect();
    let mut peers: Vec<(Vec<u8>, UnixStream)> = Vec::new();
    let mut streams = Vec::new();
    for peer in 0..world {
        if peer == usize::from(rank) {
            streams.push(None);
            continue;
        }
        let sent = script(input, &calls, rank);
        let (ours, theirs) = stream(&sent);
        ours.set_nonblocking(true).expect("a socket");
        streams.push(Some(ours));
        peers.push((sent, theirs));
    }
    let mut config = MeshConfig::default();
    config.stall_timeout = Duration::from_secs(5);
    let mut mesh = fuzzing::mesh(rank, streams, config).expect("there are descriptors");
    let mut sent: Vec<&[u8]> = peers.iter().map(|(sent, _)| &sent[..]).collect();
    let mut failed = false;
    for (index, call) in calls.iter().enumerate() {
        match call.run(&mut mesh) {
            Ok(output) if world == 2 => {
                let theirs = payload(&mut sent[0], index + 1, call, call.from_peer(rank));
                let theirs = theirs.expect("a call succeeds by the protocol alone");
                if let Some(expected) = call.expected(rank, &theirs) {
                    assert_eq!(output, expected, "{}", call.signature);
                }
            }
            Ok(_) => {}
            Err(error) => {
                check_error(&error, rank, world);
                assert!(mesh.failure().is_some());
                assert!(matches!(call.run(&mut mesh), Err(MeshError::Unusable(_))));
                failed = true;
                break;
            }
        }
    }
    drop(mesh);
    peers.into_iter().for_each(|(_, theirs)| check_sent(&received(theirs), &calls, failed));
}

/// The peers are gone, so no call waits for them; and what they say names no rank that there is not.
fn check_error(error: &MeshError, rank: u16, world: usize) {
    let known = error.peer().is_some_and(|peer| peer != rank && usize::from(peer) < world);
    assert!(known, "{error:?}");
    match error {
        MeshError::PeerLost { why: Loss::Stalled(_), .. } => panic!("{error:?}"),
        MeshError::PeerLost { .. } | MeshError::Protocol { .. } | MeshError::Mismatch { .. } => {}
        other => panic!("{other:?}"),
    }
}
