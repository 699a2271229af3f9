//! How linked ranks agree on a path: which of them share a host, whether the switch admits them, and what to do when it
//! does not.
//!
//! Every decision is made from what all ranks have exchanged, so that all make the same one:
//!
//! 1. All ranks are linked ([`Mesh`]) and compare their settings; those of a confidential job agree on a key.
//! 2. Ranks that share a host try shared memory. If any rank cannot, none does.
//! 3. The first rank of each host (each rank, without shared memory) joins the switch. If any cannot, all of them take a ring.
//! 4. The leaders send the path and its reason to every rank.

use std::time::{Duration, Instant};

use netfold_collectives::mesh::{Exchange, HostId, Mesh, MeshConfig, MeshExchange};
use netfold_collectives::shared::{SharedConfig, SharedGroup, SharedHandle};
use netfold_wire::LaneOps;

use crate::attach::Attacher;
use crate::communicator::{Communicator, Parts, Place};
use crate::confidential::{AgreedKey, Members, agree};
use crate::config::JobConfig;
use crate::error::Error;
use crate::fabric::{Hierarchy, InBinary32, MeshPeers, Ranks, SharedFabric};
use crate::host::{Fabric, HostEngine, HostThread, SingleRank};
use crate::join::{Attachment, spawn};
use crate::links::{Links, mesh_error};
use crate::lower::OpContext;
use crate::mailbox::Mailbox;
use crate::path::{Network, Path, PathCell};
use crate::peers::Peers;
use crate::shutdown::ShutdownState;
use crate::start::{lane_ops, start_trees};
use crate::tree_set::TreeSet;

use std::sync::{Arc, Mutex};

/// How long a switch may take to admit ranks that join at the same moment, where they can fall back.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The ranks of a job, linked.
struct Assembly {
    mesh: Mesh,
    config: Arc<JobConfig>,
    /// Of a confidential job.
    key: Option<AgreedKey>,
    /// Whether a switch is configured.
    has_switch: bool,
    all_ranks: Ranks,
    /// Ranks of this host, this one among them; alone, where memory is not shared.
    local: Ranks,
    /// The first rank of each host.
    leaders: Ranks,
    shared: Option<SharedGroup>,
    /// Why memory is not shared although it was configured.
    sharing_error: Option<String>,
    /// Lane operations of the leaders' switches, as the first leader knows them.
    lane_ops: LaneOps,
    /// Bytes of the lanes of a packet, as the first leader knows them; 0 without a switch.
    block_bytes: usize,
}

/// Builds a communicator over whatever path the ranks agree on.
pub(crate) fn assemble(mut attacher: Attacher, exchange: &mut dyn Exchange) -> Result<Communicator, Error> {
    let mut assembly = Assembly::link(exchange, Arc::clone(&attacher.config), attacher.has_switch())?;
    assembly.share_memory()?;
    let rank = assembly.mesh.rank();
    let is_leader = assembly.leaders.contains(&rank);
    let shutdown = ShutdownState::default();
    let (links, network) = if is_leader && assembly.leaders.len() > 1 {
        let (links, network) = assembly.attach_leaders(&mut attacher)?;
        (Some(links), network)
    } else {
        (None, Network::None)
    };
    let path = assembly.announce(network)?;
    if let Network::Ring { reason } = &path.network
        && assembly.has_switch
        && !assembly.config.fall_back
    {
        return Err(Error::NoSwitch { reason: reason.clone() });
    }
    log::info!("rank {rank} of {}: {path}", assembly.all_ranks.len());
    if let Some(reason) = path.unused_switch.as_ref().filter(|_| rank == 0) {
        log::warn!("the configured switch is not used: {reason}");
    }
    assembly.build(links, PathCell::new(path), (shutdown, attacher.config))
}

/// The links and attachments of a leader.
struct LeaderLinks {
    /// The leaders, linked. Taken by the ring, or kept for when the switch of the first tree is lost.
    mesh: Links,
    /// The same for the other trees.
    more: Vec<Links>,
    /// An attachment to the switch of each tree, if all leaders have all of them; none otherwise.
    attachments: Vec<Attachment>,
}

