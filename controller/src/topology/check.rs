//! Makes a topology of its parts, if they fit together.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netfold_p4::profile::{Encapsulation, by_name};

use super::aggregator::aggregators;
use super::{
    ADDRESSES_MAX, Addresses, Attachment, Element, End, HOSTS_MAX, Host, HostId, Kind, LINKS_MAX, Link,
    LinkId, Mac, Member, NAME_LEN_MAX, PLANES_MAX, Planes, Problem, Role, SWITCHES_MAX, Switch, SwitchId,
    Topology, TopologyError,
};

impl Topology {
    /// A topology of these parts; the first switch is [`SwitchId`] 0, and so on.
    ///
    /// # Errors
    ///
    /// [`TopologyError`]: the first thing that is wrong.
    pub fn new(switches: Vec<Switch>, hosts: Vec<Host>, links: Vec<Link>) -> Result<Self, TopologyError> {
        let mut draft = Draft { switches: &switches, uses: BTreeMap::new() };
        let names = draft.sizes(&hosts, &links).and_then(|()| draft.switches()).and_then(|names| {
            draft.hosts(&hosts)?;
            draft.links(&links)?;
            Ok(names)
        })?;
        let addresses = addresses(&hosts)?;
        let aggregators = aggregators(&switches, &hosts, &links, &names)?;
        let mut neighbours = vec![Vec::new(); switches.len()];
        for (index, link) in links.iter().enumerate() {
            let [a, b] = link.ends;
            neighbours[a.switch.index()].push((LinkId(index as u32), b.switch));
            neighbours[b.switch.index()].push((LinkId(index as u32), a.switch));
        }
        Ok(Self {
            switches,
            hosts,
            links,
            neighbours,
            addresses,
            names,
            aggregators,
            ecmp: false,
            equal_paths: None,
            direct: Vec::new(),
        })
    }
}

pub(super) type Checked<T = ()> = Result<T, TopologyError>;

pub(super) fn wrong<T>(element: Element, problem: Problem) -> Checked<T> {
    Err(TopologyError { line: None, element, problem })
}

/// Whether this is a name.
pub(super) fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(good)
}

/// Whether this is `host:port`, with brackets around an IPv6 address.
fn is_server(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            is_name(host) || host.len() > NAME_LEN_MAX && host.len() < 256 && host.split('.').all(is_name)
        }
    };
    host && port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port != 0)
}

/// What an end of a link is called: the switch, and the port if it has one.
fn end_name(switch: &str, port: Option<u16>) -> String {
    port.map_or_else(|| switch.to_owned(), |port| format!("{switch}:{port}"))
}

struct Draft<'a> {
    switches: &'a [Switch],
    /// Who uses which port of which switch.
    uses: BTreeMap<(SwitchId, u16), Element>,
}

impl<'a> Draft<'a> {
    fn sizes(&self, hosts: &[Host], links: &[Link]) -> Checked {
        if self.switches.is_empty() {
            return wrong(Element::Whole, Problem::NoSwitch);
        }
        let sizes = [
            ("switches", self.switches.len(), SWITCHES_MAX),
            ("hosts", hosts.len(), HOSTS_MAX),
            ("links", links.len(), LINKS_MAX),
        ];
        match sizes.into_iter().find(|(_, count, max)| count > max) {
            Some((what, count, _)) => wrong(Element::Whole, Problem::TooMany { what, count }),
            None => Ok(()),
        }
    }

    fn switches(&self) -> Checked<BTreeMap<String, SwitchId>> {
        let mut names = BTreeMap::new();
        let (mut data, mut devices) = (BTreeMap::new(), BTreeMap::new());
        for (index, switch) in self.switches.iter().enumerate() {
            let element = || Element::Switch(index, switch.name.clone());
            if !is_name(&switch.name) {
                return wrong(element(), Problem::Name);
            }
            if names.insert(switch.name.clone(), SwitchId(index as u16)).is_some() {
                return wrong(element(), Problem::NameTaken);
            }
            if let Err(problem) = check_switch(switch) {
                return wrong(element(), problem);
            }
            if let Some(address) = switch.data
                && let Some(other) = data.insert(address, index)
            {
                let other = self.switches[other].name.clone();
                return wrong(element(), Problem::DataTaken { data: address, other });
            }
            if let Some(server) = &switch.p4runtime
                && let Some(other) = devices.insert((server, switch.device_id), index)
            {
                let (server, device_id) = (server.clone(), switch.device_id);
                let other = self.switches[other].name.clone();
                return wrong(element(), Problem::DeviceTaken { server, device_id, other });
            }
        }
        Ok(names)
    }

