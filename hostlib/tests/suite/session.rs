//! The control session against a control port played by the test, line by line.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use netfold::{Builder, Communicator, Error, Mode, ReduceOp};
use netfold_control::{Hold, Join, Refusal, Resume, ResumeTicket, SessionEvent, SessionRequest};
use netfold_io::vacant_address;

use crate::support::{self, HANG_GUARD};

/// A control port with one worker.
struct Port {
    reader: BufReader<TcpStream>,
    stream: TcpStream,
    /// Receives the worker's packets, and answers none.
    udp: UdpSocket,
}

impl Port {
    fn read(&mut self) -> Option<SessionRequest> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
        }
    }

    fn send(&mut self, event: &SessionEvent) {
        let mut line = serde_json::to_vec(event).unwrap();
        line.push(b'\n');
        self.stream.write_all(&line).unwrap();
    }

    fn admit(&mut self) {
        let mut admission = support::admission(1, 16, 5);
        admission.udp_port = self.udp.local_addr().unwrap().port();
        self.send(&SessionEvent::Admitted(admission));
    }
}

impl Port {
    fn over(stream: TcpStream, udp: UdpSocket) -> Self {
        Self { reader: BufReader::new(stream.try_clone().unwrap()), stream, udp }
    }
}

/// Plays the port in a thread, after it has read the join request; returns what the worker is to connect with.
fn port(play: impl FnOnce(Port, SessionRequest) + Send + 'static) -> (Builder, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let builder = Communicator::builder()
        .job("test")
        .rank(1)
        .world_size(2)
        .mode(Mode::Bfp16)
        .slots(64)
        .switch(listener.local_addr().unwrap())
        .unwrap();
    let thread = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut port = Port::over(stream, udp);
        let join = port.read().unwrap();
        play(port, join);
    });
    (builder, thread)
}

#[test]
fn a_worker_joins_and_sends_heartbeats() {
    let (builder, port) = port(|mut port, join| {
        let SessionRequest::Join(join) = join else { panic!("{join:?}") };
        let Join { udp_port, datagram_max, .. } = join;
        assert_ne!(udp_port, 0);
        assert!(datagram_max > 60_000, "the path is the loopback interface: {datagram_max}");
        // Sockets: it can send from several ports.
        let expected =
            Join { datagram_max, udp_ports: 0, ..Join::new("test", (1, 2), Mode::Bfp16, 64, udp_port) };
        assert_eq!(join, expected);
        port.send(&SessionEvent::Alive {}); // while the others are awaited
        port.admit();
        assert!(matches!(port.read(), Some(SessionRequest::Alive { .. })));
        port.send(&SessionEvent::Alive {});
        // The worker's packets come from the announced port.
        let mut bytes = [0; 2048];
        let (_, from) = port.udp.recv_from(&mut bytes).unwrap();
        assert_eq!(from.port(), udp_port);
        port.send(&SessionEvent::Refused { reason: Refusal::Busy, message: "shutting down".into() });
        while port.read().is_some() {}
    });
    let comm = builder.connect().unwrap();
    let error = comm.barrier().unwrap_err();
    assert!(matches!(&error, Error::Refused { reason: Refusal::Busy, .. }), "{error}");
    drop(comm);
    port.join().unwrap();
}

/// A port that accepts a connection is not always a control port, nor a process that runs.
#[test]
fn a_port_that_accepts_connections_and_sends_nothing_is_named() {
    let (over, ended) = mpsc::channel::<()>();
    let (builder, port) = port(move |port, join| {
        assert!(matches!(join, SessionRequest::Join(_)));
        // Keeps the connection open.
        ended.recv().unwrap_err();
        drop(port);
    });
    let start = Instant::now();
    let error = builder.join_timeout(HANG_GUARD).connect().unwrap_err();
    assert!(start.elapsed() < HANG_GUARD, "before the join timeout");
    assert!(matches!(error, Error::SilentPort { .. }), "{error}");
    assert_eq!((error.kind(), error.advice()), ("connect", netfold::Advice::Retry));
    assert!(error.to_string().contains("answers no request to join"), "{error}");
    drop(over);
    port.join().unwrap();
}

/// Other ranks may come much later.
#[test]
fn a_port_that_sends_heartbeats_is_waited_for_until_the_join_timeout() {
    let (builder, port) = port(|mut port, _| {
        // Until the worker closes the connection.
        port.stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let waiting = |error: io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        while port.stream.read(&mut [0]).is_err_and(waiting) {
            port.send(&SessionEvent::Alive {});
        }
    });
    let error = builder.join_timeout(Duration::from_millis(3500)).connect().unwrap_err();
    assert!(matches!(error, Error::JoinTimeout { .. }), "{error}");
    port.join().unwrap();
}

