//! Any lines and any order of events at the control port, over a switch that fails now and then. In half of the cases it is a controller's:
//! workers name tenants, sessions break and are resumed, and the controller starts again from what it has stored.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use netfold_control::{
    Credentials, Enroll, EnrollRole, Join, LINE_LEN_MAX, MemberCounters, Mode, Multipath, Numerics,
    PathPolicy, PathToken, QuotaQuery, RankEvent, RankEventKind, Resize, Resume, ResumeTicket, SessionEvent,
    SessionRequest, StallReport,
};
use netfold_controller::admission::{Config, Coordinator, Output, SessionId, SessionLoss};
use netfold_controller::bands::{Banding, Ranking};
use netfold_controller::driver::{DriverError, Limits, SlotState, SwitchDriver};
use netfold_controller::executor::{Executor, SwitchTask, TenantTask};
use netfold_controller::fleet::{Fleet, OneSwitch, SwitchInfo};
use netfold_controller::message::{Lines, decode, encode};
use netfold_controller::policy::Sharing;
use netfold_controller::record::{Change, JobName, Quota, StoredRecords, TenantRecord, TokenHash};
use netfold_p4::entry::{EntryError, Replica, TableEntry};
use netfold_wire::JobKeys;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::input::Input;

const STEPS_MAX: usize = 200;

/// Tenants; the second has a token.
const TENANTS: [&str; 2] = ["blue", "red"];
const TOKEN: &str = "0123456789";

/// The limits of the switch.
pub(crate) fn limits(sees_source: bool, bounded_loss: bool) -> Limits {
    Limits {
        slots: 64,
        lane_words: 64,
        ports_max: 8,
        groups_max: 3,
        entries: u32::MAX,
        udp_port: 20038,
        sees_source,
        bounded_loss,
        owners: bounded_loss,
        lane_ops: netfold_wire::LaneOps::ALL,
        multipath: !sees_source,
        authenticates: true,
    }
}

/// What a controller with two tenants has stored.
fn stored() -> StoredRecords {
    let mut stored = StoredRecords::default();
    for (name, token) in TENANTS.into_iter().zip([None, Some(TokenHash::of(TOKEN))]) {
        let quota = Quota { jobs: 2, ..Quota::UNLIMITED };
        stored.apply(Change::Tenant(TenantRecord {
            name: name.into(),
            quota,
            weight: 1,
            priority: 0,
            token,
        }));
    }
    stored
}

/// Mostly those of a tenant that exists.
/// A first rank, one that resumes with a wrong ticket, or a process that joins.
fn enroll(input: &mut Input<'_>) -> SessionRequest {
    let role = match input.below(4) {
        0 => EnrollRole::New {},
        1 => EnrollRole::Member {
            generation: input.below(4) as u32,
            rank: input.below(5) as u16,
            ticket: ResumeTicket([input.byte(); 32]),
        },
        _ => EnrollRole::First { rank: input.below(4) as u16, world: input.below(5) as u16 },
    };
    SessionRequest::Enroll(Enroll {
        version: if input.below(32) == 0 { input.byte() } else { netfold_wire::VERSION },
        credentials: credentials(input),
        job: ["a", "b", "c", ""][input.below(4)].into(),
        role,
    })
}

fn credentials(input: &mut Input<'_>) -> Option<Credentials> {
    let tenant = ["blue", "red", "red", "grey"][input.below(4)].into();
    let token = if input.below(8) == 0 { String::new() } else { TOKEN.into() };
    (input.below(16) > 0).then_some(Credentials { tenant, token })
}

