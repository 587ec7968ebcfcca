//! For every span: which line of Python and which operator it runs under.

use spanwise_model::{NO_ROW, SpanId, SpanKind, Trace};

use crate::cpu::python::{Frame, FrameRank};

/// The Python frame and the operator that enclose each span, itself included.
///
/// Of the Python frames open when the span began, the innermost that says most is
/// taken: a frame of the user's own code where there is one, else of a library,
/// else a module marker, else a built-in.
pub struct Frames {
    line: Vec<u32>,
    operator: Vec<u32>,
}

impl Frames {
    /// One forward pass: a parent always stands before its children (I3).
    pub fn new(trace: &Trace) -> Self {
        let spans = trace.spans();
        let kinds: Vec<SpanKind> = trace.categories().rows().iter().map(|row| row.kind).collect();
        let mut ranks = Ranks { by_name: vec![None; trace.strings().len()], trace };
        let mut line = vec![NO_ROW; spans.len()];
        let mut operator = vec![NO_ROW; spans.len()];
        let rows = spans.parent_column().iter().zip(spans.category_column().iter()).enumerate();
        for (row, (&parent, &category)) in rows {
            if parent != NO_ROW {
                line[row] = line[parent as usize];
                operator[row] = operator[parent as usize];
            }
            match kinds[usize::from(category)] {
                SpanKind::Operator => operator[row] = row as u32,
                SpanKind::Python if ranks.of(row as u32) >= ranks.of(line[row]) => {
                    line[row] = row as u32;
                }
                _ => {}
            }
        }
        Frames { line, operator }
    }

    pub fn line(&self, span: SpanId) -> Option<SpanId> {
        found(self.line[span.index()])
    }

    pub fn operator(&self, span: SpanId) -> Option<SpanId> {
        found(self.operator[span.index()])
    }
}

fn found(row: u32) -> Option<SpanId> {
    (row != NO_ROW).then_some(SpanId(row))
}

/// Ranks of frames; each name is taken apart once.
struct Ranks<'a> {
    by_name: Vec<Option<FrameRank>>,
    trace: &'a Trace,
}

impl Ranks<'_> {
    fn of(&mut self, row: u32) -> Option<FrameRank> {
        let span = found(row)?;
        let rank = &mut self.by_name[self.trace.spans().name(span).index()];
        if rank.is_none() {
            *rank = Some(Frame::parse(self.trace.name(span)).rank());
        }
        *rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    /// Nested spans, outermost first; asks for the innermost.
    #[track_caller]
    fn check(stack: &[(SpanKind, &str)], line: Option<&str>, operator: Option<&str>) {
        let mut sample = Sample::default();
        for (depth, &(kind, name)) in stack.iter().enumerate() {
            sample.span("1", kind, name, depth as i64, 100 - 2 * depth as i64);
        }
        let trace = sample.finish();
        let frames = Frames::new(&trace);
        let innermost = SpanId(stack.len() as u32 - 1);
        assert_eq!(frames.line(innermost).map(|span| trace.name(span)), line);
        assert_eq!(frames.operator(innermost).map(|span| trace.name(span)), operator);
    }

    const CALL: (SpanKind, &str) = (SpanKind::Runtime, "cudaLaunchKernel");
    const MM: (SpanKind, &str) = (SpanKind::Operator, "aten::mm");
    const LINEAR: (SpanKind, &str) = (SpanKind::Operator, "aten::linear");

    #[test]
    fn the_innermost_line_of_the_users_own_code_wins() {
        let stack = [
            (SpanKind::Python, "train.py(1): <module>"),
            (SpanKind::Python, "model.py(9): forward"),
            (SpanKind::Python, "torch/nn/modules/linear.py(130): forward"),
            (SpanKind::Python, "<built-in function linear>"),
            LINEAR,
            MM,
            CALL,
        ];
        check(&stack, Some("model.py(9): forward"), Some("aten::mm"));
    }

    #[test]
    fn a_library_line_is_better_than_none() {
        let stack = [
            (SpanKind::Python, "torch/nn/modules/linear.py(130): forward"),
            (SpanKind::Python, "<built-in function linear>"),
            CALL,
        ];
        check(&stack, Some("torch/nn/modules/linear.py(130): forward"), None);
    }

    #[test]
    fn without_python_there_is_no_line() {
        check(&[MM, CALL], None, Some("aten::mm"));
    }
}
