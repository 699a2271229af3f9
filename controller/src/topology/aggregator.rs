//! Switches whose slots best-effort jobs share, and their aggregators.

use std::collections::{BTreeMap, BTreeSet};

use netfold_p4::profile::Profile;

use super::check::{Checked, wrong};
use super::{Element, Host, Kind, LANE_WORDS_DEFAULT, Link, LinkId, Problem, Switch, SwitchId, Topology};

/// The aggregator of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregator {
    /// A software switch, with slots for each job that shares those of the switch.
    pub switch: SwitchId,
    /// The link to it, the first of the file.
    pub link: LinkId,
}

/// The aggregators of a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Aggregators {
    /// That of each switch, by [`SwitchId`].
    of: Vec<Option<Aggregator>>,
    /// The switches that are one.
    all: BTreeSet<SwitchId>,
}

impl Topology {
    /// The aggregator that a switch names: jobs can share the switch's slots.
    ///
    /// # Panics
    ///
    /// When the number is of another topology.
    pub fn aggregator(&self, switch: SwitchId) -> Option<Aggregator> {
        self.aggregators.of[switch.index()]
    }

    /// Whether a switch is the aggregator of others. It takes part in no other trees.
    pub fn is_aggregator(&self, switch: SwitchId) -> bool {
        self.aggregators.all.contains(&switch)
    }

    /// The profile of the program that a switch is to run. A software switch without one runs a program for best-effort jobs if it names an
    /// aggregator, or is one.
    ///
    /// # Panics
    ///
    /// When the number is of another topology.
    pub fn program_profile(&self, switch: SwitchId) -> Profile {
        let default = Profile::software(LANE_WORDS_DEFAULT);
        let is_best_effort = self.aggregator(switch).is_some() || self.is_aggregator(switch);
        let default = if is_best_effort { default.for_best_effort() } else { default };
        self.switch(switch).profile().unwrap_or(default)
    }
}

/// What each switch names, if it can be: a software switch at the other end of a link, where no hosts are, which names none itself.
pub(super) fn aggregators(
    switches: &[Switch],
    hosts: &[Host],
    links: &[Link],
    names: &BTreeMap<String, SwitchId>,
) -> Checked<Aggregators> {
    let planes = hosts.iter().flat_map(|host| &host.planes);
    let with_hosts: BTreeSet<SwitchId> = planes.map(|plane| plane.switch).collect();
    let mut of = Vec::with_capacity(switches.len());
    for (index, switch) in switches.iter().enumerate() {
        let Some(name) = &switch.aggregator else {
            of.push(None);
            continue;
        };
        let element = || Element::Switch(index, switch.name.clone());
        let Some(at) = names.get(name).copied() else {
            return wrong(element(), Problem::UnknownSwitch(name.clone()));
        };
        let own = SwitchId(index as u16);
        let joins = |link: &Link| link.seen_from(own).is_some_and(|(_, other)| other.switch == at);
        let link = links.iter().position(joins);
        let why = unfit(switch, &switches[at.index()], with_hosts.contains(&at));
        match (why, link) {
            (Some(why), _) => return wrong(element(), Problem::Aggregator { name: name.clone(), why }),
            (None, None) => {
                let why = "no link leads to it: describe one in a [[link]] table";
                return wrong(element(), Problem::Aggregator { name: name.clone(), why });
            }
            (None, Some(link)) => of.push(Some(Aggregator { switch: at, link: LinkId(link as u32) })),
        }
    }
    let all = of.iter().flatten().map(|aggregator| aggregator.switch).collect();
    Ok(Aggregators { of, all })
}

/// Why a switch cannot be the aggregator of another, and what to do.
fn unfit(of: &Switch, aggregator: &Switch, has_hosts: bool) -> Option<&'static str> {
    if of.name == aggregator.name {
        return Some("a switch is not its own aggregator: name another");
    }
    if aggregator.aggregator.is_some() {
        return Some("that switch names an aggregator itself: name one that does not");
    }
    if aggregator.kind != Kind::Software {
        return Some("an aggregator is a software switch: name one");
    }
    if has_hosts {
        return Some("hosts are attached to that switch: name one without");
    }
    let profiles = [of, aggregator].map(Switch::profile);
    if profiles.iter().flatten().any(|profile| !profile.best_effort) {
        return Some(
            "the program of one of the two is not for best-effort jobs: give profile = \"best-effort\", or, at software switches, none",
        );
    }
    let [of, aggregator] =
        profiles.map(|profile| profile.map_or(LANE_WORDS_DEFAULT, |profile| profile.lane_words));
    (of != aggregator)
        .then_some("the programs of the two have packets of different lengths: give both the same profile")
}
