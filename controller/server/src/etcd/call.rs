//! Calls of etcd.

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

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Keys read in one call: as many of the longest records as fit into a message.
const PAGE: i64 = 256;

/// A connection to etcd that is made again when it breaks.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    endpoints: String,
}

impl Calls {
    /// Nothing is sent yet. Within a runtime.
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

    /// A failed call in words.
    pub(super) fn failed(&self, status: &Status) -> EtcdError {
        let message = match status.code() {
            Code::Cancelled | Code::DeadlineExceeded => "it does not answer in time".into(),
            _ if status.message().is_empty() => status.code().to_string(),
            _ => status.message().to_owned(),
        };
        EtcdError::Call { endpoints: self.endpoints.clone(), message }
    }

    /// The value of a key, with the revision at which it was made.
    pub(super) async fn get(&mut self, key: &str) -> Result<Option<KeyValue>, Status> {
        let request = RangeRequest { key: key.into(), ..RangeRequest::default() };
        Ok(bounded(self.kv.range(request)).await?.into_inner().kvs.pop())
    }

    /// All keys that begin with `prefix`, as they are at one moment.
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

    /// Does operations if `key` was made at that revision, or if there is none where that is 0. Returns whether it did, and the
    /// revision since.
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

    /// A lease of that time.
    pub(super) async fn grant(&mut self, time: Duration) -> Result<i64, Status> {
        let request = LeaseGrantRequest { ttl: time.as_secs().max(1) as i64 };
        Ok(bounded(self.lease.lease_grant(request)).await?.into_inner().id)
    }

    /// Has a lease last for its time from now on. Returns whether there still was one.
    pub(super) async fn keep(&mut self, lease: i64) -> Result<bool, Status> {
        let request = tokio_stream::once(LeaseKeepAliveRequest { id: lease });
        let call = async {
            let mut answers = self.lease.lease_keep_alive(request).await?.into_inner();
            answers.message().await
        };
        Ok(bounded(call).await?.is_some_and(|answer| answer.ttl > 0))
    }

    /// Ends a lease, and with it its keys.
    pub(super) async fn revoke(&mut self, lease: i64) -> Result<(), Status> {
        bounded(self.lease.lease_revoke(LeaseRevokeRequest { id: lease })).await.map(drop)
    }
}

/// Connections may hang where calls do not.
async fn bounded<R>(call: impl Future<Output = Result<R, Status>>) -> Result<R, Status> {
    let late = |_| Status::deadline_exceeded("it does not answer in time");
    tokio::time::timeout(CALL_TIMEOUT, call).await.map_err(late)?
}

/// A key's new value; it goes with the lease, if there is one.
pub(super) fn put(key: String, value: Vec<u8>, lease: i64) -> RequestOp {
    RequestOp { request: Some(Request::RequestPut(PutRequest { key: key.into(), value, lease })) }
}

/// A key's end.
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
