//! The calls of P4Runtime, one at a time, with a deadline and errors that suggest a remedy.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use netfold_p4_runtime::google::{self, Code};
use netfold_p4_runtime::{Schema, ports, v1};
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::error::{P4RuntimeError, Rpc, UpdateFailure};
use super::tls::{Connector, Dial, Fault, SystemDialer};
use netfold_controller::topology::Tls;

/// Largest message taken from a switch, in bytes: a P4Info with a compiled pipeline, or all entries of a table.
const MESSAGE_LEN_MAX: usize = 64 << 20;

/// Largest trailers taken from a switch, in bytes: they carry the errors of a Write's updates.
const TRAILERS_LEN_MAX: u32 = 256 << 10;

/// Updates in one Write request. Many switches cannot send more than 8 KiB of trailers, and each failed update takes
/// about 100 bytes there.
pub(super) const BATCH_MAX: usize = 50;

/// Wait between two attempts to connect.
const RETRY: Duration = Duration::from_millis(100);

/// Idle time after which the kernel sends keepalive probes. HTTP/2 has pings of its own, for which gRPC's C
/// library, and so bmv2, ends a connection.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// A switch as the calls see it.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) switch: String,
    pub(super) device_id: u64,
    pub(super) within: Duration,
    address: String,
    channel: Channel,
    fault: Fault,
}

/// Whom to connect to, and how.
pub(super) struct RemoteAddress<'a> {
    pub(super) switch: String,
    pub(super) device_id: u64,
    /// `host:port` or `unix:path`.
    pub(super) address: &'a str,
    pub(super) tls: Option<&'a Tls>,
    pub(super) dialer: Arc<dyn Dial>,
    pub(super) connect_within: Duration,
    /// Time for each call.
    pub(super) within: Duration,
}

/// Connects to an address by the system's network, each time within a time.
pub(super) fn system_dialer(address: &str, within: Duration) -> Arc<dyn Dial> {
    Arc::new(SystemDialer::new(address, within, KEEPALIVE))
}

impl RemoteAddress<'_> {
    fn endpoint(&self) -> Result<Endpoint, P4RuntimeError> {
        let Self { address, .. } = *self;
        let wrong = |source| P4RuntimeError::Address { address: address.to_owned(), source };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let unix = address.starts_with("unix:");
        // The connector does what TLS there is.
        let uri = if unix { address.into() } else { format!("http://{address}") };
        let endpoint = Endpoint::from_shared(uri).map_err(wrong)?;
        let authority = if unix { "localhost" } else { address };
        let origin = format!("{scheme}://{authority}").parse().map_err(|_| self.malformed())?;
        Ok(endpoint
            .connect_timeout(self.connect_within)
            .origin(origin)
            .http2_max_header_list_size(TRAILERS_LEN_MAX))
    }

    fn malformed(&self) -> P4RuntimeError {
        let what = format!("{} is not an address: write host:port or unix:path", self.address);
        P4RuntimeError::Config { switch: self.switch.clone(), what }
    }

    /// One attempt, of at most `connect_within` and before `deadline`; `None` when nothing is known of how it failed.
    async fn attempt(
        &self,
        endpoint: &Endpoint,
        deadline: tokio::time::Instant,
    ) -> Result<Remote, (Option<tonic::transport::Error>, Option<P4RuntimeError>)> {
        let fault = Fault::default();
        let connector = Connector::new(self.address, self.tls, Arc::clone(&self.dialer), fault.clone());
        let connecting = endpoint.connect_with_connector(connector);
        let source = match tokio::time::timeout_at(deadline, connecting).await {
            Ok(Ok(channel)) => {
                let (switch, address) = (self.switch.clone(), self.address.to_owned());
                let (device_id, within) = (self.device_id, self.within);
                return Ok(Remote { switch, device_id, within, address, channel, fault });
            }
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        let (switch, address) = (self.switch.clone(), self.address.to_owned());
        Err((
            source,
            fault.get().map(|source| P4RuntimeError::Tls { switch, address, source: Box::new(source) }),
        ))
    }

    fn unanswered(self, source: Option<tonic::transport::Error>) -> P4RuntimeError {
        let (switch, address) = (self.switch, self.address.to_owned());
        P4RuntimeError::Connect { switch, address, within: self.connect_within, source }
    }
}

