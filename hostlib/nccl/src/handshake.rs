//! The connection handshake: neither side blocks, and unauthenticated connections are refused.
//!
//! The connecting side sends 24 bytes (magic 8, the token of the handle 16), the listening side answers with 8.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use netfold_listener::{HelloQueue, Source, policy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, connect, send, socket_with, sockopt};

use crate::handle::{Endpoint, Purpose, TOKEN};
use crate::interfaces::Device;
use crate::result::{Failure, Result};

pub(crate) const HELLO: usize = 8 + TOKEN;
const HELLO_MAGIC: [u8; 8] = *b"nfhello\x01";
const WELCOME: [u8; 8] = *b"nfwelc.\x01";
/// How long a connection may take to be established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// A host that is unreachable for so long is lost.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// Accepts the connections that know its token.
#[derive(Debug)]
pub(crate) struct Listener {
    endpoint: Endpoint,
    socket: TcpListener,
    started: Instant,
    hellos: Mutex<HelloQueue<TcpStream, HELLO>>,
}

/// A listening socket on a device, and its handle.
pub(crate) fn listen(device: &Device, purpose: Purpose) -> Result<(TcpListener, Endpoint)> {
    let failed = |error| Failure::system(&format!("cannot listen at {}", device.address.ip()), error);
    let socket = TcpListener::bind(device.address).map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    Ok((socket, Endpoint::new(purpose, address)?))
}

impl Listener {
    pub(crate) fn new(device: &Device) -> Result<(Self, Endpoint)> {
        let (socket, endpoint) = listen(device, Purpose::Link)?;
        socket.set_nonblocking(true).map_err(|error| Failure::system("cannot listen", error))?;
        let hellos = Mutex::new(HelloQueue::new(policy::NCCL));
        Ok((Self { endpoint, socket, started: Instant::now(), hellos }, endpoint))
    }

    /// A connection with a valid hello, if there is one now.
    pub(crate) fn accept(&self) -> Result<Option<TcpStream>> {
        let mut hellos = self.hellos.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.started.elapsed();
        hellos.accept(now, || {
            let (stream, peer) = self.socket.accept()?;
            // Only of a connection that is broken already.
            prepare(&stream).map_err(|_| ErrorKind::ConnectionAborted)?;
            Ok((stream, Source::from(peer.ip())))
        });
        while let Some((stream, hello)) = hellos.next(now) {
            if is_of(&self.endpoint, &hello) && welcome(&stream) {
                return Ok(Some(stream));
            }
        }
        Ok(None)
    }
}

/// Whether the sender of this hello has the handle of the listener.
pub(crate) fn is_of(endpoint: &Endpoint, hello: &[u8; HELLO]) -> bool {
    hello[..8] == HELLO_MAGIC && hello[8..] == endpoint.token
}

fn welcome(stream: &TcpStream) -> bool {
    // The socket's buffer is empty, so the message is sent as a whole or not at all.
    send(stream, &WELCOME, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) == Ok(WELCOME.len())
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_TIMEOUT / 2)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_TIMEOUT / 10)?;
    sockopt::set_tcp_user_timeout(stream, KEEPALIVE_TIMEOUT.as_millis() as u32)?;
    Ok(())
}

/// A connection that is being established.
#[derive(Debug)]
pub(crate) struct Connecting {
    address: SocketAddr,
    stream: TcpStream,
    since: Instant,
    stage: Mutex<Stage>,
    token: [u8; TOKEN],
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The TCP connection is not established.
    Connecting,
    /// The other end's welcome is incomplete; these bytes were received.
    Waiting { answer: [u8; WELCOME.len()], len: usize },
}

impl Connecting {
    /// Connects to the listener of a handle.
    pub(crate) fn begin(endpoint: &Endpoint) -> Result<Self> {
        let address = endpoint.address;
        let failed = |error: std::io::Error| Failure::system(&format!("cannot connect to {address}"), error);
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket =
            socket_with(family, SocketType::STREAM, flags, None).map_err(|error| failed(error.into()))?;
        let stream = TcpStream::from(socket);
        prepare(&stream).map_err(failed)?;
        match connect(&stream, &address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return Err(Failure::remote(format!("cannot connect to {address}: {error}"))),
        }
        let stage = Mutex::new(Stage::Connecting);
        Ok(Self { address, stream, since: Instant::now(), stage, token: endpoint.token })
    }

