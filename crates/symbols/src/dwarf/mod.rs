//! Debug information: inlined functions, and lines of the source.

mod inlines;
mod line_table;

pub use inlines::{AddressLines, InlinedCall, Inlines, Shelf};
pub use line_table::SourceLine;
