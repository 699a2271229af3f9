//! The world: virtual time, events, the network between processes, and the timeline.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use netfold_wire::{Kind, Packet, UDP_PORT};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::adversary::Adversary;
use super::controller::{Controller, Input, stored};
use super::database::Database;
use super::device::Device;
use super::engine::{MeshState, locked};
use super::keeper::Call;
use super::links::Links;
use super::plan::{Fault, Plan, PlannedSwitch, SLOTS_SHARED, host_address};
use super::rank::RankProcess;

/// Lines of the timeline that a violation shows.
const TIMELINE: usize = 400;

/// Events of one system, and of its future at any time: what a livelock would exceed.
const EVENTS_MAX: u64 = 5_000_000;
const QUEUE_MAX: usize = 500_000;

/// Time for a connection to a host that does not answer.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// Who has opened a connection to a control port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Client {
    /// A rank, by its place among all ranks, and which of its connections.
    Rank(usize, u64),
    /// The adversary.
    Adversary,
}

/// A control connection.
#[derive(Debug, Clone)]
pub(super) struct Conn {
    client: Client,
    host: usize,
    controller: usize,
    incarnation: u64,
    /// When the last bytes sent arrive at the port, and at the client: bytes stay in order.
    arrivals: (Duration, Duration),
    pub(super) open: bool,
}

/// Something that happens.
#[derive(Debug)]
pub(super) enum Event {
    Fault(usize),
    /// A controller's input, for one incarnation of it.
    Controller(usize, u64, Input),
    /// A controller's process starts.
    StartController(usize),
    /// A rank's process is due, if this is the latest request for that.
    Rank(usize, u64),
    Connected(Client, Option<u64>),
    /// Bytes arrive at the client; `None`: the end of the connection.
    ToClient(u64, Option<Vec<u8>>),
    /// Bytes arrive at the port.
    ToPort(u64, Option<Vec<u8>>),
    Datagram(SocketAddr, SocketAddr, Vec<u8>),
    /// A call arrives at a switch: of which task of which controller's incarnation.
    Call(usize, u64, u64, usize, Call),
    SwitchUp(usize),
    Adversary,
    /// The adversary sends as much as its link carries.
    Flood,
    /// An operator's command.
    Operator,
}

/// An event and its time; ties are resolved in order of creation.
struct Planned {
    at: Duration,
    serial: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    /// The earliest is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.serial).cmp(&(self.at, self.serial))
    }
}

/// Everything.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) now: Duration,
    queue: BinaryHeap<Planned>,
    serial: u64,
    pub(super) rng: Xoshiro256PlusPlus,
    pub(super) database: Database,
    pub(super) controllers: Vec<Controller>,
    pub(super) devices: Vec<Device>,
    pub(super) ranks: Vec<RankProcess>,
    pub(super) meshes: Vec<Arc<Mutex<MeshState>>>,
    pub(super) conns: BTreeMap<u64, Conn>,
    conns_opened: u64,
    /// Where datagrams to an address go: a switch, or a rank.
    switches: HashMap<SocketAddr, usize>,
    pub(super) sockets: HashMap<SocketAddr, usize>,
    pub(super) adversary: Adversary,
    /// Faults that have begun, with the time at which each ends.
    pub(super) begun: Vec<(Duration, Duration, Fault)>,
    /// Since when no controller serves, and the spans in which none did.
    pub(super) leaderless: Vec<(Duration, Duration)>,
    leaderless_since: Option<Duration>,
    timeline: VecDeque<String>,
    digest: u64,
    pub(super) events: u64,
    pub(super) datagrams: u64,
    /// Names of tenants that an operator was told exist.
    pub(super) acknowledged: Vec<String>,
    pub(super) commands: u64,
    /// By job and operation, a sum that lacks contributions or may lack some, as the first rank was given it.
    pub(super) sums: BTreeMap<(usize, usize), Vec<u32>>,
    /// Chunks of them that lack contributions.
    pub(super) partial: u64,
    /// The job that each epoch was given to.
    pub(super) epochs: BTreeMap<u32, usize>,
    /// Addresses whose owners have received a path token there.
    pub(super) proven: BTreeSet<SocketAddr>,
    /// Bytes that switches received from other addresses, and sent there.
    exchanged: BTreeMap<SocketAddr, (u64, u64)>,
    /// Job numbers and epochs of the packets that ranks expect at an address.
    pub(super) places: BTreeMap<SocketAddr, BTreeSet<(u16, u32)>>,
    links: Links,
    /// By which factor the adversary's attack lengthened a job's operations.
    pub(super) slowed: f64,
}

