//! Creating, opening and mapping files in places where others may write.
//!
//! A profiler often runs as root, in folders that belong to somebody else. Whoever owns a folder
//! may exchange everything in it at any time, so a path is looked up once: from there on,
//! files are reached through the descriptor of their folder, never through a link, and what was
//! opened is checked again before it is used. Files that are mapped may be cut or changed by
//! others; [`Mapping`] and [`Frozen`] say what then happens.

mod bytes;
mod folder;
mod frozen;
mod guard;
mod mapping;
mod output;
mod regular;
mod temporary;
mod trust;
mod walk;

pub use bytes::{FileBytes, FileState};
pub use folder::{Folder, NewFile};
pub use frozen::Frozen;
pub use mapping::{Access, Mapping};
pub use output::{OutputSummary, write_output};
pub use regular::{open_regular, open_unlinked, read_at_most, read_regular};
pub use temporary::TemporaryFolder;
pub use trust::{Owner, is_own, is_own_or_root};
