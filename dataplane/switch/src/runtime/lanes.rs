//! Lane registers.

/// A lane register: `N` lanes for each entry, all zero at first. The system supplies a page when an entry in it is first written, so that slots
/// that no job has used take no memory.
#[derive(Debug)]
pub struct LaneRegister<T, const N: usize>(Box<[T]>);

impl<T: Copy + Default, const N: usize> LaneRegister<T, N> {
    /// A register of that many entries.
    pub fn new(entries: usize) -> Self {
        // One vector of numbers, because the allocator zeroes that lazily; one of arrays would be written.
        Self(vec![T::default(); entries * N].into_boxed_slice())
    }

    /// The lanes of an entry; `None` if there is no such entry.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[T; N]> {
        self.0.as_chunks().0.get(index)
    }

    /// The lanes of an entry, to be overwritten; `None` if there is no such entry.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut [T; N]> {
        self.0.as_chunks_mut().0.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_zero_and_separate() {
        let mut register = LaneRegister::<u32, 3>::new(4);
        *register.get_mut(1).unwrap() = [1, 2, 3];
        assert_eq!(
            (register.get(0), register.get(1), register.get(2)),
            (Some(&[0; 3]), Some(&[1, 2, 3]), Some(&[0; 3]))
        );
        assert_eq!(register.get(4), None);
        assert_eq!(register.get_mut(usize::MAX), None);
    }
}
