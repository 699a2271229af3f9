//! A TCP proxy that can be cut, at once or after so many bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// Forwards connections; each direction by a thread of its own.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    target: Mutex<SocketAddr>,
    open: Mutex<Vec<TcpStream>>,
    /// Bytes from the client that still pass; negative when all do.
    budget: AtomicI64,
    stop: AtomicBool,
}

impl Proxy {
    pub(crate) fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            open: Mutex::default(),
            budget: AtomicI64::new(-1),
            stop: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.stop.load(Ordering::SeqCst) {
                    break;
                }
                let target = *accepting.target.lock().unwrap();
                let Ok(server) = TcpStream::connect(target) else { continue };
                for (from, to, counted) in [
                    (client.try_clone().unwrap(), server.try_clone().unwrap(), true),
                    (server.try_clone().unwrap(), client.try_clone().unwrap(), false),
                ] {
                    let shared = Arc::clone(&accepting);
                    std::thread::spawn(move || pump(&shared, from, to, counted));
                }
                accepting.open.lock().unwrap().extend([client, server]);
            }
        });
        Self { shared, address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn lead_to(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap() = target;
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        self.shared.cut();
    }

    /// Ends all connections when the client has sent so many more bytes; negative never does.
    pub(crate) fn cut_after(&self, bytes: i64) {
        self.shared.budget.store(bytes, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.cut();
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// How much of `len` bytes passes.
    fn passes(&self, len: usize) -> usize {
        let left = self.budget.load(Ordering::SeqCst);
        if left < 0 {
            return len;
        }
        let passes = len.min(left as usize);
        self.budget.store(left - passes as i64, Ordering::SeqCst);
        passes
    }
}

fn pump(shared: &Shared, mut from: TcpStream, mut to: TcpStream, counted: bool) {
    let mut buffer = [0; 4096];
    while let Ok(len) = from.read(&mut buffer) {
        if len == 0 {
            break;
        }
        let passes = if counted { shared.passes(len) } else { len };
        if to.write_all(&buffer[..passes]).is_err() {
            break;
        }
        if passes < len {
            // Once.
            shared.budget.store(-1, Ordering::SeqCst);
            shared.cut();
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
