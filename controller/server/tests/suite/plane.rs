//! A simulated control plane: two leaves under two spines, two tenants, and the test's jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use netfold_control::{Band, MemberCounters, Mode, Numerics, PathPolicy, RankEvent, RankEventKind};
use netfold_controller::command::{Command, CommandError, Proof};
use netfold_controller::flight_record::{FlightRecord, IncompleteChunk, RankRecord, RankReport};
use netfold_controller::record::{JobName, JobSpec, JobState, Quota, StoredRecords, TenantRecord, TokenHash};
use netfold_controller::server::{Control, ControlStub};
use netfold_controller::view::SnapshotScope;
use netfold_controller::view::{
    AccessView, AvoidedPathView, ControllerEvent, Finding, FindingKind, GroupView, JobView, LinkJobView,
    LinkTraffic, LinkView, MemberView, PathsView, PlaceView, RangeView, Snapshot, StallReportCounters,
    StallView, SwitchView, TenantView, TrafficView, TreeView,
};
use netfold_server::access::Access;
use netfold_server::{Frontend, FrontendConfig, Tls};
use netfold_wire::Dscp;

pub(crate) const ADMIN: &str = "admin-0123456789abcdef0123456789abcdef";
pub(crate) const READER: &str = "reader-0123456789abcdef0123456789abcdef";
/// The configured name of the page.
pub(crate) const HOST: &str = "controller.example";
pub(crate) const RED: &str = "red-0123456789abcdef0123456789abcdef";
pub(crate) const BLUE: &str = "blue-0123456789abcdef0123456789abcdef";

/// Time of the last change of everything.
const CHANGED_S: u64 = 1_750_000_000;

/// The simulated control plane.
pub(crate) struct Plane {
    tenants: BTreeMap<String, TenantRecord>,
    jobs: BTreeMap<JobName, JobView>,
    drained: BTreeMap<String, bool>,
    drained_links: BTreeSet<(String, String)>,
    events: u64,
}

pub(crate) fn name(tenant: &str, job: &str) -> JobName {
    JobName { tenant: tenant.into(), job: job.into() }
}

fn tenant(name: &str, token: &str) -> TenantRecord {
    let quota = Quota { slots: 512, jobs: 4, workers: u32::MAX };
    TenantRecord { name: name.into(), quota, weight: 1, priority: 0, token: Some(TokenHash::of(token)) }
}

/// Of a link of 100 Gbit/s.
const LINK_TRAFFIC: LinkTraffic =
    LinkTraffic { bytes_per_second: 625_000_000, packets_per_second: 435_000, retransmission_ratio: 0.00025 };

/// A rank that the others wait for.
const LATE: Finding = Finding { kind: FindingKind::LateStart, rank: Some(2), amount: 0.005, others: 0.0 };

/// Counters of so many equal workers.
fn counters(workers: u64) -> MemberCounters {
    MemberCounters {
        tensor_bytes: workers * 5_000_000_000,
        packets_sent: workers * 1_000_000,
        bytes_sent: workers * 1_436_000_000,
        packets_retransmitted: workers * 250,
        packets_overtaken: workers * 200,
        results_received: workers * 999_000,
        waits: workers * 998_000,
        wait_us: workers * 499_000_000,
        starts: workers * 1_000,
        start_wait_us: workers * 600_000,
        cpu_wait_us: workers * 20_000,
    }
}

fn member(rank: u16, switch: &str) -> MemberView {
    let endpoint = SocketAddr::from(([10, 0, 0, rank as u8 + 1], 20038));
    MemberView { rank, endpoint, switch: Some(switch.into()), state: "here", counters: Some(counters(1)) }
}

