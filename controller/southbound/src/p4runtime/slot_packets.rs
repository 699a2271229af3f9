//! ADVANCE and PROBE over a control port: slots are moved on, or read, by packets, which may be lost.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use netfold_wire::{Kind, Repr, header};

use super::control::ControlPort;
use netfold_controller::driver::{DriverError, SlotState};

/// Packets on their way at once. Below the depth of the shortest egress queue we know: 64 packets, in bmv2.
const WINDOW: usize = 32;

/// First retransmission timeout; it doubles with each retransmission.
const RETRANSMISSION_TIMEOUT: Duration = Duration::from_millis(100);

/// Times that one ADVANCE is sent before its slot counts as silent: 6.3 s.
const ADVANCES_MAX: u32 = 6;

/// The same of a PROBE: 1.5 s. Who reads slots reports a switch that does not answer, and a job's end waits for it.
const PROBES_MAX: u32 = 4;

/// Longest datagram of interest: answers are bare.
const BUFFER_LEN: usize = 256;

/// One (slot, set) whose answer is awaited.
struct Asked {
    sends: u32,
    again_at: Instant,
}

/// What is asked of each (slot, set).
#[derive(Clone, Copy)]
struct Question {
    kind: Kind,
    chunk: u32,
    epoch: u32,
    /// Comes back in every answer, so that late answers to an earlier round are not taken for this one's.
    nonce: u32,
    sends_max: u32,
}

/// The state of one question to a range of slots.
struct Round<'c> {
    control: &'c mut dyn ControlPort,
    question: Question,
    asked: BTreeMap<(u16, u8), Asked>,
    /// Takes each (slot, set)'s first answer.
    take: &'c mut dyn FnMut(&Repr),
    answered: u32,
}

/// Moves every set of the slots on to `chunk` and returns the newest chunk stored, as
/// [`netfold_controller::SwitchDriver::advance`] requires it. `nonce` is a number that no recent call had.
pub(crate) fn advance(
    control: &mut dyn ControlPort,
    nonce: u32,
    first_slot: u32,
    slots: u32,
    chunk: u32,
) -> Result<u32, DriverError> {
    let question = Question { kind: Kind::Advance, chunk, epoch: 0, nonce, sends_max: ADVANCES_MAX };
    let mut newest = None;
    let mut take = |answer: &Repr| newest = newest.max(Some(answer.chunk.wrapping_sub(chunk)));
    ask_all(control, question, (first_slot, slots), &mut take)?;
    let distance = newest.ok_or(DriverError::Silent { answered: 0, asked: 0 })?;
    Ok(chunk.wrapping_add(distance))
}

/// Releases what an epoch occupies of the slots, as [`netfold_controller::SwitchDriver::release`] requires it. `nonce` is a number that no recent call
/// had.
pub(crate) fn release(
    control: &mut dyn ControlPort,
    nonce: u32,
    (first_slot, slots): (u32, u32),
    epoch: u32,
) -> Result<(), DriverError> {
    let question = Question { kind: Kind::Advance, chunk: 0, epoch, nonce, sends_max: ADVANCES_MAX };
    ask_all(control, question, (first_slot, slots), &mut |_| {})
}

/// Reads every set of the slots, as [`netfold_controller::SwitchDriver::read_slots`] requires it. `nonce` is a number that no recent call had.
pub(crate) fn read_slots(
    control: &mut dyn ControlPort,
    nonce: u32,
    first_slot: u32,
    slots: u32,
) -> Result<Vec<SlotState>, DriverError> {
    let question = Question { kind: Kind::Probe, chunk: 0, epoch: 0, nonce, sends_max: PROBES_MAX };
    let mut read = Vec::with_capacity(2 * slots as usize);
    let mut take = |answer: &Repr| {
        let Repr { slot, set, chunk, bitmap, .. } = *answer;
        read.push(SlotState { slot: slot.into(), set, chunk, seen: bitmap });
    };
    ask_all(control, question, (first_slot, slots), &mut take)?;
    read.sort_by_key(|state| (state.slot, state.set));
    Ok(read)
}

