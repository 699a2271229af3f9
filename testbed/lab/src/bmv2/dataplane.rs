//! bmv2's packets over gRPC (`p4.bm.DataplaneInterface`), in blocking form.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::sync::oneshot;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::Bmv2;

/// A packet for the switch, or from it: the two messages of the stream have the same fields.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Packet {
    /// Comes back in what the packet becomes; bmv2 sets it too late to be relied on, so it stays 0.
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    device_id: u64,
    #[prost(uint32, tag = "3")]
    port: u32,
    #[prost(bytes = "vec", tag = "4")]
    packet: Vec<u8>,
}

/// The device number of every switch that [`Bmv2`] starts.
const DEVICE: u64 = 1;

/// Frames on the way to the switch.
const REQUESTS_MAX: usize = 256;

/// Frames that wait to be received; more are dropped and counted, since a switch that cannot send stops.
const RECEIVED_MAX: usize = 1 << 16;

/// How long a switch may take no frame before [`DataPlane::send`] gives up.
const SEND_WITHIN: Duration = Duration::from_secs(10);

/// Interval between attempts to send into a full queue.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

/// Wait between two attempts to open the stream.
const RETRY: Duration = Duration::from_millis(20);

/// Packets kept until the switch is known to take them.
const KEPT_MAX: usize = 1024;

/// How long to wait for the connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Why packets do not go through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DataPlaneError {
    /// The switch has network interfaces instead.
    #[error("this bmv2 was started with network interfaces: its packets do not go over gRPC")]
    NoDataPlane,
    /// The connection cannot be opened.
    #[error("cannot reach bmv2's packet server: {0}")]
    Connect(String),
    /// The stream is over.
    #[error("bmv2's packet stream is over: {0}")]
    Ended(String),
    /// The switch takes no more packets.
    #[error("bmv2 takes no packets any more: check that what it sends is received")]
    Stuck,
}

