//! Queues allocate nothing per packet.

use std::time::Duration;

use netfold_switch::queue::{ClassConfig, Ecn, PortConfig, QueueConfig, Queues, Rate};
use netfold_testkit::allocation::{self, CountingAllocator};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn queues_do_not_allocate_per_packet() {
    let class = ClassConfig {
        bytes_max: 20_000,
        trim_above: Some(10_000),
        ecn: Some(Ecn { k_min: 2000, k_max: 15_000, p_max: 0.5 }),
        ..ClassConfig::default()
    };
    let rate = Some(Rate { bits_per_second: 100_000_000, burst_bytes: 3000 });
    let port = PortConfig { rate, control_bytes_max: 400, ..PortConfig::strict(4, &class) };
    let mut queues = Queues::new(&QueueConfig { port, ..QueueConfig::default() }, 1440).unwrap();
    let packets: Vec<_> = (0..16).map(|class| packet(class, class % 2 == 0)).collect();
    let mut outcomes = [0_u64; 4];
    let before = allocation::of_this_thread();
    let mut sent = 0;
    for step in 0..20_000_u32 {
        let outcome = queues.enqueue((step % 7) as u16 * 150, &packets[step as usize % 16]);
        outcomes[outcome as usize] += 1;
        let now = Duration::from_micros(u64::from(step) * 5);
        while let Some(departure) = queues.dequeue(now) {
            sent += 1;
            queues.release(departure);
        }
        let _ = queues.ready_at();
    }
    assert_eq!(allocation::of_this_thread() - before, 0);
    assert!(sent > 1000 && outcomes.iter().all(|count| *count > 100), "{sent} sent, {outcomes:?}");
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
        owner: LaneOwner::All,
    };
    let mut bytes = vec![0; header::LEN + 1408];
    repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
    bytes
}
