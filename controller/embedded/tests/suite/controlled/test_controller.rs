//! The test's own controller: it forwards control sessions to switches' control ports, grants a grace period, and can fail,
//! restart and withdraw places, unnoticed by the switches.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use netfold_control::{
    Credentials, Join, MemberCounters, PathChallenge, Refusal, ResumeTicket, SessionEvent, SessionRequest,
};

const TICK: Duration = Duration::from_millis(50);

/// Identifies a worker after its admission: its ticket.
type Member = [u8; 32];

pub(crate) struct TestController(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    /// The control port of each tree's switch.
    switches: Mutex<Vec<SocketAddr>>,
    grace: Duration,
    /// The accepted token, if one is required.
    token: Option<String>,
    state: Mutex<State>,
    stopped: AtomicBool,
    /// Number of resumptions.
    resumed: AtomicUsize,
    /// Number of tickets.
    tickets: AtomicUsize,
    /// Counters that workers have reported.
    reports: Mutex<Vec<MemberCounters>>,
    /// Numbers of admissions and of refused joins.
    admitted: AtomicUsize,
    refused: AtomicUsize,
}

#[derive(Default)]
struct State {
    listener: Option<TcpListener>,
    /// Workers' connections, which can be cut.
    cuttable: Vec<TcpStream>,
    members: HashMap<Member, Arc<Mutex<MemberSession>>>,
    /// Whether joins are refused.
    closed: bool,
}

/// One admitted worker.
struct MemberSession {
    tree: usize,
    /// The session with the switch; `None` once it has ended.
    up: Option<TcpStream>,
    down: Option<TcpStream>,
    /// Since when the worker is disconnected.
    away: Option<Instant>,
    /// Events that could not be delivered meanwhile.
    undelivered: Vec<SessionEvent>,
}

impl TestController {
    pub(crate) fn start(switches: Vec<SocketAddr>, grace: Duration, token: Option<&str>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let shared = Arc::new(Shared {
            address: listener.local_addr().unwrap(),
            switches: Mutex::new(switches),
            grace,
            token: token.map(str::to_owned),
            state: Mutex::default(),
            stopped: AtomicBool::new(false),
            resumed: AtomicUsize::new(0),
            tickets: AtomicUsize::new(0),
            reports: Mutex::default(),
            admitted: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        });
        shared.serve(listener);
        Self(shared)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    pub(crate) fn resumed(&self) -> usize {
        self.0.resumed.load(Ordering::Relaxed)
    }

    /// Counters that workers have reported, in the order of their heartbeats.
    pub(crate) fn reports(&self) -> Vec<MemberCounters> {
        self.0.reports.lock().unwrap().clone()
    }

    pub(crate) fn admitted(&self) -> usize {
        self.0.admitted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> usize {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Fails: closes the listener and every connection.
    pub(crate) fn fail(&self) {
        let mut state = self.0.lock();
        state.listener = None;
        for stream in state.cuttable.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Restarts at the same address.
    pub(crate) fn restart(&self) {
        let listener = loop {
            match TcpListener::bind(self.0.address) {
                Ok(listener) => break listener,
                Err(error) => assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}"),
            }
            thread::sleep(Duration::from_millis(1));
        };
        self.0.serve(listener);
    }

    /// Breaks one connection.
    pub(crate) fn cut(&self, which: usize) {
        let mut state = self.0.lock();
        if !state.cuttable.is_empty() {
            let at = which % state.cuttable.len();
            let _ = state.cuttable.swap_remove(at).shutdown(Shutdown::Both);
        }
    }

    /// Withdraws every place at a tree's switch, and notifies the workers.
    pub(crate) fn lose(&self, tree: usize, message: &str) {
        let members = self.0.lock().members.clone();
        let of_tree = |session: &Mutex<MemberSession>| session.lock().unwrap().tree == tree;
        let lost: Vec<_> = members.into_iter().filter(|(_, session)| of_tree(session)).collect();
        for (member, _) in &lost {
            self.0.lock().members.remove(member);
        }
        // All are notified before any session with the switch ends: for each that ends, the switch reports a lost rank.
        for (_, session) in &lost {
            session.lock().unwrap().notify(SessionEvent::SwitchLost { message: message.into() });
        }
        for (_, session) in &lost {
            if let Some(up) = session.lock().unwrap().up.take() {
                let _ = up.shutdown(Shutdown::Both);
            }
        }
    }

    /// Whether joins are refused.
    pub(crate) fn set_closed(&self, closed: bool) {
        self.0.lock().closed = closed;
    }

    /// Another switch for a tree.
    pub(crate) fn set_switch(&self, tree: usize, switch: SocketAddr) {
        self.0.switches.lock().unwrap()[tree] = switch;
    }
}

impl Drop for TestController {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Relaxed);
        self.fail();
    }
}

impl MemberSession {
    fn notify(&mut self, event: SessionEvent) {
        let delivered = self.down.as_mut().is_some_and(|down| send_line(down, &event));
        if !delivered {
            self.undelivered.push(event);
        }
    }
}

fn send_line<T: serde::Serialize>(stream: &mut TcpStream, line: &T) -> bool {
    let mut bytes = serde_json::to_vec(line).unwrap();
    bytes.push(b'\n');
    stream.write_all(&bytes).is_ok()
}

/// Lines of a stream; `None` after a timeout, an error at the end.
struct Lines(BufReader<TcpStream>, Vec<u8>);

impl Lines {
    fn new(stream: &TcpStream) -> Self {
        stream.set_read_timeout(Some(TICK)).unwrap();
        Self(BufReader::new(stream.try_clone().unwrap()), Vec::new())
    }