/// A job over two leaves and a spine.
fn running(job: JobName, first_slot: u32, spine: &str) -> JobView {
    let place = |switch: &str, parent: Option<&str>, workers| PlaceView {
        switch: switch.into(),
        parent: parent.map(str::to_owned),
        first_slot,
        slots: 128,
        shared: false,
        workers,
    };
    JobView {
        name: job,
        spec: JobSpec {
            world: 4,
            mode: Mode::Bfp16,
            slots: 128,
            classes: 1,
            trees: 1,
            authenticated: false,
            udp_ports: 1,
            iteration: None,
        },
        declared: false,
        state: JobState::Running,
        epoch: 7 + first_slot / 128,
        changed_s: CHANGED_S,
        last: None,
        band: Band::new(8, 4).ok().map(|band| band.marked(Dscp::new(&[10; 16]).unwrap())),
        traffic: Some(TrafficView {
            goodput: 1_250_000_000 - 250_000_000 * u64::from(first_slot / 128),
            retransmission_ratio: 0.00025,
            totals: counters(4),
        }),
        trees: vec![TreeView {
            tree: 0,
            phase: "running",
            number: Some(1),
            epoch: Some(7),
            slots: Some(128),
            spilled: Some(12),
            sharing: Some("shares slots of 'leaf1' below aggregator 'spine'".into()),
            places: vec![
                place(spine, None, 0),
                place("leaf1", Some(spine), 2),
                place("leaf2", Some(spine), 2),
            ],
            members: vec![member(0, "leaf1"), member(1, "leaf1"), member(2, "leaf2"), member(3, "leaf2")],
        }],
        findings: vec![LATE],
        stalls: Vec::new(),
        pattern: None,
        paths: Some(PathsView {
            udp_ports: 16,
            policy: PathPolicy::Weighted,
            members: 4,
            avoided_count: 1,
            exact: 2,
            avoided: vec![AvoidedPathView { rank: 2, tree: 0, path: 5, share: 0.001, round_trip_us: 40_000 }],
        }),
        schedule: None,
        placement: None,
        membership: None,
        groups: Vec::new(),
    }
}

pub(crate) fn ended(job: JobName) -> JobView {
    JobView {
        state: JobState::Ended,
        last: Some("all workers have left".into()),
        band: None,
        traffic: None,
        trees: Vec::new(),
        ..running(job, 0, "spine1")
    }
}

impl Plane {
    /// Two tenants with a running job each.
    pub(crate) fn populated() -> Self {
        let jobs = [
            running(name("red", "train"), 0, "spine1"),
            running(name("blue", "tune"), 128, "spine2"),
            ended(name("red", "old")),
        ];
        Self::with(jobs, [tenant("red", RED), tenant("blue", BLUE)])
    }

    /// One tenant with a running job of that name.
    pub(crate) fn named(job: &str) -> Self {
        Self::with([running(name("red", job), 0, "spine1")], [tenant("red", RED)])
    }

    /// One tenant with a job that shares slots, of which a group has slots of its own, each for such a reason.
    pub(crate) fn sharing(shares: &str, own: &str) -> Self {
        let mut job = running(name("red", "train"), 0, "spine1");
        job.trees[0].places[1].shared = true;
        job.trees[0].sharing = Some(shares.into());
        let trees = job.trees.iter().cloned().map(|tree| TreeView {
            tree: 2,
            spilled: None,
            sharing: Some(own.into()),
            ..tree
        });
        job.groups = vec![GroupView {
            group: "pipeline".into(),
            spec: job.spec,
            state: JobState::Running,
            epoch: 8,
            traffic: None,
            findings: Vec::new(),
            trees: trees.collect(),
        }];
        Self::with([job], [tenant("red", RED)])
    }

    /// One tenant with a job that stalls and has stalled before, for such a cause.
    pub(crate) fn stalled(cause: &str) -> Self {
        let stall = |began_ms: u64, ended: Option<&str>| StallView {
            group: if ended.is_some() { "pipeline".into() } else { String::new() },
            tree: 1,
            began_ms,
            as_of_ms: began_ms + 2_300,
            ended: ended.map(str::to_owned),
            conclusion: cause.into(),
        };
        let stalls = vec![stall(61_005, None), stall(3_605_000, Some("the job has results again"))];
        let job = JobView { stalls, ..running(name("red", "train"), 0, "spine1") };
        Self::with([job], [tenant("red", RED)])
    }

