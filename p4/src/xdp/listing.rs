//! The instructions as text.

use super::{BpfProgram, MapId, Xdp, lower};
use crate::ir::Program;
use crate::refusal::PrintError;
use crate::writer::Writer;

/// Prints a program's maps and instructions, with the element of the program that they come from. Deterministic: the same program prints the same bytes.
///
/// # Errors
///
/// When the program is not valid, or has something that BPF for XDP cannot express; see [`Refusal`](crate::refusal::Refusal).
pub fn print(program: &Program) -> Result<String, PrintError> {
    let xdp = lower(program)?;
    let mut w = Writer::default();
    w.line(format!("; {}: {}.", program.name, program.about));
    w.line("; r6: context, r7: this CPU's variables, r8: the packet's slot, r9: the packet. Generated; do not edit.");
    w.line("");
    for map in &xdp.maps {
        w.line(format!(
            "map {} {:?} key {} value {} entries {}",
            map.name, map.kind, map.key_bytes, map.value_bytes, map.entries
        ));
    }
    block(&mut w, &xdp, "ingress", &xdp.ingress);
    if let Some(egress) = &xdp.egress {
        block(&mut w, &xdp, "egress", egress);
    }
    Ok(w.finish())
}

fn block(w: &mut Writer, xdp: &Xdp, name: &str, program: &BpfProgram) {
    w.line("");
    w.open(format!("{name}: {} instructions", program.instructions.len()));
    let map_name = |id: MapId| xdp.maps.iter().find(|map| map.id == id).map_or("", |map| map.name.as_str());
    let (mut origins, mut maps) = (program.origins.iter().peekable(), program.maps.iter().peekable());
    for (number, instruction) in program.instructions.iter().enumerate() {
        while let Some(origin) = origins.next_if(|origin| origin.first == number) {
            w.line(format!("; {}", origin.element));
        }
        let text = match maps.next_if(|(at, _)| *at == number) {
            Some((_, id)) => format!("r{} = map {}", instruction.destination, map_name(*id)),
            None if instruction.jumps() => {
                let text = instruction.to_string();
                let target = number as i64 + 1 + i64::from(instruction.offset);
                let condition = text.rsplit_once("goto").map_or("", |(condition, _)| condition);
                format!("{condition}goto {target}")
            }
            None => instruction.to_string(),
        };
        w.line(format!("{number}: {text}"));
    }
    w.close("");
}
