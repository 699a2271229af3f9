//! Network namespaces that go with the run that made them.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A command of the system that failed.
#[derive(Debug, thiserror::Error)]
#[error("`{command}` failed: {said}")]
pub(crate) struct CommandFailed {
    pub(crate) command: String,
    pub(crate) said: String,
}

/// Runs a command, words separated by spaces.
pub(crate) fn command(words: &str) -> Result<(), CommandFailed> {
    let mut parts = words.split_whitespace();
    let failed = |said: String| CommandFailed { command: words.into(), said };
    let output = Command::new(parts.next().unwrap_or_default())
        .args(parts)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// Network namespaces with unique names, removed when dropped, and their interfaces with them.
pub(crate) struct Namespaces {
    prefix: String,
    names: Vec<String>,
}

impl Namespaces {
    pub(crate) fn new() -> Self {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        sweep(|owner| !Path::new(&format!("/proc/{owner}")).exists());
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        Self { prefix: format!("netfold-{}-{run}", std::process::id()), names: Vec::new() }
    }

    pub(crate) fn name(&self, kind: char, number: usize) -> String {
        format!("{}-{kind}{number}", self.prefix)
    }

    pub(crate) fn add(&mut self, kind: char, number: usize) -> Result<(), CommandFailed> {
        let name = self.name(kind, number);
        command(&format!("ip netns add {name}"))?;
        self.names.push(name.clone());
        // No neighbour discovery, no router solicitations.
        command(&format!(
            "ip netns exec {name} sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
        ))
    }
}

/// Where `ip netns` keeps the names of namespaces.
const NAMES: &str = "/var/run/netns";

/// Removes the namespaces that runs of the processes in question have made, and their interfaces with them.
pub(crate) fn sweep(of: impl Fn(u32) -> bool) {
    for entry in std::fs::read_dir(NAMES).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(&of) {
            // There is nobody to tell; what is left shows in `ip netns`.
            let _ = command(&format!("ip netns del {name}"));
        }
    }
}

/// The process whose run made a namespace of this name; `None` when no run did.
fn owner(name: &str) -> Option<u32> {
    let mut parts = name.strip_prefix("netfold-")?.split('-');
    let (process, run, place) = (parts.next()?, parts.next()?, parts.next()?);
    let placed = place.strip_prefix(['s', 'w', 't', 'h'])?;
    run.parse::<u32>().and(placed.parse::<u32>()).ok().filter(|_| parts.next().is_none())?;
    process.parse().ok()
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // There is nobody to tell; what is left shows in `ip netns`.
            let _ = command(&format!("ip netns del {name}"));
        }
    }
}

/// Runs a closure on a thread of its own within a network namespace.
pub(crate) fn within<T: Send>(namespace: &str, make: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    let path = format!("/var/run/netns/{namespace}");
    let enter = move || -> std::io::Result<T> {
        let file = File::open(path)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(make())
    };
    let entered = std::thread::scope(|scope| scope.spawn(enter).join());
    entered.unwrap_or_else(|_| Err(std::io::Error::other("a thread failed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_run_has_named_is_swept() {
        assert_eq!(owner("netfold-123-0-w17"), Some(123));
        assert_eq!(owner("netfold-4294967295-2-s0"), Some(u32::MAX));
        for other in [
            "netfold",
            "netfold-1-0",
            "netfold-x-0-w1",
            "netfold-1-0-q1",
            "netfold-1-0-w",
            "mine-1-0-w1",
            "netfold-1-0-w1-x",
        ] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}
