//! How ranks that can reach each other agree on a path: who shares a host, whether the switch takes them, and what to do when it
//! does not.
//!
//! Every decision is made from what all ranks have told each other, so that all make the same one:
//!
//! 1. All ranks are linked ([`Mesh`]) and compare their settings.
//! 2. Ranks that share a host try shared memory. If any rank cannot, none does.
//! 3. The first rank of each host (each rank, without shared memory) joins the switch. If any cannot, all of them take a ring.
//! 4. Every rank is told the path and its reason.

use std::time::{Duration, Instant};

use netfold_collectives::mesh::{Exchange, HostId, Mesh, MeshConfig, MeshExchange};
use netfold_collectives::shared::{Config as SharedConfig, Handle, Shared};
use netfold_control::Mode;
use netfold_proto::Tolerance;

use crate::builder::Builder;
use crate::carry_on::Peers;
use crate::communicator::{Communicator, HostSide, Parts};
use crate::error::Error;
use crate::fabric::{Hierarchy, InBinary32, MeshFabric, MeshPeers, Ranks, SharedFabric, mesh_error};
use crate::fate::Fate;
use crate::grove::Grove;
use crate::host::{Alone, Fabric, HostEngine};
use crate::join::{Uplink, plant, spawn};
use crate::lower::Place;
use crate::mailbox::Mailbox;
use crate::path::{Network, Path, PathBoard};
use crate::quantize::Rounding;
use crate::split::Heritage;

use std::sync::Arc;

/// How long a switch is given to admit ranks that all ask at the same moment, where there is another way.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(10);

/// What must be the same on all ranks.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    /// May differ between ranks.
    pub(crate) rounding: Rounding,
    pub(crate) tolerance: Tolerance,
    pub(crate) classes: u8,
    pub(crate) trees: u8,
    pub(crate) small: usize,
    /// This rank's host, where the caller names it; differs between ranks.
    pub(crate) host: Option<String>,
    pub(crate) shared_memory: bool,
    pub(crate) fall_back: bool,
    /// Whether a switch is configured.
    pub(crate) switch: bool,
    pub(crate) join_timeout: Duration,
    pub(crate) stall_timeout: Duration,
}

impl Settings {
    /// In words, compared between ranks.
    fn describe(&self) -> String {
        let yes = |on: bool| if on { "yes" } else { "no" };
        format!(
            "version {}, mode {}, classes {}, trees {}, small tensors up to {} bytes, switch {}, shared memory {}, fall-back {}",
            env!("CARGO_PKG_VERSION"),
            self.mode,
            self.classes,
            self.trees,
            self.small,
            yes(self.switch),
            yes(self.shared_memory),
            yes(self.fall_back)
        )
    }
}

/// The ranks of a job, linked.
struct Assembly {
    mesh: Mesh,
    settings: Settings,
    everyone: Ranks,
    /// Ranks of this host, this one among them; alone, where memory is not shared.
    local: Ranks,
    /// The first rank of each host.
    leaders: Ranks,
    shared: Option<Shared>,
    /// Why memory is not shared although it was wanted.
    unshared: Option<String>,
}

/// Builds a communicator over whatever path the ranks agree on.
pub(crate) fn assemble(
    mut builder: Builder,
    exchange: &mut dyn Exchange,
    settings: Settings,
) -> Result<Communicator, Error> {
    let mut assembly = Assembly::link(exchange, settings)?;
    assembly.share()?;
    let rank = assembly.mesh.rank();
    let is_leader = assembly.leaders.contains(&rank);
    let fate = Fate::default();
    let (leading, network) = if is_leader && assembly.leaders.len() > 1 {
        let (leading, network) = assembly.lead(&mut builder)?;
        (Some(leading), network)
    } else {
        (None, Network::None)
    };
    let path = assembly.announce(network)?;
    if let Network::Ring { reason } = &path.network
        && assembly.settings.switch
        && !assembly.settings.fall_back
    {
        return Err(Error::NoSwitch { reason: reason.clone() });
    }
    log::info!("rank {rank} of {}: {path}", assembly.everyone.len());
    let heritage = builder.heritage(Some(assembly.mesh.local_ip()));
    assembly.build(leading, PathBoard::new(path), (fate, heritage))
}

/// What a leader has for the network.
struct Leading {
    /// The leaders, linked. Taken by the ring, or kept for when the switch of the first tree is lost.
    mesh: Mesh,
    /// The same for the other trees.
    more: Vec<Mesh>,
    /// A place at the switch of each tree, if all leaders have them all; none otherwise.
    uplinks: Vec<Uplink>,
}

