//! The switches of a control plane, from one that is its own to those of a topology.

use crate::admission::Up;
use crate::driver::{Held, SwitchDriver};
use crate::fleet::{LinkInfo, OneSwitch, Route, SwitchInfo, links};
use crate::p4runtime::{
    ConnectError, ELECTION_ID, Managed, ManagedConfig, Pipeline, Repaired, SwitchEvent, configure,
};
use crate::record::{Store, Unkept};
use crate::server::Notices;
use crate::topology::Topology;
use netfold_wire::Reason;
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
pub struct Known {
    /// What it holds for jobs that run.
    pub held: Vec<Held>,
    /// Which start of it that was, where it says.
    pub boot: Option<String>,
}

/// Is given what is known of each switch, and where to tell what becomes of them. Until a switch is told to be up it counts as
/// down.
pub type StartDrivers = Box<
    dyn FnOnce(Vec<Known>, Notices) -> Result<Vec<Box<dyn SwitchDriver>>, Box<dyn Error + Send + Sync>>
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
                (0..drivers.len()).for_each(|queue| notices.up(queue, Up::default()));
                Ok(drivers)
            }),
        }
    }

    /// The switches of a topology, managed over P4Runtime. Nothing is done before the control port serves.
    ///
    /// # Errors
    /// [`ConnectError`] when a switch cannot be managed as it is described. Whether it is there shows later.
    pub fn of(topology: Topology, store: Box<dyn Store>) -> Result<Self, ConnectError> {
        Self::elected(topology, store, ELECTION_ID)
    }

    /// The same for one of several control planes: switches take writes from the one with the greatest election id.
    ///
    /// # Errors
    /// As [`Plane::of`].
    pub fn elected(
        topology: Topology,
        store: Box<dyn Store>,
        election_id: u128,
    ) -> Result<Self, ConnectError> {
        let mut managed = Vec::with_capacity(topology.switches().len());
        let mut switches = Vec::with_capacity(topology.switches().len());
        for id in topology.switch_ids() {
            let (mut config, pipeline) = configure(&topology, id)?;
            config.election_id = election_id;
            let switch = topology.switch(id);
            switches.push(SwitchInfo {
                name: switch.name.clone(),
                limits: config.limits(&pipeline),
                numerics: pipeline.profile().numerics,
                data: switch.data,
                role: switch.role.name().into(),
                kind: switch.kind.name().into(),
                control: config.address.clone(),
            });
            managed.push((config, pipeline));
        }
        Ok(Self {
            switches,
            links: links(&topology),
            route: Box::new(topology),
            store,
            start: Box::new(move |known, notices| manage(managed, known, &notices)),
        })
    }
}

/// Starts to manage switches, of which `known` says what they hold.
fn manage(
    switches: Vec<(ManagedConfig, Pipeline)>,
    known: Vec<Known>,
    notices: &Notices,
) -> Result<Vec<Box<dyn SwitchDriver>>, Box<dyn Error + Send + Sync>> {
    let mut drivers: Vec<Box<dyn SwitchDriver>> = Vec::with_capacity(switches.len());
    for (index, ((mut config, pipeline), Known { held, boot })) in switches.into_iter().zip(known).enumerate()
    {
        config.boot = boot;
        let notices = notices.clone();
        let managed = Managed::start(config, pipeline, held, move |event| tell(&notices, index, event))?;
        drivers.push(Box::new(managed));
    }
    Ok(drivers)
}

/// Tells a control plane what became of a managed switch.
fn tell(notices: &Notices, switch: usize, event: SwitchEvent) {
    match event {
        SwitchEvent::Up { fresh, boot, data, .. } => notices.up(switch, Up { fresh, data, boot }),
        SwitchEvent::Down { reason } => notices.down(switch, reason),
        SwitchEvent::Repaired(Repaired { inserted, removed, modified }) => notices.repaired(
            switch,
            format!("{inserted} things were missing, {removed} were not ours, {modified} were other than asked for"),
        ),
        SwitchEvent::Counters { packets, .. } => {
            let named = Reason::ALL.iter().zip(packets);
            notices.packets(switch, named.map(|(reason, count)| (reason.name().to_owned(), count)).collect());
        }
    }
}
