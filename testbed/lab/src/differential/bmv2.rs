//! Sequences played to bmv2, with a pipeline of the software switch as the oracle.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use netfold_p4::allreduce;
use netfold_p4::ir::Program;
use netfold_p4::p4info::counter_id;
use netfold_p4::profile::{Profile, ProfileError};
use netfold_p4_runtime::p4info;
use netfold_p4_runtime::schema::{SchemaError, encode_replica};
use netfold_p4_runtime::v1::{self, EntityKind, Replication, UpdateType};
use netfold_southbound::p4runtime::{Client, ClientConfig, P4RuntimeError};
use netfold_switch::Pipeline;

use super::play::{Difference, Player, Tally};
use super::sequence::{Group, Sequence};
use crate::bmv2::{
    Bmv2, Bmv2Config, Bmv2Error, CompileError, DataPlane, DataPlaneError, EGRESS_QUEUE, compile,
};

/// Packets that go in before the switch is waited for: fewer than an egress queue holds, since each may leave once by
/// every port.
const BURST: usize = EGRESS_QUEUE / 4;

/// How long a packet may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// What has not come within this time, after all that was expected, does not come.
const QUIET: Duration = Duration::from_millis(100);

/// bmv2 with a program of ours, to be played sequences.
pub struct Bmv2Rig {
    program: Program,
    json: Vec<u8>,
    client: Client,
    plane: DataPlane,
    /// Groups of the last sequence: pushing a pipeline leaves them.
    groups: Vec<Group>,
    _bmv2: Bmv2,
}

