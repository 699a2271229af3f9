use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use netfold_p4::allreduce::id;
use netfold_p4::entry::{EntryError, TableEntry};
use netfold_p4::p4info::action_id;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::driver::{DriverError, SwitchDriver};

const LIMITS: Limits = Limits {
    slots: 64,
    lane_words: 64,
    ports_max: 40,
    groups_max: 4,
    entries: u32::MAX,
    udp_port: 20038,
    sees_source: true,
    bounded_loss: true,
    owners: true,
    lane_ops: netfold_wire::LaneOps::ALL,
    multipath: false,
    authenticates: false,
};

const JOB: TreeJob = TreeJob { job: 7, epoch: 3, key: 5, slots: 16, udp_ports: 1 };

fn address(last: u16) -> SocketAddr {
    ([10, 0, (last >> 8) as u8, last as u8], 20038).into()
}

fn site(switch: usize) -> Site {
    let address = Some(address(1000 + switch as u16));
    Site { limits: LIMITS, address, first_slot: 16, first_port: 2, first_group: 1, shared: None }
}

fn plan(shape: &Shape) -> Result<TreePlan, TreeError> {
    let sites: Vec<Site> = (0..shape.above.len()).map(site).collect();
    let workers: Vec<_> = (0..shape.workers.len()).map(|rank| Some(address(rank as u16))).collect();
    TreePlan::new(JOB, shape, &sites, &workers)
}

#[test]
fn one_switch_is_a_tree() {
    let plan = plan(&Shape::regular(1, 0, 3).unwrap()).unwrap();
    let [place] = plan.switch_plans() else { panic!("{plan:?}") };
    assert_eq!((place.depth, place.node.parent), (0, None));
    assert_eq!((place.node.children, place.node.workers, place.node.world), (3, 3, 3));
    assert_eq!(
        place.children[2],
        Child {
            port: 4,
            source: 0x0a00_0002,
            rank: 2,
            behind: Some(Behind { instance: 5, first: 2, last: 2 })
        }
    );
    let group = MulticastGroup {
        group: 1,
        replicas: vec![2, 3, 4].into_iter().map(|port| Replica { port, instance: port + 1 }).collect(),
    };
    assert_eq!(place.groups, [group]);
    assert_eq!(plan.workers(), [(0, 2), (0, 3), (0, 4)]);
    assert_eq!(plan.admission(1, 9, 20038).bitmap, 0b111);
}

/// The two ends of each link have the same keys, and no two senders have one key.
#[test]
fn both_ends_of_each_link_have_the_same_keys() {
    for (levels, fan_out, workers) in [(1, 0, 3), (2, 2, 5), (3, 2, 7)] {
        let shape = Shape::regular(levels, fan_out, workers).unwrap();
        let secret = TicketKey::generate(&mut StdRng::seed_from_u64(1));
        assert!(plan(&shape).unwrap().worker_keys(0).is_none(), "a plain job");
        let plan = plan(&shape).unwrap().authenticated(&shape, &secret);
        let places = plan.switch_plans();
        let keys = |switch: usize, port: u16| -> PortKeys {
            let binding = places[switch].ports.iter().find(|binding| binding.port == port).unwrap();
            let keys = binding.keys.clone().unwrap();
            assert_eq!((keys.job, keys.epoch), (JOB.job, JOB.epoch));
            keys.keys
        };
        let reversed = |PortKeys { receive, send }| PortKeys { receive: send, send: receive };
        let mut senders = BTreeSet::new();
        for (rank, &(switch, port)) in plan.workers().iter().enumerate() {
            let worker = plan.worker_keys(rank as u16).unwrap();
            assert_eq!(worker, reversed(keys(switch, port)), "rank {rank}");
            assert!(senders.insert(worker.send.0));
        }
        for (switch, place) in places.iter().enumerate() {
            let results = keys(switch, place.children[0].port).send;
            assert!(place.children.iter().all(|child| keys(switch, child.port).send == results));
            assert!(senders.insert(results.0));
            let Some(parent) = place.node.parent else { continue };
            let above = shape.above[switch].unwrap();
            let child = places[above].children.iter().find(|child| child.rank == parent.rank).unwrap();
            assert_eq!(keys(switch, parent.port), reversed(keys(above, child.port)), "switch {switch}");
            assert!(senders.insert(keys(switch, parent.port).send.0));
        }
        assert_eq!(senders.len(), usize::from(workers) + 2 * places.len() - 1);
    }
}

