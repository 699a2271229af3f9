//! A tenant that attacks: it has its own token and host, and knows what the headers of others' packets show but for their keys.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use netfold_control::{
    Credentials, Join, Mode, PathToken, Resume, ResumeTicket, SessionEvent, SessionRequest,
};
use netfold_proto::{Instant, PathValidation};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

use super::controller::TENANTS;
use super::plan::host_address;
use super::rank::endpoint;
use super::world::{Client, Event, World};

/// When it stops for the first time.
const END: Duration = Duration::from_secs(24);

/// Its connections at once.
const CONNS_MAX: usize = 24;

/// What it knows of a connection of its own.
#[derive(Default)]
struct Own {
    /// The address that it joined with, which may be another's.
    endpoint: Option<SocketAddr>,
    bytes: Vec<u8>,
    validation: Option<(PathValidation, SocketAddr)>,
}

/// The place of a job of its own.
#[derive(Clone, Copy)]
struct Place {
    job: u16,
    epoch: u32,
    key: u32,
    /// Where its packets claim to come from.
    from: SocketAddr,
    switch: SocketAddr,
}

/// The adversary.
pub(super) struct Adversary {
    rng: Xoshiro256PlusPlus,
    host: usize,
    conns: BTreeMap<u64, Own>,
    places: Vec<Place>,
    active_until: Duration,
    floods: bool,
}

impl Adversary {
    pub(super) fn new(seed: u64, host: usize) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(11) ^ 0x5eed);
        Self { rng, host, conns: BTreeMap::new(), places: Vec::new(), active_until: END, floods: false }
    }

    /// Whether it sends as much as its link carries.
    pub(super) fn floods(&self) -> bool {
        self.floods
    }

    pub(super) fn address(&self) -> IpAddr {
        host_address(self.host)
    }

    /// A request of any kind.
    fn request(&mut self, victims: &[SocketAddr], jobs: usize, running: &[(u16, u32)]) -> SessionRequest {
        let rng = &mut self.rng;
        let (tenant, token) = TENANTS[usize::from(rng.random_bool(0.9))];
        // It does not know the other tenant's.
        let token = if tenant == "mallory" { token.to_string() } else { "a guess".into() };
        match rng.random_range(0..10) {
            0 => SessionRequest::Alive { counters: None },
            1 => SessionRequest::Band {},
            2 => SessionRequest::Path { token: PathToken(rng.next_u64()) },
            3 => SessionRequest::Leave {},
            4 | 5 => {
                let (job, epoch) = match running.len() {
                    0 => (1, 1),
                    count => running[rng.random_range(0..count)],
                };
                let rank = rng.random_range(0..4);
                SessionRequest::Resume(Resume {
                    version: netfold_wire::VERSION,
                    job,
                    epoch,
                    rank,
                    ticket: ResumeTicket(rng.random()),
                })
            }
            _ => {
                let name = if rng.random_bool(0.3) {
                    format!("job{}", rng.random_range(0..jobs))
                } else {
                    format!("mine{}", rng.random_range(0..20))
                };
                let world = rng.random_range(1..4);
                let slots = 1 << rng.random_range(0..8);
                let port = rng.random_range(40_000..40_300);
                // Addresses are not secret, and ports can be guessed.
                let claimed = rng.random_bool(0.3).then(|| victims[rng.random_range(0..victims.len())]);
                let port = claimed.map_or(port, |claimed| claimed.port());
                let address = claimed.map(|claimed| claimed.ip());
                let group = rng.random_bool(0.3).then(|| format!("group{}", rng.random_range(0..jobs)));
                SessionRequest::Join(Join {
                    group: group.unwrap_or_default(),
                    credentials: Some(Credentials { tenant: tenant.into(), token }),
                    address,
                    movable: rng.random_bool(0.5),
                    ..Join::new(name, (rng.random_range(0..world), world), Mode::Bfp32, slots, port)
                })
            }
        }
    }

    /// A packet with any header, mostly of a job of its own.
    fn packet(&mut self, place: Option<Place>) -> Vec<u8> {
        let rng = &mut self.rng;
        let (job, epoch, key) = place.map_or_else(
            || (rng.random_range(0..4), rng.random_range(0..8), rng.next_u32()),
            |place| (place.job, place.epoch, place.key),
        );
        let kinds = [Kind::Data, Kind::Close, Kind::Result, Kind::Advance, Kind::Probe];
        let repr = Repr {
            kind: kinds[rng.random_range(0..kinds.len())],
            flags: Flags::ALL
                .iter()
                .filter(|_| rng.random_bool(0.3))
                .fold(Flags::default(), |all, (flag, _)| all.with(*flag)),
            op: LaneOp::Sum,
            class: 0,
            reason: Reason::None,
            job,
            slot: rng.random_range(0..1024),
            set: rng.random_range(0..2),
            epoch,
            key,
            chunk: rng.next_u32(),
            bitmap: rng.next_u32(),
            count: rng.random(),
            exp: rng.random(),
            exp_next: rng.random(),
            owner: LaneOwner::from_wire(rng.random_range(0..4)),
        };
        let mut bytes = vec![0; header::LEN + if rng.random_bool(0.5) { 256 } else { 0 }];
        repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        bytes
    }
}

