//! Fabrics of any size, for tests.

use netfold_controller::topology::{
    Attachment, End, Host, HostId, Link, Member, Planes, Prefix, RATE_DEFAULT, Role, Switch, SwitchId,
    Topology,
};

pub(crate) struct Fabric {
    switches: Vec<Switch>,
    hosts: Vec<Host>,
    links: Vec<Link>,
}

impl Fabric {
    pub(crate) fn new() -> Self {
        Self { switches: Vec::new(), hosts: Vec::new(), links: Vec::new() }
    }

    pub(crate) fn switch(&mut self, name: String, role: Role) -> SwitchId {
        let id = SwitchId(self.switches.len() as u16);
        self.switches.push(Switch { role, ..Switch::software(name, None) });
        id
    }

    pub(crate) fn link(&mut self, a: SwitchId, b: SwitchId) {
        self.link_at(a, b, RATE_DEFAULT);
    }

    pub(crate) fn link_at(&mut self, a: SwitchId, b: SwitchId, rate_bps: u64) {
        let ends = [a, b].map(|switch| End { switch, port: None, mac: None });
        self.links.push(Link { ends, rate_bps });
    }

    /// A host with one address, the same in all planes.
    pub(crate) fn host(&mut self, at: &[SwitchId]) {
        let index = self.hosts.len() as u32;
        let address = Prefix::new(std::net::Ipv4Addr::from_bits(0x0a00_0001 + index).into(), 32);
        let addresses = vec![address.expect("32 bits")];
        let plane = |switch: &SwitchId| Attachment {
            switch: *switch,
            port: None,
            mac: None,
            addresses: addresses.clone(),
        };
        self.hosts.push(Host { name: format!("h{index}"), planes: at.iter().map(plane).collect() });
    }

    pub(crate) fn build(self) -> Topology {
        Topology::new(self.switches, self.hosts, self.links).expect("a fabric without mistakes")
    }
}

/// Leaves 0.., then spines, every leaf linked to every spine by so many links.
pub(crate) fn leaf_spine(leaves: u16, spines: u16, hosts: u16, parallel: u16) -> Topology {
    let mut fabric = Fabric::new();
    let below: Vec<_> = (0..leaves).map(|leaf| fabric.switch(format!("leaf{leaf}"), Role::Leaf)).collect();
    let above: Vec<_> =
        (0..spines).map(|spine| fabric.switch(format!("spine{spine}"), Role::Spine)).collect();
    for leaf in &below {
        for spine in &above {
            (0..parallel).for_each(|_| fabric.link(*leaf, *spine));
        }
        (0..hosts).for_each(|_| fabric.host(&[*leaf]));
    }
    fabric.build()
}

/// A fat tree of switches with `k` ports: `k` pods of `k / 2` edge and `k / 2` aggregation switches, `k^2 / 4` cores.
pub(crate) fn fat_tree(k: u16) -> Topology {
    let half = k / 2;
    let mut fabric = Fabric::new();
    let cores: Vec<_> =
        (0..half * half).map(|core| fabric.switch(format!("core{core}"), Role::Spine)).collect();
    for pod in 0..k {
        let aggs: Vec<_> =
            (0..half).map(|agg| fabric.switch(format!("agg{pod}.{agg}"), Role::Spine)).collect();
        for (group, agg) in aggs.iter().enumerate() {
            let first = group * usize::from(half);
            cores[first..first + usize::from(half)].iter().for_each(|core| fabric.link(*agg, *core));
        }
        for edge in 0..half {
            let edge = fabric.switch(format!("edge{pod}.{edge}"), Role::Leaf);
            aggs.iter().for_each(|agg| fabric.link(edge, *agg));
            (0..half).for_each(|_| fabric.host(&[edge]));
        }
    }
    fabric.build()
}

/// Two leaf-spines that share nothing but their hosts, each of which is at one leaf of each.
pub(crate) fn two_planes(leaves: u16, spines: u16, hosts: u16) -> Topology {
    let mut fabric = Fabric::new();
    let mut planes = Vec::new();
    for plane in 0..2 {
        let below: Vec<_> =
            (0..leaves).map(|leaf| fabric.switch(format!("leaf{plane}.{leaf}"), Role::Leaf)).collect();
        for spine in 0..spines {
            let spine = fabric.switch(format!("spine{plane}.{spine}"), Role::Spine);
            below.iter().for_each(|leaf| fabric.link(*leaf, spine));
        }
        planes.push(below);
    }
    for (one, other) in planes[0].iter().zip(&planes[1]) {
        (0..hosts).for_each(|_| fabric.host(&[*one, *other]));
    }
    fabric.build()
}

/// A worker at each of these hosts.
pub(crate) fn members(topology: &Topology, hosts: impl IntoIterator<Item = usize>) -> Vec<Member> {
    let member = |host: usize| Member {
        host: HostId(host as u32),
        planes: Planes::first(topology.hosts()[host].planes.len()),
    };
    hosts.into_iter().map(member).collect()
}
