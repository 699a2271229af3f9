//! Elements that travel as they are: integers, and the bits of any type in a broadcast.

use crate::element::Element;

#[inline(always)]
pub(super) fn pack<T: Element>(block: &[T], lanes: &mut [u8]) {
    let (used, padding) = lanes.split_at_mut(size_of_val(block));
    for (element, lane) in block.iter().zip(used.chunks_exact_mut(size_of::<T>())) {
        element.store_be(lane);
    }
    padding.fill(0);
}

#[inline(always)]
pub(super) fn unpack<T: Element>(lanes: &[u8], block: &mut [T]) {
    let used = &lanes[..size_of_val(block)];
    for (element, lane) in block.iter_mut().zip(used.chunks_exact(size_of::<T>())) {
        *element = T::load_be(lane);
    }
}
