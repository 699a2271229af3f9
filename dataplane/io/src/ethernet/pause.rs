//! Priority-based flow control (PFC, IEEE Std 802.1Qbb-2011, clause 36 of IEEE Std 802.1Q): MAC control frames that ask a neighbour to send
//! nothing of some priorities for a time.
//!
//! ```text
//!   6 bytes   destination 01:80:c2:00:00:01, which bridges do not forward
//!   6         source
//!   2         type 0x8808, MAC control
//!   2         opcode 0x0101
//!   2         class-enable vector: bit p set where time p counts; the upper byte is 0
//!   8 x 2     times of priorities 0 to 7, in quanta of 512 bit times of the link; 0 resumes
//!   26        zeros, to the shortest frame
//! ```
//!
//! Numbers are big-endian. A request holds until its time is over, or until the next one for the same priority.

use std::time::{Duration, Instant};

use netfold_wire::PRIORITIES;

use crate::Paused;

/// The destination of all MAC control frames.
pub(super) const GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x01];
/// The type of MAC control frames.
pub(super) const MAC_CONTROL: [u8; 2] = [0x88, 0x08];
/// Length of a frame without its check sequence.
pub(super) const FRAME_LEN: usize = 60;

const OPCODE: [u8; 2] = [0x01, 0x01];
/// Where the opcode, the vector and the times begin, and the end of the times.
const OPCODE_AT: usize = 14;
const VECTOR_AT: usize = 16;
const TIMES_AT: usize = 18;
const END: usize = TIMES_AT + 2 * PRIORITIES as usize;

/// Bits of a quantum.
const QUANTUM_BITS: u64 = 512;
/// Bits a second of links whose rate is unknown.
const RATE_DEFAULT: u64 = 10_000_000_000;

/// The longest time that can be asked for, at a link of this rate.
pub(super) fn longest(bits_per_second: Option<u64>) -> Duration {
    duration(u16::MAX, bits_per_second)
}

fn duration(quanta: u16, bits_per_second: Option<u64>) -> Duration {
    let rate = bits_per_second.filter(|rate| *rate > 0).unwrap_or(RATE_DEFAULT);
    // Below 2^25 bits.
    Duration::from_nanos(u64::from(quanta) * QUANTUM_BITS * 1_000_000_000 / rate)
}

/// Writes a frame of [`FRAME_LEN`] bytes that pauses the priorities of one set of bits for the longest time and resumes those of another.
pub(super) fn write(frame: &mut [u8], source: [u8; 6], pause: u8, resume: u8) {
    frame.fill(0);
    frame[..6].copy_from_slice(&GROUP);
    frame[6..12].copy_from_slice(&source);
    frame[12..14].copy_from_slice(&MAC_CONTROL);
    frame[OPCODE_AT..VECTOR_AT].copy_from_slice(&OPCODE);
    frame[VECTOR_AT + 1] = pause | resume;
    for (priority, time) in frame[TIMES_AT..END].chunks_exact_mut(2).enumerate() {
        if pause >> priority & 1 == 1 {
            time.fill(0xff);
        }
    }
}

/// The times of a MAC control frame, in quanta, where they count; `None` for a frame that is no PFC frame, too short, or with bits that are
/// reserved.
fn parse(frame: &[u8]) -> Option<[Option<u16>; PRIORITIES as usize]> {
    let times = frame.get(TIMES_AT..END)?;
    if frame[..6] != GROUP || frame[OPCODE_AT..VECTOR_AT] != OPCODE || frame[VECTOR_AT] != 0 {
        return None;
    }
    let enabled = frame[VECTOR_AT + 1];
    let time = |priority: usize| u16::from_be_bytes([times[2 * priority], times[2 * priority + 1]]);
    Some(std::array::from_fn(|priority| (enabled >> priority & 1 == 1).then(|| time(priority))))
}

/// What neighbours have asked for.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Until when nothing of each priority is to be sent.
    until: [Option<Instant>; PRIORITIES as usize],
}

impl Pauses {
    /// Takes a MAC control frame; false when it is ignored.
    pub(super) fn read(&mut self, frame: &[u8], bits_per_second: Option<u64>, now: Instant) -> bool {
        let Some(times) = parse(frame) else { return false };
        for (until, time) in self.until.iter_mut().zip(times) {
            match time {
                None => {}
                Some(0) => *until = None,
                Some(quanta) => *until = Some(now + duration(quanta, bits_per_second)),
            }
        }
        true
    }

