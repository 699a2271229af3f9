//! Planning from the outside: topology files, the choice of trees, and how slots are shared.

mod fabric;
mod route;
mod topology;
