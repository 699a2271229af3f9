//! What shares an interface with the backend that is checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

use netfold_io::PacketIo;

/// A thread that drives a backend that receives nothing, until it is dropped.
pub struct Beside {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Starts the thread.
    #[must_use]
    pub fn start(mut io: Box<dyn PacketIo>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let (stopped, waker) = (Arc::clone(&stop), io.waker());
        let thread = std::thread::spawn(move || {
            let mut batch = io.capabilities().batch();
            // A removed interface is an error here as it is for the hub.
            while !stopped.load(Ordering::Acquire)
                && io.wait(Duration::from_secs(60)).is_ok()
                && io.receive(&mut batch).is_ok()
            {}
        });
        Self { stop, waker, thread: Some(thread) }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake_by_ref();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it fails no more than the hub");
        }
    }
}
