//! A report on a profile file: what it counts, and which functions and labels it counted.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use spanwise_analyze::profile_use;
use spanwise_model::Profile;
use spanwise_report::ALL;
use spanwise_write::Document;

use super::show;
use crate::args::ReportArgs;
use crate::commands::profiles::column;

/// The sections of a report on a profile: key and a few words.
pub(crate) const SECTIONS: &[(&str, &str)] = &[
    ("profile", "what the profile is"),
    ("columns", "what it counts, with totals"),
    ("functions", "functions by self, in the column of --value"),
    ("functions-total", "functions with what they called"),
    ("labels", "by thread, rank, phase and other labels"),
];

pub(super) fn run(args: &ReportArgs, path: &Path, profile: &Profile) -> anyhow::Result<ExitCode> {
    refuse_options_of_traces(args, path)?;
    let shown = column(args.value.as_deref(), profile)?;
    let used = profile_use(profile, shown);
    let file = path.display().to_string();
    let top = args.top.rows();
    let mut all = vec![
        spanwise_write::profile_section(&file, profile),
        spanwise_write::columns_section(profile, shown),
    ];
    if let Some(value) = profile.value_types.get(shown) {
        all.push(spanwise_write::profile_self_section(value, &used, top));
        all.push(spanwise_write::profile_total_section(value, &used, top));
        all.push(spanwise_write::profile_labels_section(value, &used, top));
    }
    let is_asked = |key: &str| args.section.iter().any(|name| name == key || name == ALL);
    all.retain(|section| args.section.is_empty() || is_asked(section.key));
    show(&Document { sections: all, hints: Vec::new() }, &args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// What only a trace can answer is an error, not an empty answer.
fn refuse_options_of_traces(args: &ReportArgs, path: &Path) -> anyhow::Result<()> {
    let given = [
        ("--check", args.check.is_some()),
        ("--classes", args.classes.is_some()),
        ("--compat", args.compat.is_some()),
        ("--threshold", !args.threshold.is_empty()),
        ("--function", args.function.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
        bail!("{}: a profile; {option} is for traces", path.display());
    }
    let is_known = |name: &str| is_section(name) || name == ALL;
    if let Some(name) = args.section.iter().find(|name| !is_known(name)) {
        let names: Vec<&str> = SECTIONS.iter().map(|row| row.0).collect();
        bail!(
            "{}: a profile; the section {name} is about traces, those of profiles are {}",
            path.display(),
            names.join(", ")
        );
    }
    Ok(())
}

/// Whether a report on a profile has it.
pub(super) fn is_section(name: &str) -> bool {
    SECTIONS.iter().any(|row| row.0 == name)
}
