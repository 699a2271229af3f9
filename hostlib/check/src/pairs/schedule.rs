//! Who measures whom, and when: each rank has one partner a turn, so that no measurement takes another's bandwidth at a host.

/// Turns in which all pairs meet.
pub(super) fn turns(world: u16) -> u16 {
    match world {
        0 | 1 => 0,
        even if even % 2 == 0 => even - 1,
        odd => odd,
    }
}

/// The partner of `rank` in a turn, if it has one. (The circle method: one place stays, the others move around it.)
pub(super) fn partner(rank: u16, turn: u16, world: u16) -> Option<u16> {
    // With an odd number of ranks, the partner of the place that stays has no turn.
    let (moving, rank, turn) = (u32::from(turns(world)), u32::from(rank), u32::from(turn));
    let partner = if rank == moving {
        turn * (moving.div_ceil(2)) % moving
    } else {
        match (turn + moving - rank) % moving {
            own if own == rank => moving,
            other => other,
        }
    };
    u16::try_from(partner).ok().filter(|partner| *partner < world)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_pair_meets_once_and_no_rank_has_two_partners() {
        for world in 1..=33 {
            let mut met = BTreeSet::new();
            for turn in 0..turns(world) {
                for rank in 0..world {
                    let Some(other) = partner(rank, turn, world) else { continue };
                    assert_ne!(other, rank);
                    assert_eq!(partner(other, turn, world), Some(rank), "{world} ranks, turn {turn}");
                    assert!(met.insert((rank, other)), "{world} ranks: {rank} and {other} met before");
                }
            }
            assert_eq!(met.len(), usize::from(world) * usize::from(world - 1));
        }
    }
}
