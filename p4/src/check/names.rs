//! Names that may be printed unchanged.

use std::collections::BTreeSet;

use super::{Checked, Problem, fail};

/// Words that P4_16 or Rust reserve and that would otherwise pass for names.
const RESERVED: &[&str] = &[
    "abstract",
    "action",
    "actions",
    "apply",
    "as",
    "async",
    "await",
    "become",
    "bit",
    "bool",
    "box",
    "break",
    "const",
    "control",
    "continue",
    "crate",
    "default",
    "do",
    "dyn",
    "else",
    "entries",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "header",
    "header_union",
    "if",
    "impl",
    "in",
    "inout",
    "int",
    "let",
    "list",
    "loop",
    "macro",
    "match",
    "match_kind",
    "mod",
    "move",
    "mut",
    "out",
    "override",
    "package",
    "parser",
    "priority",
    "priv",
    "pub",
    "ref",
    "return",
    "select",
    "self",
    "size",
    "state",
    "static",
    "string",
    "struct",
    "super",
    "switch",
    "table",
    "this",
    "trait",
    "transition",
    "true",
    "try",
    "tuple",
    "type",
    "typedef",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "valueset",
    "varbit",
    "virtual",
    "void",
    "where",
    "while",
    "yield",
    "accept",
    "reject",
    "hdr",
    "meta",
    "standard_metadata",
    "main",
    "pkt",
];

/// Checks that names are lower-case identifiers, not reserved, and unique.
pub(super) fn names<'a>(at: &str, names: impl IntoIterator<Item = &'a str>) -> Checked {
    let mut known = BTreeSet::new();
    for name in names {
        let mut chars = name.chars();
        let first = chars.next().is_some_and(|c| c.is_ascii_lowercase());
        let rest = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !first || !rest || RESERVED.contains(&name) {
            return fail(at, Problem::Name(name.into()));
        }
        if !known.insert(name) {
            return fail(at, Problem::NameTwice(name.into()));
        }
    }
    Ok(())
}
