//! Packets whose copies a program may change in egress.

use crate::ir::*;

/// Packets of which egress may change copies: those with a byte other than 0 among the `len` bytes from `at` on. A driver of the pipeline runs
/// egress over each copy of them, and sends all others as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewriting {
    /// Offset of the first byte.
    pub at: u32,
    /// Number of bytes; 0 for all packets.
    pub len: u32,
}

impl Rewriting {
    /// The packets whose copies a valid program may change; `None` if it changes none.
    pub fn of(program: &Program) -> Option<Self> {
        let all = Self { at: 0, len: 0 };
        match program.egress.as_slice() {
            [] => None,
            [Stmt::If(condition, _, otherwise)] if otherwise.is_empty() => {
                Some(tested_bytes(program, condition).unwrap_or(all))
            }
            _ => Some(all),
        }
    }

    /// Whether egress may change copies of this packet.
    #[inline]
    pub fn applies(&self, packet: &[u8]) -> bool {
        let end = (self.at + self.len) as usize;
        let tested = packet.get(self.at as usize..end).unwrap_or_default();
        self.len == 0 || tested.iter().any(|byte| *byte != 0)
    }
}

/// The bytes of a header field that a condition requires to differ from 0.
fn tested_bytes(program: &Program, condition: &Expr) -> Option<Rewriting> {
    let Expr::Binary(BinOp::Ne, left, right) = condition else { return None };
    let (Expr::Field(header, field), Expr::Const(0, _)) = (&**left, &**right) else { return None };
    let bits = program.header(*header).offset_bits(*field);
    let len = program.field(*header, *field).bits;
    if !bits.is_multiple_of(8) || !len.is_multiple_of(8) {
        return None;
    }
    let before = program.deparser.iter().take_while(|part| **part != Part::Header(*header));
    let start: u32 = before
        .map(|part| match part {
            Part::Header(header) => program.header(*header).len_bytes(),
            Part::Lanes => program.lane_bytes(),
        })
        .sum();
    Some(Rewriting { at: start + bits / 8, len: len / 8 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allreduce;
    use crate::profile::Profile;
    use netfold_wire::{LaneOwner, Packet, header};

    #[test]
    fn copies_of_results_with_an_owner_change() {
        let rewriting =
            |profile: &Profile| Rewriting::of(&allreduce::program(profile).expect("a valid profile"));
        let datagram = Profile::software(64);
        let owned = rewriting(&datagram).expect("the program removes lanes from copies");
        let packet = |owner| {
            let mut bytes = vec![0xff; header::LEN + 256];
            Packet::new_unchecked(&mut bytes[..]).set_owner(owner);
            bytes
        };
        assert!(!owned.applies(&packet(LaneOwner::All)));
        assert!(owned.applies(&packet(LaneOwner::Rank(0))) && owned.applies(&packet(LaneOwner::Rank(255))));
        assert!(!owned.applies(&[]));
        assert_eq!(rewriting(&Profile { owners: false, ..datagram }), None);
        let ethernet = rewriting(&Profile::hardware()).expect("the program writes addresses into copies");
        assert!(ethernet.applies(&packet(LaneOwner::All)));
    }
}
