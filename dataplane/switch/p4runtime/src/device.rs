//! The switch behind the calls: its pipeline, its entities, and arbitration.
//!
//! Calls that change state are serialised by one lock, which is taken before the primary is checked. So an admitted write
//! has completed before a new primary is notified.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::{self, Atomicity, Data, EntityKind, PipelineAction, ResponseType};
use netfold_p4_runtime::{bytestring, v1::P4Data};
use netfold_switch::{Core, Handle};

use crate::arbitration::Arbiter;
use crate::config::{Engine, PipelineConfig};
use crate::fault::Fault;
use crate::read::{Registers, find};
use crate::state::{Cells, EntityStore};
use crate::update;

/// Updates in one Write. Each that fails takes some 60 bytes of trailers.
pub(crate) const UPDATES_MAX: usize = 4096;

/// Patterns in one Read.
const PATTERNS_MAX: usize = 4096;

/// Updates between two bursts, where atomicity does not require more: it bounds the delay of a burst.
const STEP: usize = 256;

/// The error of a switch without a pipeline; clients recognise this text.
const NO_PIPELINE: &str = "No forwarding pipeline config set for this device";

/// The running pipeline and its entities.
struct LoadedPipeline {
    config: Arc<PipelineConfig>,
    state: EntityStore,
}

/// State guarded by the lock.
#[derive(Default)]
struct Inner {
    loaded: Option<LoadedPipeline>,
    saved: Option<PipelineConfig>,
    /// Incremented with every pipeline, so that a read in several parts detects a new one.
    generation: u64,
}

/// The entities of a Read.
pub(crate) struct ReadResult {
    pub(crate) entities: Vec<v1::Entity>,
    pub(crate) registers: Registers,
    pub(crate) results: Vec<Result<(), Fault>>,
    pub(crate) generation: u64,
}

/// One device.
pub(crate) struct Device {
    id: u64,
    handle: Handle,
    datagram_len_max: usize,
    engine: Engine,
    inner: Mutex<Inner>,
    arbiter: Mutex<Arbiter>,
}

impl Device {
    pub(crate) fn new(id: u64, handle: Handle, engine: Engine) -> Result<Self, Fault> {
        let datagram_len_max = handle.call(|core| core.datagram_len_max()).map_err(|_| Fault::stopped())?;
        let arbiter = Mutex::new(Arbiter::new(id));
        Ok(Self { id, handle, datagram_len_max, engine, inner: Mutex::default(), arbiter })
    }

    /// Records the program that the switch was started with.
    pub(crate) fn adopt(&self, program: &netfold_p4::ir::Program) -> Result<(), Fault> {
        let config = PipelineConfig::own(program, self.datagram_len_max)?;
        let fingerprint = config.program.fingerprint();
        let runs = self.call(move |core| core.pipeline().info().fingerprint == fingerprint)?;
        if !runs {
            return Err(Fault::invalid("the switch runs another program"));
        }
        self.inner().loaded =
            Some(LoadedPipeline { config: Arc::new(config), state: EntityStore::default() });
        Ok(())
    }

