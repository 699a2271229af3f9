//! Failover: what an engine does when it has lost the switch and the ranks still reach each other.
//!
//! A rank that loses the switch starts an agreement with the others, which poll for that and then give the switch up too. Each sends its
//! slot positions to all. The ranks then pass on the results that some have and others lack ([`crate::slot_positions`]), reduce among
//! themselves what no rank has, or not the only one that was to receive it, and do every later operation among themselves. Callers submit nothing again; failover shows in the
//! communicator's [path](crate::Path) and in the log.

use netfold_control::Refusal;

use crate::error::Error;
use crate::peers::{AGREEMENT_TIMEOUT, Peers};
use crate::slot_positions::{OwnedChunk, Reconciliation, Repair, SlotPositions};
use crate::tensors::{Tensors, all_reduce};

/// Whether ranks may continue without the switch after this error. Not when the job was ended by a command.
pub(crate) fn allows_failover(error: &Error) -> bool {
    !matches!(
        error,
        Error::Mismatch { .. }
            | Error::Closed
            | Error::Interrupted
            | Error::EngineFailed
            | Error::Thread(_)
            | Error::Refused { reason: Refusal::Ended, .. }
    )
}

/// Agrees with all ranks which positions of a stream are done, and passes on the results that some ranks lack. What no rank has remains to
/// be done.
pub(crate) fn reconcile_slots(
    rank: u16,
    positions: impl Iterator<Item = u64>,
    tensors: &mut Tensors,
    peers: &mut dyn Peers,
) -> Result<Reconciliation, Error> {
    let mine = SlotPositions::new(positions).to_bytes();
    let all = peers.all_gather(&mine, AGREEMENT_TIMEOUT)?;
    let inconsistent = Error::Control { what: "a rank's slot positions are impossible in this job" };
    let positions: Option<Vec<SlotPositions>> =
        all.iter().map(|bytes| SlotPositions::from_bytes(bytes, mine.len() / 8)).collect();
    let reconciled = Reconciliation::of(positions.ok_or(inconsistent)?, rank)?;
    repair(rank, &reconciled, tensors, peers)?;
    reduce_again(rank, &reconciled, tensors, peers)?;
    Ok(reconciled)
}

/// Passes on the results that some ranks have and others lack: one broadcast for each rank that holds any.
fn repair(
    rank: u16,
    reconciled: &Reconciliation,
    tensors: &mut Tensors,
    peers: &mut dyn Peers,
) -> Result<(), Error> {
    for group in reconciled.repairs.chunk_by(|a, b| a.holder == b.holder) {
        // Every rank has contributed to these chunks, so each knows which of them are data, and how long they are.
        let mut bytes = Vec::new();
        let group: Vec<_> =
            group.iter().filter(|repair| tensors.owned_at(repair.position).is_none()).collect();
        for repair in &group {
            bytes.extend_from_slice(tensors.result_at(repair.position).unwrap_or_default());
        }
        if bytes.is_empty() {
            continue;
        }
        peers.broadcast(&mut bytes, group[0].holder)?;
        let mut from = &bytes[..];
        for repair in &group {
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

/// Reduces again what only one rank was to receive, where that rank lacks the result and others know that it was sent. Those may have given the
/// tensor back, and have kept their contributions.
fn reduce_again(
    rank: u16,
    reconciled: &Reconciliation,
    tensors: &mut Tensors,
    peers: &mut dyn Peers,
) -> Result<(), Error> {
    for Repair { position, lacking, .. } in &reconciled.repairs {
        let Some(OwnedChunk { owner, op, dtype }) = tensors.owned_at(*position) else { continue };
        if reconciled.has(owner, *position) {
            continue;
        }
        let mut bytes = tensors.contribution_at(*position, !lacking);
        all_reduce(peers, op, dtype, &mut bytes)?;
        tensors.take_again(*position, (rank == owner).then_some(&bytes[..]), *lacking);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
