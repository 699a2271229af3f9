//! The switch's part in plain code, for tests and for predicting a result.

use super::{Float, Quantizer};

/// Adds each 32-bit big-endian word of `contribution` to that of `sum`, wrapping, as a switch adds lanes.
///
/// # Panics
///
/// When the lengths differ or are no multiple of 4.
pub fn fold_words(sum: &mut [u8], contribution: &[u8]) {
    assert!(sum.len() == contribution.len() && sum.len().is_multiple_of(4), "whole words of the same number");
    for (to, from) in sum.chunks_exact_mut(4).zip(contribution.chunks_exact(4)) {
        let word = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        to.copy_from_slice(&word(to).wrapping_add(word(from)).to_be_bytes());
    }
}

/// One block all-reduced without a network: agree on the exponent, pack every worker's block, fold the words, unpack.
///
/// The result has the same bits as that of [`crate::Communicator::all_reduce`] for a tensor of one block.
///
/// # Panics
///
/// When there are no inputs, they differ in length, or there are more than the quantiser's world size.
pub fn simulate<T: Float>(quantizer: &Quantizer, inputs: &[&[T]]) -> Vec<T> {
    let len = inputs.first().expect("at least one worker").len();
    let exp = inputs.iter().map(|input| quantizer.exponent(input)).max().unwrap_or_default();
    let lane_bytes = (len * quantizer.lanes().element_bytes()).next_multiple_of(4);
    let mut sum = vec![0; lane_bytes];
    let mut contribution = vec![0; lane_bytes];
    for input in inputs {
        assert_eq!(input.len(), len, "inputs of one length");
        quantizer.pack(input, exp, &mut contribution);
        fold_words(&mut sum, &contribution);
    }
    let count = u16::try_from(inputs.len()).expect("at most 32 workers");
    let mut result = vec![T::default(); len];
    quantizer.unpack(&sum, exp, count, &mut result);
    result
}
