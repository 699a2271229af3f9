//! An etcd cluster in virtual time, and the network to it: what is asked of it may be late, lost, or carried out without an answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tonic::Status;

use crate::etcd::EtcdError;
use crate::etcd::call::{CALL_TIMEOUT, Conditional, Etcd, KeyState, lease_s};
use crate::etcd::wire::request_op::Request;
use crate::etcd::wire::{KeyValue, RequestOp};

struct Row {
    value: Vec<u8>,
    state: KeyState,
    lease: i64,
}

struct Lease {
    time: Duration,
    expires: Instant,
}

/// What etcd's members agree on.
#[derive(Default)]
struct Records {
    rows: BTreeMap<Vec<u8>, Row>,
    revision: i64,
    leases: BTreeMap<i64, Lease>,
}

impl Records {
    fn expire(&mut self) {
        let now = Instant::now();
        let over: Vec<i64> =
            self.leases.iter().filter(|(_, lease)| lease.expires <= now).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|lease| self.revoke(lease));
    }

    fn revoke(&mut self, lease: i64) {
        if self.leases.remove(&lease).is_some() {
            let before = self.rows.len();
            self.rows.retain(|_, row| row.lease != lease);
            self.revision += i64::from(self.rows.len() != before);
        }
    }

    fn state(&self, key: &[u8]) -> KeyState {
        self.rows.get(key).map_or_else(KeyState::default, |row| row.state)
    }

    fn transaction(
        &mut self,
        key: &str,
        state: KeyState,
        operations: Vec<RequestOp>,
    ) -> Result<Conditional, Status> {
        let found = self.state(key.as_bytes());
        if found != state {
            return Ok(Conditional::Differs(found));
        }
        let revision = self.revision + 1;
        for operation in operations {
            match operation.request {
                Some(Request::RequestPut(put)) => {
                    // Only the leader's key has a lease, alone or at the end of a transaction that requires it.
                    if put.lease != 0 && !self.leases.contains_key(&put.lease) {
                        return Err(Status::not_found("etcdserver: requested lease not found"));
                    }
                    let found = self.state(&put.key);
                    let created = if found.version == 0 { revision } else { found.created };
                    let state = KeyState { created, version: found.version + 1 };
                    self.rows.insert(put.key, Row { value: put.value, state, lease: put.lease });
                }
                Some(Request::RequestDeleteRange(delete)) => drop(self.rows.remove(&delete.key)),
                _ => return Err(Status::invalid_argument("not one of the operations that are used")),
            }
        }
        self.revision = revision;
        Ok(Conditional::Done(revision))
    }
}

/// What disturbs the network and the cluster at the moment.
#[derive(Default)]
struct Disturbance {
    /// Shares of requests and of answers that are lost.
    loss: f64,
    delay_max: Duration,
    /// Which controllers reach the cluster again when.
    cut_until: BTreeMap<usize, Instant>,
    /// When the cluster has a leader of its own again.
    down_until: Option<Instant>,
    /// When the cluster has room for changes again.
    full_until: Option<Instant>,
}

pub(super) struct Cluster {
    records: Mutex<Records>,
    disturbance: Mutex<Disturbance>,
    rng: Mutex<Xoshiro256PlusPlus>,
}

impl Cluster {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let rng = Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed));
        Arc::new(Self { records: Mutex::default(), disturbance: Mutex::default(), rng })
    }

    /// Shares of lost messages, and the longest delay of one.
    pub(super) fn disturb(&self, loss: f64, delay_max: Duration) {
        let mut disturbance = self.disturbance.lock().unwrap();
        (disturbance.loss, disturbance.delay_max) = (loss, delay_max);
    }

    /// Cuts a controller off.
    pub(super) fn cut(&self, controller: usize, time: Duration) {
        self.disturbance.lock().unwrap().cut_until.insert(controller, Instant::now() + time);
    }

    /// The cluster elects a leader of its own for `time`: nothing is carried out, and no lease ends; afterwards each has its whole
    /// time.
    pub(super) fn go_down(&self, time: Duration) {
        let up = Instant::now() + time;
        self.disturbance.lock().unwrap().down_until = Some(up);
        let mut records = self.records();
        records.leases.values_mut().for_each(|lease| lease.expires = up + lease.time);
    }

    /// The cluster refuses changes for `time`, as one whose database has reached its quota.
    pub(super) fn fill_up(&self, time: Duration) {
        self.disturbance.lock().unwrap().full_until = Some(Instant::now() + time);
    }

    /// The revision at which the leader's key was created; 0 if there is no leader.
    pub(super) fn term(&self, key: &str) -> i64 {
        self.records().state(key.as_bytes()).created
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        let mut records = self.records.lock().unwrap();
        records.expire();
        records
    }

    /// The delay of a message of a controller; `None` when it is lost.
    fn passage(&self, controller: usize) -> Option<Duration> {
        let (disturbance, mut rng) = (self.disturbance.lock().unwrap(), self.rng.lock().unwrap());
        let cut = disturbance.cut_until.get(&controller).is_some_and(|until| Instant::now() < *until);
        let delay = disturbance.delay_max.mul_f64(rng.random::<f64>().powi(8));
        let lost = rng.random_bool(disturbance.loss);
        (!cut && !lost).then_some(delay + Duration::from_millis(1))
    }

    fn is_down(&self) -> bool {
        self.disturbance.lock().unwrap().down_until.is_some_and(|until| Instant::now() < until)
    }

    fn is_full(&self) -> bool {
        self.disturbance.lock().unwrap().full_until.is_some_and(|until| Instant::now() < until)
    }
}

