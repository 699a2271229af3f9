//! Queueing in the program: selection of the egress queue, and trimming.

use netfold_wire::{CLASSES_MAX, Flags, Kind};

use super::Build;
use super::steps::{choose, when};
use crate::ir::*;

impl Build<'_> {
    /// The last step of ingress: the egress queue of a packet; higher numbers are served first. The classes share the queues evenly;
    /// control packets, which are neither data nor results, use the highest.
    pub(super) fn priority(&self) -> Option<Stmt> {
        let queues = self.profile.priorities;
        if queues < 2 {
            return None;
        }
        let queue = |number: u32| vec![Stmt::Priority(Expr::Const(u64::from(number), 3))];
        let classes = u32::from(CLASSES_MAX);
        let by_class = (1..queues).fold(queue(0), |below, number| {
            let last_below = (number * classes).div_ceil(queues) - 1;
            vec![choose(self.get("class").gt(Expr::Const(u64::from(last_below), 4)), queue(number), below)]
        });
        let classed = self.kind_is(Kind::Data).either(self.kind_is(Kind::Result));
        let valid = Expr::Valid(Part::Header(self.netfold));
        Some(when(valid, vec![choose(classed, by_class, queue(queues - 1))]))
    }

    /// A step of egress: droppable data is trimmed in a long queue. The receiver counts it as received, without a contribution.
    pub(super) fn trim(&self) -> Option<Stmt> {
        let depth = self.profile.trim_depth;
        if depth == 0 {
            return None;
        }
        let deep = Expr::Intrinsic(Intrinsic::QueueDepth).gt(Expr::Const(u64::from(depth - 1), 19));
        let flag = |flag: Flags| Expr::Const(u64::from(flag.0), 8);
        let droppable = (self.get("flags") & flag(Flags::DROPPABLE)).ne(Expr::Const(0, 8));
        let cut = deep.both(self.kind_is(Kind::Data)).both(droppable).both(Expr::Valid(Part::Lanes));
        let mut steps = self.header_only();
        steps.push(self.put("flags", self.get("flags") | flag(Flags::TRIMMED)));
        steps.push(self.put("count", Expr::Const(0, 16)));
        steps.extend(
            self.outer.map(|outer| Stmt::Assign(self.place(outer.udp, "checksum"), Expr::Const(0, 16))),
        );
        Some(when(cut, steps))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use netfold_wire::{LaneOp, LaneOwner, Packet, Reason, Repr, header};

    use super::*;
    use crate::allreduce::{Child, Node, job_entries, program};
    use crate::interpret::{Interpreter, Send};
    use crate::profile::{Profile, by_name};

    /// A contribution of a job's only worker, with lanes.
    fn contribution(class: u8, chunk: u32, lane_bytes: u32) -> Vec<u8> {
        let repr = Repr {
            kind: Kind::Data,
            flags: Flags::default(),
            op: LaneOp::Sum,
            class,
            reason: Reason::None,
            job: 1,
            slot: 0,
            set: 0,
            epoch: 1,
            key: 1,
            chunk,
            bitmap: 0,
            count: 1,
            exp: 0,
            exp_next: 0,
            owner: LaneOwner::All,
        };
        let mut bytes = vec![0; header::LEN + lane_bytes as usize];
        repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        bytes
    }

    #[test]
    fn classes_share_the_queues_and_what_holds_no_lanes_goes_first() {
        let node = Node {
            job: 1,
            epoch: 1,
            key: 1,
            base: 0,
            slots: 4,
            children: 1,
            workers: 1,
            world: 1,
            group: 1,
            parent: None,
            shift: None,
            bounded_loss: false,
            owners: false,
        };
        for queues in 1..=8_u8 {
            let small = by_name("small").expect("it is in the list");
            let profile = Profile { priorities: queues.into(), ..small };
            let mut switch = Interpreter::new(Arc::new(program(&profile).unwrap())).unwrap();
            for entry in job_entries(&node, &Child { port: 3, source: 0, rank: 0, behind: None }) {
                switch.insert(&entry).unwrap();
            }
            for class in 0..16_u8 {
                let outcome =
                    switch.process(3, &contribution(class, 10 + u32::from(class), profile.payload_bytes()));
                assert_eq!(outcome.send, Send::Multicast(1));
                assert_eq!(outcome.class, class * queues / 16, "class {class} of {queues} queues");
            }
            let stale = switch.process(3, &contribution(0, 1, profile.payload_bytes()));
            assert_eq!((stale.send, stale.class), (Send::Unicast(3), queues - 1));
        }
    }
}
