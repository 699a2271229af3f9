//! The use of `ncclNet` by NCCL's proxy.
#![allow(unsafe_code, reason = "forks")]

use std::ffi::c_void;
use std::time::{Duration, Instant};

use crate::bootstrap::{RankContext, report, until};
use crate::groups::TIMEOUT;
use crate::plugin::{Handle, Net, log_lines};

type Ptr = *mut c_void;

/// A ring: this rank sends to the next and receives from the one before.
fn ring(place: &RankContext, net: &Net) -> (Ptr, Ptr) {
    let (handle, listener) = net.listen(0).unwrap();
    let handles = place.gather(&handle);
    let mut next: Handle = handles[(place.rank + 1) % place.world].clone().try_into().unwrap();
    let (mut out, mut inward) = (std::ptr::null_mut::<c_void>(), std::ptr::null_mut::<c_void>());
    until("a connection", TIMEOUT, || {
        if out.is_null() {
            out = net.connect(&mut next).unwrap_or_else(|code| panic!("connect: {code}: {:?}", log_lines()));
        }
        if inward.is_null() {
            inward = net.accept(listener).unwrap();
        }
        (!out.is_null() && !inward.is_null()).then_some(())
    });
    assert_eq!(net.0.close("closeListen", listener), 0);
    (out, inward)
}

fn content(rank: usize, message: usize, len: usize) -> Vec<u8> {
    let seed = (rank * 7919 + message * 104_729) as u32;
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
}

const LENGTHS: &[usize] = &[0, 1, 3, 1003, 65_536, 65_537, 1 << 20, 4 << 20, (6 << 20) + 1];

