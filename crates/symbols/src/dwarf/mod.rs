//! Debug information: inlined functions, and lines of the source.

mod inlines;
mod line_table;

pub use inlines::{InlinedCall, Inlines, Located, Shelf};
pub use line_table::SourceLine;
