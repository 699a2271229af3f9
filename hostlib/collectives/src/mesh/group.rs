//! The mesh, and the calls on it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Buffers;
use crate::mesh::abort::MeshAborter;
use crate::mesh::connect::{Connected, connect};
use crate::mesh::error::{ExchangeError, MeshError};
use crate::mesh::exchange::{EXCHANGE_MAX, Exchange, check_len};
use crate::mesh::flow::{Flow, Limits};
use crate::mesh::host::HostId;
use crate::mesh::link::Link;
use crate::mesh::memory::Memory;
use crate::mesh::plan::{MeshPlan, Shape};
use crate::reduce::{ReduceError, supports};
use crate::{CallKind, CallSignature, Collective, DType, Extent, ReduceOp};

/// How a mesh connects, and how long it waits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MeshConfig {
    /// The address of this host to listen on and to announce to the others. `None`: the one through which the exchange reached
    /// them if it knows ([`Exchange::local_ip`]), otherwise loopback.
    pub listen_on: Option<IpAddr>,
    /// This rank's host. `None`: [`HostId::detect`].
    pub host: Option<HostId>,
    /// For all links together, once all ranks are present.
    pub connect_timeout: Duration,
    /// A call that transfers no byte in either direction for so long fails. Choose it longer than the slowest rank's
    /// longest pause between calls (evaluation, checkpoints); processes that end are detected at once, hosts that fail
    /// after [`MeshConfig::keepalive_timeout`].
    pub stall_timeout: Duration,
    /// A host that does not answer TCP keepalives for so long is lost; at least 3 s.
    pub keepalive_timeout: Duration,
    /// Socket buffers in bytes. `None`: the system's, which grow with need.
    pub socket_buffer_bytes: Option<usize>,
}

impl Default for MeshConfig {
    /// 30 s to connect, 5 minutes without data, 15 s for unreachable hosts.
    fn default() -> Self {
        Self {
            listen_on: None,
            host: None,
            connect_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(300),
            keepalive_timeout: Duration::from_secs(15),
            socket_buffer_bytes: None,
        }
    }
}

/// TCP links from this rank to all others, and collectives over them.
///
/// Calls block, and are made from one thread at a time, the same ones in the same order on every rank; [`Mesh::aborter`] ends
/// them from elsewhere. Every rank compares its call with its peers' before any data is used: a difference is
/// [`MeshError::Mismatch`] on every rank. After an error that is not a refusal ([`MeshError::is_refusal`]) outputs are
/// undefined, every peer was notified, and the mesh is unusable.
///
/// Buffers are bytes of elements in native order, of any alignment. Results have the same bits on every rank. A child process
/// made by `fork` cannot use its parent's mesh, and may drop it without harm.
pub struct Mesh {
    rank: u16,
    world: u16,
    links: Vec<Option<Link>>,
    hosts: Vec<HostId>,
    ip: IpAddr,
    config: MeshConfig,
    aborter: MeshAborter,
    pid: u32,
    failed: Option<Arc<MeshError>>,
    scratch: Vec<u8>,
}

impl Mesh {
    /// Links this rank with all others of the exchange. Each link is authenticated by random tokens that go through the exchange.
    /// Takes two rounds of the exchange.
    ///
    /// # Errors
    ///
    /// [`MeshError::Exchange`], [`MeshError::Listen`], [`MeshError::Link`], [`MeshError::Introduction`],
    /// [`MeshError::System`]; all within the exchange's deadlines and [`MeshConfig::connect_timeout`].
    pub fn connect(exchange: &mut dyn Exchange, config: MeshConfig) -> Result<Self, MeshError> {
        let connected = connect(exchange, &config)?;
        Self::over((exchange.rank(), exchange.world()), connected, config)
    }

    /// Rank and world, over links that stand.
    pub(crate) fn over(
        (rank, world): (u16, u16),
        Connected { links, hosts, ip }: Connected,
        config: MeshConfig,
    ) -> Result<Self, MeshError> {
        Ok(Self {
            rank,
            world,
            links,
            hosts,
            ip,
            config,
            aborter: MeshAborter::new()?,
            pid: std::process::id(),
            failed: None,
            scratch: Vec::new(),
        })
    }

