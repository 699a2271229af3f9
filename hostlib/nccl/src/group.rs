//! CollNet: a communicator among ranks that have each other's handles.

use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use netfold::{
    Call, Collective, Communicator, DType, Exchange, Mode, Network, ReduceOp, TcpRendezvous, Work,
};

use crate::abi::Handle;
use crate::handle::{Endpoint, Purpose, digest};
use crate::handshake;
use crate::interfaces::Device;
use crate::memory::{Leftover, Region};
use crate::registry::{Id, Slots};
use crate::result::{Code, Failure, Result};
use crate::settings::Settings;
use crate::window::{Section, Window};

/// The listener of one rank of a group. Used by one `connect`.
#[derive(Debug)]
pub(crate) struct GroupListener {
    endpoint: Endpoint,
    socket: Mutex<Option<TcpListener>>,
}

impl GroupListener {
    pub(crate) fn new(device: &Device) -> Result<(Self, Endpoint)> {
        let (socket, endpoint) = handshake::listen(device, Purpose::Group)?;
        Ok((Self { endpoint, socket: Mutex::new(Some(socket)) }, endpoint))
    }

    fn take(&self) -> Result<TcpListener> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        socket.ok_or_else(|| Failure::usage("this listener was used by an earlier connect"))
    }
}

/// One rank's membership of a group.
pub(crate) struct CollGroup {
    id: Id,
    comm: Communicator,
    mode: Mode,
    requests: Mutex<Slots<Request>>,
}

#[derive(Debug)]
struct Request {
    /// An operation for each section of a window; one for an all-reduce.
    works: Vec<Work>,
    bytes: usize,
    /// Input to clear when all are done.
    leftover: Option<Leftover>,
}

/// The arguments of an all-reduce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduction {
    pub(crate) count: usize,
    pub(crate) dtype: i32,
    pub(crate) op: i32,
}

/// Builds the group, or refuses on all ranks. Blocks until all ranks have connected, at most for the connect timeout.
pub(crate) fn connect(
    endpoints: &[Endpoint],
    rank: usize,
    listener: &GroupListener,
) -> Result<(Communicator, Mode)> {
    let world = u16::try_from(endpoints.len())
        .map_err(|_| Failure::argument(format!("{} ranks are too many", endpoints.len())))?;
    let (Some(own), Some(first)) = (endpoints.get(rank), endpoints.first()) else {
        return Err(Failure::argument(format!("rank {rank} is not below the world size {world}")));
    };
    if *own != listener.endpoint {
        return Err(Failure::usage(format!("the handle of rank {rank} is not this listener's")));
    }
    let socket = listener.take()?;
    // Invalid settings are sent to the other ranks, too, which would wait otherwise.
    let settings = Settings::from_environment();
    let timeout = settings.as_ref().map_or(std::time::Duration::from_secs(30), |known| known.connect_timeout);
    let digest = digest(endpoints);
    // The token of rank 0's handle authenticates ranks at the rendezvous; the switch does not receive it.
    let secret = format!("nccl-{:032x}", u128::from_le_bytes(first.token) ^ digest);
    let rank = rank as u16;
    let exchange = if rank == 0 {
        TcpRendezvous::host(socket, &secret, world, timeout)
    } else {
        drop(socket);
        TcpRendezvous::new(first.address, &secret, rank, world, timeout)
    };
    let mut exchange = exchange.map_err(exchange_error)?;
    agree(&mut exchange, &settings, world)?;
    let settings = settings.map_err(Failure::argument)?;
    let name = format!("nccl-{digest:032x}");
    let builder = match &settings.job {
        Some(job) => Communicator::builder().job(job.as_str()).group(name),
        None => Communicator::builder().job(name),
    };
    let mut builder = builder
        .mode(settings.mode)
        .authenticated(settings.authenticated)
        .exchange(Box::new(exchange))
        .shared_memory(false) // ranks are nodes: NCCL has reduced within each
        .fall_back(true)
        .join_timeout(timeout)
        .stall_timeout(settings.stall_timeout);
    if let Some(address) = &settings.controller {
        // A name that only this rank cannot resolve must not leave the others waiting: without a switch this rank
        // differs from them, and all report the mismatch.
        match Communicator::builder().controller(address.as_str()) {
            Ok(_) => builder = builder.controller(address.as_str())?,
            Err(error) => log::warn!("{}", Failure::from(error)),
        }
    }
    if let Some(file) = &settings.controller_ca {
        builder = builder.controller_ca(file);
    }
    if let Some((tenant, token)) = &settings.tenant {
        builder = builder.tenant(tenant, token);
    }
    let comm = builder.connect()?;
    let path = comm.path();
    if settings.require_switch && !matches!(path.network, Network::Switch { .. }) {
        return Err(Failure::new(Code::System, format!("refused, because data would use {path}")));
    }
    log::info!("CollNet of {world} ranks uses {path}, mode {}", settings.mode);
    Ok((comm, settings.mode))
}

