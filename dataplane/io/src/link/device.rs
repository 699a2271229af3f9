//! The interface below a socket: what it is, and whether it is still there.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::socket::{Facts, State, facts, state};
use crate::IoError;

/// The IPv4 addresses that the kernel has given to an interface, each with the bits of its network.
///
/// # Errors
///
/// [`IoError::Link`], for the kind of link that is to be opened there, when there is no such interface.
pub(crate) fn ipv4_of(link: &'static str, interface: &str) -> Result<Vec<(Ipv4Addr, u8)>, IoError> {
    let found = pnet_datalink::interfaces().into_iter().find(|found| found.name == interface);
    let found = found.ok_or_else(|| refused(link, interface, io::Error::from_raw_os_error(libc::ENODEV)))?;
    Ok(ipv4(&found))
}

/// An interface as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// Its name.
    pub name: String,
    /// Its number in this network namespace.
    pub index: u32,
    /// Its Ethernet address, if it has one.
    pub mac: Option<[u8; 6]>,
    /// Its IPv4 addresses, each with the bits of its network.
    pub ipv4: Vec<(Ipv4Addr, u8)>,
}

/// The interfaces of this network namespace.
pub fn interfaces() -> Vec<InterfaceInfo> {
    let info = |found: pnet_datalink::NetworkInterface| InterfaceInfo {
        ipv4: ipv4(&found),
        mac: found.mac.map(|mac| mac.octets()),
        name: found.name,
        index: found.index,
    };
    pnet_datalink::interfaces().into_iter().map(info).collect()
}

fn ipv4(interface: &pnet_datalink::NetworkInterface) -> Vec<(Ipv4Addr, u8)> {
    let v4 = interface.ips.iter().filter_map(|network| match network.ip() {
        IpAddr::V4(ip) => Some((ip, network.prefix())),
        IpAddr::V6(_) => None,
    });
    v4.collect()
}

/// Whether the kernel has given the address to an interface.
pub(crate) fn has_ipv4(ip: Ipv4Addr) -> bool {
    pnet_datalink::interfaces().iter().flat_map(|found| &found.ips).any(|network| network.ip() == ip)
}

/// Between two looks at an interface that is down.
const DOWN_NAP: Duration = Duration::from_millis(100);

/// An interface that a socket is bound to.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) facts: Facts,
    name: String,
    bits_per_second: Option<u64>,
    /// It was down when last looked at.
    down: bool,
    /// It was removed: the call that failed, and the system's error.
    gone: Option<(&'static str, i32)>,
}

/// An error of opening `link` on `interface`, with what to do about it.
pub(super) fn refused(link: &'static str, interface: &str, source: io::Error) -> IoError {
    let problem = match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "it takes CAP_NET_RAW (af-xdp: CAP_NET_ADMIN and CAP_BPF, too); run as root, or give it the capability by setcap or in the launcher; udp takes none"
        }
        Some(libc::ENODEV | libc::ENXIO) => {
            "there is no such interface; `ip link` lists those that there are"
        }
        Some(libc::EPROTOTYPE) => "it is no Ethernet interface",
        Some(libc::ENETDOWN) => "the interface is down; `ip link set` brings it up",
        Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ENOPROTOOPT) => {
            "this kernel does not have it; use another link, or udp"
        }
        Some(libc::ENOMEM | libc::ENOBUFS) => {
            "there is too little memory to share with the kernel; raise `ulimit -l`"
        }
        Some(libc::EMSGSIZE) => "its MTU is too long for this link; lower it, or use another link",
        Some(libc::EBUSY | libc::EEXIST) => {
            "another program holds this queue or this interface's XDP hook and has not released it within 2 s; `ip link show` names the program; end it"
        }
        Some(libc::EOPNOTSUPP) => "the driver does not do it; use another link, or udp",
        Some(libc::EINVAL) => {
            "the interface does not have this queue, or cannot be used so; see `ethtool -l`"
        }
        _ => "the system refuses",
    };
    IoError::Link { link, interface: interface.to_owned(), problem, source }
}