    pub(crate) fn with(
        jobs: impl IntoIterator<Item = JobView>,
        tenants: impl IntoIterator<Item = TenantRecord>,
    ) -> Self {
        Self {
            tenants: tenants.into_iter().map(|tenant| (tenant.name.clone(), tenant)).collect(),
            jobs: jobs.into_iter().map(|job| (job.name.clone(), job)).collect(),
            drained: BTreeMap::new(),
            drained_links: BTreeSet::new(),
            events: 0,
        }
    }

    /// `tenants` tenants with `jobs` jobs in all.
    pub(crate) fn large(tenants: u32, jobs: u32) -> Self {
        let tenant_name = |number: u32| format!("tenant-{number:04}");
        let all =
            (0..jobs).map(|number| ended(name(&tenant_name(number % tenants), &format!("job-{number:05}"))));
        Self::with(all, (0..tenants).map(|number| tenant(&tenant_name(number), RED)))
    }

    fn switch(&self, name: &str, role: &str) -> SwitchView {
        let mut ranges: Vec<RangeView> = self
            .jobs
            .values()
            .flat_map(|job| {
                job.trees.iter().flat_map(move |tree| tree.places.iter().map(move |place| (job, place)))
            })
            .filter(|(_, place)| place.switch == name)
            .map(|(job, place)| RangeView {
                first: place.first_slot,
                slots: place.slots,
                job: job.name.clone(),
                group: String::new(),
                tree: 0,
            })
            .collect();
        ranges.sort_by_key(|range| range.first);
        let used = ranges.iter().map(|range| range.slots).sum();
        SwitchView {
            name: name.into(),
            role: role.into(),
            kind: "software".into(),
            address: "127.0.0.1:9559".into(),
            up: name != "leaf3",
            down_reason: (name == "leaf3").then(|| "the connection was refused".into()),
            drained: self.drained.get(name).copied().unwrap_or(false),
            numerics: Numerics::Word,
            slots: 1024,
            slots_used: used,
            ports: 64,
            ports_used: 6,
            groups: 64,
            groups_used: 2,
            ranges,
            packets: vec![("none".into(), 1_000_000), ("duplicate".into(), 321), ("epoch".into(), 5)],
        }
    }

    fn event(&mut self, kind: &'static str, job: Option<JobName>, message: &str) -> ControllerEvent {
        self.events += 1;
        ControllerEvent {
            number: self.events,
            at_ms: CHANGED_S * 1000 + self.events,
            kind,
            job,
            group: String::new(),
            switch: None,
            epoch: None,
            reason: match kind {
                "refused" => Some("quota"),
                "job_ended" => Some("stopped"),
                _ => None,
            },
            message: message.into(),
        }
    }

    /// There are links of leaves only.
    fn drain_link(&mut self, a: String, b: String, drained: bool) -> Result<ControllerEvent, CommandError> {
        if !a.starts_with("leaf") {
            return Err(CommandError::NoLink { a, b, links: vec!["leaf1 - spine1".into()], more: 5 });
        }
        if drained {
            self.drained_links.insert((a, b));
        } else {
            self.drained_links.remove(&(a, b));
        }
        Ok(self.event("link_changed", None, "takes no more jobs"))
    }

    /// Tenants and jobs that a command names must be there.
    fn existing(&self, name: &JobName) -> Result<(), CommandError> {
        let known = self.jobs.contains_key(name);
        known.then_some(()).ok_or(CommandError::NotFound { what: "job", name: name.to_string() })
    }
}

/// A job over a link.
fn over_link(job: JobName) -> LinkJobView {
    LinkJobView { job, group: String::new(), tree: 0, demand: 20_000_000_000, source: "pattern", stays: None }
}

