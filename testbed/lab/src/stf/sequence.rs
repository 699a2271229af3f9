//! Sequences to statements.

use netfold_p4::entry::TableEntry;
use netfold_p4::ir::{Expr, MatchKind, Program, Table};
use netfold_p4::p4info::{action_id, counter_id, table_id};
use netfold_switch::Pipeline;

use super::{Comparison, Masked, Pattern, Script, Statement};
use crate::differential::{Player, Sequence};

/// The sequence as a script: entries, groups, packets, what `oracle` replies to each of them as expectations, and
/// the oracle's counters at the end.
///
/// STF can leave whole nibbles of a key open; an entry whose mask cuts through a nibble becomes several.
///
/// # Errors
///
/// When the sequence's entries do not fit the program.
pub fn from_sequence(
    program: &Program,
    sequence: &Sequence,
    oracle: Box<dyn Pipeline>,
) -> Result<Script, String> {
    let mut statements = Vec::new();
    for entry in &sequence.entries {
        statements.extend(add(program, entry)?);
    }
    let mut node = 0;
    for group in &sequence.groups {
        statements.push(Statement::GroupCreate(group.id));
        for replica in &group.replicas {
            statements.push(Statement::NodeCreate { instance: replica.instance, ports: vec![replica.port] });
            statements.push(Statement::NodeAssociate { group: group.id, node });
            node += 1;
        }
    }
    let mut oracle = Player::new(oracle, sequence).map_err(|error| error.to_string())?;
    for arrival in &sequence.packets {
        for copy in oracle.feed(arrival) {
            let pattern = Some(Pattern::exactly(&copy.bytes));
            statements.push(Statement::Expect { port: copy.port, pattern });
        }
        statements.push(Statement::Packet { port: arrival.port, bytes: arrival.bytes.clone() });
    }
    statements.push(Statement::Wait);
    for counter in &program.counters {
        let counted = oracle.pipeline().counters(counter_id(counter.id));
        statements.extend(counted.iter().enumerate().map(|(index, number)| Statement::CheckCounter {
            name: format!("IngressImpl.{}", counter.name),
            index,
            condition: Some((Comparison::Eq, *number)),
        }));
    }
    Ok(Script { statements: statements.into_iter().map(|statement| (0, statement)).collect() })
}

/// The statements that add an entry.
fn add(program: &Program, entry: &TableEntry) -> Result<Vec<Statement>, String> {
    let unknown = |what: &str| format!("an entry names {what} that the program has not");
    let table =
        program.tables.iter().find(|table| table_id(table.id) == entry.table).ok_or(unknown("a table"))?;
    let mut actions = table.actions.iter().map(|action| program.action(*action));
    let action = actions.find(|action| action_id(action.id) == entry.action).ok_or(unknown("an action"))?;
    let control = control_of(program, table);
    let ternary = table.keys.iter().any(|key| key.kind == MatchKind::Ternary);
    let mut keys: Vec<Vec<(String, Masked)>> = vec![Vec::new()];
    for field in &entry.matches {
        let key = table.keys.iter().find(|key| key.id == field.field).ok_or(unknown("a key"))?;
        let full = u64::MAX >> (64 - bits(program, &key.value));
        let parts = by_nibbles(field.value, field.mask, full);
        keys = keys
            .iter()
            .flat_map(|keys| {
                parts.iter().map(|part| keys.iter().cloned().chain([(key.name.clone(), *part)]).collect())
            })
            .collect();
    }
    let params = action.params.iter().zip(&entry.params);
    let params: Vec<_> = params.map(|(param, value)| (param.name.clone(), *value)).collect();
    let statement = |keys| Statement::Add {
        table: format!("{control}.{}", table.name),
        priority: ternary.then_some(entry.priority.unsigned_abs()),
        keys,
        action: format!("{control}.{}", action.name),
        params: params.clone(),
    };
    Ok(keys.into_iter().map(statement).collect())
}

/// The control that holds the table in printed text.
pub(super) fn control_of(program: &Program, table: &Table) -> &'static str {
    let applies = |stmt: &netfold_p4::ir::Stmt| applies(program, stmt, &table.name);
    if program.egress.iter().any(applies) { "EgressImpl" } else { "IngressImpl" }
}

fn applies(program: &Program, stmt: &netfold_p4::ir::Stmt, name: &str) -> bool {
    use netfold_p4::ir::Stmt;
    match stmt {
        Stmt::Apply(table) => program.table(*table).name == name,
        Stmt::If(_, then, otherwise) => then.iter().chain(otherwise).any(|stmt| applies(program, stmt, name)),
        _ => false,
    }
}

/// Width of a key, which is a field or a variable.
pub(super) fn bits(program: &Program, key: &Expr) -> u32 {
    match key {
        Expr::Field(header, field) => program.field(*header, *field).bits,
        Expr::Meta(meta) => program.metadata[usize::from(meta.0)].bits,
        _ => 64,
    }
}

/// Splits a value and mask until every nibble is open or closed.
fn by_nibbles(value: u64, mask: u64, full: u64) -> Vec<Masked> {
    let mut parts = vec![Masked { value: 0, mask: 0, wild: mask & full != full }];
    for shift in (0..64).step_by(4) {
        let field = full >> shift & 15;
        let (value, open) = (value >> shift & 15, !(mask >> shift) & field);
        // Beyond the field, or not looked at.
        if open == field {
            continue;
        }
        let choices = (0..16).filter(|digit| digit & !field == 0 && digit & !open == value & !open);
        let choices: Vec<u64> = choices.collect();
        parts = parts
            .iter()
            .flat_map(|part| {
                choices.iter().map(|digit| Masked {
                    value: part.value | digit << shift,
                    mask: part.mask | 15 << shift,
                    wild: part.wild,
                })
            })
            .collect();
    }
    parts
}
