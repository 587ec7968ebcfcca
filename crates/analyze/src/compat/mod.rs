//! Tables as other tools name and compute them: what `--compat` prints.

pub(super) mod hta;
pub(super) mod table;
pub(super) mod tracelens;
