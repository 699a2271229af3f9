//! A software switch whose links are UDP, its server, a managed handle with its events, and a raw client that looks at the switch
//! and writes to it without the handle's knowledge.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netfold_controller::driver::HeldEntity;
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{IoError, PacketIo};
use netfold_p4::allreduce::{Child, Node, job_entries, node_entries};
use netfold_p4::entry::{FieldMatch, Replica, TableEntry};
use netfold_p4::profile::Profile;
use netfold_p4_runtime::ports::{self, AttachRequest, Call, DetachRequest, Job, ListRequest};
use netfold_p4_runtime::schema::{decode_replica, encode_replica};
use netfold_p4_runtime::v1::{self, EntityKind, Replication, UpdateType};
use netfold_p4_runtime::{Schema, p4info};
use netfold_southbound::p4runtime::{Attachment, Managed, ManagedConfig, Pipeline, SwitchEvent};
use netfold_switch::{EmptyPipeline, Handle, Switch, SwitchCounters};
use netfold_switch_p4runtime::{Server, ServerConfig, Tls};
use netfold_wire::{TAG_LEN, header};
use tokio::runtime::{Builder, Runtime};
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// No test waits longer than this for anything.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The election id of managed handles, unless a test says otherwise.
pub(crate) const ELECTION: u128 = 1000;

pub(crate) const LANE_WORDS: u32 = 16;

/// 4 jobs of up to 4 workers.
pub(crate) fn profile() -> Profile {
    Profile { slots: 64, jobs: 4, workers: 4, ..Profile::software(LANE_WORDS) }
}

pub(crate) fn pipeline() -> Pipeline {
    Pipeline::software(profile()).unwrap()
}

/// A switch that runs.
pub(crate) struct Device {
    server: Option<Server>,
    pub(crate) data: SocketAddr,
    handle: Handle,
    thread: Option<JoinHandle<Result<SwitchCounters, IoError>>>,
}

impl Device {
    pub(crate) fn start() -> Self {
        Self::at(([127, 0, 0, 1], 0).into())
    }

    /// With its server at an address.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self::served(address, ServerConfig::default())
    }

    /// With TLS, anywhere.
    pub(crate) fn encrypted(tls: Tls) -> Self {
        let config = ServerConfig { tls: Some(tls), ..ServerConfig::default() };
        Self::served(([127, 0, 0, 1], 0).into(), config)
    }

    fn served(address: SocketAddr, config: ServerConfig) -> Self {
        let datagram_len_max = header::LEN + LANE_WORDS as usize * 4 + TAG_LEN;
        let udp = UdpConfig { datagram_len_max, ..UdpConfig::default() };
        let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), udp).unwrap();
        let data = io.local_addr().unwrap();
        let switch = Switch::bare(Box::new(EmptyPipeline::new(LANE_WORDS)), Box::new(io));
        let handle = switch.handle();
        let thread = Some(std::thread::spawn(move || switch.run()));
        let server = Some(Server::start(address, config, handle.clone()).unwrap());
        Self { server, data, handle, thread }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().local_addr()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        drop(self.server.take());
        self.handle.stop();
        let _ = self.thread.take().unwrap().join();
    }
}

/// A managed switch and its events.
pub(crate) struct Watched {
    pub(crate) switch: Managed,
    events: Receiver<SwitchEvent>,
}

pub(crate) fn config(address: SocketAddr) -> ManagedConfig {
    ManagedConfig {
        election_id: ELECTION,
        call_within: Duration::from_secs(5),
        retry: (Duration::from_millis(10), Duration::from_millis(100)),
        resync_every: Duration::from_secs(3600),
        ..ManagedConfig::new("s1", address.to_string(), Attachment::Attached)
    }
}

impl Watched {
    pub(crate) fn start(config: ManagedConfig, held: Vec<HeldEntity>) -> Self {
        Self::running(config, pipeline(), held)
    }

    pub(crate) fn running(config: ManagedConfig, pipeline: Pipeline, held: Vec<HeldEntity>) -> Self {
        let (tell, events) = channel();
        let switch = Managed::start(config, pipeline, held, move |event| drop(tell.send(event))).unwrap();
        Self { switch, events }
    }

