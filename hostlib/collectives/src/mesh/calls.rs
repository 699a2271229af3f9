//! Small remote calls between processes of a job that have no links: one connection for each call, a request and a response.
//!
//! A caller is known by its token: 16 random bytes that the ranks have exchanged over their links. Requests of others are short and part of the first
//! bytes, so that a connection which sends nothing more delays no other.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::mesh::acceptor::Acceptor;
use crate::mesh::timed::{read_by, write_by};

/// Begins a call; the last byte is the version.
const MAGIC: [u8; 8] = *b"nfcall \x01";
/// Length of a token.
pub const CALL_TOKEN: usize = 16;
/// Bytes of a request that are part of the first ones.
const INLINE: usize = 160;
/// Magic, token, length of the request (4, little-endian), 0 (4), the first bytes of the request.
const HELLO: usize = 8 + CALL_TOKEN + 8 + INLINE;
/// Longest request or response.
const CALL_MAX: usize = 4 << 20;
/// How long a request may take to arrive once it has begun, and a response to be sent.
const TRANSFER_TIMEOUT: Duration = Duration::from_millis(500);

/// What authorizes a call.
pub type CallToken = [u8; CALL_TOKEN];

/// Where a process answers calls.
pub struct CallListener {
    acceptor: Acceptor<HELLO>,
    address: SocketAddr,
}

impl std::fmt::Debug for CallListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallListener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl CallListener {
    /// Listens.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok(Self { acceptor: Acceptor::new(listener)?, address })
    }

    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers the next call that comes until `until`. `answer` gets the token and the request; without a response the connection is closed. A
    /// request of a caller whose token is not `token` has at most 160 bytes; longer ones are not read.
    ///
    /// # Errors
    ///
    /// The listener's; calls that fail are not answered.
    pub fn serve(
        &mut self,
        until: Instant,
        token: &CallToken,
        answer: impl FnOnce(&CallToken, &[u8]) -> Option<Vec<u8>>,
    ) -> io::Result<()> {
        let Some((stream, hello)) = self.acceptor.next(until)? else { return Ok(()) };
        let Some((theirs, request)) = request(&stream, &hello, token) else { return Ok(()) };
        if let Some(response) = answer(&theirs, &request) {
            let mut bytes = (response.len() as u32).to_le_bytes().to_vec();
            bytes.extend_from_slice(&response);
            // When it fails, the caller is gone.
            let _ = write_by(&stream, &bytes, Instant::now() + TRANSFER_TIMEOUT);
        }
        Ok(())
    }
}

/// The request that begins with these bytes, if it is one.
fn request(stream: &TcpStream, hello: &[u8; HELLO], token: &CallToken) -> Option<(CallToken, Vec<u8>)> {
    let (magic, rest) = hello.split_first_chunk::<8>()?;
    let (theirs, rest) = rest.split_first_chunk::<CALL_TOKEN>()?;
    let (len, rest) = rest.split_first_chunk::<8>()?;
    let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
    let limit = if theirs == token { CALL_MAX } else { INLINE };
    if *magic != MAGIC || len > limit {
        return None;
    }
    let mut request = rest[..len.min(INLINE)].to_vec();
    if len > INLINE {
        request.resize(len, 0);
        read_by(stream, &mut request[INLINE..], Instant::now() + TRANSFER_TIMEOUT).ok()?;
    }
    Some((*theirs, request))
}

/// Calls the process at `address`, within `timeout`.
///
/// # Errors
///
/// The system's; the call may have taken effect nevertheless.
pub fn call(
    address: SocketAddr,
    token: &CallToken,
    request: &[u8],
    timeout: Duration,
) -> io::Result<Vec<u8>> {
    let until = Instant::now() + timeout;
    if request.len() > CALL_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let stream = TcpStream::connect_timeout(&address, timeout.max(Duration::from_millis(1)))?;
    // A connection to a port in the ephemeral range may connect to itself.
    if stream.local_addr()? == address {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    stream.set_nodelay(true)?;
    let mut bytes = Vec::with_capacity(HELLO + request.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(token);
    bytes.extend_from_slice(&(request.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(request);
    bytes.resize(bytes.len().max(HELLO), 0);
    write_by(&stream, &bytes, until)?;
    let mut len = [0; 4];
    read_by(&stream, &mut len, until)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > CALL_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut response = vec![0; len];
    read_by(&stream, &mut response, until)?;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn requests_of_any_length_are_answered_and_long_ones_of_strangers_are_not() {
        let mut listener = CallListener::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let (own, other): (CallToken, CallToken) = ([1; CALL_TOKEN], [2; CALL_TOKEN]);
        let address = listener.address();
        let calls = [
            (own, 0),
            (own, INLINE),
            (own, INLINE + 1),
            (own, 100_000),
            (other, INLINE),
            (other, INLINE + 1),
        ];
        let served = std::thread::spawn(move || {
            for _ in calls {
                let until = Instant::now() + Duration::from_secs(60);
                listener
                    .serve(until, &own, |token, request| {
                        let mut response = request.to_vec();
                        response.push(token[0]);
                        Some(response)
                    })
                    .unwrap();
            }
        });
        for (token, len) in calls {
            let request: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let response = call(address, &token, &request, Duration::from_secs(60));
            if token == other && len > INLINE {
                response.unwrap_err();
                continue;
            }
            let response = response.unwrap();
            assert_eq!((&response[..len], response[len]), (&request[..], token[0]));
        }
        served.join().unwrap();
    }
}