impl Assembly {
    fn link(exchange: &mut dyn Exchange, settings: Settings) -> Result<Self, Error> {
        let everyone: Ranks = (0..exchange.world()).collect();
        let mut config = MeshConfig::default();
        config.connect_timeout = settings.join_timeout;
        config.stall_timeout = settings.stall_timeout;
        config.host = settings.host.as_deref().map(HostId::named);
        let mesh = Mesh::connect(exchange, config).map_err(|error| mesh_error(error, &everyone))?;
        let rank = mesh.rank();
        let mut assembly = Self {
            mesh,
            settings,
            local: vec![rank],
            leaders: everyone.clone(),
            everyone,
            shared: None,
            unshared: None,
        };
        let mine = assembly.settings.describe();
        for (rank, theirs) in assembly.gather(mine.as_bytes())?.into_iter().enumerate() {
            if theirs != mine.as_bytes() {
                let theirs = String::from_utf8_lossy(&theirs).into_owned();
                return Err(Error::Differs { rank: rank as u16, mine, theirs });
            }
        }
        Ok(assembly)
    }

    /// Every rank's bytes, by rank.
    fn gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let deadline = Instant::now() + self.settings.join_timeout;
        self.mesh.all_gather_bytes(mine, deadline).map_err(|error| mesh_error(error, &self.everyone))
    }

    /// Makes a shared-memory group on every host that has several ranks, or on none.
    fn share(&mut self) -> Result<(), Error> {
        let hosts = self.mesh.hosts().to_vec();
        let on = |host: &HostId| -> Ranks {
            self.everyone.iter().copied().filter(|rank| hosts[usize::from(*rank)] == *host).collect()
        };
        let local = on(&hosts[usize::from(self.mesh.rank())]);
        let most = hosts.iter().map(|host| on(host).len()).max().unwrap_or(1);
        if !self.settings.shared_memory || most == 1 {
            return Ok(());
        }
        let leaders: Ranks =
            self.everyone.iter().copied().filter(|rank| on(&hosts[usize::from(*rank)])[0] == *rank).collect();
        let leads = local[0] == self.mesh.rank();
        let config = SharedConfig::new(local.len() as u16)
            .join_timeout(self.settings.join_timeout)
            .stall_timeout(self.settings.stall_timeout);
        let mut made = None;
        let mut offer = Vec::new();
        if leads {
            match Shared::create(config) {
                Ok((shared, handle)) => {
                    offer = handle.to_bytes();
                    made = Some(Ok(shared));
                }
                Err(error) => made = Some(Err(error)),
            }
        }
        let offers = self.gather(&offer)?;
        let place = local.iter().position(|rank| *rank == self.mesh.rank()).unwrap_or(0) as u16;
        let shared = made.unwrap_or_else(|| {
            let handle = Handle::from_bytes(&offers[usize::from(local[0])])?;
            let mut shared = Shared::join(&handle, place)?;
            shared.set_join_timeout(self.settings.join_timeout);
            shared.set_stall_timeout(self.settings.stall_timeout);
            Ok(shared)
        });
        let said = shared.as_ref().err().map(|error| error.to_string()).unwrap_or_default();
        let all = self.gather(said.as_bytes())?;
        match (shared, all.iter().position(|said| !said.is_empty())) {
            (Ok(shared), None) => {
                self.shared = (local.len() > 1).then_some(shared);
                (self.local, self.leaders) = (local, leaders);
            }
            (_, at) => {
                let said = at.map(|at| String::from_utf8_lossy(&all[at]).into_owned());
                let reason = said.unwrap_or_default();
                log::warn!("no shared memory among ranks of one host: {reason}");
                self.unshared = Some(reason);
            }
        }
        Ok(())
    }

    /// Links the leaders, and has all of them join the switch or none.
    fn lead(&mut self, builder: &mut Builder) -> Result<(Leading, Network), Error> {
        let leaders = self.leaders.clone();
        let place = leaders.iter().position(|rank| *rank == self.mesh.rank()).unwrap_or(0) as u16;
        let mut mesh = self.link_leaders()?;
        if !self.settings.switch {
            let network = Network::Ring { reason: "no switch is configured".into() };
            return Ok((Leading { mesh, more: Vec::new(), uplinks: Vec::new() }, network));
        }
        if self.settings.fall_back {
            builder.cap_join_timeout(ADMISSION_TIMEOUT);
        }
        let uplinks = builder.uplinks((place, leaders.len() as u16), self.settings.fall_back);
        let said = uplinks.as_ref().err().map(chain).unwrap_or_default();
        let deadline = Instant::now() + self.settings.join_timeout;
        let all = mesh.all_gather_bytes(said.as_bytes(), deadline);
        let all = all.map_err(|error| mesh_error(error, &leaders))?;
        match (uplinks, all.iter().position(|said| !said.is_empty())) {
            (Ok(uplinks), None) => {
                // Each engine has a mesh of its own.
                let spare = if self.settings.fall_back { uplinks.len() - 1 } else { 0 };
                let more = (0..spare).map(|_| self.link_leaders()).collect::<Result<Vec<_>, Error>>()?;
                let address = uplinks.first().and_then(|uplink| uplink.control);
                Ok((Leading { mesh, more, uplinks }, Network::Switch { address }))
            }
            (uplinks, at) => {
                uplinks.into_iter().flatten().for_each(Uplink::withdraw);
                let at = at.unwrap_or(0);
                let said = String::from_utf8_lossy(&all[at]).into_owned();
                let reason = format!("rank {} could not use the switch: {said}", leaders[at]);
                let network = Network::Ring { reason };
                Ok((Leading { mesh, more: Vec::new(), uplinks: Vec::new() }, network))
            }
        }
    }

    /// Links the leaders, over the links of all ranks.
    fn link_leaders(&mut self) -> Result<Mesh, Error> {
        let mut config = MeshConfig::default();
        config.connect_timeout = self.settings.join_timeout;
        config.stall_timeout = self.settings.stall_timeout;
        let linked = MeshExchange::new(&mut self.mesh, &self.leaders, self.settings.join_timeout)
            .and_then(|mut exchange| Mesh::connect(&mut exchange, config));
        linked.map_err(|error| mesh_error(error, &self.leaders))
    }

    /// Tells every rank what the leaders have found.
    fn announce(&mut self, network: Network) -> Result<Path, Error> {
        let mine = match &network {
            Network::None => String::new(),
            Network::Switch { address } => {
                format!("S{}", address.map(|address| address.to_string()).unwrap_or_default())
            }
            Network::Ring { reason } => format!("R{reason}"),
        };
        let all = self.gather(mine.as_bytes())?;
        let first = String::from_utf8_lossy(&all[usize::from(self.leaders[0])]).into_owned();
        let network = match first.split_at_checked(1) {
            Some(("S", address)) => Network::Switch { address: address.parse().ok() },
            Some(("R", reason)) => Network::Ring { reason: reason.to_owned() },
            _ => Network::None,
        };
        let trees = if matches!(network, Network::Switch { .. }) { self.settings.trees } else { 0 };
        let (hosts, shared) = (self.leaders.len() as u16, self.local.len() as u16);
        Ok(Path { hosts, shared, network, trees, lost: Vec::new() })
    }

    /// Starts the threads.
    fn build(
        self,
        leading: Option<Leading>,
        board: PathBoard,
        (fate, heritage): (Fate, Heritage),
    ) -> Result<Communicator, Error> {
        let Self { mesh, settings, everyone, local, leaders, shared, .. } = self;
        let (rank, world) = (mesh.rank(), everyone.len() as u16);
        let Settings { mode, rounding, tolerance, classes, small, .. } = settings;
        let mut place = Place { rank, world, mode, lane_bytes: 0, rounding, tolerance, classes, small };
        let aborter = mesh.aborter();
        fate.on_end(move |_| aborter.abort());
        let hierarchical = leaders.len() < everyone.len();
        if !hierarchical {
            let mut network = None;
            if let Some(leading) = leading.filter(|leading| !leading.uplinks.is_empty()) {
                (place.lane_bytes, network) = leading.plant(&leaders, &settings, (&board, &fate))?;
            }
            let fabric: Box<dyn Fabric> = if world == 1 {
                Box::new(Alone)
            } else {
                Box::new(InBinary32(MeshFabric::new(mesh, everyone)))
            };
            let host = host_side(fabric, &fate)?;
            return Ok(Communicator::new(Parts { place, network, host: Some(host), board, fate, heritage }));
        }
        let Some(shared) = shared else {
            // A rank alone on its host, among hosts with several.
            let lone =
                Shared::create(SharedConfig::new(1)).map_err(|error| Error::Shared(Arc::new(error)))?.0;
            let leading = leading
                .map(|leading| lead_by(leading, (&leaders, rank), &settings, &board, (&fate, &heritage)));
            let everyone = MeshFabric::new(mesh, everyone);
            let fabric =
                Hierarchy::new((lone, local), leading.transpose()?, everyone, (settings.mode, world));
            let host = host_side(Box::new(InBinary32(fabric)), &fate)?;
            return Ok(Communicator::new(Parts {
                place,
                network: None,
                host: Some(host),
                board,
                fate,
                heritage,
            }));
        };
        let aborter = shared.aborter();
        fate.on_end(move |_| aborter.abort());
        let fabric: Box<dyn Fabric> = if leaders.len() == 1 {
            Box::new(InBinary32(SharedFabric::new(shared, local)))
        } else {
            let leading = leading
                .map(|leading| lead_by(leading, (&leaders, rank), &settings, &board, (&fate, &heritage)));
            let everyone = MeshFabric::new(mesh, everyone);
            let parts = (shared, local);
            Box::new(InBinary32(Hierarchy::new(
                parts,
                leading.transpose()?,
                everyone,
                (settings.mode, world),
            )))
        };
        let host = host_side(fabric, &fate)?;
        Ok(Communicator::new(Parts { place, network: None, host: Some(host), board, fate, heritage }))
    }
}

