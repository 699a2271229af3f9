//! Making the links: every rank listens and announces its address and a token to all, and the higher rank of each pair
//! connects to the lower one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::mesh::acceptor::Acceptor;
use crate::mesh::error::MeshError;
use crate::mesh::exchange::Exchange;
use crate::mesh::group::MeshConfig;
use crate::mesh::host::{HOST_ID_MAX, HostId};
use crate::mesh::link::Link;
use crate::mesh::timed::{read_by, write_by};

/// Begins hello and welcome; the last byte is the version.
const MAGIC: [u8; 8] = *b"nfmesh \x01";
const TOKEN: usize = 16;
/// Magic, the listener's token, the connecting rank's token, its rank (2), 0 (6).
pub(crate) const HELLO: usize = 8 + 2 * TOKEN + 8;
/// Magic, the connecting rank's token.
const WELCOME: usize = 8 + TOKEN;
/// Between two attempts to reach a rank.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

type Token = [u8; TOKEN];

/// What a rank announces to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Introduction {
    token: Token,
    addr: SocketAddr,
    host: HostId,
}

impl Introduction {
    /// Version (1 byte: 1), token, port (2), length of the address (1), address, host.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.extend_from_slice(&self.token);
        bytes.extend_from_slice(&self.addr.port().to_le_bytes());
        match self.addr.ip() {
            IpAddr::V4(ip) => {
                bytes.push(4);
                bytes.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                bytes.push(16);
                bytes.extend_from_slice(&ip.octets());
            }
        }
        bytes.extend_from_slice(self.host.as_str().as_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (token, rest) = rest.split_first_chunk::<TOKEN>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let (ip_len, rest) = rest.split_first()?;
        let (ip, rest) = match ip_len {
            4 => rest.split_first_chunk::<4>().map(|(ip, rest)| (IpAddr::V4(Ipv4Addr::from(*ip)), rest))?,
            16 => rest.split_first_chunk::<16>().map(|(ip, rest)| (IpAddr::V6(Ipv6Addr::from(*ip)), rest))?,
            _ => return None,
        };
        let host = std::str::from_utf8(rest).ok().filter(|host| host.len() <= HOST_ID_MAX)?;
        let addr = SocketAddr::new(ip, u16::from_le_bytes(*port));
        (*version == 1).then(|| Self { token: *token, addr, host: HostId::named(host) })
    }
}

/// The rank that sends `hello` to `rank`, where the ranks announced `introductions`; `None` when it is not to be accepted.
pub(crate) fn caller(rank: u16, introductions: Vec<Introduction>, hello: &[u8; HELLO]) -> Option<u16> {
    let config = MeshConfig::default();
    let connector = Connector { rank, introductions, config: &config, until: Instant::now() };
    connector.caller(hello).map(|rank| rank as u16)
}

/// The links of one rank.
pub(crate) struct Connected {
    pub(crate) links: Vec<Option<Link>>,
    pub(crate) hosts: Vec<HostId>,
    pub(crate) ip: IpAddr,
}

/// Connects this rank with all others.
pub(crate) fn connect(exchange: &mut dyn Exchange, config: &MeshConfig) -> Result<Connected, MeshError> {
    let (rank, world) = (exchange.rank(), exchange.world());
    if rank >= world {
        return Err(MeshError::NoSuchRank { rank, world });
    }
    // A first round, because an exchange may know the route to the others only then, and to start the connect timeout
    // when all are present.
    exchange.all_gather(&[])?;
    let ip = config.listen_on.or(exchange.local_ip()).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let wanted = SocketAddr::new(ip, 0);
    let failed = |source| MeshError::Listen { addr: wanted, source: Arc::new(source) };
    let listener = TcpListener::bind(wanted).map_err(failed)?;
    let mut token = [0; TOKEN];
    rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty()).map_err(io::Error::from)?;
    let addr = listener.local_addr().map_err(failed)?;
    let mine = Introduction { token, addr, host: config.host.clone().unwrap_or_else(HostId::detect) };
    let all = exchange.all_gather(&mine.to_bytes())?;
    let mut introductions = Vec::with_capacity(all.len());
    for (rank, bytes) in (0..world).zip(&all) {
        introductions.push(Introduction::from_bytes(bytes).ok_or(MeshError::Introduction { rank })?);
    }
    let hosts = introductions.iter().map(|one| one.host.clone()).collect();
    let connector = Connector { rank, introductions, config, until: Instant::now() + config.connect_timeout };
    let streams = connector.link(listener)?;
    let mut links = Vec::with_capacity(streams.len());
    for stream in streams {
        links.push(stream.map(|stream| prepare(stream, config)).transpose()?);
    }
    Ok(Connected { links, hosts, ip })
}

struct Connector<'a> {
    rank: u16,
    introductions: Vec<Introduction>,
    config: &'a MeshConfig,
    until: Instant,
}

