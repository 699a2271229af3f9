//! Jobs that shrink and grow in place: at a switch's own control port, linked and not, and within a host.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use netfold::{Builder, Communicator, Error, Network, ReduceOp};
use netfold_controller::JobEvent;
use netfold_embedded::EmbeddedSwitch;
use netfold_io::vacant_address;
use netfold_testkit::job::on_all_ranks;

use crate::TIMEOUT;

const LEN: usize = 5000;

/// Where so many threads wait for each other. If one of them has failed, the others do, too, after a time.
struct Gate(usize, Mutex<usize>, Condvar);

impl Gate {
    fn new(threads: usize) -> Self {
        Self(threads, Mutex::new(0), Condvar::new())
    }

    fn wait(&self) {
        let Self(threads, arrived, changed) = self;
        let mut arrived = arrived.lock().unwrap();
        *arrived += 1;
        changed.notify_all();
        let waited = changed.wait_timeout_while(arrived, TIMEOUT, |arrived| *arrived < *threads);
        assert!(!waited.unwrap().1.timed_out(), "another thread has failed");
    }
}

fn builder(switch: SocketAddr) -> Builder {
    Communicator::builder()
        .job("resized")
        .slots(16)
        .join_timeout(TIMEOUT)
        .stall_timeout(TIMEOUT)
        .resizable(true)
        .switch(switch)
        .unwrap()
}

/// What the process `of` contributes to element `index` of step `step`.
fn value(of: u16, step: usize, index: usize) -> f32 {
    (usize::from(of) * 7 + step + index % 101) as f32
}

/// One step, by the process `own`; the sum must be that of `members`.
fn step(comm: &Communicator, own: u16, members: &[u16], step: usize) -> Result<(), Error> {
    let mut tensor: Vec<f32> = (0..LEN).map(|index| value(own, step, index)).collect();
    comm.all_reduce(&mut tensor, ReduceOp::Sum)?;
    for (index, sum) in tensor.iter().enumerate() {
        let expected: f32 = members.iter().map(|of| value(*of, step, index)).sum();
        assert_eq!(*sum, expected, "element {index} of step {step}");
    }
    Ok(())
}

/// Three processes of which one dies in the middle of a step, so that two remain; then two more join. Returns the world sizes with which the job started at the switch.
fn shrinks_and_grows(linked: bool, shared: bool, dying: u16) -> Vec<u16> {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&starts);
    let note = move |event: &JobEvent| {
        if let JobEvent::Started { name, spec, .. } = event {
            assert_eq!(name.to_string(), "resized");
            log.lock().unwrap().push(spec.world);
        }
    };
    let switch = EmbeddedSwitch::builder().on_event(note).start().unwrap();
    let (control, at) = (switch.control(), vacant_address().unwrap());
    let remaining: Vec<u16> = (0..3).filter(|rank| *rank != dying).collect();
    // A rank that dies while others still wait for a result takes it with it.
    let (stepped, shrunk) = (Gate::new(3), Gate::new(4));
    on_all_ranks(5, |own| {
        let build = builder(control).shared_memory(shared);
        if own >= 3 {
            shrunk.wait();
            let comm = build.join_running().connect().unwrap();
            return all_five(comm, own, &remaining);
        }
        let build = build.rank(own).world_size(3);
        let build = if linked { build.rendezvous(at).unwrap() } else { build };
        let mut comm = build.connect().unwrap();
        assert_eq!(comm.generation(), 1);
        for at in 0..5 {
            step(&comm, own, &[0, 1, 2], at).unwrap();
        }
        stepped.wait();
        if own == dying {
            return comm.abort();
        }
        let error = (5..).find_map(|at| step(&comm, own, &[0, 1, 2], at).err()).unwrap();
        assert!(matches!(error.kind(), "peer_lost" | "switch_lost" | "interrupted"), "{error:?}");
        let before = comm.stats().worker.sent;
        let membership = comm.shrink(TIMEOUT).unwrap();
        assert_eq!(
            (membership.generation, membership.world_size, &membership.lost[..]),
            (2, 2, &[dying][..])
        );
        assert_eq!(remaining[usize::from(comm.rank())], own, "survivors keep their order");
        assert!(comm.stats().worker.sent >= before, "counters go on");
        for at in 0..5 {
            step(&comm, own, &remaining, at).unwrap();
        }
        shrunk.wait();
        let membership = comm.grow(2, TIMEOUT).unwrap();
        assert_eq!((membership.generation, membership.world_size, membership.survivors), (3, 4, 2));
        all_five(comm, own, &remaining);
    });
    starts.lock().unwrap().clone()
}

/// The last part, by those that remain and those that have joined.
fn all_five(comm: Communicator, own: u16, remaining: &[u16]) {
    // Processes that join are numbered in the order in which they came.
    let mut gathered = vec![0i32; 4];
    comm.all_gather(&[i32::from(own)], &mut gathered).unwrap();
    let members: Vec<u16> = gathered.iter().map(|own| *own as u16).collect();
    assert_eq!(members[..2], *remaining);
    for at in 0..5 {
        step(&comm, own, &members, at).unwrap();
    }
    comm.leave().unwrap();
}

#[test]
fn ranks_at_a_switch_continue_without_a_lost_one_and_admit_others() {
    for dying in 0..3 {
        assert_eq!(shrinks_and_grows(false, false, dying), [3, 2, 4]);
    }
}

#[test]
fn linked_ranks_at_a_switch_continue_without_a_lost_one_and_admit_others() {
    for dying in [0, 2] {
        assert_eq!(shrinks_and_grows(true, false, dying), [3, 2, 4]);
    }
}

