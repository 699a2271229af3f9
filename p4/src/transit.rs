//! Forwarding of packets that the switch does not aggregate.
//!
//! A switch with a table `transit` forwards packets to the addresses in it unchanged, before it examines anything else, and
//! aggregates the others. So the switches between workers and the aggregating one run the same program: forwarded packets wait in
//! the queue of their class, are marked, and are trimmed where permitted ([`Profile::trim_depth`](crate::profile::Profile::trim_depth)).
//!
//! Forwarding is that of a bridge that uses IPv4 addresses: no header changes, and the sender must know the Ethernet address of
//! the receiver. Packets with a wrong IPv4 checksum are not forwarded.

use crate::entry::{FieldMatch, TableEntry};
use crate::ir::*;
use crate::object_id;

/// Low 24 bits of the ids that the control plane uses.
pub mod id {
    /// Table `transit`.
    pub const TABLE: u32 = 3;
    /// Action `forward`.
    pub const FORWARD: u32 = 9;
    /// Action `here`: the packet is for this switch.
    pub const HERE: u32 = 10;
    /// Counter `forwarded`: one cell.
    pub const FORWARDED: u32 = 3;
}

/// The table entry that forwards packets to an IPv4 address to a port, 1 or more.
pub fn entry(address: u32, port: u16) -> TableEntry {
    TableEntry {
        table: object_id::table_id(id::TABLE),
        matches: vec![FieldMatch { field: 1, value: address.into(), mask: u32::MAX.into() }],
        priority: 0,
        action: object_id::action_id(id::FORWARD),
        params: vec![port.into()],
    }
}

