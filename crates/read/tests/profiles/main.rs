//! Profiles: what was written is read back, and no bytes do harm.

mod damage;
mod random;
mod round_trip;
mod shape;

use std::path::Path;

use spanwise_model::Profile;
use spanwise_read::{ReadError, open_profile};

/// Opens bytes as a file.
fn open(bytes: &[u8]) -> Result<Profile, ReadError> {
    let file = tempfile::NamedTempFile::new().expect("a file for a test");
    std::fs::write(file.path(), bytes).expect("it is writable");
    open_profile(file.path())
}

/// A file of `testdata/profile/`.
fn testdata(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/profile");
    std::fs::read(folder.join(name)).expect("there is such a file")
}
