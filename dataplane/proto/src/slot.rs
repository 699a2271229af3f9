//! The slots of a job as one worker sees them: at which stream position each is, and in which list.

use crate::Instant;

/// The state of a slot. A slot steps through positions `p`, `p + W`, `p + 2W` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// The stream does not reach the slot's position yet.
    Idle,
    /// The position's block exponent is not agreed yet, or its input is not there.
    Blocked,
    /// May be sent for the first time.
    Ready,
    /// Sent; neither acknowledged nor deemed lost.
    InFlight,
    /// Sent and deemed lost; to be retransmitted.
    Lost,
}

/// Why a slot became [`SlotState::Lost`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LossCause {
    /// The retransmission timer expired.
    Timeout,
    /// Chunks sent later were acknowledged first.
    Overtaken,
    /// Nothing was acknowledged for a while, and this was the oldest chunk.
    Probed,
    /// Its sum saturated, or its exponent was not predicted: it is not lost, but repeated at once, as another chunk.
    Repeated,
    /// Its result came before that of the operation's descriptor, and is requested again.
    Early,
    /// The switch reports that it has not received it.
    NotReceived,
    /// Enough ranks have contributed: the slot is to be closed.
    Quorum,
}

/// What a rank has done to close a slot without stragglers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClosingState {
    /// The last packet was a CLOSE, and the switch has not reported its contributors since.
    pub(crate) asked: bool,
    /// How many CLOSE packets were sent.
    pub(crate) asks: u32,
    /// The position is counted among those that this rank closed.
    pub(crate) counted: bool,
    /// Contributors that the switch reported, enough to close; 0 before its report.
    pub(crate) quorum: u32,
}

/// One slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// Position in the stream, counted from 0.
    pub(crate) position: u64,
    /// Chunk numbers by which the slot is ahead of its position: the window once for each chunk that was repeated.
    ahead: u32,
    /// The position's first result saturated or was mispredicted, and its second is awaited; the exponent that the first agreed on.
    pub(crate) redo: Option<u8>,
    /// The position's result came before that of the descriptor on which it depends.
    pub(crate) early: bool,
    /// Number of the operation that holds the position; meaningless while idle.
    pub(crate) op: u64,
    /// When the position was first sent.
    pub(crate) first_sent_at: Instant,
    /// When the position was last sent.
    pub(crate) sent_at: Instant,
    /// How often the position was sent.
    pub(crate) sends: u32,
    /// It was sent then behind another packet, at the same time.
    pub(crate) together: bool,
    /// The exponent proposed in that packet.
    pub(crate) proposed: u8,
    /// Why it is lost, if it is.
    pub(crate) loss: LossCause,
    /// The position was sent as one that may be trimmed.
    pub(crate) droppable: bool,
    /// The class of its packets, once it is chosen.
    pub(crate) class: Option<u8>,
    /// That is the lowest of its operation.
    pub(crate) lowest: bool,
    /// This rank's progress in closing it.
    pub(crate) closing: ClosingState,
    state: SlotState,
    prev: u16,
    next: u16,
}

impl Slot {
    pub(crate) fn state(&self) -> SlotState {
        self.state
    }
}

/// End of a list. Slots are numbered below 2^15.
const NIL: u16 = u16::MAX;

#[derive(Debug, Clone, Copy)]
struct List {
    head: u16,
    tail: u16,
    len: u32,
}

/// All slots, and three lists over them: ready, in flight and lost. The lists are threaded through the slots, so every
/// change is O(1) and nothing is allocated; the in-flight list is in order of send time because slots enter it only when
/// sent.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Box<[Slot]>,
    lists: [List; 3],
    first_chunk: u32,
}

impl Slots {
    /// `count` idle slots, each at its first position from `start` on. `count` is a power of two below 2^16. Position 0 has chunk number
    /// `first_chunk`.
    pub(crate) fn new(count: u32, first_chunk: u32, start: u64) -> Self {
        let first_index = first_chunk.wrapping_add(start as u32);
        let slots = (0..count)
            .map(|index| Slot {
                position: start + u64::from(index.wrapping_sub(first_index) & (count - 1)),
                ahead: 0,
                redo: None,
                early: false,
                op: 0,
                first_sent_at: Instant::ZERO,
                sent_at: Instant::ZERO,
                sends: 0,
                together: false,
                proposed: 0,
                loss: LossCause::Timeout,
                droppable: false,
                class: None,
                lowest: true,
                closing: ClosingState::default(),
                state: SlotState::Idle,
                prev: NIL,
                next: NIL,
            })
            .collect();
        Self { slots, lists: [List { head: NIL, tail: NIL, len: 0 }; 3], first_chunk }
    }

    pub(crate) fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The slot that holds or will hold `position`.
    pub(crate) fn at(&self, position: u64) -> u16 {
        self.index(self.first_chunk.wrapping_add(position as u32))
    }

    /// The chunk number under which a slot sends what it holds: numbers wrap at 2^32.
    pub(crate) fn chunk(&self, index: u16) -> u32 {
        let slot = self.slot(index);
        self.first_chunk.wrapping_add(slot.position as u32).wrapping_add(slot.ahead)
    }

    /// Schedules the slot's position to be sent once more, under the slot's next chunk number, with `exp_next` agreed already.
    pub(crate) fn again(&mut self, index: u16, exp_next: u8) {
        let window = self.count();
        let slot = self.slot_mut(index);
        slot.ahead = slot.ahead.wrapping_add(window);
        (slot.redo, slot.sends, slot.loss) = (Some(exp_next), 0, LossCause::Repeated);
        slot.class = None;
        self.shift(index, SlotState::Lost);
    }

