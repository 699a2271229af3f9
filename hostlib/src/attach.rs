//! Attaches a rank to the switches of all trees, or to the transport that was given.

use std::sync::Arc;
use std::time::Duration;

use netfold_control::{Admission, Join};
use netfold_io::PacketIo;
use netfold_wire::LaneOps;

use crate::config::{JobConfig, NAME_LEN_MAX};
use crate::error::Error;
use crate::join::{Attachment, Joiner, Middleware, wrap};
use crate::session::Security;

/// How long a controller is asked for a first admission that it refuses for a transient reason.
const ADMISSION_RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// What a rank is attached with.
pub(crate) struct Attacher {
    pub(crate) config: Arc<JobConfig>,
    pub(crate) transport: Option<(Box<dyn PacketIo>, Admission)>,
    pub(crate) middleware: Option<Middleware>,
}

impl Attacher {
    /// Whether there is a switch to attach to.
    pub(crate) fn has_switch(&self) -> bool {
        !self.config.switch.is_empty() || self.transport.is_some()
    }

    /// Waits for admission at most so long.
    pub(crate) fn cap_join_timeout(&mut self, most: Duration) {
        let config = Arc::make_mut(&mut self.config);
        config.join_timeout = config.join_timeout.min(most);
    }

    /// In place of attachments that are requested for the first operation, where the rank can request them then.
    pub(crate) fn begin_idle(
        &self,
        place: (u16, u16),
        lane_ops: LaneOps,
    ) -> Result<Option<Attachment>, Error> {
        let config = &self.config;
        config.check_rank(place.0, place.1)?;
        let can = config.idle_timeout().is_some() && self.rejoins() && config.trees == 1;
        if !can || self.transport.is_some() {
            return Ok(None);
        }
        let attachment = Attachment::idle(joiner(config, place, 0, true)?, lane_ops)?;
        Ok(Some(Attachment { core: config.cores.of(0), ..attachment }))
    }

    /// Whether a rank that loses its attachment joins again.
    fn rejoins(&self) -> bool {
        // Groups do when they were idle.
        let default = self.config.controlled || self.config.group.is_some();
        self.config.rejoin.unwrap_or(default) && self.middleware.is_none()
    }

    /// Joins the job as rank `rank` of `world` in all trees at once, or takes the transport that was given. If one tree fails, the
    /// others are detached. `linked`: the ranks can do without a switch for a while.
    pub(crate) fn attach(
        &mut self,
        (rank, world): (u16, u16),
        linked: bool,
    ) -> Result<Vec<Attachment>, Error> {
        let config = &self.config;
        config.check_rank(rank, world)?;
        let rejoins = self.rejoins();
        let mut middleware = self.middleware.take();
        if let Some((io, admission)) = self.transport.take() {
            if config.authenticated {
                return Err(Error::Authentication);
            }
            let io = wrap(io, middleware);
            let attachment = Attachment::new(io, admission, (rank, world), config)?;
            return Ok(vec![Attachment { core: config.cores.of(0), ..attachment }]);
        }
        let retry_for =
            if config.controlled { config.join_timeout.min(ADMISSION_RETRY_TIMEOUT) } else { Duration::ZERO };
        let joiners = (0..config.trees).map(|tree| joiner(config, (rank, world), tree, linked && rejoins));
        let joiners = joiners.collect::<Result<Vec<_>, Error>>()?;
        let join = |joiner: Joiner, middleware: Option<Middleware>| {
            let mut attachment = joiner.join_within(retry_for, middleware)?;
            let lane_ops = attachment.admission.lane_ops;
            attachment.joiner = rejoins.then_some(Joiner { lane_ops, ..joiner });
            Ok(attachment)
        };
        let outcomes: Vec<Result<Attachment, Error>> = std::thread::scope(|scope| {
            let joining: Vec<_> = joiners
                .into_iter()
                .map(|joiner| {
                    let middleware = middleware.take();
                    scope.spawn(move || join(joiner, middleware))
                })
                .collect();
            let joined = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or(Err(Error::EngineFailed))
            };
            joining.into_iter().map(joined).collect()
        });
        let (attachments, mut errors): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        let attachments = attachments.into_iter().flatten().collect::<Vec<_>>();
        if errors.is_empty() {
            let pinned = (0..)
                .zip(attachments)
                .map(|(tree, attachment)| Attachment { core: config.cores.of(tree), ..attachment });
            return Ok(pinned.collect());
        }
        attachments.into_iter().for_each(Attachment::detach);
        // The reason for which one tree was refused says more than that another one's join failed.
        let refused = errors.iter().position(|outcome| matches!(outcome, Err(Error::Refused { .. })));
        errors.swap_remove(refused.unwrap_or(0)).map(|attachment| vec![attachment])
    }
}

/// What rank `rank` of `world` joins a tree with.
fn joiner(
    config: &Arc<JobConfig>,
    (rank, world): (u16, u16),
    tree: u8,
    movable: bool,
) -> Result<Joiner, Error> {
    let job = config.job.clone().ok_or(Error::Missing("job"))?;
    if job.is_empty() || job.len() > NAME_LEN_MAX {
        return Err(Error::JobName { len: job.len() });
    }
    if config.switch.is_empty() {
        return Err(Error::Missing("switch"));
    }
    let join = Join::new(job, (rank, world), config.mode, config.all_slots(), 0);
    let join = Join {
        credentials: config.credentials.clone(),
        group: config.group.clone().unwrap_or_default(),
        classes: config.classes,
        address: config.bind.iter().cycle().nth(usize::from(tree)).copied(),
        tree,
        trees: config.trees,
        movable,
        authenticated: config.authenticated,
        generation: config.generation,
        ..join
    };
    Ok(Joiner { config: Arc::clone(config), security: security(config), join, lane_ops: LaneOps::NONE })
}

/// Whom to trust at the control port, if the connection uses TLS.
pub(crate) fn security(config: &JobConfig) -> Option<Security> {
    let file = config.controller_ca.as_ref().filter(|_| config.controlled)?;
    Some(Security::new(file, &config.controller))
}
