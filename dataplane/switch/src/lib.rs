//! The software switch: it runs the pipeline that `netfold-p4` generates, over any packet I/O backend.
//!
//! - [`pipeline`]: the generated pipelines, which implement the trait [`Pipeline`].
//! - [`interpreted`]: any other valid program, run by the interpreter.
//! - [`action`]: register actions, for engines that run the rest of a program elsewhere.
//! - [`empty`]: no program, for a switch whose controller sets one later.
//! - [`queue`]: optional queues in front of the ports: priorities, weights, marks, trimming, rates.
//! - [`switch`]: the loop that receives bursts, runs the pipeline, replicates multicast packets and sends; and the
//!   handle by which a control plane on another thread changes tables, groups and ports between bursts.
//!
//! One thread runs a switch. Per packet it neither allocates, locks nor makes a system call.

pub mod action;
pub mod empty;
pub mod interpreted;
pub mod pipeline;
pub mod queue;
pub mod runtime;
pub mod switch;

pub use empty::EmptyPipeline;
pub use interpreted::{Engine, InterpretedPipeline, pipeline_for};
pub use pipeline::{PAYLOADS, best_effort_pipeline, datagram_pipeline, ethernet_pipeline, numeric_pipeline};
pub use queue::{QueueConfig, QueuesCounters};
pub use runtime::{Pipeline, PipelineInfo, Send, SimdLevel, Verdict};
pub use switch::{Call, CallError, Core, Handle, Switch, SwitchCounters};
