//! The calls that make a pipeline of a specification.
#![expect(unsafe_code, reason = "DPDK is a foreign library")]

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use super::SwxError;
use super::memory::{self, Memory, Object, PortArgs};
use super::operands::split;
use super::spec::{Array, Spec, Struct, Table};
use crate::{eal, sys};

/// Name of the type of ports.
const PORT_TYPE: &std::ffi::CStr = c"netfold";
/// Name of the one function of external objects.
const FUNCTION: &std::ffi::CStr = c"run";
/// The label of the drop that is added at the end.
const DROP: &str = "netfold_drop";
/// Structure, header and field that are added: an instruction reads and writes 8 bytes at a time, so the last field of a structure needs bytes behind it.
const SLACK: &str = "netfold_slack";
/// A metadata field that is added: an index of a register array.
const INDEX: &str = "netfold_index";

/// A pipeline under construction; freed when it is dropped.
pub(super) struct Raw(pub(super) *mut sys::rte_swx_pipeline);

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: the pipeline was made by `rte_swx_pipeline_config`, is freed once, and nothing runs it.
        unsafe { sys::rte_swx_pipeline_free(self.0) };
    }
}

/// A copy of a string for DPDK. Words of a specification contain no zero byte, or are cut there and then not found.
fn text(word: &str) -> CString {
    let end = word.find('\0').unwrap_or(word.len());
    CString::new(&word[..end]).unwrap_or_default()
}

fn refused(rc: c_int, line: u32, construct: impl Into<String>) -> Result<(), SwxError> {
    if rc == 0 {
        return Ok(());
    }
    Err(SwxError::Refused { line, construct: construct.into(), source: eal::error(rc) })
}

impl Raw {
    /// An empty pipeline.
    pub(super) fn new() -> Result<Self, SwxError> {
        let mut raw = ptr::null_mut();
        // SAFETY: DPDK runs. It writes the pipeline's address, and needs no name; -1 stands for any memory node.
        let rc = unsafe { sys::rte_swx_pipeline_config(&raw mut raw, ptr::null(), -1) };
        refused(rc, 0, "an empty pipeline")?;
        Ok(Self(raw))
    }

    /// Adds ports: `inputs`, and one output more than `outputs`, to which dropped packets go.
    pub(super) fn ports(&self, memory: *mut Memory, inputs: u32, outputs: u32) -> Result<(), SwxError> {
        let (mut receive, mut send) = (memory::inputs(), memory::outputs());
        // SAFETY: a pipeline that is not built yet, and structures that DPDK copies.
        let rc = unsafe {
            sys::rte_swx_pipeline_port_in_type_register(self.0, PORT_TYPE.as_ptr(), &raw mut receive)
        };
        refused(rc, 0, "the type of input ports")?;
        // SAFETY: as above.
        let rc = unsafe {
            sys::rte_swx_pipeline_port_out_type_register(self.0, PORT_TYPE.as_ptr(), &raw mut send)
        };
        refused(rc, 0, "the type of output ports")?;
        for number in 0..inputs {
            let mut args = PortArgs { memory, number };
            // SAFETY: the ports' functions expect these arguments, and read them in this call only.
            let rc = unsafe {
                sys::rte_swx_pipeline_port_in_config(
                    self.0,
                    number,
                    PORT_TYPE.as_ptr(),
                    (&raw mut args).cast(),
                )
            };
            refused(rc, 0, format!("input port {number}"))?;
        }
        for number in 0..=outputs {
            let mut args = PortArgs { memory, number };
            // SAFETY: as above.
            let rc = unsafe {
                sys::rte_swx_pipeline_port_out_config(
                    self.0,
                    number,
                    PORT_TYPE.as_ptr(),
                    (&raw mut args).cast(),
                )
            };
            refused(rc, 0, format!("output port {number}"))?;
        }
        Ok(())
    }

    /// Adds everything in the specification, and builds the pipeline.
    pub(super) fn configure(&self, spec: &Spec, memory: *mut Memory, outputs: u32) -> Result<(), SwxError> {
        self.types(spec)?;
        for number in 0..spec.objects.len() {
            self.object(spec, number, memory)?;
        }
        spec.arrays.iter().try_for_each(|array| self.array(array))?;
        for action in &spec.actions {
            let (name, of) = (text(&action.is.name), action.is.of.as_deref().map(text));
            let of = of.as_ref().map_or(ptr::null(), |of| of.as_ptr());
            let code = corrected(&action.code, outputs, false);
            let mut lines: Vec<*const c_char> = code.iter().map(|line| line.as_ptr()).collect();
            let count = lines.len() as u32;
            // SAFETY: strings, and an array of `count` of them, which DPDK copies.
            let rc = unsafe {
                sys::rte_swx_pipeline_action_config(self.0, name.as_ptr(), of, lines.as_mut_ptr(), count)
            };
            refused(rc, action.is.line, format!("action '{}'", action.is.name))?;
        }
        spec.tables.iter().try_for_each(|table| self.table(table))?;
        let code = corrected(&spec.apply, outputs, true);
        let mut lines: Vec<*const c_char> = code.iter().map(|line| line.as_ptr()).collect();
        let line = spec.apply.first().map_or(0, |(line, _)| *line);
        // SAFETY: an array of as many strings as it says, which DPDK copies.
        let rc = unsafe {
            sys::rte_swx_pipeline_instructions_config(self.0, lines.as_mut_ptr(), lines.len() as u32)
        };
        refused(rc, line, format!("the {} instructions of 'apply'", lines.len()))?;
        // SAFETY: a pipeline that was configured and not built yet.
        let rc = unsafe { sys::rte_swx_pipeline_build(self.0) };
        refused(rc, 0, "to build the pipeline")
    }

