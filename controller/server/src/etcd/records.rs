//! A controller's records as keys and values.

use std::collections::BTreeMap;
use std::sync::mpsc;

use netfold_controller::record::{
    Change, JobName, JobRecord, LinkName, MembershipRecord, PlaceRecord, RecordReader, Store, StoreError,
    StoredRecords, SwitchRecord, TenantRecord,
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedSender;

use super::EtcdError;
use super::call::{delete, put};
use super::wire::{KeyValue, RequestOp};
use crate::row;

/// Keys changed in one transaction; etcd's default limit is 128 operations.
pub const CHANGES_MAX: usize = 120;

/// The key, below the prefix, that exists while a backup is being restored.
pub(super) const RESTORING: &str = "restoring";

/// A request of the store to the leader's thread.
pub(super) enum Request {
    Load(mpsc::Sender<Result<StoredRecords, EtcdError>>),
    Apply(Vec<Change>, mpsc::Sender<Result<(), EtcdError>>),
    /// Whether there are no records.
    IsEmpty(mpsc::Sender<Result<bool, EtcdError>>),
    /// Puts changes in the place of all records.
    Replace(Vec<Change>, mpsc::Sender<Result<(), EtcdError>>),
}

/// The records of a cluster of controllers, for the leader. Calls block until etcd responds, at most until another controller may
/// become the leader.
#[derive(Debug)]
pub struct EtcdStore {
    pub(super) requests: UnboundedSender<Request>,
}

impl EtcdStore {
    /// Sends a request; the result waits for its answer.
    fn request<R: Send + 'static>(
        &self,
        what: &'static str,
        request: impl FnOnce(mpsc::Sender<Result<R, EtcdError>>) -> Request,
    ) -> impl FnOnce() -> Result<R, StoreError> + Send + 'static {
        let lost = || EtcdError::LeadershipLost("it has given up the leadership".into());
        let (reply, answer) = mpsc::channel();
        let sent = self.requests.send(request(reply)).map_err(|_| lost());
        move || {
            let answer = sent.and_then(|()| answer.recv().unwrap_or_else(|_| Err(lost())));
            answer.map_err(|error| StoreError { what: what.into(), source: Box::new(error) })
        }
    }
}

impl EtcdStore {
    /// Whether there are no records, nor any that were not restored completely.
    pub(super) fn is_empty(&mut self) -> Result<bool, StoreError> {
        self.request("reading etcd", Request::IsEmpty)()
    }

    /// Puts changes in the place of all records.
    pub(super) fn replace(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.request("writing to etcd", |reply| Request::Replace(changes, reply))()
    }
}

impl Store for EtcdStore {
    fn reader(&mut self) -> Result<RecordReader, StoreError> {
        // The leader's thread takes requests in order.
        let requested = self.request("reading etcd", Request::Load);
        Ok(Box::new(requested))
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.request("writing to etcd", |reply| Request::Apply(changes.to_vec(), reply))()
    }
}

/// The operations of changes: the last change of each key.
pub(super) fn operations(prefix: &str, changes: &[Change]) -> Vec<RequestOp> {
    let mut all: BTreeMap<String, (usize, Option<Vec<u8>>)> = BTreeMap::new();
    for (at, change) in changes.iter().enumerate() {
        let (key, value) = pair(prefix, change);
        all.insert(key, (at, value));
    }
    // In the order of the changes, in case they do not fit into one transaction.
    let mut ordered: Vec<_> = all.into_iter().collect();
    ordered.sort_unstable_by_key(|(_, (at, _))| *at);
    let operation = |(key, (_, value)): (String, (usize, Option<Vec<u8>>))| match value {
        Some(value) => put(key, value, 0),
        None => delete(key),
    };
    ordered.into_iter().map(operation).collect()
}

/// The key of a change, and its value; none if the change deletes the key.
pub(super) fn pair(prefix: &str, change: &Change) -> (String, Option<Vec<u8>>) {
    let job = |tenant: &str, job: &str| format!("{prefix}/jobs/{tenant}/{job}");
    let of_link = |link: &LinkName| format!("{prefix}/links/{}/{}", link.a, link.b);
    let membership = |name: &JobName| format!("{prefix}/memberships/{}/{}", name.tenant, name.job);
    match change {
        Change::Tenant(record) => (format!("{prefix}/tenants/{}", record.name), Some(row::encode(record))),
        Change::TenantGone(name) => (format!("{prefix}/tenants/{name}"), None),
        Change::Job(record) => (job(&record.name.tenant, &record.name.job), Some(row::encode(record))),
        Change::JobGone(name) => (job(&name.tenant, &name.job), None),
        Change::Place(record) => (format!("{prefix}/places/{:05}", record.number), Some(row::encode(record))),
        Change::PlaceGone(number) => (format!("{prefix}/places/{number:05}"), None),
        Change::Membership(record) => (membership(&record.name), Some(row::encode(record))),
        Change::MembershipGone(name) => (membership(name), None),
        Change::EpochNext(epoch) => (format!("{prefix}/epoch_next"), Some(row::encode(epoch))),
        Change::Switch(record) => (format!("{prefix}/switches/{}", record.name), Some(row::encode(record))),
        Change::LinkDrained(link) => (of_link(link), Some(row::encode(link))),
        Change::LinkUndrained(link) => (of_link(link), None),
    }
}

/// All records of a prefix. Other keys are ignored.
pub(super) fn kept(prefix: &str, rows: Vec<KeyValue>) -> Result<StoredRecords, EtcdError> {
    let mut kept = StoredRecords::default();
    for KeyValue { key, value, .. } in rows {
        let key = String::from_utf8_lossy(&key).into_owned();
        let Some(path) = key.strip_prefix(prefix).and_then(|path| path.strip_prefix('/')) else { continue };
        let kind = path.split('/').next().unwrap_or_default();
        let change = match kind {
            "tenants" => Change::Tenant(decode::<TenantRecord>(&key, &value)?),
            "jobs" => Change::Job(decode::<JobRecord>(&key, &value)?),
            "places" => Change::Place(Box::new(decode::<PlaceRecord>(&key, &value)?)),
            "memberships" => Change::Membership(Box::new(decode::<MembershipRecord>(&key, &value)?)),
            "switches" => Change::Switch(decode::<SwitchRecord>(&key, &value)?),
            "links" => Change::LinkDrained(decode::<LinkName>(&key, &value)?),
            RESTORING => return Err(EtcdError::Restoring),
            "epoch_next" => Change::EpochNext(decode(&key, &value)?),
            _ => continue,
        };
        kept.apply(change);
    }
    Ok(kept)
}

fn decode<R: DeserializeOwned>(key: &str, value: &[u8]) -> Result<R, EtcdError> {
    row::decode(value).map_err(|error| EtcdError::Record { key: key.to_owned(), source: Box::new(error) })
}
