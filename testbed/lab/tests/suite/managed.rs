//! bmv2 under a manager that adopts, repairs and takes over: what bmv2 does otherwise than the specification must do no harm.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use netfold_controller::driver::HeldEntity;
use netfold_controller::topology::Tls;
use netfold_controller::{DriverError, SwitchDriver};
use netfold_lab::bmv2::{Bmv2, Bmv2Config, Bmv2Error, Bmv2Tls, DataPlane, compile, missing_tool};
use netfold_p4::allreduce::{self, Child, Node};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::profile::Profile;
use netfold_p4_runtime::v1::{self, EntityKind, Replication, UpdateType};
use netfold_southbound::p4runtime::{
    Attachment, Client, ClientConfig, DeviceFormat, ELECTION_ID, Managed, ManagedConfig, PeerPort, Pipeline,
    Repaired, SwitchEvent,
};
use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::wait::{HANG_TIMEOUT, eventually};
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Reason, Repr, UDP_PORT, header};

/// What does not come within this time does not come.
const QUIET: Duration = Duration::from_millis(300);
const GROUP: u16 = 3;
const JOB: u16 = 5;

fn skipped() -> bool {
    match missing_tool() {
        Some(tool) => {
            println!("skipped: {tool} is not on PATH (see p4.org)");
            true
        }
        None => false,
    }
}

fn pipeline(profile: &Profile) -> Pipeline {
    let compiled = compile(&allreduce::program(profile).unwrap()).unwrap();
    Pipeline::new(profile.clone(), compiled.json.clone(), DeviceFormat::Bmv2).unwrap()
}

/// Worker `number` has address 10.0.0.`number`, UDP port 4000 + `number`, and is at port `number` of the switch.
fn worker(number: u8) -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, number), 4000 + u16::from(number)).into()
}

fn neighbour(peer: SocketAddrV4) -> Option<PeerPort> {
    let number = peer.ip().octets()[3];
    (number < 32).then(|| PeerPort { port: number.into(), mac: 0x0200_0000_0000 + u64::from(number) })
}

struct WatchedSwitch {
    switch: Managed,
    events: Receiver<SwitchEvent>,
}

fn manage(address: &str, profile: &Profile, held: Vec<HeldEntity>) -> WatchedSwitch {
    manage_by(address, None, profile, held)
}

fn manage_by(address: &str, tls: Option<Tls>, profile: &Profile, held: Vec<HeldEntity>) -> WatchedSwitch {
    let config = ManagedConfig {
        retry: (Duration::from_millis(20), Duration::from_millis(200)),
        resync_every: Duration::from_secs(3600),
        tls,
        ..ManagedConfig::new("b1", address, Attachment::Known(Box::new(neighbour)))
    };
    let (sender, events) = channel();
    let switch =
        Managed::start(config, pipeline(profile), held, move |event| drop(sender.send(event))).unwrap();
    WatchedSwitch { switch, events }
}

impl WatchedSwitch {
    fn wait<T>(&self, mut wanted: impl FnMut(&SwitchEvent) -> Option<T>) -> T {
        let deadline = Instant::now() + HANG_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).expect("the event in time");
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    }

    fn up(&self) -> bool {
        let fresh = self.wait(|event| match event {
            SwitchEvent::Up { fresh, .. } => Some(*fresh),
            _ => None,
        });
        eventually("a reachable switch", || self.switch.down().is_none());
        fresh
    }

    fn down(&self) -> String {
        self.wait(|event| match event {
            SwitchEvent::Down { reason } => Some(reason.clone()),
            _ => None,
        })
    }
}

fn node() -> Node {
    Node {
        job: JOB,
        epoch: 77,
        key: 0xdead_beef,
        base: 16,
        slots: 8,
        children: 2,
        workers: 2,
        world: 2,
        group: GROUP,
        parent: None,
        shift: None,
        bounded_loss: true,
        owners: true,
    }
}

/// By the control plane's ports: worker 1 has port 10 there, worker 2 has port 11.
fn entries() -> Vec<TableEntry> {
    let mut entries = allreduce::node_entries(&node());
    for (rank, number) in [(0, 1), (1, 2)] {
        let SocketAddr::V4(worker) = worker(number) else { panic!() };
        let child = Child { port: 10 + u16::from(rank), source: worker.ip().to_bits(), rank, behind: None };
        entries.extend(allreduce::job_entries(&node(), &child));
    }
    entries
}