pub(super) const fn path(rpc: Rpc) -> &'static str {
    match rpc {
        Rpc::Connect | Rpc::Stream => "/p4.v1.P4Runtime/StreamChannel",
        Rpc::SetPipeline => "/p4.v1.P4Runtime/SetForwardingPipelineConfig",
        Rpc::GetPipeline => "/p4.v1.P4Runtime/GetForwardingPipelineConfig",
        Rpc::Write => "/p4.v1.P4Runtime/Write",
        Rpc::Read => "/p4.v1.P4Runtime/Read",
        Rpc::Capabilities => "/p4.v1.P4Runtime/Capabilities",
        Rpc::Ports => "/netfold.switch.v1.Ports/List",
    }
}

impl Remote {
    /// Connects, again and again until `connect_within` is over.
    ///
    /// A TLS error does not go away with time, so it is returned at once.
    pub(super) async fn connect(address: RemoteAddress<'_>) -> Result<Self, P4RuntimeError> {
        let endpoint = address.endpoint()?;
        let deadline = tokio::time::Instant::now() + address.connect_within;
        let mut last = None;
        while tokio::time::Instant::now() < deadline {
            match address.attempt(&endpoint, deadline).await {
                Ok(remote) => return Ok(remote),
                Err((_, Some(fault))) => return Err(fault),
                Err((source, None)) => last = source.or(last),
            }
            tokio::time::sleep_until(deadline.min(tokio::time::Instant::now() + RETRY)).await;
        }
        Err(address.unanswered(last))
    }

    /// Connects, in one attempt of at most `connect_within`.
    pub(super) async fn connect_once(address: RemoteAddress<'_>) -> Result<Self, P4RuntimeError> {
        let endpoint = address.endpoint()?;
        let deadline = tokio::time::Instant::now() + address.connect_within;
        match address.attempt(&endpoint, deadline).await {
            Ok(remote) => Ok(remote),
            Err((_, Some(fault))) => Err(fault),
            Err((source, None)) => Err(address.unanswered(source)),
        }
    }

    /// A connection that broke: what TLS has against it, if that was why.
    pub(super) fn broken(&self, rpc: Rpc, message: String) -> P4RuntimeError {
        let switch = self.switch.clone();
        match self.fault.get() {
            Some(source) => {
                P4RuntimeError::Tls { switch, address: self.address.clone(), source: Box::new(source) }
            }
            None => P4RuntimeError::Broken { switch, rpc, message },
        }
    }

