//! Which build a file is of.

use std::path::Path;

use object::Object;
use spanwise_files::FileBytes;

/// Which build an executable or a library is of, where it says so.
pub fn build_id(path: &Path) -> Option<Vec<u8>> {
    // Nothing but files is opened: a pipe would wait for somebody to write.
    if !path.is_file() {
        return None;
    }
    let bytes = FileBytes::open_regular(path).ok()?;
    let file = object::File::parse(bytes.as_ref()).ok()?;
    file.build_id().ok().flatten().map(<[u8]>::to_vec)
}
