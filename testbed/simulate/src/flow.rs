//! Jobs over a network as flows: no packets, but rates that change when a transfer begins or ends.
//!
//! Every transfer is a [`HyperFlow`]: one rate, and how much of it each link bears. That of a path is borne by each of its links, that of an
//! aggregation tree by each link up and down, that of a ring by each link with what the ring sends over it; what a switch's slots allow
//! is a limit to the rate. [`rates`] shares links out among them: strictly by class, and within a class max-min fair by weight. [`run`] has jobs
//! compute and send by turns over that, from event to event.
//!
//! It knows no queues, no losses, no round trips but that of the slot law, and no time that a congestion-control algorithm takes to find its
//! rate: transfers have their fair rates at once. So it is for what lasts much longer than a round trip, and cannot say what
//! congestion control costs.
//!
//! # Sources
//!
//! Progressive filling: Bertsekas and Gallager, "Data Networks", section 6.5. The slot law, bytes in flight over the time that a slot is
//! held: SwitchML (NSDI 2021).

mod fairness;
mod hyperflow;
mod run;

pub use fairness::{Demand, rates};
pub use hyperflow::{HyperFlow, Pool};
pub use run::{FlowOutcome, Iteration, Job, Pace, Time, jain, run};
