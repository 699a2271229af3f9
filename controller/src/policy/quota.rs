//! What a tenant may have.

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

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_control::Refusal;

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
