//! A controller played by the test: it passes control sessions on to switches' own control ports, gives a grace time, and can die,
//! come back and give places up, while the switches know nothing of it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use netfold_control::{Credentials, Join, Refusal, SessionEvent, SessionRequest};

const TICK: Duration = Duration::from_millis(50);

/// What a worker is known by after it was admitted.
type Member = (u16, u32, u32, u16);

pub(crate) struct StandIn(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    /// The control port of each tree's switch.
    switches: Mutex<Vec<SocketAddr>>,
    grace: Duration,
    /// The only token that is let in, if any is asked for.
    token: Option<String>,
    state: Mutex<State>,
    over: AtomicBool,
    /// Resumptions so far.
    resumed: AtomicUsize,
    /// Places handed out so far, and joins refused.
    admitted: AtomicUsize,
    refused: AtomicUsize,
}

#[derive(Default)]
struct State {
    listener: Option<TcpListener>,
    /// Workers' connections, to be cut.
    cuttable: Vec<TcpStream>,
    members: HashMap<Member, Arc<Mutex<Seat>>>,
    /// Joins are refused meanwhile.
    closed: bool,
}

/// One admitted worker.
struct Seat {
    tree: usize,
    /// The session with the switch; none once it is over.
    up: Option<TcpStream>,
    down: Option<TcpStream>,
    /// Since when nobody is there.
    away: Option<Instant>,
    /// What happened meanwhile.
    unheard: Vec<SessionEvent>,
}

