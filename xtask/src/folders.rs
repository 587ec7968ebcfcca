//! The rule for folders of source: at most twelve siblings, grouped by what they answer.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Failure, tree::SourceFile};

const SIBLINGS_MAX: usize = 12;

/// Where the rule holds. Tests and benchmarks are lists, one file a case.
const CHECKED: [&str; 3] = ["web/src", "python/spanwise", "xtask/src"];

/// Files that only declare their siblings.
const ENTRIES: [&str; 4] = ["lib.rs", "main.rs", "mod.rs", "__init__.py"];

/// Folders that have more, each with the reason.
const EXCEPTIONS: [(&str, &str); 0] = [];

pub(crate) fn check(files: &[SourceFile]) -> Vec<Failure> {
    let mut siblings: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        let mut path = file.path.as_str();
        while let Some((folder, name)) = path.rsplit_once('/') {
            // `a.rs` and the folder `a` beside it are one module.
            let name =
                name.strip_suffix(".rs").filter(|_| !ENTRIES.contains(&name)).unwrap_or(name);
            siblings.entry(folder).or_default().insert(name);
            path = folder;
        }
    }
    let too_many = siblings.into_iter().filter_map(|(folder, names)| {
        let count = names.iter().filter(|name| !ENTRIES.contains(name)).count();
        let is_exception = EXCEPTIONS.iter().any(|(exception, _)| *exception == folder);
        (is_checked(folder) && count > SIBLINGS_MAX && !is_exception).then(|| {
            let what = format!("{count} siblings, more than {SIBLINGS_MAX}");
            Failure::new(folder, what, "group them in folders by what they answer")
        })
    });
    too_many.collect()
}

fn is_checked(folder: &str) -> bool {
    let is_within = |root: &str| format!("{folder}/").starts_with(&format!("{root}/"));
    let is_crate = folder.starts_with("crates/") && format!("{folder}/").contains("/src/");
    is_crate || CHECKED.into_iter().any(is_within)
}

#[test]
fn folders_have_at_most_twelve_siblings_and_an_entry() {
    let folder = |count: usize, name: &str| -> Vec<SourceFile> {
        let file = |path: String| SourceFile { path, text: String::new() };
        let siblings = (0..count).map(|at| file(format!("{name}/a{at}.rs")));
        siblings.chain([file(format!("{name}/mod.rs")), file(format!("{name}/a1/b.rs"))]).collect()
    };
    assert_eq!(check(&folder(12, "crates/a/src/b")), []);
    let failures = check(&folder(13, "crates/a/src/b"));
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0].what, "13 siblings, more than 12");
    assert_eq!(check(&folder(13, "crates/a/tests")), []);
}
