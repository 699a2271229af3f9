use netfold_wire::{Flags, LaneOp, LaneOwner, Packet, Reason, Repr};
use proptest::prelude::*;

use super::*;
use crate::{Loopback, loopback};

const LANES: usize = 16;
const JOB: u16 = 1;
const EPOCH: u32 = 3;
const LEN: usize = header::LEN + LANES;

fn key(byte: u8) -> PacketKey {
    PacketKey([byte; 32])
}

/// The keys of a worker, and those of the switch's port to it.
fn pair(up: u8, down: u8) -> (JobKeys, JobKeys) {
    let keys = |receive, send| JobKeys { job: JOB, epoch: EPOCH, keys: PortKeys { receive, send } };
    (keys(key(down), key(up)), keys(key(up), key(down)))
}

fn datagram(kind: Kind, chunk: u32) -> Vec<u8> {
    let repr = Repr {
        kind,
        flags: Flags::default(),
        op: LaneOp::Sum,
        class: 0,
        reason: Reason::None,
        job: JOB,
        slot: 2,
        set: 0,
        epoch: EPOCH,
        key: 4,
        chunk,
        bitmap: 0,
        count: 0,
        exp: 0,
        exp_next: 0,
        owner: LaneOwner::All,
    };
    let mut bytes = vec![0xa5; LEN];
    repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
    bytes
}

type Node = Authenticated<Loopback>;

/// A switch and two workers, of which the first is authenticated.
fn star() -> (Node, Node, Node) {
    let (hub, mut spokes) = loopback::star(2, 256, LEN + TAG_LEN);
    let (mut hub, second, first) =
        (Authenticated::new(hub), spokes.pop().expect("two"), spokes.pop().expect("two"));
    let (worker, port) = pair(1, 2);
    let mut first = Authenticated::new(first);
    first.authenticate(PortId(0), &worker, LEN).expect("room for a tag");
    hub.authenticate(PortId(0), &port, LEN).expect("room for a tag");
    (hub, first, Authenticated::new(second))
}

fn send(io: &mut impl PacketIo, port: u16, datagram: &[u8]) {
    let packet = Transmit { port: PortId(port), offset: 0, len: datagram.len() as u32 };
    assert_eq!(io.transmit(datagram, &[packet]).expect("room"), 1);
}

/// The datagrams that have arrived, with their ports.
fn received(io: &mut impl PacketIo) -> Vec<(u16, Vec<u8>)> {
    let mut batch = io.capabilities().batch();
    io.receive(&mut batch).expect("both ends exist");
    batch.packets().iter().map(|packet| (packet.port.0, batch.bytes(packet).to_vec())).collect()
}

#[test]
fn datagrams_arrive_without_their_tags_on_every_kind_of_port() {
    let (mut hub, mut first, mut second) = star();
    let (sent, plain) = (datagram(Kind::Data, 7), datagram(Kind::Data, 8));
    send(&mut first, 0, &sent);
    send(&mut second, 0, &plain);
    assert_eq!(received(&mut hub), [(0, sent), (1, plain)]);

    // A result to both, in one burst: one of the copies has a tag.
    let result = datagram(Kind::Result, 7);
    let copies = [0, 1].map(|port| Transmit { port: PortId(port), offset: 0, len: LEN as u32 });
    assert_eq!(PacketIo::transmit(&mut hub, &result, &copies).expect("room"), 2);
    assert_eq!(received(&mut first), [(0, result.clone())]);
    assert_eq!(received(&mut second), [(0, result)]);
    assert_eq!(PacketIo::counters(&hub).unauthenticated + PacketIo::counters(&first).unauthenticated, 0);
}

#[test]
fn jobs_that_share_a_port_have_keys_of_their_own_or_none() {
    let (hub, mut spokes) = loopback::star(1, 16, LEN + TAG_LEN);
    let (mut hub, mut spoke) = (Authenticated::new(hub), Authenticated::new(spokes.remove(0)));
    let of = |job: u16, keys: JobKeys| JobKeys { job, ..keys };
    for job in [JOB, 7] {
        let (worker, port) = pair(job as u8 + 10, job as u8 + 20);
        hub.authenticate(PortId(0), &of(job, port), LEN).expect("room for a tag");
        spoke.authenticate(PortId(0), &of(job, worker), LEN).expect("room for a tag");
    }
    let datagrams = [JOB, 7, 9].map(|job| {
        let mut bytes = datagram(Kind::Data, 1);
        Packet::new_unchecked(&mut bytes[..]).set_job(job);
        bytes
    });
    datagrams.iter().for_each(|datagram| send(&mut spoke, 0, datagram));
    let arrived: Vec<_> = received(&mut hub).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(arrived, datagrams);
    hub.forget(PortId(0), 7, EPOCH);
    send(&mut spoke, 0, &datagrams[1]);
    let tagged = received(&mut hub).remove(0).1;
    assert_eq!(tagged.len(), LEN + TAG_LEN, "a job without keys here: its datagram as it arrived");
    for job in 0..STREAMS_MAX as u16 {
        let added = hub.authenticate(PortId(3), &of(job, pair(1, 2).1), LEN);
        added.expect("at most as many");
    }
    let one_more = hub.authenticate(PortId(3), &of(u16::MAX, pair(1, 2).1), LEN);
    assert!(matches!(one_more, Err(IoError::Unsupported(_))));
}

