//! Who takes part in a sequence.

use netfold_p4::allreduce::{self, Address, Behind, Child, Node, Parent};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::profile::{Encapsulation, Numerics, Profile};
use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, Outer};
use netfold_wire::{Kind, UDP_PORT};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::sequence::Group;

/// Port of the controller's packets.
pub(super) const CONTROLLER: u16 = 250;

/// A port that no job knows.
pub(super) const UNKNOWN_SENDER: u16 = 251;

/// Slots between the ranges of two jobs.
const RANGE: u32 = 4;

/// Jobs of one sequence at most.
const JOBS_MAX: u32 = 4;

/// A job, its members, and how far each of its slots has come.
pub(super) struct Job {
    pub(super) node: Node,
    pub(super) children: Vec<Child>,
    pub(super) sharing: Sharing,
    /// The members' addresses are not validated yet: the switch replies to their packets with tokens.
    challenged: bool,
    /// Slot by slot, set 0 before set 1.
    pub(super) slots: Vec<Slot>,
}

/// Whose slots a job has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Its own.
    None,
    /// Those that all best-effort jobs share, below an aggregator.
    Shared,
    /// Its own, at the aggregator: packets come from the first child's port, and name their contributors.
    Aggregator,
}

impl Sharing {
    fn generate(rng: &mut Xoshiro256PlusPlus, profile: &Profile) -> Self {
        if !profile.best_effort {
            return Self::None;
        }
        [Self::None, Self::Shared, Self::Shared, Self::Aggregator][rng.random_range(0..4)]
    }
}

/// What was sent to one (slot, set).
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// The chunk that is being folded.
    pub(super) chunk: u32,
    /// Children whose contribution was sent.
    pub(super) sent: u32,
    /// Whether the parent's RESULT was sent.
    pub(super) settled: bool,
}

/// All jobs of a sequence.
pub(super) struct Jobs {
    pub(super) list: Vec<Job>,
    encapsulation: Encapsulation,
}

impl Jobs {
    pub(super) fn generate(rng: &mut Xoshiro256PlusPlus, profile: &Profile) -> Self {
        // One range more, where jobs can share one.
        let ranges = profile.slots / RANGE - u32::from(profile.best_effort);
        let max = JOBS_MAX.min(profile.jobs).min(ranges).max(1);
        let count = rng.random_range(1..=max);
        let mut ports = 1..;
        let mut port = || ports.next().expect("there are more ports than members");
        let mut list = Vec::new();
        for number in 0..count as u16 {
            let slots = [1, 2, 4][rng.random_range(0..3)].min(profile.slots);
            let max = profile.workers.min(32);
            let world = [1, 2, 2, 3, 3, 4, 8, 32][rng.random_range(0..8)].min(max) as u16;
            let sees_source = profile.encapsulation == Encapsulation::Ethernet && rng.random_bool(0.7);
            let source = |port| if sees_source { endpoint(port).ip.to_bits() } else { 0 };
            let children: Vec<Child> = (0..world as u8)
                .map(|rank| {
                    let port = port();
                    // Packets name owners 0 to 2. Instances are ports.
                    let behind = |rng: &mut Xoshiro256PlusPlus| {
                        let first = rng.random_range(0..3);
                        Behind { instance: port, first, last: rng.random_range(first..3) }
                    };
                    let behind = (profile.owners && rng.random_bool(0.7)).then(|| behind(rng));
                    Child { port, source: source(port), rank, behind }
                })
                .collect();
            let sharing = Sharing::generate(rng, profile);
            let below = match sharing {
                Sharing::None => profile.hierarchy && rng.random_bool(0.4),
                Sharing::Shared => true,
                Sharing::Aggregator => false,
            };
            let parent = below.then(|| {
                let port = port();
                Parent { port, source: source(port), group: 101 + number, rank: 0 }
            });
            // The last range lies at the end of the switch.
            let range = if number + 1 < count as u16 || count == 1 {
                u32::from(number)
            } else {
                profile.slots / RANGE - 1
            };
            let range = if sharing == Sharing::Shared { count } else { range };
            let node = Node {
                job: rng.random_range(1..=u16::MAX),
                epoch: rng.random(),
                key: rng.random(),
                base: range * RANGE,
                slots,
                children: world as u8,
                workers: world,
                world: if parent.is_some() { world * rng.random_range(1..5) } else { world },
                group: 1 + number,
                parent,
                shift: (profile.numerics == Numerics::Wide).then(|| world.next_power_of_two().ilog2() as u8),
                bounded_loss: profile.bounded_loss,
                owners: profile.owners,
            };
            let first = first_chunk(rng);
            let slot = |i: u32| Slot { chunk: first.wrapping_add(i), sent: 0, settled: false };
            let challenged = rng.random_bool(0.2);
            list.push(Job { node, children, sharing, challenged, slots: (0..2 * slots).map(slot).collect() });
        }
        // Two jobs of one number would share entries.
        list.sort_by_key(|job| job.node.job);
        list.dedup_by_key(|job| job.node.job);
        Self { list, encapsulation: profile.encapsulation }
    }

