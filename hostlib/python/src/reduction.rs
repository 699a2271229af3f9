//! The names of reductions.

use netfold::ReduceOp;

/// A reduction by its name.
pub(crate) fn named(name: &str) -> Option<ReduceOp> {
    // The names of PyTorch, where they differ.
    match name {
        "mean" => Some(ReduceOp::Avg),
        "prod" => Some(ReduceOp::Product),
        "band" => Some(ReduceOp::BitAnd),
        "bor" => Some(ReduceOp::BitOr),
        "bxor" => Some(ReduceOp::BitXor),
        _ => ReduceOp::from_name(name),
    }
}