/// Some of them are impossible.
fn stall_report(input: &mut Input<'_>) -> StallReport {
    let kinds = [RankEventKind::Submitted, RankEventKind::Sent, RankEventKind::Retransmitted];
    let events = (0..input.below(30)).map(|_| RankEvent {
        ago_ms: u64::from(input.word() >> (input.byte() % 32)),
        kind: kinds[input.below(kinds.len())],
        chunk: (input.below(2) == 0).then(|| input.word()),
        operation: None,
        count: None,
    });
    let mut events: Vec<RankEvent> = events.collect();
    if input.below(4) > 0 {
        events.sort_by_key(|event| std::cmp::Reverse(event.ago_ms));
    }
    StallReport {
        silent_ms: u64::from(input.byte()) << (input.byte() % 56),
        received_ms: (input.below(2) == 0).then(|| input.byte().into()),
        outstanding: 1 + input.below(600) as u32,
        class: input.byte() % 4,
        chunk: input.word() >> (input.byte() % 32),
        sends: input.byte().into(),
        events,
    }
}

/// A switch that refuses by the bits of a pattern.
struct FaultyDriver {
    pattern: u32,
}

struct Scene {
    now: Duration,
    coordinator: Coordinator,
    executor: Executor,
    tasks: VecDeque<TenantTask>,
    /// Open sessions and their replies.
    sessions: BTreeMap<SessionId, u32>,
    /// Where sessions send from, and the tokens of members that are challenged.
    endpoints: BTreeMap<SessionId, SocketAddr>,
    tokens: BTreeMap<SessionId, PathToken>,
    /// The ranks that sessions have joined as.
    ranks: BTreeMap<SessionId, u16>,
    /// With what members can resume their sessions.
    admissions: Vec<Resume>,
    /// What a controller has stored; `None` at a switch that is its own control plane.
    stored: Option<StoredRecords>,
    switch: Limits,
    config: Config,
}

/// Reads the data as lines of the control port, then as a history of it.
pub fn run(data: &[u8]) {
    lines(data);
    let mut input = Input::new(data);
    let mut scene = Scene::new(&mut input);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        scene.step(&mut input);
        scene.collect();
    }
    scene.end();
}

/// Lines are cut and read; what is read is written and read again.
fn lines(data: &[u8]) {
    let mut lines = Lines::default();
    for piece in data.chunks(97) {
        lines.push(piece);
        while let Ok(Some(line)) = lines.next_line() {
            assert!(line.len() < LINE_LEN_MAX);
            read(&line);
        }
    }
    read(data);
}

fn read(line: &[u8]) {
    match decode(line) {
        Ok(request) => {
            let text = serde_json::to_string(&request).expect("requests are plain values");
            assert_eq!(decode(text.as_bytes()), Ok(request));
        }
        Err(refused) => {
            let encoded = encode(&refused.into());
            assert!(encoded.len() <= LINE_LEN_MAX && encoded.ends_with(b"\n"));
        }
    }
    if let Ok(event) = serde_json::from_slice::<SessionEvent>(line) {
        let text = serde_json::to_string(&event).expect("events are plain values");
        assert_eq!(serde_json::from_str::<SessionEvent>(&text).expect("what was written is read"), event);
    }
}

impl Scene {
    fn new(input: &mut Input<'_>) -> Self {
        let controlled = input.below(2) == 1;
        let switch = limits(input.below(2) == 1, input.below(2) == 1);
        let base = if controlled { Config::controller(1000, 1_700_000_000) } else { Config::new(1000) };
        let config = Config {
            sessions_max: 12,
            jobs_max: 3,
            pending_joins_max: 8,
            jobs_kept: base.jobs_kept.min(4),
            encrypted: input.below(2) == 0,
            multipath: (input.below(2) == 0)
                .then_some(Multipath { udp_ports: 4, policy: PathPolicy::default() }),
            sharing: Sharing::Elastic,
            banding: Banding { ranking: Ranking::ALL[input.below(3)], ..Banding::default() },
            ..base
        };
        let pattern = if input.below(4) == 0 { input.word() } else { 0 };
        let stored = controlled.then(stored);
        Self {
            now: Duration::from_secs(1),
            coordinator: Self::coordinator(&config, switch, stored.clone().unwrap_or_default()),
            executor: Executor::new(vec![Box::new(FaultyDriver { pattern })]),
            tasks: VecDeque::new(),
            sessions: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            tokens: BTreeMap::new(),
            ranks: BTreeMap::new(),
            admissions: Vec::new(),
            stored,
            switch,
            config,
        }
    }