#[test]
fn two_leaves_and_a_spine() {
    let shape = Shape::regular(2, 2, 5).unwrap();
    assert_eq!(shape, Shape { above: vec![None, Some(0), Some(0)], workers: vec![1, 1, 1, 2, 2] });
    let plan = plan(&shape).unwrap();
    let [spine, left, right] = plan.switch_plans() else { panic!("{plan:?}") };
    assert_eq!((spine.node.children, spine.node.workers, spine.node.world), (2, 5, 5));
    assert_eq!((left.node.workers, right.node.workers), (3, 2));
    assert_eq!(spine.children[1].source, 0x0a00_03ea, "the address of switch 2");
    assert_eq!(right.node.parent, Some(Parent { port: 4, source: 0x0a00_03e8, group: 2, rank: 1 }));
    assert_eq!(
        right.groups[1],
        MulticastGroup { group: 2, replicas: vec![Replica { port: 4, instance: 5 }] }
    );
    assert_eq!(right.ports.iter().map(|at| at.port).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(plan.admission(4, 9, 20038).bitmap, 0b11, "the children of the worker's own switch");
}

#[test]
fn the_largest_tree_has_a_place_for_every_worker() {
    let shape = Shape::regular(3, 32, 32768).unwrap();
    let plan = plan(&shape).unwrap();
    assert_eq!(plan.switch_plans().len(), 1057);
    assert_eq!(plan.workers().iter().collect::<BTreeSet<_>>().len(), 32768);
    for (switch, place) in plan.switch_plans().iter().enumerate() {
        assert_eq!(place.node.full(), u32::MAX);
        assert_eq!(place.node.workers, [32768, 1024, 32][place.depth]);
        let instances: BTreeSet<_> =
            place.groups.iter().flat_map(|group| &group.replicas).map(|replica| replica.instance).collect();
        assert!(!instances.contains(&0));
        assert_eq!(instances.len(), place.ports.len(), "instances of switch {switch} are unique");
    }
    let position = |switch| plan.order().iter().position(|at| *at == switch).unwrap();
    assert!((1..1057).all(|switch| position(shape.above[switch].unwrap()) < position(switch)));
}

#[test]
fn what_is_no_tree_is_refused() {
    let shape = |above: &[Option<usize>], workers: &[usize]| {
        plan(&Shape { above: above.to_vec(), workers: workers.to_vec() }).unwrap_err()
    };
    assert_eq!(shape(&[None], &[]), TreeError::World(0));
    assert_eq!(shape(&[None], &[0; 32769]), TreeError::World(32769));
    assert_eq!(shape(&[None], &[0; 33]), TreeError::Children { switch: 0, children: 33 });
    assert_eq!(shape(&[None, Some(0)], &[0]), TreeError::Children { switch: 1, children: 0 });
    assert_eq!(shape(&[None], &[1]), TreeError::Absent { what: "worker", index: 0, at: 1 });
    assert_eq!(shape(&[None, Some(2)], &[0]), TreeError::Absent { what: "switch", index: 1, at: 2 });
    assert_eq!(shape(&[None, None], &[0, 1]), TreeError::Root { roots: 2, reached: 0, switches: 2 });
    assert_eq!(
        shape(&[None, Some(2), Some(1)], &[0, 1]),
        TreeError::Root { roots: 1, reached: 1, switches: 3 }
    );
    assert_eq!(shape(&[None, Some(0), Some(1), Some(2)], &[3]), TreeError::Levels(4));
    assert_eq!(Shape::regular(4, 2, 8), Err(TreeError::Levels(4)));
    assert_eq!(Shape::regular(2, 33, 99), Err(TreeError::Children { switch: 0, children: 33 }));
    assert_eq!(Shape::regular(2, 4, 3), Err(TreeError::Children { switch: 4, children: 0 }));
    assert_eq!(Shape::regular(2, 2, 66), Err(TreeError::Children { switch: 1, children: 33 }));
    assert_eq!(Shape::regular(1, 9, 0), Err(TreeError::World(0)));
}

#[test]
fn what_does_not_fit_the_switches_is_refused() {
    let shape = Shape::regular(2, 2, 4).unwrap();
    let with = |edit: fn(&mut Site), slots| {
        let mut sites: Vec<Site> = (0..3).map(site).collect();
        edit(&mut sites[2]);
        let workers = vec![Some(address(1)); 4];
        TreePlan::new(TreeJob { slots, ..JOB }, &shape, &sites, &workers).unwrap_err()
    };
    assert!(matches!(with(|_| {}, 12), TreeError::Slots { switch: 0, slots: 12, .. }));
    assert!(matches!(with(|site| site.first_slot = 8, 16), TreeError::Slots { switch: 2, first: 8, .. }));
    assert!(matches!(with(|site| site.first_slot = 64, 16), TreeError::Slots { switch: 2, first: 64, .. }));
    assert!(matches!(
        with(|site| site.first_port = 38, 16),
        TreeError::Short { switch: 2, what: "ports", free: 2, need: 3 }
    ));
    assert!(matches!(
        with(|site| site.first_group = 4, 16),
        TreeError::Short { switch: 2, free: 1, need: 2, .. }
    ));
    assert!(matches!(with(|site| site.first_group = 0, 16), TreeError::Short { switch: 2, free: 0, .. }));
    assert!(matches!(with(|site| site.limits.lane_words = 352, 16), TreeError::LaneWords { switch: 2, .. }));
    assert!(matches!(with(|site| site.address = None, 16), TreeError::Source { switch: 0, port: 3 }));
    let count = TreePlan::new(JOB, &shape, &[site(0)], &[None; 4]).unwrap_err();
    assert_eq!(count, TreeError::Count { what: "switches", want: 3, given: 1 });
}

/// A root with an aggregator above it, two leaves with two workers each, and an aggregator above the second: by number root's aggregator, root, leaf,
/// aggregator, leaf.
const ABOVE: [Option<usize>; 5] = [None, Some(0), Some(1), Some(1), Some(3)];

fn shared_tree(edit: impl FnOnce(&mut Shape, &mut [Site])) -> Result<TreePlan, TreeError> {
    let mut shape = Shape { above: ABOVE.to_vec(), workers: vec![2, 2, 4, 4] };
    let mut sites: Vec<Site> = (0..ABOVE.len()).map(site).collect();
    for switch in [1, 4] {
        sites[switch].shared = Some(SharedRange { first_slot: 0, slots: 32 });
    }
    edit(&mut shape, &mut sites);
    let workers: Vec<_> = (0..shape.workers.len()).map(|rank| Some(address(rank as u16))).collect();
    TreePlan::new(JOB, &shape, &sites, &workers)
}

#[test]
fn each_switch_of_a_tree_can_have_an_aggregator() {
    let plan = shared_tree(|_, _| {}).unwrap();
    let uses: Vec<SlotUse> = plan.switch_plans().iter().map(|place| place.slot_use).collect();
    use SlotUse::{Aggregator, Own, Shared};
    assert_eq!(uses, [Aggregator, Shared, Own, Aggregator, Shared]);
    assert_eq!(
        plan.shared().collect::<Vec<_>>(),
        [(1, 2), (4, 2)],
        "the groups of copies to the aggregators"
    );
    let node = |at: usize| &plan.switch_plans()[at].node;
    let sizes = |at: usize| (node(at).children, node(at).workers, node(at).world);
    // An aggregator has the children of the switch below it, and a port and a copy for that alone.
    assert_eq!([0, 1, 2, 3, 4].map(sizes), [(2, 4, 4), (2, 4, 4), (2, 2, 4), (2, 2, 4), (2, 2, 4)]);
    assert_eq!([0, 3].map(|at| plan.switch_plans()[at].children.len()), [1, 1]);
    assert!(node(0).parent.is_none());
    assert_eq!(node(3).parent, Some(Parent { port: 3, source: 0x0a00_03e9, group: 2, rank: 1 }));
    assert_eq!(node(1).parent.unwrap().source, 0x0a00_03e8, "the aggregator's address");
}

#[test]
fn an_aggregator_has_slots_of_its_own_for_one_switch() {
    let refused = |switch| Some(TreeError::Shared { switch });
    let broken = |edit: fn(&mut Shape, &mut [Site])| shared_tree(edit).err();
    assert_eq!(broken(|_, _| {}), None);
    assert_eq!(
        broken(|_, sites| sites[3].shared = sites[4].shared),
        refused(3),
        "another child has that parent"
    );
    assert_eq!(broken(|shape, _| shape.workers[3] = 3), refused(4), "a worker is at the aggregator");
    assert_eq!(broken(|shape, _| shape.above[2] = Some(0)), refused(1), "a leaf is, too");
    assert_eq!(broken(|_, sites| sites[0].shared = sites[1].shared), refused(0), "it is the root");
    assert_eq!(broken(|_, sites| sites[4].first_slot = 32), refused(4), "the job's are not in the range");
    // Aggregators are no levels, other switches are.
    let deep = |shared: bool| {
        let mut sites: Vec<Site> = (0..6).map(site).collect();
        for switch in [1, 3, 5].into_iter().filter(|switch| shared || *switch < 5) {
            sites[switch].shared = Some(SharedRange { first_slot: 0, slots: 32 });
        }
        let shape =
            Shape { above: (0..6_usize).map(|switch| switch.checked_sub(1)).collect(), workers: vec![5] };
        TreePlan::new(JOB, &shape, &sites, &[Some(address(1))]).err()
    };
    assert_eq!((deep(true), deep(false)), (None, Some(TreeError::Levels(4))));
}

/// Slots that jobs share are not advanced, and are released once no packet of the job is admitted.
#[test]
fn shared_slots_of_a_tree_are_released_at_each_switch() {
    let plan = shared_tree(|_, _| {}).unwrap();
    let (world, mut drivers) = world_of([0, 1 << 31, 900, 7, 1 << 31]);
    let mut installed = install(&plan, &mut drivers).unwrap();
    assert_eq!(installed.first_chunk(), 901, "whatever the shared slots hold");
    let action = |at: usize| world.lock().unwrap().entries[&at][0].action;
    let actions = [id::ADMIT_NAMED, id::ADMIT_DOWN, id::ADMIT_RESULT, id::ADMIT_NAMED_BELOW, id::ADMIT_DOWN];
    assert_eq!([0, 1, 2, 3, 4].map(action), actions.map(action_id));
    world.lock().unwrap().calls.clear();
    installed.withdraw(&mut drivers).unwrap();
    let world = world.lock().unwrap();
    assert!(empty(&world));
    let last = world.calls.iter().rposition(|(_, call)| *call == "delete").unwrap();
    let released: Vec<_> = world.calls.iter().skip(last + 1).take(2).copied().collect();
    assert_eq!(released, [(4, "release"), (1, "release")]);
}

/// What all switches of a test hold, and every call in order.
#[derive(Default)]
struct World {
    calls: Vec<(usize, &'static str)>,
    /// The call that fails, counted from 0, and those from there on that are `withdrawing`.
    fails_at: Option<usize>,
    gone: bool,
    ports: BTreeSet<(usize, u16)>,
    groups: BTreeSet<(usize, u16)>,
    entries: BTreeMap<usize, Vec<TableEntry>>,
    stored: Vec<u32>,
}

struct Fake {
    switch: usize,
    world: Arc<Mutex<World>>,
}

impl Fake {
    fn call(&self, name: &'static str, change: impl FnOnce(&mut World)) -> Result<(), DriverError> {
        let mut world = self.world.lock().unwrap();
        let failing = world.fails_at == Some(world.calls.len())
            || (world.gone && world.fails_at.is_some_and(|at| at <= world.calls.len()));
        world.calls.push((self.switch, name));
        if failing {
            return Err(EntryError::Full(0).into());
        }
        change(&mut world);
        Ok(())
    }
}

impl SwitchDriver for Fake {
    fn limits(&self) -> Limits {
        LIMITS
    }
    fn bind_port(&mut self, port: u16, _: SocketAddr) -> Result<(), DriverError> {
        self.call("bind", |world| assert!(world.ports.insert((self.switch, port))))
    }
    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.call("unbind", |world| assert!(world.ports.remove(&(self.switch, port))))
    }
    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.call("insert", |world| world.entries.entry(self.switch).or_default().extend_from_slice(entries))
    }
    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.call("delete", |world| {
            world.entries.entry(self.switch).or_default().retain(|held| !entries.contains(held))
        })
    }
    fn set_group(&mut self, group: u16, _: &[Replica]) -> Result<(), DriverError> {
        self.call("group", |world| assert!(world.groups.insert((self.switch, group))))
    }
    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        self.call("ungroup", |world| assert!(world.groups.remove(&(self.switch, group))))
    }
    fn release(&mut self, _: u32, _: u32, _: u32) -> Result<(), DriverError> {
        self.call("release", |_| {})
    }
    fn advance(&mut self, _: u32, _: u32, chunk: u32) -> Result<u32, DriverError> {
        let mut stored = 0;
        self.call("advance", |world| {
            let held = &mut world.stored[self.switch];
            if netfold_wire::serial::newer(chunk, *held) {
                *held = chunk;
            }
            stored = *held;
        })?;
        Ok(stored)
    }
}

