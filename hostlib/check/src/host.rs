//! What this host has: limits, permissions, clock, processors. Read from the system's files, and judged without any.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use netfold_io::IoSpec;

use crate::finding::{Finding, Severity, percent};

/// Bytes that are read of a file at most.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Processors whose governors are read at most.
const PROCESSORS_MAX: usize = 4096;

/// Fraction of the processors' time that a hypervisor may give to others.
const STEAL_MAX: f64 = 0.05;

/// A worker has the thread of its engine beside the caller's.
const PROCESSORS_MIN: usize = 2;

/// Memory that an XDP socket shares with the kernel, per queue: 4096 frames to receive and 1024 to send, of a page each.
const XDP_MEMORY: u64 = (4096 + 1024) * 4096;

/// Bits of capabilities(7).
mod capability {
    pub(super) const NET_ADMIN: u32 = 12;
    pub(super) const NET_RAW: u32 = 13;
    pub(super) const IPC_LOCK: u32 = 14;
    pub(super) const SYS_ADMIN: u32 = 21;
    pub(super) const BPF: u32 = 39;
}

/// What the packet I/O of a job asks of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketAccess {
    /// UDP sockets.
    Sockets,
    /// Packet sockets.
    PacketSockets,
    /// XDP sockets.
    XdpSockets,
    /// DPDK.
    Dpdk,
    /// Memory shared with a switch of this host.
    SharedMemory,
}

impl From<&IoSpec> for PacketAccess {
    fn from(spec: &IoSpec) -> Self {
        match spec {
            IoSpec::AfPacket(_) | IoSpec::PacketRing(_) => Self::PacketSockets,
            IoSpec::AfXdp(..) | IoSpec::XdpKernel(_) => Self::XdpSockets,
            IoSpec::Dpdk(_) => Self::Dpdk,
            IoSpec::Shm(..) => Self::SharedMemory,
            _ => Self::Sockets,
        }
    }
}

/// What a host is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// The packet I/O.
    pub access: PacketAccess,
    /// Bytes that the library requests for each buffer of a socket.
    pub socket_buffer: u64,
}

impl Needs {
    /// Those of a packet I/O as the library opens it.
    pub fn new(access: PacketAccess) -> Self {
        let socket_buffer = netfold_io::udp::UdpConfig::default().socket_buffer as u64;
        Self { access, socket_buffer }
    }
}

/// A counter of the processors' time, in ticks of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ProcessorTime {
    total: u64,
    stolen: u64,
}

/// What was read; `None` where the system does not say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Readings {
    /// `net.core.rmem_max`, bytes.
    pub receive_buffer_max: Option<u64>,
    /// `net.core.wmem_max`, bytes.
    pub send_buffer_max: Option<u64>,
    /// Effective capabilities of this process, as bits.
    pub capabilities: Option<u64>,
    /// Memory that this process may lock, bytes.
    pub memory_lock_max: Option<u64>,
    /// What the kernel reads the time from.
    pub clock_source: Option<String>,
    /// What it could read it from.
    pub clock_sources: Vec<String>,
    /// Frequency governors of the processors, without those of drivers that choose frequencies themselves.
    pub governors: BTreeSet<String>,
    /// Processors that this process may use.
    pub processors: Option<usize>,
    /// Fraction of the processors' time that a hypervisor gave to others.
    pub steal: Option<f64>,
    /// Hugepages that are free.
    pub hugepages_free: Option<u64>,
}

impl Readings {
    /// Reads the files below `root`, `/` for those of this system; takes `interval`, in which time of processors is counted.
    pub fn take(root: &Path, interval: Duration) -> Self {
        let files = Files(root.to_owned());
        let begin = files.processor_time();
        thread::sleep(interval);
        let steal = begin.zip(files.processor_time()).and_then(|(begin, end)| steal(begin, end));
        let status = files.text("proc/self/status").unwrap_or_default();
        let clock = "sys/devices/system/clocksource/clocksource0";
        let sources = files.text(&format!("{clock}/available_clocksource")).unwrap_or_default();
        Self {
            receive_buffer_max: files.number("proc/sys/net/core/rmem_max"),
            send_buffer_max: files.number("proc/sys/net/core/wmem_max"),
            capabilities: field(&status, "CapEff:").and_then(|bits| u64::from_str_radix(bits, 16).ok()),
            memory_lock_max: files.memory_lock_max(),
            clock_source: files
                .text(&format!("{clock}/current_clocksource"))
                .map(|name| name.trim().to_owned()),
            clock_sources: sources.split_whitespace().map(str::to_owned).collect(),
            governors: files.governors(),
            processors: field(&status, "Cpus_allowed_list:").and_then(listed),
            steal,
            hugepages_free: files
                .text("proc/meminfo")
                .and_then(|text| field(&text, "HugePages_Free:").and_then(|number| number.parse().ok())),
        }
    }