    fn coordinator(config: &Config, switch: Limits, stored: StoredRecords) -> Coordinator {
        let (switch, keys) = (SwitchInfo::own(switch, Numerics::Word), StdRng::seed_from_u64(1));
        let fleet = Fleet::new(vec![switch], Box::new(OneSwitch), config.epoch_floor, keys);
        Coordinator::new(config.clone(), fleet, stored)
    }

    /// The controller is killed and starts again: its sessions are gone, and so are the tasks that its switch has not carried out.
    fn restart(&mut self) {
        let Some(stored) = self.stored.clone() else { return };
        self.coordinator = Self::coordinator(&self.config, self.switch, stored);
        self.coordinator.handle_timeout(self.now);
        self.tasks.clear();
        self.sessions.clear();
        self.endpoints.clear();
        self.tokens.clear();
        self.ranks.clear();
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(11) {
            0 | 1 => {
                let peer = SocketAddr::from((Ipv4Addr::new(10, 0, 0, input.byte()), 40_000));
                if let Ok(id) = self.coordinator.open(self.now, peer) {
                    self.sessions.insert(id, 0);
                    self.endpoints.insert(id, peer);
                }
            }
            2..=4 => self.say(input),
            5 => {
                if let Some(id) = self.pick(input) {
                    let losses =
                        [SessionLoss::Closed, SessionLoss::Silent, SessionLoss::Protocol, SessionLoss::Slow];
                    self.coordinator.close(self.now, id, losses[input.below(losses.len())]);
                }
            }
            6 => {
                self.now += Duration::from_millis(u64::from(input.word() >> (16 + input.below(16))));
                self.coordinator.handle_timeout(self.now);
            }
            7 => {
                let line = input.bytes(200).to_vec();
                if let (Some(id), Ok(request)) = (self.pick(input), decode(&line)) {
                    self.coordinator.request(self.now, id, request);
                }
            }
            8 if input.below(8) == 0 => self.restart(),
            9 => {
                let tenant = ["", "red", "blue"][input.below(3)].into();
                let name = JobName { tenant, job: ["a", "b", "c"][input.below(3)].into() };
                for record in self.coordinator.explain(self.now, &name).unwrap_or_default() {
                    assert!(!record.conclusion.is_empty() && record.chunks.len() <= 8, "{record:?}");
                }
            }
            _ => self.work(),
        }
    }

    fn say(&mut self, input: &mut Input<'_>) {
        let Some(id) = self.pick(input) else { return };
        let request = match input.below(13) {
            8 => self.resume(input),
            9 => SessionRequest::Quota(QuotaQuery {
                version: netfold_wire::VERSION,
                credentials: credentials(input),
                groups: input.word(),
                slots: input.word(),
                classes: input.byte(),
                trees: input.byte(),
            }),
            0 => {
                let mut counter = || u64::from(input.byte()) << (8 * (input.byte() % 8));
                let counters = MemberCounters {
                    tensor_bytes: counter(),
                    packets_sent: counter(),
                    bytes_sent: counter(),
                    packets_retransmitted: counter(),
                    packets_overtaken: counter(),
                    results_received: counter(),
                    waits: counter(),
                    wait_us: counter(),
                    starts: counter(),
                    start_wait_us: counter(),
                    cpu_wait_us: counter(),
                };
                SessionRequest::Alive { counters: Some(counters) }
            }
            10 => SessionRequest::Stalled(stall_report(input)),
            11 => enroll(input),
            12 => SessionRequest::Resize(Resize {
                generation: input.below(4) as u32,
                joining: input.below(3) as u16,
                timeout_ms: input.word() >> (8 * input.below(4)),
                meeting: (input.below(2) == 0).then(|| (Ipv4Addr::LOCALHOST, u16::from(input.byte())).into()),
            }),
            1 => SessionRequest::Leave {},
            2 => SessionRequest::Band {},
            3 => SessionRequest::Path { token: self.token(id, input) },
            _ => SessionRequest::Join(Join {
                version: if input.below(32) == 0 { input.byte() } else { netfold_wire::VERSION },
                credentials: credentials(input),
                job: ["a", "b", "c", ""][input.below(4)].into(),
                group: ["", "", "tp", "dp", "a/b"][input.below(5)].into(),
                rank: input.below(5) as u16,
                world: input.below(5) as u16,
                mode: Mode::ALL[usize::from(input.below(16) == 0)],
                slots: 1 << input.below(10),
                classes: input.byte() % 32,
                udp_port: input.byte().into(),
                udp_ports: [0, 1, 1, 4, 4, 8, 3, 255][input.below(8)],
                address: (input.below(4) == 0).then(|| Ipv4Addr::new(10, 0, 0, input.byte()).into()),
                tree: input.byte() % 3,
                trees: 1 + input.byte() % 2,
                movable: input.below(4) > 0,
                authenticated: input.below(4) == 0,
                datagram_max: [0, 1472, 9000, u32::MAX][input.below(4)],
                generation: [0, 0, 0, 1, 1, 2][input.below(6)],
            }),
        };
        if let (SessionRequest::Join(join), Some(endpoint)) = (&request, self.endpoints.get_mut(&id)) {
            endpoint.set_port(join.udp_port);
            join.address.into_iter().for_each(|address| endpoint.set_ip(address));
            self.ranks.entry(id).or_insert(join.rank);
        }
        self.coordinator.request(self.now, id, request);
    }

