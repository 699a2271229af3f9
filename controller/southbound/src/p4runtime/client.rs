//! A controller's connection to one switch, in blocking form.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use netfold_p4_runtime::config::P4Info;
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::{Schema, v1};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Mutex as AsyncMutex, oneshot};

use super::call::{BATCH_MAX, Remote, RemoteAddress, system_dialer};
use super::error::P4RuntimeError;
use super::stream::Stream;
use super::tls;
use netfold_controller::topology::Tls;

/// Election id by default: above those that the usual shells take (2^64).
pub const ELECTION_ID: u128 = 1 << 65;

/// How a controller connects to a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// What to call the switch in messages to people.
    pub name: String,
    /// Device number of the switch, above 0.
    pub device_id: u64,
    /// Election id: the controller with the greatest is in charge.
    pub election_id: u128,
    /// How long to wait for the switch to listen.
    pub connect_within: Duration,
    /// How long to wait for each call. Pushing a large pipeline takes seconds on some switches.
    pub call_within: Duration,
    /// How the connection is secured; `None`: not at all. Files are read for each connection.
    pub tls: Option<Tls>,
}

impl Default for ClientConfig {
    /// Device 1 with a name to match, 10 seconds to connect, 30 a call.
    fn default() -> Self {
        Self {
            name: "1".into(),
            device_id: 1,
            election_id: ELECTION_ID,
            connect_within: Duration::from_secs(10),
            call_within: Duration::from_secs(30),
            tls: None,
        }
    }
}

/// A controller's side of P4Runtime for one switch.
///
/// Calls block and may come from any thread, also from one of an asynchronous runtime, which they hold up. Connection
/// and stream are owned by a thread; when the stream ends, the next call that changes something reopens it.
/// Dropping the client ends both.
pub struct Client {
    shared: Arc<Shared>,
    executor: Executor,
}

struct Shared {
    remote: Remote,
    election_id: u128,
    stream: AsyncMutex<Option<Stream>>,
    schema: Mutex<Option<Arc<Schema>>>,
}

impl Client {
    /// Connects to `address` (`host:port` or `unix:path`) and becomes the primary controller.
    ///
    /// # Errors
    ///
    /// [`P4RuntimeError`], when no server answers in time, TLS cannot be agreed on or another controller is in charge.
    pub fn connect(address: &str, config: ClientConfig) -> Result<Self, P4RuntimeError> {
        if let Some(wanted) = &config.tls {
            tls::check(wanted, address).map_err(|source| P4RuntimeError::Tls {
                switch: config.name.clone(),
                address: address.to_owned(),
                source: Box::new(source),
            })?;
        }
        let executor = Executor::start(&config.name)?;
        let address = address.to_owned();
        let shared = executor.wait(async move {
            let ClientConfig { name, device_id, election_id, connect_within, call_within, tls } = config;
            let address = RemoteAddress {
                switch: name,
                device_id,
                address: &address,
                tls: tls.as_ref(),
                dialer: system_dialer(&address, connect_within),
                connect_within,
                within: call_within,
            };
            let remote = Remote::connect(address).await?;
            let shared =
                Shared { remote, election_id, stream: AsyncMutex::new(None), schema: Mutex::new(None) };
            shared.primary().await.map(|_| shared)
        })?;
        Ok(Self { shared: Arc::new(shared), executor })
    }

    /// What the switch is called in messages.
    pub fn name(&self) -> &str {
        &self.shared.remote.switch
    }

    /// Whether we are primary, according to the switch's last arbitration update.
    pub fn is_primary(&self) -> bool {
        self.call(
            |shared| async move { Ok(shared.stream.lock().await.as_ref().is_some_and(Stream::is_primary)) },
        )
        .unwrap_or(false)
    }

    /// The version of P4Runtime that the switch reports.
    ///
    /// # Errors
    ///
    /// [`P4RuntimeError`]; `Refused` with `UNIMPLEMENTED` from switches older than the call.
    pub fn capabilities(&self) -> Result<String, P4RuntimeError> {
        self.call(|shared| async move { shared.remote.capabilities().await })
    }

