//! Conversion of messages to entries, with validation.

use netfold_p4::entry::{FieldMatch, TableEntry};

use super::{Field, Schema, SchemaError, Table};
use crate::bytestring::{self, ones};
use crate::config::MatchType;
use crate::v1::{self, FieldMatchType, TableActionType};

impl Schema {
    /// A table entry from a message.
    ///
    /// Fields come in the order of the message, a field's mask has all bits of its width where the match is exact, and
    /// parameters come in the order of their ids.
    ///
    /// # Errors
    ///
    /// [`SchemaError`] for the first violation of the specification (1.4.1, section 9.1).
    pub fn decode(&self, message: &v1::TableEntry) -> Result<TableEntry, SchemaError> {
        let (table, matches) = self.decode_match(message)?;
        let (action, params) = self.decode_action(table, message.action.as_ref())?;
        Ok(TableEntry { table: message.table_id, matches, priority: message.priority, action, params })
    }

    /// The key of a table entry from a message, as an entry without an action (its id is 0), for DELETE.
    ///
    /// # Errors
    ///
    /// As [`Schema::decode`], for the key.
    pub fn decode_key(&self, message: &v1::TableEntry) -> Result<TableEntry, SchemaError> {
        let (_, matches) = self.decode_match(message)?;
        Ok(TableEntry {
            table: message.table_id,
            matches,
            priority: message.priority,
            action: 0,
            params: Vec::new(),
        })
    }

    fn decode_match(&self, message: &v1::TableEntry) -> Result<(&Table, Vec<FieldMatch>), SchemaError> {
        let table = self.table(message.table_id)?;
        unsupported(message)?;
        let mut matches: Vec<FieldMatch> = Vec::with_capacity(message.r#match.len());
        for field in &message.r#match {
            let described = table
                .fields
                .get(&field.field_id)
                .ok_or_else(|| SchemaError::Field { table: table.name.clone(), field: field.field_id })?;
            if matches.iter().any(|known| known.field == field.field_id) {
                return Err(SchemaError::Repeated {
                    table: table.name.clone(),
                    field: described.name.clone(),
                });
            }
            let (value, mask) = decode_field(table, described, field.field_match_type.as_ref())?;
            matches.push(FieldMatch { field: field.field_id, value, mask });
        }
        for (id, field) in &table.fields {
            if field.kind == MatchType::Exact && !matches.iter().any(|known| known.field == *id) {
                return Err(SchemaError::Missing { table: table.name.clone(), field: field.name.clone() });
            }
        }
        if (message.priority > 0) != table.has_priority() || message.priority < 0 {
            return Err(SchemaError::Priority { table: table.name.clone(), priority: message.priority });
        }
        Ok((table, matches))
    }

    fn decode_action(
        &self,
        table: &Table,
        action: Option<&v1::TableAction>,
    ) -> Result<(u32, Vec<u64>), SchemaError> {
        let Some(TableActionType::Action(action)) = action.and_then(|action| action.r#type.as_ref()) else {
            return Err(SchemaError::NoAction(table.name.clone()));
        };
        let id = action.action_id;
        let described = self
            .actions
            .get(&id)
            .filter(|_| table.actions.contains(&id))
            .ok_or_else(|| SchemaError::Action { table: table.name.clone(), action: id })?;
        let bad = |param| SchemaError::Param {
            action: described.name.clone(),
            expected: described.params.len(),
            param,
        };
        let mut params = vec![None; described.params.len()];
        for param in &action.params {
            let index = (param.param_id as usize).checked_sub(1).ok_or_else(|| bad(param.param_id))?;
            let slot = params.get_mut(index).filter(|slot| slot.is_none());
            let slot = slot.ok_or_else(|| bad(param.param_id))?;
            let value = bytestring::decode(&param.value, described.params[index]);
            *slot = Some(value.map_err(|source| SchemaError::Range {
                name: format!("parameter {} of action {}", param.param_id, described.name),
                source,
            })?);
        }
        let params = params.into_iter().zip(1..).map(|(value, id)| value.ok_or_else(|| bad(id)));
        Ok((id, params.collect::<Result<_, _>>()?))
    }
}

fn unsupported(message: &v1::TableEntry) -> Result<(), SchemaError> {
    let used = [
        (message.is_default_action, "a default action"),
        (message.is_const, "is_const"),
        (message.meter_config.is_some() || message.meter_counter_data.is_some(), "a meter"),
        (message.idle_timeout_ns != 0, "an idle timeout"),
    ];
    match used.iter().find(|(used, _)| *used) {
        Some((_, what)) => Err(SchemaError::Unsupported(what)),
        None => Ok(()),
    }
}

/// Value and mask of one field.
fn decode_field(
    table: &Table,
    field: &Field,
    given: Option<&FieldMatchType>,
) -> Result<(u64, u64), SchemaError> {
    let bad = |problem| SchemaError::Mask { table: table.name.clone(), field: field.name.clone(), problem };
    if field.bits > bytestring::BITS_MAX {
        return Err(bad("fields of more than 64 bits are not supported"));
    }
    let all = ones(field.bits);
    let number = |bytes: &[u8]| {
        bytestring::decode(bytes, field.bits).map_err(|source| SchemaError::Range {
            name: format!("match field {} of table {}", field.name, table.name),
            source,
        })
    };
    let (value, mask) = match (field.kind, given) {
        (MatchType::Exact, Some(FieldMatchType::Exact(exact))) => (number(&exact.value)?, all),
        (MatchType::Optional, Some(FieldMatchType::Optional(optional))) => (number(&optional.value)?, all),
        (MatchType::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
            (number(&ternary.value)?, number(&ternary.mask)?)
        }
        (MatchType::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
            let length = u32::try_from(lpm.prefix_len).ok().filter(|length| *length <= field.bits);
            let length = length.ok_or_else(|| bad("the prefix is longer than the field"))?;
            (number(&lpm.value)?, all & !(all.checked_shr(length).unwrap_or(0)))
        }
        (MatchType::Range | MatchType::Unspecified, _) => {
            return Err(bad("this kind of match is not supported"));
        }
        _ => return Err(bad("its kind of match differs from that of the table")),
    };
    if mask == 0 {
        return Err(bad("a wildcard field must be left out"));
    }
    if value & !mask != 0 {
        return Err(bad("the value has bits outside the mask"));
    }
    Ok((value, mask))
}
