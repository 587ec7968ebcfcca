//! Commands about traces as files: what they are, and their index.

pub(super) mod index;
pub(super) mod info;
pub(super) mod verify;