    pub(crate) fn arbiter(&self) -> MutexGuard<'_, Arbiter> {
        self.arbiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no write is in progress, and delays the next until the guard is dropped.
    pub(crate) fn quiesce(&self) -> impl Sized + '_ {
        self.inner()
    }

    fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Result<R, Fault> {
        self.handle.call(call).map_err(|_| Fault::stopped())
    }

    /// Runs what may wait for the switch on a thread for that; here, if no thread runs the switch. `None` when it panics, or the runtime ends.
    #[cfg(feature = "grpc")]
    pub(crate) async fn aside<A: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Self) -> A + Send + 'static,
    ) -> Option<A> {
        if self.handle.is_idle() {
            return Some(call(self));
        }
        let device = Arc::clone(self);
        tokio::task::spawn_blocking(move || call(&device)).await.ok()
    }

    fn known(&self, device_id: u64) -> Result<(), Fault> {
        if device_id == self.id {
            return Ok(());
        }
        Err(Fault::not_found(format!("there is no device {device_id} here; this one is {}", self.id)))
    }

    /// Whether a request that changes something may do so: by its device, role and election id.
    pub(crate) fn admit(
        &self,
        device_id: u64,
        role_id: u64,
        role: &str,
        election_id: Option<v1::Uint128>,
    ) -> Result<(), Fault> {
        self.known(device_id)?;
        if role_id != 0 {
            return Err(Fault::not_found("numeric roles are not supported: give the role a name"));
        }
        self.arbiter().authorize(role, election_id.map(u128::from))
    }

    /// SetForwardingPipelineConfig.
    pub(crate) fn set_pipeline(&self, request: v1::SetForwardingPipelineConfigRequest) -> Result<(), Fault> {
        let mut inner = self.inner();
        self.admit(request.device_id, request.role_id, &request.role, request.election_id)?;
        let action = PipelineAction::try_from(request.action).unwrap_or(PipelineAction::Unspecified);
        let config = match (action, request.config) {
            (PipelineAction::Unspecified, _) => return Err(Fault::invalid("the request has no action")),
            (PipelineAction::Commit, Some(_)) => {
                return Err(Fault::invalid("COMMIT uses the saved config, so the request must not have one"));
            }
            (PipelineAction::Commit, None) => {
                inner.saved.take().ok_or_else(|| Fault::not_found("no config was saved for COMMIT"))?
            }
            (_, None) => return Err(Fault::invalid("the request has no config")),
            (_, Some(pushed)) => PipelineConfig::check(pushed, self.datagram_len_max)?,
        };
        match action {
            PipelineAction::Verify => config.build(self.engine).map(drop),
            PipelineAction::VerifyAndSave => {
                config.build(self.engine)?;
                inner.saved = Some(config);
                Ok(())
            }
            PipelineAction::ReconcileAndCommit => reconcile(&mut inner, config),
            _ => self.commit(&mut inner, config),
        }
    }

    /// Runs a pipeline with empty tables.
    fn commit(&self, inner: &mut Inner, config: PipelineConfig) -> Result<(), Fault> {
        let pipeline = config.build(self.engine)?;
        self.call(move |core| core.replace_pipeline(pipeline))?;
        inner.saved = None;
        inner.generation += 1;
        inner.loaded = Some(LoadedPipeline { config: Arc::new(config), state: EntityStore::default() });
        Ok(())
    }

    /// GetForwardingPipelineConfig.
    pub(crate) fn pipeline(
        &self,
        request: v1::GetForwardingPipelineConfigRequest,
    ) -> Result<v1::GetForwardingPipelineConfigResponse, Fault> {
        self.known(request.device_id)?;
        let kind = ResponseType::try_from(request.response_type)
            .map_err(|_| Fault::invalid(format!("there is no response type {}", request.response_type)))?;
        let inner = self.inner();
        let config = inner.loaded.as_ref().map(|loaded| {
            let pushed = &loaded.config.pushed;
            let info = matches!(kind, ResponseType::All | ResponseType::P4infoAndCookie);
            let device = matches!(kind, ResponseType::All | ResponseType::DeviceConfigAndCookie);
            v1::ForwardingPipelineConfig {
                p4info: pushed.p4info.clone().filter(|_| info),
                p4_device_config: if device { pushed.p4_device_config.clone() } else { Vec::new() },
                cookie: pushed.cookie,
            }
        });
        Ok(v1::GetForwardingPipelineConfigResponse { config })
    }

    /// PacketOut: packets of the CPU port. Returns those that were not sent, with the errors.
    pub(crate) fn packets_out(
        &self,
        client: u64,
        packets: Vec<v1::PacketOut>,
    ) -> Result<Vec<(Fault, v1::PacketOut)>, Fault> {
        // The lock keeps the primary until the packets are processed.
        let inner = self.inner();
        let mut refused = Vec::new();
        let mut sound = Vec::with_capacity(packets.len());
        for packet in packets {
            match self.sendable(client, &inner, &packet) {
                Ok(()) => sound.push(packet.payload),
                Err(fault) => refused.push((fault, packet)),
            }
        }
        let sent = self.call(move |core| sound.iter_mut().try_for_each(|packet| core.packet_out(packet)))?;
        sent.map_err(|error| Fault::new(Code::Internal, error.to_string()))?;
        Ok(refused)
    }

    fn sendable(&self, client: u64, inner: &Inner, packet: &v1::PacketOut) -> Result<(), Fault> {
        if !self.arbiter().is_primary(client) {
            return Err(Fault::new(Code::PermissionDenied, "Not primary: only the primary sends packets"));
        }
        inner.loaded.as_ref().ok_or_else(no_pipeline)?;
        if !packet.metadata.is_empty() {
            return Err(Fault::invalid("the program has no packet_out header, so a packet has no metadata"));
        }
        let (len, max) = (packet.payload.len(), self.datagram_len_max);
        if len > max {
            return Err(Fault::invalid(format!("{len} bytes; a packet has at most {max}")));
        }
        Ok(())
    }

    /// Write. Returns the status of each update.
    pub(crate) fn write(&self, request: v1::WriteRequest) -> Result<Vec<Result<(), Fault>>, Fault> {
        let mut inner = self.inner();
        self.admit(request.device_id, request.role_id, &request.role, request.election_id)?;
        let atomicity = Atomicity::try_from(request.atomicity);
        let atomicity =
            atomicity.map_err(|_| Fault::invalid(format!("there is no atomicity {}", request.atomicity)))?;
        let updates = request.updates.len();
        if updates > UPDATES_MAX {
            let text = format!("{updates} updates; a Write has at most {UPDATES_MAX}");
            return Err(Fault::new(Code::ResourceExhausted, text));
        }
        let loaded = inner.loaded.as_mut().ok_or_else(no_pipeline)?;
        let ops: Vec<_> =
            request.updates.into_iter().map(|update| update::check(&loaded.config, update)).collect();
        let step = if atomicity == Atomicity::ContinueOnError { STEP } else { UPDATES_MAX };
        let mut results = Vec::with_capacity(ops.len());
        let mut ops = ops.into_iter();
        loop {
            let part: Vec<_> = ops.by_ref().take(step).collect();
            if part.is_empty() {
                return Ok(results);
            }
            let mut state = std::mem::take(&mut loaded.state);
            let applied = self.call(move |core| {
                let results = state.apply(core, part, atomicity);
                (state, results)
            });
            let (state, part) = applied?;
            loaded.state = state;
            results.extend(part);
        }
    }

    /// Read, except the registers, which [`Self::registers`] reads.
    pub(crate) fn read(&self, request: &v1::ReadRequest) -> Result<ReadResult, Fault> {
        self.known(request.device_id)?;
        let patterns = request.entities.len();
        if patterns > PATTERNS_MAX {
            let text = format!("{patterns} patterns; a Read has at most {PATTERNS_MAX}");
            return Err(Fault::new(Code::ResourceExhausted, text));
        }
        let inner = self.inner();
        let loaded = inner.loaded.as_ref().ok_or_else(no_pipeline)?;
        let mut found = ReadResult {
            entities: Vec::new(),
            registers: Vec::new(),
            results: Vec::new(),
            generation: inner.generation,
        };
        let mut counter = |id: u32| self.call(move |core| core.pipeline().counters(id).to_vec());
        for pattern in &request.entities {
            let part = find(&loaded.config, &loaded.state, &mut counter, pattern);
            found.results.push(part.map(|(entities, registers)| {
                found.entities.extend(entities);
                found.registers.extend(registers);
            }));
            if found.entities.len() > ENTITIES_MAX || found.registers.len() > ENTITIES_MAX {
                let text = format!("more than {ENTITIES_MAX} entities: read fewer at once");
                return Err(Fault::new(Code::ResourceExhausted, text));
            }
        }
        Ok(found)
    }

    /// Up to `count` cells of a register from cell `start` on; none beyond its end.
    pub(crate) fn registers(
        &self,
        generation: u64,
        id: u32,
        cells: &Cells,
        start: usize,
        count: usize,
    ) -> Result<Vec<v1::Entity>, Fault> {
        if self.inner().generation != generation {
            return Err(Fault::new(Code::Aborted, "the pipeline was replaced meanwhile"));
        }
        let all = cells.index.map_or(0..cells.cell.size as usize, |index| index..index + 1);
        let range = (all.start + start).min(all.end)..(all.start + start + count).min(all.end);
        let (name, cell) = (cells.name.clone(), cells.cell.cell);
        let values: Vec<u32> = self.call(move |core| {
            let mut values = Vec::with_capacity(range.len());
            let mut entry = Vec::new();
            for index in range {
                entry.clear();
                core.pipeline().read_register(&name, index, &mut entry);
                values.extend(entry.get(cell));
            }
            values
        })?;
        let entity = |(at, value): (usize, u32)| {
            let entry = v1::RegisterEntry {
                register_id: id,
                index: Some(v1::Index { index: at as i64 }),
                data: Some(P4Data { data: Some(Data::Bitstring(bytestring::encode(value.into()))) }),
            };
            EntityKind::RegisterEntry(entry).into()
        };
        Ok((all.start + start..).zip(values).map(entity).collect())
    }
}

/// Maximum entities of one Read, without registers' cells.
const ENTITIES_MAX: usize = 1 << 17;

fn no_pipeline() -> Fault {
    Fault::new(Code::FailedPrecondition, NO_PIPELINE)
}

/// Replaces the pipeline by one of the same program and keeps the state.
fn reconcile(inner: &mut Inner, config: PipelineConfig) -> Result<(), Fault> {
    let Some(loaded) = &mut inner.loaded else {
        return Err(Fault::unimplemented("there is nothing to reconcile with: use VERIFY_AND_COMMIT"));
    };
    if loaded.config.program != config.program {
        return Err(Fault::unimplemented(
            "the state of the slots cannot be kept for another program: use VERIFY_AND_COMMIT",
        ));
    }
    loaded.config = Arc::new(config);
    inner.saved = None;
    Ok(())
}
