//! Switches that make workers deliver results which they must repeat, because not all have predicted the agreed exponent: the simulator finds
//! every one.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};

use netfold_simulate::sim::{self, ReferenceSwitch, Scenario, SimSwitch};
use netfold_wire::{Kind, Packet};

/// What is tampered with: whether all ranks predicted the same, whether the agreed exponent is the predicted one, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Comparison,
    Agreement,
}

/// A right switch that tells every rank what it would find if the others had predicted as it did.
struct Tampering {
    switch: ReferenceSwitch,
    fault: Fault,
    world: u32,
    /// Of each rank's newest packet of each chunk, the exponent and the lanes.
    sent: HashMap<(u16, u32), (u8, Vec<u8>)>,
}

impl Tampering {
    /// Whether all ranks have sent a chunk by the same exponent.
    fn all_sent(&self, chunk: u32, exp: u8) -> bool {
        let sent = |rank: u32| self.sent.get(&(rank as u16, chunk));
        (0..self.world).all(|rank| sent(rank).is_some_and(|(other, _)| *other == exp))
    }
}

/// Where the sums of predictions are, in a world of fewer ranks than have room for a row each.
fn predictions(world: u32, lanes: usize) -> Range<usize> {
    let start = 8 * world as usize;
    start.min(lanes)..(start + 64).min(lanes)
}

impl SimSwitch for Tampering {
    fn process(&mut self, port: u16, datagram: &[u8], out: &mut Vec<(u16, Vec<u8>)>) {
        if let Ok(packet) = Packet::new_checked(datagram)
            && packet.kind() == Kind::Data as u8
        {
            self.sent.insert((port, packet.chunk()), (packet.exp(), packet.payload().to_vec()));
        }
        let start = out.len();
        self.switch.process(port, datagram, out);
        for (to, bytes) in &mut out[start..] {
            let packet = Packet::new_unchecked(&bytes[..]);
            let Some((exp, lanes)) = self.sent.get(&(*to, packet.chunk())) else { continue };
            if packet.kind() != Kind::Result as u8 {
                continue;
            }
            let at = bytes.len() - packet.payload().len();
            // A repetition proposes nothing.
            let proposes = packet.exp_next() != 0;
            // Descriptors and bare chunks have no exponent.
            match self.fault {
                Fault::Comparison if packet.exp() == 0 && packet.exp_next() == 0 && at < bytes.len() => {
                    for word in predictions(self.world, lanes.len()).step_by(4) {
                        let own = u32::from_be_bytes(lanes[word..word + 4].try_into().expect("a word"));
                        let all = own.wrapping_mul(self.world).to_be_bytes();
                        bytes[at + word..at + word + 4].copy_from_slice(&all);
                    }
                }
                Fault::Agreement
                    if *exp != 0 && *exp != 255 && proposes && self.all_sent(packet.chunk(), *exp) =>
                {
                    Packet::new_unchecked(&mut bytes[..]).set_exp_next(*exp);
                }
                _ => {}
            }
        }
    }

    fn digest(&self, slots: Range<u32>) -> u64 {
        self.switch.digest(slots)
    }

    fn slots(&self) -> u32 {
        self.switch.slots()
    }
}

fn verdict(fault: Fault) -> Option<String> {
    let suits = |scenario: &Scenario| scenario.predict && scenario.world <= 16;
    (0..200_u64).map(Scenario::from_seed).filter(suits).find_map(|mut scenario| {
        // Descriptors are then the only chunks without an exponent that have lanes.
        scenario.plans.retain(|plan| plan.may_be_predicted() || plan.spec.data_chunks == 0);
        let operations = scenario.plans.len();
        scenario.submissions.iter_mut().for_each(|times| times.truncate(operations));
        let [jobs] = &scenario.jobs()[..] else { panic!("one switch") };
        let switch = ReferenceSwitch::new(1024, scenario.lane_words, jobs);
        let world = scenario.world.into();
        let mut tampering = Tampering { switch, fault, world, sent: HashMap::new() };
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| sim::run(scenario, &mut tampering)));
        let message = outcome.err()?;
        Some(message.downcast_ref::<String>().cloned().unwrap_or_default())
    })
}

#[test]
fn nothing_is_found_where_predictions_are_left_alone() {
    assert_eq!(verdict(Fault::None), None);
}

/// What workers would do that look at their own prediction alone.
#[test]
fn a_result_of_different_predictions_that_is_delivered_is_found() {
    assert!(verdict(Fault::Comparison).is_some());
}

/// What workers would do that take any exponent on which all predictions agree.
#[test]
fn a_result_by_another_exponent_than_the_agreed_one_is_found() {
    let message = verdict(Fault::Agreement).expect("the fault is found");
    assert!(message.contains("exponent"), "found for another reason: {message}");
}
