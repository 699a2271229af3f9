//! Authenticated jobs: the results of plain ones, whatever the network does, and nothing of what an attacker on the path sends.

use std::time::Duration;

use netfold::{Builder, Mode, ReduceOp};
use netfold_embedded::EmbeddedSwitch;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::{IoError, Middleware, PacketIo, Received, RxBatch};
use netfold_testkit::job::CheckedSum;
use netfold_wire::{Flags, Kind, Packet, header};

use super::losses::expect_rejoin;
use super::test_controller::TestController;
use super::trees::{everything, switches};
use super::{job, linked_job};

const GRACE: Duration = Duration::from_secs(20);

#[test]
fn results_are_those_of_a_plain_job() {
    let (switches, controller) = switches(2);
    for trees in [1, 2] {
        let run = |authenticated: bool| {
            let build = |builder: Builder| {
                builder.mode(Mode::Bfp16).trees(trees).classes(2).authenticated(authenticated)
            };
            linked_job(3, controller.address(), build, |comm| {
                let bits = everything(&comm);
                assert_eq!((comm.path().name(), comm.path().lost), ("switch", vec![]));
                comm.leave().unwrap();
                bits
            })
        };
        assert!(run(true) == run(false), "{trees} trees");
    }
    for switch in &switches {
        let counters = switch.counters().unwrap();
        assert!(counters.results > 1000 && counters.io.unauthenticated == 0, "{counters:?}");
    }
}

/// Checked sums on every rank; returns the retransmissions of all.
fn sums(controller: &TestController, build: impl Fn(Builder) -> Builder + Sync) -> u64 {
    let retransmitted = job(4, controller.address(), build, |comm| {
        for operation in 0..4 {
            let sum = CheckedSum { world: 4, elements: 100_000, operation };
            let mut tensor = sum.contribution(comm.rank());
            comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
            sum.verify(comm.rank(), &tensor);
        }
        let retransmitted = comm.stats().worker.retransmitted;
        comm.leave().unwrap();
        retransmitted
    });
    retransmitted.iter().sum()
}

/// Four workers, one packet in a hundred lost and one in a hundred delivered with two wrong bits that the UDP checksum does not show, on
/// either side; others repeated or overtaken. No element is wrong, and no job ends.
#[test]
fn corruption_that_checksums_do_not_show_is_loss() {
    const FAULTS: &str = "loss=0.01,undetected=0.01,duplicate=0.01,reorder=0.02,seed=7";
    let faulty = |io| Box::new(Faulty::new(io, FAULTS.parse::<FaultConfig>().unwrap())) as Box<dyn PacketIo>;
    let switch = EmbeddedSwitch::builder().middleware(move |io| Ok(faulty(io))).start().unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    for mode in [Mode::I32, Mode::Bfp16] {
        let retransmitted = sums(&controller, |builder| builder.mode(mode).authenticated(true));
        assert!(retransmitted > 50, "{retransmitted} retransmissions: packets were lost");
    }
    let counters = switch.counters().unwrap();
    assert!(counters.io.unauthenticated > 20, "{counters:?}");
}

/// What was under way when the switch was lost, and what comes later under other keys, is right.
#[test]
fn ranks_that_lost_their_switch_rejoin() {
    expect_rejoin(9, |builder| builder.authenticated(true));
}

/// What is changed in a packet.
type Change<'a> = &'a dyn Fn(&mut Packet<&mut [u8]>);

/// An attacker that sees each packet before it arrives, and sends forgeries before it, from its sender's address.
struct Attacker {
    inner: Box<dyn PacketIo>,
    batch: RxBatch,
    forged: u64,
}

impl Attacker {
    fn new(inner: Box<dyn PacketIo>) -> Self {
        let batch = PacketIo::capabilities(&inner).batch();
        Self { inner, batch, forged: 0 }
    }

    /// The forgeries of a packet: each has all that a header shows, job, epoch and key included.
    fn forge(&mut self, packet: &Received, batch: &mut RxBatch) {
        let original = self.batch.bytes(packet).to_vec();
        let Ok(view) = Packet::new_checked(&original[..]) else { return };
        if ![Kind::Data as u8, Kind::Result as u8].contains(&view.kind()) {
            return;
        }
        let (chunk, slot, exp) = (view.chunk(), view.slot(), view.exp());
        let changes: [Change<'_>; 6] = [
            &|view| view.payload_mut().iter_mut().for_each(|byte| *byte ^= 0x11),
            &|view| view.set_chunk(chunk.wrapping_add(1 << 20)),
            &|view| view.set_chunk(chunk.wrapping_add(1)),
            &|view| view.set_slot(slot ^ 1),
            &|view| view.set_exp(exp ^ 3),
            &|view| view.set_flags(Flags::BARE),
        ];
        for change in changes {
            let mut forgery = original.clone();
            change(&mut Packet::new_unchecked(&mut forgery[..]));
            self.forged += u64::from(batch.push(packet.port, &forgery, packet.ecn));
        }
        // Without lanes and tag, as it would be of a job without tags; and a CLOSE of its slot.
        let mut close = original[..header::LEN].to_vec();
        self.forged += u64::from(batch.push(packet.port, &close, packet.ecn));
        close[0] = close[0] & 0xf0 | Kind::Close as u8;
        self.forged += u64::from(batch.push(packet.port, &close, packet.ecn));
    }
}

impl Middleware for Attacker {
    type Inner = dyn PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.inner
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let received = PacketIo::receive(&mut self.inner, &mut self.batch)?;
        batch.clear();
        for at in 0..self.batch.len() {
            let packet = self.batch.packets()[at];
            // One in eight, so that batches have room for the originals.
            if at % 8 == 0 {
                self.forge(&packet, batch);
            }
            if !batch.push(packet.port, self.batch.bytes(&packet), packet.ecn) {
                break;
            }
        }
        Ok(received)
    }
}

/// The attacker is in front of the switch and of each worker.
fn attacked(authenticated: bool) -> (u64, bool) {
    let wrap = |io| Ok(Box::new(Attacker::new(io)) as Box<_>);
    let switch = EmbeddedSwitch::builder().middleware(wrap).start().unwrap();
    let controller = TestController::start(vec![switch.control()], GRACE, None);
    let build = |builder: Builder| {
        let builder =
            builder.mode(Mode::I32).authenticated(authenticated).stall_timeout(Duration::from_secs(20));
        builder.middleware(|io| Box::new(Attacker::new(io)) as Box<_>)
    };
    let right = job(3, controller.address(), build, |comm| {
        let sum = CheckedSum { world: 3, elements: 100_000, operation: 1 };
        let mut tensor = sum.contribution(comm.rank());
        let reduced = comm.all_reduce(&mut tensor, ReduceOp::Sum);
        let right = reduced.is_ok() && sum.is_right(&tensor);
        // In a plain job, the others fail with the first of them.
        let _ = comm.leave();
        right
    });
    (switch.counters().unwrap().io.unauthenticated, right.into_iter().all(|right| right))
}

#[test]
fn forgeries_of_an_attacker_on_the_path_change_nothing() {
    let (dropped, right) = attacked(true);
    assert!(right && dropped > 100, "{dropped} dropped");
}

/// The attack works: a plain job does not survive it.
#[test]
fn a_plain_job_is_changed_by_the_same_forgeries() {
    let (dropped, right) = attacked(false);
    assert!(!right && dropped == 0);
}
