//! `spanwise compare` of profiles, or with `--functions`: every function of two sides, no verdicts.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use spanwise_analyze::{DiffOptions, FrameBy, ProfileDiff};
use spanwise_model::{Profile, ValueType};
use spanwise_report::{ConvertFormat, TraceOrProfile};
use spanwise_write::{DiffSide, Document, Format, PprofOptions, ReportPage};

use super::compare::{Output, shown_name, target, title, write_rows, write_tables};
use crate::args::{CompareArgs, CompareByArg, PerArg};
use crate::commands::profiles::flame::FlameGraph;
use crate::commands::profiles::{page, write_file};
use crate::commands::viewing::view::name_of;

/// What is about traces with verdicts is an error, so that no option is ignored.
pub(super) fn check(args: &CompareArgs) -> anyhow::Result<()> {
    let options = [
        (args.phase.is_some(), "--phase"),
        (args.steps.is_some(), "--steps"),
        (args.all, "--all"),
        (args.with_stacks, "--with-stacks"),
        (!args.fail_if.is_empty(), "--fail-if"),
    ];
    if let Some((_, option)) = options.iter().find(|(is_given, _)| *is_given) {
        bail!("{option} is for verdicts on traces, and functions are compared without");
    }
    frames(args).map(drop)
}

/// What makes a row of its own.
fn frames(args: &CompareArgs) -> anyhow::Result<FrameBy> {
    match args.by {
        None | Some(CompareByArg::Function) => Ok(FrameBy::Function),
        Some(CompareByArg::Line) => Ok(FrameBy::Line),
        Some(_) => bail!("functions are compared --by function or --by line"),
    }
}

/// Both sides, in the column that they are compared by.
struct Sides<'a> {
    args: &'a CompareArgs,
    paths: [&'a Path; 2],
    profiles: [Profile; 2],
    /// The steps of each side.
    steps: [u64; 2],
    options: DiffOptions,
}

