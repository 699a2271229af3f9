//! What collectives, element types, reductions and numeric modes there are: each defined once, with its names and codes.
//!
//! The C interface, the controller's gRPC interface and the Python package repeat some of these names and codes in files of their
//! own languages; tests of those packages compare them with the tables here.
//!
//! To add a numeric mode: its row in [`mode`], the arithmetic of its lanes in the host library's quantiser and, unless switches run it
//! with numerics that exist, a fragment of the pipeline's program. To add a collective: its row in [`collective`] and how each executor
//! (switch, links, shared memory) does it.

pub mod collective;
pub mod dtype;
pub mod mode;
pub mod reduce_op;

/// An enum of which each value has a code and a name.
macro_rules! coded_enum {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $code:literal $text:literal),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$variant_meta])* $variant = $code),+ }

        impl $name {
            /// Every value, by code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on command lines, in messages and in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The code in messages between programs, and in the C interface.
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The value with this code; `None` when there is none.
            pub fn from_code(code: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.code() == code)
            }

            /// The value of this name; `None` when there is none.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use coded_enum;

/// Names as a choice: "a, b or c".
pub fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
