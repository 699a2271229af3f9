//! The file: TOML, one table for each switch, attachment and link.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use super::check::is_name;
use super::{
    Attachment, CPU_PORT, Element, End, FILE_LEN_MAX, Host, Kind, Link, Mac, Prefix, PrefixError, Problem,
    RATE_DEFAULT, Role, Switch, SwitchId, Tls, Topology, TopologyError,
};
use crate::equal_paths::EqualPaths;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Whether fabrics between workers and switches spread flows over equal paths, and how.
    ecmp: Option<Spanned<Ecmp>>,
    #[serde(default)]
    switch: Vec<Spanned<SwitchTable>>,
    #[serde(default)]
    host: Vec<Spanned<HostTable>>,
    #[serde(default)]
    link: Vec<Spanned<LinkTable>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "ecmp is true, false, or a table with hash, paths, and where they are needed seed and rate"
)]
enum Ecmp {
    /// By some hash of UDP ports, or not.
    Is(bool),
    /// By a hash that is known.
    Known(EcmpTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EcmpTable {
    hash: String,
    seed: Option<u32>,
    paths: u8,
    rate: Option<String>,
    #[serde(default)]
    direct: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchTable {
    name: String,
    p4runtime: String,
    #[serde(default = "one")]
    device_id: u64,
    #[serde(default)]
    role: Role,
    #[serde(default)]
    kind: Kind,
    profile: Option<String>,
    device_config: Option<PathBuf>,
    data: Option<String>,
    mac: Option<String>,
    #[serde(default = "cpu_port")]
    cpu_port: u16,
    slots: Option<u32>,
    aggregator: Option<String>,
    tls: Option<Tls>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    name: String,
    #[serde(default)]
    addresses: Vec<String>,
    switch: String,
    port: Option<u16>,
    mac: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    a: String,
    b: String,
    rate: Option<String>,
    mac_a: Option<String>,
    mac_b: Option<String>,
}

const fn one() -> u64 {
    1
}

const fn cpu_port() -> u16 {
    CPU_PORT
}

/// Lines on which the parts begin.
struct Lines {
    switches: Vec<usize>,
    /// By host, then by plane.
    hosts: Vec<Vec<usize>>,
    links: Vec<usize>,
}

impl Topology {
    /// Reads a topology file; docs/topology.md explains it.
    ///
    /// # Errors
    ///
    /// [`TopologyError`]: the first thing that is wrong, with its line.
    pub fn from_toml(text: &str) -> Result<Self, TopologyError> {
        let whole = |line, problem| TopologyError { line, element: Element::Whole, problem };
        if text.len() > FILE_LEN_MAX {
            return Err(whole(None, Problem::Length(text.len())));
        }
        let starts = line_starts(text);
        let line = |offset: usize| starts.partition_point(|start| *start <= offset);
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map(|span| line(span.start));
            whole(at, Problem::Syntax(error.message().replace('\n', ", ")))
        })?;
        let mut lines = Lines { switches: Vec::new(), hosts: Vec::new(), links: Vec::new() };
        let mut switches = Vec::with_capacity(file.switch.len());
        let mut names = BTreeMap::new();
        for table in file.switch {
            let at = line(table.span().start);
            lines.switches.push(at);
            let (index, table) = (switches.len(), table.into_inner());
            let element = Element::Switch(index, table.name.clone());
            // Before the ends that name it, which would be reported as naming an unknown switch.
            if !is_name(&table.name) {
                return Err(located(at, element, Problem::Name));
            }
            if names.insert(table.name.clone(), index).is_some() {
                return Err(located(at, element, Problem::NameTaken));
            }
            switches.push(switch(table).map_err(|problem| located(at, element, problem))?);
        }
        let mut hosts: Vec<Host> = Vec::new();
        let mut host_names = BTreeMap::new();
        for table in file.host {
            let at = line(table.span().start);
            let table = table.into_inner();
            let index = *host_names.entry(table.name.clone()).or_insert_with(|| {
                hosts.push(Host { name: table.name.clone(), planes: Vec::new() });
                lines.hosts.push(Vec::new());
                hosts.len() - 1
            });
            lines.hosts[index].push(at);
            let planes = &mut hosts[index].planes;
            let element = Element::Attachment(index, table.name.clone(), planes.len());
            let attachment = attachment(table, planes, &names);
            planes.push(attachment.map_err(|problem| located(at, element, problem))?);
        }
        let mut links = Vec::with_capacity(file.link.len());
        for table in file.link {
            let at = line(table.span().start);
            lines.links.push(at);
            let table = table.into_inner();
            let element = Element::Link(links.len(), format!("{} - {}", table.a, table.b));
            links.push(link(table, &names).map_err(|problem| located(at, element, problem))?);
        }
        let topology = Self::new(switches, hosts, links).map_err(|error| lines.locate(error))?;
        let Some(ecmp) = file.ecmp else { return Ok(topology) };
        let at = line(ecmp.span().start);
        match ecmp.into_inner() {
            Ecmp::Is(ecmp) => Ok(topology.with_ecmp(ecmp)),
            Ecmp::Known(table) => {
                let located = |problem| whole(Some(at), problem);
                let paths = equal_paths(&table).map_err(located)?;
                let direct = prefixes("direct", table.direct).map_err(located)?;
                Ok(topology.with_equal_paths(paths, direct))
            }
        }
    }
}

fn equal_paths(table: &EcmpTable) -> Result<EqualPaths, Problem> {
    let rate_bps = table.rate.as_deref().map(rate_of).transpose()?;
    EqualPaths::new(&table.hash, table.seed, table.paths, rate_bps).map_err(Problem::Ecmp)
}

impl Lines {
    fn locate(&self, mut error: TopologyError) -> TopologyError {
        error.line = match &error.element {
            Element::Whole => None,
            Element::Switch(index, _) => self.switches.get(*index).copied(),
            Element::Host(index, _) => self.hosts.get(*index).and_then(|planes| planes.first()).copied(),
            Element::Attachment(index, _, plane) => {
                self.hosts.get(*index).and_then(|planes| planes.get(*plane)).copied()
            }
            Element::Link(index, _) => self.links.get(*index).copied(),
        };
        error
    }
}

fn located(line: usize, element: Element, problem: Problem) -> TopologyError {
    TopologyError { line: Some(line), element, problem }
}

/// Where each line begins.
fn line_starts(text: &str) -> Vec<usize> {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    std::iter::once(0).chain(ends.map(|(offset, _)| offset + 1)).collect()
}

fn switch(table: SwitchTable) -> Result<Switch, Problem> {
    let data = match table.data {
        None => None,
        Some(text) => match text.parse::<SocketAddr>() {
            Ok(data) => Some(data),
            Err(_) => {
                let want = "an address and a UDP port, such as \"10.1.0.254:20038\"";
                return Err(Problem::Value { key: "data", value: text, want });
            }
        },
    };
    Ok(Switch {
        name: table.name,
        p4runtime: Some(table.p4runtime),
        device_id: table.device_id,
        role: table.role,
        kind: table.kind,
        profile: table.profile,
        device_config: table.device_config,
        data,
        mac: mac("mac", table.mac)?,
        cpu_port: table.cpu_port,
        slots: table.slots,
        aggregator: table.aggregator,
        tls: table.tls,
    })
}

fn prefixes(key: &'static str, texts: Vec<String>) -> Result<Vec<Prefix>, Problem> {
    let parsed = |text: String| {
        text.parse::<Prefix>().map_err(|fault| match fault {
            PrefixError::Form => {
                let want = "an address or a range of them, such as \"10.1.0.0/28\"";
                Problem::Value { key, value: text, want }
            }
            PrefixError::Loose(range) => Problem::LoosePrefix { value: text, range },
        })
    };
    texts.into_iter().map(parsed).collect()
}

fn attachment(
    table: HostTable,
    planes: &[Attachment],
    names: &BTreeMap<String, usize>,
) -> Result<Attachment, Problem> {
    let mut addresses = prefixes("addresses", table.addresses)?;
    // A further plane has the addresses of the first, unless it has its own.
    if let Some(first) = planes.first().filter(|_| addresses.is_empty()) {
        addresses.clone_from(&first.addresses);
    }
    let switch = known(&table.switch, names)?;
    Ok(Attachment { switch, port: table.port, mac: mac("mac", table.mac)?, addresses })
}

fn link(table: LinkTable, names: &BTreeMap<String, usize>) -> Result<Link, Problem> {
    let end = |key, text: String, mac_key, mac_text| {
        let (name, port) = match text.split_once(':') {
            None => (text.as_str(), None),
            Some((name, port)) => {
                let digits = port.bytes().all(|byte| byte.is_ascii_digit());
                let Some(port) = port.parse().ok().filter(|_| digits) else {
                    let want = "a switch and its port, such as \"leaf1:49\", or a switch alone";
                    return Err(Problem::Value { key, value: text, want });
                };
                (name, Some(port))
            }
        };
        Ok(End { switch: known(name, names)?, port, mac: mac(mac_key, mac_text)? })
    };
    let ends = [end("a", table.a, "mac_a", table.mac_a)?, end("b", table.b, "mac_b", table.mac_b)?];
    let rate_bps = table.rate.as_deref().map_or(Ok(RATE_DEFAULT), rate_of)?;
    Ok(Link { ends, rate_bps })
}

fn known(name: &str, names: &BTreeMap<String, usize>) -> Result<SwitchId, Problem> {
    let index = names.get(name).and_then(|index| u16::try_from(*index).ok());
    index.map(SwitchId).ok_or_else(|| Problem::UnknownSwitch(name.to_owned()))
}

fn mac(key: &'static str, text: Option<String>) -> Result<Option<Mac>, Problem> {
    text.map(|text| {
        let want = "the address of a network interface, such as \"02:00:0a:01:00:01\"";
        text.parse().map_err(|_| Problem::Value { key, value: text, want })
    })
    .transpose()
}

fn rate_of(text: &str) -> Result<u64, Problem> {
    let want = "bits a second with K, M, G or T behind, such as \"100G\"";
    rate(text).ok_or_else(|| Problem::Value { key: "rate", value: text.to_owned(), want })
}

/// Bits a second of "100G", "2.5G" or "400000000".
fn rate(text: &str) -> Option<u64> {
    let (number, scale) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1_000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        b'G' => (&text[..text.len() - 1], 1_000_000_000),
        b'T' => (&text[..text.len() - 1], 1_000_000_000_000),
        _ => (text, 1),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |text: &str| (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let part = 10_u64.pow(fraction.len() as u32);
    let fraction = fraction.parse::<u64>().ok()?.checked_mul(scale)?;
    if !fraction.is_multiple_of(part) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(fraction / part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_whole_bits_a_second() {
        assert_eq!(rate("100G"), Some(100_000_000_000));
        assert_eq!(rate("2.5G"), Some(2_500_000_000));
        assert_eq!(rate("7"), Some(7));
        assert_eq!(rate("1T"), Some(1_000_000_000_000));
        for text in
            ["", "G", "1.5", "-1G", "1e3", "1 G", "1.G", ".5G", "100g", "99999999999T", "1.0000000001G"]
        {
            assert_eq!(rate(text), None, "{text}");
        }
    }
}
