//! Several UDP ports of a worker, by which its packets take several paths.

use serde::{Deserialize, Serialize};

pub use netfold_wire::PATHS_MAX;

/// Which of its UDP ports a worker sends a packet from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PathPolicy {
    /// Each slot always has the same one, as a queue pair has in Meta's E-ECMP: as many flows as ports.
    Fixed,
    /// Every packet the next one, in another order each round.
    Spray,
    /// One by which a packet has been acknowledged without a mark, else a random one (REPS).
    Reps,
    /// As `Reps`; but where there is none that has been acknowledged, as `Spray`, without those that have failed of late.
    Mixed,
    /// All in proportion to weights, which decrease while the path of a port takes much longer than those of others, as probes show.
    #[default]
    Weighted,
}

impl PathPolicy {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::Fixed, Self::Spray, Self::Reps, Self::Mixed, Self::Weighted];

    /// The name used on command lines and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Spray => "spray",
            Self::Reps => "reps",
            Self::Mixed => "mixed",
            Self::Weighted => "weighted",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|policy| policy.name() == name)
    }
}

/// The UDP ports of a job's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Multipath {
    /// Consecutive UDP ports of each worker: a power of two, 2 to [`PATHS_MAX`].
    pub udp_ports: u8,
    /// Which of them a packet leaves from.
    #[serde(default)]
    pub policy: PathPolicy,
}

impl Multipath {
    /// Whether there may be so many UDP ports.
    pub const fn is_valid(udp_ports: u8) -> bool {
        udp_ports.is_power_of_two() && udp_ports <= PATHS_MAX
    }
}

/// How much a member of a job whose workers have several UDP ports has sent by each of its paths, and how long they take. Fields of later releases are
/// ignored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct PathReport {
    /// Packets sent from each UDP port since the member's admission.
    pub sent: Vec<u64>,
    /// How long the last answered probe of each port took, in microseconds; 0 where none was answered, and under policies without probes.
    pub round_trip_us: Vec<u32>,
    /// The ports that [`SessionEvent::UsePorts`](crate::SessionEvent::UsePorts) ordered last, all before the first order. Absent in reports of a
    /// member that takes no such orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<PortSet>,
}

/// UDP ports of a worker: bit *i* of the number stands for the *i*-th of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PortSet(pub u64);

impl PortSet {
    /// The first so many ports.
    pub const fn first(ports: u8) -> Self {
        Self(if ports >= 64 { u64::MAX } else { (1 << ports) - 1 })
    }

    /// Whether a port is one of them.
    pub const fn contains(self, port: u8) -> bool {
        port < 64 && self.0 >> port & 1 == 1
    }

    /// How many there are.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether it has a port, and none but the first so many.
    pub const fn is_of(self, ports: u8) -> bool {
        self.0 != 0 && self.0 & !Self::first(ports).0 == 0
    }
}

impl PathReport {
    /// Whether a member with so many UDP ports, whose report was `earlier`, may report this now.
    pub fn may_follow(&self, earlier: &Self, udp_ports: u8) -> bool {
        let ports = usize::from(udp_ports);
        self.sent.len() == ports
            && self.round_trip_us.len() == ports
            && self.ordered.is_none_or(|ordered| ordered.is_of(udp_ports))
            && earlier.sent.iter().zip(&self.sent).all(|(earlier, now)| earlier <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_messages() {
        for policy in PathPolicy::ALL {
            assert_eq!(serde_json::to_string(policy).unwrap(), format!("\"{}\"", policy.name()));
            assert_eq!(PathPolicy::from_name(policy.name()), Some(*policy));
        }
        assert_eq!(PathPolicy::from_name("ecmp"), None);
    }

    #[test]
    fn impossible_reports_are_recognised() {
        let report = |sent: &[u64], ports: usize| PathReport {
            sent: sent.to_vec(),
            round_trip_us: vec![0; ports],
            ordered: None,
        };
        let first = report(&[3, 4], 2);
        assert!(first.may_follow(&PathReport::default(), 2));
        assert!(report(&[3, 9], 2).may_follow(&first, 2));
        for impossible in [report(&[3], 1), report(&[3, 4], 1), report(&[3, 4, 5], 3), report(&[3, 3], 2)] {
            assert!(!impossible.may_follow(&first, 2), "{impossible:?}");
        }
        for (ordered, possible) in [(1, true), (3, true), (0, false), (4, false), (u64::MAX, false)] {
            let report = PathReport { ordered: Some(PortSet(ordered)), ..first.clone() };
            assert_eq!(report.may_follow(&first, 2), possible, "{ordered}");
        }
        let request = crate::SessionRequest::Paths(first);
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            r#"{"type":"paths","sent":[3,4],"round_trip_us":[0,0]}"#
        );
    }

    #[test]
    fn sets_of_ports() {
        assert_eq!([1, 2, 64].map(|ports| PortSet::first(ports).count()), [1, 2, 64]);
        assert!(PortSet(0b101).contains(2) && !PortSet(0b101).contains(1) && !PortSet(u64::MAX).contains(64));
        let event = crate::SessionEvent::UsePorts { ports: PortSet(u64::MAX) };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"type":"use_ports","ports":18446744073709551615}"#);
        assert_eq!(serde_json::from_str::<crate::SessionEvent>(&text).unwrap(), event);
    }

    #[test]
    fn numbers_of_ports() {
        let valid: Vec<u8> = (0..=255).filter(|ports| Multipath::is_valid(*ports)).collect();
        assert_eq!(valid, [1, 2, 4, 8, 16, 32, 64]);
    }
}
