//! What is written down about sections elsewhere follows from their declarations.
//!
//! `UPDATE=1 cargo test -p spanwise-report --test declared` writes the generated files anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use spanwise_analyze::{ClassRules, CompareBy, CompareOptions, Facts, RankDigester, fusion, ranks};
use spanwise_model::{SourceInfo, Trace, TraceBuilder};
use spanwise_read::{IndexUse, OpenOptions};
use spanwise_report::{
    ALL, PROFILE_SECTIONS, RANK_SECTIONS, RanksRequest, ReportRequest, SECTIONS, Shown, UnreadFile,
    compare_sides, gate_section, ranks_report, report, side,
};
use spanwise_write::{
    CompareView, Document, Format, Style, Top, compare_document, fusion_document, info_document,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text_of(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("part of the repository")
}

/// Compares a generated file with what is there, or writes it.
#[track_caller]
fn check_generated(path: &str, expected: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(root().join(path), expected).expect("writable");
    }
    let update = "UPDATE=1 cargo test -p spanwise-report --test declared";
    assert!(text_of(path) == expected, "{path} is not what the declarations give: {update}");
}

#[test]
fn the_documentation_lists_every_section() {
    let text = text_of("docs/reference/sections.md");
    let (of_traces, rest) = text.split_once("## Several ranks").expect("a heading");
    let (of_ranks, of_profiles) = rest.split_once("## Profiles").expect("a heading");
    let key = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    let keys = |text: &str| -> Vec<String> { text.lines().filter_map(key).collect() };
    assert_eq!(keys(of_ranks), RANK_SECTIONS.iter().map(|def| def.key).collect::<Vec<_>>());
    assert_eq!(keys(of_profiles), PROFILE_SECTIONS.iter().map(|def| def.key).collect::<Vec<_>>());
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(|cell| cell.trim().to_owned());
        let key = cells.next()?.trim_end_matches('`').to_owned();
        Some((key, cells.nth(1)?))
    };
    let documented: BTreeMap<String, String> = of_traces.lines().filter_map(row).collect();
    let shown = |shown: Shown| match shown {
        Shown::Always => "always",
        Shown::WhereRecorded => "if recorded",
        Shown::OnRequest => "request",
    };
    let declared = SECTIONS.iter().map(|def| (def.key.to_owned(), shown(def.shown).to_owned()));
    assert_eq!(documented, declared.collect());
}

#[test]
fn every_section_is_a_documented_method_of_python() {
    let methods = text_of("docs/reference/python/traces.md");
    let mut stub = String::from(
        "# Generated: UPDATE=1 cargo test -p spanwise-report --test declared\n\n\
         from .._native import Trace\n\
         from .table import Table\n\n\
         class Sections:\n    _trace: Trace\n",
    );
    for def in SECTIONS {
        let method = def.method;
        assert!(methods.contains(&format!("`{method}`")) || method == "calls", "{method}");
        writeln!(stub, "    def {method}(self, *, top: int | None = ...) -> Table: ...")
            .expect("a string takes everything");
    }
    check_generated("python/spanwise/_traces/sections.pyi", &stub);
    let (methods, source) =
        (text_of("docs/reference/python/fleet.md"), text_of("python/spanwise/_fleet/fleet.py"));
    for def in RANK_SECTIONS {
        let method = def.method;
        assert!(source.contains(&format!("def {method}(")), "{method}");
        assert!(methods.contains(&format!("`{method}")), "{method}");
    }
}

fn opened(path: &str) -> Arc<Trace> {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    spanwise_read::open(&root().join(path), &options).expect("a trace").into()
}

fn report_of(trace: &Arc<Trace>) -> Document {
    let facts = Facts::new(trace);
    let mut document = report(&ReportRequest::new(&facts, "file", Top::All, &[ALL.to_owned()]));
    document.sections.push(gate_section(&[]));
    document
}

fn info_of(trace: &Trace) -> Document {
    info_document("file", &trace.summary(), Top::All)
}

