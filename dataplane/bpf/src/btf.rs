//! BTF, the type information by which the kernel finds the lock in a map's value (Documentation/bpf/btf.rst).

/// Identifier of the key's type in what [`locked_value`] returns: an integer of 32 bits.
pub const KEY: u32 = 1;
/// Identifier of the value's type.
pub const VALUE: u32 = 4;

const KIND_INT: u32 = 1 << 24;
const KIND_ARRAY: u32 = 3 << 24;
const KIND_STRUCT: u32 = 4 << 24;

/// Types of a map whose value is a `bpf_spin_lock`, followed by `words` words of 32 bits.
pub fn locked_value(words: u32) -> Vec<u8> {
    const NAMES: &[u8] = b"\0u32\0bpf_spin_lock\0slot\0lock\0cells\0";
    let name = |wanted: &[u8]| {
        let at = NAMES.windows(wanted.len() + 2).position(|part| {
            part[0] == 0 && part[wanted.len() + 1] == 0 && &part[1..=wanted.len()] == wanted
        });
        at.map_or(0, |at| at as u32 + 1)
    };
    let types: Vec<u32> = [
        // 1: u32, 32 bits.
        vec![name(b"u32"), KIND_INT, 4, 32],
        // 2: struct bpf_spin_lock, of one member.
        vec![name(b"bpf_spin_lock"), KIND_STRUCT | 1, 4, name(b"lock"), KEY, 0],
        // 3: an array of words.
        vec![0, KIND_ARRAY, 0, KEY, KEY, words],
        // 4: the value.
        vec![name(b"slot"), KIND_STRUCT | 2, 4 + 4 * words, name(b"lock"), 2, 0, name(b"cells"), 3, 32],
    ]
    .concat();
    let (types_len, names_len) = (types.len() as u32 * 4, NAMES.len() as u32);
    // Magic, version 1, no flags; then the header's length, and where types and names are.
    let mut bytes = Vec::new();
    bytes.extend(0xeb9f_u16.to_ne_bytes());
    bytes.extend([1, 0]);
    let words = [24, 0, types_len, types_len, names_len].into_iter().chain(types);
    bytes.extend(words.flat_map(u32::to_ne_bytes));
    bytes.extend(NAMES);
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn lengths_and_names_are_right() {
        let bytes = super::locked_value(7);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        assert_eq!((word(4), word(8), word(12), word(12)), (24, 0, word(16 - 4), word(16 - 4)));
        assert_eq!(bytes.len(), 24 + word(12) as usize + word(20) as usize);
        let names = &bytes[24 + word(12) as usize..];
        let at = word(24) as usize;
        assert_eq!(&names[at..at + 4], b"u32\0");
    }
}
