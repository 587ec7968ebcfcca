//! Frames of a profile, from the names and categories of spans.

use spanwise_model::{
    CategoryId, ProfileBuilder, ProfileFrame, QuickMap, SpanId, SpanKind, StrId, Trace,
};

use super::{ProfileOptions, StackMode};
use crate::Names;

/// Finds the frame of a span, mostly from what its name gave last time.
pub(crate) struct FrameTable<'a> {
    trace: &'a Trace,
    names: &'a Names,
    options: &'a ProfileOptions,
    /// By name: the category it was last seen with, and the frame of both.
    last: Vec<Option<(CategoryId, Option<u32>)>>,
    known: QuickMap<(StrId, CategoryId), Option<u32>>,
}

impl<'a> FrameTable<'a> {
    pub(crate) fn new(trace: &'a Trace, names: &'a Names, options: &'a ProfileOptions) -> Self {
        FrameTable {
            trace,
            names,
            options,
            last: vec![None; trace.strings().len()],
            known: QuickMap::default(),
        }
    }

    /// The frame of a span; `None` where the mode leaves it out of stacks.
    pub(crate) fn of(&mut self, builder: &mut ProfileBuilder, span: SpanId) -> Option<u32> {
        let name = self.trace.spans().name(span);
        let category = self.trace.spans().category(span);
        if let Some((seen, frame)) = self.last[name.index()].filter(|(seen, _)| *seen == category) {
            debug_assert_eq!(seen, category);
            return frame;
        }
        let frame = match self.known.get(&(name, category)) {
            Some(&frame) => frame,
            None => self.new_frame(builder, name, category),
        };
        self.known.insert((name, category), frame);
        self.last[name.index()] = Some((category, frame));
        frame
    }

    fn new_frame(
        &self,
        builder: &mut ProfileBuilder,
        name: StrId,
        category: CategoryId,
    ) -> Option<u32> {
        let row = self.trace.categories().get(category);
        let text = self.names.text(self.names.merged(name));
        if !is_kept(self.options.stack, row.kind, &text) {
            return None;
        }
        let text = text.strip_prefix(&*self.options.strip_prefix).unwrap_or(&text);
        let group = match row.kind {
            SpanKind::Python => "[python]".to_owned(),
            _ => match self.trace.strings().get(row.name) {
                "" => "[spans]".to_owned(),
                category => format!("[{category}]"),
            },
        };
        let place = match row.kind {
            SpanKind::Python => file_and_line(text),
            _ => None,
        };
        let (file, line) = place.unwrap_or(("", 0));
        let frame = ProfileFrame {
            name: builder.string(text),
            group: builder.string(&group),
            file: builder.string(file),
            line,
        };
        Some(builder.frame(frame))
    }
}

fn is_kept(mode: StackMode, kind: SpanKind, name: &str) -> bool {
    // GPU work is what the stack leads to: it stays in every mode.
    if kind.is_on_gpu() {
        return true;
    }
    match mode {
        StackMode::Mixed => true,
        StackMode::Python => kind == SpanKind::Python,
        StackMode::Operators => kind != SpanKind::Python,
        StackMode::Modules => kind == SpanKind::Python && name.starts_with("nn.Module: "),
    }
}

/// The file and the line of `path.py(12): function`.
fn file_and_line(name: &str) -> Option<(&str, i64)> {
    let (place, _) = name.split_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    Some((file, line.parse().ok()?))
}

/// A frame that stands for no span of the trace.
pub(crate) fn made_up(builder: &mut ProfileBuilder, name: &str) -> u32 {
    let (name, group) = (builder.string(name), builder.string("[spanwise]"));
    builder.frame(ProfileFrame { name, group, file: StrId::EMPTY, line: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_names_hold_file_and_line() {
        assert_eq!(file_and_line("a/b.py(12): f"), Some(("a/b.py", 12)));
        assert_eq!(file_and_line("<frozen os>(680): g"), Some(("<frozen os>", 680)));
        assert_eq!(file_and_line("a(1)/b.py(7): <lambda>"), Some(("a(1)/b.py", 7)));
        assert_eq!(file_and_line("<built-in function f>"), None);
        assert_eq!(file_and_line("x(y): z"), None);
    }
}
