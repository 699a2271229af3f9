//! Specs: a device and its settings, as text.

use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::DpdkError;

/// The source of DPDK's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Huge {
    /// Hugepages where enough are free, else ordinary pages.
    #[default]
    WhereFree,
    /// Hugepages (`--in-memory`), and an error where there are not enough.
    Always,
    /// Ordinary pages (`--no-huge`).
    Never,
}

/// How DPDK starts, once a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where memory comes from.
    pub huge: Huge,
    /// Memory in MB (`-m`).
    pub memory_mb: u64,
    /// Options of DPDK's environment layer (EAL), in addition to those that this program sets.
    pub more: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { huge: Huge::default(), memory_mb: 256, more: Vec::new() }
    }
}

/// Most queues of a device, and most threads that share it.
pub(crate) const QUEUES_MAX: u16 = 64;

/// A device and its settings.
///
/// ```text
/// net_af_packet0,iface=veth0                    a packet socket of the kernel
/// net_tap0,iface=nf0 mtu=9000 --no-huge -m 512  a tap interface, jumbo frames, ordinary pages, half a gigabyte
/// 0000:03:00.0 queues=4 -l 2                    a card, four queues, DPDK's first core is 2
/// ```
///
/// The first word is the device with its arguments, as DPDK writes them (`<driver><number>[,<key>=<value>..]` or a PCI
/// address). `mtu=<bytes>` and `queues=<number>` configure it, `address=<ip>`, `prefix=<bits>` and `gateway=<ip>` are its addresses, `-m <MB>`, `--no-huge` and `--in-memory` the source of its memory
/// ([`Huge`]), and everything else that begins with `-` goes to DPDK's environment layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The device with its arguments.
    pub device: String,
    /// Bytes of a packet without its Ethernet header; `None` for what the device has now.
    pub mtu: Option<u16>,
    /// Queues in each direction; `None` for one for each packet thread, or as many as the device has.
    pub queues: Option<u16>,
    /// Our own address on it, where it is not the program's local one.
    pub address: Option<Ipv4Addr>,
    /// Prefix length of the network; 24 by default.
    pub prefix_len: Option<u8>,
    /// The gateway to peers outside the network.
    pub gateway: Option<Ipv4Addr>,
    /// How DPDK starts, if it does not run yet.
    pub options: Options,
}

/// Options that this program sets itself, or that would leave files behind.
const REFUSED: &[&str] =
    &["--proc-type", "--vdev", "--telemetry", "--no-shconf", "--log-level", "--syslog", "-h", "--help"];

impl FromStr for Spec {
    type Err = DpdkError;

    fn from_str(text: &str) -> Result<Self, DpdkError> {
        let wrong = |why| DpdkError::Spec { spec: text.into(), why };
        let mut words = text.split_whitespace();
        let device = words.next().ok_or_else(|| wrong("the spec is empty"))?;
        if device.starts_with(['-', ',']) || device.contains('\0') {
            return Err(wrong("the first word is the device"));
        }
        let mut spec = Self::of(device);
        while let Some(word) = words.next() {
            if let Some((key, value)) = word.split_once('=').filter(|_| !word.starts_with('-')) {
                spec.set(key, value).map_err(wrong)?;
                continue;
            }
            let options = &mut spec.options;
            if word == "-m" {
                let memory = words.next().and_then(|word| word.parse().ok()).filter(|mb| *mb > 0);
                options.memory_mb = memory.ok_or_else(|| wrong("-m is followed by a number of MB"))?;
            } else if word == "--no-huge" {
                options.huge = Huge::Never;
            } else if word == "--in-memory" {
                options.huge = Huge::Always;
            } else if REFUSED.iter().any(|refused| word.split('=').next() == Some(refused)) {
                return Err(wrong("that option of DPDK is set by this program"));
            } else if word.starts_with('-') || options.more.last().is_some_and(|last| last.starts_with('-')) {
                options.more.push(word.into());
            } else {
                return Err(wrong("after the device come settings (mtu=1500) and options of DPDK"));
            }
        }
        if spec.options.huge == Huge::Never
            && spec.options.more.iter().any(|word| word.contains("socket-mem"))
        {
            return Err(wrong("--socket-mem needs hugepages"));
        }
        Ok(spec)
    }
}

impl Spec {
    /// A device with its arguments and default settings.
    #[must_use]
    pub fn of(device: &str) -> Self {
        Self {
            device: device.into(),
            mtu: None,
            queues: None,
            address: None,
            prefix_len: None,
            gateway: None,
            options: Options::default(),
        }
    }

    /// Applies a setting, or returns what is wrong with it.
    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        let ip = || value.parse().map_err(|_| "address and gateway are IPv4 addresses");
        match key {
            "mtu" => self.mtu = Some(value.parse().map_err(|_| "the MTU is a number of bytes up to 65535")?),
            "queues" => {
                let queues = value.parse().ok().filter(|count| (1..=QUEUES_MAX).contains(count));
                self.queues = Some(queues.ok_or("queues are 1 to 64")?);
            }
            "address" => self.address = Some(ip()?),
            "gateway" => self.gateway = Some(ip()?),
            "prefix" => {
                let bits = value.parse().ok().filter(|bits| *bits <= 32);
                self.prefix_len = Some(bits.ok_or("the prefix is a number up to 32")?);
            }
            _ => return Err("there is no such setting"),
        }
        Ok(())
    }

    /// The device's name, which precedes its arguments.
    #[must_use]
    pub fn name(&self) -> &str {
        self.device.split(',').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_a_device_and_options() {
        let spec: Spec = "net_tap0,iface=nf0 mtu=9000 --no-huge -m 512 -l 2 queues=4 -v".parse().unwrap();
        assert_eq!((spec.name(), &spec.device[..]), ("net_tap0", "net_tap0,iface=nf0"));
        assert_eq!((spec.mtu, spec.queues), (Some(9000), Some(4)));
        assert_eq!((spec.options.huge, spec.options.memory_mb), (Huge::Never, 512));
        assert_eq!(spec.options.more, ["-l", "2", "-v"]);
        let spec: Spec = "net_ring0 address=10.0.0.9 prefix=16 gateway=10.0.0.1".parse().unwrap();
        assert_eq!((spec.address, spec.prefix_len), (Some(Ipv4Addr::new(10, 0, 0, 9)), Some(16)));
        assert_eq!(spec.gateway, Some(Ipv4Addr::new(10, 0, 0, 1)));
        let spec: Spec = "net_ring0".parse().unwrap();
        assert_eq!((spec.mtu, spec.queues, spec.options), (None, None, Options::default()));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (text, expected) in [
            ("", "the spec is empty"),
            ("--no-huge", "the first word"),
            ("net_ring0 queues=0", "queues are 1 to 64"),
            ("net_ring0 mtu=66000", "up to 65535"),
            ("net_ring0 address=here", "IPv4 addresses"),
            ("net_ring0 prefix=33", "up to 32"),
            ("net_ring0 colour=red", "no such setting"),
            ("net_ring0 -m", "number of MB"),
            ("net_ring0 -m 0", "number of MB"),
            ("net_ring0 --vdev=net_tap0", "set by this program"),
            ("net_ring0 --proc-type secondary", "set by this program"),
            ("net_ring0 net_ring1", "after the device"),
            ("net_ring0 --no-huge --socket-mem=64", "needs hugepages"),
        ] {
            let error = text.parse::<Spec>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