/// Messages of all sizes round the ring, many in flight.
pub(crate) fn everything(place: &RankContext, net: &mut Net) {
    assert_eq!(net.init(), 0);
    assert_eq!(net.devices(), 1);
    let properties = net.0.properties(0).unwrap();
    assert_eq!((properties.name.as_str(), properties.pointer_support, properties.max_recvs), ("lo", 1, 1));
    assert!(properties.speed > 0 && properties.max_comms > 0);
    assert!(place.version < 11 || properties.max_p2p == 1 << 30);
    let (out, inward) = ring(place, net);
    let before = (place.rank + place.world - 1) % place.world;
    let start = Instant::now();
    let rounds = 3;
    let mut bytes = 0;
    for round in 0..rounds {
        let tag = |message: usize| (round * 100 + message) as i32;
        let sends: Vec<Vec<u8>> =
            LENGTHS.iter().enumerate().map(|(m, len)| content(place.rank, m, *len)).collect();
        // Room for more than is sent, and in another order than it is sent where the round is odd.
        let mut receives: Vec<Vec<u8>> = LENGTHS.iter().map(|len| vec![0; len + 5]).collect();
        let order: Vec<usize> =
            if round % 2 == 1 { (0..LENGTHS.len()).rev().collect() } else { (0..LENGTHS.len()).collect() };
        let mut pending: Vec<(Ptr, usize)> = Vec::new();
        for message in order {
            let data = &mut receives[message];
            let registration = net.0.register(inward, data.as_mut_ptr(), data.len(), 1).unwrap();
            let request = net.receive(inward, 1, data, tag(message), registration).unwrap();
            assert!(!request.is_null());
            pending.push((request, LENGTHS[message]));
            net.0.deregister(inward, registration);
        }
        for (message, data) in sends.iter().enumerate() {
            let request = until("room", TIMEOUT, || {
                let request = net.send(out, data, tag(message), data.as_ptr().cast_mut().cast()).unwrap();
                (!request.is_null()).then_some(request)
            });
            pending.push((request, data.len()));
            bytes += data.len();
        }
        until("all messages", TIMEOUT, || {
            pending.retain(|(request, len)| match net.0.test(*request) {
                Ok(None) => true,
                Ok(Some(size)) => {
                    assert_eq!(size as usize, *len);
                    false
                }
                Err(code) => panic!("test: {code}: {:?}", log_lines().last()),
            });
            pending.is_empty().then_some(())
        });
        for (message, data) in receives.iter().enumerate() {
            let len = LENGTHS[message];
            assert!(
                data[..len] == content(before, message, len) && data[len..] == [0; 5],
                "message {message}"
            );
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    full(place, net, out, inward);
    place.barrier();
    assert_eq!((net.0.close("closeSend", out), net.0.close("closeRecv", inward)), (0, 0));
    assert_eq!(net.finalize(), 0);
    if place.rank > 0 {
        return;
    }
    report(&format!(
        "net: {} messages of 0 B to 6 MiB correct, tags in and out of order, {bytes} bytes in {seconds:.2} s",
        rounds * LENGTHS.len()
    ));
}

/// The maximum of receives in flight, and then NULL.
fn full(place: &RankContext, net: &Net, out: Ptr, inward: Ptr) {
    let mut slots = vec![[0u8; 8]; 33];
    let mut requests = Vec::new();
    for (index, slot) in slots.iter_mut().enumerate() {
        let request = net.receive(inward, 1, slot, 9, std::ptr::null_mut()).unwrap();
        assert_eq!(request.is_null(), index == 32, "receive {index} in flight");
        if !request.is_null() {
            requests.push(request);
        }
    }
    place.barrier();
    for index in 0..32u64 {
        let data = index.to_ne_bytes();
        let request = net.send(out, &data, 9, std::ptr::null_mut()).unwrap();
        until("a send", TIMEOUT, || net.0.test(request).unwrap());
    }
    for request in requests {
        assert_eq!(until("a receive", TIMEOUT, || net.0.test(request).unwrap()), 8);
    }
    // Equal tags are served in the order of posting.
    assert!((0..32).all(|index| slots[index] == (index as u64).to_ne_bytes()));
}

/// The loss of a peer is an error of every request that waits for it.
pub(crate) fn peer_killed(place: &RankContext, net: &mut Net) {
    assert_eq!(net.init(), 0);
    let (out, inward) = ring(place, net);
    place.barrier();
    if place.rank == 0 {
        std::process::exit(42);
    }
    let start = Instant::now();
    let mut into = vec![0; 1 << 20];
    let data = vec![1; 64 << 20];
    // The ranks before and after the killed one.
    let receives = place.rank == 1;
    let request = if receives {
        net.receive(inward, 1, &mut into, 0, std::ptr::null_mut())
    } else {
        net.send(out, &data, 0, std::ptr::null_mut())
    };
    let code = match request {
        Ok(request) => until("an error", Duration::from_secs(30), || net.0.test(request).err()),
        Err(code) => code,
    };
    assert_eq!(code, 6, "{:?}", log_lines());
    let what = if receives { "a receive from" } else { "a send to" };
    report(&format!("{what} the killed rank returned {code} after {:.3} s", start.elapsed().as_secs_f64()));
    assert_eq!((net.0.close("closeSend", out), net.0.close("closeRecv", inward)), (0, 0));
}

/// In a forked child every function is an error, without an effect on the parent.
fn forked(net: &Net) {
    // SAFETY: the child calls the plugin, which takes no lock there, and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = net.listen(0) == Err(5) && net.0.test(std::ptr::null_mut()) == Err(5);
        // SAFETY: ends this process without running what belongs to its parent.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: the child from above, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "calls in a forked child are ncclInvalidUsage");
}

/// Invalid arguments and pointers are errors, and nothing else.
pub(crate) fn misuse(place: &RankContext, net: &mut Net) {
    assert_eq!(net.init(), 0);
    let made_up = std::ptr::without_provenance_mut::<c_void>(0xdead_beef);
    for pointer in [std::ptr::null_mut(), made_up] {
        assert!(net.0.test(pointer).is_err() && net.accept(pointer).is_err());
        assert!(net.0.close("closeSend", pointer) != 0 && net.0.close("closeListen", pointer) != 0);
        assert!(net.send(pointer, &[1], 0, pointer).is_err());
    }
    assert!(net.listen(7).is_err() && net.listen(-1).is_err());
    assert!(net.connect(&mut [0; 128]).is_err(), "an empty handle");
    forked(net);
    let (out, inward) = ring(place, net);
    assert!(net.send(inward, &[1], 0, made_up).is_err(), "sends on the receiving side");
    assert!(net.receive(inward, 2, &mut [0; 4], 0, made_up).is_err(), "more than maxRecvs");
    let mut short = [0; 4];
    let request = net.receive(inward, 1, &mut short, 3, made_up).unwrap();
    net.send(out, &[1; 100], 3, made_up).unwrap();
    let code = until("an error", TIMEOUT, || net.0.test(request).err());
    assert_eq!(code, 5, "a message that is too long for its receive");
    place.barrier();
    assert_eq!((net.0.close("closeSend", out), net.0.close("closeRecv", inward)), (0, 0));
    assert!(net.0.close("closeSend", out) != 0, "closed twice");
    assert!(net.0.test(request).is_err(), "a request of what is closed");
    report("net: stale, null and made-up pointers, wrong sizes, wrong sides and forked children are errors");
}