fn world(stored: [u32; 3]) -> (Arc<Mutex<World>>, Vec<Box<dyn SwitchDriver>>) {
    world_of(stored)
}

fn world_of<const SWITCHES: usize>(
    stored: [u32; SWITCHES],
) -> (Arc<Mutex<World>>, Vec<Box<dyn SwitchDriver>>) {
    let world = Arc::new(Mutex::new(World { stored: stored.to_vec(), ..World::default() }));
    let driver = |switch| Box::new(Fake { switch, world: Arc::clone(&world) }) as Box<dyn SwitchDriver>;
    let drivers = (0..SWITCHES).map(driver).collect();
    (world, drivers)
}

fn empty(world: &World) -> bool {
    world.ports.is_empty() && world.groups.is_empty() && world.entries.values().all(Vec::is_empty)
}

#[test]
fn a_tree_is_installed_step_by_step_and_withdrawn_backwards() {
    let plan = plan(&Shape::regular(2, 2, 4).unwrap()).unwrap();
    let (world, mut drivers) = world([3, 900, 5]);
    let mut installed = install(&plan, &mut drivers).unwrap();
    assert_eq!(installed.first_chunk(), 901, "newer than all that any switch holds");
    let calls = std::mem::take(&mut world.lock().unwrap().calls);
    let want = [
        vec![(0, "bind"); 2],
        vec![(1, "bind"); 3],
        vec![(2, "bind"); 3],
        vec![(0, "advance"), (1, "advance"), (2, "advance")],
        vec![(0, "group"), (1, "group"), (1, "group"), (2, "group"), (2, "group")],
        vec![(0, "insert"), (1, "insert"), (2, "insert")],
    ]
    .concat();
    assert_eq!(calls, want);
    let actions: Vec<u32> = world.lock().unwrap().entries[&1].iter().map(|entry| entry.action).collect();
    assert!(actions.contains(&action_id(id::ADMIT_BELOW)) && actions.contains(&action_id(id::ADMIT_RESULT)));
    assert!(!actions.contains(&action_id(id::ADMIT)));

    installed.withdraw(&mut drivers).unwrap();
    let world = world.lock().unwrap();
    assert!(empty(&world));
    let undone: Vec<_> = world.calls.iter().map(|(switch, _)| *switch).collect();
    assert_eq!(
        undone,
        [2, 1, 0, 2, 2, 1, 1, 0, 2, 2, 2, 1, 1, 1, 0, 0],
        "the order of installation, backwards"
    );
}