#[test]
fn the_leave_request_arrives_before_the_connection_ends() {
    let (builder, port) = port(|mut port, _| {
        port.admit();
        let mut last = None;
        while let Some(request) = port.read() {
            port.send(&SessionEvent::Alive {}); // unread bytes at the closing side must not discard the leave request
            last = Some(request);
            if last == Some(SessionRequest::Leave {}) {
                break;
            }
        }
        assert_eq!(last, Some(SessionRequest::Leave {}));
    });
    let start = Instant::now();
    builder.connect().unwrap().leave().unwrap();
    port.join().unwrap();
    assert!(start.elapsed() < HANG_GUARD);
}

#[test]
fn a_worker_that_is_dropped_with_work_undone_is_lost_to_the_others() {
    let (builder, port) = port(|mut port, _| {
        port.admit();
        let mut left = false;
        while let Some(request) = port.read() {
            left |= request == SessionRequest::Leave {};
        }
        assert!(!left, "closed without a leave request");
    });
    let comm = builder.connect().unwrap();
    let handle = comm.all_reduce_async(vec![1.0f32; 10_000], ReduceOp::Sum).unwrap();
    drop(comm);
    assert_eq!(handle.wait().unwrap_err(), Error::Closed);
    port.join().unwrap();
}

/// Admits, lets `end` happen once the worker has sent packets, and returns the worker's error and how long it took.
fn lost(end: impl FnOnce(&mut Port) + Send + 'static) -> (Error, Duration) {
    let (builder, port) = port(|mut port, _| {
        port.admit();
        port.udp.recv_from(&mut [0; 2048]).unwrap();
        end(&mut port);
    });
    let comm = builder.connect().unwrap();
    let pending = comm.all_reduce_async(vec![1i32; 3], ReduceOp::Sum).unwrap();
    let start = Instant::now();
    let error = comm.all_reduce(&mut vec![1.0f32; 100_000], ReduceOp::Sum).unwrap_err();
    let took = start.elapsed();
    assert_eq!(pending.wait().unwrap_err(), error);
    assert_eq!(comm.barrier().unwrap_err(), error);
    drop(comm);
    port.join().unwrap();
    (error, took)
}

#[test]
fn a_lost_peer_is_reported_with_its_rank() {
    let (error, took) = lost(|port| {
        port.send(&SessionEvent::PeerLost { rank: 0, message: "its session closed".into() });
        while port.read().is_some() {}
    });
    assert!(
        matches!(&error, Error::PeerLost { rank: 0, message } if message == "its session closed"),
        "{error}"
    );
    assert!(took < HANG_GUARD, "{took:?}");
}

#[test]
fn a_switch_that_closes_the_connection_is_lost() {
    let (error, took) = lost(|_| {});
    assert_eq!(error.kind(), "switch_lost", "{error}");
    assert!(took < HANG_GUARD, "{took:?}");
}

#[test]
fn a_silent_switch_is_lost_when_its_lease_expires() {
    let (error, took) = lost(|port| {
        // Heartbeats are read and not answered.
        while port.read().is_some() {}
    });
    assert_eq!(error.kind(), "switch_lost", "{error}");
    assert!(took < HANG_GUARD, "{took:?}");
}

#[test]
fn malformed_events_end_the_job() {
    for malformed in [&b"{\"type\":\"dance\"}\n"[..], b"\xff\xfe\n", &[b'x'; 9000]] {
        let (error, _) = lost(|port| {
            port.stream.write_all(malformed).unwrap();
            let mut rest = Vec::new();
            let _ = port.reader.read_to_end(&mut rest);
        });
        assert_eq!(error.kind(), "control", "{error}");
    }
}