    /// Names of what the system does not say.
    pub fn unread(&self) -> Vec<&'static str> {
        let read = [
            ("net.core.rmem_max", self.receive_buffer_max.is_some()),
            ("net.core.wmem_max", self.send_buffer_max.is_some()),
            ("capabilities", self.capabilities.is_some()),
            ("the limit of locked memory", self.memory_lock_max.is_some()),
            ("the clock source", self.clock_source.is_some()),
            ("the number of processors", self.processors.is_some()),
            ("stolen processor time", self.steal.is_some()),
            ("hugepages", self.hugepages_free.is_some()),
        ];
        read.into_iter().filter(|(_, known)| !known).map(|(name, _)| name).collect()
    }

    fn may(&self, capability: u32) -> bool {
        self.capabilities.is_none_or(|bits| bits >> capability & 1 == 1)
    }

    /// What is not as `needs` says. What was not read is not judged.
    pub fn judge(&self, needs: &Needs) -> Vec<Finding> {
        let mut findings = self.socket_buffers(needs);
        findings.extend(self.permissions(needs.access));
        findings.extend(self.memory(needs.access));
        findings.extend(self.clock());
        findings.extend(self.processors());
        findings
    }

    fn socket_buffers(&self, needs: &Needs) -> Vec<Finding> {
        let sockets = !matches!(needs.access, PacketAccess::Dpdk | PacketAccess::SharedMemory);
        // A process with this capability may exceed the limits, and does.
        if !sockets || self.capabilities.is_some_and(|_| self.may(capability::NET_ADMIN)) {
            return Vec::new();
        }
        let limits = [
            ("receive_buffer", "net.core.rmem_max", self.receive_buffer_max),
            ("send_buffer", "net.core.wmem_max", self.send_buffer_max),
        ];
        let small = limits.into_iter().filter_map(|(check, name, max)| Some((check, name, max?)));
        let small = small.filter(|(_, _, max)| *max < needs.socket_buffer);
        small
            .map(|(check, name, max)| {
                of_host(
                    Severity::Warning,
                    check,
                    format!("{name} is {max} bytes"),
                    format!("{} bytes, which the library requests", needs.socket_buffer),
                    format!("sysctl -w {name}={}", needs.socket_buffer),
                )
            })
            .collect()
    }

    fn permissions(&self, access: PacketAccess) -> Option<Finding> {
        let privileged = self.may(capability::SYS_ADMIN);
        let bpf = privileged || self.may(capability::BPF) && self.may(capability::NET_ADMIN);
        let (missing, names) = match access {
            PacketAccess::PacketSockets => (!self.may(capability::NET_RAW), "cap_net_raw"),
            PacketAccess::XdpSockets => {
                (!(self.may(capability::NET_RAW) && bpf), "cap_net_raw,cap_net_admin,cap_bpf")
            }
            _ => return None,
        };
        missing.then(|| {
            of_host(
                Severity::Error,
                "packet_access",
                "this process may not open the sockets of this packet I/O".into(),
                names.into(),
                format!("setcap {names}+ep \"$(command -v netfold)\", or run it as root"),
            )
        })
    }

    fn memory(&self, access: PacketAccess) -> Option<Finding> {
        match access {
            PacketAccess::XdpSockets => {
                let max = self.memory_lock_max.filter(|max| *max < XDP_MEMORY)?;
                (!self.may(capability::IPC_LOCK)).then(|| {
                    of_host(
                        Severity::Error,
                        "locked_memory",
                        format!("this process may lock {max} bytes"),
                        format!("{XDP_MEMORY} bytes for each queue of an XDP socket"),
                        format!(
                            "ulimit -l {}, or LimitMEMLOCK= in the unit of the service",
                            XDP_MEMORY >> 10
                        ),
                    )
                })
            }
            PacketAccess::Dpdk if self.hugepages_free == Some(0) => Some(of_host(
                Severity::Warning,
                "hugepages",
                "no hugepage is free".into(),
                "some, so that DPDK's memory needs few translations".into(),
                "echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages".into(),
            )),
            _ => None,
        }
    }

    fn clock(&self) -> Option<Finding> {
        let source = self.clock_source.as_deref()?;
        // Each of these is read through a device or counts ticks; all others are registers of the processor or of the hypervisor.
        let slow = ["acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"];
        slow.contains(&source).then(|| {
            let other = self.clock_sources.iter().find(|other| !slow.contains(&other.as_str()));
            of_host(
                Severity::Warning,
                "clock_source",
                format!("the clock source is {source}, which takes about a microsecond to read"),
                "one that the processor reads without a system call".into(),
                match other {
                    Some(other) => format!(
                        "echo {other} > /sys/devices/system/clocksource/clocksource0/current_clocksource"
                    ),
                    None => "dmesg | grep -i clocksource says why there is no other".into(),
                },
            )
        })
    }

    fn processors(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(count) = self.processors.filter(|count| *count < PROCESSORS_MIN) {
            findings.push(of_host(
                Severity::Warning,
                "processors",
                format!("this process may use {count} processor"),
                format!("{PROCESSORS_MIN}: the library's thread and the caller's"),
                "taskset -p $$ shows the processors; a container's are those of --cpuset-cpus".into(),
            ));
        }
        let saving = self.governors.iter().find(|name| matches!(name.as_str(), "powersave" | "conservative"));
        if let Some(governor) = saving {
            findings.push(of_host(
                Severity::Warning,
                "governor",
                format!("the frequency governor is {governor}"),
                "performance, or schedutil".into(),
                "cpupower frequency-set -g performance".into(),
            ));
        }
        if let Some(steal) = self.steal.filter(|steal| *steal > STEAL_MAX) {
            findings.push(of_host(
                Severity::Warning,
                "steal",
                format!("the hypervisor gave {} of the processors' time to others", percent(steal)),
                percent(STEAL_MAX),
                "move the virtual machine to a host with idle processors, or give it dedicated ones".into(),
            ));
        }
        findings
    }
}

