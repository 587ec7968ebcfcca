//! Commands that show traces in the browser.

pub(super) mod other_viewers;
pub(super) mod view;
