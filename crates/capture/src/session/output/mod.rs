//! What a session writes: folders of recordings, and the files in them.

pub(crate) mod folders;
pub(crate) mod side_log;
pub(crate) mod sink;
