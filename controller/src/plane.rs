//! The switches of a control plane and how their drivers are started.

use crate::driver::{Held, SwitchDriver};
use crate::fleet::{LinkInfo, OneSwitch, Route, SwitchInfo};
use crate::record::{Store, Unkept};
use crate::switch_status::{SwitchStatusSender, SwitchUp};
use std::error::Error;

/// The switches that a control port admits to, and what it remembers of them.
pub struct Plane {
    /// The switches, in an order that is the same at every start.
    pub switches: Vec<SwitchInfo>,
    /// How they are linked, for people.
    pub links: Vec<LinkInfo>,
    /// Chooses the switches of jobs.
    pub route: Box<dyn Route>,
    /// What is remembered.
    pub store: Box<dyn Store>,
    /// Starts the drivers, one for each switch.
    pub start: StartDrivers,
}

/// What is known of a switch from before a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownSwitch {
    /// What it holds for jobs that run.
    pub held: Vec<Held>,
    /// Which start of it that was, where it reports that.
    pub boot: Option<String>,
}

/// Receives what is known of each switch, and the channel on which drivers report its status. Until a switch is reported up it
/// counts as down.
pub type StartDrivers = Box<
    dyn FnOnce(
            Vec<KnownSwitch>,
            SwitchStatusSender,
        ) -> Result<Vec<Box<dyn SwitchDriver>>, Box<dyn Error + Send + Sync>>
        + Send,
>;

impl Plane {
    /// One switch that is its own control plane and is up already; nothing is remembered.
    pub fn own(driver: Box<dyn SwitchDriver>) -> Self {
        Self::queues(vec![driver])
    }

    /// The same for a switch of several queues, each with a driver, slots and a UDP port of its own. A tree of a job has its place at one
    /// queue.
    pub fn queues(drivers: Vec<Box<dyn SwitchDriver>>) -> Self {
        let infos = drivers.iter().map(|driver| SwitchInfo::own(driver.limits(), driver.numerics()));
        let named = |(queue, info)| SwitchInfo { name: format!("queue {queue}"), ..info };
        let switches =
            if drivers.len() > 1 { infos.enumerate().map(named).collect() } else { infos.collect() };
        Self {
            switches,
            links: Vec::new(),
            route: Box::new(OneSwitch),
            store: Box::new(Unkept::default()),
            start: Box::new(move |_, notices| {
                (0..drivers.len()).for_each(|queue| notices.up(queue, SwitchUp::default()));
                Ok(drivers)
            }),
        }
    }
}
