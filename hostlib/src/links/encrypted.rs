//! A collective as exchanges of encrypted bytes.

use aes::Aes256Enc;
use aes::cipher::{Array, BlockCipherEncrypt as _, KeyInit as _, consts::U16};
use netfold_collectives::mesh::{Mesh, MeshError};
use netfold_collectives::reduce::{finish, reduce};
use netfold_collectives::{Buffers, Collective, DType, ReduceOp};
use std::ops::Range;

use crate::confidential::Key;

/// Bytes of a block of the cipher.
const BLOCK_LEN: usize = 16;

/// Blocks that are encrypted at a time.
const BATCH: usize = 32;

/// Bytes of a rank's tensor that are exchanged at a time: bounds the memory that it takes.
const PIECE_BYTES: usize = 4 << 20;

/// Encrypts and decrypts what ranks exchange.
pub(super) struct Cipher {
    aes: Aes256Enc,
    /// Exchanges begun.
    exchanges: u64,
    sent: Vec<u8>,
    received: Vec<u8>,
}

/// The tensors of a call.
pub(super) struct Tensors<'a> {
    buffers: Buffers<'a>,
    rank: usize,
    world: usize,
    /// Whether this rank's result is wanted.
    writes: bool,
    /// Where the input begins in a single buffer, and where the output does.
    at: (usize, usize),
    /// Bytes of the call's tensor: of one part, where there is one for each rank.
    pub(super) len: usize,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(collective: Collective, (rank, world): (u16, u16), buffers: Buffers<'a>) -> Self {
        let (index, count) = (usize::from(rank), usize::from(world));
        let is_root = collective.root().is_none_or(|root| root == rank);
        let len = match (&buffers, collective) {
            (
                Buffers::InPlace(bytes),
                Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll,
            ) => bytes.len() / count,
            (Buffers::InPlace(bytes), _) => bytes.len(),
            (Buffers::Split { output, .. }, Collective::Broadcast { .. }) if !is_root => output.len(),
            (Buffers::Split { input, .. }, Collective::ReduceScatter | Collective::AllToAll) => {
                input.len() / count
            }
            (Buffers::Split { input, .. }, _) => input.len(),
        };
        let at = match (&buffers, collective) {
            (Buffers::InPlace(_), Collective::AllGather) => (index * len, 0),
            (Buffers::InPlace(_), Collective::ReduceScatter) => (0, index * len),
            _ => (0, 0),
        };
        let writes = is_root || !matches!(collective, Collective::Reduce { .. });
        Self { buffers, rank: index, world: count, writes, at, len }
    }

    /// Bytes of the input.
    fn input(&self, range: Range<usize>) -> &[u8] {
        let all = match &self.buffers {
            Buffers::InPlace(bytes) => &bytes[self.at.0..],
            Buffers::Split { input, .. } => input,
        };
        &all[range]
    }

    /// Writes bytes of the output from `start` on.
    fn write(&mut self, start: usize, bytes: &[u8]) {
        let all = match &mut self.buffers {
            Buffers::InPlace(all) => &mut all[self.at.1..],
            Buffers::Split { output, .. } => &mut output[..],
        };
        // A broadcast's root may want no copy of its tensor.
        if let Some(to) = all.get_mut(start..start + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }
}

/// A call under way.
pub(super) struct EncryptedCall<'a, 'b> {
    pub(super) mesh: &'a mut Mesh,
    pub(super) cipher: &'a mut Cipher,
    pub(super) tensors: &'a mut Tensors<'b>,
}

impl EncryptedCall<'_, '_> {
    /// Does the call, which all ranks make.
    pub(super) fn run(
        &mut self,
        collective: Collective,
        dtype: DType,
        op: ReduceOp,
    ) -> Result<(), MeshError> {
        match collective {
            Collective::AllReduce | Collective::Reduce { .. } => self.all_reduce(dtype, op),
            Collective::ReduceScatter => self.reduce_scatter(dtype, op),
            Collective::AllGather => self.all_gather(),
            Collective::AllToAll => self.all_to_all(),
            Collective::Broadcast { root } => self.broadcast(root),
            Collective::Barrier => Ok(()),
        }
    }

