//! A switch without a program, its server, and a client for arbitrary requests.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_io::{IoError, PacketIo, PortId, RxBatch, Transmit, loopback};
use netfold_p4::entry::TableEntry;
use netfold_p4::ir::Program;
use netfold_p4::profile::{Profile, by_name};
use netfold_p4::{allreduce, json};
use netfold_p4_runtime::google::{self, Code};
use netfold_p4_runtime::ports::Call;
use netfold_p4_runtime::v1::{self, EntityKind, StreamRequest, StreamResponse, UpdateType};
use netfold_p4_runtime::{Schema, p4info};
use netfold_switch::{EmptyPipeline, Handle, Switch, SwitchCounters};
use netfold_switch_p4runtime::{Server, ServerConfig, Tls};
use netfold_wire::{Kind, Repr, header};
use prost::Message;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// Bound of every wait: a hang guard.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Words of the longest packet of the data path.
pub(crate) const LANE_WORDS: u32 = 352;

/// Bytes of the longest packet.
const DATAGRAM: usize = netfold_wire::header::LEN + LANE_WORDS as usize * 4;

/// A running switch with its server.
pub(crate) struct Device {
    pub(crate) server: Option<Server>,
    pub(crate) handle: Handle,
    pub(crate) workers: Vec<loopback::Loopback>,
    thread: Option<thread::JoinHandle<Result<SwitchCounters, IoError>>>,
}

impl Device {
    pub(crate) fn start() -> Self {
        let (io, workers) = loopback::star(4, 64, DATAGRAM);
        Self::over(Box::new(io), workers)
    }

    /// Over a UDP socket of this machine, with these ports attached at the start.
    pub(crate) fn udp(ports: &[(u16, SocketAddr)]) -> Self {
        let config = UdpConfig { datagram_len_max: DATAGRAM, ..UdpConfig::default() };
        let mut io = UdpIo::bind(([127, 0, 0, 1], 0).into(), config).unwrap();
        for (port, peer) in ports {
            io.bind_port(PortId(*port), *peer).unwrap();
        }
        Self::over(Box::new(io), Vec::new())
    }

    /// With certificates.
    pub(crate) fn encrypted(tls: Tls) -> Self {
        let (io, workers) = loopback::star(1, 64, DATAGRAM);
        Self::serving(Box::new(io), workers, ServerConfig { tls: Some(tls), ..ServerConfig::default() })
    }

    fn over(io: Box<dyn PacketIo>, workers: Vec<loopback::Loopback>) -> Self {
        Self::serving(io, workers, ServerConfig::default())
    }

    fn serving(io: Box<dyn PacketIo>, workers: Vec<loopback::Loopback>, config: ServerConfig) -> Self {
        let switch = Switch::bare(Box::new(EmptyPipeline::new(LANE_WORDS)), io);
        let handle = switch.handle();
        let thread = Some(thread::spawn(move || switch.run()));
        let server = Server::start(([127, 0, 0, 1], 0).into(), config, handle.clone()).unwrap();
        Self { server: Some(server), handle, workers, thread }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().local_addr()
    }

    /// A primary controller whose switch runs the small program.
    pub(crate) fn ready(&self) -> Client {
        let mut client = Client::primary(self.address());
        client.push(&small()).unwrap();
        client
    }

    /// Sends a datagram from a worker and returns the reply.
    pub(crate) fn exchange(&mut self, worker: usize, datagram: &[u8]) -> Option<Vec<u8>> {
        let io = &mut self.workers[worker];
        let packet = Transmit { port: PortId(0), offset: 0, len: datagram.len() as u32 };
        assert_eq!(io.transmit(datagram, &[packet]).unwrap(), 1);
        let mut batch: RxBatch = io.capabilities().batch();
        for _ in 0..20 {
            io.wait(Duration::from_millis(100)).unwrap();
            if io.receive(&mut batch).unwrap() > 0 {
                return Some(batch.bytes(&batch.packets()[0]).to_vec());
            }
        }
        None
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        drop(self.server.take());
        self.handle.stop();
        let _ = self.thread.take().unwrap().join();
    }
}

/// 2 workers, 4 slots, 16 words per packet; interpreted.
pub(crate) fn small() -> Program {
    allreduce::program(&by_name("small").unwrap()).unwrap()
}

/// The program of a generated pipeline.
pub(crate) fn fast() -> Program {
    allreduce::program(&Profile::software(LANE_WORDS)).unwrap()
}

pub(crate) fn schema(program: &Program) -> Schema {
    Schema::new(&p4info(program).unwrap()).unwrap()
}

pub(crate) fn config(program: &Program) -> v1::ForwardingPipelineConfig {
    assert!(program.to_json().len() <= json::BYTES_MAX);
    v1::ForwardingPipelineConfig {
        p4info: Some(p4info(program).unwrap()),
        p4_device_config: program.to_json().into_bytes(),
        cookie: Some(v1::Cookie { cookie: 77 }),
    }
}

