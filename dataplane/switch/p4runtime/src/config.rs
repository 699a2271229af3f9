//! A pipeline that a controller sets: the program and its P4Info, which must match.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use netfold_p4::ir::Program;
use netfold_p4::p4info as ids;
use netfold_p4::p4info::{RegisterCell, register_cells};
use netfold_p4_runtime::config::P4Info;
use netfold_p4_runtime::{Schema, config, p4info, v1};
use netfold_switch::{Pipeline, pipeline_for};
use netfold_wire::header;

use crate::fault::Fault;

/// A pipeline, or why there is none.
type Built = Result<Box<dyn Pipeline>, Box<dyn Error + Send + Sync>>;

/// Makes pipelines of programs.
#[derive(Clone, Copy)]
pub struct Engine(pub fn(&Program) -> Built);

impl Default for Engine {
    /// [`pipeline_for`]: generated code where there is some, the interpreter for other programs.
    fn default() -> Self {
        Self(|program| Ok(pipeline_for(program)?.0))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

/// A pipeline that fits this switch, indexed for later requests.
pub(crate) struct PipelineConfig {
    pub(crate) program: Program,
    pub(crate) schema: Schema,
    /// Registers by P4Info id.
    pub(crate) registers: BTreeMap<u32, RegisterCell>,
    /// Sizes of counters by P4Info id.
    pub(crate) counters: BTreeMap<u32, u32>,
    /// The config as received.
    pub(crate) pushed: v1::ForwardingPipelineConfig,
    /// The P4Info derived from the program.
    pub(crate) info: P4Info,
}

impl PipelineConfig {
    /// Validates a pipeline config; `datagram_len_max` is the longest packet of the data path, in bytes.
    pub(crate) fn check(
        pushed: v1::ForwardingPipelineConfig,
        datagram_len_max: usize,
    ) -> Result<Self, Fault> {
        let Some(theirs) = &pushed.p4info else {
            return Err(Fault::invalid("the config has no p4info"));
        };
        if pushed.p4_device_config.is_empty() {
            return Err(Fault::invalid(
                "the config has no p4_device_config: give it the program as `netfold p4 emit --target ir` prints it",
            ));
        }
        let program = Program::from_json(&pushed.p4_device_config)
            .map_err(|error| Fault::invalid(format!("p4_device_config: {}", chain(&error))))?;
        let (info, schema) = describe(&program)?;
        if let Some(what) = difference(&info, theirs) {
            return Err(Fault::invalid(format!("the p4info is not that of the program: {what}")));
        }
        Self::new(program, info, schema, pushed, datagram_len_max)
    }

    /// The pipeline config of a program that the switch was started with.
    pub(crate) fn own(program: &Program, datagram_len_max: usize) -> Result<Self, Fault> {
        let (info, schema) = describe(program)?;
        let pushed = v1::ForwardingPipelineConfig {
            p4info: Some(info.clone()),
            p4_device_config: program.to_json().into_bytes(),
            cookie: None,
        };
        Self::new(program.clone(), info, schema, pushed, datagram_len_max)
    }

    fn new(
        program: Program,
        info: P4Info,
        schema: Schema,
        pushed: v1::ForwardingPipelineConfig,
        datagram_len_max: usize,
    ) -> Result<Self, Fault> {
        if program.ipv4_checksum.is_some() {
            return Err(Fault::invalid(
                "the program sees outer headers, but this switch's sockets handle them: print it with --datagram",
            ));
        }
        let datagram = header::LEN + program.lane_bytes() as usize;
        if datagram > datagram_len_max {
            return Err(Fault::invalid(format!(
                "the program's packets have {datagram} bytes, but this switch was started for {datagram_len_max}"
            )));
        }
        let registers = register_cells(&program).into_iter().map(|cell| (cell.id, cell)).collect();
        let counters = program.counters.iter().map(|counter| (ids::counter_id(counter.id), counter.size));
        let counters = counters.collect();
        Ok(Self { program, schema, registers, counters, pushed, info })
    }

    /// The pipeline, empty and zeroed.
    pub(crate) fn build(&self, engine: Engine) -> Result<Box<dyn Pipeline>, Fault> {
        engine.0(&self.program).map_err(|error| Fault::invalid(chain(&*error)))
    }

    /// The description of a table in P4Info.
    pub(crate) fn table(&self, id: u32) -> Option<&config::Table> {
        self.info.tables.iter().find(|table| table.preamble.as_ref().is_some_and(|p| p.id == id))
    }
}

fn describe(program: &Program) -> Result<(P4Info, Schema), Fault> {
    let failed = |error: &dyn std::error::Error| Fault::invalid(format!("no p4info of the program: {error}"));
    let info = p4info(program).map_err(|error| failed(&error))?;
    let schema = Schema::new(&info).map_err(|error| failed(&error))?;
    Ok((info, schema))
}

/// The first difference between a received P4Info and the program's own. Order, annotations and documentation are ignored.
fn difference(ours: &P4Info, theirs: &P4Info) -> Option<String> {
    let others = [
        ("action profile", theirs.action_profiles.len()),
        ("direct counter", theirs.direct_counters.len()),
        ("meter", theirs.meters.len()),
        ("direct meter", theirs.direct_meters.len()),
        ("controller header", theirs.controller_packet_metadata.len()),
        ("value set", theirs.value_sets.len()),
        ("digest", theirs.digests.len()),
        ("extern", theirs.externs.len()),
    ];
    if let Some((what, _)) = others.iter().find(|(_, len)| *len > 0) {
        return Some(format!("the program has no {what}"));
    }
    let table = |table: &config::Table| {
        let mut table = config::Table { other_properties: None, ..table.clone() };
        plain(&mut table.preamble);
        table.action_refs.iter_mut().for_each(|action| action.annotations.clear());
        table.action_refs.sort_by_key(|action| action.id);
        table.match_fields.sort_by_key(|field| field.id);
        table
    };
    let action = |action: &config::Action| {
        let mut action = action.clone();
        plain(&mut action.preamble);
        action.params.sort_by_key(|param| param.id);
        action
    };
    let counter = |counter: &config::Counter| {
        let mut counter = counter.clone();
        plain(&mut counter.preamble);
        counter
    };
    let register = |register: &config::Register| {
        let mut register = register.clone();
        plain(&mut register.preamble);
        register
    };
    fn plain(preamble: &mut Option<config::Preamble>) {
        if let Some(preamble) = preamble {
            let (id, name) = (preamble.id, std::mem::take(&mut preamble.name));
            *preamble = config::Preamble { id, name, ..config::Preamble::default() };
        }
    }
    fn id(preamble: &Option<config::Preamble>) -> u32 {
        preamble.as_ref().map_or(0, |preamble| preamble.id)
    }
    first_difference("table", ours.tables.iter().map(table), theirs.tables.iter().map(table), |t| {
        id(&t.preamble)
    })
    .or_else(|| {
        let (ours, theirs) = (ours.actions.iter().map(action), theirs.actions.iter().map(action));
        first_difference("action", ours, theirs, |a| id(&a.preamble))
    })
    .or_else(|| {
        let (ours, theirs) = (ours.counters.iter().map(counter), theirs.counters.iter().map(counter));
        first_difference("counter", ours, theirs, |c| id(&c.preamble))
    })
    .or_else(|| {
        let (ours, theirs) = (ours.registers.iter().map(register), theirs.registers.iter().map(register));
        first_difference("register", ours, theirs, |r| id(&r.preamble))
    })
}

/// The first object that differs between two lists.
fn first_difference<T: PartialEq>(
    what: &str,
    ours: impl Iterator<Item = T>,
    theirs: impl Iterator<Item = T>,
    id: impl Fn(&T) -> u32,
) -> Option<String> {
    let mut left: BTreeMap<u32, T> = ours.map(|object| (id(&object), object)).collect();
    for object in theirs {
        let id = id(&object);
        match left.remove(&id) {
            Some(same) if same == object => {}
            Some(_) => return Some(format!("{what} {id:#x} differs")),
            None => return Some(format!("{what} {id:#x} is not in the program, or is repeated")),
        }
    }
    left.keys().next().map(|id| format!("{what} {id:#x} of the program is missing"))
}

/// An error and its sources in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