    /// Mostly what a member was admitted with, at times changed.
    fn resume(&mut self, input: &mut Input<'_>) -> SessionRequest {
        let at = input.below(8);
        let admitted = self.admissions.get(at).or(self.admissions.last()).cloned();
        let none = Resume {
            version: netfold_wire::VERSION,
            job: 1,
            epoch: 1000,
            rank: 0,
            ticket: ResumeTicket([0; 32]),
        };
        let mut resume = admitted.unwrap_or(none);
        match input.below(16) {
            0 => resume.rank = input.below(5) as u16,
            1 => resume.ticket.0[0] ^= 1,
            2 => resume.epoch = input.word(),
            3 => resume.job = input.below(4) as u16,
            _ => {}
        }
        SessionRequest::Resume(resume)
    }

    /// Mostly the token that the switch has for a session's member.
    fn token(&self, id: SessionId, input: &mut Input<'_>) -> PathToken {
        match self.tokens.get(&id) {
            Some(token) if input.below(8) > 0 => *token,
            _ => PathToken(input.word().into()),
        }
    }

    fn pick(&mut self, input: &mut Input<'_>) -> Option<SessionId> {
        let count = self.sessions.len();
        (count > 0).then(|| self.sessions.keys().nth(input.below(count)).copied())?
    }

    /// The switch carries out one task.
    fn work(&mut self) {
        if let Some(task) = self.tasks.pop_front() {
            let outcome = self.executor.run(task);
            self.coordinator.handle_outcome(self.now, outcome);
        }
    }