impl World {
    pub(super) fn new(plan: Plan) -> Self {
        let device = |index: usize| {
            let PlannedSwitch { name, last, shares } = plan.switch(index);
            let slots_max = if shares { SLOTS_SHARED } else { u32::MAX };
            let address = SocketAddr::new(Ipv4Addr::new(10, 9, 0, last).into(), UDP_PORT);
            Device::new(&name, address, plan.chunk, (plan.best_effort, slots_max))
        };
        let devices: Vec<_> = (0..plan.switches()).map(device).collect();
        let switches = devices.iter().enumerate().map(|(index, device)| (device.address, index)).collect();
        let controllers = (0..plan.controllers).map(|_| Controller::new()).collect();
        let meshes = plan.jobs.iter().map(|job| Arc::new(Mutex::new(MeshState::new(job.hosts.len() as u16))));
        let mut world = Self {
            now: Duration::ZERO,
            queue: BinaryHeap::new(),
            serial: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(!plan.seed),
            database: Database::new(&stored(plan.unlimited)),
            controllers,
            devices,
            ranks: Vec::new(),
            meshes: meshes.collect(),
            conns: BTreeMap::new(),
            conns_opened: 0,
            switches,
            sockets: HashMap::new(),
            adversary: Adversary::new(plan.seed, plan.hosts() - 1),
            begun: Vec::new(),
            leaderless: Vec::new(),
            leaderless_since: Some(Duration::ZERO),
            timeline: VecDeque::new(),
            digest: 0,
            events: 0,
            datagrams: 0,
            acknowledged: Vec::new(),
            commands: 0,
            sums: BTreeMap::new(),
            partial: 0,
            epochs: BTreeMap::new(),
            proven: BTreeSet::new(),
            exchanged: BTreeMap::new(),
            places: BTreeMap::new(),
            links: Links::default(),
            slowed: 0.0,
            plan,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        for (job, plan) in self.plan.jobs.clone().iter().enumerate() {
            for (rank, start) in plan.starts.iter().enumerate() {
                self.add_rank(job, rank as u16, *start);
            }
        }
        for index in 0..self.controllers.len() {
            self.at(Duration::ZERO, Event::StartController(index));
        }
        for (index, (at, _)) in self.plan.faults.clone().iter().enumerate() {
            self.at(*at, Event::Fault(index));
        }
        if self.plan.adversary {
            self.at(Duration::from_millis(50), Event::Adversary);
        }
        for command in 0..6 {
            let at = Duration::from_millis(500 + 3_500 * command + self.rng.random_range(0..1_000));
            self.at(at, Event::Operator);
        }
    }

    pub(super) fn add_rank(&mut self, job: usize, rank: u16, start: Duration) {
        let index = self.ranks.len();
        self.ranks.push(RankProcess::new(&self.plan.jobs[job], job, rank, Arc::clone(&self.meshes[job])));
        self.wake_rank(index, start);
    }

    /// Plans an event.
    pub(super) fn at(&mut self, at: Duration, event: Event) {
        self.serial += 1;
        self.queue.push(Planned { at: at.max(self.now), serial: self.serial, event });
    }

    /// Has a rank's process run at a time, and not at any planned later.
    pub(super) fn wake_rank(&mut self, index: usize, at: Duration) {
        let rank = &mut self.ranks[index];
        if rank.wake.is_none_or(|wake| at < wake) {
            rank.wake = Some(at);
            rank.serial += 1;
            let serial = rank.serial;
            self.at(at, Event::Rank(index, serial));
        }
    }

    /// Adds a line to the timeline.
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        let line = format!("{:>12.6} {}", self.now.as_secs_f64(), line());
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3).rotate_left(9);
        }
        if self.timeline.len() == TIMELINE {
            self.timeline.pop_front();
        }
        self.timeline.push_back(line);
    }

    /// The last lines of the timeline.
    pub(super) fn timeline(&self) -> Vec<String> {
        self.timeline.iter().cloned().collect()
    }

    /// A digest of all that was noted: equal histories give equal digests.
    pub(super) fn digest(&self) -> u64 {
        self.digest ^ self.events.rotate_left(17) ^ self.datagrams.rotate_left(40)
    }

    /// Plays until `done`, nothing happens any more, or the time is `until`.
    pub(super) fn play(&mut self, until: Duration, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            if self.queue.peek().is_none_or(|next| next.at > until) {
                break;
            }
            let Some(Planned { at, event, .. }) = self.queue.pop() else { break };
            self.now = self.now.max(at);
            self.events += 1;
            assert!(self.events < EVENTS_MAX && self.queue.len() < QUEUE_MAX, "livelock: {event:?}");
            self.handle(event);
            self.note_leadership();
        }
    }

    fn note_leadership(&mut self) {
        let led = self.controllers.iter().any(|controller| controller.serves());
        match (led, self.leaderless_since) {
            (true, Some(since)) => {
                self.leaderless.push((since, self.now));
                self.leaderless_since = None;
            }
            (false, None) => self.leaderless_since = Some(self.now),
            _ => {}
        }
    }

    /// The longest time without a serving controller that overlaps a span of time.
    pub(super) fn longest_without_leader(&self, from: Duration, to: Duration) -> Duration {
        let open = self.leaderless_since.map(|since| (since, self.now));
        let spans = self.leaderless.iter().copied().chain(open);
        let overlapping = spans.filter(|(begin, end)| *begin <= to && *end >= from);
        overlapping.map(|(begin, end)| end.min(to) - begin.min(to)).max().unwrap_or_default()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Fault(index) => self.begin_fault(index),
            Event::Controller(index, incarnation, input) => self.controller_input(index, incarnation, input),
            Event::StartController(index) => self.start_controller(index),
            Event::Rank(index, serial) => {
                if self.ranks[index].serial == serial {
                    self.ranks[index].wake = None;
                    self.rank_turn(index);
                }
            }
            Event::Connected(Client::Rank(index, number), conn) => self.rank_connected(index, number, conn),
            Event::Connected(Client::Adversary, conn) => self.adversary_connected(conn),
            Event::ToClient(conn, bytes) => self.client_receives(conn, bytes),
            Event::ToPort(conn, bytes) => self.port_receives(conn, bytes),
            Event::Datagram(from, to, bytes) => self.datagram(from, to, bytes),
            Event::Call(index, incarnation, task, switch, call) => {
                self.call_arrives((index, incarnation), task, switch, &call);
            }
            Event::SwitchUp(switch) => {
                self.note(|| format!("switch {switch} starts"));
                self.devices[switch].restart();
            }
            Event::Adversary => self.adversary_turn(),
            Event::Flood => self.flood(),
            Event::Operator => self.operate(),
        }
    }

    /// Faults that have not come to pass do not any more.
    pub(super) fn cease(&mut self) {
        for controller in &mut self.controllers {
            (controller.kill_at_change, controller.kill_at_call) = (None, None);
        }
    }

    fn begin_fault(&mut self, index: usize) {
        let (_, fault) = self.plan.faults[index];
        let end = self.now + fault.time();
        self.note(|| format!("FAULT {fault:?}"));
        self.begun.push((self.now, end, fault));
        match fault {
            Fault::KillController { controller, silent, back } => {
                self.kill_controller(controller, silent, back)
            }
            Fault::KillAtChange { kill, back } => {
                if let Some(leader) = self.leader() {
                    self.controllers[leader].kill_at_change = Some((kill, back));
                }
            }
            Fault::KillAtCall { calls, after, back } => {
                if let Some(leader) = self.leader() {
                    self.controllers[leader].kill_at_call = Some((calls, after, back));
                }
            }
            Fault::PauseController { controller, .. } => {
                let paused = &mut self.controllers[controller].paused_until;
                *paused = end.max(*paused);
            }
            Fault::FillDisk { .. } => self.database.full_until = end.max(self.database.full_until),
            Fault::RestartSwitch { switch, .. } => {
                self.devices[switch].alive = false;
                self.at(end, Event::SwitchUp(switch));
            }
            Fault::HangSwitch { switch, .. } => {
                let hung = &mut self.devices[switch].hung_until;
                *hung = end.max(*hung);
            }
            Fault::KillRank { job, rank } => self.kill_rank(job, rank),
            Fault::PauseRank { job, rank, .. } => {
                let process = self.ranks.iter_mut().find(|process| process.is(job, rank as u16));
                if let Some(process) = process {
                    process.paused_until = end.max(process.paused_until);
                }
            }
            // In force while their time lasts.
            Fault::CutDatabase { .. }
            | Fault::CutSwitch { .. }
            | Fault::CutWorkers { .. }
            | Fault::CutHost { .. } => {}
        }
    }

    /// Until when a fault of this kind is in force, if one is.
    fn until(&self, is: impl Fn(&Fault) -> bool) -> Option<Duration> {
        let in_force = self.begun.iter().filter(|(_, end, fault)| *end > self.now && is(fault));
        in_force.map(|(_, end, _)| *end).max()
    }

    /// Until when a controller does not reach the database.
    pub(super) fn database_cut(&self, index: usize) -> Option<Duration> {
        let cut = self
            .until(|fault| matches!(fault, Fault::CutDatabase { controller, .. } if *controller == index));
        cut.max(Some(self.database.off_until).filter(|until| *until > self.now))
    }

    /// Whether a controller reaches a switch.
    pub(super) fn reaches(&self, index: usize, at: usize) -> bool {
        let device = &self.devices[at];
        let cut = self.until(
            |fault| matches!(fault, Fault::CutSwitch { controller, switch, .. } if (*controller, *switch) == (index, at)),
        );
        device.alive && device.hung_until <= self.now && cut.is_none()
    }

    fn workers_cut(&self, index: usize, of: usize) -> Option<Duration> {
        self.until(
            |fault| matches!(fault, Fault::CutWorkers { controller, host, .. } if (*controller, *host) == (index, of)),
        )
    }

    /// The controller that the database has as the leader.
    pub(super) fn leader(&self) -> Option<usize> {
        self.database.leader(self.now)
    }

    fn control_latency(&mut self) -> Duration {
        let (least, most) = self.plan.control;
        least + (most.saturating_sub(least)).mul_f64(self.rng.random())
    }

    /// A client connects to the first controller that serves; it is notified of the outcome.
    pub(super) fn connect(&mut self, client: Client, host: usize) {
        let mut waited = Duration::ZERO;
        for index in 0..self.controllers.len() {
            let latency = self.control_latency();
            if self.controllers[index].host_down(self.now) || self.workers_cut(index, host).is_some() {
                waited += CONNECT_TIMEOUT;
                continue;
            }
            waited += 2 * latency;
            if self.controllers[index].serves() {
                self.conns_opened += 1;
                let conn = self.conns_opened;
                let incarnation = self.controllers[index].incarnation;
                let arrivals = (self.now + waited, self.now + waited);
                let open = Conn { client, host, controller: index, incarnation, arrivals, open: true };
                self.conns.insert(conn, open);
                return self.at(self.now + waited, Event::Connected(client, Some(conn)));
            }
        }
        self.at(self.now + waited, Event::Connected(client, None));
    }

    /// When bytes that are sent now over a connection arrive.
    fn arrival(&mut self, number: u64, to_port: bool) -> Option<Duration> {
        let conn = self.conns.get(&number).filter(|conn| conn.open)?;
        let cut = self.workers_cut(conn.controller, conn.host);
        let at = cut.unwrap_or(self.now) + self.control_latency();
        let conn = self.conns.get_mut(&number)?;
        let last = if to_port { &mut conn.arrivals.0 } else { &mut conn.arrivals.1 };
        *last = at.max(*last);
        Some(*last)
    }

    /// A client sends a line; false when the connection is closed.
    pub(super) fn send_to_port(&mut self, conn: u64, bytes: Vec<u8>) -> bool {
        let Some(at) = self.arrival(conn, true) else { return false };
        self.at(at, Event::ToPort(conn, Some(bytes)));
        true
    }

    /// A client closes its connection.
    pub(super) fn close_from_client(&mut self, number: u64) {
        if let Some(at) = self.arrival(number, true) {
            self.at(at, Event::ToPort(number, None));
            // It reads nothing any more.
            if let Some(conn) = self.conns.get_mut(&number) {
                conn.open = false;
            }
        }
    }

    pub(super) fn send_to_client(&mut self, conn: u64, bytes: Vec<u8>) {
        if let Some(at) = self.arrival(conn, false) {
            self.at(at, Event::ToClient(conn, Some(bytes)));
        }
    }

    /// A port closes a connection.
    pub(super) fn close_from_port(&mut self, number: u64) {
        if let Some(at) = self.arrival(number, false) {
            self.at(at, Event::ToClient(number, None));
        }
    }

    /// The connections of a controller that has been killed: their clients learn that, unless its host is gone as well.
    pub(super) fn abandon(&mut self, controller: usize, silent: bool) {
        let of = |conn: &&mut Conn| conn.controller == controller && conn.open;
        let numbers: Vec<u64> =
            self.conns.iter_mut().filter(|(_, conn)| of(conn)).map(|(number, _)| *number).collect();
        for number in numbers {
            if !silent {
                self.close_from_port(number);
            }
        }
    }

    fn client_receives(&mut self, number: u64, bytes: Option<Vec<u8>>) {
        let Some(conn) = self.conns.get_mut(&number).filter(|conn| conn.open) else { return };
        if bytes.is_none() {
            conn.open = false;
        }
        match conn.client {
            Client::Rank(index, _) => self.rank_received(index, number, bytes),
            Client::Adversary => self.adversary_received(number, bytes),
        }
    }

    fn port_receives(&mut self, number: u64, bytes: Option<Vec<u8>>) {
        let Some(conn) = self.conns.get(&number) else { return };
        let (controller, incarnation) = (conn.controller, conn.incarnation);
        let input = Input::Bytes(number, bytes);
        self.controller_input(controller, incarnation, input);
    }

    /// The address of a connection's client.
    pub(super) fn peer(&self, number: u64) -> SocketAddr {
        let host = self.conns.get(&number).map_or(0, |conn| conn.host);
        SocketAddr::new(host_address(host), 30_000 + (number % 30_000) as u16)
    }

    fn host_cut(&self, address: IpAddr) -> bool {
        self.until(|fault| matches!(fault, Fault::CutHost { host, .. } if host_address(*host) == address))
            .is_some()
    }

    /// Sends a datagram, which the network may lose, repeat or delay.
    pub(super) fn send_datagram(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        self.datagrams += 1;
        if self.host_cut(from.ip()) || self.host_cut(to.ip()) {
            return;
        }
        let mut bytes = bytes;
        if self.plan.undetected > 0.0 && self.rng.random_bool(self.plan.undetected) {
            for _ in 0..2 {
                let bit = self.rng.random_range(0..bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        let len = self.plan.data.trim(&mut self.rng, &mut bytes).len();
        bytes.truncate(len);
        let Some(carried) = self.links.carry(self.now, (from, to), bytes.len()) else { return };
        let delivery = self.plan.data.decide(&mut self.rng);
        for after in [delivery.first, delivery.second].into_iter().flatten() {
            self.at(self.now + carried + after, Event::Datagram(from, to, bytes.clone()));
        }
    }

    fn datagram(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        if let Some(switch) = self.switches.get(&to).copied() {
            if !self.devices[switch].alive {
                return;
            }
            self.exchanged.entry(from).or_default().0 += bytes.len() as u64;
            for (peer, bytes) in self.devices[switch].process(from, &bytes) {
                self.check_amplification(peer, &bytes);
                self.check_link(peer, &bytes);
                self.send_datagram(to, peer, bytes);
            }
        } else if let Some(index) = self.sockets.get(&to).copied() {
            if self.ranks[index].receive(to, bytes) {
                self.wake_rank(index, self.now);
            }
        } else if to.ip() == self.adversary.address() {
            self.adversary_datagram(to, &bytes);
        }
    }

    /// **No amplification**: an address that has not shown that it receives there gets at most three times the bytes received from it.
    fn check_amplification(&mut self, to: SocketAddr, datagram: &[u8]) {
        if self.switches.contains_key(&to) || self.proven.contains(&to) {
            return;
        }
        let kind = Packet::new_checked(datagram).map(|packet| packet.kind());
        assert!(kind != Ok(Kind::Result as u8), "a switch sent a result to {to}, which has shown nothing");
        let (received, sent) = self.exchanged.entry(to).or_default();
        *sent += datagram.len() as u64;
        assert!(
            *sent <= 3 * *received,
            "switches sent {sent} bytes to {to}, which has shown nothing and sent {received}"
        );
    }

    /// Has ranks that wait for a job's other ranks look again.
    pub(super) fn wake_mesh(&mut self, job: usize) {
        let at = self.now + Duration::from_micros(200);
        for index in 0..self.ranks.len() {
            if self.ranks[index].job == job && self.ranks[index].is_alive() {
                self.ranks[index].schedule_engine();
                self.wake_rank(index, at);
            }
        }
    }

    /// How often a job's mesh has changed.
    pub(super) fn mesh_changes(&self, job: usize) -> u64 {
        locked(&self.meshes[job]).changes
    }
}