impl Assembly {
    fn link(exchange: &mut dyn Exchange, config: Arc<JobConfig>, has_switch: bool) -> Result<Self, Error> {
        let all_ranks: Ranks = (0..exchange.world()).collect();
        let mut mesh_config = MeshConfig::default();
        mesh_config.connect_timeout = config.join_timeout;
        mesh_config.stall_timeout = config.stall_timeout();
        mesh_config.host = config.host.as_deref().map(HostId::named);
        let mesh = Mesh::connect(exchange, mesh_config).map_err(|error| mesh_error(error, &all_ranks))?;
        let rank = mesh.rank();
        let mut assembly = Self {
            mesh,
            config,
            key: None,
            has_switch,
            local: vec![rank],
            leaders: all_ranks.clone(),
            all_ranks,
            shared: None,
            sharing_error: None,
            lane_ops: LaneOps::NONE,
            block_bytes: 0,
        };
        let mine = assembly.config.describe(has_switch);
        for (rank, theirs) in assembly.gather(mine.as_bytes())?.into_iter().enumerate() {
            if theirs != mine.as_bytes() {
                let theirs = String::from_utf8_lossy(&theirs).into_owned();
                return Err(Error::Differs { rank: rank as u16, mine, theirs });
            }
        }
        assembly.check_devices()?;
        assembly.agree_on_key()?;
        Ok(assembly)
    }

    /// Checks that the CUDA devices of all ranks can quantise, where they are to.
    fn check_devices(&mut self) -> Result<(), Error> {
        if !self.config.device_quantization {
            return Ok(());
        }
        let mine = self.config.device_problem().map(|problem| problem.to_string()).unwrap_or_default();
        let all = self.gather(mine.as_bytes())?;
        match all.iter().position(|problem| !problem.is_empty()) {
            None => Ok(()),
            Some(rank) => {
                let reason = format!("rank {rank}: {}", String::from_utf8_lossy(&all[rank]));
                Err(Error::DeviceQuantization { reason })
            }
        }
    }

    /// Agrees on a key, if the job is confidential.
    fn agree_on_key(&mut self) -> Result<(), Error> {
        let config = Arc::clone(&self.config);
        let Some(group) = &config.group_key else { return Ok(()) };
        let (index, count) = (self.mesh.rank(), self.mesh.world());
        let members = Members { job: config.job.as_deref().unwrap_or_default(), index, count };
        self.key = Some(agree(group, members, |mine| self.gather(mine))?);
        Ok(())
    }