    /// A client for one call, ready to send.
    pub(super) async fn grpc(&self, rpc: Rpc) -> Result<Grpc<Channel>, P4RuntimeError> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MESSAGE_LEN_MAX);
        match grpc.ready().await {
            Ok(()) => Ok(grpc),
            Err(error) => Err(self.broken(rpc, chain(&error))),
        }
    }

    async fn unary<Q, A>(&self, rpc: Rpc, request: Q) -> Result<Result<A, Status>, P4RuntimeError>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.timely(rpc, async {
            let codec = ProstCodec::<Q, A>::default();
            let path = PathAndQuery::from_static(path(rpc));
            let answer = self.grpc(rpc).await?.unary(Request::new(request), path, codec).await;
            Ok(answer.map(tonic::Response::into_inner))
        })
        .await
    }

    /// A request of the service that makes peers ports.
    pub(super) async fn ports<C: ports::Call>(&self, request: C) -> Result<C::Response, P4RuntimeError> {
        let answer = self.timely(Rpc::Ports, async {
            let codec = ProstCodec::<C, C::Response>::default();
            let path = PathAndQuery::from_static(C::PATH);
            let answer = self.grpc(Rpc::Ports).await?.unary(Request::new(request), path, codec).await;
            Ok(answer.map(tonic::Response::into_inner))
        });
        answer.await?.map_err(|status| self.refused(Rpc::Ports, &status))
    }

    pub(super) fn malformed_port(&self) -> P4RuntimeError {
        let switch = self.switch.clone();
        P4RuntimeError::Malformed { switch, rpc: Rpc::Ports, what: "a port that is none" }
    }

    async fn timely<T>(
        &self,
        rpc: Rpc,
        call: impl Future<Output = Result<T, P4RuntimeError>>,
    ) -> Result<T, P4RuntimeError> {
        let late = |_| P4RuntimeError::Timeout { switch: self.switch.clone(), rpc, within: self.within };
        tokio::time::timeout(self.within, call).await.map_err(late)?
    }

    pub(super) async fn capabilities(&self) -> Result<String, P4RuntimeError> {
        let answer = self.unary(Rpc::Capabilities, v1::CapabilitiesRequest {}).await?;
        let answer: v1::CapabilitiesResponse =
            answer.map_err(|status| self.refused(Rpc::Capabilities, &status))?;
        Ok(answer.p4runtime_api_version)
    }

    pub(super) async fn set_pipeline(
        &self,
        election_id: u128,
        config: v1::ForwardingPipelineConfig,
    ) -> Result<(), P4RuntimeError> {
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            election_id: Some(election_id.into()),
            action: v1::PipelineAction::VerifyAndCommit as i32,
            config: Some(config),
            ..Default::default()
        };
        let answer = self.unary(Rpc::SetPipeline, request).await?;
        let done: Result<v1::SetForwardingPipelineConfigResponse, _> =
            answer.map_err(|status| self.refused(Rpc::SetPipeline, &status));
        done.map(|_| ())
    }

    pub(super) async fn pipeline(
        &self,
        parts: v1::ResponseType,
    ) -> Result<Option<v1::ForwardingPipelineConfig>, P4RuntimeError> {
        let request =
            v1::GetForwardingPipelineConfigRequest { device_id: self.device_id, response_type: parts as i32 };
        let answer = self.unary(Rpc::GetPipeline, request).await?;
        match answer {
            Ok(answer) => {
                let answer: v1::GetForwardingPipelineConfigResponse = answer;
                // Some switches answer "no pipeline" with an empty one.
                let asked = matches!(parts, v1::ResponseType::All | v1::ResponseType::P4infoAndCookie);
                Ok(answer.config.filter(|config| !asked || config.p4info.is_some()))
            }
            Err(status) => match self.refused(Rpc::GetPipeline, &status) {
                P4RuntimeError::NoPipeline { .. } => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Writes one batch.
    pub(super) async fn write(
        &self,
        election_id: u128,
        updates: Vec<v1::Update>,
        schema: Option<&Schema>,
    ) -> Result<(), P4RuntimeError> {
        let what: Vec<String> = updates.iter().map(|update| describe(update, schema)).collect();
        let request = v1::WriteRequest {
            device_id: self.device_id,
            election_id: Some(election_id.into()),
            updates,
            ..Default::default()
        };
        match self.unary::<_, v1::WriteResponse>(Rpc::Write, request).await? {
            Ok(_) => Ok(()),
            Err(status) => Err(self.write_error(&status, what)),
        }
    }

    pub(super) async fn read(&self, patterns: Vec<v1::Entity>) -> Result<Vec<v1::Entity>, P4RuntimeError> {
        let request = v1::ReadRequest { device_id: self.device_id, entities: patterns, ..Default::default() };
        self.timely(Rpc::Read, async {
            let codec = ProstCodec::<v1::ReadRequest, v1::ReadResponse>::default();
            let path = PathAndQuery::from_static(path(Rpc::Read));
            let refused = |status: Status| self.refused(Rpc::Read, &status);
            let mut grpc = self.grpc(Rpc::Read).await?;
            let answer = grpc.server_streaming(Request::new(request), path, codec).await.map_err(refused)?;
            let mut parts = answer.into_inner();
            let mut entities = Vec::new();
            while let Some(part) = parts.message().await.map_err(refused)? {
                entities.extend(part.entities);
            }
            Ok(entities)
        })
        .await
    }

    fn write_error(&self, status: &Status, what: Vec<String>) -> P4RuntimeError {
        if status.details().is_empty() {
            return self.refused(Rpc::Write, status);
        }
        let switch = self.switch.clone();
        match failures(status.details(), &what) {
            Ok(failed) => P4RuntimeError::Write { switch, updates: what.len(), failed },
            Err(what) => P4RuntimeError::Malformed { switch, rpc: Rpc::Write, what },
        }
    }

    /// What a status means that stands for a call as a whole.
    pub(super) fn refused(&self, rpc: Rpc, status: &Status) -> P4RuntimeError {
        let switch = self.switch.clone();
        let code = Code::try_from(status.code() as i32).unwrap_or(Code::Unknown);
        let message = status.message().to_owned();
        let from_transport = std::error::Error::source(status).is_some();
        match (rpc, code) {
            (_, Code::Unavailable | Code::Cancelled) => self.broken(rpc, chain(status)),
            _ if from_transport => self.broken(rpc, chain(status)),
            (_, Code::DeadlineExceeded) => P4RuntimeError::Timeout { switch, rpc, within: self.within },
            (Rpc::Write | Rpc::Read | Rpc::GetPipeline, Code::FailedPrecondition) => {
                P4RuntimeError::NoPipeline { switch, rpc }
            }
            (Rpc::SetPipeline, code) if code != Code::PermissionDenied => {
                P4RuntimeError::Pipeline { switch, code, message }
            }
            _ => P4RuntimeError::Refused { switch, rpc, code, message },
        }
    }
}

/// The failed updates in a status' details, which have one error for each update.
fn failures(details: &[u8], what: &[String]) -> Result<Vec<UpdateFailure>, &'static str> {
    let status = google::Status::decode(details).map_err(|_| "details that are no google.rpc.Status")?;
    if status.details.len() != what.len() {
        return Err("a number of errors that is not the number of updates");
    }
    let mut failed = Vec::new();
    for (index, (detail, what)) in status.details.iter().zip(what).enumerate() {
        let error: v1::Error = match detail.unpack::<v1::Error>() {
            Some(Ok(error)) => error,
            _ => return Err("details that are no p4.v1.Error"),
        };
        if error.canonical_code != Code::Ok as i32 {
            let code = Code::try_from(error.canonical_code).unwrap_or(Code::Unknown);
            failed.push(UpdateFailure { index, what: what.clone(), code, message: error.message });
        }
    }
    if failed.is_empty() { Err("an error without a failed update") } else { Ok(failed) }
}

fn describe(update: &v1::Update, schema: Option<&Schema>) -> String {
    let verb = match v1::UpdateType::try_from(update.r#type) {
        Ok(v1::UpdateType::Insert) => "INSERT into",
        Ok(v1::UpdateType::Modify) => "MODIFY in",
        Ok(v1::UpdateType::Delete) => "DELETE from",
        _ => "update of",
    };
    let name = |id: u32| schema.map_or_else(|| format!("{id:#x}"), |schema| schema.name(id));
    let place = match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
        Some(v1::EntityKind::TableEntry(entry)) => format!("table {}", name(entry.table_id)),
        Some(v1::EntityKind::CounterEntry(entry)) => format!("counter {}", name(entry.counter_id)),
        Some(v1::EntityKind::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
            Some(v1::Replication::MulticastGroupEntry(group)) => {
                format!("multicast group {}", group.multicast_group_id)
            }
            Some(v1::Replication::CloneSessionEntry(session)) => {
                format!("clone session {}", session.session_id)
            }
            None => "nothing".into(),
        },
        Some(v1::EntityKind::RegisterEntry(entry)) => format!("register {}", name(entry.register_id)),
        Some(_) => "another kind of entity".into(),
        None => "nothing".into(),
    };
    format!("{verb} {place}")
}

/// An error and its sources in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_p4_runtime::google::Any;

    fn details(errors: &[v1::Error]) -> Vec<u8> {
        let details = errors.iter().map(Any::pack).collect();
        google::Status { code: Code::Unknown as i32, message: String::new(), details }.encode_to_vec()
    }

    #[test]
    fn errors_are_assigned_to_their_updates() {
        let good = v1::Error::default();
        let bad = v1::Error {
            canonical_code: Code::AlreadyExists as i32,
            message: "Match entry exists".into(),
            ..v1::Error::default()
        };
        let what = ["INSERT into table a".to_owned(), "INSERT into table b".to_owned()];
        let failed = failures(&details(&[good.clone(), bad.clone()]), &what).unwrap();
        assert_eq!(failed.len(), 1);
        assert_eq!((failed[0].index, failed[0].code), (1, Code::AlreadyExists));
        let text = failed[0].to_string();
        assert_eq!(text, "INSERT into table b: such an entry exists (ALREADY_EXISTS): Match entry exists");
        assert!(failures(&details(&[bad]), &what).is_err());
        assert!(failures(&details(&[good.clone(), good]), &what).is_err());
        assert!(failures(&[0xff; 7], &what).is_err());
    }
}