    /// The next event that a test waits for; others are skipped.
    pub(crate) fn wait<T>(&self, mut wanted: impl FnMut(&SwitchEvent) -> Option<T>) -> T {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).expect("the event in time");
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    }

    /// Waits until the switch is up; whether it is fresh, and which start of it this is.
    pub(crate) fn up(&self) -> (bool, Option<String>) {
        let up = self.wait(|event| match event {
            SwitchEvent::Up { fresh, boot, .. } => Some((*fresh, boot.clone())),
            _ => None,
        });
        // The event comes first.
        self.eventually_up();
        up
    }

    pub(crate) fn eventually_up(&self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while let Some(reason) = self.switch.down() {
            assert!(Instant::now() < deadline, "still down: {reason}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn wait_down(&self) -> String {
        self.wait(|event| match event {
            SwitchEvent::Down { reason } => Some(reason.clone()),
            _ => None,
        })
    }
}

/// Peer `number` of the tests; nothing listens there.
pub(crate) fn peer(number: u16) -> SocketAddr {
    ([127, 0, 1, 1], 30_000 + number).into()
}

pub(crate) fn node(job: u16) -> Node {
    Node {
        job,
        epoch: 7,
        key: 0xbeef,
        base: u32::from(job % 8) * 8,
        slots: 8,
        children: 2,
        workers: 2,
        world: 2,
        group: job,
        parent: None,
        shift: None,
        bounded_loss: false,
        owners: true,
    }
}

/// The entries of a job whose two children are at these ports of the control plane.
pub(crate) fn entries(job: u16, ports: [u16; 2]) -> Vec<TableEntry> {
    entries_of(&node(job), ports)
}

/// The same for a job as a program knows it.
pub(crate) fn entries_of(node: &Node, ports: [u16; 2]) -> Vec<TableEntry> {
    let mut entries = node_entries(node);
    for (rank, port) in (0..).zip(ports) {
        entries.extend(job_entries(node, &Child { port, source: 0, rank, behind: None }));
    }
    entries
}

pub(crate) fn replicas(ports: [u16; 2]) -> Vec<Replica> {
    ports.map(|port| Replica { port, instance: port + 1 }).to_vec()
}

/// What a control plane holds that has admitted `job` with two children at these ports.
pub(crate) fn held(job: u16, ports: [u16; 2]) -> Vec<HeldEntity> {
    let bound = ports.map(|port| HeldEntity::Port { port, peer: peer(port), udp_ports: 1, keys: None });
    let rest = [
        HeldEntity::Group { group: job, replicas: replicas(ports) },
        HeldEntity::Entries(entries(job, ports)),
    ];
    bound.into_iter().chain(rest).collect()
}

/// A table entry that can be put in order: table, key, priority, action, parameters.
type Comparable = (u32, Vec<FieldMatch>, i32, u32, Vec<u64>);

/// Entries, groups and ports of a switch, comparable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) entries: BTreeSet<Comparable>,
    pub(crate) groups: BTreeMap<u32, BTreeSet<(u16, u16)>>,
    pub(crate) ports: BTreeMap<String, u32>,
}

impl Holding {
    pub(crate) fn add(&mut self, entry: &TableEntry) {
        let mut matches = entry.matches.clone();
        matches.sort_unstable();
        let entry = (entry.table, matches, entry.priority, entry.action, entry.params.clone());
        assert!(self.entries.insert(entry), "an entry twice");
    }
}

