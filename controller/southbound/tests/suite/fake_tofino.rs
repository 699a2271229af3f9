//! A BF Runtime server without a switch, which checks every call as the SDE's does and records what it received.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use netfold_p4_runtime::bfrt::{
    DataValue, Entity, EntityKind, Error, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, KeyMatch, NonP4Config, PipelineAction, ReadRequest, ReadResponse,
    SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse, StreamMessageRequest,
    StreamMessageResponse, Subscribe, TableData, TableEntry, Update, UpdateType, WriteRequest, WriteResponse,
};
use netfold_p4_runtime::google::{self, Any, Code};
use prost::Message;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::Grpc;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

/// Key fields as (id, value, mask), in order.
pub(crate) type Key = Vec<(u32, Vec<u8>, Vec<u8>)>;

/// What the fake holds and has seen.
#[derive(Default)]
pub(crate) struct Tofino {
    pub(crate) tables: BTreeMap<u32, BTreeMap<Key, TableData>>,
    pub(crate) programs: Vec<ForwardingPipelineConfig>,
    pub(crate) device_info: Vec<u8>,
    pub(crate) subscribed: Option<u32>,
    pub(crate) bound: Option<String>,
    pub(crate) pushes: usize,
    /// The update after so many more fails.
    pub(crate) fail_after: Option<usize>,
    /// What a client did that it must not.
    pub(crate) complaints: Vec<String>,
}

