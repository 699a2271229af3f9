//! Calls to etcd.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};

use super::wire::compare::{CompareResult, CompareTarget, TargetUnion};
use super::wire::kv_client::KvClient;
use super::wire::lease_client::LeaseClient;
use super::wire::request_op::Request;
use super::wire::response_op::Response;
use super::wire::{
    Compare, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, PutRequest,
    RangeRequest, RequestOp, TxnRequest,
};
use super::{EtcdConfig, EtcdError, EtcdTls};

/// Timeout of a call.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Keys read in one call: as many records of the greatest length as fit into a message.
const PAGE: i64 = 256;

/// The state of a key: the revision at which it was created, and the number of writes since, of which its creation is the first. Both
/// are 0 where there is no key.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyState {
    pub(super) created: i64,
    pub(super) version: i64,
}

/// The outcome of a transaction that depends on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conditional {
    /// The operations were executed, at this revision.
    Done(i64),
    /// The key is in another state: this one.
    Differs(KeyState),
}

/// What the election and the records need of etcd: atomic transactions, leases, and reads at one revision. Calls end, with an error
/// if need be, after a bounded time; a call that failed may have been carried out, or may be later.
pub(super) trait Etcd: Clone {
    /// The error of a failed call.
    fn failed(&self, status: &Status) -> EtcdError;

    /// The value of a key, with the revision at which it was created.
    async fn get(&mut self, key: &str) -> Result<Option<KeyValue>, Status>;

    /// All keys that begin with `prefix`, at one revision.
    async fn all(&mut self, prefix: &str) -> Result<Vec<KeyValue>, Status>;

    /// Executes operations if `key` is in this state.
    async fn execute_if(
        &mut self,
        key: &str,
        state: KeyState,
        operations: Vec<RequestOp>,
    ) -> Result<Conditional, Status>;

    /// Grants a lease of that duration.
    async fn grant(&mut self, time: Duration) -> Result<i64, Status>;

    /// Renews a lease. Returns whether it still existed.
    async fn keep(&mut self, lease: i64) -> Result<bool, Status>;

    /// Revokes a lease, which deletes its keys.
    async fn revoke(&mut self, lease: i64) -> Result<(), Status>;
}

/// A connection to etcd that is re-established when it breaks.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    endpoints: String,
}

impl Calls {
    /// Sends nothing yet. Must be called within a runtime.
    pub(super) fn new(config: &EtcdConfig) -> Result<Self, EtcdError> {
        let tls = config.tls.as_ref().map(tls).transpose()?;
        let endpoint = |address: &String| {
            let wrong = || EtcdError::Endpoint(address.clone());
            let known = address.starts_with("http://") || address.starts_with("https://");
            let endpoint = Endpoint::from_shared(address.clone()).ok().filter(|_| known).ok_or_else(wrong)?;
            let endpoint = endpoint.connect_timeout(CALL_TIMEOUT).timeout(CALL_TIMEOUT);
            match &tls {
                Some(tls) if address.starts_with("https") => {
                    endpoint.tls_config(tls.clone()).map_err(EtcdError::Tls)
                }
                _ => Ok(endpoint),
            }
        };
        let endpoints = config.endpoints.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?;
        if endpoints.is_empty() {
            return Err(EtcdError::Endpoint(String::new()));
        }
        let channel = Channel::balance_list(endpoints.into_iter());
        Ok(Self {
            kv: KvClient::new(channel.clone()),
            lease: LeaseClient::new(channel),
            endpoints: config.endpoints.join(", "),
        })
    }
}

impl Etcd for Calls {
    fn failed(&self, status: &Status) -> EtcdError {
        let message = match status.code() {
            Code::Cancelled | Code::DeadlineExceeded => "the call timed out".into(),
            _ if status.message().is_empty() => status.code().to_string(),
            _ => status.message().to_owned(),
        };
        EtcdError::Call { endpoints: self.endpoints.clone(), message }
    }

    async fn get(&mut self, key: &str) -> Result<Option<KeyValue>, Status> {
        let request = RangeRequest { key: key.into(), ..RangeRequest::default() };
        Ok(bounded(self.kv.range(request)).await?.into_inner().kvs.pop())
    }

