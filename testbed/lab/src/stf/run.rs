//! A script executed on a pipeline of the software switch.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use netfold_p4::allreduce;
use netfold_p4::entry::{EntryError, FieldMatch, Replica, TableEntry};
use netfold_p4::ir::{MatchKind, Program, RegisterKind, Table};
use netfold_p4::p4info::{action_id, counter_id, table_id};
use netfold_p4::profile::Profile;
use netfold_switch::Pipeline;

use super::sequence::bits;
use super::{Masked, Pattern, Script, Statement};
use crate::differential::{Arrival, Group, Player, Sequence};

/// A statement that cannot be executed.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct RunError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and what there is.
    pub problem: String,
}

/// An expectation that was not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Line of the expectation, or of the packet for which something unexpected left.
    pub line: usize,
    /// What happened.
    pub what: String,
}

/// What executing a script has shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StfOutcome {
    /// Packets sent in.
    pub packets: u64,
    /// Expectations and counters that were met.
    pub met: u64,
    /// What was not as expected, in order.
    pub failures: Vec<Failure>,
    /// What `register_read` showed, by line.
    pub shown: Vec<(usize, String)>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Executes a script on an empty pipeline of the program.
///
/// # Errors
///
/// The first statement that names what the program has not, or that its tables refuse.
pub fn run(script: &Script, program: &Program, pipeline: Box<dyn Pipeline>) -> Result<StfOutcome, RunError> {
    let mut sequence = Sequence::empty();
    set_up(script, program, &mut sequence)?;
    let refused =
        |error: EntryError| RunError { line: 0, problem: format!("a table refuses an entry: {error}") };
    let player = Player::new(pipeline, &sequence).map_err(refused)?;
    Runner { program, player, expected: BTreeMap::new(), outcome: StfOutcome::default() }.play(script)
}

/// The script as a sequence for the profile's program: entries, groups and packets, without what it expects. Queues are empty.
///
/// # Errors
///
/// As [`run`]; line 0 when the profile is out of range.
pub fn to_sequence(script: &Script, profile: &Profile) -> Result<Sequence, RunError> {
    let program =
        allreduce::program(profile).map_err(|error| RunError { line: 0, problem: error.to_string() })?;
    let mut sequence = Sequence { profile: profile.clone(), ..Sequence::empty() };
    set_up(script, &program, &mut sequence)?;
    for (_, statement) in &script.statements {
        if let Statement::Packet { port, bytes } = statement {
            sequence.packets.push(Arrival { port: *port, bytes: bytes.clone(), queue_depth: 0 });
        }
    }
    Ok(sequence)
}

/// The script's entries and groups.
fn set_up(script: &Script, program: &Program, sequence: &mut Sequence) -> Result<(), RunError> {
    let mut nodes = Vec::new();
    for (line, statement) in &script.statements {
        let at = |problem: String| RunError { line: *line, problem };
        match statement {
            Statement::Add { .. } => sequence.entries.push(entry(program, statement).map_err(at)?),
            Statement::GroupCreate(id) => sequence.groups.push(Group { id: *id, replicas: Vec::new() }),
            Statement::NodeCreate { instance, ports } => nodes.push((*instance, ports.clone())),
            Statement::NodeAssociate { group, node } => {
                let (instance, ports) =
                    nodes.get(*node).ok_or_else(|| at(format!("node {node} was not created")))?;
                let group = sequence.groups.iter_mut().find(|known| known.id == *group);
                let group = group.ok_or_else(|| at("the group was not created".into()))?;
                group.replicas.extend(ports.iter().map(|port| Replica { port: *port, instance: *instance }));
            }
            _ => {}
        }
    }
    Ok(())
}

struct Runner<'a> {
    program: &'a Program,
    player: Player<'a>,
    /// Expectations by port, with their lines, and packets that left before anything was expected.
    expected: BTreeMap<u16, VecDeque<(usize, Option<Pattern>)>>,
    outcome: StfOutcome,
}