/// Packets of a bmv2 started without network interfaces.
///
/// There can be one for a switch at a time. Frames are whole Ethernet frames without checksum. Nothing is lost between
/// here and the switch; in the switch, a port that holds [`super::EGRESS_QUEUE`] packets drops the next. The switch takes
/// packets once it has a pipeline; until then they wait here.
#[derive(Debug)]
pub struct DataPlane {
    shared: Arc<SharedStreams>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct SharedStreams {
    requests: mpsc::Sender<Packet>,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Frames of ports that have a [`FramePort`].
    ports: BTreeMap<u16, VecDeque<Vec<u8>>>,
    taken: BTreeSet<u16>,
    /// All other frames.
    rest: VecDeque<(u16, Vec<u8>)>,
    held: usize,
    overflowed: u64,
    ended: Option<String>,
}

/// One port of a [`DataPlane`]. Frames that come out of it are this one's alone.
#[derive(Debug, Clone)]
pub struct FramePort {
    shared: Arc<SharedStreams>,
    port: u16,
}

impl DataPlane {
    /// Opens the packet stream of a switch.
    ///
    /// # Errors
    ///
    /// [`DataPlaneError`]. A second client of the same switch is refused after its first packet.
    pub fn connect(bmv2: &Bmv2) -> Result<Self, DataPlaneError> {
        let address = bmv2.data_plane().ok_or(DataPlaneError::NoDataPlane)?.to_owned();
        let failed = |error: &dyn std::fmt::Display| DataPlaneError::Connect(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let endpoint = Endpoint::from_shared(address).map_err(|error| failed(&error))?;
        let channel = runtime
            .block_on(async { tokio::time::timeout(CONNECT_WITHIN, endpoint.connect()).await })
            .map_err(|error| failed(&error))?
            .map_err(|error| failed(&error))?;
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let shared = Arc::new(SharedStreams { requests, state: Mutex::default(), arrived: Condvar::new() });
        let (stop, stopped) = oneshot::channel();
        let attending = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("bmv2-packets".into())
            .spawn(move || {
                let end = runtime.block_on(async {
                    tokio::select! {
                        end = attend(&attending, channel, receiver) => end,
                        _ = stopped => "it was closed on this side".into(),
                    }
                });
                attending.state().ended = Some(end);
                attending.arrived.notify_all();
            })
            .map_err(|error| failed(&error))?;
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Sends a frame into a port. Blocks while the switch takes none.
    ///
    /// # Errors
    ///
    /// When the stream is over or the switch is stuck.
    pub fn send(&self, port: u16, frame: &[u8]) -> Result<(), DataPlaneError> {
        self.shared.send(port, frame)
    }

    /// The next frame out of any port that has no [`FramePort`], with its port; `None` after `timeout`.
    ///
    /// # Errors
    ///
    /// When the stream is over and nothing is left.
    pub fn receive(&self, timeout: Duration) -> Result<Option<(u16, Vec<u8>)>, DataPlaneError> {
        self.shared.receive(timeout, |state| state.rest.pop_front())
    }

    /// One port on its own: what comes out of it from now on goes there.
    pub fn port(&self, port: u16) -> FramePort {
        self.shared.state().taken.insert(port);
        FramePort { shared: Arc::clone(&self.shared), port }
    }

    /// Frames that were dropped because no receiver was attached.
    pub fn overflowed(&self) -> u64 {
        self.shared.state().overflowed
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl FramePort {
    /// The port's number.
    pub const fn number(&self) -> u16 {
        self.port
    }

    /// Sends a frame into the port; see [`DataPlane::send`].
    ///
    /// # Errors
    ///
    /// When the stream is over or the switch is stuck.
    pub fn send(&self, frame: &[u8]) -> Result<(), DataPlaneError> {
        self.shared.send(self.port, frame)
    }

    /// The next frame out of the port; `None` after `timeout`.
    ///
    /// # Errors
    ///
    /// When the stream is over and nothing is left.
    pub fn receive(&self, timeout: Duration) -> Result<Option<Vec<u8>>, DataPlaneError> {
        self.shared.receive(timeout, |state| state.ports.get_mut(&self.port)?.pop_front())
    }
}

impl SharedStreams {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, port: u16, frame: &[u8]) -> Result<(), DataPlaneError> {
        let mut packet = Packet { id: 0, device_id: DEVICE, port: port.into(), packet: frame.to_vec() };
        let deadline = Instant::now() + SEND_WITHIN;
        loop {
            if let Some(end) = &self.state().ended {
                return Err(DataPlaneError::Ended(end.clone()));
            }
            match self.requests.try_send(packet) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) if Instant::now() >= deadline => {
                    return Err(DataPlaneError::Stuck);
                }
                Err(TrySendError::Full(back) | TrySendError::Closed(back)) => packet = back,
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn receive<T>(
        &self,
        timeout: Duration,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, DataPlaneError> {
        let deadline = Instant::now() + timeout;
        let mut state = self.state();
        loop {
            if let Some(frame) = take(&mut state) {
                state.held -= 1;
                return Ok(Some(frame));
            }
            if let Some(end) = &state.ended {
                return Err(DataPlaneError::Ended(end.clone()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn arrive(&self, packet: Packet) {
        let mut state = self.state();
        let Ok(port) = u16::try_from(packet.port) else { return };
        if state.held >= RECEIVED_MAX {
            state.overflowed += 1;
            return;
        }
        state.held += 1;
        if state.taken.contains(&port) {
            state.ports.entry(port).or_default().push_back(packet.packet);
        } else {
            state.rest.push_back((port, packet.packet));
        }
        drop(state);
        self.arrived.notify_all();
    }
}

/// Carries packets both ways until the stream ends; returns why it did.
///
/// The stream is opened for the first packet, and again while the switch refuses it: without a pipeline it takes none,
/// and for a moment after another client has left. Until it responds, whether it has taken the stream is not known, so
/// the packets sent so far are kept, to be retransmitted.
async fn attend(shared: &SharedStreams, channel: Channel, mut receiver: mpsc::Receiver<Packet>) -> String {
    let mut kept = Vec::new();
    match receiver.recv().await {
        Some(packet) => kept.push(packet),
        None => return "it was closed on this side".into(),
    }
    // From the first packet on: a machine under load may take longer than that to give the switch its pipeline.
    let deadline = tokio::time::Instant::now() + SEND_WITHIN;
    loop {
        match open(channel.clone(), &mut receiver, &mut kept).await {
            Ok((packets, requests)) => return carry(shared, packets, requests, receiver).await,
            Err(status) => {
                let passing = matches!(status.code(), Code::Unavailable | Code::ResourceExhausted);
                if !passing || tokio::time::Instant::now() >= deadline {
                    return format!("{} ({:?})", status.message(), status.code());
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Opens the stream and waits for its first response, which comes with the first packet out of the switch.
async fn open(
    channel: Channel,
    receiver: &mut mpsc::Receiver<Packet>,
    kept: &mut Vec<Packet>,
) -> Result<(Streaming<Packet>, mpsc::Sender<Packet>), Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let (requests, stream) = mpsc::channel(REQUESTS_MAX);
    let path = PathAndQuery::from_static("/p4.bm.DataplaneInterface/PacketStream");
    let codec = ProstCodec::<Packet, Packet>::default();
    let response = grpc.streaming(Request::new(ReceiverStream::new(stream)), path, codec);
    let feed = async {
        for packet in kept.iter() {
            // The end of a stream is in its response.
            let _ = requests.send(packet.clone()).await;
        }
        while let Some(packet) = receiver.recv().await {
            // More packets than this are not needed to identify the stream.
            if kept.len() < KEPT_MAX {
                kept.push(packet.clone());
            }
            let _ = requests.send(packet).await;
        }
        std::future::pending::<()>().await;
    };
    let response = tokio::select! {
        response = response => response,
        () = feed => unreachable!("it waits forever"),
    };
    response.map(|response| (response.into_inner(), requests))
}

async fn carry(
    shared: &SharedStreams,
    mut packets: Streaming<Packet>,
    requests: mpsc::Sender<Packet>,
    mut receiver: mpsc::Receiver<Packet>,
) -> String {
    let forward = async {
        while let Some(packet) = receiver.recv().await {
            if requests.send(packet).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let take = async {
        loop {
            match packets.message().await {
                Ok(Some(packet)) => shared.arrive(packet),
                Ok(None) => return "the switch has closed it".into(),
                Err(status) => return format!("{} ({:?})", status.message(), status.code()),
            }
        }
    };
    tokio::select! {
        end = take => end,
        () = forward => unreachable!("it waits forever"),
    }
}
