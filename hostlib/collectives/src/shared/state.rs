//! The state that a rank and its aborters share: the mapping, and the failure of the group.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::shared::error::SharedError;
use crate::shared::layout::{Layout, MESSAGE_BYTES_MAX};
use crate::shared::mapping::Mapping;
use crate::shared::{sys, wake};

/// Why a group has failed, as in its failure word: code in bits 0..8, rank in 8..24, length of the message in 32..64; 0 is no
/// failure. The first failure stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupFailure {
    Lost(u16),
    Stalled(u16),
    Corrupt(u16),
    /// Of rank 0, with a message.
    Network,
}

#[derive(Debug)]
pub(crate) struct GroupState {
    pub(crate) mapping: Mapping,
    pub(crate) aborted: AtomicBool,
    layout: Layout,
}

impl GroupState {
    pub(crate) fn new(mapping: Mapping, layout: Layout) -> Self {
        Self { mapping, aborted: AtomicBool::new(false), layout }
    }

    /// Fails the group, unless it has failed before, and wakes all ranks. Only rank 0 has messages.
    pub(crate) fn fail(&self, failure: GroupFailure, message: &[u8]) {
        let (code, rank) = match failure {
            GroupFailure::Lost(rank) => (1u64, rank),
            GroupFailure::Stalled(rank) => (2, rank),
            GroupFailure::Corrupt(rank) => (3, rank),
            GroupFailure::Network => (4, 0),
        };
        let message = &message[..message.len().min(MESSAGE_BYTES_MAX)];
        for (index, bytes) in message.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let at = Layout::MESSAGE_AT + index * 8;
            self.mapping.long(at).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        let word = code | u64::from(rank) << 8 | (message.len() as u64) << 32;
        let failure = self.mapping.long(Layout::FAILURE_AT);
        // If another failure was first, all ranks report that one.
        let _ = failure.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire);
        for rank in 0..self.layout.world {
            sys::futex_wake(self.mapping.word(Layout::step(rank)));
            sys::futex_wake(self.mapping.word(Layout::joined(rank)));
        }
    }

    /// Why the group has failed, if it has, as rank `me` sees it.
    pub(crate) fn check(&self, me: u16) -> Result<(), SharedError> {
        let word = self.mapping.long(Layout::FAILURE_AT).load(Ordering::Acquire);
        if word == 0 {
            return Ok(());
        }
        Err(self.failure(me, word))
    }

    #[cold]
    fn failure(&self, me: u16, word: u64) -> SharedError {
        if self.aborted.load(Ordering::SeqCst) {
            return SharedError::Aborted;
        }
        let local_rank = (word >> 8) as u16;
        match word & 0xff {
            _ if local_rank >= self.layout.world => SharedError::Corrupt { local_rank: me },
            1 => SharedError::PeerLost { local_rank },
            2 => SharedError::Stalled { local_rank },
            4 => SharedError::Network { message: self.message((word >> 32) as usize) },
            _ => SharedError::Corrupt { local_rank },
        }
    }

    fn message(&self, len: usize) -> Vec<u8> {
        let len = len.min(MESSAGE_BYTES_MAX);
        let words = (0..len.div_ceil(8)).map(|index| self.mapping.long(Layout::MESSAGE_AT + index * 8));
        let mut bytes: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        bytes.truncate(len);
        bytes
    }

    /// Sleeps until `peer` publishes a step, at most `slice`, if `awaited` returns true for its current step. Returns the step
    /// published then.
    pub(crate) fn sleep(&self, peer: u16, awaited: impl Fn(u32) -> bool, slice: Duration) -> u32 {
        let word = self.mapping.word(Layout::step(peer));
        let sleepers = self.mapping.word(Layout::sleepers(peer));
        wake::sleep(word, sleepers, awaited, slice)
    }
}