    /// The priorities that are paused, and until when at least one of them is.
    pub(super) fn paused(&mut self, now: impl FnOnce() -> Instant) -> Paused {
        if self.until.iter().all(Option::is_none) {
            return Paused::default();
        }
        let now = now();
        let mut paused = Paused::default();
        for (priority, until) in self.until.iter_mut().enumerate() {
            match *until {
                Some(at) if at > now => {
                    paused.priorities |= 1 << priority;
                    let left = at - now;
                    paused.left = if paused.left.is_zero() { left } else { paused.left.min(left) };
                }
                _ => *until = None,
            }
        }
        paused
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 9];

    fn frame(pause: u8, resume: u8) -> [u8; FRAME_LEN] {
        let mut frame = [0xa5; FRAME_LEN];
        write(&mut frame, SOURCE, pause, resume);
        frame
    }

    #[test]
    fn a_frame_has_the_format_of_the_standard() {
        let frame = frame(0b1000_0001, 0b0000_0010);
        let head = [0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0x01, 0x01, 0, 0b1000_0011];
        assert_eq!(frame[..18], head);
        let times = [0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        assert_eq!(frame[18..34], times);
        assert!(frame[34..].iter().all(|byte| *byte == 0) && frame.len() == 60);
    }

    #[test]
    fn requests_expire_are_renewed_and_are_withdrawn_each_for_itself() {
        let (begin, rate) = (Instant::now(), Some(512_000_000));
        let at = |us| begin + Duration::from_micros(us);
        let mut pauses = Pauses::default();
        let priorities = |pauses: &mut Pauses, us| pauses.paused(|| at(us)).priorities;
        assert_eq!(
            pauses.paused(|| unreachable!("no clock is read while nothing is paused")),
            Paused::default()
        );
        // A quantum is a microsecond at this rate.
        assert!(pauses.read(&frame(0b101, 0), rate, at(0)));
        assert_eq!(pauses.paused(|| at(535)).left, Duration::from_micros(65_000));
        assert_eq!(priorities(&mut pauses, 65_534), 0b101);
        assert!(pauses.read(&frame(0b100, 0), rate, at(60_000)));
        assert_eq!(priorities(&mut pauses, 65_535), 0b100, "the other was not renewed");
        assert!(pauses.read(&frame(0b001, 0b100), rate, at(70_000)));
        assert_eq!(priorities(&mut pauses, 70_001), 0b001);
        assert_eq!(priorities(&mut pauses, 200_000), 0, "nothing lasts for ever");
        let mut short = frame(0b10, 0);
        short[20..22].copy_from_slice(&7_u16.to_be_bytes());
        assert!(pauses.read(&short, rate, at(300_000)));
        assert_eq!((priorities(&mut pauses, 300_006), priorities(&mut pauses, 300_007)), (0b10, 0));
    }

    #[test]
    fn other_frames_have_no_effect() {
        let whole = frame(0xff, 0);
        let altered = |at: usize, byte: u8| {
            let mut frame = whole;
            frame[at] = byte;
            frame.to_vec()
        };
        // Unicast, the PAUSE of IEEE 802.3, another opcode, reserved bits of the vector, cut off.
        let frames =
            [altered(0, 2), altered(14, 0), altered(15, 2), altered(16, 1), whole[..33].to_vec(), Vec::new()];
        for frame in frames {
            let mut pauses = Pauses::default();
            assert!(!pauses.read(&frame, None, Instant::now()), "{frame:?}");
            assert_eq!(pauses.paused(Instant::now), Paused::default());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_pause_for_no_longer_than_a_frame_can_say(frame: Vec<u8>, header: bool, rate: Option<u64>) {
            let mut bytes = self::frame(0, 0);
            let from = if header { 0 } else { VECTOR_AT };
            let len = frame.len().min(FRAME_LEN - from);
            bytes[from..from + len].copy_from_slice(&frame[..len]);
            let (mut pauses, now) = (Pauses::default(), Instant::now());
            pauses.read(&bytes, rate, now);
            prop_assert!(pauses.paused(|| now).left <= longest(rate));
        }
    }
}