#[test]
fn members_of_one_group_receive_the_same_bytes() {
    let (hub, spokes) = loopback::star(3, 16, LEN + TAG_LEN);
    let mut hub = Authenticated::new(hub);
    for port in 0..3 {
        hub.authenticate(PortId(port), &pair(port as u8, 9).1, LEN).expect("room for a tag");
    }
    let result = datagram(Kind::Result, 1);
    let copies = [0, 1, 2].map(|port| Transmit { port: PortId(port), offset: 0, len: LEN as u32 });
    assert_eq!(PacketIo::transmit(&mut hub, &result, &copies).expect("room"), 3);
    assert_eq!(hub.staging.len(), LEN + TAG_LEN, "the copies share their bytes");
    let bytes: Vec<_> = spokes.into_iter().map(|mut spoke| received(&mut spoke).remove(0).1).collect();
    assert!(bytes.iter().all(|copy| copy.len() == LEN + TAG_LEN && *copy == bytes[0]));
}

#[test]
fn a_changed_missing_or_foreign_tag_is_dropped_and_counted() {
    let (hub, mut spokes) = loopback::star(1, 4096, LEN + TAG_LEN);
    let (worker, port) = pair(1, 2);
    let mut hub = Authenticated::new(hub);
    hub.authenticate(PortId(0), &port, LEN).expect("room for a tag");
    let mut raw = spokes.remove(0);
    let right = |keys: &JobKeys| {
        let sent = datagram(Kind::Data, 7);
        let tag = TagKey::new(&keys.keys.send).tag(&sent, 0);
        [&sent[..], &tag].concat()
    };
    let tagged = right(&worker);
    // Bytes 4, 5 and 8 to 11 are job and epoch: with others there, it is a datagram of another job, which the pipeline does not admit.
    let of_the_job = |bit: &usize| !matches!(bit / 8, 4 | 5 | 8..12);
    for bit in (0..tagged.len() * 8).filter(of_the_job) {
        let mut changed = tagged.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        send(&mut raw, 0, &changed);
    }
    send(&mut raw, 0, &datagram(Kind::Data, 7));
    send(&mut raw, 0, &right(&port));
    (header::LEN..tagged.len()).for_each(|len| send(&mut raw, 0, &tagged[..len]));
    let wrong = (tagged.len() - 6) * 8 + 2 + tagged.len() - header::LEN;
    let mut batch = PacketIo::capabilities(&hub).batch();
    let mut arrived = 0;
    while PacketIo::counters(&hub).unauthenticated < wrong as u64 {
        arrived += PacketIo::receive(&mut hub, &mut batch).expect("both ends exist");
        assert_eq!(arrived, 0);
    }
    send(&mut raw, 0, &tagged);
    assert_eq!(received(&mut hub), [(0, datagram(Kind::Data, 7))]);
    assert_eq!(PacketIo::counters(&hub).unauthenticated, wrong as u64);
}

#[test]
fn a_recorded_datagram_is_not_accepted_when_the_chunk_numbers_have_wrapped() {
    let (hub, mut spokes) = loopback::star(1, 16, LEN + TAG_LEN);
    let (worker, port) = pair(1, 2);
    let mut hub = Authenticated::new(hub);
    hub.authenticate(PortId(0), &port, LEN).expect("room for a tag");
    let mut raw = spokes.remove(0);
    let sender = TagKey::new(&worker.keys.send);
    let mut arrives = |chunk: u32, upper: u32| {
        let sent = datagram(Kind::Data, chunk);
        send(&mut raw, 0, &[&sent[..], &sender.tag(&sent, upper)].concat());
        received(&mut hub).len() == 1
    };
    assert!(arrives(5, 0) && arrives(5, 0), "a retransmission");
    for step in 1..5_u64 {
        assert!(arrives((5 + (step << 30)) as u32, ((5 + (step << 30)) >> 32) as u32));
    }
    // Chunk 5 + 2^32, the job is there.
    assert!(!arrives(5, 0), "the recorded datagram");
    assert!(arrives(5, 1));
}

