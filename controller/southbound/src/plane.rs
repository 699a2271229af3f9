//! The control plane's switches as a topology describes them, managed over P4Runtime.

use crate::p4runtime::{
    ConnectError, ELECTION_ID, Managed, ManagedConfig, Pipeline, Repaired, SwitchEvent, configure,
};
use netfold_controller::driver::SwitchDriver;
use netfold_controller::fleet::{SwitchInfo, links};
use netfold_controller::plane::{KnownSwitch, Plane};
use netfold_controller::record::Store;
use netfold_controller::switch_status::{SwitchStatusSender, SwitchUp};
use netfold_controller::topology::Topology;
use netfold_wire::Reason;
use std::error::Error;
use std::time::Duration;

/// The switches of a topology, managed over P4Runtime. No switch is contacted before the control port serves.
///
/// # Errors
/// [`ConnectError`] when a switch cannot be managed as it is described. Whether it is reachable shows later.
pub fn managed_plane(topology: Topology, store: Box<dyn Store>) -> Result<Plane, ConnectError> {
    plane(topology, store, ELECTION_ID, Duration::ZERO)
}

/// The same for a control plane that was elected for a term: switches take writes from the one of the latest. `lease` is how long one goes on at most that
/// has lost the leadership; a switch that has seen a later term, as before etcd was set up anew, and has been left by its controller is taken after twice that time.
///
/// # Errors
/// As [`managed_plane`].
pub fn elected_plane(
    topology: Topology,
    store: Box<dyn Store>,
    term: u64,
    lease: Duration,
) -> Result<Plane, ConnectError> {
    plane(topology, store, ELECTION_ID + u128::from(term), lease * 2)
}

fn plane(
    topology: Topology,
    store: Box<dyn Store>,
    election_id: u128,
    outbid_after: Duration,
) -> Result<Plane, ConnectError> {
    let mut managed = Vec::with_capacity(topology.switches().len());
    let mut switches = Vec::with_capacity(topology.switches().len());
    for id in topology.switch_ids() {
        let (mut config, pipeline) = configure(&topology, id)?;
        (config.election_id, config.outbid_after) = (election_id, outbid_after);
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
    Ok(Plane {
        switches,
        links: links(&topology),
        route: Box::new(topology),
        store,
        start: Box::new(move |known, status| manage(managed, known, &status)),
    })
}

/// Starts to manage switches; `known` is what they held before a restart.
fn manage(
    switches: Vec<(ManagedConfig, Pipeline)>,
    known: Vec<KnownSwitch>,
    status: &SwitchStatusSender,
) -> Result<Vec<Box<dyn SwitchDriver>>, Box<dyn Error + Send + Sync>> {
    let mut drivers: Vec<Box<dyn SwitchDriver>> = Vec::with_capacity(switches.len());
    for (index, ((mut config, pipeline), KnownSwitch { held, boot })) in
        switches.into_iter().zip(known).enumerate()
    {
        config.boot = boot;
        let status = status.clone();
        let managed = Managed::start(config, pipeline, held, move |event| report(&status, index, event))?;
        drivers.push(Box::new(managed));
    }
    Ok(drivers)
}

/// Reports an event of a managed switch to the control plane.
fn report(status: &SwitchStatusSender, switch: usize, event: SwitchEvent) {
    match event {
        SwitchEvent::Up { fresh, boot, data, .. } => status.up(switch, SwitchUp { fresh, data, boot }),
        SwitchEvent::Down { reason } => status.down(switch, reason),
        SwitchEvent::Repaired(Repaired { inserted, removed, modified }) => status.repaired(
            switch,
            format!("{inserted} things were missing, {removed} were not ours, {modified} were other than asked for"),
        ),
        SwitchEvent::Counters { packets, .. } => {
            let named = Reason::ALL.iter().zip(packets);
            status.packets(switch, named.map(|(reason, count)| (reason.name().to_owned(), count)).collect());
        }
    }
}
