//! From device specs to packet I/O.

use netfold_io::spec::{IoSpec, OpenOptions};
use netfold_io::{Cores, IoError, PacketIo};

use crate::{DpdkError, Spec};

/// Opens the packet I/O of `--io`, DPDK's devices included: DPDK is started if it does not run, the device is attached and started,
/// and Ethernet, ARP, IPv4 and UDP run on its queues. All other kinds are [`netfold_io::spec::open`]'s.
///
/// Interfaces of the kernel are looked up in the network namespace of the calling thread.
///
/// # Errors
///
/// [`DpdkError`]; [`DpdkError::NotBuilt`] for a device of DPDK without the feature `dpdk`; [`DpdkError::Spec`] for a malformed
/// spec.
pub fn open(spec: &IoSpec, opening: &OpenOptions) -> Result<Box<dyn PacketIo>, DpdkError> {
    let IoSpec::Dpdk(words) = spec else { return Ok(netfold_io::spec::open(spec, opening)?) };
    let mut opened = device(&words.parse()?, std::slice::from_ref(opening))?;
    opened.pop().ok_or(DpdkError::Io(IoError::Unsupported("a device without a thread")))
}

/// Opens packet I/O for several packet threads, one each, as [`netfold_io::spec::open_threads`] does. A device of DPDK is shared:
/// each thread gets the datagrams to its own port, from whichever queue they arrive at.
///
/// # Errors
///
/// As [`open`]; [`IoError::Address`] when the threads are not at one IP address.
pub fn open_threads(
    spec: &IoSpec,
    openings: &[OpenOptions],
    cores: &Cores,
) -> Result<Vec<Box<dyn PacketIo>>, IoError> {
    match spec {
        IoSpec::Dpdk(words) => Ok(device(&words.parse::<Spec>()?, openings)?),
        _ => netfold_io::spec::open_threads(spec, openings, cores),
    }
}

#[cfg(feature = "dpdk")]
fn device(spec: &Spec, openings: &[OpenOptions]) -> Result<Vec<Box<dyn PacketIo>>, DpdkError> {
    use netfold_io::ethernet::Ethernet;

    let configs = openings.iter().map(|opening| config(spec, opening)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = configs.first() else { return Ok(Vec::new()) };
    if let Some(elsewhere) = configs.iter().find(|config| config.address.ip() != first.address.ip()) {
        let problem = "packet threads that share a device have one address";
        return Err(IoError::Address { address: elsewhere.address.into(), problem }.into());
    }
    let links = crate::Dpdk::open_threads(spec, openings.len(), *first.address.ip())?;
    let ends = links.into_iter().zip(configs).zip(openings);
    ends.map(|((link, config), opening)| {
        Ok(match opening.peer {
            Some(peer) => Box::new(Ethernet::connect(link, peer, config)?) as Box<dyn PacketIo>,
            None => Box::new(Ethernet::bind(link, config)?),
        })
    })
    .collect()
}

/// Our address on the device: the spec's, or else the program's local one.
#[cfg(feature = "dpdk")]
fn config(
    spec: &Spec,
    opening: &OpenOptions,
) -> Result<netfold_io::ethernet::EthernetConfig, netfold_io::IoError> {
    use std::net::{IpAddr, SocketAddrV4};

    use netfold_io::ethernet::EthernetConfig;

    let local = match opening.local.ip() {
        IpAddr::V4(ip) if !ip.is_unspecified() && !ip.is_loopback() => Some(ip),
        _ => None,
    };
    let problem = "DPDK sends no packet from there; set the device's address with address=IP";
    let ip = spec.address.or(local).ok_or(IoError::Address { address: opening.local, problem })?;
    let usual = EthernetConfig::new(SocketAddrV4::new(ip, opening.local.port()));
    Ok(EthernetConfig {
        prefix_len: spec.prefix_len.unwrap_or(usual.prefix_len),
        gateway: spec.gateway,
        datagram_len_max: opening.datagram_len_max,
        answers: opening.answers,
        ..usual
    })
}

#[cfg(not(feature = "dpdk"))]
fn device(_: &Spec, _: &[OpenOptions]) -> Result<Vec<Box<dyn PacketIo>>, DpdkError> {
    Err(DpdkError::NotBuilt)
}

#[cfg(all(test, not(feature = "dpdk")))]
mod tests {
    use super::*;

    #[test]
    fn without_dpdk_everything_else_opens() {
        let opening = OpenOptions::at(([127, 0, 0, 1], 0).into());
        let device = open(&IoSpec::Dpdk("net_ring0".into()), &opening);
        assert!(matches!(device, Err(DpdkError::NotBuilt)));
        let malformed = open(&IoSpec::Dpdk("net_ring0 colour=red".into()), &opening);
        assert!(matches!(malformed, Err(DpdkError::Spec { .. })));
        assert!(open(&IoSpec::Udp, &opening).is_ok());
    }
}
