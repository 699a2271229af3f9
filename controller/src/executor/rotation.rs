//! Items of several tenants, taken in rotation.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Items that wait, in the order of each tenant's. Taken are one of each tenant that has any, then the next of each: how long an item waits
/// depends on the number of tenants and of its own tenant's items, and not on how many items another tenant has.
#[derive(Debug)]
pub(super) struct Rotation<T> {
    /// No tenant has an empty queue.
    waiting: BTreeMap<Arc<str>, VecDeque<T>>,
    /// Whose item was taken last.
    last: Option<Arc<str>>,
}

impl<T> Default for Rotation<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), last: None }
    }
}

impl<T> Rotation<T> {
    /// Adds an item behind those of its tenant.
    pub(super) fn push(&mut self, tenant: Arc<str>, item: T) {
        self.waiting.entry(tenant).or_default().push_back(item);
    }

    /// The next item, of a tenant that `may` have one taken now.
    pub(super) fn pop(&mut self, may: impl Fn(&str) -> bool) -> Option<(Arc<str>, T)> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(Arc::clone(last)));
        let upto = self.last.as_ref().map_or(Bound::Unbounded, |last| Bound::Included(Arc::clone(last)));
        let behind = self.waiting.range((after, Bound::Unbounded));
        // Without a last one, the first range was all of them, and looking at them again finds none either.
        let before = self.waiting.range((Bound::Unbounded, upto));
        let tenant = behind.chain(before).map(|(tenant, _)| tenant).find(|tenant| may(tenant));
        let tenant = Arc::clone(tenant?);
        let queue = self.waiting.get_mut(&tenant)?;
        let item = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&tenant);
        }
        self.last = Some(Arc::clone(&tenant));
        Some((tenant, item))
    }

    /// Tenants whose items wait.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &Arc<str>> {
        self.waiting.keys()
    }

    /// How many items wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_take_turns_whatever_waits() {
        let mut rotation = Rotation::default();
        let any = |_: &str| true;
        for item in 0..3 {
            rotation.push("red".into(), item);
        }
        let taken =
            |rotation: &mut Rotation<i32>| rotation.pop(any).map(|(tenant, item)| (tenant.to_string(), item));
        assert_eq!(taken(&mut rotation), Some(("red".into(), 0)));
        rotation.push("blue".into(), 10);
        rotation.push("blue".into(), 11);
        rotation.push("green".into(), 20);
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut rotation)).collect();
        let expected = [("blue", 10), ("green", 20), ("red", 1), ("blue", 11), ("red", 2)];
        assert_eq!(order, expected.map(|(tenant, item)| (tenant.to_string(), item)));
        assert_eq!(rotation.len(), 0);
    }

    #[test]
    fn a_tenant_that_may_not_is_passed_over() {
        let mut rotation = Rotation::default();
        rotation.push("blue".into(), 1);
        rotation.push("red".into(), 2);
        assert_eq!(rotation.pop(|tenant| tenant == "red"), Some(("red".into(), 2)));
        assert_eq!(rotation.pop(|tenant| tenant == "red"), None);
        assert_eq!(rotation.tenants().map(|tenant| tenant.to_string()).collect::<Vec<_>>(), ["blue"]);
    }
}
