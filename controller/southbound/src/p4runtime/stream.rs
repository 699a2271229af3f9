//! The stream by which a controller stays in charge of a switch.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::{self, StreamRequest, StreamResponse};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::call::{Remote, path};
use super::error::{P4RuntimeError, Rpc};
use super::packets::PacketLine;

/// Messages to the switch that wait for the connection: bids, and packets, of which more get lost.
const REQUESTS_MAX: usize = 256;

/// Bids for one election before it counts as lost.
const BIDS_MAX: u32 = 3;

/// How long an election id that is in use is tried again.
const ID_IN_USE_TIMEOUT: Duration = Duration::from_secs(3);

/// Wait between two such attempts.
const RETRY: Duration = Duration::from_millis(50);

/// Our role, according to the switch's arbitration updates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Arbitration {
    /// It has not said so yet.
    Unknown,
    Primary,
    /// Another controller is primary.
    Backup {
        highest: u128,
    },
    /// There is no primary, since a greater id was there before.
    Vacant {
        highest: u128,
    },
    /// The stream is over. `taken` is set if the switch rejected the bid as invalid, for example because its id is in use.
    Ended {
        message: String,
        taken: bool,
    },
}

/// An open stream.
pub(super) struct Stream {
    device_id: u64,
    requests: mpsc::Sender<v1::StreamMessageRequest>,
    arbitration: watch::Receiver<Arbitration>,
    /// The id of the last bid.
    election_id: u128,
}

