//! Going on without the switch: what an engine does when it has lost it, and the ranks still reach each other.
//!
//! A rank that loses the switch begins an agreement with the others, which look now and then whether anybody does, and lose it too. Each
//! tells all where its slots stand. The ranks then pass on the results that some have and others lack ([`crate::standing`]), fold among themselves what
//! no rank has, and do every later operation among themselves. Nothing has to be submitted again; the caller learns of it
//! by the communicator's [path](crate::Path) and a line in the log.

use std::time::Duration;

use netfold_collectives::ReduceOp;
use netfold_proto::{DType, Descriptor};

use crate::error::Error;
use crate::standing::{Standing, Verdict};
use crate::tensors::Tensors;

/// How long ranks wait for each other to notice that the switch is lost: longer than a control session's lease.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(15);

/// The other ranks, reached without the switch. Every method is a collective operation of all ranks.
pub(crate) trait Peers: Send {
    /// Every rank's bytes, by rank.
    fn all_gather(&mut self, mine: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error>;
    /// Replaces the bytes by the fold over all ranks.
    fn all_reduce(&mut self, op: ReduceOp, dtype: DType, bytes: &mut [u8]) -> Result<(), Error>;
    /// Replaces the bytes by the root's.
    fn broadcast(&mut self, bytes: &mut [u8], root: u16) -> Result<(), Error>;
    /// Returns when all ranks have come.
    fn barrier(&mut self) -> Result<(), Error>;
    /// How long a rank that lives is waited for.
    fn patience(&self) -> Duration;
    /// Whether another rank waits for this one in a call. Does not block.
    fn are_calling(&self) -> bool;
}

/// Whether ranks may go on without the switch after this error.
pub(crate) fn spares_the_ranks(error: &Error) -> bool {
    !matches!(
        error,
        Error::Mismatch { .. } | Error::Closed | Error::Interrupted | Error::EngineFailed | Error::Thread(_)
    )
}

/// Settles with all ranks what is done of a stream, and passes on what some ranks lack. What is undone on all is left to do.
pub(crate) fn agree(
    rank: u16,
    positions: impl Iterator<Item = u64>,
    tensors: &mut Tensors,
    peers: &mut dyn Peers,
) -> Result<Verdict, Error> {
    let mine = Standing::new(positions).to_bytes();
    let all = peers.all_gather(&mine, AGREEMENT_TIMEOUT)?;
    let torn = Error::Control { what: "a rank stands where it cannot in this job" };
    let standings: Option<Vec<Standing>> =
        all.iter().map(|bytes| Standing::from_bytes(bytes, mine.len() / 8)).collect();
    let verdict = Verdict::of(&standings.ok_or(torn)?, rank)?;
    repair(rank, &verdict, tensors, peers)?;
    Ok(verdict)
}

/// Makes sure that all ranks do the same operation next.
pub(crate) fn compare(mine: Descriptor, peers: &mut dyn Peers) -> Result<(), Error> {
    match round(&Card { op: Some(mine), place: None }, peers)? {
        Round::Do => Ok(()),
        Round::Return | Round::Again => {
            Err(Error::Control { what: "a rank has nothing to do where all have" })
        }
    }
}

/// What a rank that does without the switch says in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Card {
    /// What it would do next; nothing yet, where its caller has submitted nothing.
    pub(crate) op: Option<Descriptor>,
    /// The new place at a switch that it has: number and epoch of the job.
    pub(crate) place: Option<(u16, u32)>,
}

/// What all ranks' cards come to, the same on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// All have a place again: everything from here on goes to it.
    Return,
    /// All do the same operation now.
    Do,
    /// Some have nothing to do yet: those that have ask again.
    Again,
}

impl Card {
    const LEN: usize = 16;

    fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        if let Some(op) = self.op {
            let [low, high] = op.to_words();
            bytes[0] = 1;
            bytes[1..5].copy_from_slice(&low.to_be_bytes());
            bytes[5..9].copy_from_slice(&high.to_be_bytes());
        }
        if let Some((job, epoch)) = self.place {
            bytes[9] = 1;
            bytes[10..12].copy_from_slice(&job.to_be_bytes());
            bytes[12..].copy_from_slice(&epoch.to_be_bytes());
        }
        bytes
    }
}

