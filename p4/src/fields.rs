//! Header fields in hardware back ends: adjacent fields that are not whole bytes are merged into containers that are.
//!
//! The DPDK back end has no fields below a byte, and stateful hardware adds containers, not bit-fields. A container of
//! two fields is named after both (`version_kind`), one of more after the first and the last.

use crate::ir::*;

/// A run of fields that fills whole bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container {
    /// Name.
    pub(crate) name: String,
    /// Width in bits, a multiple of 8.
    pub(crate) bits: u32,
}

/// Position of a field in its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Index of the container in its header.
    pub(crate) container: usize,
    /// Bits below the field.
    pub(crate) shift: u32,
    /// Width of the field.
    pub(crate) bits: u32,
}

/// One column of a parser's select: a container, and value and mask of each case.
pub(crate) struct Column {
    /// The header.
    pub(crate) header: HeaderId,
    /// Index of the container.
    pub(crate) container: usize,
    /// Value and mask of each case.
    pub(crate) cases: Vec<(u64, u64)>,
}

/// The containers of every header.
#[derive(Debug, Clone)]
pub(crate) struct Containers {
    headers: Vec<(Vec<Container>, Vec<Position>)>,
}

impl Containers {
    /// Merges the fields of every header of a valid program.
    pub(crate) fn new(program: &Program) -> Self {
        Self { headers: program.headers.iter().map(merge).collect() }
    }

    /// The containers of a header, in wire order.
    pub(crate) fn of(&self, header: HeaderId) -> &[Container] {
        &self.headers[usize::from(header.0)].0
    }

    /// Position of a field.
    pub(crate) fn position(&self, header: HeaderId, field: u16) -> Position {
        self.headers[usize::from(header.0)].1[usize::from(field)]
    }

    /// The container of a field.
    pub(crate) fn container(&self, header: HeaderId, field: u16) -> &Container {
        &self.of(header)[self.position(header, field).container]
    }

    /// Whether a field is its container.
    pub(crate) fn whole(&self, header: HeaderId, field: u16) -> bool {
        self.position(header, field).bits == self.container(header, field).bits
    }

    /// The container that two adjacent fields fill together.
    pub(crate) fn joined(&self, high: &Expr, low: &Expr) -> Option<(HeaderId, &Container)> {
        let (Expr::Field(header, first), Expr::Field(other, second)) = (high, low) else { return None };
        if header != other {
            return None;
        }
        let (a, b) = (self.position(*header, *first), self.position(*header, *second));
        let container = self.container(*header, *first);
        (a.container == b.container && b.shift == 0 && a.shift == b.bits && a.bits + b.bits == container.bits)
            .then_some((*header, container))
    }

    /// The columns of a select over containers.
    pub(crate) fn columns(
        &self,
        on: &[(HeaderId, u16)],
        cases: &[(Vec<(u64, u64)>, StateId)],
    ) -> Vec<Column> {
        let mut columns: Vec<Column> = Vec::new();
        for (i, (header, field)) in on.iter().enumerate() {
            let Position { container, shift, bits } = self.position(*header, *field);
            let all = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            let found = columns.iter().position(|c| c.header == *header && c.container == container);
            let at = found.unwrap_or_else(|| {
                columns.push(Column { header: *header, container, cases: vec![(0, 0); cases.len()] });
                columns.len() - 1
            });
            for (case, (values, _)) in columns[at].cases.iter_mut().zip(cases) {
                let (value, mask) = values[i];
                case.0 |= (value & mask & all) << shift;
                case.1 |= (mask & all) << shift;
            }
        }
        columns
    }
}

fn merge(header: &Header) -> (Vec<Container>, Vec<Position>) {
    let (mut containers, mut positions) = (Vec::new(), Vec::new());
    let mut run: Vec<&Field> = Vec::new();
    for field in &header.fields {
        run.push(field);
        let bits: u32 = run.iter().map(|field| field.bits).sum();
        if !bits.is_multiple_of(8) {
            continue;
        }
        let name = match &run[..] {
            [one] => one.name.clone(),
            [first, second] => format!("{}_{}", first.name, second.name),
            all => format!("{}_to_{}", all[0].name, all[all.len() - 1].name),
        };
        let mut above = bits;
        for field in run.drain(..) {
            above -= field.bits;
            positions.push(Position { container: containers.len(), shift: above, bits: field.bits });
        }
        containers.push(Container { name, bits });
    }
    (containers, positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_byte_neighbours_share_a_container() {
        let field = |name: &str, bits| Field { name: name.into(), bits };
        let fields =
            vec![field("a", 4), field("b", 4), field("c", 16), field("d", 1), field("e", 2), field("f", 13)];
        let program = Program { headers: vec![Header { name: "h".into(), fields }], ..Program::default() };
        let containers = Containers::new(&program);
        let h = HeaderId(0);
        let names: Vec<_> = containers.of(h).iter().map(|c| (c.name.as_str(), c.bits)).collect();
        assert_eq!(names, [("a_b", 8), ("c", 16), ("d_to_f", 16)]);
        assert_eq!(containers.position(h, 0), Position { container: 0, shift: 4, bits: 4 });
        assert_eq!(containers.position(h, 4), Position { container: 2, shift: 13, bits: 2 });
        assert!(containers.whole(h, 2) && !containers.whole(h, 3));
        let (_, joined) =
            containers.joined(&Expr::Field(h, 0), &Expr::Field(h, 1)).expect("a and b fill a_b");
        assert_eq!(joined.name, "a_b");
        assert!(containers.joined(&Expr::Field(h, 1), &Expr::Field(h, 0)).is_none());
        let columns = containers
            .columns(&[(h, 0), (h, 1), (h, 2)], &[(vec![(4, 15), (5, 15), (7, u64::MAX)], StateId(1))]);
        assert_eq!(columns.len(), 2);
        assert_eq!(columns[0].cases, [(0x45, 0xff)]);
        assert_eq!(columns[1].cases, [(7, 0xffff)]);
    }
}