fn of_host(
    severity: Severity,
    check: &'static str,
    measured: String,
    limit: String,
    remedy: String,
) -> Finding {
    Finding { severity, check, subject: "this host".into(), measured, limit, remedy }
}

/// The system's files below a folder.
struct Files(PathBuf);

impl Files {
    /// A file's text; `None` where there is none, it is no text, or longer than such files are.
    fn text(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        let file = File::open(self.0.join(path)).ok()?;
        let len = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
        (len as u64 <= FILE_BYTES_MAX).then_some(text)
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// proc(5): the soft limit of `Max locked memory`.
    fn memory_lock_max(&self) -> Option<u64> {
        let limits = self.text("proc/self/limits")?;
        let soft = field(&limits, "Max locked memory")?;
        if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
    }

    fn governors(&self) -> BTreeSet<String> {
        let name = |at: usize, file| self.text(&format!("sys/devices/system/cpu/cpu{at}/cpufreq/{file}"));
        let all = (0..PROCESSORS_MAX)
            .map_while(|at| Some((name(at, "scaling_driver")?, name(at, "scaling_governor")?)));
        // The governors of these drivers are hints to the processor, which chooses.
        let plain = all.filter(|(driver, _)| !driver.contains("pstate"));
        plain.map(|(_, governor)| governor.trim().to_owned()).collect()
    }

    /// proc(5): the line `cpu` of `/proc/stat`, in which the eighth number is time that the hypervisor gave to others.
    fn processor_time(&self) -> Option<ProcessorTime> {
        let mut first = String::new();
        File::open(self.0.join("proc/stat")).ok()?.take(1024).read_to_string(&mut first).ok()?;
        let line = first.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let total = ticks.iter().try_fold(0_u64, |sum, tick| sum.checked_add(*tick))?;
        Some(ProcessorTime { total, stolen: *ticks.get(7)? })
    }
}

fn steal(begin: ProcessorTime, end: ProcessorTime) -> Option<f64> {
    let total = end.total.checked_sub(begin.total).filter(|ticks| *ticks > 0)?;
    Some(end.stolen.checked_sub(begin.stolen)? as f64 / total as f64)
}

/// The word after `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
}

/// How many numbers a list such as `0-3,8` has.
fn listed(list: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    list.split(',').try_fold(0_usize, |sum, range| sum.checked_add(count(range)?))
}

#[cfg(test)]
mod tests;
