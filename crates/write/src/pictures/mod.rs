//! Pictures: flame graphs, timelines, charts, and reports with pictures in one file.

pub(super) mod flame;
pub(super) mod html_report;
pub(super) mod steps_chart;
pub(super) mod timeline;
