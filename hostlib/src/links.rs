//! Links between ranks, over which a confidential job's tensors go encrypted.
//!
//! A collective of a confidential job becomes a few that only move bytes, of which all are encrypted: a reduction is an exchange in which
//! each rank collects its part of all tensors, the reduction of that part, and an exchange of the reduced parts. So the same bytes
//! cross the network as in a ring, and no rank sends anything that is not encrypted but the call's signature.
//!
//! The keystream is AES-256 in counter mode under the links' own key. A block is the encryption of the number of the exchange (64
//! bits), the sender (16 bits) and the block's number (48 bits), big-endian. All ranks number exchanges alike, so no sender uses a
//! keystream twice.

mod encrypted;
#[cfg(test)]
mod tests;

use netfold_collectives::mesh::{Mesh, MeshAborter, MeshError};
use netfold_collectives::{Buffers, Collective, DType, ReduceOp};
use std::sync::Arc;
use std::time::Instant;

use crate::confidential::Key;
use crate::error::Error;
use encrypted::{Cipher, EncryptedCall, Tensors};

/// A mesh, and the cipher of a confidential job.
pub(crate) struct Links {
    mesh: Mesh,
    /// The job's ranks, in order of the mesh's.
    ranks: Vec<u16>,
    cipher: Option<Cipher>,
}

/// A call among the ranks, as they compare it before they exchange data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Signature {
    collective: Collective,
    dtype: DType,
    op: ReduceOp,
    /// Bytes of the call's tensor: sent by each rank in an all-gather, for each rank in a reduce-scatter or all-to-all.
    bytes: u64,
}

impl Links {
    /// Links over `mesh`, whose ranks are these of the job. With a key everything that calls move is encrypted.
    pub(crate) fn new(mesh: Mesh, ranks: Vec<u16>, key: Option<&Key>) -> Self {
        Self { mesh, ranks, cipher: key.map(Cipher::new) }
    }

    pub(crate) fn aborter(&self) -> MeshAborter {
        self.mesh.aborter()
    }

    /// Whether another rank waits for this one in a call. Does not block.
    pub(crate) fn is_called(&self) -> bool {
        self.mesh.is_called()
    }

    pub(crate) fn has_lost_rank(&self) -> bool {
        self.mesh.has_lost_rank()
    }

    /// Every rank's bytes, by rank, in clear: for what is no secret.
    pub(crate) fn all_gather_bytes(&mut self, mine: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, Error> {
        self.mesh.all_gather_bytes(mine, deadline).map_err(|error| mesh_error(error, &self.ranks))
    }

    /// Any collective; its sizes are those of [`Mesh::run`].
    pub(crate) fn run(
        &mut self,
        collective: Collective,
        dtype: DType,
        op: ReduceOp,
        buffers: Buffers<'_>,
    ) -> Result<(), Error> {
        let Self { mesh, ranks, cipher } = self;
        let Some(cipher) = cipher.as_mut().filter(|_| collective != Collective::Barrier && mesh.world() > 1)
        else {
            return mesh.run(collective, dtype, op, buffers).map_err(|error| mesh_error(error, ranks));
        };
        let mut tensors = Tensors::new(collective, (mesh.rank(), mesh.world()), buffers);
        let signature = Signature { collective, dtype, op, bytes: tensors.len as u64 };
        compare(mesh, &signature, ranks)?;
        let mut call = EncryptedCall { mesh, cipher, tensors: &mut tensors };
        call.run(collective, dtype, op).map_err(|error| mesh_error(error, ranks))
    }
}

/// The mesh's error in terms of the job.
pub(crate) fn mesh_error(error: MeshError, ranks: &[u16]) -> Error {
    let named = |place: u16| ranks.get(usize::from(place)).copied().unwrap_or(place);
    match error {
        MeshError::Mismatch { rank, mine, theirs } => Error::Mismatch {
            rank: Some(named(rank)),
            mine: mine.to_string(),
            theirs: Some(theirs.to_string()),
        },
        MeshError::PeerLost { rank, why } => Error::PeerLost {
            rank: named(rank),
            message: format!("{why}; build a new communicator without it"),
        },
        MeshError::Deadline { rank } => Error::PeerLost {
            rank: named(rank),
            message: "it did not answer in time; build a new communicator without it".into(),
        },
        MeshError::Aborted => Error::Interrupted,
        MeshError::Unusable(cause) => mesh_error((*cause).clone(), ranks),
        other => Error::Mesh(Arc::new(other)),
    }
}

/// Checks that all ranks make the same call.
fn compare(mesh: &mut Mesh, mine: &Signature, ranks: &[u16]) -> Result<(), Error> {
    let own = mine.to_bytes();
    let mut all = vec![0; own.len() * ranks.len()];
    mesh.all_gather(DType::U8, &own, &mut all).map_err(|error| mesh_error(error, ranks))?;
    match all.as_chunks::<{ Signature::LEN }>().0.iter().position(|theirs| *theirs != own) {
        None => Ok(()),
        Some(at) => Err(Error::Mismatch {
            rank: ranks.get(at).copied(),
            mine: mine.to_string(),
            theirs: all
                .as_chunks()
                .0
                .get(at)
                .and_then(Signature::from_bytes)
                .map(|theirs| theirs.to_string()),
        }),
    }
}

impl Signature {
    const LEN: usize = 13;

    /// Collective, root (2), element type, reduction, bytes (8), big-endian.
    fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.collective.code();
        bytes[1..3].copy_from_slice(&self.collective.root().unwrap_or(0).to_be_bytes());
        bytes[3] = self.dtype.code();
        // Nothing is reduced by the others, whatever their callers pass.
        bytes[4] = if self.collective.reduces() { self.op.code() } else { 0 };
        bytes[5..].copy_from_slice(&self.bytes.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let [collective, high, low, dtype, op, bytes @ ..] = *bytes;
        Some(Self {
            collective: Collective::from_code(collective, u16::from_be_bytes([high, low]))?,
            dtype: DType::from_code(dtype)?,
            op: ReduceOp::from_code(op)?,
            bytes: u64::from_be_bytes(bytes),
        })
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { collective, dtype, op, bytes } = self;
        write!(f, "{}({bytes} bytes of {dtype}", collective.name())?;
        if collective.reduces() {
            write!(f, ", {op}")?;
        }
        if let Some(root) = collective.root() {
            write!(f, ", root {root}")?;
        }
        f.write_str(")")
    }
}