#[test]
fn ranks_of_one_host_continue_in_shared_memory() {
    assert_eq!(shrinks_and_grows(true, true, 0), [0u16; 0], "no rank attaches to the switch");
}

/// A rank that is connected and does not ask is not left out; the job is as it was before, and the request can be repeated.
#[test]
fn a_rank_that_does_not_ask_is_named_and_not_left_out() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let asked = Gate::new(2);
    on_all_ranks(2, |own| {
        let mut comm = builder(switch.control()).rank(own).world_size(2).connect().unwrap();
        step(&comm, own, &[0, 1], 0).unwrap();
        if own == 0 {
            let error = comm.grow(1, Duration::from_millis(200)).unwrap_err();
            assert!(matches!(&error, Error::NotResized { missing, .. } if missing[..] == [1]), "{error}");
        }
        asked.wait();
        step(&comm, own, &[0, 1], 1).unwrap();
        let error = comm.grow(1, Duration::from_millis(200)).unwrap_err();
        assert!(matches!(&error, Error::NotResized { missing, .. } if missing.is_empty()), "{error}");
        step(&comm, own, &[0, 1], 2).unwrap();
        let membership = comm.shrink(TIMEOUT).unwrap();
        assert_eq!((membership.generation, membership.world_size), (2, 2), "no rank is lost");
        step(&comm, own, &[0, 1], 3).unwrap();
        comm.leave().unwrap();
    });
}

/// Ranks that die while the others shrink are left out by the next attempt.
#[test]
fn a_rank_that_dies_while_others_shrink_is_left_out_of_the_next_generation() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let at = vacant_address().unwrap();
    let stepped = Gate::new(4);
    on_all_ranks(4, |own| {
        let build = builder(switch.control()).shared_memory(false).rank(own).world_size(4);
        let mut comm = build.rendezvous(at).unwrap().join_timeout(Duration::from_secs(5)).connect().unwrap();
        step(&comm, own, &[0, 1, 2, 3], 0).unwrap();
        stepped.wait();
        if own == 3 {
            return comm.abort();
        }
        step(&comm, own, &[0, 1, 2, 3], 1).unwrap_err();
        if own == 1 {
            // It is in the next generation, and does not come.
            let _ = comm.resize_only(TIMEOUT);
            return;
        }
        let membership = loop {
            match comm.shrink(TIMEOUT) {
                Ok(membership) => break membership,
                Err(error) => assert!(!matches!(error, Error::Excluded { .. }), "{error}"),
            }
        };
        assert_eq!((membership.world_size, membership.generation), (2, 3));
        step(&comm, own, &[0, 2], 2).unwrap();
        assert!(matches!(comm.path().network, Network::Switch { .. }), "{}", comm.path());
        comm.leave().unwrap();
    });
}

#[test]
fn what_a_resizable_job_cannot_have_is_refused() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let build = || builder(switch.control()).rank(0).world_size(1);
    for refused in [build().group("g"), build().middleware(|io| io)] {
        assert_eq!(refused.connect().unwrap_err().kind(), "argument");
    }
    let mut comm = build().resizable(false).connect().unwrap();
    assert!(matches!(comm.shrink(TIMEOUT), Err(Error::Missing("resizable"))));
    assert_eq!(comm.generation(), 0);
    let absent =
        builder(switch.control()).job("absent").join_running().join_timeout(Duration::from_millis(300));
    assert!(matches!(absent.connect().unwrap_err().kind(), "connect" | "refused"));
}

/// Without a control port the ranks decide.
#[test]
fn linked_ranks_without_a_switch_continue_without_a_lost_one_and_admit_others() {
    let build = || {
        let build = Communicator::builder().job("switchless").join_timeout(TIMEOUT).stall_timeout(TIMEOUT);
        build.shared_memory(false).resizable(true)
    };
    for dying in [0, 2] {
        let (at, member) = (vacant_address().unwrap(), Mutex::new(None));
        let remaining: Vec<u16> = (0..3).filter(|rank| *rank != dying).collect();
        let (stepped, shrunk) = (Gate::new(3), Gate::new(4));
        on_all_ranks(5, |own| {
            if own >= 3 {
                shrunk.wait();
                let member: SocketAddr = member.lock().unwrap().unwrap();
                let comm = build().join_running().rendezvous(member).unwrap().connect().unwrap();
                return all_five(comm, own, &remaining);
            }
            let build = build().rank(own).world_size(3).rendezvous(at).unwrap();
            let mut comm = build.connect().unwrap();
            step(&comm, own, &[0, 1, 2], 0).unwrap();
            stepped.wait();
            if own == dying {
                return comm.abort();
            }
            let error = (1..).find_map(|at| step(&comm, own, &[0, 1, 2], at).err()).unwrap();
            assert_eq!((error.kind(), error.advice()), ("peer_lost", netfold::Advice::Shrink), "{error:?}");
            let membership = comm.shrink(TIMEOUT).unwrap();
            assert_eq!((membership.generation, &membership.lost[..]), (2, &[dying][..]));
            step(&comm, own, &remaining, 1).unwrap();
            if comm.rank() == 1 {
                *member.lock().unwrap() = comm.membership_address();
            }
            comm.barrier().unwrap();
            shrunk.wait();
            let membership = comm.grow(2, TIMEOUT).unwrap();
            assert_eq!((membership.generation, membership.world_size), (3, 4));
            all_five(comm, own, &remaining);
        });
    }
}
