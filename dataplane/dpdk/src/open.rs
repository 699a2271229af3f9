//! From words to packet I/O.

use netfold_io::choice::{Choice, Opening};
use netfold_io::{Cores, IoError, PacketIo};

use crate::{DpdkError, Spec};

/// Opens what stands behind `--io`, DPDK's devices included: DPDK is started if it does not run, the device is attached and started,
/// and Ethernet, ARP, IPv4 and UDP are spoken on its one queue. All other kinds are [`netfold_io::choice::open`]'s.
///
/// Interfaces of the kernel are looked up in the network namespace of the calling thread.
///
/// # Errors
///
/// [`DpdkError`]; [`DpdkError::NotBuilt`] for a device of DPDK without the feature `dpdk`; [`DpdkError::Spec`] for words that make no
/// sense, and when several queues are asked for, since what arrives at the others would be heard by nobody.
pub fn open(choice: &Choice, opening: &Opening) -> Result<Box<dyn PacketIo>, DpdkError> {
    let Choice::Dpdk(words) = choice else { return Ok(netfold_io::choice::open(choice, opening)?) };
    let spec: Spec = words.parse()?;
    if spec.queues != 1 {
        return Err(DpdkError::Spec { spec: words.clone(), why: "one queue is all that is opened" });
    }
    device(&spec, opening)
}

/// Opens what several packet threads have, one each, as [`netfold_io::choice::open_threads`] does.
///
/// # Errors
///
/// As [`open`]; a device of DPDK has one thread.
pub fn open_threads(
    choice: &Choice,
    openings: &[Opening],
    cores: &Cores,
) -> Result<Vec<Box<dyn PacketIo>>, IoError> {
    match choice {
        Choice::Dpdk(words) if openings.len() > 1 => {
            let why = "a device has one packet thread; name one for each (`--io` several times)";
            Err(DpdkError::Spec { spec: words.clone(), why }.into())
        }
        Choice::Dpdk(_) => openings.iter().map(|opening| Ok(open(choice, opening)?)).collect(),
        _ => netfold_io::choice::open_threads(choice, openings, cores),
    }
}

#[cfg(feature = "dpdk")]
fn device(spec: &Spec, opening: &Opening) -> Result<Box<dyn PacketIo>, DpdkError> {
    use netfold_io::ethernet::Ethernet;

    let config = config(spec, opening)?;
    let link = crate::Dpdk::open(spec)?.remove(0);
    Ok(match opening.peer {
        Some(peer) => Box::new(Ethernet::connect(link, peer, config)?),
        None => Box::new(Ethernet::bind(link, config)?),
    })
}

/// Where we are on the device: the address that its words say, or else the program's local one.
#[cfg(feature = "dpdk")]
fn config(
    spec: &Spec,
    opening: &Opening,
) -> Result<netfold_io::ethernet::EthernetConfig, netfold_io::IoError> {
    use std::net::{IpAddr, SocketAddrV4};

    use netfold_io::ethernet::EthernetConfig;

    let local = match opening.local.ip() {
        IpAddr::V4(ip) if !ip.is_unspecified() && !ip.is_loopback() => Some(ip),
        _ => None,
    };
    let problem = "no packet of DPDK's comes from there; name an address behind the device by address=IP";
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
fn device(_: &Spec, _: &Opening) -> Result<Box<dyn PacketIo>, DpdkError> {
    Err(DpdkError::NotBuilt)
}

#[cfg(all(test, not(feature = "dpdk")))]
mod tests {
    use super::*;

    #[test]
    fn without_dpdk_everything_else_opens() {
        let opening = Opening::at(([127, 0, 0, 1], 0).into());
        let device = open(&Choice::Dpdk("net_ring0".into()), &opening);
        assert!(matches!(device, Err(DpdkError::NotBuilt)));
        let nonsense = open(&Choice::Dpdk("net_ring0 colour=red".into()), &opening);
        assert!(matches!(nonsense, Err(DpdkError::Spec { .. })));
        assert!(open(&Choice::Udp, &opening).is_ok());
    }
}