impl Stream {
    /// Opens the stream and waits until we are primary.
    ///
    /// A switch may not have noticed yet that the previous owner of the id has disconnected, so an id that is in use is
    /// retried for a while.
    pub(super) async fn open(remote: &Remote, election_id: u128) -> Result<Self, P4RuntimeError> {
        let deadline = Instant::now() + ID_IN_USE_TIMEOUT;
        loop {
            let mut stream = Self::begin(remote, election_id, None);
            let won = timely(remote, stream.arbitrate(remote)).await?;
            match won {
                Ok(()) => return Ok(stream),
                Err(_) if stream.is_taken() && Instant::now() < deadline => tokio::time::sleep(RETRY).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens the stream, bids, and waits for the first arbitration update, whatever role it gives us. Packets from the switch
    /// go to `line`.
    pub(super) async fn enter(
        remote: &Remote,
        election_id: u128,
        line: Arc<PacketLine>,
    ) -> Result<Self, P4RuntimeError> {
        let deadline = Instant::now() + ID_IN_USE_TIMEOUT;
        loop {
            let mut stream = Self::begin(remote, election_id, Some(Arc::clone(&line)));
            match timely(remote, stream.bid()).await? {
                Arbitration::Ended { taken: true, .. } if Instant::now() < deadline => {
                    tokio::time::sleep(RETRY).await;
                }
                Arbitration::Ended { message, .. } => return Err(broken(remote, message)),
                Arbitration::Unknown => return Err(broken(remote, "the stream's task has ended".into())),
                Arbitration::Primary | Arbitration::Backup { .. } | Arbitration::Vacant { .. } => {
                    return Ok(stream);
                }
            }
        }
    }

    fn begin(remote: &Remote, election_id: u128, line: Option<Arc<PacketLine>>) -> Self {
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let (status, arbitration) = watch::channel(Arbitration::Unknown);
        tokio::spawn(attend(remote.clone(), receiver, status, line));
        Self { device_id: remote.device_id, requests, arbitration, election_id }
    }

    /// Where messages to the switch go in.
    pub(super) fn requests(&self) -> mpsc::Sender<v1::StreamMessageRequest> {
        self.requests.clone()
    }

    /// Where the switch has last said that we stand.
    pub(super) fn arbitration(&self) -> Arbitration {
        self.arbitration.borrow().clone()
    }

    /// Waits for the next change of our role.
    pub(super) async fn changed(&mut self) {
        // The task that tells us has said last that the stream is over.
        let _ = self.arbitration.changed().await;
    }

    /// Bids under another id, and waits for the answer.
    pub(super) async fn bid_again(
        &mut self,
        remote: &Remote,
        election_id: u128,
    ) -> Result<(), P4RuntimeError> {
        self.election_id = election_id;
        timely(remote, self.bid()).await.map(drop)
    }

    fn is_taken(&self) -> bool {
        matches!(*self.arbitration.borrow(), Arbitration::Ended { taken: true, .. })
    }

    async fn bid(&mut self) -> Arbitration {
        let bid = v1::MasterArbitrationUpdate {
            device_id: self.device_id,
            election_id: Some(self.election_id.into()),
            ..Default::default()
        };
        let request = v1::StreamMessageRequest { update: Some(StreamRequest::Arbitration(bid)) };
        self.arbitration.mark_unchanged();
        // A stream that ends says why in its standing.
        let _ = self.requests.send(request).await;
        match self.arbitration.changed().await {
            Ok(()) => self.arbitration.borrow_and_update().clone(),
            Err(_) => self.arbitration.borrow().clone(),
        }
    }

    /// The id under which we are primary.
    pub(super) fn election_id(&self) -> u128 {
        self.election_id
    }

    /// Whether the stream is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(*self.arbitration.borrow(), Arbitration::Ended { .. })
    }

    /// Whether the switch has last called us primary.
    pub(super) fn is_primary(&self) -> bool {
        *self.arbitration.borrow() == Arbitration::Primary
    }

    /// The highest election id in the last arbitration update, if we are not primary.
    pub(super) fn outbid(&self) -> Option<u128> {
        match *self.arbitration.borrow() {
            Arbitration::Backup { highest } | Arbitration::Vacant { highest } => Some(highest),
            _ => None,
        }
    }

    async fn arbitrate(&mut self, remote: &Remote) -> Result<(), P4RuntimeError> {
        let broken = |message: String| broken(remote, message);
        let mut highest_seen = 0;
        for _ in 0..BIDS_MAX {
            match self.bid().await {
                Arbitration::Primary => return Ok(()),
                Arbitration::Ended { message, .. } => return Err(broken(message)),
                Arbitration::Unknown => return Err(broken("the stream's task has ended".into())),
                Arbitration::Backup { highest } => {
                    highest_seen = highest;
                    break;
                }
                // There is no primary: the id of the last one is sufficient.
                Arbitration::Vacant { highest } => {
                    highest_seen = highest;
                    self.election_id = self.election_id.max(highest);
                }
            }
        }
        Err(P4RuntimeError::NotPrimary {
            switch: remote.switch.clone(),
            ours: self.election_id,
            highest: highest_seen,
        })
    }
}

fn broken(remote: &Remote, message: String) -> P4RuntimeError {
    remote.broken(Rpc::Stream, message)
}

async fn timely<T>(remote: &Remote, answer: impl Future<Output = T>) -> Result<T, P4RuntimeError> {
    let late = |_| P4RuntimeError::Timeout {
        switch: remote.switch.clone(),
        rpc: Rpc::Stream,
        within: remote.within,
    };
    tokio::time::timeout(remote.within, answer).await.map_err(late)
}

/// Carries messages to the switch and its answers back, until either side ends the stream.
async fn attend(
    remote: Remote,
    receiver: mpsc::Receiver<v1::StreamMessageRequest>,
    status: watch::Sender<Arbitration>,
    line: Option<Arc<PacketLine>>,
) {
    let end = listen(&remote, receiver, &status, line).await;
    status.send_replace(end);
}

async fn listen(
    remote: &Remote,
    receiver: mpsc::Receiver<v1::StreamMessageRequest>,
    status: &watch::Sender<Arbitration>,
    line: Option<Arc<PacketLine>>,
) -> Arbitration {
    let ended = |message: String| Arbitration::Ended { message, taken: false };
    let refused = |status: Status| Arbitration::Ended {
        message: format!("{} ({:?})", status.message(), status.code()),
        taken: status.code() == tonic::Code::InvalidArgument,
    };
    let mut grpc = match remote.grpc(Rpc::Stream).await {
        Ok(grpc) => grpc,
        Err(error) => return ended(error.to_string()),
    };
    let codec = ProstCodec::<v1::StreamMessageRequest, v1::StreamMessageResponse>::default();
    let path = PathAndQuery::from_static(path(Rpc::Stream));
    let answer = grpc.streaming(Request::new(ReceiverStream::new(receiver)), path, codec).await;
    let mut answers = match answer {
        Ok(answers) => answers.into_inner(),
        Err(status) => return refused(status),
    };
    loop {
        match answers.message().await {
            Ok(Some(answer)) => match (answer.update, &line) {
                (Some(StreamResponse::Arbitration(update)), _) => {
                    drop(status.send_replace(arbitration(&update)))
                }
                (Some(StreamResponse::Packet(packet)), Some(line)) => line.arrive(packet.payload),
                // Nothing else was asked for.
                _ => {}
            },
            Ok(None) => return ended("the switch has ended the stream".into()),
            Err(status) => return refused(status),
        }
    }
}

fn arbitration(update: &v1::MasterArbitrationUpdate) -> Arbitration {
    let highest = update.election_id.map_or(0, u128::from);
    let code = update.status.as_ref().map_or(Code::Ok as i32, |status| status.code);
    match Code::try_from(code) {
        Ok(Code::Ok) => Arbitration::Primary,
        Ok(Code::NotFound) => Arbitration::Vacant { highest },
        _ => Arbitration::Backup { highest },
    }
}