#[test]
fn keys_go_with_the_peer_and_only_with_it() {
    let (hub, mut spokes) = loopback::star(1, 16, LEN + TAG_LEN);
    let (worker, port) = pair(1, 2);
    let (mut hub, mut spoke) = (Authenticated::new(hub), Authenticated::new(spokes.remove(0)));
    assert!(matches!(
        hub.authenticate(PortId(0), &port, LEN + 1),
        Err(IoError::Oversize { port: PortId(0), len, max }) if len == max + 1
    ));
    hub.authenticate(PortId(0), &port, LEN).expect("room for a tag");
    spoke.authenticate(PortId(0), &worker, LEN).expect("room for a tag");
    send(&mut spoke, 0, &datagram(Kind::Data, 0x7fff_fff0));
    assert_eq!(received(&mut hub).len(), 1);
    let newest = |node: &Node| node.ports[0].first().map(|stream| stream.newest.0);
    hub.authenticate(PortId(0), &port, LEN).expect("room for a tag");
    assert_eq!(newest(&hub), Some(0x7fff_fff0), "the same keys change nothing");
    hub.authenticate(PortId(0), &pair(3, 4).1, LEN).expect("room for a tag");
    assert_eq!((newest(&hub), hub.streams), (Some(0), 1), "other keys begin anew");
    hub.forget(PortId(0), JOB, EPOCH + 1);
    assert_eq!(hub.authenticated(PortId(0)).collect::<Vec<_>>(), [(JOB, EPOCH)]);
    hub.forget(PortId(0), JOB, EPOCH);
    hub.forget(PortId(9), JOB, EPOCH);
    assert_eq!((newest(&hub), hub.streams), (None, 0));
    assert!(hub.into_inner().is_ok() && spoke.into_inner().is_err());
}

#[test]
fn a_datagram_without_room_for_a_tag_is_dropped_by_its_receiver() {
    let (mut hub, mut first, _second) = star();
    let mut longest = datagram(Kind::Data, 7);
    longest.resize(LEN + TAG_LEN, 0);
    let packets = [longest, datagram(Kind::Data, 8)].concat();
    let len = (LEN + TAG_LEN) as u32;
    let long = Transmit { port: PortId(0), offset: 0, len };
    let short = Transmit { port: PortId(0), offset: len, len: LEN as u32 };
    assert_eq!(PacketIo::transmit(&mut first, &packets, &[long, short]).expect("no error"), 2);
    assert_eq!(received(&mut hub), [(0, datagram(Kind::Data, 8))]);
    assert_eq!(PacketIo::counters(&hub).unauthenticated, 1);
}

#[test]
fn datagrams_beyond_the_staging_memory_are_left_to_the_next_call() {
    let (mut hub, mut first, _second) = star();
    let many: Vec<u8> = (0..64).flat_map(|chunk| datagram(Kind::Data, chunk)).collect();
    let packets: Vec<Transmit> =
        (0..64).map(|at| Transmit { port: PortId(0), offset: at * LEN as u32, len: LEN as u32 }).collect();
    first.staging = Vec::with_capacity(3 * (LEN + TAG_LEN));
    let room = first.staging.capacity() / (LEN + TAG_LEN);
    let (mut rest, mut calls) = (&packets[..], 0);
    while !rest.is_empty() {
        let taken = PacketIo::transmit(&mut first, &many, rest).expect("room");
        assert!((1..=room).contains(&taken));
        (rest, calls) = (&rest[taken..], calls + 1);
    }
    assert!(calls > 1);
    let chunks: Vec<u32> = received(&mut hub)
        .iter()
        .map(|(_, bytes)| Packet::new_checked(&bytes[..]).expect("whole").chunk())
        .collect();
    assert_eq!(chunks, (0..64).collect::<Vec<_>>());
}

proptest! {
    /// Both ends number the chunks of a stream alike, wherever it begins, with windows of a job's size, loss and reordering.
    #[test]
    fn both_ends_extend_chunk_numbers_alike(
        first in prop_oneof![any::<u32>(), (0_u32..100_000).prop_map(|at| (1_u32 << 31).wrapping_sub(at)), 0_u32..2],
        steps in proptest::collection::vec((0_u32..32_768, any::<bool>(), 0_u32..16_384), 1..200),
    ) {
        let (mut sender, mut receiver) = (ExtendedChunk::default(), ExtendedChunk::default());
        let mut base = first;
        for (ahead, lost, advance) in steps {
            let chunk = base.wrapping_add(ahead);
            let sent = sender.closest(chunk);
            sender = sender.max(sent);
            if lost {
                continue;
            }
            let arrived = receiver.closest(chunk);
            // A stream that begins within a window of 2^31, and all of whose chunks below that were lost: the next retransmission of one of
            // them arrives.
            let all_lost = receiver.0 == 0 && sent.0 > i64::from(i32::MAX);
            prop_assert!(arrived == sent || all_lost, "{:?} {:?}", arrived, sent);
            if arrived == sent {
                receiver = receiver.max(arrived);
                base = base.wrapping_add(advance);
            }
            // The probe of the liveness monitor, far behind.
            let probe = base.wrapping_sub(3 << 29);
            prop_assert!(receiver.closest(probe) == sender.closest(probe) || receiver.0 == 0);
        }
    }
}