/// Why a sequence was not played.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// The profile is out of range.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The compiler refused the program.
    #[error("the program does not compile")]
    Compile(#[from] CompileError),
    /// bmv2 did not start.
    #[error("bmv2 does not run")]
    Start(#[from] Bmv2Error),
    /// Packets cannot be sent or received.
    #[error("packets do not pass")]
    Plane(#[from] DataPlaneError),
    /// bmv2 refused a request.
    #[error("bmv2 is not programmed")]
    Control(#[from] P4RuntimeError),
    /// An entry does not fit the program.
    #[error("an entry does not fit the program")]
    Entry(#[from] SchemaError),
    /// The program's own description cannot be read.
    #[error("the program's P4Info is broken: {0}")]
    Info(String),
    /// The two did not do the same.
    #[error(transparent)]
    Difference(#[from] Difference),
}

/// Packets by port, in order.
type ByPort = BTreeMap<u16, VecDeque<Vec<u8>>>;

impl Bmv2Rig {
    /// Compiles the profile's program and starts bmv2, which needs no privilege.
    ///
    /// # Errors
    ///
    /// [`RigError`], also when a tool is missing: see [`crate::bmv2::missing_tool`].
    pub fn start(profile: &Profile) -> Result<Self, RigError> {
        let program = allreduce::program(profile)?;
        let json = compile(&program)?.json.clone();
        let bmv2 = Bmv2::start(Bmv2Config::default())?;
        let plane = DataPlane::connect(&bmv2)?;
        let client = Client::connect(bmv2.p4runtime(), ClientConfig::default())?;
        Ok(Self { program, json, client, plane, groups: Vec::new(), _bmv2: bmv2 })
    }

    /// Plays a sequence to bmv2 and to `oracle`, both from the beginning, and compares every packet that leaves by
    /// its port and place, and all counters at the end.
    ///
    /// # Errors
    ///
    /// [`RigError::Difference`] for the first difference, the others when the sequence cannot be played.
    pub fn play(&mut self, sequence: &Sequence, oracle: Box<dyn Pipeline>) -> Result<Tally, RigError> {
        self.set_up(sequence)?;
        let differs = |at, what| Difference { seed: sequence.seed, at, what };
        let mut oracle = Player::new(oracle, sequence)
            .map_err(|error| differs(0, format!("the oracle refuses an entry: {error}")))?;
        let mut copies = 0;
        for (burst, arrivals) in sequence.packets.chunks(BURST).enumerate() {
            let mut expected = ByPort::new();
            for arrival in arrivals {
                for copy in oracle.feed(arrival) {
                    expected.entry(copy.port).or_default().push_back(copy.bytes);
                }
            }
            copies += expected.values().map(VecDeque::len).sum::<usize>() as u64;
            for arrival in arrivals {
                self.plane.send(arrival.port, &arrival.bytes)?;
            }
            self.take(&mut expected).map_err(|what| differs(burst * BURST, what))?;
        }
        if let Some((port, bytes)) = self.plane.receive(QUIET)? {
            let what = format!("port {port} sends {} bytes that are not expected", bytes.len());
            return Err(differs(sequence.packets.len(), what).into());
        }
        let [reasons, answers] = self.compare_counters(sequence, &oracle)?;
        Ok(Tally { sequences: 1, packets: sequence.packets.len() as u64, copies, reasons, answers })
    }

    /// An empty pipeline, then the sequence's entries and groups.
    fn set_up(&mut self, sequence: &Sequence) -> Result<(), RigError> {
        let groups = std::mem::replace(&mut self.groups, sequence.groups.clone());
        self.client.write(groups.iter().map(|group| group_update(UpdateType::Delete, group)).collect())?;
        let info = p4info(&self.program).map_err(|error| RigError::Info(error.to_string()))?;
        self.client.set_pipeline(info, self.json.clone())?;
        let schema = self.client.schema().ok_or_else(|| RigError::Info("it was not kept".into()))?;
        let mut updates = Vec::with_capacity(sequence.entries.len() + sequence.groups.len());
        for entry in &sequence.entries {
            let entity = EntityKind::TableEntry(schema.encode(entry)?);
            updates.push(v1::Update { r#type: UpdateType::Insert as i32, entity: Some(entity.into()) });
        }
        updates.extend(sequence.groups.iter().map(|group| group_update(UpdateType::Insert, group)));
        self.client.write(updates)?;
        Ok(())
    }

    /// Receives until nothing is expected any more.
    fn take(&self, expected: &mut ByPort) -> Result<(), String> {
        let deadline = Instant::now() + REPLY_TIMEOUT;
        while expected.values().any(|packets| !packets.is_empty()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some((port, bytes)) = self.plane.receive(left).map_err(|error| error.to_string())? else {
                let missing: Vec<_> = expected
                    .iter()
                    .map(|(port, packets)| format!("{} at port {port}", packets.len()))
                    .collect();
                return Err(format!("packets do not come: {}", missing.join(", ")));
            };
            match expected.get_mut(&port).and_then(VecDeque::pop_front) {
                None => return Err(format!("port {port} sends {} bytes that are not expected", bytes.len())),
                Some(wanted) if wanted != bytes => {
                    return Err(format!("port {port} sends\n{bytes:02x?}\nand not\n{wanted:02x?}"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn compare_counters(&self, sequence: &Sequence, oracle: &Player<'_>) -> Result<[Vec<u64>; 2], RigError> {
        let mut found = [const { Vec::new() }; 2];
        for (id, found) in [allreduce::id::PACKETS, allreduce::id::ANSWERS].into_iter().zip(&mut found) {
            *found = self.client.counters(counter_id(id))?;
            let wanted = oracle.pipeline().counters(counter_id(id));
            if *found != wanted {
                let what = format!("counter {id} is {found:?} and not {wanted:?}");
                let at = sequence.packets.len();
                return Err(Difference { seed: sequence.seed, at, what }.into());
            }
        }
        Ok(found)
    }
}

fn group_update(kind: UpdateType, group: &Group) -> v1::Update {
    let replicas = match kind {
        UpdateType::Delete => Vec::new(),
        _ => group.replicas.iter().map(encode_replica).collect(),
    };
    let entry =
        v1::MulticastGroupEntry { multicast_group_id: u32::from(group.id), replicas, metadata: Vec::new() };
    let entity = EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(entry)),
    });
    v1::Update { r#type: kind as i32, entity: Some(entity.into()) }
}