/// All ranks agree whether all take part, with the same settings.
fn agree(
    exchange: &mut TcpRendezvous,
    settings: &std::result::Result<Settings, String>,
    world: u16,
) -> Result<()> {
    let mine = match settings {
        Ok(settings) => match settings.refusal(world) {
            None => {
                let job = settings.job.as_deref().unwrap_or("none");
                format!("+mode {}, require switch {}, job {job}", settings.mode, settings.require_switch)
            }
            Some(why) => format!("-{why}"),
        },
        Err(why) => format!("-{why}"),
    };
    let answers = exchange.all_gather(mine.as_bytes()).map_err(exchange_error)?;
    let answers: Vec<String> =
        answers.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    for (rank, theirs) in answers.iter().enumerate() {
        if let Some(why) = theirs.strip_prefix('-') {
            return Err(Failure::new(Code::System, format!("refused by rank {rank}: {why}")));
        }
    }
    match answers.iter().position(|theirs| *theirs != mine) {
        Some(rank) => Err(Failure::usage(format!(
            "rank {rank} has {} and this rank {}; set the same variables on all ranks",
            answers[rank].trim_start_matches('+'),
            mine.trim_start_matches('+')
        ))),
        None => Ok(()),
    }
}

fn exchange_error(error: netfold::ExchangeError) -> Failure {
    Failure::remote(format!("the rendezvous of the ranks failed: {error}"))
}

/// Whether a switch does this reduction in jobs of this mode. Where a switch's program does not have the operation, hosts do it.
pub(crate) fn supports(mode: Mode, dtype: i32, op: i32) -> bool {
    let (Some(dtype), Some(op)) = (element_type(dtype), reduction(op)) else { return false };
    netfold::switch_reduces(mode, netfold::LaneOps::ALL, dtype, op).is_ok()
}

/// `ncclDataType_t`, without the 8-bit floats, which switches do not sum.
fn element_type(dtype: i32) -> Option<DType> {
    Some(match dtype {
        0 => DType::I8,
        1 => DType::U8,
        2 => DType::I32,
        3 => DType::U32,
        4 => DType::I64,
        5 => DType::U64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        9 => DType::Bf16,
        _ => return None,
    })
}

/// `ncclRedOp_t`. NCCL scales averages itself.
fn reduction(op: i32) -> Option<ReduceOp> {
    [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min].get(usize::try_from(op).ok()?).copied()
}

impl CollGroup {
    pub(crate) fn new(id: Id, (comm, mode): (Communicator, Mode), requests_max: u8) -> Self {
        Self { id, comm, mode, requests: Mutex::new(Slots::new(requests_max)) }
    }

    /// This rank's number.
    pub(crate) fn rank(&self) -> u16 {
        self.comm.rank()
    }

    /// The sections of a window, whose elements have `element` bytes.
    pub(crate) fn sections(&self, window: Window, element: usize) -> Result<Vec<Section>> {
        window.sections(self.comm.world_size(), element)
    }

    /// Starts an all-reduce; `None` when the maximum is in flight.
    pub(crate) fn all_reduce(&self, what: Reduction, send: Region, recv: Region) -> Result<Option<Handle>> {
        let (dtype, op) = self.supported(what.dtype, what.op)?;
        let bytes = recv.len();
        self.post(bytes, send.leftover(Some(&recv)), || {
            let call = Call::new(Collective::AllReduce, dtype, op, what.count);
            Ok(vec![crate::memory::submit(&self.comm, &call, Some(send), Some(recv))?])
        })
    }

    /// Starts the all-gather of a window: a broadcast of each section by the rank that it is of. `send` is this rank's section, if it has one.
    /// `None` when the maximum is in flight.
    pub(crate) fn all_gather(
        &self,
        sections: &[Section],
        send: Option<Region>,
        recv: Region,
    ) -> Result<Option<Handle>> {
        let bytes = recv.len();
        let leftover = send.as_ref().and_then(|send| send.leftover(Some(&recv)));
        let parts = recv.split(sections.iter().map(|section| section.place.clone()));
        let mut send = send;
        self.post(bytes, leftover, || {
            let works = sections.iter().zip(parts).map(|(section, part)| {
                let root = section.rank;
                let call = Call::new(Collective::Broadcast { root }, DType::U8, ReduceOp::Sum, part.len());
                let mine = if root == self.rank() { send.take() } else { None };
                crate::memory::submit(&self.comm, &call, mine, Some(part))
            });
            self.all_or_none(works)
        })
    }

    /// Starts the reduce-scatter of a window: a reduction of each section to the rank that it is of. `recv` is for this rank's section, if it
    /// has one. `None` when the maximum is in flight.
    pub(crate) fn reduce_scatter(
        &self,
        sections: &[Section],
        (dtype, op): (i32, i32),
        send: Region,
        recv: Option<Region>,
    ) -> Result<Option<Handle>> {
        let (dtype, op) = self.supported(dtype, op)?;
        let bytes = recv.as_ref().map_or(0, Region::len);
        let leftover = send.leftover(recv.as_ref());
        let parts = send.split(sections.iter().map(|section| section.place.clone()));
        let mut recv = recv;
        self.post(bytes, leftover, || {
            let works = sections.iter().zip(parts).map(|(section, part)| {
                let root = section.rank;
                let call = Call::new(Collective::Reduce { root }, dtype, op, part.len() / dtype.size());
                let mine = if root == self.rank() { recv.take() } else { None };
                crate::memory::submit(&self.comm, &call, Some(part), mine)
            });
            self.all_or_none(works)
        })
    }