/// The communicator among leaders.
fn lead_by(
    leading: Leading,
    (leaders, rank): (&Ranks, u16),
    settings: &Settings,
    board: &PathBoard,
    (fate, heritage): (&Fate, &Heritage),
) -> Result<Communicator, Error> {
    let index = leaders.iter().position(|leader| *leader == rank).unwrap_or(0) as u16;
    let Settings { mode, rounding, tolerance, classes, .. } = *settings;
    let world = leaders.len() as u16;
    let mut place = Place { rank: index, world, mode, lane_bytes: 0, rounding, tolerance, classes, small: 0 };
    let own = Fate::default();
    let inner = own.clone();
    fate.on_end(move |error| drop(inner.end(error.clone())));
    let heritage = heritage.clone();
    let board = board.clone();
    if !leading.uplinks.is_empty() {
        let network;
        (place.lane_bytes, network) = leading.plant(leaders, settings, (&board, &own))?;
        return Ok(Communicator::new(Parts { place, network, host: None, board, fate: own, heritage }));
    }
    let mesh = leading.mesh;
    let aborter = mesh.aborter();
    own.on_end(move |_| aborter.abort());
    let fabric = InBinary32(MeshFabric::new(mesh, leaders.clone()));
    let host = Some(host_side(Box::new(fabric), &own)?);
    Ok(Communicator::new(Parts { place, network: None, host, board, fate: own, heritage }))
}

