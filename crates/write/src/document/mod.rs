//! Tables and documents: as text, CSV, JSON, a page, or what the viewer shows.

pub(super) mod civil;
pub(super) mod columns;
pub(super) mod digest;
pub(super) mod escape;
pub(super) mod html;
pub(super) mod page;
pub(super) mod schema;
pub(super) mod sectioned;
pub(super) mod table;
pub(super) mod text;
pub(super) mod units;