#[test]
fn refusals_and_closed_ports_are_errors_of_connect() {
    let (builder, thread) = port(|mut port, _| {
        port.send(&SessionEvent::Refused {
            reason: Refusal::RankTaken,
            message: "rank 1 is taken: choose another".into(),
        });
    });
    let error = builder.connect().unwrap_err();
    assert!(matches!(&error, Error::Refused { reason: Refusal::RankTaken, .. }), "{error}");
    assert!(error.to_string().contains("choose another"), "{error}");
    thread.join().unwrap();

    let (builder, thread) = port(|_, _| {});
    let error = builder.connect().unwrap_err();
    assert_eq!(error.kind(), "switch_lost", "{error}");
    thread.join().unwrap();

    let (builder, thread) = port(|mut port, _| while port.read().is_some() {});
    let error = builder.join_timeout(Duration::from_millis(200)).connect().unwrap_err();
    assert!(matches!(error, Error::JoinTimeout { .. }), "{error}");
    thread.join().unwrap();

    let (builder, thread) = port(|mut port, _| {
        let mut admission = support::admission(1, 16, 5);
        admission.lane_words = 1;
        port.send(&SessionEvent::Admitted(admission));
    });
    let error = builder.connect().unwrap_err();
    assert!(matches!(error, Error::Config(_)), "an inconsistent admission: {error}");
    thread.join().unwrap();

    let address = vacant_address().unwrap();
    let unconnected = Communicator::builder().job("x").rank(0).world_size(1).switch(address).unwrap();
    let error = unconnected.connect().unwrap_err();
    assert!(
        matches!(&error, Error::Connect { address: reported, .. } if *reported == address.to_string()),
        "{error}"
    );
}

/// A controller that gives a grace period and closes the first connection after the admission; `play` gets the others.
fn unreachable_controller(
    play: impl FnMut(usize, Port, SessionRequest) -> bool + Send + 'static,
) -> (Builder, thread::JoinHandle<Join>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let builder = Communicator::builder()
        .job("test")
        .rank(1)
        .world_size(2)
        .slots(64)
        .controller(listener.local_addr().unwrap())
        .unwrap()
        .tenant("acme", "sesame");
    let mut play = play;
    let thread = thread::spawn(move || {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let accept = || Port::over(listener.accept().unwrap().0, udp.try_clone().unwrap());
        let mut first = accept();
        let Some(SessionRequest::Join(join)) = first.read() else { panic!("a join comes first") };
        let mut admission = support::admission(2, 16, 5);
        (admission.udp_port, admission.grace_ms) = (first.udp.local_addr().unwrap().port(), 10_000);
        admission.switch = Some([127, 0, 0, 1].into());
        admission.ticket = Some(TICKET);
        first.send(&SessionEvent::Admitted(admission));
        drop(first);
        for attempt in 0.. {
            let mut port = accept();
            let request = port.read().unwrap();
            if play(attempt, port, request) {
                return join;
            }
        }
        unreachable!("the attempts have no end");
    });
    (builder, thread)
}

const TICKET: ResumeTicket = ResumeTicket([0x5a; 32]);

fn resume() -> SessionRequest {
    let (version, support) = (netfold_wire::VERSION, support::admission(2, 16, 5));
    SessionRequest::Resume(Resume {
        version,
        job: support.job,
        epoch: support.epoch,
        rank: 1,
        ticket: TICKET,
    })
}

#[test]
fn a_broken_session_is_resumed_and_receives_missed_events() {
    let (builder, port) = unreachable_controller(|attempt, mut port, request| {
        assert_eq!(request, resume());
        match attempt {
            0 => {} // closes without an answer
            1 => {
                port.send(&SessionEvent::Refused { reason: Refusal::Unavailable, message: "starting".into() })
            }
            _ => {
                port.send(&SessionEvent::Resumed {});
                assert!(matches!(port.read(), Some(SessionRequest::Alive { .. })));
                port.send(&SessionEvent::PeerLost { rank: 0, message: "it did not come back".into() });
                while port.read().is_some() {}
            }
        }
        attempt == 2
    });
    let comm = builder.bind([[127, 0, 0, 1].into()]).connect().unwrap();
    let attachment = &comm.attachments()[0];
    assert_eq!(
        (attachment.slots, attachment.epoch, attachment.switch.unwrap().ip()),
        (16, 7, [127, 0, 0, 1].into())
    );
    let error = comm.barrier().unwrap_err();
    assert!(
        matches!(&error, Error::PeerLost { rank: 0, message } if message == "it did not come back"),
        "{error}"
    );
    let control = comm.stats().control;
    assert_eq!((control.breaks, control.resumed), (1, 1));
    drop(comm);
    let join = port.join().unwrap();
    assert_eq!(join.address, Some([127, 0, 0, 1].into()));
    assert_eq!((join.tree, join.trees), (0, 1));
    let credentials = join.credentials.unwrap();
    assert_eq!((credentials.tenant.as_str(), credentials.token.as_str()), ("acme", "sesame"));
}