pub(crate) struct Fake {
    state: Arc<Mutex<Tofino>>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    pub(crate) fn start(device_info: Vec<u8>) -> Self {
        let state = Arc::new(Mutex::new(Tofino { device_info, ..Tofino::default() }));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                let server = tonic::transport::Server::builder();
                tokio::select! {
                    served = server.serve_with_incoming(service, TcpIncoming::from(listener)) => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self { state, address, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Tofino> {
        self.state.lock().unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

fn grpc<Q, A>() -> Grpc<ProstCodec<A, Q>>
where
    Q: Message + Default + Send + 'static,
    A: Message + Default + Send + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(64 << 20)
}

async fn answer(
    state: Arc<Mutex<Tofino>>,
    request: http::Request<Body>,
) -> Result<http::Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let lock = || state.lock().unwrap();
    Ok(match path.strip_prefix("/bfrt_proto.BfRuntime/") {
        Some("StreamChannel") => {
            let call = |request: Request<Streaming<StreamMessageRequest>>| {
                let (answers, receiver) = mpsc::channel(4);
                tokio::spawn(attend(Arc::clone(&state), request.into_inner(), answers));
                std::future::ready(Ok::<_, Status>(Response::new(ReceiverStream::new(receiver))))
            };
            grpc::<StreamMessageRequest, StreamMessageResponse>().streaming(service_fn(call), request).await
        }
        Some("GetForwardingPipelineConfig") => {
            let call = |request: Request<GetForwardingPipelineConfigRequest>| {
                std::future::ready(lock().pipelines(request.into_inner()).map(Response::new))
            };
            grpc().unary(service_fn(call), request).await
        }
        Some("SetForwardingPipelineConfig") => {
            let call = |request: Request<SetForwardingPipelineConfigRequest>| {
                std::future::ready(lock().set_pipeline(request.into_inner()).map(Response::new))
            };
            grpc().unary(service_fn(call), request).await
        }
        Some("Write") => {
            let call = |request: Request<WriteRequest>| {
                std::future::ready(lock().write(request.into_inner()).map(Response::new))
            };
            grpc().unary(service_fn(call), request).await
        }
        Some("Read") => {
            let call = |request: Request<ReadRequest>| {
                let found = lock().read(request.into_inner());
                std::future::ready(found.map(|part| Response::new(tokio_stream::iter([Ok(part)]))))
            };
            grpc::<ReadRequest, ReadResponse>().server_streaming(service_fn(call), request).await
        }
        _ => Status::unimplemented(path).into_http(),
    })
}

async fn attend(
    state: Arc<Mutex<Tofino>>,
    mut requests: Streaming<StreamMessageRequest>,
    answers: mpsc::Sender<Result<StreamMessageResponse, Status>>,
) {
    while let Ok(Some(request)) = requests.message().await {
        let mut status = google::Status::default();
        {
            let mut tofino = state.lock().unwrap();
            match (&request.subscribe, tofino.subscribed) {
                (Some(_), Some(_)) => {
                    status.code = Code::AlreadyExists as i32;
                    status.message = "client id already in use".into();
                }
                (Some(subscribe), None) if subscribe.device_id == 0 => {
                    tofino.subscribed = Some(request.client_id)
                }
                other => tofino.complaints.push(format!("stream: {other:?}")),
            }
        }
        let subscribe = Subscribe { status: Some(status), ..Subscribe::default() };
        let _ = answers.send(Ok(StreamMessageResponse { subscribe: Some(subscribe) })).await;
    }
    state.lock().unwrap().subscribed = None;
}

impl Tofino {
    fn pipelines(
        &self,
        request: GetForwardingPipelineConfigRequest,
    ) -> Result<GetForwardingPipelineConfigResponse, Status> {
        self.known(request.client_id)?;
        if self.programs.is_empty() {
            return Err(Status::failed_precondition("no program"));
        }
        let non_p4_config = Some(NonP4Config { bfruntime_info: self.device_info.clone() });
        Ok(GetForwardingPipelineConfigResponse { config: self.programs.clone(), non_p4_config })
    }

    fn known(&self, client_id: u32) -> Result<(), Status> {
        match self.subscribed {
            Some(known) if known == client_id => Ok(()),
            _ => Err(Status::failed_precondition("client is not subscribed")),
        }
    }

    fn set_pipeline(
        &mut self,
        request: SetForwardingPipelineConfigRequest,
    ) -> Result<SetForwardingPipelineConfigResponse, Status> {
        self.known(request.client_id)?;
        let [config] = request.config.as_slice() else { return Err(Status::invalid_argument("one config")) };
        match PipelineAction::try_from(request.action) {
            Ok(PipelineAction::Bind) if self.programs.iter().any(|there| there.p4_name == config.p4_name) => {
                self.bound = Some(config.p4_name.clone());
            }
            Ok(PipelineAction::Bind) => return Err(Status::not_found("no such program")),
            Ok(PipelineAction::VerifyAndWarmInitBeginAndEnd) => {
                let profile = config.profiles.first();
                let complete = profile.is_some_and(|p| !p.binary.is_empty() && !p.context.is_empty());
                if !complete || config.bfruntime_info.is_empty() {
                    return Err(Status::invalid_argument("incomplete config"));
                }
                self.programs = vec![config.clone()];
                self.tables.clear();
                self.pushes += 1;
            }
            other => return Err(Status::unimplemented(format!("{other:?}"))),
        }
        Ok(SetForwardingPipelineConfigResponse { set_forwarding_pipeline_config_response_type: 1 })
    }

    fn table(&self, id: u32) -> Option<Value> {
        let programs = self.programs.iter().map(|program| program.bfruntime_info.as_slice());
        let all = programs.chain([self.device_info.as_slice()]);
        let parsed = all.map(|json| serde_json::from_slice::<Value>(json).unwrap());
        let tables: Vec<Value> = parsed.flat_map(|json| json["tables"].as_array().unwrap().clone()).collect();
        tables.into_iter().find(|table| table["id"] == id)
    }

    fn admit(&self, client_id: u32, p4_name: &str, device: Option<u32>) -> Result<(), Status> {
        self.known(client_id)?;
        if self.bound.as_deref() != Some(p4_name) || device != Some(0) {
            return Err(Status::failed_precondition("client is not bound to this program"));
        }
        Ok(())
    }

    fn write(&mut self, request: WriteRequest) -> Result<WriteResponse, Status> {
        self.admit(request.client_id, &request.p4_name, request.target.map(|target| target.device_id))?;
        if request.updates.is_empty() || request.updates.len() > 80 {
            self.complaints.push(format!("{} updates", request.updates.len()));
        }
        let results: Vec<Error> = request.updates.into_iter().map(|update| self.update(update)).collect();
        if results.iter().all(|error| error.canonical_code == 0) {
            return Ok(WriteResponse::default());
        }
        let details = results.iter().map(Any::pack).collect();
        let details = google::Status { code: Code::Unknown as i32, message: String::new(), details };
        Err(Status::with_details(tonic::Code::Unknown, "some failed", details.encode_to_vec().into()))
    }

    fn update(&mut self, update: Update) -> Error {
        let fail = |code: Code, message: &str| Error { canonical_code: code as i32, message: message.into() };
        match &mut self.fail_after {
            Some(0) => {
                self.fail_after = None;
                return fail(Code::ResourceExhausted, "no space");
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let kind = UpdateType::try_from(update.r#type).unwrap();
        let Some(EntityKind::TableEntry(entry)) = update.entity.and_then(|entity| entity.entity) else {
            return fail(Code::InvalidArgument, "no entry");
        };
        let Some(table) = self.table(entry.table_id) else { return fail(Code::NotFound, "no such table") };
        let key = match self.check(&table, &entry, kind) {
            Ok(key) => key,
            Err(what) => {
                self.complaints.push(what.clone());
                return fail(Code::InvalidArgument, &what);
            }
        };
        let held = self.tables.entry(entry.table_id).or_default();
        match (kind, held.contains_key(&key)) {
            (UpdateType::Insert, true) => return fail(Code::AlreadyExists, "exists"),
            (UpdateType::Modify | UpdateType::Delete, false) => return fail(Code::NotFound, "not found"),
            (UpdateType::Delete, true) => drop(held.remove(&key)),
            _ => drop(held.insert(key, entry.data.unwrap())),
        }
        Error::default()
    }

    /// Checks an entry against its table's description.
    fn check(&self, table: &Value, entry: &TableEntry, kind: UpdateType) -> Result<Key, String> {
        let of =
            |id: u32, list: &Value| list.as_array().unwrap().iter().find(|field| field["id"] == id).cloned();
        let bytes = |field: &Value| match field["type"]["type"].as_str().unwrap() {
            "bytes" => field["type"]["width"].as_u64().unwrap().div_ceil(8) as usize,
            "uint16" => 2,
            _ => 4,
        };
        let mut key = Key::new();
        for given in &entry.key.as_ref().ok_or("no key")?.fields {
            let field = of(given.field_id, &table["key"]).ok_or("no such key field")?;
            let (value, mask) = match (given.match_type.as_ref(), field["match_type"].as_str().unwrap()) {
                (Some(KeyMatch::Exact(exact)), "Exact") => (exact.value.clone(), Vec::new()),
                (Some(KeyMatch::Ternary(ternary)), "Ternary") => {
                    (ternary.value.clone(), ternary.mask.clone())
                }
                other => return Err(format!("{other:?}")),
            };
            let len = bytes(&field);
            let wide = field["type"]["width"].as_u64().filter(|bits| bits % 8 != 0);
            let above =
                |bytes: &[u8]| wide.is_some_and(|bits| !bytes.is_empty() && bytes[0] >> (bits % 8) != 0);
            if value.len() != len || !(mask.is_empty() || mask.len() == len) || above(&value) || above(&mask)
            {
                return Err(format!("{} has {value:?} under {mask:?}", field["name"]));
            }
            key.push((given.field_id, value, mask));
        }
        key.sort();
        for field in table["key"].as_array().unwrap() {
            let exact = field["match_type"] == "Exact";
            if exact && !key.iter().any(|(id, ..)| field["id"] == *id) {
                return Err(format!("{} is missing", field["name"]));
            }
        }
        match (&entry.data, kind) {
            (None, UpdateType::Delete) => return Ok(key),
            (Some(_), UpdateType::Delete) | (None, _) => return Err("data".into()),
            (Some(data), _) => self.check_data(table, data)?,
        }
        Ok(key)
    }

    fn check_data(&self, table: &Value, data: &TableData) -> Result<(), String> {
        if let Some(specs) = table["action_specs"].as_array() {
            let spec = specs.iter().find(|spec| spec["id"] == data.action_id).ok_or("no such action")?;
            let params = spec["data"].as_array().unwrap();
            for (param, field) in params.iter().zip(&data.fields) {
                let len = param["type"]["width"].as_u64().unwrap().div_ceil(8) as usize;
                match &field.value {
                    Some(DataValue::Stream(bytes)) if bytes.len() == len && param["id"] == field.field_id => {
                    }
                    other => return Err(format!("parameter {}: {other:?}", param["name"])),
                }
            }
            return if params.len() == data.fields.len() { Ok(()) } else { Err("parameters".into()) };
        }
        // A group's nodes must be there.
        if table["name"] == "$pre.mgid" {
            let Some(DataValue::IntArrVal(nodes)) = &data.fields[0].value else { return Err("nodes".into()) };
            let node = |id: &u32| vec![(1, id.to_be_bytes().to_vec(), Vec::new())];
            let there = self.tables.get(&NODE).cloned().unwrap_or_default();
            if let Some(absent) = nodes.val.iter().find(|id| !there.contains_key(&node(id))) {
                return Err(format!("node {absent} is not there"));
            }
        }
        Ok(())
    }

    fn read(&self, request: ReadRequest) -> Result<ReadResponse, Status> {
        self.admit(request.client_id, &request.p4_name, request.target.map(|target| target.device_id))?;
        let mut entities = Vec::new();
        for entity in request.entities {
            let Some(EntityKind::TableEntry(pattern)) = entity.entity else { continue };
            for (key, data) in self.tables.get(&pattern.table_id).into_iter().flatten() {
                let fields = key.iter().map(|(id, value, mask)| field(*id, value, mask)).collect();
                let key = Some(netfold_p4_runtime::bfrt::TableKey { fields });
                let (table_id, data) = (pattern.table_id, Some(data.clone()));
                let entry = TableEntry { table_id, key, data, ..TableEntry::default() };
                entities.push(Entity { entity: Some(EntityKind::TableEntry(entry)) });
            }
        }
        if entities.is_empty() {
            return Err(Status::not_found("no entries"));
        }
        Ok(ReadResponse { entities, status: Vec::new() })
    }
}

fn field(field_id: u32, value: &[u8], mask: &[u8]) -> netfold_p4_runtime::bfrt::KeyField {
    use netfold_p4_runtime::bfrt::{Exact, KeyField, Ternary};
    let (value, mask) = (value.to_vec(), mask.to_vec());
    let match_type = if mask.is_empty() {
        KeyMatch::Exact(Exact { value })
    } else {
        KeyMatch::Ternary(Ternary { value, mask })
    };
    KeyField { field_id, match_type: Some(match_type) }
}

/// Ids of the replication engine's tables here.
pub(crate) const GROUP: u32 = 1001;
pub(crate) const NODE: u32 = 1002;
