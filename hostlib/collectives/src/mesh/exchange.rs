//! How ranks exchange small strings before they have links.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::mesh::error::ExchangeError;

/// Most bytes that one rank may give to an exchange.
pub const EXCHANGE_MAX: usize = 64 * 1024;

/// All-gather of small byte strings among the ranks of a job. Each implementation has a deadline of its own: a call returns in
/// bounded time whatever the other ranks do.
pub trait Exchange: Send {
    /// This rank, below [`Exchange::world`].
    fn rank(&self) -> u16;

    /// Number of ranks.
    fn world(&self) -> u16;

    /// Gives `mine` to all and returns what each gave, in order of ranks. Every rank makes the same number of calls.
    ///
    /// # Errors
    ///
    /// [`ExchangeError`]: strings longer than [`EXCHANGE_MAX`]; ranks that did not take part in time or have left.
    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError>;

    /// The address of this host through which the other ranks were reached, if the exchange knows: where a mesh listens by
    /// default.
    fn local_ip(&self) -> Option<IpAddr> {
        None
    }
}

impl<E: Exchange + ?Sized> Exchange for Box<E> {
    fn rank(&self) -> u16 {
        (**self).rank()
    }

    fn world(&self) -> u16 {
        (**self).world()
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        (**self).all_gather(mine)
    }

    fn local_ip(&self) -> Option<IpAddr> {
        (**self).local_ip()
    }
}

/// An error of a caller's all-gather callback.
pub type CallbackError = Box<dyn std::error::Error + Send + Sync>;

/// An exchange by a callback: over a store, MPI, or any other channel that the ranks have.
pub struct FnExchange<F> {
    rank: u16,
    world: u16,
    all_gather: F,
}

impl<F> FnExchange<F>
where
    F: FnMut(&[u8]) -> Result<Vec<Vec<u8>>, CallbackError> + Send,
{
    /// `all_gather` gives its argument to all ranks and returns all ranks' arguments in order of ranks; it must end in bounded
    /// time.
    ///
    /// # Errors
    ///
    /// [`ExchangeError::Rank`] unless `rank < world`.
    pub fn new(rank: u16, world: u16, all_gather: F) -> Result<Self, ExchangeError> {
        if rank >= world {
            return Err(ExchangeError::Rank { rank, world });
        }
        Ok(Self { rank, world, all_gather })
    }
}

impl<F> Exchange for FnExchange<F>
where
    F: FnMut(&[u8]) -> Result<Vec<Vec<u8>>, CallbackError> + Send,
{
    fn rank(&self) -> u16 {
        self.rank
    }

    fn world(&self) -> u16 {
        self.world
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        check_len(mine.len())?;
        let all = (self.all_gather)(mine).map_err(|error| ExchangeError::Callback(Arc::from(error)))?;
        if all.len() != usize::from(self.world) {
            return Err(ExchangeError::Count { world: self.world, got: all.len() });
        }
        all.iter().try_for_each(|theirs| check_len(theirs.len()))?;
        Ok(all)
    }
}

impl<F> fmt::Debug for FnExchange<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnExchange").field("rank", &self.rank).field("world", &self.world).finish()
    }
}

pub(crate) fn check_len(len: usize) -> Result<(), ExchangeError> {
    if len > EXCHANGE_MAX {
        return Err(ExchangeError::TooLong { len, max: EXCHANGE_MAX });
    }
    Ok(())
}
