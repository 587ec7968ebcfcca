//! A report on a profile file: what it counts, and which functions and labels it counted.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use spanwise_model::Profile;
use spanwise_report::{ALL, PROFILE_SECTIONS, ProfileRequest, profile_report};

use super::show;
use crate::args::ReportArgs;
use crate::commands::profiles::column;

pub(super) fn run(args: &ReportArgs, path: &Path, profile: &Profile) -> anyhow::Result<ExitCode> {
    refuse_options_of_traces(args, path)?;
    let document = profile_report(&ProfileRequest {
        file: &path.display().to_string(),
        profile,
        value: column(args.value.as_deref(), profile)?,
        top: args.top.rows(),
        sections: &args.section,
    });
    show(&document, &args.output)?;
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
        let names: Vec<&str> = PROFILE_SECTIONS.iter().map(|def| def.key).collect();
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
    PROFILE_SECTIONS.iter().any(|def| def.key == name)
}
