//! The control port over real sockets.

use crate::fake::Fake;
use netfold_control::{Admission, Join, Mode, Refusal, SessionEvent, SessionRequest};
use netfold_controller::admission::Config;
use netfold_controller::jobs::{EndReason, JobEvent};
use netfold_controller::plane::Plane;
use netfold_controller::{Server, ServerError, ServerHandle};
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// No test waits longer than this for a state.
const PATIENCE: Duration = Duration::from_secs(20);

struct Port {
    handle: ServerHandle,
    fake: Fake,
    events: mpsc::Receiver<JobEvent>,
}

impl Port {
    fn start(fake: Fake, config: Config) -> Self {
        let (sender, events) = mpsc::channel();
        let server = Server::bind(([127, 0, 0, 1], 0).into(), config, fake.boxed())
            .expect("port 0 is free")
            .on_event(move |event| drop(sender.send(event.clone())));
        Self { handle: server.spawn().expect("a thread"), fake, events }
    }

    fn connect(&self) -> Client {
        Client::new(self.handle.local_addr(), self.fake.clone())
    }

    fn join(&self, job: &str, rank: u16, world: u16, udp_port: u16) -> Client {
        let mut client = self.connect();
        client.say(&join(job, rank, world, udp_port));
        client
    }

    fn start_job(&self, job: &str, world: u16, udp_port: u16) -> (Vec<Client>, Admission) {
        let mut members: Vec<_> =
            (0..world).map(|rank| self.join(job, rank, world, udp_port + rank)).collect();
        members.iter_mut().for_each(Client::validate);
        let admissions: Vec<_> = members.iter_mut().map(Client::admission).collect();
        let same = |(rank, admission): (usize, &Admission)| {
            *admission == Admission { own_bit: 1 << rank, ..admissions[0].clone() }
        };
        assert!(admissions.iter().enumerate().all(same), "{admissions:?}");
        (members, admissions[0].clone())
    }

    fn end(&self, job: &str) -> EndReason {
        loop {
            match self.events.recv_timeout(PATIENCE).expect("the job ends") {
                JobEvent::Ended { name, reason, .. } if name.job == job => return reason,
                _ => {}
            }
        }
    }

    fn finish(self) {
        self.handle.shutdown().expect("the server and its driver did not fail");
        assert!(self.fake.lock().is_empty(), "the switch holds something still");
    }
}

struct Client {
    reader: BufReader<TcpStream>,
    stream: TcpStream,
    /// Its switch, and where its packets come from.
    fake: Fake,
    endpoint: Option<SocketAddr>,
}

impl Client {
    fn new(address: SocketAddr, fake: Fake) -> Self {
        let stream = TcpStream::connect(address).expect("the port listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time above 0");
        Self {
            reader: BufReader::new(stream.try_clone().expect("a second handle")),
            stream,
            fake,
            endpoint: None,
        }
    }

    fn say(&mut self, request: &SessionRequest) {
        if let SessionRequest::Join(join) = request {
            self.endpoint = Some(([127, 0, 0, 1], join.udp_port).into());
        }
        let mut line = serde_json::to_vec(request).expect("requests are JSON");
        line.push(b'\n');
        self.stream.write_all(&line).expect("the server reads");
    }