    pub(super) fn entries(&self, rng: &mut Xoshiro256PlusPlus, profile: &Profile) -> Vec<TableEntry> {
        let mut entries: Vec<_> =
            [Kind::Advance, Kind::Probe].map(|kind| allreduce::controller_entry(CONTROLLER, kind)).into();
        for Job { node, children, sharing, challenged, .. } in &self.list {
            if *challenged {
                entries.extend(
                    children.iter().map(|child| allreduce::challenge_entry(node, child, rng.random())),
                );
                continue;
            }
            match sharing {
                Sharing::None => {
                    entries.extend(allreduce::node_entries(node));
                    entries.extend(children.iter().flat_map(|child| allreduce::job_entries(node, child)));
                }
                Sharing::Shared => {
                    entries.extend(allreduce::shared_node_entries(node));
                    entries
                        .extend(children.iter().flat_map(|child| allreduce::shared_job_entries(node, child)));
                }
                Sharing::Aggregator => entries.extend(allreduce::aggregator_entries(node, &children[0])),
            }
        }
        if profile.encapsulation == Encapsulation::Ethernet {
            let replicas = self.groups().into_iter().flat_map(|group| group.replicas);
            // Copies without an entry keep their addresses.
            for replica in replicas.filter(|_| rng.random_bool(0.9)) {
                let (to, from) = (address(endpoint(replica.port)), address(switch()));
                entries.push(allreduce::child_entry(replica.instance, to, from));
            }
        }
        entries
    }

    /// A group of its children for each job, and one of the parent alone. Instances are ports.
    pub(super) fn groups(&self) -> Vec<Group> {
        let replica = |port| Replica { port, instance: port };
        let mut groups = Vec::new();
        for Job { node, children, .. } in &self.list {
            let replicas = children.iter().map(|child| replica(child.port)).collect();
            groups.push(Group { id: node.group, replicas });
            groups.extend(
                node.parent.map(|parent| Group { id: parent.group, replicas: vec![replica(parent.port)] }),
            );
        }
        groups
    }

    /// The packet that carries a datagram from the host behind `port`.
    pub(super) fn packet(&self, port: u16, ecn: u8, datagram: &[u8]) -> Vec<u8> {
        if self.encapsulation == Encapsulation::Datagram {
            return datagram.to_vec();
        }
        let mut frame = vec![0; netfold_wire::frame::OUTER_LEN + datagram.len()];
        let outer = Outer { source: endpoint(port), destination: switch() };
        outer.emit(datagram, ecn, &mut frame).expect("the frame is as long as it must be");
        frame
    }
}

/// Numbers that pass the ends of serial arithmetic, too.
fn first_chunk(rng: &mut Xoshiro256PlusPlus) -> u32 {
    match rng.random_range(0..4) {
        0 => 1,
        1 => (1 << 31) - rng.random_range(0..8),
        2 => u32::MAX - rng.random_range(0..8),
        _ => rng.random(),
    }
}

fn endpoint(port: u16) -> Endpoint {
    let [high, low] = port.to_be_bytes();
    Endpoint {
        mac: EthernetAddress([2, 0, 0, 0, high, low]),
        ip: Ipv4Address::new(10, 0, high, low),
        port: 4000 + port,
    }
}

fn switch() -> Endpoint {
    Endpoint { mac: EthernetAddress([2, 0, 0, 1, 0, 0]), ip: Ipv4Address::new(10, 1, 0, 0), port: UDP_PORT }
}

fn address(endpoint: Endpoint) -> Address {
    let mac = endpoint.mac.0.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte));
    Address { mac, ip: endpoint.ip.to_bits(), port: endpoint.port }
}
