//! DPDK's own forwarder, `dpdk-testpmd`, in the place of ours: a process that swaps the addresses and ports of every packet and sends it
//! back (`--forward-mode=5tswap`), in interface, IP and UDP headers alike, so that workers get their own packets back.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use netfold_dpdk::{Eal, Memory, Options};
use netfold_testkit::namespace::command_in;

use super::IoBenchError;
use super::backend::absent;

const PROGRAM: &str = "dpdk-testpmd";
/// The rings of the device, the same for every program that is measured on it: as long as for a switch.
pub(super) const RINGS: &str = "framecnt=2048";

/// How long it may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);

/// What names its folder.
fn prefix() -> String {
    format!("netfold-testpmd-{}", std::process::id())
}

/// The forwarder as a process, which ends when this is dropped.
pub(super) struct Testpmd(Child);

impl Testpmd {
    /// Starts it on an interface of a network namespace, with memory of the kind that this process has, forwarding on the second of these
    /// cores. Packets pass a while later.
    pub(super) fn start(
        namespace: &str,
        interface: &str,
        options: &Options,
        cores: [usize; 2],
    ) -> Result<Self, IoBenchError> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let program: Option<PathBuf> =
            std::env::split_paths(&folders).map(|folder| folder.join(PROGRAM)).find(|file| file.is_file());
        let program = program.ok_or_else(|| {
            IoBenchError::Absent(format!("{PROGRAM} is not on PATH: install it (Debian's package dpdk-dev)"))
        })?;
        let memory = Eal::start(options, false).map_err(|error| absent(&error))?.memory();
        let pages: &[&str] = match memory {
            Memory::Huge => &["--in-memory"],
            Memory::Ordinary => &["--no-huge", "--no-shconf"],
        };
        let [main, forwards] = cores;
        let mut command = command_in(namespace, program);
        command.args(["--main-lcore", &main.to_string(), "-l", &format!("{main},{forwards}")]);
        command.args(["-m", &options.memory_mb.to_string(), "--no-pci", "--no-telemetry"]).args(pages);
        command.arg(format!("--file-prefix={}", prefix()));
        command.arg(format!("--vdev=net_af_packet0,iface={interface},{RINGS}"));
        command.args([
            "--",
            "--forward-mode=5tswap",
            "--nb-cores=1",
            "--total-num-mbufs=8192",
            "--auto-start",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map(Self).map_err(|error| absent(&error))
    }

    /// An error once it has ended.
    pub(super) fn check(&mut self) -> Result<(), IoBenchError> {
        let Ok(Some(status)) = self.0.try_wait() else { return Ok(()) };
        let mut output = String::new();
        if let Some(stderr) = &mut self.0.stderr {
            let _ = stderr.take(1 << 16).read_to_string(&mut output);
        }
        let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Err(IoBenchError::Absent(format!("{PROGRAM} ended with {status}: {last}")))
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // It ends when its standard input does.
        drop(self.0.stdin.take());
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if begun.elapsed() > GRACE {
                let _ = self.0.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // It leaves a folder for files that are turned off. Where another process has files in there, it stays.
        let folder = Path::new("/var/run/dpdk");
        let _ = std::fs::remove_dir(folder.join(prefix()));
        let _ = std::fs::remove_dir(folder);
    }
}
