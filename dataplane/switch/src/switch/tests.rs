//! The control side of the switch, over the null backend.

use netfold_io::Null;
use netfold_p4::allreduce::{Child, Node, job_entries};
use netfold_p4::profile::{Profile, SLOTS_SOFTWARE};
use netfold_wire::{Flags, LaneOp, LaneOwner};

use super::*;
use crate::runtime::CE;
use crate::{InterpretedPipeline, datagram_pipeline};

fn switch() -> Switch {
    Switch::new(datagram_pipeline(256).unwrap(), Box::new(Null::new(1024)))
}

const NODE: Node = Node {
    job: 1,
    epoch: 1,
    key: 1,
    base: 0,
    slots: 4,
    children: 2,
    workers: 2,
    world: 2,
    group: 1,
    parent: None,
    shift: None,
    bounded_loss: true,
    owners: true,
};

fn entries(rank: u8) -> Vec<TableEntry> {
    job_entries(&NODE, &Child { port: u16::from(rank), source: 0, rank, behind: None })
}

#[test]
fn insertion_and_deletion_are_all_or_none() {
    let mut core = switch().core;
    let (first, second) = (entries(0), entries(1));
    let both = [first.clone(), second.clone()].concat();
    core.insert(&second[2..3]).unwrap();
    assert_eq!(core.insert(&both), Err(EntryError::Exists));
    core.insert(&first).expect("the failed insertion left no entry");
    assert_eq!(core.delete(&both), Err(EntryError::NotFound));
    core.delete(&first).expect("the failed deletion removed no entry");
    core.delete(&second[2..3]).unwrap();
}

#[test]
fn advance_finds_the_newest_chunk_of_the_range_across_the_wrap() {
    let mut core = switch().core;
    assert_eq!(core.advance(4, 4, 1), Ok(1), "new slots advance to the requested chunk");
    for chunk in [0x7fff_0000, 0xfffe_0000] {
        core.advance(4, 4, chunk).unwrap();
    }
    assert_eq!(core.advance(5, 1, 7), Ok(7), "7 is newer than 2^32 - 2^17");
    assert_eq!(core.advance(4, 4, u32::MAX), Ok(7), "the slot that is ahead stays ahead");
    assert_eq!(core.probe(4, 0).map(|repr| repr.chunk), Some(u32::MAX));
    assert_eq!(core.advance(SLOTS_SOFTWARE - 1, 1, 1), Ok(1));
    assert_eq!(core.advance(SLOTS_SOFTWARE, 1, 1), Err(EntryError::Param(0)));
    assert_eq!(core.advance(u32::MAX, 2, 1), Err(EntryError::Param(0)));
    assert_eq!(core.advance(0, 0, 1), Err(EntryError::Param(1)));
}

#[test]
fn groups_have_limits() {
    let mut core = switch().core;
    let replica = Replica { port: 1, instance: 1 };
    assert_eq!(core.set_group(0, &[replica]), Err(EntryError::Group(0)));
    let beyond = GROUPS_MAX as u16 + 1;
    assert_eq!(core.set_group(beyond, &[replica]), Err(EntryError::Group(beyond)));
    assert_eq!(core.set_group(1, &[replica; REPLICAS_MAX + 1]), Err(EntryError::Group(1)));
    assert_eq!(core.set_group(beyond - 1, &[replica; REPLICAS_MAX]), Ok(()));
}

#[test]
fn calls_run_on_the_switch_and_fail_once_it_has_stopped() {
    let switch = switch();
    let handle = switch.handle();
    let thread = std::thread::spawn(move || switch.run());
    let lanes = handle.call(|core| core.pipeline().info().lane_words);
    assert_eq!(lanes, Ok(64));
    handle.stop();
    let counters = thread.join().unwrap().unwrap();
    assert_eq!(counters.results, 0);
    assert_eq!(handle.call(|_| ()), Err(CallError));
}

#[test]
fn calls_of_an_idle_switch_run_on_the_callers_thread() {
    let switch = switch();
    let before = switch.handle();
    let handle = switch.idle();
    let caller = std::thread::current().id();
    assert_eq!(handle.call(move |_| std::thread::current().id() == caller), Ok(true));
    let clone = handle.clone();
    clone.call(|core| core.set_group(1, &[Replica { port: 1, instance: 1 }])).unwrap().unwrap();
    assert_eq!(handle.call(|core| core.groups[1].len()), Ok(1), "clones have the same switch");
    assert_eq!(before.call(|_| ()), Err(CallError));
}

/// A contribution of `rank` to chunk 1 of slot 0, without lanes.
fn contribution(rank: u8) -> Vec<u8> {
    let repr = Repr {
        kind: Kind::Data,
        flags: Flags::BARE,
        op: LaneOp::Sum,
        class: 0,
        reason: Reason::None,
        job: NODE.job,
        slot: 0,
        set: 0,
        epoch: NODE.epoch,
        key: NODE.key,
        chunk: 1,
        bitmap: 1 << rank,
        count: 1,
        exp: 0,
        exp_next: 0,
        owner: LaneOwner::All,
    };
    let mut bytes = vec![0; header::LEN];
    repr.emit(&mut header::Packet::new_unchecked(&mut bytes[..]));
    bytes
}

#[test]
fn the_result_echoes_the_mark_of_the_contribution_that_completed_it() {
    let program = allreduce::program(&Profile::software(64)).unwrap();
    let cases = [(0, false), (0b10, false), (CE, true)];
    for ((ecn, marked), interpreted) in cases.into_iter().flat_map(|case| [(case, false), (case, true)]) {
        let mut core = switch().core;
        if interpreted {
            core.pipeline = Box::new(InterpretedPipeline::new(program.clone().into()).unwrap());
        }
        core.insert(&[entries(0), entries(1)].concat()).unwrap();
        let mut memory = [contribution(0), contribution(1)].concat();
        let packet = |rank: u16, ecn| Received {
            port: PortId(rank),
            offset: u32::from(rank) * header::LEN as u32,
            len: header::LEN as u32,
            ecn,
        };
        let (mut verdicts, mut output) = (Vec::new(), Vec::new());
        core.process(&[packet(0, 0), packet(1, ecn)], &mut memory, &mut verdicts, &mut output).unwrap();
        assert_eq!(verdicts[1].send, Send::Multicast(NODE.group));
        let result = Repr::parse(&header::Packet::new_checked(&memory[header::LEN..]).unwrap()).unwrap();
        assert_eq!((result.kind, result.flags.contains(Flags::CONGESTION)), (Kind::Result, marked), "{ecn}");
    }
}
