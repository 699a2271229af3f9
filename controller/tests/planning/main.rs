//! Planning from the outside: topology files, the choice of trees, and how slots are shared.

mod ecmp;
mod fabric;
mod policy;
mod route;
mod topology;
