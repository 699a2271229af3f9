//! Which part of the library executes a call, and its submission there.
#![expect(unsafe_code, reason = "passes memory of callers on, as `Communicator::submit` promises it")]

use netfold_wire::{Collective, DType, Numerics, ReduceOp};
use std::sync::atomic::{AtomicU64, Ordering};

use netfold_proto::{OpSpecError, Tolerance};

use crate::buffer::OpBuffer;
use crate::call::Call;
use crate::config::TOLERANCE_REFUSED;
use crate::error::Error;
use crate::host::{self, HostCall, HostThread};
use crate::lower::{self, Lowered, OpContext};
use crate::operation::Operation;
use crate::tree_set::TreeSet;

/// The ways of a communicator's calls: through the switch, or by the hosts.
pub(crate) struct Router {
    pub(crate) context: OpContext,
    /// The stream through the switch, when calls go there directly.
    pub(crate) network: Option<TreeSet>,
    /// The calls that hosts execute themselves.
    pub(crate) host: Option<HostThread>,
    /// Types and operations of which it has been logged why hosts execute them, a bit each.
    by_hosts: [AtomicU64; 2],
    /// The process that built the communicator.
    pub(crate) owner: u32,
}

impl Router {
    pub(crate) fn new(context: OpContext, network: Option<TreeSet>, host: Option<HostThread>) -> Self {
        network.iter().for_each(|network| network.share_by_rate(&context));
        Self { context, network, host, by_hosts: Default::default(), owner: std::process::id() }
    }

    pub(crate) fn check_pointers(&self, call: &Call, send: *const u8, recv: *mut u8) -> Result<(), Error> {
        let (world, rank) = (self.context.world, self.context.rank);
        if send.is_null() && call.reads(rank) && call.input_len(world) > 0 {
            return Err(Error::Null("send"));
        }
        if recv.is_null() && call.writes(rank) && call.output_len(world) > 0 {
            return Err(Error::Null("recv"));
        }
        Ok(())
    }

    /// Whether hosts are quicker than the switch.
    fn is_small(&self, call: &Call) -> bool {
        call.collective == Collective::AllReduce && call.count * call.dtype.size() <= self.context.small
    }

    /// Whether a ring moves fewer bytes than the switch: to an all-gather in which ranks without a part of a chunk send lanes, too.
    fn gathers_by_hosts(&self, call: &Call) -> bool {
        let config = &self.context.config;
        let headers = config.mode.numerics() == Numerics::Word && config.group_key.is_none();
        call.collective == Collective::AllGather && !headers
    }

    /// Whether the operation of a call works on its memory in place, block by block: it reads a block of the input before it writes the result of
    /// that block, and nothing else.
    pub(crate) fn works_in_blocks(&self, call: &Call) -> bool {
        let tolerant = call.tolerance.unwrap_or(self.context.config.tolerance).any();
        matches!(call.collective, Collective::AllReduce | Collective::Broadcast { .. })
            && !tolerant
            && matches!(self.route(call), Ok(CallRoute::Switch(_)))
    }

