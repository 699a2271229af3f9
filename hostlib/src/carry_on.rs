//! Going on without the switch: what an engine does when it has lost it, and the ranks still reach each other.
//!
//! Every rank that loses the switch hangs up its control session, so that the others lose it too, and tells all where its
//! slots stand. The ranks then pass on the results that some have and others lack ([`crate::standing`]), fold among themselves what
//! no rank has, and do every later operation among themselves. Nothing has to be submitted again; the caller learns of it
//! by the communicator's [path](crate::Path) and a line in the log.

use std::time::Duration;

use netfold_proto::{DType, Descriptor};
use netfold_reduce::ReduceOp;

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
    let bytes = |[low, high]: [u32; 2]| (u64::from(high) << 32 | u64::from(low)).to_be_bytes();
    let all = peers.all_gather(&bytes(mine.to_words()), peers.patience())?;
    for (rank, theirs) in all.iter().enumerate() {
        if theirs[..] != bytes(mine.to_words()) {
            let word = <[u8; 8]>::try_from(&theirs[..]).map(u64::from_be_bytes).ok();
            let theirs = word.and_then(|word| Descriptor::from_words([word as u32, (word >> 32) as u32]));
            let theirs = theirs.map(|theirs| theirs.to_string());
            return Err(Error::Mismatch { rank: Some(rank as u16), mine: mine.to_string(), theirs });
        }
    }
    Ok(())
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