/// One controller's connection.
#[derive(Clone)]
pub(super) struct SimulatedCalls {
    cluster: Arc<Cluster>,
    controller: usize,
}

impl SimulatedCalls {
    pub(super) fn new(cluster: &Arc<Cluster>, controller: usize) -> Self {
        Self { cluster: Arc::clone(cluster), controller }
    }

    /// Sends a request, which goes on when the caller waits no longer.
    async fn call<R: Send + 'static>(
        &self,
        carry_out: impl FnOnce(&mut Records) -> Result<R, Status> + Send + 'static,
    ) -> Result<R, Status> {
        let (answer, answered) = oneshot::channel();
        let (cluster, controller) = (Arc::clone(&self.cluster), self.controller);
        tokio::spawn(async move {
            let Some(delay) = cluster.passage(controller) else { return };
            tokio::time::sleep(delay).await;
            let done = if cluster.is_down() {
                Err(Status::unavailable("etcdserver: no leader"))
            } else {
                carry_out(&mut cluster.records())
            };
            let Some(delay) = cluster.passage(controller) else { return };
            tokio::time::sleep(delay).await;
            let _ = answer.send(done);
        });
        let lost = async {
            match answered.await {
                Ok(done) => done,
                Err(_) => std::future::pending().await,
            }
        };
        let timed_out = |_| Err(Status::deadline_exceeded("the call timed out"));
        tokio::time::timeout(CALL_TIMEOUT, lost).await.unwrap_or_else(timed_out)
    }
}

impl Etcd for SimulatedCalls {
    fn failed(&self, status: &Status) -> EtcdError {
        EtcdError::Call { endpoints: "simulated".into(), message: status.message().to_owned() }
    }

    async fn get(&mut self, key: &str) -> Result<Option<KeyValue>, Status> {
        let key = key.as_bytes().to_vec();
        let get = |records: &mut Records| {
            Ok(records.rows.get(&key).map(|row| KeyValue {
                value: row.value.clone(),
                key,
                ..KeyValue::default()
            }))
        };
        self.call(get).await
    }

    async fn all(&mut self, prefix: &str) -> Result<Vec<KeyValue>, Status> {
        let prefix = prefix.as_bytes().to_vec();
        let all = move |records: &mut Records| {
            let rows = records.rows.iter().filter(|(key, _)| key.starts_with(&prefix));
            let row = |(key, row): (&Vec<u8>, &Row)| KeyValue {
                key: key.clone(),
                value: row.value.clone(),
                ..KeyValue::default()
            };
            Ok(rows.map(row).collect())
        };
        self.call(all).await
    }

    async fn execute_if(
        &mut self,
        key: &str,
        state: KeyState,
        operations: Vec<RequestOp>,
    ) -> Result<Conditional, Status> {
        let (key, cluster) = (key.to_owned(), Arc::clone(&self.cluster));
        let transact = move |records: &mut Records| {
            if cluster.is_full() {
                return Err(Status::resource_exhausted("etcdserver: mvcc: database space exceeded"));
            }
            records.transaction(&key, state, operations)
        };
        self.call(transact).await
    }

    async fn grant(&mut self, time: Duration) -> Result<i64, Status> {
        let time = Duration::from_secs(lease_s(time) as u64);
        let id = self.cluster.rng.lock().unwrap().random_range(1..i64::MAX);
        let grant = move |records: &mut Records| {
            records.leases.insert(id, Lease { time, expires: Instant::now() + time });
            Ok(id)
        };
        self.call(grant).await
    }

    async fn keep(&mut self, lease: i64) -> Result<bool, Status> {
        let keep = move |records: &mut Records| {
            let Some(lease) = records.leases.get_mut(&lease) else { return Ok(false) };
            lease.expires = Instant::now() + lease.time;
            Ok(true)
        };
        self.call(keep).await
    }

    async fn revoke(&mut self, lease: i64) -> Result<(), Status> {
        let revoke = move |records: &mut Records| {
            records.revoke(lease);
            Ok(())
        };
        self.call(revoke).await
    }
}
