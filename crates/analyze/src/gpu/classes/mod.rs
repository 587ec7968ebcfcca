//! Which sorts of work took the GPU's time: attention, matrix products, copies …
//!
//! A kernel's class follows from its name, the operators around its launch and the
//! phase of the launch (`tables/classes.toml`). Work whose launch is not in the trace
//! is known by its name alone.

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{NO_ROW, Nanos, SpanId, SpanKind, StrId};

use crate::gpu::usage::gpu_work;
use crate::{Facts, Phase, TotalNanos};

mod rules;

use rules::Described;
pub(crate) use rules::RuleText;
pub use rules::{ClassRules, OTHER};

/// GPU work by class, most time first, [`OTHER`] last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassUse {
    pub rows: Vec<ClassRow>,
    /// Sum over all rows: all GPU work.
    pub work_ns: TotalNanos,
}

/// GPU work of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassRow {
    pub class: String,
    pub total_ns: TotalNanos,
    pub count: u64,
    pub max_ns: Nanos,
    /// How many names the work of this class has.
    pub kernels: u64,
    /// The name that took most of it, and how much that was.
    pub top_kernel: String,
    pub top_kernel_ns: TotalNanos,
}

impl ClassRow {
    pub fn mean_ns(&self) -> TotalNanos {
        self.total_ns / i128::from(self.count.max(1))
    }
}

pub(crate) fn class_use(facts: &Facts) -> ClassUse {
    let (spans, known) = (facts.trace().spans(), facts.span_classes());
    let mut sums: Vec<BTreeMap<StrId, Sum>> = Vec::new();
    sums.resize_with(known.classes.len(), BTreeMap::new);
    for span in gpu_work(facts.trace()) {
        let Some(class) = known.of_span[span.index()] else { continue };
        let sum = sums[class as usize].entry(facts.names().merged(spans.name(span))).or_default();
        sum.count += 1;
        sum.total_ns += i128::from(spans.dur(span));
        sum.max_ns = sum.max_ns.max(spans.dur(span));
    }
    let mut rows: Vec<ClassRow> = Vec::new();
    for (class, by_name) in known.classes.iter().zip(&sums) {
        let largest = by_name.iter().rev().max_by_key(|(_, sum)| sum.total_ns);
        let Some((&top, top_sum)) = largest else { continue };
        rows.push(ClassRow {
            class: class.clone(),
            total_ns: by_name.values().map(|sum| sum.total_ns).sum(),
            count: by_name.values().map(|sum| sum.count).sum(),
            max_ns: by_name.values().map(|sum| sum.max_ns).max().unwrap_or(0),
            kernels: by_name.len() as u64,
            top_kernel: facts.names().text(top).into_owned(),
            top_kernel_ns: top_sum.total_ns,
        });
    }
    rows.sort_by(|a, b| {
        let rank = |row: &ClassRow| (row.class == OTHER, -row.total_ns);
        (rank(a), &a.class).cmp(&(rank(b), &b.class))
    });
    ClassUse { work_ns: rows.iter().map(|row| row.total_ns).sum(), rows }
}

/// The class of each span's work, as a number of `classes`; nothing for what is no GPU work.
pub struct SpanClasses {
    pub classes: Vec<String>,
    pub of_span: Vec<Option<u32>>,
}

pub(crate) fn span_classes(facts: &Facts) -> SpanClasses {
    let mut classifier = Classifier::new(facts, facts.rules());
    let mut of_span = vec![None; facts.trace().spans().len()];
    for span in gpu_work(facts.trace()) {
        of_span[span.index()] = Some(classifier.class(span));
    }
    SpanClasses { classes: classifier.classes, of_span }
}

#[derive(Default)]
struct Sum {
    count: u64,
    total_ns: TotalNanos,
    max_ns: Nanos,
}

/// What a class depends on; decided once for each.
type Key = (SpanKind, StrId, Option<StrId>, Option<Phase>, u128);

/// Finds the class of GPU work.
pub(crate) struct Classifier<'a> {
    facts: &'a Facts,
    rules: &'a ClassRules,
    /// By number, in order of first use.
    pub(crate) classes: Vec<String>,
    known: HashMap<Key, u32>,
    /// By name: which rules it satisfies when it is around a launch.
    under: Vec<Option<u128>>,
    around: Option<Around>,
}

/// Which rules what is around each span satisfies, itself included.
struct Around {
    /// By span: a row of `sets`, of which there are few.
    of: Vec<u32>,
    sets: Vec<u128>,
}

