//! A client of BF Runtime, in blocking form.

use std::time::Duration;

use netfold_p4_runtime::google::{self, Code};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::BfrtError;
use crate::p4runtime::Executor;
use netfold_p4_runtime::bfrt::{
    Entity, EntityKind, Error, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, Notifications, PipelineAction, ReadRequest, ReadResponse,
    SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse, StreamMessageRequest,
    StreamMessageResponse, Subscribe, TableEntry, TargetDevice, Update, WriteRequest, WriteResponse,
};

/// Largest message taken from a switch, in bytes: a program's description has several MiB.
const MESSAGE_LEN_MAX: usize = 64 << 20;

/// Updates in one Write: the failures of all must fit the trailers of an answer.
const BATCH_MAX: usize = 50;

/// How a switch is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BfrtConfig {
    /// What to call the switch in messages to people.
    pub name: String,
    /// `host:port`; the usual port is 50052.
    pub address: String,
    /// Device number, 0 on a switch with one chip.
    pub device_id: u32,
    /// Number of this client among the device's, not in use by another.
    pub client_id: u32,
    /// How long to wait for each call; pushing a program takes seconds.
    pub call_within: Duration,
}

impl BfrtConfig {
    /// Client 7 of device 0, with 30 seconds for each call.
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        let call_within = Duration::from_secs(30);
        Self { name: name.into(), address: address.into(), device_id: 0, client_id: 7, call_within }
    }
}

/// A subscribed client. The stream stays open until it is dropped.
pub(super) struct Bfrt {
    config: BfrtConfig,
    p4_name: String,
    channel: Channel,
    _requests: mpsc::Sender<StreamMessageRequest>,
    executor: Executor,
}

impl Bfrt {
    /// Connects and subscribes.
    pub(super) fn connect(config: BfrtConfig, p4_name: &str) -> Result<Self, BfrtError> {
        let broken = |message: String| BfrtError::Unreachable { switch: config.name.clone(), message };
        let executor = Executor::start(&config.name).map_err(|error| broken(error.to_string()))?;
        let endpoint = Endpoint::from_shared(format!("http://{}", config.address));
        let endpoint = endpoint.map_err(|error| broken(error.to_string()))?.tcp_nodelay(true);
        let (requests, receiver) = mpsc::channel(4);
        let (device_id, client_id) = (config.device_id, config.client_id);
        let subscribe = Subscribe { device_id, notifications: Some(Notifications::default()), status: None };
        let within = config.call_within;
        let asked = requests.clone();
        let opened = executor.run(async move {
            let open = async {
                let channel =
                    endpoint.connect().await.map_err(|error| Status::unavailable(error.to_string()))?;
                let request = StreamMessageRequest { client_id, subscribe: Some(subscribe) };
                // The stream's other end has not been given away yet.
                let _ = asked.send(request).await;
                let mut grpc = grpc(&channel).await?;
                let path = PathAndQuery::from_static("/bfrt_proto.BfRuntime/StreamChannel");
                let codec = ProstCodec::<StreamMessageRequest, StreamMessageResponse>::default();
                let stream = ReceiverStream::new(receiver);
                let mut answers = grpc.streaming(Request::new(stream), path, codec).await?.into_inner();
                subscribed(&mut answers).await?;
                tokio::spawn(async move { while let Ok(Some(_)) = answers.message().await {} });
                Ok::<_, Status>(channel)
            };
            let late = |_| Status::unavailable("it does not answer in time");
            tokio::time::timeout(within, open).await.map_err(late)?
        });
        let opened = opened.map_err(|error| broken(error.to_string()))?;
        let channel = opened.map_err(|status| failure(&config, "StreamChannel", &status))?;
        Ok(Self { config, p4_name: p4_name.to_owned(), channel, _requests: requests, executor })
    }

