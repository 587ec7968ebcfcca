//! The questions of docs/reference/sql.md, each against what an analysis or a plain loop over the
//! trace says.
//!
//! A question is known by its heading. One that has no check here fails, and so does a check
//! whose question is gone.

mod expected;
mod observed;

use std::path::Path;
use std::sync::Arc;

use expected::Expect;
use spanwise_model::Trace;
use spanwise_query::{Database, Limits, tables_help};
use spanwise_read::{IndexUse, OpenOptions};

const ALL: Limits = Limits::NONE;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/sql.md");
    std::fs::read_to_string(path).expect("the page")
}

fn open(path: &str) -> Arc<Trace> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path);
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    Arc::new(spanwise_read::open(&path, &options).expect("a trace of ours"))
}

/// Headings and the SQL below them.
fn questions(page: &str) -> Vec<(String, String)> {
    let sections = page.split("\n### ").skip(1);
    let parse = |section: &str| {
        let (heading, body) = section.split_once('\n')?;
        let sql = body.split_once("```sql\n")?.1.split_once("```")?.0;
        Some((heading.to_owned(), sql.to_owned()))
    };
    sections.map(|section| parse(section).unwrap_or_else(|| panic!("no SQL: {section}"))).collect()
}

/// Headings, the traces to ask, the answer.
fn checks() -> impl Iterator<Item = &'static (&'static str, &'static [&'static str], Expect)> {
    expected::QUESTIONS.iter().chain(observed::QUESTIONS)
}

#[test]
fn every_question_of_the_page_is_answered_rightly() {
    let page = page();
    let asked = questions(&page);
    assert_eq!(asked.len(), page.matches("```sql").count(), "all SQL stands under a heading");
    let known: Vec<&str> = checks().map(|row| row.0).collect();
    let headings: Vec<&str> = asked.iter().map(|(heading, _)| &**heading).collect();
    assert_eq!(headings, known);
    for ((heading, sql), (_, paths, expect)) in asked.iter().zip(checks()) {
        let traces: Vec<Arc<Trace>> = paths.iter().map(|path| open(path)).collect();
        let database = Database::new(traces.clone()).expect("tables");
        let found = database.ask(sql, ALL).unwrap_or_else(|error| panic!("{heading}: {error}"));
        let Expect(expect) = expect;
        let expected = expect(&traces);
        assert!(!expected.is_empty(), "{heading}: a question that has an answer is needed");
        assert_eq!(found.rows, expected, "{heading}");
    }
}

#[test]
fn the_page_names_all_that_can_be_asked() {
    let page = page();
    for table in tables_help() {
        let name = table.name;
        assert!(page.contains(&format!("`{name}`")), "{name} is missing");
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        for (column, ..) in table.columns {
            let named = row.is_some_and(|row| row.contains(&format!("`{column}`")));
            assert!(named, "{name}.{column} is missing");
        }
    }
}
