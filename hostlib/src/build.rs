//! Builds the communicator of a place in a job.

use std::sync::Arc;

use netfold_collectives::mesh::Exchange;

use crate::assemble::assemble;
use crate::attach::Attacher;
use crate::communicator::{Communicator, Parts};
use crate::config::JobConfig;
use crate::error::Error;
use crate::join::Attachment;
use crate::lower::OpContext;
use crate::path::{Path, PathCell};
use crate::shutdown::ShutdownState;
use crate::start::{lane_ops, start_trees};

/// Builds the communicator of a place in a job: of linked ranks, if they have an exchange.
pub(crate) fn build(
    config: Arc<JobConfig>,
    place: (u16, u16),
    exchange: Option<Box<dyn Exchange>>,
) -> Result<Communicator, Error> {
    build_with(Attacher { config, transport: None, middleware: None }, place, exchange)
}

/// The same with what a rank is attached with.
pub(crate) fn build_with(
    attacher: Attacher,
    (rank, world): (u16, u16),
    exchange: Option<Box<dyn Exchange>>,
) -> Result<Communicator, Error> {
    let communicator = match exchange {
        Some(mut exchange) => assemble(attacher, &mut *exchange)?,
        None => attach(attacher, (rank, world))?,
    };
    communicator.check_device_quantization()?;
    Ok(communicator)
}

/// Builds the communicator of a rank that is not linked to the others.
fn attach(mut attacher: Attacher, (rank, world): (u16, u16)) -> Result<Communicator, Error> {
    if let Some(problem) = attacher.config.device_problem() {
        return Err(Error::DeviceQuantization { reason: problem.to_string() });
    }
    let path = PathCell::new(Path::through_switch(world, attacher.config.trees));
    let shutdown = ShutdownState::default();
    let attachments = attacher.attach((rank, world), false)?;
    let lane_bytes = attachments.first().map_or(0, Attachment::lane_bytes);
    let (lane_ops, busy_poll) = (lane_ops(&attachments), attacher.config.busy_poll);
    let block_bytes = lane_bytes;
    let context =
        OpContext { rank, world, lane_bytes, block_bytes, lane_ops, small: 0, config: attacher.config };
    let network = Some(start_trees(attachments, Vec::new(), &path, &shutdown, busy_poll)?);
    Ok(Communicator::new(Parts { context, network, host: None, path, shutdown, place: None }))
}