    /// This rank.
    pub fn rank(&self) -> u16 {
        self.rank
    }

    /// Number of ranks.
    pub fn world(&self) -> u16 {
        self.world
    }

    /// Every rank's host, in order of ranks.
    pub fn hosts(&self) -> &[HostId] {
        &self.hosts
    }

    /// The ranks on this rank's host, itself included, in ascending order.
    pub fn local_ranks(&self) -> Vec<u16> {
        let mine = &self.hosts[usize::from(self.rank)];
        (0..self.world).filter(|rank| self.hosts[usize::from(*rank)] == *mine).collect()
    }

    /// The address on which this rank's links were made.
    pub fn local_ip(&self) -> IpAddr {
        self.ip
    }

    /// Aborts calls from other threads.
    pub fn aborter(&self) -> MeshAborter {
        self.aborter.clone()
    }

    /// Why the mesh is unusable, if it is.
    pub fn failure(&self) -> Option<&MeshError> {
        self.failed.as_deref()
    }

    /// All bytes that this rank handed to its links, framing included.
    pub fn bytes_sent(&self) -> u64 {
        self.links.iter().flatten().map(|link| link.bytes_out).sum()
    }

    /// Whether another rank has begun a call that this one has not joined. Does not block; a closed connection is not a call.
    pub fn is_called(&self) -> bool {
        self.failed.is_none() && self.links.iter().flatten().any(Link::has_unread_bytes)
    }

    /// Whether calls fail because another rank has closed its connection, or it is broken. Does not block.
    pub fn has_lost_rank(&self) -> bool {
        self.failed.is_some() || self.links.iter().flatten().any(Link::is_lost)
    }

    /// Any collective. The other methods are this with fewer arguments and document the sizes. `op` matters only where something is
    /// reduced.
    ///
    /// # Errors
    ///
    /// [`MeshError`]; refusals ([`MeshError::is_refusal`]) leave the mesh as it was.
    pub fn run(
        &mut self,
        collective: Collective,
        dtype: DType,
        op: ReduceOp,
        buffers: Buffers<'_>,
    ) -> Result<(), MeshError> {
        let members: Vec<u16> = (0..self.world).collect();
        self.run_among(&members, CallKind::Collective(collective), (dtype, op), buffers, None)
    }

    /// Replaces every rank's tensor by the reduction of all.
    ///
    /// # Errors
    ///
    /// As [`Mesh::run`].
    pub fn all_reduce(&mut self, dtype: DType, op: ReduceOp, tensor: &mut [u8]) -> Result<(), MeshError> {
        self.run(Collective::AllReduce, dtype, op, Buffers::InPlace(tensor))
    }

    /// Replaces the root's tensor by the reduction of all; the other ranks' stay as they are.
    ///
    /// # Errors
    ///
    /// As [`Mesh::run`].
    pub fn reduce(
        &mut self,
        dtype: DType,
        op: ReduceOp,
        root: u16,
        tensor: &mut [u8],
    ) -> Result<(), MeshError> {
        self.run(Collective::Reduce { root }, dtype, op, Buffers::InPlace(tensor))
    }

    /// Replaces every rank's tensor by the root's.
    ///
    /// # Errors
    ///
    /// As [`Mesh::run`].
    pub fn broadcast(&mut self, dtype: DType, root: u16, tensor: &mut [u8]) -> Result<(), MeshError> {
        self.run(Collective::Broadcast { root }, dtype, ReduceOp::Sum, Buffers::InPlace(tensor))
    }

    /// Gathers all ranks' `input`, of the same length, into `output`, `world` times as long, in order of ranks.
    ///
    /// # Errors
    ///
    /// As [`Mesh::run`].
    pub fn all_gather(&mut self, dtype: DType, input: &[u8], output: &mut [u8]) -> Result<(), MeshError> {
        self.run(Collective::AllGather, dtype, ReduceOp::Sum, Buffers::Split { input, output })
    }

    /// Reduces all ranks' `input`, and gives each rank its part of the result: `output` is a `world`th as long.
    ///
    /// # Errors
    ///
    /// As [`Mesh::run`].
    pub fn reduce_scatter(
        &mut self,
        dtype: DType,
        op: ReduceOp,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), MeshError> {
        self.run(Collective::ReduceScatter, dtype, op, Buffers::Split { input, output })
    }

