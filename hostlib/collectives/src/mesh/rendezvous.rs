//! An exchange by TCP: rank 0 listens at an address that all ranks know, the others connect, and every round goes through
//! rank 0.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::mesh::acceptor::Acceptor;
use crate::mesh::error::{ExchangeError, Refusal};
use crate::mesh::exchange::{EXCHANGE_MAX, Exchange, check_len};
use crate::mesh::timed::{read_by, write_by};

/// Longest name of a job in bytes.
pub const JOB_NAME_MAX: usize = 64;

/// Version of hello, welcome and what follows. Their lengths, and their first eight bytes, are the same in every version.
const VERSION: u8 = 1;
/// Begins hello and welcome.
const MAGIC: [u8; 8] = [b'n', b'f', b'r', b'e', b'n', b'd', b'z', VERSION];
/// Magic, rank (2), world (2), length of the name (1), 0 (3), name.
pub(crate) const HELLO: usize = 16 + JOB_NAME_MAX;
/// Magic, verdict (1), 0 (1), world (2).
pub(crate) const WELCOME: usize = 12;
/// Between two attempts to reach rank 0.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// One attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// An [`Exchange`] through rank 0 at a known address.
///
/// A connecting rank must name the job and the number of ranks, and have a rank that is not connected yet; others are refused with
/// the reason, and do not disturb the rest. Any process that can reach the address and knows the job's name may take part: on a network that is not
/// trusted, use an exchange that authenticates.
#[derive(Debug)]
pub struct TcpRendezvous {
    job: String,
    rank: u16,
    world: u16,
    addr: SocketAddr,
    timeout: Duration,
    role: Role,
}

enum Role {
    /// Rank 0: the listener until all ranks are there, and their connections.
    Server { acceptor: Option<Box<Acceptor<HELLO>>>, clients: Vec<Option<TcpStream>> },
    /// Another rank: the connection to rank 0.
    Client(Option<TcpStream>),
}

impl TcpRendezvous {
    /// Rank `rank` of `world` of a job. Rank 0 listens at `addr` from now on; the others connect in the first exchange. Each
    /// exchange, and the connecting in the first, ends after `timeout`.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Rank`], [`ExchangeError::JobName`], and [`ExchangeError::Listen`] on rank 0.
    pub fn new(
        addr: SocketAddr,
        job: &str,
        rank: u16,
        world: u16,
        timeout: Duration,
    ) -> Result<Self, ExchangeError> {
        if rank >= world {
            return Err(ExchangeError::Rank { rank, world });
        }
        let listener = if rank == 0 {
            let listener = TcpListener::bind(addr)
                .map_err(|source| ExchangeError::Listen { addr, source: Arc::new(source) })?;
            Some(listener)
        } else {
            None
        };
        Self::with(listener, addr, job, rank, world, timeout)
    }

    /// Rank 0 of `world`, with a listener that the caller made, for instance to have a port chosen by the system.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Rank`], [`ExchangeError::JobName`], [`ExchangeError::Listen`].
    pub fn host(
        listener: TcpListener,
        job: &str,
        world: u16,
        timeout: Duration,
    ) -> Result<Self, ExchangeError> {
        if world == 0 {
            return Err(ExchangeError::Rank { rank: 0, world });
        }
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let addr = listener
            .local_addr()
            .map_err(|source| ExchangeError::Listen { addr: unknown, source: Arc::new(source) })?;
        Self::with(Some(listener), addr, job, 0, world, timeout)
    }

    fn with(
        listener: Option<TcpListener>,
        addr: SocketAddr,
        job: &str,
        rank: u16,
        world: u16,
        timeout: Duration,
    ) -> Result<Self, ExchangeError> {
        if job.is_empty() || job.len() > JOB_NAME_MAX {
            return Err(ExchangeError::JobName { len: job.len(), max: JOB_NAME_MAX });
        }
        let role = match listener {
            None => Role::Client(None),
            Some(listener) => {
                let failed = |source| ExchangeError::Listen { addr, source: Arc::new(source) };
                let acceptor = Some(Box::new(Acceptor::new(listener).map_err(failed)?));
                Role::Server { acceptor, clients: (0..world).map(|_| None).collect() }
            }
        };
        Ok(Self { job: job.to_owned(), rank, world, addr, timeout, role })
    }

    /// Over streams that are connected already, by rank: those of all others at rank 0, that of rank 0 at the others.
    pub(crate) fn over(job: &str, rank: u16, mut streams: Vec<Option<TcpStream>>, timeout: Duration) -> Self {
        let (world, addr) = (streams.len() as u16, SocketAddr::from(([0, 0, 0, 0], 0)));
        let role = match rank {
            0 => Role::Server { acceptor: None, clients: streams },
            _ => Role::Client(streams.first_mut().and_then(Option::take)),
        };
        Self { job: job.to_owned(), rank, world, addr, timeout, role }
    }

