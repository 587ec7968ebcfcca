//! What changed between two profiles, function by function.
//!
//! Sums stay whole numbers: runs of different length compare by step, and a mean is
//! only taken where it is shown. Every function of either side has a row, so that the
//! self columns add up to the totals of both profiles exactly.

mod aligned;
mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use spanwise_model::{LabelValue, Profile};

pub use aligned::{base_and_other, difference};
pub(crate) use names::{Function, Functions, definition, paired as paired_lines};

/// What is compared: a column of each profile, and whether by step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffOptions {
    /// Rows of [`Profile::value_types`]: the base's, the other's.
    pub values: [usize; 2],
    /// By how many steps the sums of each side are divided where they are compared;
    /// 1 and 1 compares them as they are.
    pub steps: [u64; 2],
}

/// Sums of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SideSums {
    pub self_sum: i128,
    /// With what it called; recursion counts once.
    pub total_sum: i128,
}

/// One function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionDiff {
    /// For people: the name, with both lines where the definition moved.
    pub label: String,
    pub name: String,
    /// Empty where it is not known.
    pub file: String,
    /// What sort of frame.
    pub group: String,
    pub base_line: Option<i64>,
    pub other_line: Option<i64>,
    /// `None` where that side has no such function.
    pub base: Option<SideSums>,
    pub other: Option<SideSums>,
}

/// The whole comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileDiff {
    pub steps: [u64; 2],
    /// Sums of the two profiles.
    pub totals: [i128; 2],
    /// What changed most by itself comes first.
    pub functions: Vec<FunctionDiff>,
}

impl ProfileDiff {
    /// `other - base` by step, times the product of both numbers of steps: exact.
    pub fn change(&self, base: i128, other: i128) -> i128 {
        let [base_steps, other_steps] = self.steps.map(i128::from);
        other.saturating_mul(base_steps).saturating_sub(base.saturating_mul(other_steps))
    }

    /// What a [`ProfileDiff::change`] must be divided by.
    pub fn change_divisor(&self) -> i128 {
        i128::from(self.steps[0]).saturating_mul(self.steps[1].into())
    }
}

impl FunctionDiff {
    /// The sums of both sides, 0 where the function is missing.
    pub fn both(&self) -> [SideSums; 2] {
        [self.base.unwrap_or_default(), self.other.unwrap_or_default()]
    }
}

/// How many steps a profile has, by its `step` labels; 0 where there are none.
pub fn step_count(profile: &Profile) -> u64 {
    let used: BTreeSet<u32> = profile.samples.iter().map(|sample| sample.labels).collect();
    let labels = used.iter().flat_map(|&set| &profile.label_sets[set as usize]);
    let steps = labels.filter(|label| profile.text(label.key) == "step");
    let steps: BTreeSet<String> = steps
        .map(|label| match label.value {
            LabelValue::Text(text) => profile.text(text).to_owned(),
            LabelValue::Number { value, .. } => value.to_string(),
        })
        .collect();
    steps.len() as u64
}

/// Compares two profiles. A profile without the column counts as all zeros.
pub fn profile_diff(base: &Profile, other: &Profile, options: &DiffOptions) -> ProfileDiff {
    let profiles = [base, other];
    let functions = Functions::new(profiles);
    let spent: [Vec<Option<SideSums>>; 2] =
        [0, 1].map(|side| spent(profiles[side], options.values[side], side, &functions));
    let totals = [0, 1]
        .map(|side: usize| profiles[side].totals().get(options.values[side]).copied().unwrap_or(0));
    let mut diff = ProfileDiff {
        steps: options.steps.map(|steps| steps.max(1)),
        totals,
        functions: Vec::new(),
    };
    let mut rows = Vec::new();
    for (at, function) in functions.rows.iter().enumerate() {
        rows.extend(row(function, spent[0][at], spent[1][at]));
    }
    // Samples without a frame: the last place of both.
    let [base, other] = [0, 1].map(|side: usize| spent[side][functions.rows.len()]);
    rows.extend(row(&no_stack(), base, other));
    let sort_key = |row: &FunctionDiff| {
        let [base, other] = row.both();
        let own = diff.change(base.self_sum, other.self_sum).unsigned_abs();
        let total = diff.change(base.total_sum, other.total_sum).unsigned_abs();
        let size = base.total_sum.unsigned_abs().max(other.total_sum.unsigned_abs());
        let place = (row.name.clone(), row.file.clone(), row.base_line, row.other_line);
        (std::cmp::Reverse((own, total, size)), place, row.label.clone())
    };
    rows.sort_by_cached_key(sort_key);
    diff.functions = rows;
    diff
}