pub(crate) fn update(kind: UpdateType, entity: EntityKind) -> v1::Update {
    v1::Update { r#type: kind as i32, entity: Some(entity.into()) }
}

pub(crate) fn entry(program: &Program, entry: &TableEntry) -> EntityKind {
    EntityKind::TableEntry(schema(program).encode(entry).unwrap())
}

/// An ADVANCE of a slot to a chunk.
pub(crate) fn advance(slot: u16, chunk: u32, nonce: u32) -> Vec<u8> {
    let repr = Repr { key: nonce, ..Repr::from_controller(Kind::Advance, (slot, 0), chunk) };
    let mut bytes = vec![0; header::LEN];
    repr.emit(&mut header::Packet::new_unchecked(&mut bytes[..]));
    bytes
}

/// Chunk and nonce of an ADVANCE.
pub(crate) fn answer(datagram: &[u8]) -> (u32, u32) {
    let repr = Repr::parse(&header::Packet::new_checked(datagram).unwrap()).unwrap();
    assert_eq!(repr.kind, Kind::Advance);
    (repr.chunk, repr.key)
}

/// One client, in blocking form. Its connection has its own thread, so that a dropped stream ends at once.
pub(crate) struct Client {
    pub(crate) runtime: Runtime,
    channel: Channel,
    pub(crate) election_id: Option<u128>,
    pub(crate) role: String,
    pub(crate) stream: Option<Stream>,
}

/// An open stream.
pub(crate) struct Stream {
    requests: mpsc::Sender<v1::StreamMessageRequest>,
    answers: Responses,
}

type Opened = Result<Streaming<v1::StreamMessageResponse>, Status>;

/// The receiving side of a stream. Some servers open it only with their first message.
#[expect(clippy::large_enum_variant, reason = "there are a few in a test")]
enum Responses {
    Opening(JoinHandle<Opened>),
    Open(Opened),
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::connect_to(format!("http://{address}"))
    }

    /// Connects to an address in tonic's form, possibly that of a Unix socket.
    pub(crate) fn connect_to(address: String) -> Self {
        Self::try_connect(Endpoint::from_shared(address).unwrap()).unwrap()
    }

    pub(crate) fn try_connect(endpoint: Endpoint) -> Result<Self, tonic::transport::Error> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let endpoint = endpoint.http2_max_header_list_size(1 << 20).connect_timeout(TIMEOUT);
        let channel = runtime.block_on(endpoint.connect())?;
        Ok(Self { runtime, channel, election_id: None, role: String::new(), stream: None })
    }

    /// A primary with the id 1.
    pub(crate) fn primary(address: SocketAddr) -> Self {
        let mut client = Self::connect(address);
        assert_eq!(client.bid(1), (Code::Ok, Some(1)));
        client
    }

    fn grpc(&mut self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(64 << 20);
        let ready = self.runtime.block_on(grpc.ready());
        ready.map(|()| grpc).map_err(|error| Status::unavailable(error.to_string()))
    }

    pub(crate) fn unary<Q, A>(&mut self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.grpc()?;
        let path = PathAndQuery::try_from(method).unwrap();
        let call = grpc.unary(Request::new(request), path, ProstCodec::<Q, A>::default());
        let done = self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, call).await });
        done.expect("a response in time").map(tonic::Response::into_inner)
    }

    /// A call of the service `Ports`.
    pub(crate) fn ports<Q: Call>(&mut self, request: Q) -> Result<Q::Response, Status> {
        self.unary(Q::PATH, request)
    }

    pub(crate) fn open(&mut self) -> &mut Stream {
        let (requests, receiver) = mpsc::channel(16);
        let mut grpc = self.grpc().unwrap();
        let path = PathAndQuery::from_static("/p4.v1.P4Runtime/StreamChannel");
        let codec = ProstCodec::<v1::StreamMessageRequest, v1::StreamMessageResponse>::default();
        let call = async move {
            let call = grpc.streaming(Request::new(ReceiverStream::new(receiver)), path, codec).await;
            call.map(tonic::Response::into_inner)
        };
        let answers = Responses::Opening(self.runtime.spawn(call));
        self.stream.insert(Stream { requests, answers })
    }

    pub(crate) fn send_message(&mut self, request: StreamRequest) {
        if self.stream.is_none() {
            self.open();
        }
        let request = v1::StreamMessageRequest { update: Some(request) };
        let stream = self.stream.as_ref().unwrap();
        // Fails when the stream has ended, which the next response reports.
        let _ = self.runtime.block_on(stream.requests.send(request));
    }

    /// The next message of the stream, or its end.
    pub(crate) fn receive(&mut self) -> Result<StreamResponse, Status> {
        self.receive_within(TIMEOUT).expect("a message in time")
    }

    /// Like [`Self::receive`]; `None` when nothing arrives in that time.
    pub(crate) fn receive_within(&mut self, wait: Duration) -> Option<Result<StreamResponse, Status>> {
        let answers = &mut self.stream.as_mut().unwrap().answers;
        let next = async {
            if let Responses::Opening(opening) = answers {
                *answers = Responses::Open(opening.await.unwrap());
            }
            match answers {
                Responses::Open(Ok(open)) => open.message().await,
                Responses::Open(Err(status)) => Err(status.clone()),
                Responses::Opening(_) => unreachable!(),
            }
        };
        let received = self.runtime.block_on(async { tokio::time::timeout(wait, next).await });
        received.ok().map(|message| match message? {
            Some(message) => Ok(message.update.unwrap()),
            None => Err(Status::ok("the end")),
        })
    }

    /// The next outcome of arbitration: code and highest id.
    pub(crate) fn arbitration(&mut self) -> (Code, Option<u128>) {
        match self.receive().unwrap() {
            StreamResponse::Arbitration(update) => {
                let code = update.status.map_or(0, |status| status.code);
                (Code::try_from(code).unwrap(), update.election_id.map(u128::from))
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn bid(&mut self, id: u128) -> (Code, Option<u128>) {
        self.offer(id);
        self.arbitration()
    }

    pub(crate) fn offer(&mut self, id: u128) {
        self.election_id = Some(id);
        let role =
            (!self.role.is_empty()).then(|| v1::Role { name: self.role.clone(), ..v1::Role::default() });
        let update =
            v1::MasterArbitrationUpdate { device_id: 1, role, election_id: Some(id.into()), status: None };
        self.send_message(StreamRequest::Arbitration(update));
    }

    pub(crate) fn set(
        &mut self,
        action: v1::PipelineAction,
        config: Option<v1::ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: 1,
            role: self.role.clone(),
            election_id: self.election_id.map(Into::into),
            action: action as i32,
            config,
            ..Default::default()
        };
        let method = "/p4.v1.P4Runtime/SetForwardingPipelineConfig";
        self.unary::<_, v1::SetForwardingPipelineConfigResponse>(method, request).map(|_| ())
    }

    pub(crate) fn push(&mut self, program: &Program) -> Result<(), Status> {
        self.set(v1::PipelineAction::VerifyAndCommit, Some(config(program)))
    }

    pub(crate) fn get(&mut self, kind: v1::ResponseType) -> Option<v1::ForwardingPipelineConfig> {
        let request = v1::GetForwardingPipelineConfigRequest { device_id: 1, response_type: kind as i32 };
        let method = "/p4.v1.P4Runtime/GetForwardingPipelineConfig";
        let answer: v1::GetForwardingPipelineConfigResponse = self.unary(method, request).unwrap();
        answer.config
    }

    pub(crate) fn request(&self, updates: Vec<v1::Update>) -> v1::WriteRequest {
        v1::WriteRequest {
            device_id: 1,
            role: self.role.clone(),
            election_id: self.election_id.map(Into::into),
            updates,
            ..Default::default()
        }
    }

    pub(crate) fn write(&mut self, updates: Vec<v1::Update>) -> Result<(), Status> {
        let request = self.request(updates);
        self.send(request)
    }

    pub(crate) fn send(&mut self, request: v1::WriteRequest) -> Result<(), Status> {
        self.unary::<_, v1::WriteResponse>("/p4.v1.P4Runtime/Write", request).map(|_| ())
    }

    /// Writes one update; returns its code.
    pub(crate) fn one(&mut self, kind: UpdateType, entity: EntityKind) -> Code {
        match self.write(vec![update(kind, entity)]) {
            Ok(()) => Code::Ok,
            Err(status) => codes(&status)[0],
        }
    }

    pub(crate) fn read(&mut self, patterns: Vec<EntityKind>) -> Result<Vec<EntityKind>, Status> {
        let entities = patterns.into_iter().map(v1::Entity::from).collect();
        let request = v1::ReadRequest { device_id: 1, entities, ..Default::default() };
        let mut grpc = self.grpc()?;
        let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Read");
        let codec = ProstCodec::<v1::ReadRequest, v1::ReadResponse>::default();
        self.runtime.block_on(async {
            let read = async {
                let mut parts = grpc.server_streaming(Request::new(request), path, codec).await?.into_inner();
                let mut found = Vec::new();
                while let Some(part) = parts.message().await? {
                    found.extend(part.entities.into_iter().filter_map(|entity| entity.entity));
                }
                Ok(found)
            };
            tokio::time::timeout(TIMEOUT, read).await.expect("a response in time")
        })
    }
}

/// The codes of a call's parts, from its details.
pub(crate) fn codes(status: &Status) -> Vec<Code> {
    assert_eq!(status.code(), tonic::Code::Unknown, "{status:?}");
    let details = google::Status::decode(status.details()).unwrap();
    assert_eq!(details.code, Code::Unknown as i32);
    let code = |any: &google::Any| {
        let error: v1::Error = any.unpack::<v1::Error>().unwrap().unwrap();
        Code::try_from(error.canonical_code).unwrap()
    };
    details.details.iter().map(code).collect()
}
