//! Queueing features by target: in the program, in the device's configuration, or missing.
//!
//! The software switch has all features, in its configuration. This table lists the features of every target once; `netfold p4 info`
//! and the docs print it.

/// Features of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// Classes of higher priority are served first.
    Priorities,
    /// Weighted sharing among queues of one priority.
    Weights,
    /// ECN marks on long queues.
    Marks,
    /// Droppable data cut to its header behind a threshold.
    Trimming,
    /// A limit on the bytes in a queue.
    TailDrop,
    /// A limit on a port's rate.
    Rate,
    /// Pausing senders.
    Pause,
}

/// Implementation of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// In the printed program, if the profile enables it.
    Program,
    /// In the device, with its own configuration.
    Device,
    /// Not available.
    Missing,
}

/// Support of a feature by a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Support {
    /// The target, as `netfold p4 emit` names it; `software` is the software switch.
    pub target: &'static str,
    /// The feature.
    pub feature: Feature,
    /// Its implementation.
    pub source: Source,
    /// How, and within which limits.
    pub how: &'static str,
}

impl Feature {
    /// Every feature, in the order of the list.
    pub const ALL: [Self; 7] = [
        Self::Priorities,
        Self::Weights,
        Self::Marks,
        Self::Trimming,
        Self::TailDrop,
        Self::Rate,
        Self::Pause,
    ];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Priorities => "priorities",
            Self::Weights => "weights",
            Self::Marks => "marks",
            Self::Trimming => "trimming",
            Self::TailDrop => "tail drop",
            Self::Rate => "rate",
            Self::Pause => "pause",
        }
    }
}

impl Source {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Device => "device",
            Self::Missing => "missing",
        }
    }
}

/// Every target and feature.
pub fn support() -> Vec<Support> {
    use Source::{Device, Missing, Program};
    let rows: [(&str, [(Source, &str); 7]); 4] = [
        (
            "software",
            [
                (Device, "up to 8 queues per port, by the class of the header"),
                (Device, "deficit round robin among queues of one priority"),
                (Device, "by bytes, between k_min and k_max; the header's flag `congestion`"),
                (Device, "before the queue: headers overtake in the control queue"),
                (Device, "by bytes per queue"),
                (Device, "a token bucket per port"),
                (Device, "of all input at once"),
            ],
        ),
        (
            "v1model",
            [
                (Program, "profile `priorities`, and `--priority-queues` of simple_switch"),
                (Missing, "its queues are strict"),
                (Program, "profile `ecn_depth`: a step, by packets when a copy was enqueued"),
                (Program, "profile `trim_depth`, behind the queue: headers do not overtake"),
                (Device, "64 packets per queue; `set_queue_depth`, only through Thrift"),
                (Device, "packets per second; `set_queue_rate`, only through Thrift"),
                (Missing, "a full egress queue drops"),
            ],
        ),
        (
            "tna",
            [
                (
                    Program,
                    "profile `priorities`, as `qid`; the traffic manager must serve higher numbers first",
                ),
                (Device, "the traffic manager's scheduling"),
                (Program, "profile `ecn_depth`: a step, by cells of 80 bytes"),
                (
                    Program,
                    "profile `trim_depth`, behind the queue, by cells; packets of up to 14 words on Tofino 1",
                ),
                (Device, "the traffic manager's buffer limits"),
                (Device, "the traffic manager's shapers"),
                (Device, "PFC, by the port's configuration"),
            ],
        ),
        (
            "pna",
            [
                (Program, "profile `priorities`, as `class_of_service`; its meaning depends on the device"),
                (Missing, "not in PNA"),
                (Missing, "there is no queue metadata: `ecn_depth` is not printed"),
                (Missing, "there is no queue metadata: `trim_depth` is not printed"),
                (Device, "depends on the network interface"),
                (Device, "depends on the network interface"),
                (Device, "depends on the network interface"),
            ],
        ),
    ];
    let of = |(target, row): (&'static str, [(Source, &'static str); 7])| {
        let supports = Feature::ALL.into_iter().zip(row);
        supports.map(move |(feature, (source, how))| Support { target, feature, source, how })
    };
    rows.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allreduce;
    use crate::profile::{Profile, by_name};
    use crate::tna::Chip;
    use crate::{pna, tna, v1model};

    /// A profile option.
    type Change = fn(&mut Profile);

    /// Whether the printed text depends on the option, or printing is refused.
    fn printed(target: &str, change: Change) -> Result<bool, String> {
        let profile = match target {
            "v1model" => Profile::hardware(),
            "tna" => Profile::tofino(),
            _ => by_name("nic").unwrap(),
        };
        let print = |profile: &Profile| {
            let program = allreduce::program(profile).unwrap();
            match target {
                "v1model" => v1model::print(&program).map_err(|error| error.to_string()),
                "tna" => tna::print(&program, Chip::Tofino2).map_err(|error| error.to_string()),
                _ => pna::print(&program).map_err(|error| error.to_string()),
            }
        };
        let mut changed = Profile { ecn_depth: 0, ..profile.clone() };
        change(&mut changed);
        Ok(print(&changed)? != print(&Profile { ecn_depth: 0, ..profile })?)
    }

    #[test]
    fn the_list_says_what_the_printers_do() {
        let options: [(Feature, Change); 3] = [
            (Feature::Priorities, |profile| profile.priorities = 4),
            (Feature::Marks, |profile| profile.ecn_depth = 9),
            (Feature::Trimming, |profile| profile.trim_depth = 9),
        ];
        for row in support().into_iter().filter(|row| row.target != "software") {
            let Some((_, change)) = options.iter().find(|(feature, _)| *feature == row.feature) else {
                assert_ne!(row.source, Source::Program, "{row:?}");
                continue;
            };
            let printed = printed(row.target, *change);
            assert_eq!(printed == Ok(true), row.source == Source::Program, "{row:?}: {printed:?}");
            assert_eq!(printed.is_err(), row.how.starts_with("refused"), "{row:?}: {printed:?}");
        }
    }
}
