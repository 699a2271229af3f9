//! Controllers of other versions. There is no release yet whose protocol differs, so these are made of the present one.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

use netfold_server::VERSION_HEADER;
use netfold_wire::VERSION;
use tonic::codegen::http::{HeaderValue, Response};
use tonic::service::Routes;
use tonic::transport::Server;
use tower::util::MapResponseLayer;

/// A workers' port to which the worker's version differs from its own by `difference`: it passes sessions on to a controller's port,
/// with another version in the first line. Ends with the process.
pub(crate) fn workers(controller: SocketAddr, difference: i8) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound port has an address");
    std::thread::spawn(move || {
        for worker in listener.incoming().flatten() {
            // A worker that closes early is its own test's failure.
            std::thread::spawn(move || pass_on(&worker, controller, difference));
        }
    });
    address
}

fn pass_on(mut worker: &TcpStream, controller: SocketAddr, difference: i8) -> std::io::Result<()> {
    let mut port = TcpStream::connect(controller)?;
    let mut join = String::new();
    BufReader::new(worker).read_line(&mut join)?;
    let other = VERSION.saturating_add_signed(difference);
    let own = format!("\"version\":{VERSION}");
    assert!(join.contains(&own), "a join names its version: {join}");
    port.write_all(join.replace(&own, &format!("\"version\":{other}")).as_bytes())?;
    std::io::copy(&mut port, &mut worker)?;
    worker.shutdown(Shutdown::Both)
}

/// A gRPC server of another release, which has none of this one's calls. Ends with the process.
pub(crate) fn grpc(release: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.set_nonblocking(true).expect("a socket of our own");
    let address = listener.local_addr().expect("a bound port has an address");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let release = HeaderValue::from_static(release);
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let named = move |mut response: Response<_>| {
                response.headers_mut().insert(VERSION_HEADER, release.clone());
                response
            };
            let server = Server::builder().layer(MapResponseLayer::new(named)).add_routes(Routes::default());
            server.serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)).await
        })
    });
    address
}
