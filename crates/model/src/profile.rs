//! A profile: how much of what was spent under which stack.
//!
//! The common form of everything that aggregates: made from traces by `analyze`,
//! read from profile files by `read`, written in every profile format by `write`.
//! A finished profile is in canonical order, so that the same content has the same
//! bytes however it came about: order of events, of threads, of merging.

use crate::{QuickMap, StrId, Strings, StringsBuilder, count_effort};

/// Row number of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

impl StackId {
    /// The stack with no frame.
    pub const EMPTY: StackId = StackId(0);

    /// The id as an index of a column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A place in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileFrame {
    /// The function.
    pub name: StrId,
    /// What sort of frame: "python", "cpu_op", a library's path; or empty.
    pub group: StrId,
    /// The source file; empty if unknown.
    pub file: StrId,
    /// 0 where none is known.
    pub line: i64,
}

/// What one column of values counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueType {
    /// What is counted, such as `cpu`.
    pub name: String,
    /// The unit, such as `nanoseconds`.
    pub unit: String,
}

/// The value of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelValue {
    /// A text.
    Text(StrId),
    /// A number with its unit, which may be empty.
    Number {
        /// The number.
        value: i64,
        /// Its unit.
        unit: StrId,
    },
}

/// A label of a sample: its key and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// The key.
    pub key: StrId,
    /// The value.
    pub value: LabelValue,
}

/// One row of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The stack.
    pub stack: StackId,
    /// Row of [`Profile::label_sets`].
    pub labels: u32,
}

/// A row that a [`ProfileBuilder`] adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowId(u32);

/// A finished profile. Parents stand before their children in `stack_parents`;
/// row 0 is the empty stack, its own parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// All texts.
    pub strings: Strings,
    /// What each column of values counts.
    pub value_types: Vec<ValueType>,
    /// The column that a viewer should show first.
    pub default_value: usize,
    /// Frames, each once.
    pub frames: Vec<ProfileFrame>,
    /// The stack of the caller, for each stack.
    pub stack_parents: Vec<u32>,
    /// The innermost frame, for each stack.
    pub stack_frames: Vec<u32>,
    /// Sets of labels, each once.
    pub label_sets: Vec<Vec<Label>>,
    /// The rows.
    pub samples: Vec<Sample>,
    /// Row by row, one value a type.
    pub values: Vec<i64>,
    /// Start in nanoseconds since 1970; `None` if unknown.
    pub time_ns: Option<i64>,
    /// The duration of the recording; 0 if unknown.
    pub duration_ns: i64,
    /// Remarks of the producer.
    pub comments: Vec<String>,
}

impl Profile {
    /// The text of an id.
    pub fn text(&self, id: StrId) -> &str {
        self.strings.get(id)
    }

    /// The values of a sample, one per type.
    pub fn values_of(&self, sample: usize) -> &[i64] {
        let width = self.value_types.len();
        &self.values[sample * width..(sample + 1) * width]
    }

    /// The frames of a stack, innermost first.
    pub fn frames_of(&self, stack: StackId) -> impl Iterator<Item = &ProfileFrame> {
        let mut at = stack;
        std::iter::from_fn(move || {
            if at == StackId::EMPTY {
                return None;
            }
            count_effort(1);
            let frame = &self.frames[self.stack_frames[at.index()] as usize];
            at = StackId(self.stack_parents[at.index()]);
            Some(frame)
        })
    }

    /// Sums of all values, a type each.
    pub fn totals(&self) -> Vec<i128> {
        let mut totals = vec![0; self.value_types.len()];
        for row in self.values.chunks(totals.len().max(1)) {
            for (total, &value) in totals.iter_mut().zip(row) {
                *total += i128::from(value);
            }
        }
        totals
    }
}