    async fn all(&mut self, prefix: &str) -> Result<Vec<KeyValue>, Status> {
        let mut end = prefix.as_bytes().to_vec();
        // Prefixes end with a slash, so the byte after it exists.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let mut request = RangeRequest { key: prefix.into(), range_end: end, limit: PAGE, revision: 0 };
        let mut all = Vec::new();
        loop {
            let page = bounded(self.kv.range(request.clone())).await?.into_inner();
            let last = page.kvs.last().map(|row| row.key.clone());
            all.extend(page.kvs);
            let (true, Some(mut last)) = (page.more, last) else { return Ok(all) };
            last.push(0);
            request.key = last;
            request.revision = page.header.map_or(0, |header| header.revision);
        }
    }

    async fn execute_if(
        &mut self,
        key: &str,
        state: KeyState,
        operations: Vec<RequestOp>,
    ) -> Result<Conditional, Status> {
        let compare = |target: CompareTarget, value| Compare {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: key.into(),
            target_union: Some(value),
        };
        let found = RangeRequest { key: key.into(), ..RangeRequest::default() };
        let request = TxnRequest {
            compare: vec![
                compare(CompareTarget::Create, TargetUnion::CreateRevision(state.created)),
                compare(CompareTarget::Version, TargetUnion::Version(state.version)),
            ],
            success: operations,
            failure: vec![RequestOp { request: Some(Request::RequestRange(found)) }],
        };
        let done = bounded(self.kv.txn(request)).await?.into_inner();
        if done.succeeded {
            return Ok(Conditional::Done(done.header.map_or(0, |header| header.revision)));
        }
        let read = done.responses.into_iter().find_map(|response| response.response);
        let found = read.and_then(|Response::ResponseRange(mut read)| read.kvs.pop());
        Ok(Conditional::Differs(found.map_or_else(KeyState::default, |found| found.state())))
    }

    async fn grant(&mut self, time: Duration) -> Result<i64, Status> {
        let request = LeaseGrantRequest { ttl: lease_s(time) };
        Ok(bounded(self.lease.lease_grant(request)).await?.into_inner().id)
    }

    async fn keep(&mut self, lease: i64) -> Result<bool, Status> {
        let request = tokio_stream::once(LeaseKeepAliveRequest { id: lease });
        let call = async {
            let mut responses = self.lease.lease_keep_alive(request).await?.into_inner();
            responses.message().await
        };
        Ok(bounded(call).await?.is_some_and(|response| response.ttl > 0))
    }

    async fn revoke(&mut self, lease: i64) -> Result<(), Status> {
        bounded(self.lease.lease_revoke(LeaseRevokeRequest { id: lease })).await.map(drop)
    }
}

/// A lease's time in etcd, which counts whole seconds: not less than what the leader counts on.
pub(super) fn lease_s(time: Duration) -> i64 {
    time.as_millis().div_ceil(1000) as i64
}

impl KeyValue {
    fn state(&self) -> KeyState {
        KeyState { created: self.create_revision, version: self.version }
    }
}

/// Adds a timeout that includes the connection's set-up.
async fn bounded<R>(call: impl Future<Output = Result<R, Status>>) -> Result<R, Status> {
    let timed_out = |_| Status::deadline_exceeded("the call timed out");
    tokio::time::timeout(CALL_TIMEOUT, call).await.map_err(timed_out)?
}

/// Sets a key, bound to the lease if it is not 0.
pub(super) fn put(key: String, value: Vec<u8>, lease: i64) -> RequestOp {
    RequestOp { request: Some(Request::RequestPut(PutRequest { key: key.into(), value, lease })) }
}

/// Deletes a key.
pub(super) fn delete(key: String) -> RequestOp {
    let request = super::wire::DeleteRangeRequest { key: key.into() };
    RequestOp { request: Some(Request::RequestDeleteRange(request)) }
}

fn tls(files: &EtcdTls) -> Result<ClientTlsConfig, EtcdError> {
    let read =
        |path: &Path| fs::read(path).map_err(|source| EtcdError::Read { path: path.to_owned(), source });
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&files.ca)?));
    Ok(match &files.identity {
        None => tls,
        Some((certificate, key)) => tls.identity(Identity::from_pem(read(certificate)?, read(key)?)),
    })
}
