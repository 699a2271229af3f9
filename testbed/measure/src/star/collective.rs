//! What is measured on a star.

use serde::Serialize;

/// A collective of all hosts, or two at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StarCollective {
    /// An all-reduce.
    AllReduce,
    /// A reduce-scatter: each rank receives a part of the sum.
    ReduceScatter,
    /// An all-gather: each rank sends a part.
    AllGather,
    /// A broadcast of rank 0's tensor.
    Broadcast,
    /// A reduce-scatter and an all-gather of as many bytes, at the same time.
    Overlap,
}

impl StarCollective {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::AllReduce, Self::ReduceScatter, Self::AllGather, Self::Broadcast, Self::Overlap];

    /// The name on command lines, in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllGather => "all-gather",
            Self::Broadcast => "broadcast",
            Self::Overlap => "overlap",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|collective| collective.name() == name)
    }

    /// Whether it has a reduce-scatter, which not every gloo has.
    pub(super) const fn scatters(self) -> bool {
        matches!(self, Self::ReduceScatter | Self::Overlap)
    }

    /// Arguments of `netfold bench perf`.
    pub(super) const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::AllReduce => &["--collective", "all_reduce"],
            Self::ReduceScatter => &["--collective", "reduce_scatter"],
            Self::AllGather => &["--collective", "all_gather"],
            Self::Broadcast => &["--collective", "broadcast"],
            Self::Overlap => &["--collective", "reduce_scatter", "--beside", "all_gather"],
        }
    }

    /// Bytes in the busier direction of a host's link, for each byte of the tensor, through a switch: `lanes` of them for each that is reduced.
    pub(super) fn switch_share(self, lanes: f64, hosts: f64) -> f64 {
        match self {
            Self::AllReduce | Self::ReduceScatter => lanes,
            Self::AllGather | Self::Broadcast => 1.0,
            Self::Overlap => (lanes + 1.0 / hosts).max(1.0 + lanes / hosts),
        }
    }

    /// The same between hosts, in rings.
    pub(super) fn ring_share(self, hosts: f64) -> f64 {
        let part = (hosts - 1.0) / hosts;
        match self {
            Self::AllReduce | Self::Overlap => 2.0 * part,
            Self::ReduceScatter | Self::AllGather => part,
            Self::Broadcast => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        for collective in StarCollective::ALL {
            assert_eq!(StarCollective::from_name(collective.name()), Some(collective));
        }
        assert_eq!(StarCollective::from_name("all_reduce"), None);
    }

    #[test]
    fn a_reduce_scatter_and_an_all_gather_use_two_directions() {
        assert_eq!(StarCollective::Overlap.switch_share(1.0, 8.0), 1.125);
        assert_eq!(StarCollective::Overlap.switch_share(0.5, 8.0), 1.0625);
        assert_eq!(StarCollective::Overlap.ring_share(8.0), 1.75);
    }
}
