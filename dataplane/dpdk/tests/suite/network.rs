//! Virtual interfaces in the calling thread's network namespace.

pub(crate) use netfold_testkit::namespace::alone;
use netfold_testkit::namespace::{command, veth_pair};

/// Runs `ip`.
pub(crate) fn ip(words: &str) -> String {
    command(&format!("ip {words}")).expect("`ip` is installed (package iproute2) and permitted")
}

/// A pair of virtual interfaces, up.
pub(crate) fn pair(mtu: u16) {
    veth_pair("va", "vb", mtu).expect("`ip` is installed (package iproute2) and permitted");
}
