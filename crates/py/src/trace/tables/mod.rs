//! Tables in Python: columns as Arrow arrays, over a trace's own buffers where that can be.

pub(super) mod columns;
pub(super) mod concat;
pub(super) mod made;
pub(super) mod observed;
pub(super) mod resolved;
pub(super) mod rows;
pub(super) mod table;
pub(super) mod values;