    /// Gives the switch a pipeline and has it used at once (VERIFY_AND_COMMIT): its tables are empty then.
    ///
    /// # Errors
    ///
    /// [`P4RuntimeError::Pipeline`] with the switch's reason. Whether it goes on with what it ran before depends on the
    /// switch.
    pub fn set_pipeline(&self, p4info: P4Info, device_config: Vec<u8>) -> Result<(), P4RuntimeError> {
        let switch = self.name().to_owned();
        if device_config.is_empty() {
            return Err(P4RuntimeError::EmptyPipeline { switch });
        }
        let schema = Schema::new(&p4info).map_err(|source| P4RuntimeError::Schema { switch, source })?;
        let config = v1::ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config: device_config,
            cookie: None,
        };
        self.call(|shared| async move {
            let election_id = shared.primary().await?;
            let pushed = shared.remote.set_pipeline(election_id, config).await;
            pushed.map_err(|error| shared.denied(election_id, error))?;
            *shared.schema() = Some(Arc::new(schema));
            Ok(())
        })
    }

    /// The pipeline that the switch runs; `None` when it has none.
    ///
    /// # Errors
    ///
    /// [`P4RuntimeError`].
    pub fn pipeline(&self) -> Result<Option<v1::ForwardingPipelineConfig>, P4RuntimeError> {
        self.call(|shared| async move { shared.remote.pipeline(v1::ResponseType::All).await })
    }

    /// The tables of the pipeline that this client has pushed last.
    pub fn schema(&self) -> Option<Arc<Schema>> {
        self.shared.schema().clone()
    }

    /// Carries out updates in order; an update that fails does not prevent the others. A long list goes in several
    /// requests.
    ///
    /// # Errors
    ///
    /// [`P4RuntimeError::Write`] names those that failed, all others were done. After any other error some may have
    /// been done.
    pub fn write(&self, updates: Vec<v1::Update>) -> Result<(), P4RuntimeError> {
        if updates.is_empty() {
            return Ok(());
        }
        self.call(|shared| async move { shared.write(updates).await })
    }

    /// Reads what matches the patterns: ids of 0 and keys that are not set stand for all.
    ///
    /// # Errors
    ///
    /// [`P4RuntimeError`].
    pub fn read(&self, patterns: Vec<v1::EntityKind>) -> Result<Vec<v1::EntityKind>, P4RuntimeError> {
        let patterns = patterns.into_iter().map(v1::Entity::from).collect();
        let entities = self.call(|shared| async move { shared.remote.read(patterns).await })?;
        Ok(entities.into_iter().filter_map(|entity| entity.entity).collect())
    }

    /// What a counter has counted, in packets, by cell.
    ///
    /// # Errors
    ///
    /// [`P4RuntimeError`], also when the program has no such counter.
    pub fn counters(&self, counter_id: u32) -> Result<Vec<u64>, P4RuntimeError> {
        let pattern = v1::CounterEntry { counter_id, index: None, data: None };
        let mut counted = Vec::new();
        for cell in self.read(vec![v1::EntityKind::CounterEntry(pattern)])? {
            if let v1::EntityKind::CounterEntry(cell) = cell {
                let index = cell.index.map_or(0, |index| index.index.clamp(0, 1 << 20) as usize);
                if counted.len() <= index {
                    counted.resize(index + 1, 0);
                }
                counted[index] = cell.data.map_or(0, |data| data.packet_count.max(0) as u64);
            }
        }
        Ok(counted)
    }

    fn call<T, F>(&self, call: impl FnOnce(Arc<Shared>) -> F) -> Result<T, P4RuntimeError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, P4RuntimeError>> + Send + 'static,
    {
        self.executor.wait(call(Arc::clone(&self.shared)))
    }
}

impl Shared {
    fn schema(&self) -> std::sync::MutexGuard<'_, Option<Arc<Schema>>> {
        self.schema.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that a stream is open, and returns the id under which we are primary.
    async fn primary(&self) -> Result<u128, P4RuntimeError> {
        let mut stream = self.stream.lock().await;
        if let Some(open) = stream.as_ref().filter(|stream| !stream.is_over()) {
            let ours = open.election_id();
            return match open.outbid() {
                Some(highest) => Err(self.outbid(ours, highest)),
                None => Ok(ours),
            };
        }
        // The broken one goes first, so that its id is free again.
        *stream = None;
        let open = Stream::open(&self.remote, self.election_id).await?;
        let election_id = open.election_id();
        *stream = Some(open);
        Ok(election_id)
    }

    fn outbid(&self, ours: u128, highest: u128) -> P4RuntimeError {
        P4RuntimeError::NotPrimary { switch: self.remote.switch.clone(), ours, highest }
    }

    /// Says of a permission that was denied why: only a primary may do what we do.
    fn denied(&self, ours: u128, error: P4RuntimeError) -> P4RuntimeError {
        match error {
            P4RuntimeError::Refused { code: Code::PermissionDenied, .. } => self.outbid(ours, 0),
            error => error,
        }
    }

    async fn write(&self, updates: Vec<v1::Update>) -> Result<(), P4RuntimeError> {
        let election_id = self.primary().await?;
        let schema = self.schema().clone();
        let total = updates.len();
        let mut failures = Vec::new();
        for (batch, updates) in updates.chunks(BATCH_MAX).enumerate() {
            match self.remote.write(election_id, updates.to_vec(), schema.as_deref()).await {
                Ok(()) => {}
                Err(P4RuntimeError::Write { failed, .. }) => {
                    failures.extend(failed.into_iter().map(|mut failure| {
                        failure.index += batch * BATCH_MAX;
                        failure
                    }));
                }
                Err(error) => return Err(self.denied(election_id, error)),
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        let switch = self.remote.switch.clone();
        Err(P4RuntimeError::Write { switch, updates: total, failed: failures })
    }
}

/// A thread that runs one switch's calls.
pub(crate) struct Executor {
    handle: Handle,
    switch: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Executor {
    pub(crate) fn start(switch: &str) -> Result<Self, P4RuntimeError> {
        let failed = |source| P4RuntimeError::Thread { switch: switch.to_owned(), source };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("p4runtime".into())
            .spawn(move || {
                // Ends when the executor is dropped; the tasks that are left, with it.
                let _ = runtime.block_on(stopped);
            })
            .map_err(failed)?;
        Ok(Self { handle, switch: switch.to_owned(), stop: Some(stop), thread: Some(thread) })
    }

    fn wait<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, P4RuntimeError>> + Send + 'static,
    ) -> Result<T, P4RuntimeError> {
        self.run(call)?
    }

    /// Runs something on the thread and waits for it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, P4RuntimeError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // The send fails if the caller has given up, which is harmless.
            let _ = reply.send(call.await);
        });
        answer.recv().map_err(|_| P4RuntimeError::Thread {
            switch: self.switch.clone(),
            source: std::io::Error::other("the switch's thread has ended"),
        })
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
