//! Flame graphs, in one file.

use std::path::Path;

use spanwise_model::Profile;
use spanwise_write::FlameOptions;

use super::{Target, write_file};
use crate::args::ending;

/// What is drawn of a profile.
pub(in crate::commands) struct FlameGraph<'a> {
    pub(in crate::commands) profile: &'a Profile,
    /// Row of its columns.
    pub(in crate::commands) value: usize,
    pub(in crate::commands) title: &'a str,
    pub(in crate::commands) is_icicle: bool,
    /// Colours say what changed since this one.
    pub(in crate::commands) base: Option<&'a Profile>,
}

impl FlameGraph<'_> {
    /// A picture, or a page where the file's name says so.
    pub(in crate::commands) fn write(&self, target: Target<'_>) -> anyhow::Result<()> {
        let options = FlameOptions {
            title: self.title,
            value: self.value,
            is_icicle: self.is_icicle,
            is_html: is_page(target.path),
            base: self.base,
        };
        write_file(target, self.profile.samples.len(), "samples", |out| {
            spanwise_write::write_flame(self.profile, &options, out)
        })
    }
}

fn is_page(path: &Path) -> bool {
    matches!(&*ending(path), "html" | "htm")
}
