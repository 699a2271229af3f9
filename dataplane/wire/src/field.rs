//! The field table: the only definition of the Netfold header.
//!
//! Every other description of the header (views, pipeline program, generated P4, protocol page) is computed from
//! [`TABLE`] or tested against it.

/// One header field, in wire order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name, as printed in P4 and in the documentation.
    pub name: &'static str,
    /// Width in bits.
    pub bits: u32,
    /// Meaning, one line.
    pub doc: &'static str,
}

const fn field(name: &'static str, bits: u32, doc: &'static str) -> Field {
    Field { name, bits, doc }
}

/// All header fields in the order they appear on the wire, most significant bit first.
pub const TABLE: &[Field] = &[
    field("version", 4, "protocol version, 2"),
    field("kind", 4, "packet kind"),
    field("flags", 8, "flag bits"),
    field("op", 4, "lane operation: what the switch does with the lanes; see Lane operations"),
    field("class", 4, "importance class, 0 lowest; chooses queue and trimming depth"),
    field("reason", 8, "why a REJECT was sent; 0 in every other kind"),
    field("job", 16, "job number on this switch"),
    field("slot", 15, "slot, relative to the job's range"),
    field("set", 1, "which of the slot's two sets"),
    field("epoch", 32, "epoch of the job's membership"),
    field("key", 32, "job key, given at admission"),
    field("chunk", 32, "serial number of the chunk in the job's stream"),
    field("bitmap", 32, "children whose contribution is in the lanes; bit r is child r"),
    field("count", 16, "workers whose contribution is in the lanes"),
    field("exp", 8, "block exponent of the lanes in this packet, biased as in binary32"),
    field(
        "exp_next",
        8,
        "largest block exponent proposed for the chunk one look-ahead later; 255: not finite",
    ),
    field("owner", 16, "rank + 1 of the only member that receives the lanes of the result; 0: all do"),
    field("reserved", 16, "sent as 0, and not read"),
];

/// Where a field lies: offset and width in bits from the start of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Offset in bits.
    pub offset: u32,
    /// Width in bits.
    pub bits: u32,
}

/// The span of field `name`, computed at compile time.
///
/// # Panics
///
/// When no field has that name; in a `const` that is a compile error.
pub const fn span(name: &str) -> Span {
    let mut offset = 0;
    let mut i = 0;
    while i < TABLE.len() {
        if same(TABLE[i].name, name) {
            return Span { offset, bits: TABLE[i].bits };
        }
        offset += TABLE[i].bits;
        i += 1;
    }
    panic!("no such header field")
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = {
    let mut bits = 0;
    let mut i = 0;
    while i < TABLE.len() {
        bits += TABLE[i].bits;
        i += 1;
    }
    assert!(bits % 32 == 0, "lanes start on a word boundary");
    (bits / 8) as usize
};

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

impl Span {
    #[inline]
    const fn first(self) -> usize {
        (self.offset / 8) as usize
    }

    #[inline]
    const fn last(self) -> usize {
        ((self.offset + self.bits - 1) / 8) as usize
    }

    #[inline]
    const fn shift(self) -> u32 {
        (self.last() as u32 + 1) * 8 - self.offset - self.bits
    }

    #[inline]
    const fn mask(self) -> u64 {
        (1u64 << self.bits) - 1
    }

    /// Reads the field from a whole header.
    #[inline(always)]
    pub(crate) fn read(self, header: &[u8; HEADER_LEN]) -> u32 {
        let mut word = 0u64;
        let mut i = self.first();
        while i <= self.last() {
            word = (word << 8) | u64::from(header[i]);
            i += 1;
        }
        ((word >> self.shift()) & self.mask()) as u32
    }

    /// Writes the low bits of `value` into the field and leaves its neighbours alone.
    #[inline(always)]
    pub(crate) fn write(self, header: &mut [u8; HEADER_LEN], value: u32) {
        let mask = self.mask() << self.shift();
        let value = (u64::from(value) & self.mask()) << self.shift();
        let mut i = self.last() + 1;
        let mut down = 0;
        while i > self.first() {
            i -= 1;
            let keep = !((mask >> down) as u8);
            header[i] = (header[i] & keep) | (value >> down) as u8;
            down += 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_tile_the_header() {
        let mut next = 0;
        for f in TABLE {
            let s = span(f.name);
            assert_eq!((s.offset, s.bits), (next, f.bits), "{}", f.name);
            assert!(f.bits <= 32, "{}: getters return u32", f.name);
            next += f.bits;
        }
        assert_eq!(next as usize, HEADER_LEN * 8);
    }

    #[test]
    fn write_touches_only_its_own_bits() {
        for f in TABLE {
            let s = span(f.name);
            for fill in [0x00u8, 0xff, 0xa5] {
                let before = [fill; HEADER_LEN];
                let mut after = before;
                s.write(&mut after, 0x5a5a_5a5a);
                assert_eq!(s.read(&after), 0x5a5a_5a5a & s.mask() as u32, "{}", f.name);
                s.write(&mut after, s.read(&before));
                assert_eq!(before, after, "{}", f.name);
            }
        }
    }
}
