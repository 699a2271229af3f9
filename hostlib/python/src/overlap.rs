//! Which memory an operation may read and write at once.

use netfold::Collective;

use crate::tensor::Tensor;

/// Whether input and output are apart, or in place in the sense of the collective.
pub(crate) fn allowed(collective: Collective, rank: usize, input: &Tensor, output: &Tensor) -> bool {
    let (from, into) = (input.data as usize, output.data as usize);
    let in_place = match collective {
        Collective::AllGather => from == into.wrapping_add(rank * input.bytes()),
        Collective::ReduceScatter => into == from.wrapping_add(rank * output.bytes()),
        _ => from == into,
    };
    apart(input, output) || in_place
}

/// Whether no byte is in both.
pub(crate) fn apart(one: &Tensor, other: &Tensor) -> bool {
    let (from, into) = (one.data as usize, other.data as usize);
    from.saturating_add(one.bytes()) <= into || into.saturating_add(other.bytes()) <= from
}