    fn hosts(&mut self, hosts: &[Host]) -> Checked {
        let mut names = BTreeMap::new();
        for (index, host) in hosts.iter().enumerate() {
            let element = || Element::Host(index, host.name.clone());
            if !is_name(&host.name) {
                return wrong(element(), Problem::Name);
            }
            if names.insert(&host.name, index).is_some() {
                return wrong(element(), Problem::NameTaken);
            }
            if host.planes.is_empty() {
                let why = "the switch that it is attached to";
                return wrong(element(), Problem::Missing { key: "switch", why });
            }
            if host.planes.len() > PLANES_MAX {
                let count = host.planes.len();
                return wrong(element(), Problem::TooMany { what: "planes", count });
            }
            for (plane, attachment) in host.planes.iter().enumerate() {
                let element = Element::Attachment(index, host.name.clone(), plane);
                self.attachment(&element, attachment)?;
                if host.planes[..plane].iter().any(|other| other.switch == attachment.switch) {
                    let switch = self.switches[attachment.switch.index()].name.clone();
                    return wrong(element, Problem::SamePlane(switch));
                }
            }
        }
        Ok(())
    }

    fn attachment(&mut self, element: &Element, attachment: &Attachment) -> Checked {
        let switch = self.switch(element, attachment.switch)?;
        if switch.role == Role::Spine {
            return wrong(element.clone(), Problem::Spine(switch.name.clone()));
        }
        let count = attachment.addresses.len();
        if count == 0 {
            return wrong(element.clone(), Problem::NoAddresses);
        }
        if count > ADDRESSES_MAX {
            return wrong(element.clone(), Problem::TooMany { what: "ranges of addresses", count });
        }
        if switch.has_ethernet() && attachment.mac.is_none() {
            let why = "its switch sends Ethernet frames";
            return wrong(element.clone(), Problem::Missing { key: "mac", why });
        }
        self.port(element, attachment.switch, attachment.port, "port")?;
        self.station(element, switch, attachment.mac, "mac")
    }

    fn links(&mut self, links: &[Link]) -> Checked {
        for (index, link) in links.iter().enumerate() {
            let name = |end: &End| {
                let switch = self.switches.get(end.switch.index());
                switch.map_or_else(|| end.switch.to_string(), |switch| end_name(&switch.name, end.port))
            };
            let [a, b] = &link.ends;
            let element = Element::Link(index, format!("{} - {}", name(a), name(b)));
            let [from, to] = [self.switch(&element, a.switch)?, self.switch(&element, b.switch)?];
            if a.switch == b.switch {
                return wrong(element, Problem::SelfLink(from.name.clone()));
            }
            if from.role == Role::Leaf && to.role == Role::Leaf {
                return wrong(element, Problem::Leaves(from.name.clone(), to.name.clone()));
            }
            if link.rate_bps == 0 {
                let want = "more than 0 bits a second";
                return wrong(element, Problem::Range { key: "rate", value: 0, want });
            }
            for (end, other, keys) in [(a, to, ["a", "mac_a"]), (b, from, ["b", "mac_b"])] {
                self.port(&element, end.switch, end.port, keys[0])?;
                // The far end addresses frames to it.
                if end.mac.is_some() {
                    self.station(&element, other, end.mac, keys[1])?;
                }
            }
        }
        Ok(())
    }

    fn switch(&self, element: &Element, id: SwitchId) -> Checked<&'a Switch> {
        match self.switches.get(id.index()) {
            Some(switch) => Ok(switch),
            None => wrong(element.clone(), Problem::AbsentSwitch(id.index())),
        }
    }

    /// A port is given where it must be, and is used only once.
    fn port(&mut self, element: &Element, id: SwitchId, port: Option<u16>, key: &'static str) -> Checked {
        let switch = self.switch(element, id)?;
        let Some(port) = port else {
            if switch.has_ethernet() {
                let why = "ports of its switch have numbers; say which one, from 1 on";
                return wrong(element.clone(), Problem::Missing { key, why });
            }
            return Ok(());
        };
        if port == 0 {
            let want = "1 or more: there is no port 0 in P4Runtime";
            return wrong(element.clone(), Problem::Range { key, value: 0, want });
        }
        if port == switch.cpu_port && switch.has_ethernet() {
            let switch = switch.name.clone();
            return wrong(element.clone(), Problem::CpuPort { switch, port });
        }
        let switch = switch.name.clone();
        match self.uses.insert((id, port), element.clone()) {
            Some(by) => wrong(element.clone(), Problem::PortTaken { switch, port, by: Box::new(by) }),
            None => Ok(()),
        }
    }

    fn station(&self, element: &Element, at: &Switch, mac: Option<Mac>, key: &'static str) -> Checked {
        match mac {
            Some(mac) if !mac.is_station() => wrong(element.clone(), Problem::Mac(mac)),
            Some(_) if !at.has_ethernet() => {
                let why = "the switch that would use it sends datagrams, not frames";
                wrong(element.clone(), Problem::Useless { key, why })
            }
            _ => Ok(()),
        }
    }
}

