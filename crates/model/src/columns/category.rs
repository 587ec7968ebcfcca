//! What kind of work a span stands for.
//!
//! Sources name categories as they like; an analysis asks for the [`SpanKind`]. A
//! reader translates once, so that a new producer is a new row in its table and
//! no analysis changes.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{NO_OFFSET, NoticeKind, Notices, StrId, Strings, StringsBuilder, count_effort};

/// Number of a category in its trace, or in a batch.
///
/// Wider than the columns of a trace, which have 16 bits: a batch numbers all that it meets,
/// and a [`CategoryTable`] decides which of them a trace distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CategoryId(pub u32);

impl CategoryId {
    /// The id as an index of a column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<u16> for CategoryId {
    fn from(id: u16) -> Self {
        CategoryId(id.into())
    }
}

/// What a span means to an analysis.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum SpanKind {
    /// Anything about which the source says nothing more.
    Other = 0,
    /// A Python frame.
    Python,
    /// A framework operator, such as `aten::mm`.
    Operator,
    /// A range that the user marked.
    Annotation,
    /// A call of a GPU runtime or driver; it may launch GPU work.
    Runtime,
    /// A GPU kernel.
    Kernel,
    /// A copy by or to a GPU.
    Memcpy,
    /// A fill of GPU memory.
    Memset,
    /// Waiting recorded on the GPU side.
    Sync,
    /// A copy of an annotation on the GPU's row; no work of its own.
    GpuAnnotation,
    /// Time that the profiler itself took.
    Overhead,
    /// The profiler's bar over the whole recording; no work of its own.
    Window,
    /// A thread that does not run: see [`crate::ThreadState`].
    OffCpu,
    /// A thread that waits for a lock, whether it runs or not: see [`crate::AwaitedLock`].
    LockWait,
    /// A call drawn from samples that had its function in the same place of the stack: a
    /// picture for the timeline, and never the source of a number (I11).
    Sampled,
}

impl SpanKind {
    /// All values, in the order of their numbers.
    pub const ALL: [SpanKind; 15] = [
        SpanKind::Other,
        SpanKind::Python,
        SpanKind::Operator,
        SpanKind::Annotation,
        SpanKind::Runtime,
        SpanKind::Kernel,
        SpanKind::Memcpy,
        SpanKind::Memset,
        SpanKind::Sync,
        SpanKind::GpuAnnotation,
        SpanKind::Overhead,
        SpanKind::Window,
        SpanKind::OffCpu,
        SpanKind::LockWait,
        SpanKind::Sampled,
    ];

    /// The word for it in tables, in the index and in the viewer.
    pub const fn text(self) -> &'static str {
        match self {
            SpanKind::Other => "other",
            SpanKind::Python => "python",
            SpanKind::Operator => "operator",
            SpanKind::Annotation => "annotation",
            SpanKind::Runtime => "runtime",
            SpanKind::Kernel => "kernel",
            SpanKind::Memcpy => "memcpy",
            SpanKind::Memset => "memset",
            SpanKind::Sync => "sync",
            SpanKind::GpuAnnotation => "gpu_annotation",
            SpanKind::Overhead => "overhead",
            SpanKind::Window => "window",
            SpanKind::OffCpu => "off_cpu",
            SpanKind::LockWait => "lock_wait",
            SpanKind::Sampled => "sampled",
        }
    }

    /// True for what keeps a GPU busy.
    pub fn is_gpu_work(self) -> bool {
        matches!(self, SpanKind::Kernel | SpanKind::Memcpy | SpanKind::Memset)
    }

    /// True for what belongs to a GPU's row, work or not.
    pub fn is_on_gpu(self) -> bool {
        self.is_gpu_work() || matches!(self, SpanKind::Sync | SpanKind::GpuAnnotation)
    }

    /// True for what may stand in a thread's call stack.
    pub fn is_on_stack(self) -> bool {
        use SpanKind::{Annotation, Operator, Other, Python, Runtime};
        matches!(self, Other | Python | Operator | Annotation | Runtime)
    }

    /// True for what says something about a thread, reported by it or seen from outside.
    pub fn is_of_thread(self) -> bool {
        use SpanKind::{LockWait, OffCpu, Sampled};
        self.is_on_stack() || matches!(self, OffCpu | LockWait | Sampled)
    }
}

/// A category as its source named it, with what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Category {
    /// Its name in the source.
    pub name: StrId,
    /// Its meaning.
    pub kind: SpanKind,
}

/// All categories of a trace, in order of first use.
#[derive(Debug, Clone, Default)]
pub struct Categories(Vec<Category>);

impl Categories {
    /// From its rows.
    pub fn new(rows: Vec<Category>) -> Self {
        Categories(rows)
    }

    /// The category of an id.
    pub fn get(&self, id: CategoryId) -> Category {
        self.0[id.index()]
    }

    /// All rows.
    pub fn rows(&self) -> &[Category] {
        &self.0
    }

    /// The source's names, made different from each other: by their kind, and where that is a
    /// name as well, by a number.
    pub fn distinct_names(&self, strings: &Strings) -> Vec<String> {
        // A number is not tried twice with a name, so that all tries are as few as the rows.
        let mut names: HashMap<String, u32> = HashMap::with_capacity(self.0.len());
        let mut distinct = |row: &Category| {
            let plain = strings.get(row.name).to_owned();
            let mut name = plain.clone();
            count_effort(1);
            if names.contains_key(&name) {
                let with_kind = format!("{plain} ({})", row.kind.text());
                name.clone_from(&with_kind);
                while names.contains_key(&name) {
                    count_effort(1);
                    let number = names.get_mut(&with_kind).map_or(2, |tried| {
                        *tried += 1;
                        *tried
                    });
                    name = format!("{with_kind} {number}");
                }
            }
            names.insert(name.clone(), 1);
            name
        };
        self.0.iter().map(&mut distinct).collect()
    }
}

