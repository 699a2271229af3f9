//! The exchange by TCP: stragglers, refused ranks, unauthenticated connections.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use netfold_collectives::mesh::{
    EXCHANGE_MAX, Exchange, ExchangeError, FnExchange, Mesh, MeshConfig, Refusal, TcpRendezvous,
};
use netfold_collectives::{DType, ReduceOp};

use crate::mesh::group::{HANG, ranks};

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

fn client(addr: SocketAddr, rank: u16, world: u16) -> TcpRendezvous {
    TcpRendezvous::new(addr, "job", rank, world, HANG).unwrap()
}

#[test]
fn ranks_rendezvous_exchange_and_make_a_mesh() {
    let (listener, addr) = listener();
    let listener = Arc::new(listener);
    ranks(4, move |rank| {
        let mut exchange = match rank {
            0 => TcpRendezvous::host(listener.try_clone().unwrap(), "job", 4, HANG).unwrap(),
            _ => client(addr, rank, 4),
        };
        for round in 0..3 {
            let mine = vec![rank as u8; usize::from(rank) * 1000 * round];
            let all = exchange.all_gather(&mine).unwrap();
            let expected: Vec<_> =
                (0..4).map(|rank| vec![rank as u8; usize::from(rank as u8) * 1000 * round]).collect();
            assert_eq!(all, expected);
        }
        assert_eq!(exchange.local_ip(), Some(addr.ip()));
        let mut mesh = Mesh::connect(&mut exchange, MeshConfig::default()).unwrap();
        assert_eq!(mesh.local_ip(), addr.ip());
        let mut sum = 1.5f32.to_ne_bytes();
        mesh.all_reduce(DType::F32, ReduceOp::Sum, &mut sum).unwrap();
        assert_eq!(f32::from_ne_bytes(sum), 6.0);
    });
}

#[test]
fn a_rank_may_start_before_rank_0() {
    // The port is free again when the listener is dropped; rank 1 tries before rank 0 listens.
    let (early, addr) = listener();
    drop(early);
    let first = thread::spawn(move || client(addr, 1, 2).all_gather(b"first").unwrap());
    thread::sleep(Duration::from_millis(150));
    let mut server = client(addr, 0, 2);
    let all = server.all_gather(b"second").unwrap();
    assert_eq!(all, [b"second".to_vec(), b"first".to_vec()]);
    assert_eq!(first.join().unwrap(), all);
}

#[test]
fn refused_ranks_get_the_reason_and_do_not_disturb() {
    let (listener, addr) = listener();
    let server = thread::spawn(move || {
        TcpRendezvous::host(listener, "job", 3, HANG).unwrap().all_gather(b"0").unwrap()
    });
    // Two processes with one rank: the first to connect stays.
    let (done, results) = mpsc::channel();
    for _ in 0..2 {
        let done = done.clone();
        thread::spawn(move || done.send(client(addr, 1, 3).all_gather(b"1")).unwrap());
    }
    let refusal = |job: &str, rank, world| match TcpRendezvous::new(addr, job, rank, world, HANG)
        .unwrap()
        .all_gather(b"x")
    {
        Err(ExchangeError::Refused { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal("other", 2, 3), Refusal::OtherJob);
    assert_eq!(refusal("job", 2, 4), Refusal::OtherWorld { world: 3 });
    let duplicate = results.recv_timeout(HANG).unwrap().unwrap_err();
    assert!(matches!(duplicate, ExchangeError::Refused { why: Refusal::Duplicate, .. }), "{duplicate}");
    // Silent connections, so many that the exchange would time out if each were awaited; garbage; half a hello.
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let mut garbage = TcpStream::connect(addr).unwrap();
    garbage.write_all(&[0xff; 4096]).unwrap();
    let mut half = TcpStream::connect(addr).unwrap();
    half.write_all(b"nfrendz\x01").unwrap();
    let last = client(addr, 2, 3).all_gather(b"2").unwrap();
    assert_eq!(server.join().unwrap(), last);
    assert_eq!(results.recv_timeout(HANG).unwrap().unwrap(), last);
    drop((silent, half));
}

#[test]
fn a_restarted_rank_replaces_its_lost_connection() {
    let (listener, addr) = listener();
    let server = thread::spawn(move || {
        TcpRendezvous::host(listener, "job", 3, HANG).unwrap().all_gather(b"0").unwrap()
    });
    {
        // Sends a valid hello, and closes.
        let mut hello = [0; 80];
        hello[..8].copy_from_slice(b"nfrendz\x01");
        hello[8] = 1;
        hello[10] = 3;
        hello[12] = 3;
        hello[16..19].copy_from_slice(b"job");
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(&hello).unwrap();
        let mut welcome = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut welcome).unwrap();
        assert_eq!(welcome[8], 0);
    }
    let again = thread::spawn(move || client(addr, 1, 3).all_gather(b"again").unwrap());
    let last = client(addr, 2, 3).all_gather(b"2").unwrap();
    assert_eq!(last[1], b"again");
    assert_eq!(again.join().unwrap(), last);
    assert_eq!(server.join().unwrap(), last);
}

#[test]
fn missing_ranks_are_reported_at_the_timeout() {
    let (listener, addr) = listener();
    let wait = Duration::from_millis(200);
    let other = thread::spawn(move || client(addr, 2, 4).all_gather(b"2"));
    let error = TcpRendezvous::host(listener, "job", 4, wait).unwrap().all_gather(b"0").unwrap_err();
    match error {
        ExchangeError::Missing { ranks, .. } => assert!(ranks.contains(&1) && ranks.contains(&3)),
        other => panic!("{other}"),
    }
    assert!(matches!(
        other.join().unwrap(),
        Err(ExchangeError::Lost { rank: 0, .. } | ExchangeError::Unreachable { .. })
    ));
    let error = TcpRendezvous::new(addr, "job", 1, 2, wait).unwrap().all_gather(b"").unwrap_err();
    assert!(matches!(error, ExchangeError::Unreachable { .. }), "{error}");
}

#[test]
fn another_service_at_the_address_is_detected() {
    let (listener, addr) = listener();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        stream
    });
    let error = client(addr, 1, 2).all_gather(b"").unwrap_err();
    assert!(matches!(error, ExchangeError::NotRendezvous { .. }), "{error}");
    drop(server.join());
}

