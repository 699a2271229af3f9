//! The arbiter of jobs without a control port: the ranks agree among themselves ([`netfold_proto::agreement`]). Each answers the others' calls by a
//! thread of its own, from its first generation to its last.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netfold_collectives::mesh::{CallListener, CallToken, call};
use netfold_control::Resized;
use netfold_proto::agreement::{
    Agreement, AgreementOutcome, AgreementRequest, AgreementResponse, Decision, Entering, NotAgreed, Wanted,
};
use serde::{Deserialize, Serialize};

use crate::arbiter::Arbiter;
use crate::clock::Clock;
use crate::communicator::Communicator;
use crate::error::Error;
use crate::join::spawn;

/// Longest call.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Between two calls of a process that waits to join.
const ENTER_INTERVAL: Duration = Duration::from_millis(100);

/// How often the thread that answers calls checks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How much longer than its deadline a request is waited for: the machine decides.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(5);

/// An answer on its way.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    response: AgreementResponse,
    /// For a process that the decision admits: the token of calls between members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<CallToken>,
}

/// The agreement of this rank with the others.
#[derive(Debug)]
pub(crate) struct PeerArbiter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    agreement: Mutex<Agreement>,
    changed: Condvar,
    token: CallToken,
    address: SocketAddr,
    clock: Clock,
    ending: AtomicBool,
}