    fn collect(&mut self) {
        while let Some(output) = self.coordinator.poll_output() {
            match output {
                Output::Send { session, event } => {
                    assert!(encode(&event).len() <= LINE_LEN_MAX);
                    let admissions =
                        self.sessions.get_mut(&session).expect("an event for a session that is closed");
                    if let SessionEvent::Admitted(admission) = &event {
                        *admissions += 1;
                        assert_eq!(*admissions, 1, "admitted twice");
                        assert!(admission.slots.is_power_of_two());
                        assert_eq!(
                            admission.ticket.is_some(),
                            self.stored.is_some(),
                            "tickets are for resuming"
                        );
                        if let (Some(ticket), Some(rank)) =
                            (admission.ticket.clone(), self.ranks.get(&session))
                        {
                            let (job, epoch) = (admission.job, admission.epoch);
                            self.admissions.push(Resume {
                                version: netfold_wire::VERSION,
                                job,
                                epoch,
                                rank: *rank,
                                ticket,
                            });
                        }
                    }
                    if matches!(event, SessionEvent::Resumed { .. }) {
                        *admissions += 1;
                        assert_eq!(*admissions, 1, "resumed twice, or though it was admitted");
                    }
                    assert!(
                        !matches!(event, SessionEvent::Band(_)) || *admissions == 1,
                        "a band without admission"
                    );
                }
                Output::Close { session } => {
                    assert!(self.sessions.remove(&session).is_some(), "closed twice");
                }
                Output::Task(task) => {
                    if let SwitchTask::Prepare { placement, tokens } = &task.task {
                        let of = |(member, token): (&SocketAddr, &PathToken)| {
                            let id = self.endpoints.iter().find(|(id, endpoint)| {
                                *endpoint == member && self.sessions.contains_key(id)
                            })?;
                            Some((*id.0, *token))
                        };
                        self.tokens.extend(placement.members.iter().zip(tokens).filter_map(of));
                    }
                    self.tasks.push_back(task);
                }
                Output::Persist(change) => self.store(change),
                Output::Log(event) => assert!(!format!("{event:?}").is_empty()),
            }
        }
    }

    fn store(&mut self, change: Change) {
        if let Some(stored) = &mut self.stored {
            stored.apply(change);
            let epochs = stored.places.values().map(|place| place.epoch);
            assert!(epochs.max() < Some(stored.epoch_next), "an epoch could be used twice");
        }
    }

    /// After a shutdown every session is closed, and once the switch obeys, nothing of it is held.
    fn end(&mut self) {
        self.coordinator.shutdown();
        self.collect();
        assert!(self.sessions.is_empty(), "sessions stay open after a shutdown");
        for _ in 0..1000 {
            self.work();
            self.collect();
            if self.tasks.is_empty() {
                let Some(deadline) = self.coordinator.next_deadline() else { break };
                self.now = self.now.max(deadline);
                self.coordinator.handle_timeout(self.now);
                self.collect();
            }
        }
        assert!(self.tasks.is_empty());
        // A controller's jobs outlive it.
        assert!(self.stored.is_some() || self.coordinator.is_idle());
    }
}

impl FaultyDriver {
    fn call(&mut self) -> Result<(), DriverError> {
        let fails = self.pattern & 1 == 1;
        self.pattern >>= 1;
        if fails { Err(EntryError::Full(0).into()) } else { Ok(()) }
    }
}

impl SwitchDriver for FaultyDriver {
    fn limits(&self) -> Limits {
        limits(false, true)
    }

    fn bind_port(&mut self, _port: u16, _peer: SocketAddr) -> Result<(), DriverError> {
        self.call()
    }

    fn bind_ports(&mut self, _port: u16, _peer: SocketAddr, _udp_ports: u8) -> Result<(), DriverError> {
        self.call()
    }

    fn authenticate(&mut self, _port: u16, _keys: &JobKeys) -> Result<(), DriverError> {
        self.call()
    }

    fn unbind_port(&mut self, _port: u16) -> Result<(), DriverError> {
        self.call()
    }

    fn insert(&mut self, _entries: &[TableEntry]) -> Result<(), DriverError> {
        self.call()
    }

    fn delete(&mut self, _entries: &[TableEntry]) -> Result<(), DriverError> {
        self.call()
    }

    fn set_group(&mut self, _group: u16, _replicas: &[Replica]) -> Result<(), DriverError> {
        self.call()
    }

    fn delete_group(&mut self, _group: u16) -> Result<(), DriverError> {
        self.call()
    }

    fn advance(&mut self, _first_slot: u32, _slots: u32, chunk: u32) -> Result<u32, DriverError> {
        self.call().map(|()| chunk.wrapping_add(self.pattern >> 8))
    }

    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        let (pattern, sets) = (self.pattern, 2 * slots);
        let state = |set: u32| SlotState {
            slot: first_slot + set / 2,
            set: (set % 2) as u8,
            chunk: pattern.rotate_left(set),
            seen: pattern.rotate_right(set) & 0xf,
        };
        self.call().map(|()| (0..sets).map(state).collect())
    }
}