/// Collects samples. Equal stacks and labels are added up.
#[derive(Default)]
pub struct ProfileBuilder {
    strings: StringsBuilder,
    value_types: Vec<ValueType>,
    default_value: usize,
    frames: Vec<ProfileFrame>,
    frame_ids: QuickMap<ProfileFrame, u32>,
    stack_parents: Vec<u32>,
    stack_frames: Vec<u32>,
    children: QuickMap<(u32, u32), u32>,
    label_sets: Vec<Vec<Label>>,
    label_ids: QuickMap<Vec<Label>, u32>,
    samples: Vec<Sample>,
    sample_ids: QuickMap<(u32, u32), u32>,
    values: Vec<i64>,
    /// As in [`Profile::time_ns`].
    pub time_ns: Option<i64>,
    /// As in [`Profile::duration_ns`].
    pub duration_ns: i64,
    /// As in [`Profile::comments`].
    pub comments: Vec<String>,
}

impl ProfileBuilder {
    /// An empty profile; `value_types` are pairs of name and unit.
    pub fn new(value_types: &[(&str, &str)], default_value: usize) -> Self {
        let value_type = |&(name, unit): &(&str, &str)| ValueType {
            name: name.to_owned(),
            unit: unit.to_owned(),
        };
        ProfileBuilder {
            value_types: value_types.iter().map(value_type).collect(),
            default_value,
            stack_parents: vec![0],
            stack_frames: vec![u32::MAX],
            ..ProfileBuilder::default()
        }
    }

    /// The id of a text, new or known.
    pub fn string(&mut self, text: &str) -> StrId {
        self.strings.intern(text)
    }

    /// The number of a frame, new or known.
    pub fn frame(&mut self, frame: ProfileFrame) -> u32 {
        *self.frame_ids.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            self.frames.len() as u32 - 1
        })
    }

    /// The stack with one more frame on top.
    pub fn push(&mut self, stack: StackId, frame: u32) -> StackId {
        count_effort(1);
        let id = *self.children.entry((stack.0, frame)).or_insert_with(|| {
            self.stack_parents.push(stack.0);
            self.stack_frames.push(frame);
            self.stack_parents.len() as u32 - 1
        });
        StackId(id)
    }

    /// The number of a set of labels; their order does not matter.
    pub fn labels(&mut self, mut labels: Vec<Label>) -> u32 {
        labels.sort_by_key(|label| label.key);
        if let Some(&id) = self.label_ids.get(&labels) {
            return id;
        }
        self.label_sets.push(labels.clone());
        let id = self.label_sets.len() as u32 - 1;
        self.label_ids.insert(labels, id);
        id
    }

    /// Adds one value to the row of a stack and its labels.
    #[inline]
    pub fn add(&mut self, stack: StackId, labels: u32, value_type: usize, value: i64) {
        let row = self.row(stack, labels);
        self.add_to(row, value_type, value);
    }

    /// The row of a stack and its labels, for who adds to it more than once.
    #[inline]
    pub fn row(&mut self, stack: StackId, labels: u32) -> RowId {
        let width = self.value_types.len();
        let row = *self.sample_ids.entry((stack.0, labels)).or_insert_with(|| {
            self.samples.push(Sample { stack, labels });
            self.values.resize(self.values.len() + width, 0);
            self.samples.len() as u32 - 1
        });
        RowId(row)
    }

    /// Adds one value to a row.
    #[inline]
    pub fn add_to(&mut self, row: RowId, value_type: usize, value: i64) {
        let slot = &mut self.values[row.0 as usize * self.value_types.len() + value_type];
        *slot = slot.saturating_add(value);
    }

    /// Adds all that another one collected, whose value types must be the same; gives
    /// what its stacks are called here.
    pub fn absorb(&mut self, other: ProfileBuilder) -> Vec<StackId> {
        self.add_profile(&other.into_draft())
    }

    /// Adds all samples of another profile, whose value types must be the same; gives
    /// what its stacks are called here.
    pub fn add_profile(&mut self, other: &Profile) -> Vec<StackId> {
        debug_assert_eq!(self.value_types, other.value_types);
        let stacks = self.copied_stacks(other, |builder, frame| {
            builder.copied_frame(other, other.frames[frame as usize])
        });
        let label_sets: Vec<u32> = other
            .label_sets
            .iter()
            .map(|labels| {
                let labels = labels.iter().map(|&label| self.copied_label(other, label)).collect();
                self.labels(labels)
            })
            .collect();
        for (row, sample) in other.samples.iter().enumerate() {
            let labels = label_sets[sample.labels as usize];
            let own = self.row(stacks[sample.stack.index()], labels);
            for (value_type, &value) in other.values_of(row).iter().enumerate() {
                self.add_to(own, value_type, value);
            }
        }
        stacks
    }

    /// The same frame as in another profile.
    pub fn copied_frame(&mut self, other: &Profile, frame: ProfileFrame) -> u32 {
        let frame = ProfileFrame {
            name: self.string(other.text(frame.name)),
            group: self.string(other.text(frame.group)),
            file: self.string(other.text(frame.file)),
            line: frame.line,
        };
        self.frame(frame)
    }

    /// The stacks of another profile, given what its frames become here. Frames are
    /// asked for in the order of the stacks, so that canonical order stays.
    pub fn copied_stacks(
        &mut self,
        other: &Profile,
        mut frame_of: impl FnMut(&mut Self, u32) -> u32,
    ) -> Vec<StackId> {
        let mut frames: Vec<Option<u32>> = vec![None; other.frames.len()];
        let mut stacks = vec![StackId::EMPTY; other.stack_parents.len()];
        for row in 1..stacks.len() {
            let old = other.stack_frames[row];
            let frame = match frames[old as usize] {
                Some(frame) => frame,
                None => frame_of(self, old),
            };
            frames[old as usize] = Some(frame);
            stacks[row] = self.push(stacks[other.stack_parents[row] as usize], frame);
        }
        stacks
    }

    /// The same label as in another profile.
    pub fn copied_label(&mut self, other: &Profile, label: Label) -> Label {
        let key = self.string(other.text(label.key));
        let value = match label.value {
            LabelValue::Text(text) => LabelValue::Text(self.string(other.text(text))),
            LabelValue::Number { value, unit } => {
                LabelValue::Number { value, unit: self.string(other.text(unit)) }
            }
        };
        Label { key, value }
    }

    /// The profile in canonical order; rows of zeros are left out.
    pub fn finish(mut self) -> Profile {
        let left_out = self.strings.left_out();
        if left_out > 0 {
            self.comments.push(format!("{left_out} names beyond 2 GiB of names are empty"));
        }
        canonical(self.into_draft())
    }

    fn into_draft(self) -> Profile {
        Profile {
            strings: self.strings.finish(),
            value_types: self.value_types,
            default_value: self.default_value,
            frames: self.frames,
            stack_parents: self.stack_parents,
            stack_frames: self.stack_frames,
            label_sets: self.label_sets,
            samples: self.samples,
            values: self.values,
            time_ns: self.time_ns,
            duration_ns: self.duration_ns,
            comments: self.comments,
        }
    }
}