impl Runner<'_> {
    /// Expectations may stand before or behind the packet that meets them: what leaves is compared at the end.
    fn play(mut self, script: &Script) -> Result<StfOutcome, RunError> {
        let mut left: Vec<(usize, u16, Vec<u8>)> = Vec::new();
        for (line, statement) in &script.statements {
            match statement {
                Statement::Packet { port, bytes } => {
                    let arrival = Arrival { port: *port, bytes: bytes.clone(), queue_depth: 0 };
                    let copies = self.player.feed(&arrival);
                    left.extend(copies.into_iter().map(|copy| (*line, copy.port, copy.bytes)));
                    self.outcome.packets += 1;
                }
                Statement::Expect { port, pattern } => {
                    self.expected.entry(*port).or_default().push_back((*line, pattern.clone()));
                }
                Statement::CheckCounter { .. } => self.check_counter(*line, statement)?,
                Statement::RegisterRead { name, index } => self.show(*line, name, *index)?,
                _ => {}
            }
        }
        for (line, port, bytes) in left {
            self.compare(line, port, &bytes);
        }
        for (port, expected) in std::mem::take(&mut self.expected) {
            for (line, _) in expected {
                self.fail(line, format!("no packet left port {port} for this"));
            }
        }
        Ok(self.outcome)
    }

    fn fail(&mut self, line: usize, what: String) {
        self.outcome.failures.push(Failure { line, what });
    }

    fn compare(&mut self, sent: usize, port: u16, bytes: &[u8]) {
        match self.expected.get_mut(&port).and_then(VecDeque::pop_front) {
            None => {
                self.fail(sent, format!("{} bytes left port {port}, where nothing is expected", bytes.len()))
            }
            Some((_, None)) => self.outcome.met += 1,
            Some((_, Some(pattern))) if pattern.matches(bytes) => self.outcome.met += 1,
            Some((line, Some(pattern))) => {
                let found = Pattern::exactly(bytes);
                self.fail(
                    line,
                    format!(
                        "the packet of line {sent} left port {port} as\n  {found}\nand not as\n  {pattern}"
                    ),
                );
            }
        }
    }

    fn check_counter(&mut self, line: usize, statement: &Statement) -> Result<(), RunError> {
        let Statement::CheckCounter { name, index, condition } = statement else { return Ok(()) };
        let at = |problem: String| RunError { line, problem };
        let counter = named(name, &self.program.counters, |counter| &counter.name).map_err(at)?;
        let counted = self.player.pipeline().counters(counter_id(counter.id));
        let Some(found) = counted.get(*index).copied() else {
            return Err(at(format!("{name} has {} cells", counted.len())));
        };
        match condition {
            Some((comparison, number)) if !comparison.holds(found, *number) => {
                self.fail(line, format!("{name}({index}) is {found}, not {comparison} {number}"));
            }
            _ => self.outcome.met += 1,
        }
        Ok(())
    }

    /// A register as it is printed in P4 is one cell, or one lane, of a register of the program.
    fn show(&mut self, line: usize, name: &str, index: usize) -> Result<(), RunError> {
        let wanted = last_part(name);
        for register in &self.program.registers {
            let Some(part) =
                wanted.strip_prefix(register.name.as_str()).and_then(|rest| rest.strip_prefix('_'))
            else {
                continue;
            };
            let at = match &register.kind {
                RegisterKind::Cells(cells) => cells.iter().position(|cell| cell.name == part),
                RegisterKind::Lanes(_) => part.parse().ok(),
            };
            let mut values = Vec::new();
            if self.player.pipeline().read_register(&register.name, index, &mut values)
                && let Some(value) = at.and_then(|at| values.get(at))
            {
                self.outcome.shown.push((line, format!("{name}[{index}] = {value} ({value:#x})")));
                return Ok(());
            }
        }
        Err(RunError { line, problem: format!("there is no register cell {name}[{index}]") })
    }
}

/// The name without the controls that hold the object.
fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The object of that name.
fn named<'a, T>(name: &str, all: &'a [T], of: impl Fn(&T) -> &String) -> Result<&'a T, String> {
    let wanted = last_part(name);
    all.iter().find(|object| of(object) == wanted).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|object| of(object).as_str()).collect();
        format!("'{name}' is not among: {}", names.join(", "))
    })
}

fn entry(program: &Program, statement: &Statement) -> Result<TableEntry, String> {
    let Statement::Add { table, priority, keys, action, params } = statement else {
        return Err("not an entry".into());
    };
    let table = named(table, &program.tables, |table| &table.name)?;
    let actions: Vec<_> = table.actions.iter().map(|action| program.action(*action).clone()).collect();
    let action = named(action, &actions, |action| &action.name)?;
    let mut matches: Vec<_> =
        keys.iter().map(|(name, value)| field(program, table, name, *value)).collect::<Result<_, _>>()?;
    // A field of which no bit counts is left out.
    matches.retain(|field: &FieldMatch| field.mask != 0);
    let mut values = Vec::new();
    for wanted in &action.params {
        let given = params.iter().find(|(name, _)| *name == wanted.name);
        let (_, value) = given.ok_or_else(|| format!("action {} needs {}", action.name, wanted.name))?;
        values.push(*value);
    }
    if let Some((name, _)) =
        params.iter().find(|(name, _)| action.params.iter().all(|param| param.name != *name))
    {
        return Err(format!("action {} has no parameter {name}", action.name));
    }
    let ternary = table.keys.iter().any(|key| key.kind == MatchKind::Ternary);
    let priority = if ternary { priority.unwrap_or(1).max(1) } else { 0 };
    Ok(TableEntry {
        table: table_id(table.id),
        matches,
        priority: i32::try_from(priority).map_err(|_| "the priority is too large".to_string())?,
        action: action_id(action.id),
        params: values,
    })
}

fn field(program: &Program, table: &Table, name: &str, value: Masked) -> Result<FieldMatch, String> {
    let key = table.keys.iter().find(|key| key.name == name).ok_or_else(|| {
        let names: Vec<_> = table.keys.iter().map(|key| key.name.as_str()).collect();
        format!("table {} has no key '{name}' among: {}", table.name, names.join(", "))
    })?;
    let full = u64::MAX >> (64 - bits(program, &key.value));
    if value.value & !full != 0 {
        return Err(format!("{:#x} does not fit key '{name}'", value.value));
    }
    let mask = match key.kind {
        MatchKind::Exact if value.wild => return Err(format!("key '{name}' is exact: leave no digit open")),
        MatchKind::Exact => full,
        MatchKind::Ternary => value.mask & full,
    };
    Ok(FieldMatch { field: key.id, value: value.value & mask, mask })
}
