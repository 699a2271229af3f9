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
use super::wire::{
    Compare, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, PutRequest,
    RangeRequest, RequestOp, TxnRequest,
};
use super::{EtcdConfig, EtcdError, EtcdTls};

/// Timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Keys read in one call: as many records of the greatest length as fit into a message.
const PAGE: i64 = 256;

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

    /// The error of a failed call.
    pub(super) fn failed(&self, status: &Status) -> EtcdError {
        let message = match status.code() {
            Code::Cancelled | Code::DeadlineExceeded => "the call timed out".into(),
            _ if status.message().is_empty() => status.code().to_string(),
            _ => status.message().to_owned(),
        };
        EtcdError::Call { endpoints: self.endpoints.clone(), message }
    }

    /// The value of a key, with the revision at which it was created.
    pub(super) async fn get(&mut self, key: &str) -> Result<Option<KeyValue>, Status> {
        let request = RangeRequest { key: key.into(), ..RangeRequest::default() };
        Ok(bounded(self.kv.range(request)).await?.into_inner().kvs.pop())
    }

    /// All keys that begin with `prefix`, at one revision.
    pub(super) async fn all(&mut self, prefix: &str) -> Result<Vec<KeyValue>, Status> {
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

    /// Executes operations if `key` was created at that revision; revision 0 means that the key does not exist. Returns whether
    /// they were executed, and the resulting revision.
    pub(super) async fn if_made_at(
        &mut self,
        (key, revision): (&str, i64),
        operations: Vec<RequestOp>,
    ) -> Result<(bool, i64), Status> {
        let compare = Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Create.into(),
            key: key.into(),
            target_union: Some(TargetUnion::CreateRevision(revision)),
        };
        let request = TxnRequest { compare: vec![compare], success: operations, failure: Vec::new() };
        let done = bounded(self.kv.txn(request)).await?.into_inner();
        Ok((done.succeeded, done.header.map_or(0, |header| header.revision)))
    }

    /// Grants a lease of that duration.
    pub(super) async fn grant(&mut self, time: Duration) -> Result<i64, Status> {
        let request = LeaseGrantRequest { ttl: time.as_secs().max(1) as i64 };
        Ok(bounded(self.lease.lease_grant(request)).await?.into_inner().id)
    }

    /// Renews a lease. Returns whether it still existed.
    pub(super) async fn keep(&mut self, lease: i64) -> Result<bool, Status> {
        let request = tokio_stream::once(LeaseKeepAliveRequest { id: lease });
        let call = async {
            let mut responses = self.lease.lease_keep_alive(request).await?.into_inner();
            responses.message().await
        };
        Ok(bounded(call).await?.is_some_and(|response| response.ttl > 0))
    }

    /// Revokes a lease, which deletes its keys.
    pub(super) async fn revoke(&mut self, lease: i64) -> Result<(), Status> {
        bounded(self.lease.lease_revoke(LeaseRevokeRequest { id: lease })).await.map(drop)
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