#[test]
fn any_failing_call_leaves_nothing_behind() {
    let plan = plan(&Shape::regular(2, 2, 4).unwrap()).unwrap();
    for fails_at in 0..19 {
        let (world, mut drivers) = world([0; 3]);
        world.lock().unwrap().fails_at = Some(fails_at);
        let error = install(&plan, &mut drivers).unwrap_err();
        let at = world.lock().unwrap().calls[fails_at];
        assert_eq!(error.switch, at.0, "{error}");
        assert_eq!(
            error.step,
            [InstallStep::Ports, InstallStep::Advance, InstallStep::Groups, InstallStep::Entries]
                [match fails_at {
                    0..8 => 0,
                    8..11 => 1,
                    11..16 => 2,
                    _ => 3,
                }]
        );
        assert!(error.left.is_none() && empty(&world.lock().unwrap()), "{fails_at}");
    }
    let (world, mut drivers) = world([0; 3]);
    world.lock().unwrap().fails_at = Some(19);
    assert!(install(&plan, &mut drivers).is_ok(), "there are 19 calls");
}

#[test]
fn what_cannot_be_undone_is_handed_back() {
    let plan = plan(&Shape::regular(2, 2, 4).unwrap()).unwrap();
    let (world, mut drivers) = world([0; 3]);
    (world.lock().unwrap().fails_at, world.lock().unwrap().gone) = (Some(12), true);
    let error = install(&plan, &mut drivers).unwrap_err();
    assert!(error.to_string().contains("not all could be undone"), "{error}");
    world.lock().unwrap().fails_at = None;
    error.left.unwrap().withdraw(&mut drivers).unwrap();
    assert!(empty(&world.lock().unwrap()));
}