    /// The route of a call. The same on every rank.
    pub(crate) fn route(&self, call: &Call) -> Result<CallRoute, Error> {
        if std::process::id() != self.owner {
            return Err(Error::Forked { owner: self.owner });
        }
        if call.class >= self.context.config.classes {
            return Err(Error::Class { class: call.class, classes: self.context.config.classes });
        }
        if self.context.config.group_key.is_some() && call.tolerance.is_some_and(Tolerance::any) {
            return Err(Error::Confidential { reason: TOLERANCE_REFUSED });
        }
        if let Some(root) = call.collective.root()
            && root >= self.context.world
        {
            return Err(Error::Root { root, world: self.context.world });
        }
        let longest = call.input_len(self.context.world).max(call.output_len(self.context.world));
        if longest.checked_mul(call.dtype.size()).is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(OpSpecError::Elements(longest as u64).into());
        }
        if call.dtype == DType::None && call.collective != Collective::Barrier {
            return Err(Error::ElementType);
        }
        let no_switch = match (&self.network, &self.host) {
            (Some(_), Some(_)) if self.gathers_by_hosts(call) => None,
            (Some(_), Some(_)) if self.is_small(call) => None,
            (Some(_), _) => {
                match lower::supported_by_switch(call, self.context.lane_ops, &self.context.config) {
                    Ok(()) => return Ok(CallRoute::Switch(lower::lower(call, &self.context)?)),
                    Err(error) => {
                        self.log_reason(call, &error);
                        Some(error)
                    }
                }
            }
            (None, _) => None,
        };
        match (&self.host, no_switch) {
            (None, error) => Err(error.unwrap_or(Error::Closed)),
            (Some(_), _) => host::supported_by_hosts(call).map(|()| CallRoute::Host(*call)),
        }
    }

    /// # Safety
    ///
    /// As for [`Communicator::submit`](crate::Communicator::submit).
    pub(crate) unsafe fn make_buffer(
        &self,
        call: &Call,
        route: &CallRoute,
        send: *const u8,
        recv: *mut u8,
    ) -> OpBuffer {
        match route {
            // SAFETY: passed on to the caller.
            CallRoute::Switch(_) => unsafe { lower::make_buffer(call, &self.context, send, recv) },
            // SAFETY: passed on to the caller.
            CallRoute::Host(_) => unsafe { host::make_buffer(call, &self.context, send, recv) },
        }
    }

    /// Executes a call on this thread, which waits for its end anyway, where it can; otherwise submits it.
    pub(crate) fn run_or_submit(&self, route: CallRoute, buffer: OpBuffer) {
        match (route, &self.network, &self.host) {
            (CallRoute::Host(call), _, Some(host)) => {
                let operation = Operation::new(self.compared(call), buffer);
                if let Some(operation) = host.engine.run_inline(operation) {
                    host.mailbox.submit(operation);
                }
            }
            (CallRoute::Switch(lowered), Some(network), _) => {
                network.run_or_submit(Operation::new(lowered, buffer));
            }
            (route, ..) => self.start(route, buffer),
        }
    }

    /// Logs why hosts execute a call, once for each type and operation.
    fn log_reason(&self, call: &Call, reason: &Error) {
        let number = usize::from(call.dtype.code()) * ReduceOp::ALL.len() + usize::from(call.op.code());
        let (Some(logged), bit) = (self.by_hosts.get(number / 64), 1 << (number % 64)) else { return };
        if self.host.is_some() && logged.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            log::info!("rank {}: executed by the hosts: {reason}", self.context.rank);
        }
    }

    /// A call that hosts execute, and its comparison through the switch, where there is one: other ranks may have submitted something else there.
    /// Small calls are not compared, for which a round trip counts.
    fn compared(&self, call: Call) -> HostCall {
        let network = self.network.as_ref().filter(|_| !self.is_small(&call));
        let compared = network.and_then(|network| {
            let (request, buffer) = (lower::announcement(&call, &self.context)?, OpBuffer::empty());
            let completion = buffer.completion();
            network.submit(Operation::new(request, buffer));
            Some(completion)
        });
        HostCall { call, compared }
    }

    pub(crate) fn start(&self, route: CallRoute, buffer: OpBuffer) {
        match (route, &self.network, &self.host) {
            (CallRoute::Switch(lowered), Some(network), _) => network.submit(Operation::new(lowered, buffer)),
            (CallRoute::Host(call), _, Some(host)) => {
                host.mailbox.submit(Operation::new(self.compared(call), buffer));
            }
            // Not reached: routes are made for what exists.
            _ => buffer.finish(Err(Error::Closed)),
        }
    }
}

/// The route of a call.
#[derive(Debug)]
pub(crate) enum CallRoute {
    /// By the switch.
    Switch(Lowered),
    /// By the hosts.
    Host(Call),
}
