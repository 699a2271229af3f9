//! v1model
