//! Any packets and any timing through the worker.
//!
//! The harness plays the switch of a world of one to four: it replies to the worker as a switch would,
//! disturbed now and then, and mixes in old, foreign and meaningless packets. The codec checks what the worker promises it.

use std::collections::BTreeSet;
use std::time::Duration;

use netfold_control::{Admission, CongestionAlgorithm, Mode};
use netfold_proto::{
    Codec, CodedChunk, Collective, Contributors, DType, Descriptor, Handled, Ignored, Importance, Instant,
    OpId, OpSpec, Sharing, Worker, WorkerConfig,
};
use netfold_wire::header::LEN;
use netfold_wire::{Flags, Kind, LaneOp, Packet, Reason, Repr};

use crate::input::Input;

const LANE_WORDS: u32 = 64;
const DATAGRAM: usize = LEN + 4 * LANE_WORDS as usize;
const STEPS_MAX: usize = 256;
const SENT_KEPT: usize = 64;

/// Tensors that need no memory; remembers what was unpacked.
#[derive(Default)]
struct Tensors {
    unpacked: BTreeSet<(OpId, u32)>,
}

/// Some operations in a row have the same exponents, which may then be predicted.
fn exponent(op: OpId, chunk: u32) -> u8 {
    ((op.0 / 3) as u32 * 31 + chunk * 7) as u8
}

impl Codec for Tensors {
    fn exponent(&mut self, op: OpId, chunk: u32) -> u8 {
        assert!(!self.unpacked.contains(&(op, chunk)), "asked for an exponent that is gone");
        exponent(op, chunk)
    }

    fn pack(&mut self, coded: CodedChunk, lanes: &mut [u8]) {
        let CodedChunk { op, chunk, exp, .. } = coded;
        assert!(!self.unpacked.contains(&(op, chunk)), "packed what was overwritten");
        assert_eq!(lanes.len(), 4 * LANE_WORDS as usize);
        assert!(exp == 0 || exp >= exponent(op, chunk), "packed by an exponent that does not fit");
        lanes.fill(exp ^ chunk as u8);
    }

    fn unpack(&mut self, CodedChunk { op, chunk, .. }: CodedChunk, _: Contributors, lanes: &[u8]) {
        assert_eq!(lanes.len(), 4 * LANE_WORDS as usize);
        assert!(self.unpacked.insert((op, chunk)), "unpacked twice");
    }
}

struct Scene {
    worker: Worker,
    tensors: Tensors,
    now: Instant,
    world: u16,
    /// What was sent last, oldest first.
    sent: Vec<Vec<u8>>,
    submitted: u64,
    done: u64,
}

/// Drives a worker as the input says.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut scene = Scene::new(&mut input);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        scene.step(&mut input);
        scene.drain();
    }
}

