//! How fast bmv2 is.

use std::sync::Arc;
use std::time::Instant;

use netfold_p4::allreduce;
use netfold_p4::profile::Profile;
use netfold_switch::InterpretedPipeline;

use super::{Bmv2Rig, RigError, Sequence, Settings};
use crate::bmv2::missing_tool;

/// Packets a second through bmv2, one core and all: the program of profile `hardware`, whole sequences of valid and
/// invalid packets, over its packet stream. `None` where bmv2 or the compiler is not installed.
///
/// # Errors
///
/// When bmv2 does not run, or differs from the interpreter.
pub fn bmv2_rate(packets: usize) -> Result<Option<f64>, RigError> {
    if missing_tool().is_some() {
        return Ok(None);
    }
    let profile = Profile::hardware();
    let mut rig = Bmv2Rig::start(&profile)?;
    let sequence = Sequence::from_seed(1, &profile, &Settings::any_target(packets));
    let program = Arc::new(allreduce::program(&profile)?);
    let oracle = InterpretedPipeline::new(program).map_err(|error| RigError::Info(error.to_string()))?;
    let start = Instant::now();
    let tally = rig.play(&sequence, Box::new(oracle))?;
    Ok(Some(tally.packets as f64 / start.elapsed().as_secs_f64()))
}