/// The row of a function that either side spent something in.
fn row(
    function: &Function,
    base: Option<SideSums>,
    other: Option<SideSums>,
) -> Option<FunctionDiff> {
    let nothing = SideSums::default();
    if base.unwrap_or(nothing) == nothing && other.unwrap_or(nothing) == nothing {
        return None;
    }
    Some(FunctionDiff {
        label: function.label(),
        name: function.key.name.clone(),
        file: function.key.file.clone(),
        group: function.group.clone(),
        base_line: function.lines[0],
        other_line: function.lines[1],
        base,
        other,
    })
}

/// What samples without a frame stand under.
pub(crate) fn no_stack() -> Function {
    let (name, file, form) = ("[no stack]".to_owned(), String::new(), names::Form::Plain);
    let key = names::Key { name, file, form };
    Function { key, group: String::new(), lines: [None, None] }
}

/// What one profile spent in each function; behind the functions, in none.
pub(crate) fn spent(
    profile: &Profile,
    value: usize,
    side: usize,
    functions: &Functions,
) -> Vec<Option<SideSums>> {
    let mut rows: Vec<Option<SideSums>> = vec![None; functions.rows.len() + 1];
    let none = functions.rows.len();
    let function_of = |stack: usize| match stack {
        0 => none,
        stack => functions.of_frames[side][profile.stack_frames[stack] as usize] as usize,
    };
    let own = own_values(profile, value);
    for (stack, own) in own.iter().enumerate() {
        if let Some(own) = own {
            rows[function_of(stack)].get_or_insert_default().self_sum += own;
        }
    }
    // Children stand behind their parents: one backward pass sums them up.
    let mut total: Vec<i128> = own.iter().map(|own| own.unwrap_or(0)).collect();
    rows[none] = rows[none].map(|spent| SideSums { total_sum: total[0], ..spent });
    for stack in (1..total.len()).rev() {
        total[profile.stack_parents[stack] as usize] += total[stack];
    }
    // Stacks stand in depth-first order: those that are open are the ancestors.
    let mut open: Vec<usize> = Vec::new();
    let mut depth_of = vec![0u32; rows.len()];
    for (stack, total) in total.into_iter().enumerate().skip(1) {
        let parent = profile.stack_parents[stack] as usize;
        while open.last().is_some_and(|&top| top != parent) {
            open.pop().inspect(|&closed| depth_of[function_of(closed)] -= 1);
        }
        let function = function_of(stack);
        let row = rows[function].get_or_insert_default();
        if depth_of[function] == 0 {
            row.total_sum += total;
        }
        depth_of[function] += 1;
        open.push(stack);
    }
    rows
}

/// The sum of each stack's samples; `None` where it has none.
fn own_values(profile: &Profile, value: usize) -> Vec<Option<i128>> {
    let mut own = vec![None; profile.stack_parents.len()];
    if value >= profile.value_types.len() {
        return own;
    }
    for (row, sample) in profile.samples.iter().enumerate() {
        let value = i128::from(profile.values_of(row)[value]);
        *own[sample.stack.index()].get_or_insert(0) += value;
    }
    own
}