fn check_switch(switch: &Switch) -> Result<(), Problem> {
    let missing = |key, why| Err(Problem::Missing { key, why });
    if let Some(server) = &switch.p4runtime
        && !is_server(server)
    {
        let want = "a host and a port, such as \"10.0.0.1:9559\"";
        return Err(Problem::Value { key: "p4runtime", value: server.clone(), want });
    }
    if switch.device_id == 0 {
        return Err(Problem::Range { key: "device_id", value: 0, want: "1 or more" });
    }
    if switch.slots == Some(0) {
        let want = "1 or more; leave it out for no limit";
        return Err(Problem::Range { key: "slots", value: 0, want });
    }
    if switch.cpu_port == 0 {
        return Err(Problem::Range { key: "cpu_port", value: 0, want: "1 or more" });
    }
    if let Some(name) = &switch.profile {
        let Some(profile) = by_name(name) else { return Err(Problem::Profile(name.clone())) };
        let ethernet = profile.encapsulation == Encapsulation::Ethernet;
        if !ethernet && switch.kind != Kind::Software {
            let (carries, kind) = ("datagrams", switch.kind.name());
            return Err(Problem::ProfileKind { profile: name.clone(), carries, kind });
        }
    }
    if switch.kind != Kind::Software {
        if switch.p4runtime.is_none() {
            return missing("p4runtime", "the controller drives the switch there");
        }
        if switch.profile.is_none() {
            return missing("profile", "it names the program that the switch is given");
        }
        if switch.device_config.is_none() {
            return missing("device_config", "it is what the target's compiler made of the program");
        }
    } else if switch.device_config.is_some() {
        let why = "a software switch takes the program itself";
        return Err(Problem::Useless { key: "device_config", why });
    }
    if switch.has_ethernet() {
        match switch.data.map(|data| data.ip()) {
            None => {
                return missing(
                    "data",
                    "packets for the switch need an address, such as \"10.1.0.254:20038\"",
                );
            }
            Some(IpAddr::V6(_)) => {
                let (value, want) =
                    (switch.data.map_or_else(String::new, |data| data.to_string()), "an IPv4 address");
                return Err(Problem::Value { key: "data", value, want });
            }
            Some(IpAddr::V4(_)) => {}
        }
    } else if switch.mac.is_some() {
        return Err(Problem::Useless { key: "mac", why: "the switch sends datagrams, not frames" });
    }
    if switch.data.is_some_and(|data| data.port() == 0 || data.ip().is_unspecified()) {
        let value = switch.data.map_or_else(String::new, |data| data.to_string());
        let want = "the address and the UDP port that packets go to";
        return Err(Problem::Value { key: "data", value, want });
    }
    match switch.mac.filter(|mac| !mac.is_station()) {
        Some(mac) => Err(Problem::Mac(mac)),
        None => Ok(()),
    }
}

/// Where every address is, if it is at one host.
fn addresses(hosts: &[Host]) -> Checked<Addresses> {
    let mut addresses = Addresses::new();
    for (index, host) in hosts.iter().enumerate() {
        for (plane, attachment) in host.planes.iter().enumerate() {
            for prefix in &attachment.addresses {
                let own = Member { host: HostId(index as u32), planes: Planes::one(plane) };
                let prefixes = addresses.entry((prefix.is_ipv6(), prefix.len())).or_default();
                let member = prefixes.entry(prefix.bits()).or_insert(own);
                if member.host != own.host {
                    let other = hosts[member.host.index()].name.clone();
                    let element = Element::Attachment(index, host.name.clone(), plane);
                    return wrong(element, Problem::AddressTaken { range: *prefix, other });
                }
                member.planes = member.planes.with(own.planes);
            }
        }
    }
    Ok(addresses)
}
