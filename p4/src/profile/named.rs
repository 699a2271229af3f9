//! Named profiles, for snapshots, the command line and tests.

use netfold_wire::LaneOp;

use super::{Encapsulation, Numerics, Profile};

/// A named profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedProfile {
    /// Name: lower case, digits and hyphens.
    pub name: &'static str,
    /// Its purpose, one line.
    pub about: &'static str,
    /// The profile.
    pub profile: Profile,
}

/// Every named profile, the default first.
pub fn named() -> Vec<NamedProfile> {
    let named = |name, about, profile| NamedProfile { name, about, profile };
    let hardware = Profile::hardware();
    let with = |numerics, ops: &[LaneOp]| Profile {
        numerics,
        ops: ops.to_vec(),
        lane_words: 8,
        slots: 64,
        jobs: 4,
        ecn_depth: 0,
        ..Profile::hardware()
    };
    let two = [LaneOp::Sum, LaneOp::Max];
    vec![
        named(
            "hardware",
            "any level of a tree, on Ethernet: 64 words per packet, all operations on whole words",
            hardware.clone(),
        ),
        named(
            "tofino",
            "a root on Ethernet that fits 12 stages: sum only, 64 words per packet",
            Profile::tofino(),
        ),
        named("nic", "a leaf in a network interface: sum only, 8 local workers, 64 words per packet", nic()),
        named(
            "datagram",
            "any level, where sockets or rings handle the outer headers",
            Profile::software(hardware.lane_words),
        ),
        named(
            "saturating",
            "saturating 32-bit sums with a flag",
            with(Numerics::Saturating, Numerics::Saturating.lane_ops()),
        ),
        named(
            "wide",
            "16-bit lanes with 32-bit sums, shifted before they are sent",
            with(Numerics::Wide, &two),
        ),
        named("half", "IEEE binary16 lanes, summed in fixed point", with(Numerics::Half, &two)),
        named(
            "queues",
            "four queues by class, marks, trimming of droppable data, and forwarding, for bmv2",
            Profile {
                priorities: 4,
                ecn_depth: 16,
                trim_depth: 24,
                transit: 64,
                ..with(Numerics::Word, LaneOp::ALL)
            },
        ),
        named(
            "float",
            "IEEE binary32 lanes, exponent and mantissa in separate registers",
            with(Numerics::Float, &two),
        ),
        named(
            "best-effort",
            "jobs that share slots, or an aggregator for them: 64 words per packet",
            hardware.for_best_effort(),
        ),
        named("small", "a root for two workers and four slots, for reading and tests", small()),
    ]
}

fn nic() -> Profile {
    Profile {
        ops: vec![LaneOp::Sum],
        workers: 8,
        slots: 256,
        jobs: 4,
        ecn_depth: 0,
        bounded_loss: false,
        owners: false,
        ..Profile::hardware()
    }
}

fn small() -> Profile {
    Profile {
        encapsulation: Encapsulation::Datagram,
        ops: vec![LaneOp::Sum],
        lane_words: 16,
        workers: 2,
        slots: 4,
        jobs: 1,
        ecn_depth: 0,
        hierarchy: false,
        bounded_loss: false,
        owners: false,
        ..Profile::hardware()
    }
}

/// The profile with this name.
pub fn by_name(name: &str) -> Option<Profile> {
    named().into_iter().find(|named| named.name == name).map(|named| named.profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_profiles_in_range() {
        let all = named();
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other.name != one.name), "{}", one.name);
            assert!(one.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
            one.profile.check().unwrap_or_else(|error| panic!("{}: {error}", one.name));
        }
        assert_eq!(by_name("hardware"), Some(Profile::hardware()));
        assert_eq!(by_name("none"), None);
    }
}
