//! The header's enums name what the tables of `netfold-wire` name, with the same codes.

use std::path::Path;

use netfold_wire::{Collective, DType, Mode, ReduceOp};

/// `NAME = code` of every enumerator that begins with `prefix`, by code; names in the form of the tables.
fn enumerators(header: &str, prefix: &str) -> Vec<(String, u8)> {
    let mut found: Vec<(String, u8)> = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix(prefix)?.strip_suffix(',')?.split_once(" = "))
        .map(|(name, code)| (name.to_lowercase(), code.parse().expect("a code of one byte")))
        .collect();
    found.sort_by_key(|(_, code)| *code);
    found
}

#[test]
fn the_header_names_every_collective_type_reduction_and_mode() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/netfold/netfold.h");
    let header = std::fs::read_to_string(path).unwrap();
    let rows = |rows: Vec<(&str, u8)>| -> Vec<(String, u8)> {
        rows.into_iter().map(|(name, code)| (name.to_owned(), code)).collect()
    };
    let collectives = Collective::ALL.iter().map(|row| (row.name(), row.code())).collect();
    let dtypes = DType::ALL.iter().filter(|row| **row != DType::None);
    let dtypes = dtypes.map(|row| (row.name(), row.code())).collect();
    let reductions = ReduceOp::ALL.iter().map(|row| (row.name(), row.code())).collect();
    let modes = Mode::ALL.iter().map(|row| (row.name(), row.code())).collect();
    assert_eq!(enumerators(&header, "NETFOLD_COLLECTIVE_"), rows(collectives));
    assert_eq!(enumerators(&header, "NETFOLD_DTYPE_"), rows(dtypes));
    assert_eq!(enumerators(&header, "NETFOLD_OP_"), rows(reductions));
    assert_eq!(enumerators(&header, "NETFOLD_MODE_"), rows(modes));
}
