//! The network interfaces of this machine, which are NCCL's devices.
#![expect(unsafe_code, reason = "walks the list that getifaddrs makes")]

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::OnceLock;

use crate::result::{Code, Failure, Result};

/// Speed assumed for interfaces that report none, in Mbit/s, as in NCCL.
const SPEED_DEFAULT: i32 = 10_000;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) name: CString,
    /// The device's folder below /sys; `None` for virtual ones.
    pub(crate) pci_path: Option<CString>,
    /// This machine's address there, with port 0.
    pub(crate) address: SocketAddr,
    /// In Mbit/s.
    pub(crate) speed: i32,
}

/// The devices, as found on the first call; constant from then on.
///
/// # Errors
///
/// The system's errors, and a selection without a match.
pub(crate) fn devices() -> Result<&'static [Device]> {
    static DEVICES: OnceLock<Result<Vec<Device>>> = OnceLock::new();
    let found = DEVICES.get_or_init(|| {
        let all = addresses().map_err(|error| Failure::system("cannot list network interfaces", error))?;
        let wanted = ["NETFOLD_IFNAME", "NCCL_SOCKET_IFNAME"].iter().find_map(|name| {
            std::env::var(name).ok().filter(|list| !list.is_empty()).map(|list| (*name, list))
        });
        let chosen = choose(all, wanted.as_ref().map(|(_, list)| list.as_str()));
        if chosen.is_empty() {
            let why = wanted.map(|(name, list)| format!(" that {name}={list} selects")).unwrap_or_default();
            return Err(Failure::new(Code::System, format!("this machine has no network interface{why}")));
        }
        Ok(chosen.into_iter().map(|(name, address)| describe(name, address)).collect())
    });
    found.as_deref().map_err(Clone::clone)
}

/// One device.
///
/// # Errors
///
/// There is no such device.
pub(crate) fn device(index: i32) -> Result<&'static Device> {
    let devices = devices()?;
    usize::try_from(index)
        .ok()
        .and_then(|index| devices.get(index))
        .ok_or_else(|| Failure::argument(format!("there is no device {index}: there are {}", devices.len())))
}

/// Which interfaces to use. A list selects by prefixes of names, by whole names after `=`, or all others after `^`, as in NCCL;
/// without one, all that are not the loop-back and not made by container engines, or the loop-back when there is nothing else.
/// One address each, IPv4 before IPv6.
fn choose(all: Vec<(String, SocketAddr)>, list: Option<&str>) -> Vec<(String, SocketAddr)> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in &all {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let selected: Vec<String> = match list {
        Some(list) => names.into_iter().filter(|name| selects(list, name)).collect(),
        None => {
            let (local, real): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| {
                ["lo", "docker", "virbr", "br-", "veth"].iter().any(|prefix| name.starts_with(prefix))
            });
            if real.is_empty() { local.into_iter().filter(|name| name == "lo").collect() } else { real }
        }
    };
    selected
        .into_iter()
        .filter_map(|name| {
            let of: Vec<_> = all.iter().filter(|(other, _)| *other == name).collect();
            let best = of.iter().find(|(_, address)| address.is_ipv4()).or(of.first())?;
            Some((best.0.clone(), best.1))
        })
        .collect()
}

fn selects(list: &str, name: &str) -> bool {
    let (list, negative) = list.strip_prefix('^').map_or((list, false), |rest| (rest, true));
    let (list, exact) = list.strip_prefix('=').map_or((list, false), |rest| (rest, true));
    let hit = list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .any(|word| if exact { name == word } else { name.starts_with(word) });
    hit != negative
}

fn describe(name: String, address: SocketAddr) -> Device {
    let folder = format!("/sys/class/net/{name}");
    let pci_path = fs::canonicalize(format!("{folder}/device"))
        .ok()
        .and_then(|path| CString::new(path.into_os_string().into_encoded_bytes()).ok());
    let speed = fs::read_to_string(format!("{folder}/speed"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .filter(|speed| *speed > 0)
        .unwrap_or(SPEED_DEFAULT);
    Device { name: CString::new(name).unwrap_or_default(), pci_path, address, speed }
}

/// Names and addresses of all interfaces that are up.
fn addresses() -> io::Result<Vec<(String, SocketAddr)>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the write of the list's head.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: entries of the list are valid, and linked by `ifa_next`, until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_addr.is_null() || entry.ifa_flags & libc::IFF_UP as u32 == 0 {
            continue;
        }
        // SAFETY: an entry's name is a C string.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: an entry's address is valid for as many bytes as its family has.
        if let Some(address) = unsafe { address(entry.ifa_addr) } {
            found.push((name, address));
        }
    }
    // SAFETY: made above, freed once, not used any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// # Safety
///
/// `address` is valid for reads of its family's structure.
unsafe fn address(address: *const libc::sockaddr) -> Option<SocketAddr> {
    // SAFETY: every address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: of this family.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(SocketAddr::from((Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)), 0)))
        }
        libc::AF_INET6 => {
            // SAFETY: of this family.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            // Link-local addresses mean nothing on other machines.
            (!ip.is_unicast_link_local()).then(|| SocketAddrV6::new(ip, 0, 0, 0).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: Option<&str>, of: &[&str]) -> Vec<String> {
        let all = of.iter().map(|name| (name.to_string(), SocketAddr::from(([10, 0, 0, 1], 0)))).collect();
        choose(all, list).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn interfaces_are_chosen_as_nccl_does() {
        let all = ["lo", "eth0", "eth1", "docker0", "ib0"];
        assert_eq!(names(None, &all), ["eth0", "eth1", "ib0"]);
        assert_eq!(names(None, &["lo", "docker0"]), ["lo"]);
        assert_eq!(names(Some("eth"), &all), ["eth0", "eth1"]);
        assert_eq!(names(Some("=eth1,lo"), &all), ["lo", "eth1"]);
        assert_eq!(names(Some("^docker,lo,ib"), &all), ["eth0", "eth1"]);
        assert_eq!(names(Some("wlan"), &all), [""; 0]);
    }

    #[test]
    fn this_machine_has_a_loopback() {
        let all = addresses().unwrap();
        assert!(all.iter().any(|(_, address)| address.ip().is_loopback()), "{all:?}");
    }

    #[test]
    fn ipv4_comes_before_ipv6() {
        let six = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
        let four = SocketAddr::from(([10, 0, 0, 1], 0));
        let all = vec![("eth0".to_owned(), six), ("eth0".to_owned(), four), ("eth1".to_owned(), six)];
        assert_eq!(choose(all, None), [("eth0".to_owned(), four), ("eth1".to_owned(), six)]);
    }
}
