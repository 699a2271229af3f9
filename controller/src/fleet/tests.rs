use super::*;
use rand::SeedableRng;

fn limits(slots: u32, lane_words: u32, ports_max: u16, groups_max: u16) -> Limits {
    Limits {
        slots,
        lane_words,
        ports_max,
        groups_max,
        entries: u32::MAX,
        udp_port: 1,
        sees_source: false,
        bounded_loss: true,
        owners: true,
        lane_ops: netfold_wire::LaneOps::ALL,
        multipath: false,
        authenticates: true,
    }
}

fn fleet(slots: u32, ports_max: u16, groups_max: u16, epoch_floor: u32) -> Fleet {
    let limits = Limits { authenticates: false, ..limits(slots, 64, ports_max, groups_max) };
    let switch = SwitchInfo::own(limits, Numerics::Word);
    Fleet::new(vec![switch], Box::new(OneSwitch), epoch_floor, StdRng::seed_from_u64(1))
}

fn peers(ports: core::ops::Range<u16>) -> Vec<SocketAddr> {
    ports.map(|port| ([127, 0, 0, 1], port + 1).into()).collect()
}

fn reserve(
    fleet: &mut Fleet,
    slots: u32,
    ports: core::ops::Range<u16>,
) -> Result<(Placement, HeldRanges), Shortage> {
    let members = peers(ports);
    let request = TreeRequest {
        members: &members,
        tree: 0,
        slots,
        numerics: Numerics::Word,
        siblings: &[],
        authenticated: false,
        udp_ports: 1,
        datagram_max: 0,
        load: TreeLoad::Trees,
    };
    let secret = fleet.ticket_key();
    fleet.reserve(
        &request,
        Wanted { most: slots, fewest: slots, of_free: 1, leaving: &[], may_share: false },
        &secret,
    )
}

#[test]
fn numbers_are_not_used_again_at_once_and_epochs_never() {
    let mut fleet = fleet(64, 8, 4, 100);
    let (a, range) = reserve(&mut fleet, 16, 0..2).unwrap();
    fleet.release(&a, range, &BTreeSet::new());
    assert!(fleet.is_unused());
    let (b, _range) = reserve(&mut fleet, 16, 0..2).unwrap();
    assert_eq!((a.job().job, b.job().job), (1, 2));
    assert_eq!((a.job().epoch, b.job().epoch), (100, 101));
    assert_eq!((a.sites[0].first_group, b.sites[0].first_group), (1, 1));
    assert_ne!(a.job().key, b.job().key);
    assert_eq!(b.plan.workers(), [(0, 0), (0, 1)]);
}

#[test]
fn every_shortage_leaves_the_fleet_as_it_was() {
    let mut fleet = fleet(64, 4, 2, u32::MAX - 1);
    let (a, range) = reserve(&mut fleet, 32, 0..2).unwrap();
    let short = |fleet: &mut Fleet, slots, ports| reserve(fleet, slots, ports).unwrap_err();
    assert!(matches!(short(&mut fleet, 64, 2..4), Shortage::Slots { least: 64, free: 32, capacity: 64, .. }));
    assert!(matches!(short(&mut fleet, 1, 2..5), Shortage::Ports { free: 2, need: 3, .. }));
    assert!(matches!(short(&mut fleet, 1, 1..2), Shortage::Address(_)));
    let (b, range_b) = reserve(&mut fleet, 1, 2..3).unwrap();
    assert_eq!(b.job().epoch, u32::MAX);
    fleet.release(&a, range, &BTreeSet::new());
    assert!(matches!(short(&mut fleet, 1, 3..4), Shortage::Epochs), "an epoch is never used twice");
    fleet.release(&b, range_b, &BTreeSet::new());
    assert!(fleet.is_unused());
}

#[test]
fn a_part_is_one_of_the_slots_that_are_about_to_be_free_too() {
    let mut fleet = fleet(1024, 8, 4, 1);
    let _held = reserve(&mut fleet, 512, 0..1).unwrap();
    let mut granted = |least: u32, leaving: &[u32]| {
        let members = peers(1..2);
        let request = TreeRequest {
            members: &members,
            tree: 0,
            slots: least,
            numerics: Numerics::Word,
            siblings: &[],
            authenticated: false,
            udp_ports: 1,
            datagram_max: 0,
            load: TreeLoad::Trees,
        };
        let secret = fleet.ticket_key();
        let wanted = Wanted { most: 1024, fewest: 16, of_free: 8, leaving, may_share: false };
        let (placement, ranges) =
            fleet.reserve(&request, wanted, &secret).map_err(|short| short.refusal())?;
        let slots = placement.job().slots;
        fleet.release(&placement, ranges, &BTreeSet::new());
        Ok(slots)
    };
    assert_eq!(granted(16, &[]), Ok(64), "an eighth of the 512 that are free");
    assert_eq!(granted(16, &[512]), Ok(128));
    assert_eq!(granted(16, &[u32::MAX]), Ok(512), "no more than are free");
    assert_eq!(granted(1024, &[u32::MAX]), Err(Refusal::Slots), "unless it can wait for them");
}

