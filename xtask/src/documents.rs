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
    let changelog = files.iter().find(|file| file.path == "CHANGELOG.md");
    if !changelog.is_some_and(|file| file.text.contains("\n## [Unreleased]\n")) {
        let cure = "add the section `## [Unreleased]` above the latest version";
        failures.push(Failure::new("CHANGELOG.md", "has no Unreleased section", cure));
    }
    failures
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
fn links_are_found_and_resolved_from_their_page() {
    let text = "[a](docs/a.md#b), [c](https://d.e/f) and ![g](../h.png) but [i](#j)";
    assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md", "../h.png"]);
    assert_eq!(resolve("docs/b.md", "../h.png"), Path::new("h.png"));
    assert_eq!(resolve("README.md", "./docs/a.md"), Path::new("docs/a.md"));
}