#[test]
fn a_job_that_was_ended_is_not_joined_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let builder = Communicator::builder()
        .job("test")
        .rank(1)
        .world_size(2)
        .slots(64)
        .controller(listener.local_addr().unwrap())
        .unwrap();
    let thread = thread::spawn(move || {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut port = Port::over(listener.accept().unwrap().0, udp);
        assert!(matches!(port.read(), Some(SessionRequest::Join(_))));
        port.send(&SessionEvent::Refused { reason: Refusal::Ended, message: "enough".into() });
        listener
    });
    let error = builder.connect().unwrap_err();
    assert!(
        matches!(&error, Error::Refused { reason: Refusal::Ended, message, .. } if message == "enough"),
        "{error}"
    );
    assert_eq!(error.advice(), netfold::Advice::Stop);
    let listener = thread.join().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "no second request");
}

#[test]
fn a_controller_without_the_job_is_the_loss_of_the_switch() {
    let (builder, port) = unreachable_controller(|_, mut port, request| {
        assert_eq!(request, resume());
        port.send(&SessionEvent::Refused { reason: Refusal::Unknown, message: "this job is over".into() });
        true
    });
    let error = builder.connect().unwrap().barrier().unwrap_err();
    assert_eq!((error.kind(), error.advice()), ("switch_lost", netfold::Advice::Retry), "{error}");
    assert!(error.to_string().contains("this job is over"), "{error}");
    port.join().unwrap();
}

#[test]
fn the_leave_request_is_sent_when_the_controller_is_reachable_again() {
    let (builder, port) = unreachable_controller(|_, mut port, request| {
        assert_eq!(request, resume());
        port.send(&SessionEvent::Resumed {});
        while let Some(request) = port.read() {
            if request == (SessionRequest::Leave {}) {
                return true;
            }
        }
        panic!("no leave request");
    });
    builder.connect().unwrap().leave().unwrap();
    port.join().unwrap();
}

/// The controller's order not to begin an iteration for some time holds back operations, and nothing else.
#[test]
fn an_operation_waits_for_the_end_of_a_hold() {
    const HOLD: Duration = Duration::from_millis(2500);
    let (ready, is_ready) = mpsc::channel();
    let (builder, port) = port(move |mut port, _| {
        port.admit();
        let ordered = Instant::now();
        port.send(&SessionEvent::Hold(Hold { after_us: 0, until_us: HOLD.as_micros() as u64 }));
        // A heartbeat that was sent after the order was read, even if the first was on its way already.
        for _ in 0..2 {
            while !matches!(port.read(), Some(SessionRequest::Alive { .. })) {}
            port.send(&SessionEvent::Alive {});
        }
        ready.send(()).unwrap();
        port.udp.set_read_timeout(Some(HANG_GUARD)).unwrap();
        port.udp.recv_from(&mut [0; 2048]).unwrap();
        assert!(ordered.elapsed() >= HOLD, "{:?}", ordered.elapsed());
        port.send(&SessionEvent::Refused { reason: Refusal::Busy, message: "shutting down".into() });
        while port.read().is_some() {}
    });
    let comm = builder.connect().unwrap();
    is_ready.recv_timeout(HANG_GUARD).unwrap();
    comm.barrier().unwrap_err();
    drop(comm);
    port.join().unwrap();
}

/// A worker of a resizable job finds a wrong address as soon as any other, although it would wait for a control port that it has spoken with.
#[test]
fn a_wrong_address_of_a_resizable_job_is_found_at_once() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let resizable = |builder: Builder| builder.resizable(true).join_timeout(HANG_GUARD);
    let start = Instant::now();
    let builder = Communicator::builder().job("test").rank(1).world_size(2).mode(Mode::Bfp16).slots(64);
    let error = resizable(builder.switch(closed).unwrap()).connect().unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");

    let (builder, port) = port(|port, enroll| {
        assert!(matches!(enroll, SessionRequest::Enroll(_)));
        drop(port);
    });
    let error = resizable(builder).connect().unwrap_err();
    assert!(matches!(error, Error::SwitchLost { .. }), "{error}");
    port.join().unwrap();

    let (over, ended) = mpsc::channel::<()>();
    let (builder, port) = self::port(move |port, _| {
        // Keeps the connection open.
        ended.recv().unwrap_err();
        drop(port);
    });
    let error = resizable(builder).connect().unwrap_err();
    assert!(matches!(error, Error::SilentPort { .. }), "{error}");
    assert!(start.elapsed() < HANG_GUARD, "before the join timeout");
    drop(over);
    port.join().unwrap();
}