impl<'a> Classifier<'a> {
    pub(crate) fn new(facts: &'a Facts, rules: &'a ClassRules) -> Self {
        Classifier {
            facts,
            rules,
            classes: Vec::new(),
            known: HashMap::new(),
            under: vec![None; facts.trace().strings().len()],
            around: None,
        }
    }

    /// The number of the class of a piece of GPU work.
    pub(crate) fn class(&mut self, work: SpanId) -> u32 {
        let (trace, spans) = (self.facts.trace(), self.facts.trace().spans());
        let call = spans.launch(work);
        let operator = call.and_then(|call| self.facts.frames().operator(call));
        let operator = operator.map(|operator| spans.name(operator));
        let under = call.map_or(0, |call| self.around(call));
        let name = self.facts.names().merged(spans.name(work));
        let key = (trace.kind(work), name, operator, self.facts.phases().of(work), under);
        if let Some(&class) = self.known.get(&key) {
            return class;
        }
        let small = |id: StrId| trace.strings().get(id).to_lowercase();
        let class = self.rules.class(&Described {
            kernel: &small(name),
            operator: &operator.map(small).unwrap_or_default(),
            kind: key.0,
            phase: key.3,
            under,
        });
        let number = match self.classes.iter().position(|known| known == class) {
            Some(at) => at,
            None => {
                self.classes.push(class.to_owned());
                self.classes.len() - 1
            }
        };
        self.known.insert(key, number as u32);
        number as u32
    }

    /// Which rules what is around a call satisfies.
    fn around(&mut self, call: SpanId) -> u128 {
        let around = match self.around.take() {
            Some(around) => around,
            None => self.all_around(),
        };
        let bits = around.sets[around.of[call.index()] as usize];
        self.around = Some(around);
        bits
    }

    /// One forward pass: a parent always stands before its children (I3).
    fn all_around(&mut self) -> Around {
        let (trace, spans) = (self.facts.trace(), self.facts.trace().spans());
        let mut around = Around { of: Vec::with_capacity(spans.len()), sets: vec![0] };
        let mut numbers: HashMap<u128, u32> = HashMap::from([(0, 0)]);
        let rows = spans.parent_column().iter().zip(spans.name_column().iter());
        for (&parent, &name) in rows {
            let outer = if parent == NO_ROW { 0 } else { around.of[parent as usize] };
            let name = StrId(name);
            let own = *self.under[name.index()].get_or_insert_with(|| {
                self.rules.under_bits(&trace.strings().get(name).to_lowercase())
            });
            let bits = around.sets[outer as usize];
            let number = match own | bits {
                all if all == bits => outer,
                all => *numbers.entry(all).or_insert_with(|| {
                    around.sets.push(all);
                    around.sets.len() as u32 - 1
                }),
            };
            around.of.push(number);
        }
        around
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    /// `expected`: class, total, count, top kernel.
    #[track_caller]
    fn check(sample: &mut Sample, expected: &[(&str, i128, u64, &str)]) {
        let trace = sample.finish();
        let used = class_use(&Facts::new(&trace));
        let rows: Vec<_> = used
            .rows
            .iter()
            .map(|row| (row.class.as_str(), row.total_ns, row.count, row.top_kernel.as_str()))
            .collect();
        assert_eq!(rows, expected);
        assert_eq!(used.work_ns, expected.iter().map(|row| row.1).sum::<i128>());
    }

    #[test]
    fn classes_add_up_and_other_stands_last() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Operator, "aten::softmax", 0, 100);
        sample.span("1", SpanKind::Operator, "aten::mul", 10, 50);
        sample.call("1", 20, 1, 1);
        sample.call("1", 200, 1, 2);
        sample.work("7", SpanKind::Kernel, "elementwise_kernel", (300, 5), 1);
        sample.work("7", SpanKind::Kernel, "elementwise_kernel", (310, 7), 2);
        sample.work("7", SpanKind::Kernel, "sgemm", (320, 9), 99);
        sample.work("7", SpanKind::Kernel, "nvjet_x", (330, 20), 98);
        sample.work("7", SpanKind::Kernel, "mine", (360, 1000), 97);
        sample.work("7", SpanKind::Memset, "Memset (Device)", (1400, 3), 96);
        check(
            &mut sample,
            &[
                ("gemm", 29, 2, "nvjet_x"),
                ("elementwise", 7, 1, "elementwise_kernel"),
                ("softmax", 5, 1, "elementwise_kernel"),
                ("copy", 3, 1, "Memset (Device)"),
                ("other", 1000, 1, "mine"),
            ],
        );
    }

    #[test]
    fn without_gpu_work_there_are_no_classes() {
        check(Sample::default().span("1", SpanKind::Operator, "aten::mm", 0, 5), &[]);
    }
}