fn held() -> Vec<HeldEntity> {
    let replicas = [10, 11].map(|port| Replica { port, instance: port + 1 }).to_vec();
    vec![
        HeldEntity::Port { port: 10, peer: worker(1), udp_ports: 1, keys: None },
        HeldEntity::Port { port: 11, peer: worker(2), udp_ports: 1, keys: None },
        HeldEntity::Group { group: GROUP, replicas },
        HeldEntity::Entries(entries()),
    ]
}

fn admit(switch: &mut Managed) {
    for held in held() {
        match held {
            HeldEntity::Port { port, peer, .. } => switch.bind_port(port, peer).unwrap(),
            HeldEntity::Group { group, replicas } => switch.set_group(group, &replicas).unwrap(),
            HeldEntity::Entries(entries) => switch.insert(&entries).unwrap(),
            HeldEntity::SharedSlots { .. } => unreachable!("it shares no slots"),
        }
    }
}

fn endpoint(number: u8) -> Endpoint {
    let port = worker(number).port();
    Endpoint { mac: EthernetAddress([2, 0, 0, 0, 0, number]), ip: Ipv4Address::new(10, 0, 0, number), port }
}

fn frame(number: u8, chunk: u32, words: u32) -> Vec<u8> {
    let repr = Repr {
        kind: Kind::Data,
        flags: Flags(0),
        op: LaneOp::Sum,
        class: 0,
        reason: Reason::None,
        job: JOB,
        slot: 0,
        set: 0,
        epoch: 77,
        key: 0xdead_beef,
        chunk,
        bitmap: 0,
        count: 1,
        exp: 0,
        exp_next: 0,
        owner: LaneOwner::All,
    };
    let mut datagram = vec![0; header::LEN];
    repr.emit(&mut header::Packet::new_unchecked(&mut datagram[..]));
    datagram.extend((0..words).flat_map(|lane| (u32::from(number) * 1000 + lane).to_be_bytes()));
    let mut frame = vec![0; OUTER_LEN + datagram.len()];
    let switch = Endpoint { port: UDP_PORT, ..endpoint(254) };
    Outer { source: endpoint(number), destination: switch }.emit(&datagram, 0, &mut frame).unwrap();
    frame
}

/// Both workers send a chunk; each gets one copy of the result, and no other copy is sent.
fn fold(plane: &DataPlane, chunk: u32) {
    let words = Profile::hardware().lane_words;
    (1..=2).for_each(|number| plane.send(number.into(), &frame(number, chunk, words)).unwrap());
    let mut ports = [0; 2];
    for at in &mut ports {
        let (port, frame) = plane.receive(HANG_TIMEOUT).unwrap().expect("a result in time");
        let (_, datagram) = Outer::parse(&frame).unwrap();
        let repr = Repr::parse(&header::Packet::new_checked(datagram).unwrap()).unwrap();
        assert_eq!((repr.kind, repr.chunk, repr.bitmap), (Kind::Result, chunk, 3));
        let lane = u32::from_be_bytes(datagram[header::LEN..][..4].try_into().unwrap());
        assert_eq!(lane, 3000);
        *at = port;
    }
    ports.sort_unstable();
    assert_eq!(ports, [1, 2]);
    assert_eq!(plane.receive(QUIET).unwrap(), None, "one copy each and no more");
}

/// A name that leads to the bmv2 of the time.
struct Alias(TemporaryDirectory);

impl Alias {
    fn new() -> Self {
        Self(TemporaryDirectory::new("managed"))
    }

    fn lead_to(&self, bmv2: &Bmv2) {
        let _ = std::fs::remove_file(self.0.file("socket"));
        let socket = bmv2.p4runtime().trim_start_matches("unix:");
        std::os::unix::fs::symlink(socket, self.0.file("socket")).unwrap();
    }

    fn address(&self) -> String {
        format!("unix:{}", self.0.file("socket"))
    }
}