    /// The pieces of a tensor of `len` bytes, each at most as long as memory is to be used, in whole elements.
    fn pieces(len: usize, most: usize, element: usize) -> impl Iterator<Item = Range<usize>> {
        let step = (most / element).max(1) * element;
        (0..len).step_by(step).map(move |start| start..len.min(start + step))
    }

    /// Reduces what all ranks have for this one, `part` bytes from each, which are in `received`; the result is at its beginning.
    fn reduce_received(&mut self, part: usize, dtype: DType, op: ReduceOp) -> Result<(), MeshError> {
        let (sum, others) = self.cipher.received.split_at_mut(part);
        for other in others.chunks_exact(part) {
            reduce(op, dtype, sum, other)?;
        }
        finish(op, dtype, sum, self.tensors.world as u32)?;
        Ok(())
    }

    fn all_reduce(&mut self, dtype: DType, op: ReduceOp) -> Result<(), MeshError> {
        let (world, element) = (self.tensors.world, dtype.size().max(1));
        for piece in Self::pieces(self.tensors.len, PIECE_BYTES, element) {
            let part = (piece.len() / element).div_ceil(world) * element;
            let sent = self.cipher.room(part * world);
            sent[..piece.len()].copy_from_slice(self.tensors.input(piece.clone()));
            sent[piece.len()..].fill(0);
            self.cipher.all_to_all(self.mesh, part)?;
            self.reduce_received(part, dtype, op)?;
            self.cipher.send_received(part);
            self.cipher.all_gather(self.mesh, part)?;
            if self.tensors.writes {
                self.tensors.write(piece.start, &self.cipher.received[..piece.len()]);
            }
        }
        Ok(())
    }

    /// Puts a range of each rank's part of the input one behind the other.
    fn collect_parts(&mut self, range: &Range<usize>) {
        let (world, len) = (self.tensors.world, self.tensors.len);
        let sent = self.cipher.room(range.len() * world);
        for (rank, to) in sent.chunks_exact_mut(range.len()).enumerate() {
            to.copy_from_slice(self.tensors.input(rank * len + range.start..rank * len + range.end));
        }
    }

    /// The reverse, of what was received.
    fn write_parts(&mut self, range: &Range<usize>) {
        let len = self.tensors.len;
        for (rank, part) in self.cipher.received.chunks_exact(range.len()).enumerate() {
            self.tensors.write(rank * len + range.start, part);
        }
    }

    fn reduce_scatter(&mut self, dtype: DType, op: ReduceOp) -> Result<(), MeshError> {
        let most = PIECE_BYTES / self.tensors.world;
        for range in Self::pieces(self.tensors.len, most, dtype.size().max(1)) {
            self.collect_parts(&range);
            self.cipher.all_to_all(self.mesh, range.len())?;
            self.reduce_received(range.len(), dtype, op)?;
            self.tensors.write(range.start, &self.cipher.received[..range.len()]);
        }
        Ok(())
    }

    fn all_to_all(&mut self) -> Result<(), MeshError> {
        for range in Self::pieces(self.tensors.len, PIECE_BYTES / self.tensors.world, 1) {
            self.collect_parts(&range);
            self.cipher.all_to_all(self.mesh, range.len())?;
            self.write_parts(&range);
        }
        Ok(())
    }

    fn all_gather(&mut self) -> Result<(), MeshError> {
        for range in Self::pieces(self.tensors.len, PIECE_BYTES / self.tensors.world, 1) {
            let sent = self.cipher.room(range.len());
            sent.copy_from_slice(self.tensors.input(range.clone()));
            self.cipher.all_gather(self.mesh, range.len())?;
            self.write_parts(&range);
        }
        Ok(())
    }

    fn broadcast(&mut self, root: u16) -> Result<(), MeshError> {
        for range in Self::pieces(self.tensors.len, PIECE_BYTES, 1) {
            let sent = self.cipher.room(range.len());
            if usize::from(root) == self.tensors.rank {
                sent.copy_from_slice(self.tensors.input(range.clone()));
            }
            self.cipher.broadcast(self.mesh, root)?;
            self.tensors.write(range.start, &self.cipher.sent);
        }
        Ok(())
    }
}

