//! Going on without the switch: what an engine does when it has lost it, and the ranks still reach each other.
//!
//! A rank that loses the switch begins an agreement with the others, which look now and then whether anybody does, and lose it too. Each
//! tells all where its slots stand. The ranks then pass on the results that some have and others lack ([`crate::slot_positions`]), fold among themselves what
//! no rank has, and do every later operation among themselves. Nothing has to be submitted again; the caller learns of it
//! by the communicator's [path](crate::Path) and a line in the log.

use crate::error::Error;
use crate::peers::{AGREEMENT_TIMEOUT, Peers};
use crate::slot_positions::{Reconciliation, SlotPositions};
use crate::tensors::Tensors;

/// Whether ranks may go on without the switch after this error.
pub(crate) fn allows_failover(error: &Error) -> bool {
    !matches!(
        error,
        Error::Mismatch { .. } | Error::Closed | Error::Interrupted | Error::EngineFailed | Error::Thread(_)
    )
}

/// Settles with all ranks what is done of a stream, and passes on what some ranks lack. What is undone on all is left to do.
pub(crate) fn reconcile_slots(
    rank: u16,
    positions: impl Iterator<Item = u64>,
    tensors: &mut Tensors,
    peers: &mut dyn Peers,
) -> Result<Reconciliation, Error> {
    let mine = SlotPositions::new(positions).to_bytes();
    let all = peers.all_gather(&mine, AGREEMENT_TIMEOUT)?;
    let inconsistent = Error::Control { what: "a rank stands where it cannot in this job" };
    let positions: Option<Vec<SlotPositions>> =
        all.iter().map(|bytes| SlotPositions::from_bytes(bytes, mine.len() / 8)).collect();
    let reconciled = Reconciliation::of(&positions.ok_or(inconsistent)?, rank)?;
    repair(rank, &reconciled, tensors, peers)?;
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
