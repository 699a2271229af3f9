//! Processors without a kernel of their own.

/// Nothing more is asked of an element type.
pub trait Vector {}

impl<T> Vector for T {}
