//! What processes the packets of a switch.

use std::net::SocketAddr;
use std::sync::Arc;

use netfold_embedded::{EmbeddedError, EmbeddedSwitch, QueueAddress};
use netfold_listener::ListenerCounters;
use netfold_switch::{Engine, PipelineInfo, SwitchCounters};

use super::kernel::KernelSwitch;
use crate::error::CliError;

/// What processes the packets, with the control port.
pub(super) enum Dataplane {
    /// Packet threads of this process.
    Threads(EmbeddedSwitch),
    /// The kernel.
    Kernel(Box<KernelSwitch>),
}

/// What runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    /// There is no program yet.
    Nothing,
    /// An engine of the software switch.
    Software(Engine),
    /// DPDK's software pipeline.
    Swx,
    /// The kernel.
    Kernel,
}

impl Runner {
    /// As events have it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Software(Engine::Generated) => "generated",
            Self::Software(Engine::Interpreter) => "interpreter",
            Self::Swx => "swx",
            Self::Kernel => "kernel",
        }
    }

    /// As people read it.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Nothing => "not run",
            Self::Software(Engine::Generated) => "generated code",
            Self::Software(Engine::Interpreter) => "interpreted",
            Self::Swx => "executed by DPDK's software pipeline",
            Self::Kernel => "run by the kernel",
        }
    }
}

impl Dataplane {
    /// What it is called.
    pub(super) const fn title(&self) -> &'static str {
        match self {
            Self::Threads(_) => "Netfold software switch",
            Self::Kernel(_) => "Netfold switch in the kernel",
        }
    }

    /// Properties of the program.
    pub(super) fn info(&self) -> &PipelineInfo {
        match self {
            Self::Threads(switch) => switch.info(),
            Self::Kernel(switch) => switch.info(),
        }
    }

    /// UDP address of the data path.
    pub(super) fn data(&self) -> SocketAddr {
        match self {
            Self::Threads(switch) => switch.data(),
            Self::Kernel(switch) => switch.data(),
        }
    }

    /// TCP address of the control port.
    pub(super) fn control(&self) -> SocketAddr {
        match self {
            Self::Threads(switch) => switch.control(),
            Self::Kernel(switch) => switch.control(),
        }
    }

    /// Memory of slots and their bookkeeping in bytes.
    pub(super) fn state_bytes(&self) -> u64 {
        match self {
            Self::Threads(switch) => switch.state_bytes(),
            Self::Kernel(switch) => {
                let info = switch.info();
                (info.lane_bytes + info.bookkeeping_bytes) as u64
            }
        }
    }

    /// Packet threads.
    pub(super) fn queues(&self) -> Vec<QueueAddress> {
        match self {
            Self::Threads(switch) => switch.queues().collect(),
            Self::Kernel(_) => Vec::new(),
        }
    }

    /// Counters of the control port's connections that are no sessions yet.
    pub(super) fn listener(&self) -> Option<Arc<ListenerCounters>> {
        match self {
            Self::Threads(switch) => switch.listener(),
            Self::Kernel(switch) => switch.listener(),
        }
    }

    /// Whether a part has ended, which means that it failed.
    pub(super) fn is_finished(&self) -> bool {
        match self {
            Self::Threads(switch) => switch.is_finished(),
            Self::Kernel(switch) => switch.is_finished(),
        }
    }

    /// The counters, by packet thread.
    pub(super) fn counters(&self) -> Option<Vec<SwitchCounters>> {
        match self {
            Self::Threads(switch) => switch.queue_counters(),
            Self::Kernel(switch) => Some(vec![switch.counters()]),
        }
    }

    /// Ends all jobs, stops, and returns the counters by packet thread.
    pub(super) fn stop(
        self,
        failed: impl FnOnce(EmbeddedError) -> CliError,
    ) -> Result<Vec<SwitchCounters>, CliError> {
        match self {
            Self::Threads(switch) => switch.stop_queues().map_err(failed),
            Self::Kernel(switch) => Ok(vec![switch.stop()?]),
        }
    }
}
