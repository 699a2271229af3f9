//! Windows of all-gathers and reduce-scatters: which part of a window belongs to which rank.
//!
//! NCCL cuts the tensor of all ranks, a part of equal length for each, into windows, and makes a request for each of them. A window may lie
//! within one rank's part or cover several, and begin and end anywhere. Every rank gives the same windows in the same order.

use std::ops::Range;

use crate::result::{Failure, Result};

/// A window of the tensor of all ranks, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) bytes_per_rank: usize,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// What a window has of one rank's part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) rank: u16,
    /// Place in the window, in bytes.
    pub(crate) place: Range<usize>,
}

impl Window {
    /// The sections of the window, in order, none of them empty.
    ///
    /// # Errors
    ///
    /// The window does not lie within the parts of `world` ranks, or sections are not of whole elements of `element` bytes.
    pub(crate) fn sections(self, world: u16, element: usize) -> Result<Vec<Section>> {
        let Self { bytes_per_rank, offset, bytes } = self;
        let whole = bytes_per_rank.checked_mul(usize::from(world));
        let end = offset.checked_add(bytes);
        let (Some(end), Some(whole)) = (end, whole) else {
            return Err(self.refusal(world, "exceeds the address space"));
        };
        if end > whole {
            return Err(self.refusal(world, "is not within the parts of all ranks"));
        }
        if [bytes_per_rank, offset, bytes].iter().any(|length| !length.is_multiple_of(element)) {
            return Err(self.refusal(world, "cuts an element"));
        }
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let ranks = offset / bytes_per_rank..end.div_ceil(bytes_per_rank);
        let section = |rank: usize| {
            let first = (rank * bytes_per_rank).max(offset);
            let last = ((rank + 1) * bytes_per_rank).min(end);
            Section { rank: rank as u16, place: first - offset..last - offset }
        };
        Ok(ranks.map(section).collect())
    }

    fn refusal(self, world: u16, why: &str) -> Failure {
        let Self { bytes_per_rank, offset, bytes } = self;
        Failure::argument(format!(
            "the window of {bytes} bytes at {offset} {why}: there are {world} ranks, with {bytes_per_rank} bytes each"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(bytes_per_rank: usize, offset: usize, bytes: usize) -> Vec<(u16, Range<usize>)> {
        let window = Window { bytes_per_rank, offset, bytes };
        window.sections(4, 4).unwrap().into_iter().map(|section| (section.rank, section.place)).collect()
    }

    #[test]
    fn windows_are_cut_where_parts_end() {
        assert_eq!(sections(100, 0, 400), [(0, 0..100), (1, 100..200), (2, 200..300), (3, 300..400)]);
        assert_eq!(sections(100, 120, 40), [(1, 0..40)]);
        assert_eq!(sections(100, 180, 220), [(1, 0..20), (2, 20..120), (3, 120..220)]);
        assert_eq!(sections(100, 200, 100), [(2, 0..100)]);
        assert_eq!(sections(100, 400, 0), []);
        assert_eq!(sections(0, 0, 0), []);
    }

    #[test]
    fn invalid_windows_are_refused() {
        for (bytes_per_rank, offset, bytes) in [
            (100, 0, 404),
            (100, 400, 4),
            (0, 0, 4),
            (100, 2, 4),
            (102, 0, 4),
            (usize::MAX / 4, 8, usize::MAX - 3),
        ] {
            assert!(Window { bytes_per_rank, offset, bytes }.sections(4, 4).is_err(), "{offset} {bytes}");
        }
    }
}
