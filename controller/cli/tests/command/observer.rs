//! A client of a P4Runtime switch that changes nothing: it observes who is primary, and reads what the switch holds.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use netfold_p4_runtime::ports::{Call, ListRequest};
use netfold_p4_runtime::v1::{self, EntityKind, Replication, StreamRequest, StreamResponse};
use netfold_testkit::namespace;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::StreamExt;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// The election ids of the switch's primaries, as a client that bids less than any controller is notified of them.
pub(crate) struct Primaries(mpsc::Receiver<u128>);

impl Primaries {
    /// Observes the switch, from a namespace if one is given, until it is dropped.
    pub(crate) fn observe(namespace: Option<&str>, switch: SocketAddr) -> Self {
        let (sender, receiver) = mpsc::channel();
        let namespace = namespace.map(str::to_owned);
        thread::spawn(move || {
            let run = || runtime().block_on(observe(switch, &sender));
            match namespace {
                Some(namespace) => namespace::within(&namespace, run).unwrap(),
                None => run(),
            }
        });
        Self(receiver)
    }

    /// The next primary that differs from the last one.
    pub(crate) fn next_after(&self, last: u128) -> u128 {
        loop {
            let next = self.0.recv_timeout(Duration::from_secs(60)).expect("another primary");
            if next != last {
                return next;
            }
        }
    }

    /// All that are still to be read.
    pub(crate) fn rest(&self) -> Vec<u128> {
        self.0.try_iter().collect()
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn connect(switch: SocketAddr) -> Grpc<Channel> {
    let channel = Endpoint::from_shared(format!("http://{switch}")).unwrap().connect().await.unwrap();
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    grpc
}

async fn observe(switch: SocketAddr, primaries: &mpsc::Sender<u128>) {
    let bid = v1::MasterArbitrationUpdate {
        device_id: 1,
        election_id: Some(0.into()),
        ..v1::MasterArbitrationUpdate::default()
    };
    let bid = v1::StreamMessageRequest { update: Some(StreamRequest::Arbitration(bid)) };
    // The stream stays open behind its first message.
    let requests = tokio_stream::iter([bid]).chain(tokio_stream::pending());
    let path = PathAndQuery::from_static("/p4.v1.P4Runtime/StreamChannel");
    let codec = ProstCodec::<v1::StreamMessageRequest, v1::StreamMessageResponse>::default();
    let response = connect(switch).await.streaming(Request::new(requests), path, codec).await.unwrap();
    let mut messages = response.into_inner();
    while let Ok(Some(message)) = messages.message().await {
        if let Some(StreamResponse::Arbitration(update)) = message.update
            && let Some(id) = update.election_id
            && primaries.send(id.into()).is_err()
        {
            return;
        }
    }
}

/// The ports, table entries and multicast groups of a switch, as text, in order.
pub(crate) fn held(switch: SocketAddr) -> Vec<String> {
    runtime().block_on(async {
        let mut grpc = connect(switch).await;
        let codec = ProstCodec::<ListRequest, <ListRequest as Call>::Response>::default();
        let path = PathAndQuery::from_static(ListRequest::PATH);
        let ports = grpc.unary(Request::new(ListRequest {}), path, codec).await.unwrap().into_inner().ports;
        let mut all: Vec<String> = ports.iter().map(|port| format!("{port:?}")).collect();

        let groups = Replication::MulticastGroupEntry(v1::MulticastGroupEntry::default());
        let groups = v1::PacketReplicationEngineEntry { r#type: Some(groups) };
        let entities = [
            EntityKind::TableEntry(v1::TableEntry::default()),
            EntityKind::PacketReplicationEngineEntry(groups),
        ];
        let entities = entities.into_iter().map(Into::into).collect();
        let request = v1::ReadRequest { device_id: 1, entities, ..v1::ReadRequest::default() };
        let codec = ProstCodec::<v1::ReadRequest, v1::ReadResponse>::default();
        let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Read");
        grpc.ready().await.unwrap();
        let mut parts = grpc.server_streaming(Request::new(request), path, codec).await.unwrap().into_inner();
        while let Some(part) = parts.message().await.unwrap() {
            all.extend(part.entities.iter().map(|entity| format!("{entity:?}")));
        }
        all.sort();
        all
    })
}