#[test]
fn the_first_chunk_is_newer_at_every_switch() {
    let plan = plan(&Shape::regular(2, 2, 4).unwrap()).unwrap();
    let far =
        [0, 1, 1 << 29, 1 << 30, (1 << 30) + 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, 3 << 30, u32::MAX];
    for a in far {
        for b in far {
            let (world, mut drivers) = world([a, b, 7]);
            let first = install(&plan, &mut drivers).unwrap().first_chunk();
            let world = world.lock().unwrap();
            assert!(
                world.stored.iter().all(|stored| netfold_wire::serial::newer(first, *stored)),
                "{a:#x} {b:#x}: {first:#x} after {:x?}",
                world.stored
            );
        }
    }
}

#[test]
fn wide_sums_are_shifted_alike_at_each_depth() {
    // Leaves of three and two workers, and one switch between them and the root.
    let shape = Shape { above: vec![None, Some(0), Some(1), Some(1)], workers: vec![2, 2, 2, 3, 3] };
    let shifts =
        |plan: &TreePlan| plan.switch_plans().iter().map(|place| place.node.shift).collect::<Vec<_>>();
    let words = plan(&shape).unwrap().with_numerics(Numerics::Saturating).unwrap();
    assert_eq!((shifts(&words), words.admission(0, 1, 1).shift), (vec![None; 4], 0));
    let wide = plan(&shape).unwrap().with_numerics(Numerics::Wide).unwrap();
    assert_eq!(shifts(&wide), [Some(0), Some(1), Some(2), Some(2)]);
    assert_eq!(wide.admission(4, 1, 1).shift, 3);
    let uneven = Shape { above: vec![None, Some(0)], workers: vec![1, 1, 0] };
    let refused = plan(&uneven).unwrap().with_numerics(Numerics::Wide).unwrap_err();
    assert_eq!(refused, TreeError::Shift { switch: 0 });
}
