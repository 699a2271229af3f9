//! Integration tests of packet I/O.

mod allocation;
mod capture;
mod hops;
mod links;
mod shm;
mod sockets;
mod threads;

use netfold_testkit::allocation::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
