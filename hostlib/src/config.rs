//! The configuration of a job.

use netfold_wire::{LaneOps, Mode, Numerics};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netfold_control::Credentials;
use netfold_cuda::quantize::QuantizeKernels;
use netfold_cuda::{CudaError, Driver};
use netfold_io::{Cores, IoError, IoSpec, OpenOptions, PacketIo};
use netfold_proto::{Tolerance, WorkerConfigError};

use crate::coding::Coding;
use crate::error::Error;
use crate::group_key::GroupKey;
use crate::idle::IDLE_TIMEOUT;
use crate::quantize::Rounding;

/// Slots that are asked for unless the builder says how many.
pub(crate) const SLOTS_DEFAULT: u32 = 256;

/// Longest name of a job or group in bytes, as the control port takes it.
pub(crate) const NAME_LEN_MAX: usize = 64;

/// Stall timeout where none is set.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a confidential job has no tolerance.
pub(crate) const TOLERANCE_REFUSED: &str = "needs every rank's contribution in each sum, because the masks of those that are missing would not cancel: set no \
     tolerance";

/// A function that opens packet I/O.
type Open = dyn Fn(&OpenOptions) -> Result<Box<dyn PacketIo>, IoError> + Send + Sync;

/// Opens a worker's packet I/O. Called for every attachment to a switch, also when a rank rejoins.
#[derive(Clone)]
pub(crate) struct Opener(Arc<Open>);

impl Opener {
    pub(crate) fn new(
        open: impl Fn(&OpenOptions) -> Result<Box<dyn PacketIo>, IoError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(open))
    }

    pub(crate) fn of(choice: IoSpec) -> Self {
        Self::new(move |opening| netfold_io::open(&choice, opening))
    }

    pub(crate) fn open(&self, opening: &OpenOptions) -> Result<Box<dyn PacketIo>, IoError> {
        (self.0)(opening)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

/// What a job is configured with: collected by the builder, read by all that run the job, and inherited by groups that are split
/// from it. [`Builder`](crate::Builder) documents the values.
#[derive(Debug, Clone)]
pub(crate) struct JobConfig {
    pub(crate) job: Option<String>,
    /// The group of the job; `None` for the job itself.
    pub(crate) group: Option<String>,
    pub(crate) mode: Mode,
    /// May differ between ranks.
    pub(crate) rounding: Rounding,
    pub(crate) tolerance: Tolerance,
    /// Of a confidential job.
    pub(crate) group_key: Option<GroupKey>,
    /// Whether packets between workers and switches have tags.
    pub(crate) authenticated: bool,
    /// Of each class.
    pub(crate) slots: u32,
    pub(crate) classes: u8,
    /// Importance classes of each; may differ between ranks.
    pub(crate) importance: u8,
    pub(crate) small: usize,
    /// Addresses of the control port.
    pub(crate) switch: Vec<SocketAddr>,
    /// Whether that is a controller's.
    pub(crate) controlled: bool,
    /// The controller as it was named, and the authorities of its certificate.
    pub(crate) controller: Vec<(SocketAddr, String)>,
    pub(crate) controller_ca: Option<PathBuf>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) bind: Vec<IpAddr>,
    pub(crate) opener: Opener,
    pub(crate) trees: u8,
    pub(crate) cores: Cores,
    pub(crate) rejoin: Option<bool>,
    pub(crate) join_timeout: Duration,
    pub(crate) stall_timeout: Option<Duration>,
    pub(crate) resend_after: Option<Duration>,
    /// May differ between ranks.
    pub(crate) busy_poll: Duration,
    /// After how long without an operation linked ranks give their slots back; `None` for the default. May differ between ranks.
    pub(crate) idle_timeout: Option<Duration>,
    /// Of a group that was split from ranks at a switch: the lane operations of that switch. The group requests slots for its first operation.
    pub(crate) split_at: Option<LaneOps>,
    /// This rank's host, where the caller names it; differs between ranks.
    pub(crate) host: Option<String>,
    /// Whether the job shrinks and grows in place.
    pub(crate) resizable: bool,
    /// That of a resizable job; 0 of others.
    pub(crate) generation: u32,
    pub(crate) shared_memory: bool,
    pub(crate) fall_back: bool,
    /// CUDA's driver; the system's unless one is given.
    pub(crate) cuda: Option<Driver>,
    /// Whether CUDA devices quantise what is in their memory.
    pub(crate) device_quantization: bool,
}

impl Default for JobConfig {
    fn default() -> Self {
        Self {
            job: None,
            group: None,
            mode: Mode::Bfp32,
            rounding: Rounding::Nearest,
            tolerance: Tolerance::NONE,
            group_key: None,
            authenticated: false,
            slots: SLOTS_DEFAULT,
            classes: 1,
            importance: 1,
            small: 0,
            switch: Vec::new(),
            controlled: false,
            controller: Vec::new(),
            controller_ca: None,
            credentials: None,
            bind: Vec::new(),
            opener: Opener::of(IoSpec::Udp),
            trees: 1,
            cores: Cores::default(),
            rejoin: None,
            join_timeout: Duration::from_secs(60),
            stall_timeout: None,
            resend_after: None,
            busy_poll: Duration::ZERO,
            idle_timeout: None,
            split_at: None,
            host: None,
            resizable: false,
            generation: 0,
            shared_memory: true,
            fall_back: true,
            cuda: None,
            device_quantization: false,
        }
    }
}

