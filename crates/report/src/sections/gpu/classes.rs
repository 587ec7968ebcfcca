//! GPU time by class of work.

use spanwise_analyze::{ClassRow, ClassUse};
use spanwise_write::{Cell, Column, Columns, Content, Top, Unit};

use crate::sections::{SectionDef, Shown};

pub(in crate::sections) const CLASSES: SectionDef = SectionDef {
    key: "classes",
    title: "GPU time by class of work",
    about: "GPU time by class of work: attention, matrix products, copies and so on",
    shown: Shown::Always,
    method: "classes",
    content: |request| classes(request.facts.class_use()),
};

/// All classes: there are few, and their shares add up.
fn classes(classes: &ClassUse) -> Content {
    Columns::<ClassRow>::new()
        .add(Column::nanos("total", "total"), |row| row.total_ns.into())
        .add(Column::percent("share", "of GPU"), |row| Cell::Share(row.total_ns, classes.work_ns))
        .add(Column::count("count", "count"), |row| row.count.into())
        .add(Column::nanos("mean", "mean"), |row| row.mean_ns().into())
        .add(Column::nanos("max", "max").optional(), |row| row.max_ns.into())
        .add(Column::count("kernels", "names").optional(), |row| row.kernels.into())
        .add(Column::hidden("top_kernel", Unit::Nanos), |row| row.top_kernel_ns.into())
        .add(Column::text("class", "class"), |row| row.class.as_str().into())
        .add(Column::text("top_kernel", "most of it"), |row| row.top_kernel.as_str().into())
        .content(&classes.rows, Top::All)
}