#[test]
fn groups_run_out() {
    let mut fleet = fleet(64, 8, 1, 1);
    let _held = reserve(&mut fleet, 1, 0..1).unwrap();
    assert!(matches!(reserve(&mut fleet, 1, 1..2), Err(Shortage::Groups(_))));
}

#[test]
fn a_member_can_go_before_its_job() {
    let mut fleet = fleet(64, 2, 2, 1);
    let (a, range) = reserve(&mut fleet, 1, 0..2).unwrap();
    fleet.release_member(&a, 0);
    let (b, range_b) = reserve(&mut fleet, 1, 0..1).unwrap();
    assert_eq!(b.plan.workers(), [(0, 0)]);
    fleet.release(&a, range, &BTreeSet::from([0]));
    assert!(!fleet.is_unused());
    assert_eq!(fleet.used(0)[1], (1, 2));
    fleet.release(&b, range_b, &BTreeSet::new());
    assert!(fleet.is_unused());
}

/// Queues of one switch: trees of a job go to different ones, and others to those with the fewest.
#[test]
fn queues_take_trees_in_turn() {
    let limits = Limits {
        slots: 64,
        lane_words: 64,
        ports_max: 8,
        groups_max: 4,
        entries: u32::MAX,
        udp_port: 1,
        sees_source: false,
        bounded_loss: false,
        owners: false,
        lane_ops: netfold_wire::LaneOps::ALL,
        multipath: false,
        authenticates: false,
    };
    let queues = vec![SwitchInfo::own(limits, Numerics::Word); 3];
    let mut fleet = Fleet::new(queues, Box::new(OneSwitch), 1, StdRng::seed_from_u64(1));
    assert_eq!(fleet.world_max(), netfold_wire::CHILDREN_MAX);
    let mut place = |slots: u32, port: u16, siblings: &[ChosenTree]| {
        let members = peers(port..port + 1);
        let request = TreeRequest {
            members: &members,
            tree: 0,
            slots,
            numerics: Numerics::Word,
            siblings,
            authenticated: false,
            udp_ports: 1,
            datagram_max: 0,
            load: TreeLoad::Trees,
        };
        let secret = fleet.ticket_key();
        let (placement, ranges) = fleet
            .reserve(
                &request,
                Wanted { most: slots, fewest: slots, of_free: 1, leaving: &[], may_share: false },
                &secret,
            )
            .unwrap();
        (placement.switches[0], placement, ranges)
    };
    let (a, first, _held) = place(16, 1, &[]);
    let (b, second, _held) = place(16, 2, std::slice::from_ref(&first.chosen));
    let (c, ..) = place(64, 3, &[first.chosen.clone(), second.chosen.clone()]);
    assert_eq!([a, b, c], [0, 1, 2]);
    // The third is full; the first two have a tree each, and the first is the first.
    let (d, ..) = place(32, 4, &[]);
    let (e, ..) = place(16, 5, &[]);
    let (f, ..) = place(16, 6, std::slice::from_ref(&second.chosen));
    assert_eq!([d, e, f], [0, 1, 0], "fewest trees; then away from the job's own");
}

/// A host at each of two leaves below a spine; the spine and the leaves have been reached or not. None authenticates packets.
fn leaf_spine(reached: [bool; 3]) -> Fleet {
    let text = r#"
        [[switch]]
        name = "spine"
        role = "spine"
        p4runtime = "127.0.0.1:1"
        [[switch]]
        name = "leaf0"
        p4runtime = "127.0.0.1:2"
        [[switch]]
        name = "leaf1"
        p4runtime = "127.0.0.1:3"
        [[link]]
        a = "leaf0"
        b = "spine"
        [[link]]
        a = "leaf1"
        b = "spine"
        [[host]]
        name = "a"
        addresses = ["10.0.0.1"]
        switch = "leaf0"
        [[host]]
        name = "b"
        addresses = ["10.0.0.2"]
        switch = "leaf1"
    "#;
    let topology = Topology::from_toml(text).unwrap();
    let limits = fleet(64, 8, 4, 1).switches[0].info.limits;
    let switches = vec![SwitchInfo::own(limits, Numerics::Word); 3];
    let links = links(&topology);
    let fleet = Fleet::new(switches, Box::new(topology), 1, StdRng::seed_from_u64(1)).linked(links);
    let mut fleet = fleet.unreached();
    reached.iter().enumerate().filter(|(_, up)| **up).for_each(|(switch, _)| fleet.set_down(switch, None));
    fleet
}

