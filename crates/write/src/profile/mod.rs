//! Profiles in the formats of other tools.
//!
//! Each writer takes a finished [`Profile`] and an `io::Write`, holds no tree of the
//! output in memory, and gives the same bytes for the same profile (I7). pprof keeps
//! everything and is the one to store; the others show one column of values.

mod csv;
mod firefox;
mod folded;
mod json;
mod lanes;
mod pprof;
mod speedscope;

use std::io;

use spanwise_model::{Profile, ProfileFrame, StackId, ValueType};

pub use csv::write_profile_csv;
pub use firefox::write_firefox;
pub use folded::{write_folded, write_folded_pair};
pub use pprof::{PprofOptions, write_pprof};
pub use speedscope::write_speedscope;

/// The frame that a sample without one gets: viewers count such samples in the total
/// and then never show them. Readers turn it back into the empty stack.
const NO_STACK: &str = "[no stack]";

/// What a format with one column of values shows.
#[derive(Debug, Clone, Copy)]
pub struct ProfileView<'a> {
    /// What was recorded: a program, a script, a file.
    pub name: &'a str,
    /// Row of [`Profile::value_types`].
    pub value: usize,
}

/// The chosen type of value; an error where the profile has no such column.
fn value_type(profile: &Profile, value: usize) -> io::Result<&ValueType> {
    profile.value_types.get(value).ok_or_else(|| {
        let count = profile.value_types.len();
        let what = format!("no value type {value}: the profile has {count}");
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })
}

/// Frames of a stack from the root on, into a buffer that is used again.
fn root_first<'p>(profile: &'p Profile, stack: StackId, frames: &mut Vec<&'p ProfileFrame>) {
    frames.clear();
    frames.extend(profile.frames_of(stack));
    frames.reverse();
}