impl World {
    /// The adversary is active again until a time, or ends.
    pub(super) fn adversary_resumes(&mut self, until: Duration) {
        self.adversary.active_until = until;
        self.at(self.now, Event::Adversary);
    }

    /// The adversary sends as much as its link carries, from now on or no more.
    pub(super) fn adversary_floods(&mut self, floods: bool) {
        self.adversary.floods = floods;
        if floods {
            self.at(self.now, Event::Flood);
        }
    }

    /// One step of the adversary, and the time of the next.
    pub(super) fn adversary_turn(&mut self) {
        if self.now >= self.adversary.active_until {
            let conns: Vec<u64> = std::mem::take(&mut self.adversary.conns).into_keys().collect();
            return conns.into_iter().for_each(|conn| self.close_from_client(conn));
        }
        let pause = Duration::from_millis(self.adversary.rng.random_range(1..80));
        self.at(self.now + pause, Event::Adversary);
        self.prove_paths();
        match self.adversary.rng.random_range(0..10) {
            0..=1 if self.adversary.conns.len() < CONNS_MAX => {
                self.connect(Client::Adversary, self.adversary.host);
            }
            2..=4 => self.adversary_says(),
            5 => {
                if let Some(conn) = self.adversary_pick() {
                    self.adversary.conns.remove(&conn);
                    self.close_from_client(conn);
                }
            }
            _ => self.adversary_sends(),
        }
    }

    fn adversary_pick(&mut self) -> Option<u64> {
        let count = self.adversary.conns.len();
        let at = (count > 0).then(|| self.adversary.rng.random_range(0..count))?;
        self.adversary.conns.keys().nth(at).copied()
    }

    fn adversary_says(&mut self) {
        let Some(conn) = self.adversary_pick() else { return };
        let jobs = self.plan.jobs.len();
        let victims: Vec<_> =
            self.ranks.iter().enumerate().map(|(index, rank)| endpoint(rank.host, index, 1)).collect();
        let places = self.database.records.places.values();
        let running: Vec<_> = places.map(|place| (place.number, place.epoch)).collect();
        let request = self.adversary.request(&victims, jobs, &running);
        if let (SessionRequest::Join(join), Some(own)) = (&request, self.adversary.conns.get_mut(&conn)) {
            let address = join.address.unwrap_or(host_address(self.adversary.host));
            own.endpoint = Some(SocketAddr::new(address, join.udp_port));
        }
        if self.adversary.rng.random_bool(0.05) {
            let mut line = vec![self.adversary.rng.random(); 40];
            line.push(b'\n');
            self.send_to_port(conn, line);
        } else {
            self.adversary_line(conn, &request);
        }
    }