    /// The next event that is not a heartbeat; `None` at the end of the session.
    fn receive(&mut self) -> Option<SessionEvent> {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "no end and no event but heartbeats");
            match self.receive_any()? {
                SessionEvent::Alive {} | SessionEvent::PeerLeft { .. } => {}
                event => return Some(event),
            }
        }
    }

    fn receive_any(&mut self) -> Option<SessionEvent> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).expect("every line is an event")),
            Err(error) => panic!("no end and no event: {error}"),
        }
    }

    /// Validates its path when it is challenged.
    fn validate(&mut self) {
        let challenge = self.receive();
        assert!(matches!(challenge, Some(SessionEvent::Path(_))), "{challenge:?}");
        let token = self.endpoint.and_then(|endpoint| self.fake.lock().path_token(endpoint));
        self.say(&SessionRequest::Path { token: token.expect("the switch has a token") });
    }

    fn admission(&mut self) -> Admission {
        match self.receive() {
            Some(SessionEvent::Admitted(admission)) => admission,
            other => panic!("not admitted: {other:?}"),
        }
    }

    /// The refusal that is the session's last event.
    fn refusal(&mut self) -> (Refusal, String) {
        match self.receive() {
            Some(SessionEvent::Refused { reason, message }) => {
                assert_eq!(self.receive(), None);
                (reason, message)
            }
            other => panic!("not refused: {other:?}"),
        }
    }

    /// The rank whose loss is the session's last event.
    fn peer_lost(&mut self) -> u16 {
        match self.receive() {
            Some(SessionEvent::PeerLost { rank, .. }) => {
                assert_eq!(self.receive(), None);
                rank
            }
            other => panic!("no peer is lost: {other:?}"),
        }
    }
}

fn join(job: &str, rank: u16, world: u16, udp_port: u16) -> SessionRequest {
    SessionRequest::Join(Join::new(job, (rank, world), Mode::Bfp16, 256, udp_port))
}

fn config() -> Config {
    Config::new(1)
}

fn port() -> Port {
    Port::start(Fake::new(1024, 64, 16), config())
}

#[test]
fn four_workers_are_admitted_and_leave() {
    let port = port();
    let (mut members, admission) = port.start_job("demo", 4, 5000);
    assert_eq!((admission.slots, admission.lane_words, admission.udp_port), (256, 352, 20038));
    {
        let switch = port.fake.lock();
        assert_eq!(switch.admitted().len(), 4);
        let peers: Vec<_> = switch.ports.values().map(ToString::to_string).collect();
        assert_eq!(peers, ["127.0.0.1:5000", "127.0.0.1:5001", "127.0.0.1:5002", "127.0.0.1:5003"]);
    }
    for member in &mut members {
        member.say(&SessionRequest::Leave {});
        assert_eq!(member.receive(), None);
    }
    assert_eq!(port.end("demo"), EndReason::Finished);
    port.finish();
}

#[test]
fn a_lost_worker_is_reported_at_once_and_the_next_job_starts() {
    // No lease ends in the time that a member waits for a message, so that what it receives is due to the closed connection.
    let port = Port::start(Fake::new(1024, 64, 16), Config { lease: 10 * PATIENCE, ..config() });
    let (mut members, first) = port.start_job("demo", 4, 5000);
    let (mut others, beside) = port.start_job("beside", 2, 6000);
    let end = |admission: &Admission| admission.key;
    assert_ne!(end(&first), end(&beside));
    drop(members.remove(2));
    for member in &mut members {
        assert_eq!(member.peer_lost(), 2);
    }
    let (_members, second) = port.start_job("demo", 4, 5000);
    assert!(second.epoch > first.epoch && second.job != first.job);
    others[0].say(&SessionRequest::Leave {});
    assert_eq!(others[0].receive(), None, "the other job continues and ends gracefully");
    others[1].say(&SessionRequest::Leave {});
    assert_eq!(port.end("beside"), EndReason::Finished);
    port.finish();
}

#[test]
fn two_jobs_have_disjoint_ranges() {
    let port = port();
    let (_a, a) = port.start_job("a", 2, 5000);
    let (_b, b) = port.start_job("b", 2, 6000);
    assert_ne!(a.job, b.job);
    let admitted = port.fake.lock().admitted();
    let range = |job| {
        let entry = admitted.iter().find(|entry| entry.job == job).expect("the job has entries");
        entry.first..entry.first + entry.slots
    };
    let (a, b) = (range(a.job), range(b.job));
    assert!(a.end <= b.start || b.end <= a.start, "{a:?} and {b:?}");
    port.finish();
}

