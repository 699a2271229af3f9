//! The simulated switch: the software switch and its P4Runtime server, which start again with nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use netfold_io::{Capabilities, IoCounters, IoError, PacketIo, PortId, RxBatch, Transmit};
use netfold_p4::allreduce;
use netfold_p4::entry::{FieldMatch, TableEntry};
use netfold_p4_runtime::p4info;
use netfold_p4_runtime::schema::decode_replica;
use netfold_p4_runtime::v1::{self, EntityKind, Replication};
use netfold_p4_runtime::{Schema, state};
use netfold_switch::{EmptyPipeline, Handle, Pipeline, Switch, datagram_pipeline};
use netfold_switch_p4runtime::fuzzing::Control;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::{LANE_WORDS, profile};
use crate::p4runtime::CPU_PORT;

/// Packet I/O of a switch that no packet reaches.
#[derive(Default)]
struct NoPackets(BTreeMap<PortId, SocketAddr>);

impl PacketIo for NoPackets {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "none",
            datagram_len_max: 1472,
            burst_max: 1,
            batch_bytes: 1472,
            udp_ports_max: 1,
            lossless: false,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        Ok(0)
    }

    fn transmit(&mut self, _: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        Ok(packets.len())
    }

    fn wait(&mut self, _: Duration) -> Result<bool, IoError> {
        Ok(false)
    }

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }

    fn counters(&self) -> IoCounters {
        IoCounters::default()
    }

    fn bind_port(&mut self, port: PortId, peer: SocketAddr) -> Result<(), IoError> {
        self.0.insert(port, peer);
        Ok(())
    }

    fn unbind_port(&mut self, port: PortId) -> Result<(), IoError> {
        self.0.remove(&port);
        Ok(())
    }

    fn peer(&self, port: PortId) -> Option<SocketAddr> {
        self.0.get(&port).copied()
    }
}

/// A table entry that can be compared: table, key, priority, action, parameters.
type Comparable = (u32, Vec<FieldMatch>, i32, u32, Vec<u64>);

/// What a switch holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) entries: BTreeSet<Comparable>,
    /// Port and instance of each replica.
    pub(super) groups: BTreeMap<u16, BTreeSet<(u16, u16)>>,
    pub(super) ports: BTreeMap<SocketAddr, u16>,
    /// Peer, job and epoch.
    pub(super) keys: BTreeSet<(SocketAddr, u16, u32)>,
}

impl Holding {
    pub(super) fn add(&mut self, entry: &TableEntry) {
        let mut matches = entry.matches.clone();
        matches.sort_unstable();
        self.entries.insert((entry.table, matches, entry.priority, entry.action, entry.params.clone()));
    }
}

/// One start of the switch.
struct Process {
    control: Control,
    incoming: mpsc::UnboundedSender<std::io::Result<DuplexStream>>,
}

struct Inner {
    process: Option<Process>,
    /// What each start has called itself.
    boots: Vec<String>,
}

/// The switch.
pub(super) struct Device {
    inner: Mutex<Inner>,
    schema: Schema,
    /// Whether it starts with the program.
    has_program: bool,
}

impl Device {
    /// A switch that runs, with the program or without.
    pub(super) fn start(has_program: bool) -> Arc<Self> {
        let program = allreduce::program(&profile()).unwrap();
        let schema = Schema::new(&p4info(&program).unwrap()).unwrap();
        let inner = Mutex::new(Inner { process: None, boots: Vec::new() });
        let device = Self { inner, schema, has_program };
        device.boot();
        Arc::new(device)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// It starts with nothing.
    pub(super) fn boot(&self) {
        let pipeline: Box<dyn Pipeline> = match self.has_program {
            true => datagram_pipeline(LANE_WORDS * 4).unwrap(),
            false => Box::new(EmptyPipeline::new(LANE_WORDS)),
        };
        let handle: Handle = Switch::bare(pipeline, Box::<NoPackets>::default()).idle();
        let control = Control::new(&handle, CPU_PORT).unwrap();
        if self.has_program {
            control.adopt(&allreduce::program(&profile()).unwrap()).unwrap();
        }
        let boot = control.describe().unwrap().boot_id;
        let (incoming, connections) = mpsc::unbounded_channel();
        let served = control.clone();
        tokio::spawn(async move {
            let connections = UnboundedReceiverStream::new(connections);
            served.serve(&handle, CPU_PORT, connections).await.unwrap();
        });
        let mut inner = self.inner();
        inner.boots.push(boot);
        inner.process = Some(Process { control, incoming });
    }

    /// It ends.
    pub(super) fn halt(&self) {
        self.inner().process = None;
    }

    /// Where connections go in; `None` while it does not run.
    pub(super) fn incoming(&self) -> Option<mpsc::UnboundedSender<std::io::Result<DuplexStream>>> {
        self.inner().process.as_ref().map(|process| process.incoming.clone())
    }

    /// What the current or last start has called itself.
    pub(super) fn boot_id(&self) -> String {
        self.inner().boots.last().cloned().unwrap()
    }

    /// What it holds; `None` while it does not run.
    pub(super) fn holding(&self) -> Option<Holding> {
        let control = self.inner().process.as_ref()?.control.clone();
        let mut holding = Holding::default();
        let entities = state::patterns(&self.schema);
        let request = v1::ReadRequest { device_id: 1, entities, ..Default::default() };
        // Without a program it holds none of these.
        let (found, _) = control.read(&request).unwrap_or_default();
        for entity in found {
            match entity.entity.unwrap() {
                EntityKind::TableEntry(entry) if entry.is_default_action || entry.is_const => {}
                EntityKind::TableEntry(entry) => holding.add(&self.schema.decode(&entry).unwrap()),
                EntityKind::PacketReplicationEngineEntry(entry) => {
                    let Some(Replication::MulticastGroupEntry(group)) = entry.r#type else { panic!() };
                    let replicas = group.replicas.iter().map(|replica| decode_replica(replica).unwrap());
                    let replicas = replicas.map(|replica| (replica.port, replica.instance)).collect();
                    holding.groups.insert(group.multicast_group_id as u16, replicas);
                }
                other => panic!("{other:?}"),
            }
        }
        for port in control.ports().unwrap() {
            let peer = port.peer.parse().unwrap();
            holding.ports.insert(peer, port.port as u16);
            let jobs = port.authenticated.into_iter();
            holding.keys.extend(jobs.map(|job| (peer, job.number as u16, job.epoch)));
        }
        Some(holding)
    }
}
