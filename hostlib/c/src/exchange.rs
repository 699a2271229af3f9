//! The exchange over a caller's all-gather, by which ranks find each other.

use std::ffi::c_void;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};

use netfold::{CallbackError, Exchange, ExchangeError};

use crate::result::Failure;

/// Largest string that one rank may give to an exchange, in bytes.
const EXCHANGE_MAX: usize = 64 * 1024;

/// The caller's function and its context.
pub(crate) struct Gather {
    pub(crate) call: unsafe extern "C" fn(*mut c_void, *const u8, *mut u8, usize) -> i32,
    pub(crate) context: *mut c_void,
}

/// Byte strings of any length over a function that gathers equally long ones: lengths first, then the strings, padded to
/// the longest.
pub(crate) struct CallerExchange {
    rank: u16,
    world: u16,
    gather: Gather,
    local_ip: Option<IpAddr>,
}

// SAFETY: an exchange is used on the thread that connects, on which the caller's function is to be called.
unsafe impl Send for CallerExchange {}

impl CallerExchange {
    pub(crate) fn new(
        rank: u16,
        world: u16,
        gather: Gather,
        local_ip: Option<IpAddr>,
    ) -> Result<Self, Failure> {
        if rank >= world {
            return Err(Failure::argument(format!("rank {rank} is not below the world size {world}")));
        }
        Ok(Self { rank, world, gather, local_ip })
    }

    /// As many bytes of every rank as `mine` has, one after the other.
    fn all(&self, mine: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        let mut all = vec![0; mine.len() * usize::from(self.world)];
        let Gather { call, context } = self.gather;
        // SAFETY: `all` has room for `mine.len()` bytes of each rank; the function and its context are valid while the builder
        // connects, by the contract of netfold_builder_set_exchange.
        let result = unsafe { call(context, mine.as_ptr(), all.as_mut_ptr(), mine.len()) };
        match result {
            0 => Ok(all),
            _ => {
                let error = CallbackError::from(format!("the caller's all-gather returned {result}"));
                Err(ExchangeError::Callback(error.into()))
            }
        }
    }
}

impl Exchange for CallerExchange {
    fn rank(&self) -> u16 {
        self.rank
    }

    fn world(&self) -> u16 {
        self.world
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let too_long = |len| ExchangeError::TooLong { len, max: EXCHANGE_MAX };
        if mine.len() > EXCHANGE_MAX {
            return Err(too_long(mine.len()));
        }
        let all = self.all(&(mine.len() as u32).to_le_bytes())?;
        let (lens, _) = all.as_chunks::<4>();
        let lens: Vec<usize> = lens.iter().map(|len| u32::from_le_bytes(*len) as usize).collect();
        let longest = lens.iter().copied().max().unwrap_or(0);
        if longest > EXCHANGE_MAX {
            return Err(too_long(longest));
        }
        if longest == 0 {
            return Ok(vec![Vec::new(); lens.len()]);
        }
        let mut padded = mine.to_vec();
        padded.resize(longest, 0);
        let all = self.all(&padded)?;
        Ok(all.chunks_exact(longest).zip(&lens).map(|(padded, len)| padded[..*len].to_vec()).collect())
    }

    fn local_ip(&self) -> Option<IpAddr> {
        self.local_ip
    }
}

/// The address from which this host reaches the switch.
pub(crate) fn ip_towards(switch: &str) -> Option<IpAddr> {
    let switch = switch.to_socket_addrs().ok()?.next()?;
    let any = if switch.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Sends nothing: the system chooses the route.
    socket.connect(switch).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