/// Puts a table with this number of addresses before the program's statements; `ipv4` is one of the parsed headers.
pub(crate) fn add(program: &mut Program, ipv4: HeaderId, addresses: u32) {
    let index = |len: usize| len as u16;
    let fields = &program.header(ipv4).fields;
    let Some(destination) = fields.iter().position(|field| field.name == "dst") else { return };
    let way = MetaId(index(program.metadata.len()));
    program.metadata.push(Meta { name: "way".into(), bits: 16 });
    let actions = [0, 1].map(|more| ActionId(index(program.actions.len()) + more));
    let port = Field { name: "port".into(), bits: 16 };
    let onward = Stmt::Assign(LValue::Meta(way), Expr::Param(0));
    let action = |name: &str, id, params, body| Action { name: name.into(), id, params, body };
    program.actions.push(action("forward", id::FORWARD, vec![port], vec![onward]));
    program.actions.push(action("here", id::HERE, vec![], vec![]));
    let table = TableId(index(program.tables.len()));
    program.tables.push(Table {
        name: "transit".into(),
        id: id::TABLE,
        keys: vec![Key {
            name: "destination".into(),
            id: 1,
            value: LValue::Field(ipv4, index(destination)).value(),
            kind: MatchKind::Exact,
        }],
        actions: actions.to_vec(),
        default: (actions[1], vec![]),
        size: addresses,
    });
    let counter = CounterId(index(program.counters.len()));
    program.counters.push(Counter { name: "forwarded".into(), id: id::FORWARDED, size: 1 });
    let whole = Expr::Valid(Part::Header(ipv4)).both(!Expr::Intrinsic(Intrinsic::ChecksumError));
    let forward = vec![Stmt::Unicast(Expr::Meta(way)), Stmt::Count(counter, Expr::Const(0, 32))];
    let rest = std::mem::take(&mut program.ingress);
    program.ingress = vec![
        Stmt::If(whole, vec![Stmt::Apply(table)], vec![]),
        Stmt::If(Expr::Meta(way).ne(Expr::Const(0, 16)), forward, rest),
    ];
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use netfold_wire::frame::{Endpoint, EthernetAddress, Ipv4Address, OUTER_LEN, Outer};
    use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, UDP_PORT, header};

    use super::*;
    use crate::allreduce::{self, program};
    use crate::interpret::{Interpreter, Send};
    use crate::profile::{Profile, by_name};

    fn address(ip: u32, port: u16) -> Endpoint {
        Endpoint { mac: EthernetAddress([2, 0, 0, 0, 0, ip as u8]), ip: Ipv4Address::from_bits(ip), port }
    }

    fn frame(destination: u32, port: u16, class: u8, flags: Flags, lane_bytes: u32) -> Vec<u8> {
        let repr = Repr {
            kind: Kind::Data,
            flags,
            op: LaneOp::Sum,
            class,
            reason: Reason::None,
            job: 9,
            slot: 0,
            set: 0,
            epoch: 1,
            key: 1,
            chunk: 1,
            bitmap: 0,
            count: 1,
            exp: 0,
            exp_next: 0,
            owner: LaneOwner::All,
        };
        let mut datagram = vec![7; header::LEN + lane_bytes as usize];
        repr.emit(&mut Packet::new_unchecked(&mut datagram[..]));
        let outer = Outer { source: address(77, 4000), destination: address(destination, port) };
        let mut frame = vec![0; OUTER_LEN + datagram.len()];
        let len = outer.emit(&datagram, 0, &mut frame).expect("it fits");
        frame.truncate(len);
        frame
    }

    #[test]
    fn what_is_for_another_address_goes_on_by_its_class_and_is_trimmed_behind_a_long_queue() {
        let profile = by_name("queues").expect("the profile exists");
        let (lane_bytes, there) = (profile.payload_bytes(), Ipv4Addr::new(10, 2, 0, 1).to_bits());
        let mut switch = Interpreter::new(Arc::new(program(&profile).expect("a profile of ours"))).unwrap();
        switch.insert(&entry(there, 5)).expect("room for an address");
        let droppable = frame(there, UDP_PORT, 15, Flags::DROPPABLE, lane_bytes);
        let outcome = switch.process(3, &droppable);
        assert_eq!((outcome.send, outcome.class), (Send::Unicast(5), 3));
        assert_eq!(outcome.bytes, droppable, "unchanged");
        assert_eq!(switch.egress(0, profile.trim_depth - 1, &droppable), droppable);
        let cut = switch.egress(0, profile.trim_depth, &droppable);
        assert_eq!(cut.len(), OUTER_LEN + header::LEN);
        let (outer, datagram) = Outer::parse(&cut).expect("lengths and checksum are right");
        let cut = Packet::new_checked(datagram).expect("a header");
        assert_eq!(outer.destination.ip.to_bits(), there);
        assert!(cut.flags().contains(Flags::TRIMMED.with(Flags::BARE)) && cut.count() == 0);
        let exact = frame(there, UDP_PORT, 0, Flags::default(), lane_bytes);
        assert_eq!(switch.egress(0, 1000, &exact), exact, "packets that are not droppable are not trimmed");
    }

    #[test]
    fn other_packets_go_on_as_well_and_those_for_this_switch_do_not() {
        let profile = by_name("queues").expect("the profile exists");
        let there = Ipv4Addr::new(10, 1, 0, 1).to_bits();
        let mut switch = Interpreter::new(Arc::new(program(&profile).expect("a profile of ours"))).unwrap();
        switch.insert(&entry(there, 2)).expect("room for an address");
        let other = frame(there, 9, 15, Flags::default(), 8);
        let outcome = switch.process(1, &other);
        assert_eq!((outcome.send, outcome.class, outcome.bytes), (Send::Unicast(2), 0, other.clone()));
        let mut wrong = other;
        wrong[24] ^= 1; // The checksum's first byte.
        assert_eq!(switch.process(1, &wrong).send, Send::Drop);
        let here = frame(there + 1, UDP_PORT, 15, Flags::default(), profile.payload_bytes());
        assert_eq!(switch.process(1, &here).send, Send::Drop, "no such job");
    }

    #[test]
    fn a_program_without_addresses_is_as_before() {
        let without = Profile { transit: 0, ..by_name("queues").expect("the profile exists") };
        let program = allreduce::program(&without).expect("a profile of ours");
        assert!(program.tables.iter().all(|table| table.name != "transit"));
    }
}
