//! GPU time by class of work.

use spanwise_analyze::ClassUse;

use crate::document::sectioned::{Body, Section};
use crate::document::table::{Cell, Column, Table, Unit};

/// All classes: there are few, and their shares add up.
pub fn classes_section(classes: &ClassUse) -> Section {
    let mut table = Table::new([
        Column::new("total", "total", Unit::Nanos),
        Column::new("share", "of GPU", Unit::Percent),
        Column::new("count", "count", Unit::Count),
        Column::new("mean", "mean", Unit::Nanos),
        Column::new("max", "max", Unit::Nanos).optional(),
        Column::new("kernels", "names", Unit::Count).optional(),
        Column::hidden("top_kernel", Unit::Nanos),
        Column::new("class", "class", Unit::Text),
        Column::new("top_kernel", "most of it", Unit::Text),
    ]);
    for row in &classes.rows {
        table.push([
            row.total_ns.into(),
            Cell::Share(row.total_ns, classes.work_ns),
            row.count.into(),
            row.mean_ns().into(),
            row.max_ns.into(),
            row.kernels.into(),
            row.top_kernel_ns.into(),
            row.class.as_str().into(),
            row.top_kernel.as_str().into(),
        ]);
    }
    Section {
        key: "classes",
        title: "GPU time by class of work".to_owned(),
        body: Body::Rows(table),
        when_empty: None,
        left_out: 0,
    }
}
