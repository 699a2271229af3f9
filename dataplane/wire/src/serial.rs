//! Serial-number arithmetic on 32-bit chunk numbers (RFC 1982).

use core::cmp::Ordering;

/// How `a` stands to `b` in serial order: `Greater` when `a` is newer.
///
/// Two numbers exactly 2^31 apart have no order in RFC 1982; here the first then counts as older, which is the safe
/// side: an older packet changes nothing.
#[inline]
pub const fn compare(a: u32, b: u32) -> Ordering {
    let diff = a.wrapping_sub(b).cast_signed();
    if diff == 0 {
        Ordering::Equal
    } else if diff > 0 {
        Ordering::Greater
    } else {
        Ordering::Less
    }
}

/// Whether `a` is newer than `b`.
#[inline]
pub const fn newer(a: u32, b: u32) -> bool {
    matches!(compare(a, b), Ordering::Greater)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_wraps() {
        assert!(newer(1, 0));
        assert!(newer(0, u32::MAX));
        assert!(!newer(u32::MAX, 0));
        assert!(!newer(7, 7));
        assert!(!newer(1 << 31, 0), "opposite numbers count as older");
    }
}
