//! Packets that a program may make longer, by adding lanes to them.

use crate::ir::*;

/// Packets to which a program may add lanes: those of `len` bytes that have all bits of `mask` set in the byte at `at`.
/// A driver of the pipeline gives them room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// Length of the packets in bytes.
    pub len: u32,
    /// Offset of the byte.
    pub at: u32,
    /// Bits of the byte; 0 for all packets of that length.
    pub mask: u8,
}

impl Growth {
    /// The packets to which a valid program may add lanes; `None` if it adds none.
    pub fn of(program: &Program) -> Option<Self> {
        let mut tests = Vec::new();
        walk(program, &program.ingress, None, &mut tests);
        let before_lanes = program.deparser.iter().take_while(|part| **part != Part::Lanes);
        let len = before_lanes.map(|part| part_len(program, *part)).sum();
        let first = *tests.first()?;
        let (at, mask) = first.filter(|_| tests.iter().all(|test| *test == first)).unwrap_or((0, 0));
        Some(Self { len, at, mask })
    }

    /// Whether the program may add lanes to this packet.
    #[inline]
    pub fn applies(&self, packet: &[u8]) -> bool {
        packet.len() == self.len as usize
            && packet.get(self.at as usize).is_some_and(|byte| byte & self.mask == self.mask)
    }
}

fn part_len(program: &Program, part: Part) -> u32 {
    match part {
        Part::Header(header) => program.header(header).len_bytes(),
        Part::Lanes => program.lane_bytes(),
    }
}

/// Collects the innermost test of a byte around each statement that adds lanes.
fn walk(program: &Program, block: &[Stmt], outer: Option<(u32, u8)>, tests: &mut Vec<Option<(u32, u8)>>) {
    for stmt in block {
        match stmt {
            Stmt::AddLanes => tests.push(outer),
            Stmt::If(condition, then, otherwise) => {
                walk(program, then, byte_test(program, condition).or(outer), tests);
                walk(program, otherwise, outer, tests);
            }
            _ => {}
        }
    }
}

/// Offset and mask of a condition that all bits of a mask are set in a byte of a header.
fn byte_test(program: &Program, condition: &Expr) -> Option<(u32, u8)> {
    let Expr::Binary(BinOp::Eq, left, right) = condition else { return None };
    let (Expr::Binary(BinOp::And, field, mask), Expr::Const(wanted, 8)) = (&**left, &**right) else {
        return None;
    };
    let (Expr::Field(header, field), Expr::Const(mask, 8)) = (&**field, &**mask) else { return None };
    let bit = program.header(*header).offset_bits(*field);
    if mask != wanted || !bit.is_multiple_of(8) {
        return None;
    }
    let before = program.deparser.iter().take_while(|part| **part != Part::Header(*header));
    let start: u32 = before.map(|part| part_len(program, *part)).sum();
    Some((start + bit / 8, u8::try_from(*mask).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allreduce;
    use crate::profile::{Encapsulation, Profile};
    use netfold_wire::frame::OUTER_LEN;
    use netfold_wire::{Flags, Packet, header};

    #[test]
    fn trimmed_packets_grow_in_programs_for_bounded_loss() {
        let datagram = Profile::software(64);
        let ethernet = Profile { encapsulation: Encapsulation::Ethernet, ..datagram.clone() };
        for (profile, outer) in [(&datagram, 0), (&ethernet, OUTER_LEN)] {
            let program = allreduce::program(profile).expect("a valid profile");
            let growth = Growth::of(&program).expect("the program restores trimmed lanes");
            let packet = |flags, len| {
                let mut bytes = vec![0; outer + len];
                Packet::new_unchecked(&mut bytes[outer..]).set_flags(flags);
                bytes
            };
            let trimmed = Flags::TRIMMED.with(Flags::BARE);
            assert!(growth.applies(&packet(trimmed.with(Flags::DROPPABLE), header::LEN)));
            assert!(!growth.applies(&packet(Flags::BARE, header::LEN)));
            assert!(!growth.applies(&packet(trimmed, header::LEN + 256)));
            assert!(!growth.applies(&[]));
        }
        let exact = Profile { bounded_loss: false, owners: false, ..datagram };
        assert_eq!(Growth::of(&allreduce::program(&exact).expect("a valid profile")), None);
    }
}