#[test]
fn bmv2_is_adopted_without_a_write_and_advanced_by_packets_of_the_stream() {
    if skipped() {
        return;
    }
    let bmv2 = Bmv2::start(Bmv2Config::default()).unwrap();
    let plane = DataPlane::connect(&bmv2).unwrap();
    let mut first = manage(bmv2.p4runtime(), &Profile::hardware(), Vec::new());
    assert!(first.up());
    let begun = Instant::now();
    assert_eq!(first.switch.advance(16, 8, 40).unwrap(), 40);
    println!("8 slots advanced over P4Runtime in {:?}", begun.elapsed());
    admit(&mut first.switch);
    fold(&plane, 41);
    assert_eq!(first.switch.advance(16, 8, 40).unwrap(), 41, "a newer chunk stays");
    let begun = Instant::now();
    assert_eq!(first.switch.advance(256, 256, 7).unwrap(), 7);
    println!("256 slots advanced over P4Runtime in {:?}", begun.elapsed());
    assert_eq!(first.switch.resync().unwrap(), Repaired::default(), "it reads back what was written");
    drop(first);

    let mut second = manage(bmv2.p4runtime(), &Profile::hardware(), held());
    assert!(!second.up(), "nothing was lost");
    let counts = second.switch.counts();
    assert_eq!((counts.pushes, counts.writes), (0, 0), "{counts:?}");
    fold(&plane, 42);
    second.switch.set_group(GROUP, &[Replica { port: 11, instance: 12 }]).unwrap();
    second.switch.set_group(GROUP, &[10, 11].map(|port| Replica { port, instance: port + 1 })).unwrap();
    fold(&plane, 43);
    let wrong: Vec<TableEntry> = {
        // 65 entries, of which the last is there.
        let child = |rank: u8| Child { port: 10, source: 0x0a01_0000 + u32::from(rank), rank, behind: None };
        let other = Node { job: 9, ..node() };
        let mut many: Vec<_> =
            (0..13).flat_map(|rank| allreduce::job_entries(&other, &child(rank))).collect();
        let raw = allreduce::child_entry(
            77,
            allreduce::Address { mac: 1 << 50, ip: 1, port: 1 },
            allreduce::Address { mac: 1, ip: 1, port: 1 },
        );
        many.push(raw);
        many
    };
    assert!(matches!(second.switch.insert(&wrong), Err(DriverError::Refused(_))), "49 bits are no address");
    assert_eq!(second.switch.resync().unwrap(), Repaired::default(), "nothing of it is left");
    fold(&plane, 44);
}

#[test]
fn pipelines_pushed_over_one_another_make_no_copy_twice() {
    if skipped() {
        return;
    }
    let bmv2 = Bmv2::start(Bmv2Config::default()).unwrap();
    let plane = DataPlane::connect(&bmv2).unwrap();
    let smaller = Profile { slots: 512, ..Profile::hardware() };
    for (round, profile) in [Profile::hardware(), smaller, Profile::hardware()].iter().enumerate() {
        // What another program held is no business of this one.
        let mut watched = manage(bmv2.p4runtime(), profile, if round == 1 { held() } else { Vec::new() });
        assert!(watched.up(), "another program was pushed");
        assert_eq!(watched.switch.counts().pushes, 1);
        watched.switch.delete(&entries()).unwrap();
        admit(&mut watched.switch);
        fold(&plane, 10 * (round as u32 + 1));
    }
}

