//! What a tenant may have, and which part of it a job gets.

use super::Denied;
use crate::record::Quota;

/// Whether a tenant that has `used` may have `asked` more.
///
/// # Errors
///
/// [`Denied::Quota`]: the first of jobs, workers and slots that would be too many.
pub fn within(quota: &Quota, used: &Quota, asked: &Quota) -> Result<(), Denied> {
    let of = |quota: &Quota| [("jobs", quota.jobs), ("workers", quota.workers), ("slots", quota.slots)];
    for ((what, max), ((_, used), (_, asked))) in
        of(quota).into_iter().zip(of(used).into_iter().zip(of(asked)))
    {
        if asked > max.saturating_sub(used) {
            return Err(Denied::Quota { what, used, asked, max });
        }
    }
    Ok(())
}

/// Of what is left of a tenant's quota and at a switch, a job gets at first at most one slot in so many, so that later jobs find some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstGrant {
    /// Of the slots that are free at a switch.
    pub of_free: u32,
    /// Of the slots that are left of the quota.
    pub of_quota: u32,
}

impl FirstGrant {
    /// All of both: where no job is to leave anything to others.
    pub const ALL: Self = Self { of_free: 1, of_quota: 1 };

    /// Of a job that gives slots up when another needs them: all that are free, and half of the quota, since only jobs of the same tenant could make
    /// room in that.
    pub const MOVABLE: Self = Self { of_free: 1, of_quota: 2 };

    /// Of a job that keeps its slots to its end: an eighth.
    pub const FIXED: Self = Self { of_free: 8, of_quota: 8 };
}

/// How many slots a job gets that wants `wanted` and needs `fewest`, both powers of two, if it is to have at most one in `divisor` of those that are
/// `left`: a power of two, and never less than it needs.
pub fn portion(wanted: u32, fewest: u32, left: u32, divisor: u32) -> u32 {
    let portion = left.checked_div(divisor).and_then(u32::checked_ilog2).map_or(0, |log| 1 << log);
    wanted.min(portion).max(fewest)
}

/// Something that a switch or a control plane has so many of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Supply {
    /// All of it.
    pub all: u32,
    /// In use, by anyone.
    pub used: u32,
    /// Of that, by the tenant in question.
    pub held: u32,
}

/// Whether a tenant may take `asked` more of a supply, whatever its quota: one that would have more than its share, `weight` of the `weights`
/// of all tenants, leaves a quarter to those that have less.
pub fn leaves_others(supply: Supply, asked: u32, (weight, weights): (u32, u64)) -> bool {
    let Supply { all, used, held } = supply;
    let wanted = u64::from(held) + u64::from(asked);
    let within_share = wanted * weights <= u64::from(all) * u64::from(weight);
    within_share || u64::from(used) + u64::from(asked) <= u64::from(all - all / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_control::Refusal;

    #[test]
    fn a_quarter_is_left_to_tenants_that_have_less() {
        let supply = |used, held| Supply { all: 16, used, held };
        let (alone, equal) = ((1, 1), (1, 4));
        assert!(leaves_others(supply(15, 15), 1, alone), "the only tenant takes all");
        assert!(leaves_others(supply(11, 11), 1, equal), "as long as a quarter is free");
        assert!(!leaves_others(supply(12, 12), 1, equal));
        assert!(!leaves_others(supply(11, 11), 2, equal));
        assert!(leaves_others(supply(15, 3), 1, equal), "its share is a quarter");
        assert!(!leaves_others(supply(14, 3), 2, equal));
        assert!(leaves_others(supply(15, 7), 1, (2, 4)), "by weight");
        assert!(leaves_others(Supply { all: 3, used: 2, held: 2 }, 1, equal), "a quarter of three is none");
    }

    #[test]
    fn a_portion_is_a_power_of_two_between_need_and_wish() {
        assert_eq!(portion(256, 16, 8192, 8), 256);
        assert_eq!(portion(256, 16, 2047, 8), 128);
        assert_eq!(portion(256, 16, 100, 8), 16, "as many as it needs, even if that is more than its part");
        assert_eq!(portion(256, 16, 0, 8), 16);
        assert_eq!(portion(256, 16, u32::MAX, 2), 256);
        assert_eq!(portion(1024, 16, 300, 1), 256);
        assert_eq!(portion(64, 16, 300, 0), 16, "no division by zero");
    }

    #[test]
    fn a_quota_is_filled_and_not_passed() {
        let quota = Quota { slots: 512, jobs: 2, workers: 8 };
        let used = Quota { slots: 256, jobs: 1, workers: 4 };
        assert_eq!(within(&quota, &used, &Quota { slots: 256, jobs: 1, workers: 4 }), Ok(()));
        let more = |slots, jobs, workers| within(&quota, &used, &Quota { slots, jobs, workers }).unwrap_err();
        assert_eq!(more(257, 1, 4), Denied::Quota { what: "slots", used: 256, asked: 257, max: 512 });
        assert!(matches!(more(1, 2, 1), Denied::Quota { what: "jobs", .. }));
        assert!(matches!(more(1, 1, 5), Denied::Quota { what: "workers", .. }));
        assert_eq!(more(1, 1, u32::MAX).refusal(), Refusal::Quota);
        assert_eq!(within(&Quota::UNLIMITED, &used, &Quota { slots: 1 << 30, jobs: 9, workers: 9 }), Ok(()));
        // A quota that was lowered below what is used.
        assert!(
            within(&Quota { jobs: 0, ..quota }, &used, &Quota { slots: 1, jobs: 1, workers: 1 }).is_err()
        );
    }
}