/// Asks both sets of so many slots from the first on, until each has answered.
fn ask_all(
    control: &mut dyn ControlPort,
    question: Question,
    (first_slot, slots): (u32, u32),
    take: &mut dyn FnMut(&Repr),
) -> Result<(), DriverError> {
    let mut waiting: VecDeque<(u16, u8)> =
        (first_slot..first_slot + slots).flat_map(|slot| [(slot as u16, 0), (slot as u16, 1)]).collect();
    let asked = waiting.len() as u32;
    let mut round = Round { control, question, asked: BTreeMap::new(), take, answered: 0 };
    let unreachable = |error: io::Error| DriverError::Unreachable(Box::new(error));
    while !waiting.is_empty() || !round.asked.is_empty() {
        while round.asked.len() < WINDOW {
            let Some((slot, set)) = waiting.pop_front() else { break };
            round.ask(slot, set, 1).map_err(unreachable)?;
        }
        round.listen().map_err(unreachable)?;
        if !round.repeat().map_err(unreachable)? {
            return Err(DriverError::Silent { answered: round.answered, asked });
        }
    }
    Ok(())
}

impl Round<'_> {
    fn ask(&mut self, slot: u16, set: u8, sends: u32) -> io::Result<()> {
        let mut bytes = [0; header::LEN];
        request(slot, set, &self.question).emit(&mut header::Packet::new_unchecked(&mut bytes[..]));
        self.control.send(&bytes)?;
        let again_at = Instant::now() + RETRANSMISSION_TIMEOUT * (1 << (sends - 1).min(5));
        self.asked.insert((slot, set), Asked { sends, again_at });
        Ok(())
    }

    /// Takes answers until there is room for another packet, or one is due again.
    fn listen(&mut self) -> io::Result<()> {
        let Some(deadline) = self.asked.values().map(|asked| asked.again_at).min() else { return Ok(()) };
        let mut buffer = [0; BUFFER_LEN];
        let full = self.asked.len();
        while self.asked.len() == full {
            let Some(len) = self.control.receive(&mut buffer, deadline)? else { break };
            self.answer(&buffer[..len]);
            if Instant::now() >= deadline {
                break;
            }
        }
        Ok(())
    }

    fn answer(&mut self, datagram: &[u8]) {
        let Ok(packet) = header::Packet::new_checked(datagram) else { return };
        let Ok(repr) = Repr::parse(&packet) else { return };
        if repr.kind != self.question.kind || repr.job != 0 || repr.key != self.question.nonce {
            return;
        }
        if self.asked.remove(&(repr.slot, repr.set)).is_some() {
            self.answered += 1;
            (self.take)(&repr);
        }
    }

    /// Sends again what is due. False when something was sent often enough.
    fn repeat(&mut self) -> io::Result<bool> {
        let now = Instant::now();
        let due: Vec<_> = self.asked.iter().filter(|(_, asked)| asked.again_at <= now).collect();
        if due.iter().any(|(_, asked)| asked.sends >= self.question.sends_max) {
            return Ok(false);
        }
        let due: Vec<_> = due.into_iter().map(|(place, asked)| (*place, asked.sends + 1)).collect();
        for ((slot, set), sends) in due {
            self.ask(slot, set, sends)?;
        }
        Ok(true)
    }
}

