//! Addresses for servers that are bound later, by another thread or process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Linux gives sockets that ask for any port, and those that connect, one from 32768 on
/// (`net.ipv4.ip_local_port_range`): from there a port that is free now may be taken a moment later by a socket that is bound to all
/// addresses.
const PORTS: std::ops::Range<u16> = 10_240..32_768;

/// Ports from one address to the next: a switch has a data port for each of its packet threads, one after the other.
const STEP: u16 = 16;

/// The loopback address of this process: 127.64.0.0/10 holds all 2^22 ids that Linux gives to processes. A connecting socket has the
/// source 127.0.0.1, so another process uses it only if it was passed to it.
fn own_address() -> Ipv4Addr {
    let [_, high, middle, low] = process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | (high & 0x3f), middle, low)
}

/// A loopback address whose TCP and UDP ports are free, and that another process uses only if it was passed to it: neither for a server
/// nor for a connection, also after a server there has ended and before it is started again. No call of the same process returns
/// it again until some 1,400 others were made.
///
/// For rendezvous and servers whose address must be known before they run. A caller that can bind port 0 and announce
/// the port afterwards should do that.
///
/// # Errors
/// When no port is free, or loopback has no IPv4.
pub fn vacant_address() -> io::Result<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let places = u32::from((PORTS.end - PORTS.start) / STEP);
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..places {
        let place = NEXT.fetch_add(1, Ordering::Relaxed) % places;
        let address = SocketAddr::from((own_address(), PORTS.start + place as u16 * STEP));
        match TcpListener::bind(address).and_then(|_| UdpSocket::bind(address)) {
            Ok(_) => return Ok(address),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn addresses_are_unique_and_free() -> io::Result<()> {
        let first = vacant_address()?;
        let held = TcpListener::bind(first)?;
        let others: BTreeSet<_> = (0..2000).map(|_| vacant_address()).collect::<io::Result<_>>()?;
        assert!(others.len() > 1000, "{}", others.len());
        assert!(!others.contains(&held.local_addr()?));
        assert!(others.iter().all(|address| PORTS.contains(&address.port())));
        Ok(())
    }

    #[test]
    fn the_address_is_this_process_own() -> io::Result<()> {
        let address = vacant_address()?;
        let id = process::id();
        assert_eq!(address.ip(), Ipv4Addr::from(0x7f40_0000 | id));
        // Neither the address that other servers of tests listen at nor the source of a connection.
        let listener = TcpListener::bind(address)?;
        let source = TcpStream::connect(listener.local_addr()?)?.local_addr()?;
        assert_ne!(source.ip(), address.ip());
        Ok(())
    }
}
