//! Where a driver's own packets go into a switch and come out.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// A way for ADVANCE and PROBE datagrams through a port of the switch that only the controller uses.
///
/// A datagram is a Netfold header alone; outer headers are the implementation's matter. Packets may be lost,
/// duplicated and reordered.
pub trait ControlPort: Send {
    /// Sends one datagram, or drops it when there is no room.
    ///
    /// # Errors
    ///
    /// When the port has failed permanently.
    fn send(&mut self, datagram: &[u8]) -> io::Result<()>;

    /// Waits until `deadline` for a datagram and writes it into `buffer`, cut to the buffer's length. Returns its
    /// length; `None` when the time is over. A deadline that is past takes what is there already.
    ///
    /// # Errors
    ///
    /// When the port has failed permanently.
    fn receive(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<Option<usize>>;
}

/// A UDP socket: for a host with a network interface on the switch's control port.
#[derive(Debug)]
pub struct UdpControlPort {
    socket: UdpSocket,
}

impl UdpControlPort {
    /// A socket at `local` that talks to `switch` alone: an address that the host's neighbour table leads to the
    /// control port, with the UDP port of the data path.
    ///
    /// # Errors
    ///
    /// When the local address cannot be had.
    pub fn connect(local: SocketAddr, switch: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(local)?;
        socket.connect(switch)?;
        Ok(Self { socket })
    }

    /// The socket's own address, which the switch's control port must lead to.
    ///
    /// # Errors
    ///
    /// When the system does not report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Shortest time-out that can be set on a socket.
const WAIT_MIN: Duration = Duration::from_micros(100);

impl ControlPort for UdpControlPort {
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        match self.socket.send(datagram) {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn receive(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<Option<usize>> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            self.socket.set_read_timeout(Some(left.max(WAIT_MIN)))?;
            match self.socket.recv(buffer) {
                Ok(len) => return Ok(Some(len)),
                Err(error) if !is_passing(&error) => return Err(error),
                Err(_) if Instant::now() >= deadline => return Ok(None),
                Err(_) => {}
            }
        }
    }
}

/// Whether an error is like a lost packet: no room, host unreachable, or no listener at the moment.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::OutOfMemory
    )
}