    /// A reduction in the library's terms, if switches do it in the group's mode.
    fn supported(&self, dtype: i32, op: i32) -> Result<(DType, ReduceOp)> {
        match (supports(self.mode, dtype, op), element_type(dtype), reduction(op)) {
            (true, Some(dtype), Some(op)) => Ok((dtype, op)),
            _ => Err(Failure::argument(format!(
                "reduction {op} of data type {dtype} is not supported in mode {}; see reduceSupport",
                self.mode
            ))),
        }
    }

    /// Starts operations and makes one request of them; `None` when the maximum is in flight.
    fn post(
        &self,
        bytes: usize,
        leftover: Option<Leftover>,
        start: impl FnOnce() -> Result<Vec<Work>>,
    ) -> Result<Option<Handle>> {
        // All ranks post the same calls in the same order, so posting is one step with taking a slot.
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.is_full() {
            return Ok(None);
        }
        let slot = requests.put(Request { works: start()?, bytes, leftover });
        Ok(slot.map(|(slot, turn)| self.id.request(slot, turn)))
    }

    /// What was started; after a failure nothing is in flight any more.
    fn all_or_none(&self, starting: impl Iterator<Item = Result<Work>>) -> Result<Vec<Work>> {
        let mut works = Vec::new();
        for started in starting {
            match started {
                Ok(work) => works.push(work),
                Err(failure) => {
                    self.comm.abort();
                    for work in works {
                        let _ = work.wait();
                    }
                    return Err(failure);
                }
            }
        }
        Ok(works)
    }

    /// The bytes of a request that is done; `None` while it is in flight.
    pub(crate) fn test(&self, slot: u8, turn: u16) -> Result<Option<usize>> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let request = requests.get(slot, turn)?;
        let mut failed = None;
        for work in &request.works {
            match work.outcome() {
                None => return Ok(None),
                Some(outcome) => failed = failed.or(outcome.err()),
            }
        }
        let bytes = request.bytes;
        if let Some(leftover) = request.leftover.take().filter(|_| failed.is_none()) {
            leftover.clear(&request.works);
        }
        requests.free(slot);
        match failed {
            None => Ok(Some(bytes)),
            Some(error) => Err(error.into()),
        }
    }

    /// Aborts what is in flight, so that dropping the group does not wait for other ranks.
    pub(crate) fn close(&self) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.iter().any(|request| request.works.iter().any(|work| !work.is_done())) {
            self.comm.abort();
        }
    }
}

/// Bytes of a tensor.
pub(crate) fn bytes_of(count: usize, dtype: i32) -> Result<usize> {
    let dtype =
        element_type(dtype).ok_or_else(|| Failure::argument(format!("data type {dtype} is unknown")))?;
    count.checked_mul(dtype.size()).ok_or_else(|| Failure::argument(format!("{count} elements are too many")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supported_reductions_are_those_of_switches() {
        let supported = |mode| -> Vec<(i32, i32)> {
            (0..12)
                .flat_map(|dtype| (0..4).map(move |op| (dtype, op)))
                .filter(|(d, o)| supports(mode, *d, *o))
                .collect()
        };
        // Integers of 8 and 32 bits, and floating-point numbers, have sums, maxima and minima; integers of 64 bits have sums.
        let all = |dtypes: &[i32]| -> Vec<(i32, i32)> {
            dtypes.iter().flat_map(|dtype| [0, 2, 3].map(|op| (*dtype, op))).collect()
        };
        let words = [all(&[0, 1, 2, 3]), vec![(4, 0), (5, 0)], all(&[6, 7, 9])].concat();
        assert_eq!(supported(Mode::Bfp32), words);
        assert_eq!(supported(Mode::Bfp16), words);
        let sums_of_floats = |(dtype, op): &(i32, i32)| *dtype >= 6 && *op == 0;
        let without: Vec<_> = words.iter().copied().filter(|both| !sums_of_floats(both)).collect();
        assert_eq!(supported(Mode::I32), without);
        let saturating = [(2, 2), (2, 3), (3, 2), (3, 3), (6, 0), (7, 0), (7, 2), (7, 3), (9, 0)];
        assert_eq!(supported(Mode::Saturating), saturating);
        assert!(
            !supports(Mode::Bfp32, 7, 4) && !supports(Mode::Bfp32, -1, 0) && !supports(Mode::Bfp32, 7, -1)
        );
    }

    #[test]
    fn lengths_do_not_overflow() {
        assert_eq!(bytes_of(3, 6).unwrap(), 6);
        assert!(bytes_of(usize::MAX, 7).is_err() && bytes_of(1, 11).is_err());
    }
}
