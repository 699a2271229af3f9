//! The Wireshark dissector's definitions, from the wire crate.

use std::fmt::Write as _;

use anyhow::Result;
use netfold_proto::LANE_WORDS_MIN;
use netfold_wire::field::{self, HEADER_LEN};
use netfold_wire::{Flags, Kind, LaneOp, Reason, UDP_PORT, VERSION};

use super::generated::Part;

/// The dissector's tables: fields, kinds, lane operations, reasons and flags.
pub(super) const DEFINITIONS: Part = Part {
    file: "dataplane/wire/wireshark/netfold.lua",
    begin: "-- definitions: generated from netfold-wire by `cargo xtask tidy --fix`",
    end: "-- definitions: end",
    text: definitions,
};

/// Differences between the dissector and the code.
pub(super) fn check() -> Result<Vec<String>> {
    Ok(Vec::from_iter(DEFINITIONS.check()?))
}

fn definitions() -> String {
    let mut text = format!(
        "local UDP_PORT = {UDP_PORT}\nlocal VERSION = {VERSION}\nlocal HEADER_LEN = {HEADER_LEN}\n\
         -- The least number of lane words that a pipeline may have.\nlocal LANE_WORDS_MIN = {LANE_WORDS_MIN}\n\
         -- Offset and width in bits; the bytes that the field lies in, and its mask there.\nlocal FIELDS = {{\n"
    );
    let mut offset = 0;
    for field in field::TABLE {
        text.push_str(&row(field, offset));
        offset += field.bits;
    }
    text.push_str("}\n");
    codes(&mut text, "KINDS", Kind::ALL.iter().map(|kind| (*kind as u8, kind.name())));
    codes(&mut text, "OPS", LaneOp::ALL.iter().map(|op| (*op as u8, op.name())));
    codes(&mut text, "REASONS", Reason::ALL.iter().map(|reason| (*reason as u8, reason.name())));
    text.push_str("local FLAGS = {\n");
    for (flag, name) in Flags::ALL {
        let _ = writeln!(text, "    {{ name = \"{name}\", mask = {:#04x} }},", flag.0);
    }
    text.push_str("}\n");
    text
}

/// A field of the header that begins `offset` bits behind its start.
fn row(field: &field::Field, offset: u32) -> String {
    let (first, last) = (offset / 8, (offset + field.bits - 1) / 8);
    let bytes = last - first + 1;
    let ones = (1_u64 << field.bits) - 1;
    let mask = ones << ((last + 1) * 8 - offset - field.bits);
    let mask = if field.bits == bytes * 8 { "nil".to_owned() } else { format!("{mask:#x}") };
    let (name, bits, doc) = (field.name, field.bits, field.doc.replace('\\', "\\\\").replace('"', "\\\""));
    format!(
        "    {{ name = \"{name}\", offset = {offset}, bits = {bits}, first = {first}, bytes = {bytes}, \
         mask = {mask},\n      doc = \"{doc}\" }},\n"
    )
}

fn codes<'n>(text: &mut String, name: &str, codes: impl Iterator<Item = (u8, &'n str)>) {
    let list: Vec<String> = codes.map(|(code, name)| format!("[{code}] = \"{name}\"")).collect();
    let _ = writeln!(text, "local {name} = {{ {} }}", list.join(", "));
}