    /// Sends part i of `input` to rank i, and gathers the others' parts for this rank into `output`, in order of ranks.
    ///
    /// # Errors
    ///
    /// As [`Mesh::run`].
    pub fn all_to_all(&mut self, dtype: DType, input: &[u8], output: &mut [u8]) -> Result<(), MeshError> {
        self.run(Collective::AllToAll, dtype, ReduceOp::Sum, Buffers::Split { input, output })
    }

    /// Returns when every rank has called it.
    ///
    /// # Errors
    ///
    /// As [`Mesh::run`].
    pub fn barrier(&mut self) -> Result<(), MeshError> {
        self.run(Collective::Barrier, DType::None, ReduceOp::Sum, Buffers::InPlace(&mut []))
    }

    /// Gathers small strings of any lengths, up to [`EXCHANGE_MAX`], in order of ranks, until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`Mesh::run`], [`MeshError::Deadline`], and [`ExchangeError::TooLong`], a refusal.
    pub fn all_gather_bytes(&mut self, mine: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, MeshError> {
        let members: Vec<u16> = (0..self.world).collect();
        self.gather_among(&members, mine, Some(deadline))
    }

    /// [`Mesh::all_gather_bytes`] among some of the ranks.
    pub(crate) fn gather_among(
        &mut self,
        members: &[u16],
        mine: &[u8],
        deadline: Option<Instant>,
    ) -> Result<Vec<Vec<u8>>, MeshError> {
        check_len(mine.len())?;
        let mut round = |input: &[u8]| -> Result<Vec<u8>, MeshError> {
            let mut output = vec![0; input.len() * members.len()];
            let buffers = Buffers::Split { input, output: &mut output };
            self.run_among(members, CallKind::Strings, (DType::U8, ReduceOp::Sum), buffers, deadline)?;
            Ok(output)
        };
        let lens = round(&(mine.len() as u32).to_le_bytes())?;
        let lens: Vec<usize> =
            lens.as_chunks::<4>().0.iter().map(|len| u32::from_le_bytes(*len) as usize).collect();
        let longest = lens.iter().copied().max().unwrap_or(0);
        if longest > EXCHANGE_MAX {
            return Err(ExchangeError::TooLong { len: longest, max: EXCHANGE_MAX }.into());
        }
        if longest == 0 {
            return Ok(vec![Vec::new(); members.len()]);
        }
        let mut padded = mine.to_vec();
        padded.resize(longest, 0);
        let all = round(&padded)?;
        Ok(all.chunks(longest).zip(lens).map(|(bytes, len)| bytes[..len].to_vec()).collect())
    }

    /// A call among some of the ranks, in the order of `members`, which this rank is one of. A root is an index of `members`.
    fn run_among(
        &mut self,
        members: &[u16],
        kind: CallKind,
        (dtype, op): (DType, ReduceOp),
        buffers: Buffers<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), MeshError> {
        self.check_usable()?;
        let (world, collective) = (members.len(), kind.collective());
        let op = if collective.reduces() { op } else { ReduceOp::Sum };
        let dtype = if collective == Collective::Barrier { DType::None } else { dtype };
        if let Some(root) = collective.root().filter(|root| usize::from(*root) >= world) {
            return Err(MeshError::NoSuchRank { rank: root, world: world as u16 });
        }
        if collective != Collective::Barrier && !supports(op, dtype) {
            return Err(ReduceError::Unsupported { op, dtype }.into());
        }
        let Some(index) = members.iter().position(|member| *member == self.rank) else {
            return Err(MeshError::NoSuchRank { rank: self.rank, world: world as u16 });
        };
        let sized = size(kind, (dtype, op), (index, world), &buffers)?;
        let shape = Shape {
            world,
            rank: index,
            count: sized.call.count as usize,
            element: dtype.size(),
            in_place: buffers.is_in_place(),
        };
        let mut plan = MeshPlan::new(collective, shape);
        plan.sends.iter_mut().for_each(|send| send.to = members[usize::from(send.to)]);
        plan.arrivals.iter_mut().for_each(|arrival| arrival.from = members[usize::from(arrival.from)]);
        if self.scratch.len() < plan.scratch {
            self.scratch.resize(plan.scratch, 0);
        }
        let (input_at, output_at) = (sized.input_at, sized.output_at);
        let memory = Memory { buffers, input_at, output_at, scratch: &mut self.scratch[..plan.scratch] };
        let flow = Flow::new(&mut self.links, (self.rank, members), sized.call, &plan, memory);
        let limits = Limits { stall: self.config.stall_timeout, deadline };
        let result = flow.run(limits, self.aborter.signal());
        if let Err(error) = &result {
            self.failed = Some(Arc::new(error.clone()));
        }
        result
    }

    fn check_usable(&mut self) -> Result<(), MeshError> {
        let pid = std::process::id();
        if pid != self.pid {
            return Err(MeshError::Forked { pid });
        }
        match &self.failed {
            Some(cause) => Err(MeshError::Unusable(cause.clone())),
            None => Ok(()),
        }
    }
}

/// A call whose buffers fit.
struct Fitting {
    call: CallSignature,
    /// Where input and output begin when they are one buffer, in bytes.
    input_at: usize,
    output_at: usize,
}

/// Checks the buffers of a call and finds its count.
fn size(
    kind: CallKind,
    (dtype, op): (DType, ReduceOp),
    (index, world): (usize, usize),
    buffers: &Buffers<'_>,
) -> Result<Fitting, MeshError> {
    let collective = kind.collective();
    let element = dtype.size().max(1);
    let is_root = collective.root().is_none_or(|root| usize::from(root) == index);
    // How often the tensor of `count` elements fits into input and output.
    let times = |extent| if extent == Extent::CountPerRank { world } else { 1 };
    let (inputs, outputs) = (times(collective.info().input), times(collective.info().output));
    let (input, output) = match buffers {
        Buffers::InPlace(buffer) => (buffer.len() / outputs.max(inputs) * inputs, buffer.len()),
        Buffers::Split { input, output } => (input.len(), output.len()),
    };
    let whole = match (collective, buffers) {
        (Collective::Barrier, _) => 0,
        (_, Buffers::InPlace(_)) => output / outputs.max(inputs),
        (Collective::Broadcast { .. }, _) if !is_root => output,
        _ => input / inputs,
    };
    let parts = match buffers {
        Buffers::InPlace(_) => inputs.max(outputs),
        Buffers::Split { .. } => inputs,
    };
    let measured = match (collective, buffers) {
        (_, Buffers::InPlace(_)) => output,
        (Collective::Broadcast { .. }, _) if !is_root => output,
        _ => input,
    };
    if collective != Collective::Barrier && (whole * parts != measured || !whole.is_multiple_of(element)) {
        return Err(MeshError::Parts { len: measured, parts, dtype });
    }
    let call = CallSignature { kind, dtype, op, count: (whole / element) as u64 };
    let needs_output = is_root || !matches!(collective, Collective::Reduce { .. });
    if let Buffers::Split { .. } = buffers
        && needs_output
        && collective != Collective::Barrier
        && output != outputs * whole
    {
        return Err(MeshError::Size { which: "output", call, len: output, expected: outputs * whole });
    }
    let own = index * whole;
    Ok(match collective {
        Collective::AllGather => Fitting { call, input_at: own, output_at: 0 },
        Collective::ReduceScatter => Fitting { call, input_at: 0, output_at: own },
        _ => Fitting { call, input_at: 0, output_at: 0 },
    })
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh")
            .field("rank", &self.rank)
            .field("world", &self.world)
            .field("ip", &self.ip)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::exchange::FnExchange;

    #[test]
    fn a_forked_child_is_refused_and_the_parent_continues() {
        let mut exchange = FnExchange::new(0, 1, |mine: &[u8]| Ok(vec![mine.to_vec()])).unwrap();
        let mut mesh = Mesh::connect(&mut exchange, MeshConfig::default()).unwrap();
        // For a child, the process that made the mesh is another one.
        let parent = std::mem::replace(&mut mesh.pid, 1);
        let error = mesh.barrier().unwrap_err();
        assert!(matches!(error, MeshError::Forked { .. }) && error.is_refusal());
        mesh.pid = parent;
        mesh.barrier().unwrap();
    }
}
