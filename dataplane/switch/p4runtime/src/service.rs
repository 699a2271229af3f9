//! The gRPC services.

use std::convert::Infallible;
use std::sync::Arc;

use netfold_p4_runtime::ports::{self, Call};
use netfold_p4_runtime::{API_VERSION, SERVICE, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::Grpc;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::device::{Device, ReadResult};
use crate::fault::Fault;
use crate::packets::PacketCount;
use crate::ports::Ports;
use crate::status::of_parts;
use crate::stream::{Streams, WAITING_MAX};

/// Largest request, in bytes: a program of the largest permitted size, and its P4Info.
const MESSAGE_LEN_MAX: usize = 24 << 20;

/// Entities in one part of a response, which stays far below the 4 MiB that clients accept by default.
const PART: usize = 512;

/// Register cells in one part.
const CELLS: usize = 2048;

/// Parts queued for a client.
const PARTS_MAX: usize = 2;

/// State shared by all calls.
#[derive(Clone)]
pub(crate) struct Service {
    device: Arc<Device>,
    streams: Arc<Streams>,
    ports: Arc<Ports>,
}

fn grpc<Q, A>() -> Grpc<ProstCodec<A, Q>>
where
    Q: prost::Message + Default + Send + 'static,
    A: prost::Message + Default + Send + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(MESSAGE_LEN_MAX)
}

impl Service {
    pub(crate) fn new(device: Arc<Device>, ports: Arc<Ports>, packets: Arc<PacketCount>) -> Self {
        Self { streams: Arc::new(Streams::new(Arc::clone(&device), packets)), device, ports }
    }

    /// Delivers packets of the CPU port to the streams until the switch ends.
    pub(crate) async fn deliver(&self, packets: mpsc::Receiver<Vec<u8>>) {
        Arc::clone(&self.streams).deliver(packets).await;
    }

    /// Handles one call of any service.
    pub(crate) async fn answer(
        self,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, Infallible> {
        let method = request.uri().path().strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE));
        let response = match method {
            Some("/Capabilities") => {
                let call = |_: Request<v1::CapabilitiesRequest>| async {
                    let p4runtime_api_version = API_VERSION.to_owned();
                    Ok::<_, Status>(Response::new(v1::CapabilitiesResponse { p4runtime_api_version }))
                };
                grpc().unary(service_fn(call), request).await
            }
            Some("/SetForwardingPipelineConfig") => {
                let call = |request: Request<v1::SetForwardingPipelineConfigRequest>| {
                    self.clone().blocking(move |device| {
                        let done = device.set_pipeline(request.into_inner());
                        Ok(done.map(|()| v1::SetForwardingPipelineConfigResponse {})?)
                    })
                };
                grpc().unary(service_fn(call), request).await
            }
            Some("/GetForwardingPipelineConfig") => {
                let call = |request: Request<v1::GetForwardingPipelineConfigRequest>| {
                    self.clone().blocking(move |device| Ok(device.pipeline(request.into_inner())?))
                };
                grpc().unary(service_fn(call), request).await
            }
            Some("/Write") => {
                let call = |request: Request<v1::WriteRequest>| {
                    self.clone().blocking(move |device| {
                        of_parts(&device.write(request.into_inner())?).map(|()| v1::WriteResponse {})
                    })
                };
                grpc().unary(service_fn(call), request).await
            }
            Some("/Read") => {
                let call = |request: Request<v1::ReadRequest>| self.clone().read(request.into_inner());
                grpc().server_streaming(service_fn(call), request).await
            }
            Some("/StreamChannel") => {
                let call = |request: Request<Streaming<v1::StreamMessageRequest>>| {
                    let (answers, receiver) = mpsc::channel(WAITING_MAX);
                    tokio::spawn(Arc::clone(&self.streams).serve(request.into_inner(), answers));
                    std::future::ready(Ok::<_, Status>(Response::new(ReceiverStream::new(receiver))))
                };
                grpc().streaming(service_fn(call), request).await
            }
            _ => return self.answer_ports(request).await,
        };
        Ok(response)
    }

    /// Handles a call of the service `Ports`, or of an unknown one.
    async fn answer_ports(self, request: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
        let path = request.uri().path();
        Ok(match path {
            ports::AttachRequest::PATH => {
                let attach = |device: &Device, ports: &Ports, request: &ports::AttachRequest| {
                    device.admit(request.device_id, 0, &request.role, request.election_id)?;
                    ports.attach(request)
                };
                self.ports(request, attach).await
            }
            ports::DetachRequest::PATH => {
                let detach = |device: &Device, ports: &Ports, request: &ports::DetachRequest| {
                    device.admit(request.device_id, 0, &request.role, request.election_id)?;
                    ports.detach(request)
                };
                self.ports(request, detach).await
            }
            ports::ListRequest::PATH => self.ports(request, |_, ports, request| ports.list(request)).await,
            ports::DescribeRequest::PATH => {
                self.ports(request, |_, ports, request| ports.describe(request)).await
            }
            _ => Status::unimplemented(format!("unknown call: {path}")).into_http(),
        })
    }

    async fn ports<Q: ports::Call>(
        self,
        request: http::Request<Body>,
        answer: fn(&Device, &Ports, &Q) -> Result<Q::Response, Fault>,
    ) -> http::Response<Body> {
        let call = |request: Request<Q>| {
            let ports = Arc::clone(&self.ports);
            self.clone().blocking(move |device| Ok(answer(device, &ports, request.get_ref())?))
        };
        grpc().unary(service_fn(call), request).await
    }

    /// Runs a call that may wait for the switch.
    async fn blocking<A: Send + 'static>(
        self,
        call: impl FnOnce(&Device) -> Result<A, Status> + Send + 'static,
    ) -> Result<Response<A>, Status> {
        let done = self.device.aside(call).await;
        let failed = || Status::internal("the call failed unexpectedly; please report it");
        done.ok_or_else(failed)?.map(Response::new)
    }

    async fn read(
        self,
        request: v1::ReadRequest,
    ) -> Result<Response<ReceiverStream<Result<v1::ReadResponse, Status>>>, Status> {
        let found = self.clone().blocking(move |device| Ok(device.read(&request)?)).await?.into_inner();
        let (parts, receiver) = mpsc::channel(PARTS_MAX);
        tokio::spawn(async move {
            if let Err(status) = self.send_parts(found, &parts).await {
                // The send fails if the client has disconnected.
                let _ = parts.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    /// Sends a result in parts, with back-pressure from the client.
    async fn send_parts(
        &self,
        found: ReadResult,
        parts: &mpsc::Sender<Result<v1::ReadResponse, Status>>,
    ) -> Result<(), Status> {
        let disconnected = |_| Status::cancelled("the client has disconnected");
        let mut entities = found.entities.into_iter();
        loop {
            let part: Vec<_> = entities.by_ref().take(PART).collect();
            if part.is_empty() {
                break;
            }
            parts.send(Ok(v1::ReadResponse { entities: part })).await.map_err(disconnected)?;
        }
        for (id, cells) in found.registers {
            let mut start = 0;
            loop {
                let cells = cells.clone();
                let read =
                    move |device: &Device| device.registers(found.generation, id, &cells, start, CELLS);
                let part = self.device.aside(read).await.unwrap_or_else(|| Err(Fault::stopped()))?;
                if part.is_empty() {
                    break;
                }
                start += part.len();
                parts.send(Ok(v1::ReadResponse { entities: part })).await.map_err(disconnected)?;
            }
        }
        of_parts(&found.results)
    }
}