/// What is refused to pass is retried by workers; what does not pass is not.
#[test]
fn switches_that_are_not_reached_yet_are_unavailable() {
    let refused = |reached, authenticated, hosts: [u8; 2]| {
        let mut fleet = leaf_spine(reached);
        let members = hosts.map(|host| SocketAddr::from(([10, 0, 0, host], 5000)));
        let request = TreeRequest {
            members: &members,
            tree: 0,
            slots: 16,
            numerics: Numerics::Word,
            siblings: &[],
            authenticated,
            udp_ports: 1,
            datagram_max: 0,
            load: TreeLoad::Trees,
        };
        let secret = fleet.ticket_key();
        match fleet.reserve(
            &request,
            Wanted { most: 16, fewest: 16, of_free: 1, leaving: &[], may_share: false },
            &secret,
        ) {
            Ok(_) => None,
            Err(Shortage::Route(none)) => Some(none.reason),
            Err(other) => panic!("{other}"),
        }
    };
    let all = [true; 3];
    assert_eq!(refused(all, false, [1, 2]), None);
    for missing in 0..3 {
        let reached = [0, 1, 2].map(|switch| switch != missing);
        assert_eq!(refused(reached, false, [1, 2]), Some(Refusal::Unavailable), "switch {missing}");
    }
    assert_eq!(refused([false; 3], true, [1, 2]), Some(Refusal::Unavailable));
    assert_eq!(refused(all, false, [1, 3]), Some(Refusal::Path), "no host of the topology");
    assert_eq!(refused(all, true, [1, 2]), Some(Refusal::Authentication));
}

/// Queues of one switch with packets of several lengths.
#[test]
fn a_job_gets_the_longest_packets_that_all_paths_carry() {
    let of = |lane_words| SwitchInfo::own(limits(256, lane_words, 16, 16), Numerics::Word);
    let (short, long) = (0, 1);
    let mut fleet = Fleet::new(vec![of(352), of(2048)], Box::new(OneSwitch), 1, StdRng::seed_from_u64(1));
    let mut members = (0..).map(|port| peers(port..port + 1));
    let mut place = |datagram_max: u32, authenticated: bool, slots: (u32, u32)| {
        let members = members.next().unwrap();
        let request = TreeRequest {
            members: &members,
            tree: 0,
            slots: slots.1,
            numerics: Numerics::Word,
            siblings: &[],
            authenticated,
            udp_ports: 1,
            datagram_max,
            load: TreeLoad::Trees,
        };
        let secret = fleet.ticket_key();
        let wanted = Wanted { most: slots.0, fewest: slots.1, of_free: 1, leaving: &[], may_share: false };
        let (placement, _) = fleet.reserve(&request, wanted, &secret).map_err(|short| short.refusal())?;
        Ok((placement.switches[0], placement.job().slots))
    };
    let need = netfold_wire::header::LEN as u32 + 8192;
    assert_eq!(place(need, false, (64, 16)), Ok((long, 16)), "as many bytes, rounded up: 11 slots");
    assert_eq!(place(need - 1, false, (64, 16)), Ok((short, 64)));
    let tag = netfold_wire::TAG_LEN as u32;
    assert_eq!(place(need + tag - 1, true, (16, 1)), Ok((short, 16)));
    assert_eq!(place(need + tag, true, (16, 1)), Ok((long, 4)), "2.75 slots");
    assert_eq!(place(0, false, (32, 1)), Ok((short, 32)), "a path that is not known carries the shortest");
    assert_eq!(place(u32::MAX, false, (128, 128)), Ok((long, 128)), "no fewer than the fewest");
    assert_eq!(place(u32::MAX, false, (128, 128)), Ok((short, 128)), "108 slots of the long ones are left");
    assert_eq!(place(1, false, (128, 128)), Err(Refusal::Slots), "16 slots of the short ones are left");
}