impl Cipher {
    pub(super) fn new(key: &Key) -> Self {
        Self { aes: Aes256Enc::new(key.bytes().into()), exchanges: 0, sent: Vec::new(), received: Vec::new() }
    }

    /// What was sent last, as it was sent.
    #[cfg(test)]
    pub(super) fn sent(&self) -> &[u8] {
        &self.sent
    }

    /// The next `len` bytes to send, of any content.
    fn room(&mut self, len: usize) -> &mut [u8] {
        self.sent.resize(len, 0);
        &mut self.sent
    }

    /// Sends the first `len` bytes received.
    fn send_received(&mut self, len: usize) {
        self.sent.clear();
        self.sent.extend_from_slice(&self.received[..len]);
    }

    /// Sends part *i* of `sent` to rank *i*, each `part` bytes, and receives the others' parts for this rank, all encrypted.
    fn all_to_all(&mut self, mesh: &mut Mesh, part: usize) -> Result<(), MeshError> {
        let (exchange, own) = (self.begin(), mesh.rank());
        let Self { aes, sent, received, .. } = self;
        apply(aes, (exchange, own), 0, sent);
        received.resize(sent.len(), 0);
        mesh.all_to_all(DType::U8, sent, received)?;
        for (from, bytes) in (0..).zip(received.chunks_exact_mut(part)) {
            apply(aes, (exchange, from), usize::from(own) * part, bytes);
        }
        Ok(())
    }

    /// Receives what all ranks have in `sent`, each `part` bytes, encrypted.
    fn all_gather(&mut self, mesh: &mut Mesh, part: usize) -> Result<(), MeshError> {
        let (exchange, own) = (self.begin(), mesh.rank());
        let Self { aes, sent, received, .. } = self;
        apply(aes, (exchange, own), 0, sent);
        received.resize(part * usize::from(mesh.world()), 0);
        mesh.all_gather(DType::U8, sent, received)?;
        for (from, bytes) in (0..).zip(received.chunks_exact_mut(part)) {
            apply(aes, (exchange, from), 0, bytes);
        }
        Ok(())
    }

    /// Replaces `sent` by the root's, encrypted on its way.
    fn broadcast(&mut self, mesh: &mut Mesh, root: u16) -> Result<(), MeshError> {
        let exchange = self.begin();
        let Self { aes, sent, .. } = self;
        if mesh.rank() == root {
            apply(aes, (exchange, root), 0, sent);
        }
        mesh.broadcast(DType::U8, root, sent)?;
        apply(aes, (exchange, root), 0, sent);
        Ok(())
    }

    /// Numbers the next exchange.
    fn begin(&mut self) -> u64 {
        self.exchanges += 1;
        self.exchanges
    }
}

/// Adds a sender's keystream of an exchange to bytes that begin at `start`, modulo 2: encrypts or decrypts them.
fn apply(aes: &Aes256Enc, (exchange, sender): (u64, u16), start: usize, bytes: &mut [u8]) {
    let position = u128::from(exchange) << 64 | u128::from(sender) << 48;
    let mut blocks = [Array::<u8, U16>::default(); BATCH];
    let mut keystream = [[0; BLOCK_LEN]; BATCH];
    let mut at = start;
    let mut rest = bytes;
    while !rest.is_empty() {
        // The first block may be used from its middle on.
        let skipped = at % BLOCK_LEN;
        let len = rest.len().min(BATCH * BLOCK_LEN - skipped);
        let used = &mut blocks[..(skipped + len).div_ceil(BLOCK_LEN)];
        for (number, block) in (at / BLOCK_LEN..).zip(used.iter_mut()) {
            block.0 = (position | number as u128).to_be_bytes();
        }
        aes.encrypt_blocks(used);
        keystream.iter_mut().zip(used).for_each(|(bytes, block)| *bytes = block.0);
        let (now, later) = rest.split_at_mut(len);
        let unused = &keystream.as_flattened()[skipped..];
        now.iter_mut().zip(unused).for_each(|(byte, key)| *byte ^= key);
        (at, rest) = (at + len, later);
    }
}