/// A client without a stream.
pub(crate) struct Raw {
    runtime: Runtime,
    channel: Channel,
    schema: Schema,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::of(address, &profile())
    }

    pub(crate) fn of(address: SocketAddr, profile: &Profile) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        let program = netfold_p4::allreduce::program(profile).unwrap();
        Self { runtime, channel, schema: Schema::new(&p4info(&program).unwrap()).unwrap() }
    }

    fn grpc(&self) -> Grpc<Channel> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(64 << 20);
        self.runtime.block_on(grpc.ready()).unwrap();
        grpc
    }

    fn read(&self) -> Vec<v1::Entity> {
        let tables = self
            .schema
            .tables()
            .map(|table_id| EntityKind::TableEntry(v1::TableEntry { table_id, ..Default::default() }).into());
        let groups = group(0, &[]);
        let entities = tables.chain([groups.into()]).collect();
        let request = v1::ReadRequest { device_id: 1, entities, ..Default::default() };
        let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Read");
        let codec = ProstCodec::<v1::ReadRequest, v1::ReadResponse>::default();
        let mut grpc = self.grpc();
        self.runtime.block_on(async {
            let mut parts =
                grpc.server_streaming(Request::new(request), path, codec).await.unwrap().into_inner();
            let mut entities = Vec::new();
            while let Some(part) = parts.message().await.unwrap() {
                entities.extend(part.entities);
            }
            entities
        })
    }

    /// All that the switch holds.
    pub(crate) fn holding(&self) -> Holding {
        let mut holding = Holding::default();
        for entity in self.read() {
            match entity.entity.unwrap() {
                EntityKind::TableEntry(entry) => holding.add(&self.schema.decode(&entry).unwrap()),
                EntityKind::PacketReplicationEngineEntry(entry) => {
                    let Some(Replication::MulticastGroupEntry(group)) = entry.r#type else { panic!() };
                    let replicas = group.replicas.iter().map(|r| decode_replica(r).unwrap());
                    let replicas = replicas.map(|r| (r.port, r.instance)).collect();
                    holding.groups.insert(group.multicast_group_id, replicas);
                }
                other => panic!("{other:?}"),
            }
        }
        let list = self.ports(ListRequest {});
        holding.ports = list.ports.into_iter().map(|port| (port.peer, port.port)).collect();
        holding
    }

    /// A call of the service `Ports`.
    fn ports<C: Call + prost::Message + 'static>(&self, call: C) -> C::Response
    where
        C::Response: prost::Message + Default + 'static,
    {
        self.try_ports(call).unwrap()
    }

    fn try_ports<C: Call + prost::Message + 'static>(&self, call: C) -> Result<C::Response, tonic::Status>
    where
        C::Response: prost::Message + Default + 'static,
    {
        let path = PathAndQuery::from_static(C::PATH);
        let codec = ProstCodec::<C, C::Response>::default();
        let mut grpc = self.grpc();
        self.runtime.block_on(grpc.unary(Request::new(call), path, codec)).map(tonic::Response::into_inner)
    }

    /// Makes a port of a peer with so many UDP ports, as the primary.
    pub(crate) fn attach(&self, peer: SocketAddr, udp_ports: u32) -> Result<(), tonic::Status> {
        let (peer, device_id, election_id) = (peer.to_string(), 1, Some(ELECTION.into()));
        let request = AttachRequest { peer, device_id, election_id, udp_ports, ..Default::default() };
        self.try_ports(request).map(drop)
    }

    /// Takes a peer's port away, as the primary.
    pub(crate) fn detach(&self, peer: SocketAddr) {
        let (peer, device_id, election_id) = (peer.to_string(), 1, Some(ELECTION.into()));
        self.ports(DetachRequest { peer, device_id, election_id, ..Default::default() });
    }

    /// The jobs that have keys at a peer's port.
    pub(crate) fn keyed(&self, peer: SocketAddr) -> Vec<u32> {
        let ports = self.ports(ListRequest {}).ports;
        let of_peer = ports.into_iter().filter(|port| port.peer == peer.to_string());
        of_peer.flat_map(|port| port.authenticated).map(|job| job.number).collect()
    }

    /// Gives a job keys at a peer, as the primary.
    pub(crate) fn attach_keys(&self, peer: SocketAddr, number: u32) {
        let job = Some(Job { number, epoch: 7 });
        let keys = Some(ports::JobKeys { job, receive: vec![8; 32], send: vec![9; 32] });
        let (peer, device_id, election_id) = (peer.to_string(), 1, Some(ELECTION.into()));
        self.ports(AttachRequest { peer, device_id, election_id, keys, ..Default::default() });
    }

    /// Takes the keys of a job at a peer away, as the primary.
    pub(crate) fn detach_keys(&self, peer: SocketAddr, number: u32) {
        let keys_of = Some(Job { number, epoch: 7 });
        let (peer, device_id, election_id) = (peer.to_string(), 1, Some(ELECTION.into()));
        self.ports(DetachRequest { peer, device_id, election_id, keys_of, ..Default::default() });
    }

    /// Writes with the given election id.
    pub(crate) fn write(&self, election_id: u128, updates: Vec<v1::Update>) -> Result<(), tonic::Status> {
        let election_id = Some(election_id.into());
        let request = v1::WriteRequest { device_id: 1, election_id, updates, ..Default::default() };
        let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Write");
        let codec = ProstCodec::<v1::WriteRequest, v1::WriteResponse>::default();
        let mut grpc = self.grpc();
        self.runtime.block_on(grpc.unary(Request::new(request), path, codec)).map(drop)
    }

    pub(crate) fn entry(&self, kind: UpdateType, entry: &TableEntry) -> v1::Update {
        update(kind, EntityKind::TableEntry(self.schema.encode(entry).unwrap()))
    }
}

pub(crate) fn update(kind: UpdateType, entity: EntityKind) -> v1::Update {
    v1::Update { r#type: kind as i32, entity: Some(entity.into()) }
}

pub(crate) fn group(id: u32, replicas: &[Replica]) -> EntityKind {
    let replicas = replicas.iter().map(encode_replica).collect();
    let group = v1::MulticastGroupEntry { multicast_group_id: id, replicas, metadata: Vec::new() };
    let r#type = Some(Replication::MulticastGroupEntry(group));
    EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type })
}