impl Leading {
    /// Starts the trees' engines; the bytes of their packets' lanes.
    fn plant(
        self,
        leaders: &Ranks,
        settings: &Settings,
        (board, fate): (&PathBoard, &Fate),
    ) -> Result<(usize, Option<Grove>), Error> {
        let lane_bytes = self.uplinks.first().map_or(0, Uplink::lane_bytes);
        let meshes = std::iter::once(self.mesh).chain(self.more).filter(|_| settings.fall_back);
        let peers = meshes.map(|mesh| peers(mesh, leaders.clone(), settings, fate)).collect();
        Ok((lane_bytes, Some(plant(self.uplinks, peers, board, fate)?)))
    }
}

fn peers(mesh: Mesh, ranks: Ranks, settings: &Settings, fate: &Fate) -> Box<dyn Peers> {
    let aborter = mesh.aborter();
    fate.on_end(move |_| aborter.abort());
    Box::new(MeshPeers::new(mesh, ranks, settings.stall_timeout))
}

fn host_side(fabric: Box<dyn Fabric>, fate: &Fate) -> Result<HostSide, Error> {
    let mailbox = Arc::new(Mailbox::new(std::task::Waker::noop().clone()));
    let doomed = Arc::clone(&mailbox);
    fate.on_end(move |error| doomed.doom(error.clone()));
    let engine = Arc::new(HostEngine::new(fabric, Arc::clone(&mailbox), fate.clone()));
    let own = Arc::clone(&engine);
    let thread = spawn("netfold-host", move || own.run())?;
    Ok(HostSide { mailbox, engine, thread: Some(thread) })
}

/// An error and its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}