#[test]
fn a_silent_member_is_lost_after_the_lease() {
    let mut config = config();
    config.lease = Duration::from_secs(1);
    config.heartbeat = Duration::from_millis(100);
    let port = Port::start(Fake::new(1024, 64, 16), config);
    let (mut members, _) = port.start_job("demo", 2, 5000);
    let start = Instant::now();
    // Rank 0 answers every heartbeat; rank 1 only receives.
    let lost = loop {
        match members[0].receive_any() {
            Some(SessionEvent::PeerLeft { .. }) => {}
            Some(SessionEvent::Alive {}) => members[0].say(&SessionRequest::ALIVE),
            Some(SessionEvent::PeerLost { rank, message }) => break (rank, message),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(lost.0, 1);
    assert!(lost.1.contains("no heartbeat"), "{}", lost.1);
    assert!(start.elapsed() >= Duration::from_millis(900), "took {:?}", start.elapsed());
    assert_eq!(members[1].peer_lost(), 1);
    port.finish();
}

#[test]
fn garbage_is_answered_and_affects_no_other_session() {
    let port = port();
    let mut first = port.join("demo", 0, 2, 5000);
    let long = vec![b'{'; 100_000];
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\n", b"{\"type\":\"join\"}\n", b"\xff\xfe\0\n", b"[]\n", &long]
    {
        let mut client = port.connect();
        // The server may close before it has read all of it.
        let _ = client.stream.write_all(garbage);
        let (reason, message) = client.refusal();
        assert_eq!(reason, Refusal::Protocol, "{message}");
    }
    let mut version = port.connect();
    version.stream.write_all(b"{\"type\":\"join\",\"version\":9,\"more\":1}\n").expect("the server reads");
    assert_eq!(version.refusal().0, Refusal::Version);
    let mut second = port.join("demo", 1, 2, 5001);
    first.validate();
    second.validate();
    assert_eq!(Admission { own_bit: 2, ..first.admission() }, second.admission());
    // Garbage from a member ends the job.
    second.stream.write_all(b"?\n").expect("the server reads");
    assert_eq!(second.refusal().0, Refusal::Protocol);
    assert_eq!(first.peer_lost(), 1);
    port.finish();
}

#[test]
fn half_open_sessions_end() {
    let mut config = config();
    config.lease = Duration::from_millis(300);
    config.join_timeout = Duration::from_millis(600);
    let port = Port::start(Fake::new(1024, 64, 16), config);
    // Half a line and then nothing.
    let mut half = port.connect();
    half.stream.write_all(b"{\"type\":").expect("the server reads");
    assert_eq!(half.refusal().0, Refusal::Protocol);
    // The worker has closed its end: it is lost, and its rank is free.
    let mut shut = port.join("demo", 0, 2, 5000);
    shut.stream.shutdown(Shutdown::Write).expect("the connection is open");
    assert_eq!(shut.receive(), None);
    let mut alone = port.join("demo", 0, 2, 5000);
    let (reason, message) = alone.refusal();
    assert_eq!(reason, Refusal::PeersMissing);
    assert!(message.contains("rank 1 of job 'demo'"), "{message}");
    port.finish();
}

#[test]
fn too_many_sessions_are_refused_with_the_reason() {
    let mut config = config();
    config.sessions_max = 2;
    config.heartbeat = Duration::from_millis(50);
    let port = Port::start(Fake::new(1024, 64, 16), config);
    let held = [port.join("demo", 0, 3, 5000), port.join("demo", 1, 3, 5001)];
    assert_eq!(port.join("demo", 2, 3, 5002).refusal().0, Refusal::Busy);
    let [_first, second] = held;
    drop(second);
    // Its place is free as soon as the server has detected it.
    let start = Instant::now();
    while port.join("demo", 1, 3, 5002).receive_any() != Some(SessionEvent::Alive {}) {
        assert!(start.elapsed() < PATIENCE, "no place gets free");
    }
    port.finish();
}

#[test]
fn a_slow_switch_delays_no_session() {
    let fake = Fake::new(1024, 64, 16);
    let port = Port::start(fake.clone(), config());
    let (mut running, _) = port.start_job("a", 2, 5000);
    // The switch hangs while it sets up another job.
    let (release, wait) = mpsc::channel::<()>();
    fake.lock().gate = Some(wait);
    let mut waiting: Vec<_> = (0..2).map(|rank| port.join("b", rank, 2, 6000 + rank)).collect();
    drop(running.remove(0));
    assert_eq!(running[0].peer_lost(), 0);
    assert_eq!(port.join("b", 0, 2, 7000).refusal().0, Refusal::JobRunning);
    drop(release);
    waiting.iter_mut().for_each(Client::validate);
    assert_eq!(Admission { own_bit: 2, ..waiting[0].admission() }, waiting[1].admission());
    port.finish();
}

#[test]
fn a_switch_that_hangs_delays_no_job_elsewhere() {
    let fakes = [Fake::new(1024, 64, 16), Fake::new(1024, 64, 16)];
    let plane = Plane::queues(fakes.iter().map(Fake::boxed).collect());
    let server = Server::over(([127, 0, 0, 1], 0).into(), config(), plane).expect("port 0 is free");
    let handle = server.spawn().expect("a thread");
    let join = |job: &str, udp_port: u16, fake: &Fake| {
        let mut client = Client::new(handle.local_addr(), fake.clone());
        client.say(&join(job, 0, 1, udp_port));
        client
    };
    // The first job has its place at the first switch, the second at the other.
    let (release, wait) = mpsc::channel::<()>();
    fakes[0].lock().gate = Some(wait);
    let mut stuck = join("stuck", 5000, &fakes[0]);
    let mut free = join("free", 6000, &fakes[1]);
    free.validate();
    let _ = free.admission();
    free.say(&SessionRequest::Leave {});
    assert_eq!(free.receive(), None);
    drop(release);
    stuck.validate();
    let _ = stuck.admission();
    handle.shutdown().expect("the server and its drivers did not fail");
    assert!(fakes.iter().all(|fake| fake.lock().is_empty()));
}

#[test]
fn a_shutdown_tells_the_workers_and_empties_the_switch() {
    let mut config = config();
    config.heartbeat = Duration::from_millis(50);
    let port = Port::start(Fake::new(1024, 64, 16), config);
    let (mut members, _) = port.start_job("demo", 2, 5000);
    let mut waiting = port.join("other", 0, 2, 6000);
    assert_eq!(waiting.receive_any(), Some(SessionEvent::Alive {}), "it has joined");
    assert!(!port.handle.is_finished());
    port.handle.shutdown().expect("the server did not fail");
    assert!(port.fake.lock().is_empty());
    for client in members.iter_mut().chain([&mut waiting]) {
        assert_eq!(client.refusal().0, Refusal::Busy);
    }
    let end = port.events.iter().find(|event| matches!(event, JobEvent::Ended { .. }));
    assert!(matches!(end, Some(JobEvent::Ended { reason: EndReason::Shutdown, .. })));
}

#[test]
fn a_port_in_use_is_an_error_that_says_so() {
    let port = port();
    let fake = Fake::new(16, 4, 4);
    let error =
        Server::bind(port.handle.local_addr(), config(), fake.boxed()).err().expect("the port is taken");
    assert!(matches!(error, ServerError::Bind { .. }));
    assert!(error.to_string().contains("choose another"), "{error}");
    port.finish();
}

#[test]
fn a_driver_that_crashes_ends_the_server_with_an_error() {
    let fake = Fake::new(1024, 64, 16);
    fake.lock().failing = Box::new(|_| panic!("a bug in a driver"));
    let port = Port::start(fake, config());
    let mut members: Vec<_> = (0..2).map(|rank| port.join("demo", rank, 2, 5000 + rank)).collect();
    for member in &mut members {
        assert_eq!(member.receive(), None);
    }
    assert!(matches!(port.handle.shutdown(), Err(ServerError::Crashed)));
}
