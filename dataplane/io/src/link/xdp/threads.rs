//! An interface that several threads share: each has some of its queues, and a socket at every other.

use std::io;
use std::thread;

use super::borrowed::BorrowedQueue;
use super::{NAME, Xdp, XdpConfig, XdpQueues, attach};
use crate::link::device::refused;
use crate::{Cores, IoError, cores};

impl XdpQueues {
    /// Opens `count` queues of `interface` from `config.queue` on for several threads, one link for each of `ports`: thread i has the
    /// datagrams to port i at `config.address`'s IP address, from all of the queues. Queues are dealt out to the
    /// threads in turn; each sends by its first. Memory lies where thread i's core is, where `cores` names any.
    ///
    /// The kernel steers: a datagram goes to its thread's own socket at the queue where it arrived, so no thread reads what
    /// another has to fold. Those that arrived at queues of other threads are counted in
    /// [`IoCounters::rx_crossed`](crate::IoCounters::rx_crossed); for them one address goes from thread to thread, by a ring without locks.
    ///
    /// # Errors
    ///
    /// As [`Xdp::open`]; [`IoError::Link`] when there are fewer queues than threads, or none.
    pub fn open_threads(
        interface: &str,
        config: XdpConfig,
        count: u32,
        ports: &[u16],
        cores: &Cores,
    ) -> Result<Vec<Self>, IoError> {
        let refuse = |source| refused(NAME, interface, source);
        let threads = ports.len();
        if threads == 0 || (count as usize) < threads {
            return Err(IoError::Link {
                link: NAME,
                interface: interface.to_owned(),
                problem: "every packet thread takes a receive queue; `ethtool -L` makes more, or have fewer threads",
                source: io::Error::other(format!("{count} queues for {threads} packet threads")),
            });
        }
        let attached = attach(interface, &config, count, ports)?;
        let open = |thread: usize| -> Result<Vec<Xdp>, IoError> {
            let own = (0..count).filter(|queue| *queue as usize % threads == thread);
            own.map(|queue| Xdp::on(interface, (config.queue + queue, thread as u32), &attached)).collect()
        };
        let mut owned = (0..threads)
            .map(|thread| match cores.of(thread) {
                None => open(thread),
                Some(core) => on_core(core, || open(thread)),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut links = Vec::with_capacity(threads);
        for thread in 0..threads {
            let mut borrowed_queues = Vec::new();
            let others = owned.iter_mut().enumerate().filter(|(owner, _)| *owner != thread);
            for host in others.flat_map(|(_, queues)| queues) {
                let borrowed = BorrowedQueue::open(host, threads).map_err(refuse)?;
                attached.0.steer(host.number, thread as u32, borrowed.fd()).map_err(refuse)?;
                borrowed_queues.push(borrowed);
            }
            links.push(borrowed_queues);
        }
        owned.into_iter().zip(links).map(|(queues, borrowed)| Self::of(queues, borrowed)).collect()
    }
}

/// Calls `open` on a thread that is kept on a core: Linux puts memory where it is first written to.
fn on_core<T: Send>(core: usize, open: impl FnOnce() -> Result<T, IoError> + Send) -> Result<T, IoError> {
    thread::scope(|scope| {
        let opening = scope.spawn(|| {
            // The thread that is to use it says what is wrong with the core.
            let _ = cores::pin(core);
            open()
        });
        opening.join().unwrap_or(Err(IoError::Unsupported("opening queues on a core")))
    })
}