    /// What rank 0 answers to a hello while no rank is connected, if it does; and the rank, if it accepts it.
    pub(crate) fn answer(&self, hello: &[u8; HELLO]) -> (Option<u16>, Option<[u8; WELCOME]>) {
        match self.check_hello(hello) {
            Some((rank, refusal)) => (refusal.is_none().then_some(rank), Some(welcome(refusal, self.world))),
            None => (None, is_of_other_version(hello).then(other_version)),
        }
    }

    /// What this rank sends to rank 0 first.
    pub(crate) fn hello(&self) -> [u8; HELLO] {
        let mut hello = [0; HELLO];
        hello[..8].copy_from_slice(&MAGIC);
        hello[8..10].copy_from_slice(&self.rank.to_le_bytes());
        hello[10..12].copy_from_slice(&self.world.to_le_bytes());
        hello[12] = self.job.len() as u8;
        hello[16..16 + self.job.len()].copy_from_slice(self.job.as_bytes());
        hello
    }

    /// Whether rank 0 accepts the sender of this hello; `None` for an invalid hello.
    fn check_hello(&self, hello: &[u8; HELLO]) -> Option<(u16, Option<Refusal>)> {
        let name_len = usize::from(hello[12]);
        if hello[..8] != MAGIC || name_len > JOB_NAME_MAX {
            return None;
        }
        let rank = u16::from_le_bytes([hello[8], hello[9]]);
        let world = u16::from_le_bytes([hello[10], hello[11]]);
        let refusal = if &hello[16..16 + name_len] != self.job.as_bytes() {
            Some(Refusal::OtherJob)
        } else if world != self.world {
            Some(Refusal::OtherWorld { world: self.world })
        } else if rank == 0 || rank >= self.world {
            Some(Refusal::NoSuchRank)
        } else {
            None
        };
        Some((rank, refusal))
    }

    /// Rank 0: waits for the others.
    fn assemble(&mut self, until: Instant) -> Result<(), ExchangeError> {
        loop {
            let Role::Server { acceptor: Some(waiting), clients } = &mut self.role else { return Ok(()) };
            // A rank that connected and was lost since is missing, too.
            clients.iter_mut().for_each(|client| *client = client.take().filter(is_connected));
            let missing: Vec<u16> =
                (1..self.world).filter(|rank| clients[usize::from(*rank)].is_none()).collect();
            if missing.is_empty() {
                if let Role::Server { acceptor, .. } = &mut self.role {
                    *acceptor = None;
                }
                return Ok(());
            }
            let next = waiting
                .next(until)
                .map_err(|source| ExchangeError::Listen { addr: self.addr, source: Arc::new(source) })?;
            let Some((stream, hello)) = next else {
                return Err(ExchangeError::Missing { ranks: missing, waited: self.timeout });
            };
            let Some((rank, mut refusal)) = self.check_hello(&hello) else {
                if is_of_other_version(&hello) {
                    // It names this version; when it cannot be sent, that rank is gone.
                    let _ = write_by(&stream, &other_version(), Instant::now() + ATTEMPT_TIMEOUT);
                }
                continue;
            };
            let Role::Server { clients, .. } = &mut self.role else { return Ok(()) };
            if refusal.is_none() && clients[usize::from(rank)].as_ref().is_some_and(is_connected) {
                refusal = Some(Refusal::Duplicate);
            }
            let sent = write_by(&stream, &welcome(refusal, self.world), Instant::now() + ATTEMPT_TIMEOUT);
            if refusal.is_none() && sent.is_ok() {
                let _ = stream.set_nodelay(true);
                clients[usize::from(rank)] = Some(stream);
            }
        }
    }