    fn types(&self, spec: &Spec) -> Result<(), SwxError> {
        let metadata = spec.metadata.as_ref().and_then(|metadata| metadata.of.as_deref());
        for structure in &spec.structs {
            let is_mailbox = spec
                .objects
                .iter()
                .any(|object| spec.mailbox(object).is_some_and(|mailbox| mailbox.name == structure.name));
            self.structure(structure, is_mailbox || metadata == Some(&structure.name))?;
        }
        let slack = Struct { line: 0, name: SLACK.into(), fields: Vec::new() };
        self.structure(&slack, true)?;
        let of = |of: &Option<String>| of.as_deref().map(text).unwrap_or_default();
        for header in &spec.headers {
            self.header(header.line, &header.name, &of(&header.of))?;
        }
        self.header(0, SLACK, &text(SLACK))?;
        let Some(metadata) = &spec.metadata else {
            return Err(SwxError::Spec { line: 0, what: "there is no metadata structure".into() });
        };
        let name = of(&metadata.of);
        // SAFETY: a string that DPDK copies.
        let rc = unsafe { sys::rte_swx_pipeline_packet_metadata_register(self.0, name.as_ptr()) };
        refused(rc, metadata.line, "the metadata")
    }

    fn header(&self, line: u32, name: &str, of: &CString) -> Result<(), SwxError> {
        let text = text(name);
        // SAFETY: strings that DPDK copies.
        let rc = unsafe { sys::rte_swx_pipeline_packet_header_register(self.0, text.as_ptr(), of.as_ptr()) };
        refused(rc, line, format!("header '{name}'"))
    }

    /// An external object, and its type unless an object before it has the same.
    fn object(&self, spec: &Spec, number: usize, memory: *mut Memory) -> Result<(), SwxError> {
        let object = &spec.objects[number];
        let Some(mailbox) = spec.mailbox(object) else { return Ok(()) };
        let (name, kind) = (text(&object.name), text(object.of.as_deref().unwrap_or_default()));
        if spec.objects[..number].iter().all(|before| before.of != object.of) {
            let mailbox = text(&mailbox.name);
            // SAFETY: a pipeline that is not built yet, strings that DPDK copies, and functions of the types that it calls.
            let rc = unsafe {
                sys::rte_swx_pipeline_extern_type_register(
                    self.0,
                    kind.as_ptr(),
                    mailbox.as_ptr(),
                    Some(memory::create_object),
                    Some(memory::free_object),
                )
            };
            refused(rc, object.line, format!("the type of external object '{}'", object.name))?;
            // SAFETY: as above.
            let rc = unsafe {
                sys::rte_swx_pipeline_extern_type_member_func_register(
                    self.0,
                    kind.as_ptr(),
                    FUNCTION.as_ptr(),
                    Some(memory::run_object),
                )
            };
            refused(rc, object.line, format!("the function of external object '{}'", object.name))?;
        }
        let args = Object { memory, number, fields: mailbox.fields.len() };
        // SAFETY: strings that DPDK copies, and arguments that it passes to `create_object` as they are, in this call only.
        let rc = unsafe {
            sys::rte_swx_pipeline_extern_object_config(
                self.0,
                kind.as_ptr(),
                name.as_ptr(),
                (&raw const args).cast(),
            )
        };
        refused(rc, object.line, format!("external object '{}'", object.name))
    }

    fn structure(&self, structure: &Struct, slack: bool) -> Result<(), SwxError> {
        let more = slack.then(|| [(INDEX.to_owned(), 32), (SLACK.to_owned(), 64)]);
        let names: Vec<(CString, u32)> = structure
            .fields
            .iter()
            .chain(more.iter().flatten())
            .map(|(name, bits)| (text(name), *bits))
            .collect();
        let field =
            |(name, bits): &(CString, u32)| sys::rte_swx_field_params { name: name.as_ptr(), n_bits: *bits };
        let mut fields: Vec<_> = names.iter().map(field).collect();
        let (name, count) = (text(&structure.name), fields.len() as u32);
        // SAFETY: a string and an array of `count` fields, whose names are alive; DPDK copies them.
        let rc = unsafe {
            sys::rte_swx_pipeline_struct_type_register(self.0, name.as_ptr(), fields.as_mut_ptr(), count, 0)
        };
        refused(rc, structure.line, format!("structure '{}'", structure.name))
    }

