//! The names of all sections: what `--section` takes, and what the help says of each.

use spanwise_report::{ALL, SECTIONS, SectionDef, Shown, is_section};

use super::{profile, ranks};

/// Everything that `--section` takes.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let others = ranks::SECTIONS.iter().chain(profile::SECTIONS).map(|row| row.0);
    // Traces and profiles both have functions.
    let others = others.filter(|name| !is_section(name));
    SECTIONS.iter().map(|row| row.key).chain(others).chain([ALL])
}

/// The list of sections for the help.
pub(crate) fn help() -> String {
    let line = |row: &&SectionDef| {
        let mark = if row.shown == Shown::OnRequest { '+' } else { ' ' };
        format!(" {mark}{:<16}{}\n", row.key, row.about)
    };
    let marked = SECTIONS.iter().any(|row| row.shown == Shown::OnRequest);
    let note = if marked { " (+ on request)" } else { "" };
    let lines = |rows: &[(&str, &str)]| -> String {
        rows.iter().map(|row| format!("  {:<16}{}\n", row.0, row.1)).collect()
    };
    format!(
        "Sections{note}:\n{}\nSections about several ranks:\n{}\nSections about profiles:\n{}",
        SECTIONS.iter().map(line).collect::<String>(),
        lines(ranks::SECTIONS),
        lines(profile::SECTIONS),
    )
}