#[test]
fn changes_by_another_controller_are_undone_after_it_disconnects() {
    if skipped() {
        return;
    }
    let bmv2 = Bmv2::start(Bmv2Config::default()).unwrap();
    let plane = DataPlane::connect(&bmv2).unwrap();
    let mut watched = manage(bmv2.p4runtime(), &Profile::hardware(), Vec::new());
    watched.up();
    admit(&mut watched.switch);
    let config = ClientConfig { election_id: ELECTION_ID + 1, ..ClientConfig::default() };
    let meddler = Client::connect(bmv2.p4runtime(), config).unwrap();
    assert!(watched.down().contains("another controller is in charge of switch b1"));
    assert!(matches!(watched.switch.advance(0, 1, 1), Err(DriverError::Unreachable(_))));
    let job =
        v1::TableEntry { table_id: netfold_p4::p4info::table_id(allreduce::id::JOB), ..Default::default() };
    let gone: Vec<_> = meddler.read(vec![EntityKind::TableEntry(job)]).unwrap().into_iter().take(4).collect();
    let mut updates: Vec<v1::Update> = gone
        .into_iter()
        .map(|entity| v1::Update { r#type: UpdateType::Delete as i32, entity: Some(entity.into()) })
        .collect();
    let group = |id: u32| {
        let group = v1::MulticastGroupEntry { multicast_group_id: id, ..Default::default() };
        let r#type = Some(Replication::MulticastGroupEntry(group));
        v1::Entity::from(EntityKind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
            r#type,
        }))
    };
    updates.push(v1::Update { r#type: UpdateType::Delete as i32, entity: Some(group(GROUP.into())) });
    updates.push(v1::Update { r#type: UpdateType::Insert as i32, entity: Some(group(99)) });
    meddler.write(updates).unwrap();
    drop(meddler);
    assert!(!watched.up());
    let repaired = watched.wait(|event| match event {
        SwitchEvent::Repaired(repaired) => Some(*repaired),
        _ => None,
    });
    assert_eq!(repaired, Repaired { inserted: 5, removed: 1, modified: 0 });
    fold(&plane, 7);
}

#[test]
fn a_bmv2_that_is_killed_and_started_again_is_fresh() {
    if skipped() {
        return;
    }
    let alias = Alias::new();
    let bmv2 = Bmv2::start(Bmv2Config::default()).unwrap();
    alias.lead_to(&bmv2);
    let mut watched = manage(&alias.address(), &Profile::hardware(), Vec::new());
    watched.up();
    admit(&mut watched.switch);
    drop(bmv2);
    watched.down();
    assert!(matches!(watched.switch.advance(0, 1, 1), Err(DriverError::Unreachable(_))));
    let bmv2 = Bmv2::start(Bmv2Config::default()).unwrap();
    let plane = DataPlane::connect(&bmv2).unwrap();
    alias.lead_to(&bmv2);
    assert!(watched.up(), "it has lost its slots");
    watched.switch.delete(&entries()).unwrap();
    watched.switch.delete_group(GROUP).unwrap();
    admit(&mut watched.switch);
    fold(&plane, 7);
}

#[test]
fn a_pipeline_that_bmv2_cannot_run_is_reported() {
    if skipped() {
        return;
    }
    for json in [b"no json at all".as_slice(), b"{}"] {
        let error = Pipeline::new(Profile::hardware(), json.to_vec(), DeviceFormat::Bmv2).unwrap_err();
        assert!(error.to_string().contains("not the JSON of this program"), "{error}");
    }
    let bmv2 = Bmv2::start(Bmv2Config::default()).unwrap();
    let pipeline = Pipeline::new(Profile::hardware(), b"{}".to_vec(), DeviceFormat::Opaque).unwrap();
    let config = ManagedConfig::new("b1", bmv2.p4runtime(), Attachment::Known(Box::new(neighbour)));
    let (sender, events) = channel();
    let switch = Managed::start(config, pipeline, Vec::new(), move |event| drop(sender.send(event))).unwrap();
    let watched = WatchedSwitch { switch, events };
    let reason = watched.down();
    assert!(reason.contains("switch b1 refuses the pipeline"), "{reason}");
}

/// Certificates of one authority: its own, the switch's and the controller's, with their keys.
struct Certificates(TemporaryDirectory);

impl Certificates {
    fn new() -> Self {
        use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
        let files = Self(TemporaryDirectory::new("bmv2-tls"));
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate that is named as its issuer for one that signed itself.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        files.write("ca.pem", &authority.pem());
        for name in ["switch", "controller"] {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![format!("{name}.test")]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            files.write(&format!("{name}.pem"), &params.signed_by(&key, &authority).unwrap().pem());
            files.write(&format!("{name}.key"), &key.serialize_pem());
        }
        files
    }

    fn write(&self, name: &str, text: &str) {
        self.0.write(name, text);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[test]
fn bmv2_is_managed_over_mutual_tls() {
    if skipped() {
        return;
    }
    let files = Certificates::new();
    let (certificate, key) = (files.path("switch.pem"), files.path("switch.key"));
    let tls = Some(Bmv2Tls { certificate, key, client_ca: Some(files.path("ca.pem")) });
    let bmv2 = match Bmv2::start(Bmv2Config { tls, ..Bmv2Config::default() }) {
        Err(Bmv2Error::Ended { log, .. }) if log.contains("grpc-server-ssl") => {
            return println!("skipped: this simple_switch_grpc was built without TLS");
        }
        started => started.unwrap(),
    };
    let plane = DataPlane::connect(&bmv2).unwrap();
    let trusting =
        Tls { ca: Some(files.path("ca.pem")), server_name: Some("switch.test".into()), ..Tls::default() };
    let own = Tls {
        certificate: Some(files.path("controller.pem")),
        key: Some(files.path("controller.key")),
        ..trusting.clone()
    };
    let down = |tls| manage_by(bmv2.p4runtime(), tls, &Profile::hardware(), Vec::new()).down();
    let reason = down(Some(trusting));
    assert!(reason.contains("asks for a certificate of the controller"), "{reason}");
    let reason = down(Some(Tls { server_name: Some("other.test".into()), ..own.clone() }));
    assert!(reason.contains("is for switch.test and not for other.test"), "{reason}");
    let mut watched = manage_by(bmv2.p4runtime(), Some(own), &Profile::hardware(), Vec::new());
    assert!(watched.up());
    admit(&mut watched.switch);
    fold(&plane, 7);
    assert_eq!(watched.switch.resync().unwrap(), Repaired::default());
}