impl ControlStub for Plane {
    fn snapshot(&self, scope: SnapshotScope) -> Snapshot {
        let live = |job: &&JobView| scope == SnapshotScope::All || !job.trees.is_empty();
        let link = |a: &str, b: &str| LinkView {
            a: a.into(),
            b: b.into(),
            rate: Some(100_000_000_000),
            up: a != "leaf3",
            drained: self.drained_links.contains(&(a.to_owned(), b.to_owned())),
            trees: u32::from(a != "leaf3"),
            demand: u64::from(a != "leaf3") * 40_000_000_000,
            demand_measured: u64::from(a != "leaf3") * 30_000_000_000,
            jobs: vec![over_link(name("red", "train")), over_link(name("blue", "tune"))],
            traffic: (a != "leaf3").then_some(LINK_TRAFFIC),
        };
        let access = |host: &str, switch: &str| AccessView {
            host: host.into(),
            switch: switch.into(),
            workers: 4,
            traffic: Some(LinkTraffic {
                bytes_per_second: 2_500_000_000,
                packets_per_second: 1_740_000,
                ..LINK_TRAFFIC
            }),
        };
        Snapshot {
            taken_ms: CHANGED_S * 1000,
            stall_reports: StallReportCounters { taken: 3, limited: 2, ignored: 1 },
            tenants: self
                .tenants
                .values()
                .map(|tenant| TenantView {
                    name: tenant.name.clone(),
                    quota: tenant.quota,
                    used: Quota { slots: 384, jobs: 1, workers: 4 },
                    weight: tenant.weight,
                    priority: tenant.priority,
                    token: tenant.token.is_some(),
                })
                .collect(),
            jobs: self.jobs.values().filter(live).cloned().collect(),
            switches: [
                ("spine1", "spine"),
                ("spine2", "spine"),
                ("leaf1", "leaf"),
                ("leaf2", "leaf"),
                ("leaf3", "leaf"),
            ]
            .map(|(name, role)| self.switch(name, role))
            .to_vec(),
            links: ["leaf1", "leaf2", "leaf3"]
                .iter()
                .flat_map(|leaf| [link(leaf, "spine1"), link(leaf, "spine2")])
                .collect(),
            access: vec![access("hosts1", "leaf1"), access("hosts2", "leaf2")],
            sessions: 8,
            epoch_next: 9,
        }
    }

    fn job(&self, name: &JobName) -> Option<JobView> {
        self.jobs.get(name).cloned()
    }

    fn explain(&self, name: &JobName) -> Option<Vec<FlightRecord>> {
        self.job(name).map(|job| if job.name.job == "train" { vec![flight_record()] } else { Vec::new() })
    }

    fn verify(&self, proof: &Proof) -> bool {
        let tenant = self.tenants.get(&proof.tenant);
        tenant.is_some_and(|tenant| match (&tenant.token, &proof.token) {
            (None, _) => true,
            (Some(own), Some(shown)) => own.equals(shown),
            (Some(_), None) => false,
        })
    }

    fn records(&self) -> StoredRecords {
        StoredRecords { tenants: self.tenants.clone(), epoch_next: 9, ..StoredRecords::default() }
    }

