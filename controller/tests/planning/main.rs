//! Planning from the outside: topology files, the choice of trees, how slots are shared, and how jobs are scheduled.

mod ecmp;
mod fabric;
mod policy;
mod route;
mod schedule;
mod topology;
