//! A network of the test's own, gone with the thread that is in it.
#![expect(unsafe_code, reason = "entering a namespace")]

use std::process::{Command, Stdio};

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs a test on a thread in an empty network namespace; says `skipped` where there can be none.
pub(crate) fn alone(test: impl FnOnce() + Send) {
    let enter = || {
        // SAFETY: only the network namespace is left, and of this thread alone, which shares no files that depend on it.
        let entered = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
        match entered {
            Ok(()) => test(),
            Err(error) if std::env::var_os("REQUIRE_NET_ADMIN").is_some() => panic!("no namespace: {error}"),
            Err(error) => println!("skipped: no network namespace to test in: {error}"),
        }
    };
    let ended = std::thread::scope(|scope| scope.spawn(enter).join());
    if let Err(panic) = ended {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `ip` in the calling thread's namespace.
pub(crate) fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split_whitespace()).stdin(Stdio::null()).output();
    let output = output.expect("`ip` is installed (package iproute2)");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A pair of virtual interfaces, up.
pub(crate) fn pair(mtu: u16) {
    ip(&format!("link add va mtu {mtu} type veth peer name vb mtu {mtu}"));
    ip("link set va up");
    ip("link set vb up");
}
