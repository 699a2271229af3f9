//! ADVANCE over a control port: slots are moved on by packets, which may be lost.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Reason, Repr, header};

use super::control::ControlPort;
use netfold_controller::driver::DriverError;

/// ADVANCE packets on their way at once. Below the depth of the shortest egress queue we know: 64 packets, in bmv2.
const WINDOW: usize = 32;

/// First retransmission timeout; it doubles with each retransmission.
const RETRANSMISSION_TIMEOUT: Duration = Duration::from_millis(100);

/// Times that one packet is sent before its slot counts as silent.
const SENDS_MAX: u32 = 6;

/// Longest datagram of interest: answers are bare.
const BUFFER_LEN: usize = 256;

/// One (slot, set) whose answer is awaited.
struct Asked {
    sends: u32,
    again_at: Instant,
}

/// The state of one `advance`.
struct Round<'c> {
    control: &'c mut dyn ControlPort,
    chunk: u32,
    /// Comes back in every answer, so that late answers to an earlier round are not taken for this one's.
    nonce: u32,
    asked: BTreeMap<(u16, u8), Asked>,
    newest: Option<u32>,
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
    let mut waiting: VecDeque<(u16, u8)> =
        (first_slot..first_slot + slots).flat_map(|slot| [(slot as u16, 0), (slot as u16, 1)]).collect();
    let asked = waiting.len() as u32;
    let mut round = Round { control, chunk, nonce, asked: BTreeMap::new(), newest: None, answered: 0 };
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
    let distance = round.newest.ok_or(DriverError::Silent { answered: 0, asked })?;
    Ok(chunk.wrapping_add(distance))
}

impl Round<'_> {
    fn ask(&mut self, slot: u16, set: u8, sends: u32) -> io::Result<()> {
        let mut bytes = [0; header::LEN];
        request(slot, set, self.chunk, self.nonce).emit(&mut header::Packet::new_unchecked(&mut bytes[..]));
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
        if repr.kind != Kind::Advance || repr.job != 0 || repr.key != self.nonce {
            return;
        }
        if self.asked.remove(&(repr.slot, repr.set)).is_some() {
            self.answered += 1;
            self.newest = self.newest.max(Some(repr.chunk.wrapping_sub(self.chunk)));
        }
    }

    /// Sends again what is due. False when something was sent often enough.
    fn repeat(&mut self) -> io::Result<bool> {
        let now = Instant::now();
        let due: Vec<_> = self.asked.iter().filter(|(_, asked)| asked.again_at <= now).collect();
        if due.iter().any(|(_, asked)| asked.sends >= SENDS_MAX) {
            return Ok(false);
        }
        let due: Vec<_> = due.into_iter().map(|(place, asked)| (*place, asked.sends + 1)).collect();
        for ((slot, set), sends) in due {
            self.ask(slot, set, sends)?;
        }
        Ok(true)
    }
}

fn request(slot: u16, set: u8, chunk: u32, nonce: u32) -> Repr {
    Repr {
        kind: Kind::Advance,
        flags: Flags::BARE,
        op: LaneOp::Sum,
        class: 0,
        reason: Reason::None,
        job: 0,
        slot,
        set,
        epoch: 0,
        key: nonce,
        chunk,
        bitmap: 0,
        count: 0,
        exp: 0,
        exp_next: 0,
        owner: LaneOwner::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots that answer as the slot machine does, over a line that loses, repeats and delays packets.
    struct Line {
        stored: BTreeMap<(u16, u8), u32>,
        answers: VecDeque<Vec<u8>>,
        /// Packet numbers that get lost.
        lose: fn(u32) -> bool,
        sent: u32,
        most: usize,
    }

    impl Line {
        fn new(lose: fn(u32) -> bool) -> Self {
            Self { stored: BTreeMap::new(), answers: VecDeque::new(), lose, sent: 0, most: 0 }
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
            if repr.chunk.wrapping_sub(*stored) as i32 > 0 {
                *stored = repr.chunk;
            }
            repr.chunk = *stored;
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
}