/// The same profile with stacks in depth-first order by the names of their frames,
/// label sets by their text, samples by both, frames and strings by their first use;
/// without rows of zeros and without stacks that nothing was spent under.
fn canonical(draft: Profile) -> Profile {
    let is_spent = |row: usize| draft.values_of(row).iter().any(|&value| value != 0);
    let spent: Vec<usize> = (0..draft.samples.len()).filter(|&row| is_spent(row)).collect();
    let mut is_used = vec![false; draft.stack_parents.len()];
    for &row in &spent {
        let mut stack = draft.samples[row].stack.index();
        while !std::mem::replace(&mut is_used[stack], true) {
            stack = draft.stack_parents[stack] as usize;
        }
    }
    let order = stack_order(&draft, &is_used);
    let mut new_stacks = vec![0u32; draft.stack_parents.len()];
    for (new, &old) in order.iter().enumerate() {
        new_stacks[old as usize] = new as u32;
    }
    let label_order = label_order(&draft, spent.iter().map(|&row| draft.samples[row].labels));
    let mut label_ranks = vec![0; draft.label_sets.len()];
    for (rank, &set) in label_order.iter().enumerate() {
        label_ranks[set as usize] = rank as u32;
    }
    let mut rows: Vec<(u32, u32, usize)> = spent
        .iter()
        .map(|&row| {
            let Sample { stack, labels } = draft.samples[row];
            (new_stacks[stack.index()], label_ranks[labels as usize], row)
        })
        .collect();
    rows.sort_unstable();
    let mut used = CompactProfile::of(&draft);
    let stack_frames = order.iter().map(|&old| used.frame(draft.stack_frames[old as usize]));
    let stack_frames = stack_frames.collect();
    let label_sets = label_order.iter().map(|&set| used.labels(&sorted_labels(&draft, set)));
    let label_sets = label_sets.collect();
    Profile {
        stack_parents: order
            .iter()
            .map(|&old| new_stacks[draft.stack_parents[old as usize] as usize])
            .collect(),
        stack_frames,
        samples: rows
            .iter()
            .map(|&(stack, labels, _)| Sample { stack: StackId(stack), labels })
            .collect(),
        values: rows.iter().flat_map(|&(.., row)| draft.values_of(row)).copied().collect(),
        label_sets,
        frames: used.frames,
        strings: used.strings.finish(),
        value_types: draft.value_types,
        default_value: draft.default_value,
        time_ns: draft.time_ns,
        duration_ns: draft.duration_ns,
        comments: draft.comments,
    }
}