    /// Every rank's bytes, by rank.
    fn gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let deadline = Instant::now() + self.config.join_timeout;
        self.mesh.all_gather_bytes(mine, deadline).map_err(|error| mesh_error(error, &self.all_ranks))
    }

    /// Makes a shared-memory group on every host that has several ranks, or on none.
    fn share_memory(&mut self) -> Result<(), Error> {
        let hosts = self.mesh.hosts().to_vec();
        let on = |host: &HostId| -> Ranks {
            self.all_ranks.iter().copied().filter(|rank| hosts[usize::from(*rank)] == *host).collect()
        };
        let local = on(&hosts[usize::from(self.mesh.rank())]);
        let most = hosts.iter().map(|host| on(host).len()).max().unwrap_or(1);
        if !self.config.shared_memory || most == 1 {
            return Ok(());
        }
        let leaders: Ranks = self
            .all_ranks
            .iter()
            .copied()
            .filter(|rank| on(&hosts[usize::from(*rank)])[0] == *rank)
            .collect();
        let leads = local[0] == self.mesh.rank();
        let config = SharedConfig::new(local.len() as u16)
            .join_timeout(self.config.join_timeout)
            .stall_timeout(self.config.stall_timeout());
        let mut made = None;
        let mut offer = Vec::new();
        if leads {
            match SharedGroup::create(config) {
                Ok((shared, handle)) => {
                    offer = handle.to_bytes();
                    made = Some(Ok(shared));
                }
                Err(error) => made = Some(Err(error)),
            }
        }
        let offers = self.gather(&offer)?;
        let index = local.iter().position(|rank| *rank == self.mesh.rank()).unwrap_or(0) as u16;
        let shared = made.unwrap_or_else(|| {
            let handle = SharedHandle::from_bytes(&offers[usize::from(local[0])])?;
            let mut shared = SharedGroup::join(&handle, index)?;
            shared.set_join_timeout(self.config.join_timeout);
            shared.set_stall_timeout(self.config.stall_timeout());
            Ok(shared)
        });
        let message = shared.as_ref().err().map(|error| error.to_string()).unwrap_or_default();
        let all = self.gather(message.as_bytes())?;
        match (shared, all.iter().position(|message| !message.is_empty())) {
            (Ok(shared), None) => {
                self.shared = (local.len() > 1).then_some(shared);
                (self.local, self.leaders) = (local, leaders);
            }
            (_, at) => {
                let message = at.map(|at| String::from_utf8_lossy(&all[at]).into_owned());
                let reason = message.unwrap_or_default();
                log::warn!("no shared memory among ranks of one host: {reason}");
                self.sharing_error = Some(reason);
            }
        }
        Ok(())
    }

    /// Links the leaders, and attaches all of them to the switch or none.
    fn attach_leaders(&mut self, attacher: &mut Attacher) -> Result<(LeaderLinks, Network), Error> {
        let leaders = self.leaders.clone();
        let index = leaders.iter().position(|rank| *rank == self.mesh.rank()).unwrap_or(0) as u16;
        let mut mesh = self.link_leaders(0)?;
        if !self.has_switch {
            let network = Network::Ring { reason: "no switch is configured".into() };
            return Ok((LeaderLinks { mesh, more: Vec::new(), attachments: Vec::new() }, network));
        }
        let place = (index, leaders.len() as u16);
        if let Some(attachment) = self.begin_idle(attacher, &mut mesh, place)? {
            let network = Network::Switch { address: self.config.switch.first().copied() };
            self.lane_ops = attachment.admission.lane_ops;
            self.block_bytes = attachment.lane_bytes();
            return Ok((LeaderLinks { mesh, more: Vec::new(), attachments: vec![attachment] }, network));
        }
        if self.config.fall_back {
            attacher.cap_join_timeout(ADMISSION_TIMEOUT);
        }
        let attachments = attacher.attach(place, self.config.fall_back);
        let message = attachments.as_ref().err().map(error_chain).unwrap_or_default();
        let deadline = Instant::now() + self.config.join_timeout;
        let all = mesh.all_gather_bytes(message.as_bytes(), deadline)?;
        match (attachments, all.iter().position(|message| !message.is_empty())) {
            (Ok(mut attachments), None) => {
                for (tree, attachment) in attachments.iter_mut().enumerate() {
                    if let Some(agreed) = &self.key {
                        attachment.mask(agreed, tree as u8);
                    }
                }
                // Each engine has links of its own.
                let spare = if self.config.fall_back { 1..attachments.len() } else { 0..0 };
                let more =
                    spare.map(|number| self.link_leaders(number)).collect::<Result<Vec<_>, Error>>()?;
                self.lane_ops = lane_ops(&attachments);
                self.block_bytes = attachments.first().map_or(0, Attachment::lane_bytes);
                let address = attachments.first().and_then(|attachment| attachment.control);
                Ok((LeaderLinks { mesh, more, attachments }, Network::Switch { address }))
            }
            (attachments, at) => {
                attachments.into_iter().flatten().for_each(Attachment::detach);
                let at = at.unwrap_or(0);
                let message = String::from_utf8_lossy(&all[at]).into_owned();
                let reason = format!("rank {} could not use the switch: {message}", leaders[at]);
                let network = Network::Ring { reason };
                Ok((LeaderLinks { mesh, more: Vec::new(), attachments: Vec::new() }, network))
            }
        }
    }

    /// What a group has that requests slots for its first operation: if all leaders can.
    fn begin_idle(
        &self,
        attacher: &Attacher,
        mesh: &mut Links,
        place: (u16, u16),
    ) -> Result<Option<Attachment>, Error> {
        let Some(lane_ops) = self.config.split_at.filter(|_| self.config.fall_back) else { return Ok(None) };
        let idle = attacher.begin_idle(place, lane_ops)?;
        let deadline = Instant::now() + self.config.join_timeout;
        let all = mesh.all_gather_bytes(&[u8::from(idle.is_some())], deadline)?;
        Ok(idle.filter(|_| all.iter().all(|can| can[..] == [1])))
    }

    /// Links the leaders, over the links of all ranks, for the `number`th time.
    fn link_leaders(&mut self, number: usize) -> Result<Links, Error> {
        let mut mesh_config = MeshConfig::default();
        mesh_config.connect_timeout = self.config.join_timeout;
        mesh_config.stall_timeout = self.config.stall_timeout();
        let linked = MeshExchange::new(&mut self.mesh, &self.leaders, self.config.join_timeout)
            .and_then(|mut exchange| Mesh::connect(&mut exchange, mesh_config));
        let mesh = linked.map_err(|error| mesh_error(error, &self.leaders))?;
        let key = self.key.as_ref().map(|agreed| agreed.key(&format!("leaders {number}")));
        Ok(Links::new(mesh, self.leaders.clone(), key.as_ref()))
    }

    /// Sends the leaders' result to every rank.
    fn announce(&mut self, network: Network) -> Result<Path, Error> {
        let mine = match &network {
            Network::None => String::new(),
            Network::Switch { address } => {
                let address = address.map(|address| address.to_string()).unwrap_or_default();
                format!("S{address} {} {}", self.block_bytes, self.lane_ops)
            }
            Network::Ring { reason } => format!("R{reason}"),
        };
        let all = self.gather(mine.as_bytes())?;
        let first = String::from_utf8_lossy(&all[usize::from(self.leaders[0])]).into_owned();
        let network = match first.split_at_checked(1) {
            Some(("S", rest)) => {
                let (address, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let (block_bytes, ops) = rest.split_once(' ').unwrap_or((rest, ""));
                // All ranks run this release.
                self.block_bytes = block_bytes.parse().unwrap_or(0);
                self.lane_ops = LaneOps::from_names(ops.split(", ")).unwrap_or(LaneOps::NONE);
                Network::Switch { address: address.parse().ok() }
            }
            Some(("R", reason)) => Network::Ring { reason: reason.to_owned() },
            _ => Network::None,
        };
        let trees = if matches!(network, Network::Switch { .. }) { self.config.trees } else { 0 };
        let (hosts, shared) = (self.leaders.len() as u16, self.local.len() as u16);
        let unused_switch = match &network {
            Network::None if self.has_switch && shared > 1 => Some(format!(
                "all {shared} ranks are on one host and reduce in shared memory; to use the switch, set shared_memory to false or NETFOLD_SHARED_MEMORY=0"
            )),
            Network::Ring { reason } if self.has_switch => Some(reason.clone()),
            _ => None,
        };
        Ok(Path { hosts, shared, network, trees, lost: Vec::new(), idle: Vec::new(), unused_switch })
    }

    /// Where the ranks are. Without shared memory every rank counts as a host.
    fn place(&self) -> Place {
        let hosts = self.mesh.hosts();
        let shares = self.config.shared_memory && self.sharing_error.is_none();
        let first = |rank: u16| {
            let on_host = |other: &u16| hosts[usize::from(*other)] == hosts[usize::from(rank)];
            self.all_ranks.iter().copied().find(on_host).filter(|_| shares).unwrap_or(rank)
        };
        let hosts = self.all_ranks.iter().map(|rank| first(*rank)).collect();
        Place { ip: self.mesh.local_ip(), hosts }
    }

    /// Starts the threads.
    fn build(
        self,
        links: Option<LeaderLinks>,
        path: PathCell,
        (shutdown, config): (ShutdownState, Arc<JobConfig>),
    ) -> Result<Communicator, Error> {
        let place = Some(self.place());
        let Self { mesh, key, all_ranks, local, leaders, shared, lane_ops, block_bytes, .. } = self;
        let (rank, world) = (mesh.rank(), all_ranks.len() as u16);
        let key = key.map(|agreed| agreed.key("hosts"));
        let mesh = Links::new(mesh, all_ranks.clone(), key.as_ref());
        let mut context = OpContext {
            rank,
            world,
            lane_bytes: 0,
            block_bytes,
            lane_ops,
            small: config.small,
            config: Arc::clone(&config),
        };
        let aborter = mesh.aborter();
        shutdown.on_error(move |_| aborter.abort());
        let hierarchical = leaders.len() < all_ranks.len();
        if !hierarchical {
            let mut network = None;
            if let Some(links) = links.filter(|links| !links.attachments.is_empty()) {
                (context.lane_bytes, network) = links.start_trees(&config, (&path, &shutdown))?;
            }
            let fabric: Box<dyn Fabric> =
                if world == 1 { Box::new(SingleRank) } else { Box::new(InBinary32(mesh)) };
            let host = start_host(fabric, &shutdown)?;
            return Ok(Communicator::new(Parts {
                context,
                network,
                host: Some(host),
                path,
                shutdown,
                place,
            }));
        }
        let Some(shared) = shared else {
            // A rank alone on its host, among hosts with several.
            let lone =
                SharedGroup::create(SharedConfig::new(1)).map_err(|error| Error::Shared(Arc::new(error)))?.0;
            let links = links.map(|links| leader_communicator(links, &leaders, &context, &path, &shutdown));
            let fabric = Hierarchy::new((lone, local), links.transpose()?, mesh, context.clone());
            let host = start_host(Box::new(InBinary32(fabric)), &shutdown)?;
            return Ok(Communicator::new(Parts {
                context,
                network: None,
                host: Some(host),
                path,
                shutdown,
                place,
            }));
        };
        let aborter = shared.aborter();
        shutdown.on_error(move |_| aborter.abort());
        let fabric: Box<dyn Fabric> = if leaders.len() == 1 {
            Box::new(InBinary32(SharedFabric::new(shared, local)))
        } else {
            let links = links.map(|links| leader_communicator(links, &leaders, &context, &path, &shutdown));
            let parts = (shared, local);
            Box::new(InBinary32(Hierarchy::new(parts, links.transpose()?, mesh, context.clone())))
        };
        let host = start_host(fabric, &shutdown)?;
        Ok(Communicator::new(Parts { context, network: None, host: Some(host), path, shutdown, place }))
    }
}