pub(super) fn run(
    args: &CompareArgs,
    output: Output,
    opened: [TraceOrProfile; 2],
) -> anyhow::Result<ExitCode> {
    check(args)?;
    let by = frames(args)?;
    let paths = [args.traces[0].as_path(), args.traces[1].as_path()];
    let [base, other] = opened;
    let base = args.profile.profile_of(base, paths[0], by)?;
    let other = args.profile.profile_of(other, paths[1], by)?;
    let steps = [&base, &other].map(spanwise_analyze::step_count);
    let values = columns(args, &base, &other)?;
    let options = DiffOptions { values, steps: divisors(args, steps)? };
    let sides = Sides { args, paths, profiles: [base, other], steps, options };
    match output {
        Output::Tables(format) => sides.write_tables(format)?,
        Output::Page => sides.write_page()?,
        Output::FlameGraph => sides.write_flame_graph()?,
        Output::Profile(format) => sides.write_difference(format)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Sides<'_> {
    fn document(&self, output: Output) -> Document {
        let [base, other] = &self.profiles;
        let diff: ProfileDiff = spanwise_analyze::profile_diff(base, other, &self.options);
        let files = self.paths.map(|path| shown_name(self.args, output, path));
        let side = |at: usize| DiffSide { file: &files[at], steps: self.steps[at] };
        let value = &base.value_types[self.options.values[0]];
        let rows = self.args.top.rows();
        spanwise_write::diff_document([side(0), side(1)], value, &diff, rows)
    }

    fn write_tables(&self, format: Format) -> anyhow::Result<()> {
        let document = self.document(Output::Tables(format));
        match (format, document.sections.last()) {
            // One table, for programs that read tables.
            (Format::Csv, Some(functions)) => {
                let rows = functions.row_count();
                write_rows(self.args, rows, |style, out| functions.write(format, style, out))
            }
            _ => write_tables(self.args, &document, format),
        }
    }

    /// The tables, and a flame graph where it can be colored by what changed.
    fn write_page(&self) -> anyhow::Result<()> {
        let [base, other] = &self.profiles;
        let has_same_columns = base.value_types == other.value_types;
        let page = ReportPage {
            title: &title(self.args, self.paths[0], self.paths[1]),
            document: &self.document(Output::Page),
            steps: None,
            trace: None,
            profile: Some((other, self.options.values[1])),
            base: has_same_columns.then_some(base),
            bytes_max: self.args.page.bytes_max(),
        };
        page::write(&page, target(self.args))
    }

    fn write_flame_graph(&self) -> anyhow::Result<()> {
        let [base, other] = &self.profiles;
        self.refuse_top()?;
        if base.value_types != other.value_types {
            bail!("a flame graph of what changed needs two sides with the same columns");
        }
        FlameGraph {
            profile: other,
            value: self.options.values[1],
            title: &self.since(),
            is_icicle: self.args.icicle,
            base: Some(base),
        }
        .write(target(self.args))
    }

    fn write_difference(&self, format: ConvertFormat) -> anyhow::Result<()> {
        self.refuse_top()?;
        let [base, other] = &self.profiles;
        let target = target(self.args);
        let profile = match format {
            ConvertFormat::Folded => spanwise_analyze::base_and_other(base, other, &self.options),
            _ => spanwise_analyze::difference(base, other, &self.options),
        };
        let program = self.since();
        let is_compressed = target.path.extension().is_none_or(|ending| ending != "pb");
        write_file(target, profile.samples.len(), "samples", |out: &mut dyn io::Write| match format
        {
            ConvertFormat::Folded => spanwise_write::write_folded_pair(&profile, out),
            _ => {
                let options = PprofOptions { program: &program, is_compressed };
                spanwise_write::write_pprof(&profile, &options, out)
            }
        })
    }

    fn since(&self) -> String {
        format!("{} since {}", name_of(self.paths[1]), name_of(self.paths[0]))
    }

    /// All rows are in a picture and in a profile.
    fn refuse_top(&self) -> anyhow::Result<()> {
        match self.args.top.top {
            Some(_) => bail!("--top is for tables: a profile and a flame graph have everything"),
            None => Ok(()),
        }
    }
}

/// By what the sums of each side are divided.
fn divisors(args: &CompareArgs, counts: [u64; 2]) -> anyhow::Result<[u64; 2]> {
    let has_steps = !counts.contains(&0);
    match args.per {
        PerArg::Step if !has_steps => {
            let without = if counts[0] == 0 { &args.traces[0] } else { &args.traces[1] };
            bail!("{}: no steps to compare by", without.display())
        }
        PerArg::Auto | PerArg::Step if has_steps => Ok(counts),
        _ => Ok([1, 1]),
    }
}

/// The column of each side: the one that was asked for, or the one that both show first.
fn columns(args: &CompareArgs, base: &Profile, other: &Profile) -> anyhow::Result<[usize; 2]> {
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
            args.traces[0].display(),
            other_first.name,
            args.traces[1].display(),
        ),
    };
    let find = |profile: &Profile| profile.value_types.iter().position(|value| value.name == name);
    let (base_column, other_column) = match (find(base), find(other)) {
        (Some(base), Some(other)) => (base, other),
        (None, _) => bail!("{}: no column named {name}; {choice}", args.traces[0].display()),
        (_, None) => bail!("{}: no column named {name}; {choice}", args.traces[1].display()),
    };
    let unit = |value: &ValueType| value.unit.clone();
    let units = (unit(&base.value_types[base_column]), unit(&other.value_types[other_column]));
    if units.0 != units.1 {
        bail!(
            "{name} is in {} in {} and in {} in {}: they do not compare",
            units.0,
            args.traces[0].display(),
            units.1,
            args.traces[1].display(),
        );
    }
    Ok([base_column, other_column])
}

/// Columns that agree in name and unit.
fn common_names<'p>(base: &'p Profile, other: &Profile) -> Vec<&'p str> {
    let is_common = |value: &&ValueType| other.value_types.contains(value);
    base.value_types.iter().filter(is_common).map(|value| &*value.name).collect()
}