impl JobConfig {
    /// What a group that is split from this job, or from a group of it, inherits. `lane_ops`: those of the parent's switch, if it has one.
    pub(crate) fn inherited(&self, group: String, lane_ops: LaneOps) -> Self {
        let split_at = Some(lane_ops).filter(|ops| *ops != LaneOps::NONE);
        Self { group: Some(group), resend_after: None, split_at, resizable: false, ..self.clone() }
    }

    /// After how long without an operation linked ranks give their slots back, if they do.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        self.idle_timeout.or_else(|| self.group.is_some().then_some(IDLE_TIMEOUT))
    }

    /// How long a reachable rank may make no progress.
    pub(crate) fn stall_timeout(&self) -> Duration {
        self.stall_timeout.unwrap_or(STALL_TIMEOUT)
    }

    /// Slots of all classes.
    pub(crate) fn all_slots(&self) -> u32 {
        self.slots.saturating_mul(u32::from(self.classes))
    }

    /// What must be the same on all ranks, as text that ranks compare.
    pub(crate) fn describe(&self, has_switch: bool) -> String {
        let yes = |on: bool| if on { "yes" } else { "no" };
        let group = self.group.as_ref().map(|group| format!("group '{group}', ")).unwrap_or_default();
        format!(
            "{group}version {}, mode {}, classes {}, trees {}, small tensors up to {} bytes, switch {}, shared memory {}, fall-back {}, confidential {}, authenticated {}, resizable {}, device quantization {}",
            env!("CARGO_PKG_VERSION"),
            self.mode,
            self.classes,
            self.trees,
            self.small,
            yes(has_switch),
            yes(self.shared_memory),
            yes(self.fall_back),
            yes(self.group_key.is_some()),
            yes(self.authenticated),
            yes(self.resizable),
            yes(self.device_quantization)
        )
    }

    /// Checks the group's name, if it is a group.
    pub(crate) fn check_group(&self) -> Result<(), Error> {
        match &self.group {
            Some(name) if name.is_empty() || name.len() > NAME_LEN_MAX || name.contains('/') => {
                Err(Error::GroupName { name: name.clone() })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_rounding(&self) -> Result<(), Error> {
        match (Coding::of(self.mode), self.rounding) {
            (_, Rounding::Nearest) => Ok(()),
            (Coding::Blocks(lanes, _), _) if lanes.has_mantissas() => Ok(()),
            _ => Err(Error::Rounding { mode: self.mode }),
        }
    }

    /// Checks that a confidential job has links for its keys, and nothing that a switch does to lanes but sums modulo 2^32.
    pub(crate) fn check_confidential(&self, linked: bool) -> Result<(), Error> {
        let refuse = |reason| Err(Error::Confidential { reason });
        if self.group_key.is_none() {
            return Ok(());
        }
        if !linked {
            return refuse(
                "agrees on its keys over links between the ranks, and has none: give the builder a rendezvous or an exchange",
            );
        }
        if self.mode.numerics() != Numerics::Word {
            return refuse(
                "has masks that cancel in sums modulo 2^32 only, not in those of this mode: use mode i32, bfp32 or bfp16",
            );
        }
        if self.tolerance.any() {
            return refuse(TOLERANCE_REFUSED);
        }
        Ok(())
    }

    /// Checks that the lanes of a job whose devices quantise are those that kernels make.
    pub(crate) fn check_device_quantization(&self) -> Result<(), Error> {
        let refuse = |reason: &str| Err(Error::DeviceQuantization { reason: reason.to_owned() });
        if !self.device_quantization {
            return Ok(());
        }
        if !matches!(self.mode, Mode::Bfp16 | Mode::Bfp32) {
            return refuse("their kernels make lanes of the modes bfp16 and bfp32: use one of these");
        }
        if self.tolerance.any() {
            return refuse("their sums contain every contribution: set no tolerance");
        }
        Ok(())
    }

    /// CUDA's driver.
    pub(crate) fn cuda_driver(&self) -> Result<Driver, CudaError> {
        self.cuda.clone().map_or_else(Driver::system, Ok)
    }

    /// Why the CUDA devices of this process cannot quantise, if that is what they are to do.
    pub(crate) fn device_problem(&self) -> Option<CudaError> {
        let checked = || QuantizeKernels::check(&self.cuda_driver()?);
        self.device_quantization.then(checked)?.err()
    }

    pub(crate) fn check_rank(&self, rank: u16, world: u16) -> Result<(), Error> {
        if world == 0 || world > netfold_wire::WORLD_MAX {
            return Err(WorkerConfigError::World(world).into());
        }
        if let Coding::Blocks(lanes, _) = Coding::of(self.mode)
            && world > lanes.world_max()
        {
            return Err(Error::Precision { mode: self.mode, world, max: lanes.world_max() });
        }
        if rank >= world {
            return Err(WorkerConfigError::Rank { rank, world }.into());
        }
        Ok(())
    }

    /// Whether a job can have so many slots: an error also where ranks could do without a switch.
    pub(crate) fn check_slots(&self) -> Result<(), Error> {
        if !self.slots.is_power_of_two() || self.all_slots() > netfold_proto::SLOTS_MAX {
            return Err(WorkerConfigError::Slots(self.slots).into());
        }
        Ok(())
    }
}
