//! The kernel's driver path as text: `xdp-kernel:IFACE[+IFACE..][,address=IP][,mode=native|generic]`.

use std::fmt;
use std::net::Ipv4Addr;

/// Interfaces of one switch, at most.
const INTERFACES_MAX: usize = 256;

/// Interfaces on which the kernel runs the program of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSpec {
    /// The interfaces, each once. They are ports 1, 2 and so on.
    pub interfaces: Vec<String>,
    /// The switch's address, where it is not the first one of the first interface.
    pub address: Option<Ipv4Addr>,
    /// Where the program runs, if that is prescribed.
    pub mode: Option<KernelMode>,
}

/// Where the kernel runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelMode {
    /// In the driver, which must support it, and must send frames that are redirected.
    Native,
    /// Behind the driver, on packet buffers: slower, on every interface.
    Generic,
}

impl KernelMode {
    /// Its name: `native`, `generic`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

impl fmt::Display for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.interfaces.join("+"))?;
        if let Some(address) = self.address {
            write!(f, ",address={address}")?;
        }
        if let Some(mode) = self.mode {
            write!(f, ",mode={}", mode.name())?;
        }
        Ok(())
    }
}

/// Parses what follows `xdp-kernel:`.
pub(super) fn parse(text: &str) -> Result<KernelSpec, &'static str> {
    let mut parts = text.split(',');
    let interfaces: Vec<String> =
        parts.next().unwrap_or_default().split('+').map(ToOwned::to_owned).collect();
    if interfaces.iter().any(String::is_empty) {
        return Err("name an interface, or several with + between them");
    }
    if interfaces.len() > INTERFACES_MAX {
        return Err("there are more than 256 interfaces");
    }
    if (1..interfaces.len()).any(|at| interfaces[..at].contains(&interfaces[at])) {
        return Err("an interface is named twice");
    }
    let mut spec = KernelSpec { interfaces, address: None, mode: None };
    for part in parts {
        match part.split_once('=') {
            Some(("address", ip)) => {
                spec.address = Some(ip.parse().map_err(|_| "the address is no IPv4 address")?);
            }
            Some(("mode", mode)) => {
                let named = [KernelMode::Native, KernelMode::Generic].into_iter().find(|m| m.name() == mode);
                spec.mode = Some(named.ok_or("the mode is native or generic")?);
            }
            _ => return Err("there is no such setting"),
        }
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::super::IoSpec;
    use super::*;

    #[test]
    fn interfaces_and_settings_are_parsed_and_printed() {
        let one = KernelSpec { interfaces: vec!["eth0".into()], address: None, mode: None };
        let two = KernelSpec {
            interfaces: vec!["eth0".into(), "eth1".into()],
            address: Some(Ipv4Addr::new(10, 0, 0, 9)),
            mode: Some(KernelMode::Generic),
        };
        for (text, spec) in
            [("xdp-kernel:eth0", one), ("xdp-kernel:eth0+eth1,address=10.0.0.9,mode=generic", two)]
        {
            let spec = IoSpec::XdpKernel(spec);
            assert_eq!(text.parse(), Ok(spec.clone()), "{text}");
            assert_eq!(spec.to_string(), text);
        }
        let many = format!(
            "xdp-kernel:{}",
            (0..=INTERFACES_MAX).map(|n| format!("e{n}")).collect::<Vec<_>>().join("+")
        );
        for text in [
            "xdp-kernel",
            "xdp-kernel:",
            "xdp-kernel:eth0+",
            "xdp-kernel:eth0+eth0",
            "xdp-kernel:eth0,mode=fast",
            "xdp-kernel:eth0,address=eth1",
            "xdp-kernel:eth0,gateway=10.0.0.1",
            &many,
        ] {
            assert!(text.parse::<IoSpec>().is_err(), "{text}");
        }
    }
}
