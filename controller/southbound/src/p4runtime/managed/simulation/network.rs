//! The network between controllers and the switch: connections in memory whose bytes are late, held back, or lost with their connection.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::codegen::http::Uri;

use super::super::super::tls::{Bytes, Dial, Dialing};
use super::device::Device;

/// Bytes of a connection that are under way at once, in one direction.
const WINDOW: usize = 16 << 10;

struct Inner {
    rng: Xoshiro256PlusPlus,
    latency_max: Duration,
    /// Until when each controller and the switch do not reach each other.
    cut_until: Vec<Instant>,
    /// Open connections: of which controller, and how to break them; the switch learns of it after a time.
    open: Vec<(usize, oneshot::Sender<Duration>)>,
}

/// The network.
pub(super) struct Network {
    inner: Mutex<Inner>,
    device: Arc<Device>,
}

impl Network {
    pub(super) fn new(
        device: &Arc<Device>,
        controllers: usize,
        seed: u64,
        latency_max: Duration,
    ) -> Arc<Self> {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let cut_until = vec![Instant::now(); controllers];
        let inner = Mutex::new(Inner { rng, latency_max, cut_until, open: Vec::new() });
        Arc::new(Self { inner, device: Arc::clone(device) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Holds all bytes between a controller and the switch back for a time.
    pub(super) fn cut(&self, controller: usize, time: Duration) {
        let until = &mut self.inner().cut_until[controller];
        *until = (*until).max(Instant::now() + time);
    }

    /// Breaks the connections of a controller, or of all; the switch learns of it after `late`.
    pub(super) fn break_off(&self, controller: Option<usize>, late: Duration) {
        let mut inner = self.inner();
        let broken = inner.open.extract_if(.., |(of, _)| controller.is_none_or(|wanted| *of == wanted));
        // A connection that is over has no receiver.
        for (_, broken) in broken {
            let _ = broken.send(late);
        }
    }

    /// Waits as long as bytes take on their way.
    async fn travel(&self, controller: usize) {
        let latency = {
            let mut inner = self.inner();
            let least = Duration::from_micros(100);
            least + inner.latency_max.mul_f64(inner.rng.random())
        };
        sleep(latency).await;
        loop {
            let until = self.inner().cut_until[controller];
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }

    async fn carry(
        self: Arc<Self>,
        controller: usize,
        (near, far): (DuplexStream, DuplexStream),
        broken: oneshot::Receiver<Duration>,
    ) {
        let (mut from_controller, mut to_controller) = split(near);
        let (mut from_switch, mut to_switch) = split(far);
        let late = {
            let both = async {
                tokio::join!(
                    self.pump(controller, &mut from_controller, &mut to_switch),
                    self.pump(controller, &mut from_switch, &mut to_controller),
                )
            };
            tokio::select! {
                biased;
                late = broken => late.unwrap_or_default(),
                _ = both => Duration::ZERO,
            }
        };
        drop((from_controller, to_controller));
        sleep(late).await;
    }

    async fn pump(
        &self,
        controller: usize,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) {
        let mut bytes = vec![0; WINDOW];
        while let Ok(len) = from.read(&mut bytes).await {
            self.travel(controller).await;
            if len == 0 || to.write_all(&bytes[..len]).await.is_err() {
                break;
            }
        }
        // The other side may be gone.
        let _ = to.shutdown().await;
    }
}

/// A controller's way to the switch.
pub(super) struct SimulatedDialer {
    pub(super) network: Arc<Network>,
    pub(super) controller: usize,
}

impl Dial for SimulatedDialer {
    fn dial(&self, _: Uri) -> Dialing {
        let (network, controller) = (Arc::clone(&self.network), self.controller);
        Box::pin(async move {
            network.travel(controller).await;
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let incoming = network.device.incoming().ok_or_else(refused)?;
            let (controllers_end, near) = duplex(WINDOW);
            let (far, switchs_end) = duplex(WINDOW);
            incoming.send(Ok(switchs_end)).map_err(|_| refused())?;
            let (breaker, broken) = oneshot::channel();
            network.inner().open.push((controller, breaker));
            tokio::spawn(Arc::clone(&network).carry(controller, (near, far), broken));
            network.travel(controller).await;
            Ok(Box::new(controllers_end) as Box<dyn Bytes>)
        })
    }
}
