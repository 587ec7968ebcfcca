//! Which crate may use which: the rooms of ARCHITECTURE.md as a table.
//!
//! A new edge or a new dependency is a line here, so that it is seen in review.

use serde_json::Value;

use crate::{Failure, license};

/// A crate of ours; then what it may use: of ours, from outside, in its tests only.
const ROOMS: &[[&str; 4]] = &[
    ["spanwise-glob", "", "", "proptest"],
    ["spanwise-model", "", "arrow-buffer hashbrown serde thiserror", "proptest"],
    ["spanwise-files", "", "libc rustix", "tempfile"],
    ["spanwise-callstack", "spanwise-model", "", "proptest"],
    ["spanwise-pt", "", "", "libc proptest"],
    ["spanwise-protobuf", "", "", ""],
    [
        "spanwise-symbols",
        "spanwise-files spanwise-glob spanwise-pt",
        "cpp_demangle flate2 framehop gimli memchr object rustc-demangle rustix zstd",
        "tempfile",
    ],
    ["spanwise-recording", "spanwise-files", "serde_json", "tempfile"],
    [
        "spanwise-read",
        "spanwise-files spanwise-model spanwise-callstack spanwise-protobuf spanwise-pt \
         spanwise-recording spanwise-symbols",
        "arrow-array arrow-buffer arrow-ipc arrow-schema crc32fast flate2 liblzma memchr \
         rustix serde serde_json thiserror zstd",
        "cpp_demangle libc object proptest rustc-demangle spanwise-capture spanwise-probe \
         spanwise-write tempfile",
    ],
    ["spanwise-analyze", "spanwise-glob spanwise-model", "serde toml", "proptest"],
    [
        "spanwise-write",
        "spanwise-model spanwise-analyze spanwise-protobuf",
        "cpp_demangle flate2",
        "",
    ],
    ["spanwise-query", "spanwise-model spanwise-analyze", "rusqlite thiserror", "spanwise-read"],
    [
        "spanwise-serve",
        "spanwise-model spanwise-analyze spanwise-query spanwise-report spanwise-write",
        "serde_json",
        "spanwise-probe spanwise-read tempfile",
    ],
    [
        "spanwise-report",
        "spanwise-files spanwise-glob spanwise-model spanwise-read spanwise-analyze \
         spanwise-write",
        "thiserror",
        "serde_json",
    ],
    [
        "spanwise-capture",
        "spanwise-files spanwise-pt spanwise-recording spanwise-symbols",
        "libc",
        "tempfile",
    ],
    ["spanwise-probe", "spanwise-probe-macros", "", ""],
    ["spanwise-probe-macros", "", "", ""],
    ["spanwise-probe-tracing", "spanwise-probe", "tracing-core tracing-subscriber", "tracing"],
    [
        "spanwise-py",
        "spanwise-analyze spanwise-model spanwise-probe spanwise-read spanwise-report \
         spanwise-serve spanwise-write",
        "arrow-array arrow-buffer arrow-ipc arrow-schema pyo3",
        "",
    ],
    [
        "spanwise",
        "spanwise-capture spanwise-files spanwise-model spanwise-callstack spanwise-read \
         spanwise-analyze spanwise-query spanwise-report spanwise-serve \
         spanwise-symbols spanwise-write",
        "anyhow clap clap_complete terminal_size",
        "flate2 libc liblzma serde_json tempfile zstd",
    ],
    ["xtask", "", "anyhow serde_json", ""],
];

/// Checks what `cargo metadata` says of our crates and of all they bring along.
pub(crate) fn check(metadata: &Value) -> Vec<Failure> {
    let mut failures = Vec::new();
    for package in list(metadata, "packages") {
        let name = text(package, "name");
        let license = text(package, "license");
        if !license::is_allowed(license) {
            let what = format!("license `{license}` is not among those we accept");
            let cure = "choose another crate; xtask/src/license.rs has the list";
            failures.push(Failure::new(name, what, cure));
        }
        if package["source"].is_null() {
            match ROOMS.iter().find(|room| room[0] == name) {
                Some(room) => check_room(room, list(package, "dependencies"), &mut failures),
                None => failures.push(Failure::new(
                    name,
                    "a crate without a room",
                    "add it to ROOMS in xtask/src/crates.rs and to ARCHITECTURE.md",
                )),
            }
        }
    }
    failures
}

fn check_room(room: &[&str; 4], dependencies: &[Value], failures: &mut Vec<Failure>) {
    let [name, ours, outside, tests] = room;
    let used = dependencies.iter().map(|used| (text(used, "name"), used["kind"] == "dev"));
    let used: Vec<(&str, bool)> = used.collect();
    let for_users = ours.split_whitespace().chain(outside.split_whitespace());
    let mut allowed: Vec<(&str, bool)> = for_users.map(|name| (name, false)).collect();
    allowed.extend(tests.split_whitespace().map(|name| (name, true)));
    for (new, _) in used.iter().filter(|edge| !allowed.contains(edge)) {
        let what = format!("uses {new}, which ROOMS does not allow");
        let cure = "do without; or add it to ROOMS in xtask/src/crates.rs and say why";
        failures.push(Failure::new(*name, what, cure));
    }
    for (old, _) in allowed.iter().filter(|edge| !used.contains(edge)) {
        let cure = "delete it from ROOMS in xtask/src/crates.rs";
        failures.push(Failure::new(*name, format!("no longer uses {old}"), cure));
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_edges(dependencies: Value, expected: &[&str]) {
        let package = serde_json::json!({
            "name": "spanwise-analyze", "license": "MIT", "source": null,
            "dependencies": dependencies,
        });
        let failures = check(&serde_json::json!({ "packages": [package] }));
        assert_eq!(failures.iter().map(|f| f.what.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_new_edge_fails() {
        let edges = serde_json::json!([
            { "name": "spanwise-glob", "kind": null },
            { "name": "spanwise-model", "kind": null },
            { "name": "spanwise-read", "kind": null },
            { "name": "serde", "kind": null },
            { "name": "toml", "kind": null },
            { "name": "proptest", "kind": "dev" },
        ]);
        check_edges(edges, &["uses spanwise-read, which ROOMS does not allow"]);
    }

    #[test]
    fn an_edge_no_longer_used_fails() {
        let edges = serde_json::json!([
            { "name": "proptest", "kind": "dev" },
            { "name": "spanwise-glob", "kind": null },
            { "name": "serde", "kind": null },
            { "name": "toml", "kind": null },
        ]);
        check_edges(edges, &["no longer uses spanwise-model"]);
    }
}
