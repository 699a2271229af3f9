//! What exchanges between threads are made of: std's types or, in a build with `--cfg netfold_loom`, those of [loom](https://docs.rs/loom), by
//! which a test explores every order of accesses that the memory model allows. Not part of the interface: for Netfold's own crates.
//!
//! The flag has a name of its own because tokio leaves out its network where it sees loom's.

#[cfg(netfold_loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
#[cfg(netfold_loom)]
pub use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(netfold_loom)]
pub use model::TryMutex;
#[cfg(not(netfold_loom))]
pub use std::sync::Mutex as TryMutex;
#[cfg(not(netfold_loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
#[cfg(not(netfold_loom))]
pub use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(netfold_loom)]
mod model {
    use std::ops::{Deref, DerefMut};
    use std::sync::{LockResult, TryLockError, TryLockResult};

    use super::{Condvar, Mutex, MutexGuard};

    /// A lock that threads may try to take. Loom's own blocks a thread that tries when another is faster (0.7.3).
    #[derive(Debug, Default)]
    pub struct TryMutex<T> {
        taken: Mutex<bool>,
        free: Condvar,
        /// Locked only while `taken`, so never waited for.
        value: Mutex<T>,
    }

    /// The lock, taken.
    #[derive(Debug)]
    pub struct TryMutexGuard<'a, T> {
        mutex: &'a TryMutex<T>,
        value: Option<MutexGuard<'a, T>>,
    }

    impl<T> TryMutex<T> {
        /// A free lock.
        pub fn new(value: T) -> Self {
            Self { taken: Mutex::new(false), free: Condvar::new(), value: Mutex::new(value) }
        }

        fn guard(&self) -> TryMutexGuard<'_, T> {
            TryMutexGuard { mutex: self, value: Some(self.value.lock().expect("models do not panic")) }
        }

        /// Waits until the lock is free, and takes it.
        ///
        /// # Errors
        ///
        /// None: for the signature of std's.
        pub fn lock(&self) -> LockResult<TryMutexGuard<'_, T>> {
            let mut taken = self.taken.lock().expect("models do not panic");
            while *taken {
                taken = self.free.wait(taken).expect("models do not panic");
            }
            *taken = true;
            drop(taken);
            Ok(self.guard())
        }

        /// Takes the lock if it is free.
        ///
        /// # Errors
        ///
        /// [`TryLockError::WouldBlock`].
        pub fn try_lock(&self) -> TryLockResult<TryMutexGuard<'_, T>> {
            let mut taken = self.taken.lock().expect("models do not panic");
            if std::mem::replace(&mut *taken, true) {
                return Err(TryLockError::WouldBlock);
            }
            drop(taken);
            Ok(self.guard())
        }
    }

    impl<T> Deref for TryMutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.value.as_ref().expect("dropped with the guard")
        }
    }

    impl<T> DerefMut for TryMutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.value.as_mut().expect("dropped with the guard")
        }
    }

    impl<T> Drop for TryMutexGuard<'_, T> {
        fn drop(&mut self) {
            self.value = None;
            *self.mutex.taken.lock().expect("models do not panic") = false;
            self.mutex.free.notify_one();
        }
    }
}