    /// Another rank: connects to rank 0.
    fn join(&mut self, until: Instant) -> Result<(), ExchangeError> {
        if !matches!(self.role, Role::Client(None)) {
            return Ok(());
        }
        loop {
            let error = match self.attempt(until)? {
                Ok(stream) => {
                    self.role = Role::Client(Some(stream));
                    return Ok(());
                }
                Err(error) => error,
            };
            if Instant::now() + RETRY_INTERVAL >= until {
                return Err(ExchangeError::Unreachable {
                    addr: self.addr,
                    waited: self.timeout,
                    source: Arc::new(error),
                });
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// One attempt: after an inner error another one is made.
    fn attempt(&self, until: Instant) -> Result<io::Result<TcpStream>, ExchangeError> {
        let by = until.min(Instant::now() + ATTEMPT_TIMEOUT).max(Instant::now() + Duration::from_millis(1));
        let connected = (|| {
            let stream = TcpStream::connect_timeout(&self.addr, by - Instant::now())?;
            // A connection to a port in the ephemeral range may connect to itself.
            if stream.local_addr()? == self.addr {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            stream.set_nodelay(true)?;
            write_by(&stream, &self.hello(), by)?;
            let mut welcome = [0; WELCOME];
            read_by(&stream, &mut welcome, until)?;
            Ok((stream, welcome))
        })();
        let (stream, welcome) = match connected {
            Ok(connected) => connected,
            Err(error) => return Ok(Err(error)),
        };
        self.check_welcome(&welcome).map(|()| Ok(stream))
    }

    /// Whether rank 0 has accepted this rank.
    pub(crate) fn check_welcome(&self, welcome: &[u8; WELCOME]) -> Result<(), ExchangeError> {
        if let Some(theirs) = version_of(welcome)
            && theirs != VERSION
        {
            return Err(ExchangeError::Version { addr: self.addr, theirs, ours: VERSION });
        }
        if welcome[..8] != MAGIC {
            return Err(ExchangeError::NotRendezvous { addr: self.addr });
        }
        let why = match welcome[8] {
            0 => return Ok(()),
            1 => Refusal::OtherJob,
            2 => Refusal::OtherWorld { world: u16::from_le_bytes([welcome[10], welcome[11]]) },
            3 => Refusal::Duplicate,
            4 => Refusal::NoSuchRank,
            _ => return Err(ExchangeError::NotRendezvous { addr: self.addr }),
        };
        Err(ExchangeError::Refused { addr: self.addr, rank: self.rank, why })
    }
}

/// The version of a hello or welcome; `None` if it is neither.
fn version_of(message: &[u8]) -> Option<u8> {
    message.strip_prefix(&MAGIC[..7]).and_then(|rest| rest.first()).copied()
}

fn is_of_other_version(hello: &[u8]) -> bool {
    version_of(hello).is_some_and(|version| version != VERSION)
}

/// The answer to a rank of another version.
fn other_version() -> [u8; WELCOME] {
    let mut bytes = [0; WELCOME];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8] = 5;
    bytes
}

/// Verdicts: 0 welcome, 1 other job, 2 other world, 3 duplicate, 4 no such rank; 5 to another version.
fn welcome(refusal: Option<Refusal>, world: u16) -> [u8; WELCOME] {
    let mut bytes = [0; WELCOME];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8] = match refusal {
        None => 0,
        Some(Refusal::OtherJob) => 1,
        Some(Refusal::OtherWorld { .. }) => 2,
        Some(Refusal::Duplicate) => 3,
        Some(Refusal::NoSuchRank) => 4,
    };
    bytes[10..].copy_from_slice(&world.to_le_bytes());
    bytes
}

/// Whether the other end is still connected, as far as is known.
fn is_connected(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let peeked = stream.peek(&mut [0]);
    let blocks = stream.set_nonblocking(false).is_ok();
    blocks
        && match peeked {
            Ok(len) => len > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
}

fn lost(rank: u16) -> impl Fn(io::Error) -> ExchangeError {
    move |source| ExchangeError::Lost { rank, source: Arc::new(source) }
}

/// A string as length (4 bytes, little-endian) and bytes.
fn put(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    into.extend_from_slice(bytes);
}

fn take(stream: &TcpStream, until: Instant) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    read_by(stream, &mut len, until)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > EXCHANGE_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len];
    read_by(stream, &mut bytes, until)?;
    Ok(bytes)
}

impl Exchange for TcpRendezvous {
    fn rank(&self) -> u16 {
        self.rank
    }

    fn world(&self) -> u16 {
        self.world
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        check_len(mine.len())?;
        let until = Instant::now() + self.timeout;
        self.assemble(until)?;
        self.join(until)?;
        match &self.role {
            Role::Client(None) => Ok(Vec::new()),
            Role::Client(Some(stream)) => {
                let mut message = Vec::with_capacity(4 + mine.len());
                put(&mut message, mine);
                write_by(stream, &message, until).map_err(lost(0))?;
                (0..self.world).map(|_| take(stream, until).map_err(lost(0))).collect()
            }
            Role::Server { clients, .. } => {
                let mut all = vec![mine.to_vec()];
                for (rank, client) in clients.iter().enumerate().skip(1) {
                    let Some(stream) = client else { continue };
                    all.push(take(stream, until).map_err(lost(rank as u16))?);
                }
                let mut message = Vec::new();
                all.iter().for_each(|one| put(&mut message, one));
                for (rank, client) in clients.iter().enumerate().skip(1) {
                    let Some(stream) = client else { continue };
                    write_by(stream, &message, until).map_err(lost(rank as u16))?;
                }
                Ok(all)
            }
        }
    }

    fn local_ip(&self) -> Option<IpAddr> {
        let of_stream = |stream: &TcpStream| stream.local_addr().ok().map(|addr| addr.ip());
        match &self.role {
            Role::Client(stream) => stream.as_ref().and_then(of_stream),
            Role::Server { clients, .. } => {
                let met = clients.iter().flatten().find_map(of_stream);
                met.or_else(|| (!self.addr.ip().is_unspecified()).then(|| self.addr.ip()))
            }
        }
    }
}

impl std::fmt::Debug for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Server { .. } => "Server",
            Self::Client(_) => "Client",
        })
    }
}