impl Connector<'_> {
    fn no_link(&self, rank: usize) -> MeshError {
        let waited = self.config.connect_timeout;
        MeshError::Link { rank: rank as u16, addr: self.introductions[rank].addr, waited }
    }

    /// Sends a hello to all lower ranks, welcomes all higher ones, and then waits for the lower ones' welcome: in this order
    /// ranks cannot deadlock.
    fn link(&self, listener: TcpListener) -> Result<Vec<Option<TcpStream>>, MeshError> {
        let (me, world) = (usize::from(self.rank), self.introductions.len());
        let mut streams: Vec<Option<TcpStream>> = (0..world).map(|_| None).collect();
        for (lower, stream) in streams.iter_mut().enumerate().take(me) {
            *stream = Some(self.call(lower)?);
        }
        let mut acceptor: Acceptor<HELLO> = Acceptor::new(listener)?;
        while let Some(missing) = (me + 1..world).find(|rank| streams[*rank].is_none()) {
            let Some((stream, hello)) = acceptor.next(self.until)? else {
                return Err(self.no_link(missing));
            };
            // Unauthenticated connections are dropped silently.
            let Some(rank) = self.caller(&hello).filter(|rank| streams[*rank].is_none()) else { continue };
            let mut welcome = [0; WELCOME];
            welcome[..8].copy_from_slice(&MAGIC);
            welcome[8..].copy_from_slice(&self.introductions[rank].token);
            if write_by(&stream, &welcome, self.until).is_ok() {
                streams[rank] = Some(stream);
            }
        }
        for (lower, stream) in streams.iter().enumerate().take(me) {
            let mut welcome = [0; WELCOME];
            let received = stream.as_ref().map(|stream| read_by(stream, &mut welcome, self.until));
            let is_welcome = welcome[..8] == MAGIC && welcome[8..] == self.introductions[me].token;
            if !matches!(received, Some(Ok(()))) || !is_welcome {
                return Err(self.no_link(lower));
            }
        }
        Ok(streams)
    }

    /// The higher rank that sends this hello; `None` for any other bytes.
    fn caller(&self, hello: &[u8; HELLO]) -> Option<usize> {
        let (me, rank) = (usize::from(self.rank), u16::from_le_bytes([hello[HELLO - 8], hello[HELLO - 7]]));
        let rank = usize::from(rank);
        (rank > me && rank < self.introductions.len() && *hello == self.hello(me, rank)).then_some(rank)
    }

    /// The hello that `from` sends to `to`.
    fn hello(&self, to: usize, from: usize) -> [u8; HELLO] {
        let mut hello = [0; HELLO];
        hello[..8].copy_from_slice(&MAGIC);
        hello[8..8 + TOKEN].copy_from_slice(&self.introductions[to].token);
        hello[8 + TOKEN..8 + 2 * TOKEN].copy_from_slice(&self.introductions[from].token);
        hello[HELLO - 8..HELLO - 6].copy_from_slice(&(from as u16).to_le_bytes());
        hello
    }

    fn call(&self, rank: usize) -> Result<TcpStream, MeshError> {
        let hello = self.hello(rank, usize::from(self.rank));
        loop {
            let remaining = self.until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err(self.no_link(rank));
            }
            let stream = TcpStream::connect_timeout(&self.introductions[rank].addr, remaining);
            if let Ok(stream) = stream
                && write_by(&stream, &hello, self.until).is_ok()
            {
                return Ok(stream);
            }
            std::thread::sleep(RETRY_INTERVAL.min(remaining));
        }
    }
}

/// Options of a link: small messages leave at once, a lost host is detected, and nothing blocks.
fn prepare(stream: TcpStream, config: &MeshConfig) -> Result<Link, MeshError> {
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let third = (config.keepalive_timeout / 3).max(Duration::from_secs(1));
    let options = || -> rustix::io::Result<()> {
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, third)?;
        sockopt::set_tcp_keepintvl(&stream, third)?;
        sockopt::set_tcp_keepcnt(&stream, 2)?;
        let millis = u32::try_from(config.keepalive_timeout.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(&stream, millis)?;
        if let Some(bytes) = config.socket_buffer_bytes {
            sockopt::set_socket_send_buffer_size(&stream, bytes)?;
            sockopt::set_socket_recv_buffer_size(&stream, bytes)?;
        }
        Ok(())
    };
    options().map_err(io::Error::from)?;
    Ok(Link::new(stream))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_introduction_survives_the_exchange() {
        for addr in ["10.1.2.3:45", "[fe80::7]:65535"] {
            let one = Introduction {
                token: [7; TOKEN],
                addr: addr.parse().unwrap(),
                host: HostId::named("h\u{f6}st"),
            };
            assert_eq!(Introduction::from_bytes(&one.to_bytes()), Some(one));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_introduction_or_none(bytes in proptest::collection::vec(0u8..30, 0..60)) {
            if let Some(one) = Introduction::from_bytes(&bytes) {
                prop_assert_eq!(one.to_bytes(), bytes);
            }
        }
    }
}
