//! Results whose lanes one member receives, and contributions without lanes.

use std::collections::BTreeSet;

use netfold_io::{PacketIo, PortId, Transmit, loopback};
use netfold_p4::allreduce::{Behind, Child, Node, job_entries, node_entries};
use netfold_p4::entry::Replica;
use netfold_switch::switch::Core;
use netfold_switch::{Send, Switch, datagram_pipeline};
use netfold_wire::frame::Outer;
use netfold_wire::{Flags, Kind, LaneOwner, Packet, Repr, header};

use super::slot_machine::{GROUP, LANES, NODE, Rig, WORLD, data, lanes, sum_of, trimmed};

fn owned(chunk: u32, owner: u16) -> Repr {
    Repr { owner: LaneOwner::Rank(owner), ..data(0, 0, chunk) }
}

/// A copy as egress sends it: its header, and the bytes of its lanes.
fn copy(rig: &mut Rig, packet: &[u8], instance: u16) -> (Repr, usize) {
    let mut bytes = packet.to_vec();
    let len = rig.pipeline.egress(instance, 0, &mut bytes);
    let sent = &bytes[..len];
    let datagram = if rig.ethernet { Outer::parse(sent).expect("a well-formed frame").1 } else { sent };
    let packet = Packet::new_checked(datagram).unwrap();
    (Repr::parse(&packet).unwrap(), packet.payload().len())
}

#[test]
fn copies_for_members_that_do_not_own_the_result_have_no_lanes() {
    for mut rig in Rig::both() {
        for owner in 0..WORLD {
            let chunk = 4 * (1 + u32::from(owner));
            for port in 1..WORLD {
                assert_eq!(rig.send(port, owned(chunk, owner), &lanes(1)), None);
            }
            let packet = rig.bytes(WORLD, &owned(chunk, owner), &lanes(1));
            let (verdict, memory) = rig.raw(WORLD, &packet);
            assert_eq!(verdict.send, Send::Multicast(GROUP));
            let sent = memory[..verdict.len as usize].to_vec();
            for rank in 0..WORLD {
                let (repr, len) = copy(&mut rig, &sent, rank + 2);
                let own = rank == owner;
                let flags = if own { Flags::default() } else { Flags::BARE };
                assert_eq!(
                    (repr.kind, repr.flags, repr.owner),
                    (Kind::Result, flags, LaneOwner::Rank(owner))
                );
                assert_eq!((repr.bitmap, repr.count), (0b111, 3));
                assert_eq!(len, if own { 4 * LANES } else { 0 }, "rank {rank} of owner {owner}");
            }
            // Copies for other instances, and packets to one port, keep their lanes.
            for instance in [0, 1, 40] {
                assert_eq!(copy(&mut rig, &sent, instance).1, 4 * LANES);
            }
        }
    }
}

#[test]
fn a_duplicate_is_answered_with_lanes_only_to_the_owner() {
    for mut rig in Rig::both() {
        for port in 1..=WORLD {
            rig.send(port, owned(4, 1), &lanes(u32::from(port)));
        }
        let before = rig.slot(0, 0);
        for port in 1..=WORLD {
            let reply = rig.send(port, owned(4, 1), &lanes(9)).unwrap();
            assert_eq!((reply.send, reply.repr.kind), (Send::Unicast(port), Kind::Result));
            if port == 2 {
                assert_eq!((reply.lanes, reply.repr.flags), (sum_of(&[1, 2, 3]), Flags::default()));
            } else {
                assert_eq!((reply.lanes, reply.repr.flags), (vec![], Flags::BARE));
            }
        }
        assert_eq!(rig.slot(0, 0), before);
    }
}

#[test]
fn the_owner_of_contributions_without_lanes_receives_the_sum_of_the_others() {
    for mut rig in Rig::both() {
        let without = |owner| Repr { owner: LaneOwner::Rank(owner), ..trimmed(0, 0, 4) };
        rig.send(1, without(0), &[]);
        rig.send(3, without(0), &[]);
        let out = rig.send(2, owned(4, 0), &lanes(7)).unwrap();
        assert_eq!((out.repr.bitmap, out.repr.count, out.lanes), (0b010, 1, sum_of(&[7])));
        // A header that is a duplicate is answered with lanes, too, if its sender is the owner.
        let reply = rig.send(1, without(0), &[]).unwrap();
        assert_eq!((reply.repr.kind, reply.lanes), (Kind::Result, sum_of(&[7])));
        let reply = rig.send(3, without(0), &[]).unwrap();
        assert_eq!((reply.repr.flags, reply.lanes), (Flags::BARE, vec![]));
    }
}

