//! The software switch: generated pipelines against the rules, interpreted programs, queues, and allocations per packet.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod allocation;
mod interpreted;
mod lanes;
mod numerics;
mod owners;
mod queues;
mod slot_machine;