    fn unary<Q, A>(
        &self,
        call: &'static str,
        path: &'static str,
        request: Q,
    ) -> Result<Result<A, Status>, BfrtError>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let (channel, within) = (self.channel.clone(), self.config.call_within);
        let answer = self.executor.run(async move {
            let call = async {
                let codec = ProstCodec::<Q, A>::default();
                let mut grpc = grpc(&channel).await?;
                grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await
            };
            let late = |_| Status::unavailable("it does not answer in time");
            tokio::time::timeout(within, call).await.map_err(late)?.map(tonic::Response::into_inner)
        });
        match answer {
            Ok(Err(status)) if status.code() == tonic::Code::Unavailable => {
                Err(failure(&self.config, call, &status))
            }
            Ok(answer) => Ok(answer),
            Err(error) => Err(failure(&self.config, call, &Status::unavailable(error.to_string()))),
        }
    }

    /// What the device runs.
    pub(super) fn pipelines(&self) -> Result<GetForwardingPipelineConfigResponse, BfrtError> {
        let BfrtConfig { device_id, client_id, .. } = self.config;
        let request = GetForwardingPipelineConfigRequest { device_id, client_id };
        let call = "GetForwardingPipelineConfig";
        let answer = self.unary(call, "/bfrt_proto.BfRuntime/GetForwardingPipelineConfig", request)?;
        match answer {
            Ok(answer) => Ok(answer),
            // Nothing was ever loaded.
            Err(status) if status.code() == tonic::Code::FailedPrecondition => Ok(Default::default()),
            Err(status) => Err(failure(&self.config, call, &status)),
        }
    }

    /// Gives the device a program, or binds to the one that it runs.
    pub(super) fn set_pipeline(
        &self,
        action: PipelineAction,
        config: ForwardingPipelineConfig,
    ) -> Result<(), BfrtError> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.config.device_id,
            client_id: self.config.client_id,
            action: action as i32,
            config: vec![config],
            ..Default::default()
        };
        let call = "SetForwardingPipelineConfig";
        let answer: Result<SetForwardingPipelineConfigResponse, _> =
            self.unary(call, "/bfrt_proto.BfRuntime/SetForwardingPipelineConfig", request)?;
        answer.map(drop).map_err(|status| failure(&self.config, call, &status))
    }

    fn target(&self) -> Option<TargetDevice> {
        let device_id = self.config.device_id;
        Some(TargetDevice { device_id, pipe_id: 0xffff, direction: 0xff, prsr_id: 0xff })
    }

    /// Carries updates out in order. Failures with the code `forgiven` do not count.
    pub(super) fn write(&self, updates: Vec<Update>, forgiven: Option<Code>) -> Result<(), BfrtError> {
        let mut failed = Vec::new();
        let mut first = String::new();
        let total = updates.len();
        for (batch, updates) in updates.chunks(BATCH_MAX).enumerate() {
            let request = WriteRequest {
                target: self.target(),
                client_id: self.config.client_id,
                updates: updates.to_vec(),
                atomicity: 0,
                p4_name: self.p4_name.clone(),
            };
            let answer: Result<WriteResponse, _> =
                self.unary("Write", "/bfrt_proto.BfRuntime/Write", request)?;
            let errors = match answer {
                Ok(answer) => answer.status,
                Err(status) => {
                    errors(&status, updates.len()).ok_or_else(|| failure(&self.config, "Write", &status))?
                }
            };
            for (index, error) in errors.iter().enumerate() {
                let code = Code::try_from(error.canonical_code).unwrap_or(Code::Unknown);
                if code != Code::Ok && Some(code) != forgiven {
                    if failed.is_empty() {
                        first = format!("{} ({})", error.message, code.as_str_name());
                    }
                    failed.push(batch * BATCH_MAX + index);
                }
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        Err(BfrtError::Write { switch: self.config.name.clone(), updates: total, failed, first })
    }

    /// All entries of a table.
    pub(super) fn read(&self, table_id: u32) -> Result<Vec<TableEntry>, BfrtError> {
        let pattern = TableEntry { table_id, ..TableEntry::default() };
        let request = ReadRequest {
            target: self.target(),
            client_id: self.config.client_id,
            entities: vec![Entity { entity: Some(EntityKind::TableEntry(pattern)) }],
            p4_name: self.p4_name.clone(),
        };
        let (channel, within) = (self.channel.clone(), self.config.call_within);
        let answer = self.executor.run(async move {
            let call = async {
                let codec = ProstCodec::<ReadRequest, ReadResponse>::default();
                let path = PathAndQuery::from_static("/bfrt_proto.BfRuntime/Read");
                let mut parts: Streaming<ReadResponse> = grpc(&channel)
                    .await?
                    .server_streaming(Request::new(request), path, codec)
                    .await?
                    .into_inner();
                let mut found = Vec::new();
                while let Some(part) = parts.message().await? {
                    found.extend(part.entities.into_iter().filter_map(|entity| entity.entity));
                }
                Ok::<_, Status>(found)
            };
            let late = |_| Status::unavailable("it does not answer in time");
            tokio::time::timeout(within, call).await.map_err(late)?
        });
        match answer {
            Ok(Ok(found)) => Ok(found.into_iter().map(|EntityKind::TableEntry(entry)| entry).collect()),
            // An empty table.
            Ok(Err(status)) if status.code() == tonic::Code::NotFound => Ok(Vec::new()),
            Ok(Err(status)) => Err(failure(&self.config, "Read", &status)),
            Err(error) => Err(failure(&self.config, "Read", &Status::unavailable(error.to_string()))),
        }
    }
}

async fn grpc(channel: &Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(MESSAGE_LEN_MAX);
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(grpc)
}

/// Waits for the answer to our announcement.
async fn subscribed(answers: &mut Streaming<StreamMessageResponse>) -> Result<(), Status> {
    while let Some(answer) = answers.message().await? {
        let Some(subscribe) = answer.subscribe else { continue };
        return match subscribe.status {
            Some(status) if status.code != 0 => {
                Err(Status::new(tonic::Code::from(status.code), status.message))
            }
            _ => Ok(()),
        };
    }
    Err(Status::unavailable("the stream ended before the subscription was answered"))
}

/// One error for each update, from a status' details.
fn errors(status: &Status, updates: usize) -> Option<Vec<Error>> {
    let details = google::Status::decode(status.details()).ok()?.details;
    let errors: Option<Vec<Error>> =
        details.iter().map(|detail| detail.unpack::<Error>().and_then(Result::ok)).collect();
    errors.filter(|errors| errors.len() == updates)
}

fn failure(config: &BfrtConfig, call: &'static str, status: &Status) -> BfrtError {
    let (switch, message) = (config.name.clone(), status.message().to_owned());
    let code = Code::try_from(status.code() as i32).unwrap_or(Code::Unknown);
    match code {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded => {
            BfrtError::Unreachable { switch, message }
        }
        code => BfrtError::Refused { switch, call, code: code.as_str_name(), message },
    }
}