/// The switch below a parent: which of its children has the owner behind it is known by ranges.
#[test]
fn children_have_ranges_of_members_behind_them() {
    let mut pipeline = datagram_pipeline(256).unwrap();
    let node = Node { children: 2, workers: 40, world: 40, ..NODE };
    for (rank, (first, last)) in [(0, 19), (20, 39)].into_iter().enumerate() {
        let (port, behind) = (rank as u16 + 1, Some(Behind { instance: rank as u16 + 2, first, last }));
        for entry in job_entries(&node, &Child { port, source: 0, rank: rank as u8, behind }) {
            pipeline.insert(&entry).unwrap();
        }
    }
    for (owner, receivers) in
        [(0, [true, false]), (19, [true, false]), (20, [false, true]), (39, [false, true])]
    {
        for (rank, receives) in receivers.into_iter().enumerate() {
            let mut result = vec![0; header::LEN + 4 * LANES];
            Repr { kind: Kind::Result, ..owned(4, owner) }.emit(&mut Packet::new_unchecked(&mut result[..]));
            let len = pipeline.egress(rank as u16 + 2, 0, &mut result);
            assert_eq!(len > header::LEN, receives, "owner {owner}, child {rank}");
        }
    }
}

fn admit(core: &mut Core) {
    let mut entries = node_entries(&NODE);
    for rank in 0..WORLD {
        let port = rank + 1;
        let behind = Some(Behind { instance: port + 1, first: rank, last: rank });
        entries.extend(job_entries(&NODE, &Child { port, source: 0, rank: rank as u8, behind }));
    }
    core.insert(&entries).unwrap();
    let replicas: Vec<_> = (1..=WORLD).map(|port| Replica { port, instance: port + 1 }).collect();
    core.set_group(GROUP, &replicas).unwrap();
}

/// Whole bursts through a running switch: contributions with and without lanes, and results with owners and for all.
#[test]
fn a_switch_sends_each_member_the_lanes_that_it_owns() {
    const CHUNKS: u32 = 8;
    let (hub, mut spokes) = loopback::star(usize::from(WORLD) + 1, 1024, 1440);
    let switch = Switch::new(datagram_pipeline(256).unwrap(), Box::new(hub));
    let handle = switch.handle();
    let thread = std::thread::spawn(move || switch.run().unwrap());
    handle.call(admit).unwrap();
    // Chunk c belongs to rank c mod 4, where 3 is all; rank c mod 3 contributes nothing.
    let owner = |chunk: u32| match chunk % 4 {
        3 => LaneOwner::All,
        rank => LaneOwner::Rank(rank as u16),
    };
    for rank in 0..WORLD {
        let (mut memory, mut packets) = (Vec::new(), Vec::new());
        for chunk in 0..CHUNKS {
            let (slot, set) = ((chunk % 4) as u16, (chunk / 4 % 2) as u8);
            let contributes = chunk % 3 != u32::from(rank);
            let repr = if contributes { data(slot, set, 8 + chunk) } else { trimmed(slot, set, 8 + chunk) };
            let offset = memory.len() as u32;
            let len = header::LEN + if contributes { 4 * LANES } else { 0 };
            memory.resize(memory.len() + len, 0);
            let bytes = &mut memory[offset as usize..];
            Repr { owner: owner(chunk), ..repr }.emit(&mut Packet::new_unchecked(&mut *bytes));
            for (word, lane) in bytes[header::LEN..].chunks_exact_mut(4).zip(lanes(1 + u32::from(rank))) {
                word.copy_from_slice(&lane.to_be_bytes());
            }
            packets.push(Transmit { port: PortId(0), offset, len: len as u32 });
        }
        let spoke = &mut spokes[usize::from(rank) + 1];
        assert_eq!(spoke.transmit(&memory, &packets).unwrap(), packets.len());
    }
    for rank in 0..WORLD {
        let spoke = &mut spokes[usize::from(rank) + 1];
        let mut batch = spoke.capabilities().batch();
        let mut missing: BTreeSet<u32> = (0..CHUNKS).collect();
        while !missing.is_empty() {
            if spoke.receive(&mut batch).unwrap() == 0 {
                spoke.wait(std::time::Duration::from_secs(5)).unwrap();
                continue;
            }
            for received in batch.packets() {
                let packet = Packet::new_checked(batch.bytes(received)).unwrap();
                let repr = Repr::parse(&packet).unwrap();
                let chunk = repr.chunk - 8;
                assert_eq!((repr.kind, repr.count), (Kind::Result, WORLD - 1));
                assert!(missing.remove(&chunk), "one result of chunk {chunk}");
                let got: Vec<u32> = packet
                    .payload()
                    .chunks_exact(4)
                    .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
                    .collect();
                let values: Vec<u32> =
                    (0..3).filter(|rank| chunk % 3 != *rank).map(|rank| 1 + rank).collect();
                let wanted = if owner(chunk).includes(rank) { sum_of(&values) } else { vec![] };
                assert_eq!(got, wanted, "rank {rank}, chunk {chunk}");
            }
        }
    }
    handle.stop();
    let counters = thread.join().unwrap();
    assert_eq!((counters.results, counters.output_dropped), (u64::from(CHUNKS), 0));
}