    fn array(&self, array: &Array) -> Result<(), SwxError> {
        let name = text(&array.name);
        // SAFETY: a string that DPDK copies.
        let rc = unsafe {
            sys::rte_swx_pipeline_regarray_config(self.0, name.as_ptr(), array.size, array.initial)
        };
        refused(rc, array.line, format!("register array '{}' of {} entries", array.name, array.size))
    }

    fn table(&self, table: &Table) -> Result<(), SwxError> {
        let keys: Vec<(CString, bool)> =
            table.keys.iter().map(|(name, exact)| (text(name), *exact)).collect();
        let key = |(name, exact): &(CString, bool)| sys::rte_swx_match_field_params {
            name: name.as_ptr(),
            match_type: if *exact {
                sys::RTE_SWX_TABLE_MATCH_EXACT
            } else {
                sys::RTE_SWX_TABLE_MATCH_WILDCARD
            },
        };
        let mut fields: Vec<_> = keys.iter().map(key).collect();
        let actions: Vec<CString> = table.actions.iter().map(|name| text(name)).collect();
        let mut action_names: Vec<*const c_char> = actions.iter().map(|name| name.as_ptr()).collect();
        let (name, default) = (text(&table.name), text(&table.default));
        let default_args = table.default_args.as_deref().map(text);
        let mut params = sys::rte_swx_pipeline_table_params {
            fields: fields.as_mut_ptr(),
            n_fields: fields.len() as u32,
            action_names: action_names.as_mut_ptr(),
            action_is_for_table_entries: ptr::null_mut(),
            action_is_for_default_entry: ptr::null_mut(),
            n_actions: action_names.len() as u32,
            default_action_name: default.as_ptr(),
            default_action_args: default_args.as_ref().map_or(ptr::null(), |args| args.as_ptr()),
            default_action_is_const: table.default_const.into(),
            hash_func_name: ptr::null(),
        };
        // DPDK searches a table's actions for the default without looking at their number.
        if !table.actions.contains(&table.default) {
            let what = format!(
                "the default action '{}' of table '{}' is none of its actions",
                table.default, table.name
            );
            return Err(SwxError::Spec { line: table.line, what });
        }
        // SAFETY: parameters whose strings and arrays are alive, and as long as they say; DPDK copies them. No table type is
        // recommended, and there are no arguments.
        let rc = unsafe {
            sys::rte_swx_pipeline_table_config(
                self.0,
                name.as_ptr(),
                &raw mut params,
                ptr::null(),
                ptr::null(),
                table.size,
            )
        };
        refused(rc, table.line, format!("table '{}'", table.name))
    }
}

/// The instructions with what DPDK 22.11 does wrong replaced:
/// - It frees dropped packets as its own buffers, and does not check the number of a port. So packets that are dropped, or sent to a port that does not exist, go
///   to the port behind the last.
/// - `regadd` and `regwr` with two numbers access the first register array, whatever they name. So the index is moved to metadata.
/// - `jmplt` and `jmpgt` take a number as the second operand alone, and `p4c-dpdk` prints it as the first, too. So these are turned around.
fn corrected(code: &[(u32, String)], outputs: u32, whole: bool) -> Vec<CString> {
    let mut lines = Vec::with_capacity(code.len() + 8);
    for (_, line) in code {
        let (label, words) = split(line);
        let label = label.map_or(String::new(), |label| format!("{label} : "));
        match words[..] {
            ["drop"] => lines.push(text(&format!("{label}tx {outputs}"))),
            ["tx", port] if port.starts_with("m.") => {
                lines.push(text(&format!("{label}jmpgt {DROP} {port} {}", outputs - 1)));
                lines.push(text(&format!("tx {port}")));
            }
            ["tx", port] => {
                let known = port.parse().or_else(|_| u32::from_str_radix(port.trim_start_matches("0x"), 16));
                let port = known.unwrap_or(outputs).min(outputs);
                lines.push(text(&format!("{label}tx {port}")));
            }
            [mnemonic @ ("regadd" | "regwr"), array, index, value]
                if is_number(index) && is_number(value) =>
            {
                lines.push(text(&format!("{label}mov m.{INDEX} {index}")));
                lines.push(text(&format!("{mnemonic} {array} m.{INDEX} {value}")));
            }
            [mnemonic @ ("jmplt" | "jmpgt"), to, left, right] if is_number(left) && !is_number(right) => {
                let turned = if mnemonic == "jmplt" { "jmpgt" } else { "jmplt" };
                lines.push(text(&format!("{label}{turned} {to} {right} {left}")));
            }
            _ => lines.push(text(line)),
        }
    }
    if whole {
        lines.push(text(&format!("{DROP} : tx {outputs}")));
    }
    lines
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}
