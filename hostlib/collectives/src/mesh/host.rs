//! Which ranks share a host.

use std::fmt;
use std::fs;
use std::path::Path;

/// Overrides what [`HostId::detect`] finds: ranks with the same value count as one host, others as different ones.
pub const HOST_ID_VARIABLE: &str = "NETFOLD_HOST_ID";

/// Longest identity in bytes.
pub(crate) const HOST_ID_MAX: usize = 256;

/// Identifies processes that can share memory and reach each other by loopback: the boot of the kernel, and the
/// network and IPC namespaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(String);

impl HostId {
    /// This process's host: the variable `NETFOLD_HOST_ID` if it is set and not empty, otherwise from `/proc`. Where there is
    /// no `/proc`, the process counts as a host of its own.
    pub fn detect() -> Self {
        if let Ok(given) = std::env::var(HOST_ID_VARIABLE)
            && !given.is_empty()
        {
            return Self::named(&given);
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let namespace = |name: &str| fs::read_link(Path::new("/proc/self/ns").join(name));
        match (boot, namespace("net"), namespace("ipc")) {
            (Ok(boot), Ok(net), Ok(ipc)) => {
                Self::named(&format!("{} {} {}", boot.trim(), net.display(), ipc.display()))
            }
            _ => {
                let mut number = [0; 8];
                // Without random bytes the process id alone is used.
                let _ = rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty());
                let number = u64::from_ne_bytes(number);
                Self::named(&format!("process {} {number:016x}", std::process::id()))
            }
        }
    }

    /// A host with a name of the caller's; names longer than 256 bytes are truncated.
    pub fn named(name: &str) -> Self {
        let end = (0..=name.len().min(HOST_ID_MAX)).rev().find(|end| name.is_char_boundary(*end));
        Self(name[..end.unwrap_or(0)].to_owned())
    }

    /// The identity as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_on_its_own_host() {
        assert_eq!(HostId::detect(), HostId::detect());
        assert!(!HostId::detect().as_str().is_empty());
    }

    #[test]
    fn long_names_are_truncated_between_characters() {
        let name = "\u{e9}".repeat(200);
        assert_eq!(HostId::named(&name).as_str(), "\u{e9}".repeat(128));
        assert_eq!(HostId::named(&format!("a{name}")).as_str().len(), 255);
    }
}
