//! The connection of a control session: TCP, or TLS over it. One thread reads; any thread writes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::ClientConnection;

use super::WRITE_TIMEOUT;
use super::security::Security;
use crate::tls_fault::TlsFault;

/// Bytes of TLS records that are read at once.
const RECORD_BYTES: usize = 4096;

/// An open connection; clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Connection(Arc<Ends>);

#[derive(Debug)]
struct Ends {
    tcp: TcpStream,
    /// Never locked while the socket is waited for to have something to read.
    tls: Option<Mutex<ClientConnection>>,
    /// The other end has closed, as far as was read.
    ended: AtomicBool,
}

/// Why there is no connection.
pub(super) enum Unopened {
    Tcp(io::Error),
    Tls(TlsFault),
}

impl From<io::Error> for Unopened {
    fn from(error: io::Error) -> Self {
        Self::Tcp(error)
    }
}

impl Connection {
    /// Connects within `timeout`, and does the TLS handshake if `security` is given within `handshake_timeout`.
    pub(super) fn open(
        address: &SocketAddr,
        (timeout, handshake_timeout): (Duration, Duration),
        security: Option<&Security>,
    ) -> Result<(Self, SocketAddr, SocketAddr), Unopened> {
        // An unusable file is an error before the connection is made.
        let greeting = security.map(|security| security.begin(address).map_err(Unopened::Tls)).transpose()?;
        let tcp = TcpStream::connect_timeout(address, timeout)?;
        tcp.set_nodelay(true)?;
        tcp.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let (peer, local) = (tcp.peer_addr()?, tcp.local_addr()?);
        if peer == local {
            // TCP can connect a port to itself where no process listens.
            return Err(io::Error::from(ErrorKind::ConnectionRefused).into());
        }
        let tls = match (security, greeting) {
            (Some(security), Some(mut tls)) => {
                let meaning = |error| security.meaning(address, error);
                shake_hands(&tcp, &mut tls, handshake_timeout, meaning).map_err(Unopened::Tls)?;
                Some(Mutex::new(tls))
            }
            _ => None,
        };
        Ok((Self(Arc::new(Ends { tcp, tls, ended: AtomicBool::new(false) })), peer, local))
    }

    /// Reads what arrives within `timeout`; 0 bytes when the other end has closed.
    pub(super) fn read(&self, bytes: &mut [u8], timeout: Duration) -> io::Result<usize> {
        let start = Instant::now();
        let mut record = [0; RECORD_BYTES];
        let mut waited = false;
        loop {
            if let Some(mut tls) = self.tls() {
                let read = tls.reader().read(bytes);
                drop(tls);
                match read {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Ok(0) => return Ok(self.end()),
                    read => return read,
                }
            }
            // Records may carry no application data.
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() && waited {
                return Err(ErrorKind::TimedOut.into());
            }
            waited = true;
            // A timeout of zero would mean none.
            self.0.tcp.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let Some(_) = &self.0.tls else { return (&self.0.tcp).read(bytes) };
            let count = (&self.0.tcp).read(&mut record)?;
            if count == 0 {
                return Ok(self.end());
            }
            self.digest(&record[..count])?;
        }
    }

    /// Processes bytes of records, and sends the answers that TLS requires.
    fn digest(&self, mut records: &[u8]) -> io::Result<()> {
        let Some(mut tls) = self.tls() else { return Ok(()) };
        while !records.is_empty() {
            tls.read_tls(&mut records)?;
            let digested = tls.process_new_packets();
            flush(&self.0.tcp, &mut tls)?;
            digested.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
        Ok(())
    }

    fn end(&self) -> usize {
        self.0.ended.store(true, Ordering::Relaxed);
        0
    }

    fn tls(&self) -> Option<MutexGuard<'_, ClientConnection>> {
        let tls = self.0.tls.as_ref()?;
        Some(tls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self.tls() {
            None => (&self.0.tcp).write_all(bytes),
            Some(mut tls) => {
                tls.writer().write_all(bytes)?;
                flush(&self.0.tcp, &mut tls)
            }
        }
    }

    /// Closes the sending direction.
    pub(super) fn finish(&self) {
        if let Some(mut tls) = self.tls() {
            tls.send_close_notify();
            // The other end sees the end of the connection in any case.
            let _ = flush(&self.0.tcp, &mut tls);
        }
        let _ = self.0.tcp.shutdown(Shutdown::Write);
    }

    /// Closes both ways at once.
    pub(super) fn abort(&self) {
        let _ = self.0.tcp.shutdown(Shutdown::Both);
    }

    /// Whether the other end has closed already. The thread that reads, if it does so meanwhile, finds nothing to read.
    pub(super) fn is_closed_by_peer(&self) -> bool {
        let Ends { tcp, ended, .. } = &*self.0;
        let _ = tcp.set_nonblocking(true);
        let peeked = tcp.peek(&mut [0]);
        let _ = tcp.set_nonblocking(false);
        ended.load(Ordering::Relaxed)
            || match peeked {
                Ok(len) => len == 0,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            }
    }
}

fn flush(mut tcp: &TcpStream, tls: &mut ClientConnection) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut tcp)?;
    }
    Ok(())
}

/// The handshake, within `timeout`; `meaning` explains its failure.
fn shake_hands(
    mut tcp: &TcpStream,
    tls: &mut ClientConnection,
    timeout: Duration,
    meaning: impl Fn(rustls::Error) -> TlsFault,
) -> Result<(), TlsFault> {
    let start = Instant::now();
    // The cause of a failure shows in the next read or write.
    let ended = |_| TlsFault::Closed;
    while tls.is_handshaking() {
        if tls.wants_write() {
            tls.write_tls(&mut tcp).map_err(ended)?;
            continue;
        }
        let left = timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero());
        tcp.set_read_timeout(Some(left.ok_or(TlsFault::Silent)?)).map_err(ended)?;
        match tls.read_tls(&mut tcp) {
            Ok(0) => return Err(TlsFault::Closed),
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return Err(TlsFault::Silent),
                ErrorKind::Interrupted => continue,
                _ => return Err(TlsFault::Closed),
            },
        }
        if let Err(error) = tls.process_new_packets() {
            // An alert tells the other end the cause.
            let _ = flush(tcp, tls);
            return Err(meaning(error));
        }
    }
    flush(tcp, tls).map_err(ended)
}