/// The frames and strings of a draft that are used, numbered by their first use.
struct CompactProfile<'a> {
    draft: &'a Profile,
    strings: StringsBuilder,
    frames: Vec<ProfileFrame>,
    new_frames: Vec<Option<u32>>,
}

impl<'a> CompactProfile<'a> {
    fn of(draft: &'a Profile) -> Self {
        CompactProfile {
            draft,
            strings: StringsBuilder::default(),
            frames: Vec::new(),
            new_frames: vec![None; draft.frames.len()],
        }
    }

    fn string(&mut self, id: StrId) -> StrId {
        self.strings.intern(self.draft.text(id))
    }

    /// The frame of a stack; the empty stack has none, whose number stays.
    fn frame(&mut self, old: u32) -> u32 {
        let Some(&known) = self.new_frames.get(old as usize) else { return old };
        known.unwrap_or_else(|| {
            let frame = self.draft.frames[old as usize];
            let frame = ProfileFrame {
                name: self.string(frame.name),
                group: self.string(frame.group),
                file: self.string(frame.file),
                line: frame.line,
            };
            let new = self.frames.len() as u32;
            self.frames.push(frame);
            self.new_frames[old as usize] = Some(new);
            new
        })
    }

    fn labels(&mut self, labels: &[Label]) -> Vec<Label> {
        let mut labels: Vec<Label> = labels.iter().map(|&label| self.label(label)).collect();
        labels.sort_by_key(|label| label.key);
        labels
    }

    fn label(&mut self, label: Label) -> Label {
        let key = self.string(label.key);
        let value = match label.value {
            LabelValue::Text(text) => LabelValue::Text(self.string(text)),
            LabelValue::Number { value, unit } => {
                LabelValue::Number { value, unit: self.string(unit) }
            }
        };
        Label { key, value }
    }
}

/// Used stacks, parents first, siblings by the text of their frames.
fn stack_order(draft: &Profile, is_used: &[bool]) -> Vec<u32> {
    let mut frames: Vec<u32> = (0..draft.frames.len() as u32).collect();
    frames.sort_by_key(|&id| {
        let frame = draft.frames[id as usize];
        (draft.text(frame.name), draft.text(frame.group), draft.text(frame.file), frame.line)
    });
    let mut rank = vec![0u32; frames.len()];
    for (place, &frame) in frames.iter().enumerate() {
        rank[frame as usize] = place as u32;
    }
    // Sorted by parent, then from last sibling to first: popping gives the order.
    let mut edges: Vec<(u32, u32, u32)> = (1..draft.stack_parents.len())
        .filter(|&stack| is_used[stack])
        .map(|stack| {
            let frame = draft.stack_frames[stack] as usize;
            (draft.stack_parents[stack], u32::MAX - rank[frame], stack as u32)
        })
        .collect();
    edges.sort_unstable();
    let mut order = Vec::with_capacity(edges.len() + 1);
    let mut waiting = vec![0u32];
    while let Some(stack) = waiting.pop() {
        order.push(stack);
        let first = edges.partition_point(|edge| edge.0 < stack);
        let children = edges[first..].iter().take_while(|edge| edge.0 == stack);
        waiting.extend(children.map(|edge| edge.2));
    }
    order
}