    fn adversary_line(&mut self, conn: u64, request: &SessionRequest) {
        let mut line = serde_json::to_vec(request).expect("requests are plain values");
        line.push(b'\n');
        self.send_to_port(conn, line);
    }

    /// Sends a packet from its own host to any switch.
    pub(super) fn adversary_sends(&mut self) {
        let count = self.adversary.places.len();
        let own = count > 0 && self.adversary.rng.random_bool(0.8);
        let place = own.then(|| self.adversary.places[self.adversary.rng.random_range(0..count)]);
        let switch = self.adversary.rng.random_range(0..self.devices.len());
        let to = place.map_or(self.devices[switch].address, |place| place.switch);
        let anywhere =
            SocketAddr::new(self.adversary.address(), self.adversary.rng.random_range(40_000..40_300));
        let from = place.map_or(anywhere, |place| place.from);
        let bytes = self.adversary.packet(place);
        self.send_datagram(from, to, bytes);
    }

    pub(super) fn adversary_connected(&mut self, conn: Option<u64>) {
        if let Some(conn) = conn {
            self.adversary.conns.insert(conn, Own::default());
        }
    }

    pub(super) fn adversary_received(&mut self, conn: u64, bytes: Option<Vec<u8>>) {
        let Some(bytes) = bytes else { return drop(self.adversary.conns.remove(&conn)) };
        let Some(own) = self.adversary.conns.get_mut(&conn) else { return };
        own.bytes.extend(bytes);
        let mut events = Vec::new();
        while let Some(end) = own.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = own.bytes.drain(..=end).collect();
            events.push(serde_json::from_slice(&line[..end]).expect("a controller sends events"));
        }
        events.into_iter().for_each(|event| self.adversary_event(conn, event));
    }

    fn adversary_event(&mut self, conn: u64, event: SessionEvent) {
        let SessionEvent::Path(challenge) = event else { return };
        let here = self.adversary.address();
        let own = self.adversary.conns.get_mut(&conn);
        let Some((own, from)) = own.and_then(|own| own.endpoint.map(|from| (own, from))) else { return };
        let Some(ip) = challenge.switch else { return };
        let switch = SocketAddr::new(ip, challenge.udp_port);
        let (job, epoch, key) = (challenge.job, challenge.epoch, challenge.key);
        self.adversary.places.push(Place { job, epoch, key, from, switch });
        if from.ip() == here {
            own.validation = Some((PathValidation::new(Instant::ZERO + self.now, challenge), switch));
        } else {
            // The token goes to another's address: it can only guess.
            let token = PathToken(self.adversary.rng.next_u64());
            self.adversary_line(conn, &SessionRequest::Path { token });
        }
    }

    /// Requests the tokens of its paths.
    fn prove_paths(&mut self) {
        let now = Instant::ZERO + self.now;
        let mut requests = Vec::new();
        for own in self.adversary.conns.values_mut() {
            if let (Some((path, switch)), Some(from)) = (&mut own.validation, own.endpoint)
                && let Some(request) = path.poll_transmit(now)
            {
                requests.push((from, *switch, request.to_vec()));
            }
        }
        requests.into_iter().for_each(|(from, to, request)| self.send_datagram(from, to, request));
    }

    pub(super) fn adversary_datagram(&mut self, to: SocketAddr, bytes: &[u8]) {
        let found = self.adversary.conns.iter_mut().find_map(|(conn, own)| {
            let (path, _) = own.validation.as_ref().filter(|_| own.endpoint == Some(to))?;
            let token = path.token(bytes)?;
            own.validation = None;
            Some((*conn, token))
        });
        if let Some((conn, token)) = found {
            self.proven.insert(to);
            self.adversary_line(conn, &SessionRequest::Path { token });
        }
    }
}
