//! The rules for documents: links lead somewhere, and every page is linked.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::{Failure, tree::SourceFile};

pub(crate) fn check(root: &Path, files: &[SourceFile]) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut linked = BTreeSet::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for target in links(&file.text) {
            let target = resolve(&file.path, target);
            if !root.join(&target).exists() {
                let what = format!("links to {}, which is not there", target.display());
                failures.push(Failure::new(&file.path, what, "correct the link"));
            }
            if target != Path::new(&file.path) {
                linked.insert(target);
            }
        }
    }
    for file in files.iter().filter(|file| file.path.starts_with("docs/")) {
        if !linked.contains(Path::new(&file.path)) {
            let cure = "link it from the page that a reader comes from, or delete it";
            failures.push(Failure::new(&file.path, "no page links here", cure));
        }
    }
    for file in files.iter().filter(|file| file.path == "ARCHITECTURE.md") {
        for named in named_files(&file.text).filter(|named| !is_there(named, files)) {
            let what = format!("names `{named}`, which is not there");
            failures.push(Failure::new(&file.path, what, "name the file that there is now"));
        }
    }
    for file in files.iter().filter(|file| is_source(&file.path)) {
        for page in pages(&file.text).filter(|page| !root.join(page).exists()) {
            let what = format!("refers to {page}, which is not there");
            failures.push(Failure::new(&file.path, what, "refer to the page that there is now"));
        }
    }
    let changelog = files.iter().find(|file| file.path == "CHANGELOG.md");
    if !changelog.is_some_and(|file| file.text.contains("\n## [Unreleased]\n")) {
        let cure = "add the section `## [Unreleased]` above the latest version";
        failures.push(Failure::new("CHANGELOG.md", "has no Unreleased section", cure));
    }
    failures
}

/// Files in backticks, such as `a/b.rs`; names with a placeholder are none.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    const ENDINGS: [&str; 5] = [".rs", ".py", ".ts", ".toml", ".md"];
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|name| {
        let is_name = name.bytes().all(|c| c.is_ascii_alphanumeric() || b"/._-".contains(&c));
        is_name && ENDINGS.iter().any(|ending| name.ends_with(ending))
    })
}

/// Whether this is the end of the path of a file.
fn is_there(named: &str, files: &[SourceFile]) -> bool {
    files.iter().any(|file| {
        file.path.strip_suffix(named).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    })
}

fn is_source(path: &str) -> bool {
    (path.starts_with("crates/") || path.starts_with("python/"))
        && (path.ends_with(".rs") || path.ends_with(".py"))
}

/// Pages that help and messages refer to.
fn pages(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("docs/").filter_map(|(at, _)| {
        let rest = &text[at..];
        let is_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let page = rest.split(|c| !is_path(c)).next().unwrap_or_default().trim_end_matches('.');
        (page.ends_with(".md") && !text[..at].ends_with(['/', '-', '_'])).then_some(page)
    })
}

/// The targets of inline links inside the project, without their anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let targets = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    targets.filter_map(|target| target.split('#').next())
}

fn resolve(page: &str, target: &str) -> PathBuf {
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => _ = path.pop(),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

#[test]
fn files_and_pages_are_found() {
    let named = named_files("`a/b.rs` and `c.py`, `<x>.rs`, `run`, `f(a.rs)`");
    assert_eq!(named.collect::<Vec<_>>(), ["a/b.rs", "c.py"]);
    let text = "see docs/how-to/a.md, or x/docs/b.md; docs/ has more (docs/c.md).";
    assert_eq!(pages(text).collect::<Vec<_>>(), ["docs/how-to/a.md", "docs/c.md"]);
}

#[test]
fn links_are_found_and_resolved_from_their_page() {
    let text = "[a](docs/a.md#b), [c](https://d.e/f) and ![g](../h.png) but [i](#j)";
    assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md", "../h.png"]);
    assert_eq!(resolve("docs/b.md", "../h.png"), Path::new("h.png"));
    assert_eq!(resolve("README.md", "./docs/a.md"), Path::new("docs/a.md"));
}