    /// The connection, once the other end's welcome is received.
    pub(crate) fn advance(&self) -> Result<Option<TcpStream>> {
        let refused = |why: &dyn std::fmt::Display| {
            Failure::remote(format!("the listener at {} refused the connection: {why}", self.address))
        };
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if let Stage::Connecting = *stage {
            let mut watched = [PollFd::new(&self.stream, PollFlags::OUT)];
            let ready = poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
            if !matches!(ready, Ok(count) if count > 0) {
                return self.later();
            }
            if let Ok(Err(error)) | Err(error) = sockopt::socket_error(&self.stream) {
                return Err(refused(&error));
            }
            let mut hello = [0; HELLO];
            hello[..8].copy_from_slice(&HELLO_MAGIC);
            hello[8..].copy_from_slice(&self.token);
            match send(&self.stream, &hello, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(HELLO) => {}
                Ok(_) => return Err(refused(&"it accepts no data")),
                Err(error) => return Err(refused(&error)),
            }
            *stage = Stage::Waiting { answer: [0; WELCOME.len()], len: 0 };
        }
        let Stage::Waiting { answer, len } = &mut *stage else { return Ok(None) };
        use std::io::Read;
        while *len < answer.len() {
            match (&self.stream).read(&mut answer[*len..]) {
                Ok(0) => return Err(refused(&"it closed the connection")),
                Ok(bytes) => *len += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return self.later(),
                Err(error) => return Err(refused(&error)),
            }
        }
        if *answer != WELCOME {
            return Err(refused(&"it is not a listener of this plugin"));
        }
        self.stream.try_clone().map(Some).map_err(|error| refused(&error))
    }

    fn later(&self) -> Result<Option<TcpStream>> {
        if self.since.elapsed() > CONNECT_TIMEOUT {
            return Err(Failure::remote(format!("no answer from the listener at {}", self.address)));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn loopback() -> Device {
        Device {
            name: c"lo".into(),
            pci_path: None,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            speed: 10_000,
        }
    }

    fn until<T>(mut poll: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(value) = poll() {
                return value;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "nothing happened");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_valid_hello_is_accepted_and_others_are_refused() {
        let (listener, endpoint) = Listener::new(&loopback()).unwrap();
        let _silent = TcpStream::connect(endpoint.address).unwrap();
        let mut garbage = TcpStream::connect(endpoint.address).unwrap();
        garbage.write_all(&[b'x'; 100]).unwrap();
        let other = Endpoint::new(Purpose::Link, endpoint.address).unwrap();
        let wrong = Connecting::begin(&other).unwrap();
        let right = Connecting::begin(&endpoint).unwrap();
        let mut refusal = None;
        let (mut inside, mut outside) = (None, None);
        until(|| {
            inside = inside.take().or_else(|| listener.accept().unwrap());
            outside = outside.take().or_else(|| right.advance().unwrap());
            refusal = refusal.take().or_else(|| wrong.advance().err());
            (inside.is_some() && outside.is_some() && refusal.is_some()).then_some(())
        });
        assert_eq!(refusal.map(|failure| failure.returned()), Some(6));
        let (mut inside, mut outside) = (inside.unwrap(), outside.unwrap());
        outside.write_all(b"hello").unwrap();
        inside.set_nonblocking(false).unwrap();
        let mut got = [0; 5];
        inside.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
    }

    #[test]
    fn another_service_at_the_address_is_detected() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::new(Purpose::Link, socket.local_addr().unwrap()).unwrap();
        let connecting = Connecting::begin(&endpoint).unwrap();
        let (mut stream, _) = socket.accept().unwrap();
        stream.write_all(b"SSH-2.0-other").unwrap();
        assert!(until(|| connecting.advance().err()).message.contains("not a listener of this plugin"));
        drop((stream, socket));
        let gone = Connecting::begin(&endpoint).and_then(|connecting| {
            until(|| connecting.advance().transpose().map(|outcome| outcome.map(|_| ())))
        });
        assert_eq!(gone.unwrap_err().returned(), 6);
    }
}
