//! Commands about traces as files: what they are, and their index.

mod index;
pub(super) mod info;
mod verify;
