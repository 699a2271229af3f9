//! The other ranks, reached without the switch, and what ranks agree on with them.

use netfold_wire::{DType, ReduceOp};
use std::time::Duration;

use netfold_proto::Descriptor;

use crate::error::Error;
use crate::lower::SwitchOperation;
use crate::mailbox::Mailbox;

/// How long ranks wait for each other to detect that the switch is lost: longer than a control session's lease.
pub(crate) const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(15);

/// The other ranks, reached without the switch. Every method that takes `&mut self` is a collective operation of all ranks.
pub(crate) trait Peers: Send {
    /// Every rank's bytes, by rank.
    fn all_gather(&mut self, mine: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error>;
    /// Replaces the bytes by the reduction over all ranks.
    fn all_reduce(&mut self, op: ReduceOp, dtype: DType, bytes: &mut [u8]) -> Result<(), Error>;
    /// Replaces the bytes by the root's.
    fn broadcast(&mut self, bytes: &mut [u8], root: u16) -> Result<(), Error>;
    /// Returns when all ranks have come.
    fn barrier(&mut self) -> Result<(), Error>;
    /// How long a reachable rank is waited for.
    fn stall_timeout(&self) -> Duration;
    /// Whether another rank waits for this one in a call. Does not block.
    fn is_called(&self) -> bool;
    /// Whether a call fails because a rank cannot be reached any more, where that is known. Does not block.
    fn has_lost_rank(&self) -> bool {
        false
    }
    /// Sleeps until something is put into the mailbox, at most `timeout`.
    fn sleep(&self, mailbox: &Mailbox<SwitchOperation>, timeout: Duration) {
        mailbox.wait(timeout);
    }
}

/// Checks that all ranks execute the same operation next.
pub(crate) fn check_same_op(mine: Descriptor, peers: &mut dyn Peers) -> Result<(), Error> {
    match negotiate(&Proposal { op: Some(mine), attachment: None }, peers)? {
        RoundOutcome::Execute => Ok(()),
        RoundOutcome::Rejoin | RoundOutcome::Retry => {
            Err(Error::Control { what: "a rank has no operation where all have one" })
        }
    }
}

/// What a rank without the switch proposes in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// The next operation; `None` where the caller has submitted none.
    pub(crate) op: Option<Descriptor>,
    /// The new attachment to a switch, if there is one: number and epoch of the job.
    pub(crate) attachment: Option<(u16, u32)>,
}

/// What follows from all ranks' proposals, the same on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundOutcome {
    /// All are attached again: the following operations use the switch.
    Rejoin,
    /// All execute the same operation now.
    Execute,
    /// Some have no operation yet: the others propose again.
    Retry,
}

impl Proposal {
    const LEN: usize = 16;

    fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        if let Some(op) = self.op {
            let [low, high] = op.to_words();
            bytes[0] = 1;
            bytes[1..5].copy_from_slice(&low.to_be_bytes());
            bytes[5..9].copy_from_slice(&high.to_be_bytes());
        }
        if let Some((job, epoch)) = self.attachment {
            bytes[9] = 1;
            bytes[10..12].copy_from_slice(&job.to_be_bytes());
            bytes[12..].copy_from_slice(&epoch.to_be_bytes());
        }
        bytes
    }
}

/// A round of proposals among all ranks.
pub(crate) fn negotiate(mine: &Proposal, peers: &mut dyn Peers) -> Result<RoundOutcome, Error> {
    let all = peers.all_gather(&mine.to_bytes(), peers.stall_timeout())?;
    let proposals: Option<Vec<&[u8; Proposal::LEN]>> =
        all.iter().map(|bytes| bytes.as_slice().try_into().ok()).collect();
    let proposals =
        proposals.ok_or(Error::Control { what: "a rank's proposal is impossible in this job" })?;
    let mine_bytes = mine.to_bytes();
    if mine.attachment.is_some() && proposals.iter().all(|proposal| proposal[9..] == mine_bytes[9..]) {
        return Ok(RoundOutcome::Rejoin);
    }
    if proposals.iter().any(|proposal| proposal[0] == 0) {
        return Ok(RoundOutcome::Retry);
    }
    if let Some(rank) = proposals.iter().position(|proposal| proposal[..9] != mine_bytes[..9]) {
        let theirs = proposals[rank];
        let word =
            |at: usize| u32::from_be_bytes([theirs[at], theirs[at + 1], theirs[at + 2], theirs[at + 3]]);
        let theirs = Descriptor::from_words([word(1), word(5)]).map(|theirs| theirs.to_string());
        let mine = mine.op.map(|mine| mine.to_string()).unwrap_or_default();
        return Err(Error::Mismatch { rank: Some(rank as u16), mine, theirs });
    }
    Ok(RoundOutcome::Execute)
}

/// The largest of all ranks' numbers.
pub(crate) fn agree_on_max(mine: u64, peers: &mut dyn Peers) -> Result<u64, Error> {
    let all = peers.all_gather(&mine.to_be_bytes(), AGREEMENT_TIMEOUT)?;
    let numbers = all.iter().filter_map(|bytes| bytes.as_slice().try_into().ok()).map(u64::from_be_bytes);
    Ok(numbers.max().unwrap_or(mine))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks with scripted proposals.
    struct Scripted(Vec<Proposal>);

    impl Peers for Scripted {
        fn all_gather(&mut self, mine: &[u8], _: Duration) -> Result<Vec<Vec<u8>>, Error> {
            Ok(std::iter::once(mine.to_vec())
                .chain(self.0.iter().map(|proposal| proposal.to_bytes().to_vec()))
                .collect())
        }
        fn all_reduce(&mut self, _: ReduceOp, _: DType, _: &mut [u8]) -> Result<(), Error> {
            unreachable!("only proposals")
        }
        fn broadcast(&mut self, _: &mut [u8], _: u16) -> Result<(), Error> {
            unreachable!("only proposals")
        }
        fn barrier(&mut self) -> Result<(), Error> {
            unreachable!("only proposals")
        }
        fn stall_timeout(&self) -> Duration {
            Duration::ZERO
        }
        fn is_called(&self) -> bool {
            false
        }
    }

    #[test]
    fn all_proposals_decide() {
        let sum = Descriptor { elements: 7, dtype: DType::F32, ..Descriptor::BARRIER };
        let proposal = |op, attachment| Proposal { op, attachment };
        let (idle, barrier) = (proposal(None, None), proposal(Some(Descriptor::BARRIER), None));
        let ready = proposal(None, Some((3, 9)));
        let outcome = |mine: Proposal, others: &[Proposal]| negotiate(&mine, &mut Scripted(others.to_vec()));
        assert_eq!(outcome(barrier, &[barrier, barrier]), Ok(RoundOutcome::Execute));
        assert_eq!(outcome(barrier, &[barrier, idle]), Ok(RoundOutcome::Retry));
        assert_eq!(outcome(idle, &[barrier, ready]), Ok(RoundOutcome::Retry));
        assert_eq!(outcome(ready, &[proposal(Some(sum), Some((3, 9))), ready]), Ok(RoundOutcome::Rejoin));
        assert_eq!(
            outcome(ready, &[proposal(None, Some((3, 10)))]),
            Ok(RoundOutcome::Retry),
            "another epoch"
        );
        let error = outcome(barrier, &[barrier, proposal(Some(sum), None)]).unwrap_err();
        assert!(matches!(&error, Error::Mismatch { rank: Some(2), theirs: Some(_), .. }), "{error}");
        assert_eq!(agree_on_max(5, &mut Scripted(vec![])), Ok(5));
    }
}
