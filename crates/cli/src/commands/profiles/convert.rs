//! `spanwise convert`: traces become a profile for another tool, or change format.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use spanwise_answer::ConvertFormat;
use spanwise_model::{Profile, ProfileBuilder};
use spanwise_write::ProfileView;

use super::convert_trace;
use crate::args::{ConvertArgs, ConvertFormatArg};
use crate::commands::profiles::write_file;
use crate::output::stdout;

pub(in crate::commands) fn run(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let format = match args.to.or_else(|| format_of(&args.output)) {
        Some(format) => format,
        None => bail!(
            "{}: the ending names no format; say --to pprof, folded, speedscope, firefox, \
             csv, chrome, perfetto or fxt",
            args.output.display()
        ),
    };
    if convert_trace::format_of(format).is_some() {
        return convert_trace::run(args, format);
    }
    let profile = read_all(args)?;
    let value = args.profile.column(&profile)?;
    let name = program_name(&args.traces);
    write_profile_as(&profile, (value, &name), (&args.output, format), args.quiet)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a profile under a name, to a file or to standard output (`-`).
pub(in crate::commands) fn write_profile_as(
    profile: &Profile,
    (value, name): (usize, &str),
    (target, format): (&Path, ConvertFormatArg),
    quiet: bool,
) -> anyhow::Result<()> {
    let view = ProfileView { name, value };
    let form = (target, ConvertFormat::from(format));
    let write = |out: &mut dyn Write| spanwise_answer::write_profile(profile, &view, form, out);
    if target == Path::new("-") {
        let mut out = stdout();
        write(&mut out)?;
        return Ok(out.flush()?);
    }
    write_file(target, (profile.samples.len(), "samples"), quiet, write)
}

/// What the ending of a file's name says about its format.
pub(in crate::commands) fn format_of(output: &Path) -> Option<ConvertFormatArg> {
    ConvertFormat::of_path(output).map(ConvertFormatArg::from)
}

/// Reads all inputs, one in memory at a time, into one profile.
fn read_all(args: &ConvertArgs) -> anyhow::Result<Profile> {
    let mut profiles =
        args.traces.iter().map(|path| args.profile.read(path, &args.read, args.quiet));
    let first = profiles.next().context("no input")??;
    if args.traces.len() == 1 {
        return Ok(first);
    }
    let value_types: Vec<(&str, &str)> =
        first.value_types.iter().map(|value| (&*value.name, &*value.unit)).collect();
    let mut builder = ProfileBuilder::new(&value_types, first.default_value);
    builder.time_ns = first.time_ns;
    builder.duration_ns = first.duration_ns;
    builder.comments.clone_from(&first.comments);
    builder.add_profile(&first);
    for (profile, path) in profiles.zip(&args.traces[1..]) {
        let profile = profile?;
        if profile.value_types != first.value_types {
            bail!(
                "{}: its columns differ from those of {}",
                path.display(),
                args.traces[0].display()
            );
        }
        builder.time_ns = builder.time_ns.min(profile.time_ns);
        builder.duration_ns = builder.duration_ns.max(profile.duration_ns);
        for comment in &profile.comments {
            if !builder.comments.contains(comment) {
                builder.comments.push(comment.clone());
            }
        }
        builder.add_profile(&profile);
    }
    Ok(builder.finish())
}

fn program_name(traces: &[PathBuf]) -> String {
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match traces {
        [] => String::new(),
        [one] => name(one),
        [first, rest @ ..] => format!("{} and {} more", name(first), rest.len()),
    }
}