    fn next<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>, ()> {
        match self.0.read_until(b'\n', &mut self.1) {
            Ok(_) if self.1.ends_with(b"\n") => {
                let line = std::mem::take(&mut self.1);
                Ok(Some(serde_json::from_slice(&line).unwrap()))
            }
            Ok(_) => Err(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
            Err(_) => Err(()),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(self: &Arc<Self>, listener: TcpListener) {
        listener.set_nonblocking(true).unwrap();
        self.lock().listener = Some(listener);
        let shared = Arc::clone(self);
        thread::spawn(move || {
            loop {
                let accepted = match &shared.lock().listener {
                    None => return,
                    Some(listener) => listener.accept(),
                };
                match accepted {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).unwrap();
                        stream.set_nodelay(true).unwrap();
                        let mut state = shared.lock();
                        if state.listener.is_none() {
                            return;
                        }
                        state.cuttable.push(stream.try_clone().unwrap());
                        drop(state);
                        let shared = Arc::clone(&shared);
                        thread::spawn(move || shared.accept(stream));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
        });
    }

    fn accept(self: &Arc<Self>, mut down: TcpStream) {
        let mut lines = Lines::new(&down);
        let first = loop {
            match lines.next::<SessionRequest>() {
                Ok(Some(request)) => break request,
                Ok(None) => {}
                Err(()) => return,
            }
        };
        match first {
            SessionRequest::Join(join) => self.join(down, lines, join),
            SessionRequest::Resume(resume) => {
                let ResumeTicket(member) = resume.ticket;
                let session = self.lock().members.get(&member).cloned();
                let Some(session) = session else {
                    let message = "that job has ended".into();
                    send_line(&mut down, &SessionEvent::Refused { reason: Refusal::Unknown, message });
                    return;
                };
                let mut held = session.lock().unwrap();
                if !send_line(&mut down, &SessionEvent::Resumed {}) {
                    return;
                }
                self.resumed.fetch_add(1, Ordering::Relaxed);
                (held.down, held.away) = (Some(down.try_clone().unwrap()), None);
                for event in std::mem::take(&mut held.undelivered) {
                    held.notify(event);
                }
                drop(held);
                self.serve_worker(&session, down, lines, member);
            }
            other => panic!("unexpected first message {other:?}"),
        }
    }

    fn refusal(&self, join: &Join) -> Option<SessionEvent> {
        let given = join.credentials.as_ref().map(|Credentials { token, .. }| token);
        if self.token.is_some() && given != self.token.as_ref() {
            let message = "no such tenant, or not its token: ask the administrator".into();
            return Some(SessionEvent::Refused { reason: Refusal::Credentials, message });
        }
        self.lock().closed.then(|| SessionEvent::Refused {
            reason: Refusal::Unavailable,
            message: "no places at the moment".into(),
        })
    }

    fn join(self: &Arc<Self>, mut down: TcpStream, mut lines: Lines, join: Join) {
        if let Some(refusal) = self.refusal(&join) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            send_line(&mut down, &refusal);
            return;
        }
        let tree = usize::from(join.tree);
        let switch = self.switches.lock().unwrap()[tree];
        let Ok(mut up) = TcpStream::connect(switch) else {
            let message = "the switch cannot be reached".into();
            send_line(&mut down, &SessionEvent::Refused { reason: Refusal::Unavailable, message });
            return;
        };
        let job = format!("{}-{tree}", join.job);
        send_line(&mut up, &SessionRequest::Join(Join { job, tree: 0, trees: 1, ..join }));
        let mut events = Lines::new(&up);
        let mut admission = loop {
            match events.next::<SessionEvent>() {
                Ok(Some(SessionEvent::Admitted(admission))) => break admission,
                Ok(Some(SessionEvent::Path(challenge))) => {
                    let switch = Some(IpAddr::from(Ipv4Addr::LOCALHOST));
                    send_line(&mut down, &SessionEvent::Path(PathChallenge { switch, ..challenge }));
                }
                Ok(Some(SessionEvent::Alive {}) | None) => {
                    match lines.next::<SessionRequest>() {
                        Ok(Some(token @ SessionRequest::Path { .. })) => drop(send_line(&mut up, &token)),
                        // If the worker gives up waiting, the session with the switch ends as well.
                        Err(()) => return,
                        Ok(_) if self.stopped.load(Ordering::Relaxed) => return,
                        Ok(_) => {}
                    }
                }
                Ok(Some(other)) => {
                    send_line(&mut down, &other);
                    return;
                }
                Err(()) => return,
            }
        };
        admission.switch = Some(IpAddr::from(Ipv4Addr::LOCALHOST));
        admission.grace_ms = self.grace.as_millis() as u32;
        let number = self.tickets.fetch_add(1, Ordering::Relaxed);
        let mut member: Member = [0; 32];
        member[..8].copy_from_slice(&number.to_be_bytes());
        admission.ticket = Some(ResumeTicket(member));
        let session = Arc::new(Mutex::new(MemberSession {
            tree,
            up: Some(up.try_clone().unwrap()),
            down: Some(down.try_clone().unwrap()),
            away: None,
            undelivered: Vec::new(),
        }));
        self.lock().members.insert(member, Arc::clone(&session));
        self.admitted.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(self);
        let upper = Arc::clone(&session);
        session.lock().unwrap().notify(SessionEvent::Admitted(admission));
        thread::spawn(move || shared.serve_switch(&upper, up, events, member));
        self.serve_worker(&session, down, lines, member);
    }

    /// Serves a worker's connection until it breaks.
    fn serve_worker(
        &self,
        session: &Mutex<MemberSession>,
        mut down: TcpStream,
        mut lines: Lines,
        member: Member,
    ) {
        let from = down.peer_addr().ok();
        loop {
            match lines.next::<SessionRequest>() {
                // Controllers have no reply to these.
                Ok(None | Some(SessionRequest::Pattern(_) | SessionRequest::Paths(_))) => {}
                Ok(Some(SessionRequest::Alive { counters })) => {
                    self.reports.lock().unwrap().extend(counters);
                    send_line(&mut down, &SessionEvent::Alive {});
                }
                Ok(Some(SessionRequest::Leave {})) => {
                    self.lock().members.remove(&member);
                    if let Some(up) = &mut session.lock().unwrap().up {
                        send_line(up, &SessionRequest::Leave {});
                        let _ = up.shutdown(Shutdown::Write);
                    }
                    let _ = down.shutdown(Shutdown::Both);
                    return;
                }
                Ok(Some(other)) => panic!("{other:?} in an established session"),
                Err(()) => {
                    let mut session = session.lock().unwrap();
                    // Unless another connection has replaced this one.
                    let port = |stream: &TcpStream| stream.peer_addr().ok();
                    if session.down.as_ref().and_then(port) == from {
                        (session.down, session.away) = (None, Some(Instant::now()));
                    }
                    return;
                }
            }
        }
    }

    /// Serves the session with the switch on behalf of the worker, and ends it when the worker stays away.
    fn serve_switch(
        &self,
        session: &Mutex<MemberSession>,
        mut up: TcpStream,
        mut events: Lines,
        member: Member,
    ) {
        let mut beat = Instant::now();
        loop {
            if beat.elapsed() > Duration::from_millis(500) {
                beat = Instant::now();
                send_line(&mut up, &SessionRequest::ALIVE);
            }
            match events.next::<SessionEvent>() {
                Ok(Some(SessionEvent::Alive {}) | None) => {}
                Ok(Some(event)) => session.lock().unwrap().notify(event),
                Err(()) => {
                    let mut session = session.lock().unwrap();
                    if session.up.take().is_some() && self.lock().members.remove(&member).is_some() {
                        session.notify(SessionEvent::SwitchLost { message: "its switch is lost".into() });
                    }
                    return;
                }
            }
            let away = session.lock().unwrap().away;
            if away.is_some_and(|since| since.elapsed() > self.grace) || self.stopped.load(Ordering::Relaxed)
            {
                self.lock().members.remove(&member);
                session.lock().unwrap().up = None;
                let _ = up.shutdown(Shutdown::Both);
                let _ = up.read(&mut [0; 64]);
                return;
            }
        }
    }
}
