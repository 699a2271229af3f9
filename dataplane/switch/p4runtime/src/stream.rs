//! The stream of each client: arbitration, packets, and errors for unsupported messages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::{
    DigestListAckError, PacketIn, PacketOut, PacketOutError, StreamError, StreamErrorDetails,
    StreamMessageRequest, StreamMessageResponse, StreamOtherError, StreamRequest, StreamResponse,
};
use prost::Message;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::arbitration::Notice;
use crate::device::Device;
use crate::fault::Fault;
use crate::packets::PacketCount;

/// Messages queued for a client. A client that does not read is disconnected, as others would have to wait for it.
pub(crate) const WAITING_MAX: usize = 320;

/// Positions in a client's queue that packets leave free, so that a flood of them does not disconnect the client.
const RESERVED: usize = 64;

/// Packets of one client that are processed in one step, and their bytes.
const TOGETHER_MAX: usize = 64;
const TOGETHER_BYTES_MAX: usize = 256 << 10;

/// Longest packet, in bytes of the message, that an error about it contains.
const ECHO_MAX: usize = 64 << 10;

type StreamResult = Result<StreamMessageResponse, Status>;

/// All open streams.
pub(crate) struct Streams {
    device: Arc<Device>,
    packets: Arc<PacketCount>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    clients: BTreeMap<u64, mpsc::Sender<StreamResult>>,
}

impl Streams {
    pub(crate) fn new(device: Arc<Device>, packets: Arc<PacketCount>) -> Self {
        Self { device, packets, open: Mutex::default() }
    }

    /// Delivers the packets of the CPU port to the primaries until the switch ends.
    pub(crate) async fn deliver(self: Arc<Self>, mut packets: mpsc::Receiver<Vec<u8>>) {
        while let Some(payload) = packets.recv().await {
            let primaries: Vec<u64> = self.device.arbiter().primaries().collect();
            let open = self.open();
            let mut taken = false;
            for answers in primaries.iter().filter_map(|client| open.clients.get(client)) {
                if answers.capacity() > RESERVED {
                    let packet = PacketIn { payload: payload.clone(), metadata: Vec::new() };
                    let answer = StreamMessageResponse { update: Some(StreamResponse::Packet(packet)) };
                    taken |= answers.try_send(Ok(answer)).is_ok();
                }
            }
            drop(open);
            self.packets.count_in(taken);
        }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one client until its stream ends.
    pub(crate) async fn serve(
        self: Arc<Self>,
        mut requests: Streaming<StreamMessageRequest>,
        answers: mpsc::Sender<StreamResult>,
    ) {
        let client = {
            let mut open = self.open();
            open.next += 1;
            let client = open.next;
            open.clients.insert(client, answers.clone());
            client
        };
        // A message that was read while packets were collected, and is no packet.
        let mut next = None;
        loop {
            let message = match next.take() {
                Some(message) => message,
                None => tokio::select! {
                    message = requests.message() => message,
                    () = answers.closed() => break,
                },
            };
            let Ok(Some(request)) = message else { break };
            let handled = match request.update {
                Some(StreamRequest::Packet(packet)) => {
                    let packets;
                    (packets, next) = gather(packet, &mut requests).await;
                    self.packets_out(client, packets).await
                }
                update => Arc::clone(&self).handle(client, update).await,
            };
            if let Err(fault) = handled {
                // With a full queue the client does not read, so the status may be lost.
                let _ = answers.try_send(Err(fault.into()));
                break;
            }
            if !self.open().clients.contains_key(&client) {
                let _ =
                    answers.try_send(Err(Status::resource_exhausted("the client does not read its stream")));
                break;
            }
        }
        let device = Arc::clone(&self.device);
        let left = device.aside(move |_| self.leave(client));
        // The task does not panic; if the runtime is shut down, there is no client left.
        let _ = left.await;
    }

    /// Handles a message other than a packet.
    ///
    /// # Errors
    ///
    /// The error that ends the stream.
    async fn handle(self: Arc<Self>, client: u64, update: Option<StreamRequest>) -> Result<(), Fault> {
        let wrong = match update {
            Some(StreamRequest::Arbitration(update)) => {
                let device = Arc::clone(&self.device);
                let bid = device.aside(move |device| {
                    // No write of the old primary is in progress when the new one is notified.
                    let _quiet = device.quiesce();
                    let notices = device.arbiter().bid(client, &update)?;
                    self.notify(notices);
                    Ok(())
                });
                return bid.await.unwrap_or_else(|| Err(Fault::stopped()));
            }
            Some(StreamRequest::DigestAck(ack)) => {
                let details = DigestListAckError { digest_list_ack: Some(ack) };
                let details = StreamErrorDetails::DigestListAck(details);
                error(Code::Unimplemented, "the program has no digests", details)
            }
            Some(StreamRequest::Other(other)) => {
                let details = StreamErrorDetails::StreamOther(StreamOtherError { other: Some(other) });
                error(Code::Unimplemented, "messages of other kinds are not supported", details)
            }
            Some(StreamRequest::Packet(_)) | None => return Err(Fault::invalid("a message without content")),
        };
        self.send(client, wrong);
        Ok(())
    }

    /// Sends packets through the pipeline.
    ///
    /// # Errors
    ///
    /// The error that ends the stream.
    async fn packets_out(&self, client: u64, packets: Vec<PacketOut>) -> Result<(), Fault> {
        let given = packets.len();
        let sent = self.device.aside(move |device| device.packets_out(client, packets)).await;
        let refused = sent.ok_or_else(Fault::stopped)??;
        self.packets.count_out(given - refused.len());
        for (fault, packet) in refused {
            let packet_out = Some(packet).filter(|packet| packet.encoded_len() <= ECHO_MAX);
            let details = StreamErrorDetails::PacketOut(PacketOutError { packet_out });
            self.send(client, error(fault.code, &fault.message, details));
        }
        Ok(())
    }

    fn notify(&self, notices: Vec<Notice>) {
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

    /// Removes a client, and notifies the others if it was the primary.
    fn leave(&self, client: u64) {
        self.open().clients.remove(&client);
        let notices = self.device.arbiter().leave(client);
        self.notify(notices);
    }
}

/// A packet with those that have arrived after it, and the first message of another kind, if any.
async fn gather(
    first: PacketOut,
    requests: &mut Streaming<StreamMessageRequest>,
) -> (Vec<PacketOut>, Option<Result<Option<StreamMessageRequest>, Status>>) {
    let mut bytes = first.payload.len();
    let mut packets = vec![first];
    while packets.len() < TOGETHER_MAX && bytes < TOGETHER_BYTES_MAX {
        let message = tokio::select! {
            biased;
            message = requests.message() => message,
            () = std::future::ready(()) => break,
        };
        match message {
            Ok(Some(StreamMessageRequest { update: Some(StreamRequest::Packet(packet)) })) => {
                bytes += packet.payload.len();
                packets.push(packet);
            }
            other => return (packets, Some(other)),
        }
    }
    (packets, None)
}

fn error(code: Code, message: &str, details: StreamErrorDetails) -> StreamResponse {
    StreamResponse::Error(StreamError {
        canonical_code: code as i32,
        message: message.to_owned(),
        details: Some(details),
        ..StreamError::default()
    })
}