fn request(slot: u16, set: u8, question: &Question) -> Repr {
    Repr {
        epoch: question.epoch,
        key: question.nonce,
        ..Repr::from_controller(question.kind, (slot, set), question.chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots that answer as the slot machine does, over a line that loses, repeats and delays packets.
    struct Line {
        stored: BTreeMap<(u16, u8), u32>,
        /// The epochs that occupy slots.
        occupants: BTreeMap<(u16, u8), u32>,
        answers: VecDeque<Vec<u8>>,
        /// Packet numbers that get lost.
        lose: fn(u32) -> bool,
        sent: u32,
        most: usize,
    }

    impl Line {
        fn new(lose: fn(u32) -> bool) -> Self {
            let (stored, occupants) = (BTreeMap::new(), BTreeMap::new());
            Self { stored, occupants, answers: VecDeque::new(), lose, sent: 0, most: 0 }
        }
    }

    impl ControlPort for Line {
        fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
            self.sent += 1;
            if (self.lose)(self.sent) {
                return Ok(());
            }
            let mut repr = Repr::parse(&header::Packet::new_checked(datagram).unwrap()).unwrap();
            let stored = self.stored.entry((repr.slot, repr.set)).or_default();
            if repr.kind == Kind::Advance && repr.chunk.wrapping_sub(*stored) as i32 > 0 {
                *stored = repr.chunk;
            }
            if repr.kind == Kind::Advance && self.occupants.get(&(repr.slot, repr.set)) == Some(&repr.epoch) {
                self.occupants.remove(&(repr.slot, repr.set));
            }
            (repr.chunk, repr.bitmap) = (*stored, u32::from(repr.slot) << 1);
            let mut bytes = vec![0; header::LEN];
            repr.emit(&mut header::Packet::new_unchecked(&mut bytes[..]));
            self.answers.push_back(bytes.clone());
            self.answers.push_back(bytes);
            self.most = self.most.max(self.answers.len());
            Ok(())
        }

        fn receive(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<Option<usize>> {
            let Some(answer) = self.answers.pop_front() else {
                std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
                return Ok(None);
            };
            buffer[..answer.len()].copy_from_slice(&answer);
            Ok(Some(answer.len()))
        }
    }

    #[test]
    fn every_slot_is_moved_in_spite_of_loss() {
        let mut line = Line::new(|number| number % 7 == 0);
        line.stored.insert((70, 1), 1000);
        assert_eq!(advance(&mut line, 1, 64, 64, 5).unwrap(), 1000);
        assert_eq!(line.stored.len(), 128);
        assert!(line.stored.iter().all(|(place, stored)| *stored == 5 || *place == (70, 1)));
        assert!(line.most <= 2 * WINDOW);
    }

    #[test]
    fn what_an_epoch_occupies_is_released_in_spite_of_loss() {
        let mut line = Line::new(|number| number % 7 == 0);
        line.occupants.extend((60..70).flat_map(|slot| [((slot, 0), 7), ((slot, 1), 8)]));
        release(&mut line, 1, (64, 64), 7).unwrap();
        let left: Vec<_> = line.occupants.keys().copied().collect();
        let others =
            (60..70).flat_map(|slot| if slot < 64 { vec![(slot, 0), (slot, 1)] } else { vec![(slot, 1)] });
        assert_eq!(left, others.collect::<Vec<_>>(), "those of another epoch, and slots out of the range");
        assert_eq!(line.stored.len(), 128, "all slots were asked");
    }

    #[test]
    fn answers_to_an_earlier_round_do_not_count() {
        let mut line = Line::new(|_| false);
        line.stored.insert((0, 0), 40);
        assert_eq!(advance(&mut line, 1, 0, 1, 0).unwrap(), 40);
        assert!(!line.answers.is_empty(), "duplicates are left over");
        assert_eq!(advance(&mut line, 2, 0, 1, 1 << 30).unwrap(), 1 << 30);
    }

    #[test]
    fn missing_answers_are_reported_with_their_number() {
        let mut line = Line::new(|number| number > 3);
        assert!(matches!(advance(&mut line, 1, 0, 2, 0), Err(DriverError::Silent { answered: 3, asked: 4 })));
    }

    #[test]
    fn slots_are_read_in_order_in_spite_of_loss_and_stay_as_they_are() {
        let mut line = Line::new(|number| number % 7 == 0);
        line.stored.insert((70, 1), 1000);
        let read = read_slots(&mut line, 3, 64, 64).unwrap();
        let places: Vec<_> = read.iter().map(|state| (state.slot, state.set)).collect();
        assert_eq!(places, (64..128).flat_map(|slot| [(slot, 0), (slot, 1)]).collect::<Vec<_>>());
        assert!(read.iter().all(|state| state.seen == state.slot << 1), "{read:?}");
        assert_eq!(read[13], SlotState { slot: 70, set: 1, chunk: 1000, seen: 140 });
        assert!(line.stored.iter().all(|(place, stored)| *stored == 0 || *place == (70, 1)));
        assert!(line.most <= 2 * WINDOW);
    }

    #[test]
    fn a_switch_that_answers_no_probe_is_given_up_soon() {
        let mut line = Line::new(|_| true);
        let begun = Instant::now();
        let read = read_slots(&mut line, 3, 0, 1);
        assert!(matches!(read, Err(DriverError::Silent { answered: 0, asked: 2 })), "{read:?}");
        assert_eq!(line.sent, 2 * PROBES_MAX);
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    }
}
