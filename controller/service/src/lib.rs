//! Netfold's controller as a process: [its database](store), and what people and programs see of it.
#![forbid(unsafe_code)]

pub mod store;

pub use store::Database;
