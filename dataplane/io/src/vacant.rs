//! Addresses for servers that are bound later, by another thread or process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Linux gives sockets that ask for any port, and those that connect, one from 32768 on
/// (`net.ipv4.ip_local_port_range`): from there a port that is free now may be taken a moment later.
const PORTS: std::ops::Range<u16> = 10_240..32_768;

/// Ports from one address to the next: a switch has a data port for each of its packet threads, one after the other.
const STEP: u16 = 16;

/// A loopback address whose TCP and UDP ports are free, and that the kernel assigns to no process that did not name it. No call
/// of the same process returns it again until some 1,400 others were made, nor does one of a process with a neighbouring id.
///
/// For rendezvous and servers whose address must be known before they run. A caller that can bind port 0 and announce
/// the port afterwards should do that: it cannot fail.
///
/// # Errors
/// When no port is free, or loopback has no IPv4.
pub fn vacant_address() -> io::Result<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let places = u32::from((PORTS.end - PORTS.start) / STEP);
    // Neighbouring processes begin far apart: a golden ratio of the circle.
    let first = process::id().wrapping_mul(870) % places;
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..places {
        let place = (first + NEXT.fetch_add(1, Ordering::Relaxed) % places) % places;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + place as u16 * STEP));
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
}
