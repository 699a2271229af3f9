//! What one worker can do to the others at a switch.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Hub, Name, Spoke};
use crate::{PacketIo, PortId, Transmit};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Longest sleep of the hub; a wake-up that was lost shows as one.
const SLEEP: Duration = Duration::from_secs(2);

const ROUNDS: usize = 200;

/// A hub, and a worker whose port is bound.
fn pair(name: &str) -> (Hub, Spoke, Name) {
    let name: Name = format!("test-{}-{name}", std::process::id()).parse().unwrap();
    let mut hub = Hub::open(&name, SocketAddr::new(LOCALHOST, 20038), 2048, None).unwrap();
    let mut worker = Spoke::attach(&name, LOCALHOST, 2048).unwrap();
    hub.bind_port(PortId(0), worker.local_addr().unwrap()).unwrap();
    worker.bind_port(PortId(0), hub.local_addr().unwrap()).unwrap();
    (hub, worker, name)
}

/// The worker sends while the hub sleeps: each datagram ends the sleep. Returns how often one did not.
fn missed_wakes(hub: &mut Hub, mut worker: Spoke) -> usize {
    let received = Arc::<AtomicBool>::default();
    let seen = Arc::clone(&received);
    let sender = thread::spawn(move || {
        for _ in 0..ROUNDS {
            thread::sleep(Duration::from_micros(200));
            worker.transmit(b"x", &[Transmit { port: PortId(0), offset: 0, len: 1 }]).unwrap();
            while !seen.swap(false, Ordering::AcqRel) {
                thread::yield_now();
            }
        }
        worker
    });
    let (mut batch, mut missed) = (hub.capabilities().batch(), 0);
    for _ in 0..ROUNDS {
        while hub.receive(&mut batch).unwrap() == 0 {
            let begun = Instant::now();
            hub.wait(SLEEP).unwrap();
            missed += usize::from(begun.elapsed() >= SLEEP);
        }
        received.store(true, Ordering::Release);
    }
    drop(sender.join().unwrap());
    missed
}

#[test]
fn a_worker_that_reads_its_descriptor_takes_no_wake_up_of_another() {
    let (mut hub, worker, name) = pair("drain");
    let malicious = Spoke::attach(&name, LOCALHOST, 2048).unwrap();
    let stop = AtomicBool::new(false);
    let missed = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                let _ = rustix::io::read(malicious.hub.as_fd(), &mut [0; 8]);
            }
        });
        let missed = missed_wakes(&mut hub, worker);
        stop.store(true, Ordering::Release);
        missed
    });
    assert_eq!(missed, 0);
}

#[test]
fn a_worker_that_fills_its_descriptor_takes_no_wake_up_of_another() {
    let (mut hub, worker, name) = pair("fill");
    let malicious = Spoke::attach(&name, LOCALHOST, 2048).unwrap();
    rustix::io::write(malicious.hub.as_fd(), &(u64::MAX - 1).to_ne_bytes()).unwrap();
    assert_eq!(missed_wakes(&mut hub, worker), 0);
    drop(malicious);
}

#[test]
fn descriptors_of_detached_workers_do_not_wake_the_hub() {
    let (mut hub, worker, name) = pair("gone");
    let other = Spoke::attach(&name, LOCALHOST, 2048).unwrap();
    let kept = other.hub.try_clone().unwrap();
    assert_eq!(hub.workers(), 2);
    drop(other);
    while hub.workers() > 1 {
        hub.wait(SLEEP).unwrap();
    }
    // What had been written before.
    while hub.wait(Duration::ZERO).unwrap() {}
    rustix::io::write(kept.as_fd(), &1_u64.to_ne_bytes()).unwrap();
    assert!(!hub.wait(Duration::from_millis(10)).unwrap());
    drop(worker);
}
