//! An engine of the software switch: DPDK's software pipeline (`rte_swx_pipeline`) executes the program as [`netfold_p4::swx`] prints it, with registers as external objects.
//!
//! Packets, ports and multicast groups are the switch's, as with its other engines; see [`netfold_switch::Pipeline`]. It needs DPDK, behind the feature
//! `dpdk`; without it [`pipeline`] is an error that says so.
#![forbid(unsafe_code)]

#[cfg(feature = "dpdk")]
mod objects;
#[cfg(feature = "dpdk")]
mod pipeline;

#[cfg(feature = "dpdk")]
use netfold_dpdk::swx::SwxError;
use netfold_p4::interpret::InterpretError;
use netfold_p4::ir::Program;
use netfold_p4::refusal::PrintError;
use netfold_switch::Pipeline;

#[cfg(feature = "dpdk")]
pub use pipeline::SwxPipeline;

/// Whether the engine is part of this program.
pub const INCLUDED: bool = cfg!(feature = "dpdk");

/// Why a program does not run in DPDK's software pipeline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwxPipelineError {
    /// The engine is not part of this program.
    #[error(
        "DPDK's software pipeline is not part of this program; build it with DPDK (`--features dpdk`), or omit --engine swx"
    )]
    NotIncluded,
    /// The program is not valid, or needs too much state.
    #[error(transparent)]
    Program(#[from] InterpretError),
    /// The target cannot express the program.
    #[error(transparent)]
    Print(#[from] PrintError),
    /// A register action has something that its external object cannot do.
    #[error("the external object '{0}' cannot be executed: its actions have more than numbers of 32 bits")]
    Object(String),
    /// DPDK does not start.
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Start(#[from] netfold_dpdk::DpdkError),
    /// DPDK does not build the pipeline.
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Build(#[from] SwxError),
}

/// The pipeline for a program, empty and zeroed. Starts DPDK with ordinary pages, without files and privileges, if it does not run yet.
///
/// # Errors
///
/// See [`SwxPipelineError`].
pub fn pipeline(program: &Program) -> Result<Box<dyn Pipeline>, SwxPipelineError> {
    #[cfg(feature = "dpdk")]
    return Ok(Box::new(SwxPipeline::new(std::sync::Arc::new(program.clone()))?));
    #[cfg(not(feature = "dpdk"))]
    {
        // What the engine would refuse is refused in any build.
        netfold_p4::swx::print_with_objects(program)?;
        Err(SwxPipelineError::NotIncluded)
    }
}