    fn execute(&mut self, command: Command) -> Result<Vec<ControllerEvent>, CommandError> {
        let event = match command {
            Command::AddTenant(record) => {
                let name = record.name.clone();
                if self.tenants.insert(name.clone(), record).is_some() {
                    return Err(CommandError::Exists { what: "tenant", name });
                }
                self.event("tenant_changed", None, "was added")
            }
            Command::SetTenant { name, quota, weight, priority, token } => {
                let missing = CommandError::NotFound { what: "tenant", name: name.clone() };
                let tenant = self.tenants.get_mut(&name).ok_or(missing)?;
                tenant.quota = quota.unwrap_or(tenant.quota);
                tenant.weight = weight.unwrap_or(tenant.weight);
                tenant.priority = priority.unwrap_or(tenant.priority);
                tenant.token = token.or(tenant.token);
                self.event("tenant_changed", None, "was changed")
            }
            Command::RemoveTenant(name) => {
                if self.jobs.keys().any(|job| job.tenant == name) {
                    return Err(CommandError::Conflict(format!("tenant '{name}' has jobs: end them first")));
                }
                let missing = CommandError::NotFound { what: "tenant", name: name.clone() };
                self.tenants.remove(&name).ok_or(missing)?;
                self.event("tenant_changed", None, "was removed")
            }
            Command::DeclareJob { name, spec } => {
                if !spec.slots.is_power_of_two() {
                    return Err(CommandError::Invalid(format!(
                        "{} slots: ask for a power of two",
                        spec.slots
                    )));
                }
                let job = JobView {
                    spec,
                    declared: true,
                    state: JobState::Declared,
                    last: None,
                    ..ended(name.clone())
                };
                if self.jobs.contains_key(&name) {
                    return Err(CommandError::Exists { what: "job", name: name.to_string() });
                }
                self.jobs.insert(name.clone(), job);
                self.event("job_declared", Some(name), "was declared")
            }
            Command::EndJob { name, message } => {
                self.existing(&name)?;
                self.jobs
                    .insert(name.clone(), JobView { last: Some(message.clone()), ..ended(name.clone()) });
                self.event("job_ended", Some(name), &message)
            }
            Command::ForgetJob(name) => {
                self.existing(&name)?;
                self.jobs.remove(&name);
                self.event("refused", Some(name), "was forgotten")
            }
            Command::Drain { switch, drained, .. } => {
                self.drained.insert(switch.clone(), drained);
                let drained = self.event("switch_drained", None, "takes no more jobs");
                ControllerEvent { switch: Some(switch), ..drained }
            }
            Command::DrainLink { a, b, drained, .. } => self.drain_link(a, b, drained)?,
        };
        Ok(vec![event])
    }
}

/// A frontend of a simulated control plane, and the thread that executes its calls.
pub(crate) struct Served {
    pub(crate) front: Frontend,
    pub(crate) control: Control,
}

impl Served {
    pub(crate) fn open(plane: Plane) -> Self {
        Self::start(plane, Access::Open, None)
    }

    /// With tokens of an administrator and a reader.
    pub(crate) fn closed(plane: Plane) -> Self {
        let access =
            Access::Tokens { admins: vec![TokenHash::of(ADMIN)], readers: vec![TokenHash::of(READER)] };
        Self::start(plane, access, None)
    }

    pub(crate) fn start(plane: Plane, access: Access, tls: Option<Tls>) -> Self {
        let (control, answering) = Control::of(plane);
        std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(answering);
        });
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let config =
            FrontendConfig { grpc: any, http: Some(any), page_hosts: vec![HOST.to_owned()], access, tls };
        let front = Frontend::start(config, control.clone()).unwrap();
        Self { front, control }
    }

    pub(crate) fn grpc(&self) -> String {
        format!("http://{}", self.front.grpc())
    }
}

/// Of a job that waits for rank 3.
fn flight_record() -> FlightRecord {
    let event = |kind, chunk| RankEvent { ago_ms: 0, kind, chunk, operation: None, count: None };
    FlightRecord {
        group: String::new(),
        tree: 0,
        epoch: 7,
        began_ms: CHANGED_S * 1000,
        as_of_ms: CHANGED_S * 1000 + 2500,
        ended: None,
        chunks: vec![IncompleteChunk {
            chunk: 1034,
            slot: 10,
            set: 0,
            missing: vec![3],
            missing_more: 0,
            sums_missing: vec!["leaf1".into()],
            unread: Vec::new(),
        }],
        unread: vec![("leaf2".into(), "it does not answer".into())],
        ranks: vec![
            RankRecord {
                rank: 0,
                state: "here",
                silent_ms: 200,
                report: Some(RankReport {
                    at_ms: CHANGED_S * 1000 + 1500,
                    received_at_ms: None,
                    outstanding: 64,
                    chunk: 1034,
                    sends: 4,
                    events: vec![(CHANGED_S * 1000, event(RankEventKind::Sent, Some(1034)))],
                }),
            },
            RankRecord { rank: 3, state: "away", silent_ms: 2500, report: None },
        ],
        ranks_more: 0,
        conclusion: "rank 3 has not contributed".into(),
    }
}