impl Scene {
    fn new(input: &mut Input<'_>) -> Self {
        let world = 1 + input.below(4) as u16;
        let admission = Admission {
            first_chunk: 0u32.wrapping_sub(input.byte().into()),
            congestion: CongestionAlgorithm::ALL[input.below(CongestionAlgorithm::ALL.len())],
            ..Admission::new(
                (7, 3, 0x5eed_c0de),
                1 << input.below(5),
                LANE_WORDS,
                u32::MAX >> (u32::BITS - u32::from(world)),
            )
        };
        let rank = input.below(world.into()) as u16;
        let predict = admission.first_chunk % 2 == 1;
        let config = WorkerConfig { predict, ..WorkerConfig::new(admission, rank, world) };
        let worker = Worker::new(config).expect("the configuration is in range");
        Self {
            worker,
            tensors: Tensors::default(),
            now: Instant::ZERO,
            world,
            sent: Vec::new(),
            submitted: 0,
            done: 0,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(8) {
            0 => self.submit(input),
            1 => {
                self.now += Duration::from_micros(u64::from(input.word() >> input.below(32)));
                self.worker.handle_timeout(self.now);
            }
            2 => {
                let bytes = input.bytes(DATAGRAM + 8).to_vec();
                self.take(&bytes);
            }
            3 => {
                let mut reply = self.reply(input);
                input.disturb(&mut reply);
                if input.below(8) == 0 {
                    reply.truncate(input.below(256));
                }
                self.take(&reply);
            }
            _ => {
                let reply = self.reply(input);
                self.take(&reply);
            }
        }
    }

    fn submit(&mut self, input: &mut Input<'_>) {
        let mode = Mode::ALL[input.below(Mode::ALL.len())];
        let data_chunks = input.below(48) as u32;
        let lane_op =
            if mode == Mode::I32 { LaneOp::ALL[input.below(LaneOp::ALL.len())] } else { LaneOp::Sum };
        let descriptor = Descriptor {
            collective: Collective::ALL[input.below(Collective::ALL.len())],
            dtype: DType::F32,
            mode,
            op: lane_op.reduction(),
            elements: u64::from(data_chunks) * u64::from(LANE_WORDS),
            ..Descriptor::BARRIER
        };
        let exponents = mode != Mode::I32;
        let spec = OpSpec {
            descriptor,
            data_chunks,
            exponents,
            class: 0,
            importance: Importance::NONE,
            lane_op,
            sharing: Sharing::All,
        };
        match self.worker.submit(spec) {
            Ok(id) => {
                assert_eq!(id, OpId(self.submitted));
                self.submitted += 1;
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    /// What a switch would say to one of the packets sent last.
    fn reply(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        if self.sent.is_empty() {
            return Vec::new();
        }
        let at = self.sent.len() - 1 - input.below(self.sent.len().min(256));
        let mut bytes = self.sent[at].clone();
        let packet = Packet::new_unchecked(&bytes[..]);
        let mut repr = Repr::parse(&packet).expect("a worker sends meaningful headers");
        let own = repr.bitmap.trailing_zeros() as usize;
        repr.flags = repr.flags.without(Flags::RESEND);
        repr.kind = Kind::Result;
        repr.bitmap = (1 << self.world) - 1;
        repr.count = self.world;
        match input.below(32) {
            0 => (repr.kind, repr.reason) = (Kind::Reject, Reason::ALL[input.below(Reason::ALL.len())]),
            1 => repr.kind = Kind::Stale,
            2 => repr.exp_next = input.byte(),
            _ => {}
        }
        let is_descriptor = bytes.len() == DATAGRAM && repr.exp == 0 && repr.op == LaneOp::Sum;
        if is_descriptor && input.below(16) != 0 {
            // Every rank makes the same proposal as this one.
            let row: [u8; 8] = bytes[LEN + 8 * own..][..8].try_into().expect("a row has eight bytes");
            for rank in 0..usize::from(self.world) {
                bytes[LEN + 8 * rank..][..8].copy_from_slice(&row);
            }
            // And the same predictions, of which the switch has the sums.
            for word in bytes[LEN + 8 * usize::from(self.world)..].as_chunks_mut::<4>().0 {
                *word = u32::from_be_bytes(*word).wrapping_mul(self.world.into()).to_be_bytes();
            }
        }
        repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        bytes
    }

    /// Hands over a packet; one that is ignored must have changed nothing that matters.
    fn take(&mut self, bytes: &[u8]) {
        let view = |scene: &Self| {
            let worker = &scene.worker;
            (worker.outstanding(), worker.pending(), worker.next_deadline(), scene.tensors.unpacked.len())
        };
        let before = view(self);
        let handled = self.worker.handle_packet(self.now, bytes, &mut self.tensors);
        if let Handled::Ignored(cause) = handled {
            assert_eq!(view(self), before, "ignored as {cause}");
        }
        if Packet::new_checked(bytes).is_err() {
            assert!(matches!(handled, Handled::Ignored(Ignored::Malformed | Ignored::Closed)));
        }
    }

    fn drain(&mut self) {
        let mut buffer = [0xa5; DATAGRAM];
        while let Some(len) = self.worker.poll_transmit(self.now, &mut buffer, &mut self.tensors) {
            let repr = Repr::parse(&Packet::new_unchecked(&buffer[..len]))
                .expect("a worker sends meaningful headers");
            assert_eq!((repr.kind, repr.count), (Kind::Data, 1));
            assert_eq!(len, if repr.flags.contains(Flags::BARE) { LEN } else { DATAGRAM });
            if self.sent.len() == SENT_KEPT {
                self.sent.remove(0);
            }
            self.sent.push(buffer[..len].to_vec());
        }
        while let Some(event) = self.worker.poll_event() {
            if let netfold_proto::WorkerEvent::OpDone(id) = event {
                assert_eq!(id, OpId(self.done), "operations end in order");
                self.done += 1;
            }
        }
        assert!(self.done <= self.submitted);
    }
}