/// The token of processes that wait to join: that they know the job's name.
fn entry_token(job: &str) -> CallToken {
    let hash = |seed: u64| {
        job.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let mut token = [0; 16];
    token[..8].copy_from_slice(&hash(0xcbf2_9ce4_8422_2325).to_le_bytes());
    token[8..].copy_from_slice(&hash(0x6c62_272e_07bb_0142).to_le_bytes());
    token
}

impl PeerArbiter {
    /// A rank of the first generation. All ranks know the token, and where each of them listens.
    pub(crate) fn new(
        job: &str,
        listener: CallListener,
        token: CallToken,
        (rank, listens): (u16, &[SocketAddr]),
    ) -> Result<Self, Error> {
        let clock = Clock::system();
        let agreement = Agreement::new(clock.now(), rank, listens);
        Self::serve(job, listener, token, (clock, agreement))
    }

    /// Waits until the members of a job, of whom one listens at `at`, have admitted this process.
    ///
    /// # Errors
    ///
    /// [`Error::JoinTimeout`] after `timeout`; [`Error::Mesh`] if this process cannot listen; [`Error::Thread`].
    pub(crate) fn enter(job: &str, at: SocketAddr, timeout: Duration) -> Result<(Self, Resized), Error> {
        let started = Instant::now();
        let listener = listen(local_ip(at), None)?;
        let mut id = [0; 8];
        fill_random(&mut id)?;
        let entering = Entering { id: u64::from_le_bytes(id), listens: listener.address() };
        let (entry, request) = (entry_token(job), encode(&AgreementRequest::Enter(entering)));
        loop {
            let answer = call(at, &entry, &request, CALL_TIMEOUT).ok().and_then(|bytes| decode(&bytes));
            if let Some(Answer { response: AgreementResponse::Decided(decision), token: Some(token) }) =
                answer
                && let Some(rank) = decision.place_of_entering(entering.id)
            {
                let clock = Clock::system();
                let resized = resized(rank, &decision);
                let agreement = Agreement::entered(clock.now(), rank, decision);
                return Ok((Self::serve(job, listener, token, (clock, agreement))?, resized));
            }
            if started.elapsed() >= timeout {
                return Err(Error::JoinTimeout { waited: started.elapsed() });
            }
            std::thread::sleep(ENTER_INTERVAL);
        }
    }

    fn serve(
        job: &str,
        mut listener: CallListener,
        token: CallToken,
        (clock, agreement): (Clock, Agreement),
    ) -> Result<Self, Error> {
        let address = listener.address();
        let shared = Arc::new(Shared {
            agreement: Mutex::new(agreement),
            changed: Condvar::new(),
            token,
            address,
            clock,
            ending: AtomicBool::new(false),
        });
        let (own, entry) = (Arc::clone(&shared), entry_token(job));
        spawn("netfold-member", move || {
            while !own.ending.load(Ordering::Acquire) {
                let answer = |token: &CallToken, request: &[u8]| own.answer(&entry, token, request);
                if let Err(error) = listener.serve(Instant::now() + POLL_INTERVAL, &own.token, answer) {
                    log::warn!("cannot answer other members of the job: {error}");
                    std::thread::sleep(POLL_INTERVAL);
                }
            }
        })?;
        Ok(Self(shared))
    }
}

/// Length of what ranks tell each other: port (2), address (16), token (16).
const INTRODUCTION: usize = 34;

impl PeerArbiter {
    /// The ranks of a job that is built tell each other where they listen, rank 0 at `wanted` if it can.
    ///
    /// # Errors
    ///
    /// [`Error::Mesh`] where a rank cannot listen; any error that ends the job.
    pub(crate) fn introduce(comm: &Communicator, wanted: Option<SocketAddr>) -> Result<Self, Error> {
        let ip = comm.place().ok_or(Error::Missing("rendezvous"))?.ip;
        let listener = listen(ip, wanted.filter(|_| comm.rank() == 0))?;
        let mut mine = [0; INTRODUCTION];
        fill_random(&mut mine[18..])?;
        mine[..2].copy_from_slice(&listener.address().port().to_be_bytes());
        let ip = match listener.address().ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        mine[2..18].copy_from_slice(&ip.octets());
        let mut all = vec![0u8; INTRODUCTION * usize::from(comm.world_size())];
        comm.all_gather(&mine, &mut all)?;
        let all = all.as_chunks::<INTRODUCTION>().0;
        let address = |bytes: &[u8; INTRODUCTION]| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[2..18]);
            let port = u16::from_be_bytes([bytes[0], bytes[1]]);
            SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), port)
        };
        let listens: Vec<SocketAddr> = all.iter().map(address).collect();
        let mut token = [0; 16];
        token.copy_from_slice(&all[0][18..]);
        let job = comm.config().job.clone().unwrap_or_default();
        Self::new(&job, listener, token, (comm.rank(), &listens))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Agreement> {
        self.agreement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, entry: &CallToken, token: &CallToken, request: &[u8]) -> Option<Vec<u8>> {
        let request: AgreementRequest = decode(request)?;
        let enters = matches!(request, AgreementRequest::Enter(_));
        if *token != if enters { *entry } else { self.token } {
            return None;
        }
        let response = self.lock().handle_request(self.clock.now(), request);
        let admitted = enters && matches!(response, AgreementResponse::Decided(_));
        Some(encode(&Answer { response, token: admitted.then_some(self.token) }))
    }

    /// Carries one call out, on a thread of its own.
    fn call(self: &Arc<Self>, rank: u16, request: AgreementRequest) {
        let Some(address) = self.lock().address(rank) else { return };
        let (shared, called) = (Arc::clone(self), request.clone());
        let run = move || {
            let answer = call(address, &shared.token, &encode(&called), CALL_TIMEOUT).ok();
            let response = answer.and_then(|bytes| decode::<Answer>(&bytes)).map(|answer| answer.response);
            shared.lock().handle_response(shared.clock.now(), (rank, &called), response);
            shared.changed.notify_all();
        };
        if spawn("netfold-call", run).is_err() {
            self.lock().handle_response(self.clock.now(), (rank, &request), None);
        }
    }
}

impl Arbiter for PeerArbiter {
    fn generation(&self) -> u32 {
        self.0.lock().generation()
    }