/// Used sets of labels, by their text.
fn label_order(draft: &Profile, used: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut sets: Vec<u32> = used.collect();
    sets.sort_unstable();
    sets.dedup();
    sets.sort_by_cached_key(|&set| {
        let text = |label: &Label| {
            let (number, text) = match label.value {
                LabelValue::Text(text) => (None, draft.text(text).to_owned()),
                LabelValue::Number { value, unit } => (Some(value), draft.text(unit).to_owned()),
            };
            (draft.text(label.key).to_owned(), number, text)
        };
        sorted_labels(draft, set).iter().map(text).collect::<Vec<_>>()
    });
    sets
}

fn sorted_labels(draft: &Profile, set: u32) -> Vec<Label> {
    let mut labels = draft.label_sets[set as usize].clone();
    labels.sort_by_key(|label| draft.text(label.key));
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples as (frames from the root, label, value), in any order.
    fn build(samples: &[(&[&str], &str, i64)]) -> Profile {
        let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")], 0);
        for &(frames, label, value) in samples {
            let mut stack = StackId::EMPTY;
            for name in frames {
                let name = builder.string(name);
                let (group, file) = (StrId::EMPTY, StrId::EMPTY);
                let frame = builder.frame(ProfileFrame { name, group, file, line: 0 });
                stack = builder.push(stack, frame);
            }
            let (key, text) = (builder.string("thread"), builder.string(label));
            let labels = builder.labels(vec![Label { key, value: LabelValue::Text(text) }]);
            builder.add(stack, labels, 0, value);
        }
        builder.finish()
    }

    /// One line per sample: `a;b thread value`.
    fn lines(profile: &Profile) -> Vec<String> {
        let line = |(row, sample): (usize, &Sample)| {
            let mut frames: Vec<&str> =
                profile.frames_of(sample.stack).map(|frame| profile.text(frame.name)).collect();
            frames.reverse();
            let LabelValue::Text(label) = profile.label_sets[sample.labels as usize][0].value
            else {
                unreachable!("the tests use text")
            };
            format!("{} {} {}", frames.join(";"), profile.text(label), profile.values_of(row)[0])
        };
        profile.samples.iter().enumerate().map(line).collect()
    }

    #[test]
    fn equal_stacks_and_labels_add_up() {
        let profile = build(&[(&["a", "b"], "x", 1), (&["a"], "x", 5), (&["a", "b"], "x", 2)]);
        assert_eq!(lines(&profile), ["a x 5", "a;b x 3"]);
        assert_eq!(profile.totals(), [8]);
    }

    #[test]
    fn the_order_of_samples_does_not_show() {
        let one = build(&[(&["b"], "y", 1), (&["a", "z"], "x", 2), (&["a", "c"], "y", 0)]);
        let two = build(&[(&["a", "c"], "x", 0), (&["a", "z"], "x", 2), (&["b"], "y", 1)]);
        assert_eq!(one, two);
        assert_eq!(lines(&one), ["a;z x 2", "b y 1"]);
    }

    #[test]
    fn names_without_room_are_noticed() {
        let types = [("wall", "nanoseconds")];
        let mut builder = ProfileBuilder::new(&types, 0);
        builder.strings = StringsBuilder::with_bytes_max(4);
        assert_eq!(builder.string("too long"), StrId::EMPTY);
        assert_eq!(builder.finish().comments, ["1 names beyond 2 GiB of names are empty"]);
    }

    #[test]
    fn merging_halves_gives_the_whole() {
        let (a, b) = (build(&[(&["a"], "x", 1)]), build(&[(&["b"], "y", 3), (&["a"], "x", 4)]));
        let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")], 0);
        builder.add_profile(&b);
        builder.add_profile(&a);
        let whole = build(&[(&["a"], "x", 5), (&["b"], "y", 3)]);
        assert_eq!(builder.finish(), whole);
    }
}
