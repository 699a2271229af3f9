//! Queues allocate nothing per packet.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use netfold_switch::queue::{ClassConfig, Ecn, PortConfig, QueueConfig, Queues, Rate};
use netfold_wire::{Flags, Kind, LaneOp, Packet, Reason, Repr, header};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting the calls of each thread.
struct Counting;

// SAFETY: every call goes to `System` with the same arguments; counting allocates nothing (the cell has no destructor
// and is initialised at compile time).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn packets_that_are_queued_marked_trimmed_dropped_and_sent_cost_no_allocation() {
    let class = ClassConfig {
        bytes_max: 20_000,
        trim_above: Some(10_000),
        ecn: Some(Ecn { k_min: 2000, k_max: 15_000, p_max: 0.5 }),
        ..ClassConfig::default()
    };
    let rate = Some(Rate { bits_per_second: 100_000_000, burst_bytes: 3000 });
    let port = PortConfig { rate, control_bytes_max: 400, ..PortConfig::strict(4, &class) };
    let mut queues = Queues::new(&QueueConfig { port, ..QueueConfig::default() }, 1436).unwrap();
    let packets: Vec<_> = (0..16).map(|class| packet(class, class % 2 == 0)).collect();
    let mut fates = [0_u64; 4];
    let before = ALLOCATIONS.get();
    let mut sent = 0;
    for step in 0..20_000_u32 {
        let fate = queues.enqueue((step % 7) as u16 * 150, &packets[step as usize % 16]);
        fates[fate as usize] += 1;
        let now = Duration::from_micros(u64::from(step) * 5);
        while let Some(departure) = queues.dequeue(now) {
            sent += 1;
            queues.release(departure);
        }
        let _ = queues.ready_at();
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(sent > 1000 && fates.iter().all(|count| *count > 100), "{sent} sent, {fates:?}");
}

fn packet(class: u8, droppable: bool) -> Vec<u8> {
    let repr = Repr {
        kind: Kind::Data,
        flags: if droppable { Flags::DROPPABLE } else { Flags::default() },
        op: LaneOp::Sum,
        class,
        reason: Reason::None,
        job: 1,
        slot: 0,
        set: 0,
        epoch: 1,
        key: 1,
        chunk: 1,
        bitmap: 1,
        count: 1,
        exp: 0,
        exp_next: 0,
    };
    let mut bytes = vec![0; header::LEN + 1408];
    repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
    bytes
}