/// The rate of an interface by sysfs, in bits a second. Source: Documentation/ABI/testing/sysfs-class-net, `speed`: Mbit/s, or -1 or an error
/// where it is not known.
fn speed(interface: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    text.trim().parse::<u64>().ok().filter(|rate| *rate > 0)?.checked_mul(1_000_000)
}

impl Device {
    /// Looks up `interface` in the socket's network namespace.
    pub(super) fn open(link: &'static str, interface: &str, fd: BorrowedFd<'_>) -> Result<Self, IoError> {
        let facts = facts(fd, interface).map_err(|source| refused(link, interface, source))?;
        let bits_per_second = speed(interface);
        Ok(Self { facts, name: interface.to_owned(), bits_per_second, down: false, gone: None })
    }

    /// The rate in bits a second as it was when the device was opened, if the driver says one.
    pub(super) const fn bits_per_second(&self) -> Option<u64> {
        self.bits_per_second
    }

    /// Longest frame in bytes.
    pub(super) fn frame_len_max(&self) -> usize {
        self.facts.mtu + 14
    }

    /// Whether the link still works.
    ///
    /// # Errors
    ///
    /// [`IoError::Os`] once [`judge`](Self::judge) has found that the interface was removed.
    pub(super) fn check(&self) -> Result<(), IoError> {
        match self.gone {
            None => Ok(()),
            Some((call, code)) => Err(IoError::os(call, io::Error::from_raw_os_error(code))),
        }
    }

    /// Classifies an error of the socket: `Ok` when it is temporary (the link is down, a queue is full), an error when the interface was removed or
    /// the socket is of no use.
    pub(super) fn judge(
        &mut self,
        fd: BorrowedFd<'_>,
        call: &'static str,
        code: Option<i32>,
    ) -> Result<(), IoError> {
        match (code, state(fd, &self.name, self.facts.index)) {
            (Some(code @ (libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL)), _) => {
                self.gone = Some((call, code));
            }
            (_, State::Gone) => self.gone = Some((call, libc::ENODEV)),
            (_, state) => self.down = state == State::Down,
        }
        self.check()
    }

    /// How long may be slept at a time: an interface that is down may be removed without another word.
    pub(super) fn nap(&self, timeout: Duration) -> Duration {
        if self.down { timeout.min(DOWN_NAP) } else { timeout }
    }

    /// Sleeps by `sleep` until it reports an event, or for `timeout`, and checks whether an interface that is down is still
    /// there every now and then.
    pub(super) fn sleep(
        &mut self,
        fd: BorrowedFd<'_>,
        timeout: Duration,
        mut sleep: impl FnMut(Duration) -> Result<bool, IoError>,
    ) -> Result<bool, IoError> {
        let mut left = timeout;
        loop {
            let nap = self.nap(left);
            let ready = sleep(nap)?;
            if self.down {
                self.judge(fd, "wait", None)?;
            }
            left -= nap;
            if ready || left.is_zero() {
                return Ok(ready);
            }
        }
    }
}

/// What keeps a send from going through.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SocketFault {
    /// Try the same again later.
    Full,
    /// Try the same again now.
    Again,
    /// This frame is lost.
    Lost,
}

/// What became of a frame that the system did not take.
pub(super) fn classify(error: &io::Error) -> SocketFault {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, _) => SocketFault::Full,
        (io::ErrorKind::Interrupted, _) => SocketFault::Again,
        _ => SocketFault::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_privilege_is_named_with_what_takes_none() {
        for code in [libc::EPERM, libc::EACCES] {
            let error = refused("packet-ring", "eth0", io::Error::from_raw_os_error(code)).to_string();
            let parts = ["packet-ring on eth0", "CAP_NET_RAW", "launcher", "udp takes none"];
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