    fn resize(&self, joining: u16, timeout: Duration, meeting: Option<SocketAddr>) -> Result<Resized, Error> {
        let shared = &self.0;
        let (start, end) = (shared.clock.now(), Instant::now() + timeout + OUTCOME_TIMEOUT);
        let mut agreement = shared.lock();
        agreement.resize(start, Wanted { joining, meeting }, start + timeout);
        loop {
            let now = shared.clock.now();
            let mut calls = Vec::new();
            while let Some(next) = agreement.poll_call(now) {
                calls.push(next);
            }
            if let Some(outcome) = agreement.take_outcome() {
                return result(outcome);
            }
            let wait = agreement.deadline(now) - now;
            drop(agreement);
            calls.into_iter().for_each(|(rank, request)| shared.call(rank, request));
            agreement = shared.lock();
            let waited = shared.changed.wait_timeout(agreement, wait);
            agreement = waited.unwrap_or_else(PoisonError::into_inner).0;
            if Instant::now() >= end {
                return Err(Error::NotResized { missing: Vec::new(), message: "no decision in time".into() });
            }
        }
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.0.address)
    }

    /// The others' calls fail once this process has left.
    fn leave(&self) {}
}

impl Drop for PeerArbiter {
    fn drop(&mut self) {
        self.0.ending.store(true, Ordering::Release);
    }
}

fn result(outcome: AgreementOutcome) -> Result<Resized, Error> {
    match outcome {
        AgreementOutcome::Resized { rank, decision } => Ok(resized(rank, &decision)),
        AgreementOutcome::Excluded => {
            let message =
                "the others took it as lost and continue without it; join their job as a new member";
            Err(Error::Excluded { message: message.into() })
        }
        AgreementOutcome::NotResized { missing, reason } => {
            let message = match reason {
                NotAgreed::Missing => {
                    "ranks are within reach and did not ask for another generation in time; have all ranks shrink or grow at the same point, or end \
                     those processes"
                }
                NotAgreed::NoQuorum => {
                    "fewer than half of the ranks are within reach, or half without rank 0, so that others may continue; start the job again, \
                     or use a controller, which can tell"
                }
                NotAgreed::Different => {
                    "ranks ask for different numbers of new members; give the same number on all"
                }
                NotAgreed::Entering => {
                    "too few new members came in time; start them, with the address of a rank"
                }
                NotAgreed::Undecided => "the ranks did not agree in time; try again",
            };
            Err(Error::NotResized { missing, message: message.into() })
        }
    }
}

fn resized(rank: u16, decision: &Decision) -> Resized {
    let survivors = decision.members.iter().filter(|member| member.former.is_some()).count() as u16;
    let mut lost = decision.lost();
    lost.truncate(netfold_control::RANKS_NAMED_MAX);
    Resized {
        generation: decision.generation,
        rank,
        world: decision.members.len() as u16,
        survivors,
        lost,
        meeting: decision.members.first().and_then(|member| member.meeting),
        ticket: None,
    }
}

/// Listens for calls: at `wanted`, if that is possible, otherwise at a port that the system chooses.
fn listen(ip: IpAddr, wanted: Option<SocketAddr>) -> Result<CallListener, Error> {
    let at_wanted = wanted.and_then(|wanted| CallListener::bind(wanted).ok());
    let bound = at_wanted.map_or_else(|| CallListener::bind((ip, 0).into()), Ok);
    bound.map_err(|error| Error::Mesh(Arc::new(error.into())))
}

/// The address of this host from which `peer` is reached.
fn local_ip(peer: SocketAddr) -> IpAddr {
    let unspecified = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = std::net::UdpSocket::bind(unspecified);
    let connected = socket.and_then(|socket| socket.connect(peer).and_then(|()| socket.local_addr()));
    connected.map_or(peer.ip(), |address| address.ip())
}

/// Fills bytes by the system's generator.
fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|error| Error::Mesh(Arc::new(std::io::Error::other(error).into())))
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    // Plain data.
    serde_json::to_vec(message).unwrap_or_default()
}

fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}
