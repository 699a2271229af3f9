//! The stream of each client: bids, and answers to what has no place here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::{
    DigestListAckError, PacketOutError, StreamError, StreamErrorDetails, StreamMessageRequest,
    StreamMessageResponse, StreamOtherError, StreamRequest, StreamResponse,
};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::arbitration::Notice;
use crate::device::Device;
use crate::fault::Fault;

/// Messages that wait for a client. One that does not read is cut off, as others would have to wait for it.
pub(crate) const WAITING_MAX: usize = 64;

type Answer = Result<StreamMessageResponse, Status>;

/// All open streams.
pub(crate) struct Streams {
    device: Arc<Device>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    clients: BTreeMap<u64, mpsc::Sender<Answer>>,
}

impl Streams {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self { device, open: Mutex::default() }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one client until its stream ends.
    pub(crate) async fn serve(
        self: Arc<Self>,
        mut requests: Streaming<StreamMessageRequest>,
        answers: mpsc::Sender<Answer>,
    ) {
        let client = {
            let mut open = self.open();
            open.next += 1;
            let client = open.next;
            open.clients.insert(client, answers.clone());
            client
        };
        loop {
            let message = tokio::select! {
                message = requests.message() => message,
                () = answers.closed() => break,
            };
            let Ok(Some(request)) = message else { break };
            if let Err(fault) = Arc::clone(&self).handle(client, request).await {
                // A full queue means that the client does not read, so it does not matter what it is told.
                let _ = answers.try_send(Err(fault.into()));
                break;
            }
            if !self.open().clients.contains_key(&client) {
                let _ =
                    answers.try_send(Err(Status::resource_exhausted("you do not read what you are told")));
                break;
            }
        }
        let gone = tokio::task::spawn_blocking(move || self.leave(client));
        // The task does not panic; if the runtime is shut down, nobody is left to be told.
        let _ = gone.await;
    }

    /// Handles a message.
    ///
    /// # Errors
    ///
    /// What ends the stream.
    async fn handle(self: Arc<Self>, client: u64, request: StreamMessageRequest) -> Result<(), Fault> {
        let wrong = match request.update {
            Some(StreamRequest::Arbitration(update)) => {
                let bid = tokio::task::spawn_blocking(move || {
                    // No write of the old primary is on its way when the new one is told.
                    let _quiet = self.device.quiesce();
                    let notices = self.device.arbiter().bid(client, &update)?;
                    self.tell(notices);
                    Ok(())
                });
                return bid.await.unwrap_or_else(|_| Err(Fault::gone()));
            }
            Some(StreamRequest::Packet(packet)) => {
                let details = PacketOutError { packet_out: Some(packet) };
                let details = StreamErrorDetails::PacketOut(details);
                if self.device.arbiter().is_primary(client) {
                    error(Code::Unimplemented, "the program has no packet_out header", details)
                } else {
                    error(Code::PermissionDenied, "only the primary sends packets", details)
                }
            }
            Some(StreamRequest::DigestAck(ack)) => {
                let details = DigestListAckError { digest_list_ack: Some(ack) };
                let details = StreamErrorDetails::DigestListAck(details);
                error(Code::Unimplemented, "the program has no digests", details)
            }
            Some(StreamRequest::Other(other)) => {
                let details = StreamErrorDetails::Other(StreamOtherError { other: Some(other) });
                error(Code::Unimplemented, "messages of other kinds are not known here", details)
            }
            None => return Err(Fault::invalid("a message without content")),
        };
        self.send(client, wrong);
        Ok(())
    }

    fn tell(&self, notices: Vec<Notice>) {
        for Notice { client, update } in notices {
            self.send(client, StreamResponse::Arbitration(update));
        }
    }

    fn send(&self, client: u64, update: StreamResponse) {
        let mut open = self.open();
        let answer = StreamMessageResponse { update: Some(update) };
        if open.clients.get(&client).is_some_and(|answers| answers.try_send(Ok(answer)).is_err()) {
            open.clients.remove(&client);
            drop(open);
            self.leave(client);
        }
    }

    /// Forgets a client, and tells the others if it was in charge.
    fn leave(&self, client: u64) {
        self.open().clients.remove(&client);
        let notices = self.device.arbiter().leave(client);
        self.tell(notices);
    }
}

fn error(code: Code, message: &str, details: StreamErrorDetails) -> StreamResponse {
    StreamResponse::Error(StreamError {
        canonical_code: code as i32,
        message: message.to_owned(),
        details: Some(details),
        ..StreamError::default()
    })
}
