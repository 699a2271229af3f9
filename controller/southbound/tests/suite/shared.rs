//! Slots that best-effort jobs share: what ended jobs occupy is released, also where the switch was out of reach when they ended.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use netfold_controller::SwitchDriver;
use netfold_p4::allreduce::{Child, Node, Parent, shared_job_entries, shared_node_entries};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::profile::Profile;
use netfold_southbound::p4runtime::Pipeline;
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};

use crate::proxy::Proxy;
use crate::rig::{Device, LANE_WORDS, TEST_TIMEOUT, Watched, config, profile};

/// Slots of each job: the same ones.
const SLOTS: u32 = 8;

/// Chunks of the first slot that follow each other. The first is not taken as one that an unused switch has seen.
const FIRST: u32 = 2 * SLOTS;
const NEXT: u32 = 4 * SLOTS;

fn best_effort() -> Profile {
    profile().for_best_effort()
}

/// A job of two workers below an aggregator, all of which are sockets of the test.
struct Job {
    number: u16,
    children: [UdpSocket; 2],
    aggregator: UdpSocket,
}

impl Job {
    fn new(number: u16) -> Self {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
            socket
        };
        Self { number, children: [socket(), socket()], aggregator: socket() }
    }

    fn epoch(&self) -> u32 {
        70 + u32::from(self.number)
    }

    /// The ports of its children, and the aggregator's.
    fn ports(&self) -> [u16; 3] {
        [0, 1, 2].map(|port| 3 * self.number + port)
    }

    /// The multicast group of one copy to the aggregator.
    fn up(&self) -> u16 {
        2 * self.number + 1
    }

    fn entries(&self) -> Vec<TableEntry> {
        let [_, _, port] = self.ports();
        let node = Node {
            job: self.number,
            epoch: self.epoch(),
            key: 0xbeef,
            base: 0,
            slots: SLOTS,
            children: 2,
            workers: 2,
            world: 2,
            group: self.up() - 1,
            parent: Some(Parent { port, source: 0, group: self.up(), rank: 0 }),
            shift: None,
            bounded_loss: false,
            owners: false,
        };
        let children = (0..).zip(self.ports()).take(2);
        let children = children.flat_map(|(rank, port)| {
            shared_job_entries(&node, &Child { port, source: 0, rank, behind: None })
        });
        shared_node_entries(&node).into_iter().chain(children).collect()
    }

    fn admit(&self, switch: &mut impl SwitchDriver) {
        let sockets = self.children.iter().chain([&self.aggregator]);
        for (port, socket) in self.ports().into_iter().zip(sockets) {
            switch.bind_port(port, socket.local_addr().unwrap()).unwrap();
        }
        let replica = |port: u16| Replica { port, instance: port + 1 };
        let [first, second, above] = self.ports().map(replica);
        switch.set_group(self.up() - 1, &[first, second]).unwrap();
        switch.set_group(self.up(), &[above]).unwrap();
        switch.insert(&self.entries()).unwrap();
    }

    /// Ends the job, as the control plane does.
    fn end(&self, switch: &mut impl SwitchDriver) {
        switch.delete(&self.entries()).unwrap();
        switch.release(0, SLOTS, self.epoch()).unwrap();
    }

    /// A child sends its contribution to a chunk of the first slot.
    fn contribute(&self, child: usize, chunk: u32, switch: SocketAddr) {
        let repr = Repr {
            kind: Kind::Data,
            flags: Flags::default(),
            op: LaneOp::Sum,
            class: 0,
            reason: Reason::None,
            job: self.number,
            slot: 0,
            set: (chunk / SLOTS % 2) as u8,
            epoch: self.epoch(),
            key: 0xbeef,
            chunk,
            bitmap: 0,
            count: 1,
            exp: 0,
            exp_next: 0,
            owner: LaneOwner::All,
        };
        let mut bytes = vec![0; header::LEN + LANE_WORDS as usize * 4];
        repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        self.children[child].send_to(&bytes, switch).unwrap();
    }

    /// The contributors of the next packet that reaches the aggregator.
    fn passed_on(&self) -> u32 {
        let mut bytes = [0; 2048];
        let len = self.aggregator.recv(&mut bytes).expect("a packet in time");
        Repr::parse(&Packet::new_unchecked(&bytes[..len])).unwrap().bitmap
    }

    /// Both children contribute to a chunk; what the aggregator receives first.
    fn sum(&self, chunk: u32, switch: SocketAddr) -> u32 {
        (0..2).for_each(|child| self.contribute(child, chunk, switch));
        self.passed_on()
    }
}

#[test]
fn what_ended_jobs_occupy_is_released_also_after_an_absence() {
    let device = Device::start();
    let proxy = Proxy::start(device.address());
    let pipeline = Pipeline::software(best_effort()).unwrap();
    let mut watched = Watched::running(config(proxy.address()), pipeline, Vec::new());
    watched.up();
    let [one, two, three] = [1, 2, 3].map(Job::new);
    one.admit(&mut watched.switch);
    two.admit(&mut watched.switch);
    one.contribute(0, FIRST, device.data);
    two.contribute(0, FIRST, device.data);
    assert_eq!(two.passed_on(), 0b01, "the first job has the slot");
    assert_eq!([&one, &two].map(|job| watched.switch.spilled(job.up()).unwrap()), [0, 1]);
    one.end(&mut watched.switch);
    assert_eq!(two.sum(NEXT, device.data), 0b11, "the slot is free for the second");

    // The second has it now, and ends while its switch cannot be reached.
    let other = Device::start();
    let nowhere = other.address();
    drop(other);
    proxy.lead_to(nowhere);
    proxy.cut();
    watched.wait_down();
    two.end(&mut watched.switch);
    proxy.lead_to(device.address());
    assert!(!watched.up().0, "it has lost nothing");
    three.admit(&mut watched.switch);
    assert_eq!(three.sum(FIRST, device.data), 0b11, "it is free before a third is admitted");
    // Nothing else was passed on.
    for job in [&one, &two, &three] {
        job.aggregator.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert!(job.aggregator.recv(&mut [0; 8]).is_err(), "job {}", job.number);
    }
}
