//! Every piece of GPU work with the place that launched it: rows for those who group for
//! themselves. What [`crate::GpuUse`] sums up, one by one.

use spanwise_model::{SpanId, StrId};

use crate::gpu::launching_frame::Launchers;
use crate::gpu::usage::gpu_work;
use crate::{Facts, Origin};

/// A kernel, a copy or a fill. Names are those of [`crate::Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkRow {
    pub span: SpanId,
    pub origin: Origin,
    /// The line of Python that launched it.
    pub line: Option<StrId>,
    /// The innermost operator around the launching call.
    pub operator: Option<StrId>,
}

/// All GPU work, stream by stream, each in order of time.
pub fn work_rows(facts: &Facts) -> Vec<WorkRow> {
    let launchers = Launchers::new(facts.trace(), facts.frames(), facts.names());
    let row = |span| {
        let launcher = launchers.of(span);
        let (origin, line, operator) = (launcher.origin, launcher.line, launcher.operator);
        WorkRow { span, origin, line, operator }
    };
    gpu_work(facts.trace()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use spanwise_model::SpanKind;

    use super::*;
    use crate::TotalNanos;
    use crate::base::sample::Sample;

    /// Rows add up to what the sums by line say.
    #[test]
    fn rows_add_up_to_the_lines() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "model.py(5): forward", 10, 20);
        sample.call("1", 13, 5, 1);
        sample.call("1", 40, 5, 2);
        sample.work("7", SpanKind::Memset, "fill", (0, 8), 77);
        sample.work("7", SpanKind::Kernel, "mm", (20, 30), 1);
        sample.work("7", SpanKind::Kernel, "mm", (50, 10), 2);
        let trace = sample.finish();
        let facts = Facts::new(&trace);
        let mut sums: BTreeMap<(Origin, Option<String>), TotalNanos> = BTreeMap::new();
        for row in work_rows(&facts) {
            let line = row.line.map(|line| facts.names().text(line).into_owned());
            *sums.entry((row.origin, line)).or_default() += i128::from(trace.spans().dur(row.span));
        }
        let lines = facts.gpu().lines.iter();
        let expected = lines.map(|row| ((row.origin, row.line.clone()), row.total_ns)).collect();
        assert_eq!(sums, expected);
        assert_eq!(sums.len(), 3);
    }
}