fn comparison_of(traces: [&Arc<Trace>; 2], by: CompareBy) -> Document {
    let [base, other] = traces.map(Facts::new);
    let options = CompareOptions { with_stacks: true, ..CompareOptions::by(by) };
    let series = |facts: &Facts| [side(facts, "file", &options).expect("a step")];
    let sides = [&series(&base)[..], &series(&other)[..]];
    let (comparison, _) = compare_sides(sides, [Some(&base), Some(&other)], &options);
    let view = CompareView { top: Top::All, shows_same: true, shows_stacks: true };
    let mut document = compare_document(&comparison, view);
    document.sections.push(gate_section(&[]));
    document
}

/// What files of several ranks say together, with one that cannot be read.
fn ranks_of(traces: &[Arc<Trace>]) -> Document {
    let digester = RankDigester::default();
    let digest = |(rank, trace)| digester.digest(&Facts::new(trace), "file", Some(rank));
    let ranks = ranks((0..).zip(traces).map(digest).collect());
    let unread = [UnreadFile { file: "file".to_owned(), reason: "reason".to_owned() }];
    let sections = [ALL.to_owned()];
    ranks_report(&RanksRequest {
        ranks: &ranks,
        unread: &unread,
        top: Top::All,
        sections: &sections,
    })
}

fn kernels_of(base: &Arc<Trace>, other: &Arc<Trace>) -> Document {
    let found = fusion(&Facts::new(base), &Facts::new(other), &ClassRules::standard());
    fusion_document(["base", "other"], &found, Top::All)
}

/// Traces of different kinds: of GPU work, of threads, of samples, of calls.
fn traces() -> Vec<Arc<Trace>> {
    let paths = [
        "testdata/kineto/llama_small.json.gz",
        "testdata/kineto/llama_small_eager.json.gz",
        "testdata/perf/locks.perf",
        "testdata/kineto/memory.json",
    ];
    paths.map(opened).into()
}

fn schema(document: &Document, name: &str) -> String {
    let mut out = Vec::new();
    document.write_json_schema(name, &mut out).expect("a vector takes everything");
    String::from_utf8(out).expect("text")
}

#[test]
fn json_is_what_its_schema_says() {
    let empty: Arc<Trace> = TraceBuilder::new(1).finish(SourceInfo::default(), None).into();
    let traces = traces();
    check_schema("report", &report_of(&empty), traces.iter().map(report_of));
    check_schema("info", &info_of(&empty), traces.iter().map(|trace| info_of(trace)));
    let ddp: Vec<Arc<Trace>> =
        (0..4).map(|rank| opened(&format!("testdata/kineto/ddp/ddp_rank{rank}.json.gz"))).collect();
    check_schema("ranks", &ranks_of(std::slice::from_ref(&empty)), [ranks_of(&ddp)].into_iter());
    let kernels = kernels_of(&traces[0], &traces[1]);
    check_schema("kernels", &kernels_of(&empty, &empty), [kernels].into_iter());
    let compared = |by| comparison_of([&traces[0], &traces[1]], by);
    let others = [CompareBy::Class, CompareBy::Kernel, CompareBy::Phase].map(compared);
    check_schema("compare", &compared(CompareBy::Operator), others.into_iter());
}

#[track_caller]
fn check_schema(name: &str, declared: &Document, real: impl Iterator<Item = Document>) {
    let text = schema(declared, name);
    check_generated(&format!("docs/reference/json-schema/{name}.json"), &text);
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    for document in real {
        let mut out = Vec::new();
        let style = Style { color: false, width: 100 };
        document.write(Format::Json, style, &mut out).expect("a vector takes everything");
        let value: Value = serde_json::from_slice(&out).expect("JSON");
        check_value(&schema, &value, name);
    }
}

/// What our schemas use of JSON schema.
#[track_caller]
fn check_value(schema: &Value, value: &Value, place: &str) {
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => vec![one.as_str().expect("a type")],
    };
    let fits = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        // Sums may exceed 64 bits.
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f > 1e18),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{place}: the type {other} is not checked"),
    };
    assert!(types.iter().any(fits), "{place}: {value} is none of {types:?}");
    for row in value.as_array().into_iter().flatten() {
        check_value(&schema["items"], row, place);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{key}");
        let property = &schema["properties"][key];
        assert!(property.is_object(), "{place}: not in the schema");
        check_value(property, value, &place);
    }
}