impl StandIn {
    pub(crate) fn start(switches: Vec<SocketAddr>, grace: Duration, token: Option<&str>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let shared = Arc::new(Shared {
            address: listener.local_addr().unwrap(),
            switches: Mutex::new(switches),
            grace,
            token: token.map(str::to_owned),
            state: Mutex::default(),
            over: AtomicBool::new(false),
            resumed: AtomicUsize::new(0),
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

    pub(crate) fn admitted(&self) -> usize {
        self.0.admitted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> usize {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Dies: nobody listens, and every connection breaks.
    pub(crate) fn die(&self) {
        let mut state = self.0.lock();
        state.listener = None;
        for stream in state.cuttable.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Comes back at the same address.
    pub(crate) fn revive(&self) {
        let listener = loop {
            match TcpListener::bind(self.0.address) {
                Ok(listener) => break listener,
                Err(error) => assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}"),
            }
            thread::sleep(Duration::from_millis(1));
        };
        self.0.serve(listener);
    }

    /// Breaks one connection after another, as a bad network would.
    pub(crate) fn cut(&self, which: usize) {
        let mut state = self.0.lock();
        if !state.cuttable.is_empty() {
            let at = which % state.cuttable.len();
            let _ = state.cuttable.swap_remove(at).shutdown(Shutdown::Both);
        }
    }

    /// Gives every place at a tree's switch up, and tells the workers.
    pub(crate) fn lose(&self, tree: usize, message: &str) {
        let members = self.0.lock().members.clone();
        let of_tree = |seat: &Mutex<Seat>| seat.lock().unwrap().tree == tree;
        let lost: Vec<_> = members.into_iter().filter(|(_, seat)| of_tree(seat)).collect();
        for (member, _) in &lost {
            self.0.lock().members.remove(member);
        }
        // All are told before any session with the switch ends: of each that ends, the switch says that a rank is gone.
        for (_, seat) in &lost {
            seat.lock().unwrap().tell(SessionEvent::SwitchLost { message: message.into() });
        }
        for (_, seat) in &lost {
            if let Some(up) = seat.lock().unwrap().up.take() {
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

impl Drop for StandIn {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
        self.die();
    }
}

impl Seat {
    fn tell(&mut self, event: SessionEvent) {
        let told = self.down.as_mut().is_some_and(|down| say(down, &event));
        if !told {
            self.unheard.push(event);
        }
    }
}

fn say<T: serde::Serialize>(stream: &mut TcpStream, line: &T) -> bool {
    let mut bytes = serde_json::to_vec(line).unwrap();
    bytes.push(b'\n');
    stream.write_all(&bytes).is_ok()
}

/// Lines of a stream; nothing on silence, an error at the end.
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
                        thread::spawn(move || shared.greet(stream));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
        });
    }

    fn greet(self: &Arc<Self>, mut down: TcpStream) {
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
                let member = (resume.job, resume.epoch, resume.key, resume.rank);
                let seat = self.lock().members.get(&member).cloned();
                let Some(seat) = seat else {
                    let message = "that job is over".into();
                    say(&mut down, &SessionEvent::Refused { reason: Refusal::Unknown, message });
                    return;
                };
                let mut held = seat.lock().unwrap();
                if !say(&mut down, &SessionEvent::Resumed {}) {
                    return;
                }
                self.resumed.fetch_add(1, Ordering::Relaxed);
                (held.down, held.away) = (Some(down.try_clone().unwrap()), None);
                for event in std::mem::take(&mut held.unheard) {
                    held.tell(event);
                }
                drop(held);
                self.attend(&seat, down, lines, member);
            }
            other => panic!("{other:?} comes first"),
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
            say(&mut down, &refusal);
            return;
        }
        let (rank, tree) = (join.rank, usize::from(join.tree));
        let switch = self.switches.lock().unwrap()[tree];
        let Ok(mut up) = TcpStream::connect(switch) else {
            let message = "the switch is not there".into();
            say(&mut down, &SessionEvent::Refused { reason: Refusal::Unavailable, message });
            return;
        };
        let job = format!("{}-{tree}", join.job);
        say(&mut up, &SessionRequest::Join(Join { job, tree: 0, trees: 1, ..join }));
        let mut events = Lines::new(&up);
        let mut admission = loop {
            match events.next::<SessionEvent>() {
                Ok(Some(SessionEvent::Admitted(admission))) => break admission,
                Ok(Some(SessionEvent::Alive {}) | None) => {
                    // Whoever gives up waiting is gone for the switch as well.
                    if lines.next::<SessionRequest>().is_err() || self.over.load(Ordering::Relaxed) {
                        return;
                    }
                }
                Ok(Some(other)) => {
                    say(&mut down, &other);
                    return;
                }
                Err(()) => return,
            }
        };
        admission.switch = Some(IpAddr::from(Ipv4Addr::LOCALHOST));
        admission.grace_ms = self.grace.as_millis() as u32;
        let member = (admission.job, admission.epoch, admission.key, rank);
        let seat = Arc::new(Mutex::new(Seat {
            tree,
            up: Some(up.try_clone().unwrap()),
            down: Some(down.try_clone().unwrap()),
            away: None,
            unheard: Vec::new(),
        }));
        self.lock().members.insert(member, Arc::clone(&seat));
        self.admitted.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(self);
        let upper = Arc::clone(&seat);
        seat.lock().unwrap().tell(SessionEvent::Admitted(admission));
        thread::spawn(move || shared.attend_switch(&upper, up, events, member));
        self.attend(&seat, down, lines, member);
    }

    /// Attends to a worker's connection until it breaks.
    fn attend(&self, seat: &Mutex<Seat>, mut down: TcpStream, mut lines: Lines, member: Member) {
        let from = down.peer_addr().ok();
        loop {
            match lines.next::<SessionRequest>() {
                Ok(None) => {}
                Ok(Some(SessionRequest::Alive {})) => drop(say(&mut down, &SessionEvent::Alive {})),
                Ok(Some(SessionRequest::Leave {})) => {
                    self.lock().members.remove(&member);
                    if let Some(up) = &mut seat.lock().unwrap().up {
                        say(up, &SessionRequest::Leave {});
                        let _ = up.shutdown(Shutdown::Write);
                    }
                    let _ = down.shutdown(Shutdown::Both);
                    return;
                }
                Ok(Some(other)) => panic!("{other:?} in a session that goes on"),
                Err(()) => {
                    let mut seat = seat.lock().unwrap();
                    // Unless another connection has taken this one's place.
                    let port = |stream: &TcpStream| stream.peer_addr().ok();
                    if seat.down.as_ref().and_then(port) == from {
                        (seat.down, seat.away) = (None, Some(Instant::now()));
                    }
                    return;
                }
            }
        }
    }

    /// Attends to the session with the switch, in the worker's place, and gives it up when the worker stays away.
    fn attend_switch(&self, seat: &Mutex<Seat>, mut up: TcpStream, mut events: Lines, member: Member) {
        let mut beat = Instant::now();
        loop {
            if beat.elapsed() > Duration::from_millis(500) {
                beat = Instant::now();
                say(&mut up, &SessionRequest::Alive {});
            }
            match events.next::<SessionEvent>() {
                Ok(Some(SessionEvent::Alive {}) | None) => {}
                Ok(Some(event)) => seat.lock().unwrap().tell(event),
                Err(()) => {
                    let mut seat = seat.lock().unwrap();
                    if seat.up.take().is_some() && self.lock().members.remove(&member).is_some() {
                        seat.tell(SessionEvent::SwitchLost { message: "its switch is gone".into() });
                    }
                    return;
                }
            }
            let away = seat.lock().unwrap().away;
            if away.is_some_and(|since| since.elapsed() > self.grace) || self.over.load(Ordering::Relaxed) {
                self.lock().members.remove(&member);
                seat.lock().unwrap().up = None;
                let _ = up.shutdown(Shutdown::Both);
                let _ = up.read(&mut [0; 64]);
                return;
            }
        }
    }
}
