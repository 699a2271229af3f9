//! A global allocator that counts.
//!
//! ```
//! use netfold_testkit::allocation::{self, CountingAllocator};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! assert_eq!(allocation::count(|| 1 + 1), (2, 0));
//! ```
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static OF_THIS_THREAD: Cell<u64> = const { Cell::new(0) };
}

static OF_ALL_THREADS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator; counts the calls of each thread, and those of all threads. A test executable declares it as its
/// `#[global_allocator]`; tests that count per thread can share an executable with others.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

fn counted() {
    OF_THIS_THREAD.set(OF_THIS_THREAD.get() + 1);
    OF_ALL_THREADS.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: every call goes to `System` with the same arguments. Counting allocates nothing: the thread's cell has no destructor and is
// initialised at compile time.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted();
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        counted();
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        counted();
        // SAFETY: the caller keeps the contract of `realloc`; the pointer came from `System`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Allocations of the calling thread since it started; always 0 where [`CountingAllocator`] is not the global allocator.
pub fn of_this_thread() -> u64 {
    OF_THIS_THREAD.get()
}

/// Allocations of all threads since the process started. Meaningful only where no other test runs at the same time.
pub fn of_all_threads() -> u64 {
    OF_ALL_THREADS.load(Ordering::Relaxed)
}

/// Calls `f`; returns its result and the allocations that the calling thread made in it.
pub fn count<T>(f: impl FnOnce() -> T) -> (T, u64) {
    let before = of_this_thread();
    let result = f();
    (result, of_this_thread() - before)
}