/// Each side of another version learns of it at once, and from the client's message which side is older.
#[test]
fn another_version_of_the_rendezvous_is_named() {
    let (listener, addr) = listener();
    let old = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Read::read_exact(&mut stream, &mut [0; 80]).unwrap();
        stream.write_all(b"nfrendz\x00\x05\0\0\0").unwrap();
    });
    let error = client(addr, 1, 2).all_gather(b"").unwrap_err();
    let expected = format!(
        "rank 0 at {addr} uses version 0 of the rendezvous and this rank version 1: upgrade Netfold on rank 0's host"
    );
    assert_eq!(error.to_string(), expected);
    old.join().unwrap();

    let (listener, addr) = self::listener();
    let server = thread::spawn(move || {
        TcpRendezvous::host(listener, "job", 2, HANG).unwrap().all_gather(b"0").unwrap()
    });
    let mut new = TcpStream::connect(addr).unwrap();
    let mut hello = [0; 80];
    hello[..8].copy_from_slice(b"nfrendz\x02");
    new.write_all(&hello).unwrap();
    let mut answer = [0; 12];
    std::io::Read::read_exact(&mut new, &mut answer).unwrap();
    assert_eq!(answer, *b"nfrendz\x01\x05\0\0\0");
    assert_eq!(client(addr, 1, 2).all_gather(b"1").unwrap(), server.join().unwrap());
}

#[test]
fn invalid_arguments_are_refused() {
    let (_listener, addr) = listener();
    let new = |job, rank, world| TcpRendezvous::new(addr, job, rank, world, HANG).map(|_| ()).unwrap_err();
    assert!(matches!(new("job", 3, 3), ExchangeError::Rank { .. }));
    assert!(matches!(new("", 1, 3), ExchangeError::JobName { .. }));
    let long = "j".repeat(65);
    assert!(matches!(new(&long, 1, 3), ExchangeError::JobName { .. }));
    assert!(matches!(new("job", 0, 3), ExchangeError::Listen { .. }));
    let too_long = client(addr, 1, 2).all_gather(&vec![0; EXCHANGE_MAX + 1]).unwrap_err();
    assert!(matches!(too_long, ExchangeError::TooLong { .. }));
    let mut short = FnExchange::new(0, 2, |mine: &[u8]| Ok(vec![mine.to_vec()])).unwrap();
    assert!(matches!(short.all_gather(b"x").unwrap_err(), ExchangeError::Count { world: 2, got: 1 }));
    let mut broken = FnExchange::new(0, 1, |_: &[u8]| Err("store is gone".into())).unwrap();
    assert!(matches!(broken.all_gather(b"x").unwrap_err(), ExchangeError::Callback(_)));
}
