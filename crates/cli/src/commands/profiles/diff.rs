//! `spanwise diff`: what changed between two runs.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use spanwise_analyze::DiffOptions;
use spanwise_model::{Profile, ValueType};
use spanwise_write::{DiffSide, Format, PprofOptions};

use crate::args::{ConvertFormatArg, DiffArgs, PerArg};
use crate::commands::profiles::convert::format_of;
use crate::commands::profiles::write_file;
use crate::output::stdout;

pub(in crate::commands) fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let format = args.output.as_deref().map(written_format).transpose()?;
    let target = args.output.as_deref().zip(format);
    let read = |path: &Path| args.profile.read(path, &args.read, args.quiet);
    let (base, other) = (read(&args.base)?, read(&args.other)?);
    let values = columns(args, &base, &other)?;
    let counts = [spanwise_analyze::step_count(&base), spanwise_analyze::step_count(&other)];
    let options = DiffOptions { values, steps: divisors(args, counts)? };
    match target {
        Some((path, format)) => write_difference(args, (path, format), [&base, &other], &options)?,
        None => show(args, [&base, &other], counts, &options)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(
    args: &DiffArgs,
    [base, other]: [&Profile; 2],
    steps: [u64; 2],
    options: &DiffOptions,
) -> anyhow::Result<()> {
    let diff = spanwise_analyze::profile_diff(base, other, options);
    let files = [&args.base, &args.other].map(|path| path.display().to_string());
    let side = |at: usize| DiffSide { file: &files[at], steps: steps[at] };
    let value = &base.value_types[options.values[0]];
    let rows = args.top.rows();
    let document = spanwise_write::diff_document([side(0), side(1)], value, &diff, rows);
    let (format, style) = (args.show.format(), args.show.style());
    let mut out = stdout();
    match (format, document.sections.last()) {
        // One table, for programs that read tables.
        (Format::Csv, Some(functions)) => functions.write(format, style, &mut out)?,
        _ => document.write(format, style, &mut out)?,
    }
    out.flush()?;
    Ok(())
}

#[derive(Clone, Copy)]
enum WrittenFormat {
    Pprof { is_compressed: bool },
    Folded,
}

fn written_format(path: &Path) -> anyhow::Result<WrittenFormat> {
    match format_of(path) {
        Some(ConvertFormatArg::Pprof) => {
            let is_compressed = path.extension().is_none_or(|ending| ending != "pb");
            Ok(WrittenFormat::Pprof { is_compressed })
        }
        Some(ConvertFormatArg::Folded) => Ok(WrittenFormat::Folded),
        _ => bail!(
            "{}: the ending must be one of pprof (.pb.gz, .pprof, .pb) or of collapsed stacks \
             (.folded, .collapsed)",
            path.display()
        ),
    }
}

fn write_difference(
    args: &DiffArgs,
    (path, format): (&Path, WrittenFormat),
    [base, other]: [&Profile; 2],
    options: &DiffOptions,
) -> anyhow::Result<()> {
    let profile = match format {
        WrittenFormat::Pprof { .. } => spanwise_analyze::difference(base, other, options),
        WrittenFormat::Folded => spanwise_analyze::base_and_other(base, other, options),
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let program = format!("{} since {}", name(&args.other), name(&args.base));
    let write = |out: &mut dyn io::Write| match format {
        WrittenFormat::Pprof { is_compressed } => {
            let options = PprofOptions { program: &program, is_compressed };
            spanwise_write::write_pprof(&profile, &options, out)
        }
        WrittenFormat::Folded => spanwise_write::write_folded_pair(&profile, out),
    };
    write_file(path, (profile.samples.len(), "samples"), args.quiet, write)
}

/// By what the sums of each side are divided.
fn divisors(args: &DiffArgs, counts: [u64; 2]) -> anyhow::Result<[u64; 2]> {
    let has_steps = !counts.contains(&0);
    match args.per {
        PerArg::Step if !has_steps => {
            let without = if counts[0] == 0 { &args.base } else { &args.other };
            bail!("{}: no steps to compare by", without.display())
        }
        PerArg::Auto | PerArg::Step if has_steps => Ok(counts),
        _ => Ok([1, 1]),
    }
}

/// The column of each side: the one that was asked for, or the one that both show first.
fn columns(args: &DiffArgs, base: &Profile, other: &Profile) -> anyhow::Result<[usize; 2]> {
    let first = |profile: &Profile| profile.value_types.get(profile.default_value).cloned();
    let (Some(base_first), Some(other_first)) = (first(base), first(other)) else {
        bail!("a profile without columns has nothing to compare");
    };
    let common = common_names(base, other);
    let choice = match common.as_slice() {
        [] => "they have none in common".to_owned(),
        names => format!("say --value with one that both have: {}", names.join(", ")),
    };
    let name = match &args.profile.value {
        Some(name) => name.clone(),
        None if base_first.name == other_first.name => base_first.name,
        None => bail!(
            "the column shown first is {} in {} and {} in {}; {choice}",
            base_first.name,
            args.base.display(),
            other_first.name,
            args.other.display(),
        ),
    };
    let find = |profile: &Profile| profile.value_types.iter().position(|value| value.name == name);
    let (base_column, other_column) = match (find(base), find(other)) {
        (Some(base), Some(other)) => (base, other),
        (None, _) => bail!("{}: no column named {name}; {choice}", args.base.display()),
        (_, None) => bail!("{}: no column named {name}; {choice}", args.other.display()),
    };
    let unit = |value: &ValueType| value.unit.clone();
    let units = (unit(&base.value_types[base_column]), unit(&other.value_types[other_column]));
    if units.0 != units.1 {
        bail!(
            "{name} is in {} in {} and in {} in {}: they do not compare",
            units.0,
            args.base.display(),
            units.1,
            args.other.display(),
        );
    }
    Ok([base_column, other_column])
}

/// Columns that agree in name and unit.
fn common_names<'p>(base: &'p Profile, other: &Profile) -> Vec<&'p str> {
    let is_common = |value: &&ValueType| other.value_types.contains(value);
    base.value_types.iter().filter(is_common).map(|value| &*value.name).collect()
}
