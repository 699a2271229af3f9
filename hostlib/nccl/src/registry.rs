//! Objects that NCCL holds by opaque pointers. The pointers are numbers, never addresses: a pointer that is stale, of another kind,
//! or invented is an error and not a crash.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::abi::Handle;
use crate::result::{Failure, Result};

/// Bits of a request's number below the number of its object.
const REQUEST_BITS: u32 = 24;

/// Numbers are never used twice, not even by different kinds.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// All objects of one kind.
pub(crate) struct Registry<T> {
    kind: &'static str,
    objects: RwLock<BTreeMap<usize, Arc<T>>>,
}

/// The number of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id(usize);

impl Id {
    /// As NCCL holds it.
    pub(crate) fn pointer(self) -> Handle {
        std::ptr::without_provenance_mut(self.0 << REQUEST_BITS)
    }

    /// A request of this object: its slot, one of 255, and the slot's generation.
    pub(crate) fn request(self, slot: u8, generation: u16) -> Handle {
        let low = usize::from(generation) << 8 | (usize::from(slot) + 1);
        std::ptr::without_provenance_mut(self.0 << REQUEST_BITS | low)
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits as usize)
    }
}

/// A request's parts, when it can be one.
pub(crate) fn parts(request: Handle) -> Result<(Id, u8, u16)> {
    let bits = request.addr();
    let (slot, generation) = (bits & 0xff, bits >> 8 & 0xffff);
    match slot.checked_sub(1) {
        Some(slot) => Ok((Id(bits >> REQUEST_BITS), slot as u8, generation as u16)),
        None => Err(Failure::argument(format!("{request:?} is not a request of this plugin"))),
    }
}

impl<T> Registry<T> {
    /// An empty one; `kind` is for messages.
    pub(crate) const fn new(kind: &'static str) -> Self {
        Self { kind, objects: RwLock::new(BTreeMap::new()) }
    }

    /// Stores an object that is made from its own number.
    pub(crate) fn insert_with(&self, make: impl FnOnce(Id) -> T) -> Id {
        let id = Id(NEXT.fetch_add(1, Ordering::Relaxed));
        let object = Arc::new(make(id));
        self.objects.write().unwrap_or_else(PoisonError::into_inner).insert(id.0, object);
        id
    }

    pub(crate) fn insert(&self, object: T) -> Id {
        self.insert_with(|_| object)
    }

    pub(crate) fn get(&self, id: Id) -> Result<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(&id.0).cloned().ok_or_else(|| self.unknown())
    }

    pub(crate) fn find(&self, pointer: Handle) -> Result<Arc<T>> {
        self.get(Id(pointer.addr() >> REQUEST_BITS))
    }

    /// Forgets an object and returns it.
    pub(crate) fn remove(&self, pointer: Handle) -> Result<Arc<T>> {
        self.remove_id(Id(pointer.addr() >> REQUEST_BITS))
    }

    pub(crate) fn remove_id(&self, id: Id) -> Result<Arc<T>> {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&id.0).ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> Failure {
        Failure::argument(format!("there is no such {}: it was closed, or never made", self.kind))
    }
}

/// Requests of one object, in a bounded number of slots.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u16,
    content: Option<T>,
}

impl<T> Slots<T> {
    /// `count` is at most 255.
    pub(crate) fn new(count: u8) -> Self {
        Self { slots: (0..count.min(254)).map(|_| Slot { generation: 0, content: None }).collect() }
    }

    /// Takes a free slot; `None` when all are in use.
    pub(crate) fn put(&mut self, content: T) -> Option<(u8, u16)> {
        let at = self.slots.iter().position(|slot| slot.content.is_none())?;
        let slot = &mut self.slots[at];
        slot.content = Some(content);
        Some((at as u8, slot.generation))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots.iter().all(|slot| slot.content.is_some())
    }

    pub(crate) fn get(&mut self, at: u8, generation: u16) -> Result<&mut T> {
        let slot = self.slots.get_mut(usize::from(at)).filter(|slot| slot.generation == generation);
        slot.and_then(|slot| slot.content.as_mut())
            .ok_or_else(|| Failure::argument("there is no such request: it was done before, or never made"))
    }

    /// The content of a slot that is known to be in use.
    pub(crate) fn at(&mut self, at: u8) -> Option<&mut T> {
        self.slots.get_mut(usize::from(at)).and_then(|slot| slot.content.as_mut())
    }

    /// Frees a slot.
    pub(crate) fn free(&mut self, at: u8) {
        if let Some(slot) = self.slots.get_mut(usize::from(at)) {
            slot.content = None;
            slot.generation = slot.generation.wrapping_add(1);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.content.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_and_foreign_pointers_are_errors() {
        let (links, others) = (Registry::new("link"), Registry::new("other"));
        let id = links.insert(5);
        assert_eq!(*links.find(id.pointer()).unwrap(), 5);
        assert!(others.find(id.pointer()).is_err());
        others.insert(6);
        assert!(others.find(id.pointer()).is_err());
        links.remove(id.pointer()).unwrap();
        assert!(links.find(id.pointer()).is_err() && links.remove(id.pointer()).is_err());
        assert!(links.find(std::ptr::null_mut()).is_err());
        assert!(parts(std::ptr::null_mut()).is_err());
    }

    #[test]
    fn a_request_is_found_once() {
        let id = Registry::new("link").insert(());
        let mut slots = Slots::new(2);
        let (a, b) = (slots.put('a').unwrap(), slots.put('b').unwrap());
        assert!(slots.put('c').is_none() && slots.is_full());
        let request = id.request(a.0, a.1);
        assert_eq!(parts(request).unwrap(), (id, a.0, a.1));
        assert_eq!(slots.get(a.0, a.1).unwrap(), &'a');
        slots.free(a.0);
        let c = slots.put('c').unwrap();
        assert_eq!(c.0, a.0);
        assert!(slots.get(a.0, a.1).is_err());
        assert_eq!(slots.get(b.0, b.1).unwrap(), &'b');
        assert_eq!(slots.at(c.0), Some(&mut 'c'));
    }
}