/// A round of cards among all ranks.
pub(crate) fn round(mine: &Card, peers: &mut dyn Peers) -> Result<Round, Error> {
    let all = peers.all_gather(&mine.to_bytes(), peers.patience())?;
    let cards: Option<Vec<&[u8; Card::LEN]>> =
        all.iter().map(|bytes| bytes.as_slice().try_into().ok()).collect();
    let cards = cards.ok_or(Error::Control { what: "a rank says what it cannot in this job" })?;
    let mine_bytes = mine.to_bytes();
    if mine.place.is_some() && cards.iter().all(|card| card[9..] == mine_bytes[9..]) {
        return Ok(Round::Return);
    }
    if cards.iter().any(|card| card[0] == 0) {
        return Ok(Round::Again);
    }
    if let Some(rank) = cards.iter().position(|card| card[..9] != mine_bytes[..9]) {
        let theirs = cards[rank];
        let word =
            |at: usize| u32::from_be_bytes([theirs[at], theirs[at + 1], theirs[at + 2], theirs[at + 3]]);
        let theirs = Descriptor::from_words([word(1), word(5)]).map(|theirs| theirs.to_string());
        let mine = mine.op.map(|mine| mine.to_string()).unwrap_or_default();
        return Err(Error::Mismatch { rank: Some(rank as u16), mine, theirs });
    }
    Ok(Round::Do)
}

/// The largest of all ranks' numbers.
pub(crate) fn largest(mine: u64, peers: &mut dyn Peers) -> Result<u64, Error> {
    let all = peers.all_gather(&mine.to_be_bytes(), AGREEMENT_TIMEOUT)?;
    let numbers = all.iter().filter_map(|bytes| bytes.as_slice().try_into().ok()).map(u64::from_be_bytes);
    Ok(numbers.max().unwrap_or(mine))
}

/// Passes on the results that some ranks have and others lack: one broadcast for each rank that holds any.
fn repair(rank: u16, verdict: &Verdict, tensors: &mut Tensors, peers: &mut dyn Peers) -> Result<(), Error> {
    for group in verdict.repairs.chunk_by(|a, b| a.holder == b.holder) {
        // Every rank had its share in these chunks, so each knows which of them are data, and how long they are.
        let mut bytes = Vec::new();
        for repair in group {
            bytes.extend_from_slice(tensors.result_at(repair.position).unwrap_or_default());
        }
        if bytes.is_empty() {
            continue;
        }
        peers.broadcast(&mut bytes, group[0].holder)?;
        let mut from = &bytes[..];
        for repair in group {
            let len = tensors.result_at(repair.position).map_or(0, <[u8]>::len);
            let (now, later) = from.split_at(len.min(from.len()));
            if repair.lacking
                && group[0].holder != rank
                && let Some(memory) = tensors.memory_at(repair.position)
            {
                let len = memory.len().min(now.len());
                memory[..len].copy_from_slice(&now[..len]);
            }
            from = later;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks whose cards are known beforehand.
    struct Scripted(Vec<Card>);

    impl Peers for Scripted {
        fn all_gather(&mut self, mine: &[u8], _: Duration) -> Result<Vec<Vec<u8>>, Error> {
            Ok(std::iter::once(mine.to_vec())
                .chain(self.0.iter().map(|card| card.to_bytes().to_vec()))
                .collect())
        }
        fn all_reduce(&mut self, _: ReduceOp, _: DType, _: &mut [u8]) -> Result<(), Error> {
            unreachable!("only cards")
        }
        fn broadcast(&mut self, _: &mut [u8], _: u16) -> Result<(), Error> {
            unreachable!("only cards")
        }
        fn barrier(&mut self) -> Result<(), Error> {
            unreachable!("only cards")
        }
        fn patience(&self) -> Duration {
            Duration::ZERO
        }
        fn are_calling(&self) -> bool {
            false
        }
    }

    #[test]
    fn all_cards_decide() {
        let sum = Descriptor { elements: 7, dtype: DType::F32, ..Descriptor::BARRIER };
        let card = |op, place| Card { op, place };
        let (idle, barrier) = (card(None, None), card(Some(Descriptor::BARRIER), None));
        let ready = card(None, Some((3, 9)));
        let outcome = |mine: Card, others: &[Card]| round(&mine, &mut Scripted(others.to_vec()));
        assert_eq!(outcome(barrier, &[barrier, barrier]), Ok(Round::Do));
        assert_eq!(outcome(barrier, &[barrier, idle]), Ok(Round::Again));
        assert_eq!(outcome(idle, &[barrier, ready]), Ok(Round::Again));
        assert_eq!(outcome(ready, &[card(Some(sum), Some((3, 9))), ready]), Ok(Round::Return));
        assert_eq!(outcome(ready, &[card(None, Some((3, 10)))]), Ok(Round::Again), "another epoch");
        let error = outcome(barrier, &[barrier, card(Some(sum), None)]).unwrap_err();
        assert!(matches!(&error, Error::Mismatch { rank: Some(2), theirs: Some(_), .. }), "{error}");
        assert_eq!(largest(5, &mut Scripted(vec![])), Ok(5));
    }
}
