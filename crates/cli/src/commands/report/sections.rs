//! The names of all sections: what `--section` takes, and what the help says of each.

use spanwise_report::{
    ALL, PROFILE_SECTIONS, RANK_SECTIONS, SECTIONS, SectionDef, Shown, Subject, is_section,
};

/// Everything that `--section` takes.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let of_ranks = RANK_SECTIONS.iter().map(|def| def.key);
    let others = of_ranks.chain(PROFILE_SECTIONS.iter().map(|def| def.key));
    // Traces and profiles both have functions.
    let others = others.filter(|name| !is_section(name));
    SECTIONS.iter().map(|def| def.key).chain(others).chain([ALL])
}

/// The list of sections for the help.
pub(crate) fn help() -> String {
    let marked = SECTIONS.iter().any(|def| def.shown == Shown::OnRequest);
    let note = if marked { " (+ on request)" } else { "" };
    format!(
        "Sections{note}:\n{}\nSections about several ranks:\n{}\nSections about profiles:\n{}",
        lines(SECTIONS),
        lines(RANK_SECTIONS),
        lines(PROFILE_SECTIONS),
    )
}

fn lines<S: Subject>(defs: &[&SectionDef<S>]) -> String {
    let width = defs.iter().map(|def| def.key.len()).max().unwrap_or(0);
    let line = |def: &&SectionDef<S>| {
        let mark = if def.shown == Shown::OnRequest { '+' } else { ' ' };
        format!(" {mark}{:<width$} {}\n", def.key, def.about)
    };
    defs.iter().map(line).collect()
}
