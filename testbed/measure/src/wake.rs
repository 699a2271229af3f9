//! What it costs to wake a thread that sleeps in a system call: a lower bound for each step of a small operation.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::{Duration, Instant};

use netfold_testkit::sample::Sample;

/// Messages that are exchanged.
const ROUNDS: usize = 2_000;

/// The median time from one thread's send to another's return from receive, over a pair of sockets: half of a round trip between two threads, of which
/// one sleeps while the other runs.
///
/// # Errors
///
/// When the system gives no sockets.
pub fn wake_up() -> io::Result<Duration> {
    let (near, far) = UnixDatagram::pair()?;
    let echo = thread::spawn(move || -> io::Result<()> {
        let mut byte = [0];
        for _ in 0..ROUNDS {
            far.recv(&mut byte)?;
            far.send(&byte)?;
        }
        Ok(())
    });
    let mut times = Vec::with_capacity(ROUNDS);
    let mut byte = [0];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        near.send(&byte)?;
        near.recv(&mut byte)?;
        times.push(start.elapsed().as_secs_f64() / 2.0);
    }
    echo.join().map_err(|_| io::Error::other("a thread failed"))??;
    Ok(Duration::from_secs_f64(times.into_iter().collect::<Sample>().median()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_a_thread_takes_time() {
        let took = wake_up().expect("sockets");
        assert!(took > Duration::ZERO && took < Duration::from_secs(1), "{took:?}");
    }
}
