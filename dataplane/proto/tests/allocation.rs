//! A worker allocates when an operation is submitted and never again.

use std::time::Duration;

use netfold_control::Admission;
use netfold_proto::{
    Codec, CodedChunk, Contributors, Descriptor, Handled, Importance, Instant, OpId, OpSpec, Tolerance,
    Worker, WorkerConfig, WorkerEvent,
};
use netfold_testkit::allocation::{self, CountingAllocator};
use netfold_wire::{Collective, DType, Flags, Kind, LaneOp, Mode, Packet, ReduceOp, Repr, header};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Zeros;

impl Codec for Zeros {
    fn exponent(&mut self, _: OpId, _: u32) -> u8 {
        100
    }
    fn pack(&mut self, _: CodedChunk, lanes: &mut [u8]) {
        lanes.fill(0);
    }
    fn unpack(&mut self, _: CodedChunk, _: Contributors, _: &[u8]) {}
}

#[test]
fn nothing_is_allocated_per_packet() {
    let (slots, lane_words, bitmap) = (64, 64, 1);
    let admission = Admission { first_chunk: 9, ..Admission::new((1, 1, 1), slots, lane_words, bitmap) };
    let mut worker = Worker::new(WorkerConfig::new(admission, 0, 1)).unwrap();
    let (mut now, mut chunks, mut buffer) = (Instant::ZERO, 0, [0; header::LEN + 256]);
    let descriptor = Descriptor {
        collective: Collective::AllReduce,
        dtype: DType::F32,
        mode: Mode::Bfp16,
        op: ReduceOp::Sum,
        tolerance: Tolerance::NONE,
        elements: 1_280_000,
    };
    let spec = OpSpec {
        descriptor,
        data_chunks: 10_000,
        exponents: true,
        class: 0,
        importance: Importance::new(8, 16).expect("in range"),
        lane_op: LaneOp::Sum,
        sharing: Default::default(),
    };
    for _ in 0..3 {
        worker.submit(spec).unwrap();
    }
    let before = allocation::of_this_thread();
    // With one rank every DATA is its own RESULT; each tenth is lost.
    while worker.pending() > 0 {
        now += Duration::from_micros(10);
        worker.handle_timeout(now);
        while let Some(len) = worker.poll_transmit(now, &mut buffer, &mut Zeros) {
            chunks += 1;
            if chunks % 10 != 0 {
                let mut packet = Packet::new_unchecked(&mut buffer[..len]);
                let data = Repr::parse(&packet).unwrap();
                Repr { kind: Kind::Result, flags: data.flags.without(Flags::RESEND), ..data }
                    .emit(&mut packet);
                assert_eq!(worker.handle_packet(now, &buffer[..len], &mut Zeros), Handled::Result);
            }
        }
        while let Some(event) = worker.poll_event() {
            assert!(matches!(event, WorkerEvent::OpDone(_)));
        }
    }
    assert!(worker.stats().retransmitted > 3_000);
    assert_eq!(allocation::of_this_thread() - before, 0, "for {chunks} packets");
}
