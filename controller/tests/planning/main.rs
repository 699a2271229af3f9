//! Planning from the outside: topology files, the choice of trees, how slots are shared, how jobs are scheduled, and which trees are moved.

mod ecmp;
mod fabric;
mod policy;
mod rebalance;
mod route;
mod schedule;
mod topology;