    /// The slot of a chunk.
    pub(crate) fn index(&self, chunk: u32) -> u16 {
        (chunk & (self.count() - 1)) as u16
    }

    /// The set of a chunk.
    pub(crate) fn set(&self, chunk: u32) -> u8 {
        ((chunk / self.count()) & 1) as u8
    }

    pub(crate) fn slot(&self, index: u16) -> &Slot {
        &self.slots[usize::from(index)]
    }

    pub(crate) fn slot_mut(&mut self, index: u16) -> &mut Slot {
        &mut self.slots[usize::from(index)]
    }

    /// The slot that has been in `state` longest. `state` must have a list.
    pub(crate) fn front(&self, state: SlotState) -> Option<u16> {
        let head = self.lists[list_of(state)?].head;
        (head != NIL).then_some(head)
    }

    /// The slots in `state`, which must have a list, in the order in which they came to be.
    pub(crate) fn all(&self, state: SlotState) -> impl Iterator<Item = u16> {
        let some = |index: u16| (index != NIL).then_some(index);
        std::iter::successors(self.front(state), move |index| some(self.slot(*index).next))
    }

    /// Slots in `state`, which must have a list.
    pub(crate) fn len(&self, state: SlotState) -> u32 {
        list_of(state).map_or(0, |list| self.lists[list].len)
    }

    /// Puts a slot into `state`, at the back of that state's list.
    pub(crate) fn shift(&mut self, index: u16, state: SlotState) {
        if let Some(list) = list_of(self.slot(index).state) {
            self.unlink(index, list);
        }
        self.slot_mut(index).state = state;
        if let Some(list) = list_of(state) {
            self.push_back(index, list);
        }
    }

    fn unlink(&mut self, index: u16, list: usize) {
        let Slot { prev, next, .. } = *self.slot(index);
        match prev {
            NIL => self.lists[list].head = next,
            _ => self.slot_mut(prev).next = next,
        }
        match next {
            NIL => self.lists[list].tail = prev,
            _ => self.slot_mut(next).prev = prev,
        }
        self.lists[list].len -= 1;
    }

    fn push_back(&mut self, index: u16, list: usize) {
        let tail = self.lists[list].tail;
        let slot = self.slot_mut(index);
        (slot.prev, slot.next) = (tail, NIL);
        match tail {
            NIL => self.lists[list].head = index,
            _ => self.slot_mut(tail).next = index,
        }
        self.lists[list].tail = index;
        self.lists[list].len += 1;
    }
}

fn list_of(state: SlotState) -> Option<usize> {
    match state {
        SlotState::Idle | SlotState::Blocked => None,
        SlotState::Ready => Some(0),
        SlotState::InFlight => Some(1),
        SlotState::Lost => Some(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_wrap_with_slots_and_sets_in_step() {
        let mut slots = Slots::new(4, u32::MAX - 2, 0);
        let mut seen = Vec::new();
        for position in 0..8 {
            let index = slots.at(position);
            assert_eq!(slots.slot(index).position, position);
            let chunk = slots.chunk(index);
            assert_eq!(slots.index(chunk), index);
            seen.push((chunk, index, slots.set(chunk)));
            slots.slot_mut(index).position += 4;
        }
        assert_eq!(seen[..4], [(u32::MAX - 2, 1, 1), (u32::MAX - 1, 2, 1), (u32::MAX, 3, 1), (0, 0, 0)]);
        assert_eq!(seen[4..], [(1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 0, 1)]);
    }

    #[test]
    fn what_is_sent_again_keeps_its_slot_and_moves_on_by_a_window() {
        let mut slots = Slots::new(4, u32::MAX - 2, 0);
        slots.again(1, 77);
        assert_eq!((slots.slot(1).position, slots.slot(1).redo), (0, Some(77)));
        assert_eq!((slots.chunk(1), slots.set(slots.chunk(1)), slots.index(slots.chunk(1))), (1, 0, 1));
        assert_eq!(slots.chunk(2), u32::MAX - 1, "the others stay");
        let slot = slots.slot_mut(1);
        (slot.position, slot.redo) = (4, None);
        assert_eq!(slots.chunk(1), 5, "and it stays ahead");
        assert_eq!(slots.at(4), 1);
    }

    proptest! {
        #[test]
        fn lists_agree_with_queues(moves in proptest::collection::vec((0u16..8, 0usize..5), 0..200)) {
            let states = [SlotState::Idle, SlotState::Blocked, SlotState::Ready, SlotState::InFlight, SlotState::Lost];
            let mut slots = Slots::new(8, 0, 0);
            let mut model: Vec<Vec<u16>> = vec![Vec::new(); 5];
            model[0] = (0..8).collect();
            for (index, to) in moves {
                for queue in &mut model {
                    queue.retain(|other| *other != index);
                }
                model[to].push(index);
                slots.shift(index, states[to]);
                for (state, queue) in states.iter().zip(&model).skip(2) {
                    prop_assert_eq!(slots.len(*state) as usize, queue.len());
                    let mut walk = Vec::new();
                    let mut at = slots.front(*state);
                    while let Some(index) = at {
                        walk.push(index);
                        let next = slots.slot(index).next;
                        at = (next != NIL).then_some(next);
                    }
                    prop_assert_eq!(&walk, queue);
                }
            }
        }
    }
}
