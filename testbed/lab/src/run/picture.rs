//! A tree as text.

use std::fmt::Write;

use netfold_controller::tree::{Shape, TreePlan};

/// Draws the tree: one line for each switch, indented by its depth, with its ranks.
///
/// ```text
/// switch 0 (root)
/// +- switch 1: ranks 0-1
/// `- switch 2: ranks 2-3
/// ```
pub fn picture(shape: &Shape, plan: &TreePlan) -> String {
    let mut text = String::new();
    if let Some(root) = shape.root() {
        print(shape, plan, root, "", None, &mut text);
    }
    text
}

/// `last`: whether the switch is its parent's last; `None` at the root.
fn print(shape: &Shape, plan: &TreePlan, switch: usize, indent: &str, last: Option<bool>, text: &mut String) {
    let (branch, deeper) = match last {
        None => ("", ""),
        Some(false) => ("+- ", "|  "),
        Some(true) => ("`- ", "   "),
    };
    // Writing to a string cannot fail.
    let _ = write!(text, "{indent}{branch}switch {switch}");
    if last.is_none() {
        text.push_str(" (root)");
    }
    let ranks: Vec<usize> =
        (0..shape.workers.len()).filter(|rank| plan.workers()[*rank].0 == switch).collect();
    if !ranks.is_empty() {
        let _ = write!(text, ": {} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, ranges(&ranks));
    }
    text.push('\n');
    let children: Vec<usize> =
        (0..shape.above.len()).filter(|child| shape.above[*child] == Some(switch)).collect();
    let indent = format!("{indent}{deeper}");
    for (index, child) in children.iter().enumerate() {
        print(shape, plan, *child, &indent, Some(index + 1 == children.len()), text);
    }
}

/// Numbers in rising order, runs of them as `first-last`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [only] => only.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}