/// Gives categories numbers of 16 bits. Those beyond stand under one category for each kind,
/// never under another one's name, and are counted (I6).
#[derive(Debug, Default)]
pub(crate) struct CategoryTable {
    rows: Vec<Category>,
    ids: HashMap<CategoryKey, u16>,
    /// How many categories have no number of their own.
    beyond: u64,
}

/// The name, and the kind if several kinds have the name.
pub(crate) type CategoryKey = (StrId, Option<SpanKind>);

impl CategoryTable {
    /// The last numbers are for the categories that stand for all others.
    const OWN_MAX: usize = (1 << 16) - SpanKind::ALL.len();

    pub(crate) fn id(
        &mut self,
        key: CategoryKey,
        kind: SpanKind,
        strings: &mut StringsBuilder,
    ) -> u16 {
        if let Some(&known) = self.ids.get(&key) {
            return known;
        }
        let id = match self.rows.len() < Self::OWN_MAX {
            true => self.push(Category { name: key.0, kind }),
            false => {
                self.beyond += 1;
                let name = strings.intern(&format!("[other categories: {}]", kind.text()));
                let others = (name, key.1.map(|_| kind));
                match self.ids.get(&others) {
                    Some(&known) => known,
                    None => {
                        let id = self.push(Category { name, kind });
                        self.ids.insert(others, id);
                        id
                    }
                }
            }
        };
        self.ids.insert(key, id);
        id
    }

    fn push(&mut self, category: Category) -> u16 {
        self.rows.push(category);
        (self.rows.len() - 1) as u16
    }

    pub(crate) fn rows(&self) -> &[Category] {
        &self.rows
    }

    /// Adds a notice with the number of categories that the trace does not distinguish.
    pub(crate) fn notice(&self, notices: &mut Notices) {
        notices.add_count(NoticeKind::TooManyCategories, self.beyond, NO_OFFSET);
    }

    pub(crate) fn finish(self) -> Categories {
        Categories(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[(&str, SpanKind)]) -> (Categories, Strings) {
        let mut strings = StringsBuilder::default();
        let row = |&(name, kind): &(&str, SpanKind)| Category { name: strings.intern(name), kind };
        let rows = names.iter().map(row).collect();
        (Categories::new(rows), strings.finish())
    }

    #[test]
    fn equal_names_become_different() {
        use SpanKind::{Kernel, Memcpy, Other};
        let check = |names: &[(&str, SpanKind)], expected: &[&str]| {
            let (categories, strings) = named(names);
            assert_eq!(categories.distinct_names(&strings), expected);
        };
        check(&[("a", Other), ("b", Other)], &["a", "b"]);
        check(&[("a", Other), ("a", Kernel), ("a", Memcpy)], &["a", "a (kernel)", "a (memcpy)"]);
        check(
            &[("a", Other), ("a (kernel)", Other), ("a (kernel) 2", Other), ("a", Kernel)],
            &["a", "a (kernel)", "a (kernel) 2", "a (kernel) 3"],
        );
        check(
            &[("a", Other), ("a", Kernel), ("a (kernel)", Other)],
            &["a", "a (kernel)", "a (kernel) (other)"],
        );
    }

    #[test]
    fn names_made_to_need_many_tries_take_steps_in_proportion() {
        let steps = |count: usize| {
            let taken: Vec<String> = (2..count).map(|at| format!("a (kernel) {at}")).collect();
            let mut rows: Vec<(&str, SpanKind)> =
                taken.iter().map(|name| (&**name, SpanKind::Other)).collect();
            rows.extend([("a (kernel)", SpanKind::Other), ("a", SpanKind::Other)]);
            rows.extend(vec![("a", SpanKind::Kernel); count]);
            let (categories, strings) = named(&rows);
            let before = crate::effort();
            let mut names = categories.distinct_names(&strings);
            let steps = crate::effort().zip(before).map_or(0, |(after, before)| after - before);
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), rows.len());
            steps
        };
        let [once, twice, four_times] = [1000, 2000, 4000].map(steps);
        assert!(four_times - twice <= 2 * (twice - once) + 10, "{once} {twice} {four_times}");
    }

    #[test]
    fn categories_beyond_16_bits_stand_under_their_kind_and_are_counted() {
        let (mut table, mut strings) = (CategoryTable::default(), StringsBuilder::default());
        for at in (0..70_000).chain(0..70_000) {
            let kind = if at % 2 == 0 { SpanKind::Kernel } else { SpanKind::Other };
            let name = strings.intern(&format!("c{at}"));
            let row = table.id((name, None), kind, &mut strings);
            let row = table.rows()[usize::from(row)];
            assert_eq!(row.kind, kind, "{at}");
            assert_eq!(row.name == name, at < CategoryTable::OWN_MAX, "{at}");
        }
        let others = &table.rows()[CategoryTable::OWN_MAX..];
        let mut others: Vec<&str> = others.iter().map(|row| strings.get(row.name)).collect();
        // Which comes first depends on how many kinds there are.
        others.sort_unstable();
        assert_eq!(others, ["[other categories: kernel]", "[other categories: other]"]);
        let mut notices = Notices::default();
        table.notice(&mut notices);
        let beyond = (70_000 - CategoryTable::OWN_MAX) as u64;
        assert_eq!(notices.count(NoticeKind::TooManyCategories), beyond);
    }

    #[test]
    fn kinds_stand_in_order_and_are_named_as_they_are_stored() {
        for (at, kind) in SpanKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!(kind.text().replace('_', ""), format!("{kind:?}").to_lowercase());
        }
    }
}