/// The communicator among leaders.
fn leader_communicator(
    links: LeaderLinks,
    leaders: &Ranks,
    of_rank: &OpContext,
    path: &PathCell,
    shutdown: &ShutdownState,
) -> Result<Communicator, Error> {
    let index = leaders.iter().position(|leader| *leader == of_rank.rank).unwrap_or(0) as u16;
    let mut context =
        OpContext { rank: index, world: leaders.len() as u16, lane_bytes: 0, small: 0, ..of_rank.clone() };
    let own = ShutdownState::default();
    let inner = own.clone();
    shutdown.on_error(move |error| drop(inner.fail(error.clone())));
    let path = path.clone();
    if !links.attachments.is_empty() {
        let network;
        (context.lane_bytes, network) = links.start_trees(&of_rank.config, (&path, &own))?;
        return Ok(Communicator::new(Parts {
            context,
            network,
            host: None,
            path,
            shutdown: own,
            place: None,
        }));
    }
    let mesh = links.mesh;
    let aborter = mesh.aborter();
    own.on_error(move |_| aborter.abort());
    let host = Some(start_host(Box::new(InBinary32(mesh)), &own)?);
    Ok(Communicator::new(Parts { context, network: None, host, path, shutdown: own, place: None }))
}

impl LeaderLinks {
    /// Starts the trees' engines; the bytes of their packets' lanes.
    fn start_trees(
        self,
        config: &JobConfig,
        (path, shutdown): (&PathCell, &ShutdownState),
    ) -> Result<(usize, Option<TreeSet>), Error> {
        let lane_bytes = self.attachments.first().map_or(0, Attachment::lane_bytes);
        let meshes = std::iter::once(self.mesh).chain(self.more).filter(|_| config.fall_back);
        let peers = meshes.map(|mesh| peers(mesh, config, shutdown)).collect();
        Ok((lane_bytes, Some(start_trees(self.attachments, peers, path, shutdown, config.busy_poll)?)))
    }
}

fn peers(links: Links, config: &JobConfig, shutdown: &ShutdownState) -> Box<dyn Peers> {
    let aborter = links.aborter();
    shutdown.on_error(move |_| aborter.abort());
    Box::new(MeshPeers::new(links, config.stall_timeout()))
}

fn start_host(fabric: Box<dyn Fabric>, shutdown: &ShutdownState) -> Result<HostThread, Error> {
    let mailbox = Mailbox::new(std::task::Waker::noop().clone(), shutdown);
    let engine = Arc::new(HostEngine::new(fabric, Arc::clone(&mailbox), shutdown.clone()));
    let own = Arc::clone(&engine);
    let thread = spawn("netfold-host", move || own.run())?;
    Ok(HostThread { mailbox, engine, thread: Mutex::new(Some(thread)) })
}

/// An error and its causes.
fn error_chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}
